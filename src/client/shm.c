/* The same-host transport: the slab is mapped, transfers are copies by the calling thread. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "copy.h"
#include "copy_pool.h"
#include "fail.h"
#include "failpoints.h"
#include "guard.h"
#include "local.h"
#include "message.h"
#include "transport.h"

enum {
	/* Copied by one thread between two looks at the clock; small ones end together. */
	PIECE_BYTES = 1 << 20,
	SMALL_PIECE_BYTES = 128 << 10,
	/* From here on threads share a transfer: waking one costs less. */
	SHARED_BYTES = 1 << 20,
	/* Below this pieces are small, and what is read lands in memory that is in the cache and is to
	 * stay there. */
	NEAR_BYTES = 4 << 20,
	EARLY_RANGES = 2,
	EARLY_BYTES = 2048, /* what is longer is seen */
	LINE_BYTES = 64,
	POPULATE_BYTES = 4 << 20,
	UNMAP_BYTES = 64 << 20, /* at once: others who map something wait for that */
};

/* A transfer under way, by one thread or several. */
struct copying {
	struct sy_remote *remote;
	const struct sy_range *ranges;
	size_t count;
	uint64_t base_offset, deadline_ns, piece_bytes;
	uint64_t total_bytes; /* of each range NEAR_BYTES at most, for the sum must not wrap */
	bool write;
	bool near; /* what is written to is in the cache: a block of results that was used before */
	pthread_mutex_t lock; /* of what follows: the next byte that nobody has taken */
	size_t range;
	uint64_t at;
	bool late;
};

/* A run of its bytes, over as many ranges as it takes. */
struct piece {
	size_t range;
	uint64_t at, nbytes;
};

static bool take_piece(struct copying *copying, struct piece *ret_piece)
{
	uint64_t left = copying->piece_bytes;

	pthread_mutex_lock(&copying->lock);
	*ret_piece = (struct piece){.range = copying->range, .at = copying->at};
	/* Also before the first: one transfer of many may come too late. */
	if (copying->range < copying->count && sy_clock_now_ns() > copying->deadline_ns)
		copying->late = true;
	while (!copying->late && left > 0 && copying->range < copying->count) {
		uint64_t rest = copying->ranges[copying->range].nbytes - copying->at;
		uint64_t nbytes = sy_min_u64(rest, left);

		left -= nbytes;
		copying->at += nbytes;
		if (nbytes < rest)
			break;
		copying->range++;
		copying->at = 0;
	}
	ret_piece->nbytes = copying->piece_bytes - left;
	pthread_mutex_unlock(&copying->lock);
	return ret_piece->nbytes > 0;
}

/* What is read next but one, that it is in the cache by then: rows of a batch are too short, and
 * lie in too many places, for the processor to see where they go on. */
static void fetch_early(const uint8_t *base, const struct copying *copying, size_t range)
{
	if (copying->write || range + EARLY_RANGES >= copying->count)
		return;
	const struct sy_range *next = &copying->ranges[range + EARLY_RANGES];
	uint64_t nbytes = sy_min_u64(next->nbytes, EARLY_BYTES);

	for (uint64_t at = 0; at < nbytes; at += LINE_BYTES)
		__builtin_prefetch(base + next->offset + at);
}

static void copy_pieces(void *context)
{
	struct copying *copying = context;
	uint8_t *base = (uint8_t *)(uintptr_t)copying->remote->base + copying->base_offset;
	struct piece piece;

	while (take_piece(copying, &piece)) {
		for (uint64_t nbytes; piece.nbytes > 0; piece.nbytes -= nbytes) {
			fetch_early(base, copying, piece.range);
			/* What is written first is the blob's index, which the unit reads at once. */
			bool first = piece.range == 0;
			const struct sy_range *range = &copying->ranges[piece.range++];
			uint8_t *slab = base + range->offset + piece.at;

			nbytes = sy_min_u64(range->nbytes - piece.at, piece.nbytes);
			if (copying->write) {
				sy_copy(slab, (const uint8_t *)range->from + piece.at, nbytes,
				        first ? range->nbytes : copying->total_bytes);
				SY_FAILPOINT(CLIENT_WRITING);
			} else {
				SY_FAILPOINT(CLIENT_READING);
				sy_copy((uint8_t *)range->to + piece.at, slab, nbytes,
				        copying->near ? 0 : copying->total_bytes);
			}
			piece.at = 0;
		}
	}
	sy_copy_fence();
}

static sy_status move(struct sy_remote *remote, const struct sy_transfer *transfer, bool write,
                      bool *ret_in_flight, sy_error *err)
{
	struct copying copying = {
		.remote = remote, .ranges = transfer->ranges, .count = transfer->count,
		.base_offset = transfer->base_offset, .deadline_ns = transfer->deadline_ns,
		.write = write, .lock = PTHREAD_MUTEX_INITIALIZER,
	};
	size_t outside = 0;

	/* Copies are over when this returns, so nothing is ever in flight; the fence at the end of
	 * each thread's part makes its non-temporal stores visible before anyone is told. */
	*ret_in_flight = false;
	if (!sy_transfer_lies_in(remote, transfer, &outside))
		return sy_fail(err, SY_E_TRANSFER, __func__, "range %zu lies outside the slab", outside);
	for (size_t i = 0; i < transfer->count; i++)
		copying.total_bytes += sy_min_u64(transfer->ranges[i].nbytes, NEAR_BYTES);
	copying.near = !write && copying.total_bytes < NEAR_BYTES;
	copying.piece_bytes = copying.total_bytes < NEAR_BYTES ? SMALL_PIECE_BYTES : PIECE_BYTES;
	if (copying.total_bytes >= SHARED_BYTES)
		sy_copy_pool_run(remote->pool, copy_pieces, &copying);
	else
		copy_pieces(&copying);
	if (copying.late)
		return sy_fail(err, SY_E_TRANSFER, __func__, "the deadline came while copying");
	return SY_OK;
}

