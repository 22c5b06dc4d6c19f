/* The same-host transport: the slab is mapped, transfers are copies by the calling thread. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "copy.h"
#include "fail.h"
#include "failpoints.h"
#include "guard.h"
#include "local.h"
#include "message.h"
#include "transport.h"

enum {
	CHUNK_BYTES = 8 << 20,     /* copied between two looks at the clock */
	POPULATE_BYTES = 64 << 20, /* populated between two looks at the clock */
};

struct sy_remote *sy_remote_ref(struct sy_remote *remote)
{
	__atomic_add_fetch(&remote->refs, 1, __ATOMIC_RELAXED);
	return remote;
}

void sy_remote_unref(struct sy_remote *remote)
{
	if (remote != NULL && __atomic_sub_fetch(&remote->refs, 1, __ATOMIC_ACQ_REL) == 0)
		remote->transport->detach(remote);
}

/* The unit told us these offsets; a unit that tells nonsense must not make us write elsewhere. */
static bool inside(const struct sy_remote *remote, const struct sy_range *range, uint64_t base)
{
	return base <= remote->slab_bytes && range->offset <= remote->slab_bytes - base &&
	       range->nbytes <= remote->slab_bytes - base - range->offset;
}

static sy_status move(struct sy_remote *remote, const struct sy_range *ranges, size_t count,
                      uint64_t base_offset, bool write, uint64_t deadline_ns, sy_error *err)
{
	uint64_t since_look = CHUNK_BYTES; /* at once: one transfer of many may come too late */

	for (size_t i = 0; i < count; i++) {
		if (!inside(remote, &ranges[i], base_offset))
			return sy_fail(err, SY_E_TRANSFER, __func__, "range %zu lies outside the slab", i);
	}
	for (size_t i = 0; i < count; i++) {
		uint8_t *slab = (uint8_t *)(uintptr_t)remote->base + base_offset + ranges[i].offset;

		for (uint64_t at = 0; at < ranges[i].nbytes;) {
			uint64_t bytes = sy_min_u64(ranges[i].nbytes - at, CHUNK_BYTES);

			if (since_look >= CHUNK_BYTES) {
				since_look = 0;
				if (sy_clock_now_ns() > deadline_ns)
					return sy_fail(err, SY_E_TRANSFER, __func__,
					               "the deadline came while copying");
			}
			if (write) {
				sy_copy(slab + at, (const uint8_t *)ranges[i].from + at, bytes);
				SY_FAILPOINT(CLIENT_WRITING);
			} else {
				SY_FAILPOINT(CLIENT_READING);
				sy_copy((uint8_t *)ranges[i].to + at, slab + at, bytes);
			}
			at += bytes;
			since_look += bytes;
		}
	}
	return SY_OK;
}

/* A copy by this thread is over when it returns, so nothing is ever in flight; the fence makes
 * the non-temporal stores of it visible before anyone is told. */
static sy_status shm_write(struct sy_remote *remote, const struct sy_range *ranges, size_t count,
                           uint64_t base_offset, uint64_t deadline_ns, bool *ret_in_flight,
                           sy_error *err)
{
	sy_status status = move(remote, ranges, count, base_offset, true, deadline_ns, err);

	sy_copy_fence();
	*ret_in_flight = false;
	return status;
}

static sy_status shm_read(struct sy_remote *remote, const struct sy_range *ranges, size_t count,
                          uint64_t base_offset, uint64_t deadline_ns, bool *ret_in_flight,
                          sy_error *err)
{
	sy_status status = move(remote, ranges, count, base_offset, false, deadline_ns, err);

	sy_copy_fence();
	*ret_in_flight = false;
	return status;
}

/* In a fork child the mapping is not there; something of the child's own may be in its place. */
static void shm_detach(struct sy_remote *remote)
{
	if (remote->fork_count == sy_local_fork_count())
		munmap((void *)(uintptr_t)remote->base, remote->slab_bytes);
	free(remote);
}

static const struct sy_transport SHM = {
	.name = "shm",
	.bit = SY_TRANSPORT_SHM,
	.write = shm_write,
	.read = shm_read,
	.detach = shm_detach,
};

/* Our page tables are empty: without this each first touch of a page costs a fault. */
static void populate(uint8_t *base, uint64_t bytes, uint64_t deadline_ns)
{
	for (uint64_t at = 0; at < bytes && sy_clock_now_ns() < deadline_ns; at += POPULATE_BYTES) {
		uint64_t part = sy_min_u64(bytes - at, POPULATE_BYTES);

		if (madvise(base + at, part, MADV_POPULATE_WRITE) != 0)
			return; /* before Linux 5.14: faulted in by use */
	}
}

sy_status sy_shm_attach(int descriptor, uint64_t slab_bytes, uint64_t incarnation,
                        uint64_t deadline_ns, struct sy_remote **ret_remote, sy_error *err)
{
	struct sy_remote *remote = calloc(1, sizeof *remote);
	void *base = MAP_FAILED;
	struct stat stat;

	if (fstat(descriptor, &stat) != 0 || (uint64_t)stat.st_size < slab_bytes) {
		free(remote);
		close(descriptor);
		return sy_fail(err, SY_E_SYS, __func__, "the slab's file is shorter than the slab");
	}
	if (remote != NULL)
		base = mmap(NULL, slab_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	int saved = errno;
	close(descriptor);
	if (base == MAP_FAILED) {
		free(remote);
		return sy_fail(err, SY_E_SYS, __func__, "cannot map a slab of %llu bytes (errno %d)",
		               (unsigned long long)slab_bytes, saved);
	}
	/* A fork child that touches a view must fault, never see memory given out again. */
	if (madvise(base, slab_bytes, MADV_DONTFORK) != 0) {
		munmap(base, slab_bytes);
		free(remote);
		return sy_fail(err, SY_E_SYS, __func__, "cannot keep the slab out of fork children");
	}
	madvise(base, slab_bytes, MADV_HUGEPAGE);
	populate(base, slab_bytes, deadline_ns);
	*remote = (struct sy_remote){.transport = &SHM, .incarnation = incarnation,
	                             .slab_bytes = slab_bytes, .base = base, .refs = 1,
	                             .fork_count = sy_local_fork_count()};
	*ret_remote = remote;
	return SY_OK;
}