static sy_status shm_write(struct sy_remote *remote, const struct sy_transfer *transfer,
                           bool *ret_in_flight, sy_error *err)
{
	return move(remote, transfer, true, ret_in_flight, err);
}

static sy_status shm_read(struct sy_remote *remote, const struct sy_transfer *transfer,
                          bool *ret_in_flight, sy_error *err)
{
	return move(remote, transfer, false, ret_in_flight, err);
}

static void shm_expect(struct sy_remote *remote, uint64_t nbytes)
{
	if (nbytes >= SHARED_BYTES)
		sy_copy_pool_expect(remote->pool);
}

static struct sy_remote *left; /* atomic; no lock: in a fork child nobody might give it up */

static void shm_detach(struct sy_remote *remote)
{
	remote->next = __atomic_load_n(&left, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&left, &remote->next, remote, true, __ATOMIC_RELEASE,
	                                    __ATOMIC_RELAXED))
		;
}

struct sy_remote *sy_shm_left(void)
{
	return __atomic_exchange_n(&left, NULL, __ATOMIC_ACQUIRE);
}

bool sy_shm_has_left(void)
{
	return __atomic_load_n(&left, __ATOMIC_RELAXED) != NULL;
}

static void unmap(const uint8_t *base, uint64_t bytes)
{
	for (uint64_t part; base != NULL && bytes > 0; bytes -= part) {
		part = sy_min_u64(bytes, UNMAP_BYTES);
		munmap((void *)(uintptr_t)(base + bytes - part), part);
	}
}

/* In a fork child the mappings are not there, and something of its own may be in their place. */
void sy_shm_unmap(struct sy_remote *remote)
{
	for (struct sy_remote *next; remote != NULL; remote = next) {
		next = remote->next;
		if (remote->fork_count == sy_local_fork_count()) {
			unmap(remote->base, remote->slab_bytes);
			unmap(remote->view_base, remote->slab_bytes);
			sy_copy_pool_put(remote->pool);
		}
		free(remote);
	}
}

/* Three seconds' work, and 16 MiB of page tables. */
static const uint64_t POPULATED_MOST = UINT64_C(8) << 30;

static const struct sy_transport SHM = {
	.name = "shm",
	.bit = SY_TRANSPORT_SHM,
	.write = shm_write,
	.read = shm_read,
	.expect = shm_expect,
	.detach = shm_detach,
};

bool sy_shm_populate(struct sy_remote *remote)
{
	uint64_t at = remote->populated_bytes;
	uint64_t most = sy_min_u64(remote->slab_bytes, POPULATED_MOST);
	uint64_t bytes = sy_min_u64(most - at, POPULATE_BYTES);

	if (remote->transport != &SHM || bytes == 0 ||
	    __atomic_load_n(&remote->refs, __ATOMIC_RELAXED) <= 1)
		return false;
	remote->populated_bytes += bytes;
	/* Fails before Linux 5.14, and where the file was cut off. */
	return madvise((void *)(uintptr_t)(remote->base + at), bytes, MADV_POPULATE_WRITE) == 0;
}

sy_status sy_shm_attach(int descriptor, uint64_t slab_bytes, uint64_t incarnation,
                        struct sy_remote **ret_remote, sy_error *err)
{
	struct sy_remote *remote = calloc(1, sizeof *remote);
	void *base = MAP_FAILED, *views = MAP_FAILED;
	struct stat stat;

	if (fstat(descriptor, &stat) != 0 || (uint64_t)stat.st_size < slab_bytes) {
		free(remote);
		close(descriptor);
		return sy_fail(err, SY_E_SYS, __func__, "the slab's file is shorter than the slab");
	}
	if (remote != NULL)
		base = mmap(NULL, slab_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	int saved = errno;
	/* Views point where nobody can write: their user may hand the memory on to one who does not
	 * know that it is read-only. Where there is no room for it, views are copies. */
	if (base != MAP_FAILED)
		views = mmap(NULL, slab_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
	close(descriptor);
	if (base == MAP_FAILED) {
		free(remote);
		return sy_fail(err, SY_E_SYS, __func__, "cannot map a slab of %llu bytes (errno %d)",
		               (unsigned long long)slab_bytes, saved);
	}
	/* A fork child must not write to what its parent was granted, nor read what it gave back. */
	if (madvise(base, slab_bytes, MADV_DONTFORK) != 0 ||
	    (views != MAP_FAILED && madvise(views, slab_bytes, MADV_DONTFORK) != 0)) {
		munmap(base, slab_bytes);
		if (views != MAP_FAILED)
			munmap(views, slab_bytes);
		free(remote);
		return sy_fail(err, SY_E_SYS, __func__, "cannot keep the slab out of fork children");
	}
	madvise(base, slab_bytes, MADV_HUGEPAGE);
	if (views != MAP_FAILED)
		madvise(views, slab_bytes, MADV_HUGEPAGE);
	*remote = (struct sy_remote){.transport = &SHM, .incarnation = incarnation,
	                             .slab_bytes = slab_bytes, .base = base,
	                             .view_base = views == MAP_FAILED ? NULL : views, .refs = 1,
	                             .fork_count = sy_local_fork_count(),
	                             .pool = sy_copy_pool_get()};
	*ret_remote = remote;
	return SY_OK;
}
