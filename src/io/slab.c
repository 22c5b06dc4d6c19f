#include "slab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "fail.h"
#include "guard.h"
#include "slab_room.h"
#include "whole.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
	PAGE_BYTES = 4096,
	PART_BYTES = 64 << 20, /* populated between two questions whether to go on */
};

void sy_slab_name(uint32_t unit_id, sy_incarnation incarnation, char out[SY_SLAB_NAME_BYTES])
{
	sy_format(out, SY_SLAB_NAME_BYTES, "slabyard-%u-%u-%016llx", (unsigned)geteuid(), unit_id,
	          (unsigned long long)incarnation.value);
}

/* The mapping starts at a 2 MiB boundary, so that huge pages fit: reserve that much more, put the
 * file over the aligned part, and give the ends back. */
static void *map_aligned(int fd, uint64_t bytes)
{
	size_t reserved = (size_t)bytes + SY_SLAB_ALIGN_BYTES;
	uint8_t *start = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	                      -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	uint8_t *data = (uint8_t *)sy_align_up((uintptr_t)start, SY_SLAB_ALIGN_BYTES);
	if (mmap(data, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		int saved = errno;
		munmap(start, reserved);
		errno = saved;
		return NULL;
	}
	size_t before = (size_t)(data - start), after = SY_SLAB_ALIGN_BYTES - before;
	if (before > 0)
		munmap(start, before);
	if (after > 0)
		munmap(data + bytes, after);
	return data;
}

/* Every page of a part is allocated and mapped: first by the mapping, which alone can ask for
 * huge pages and for a node; then by the file, which finds what is missing where the kernel cannot
 * populate (before Linux 5.14). Returns an errno. */
static int populate(const struct sy_slab *slab, uint64_t at, uint64_t bytes)
{
	if (madvise(slab->data + at, (size_t)bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
		return errno == EFAULT || errno == EHWPOISON ? ENOSPC : errno;
	return sy_allocate_whole(slab->fd, at, bytes);
}

static sy_status refuse(sy_error *err, int error, const char *what, const char *dir,
                        const struct sy_slab *slab)
{
	if (error == ENOSPC || error == ENOMEM)
		return sy_slab_room_fail(dir, slab->bytes, err);
	return sy_fail(err, SY_E_SYS, "sy_slab_create", "cannot %s the slab %s: %s", what, slab->path,
	               strerror(error));
}

static sy_status fill(struct sy_slab *slab, const char *dir, uint32_t place,
                      bool (*give_up)(void), sy_error *err)
{
	if (ftruncate(slab->fd, (off_t)slab->bytes) != 0)
		return refuse(err, errno, "size", dir, slab);
	slab->data = map_aligned(slab->fd, slab->bytes);
	if (slab->data == NULL)
		return refuse(err, errno, "map", dir, slab);
	/* All of these are favours: without them the slab is slower or a core dump larger. */
	(void)madvise(slab->data, (size_t)slab->bytes, MADV_HUGEPAGE);
	(void)madvise(slab->data, (size_t)slab->bytes, MADV_DONTDUMP);
	sy_slab_place(slab->data, slab->bytes, place);
	for (uint64_t at = 0; at < slab->bytes; at += PART_BYTES) {
		int failed = populate(slab, at, sy_min_u64(slab->bytes - at, PART_BYTES));
		if (failed != 0)
			return refuse(err, failed, "allocate", dir, slab);
		if (give_up != NULL && give_up())
			return sy_fail(err, SY_E_TIMEOUT, "sy_slab_create",
			               "given up while the slab's memory was being allocated");
	}
	return SY_OK;
}

sy_status sy_slab_create(const char *dir, const char *name, uint64_t bytes, uint32_t place,
                         bool (*give_up)(void), struct sy_slab *ret_slab, sy_error *err)
{
	struct sy_slab slab = {.bytes = bytes, .fd = -1};
	SY_ASSERT(bytes > 0 && bytes % PAGE_BYTES == 0);
	if (sy_format(slab.path, sizeof slab.path, "%s/%s", dir, name) >= sizeof slab.path)
		return sy_fail(err, SY_E_INVALID, __func__, "the path of the slab is too long");
	sy_status status = sy_slab_room_check(dir, bytes, err);
	if (status != SY_OK)
		return status;
	slab.fd = open(slab.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (slab.fd < 0)
		return refuse(err, errno, "create", dir, &slab);
	status = fill(&slab, dir, place, give_up, err);
	if (status == SY_OK)
		*ret_slab = slab;
	else
		sy_slab_destroy(&slab);
	return status;
}

void sy_slab_destroy(struct sy_slab *slab)
{
	if (slab->data != NULL)
		munmap(slab->data, (size_t)slab->bytes);
	if (slab->fd >= 0) {
		close(slab->fd);
		sy_slab_remove(slab->path);
	}
	slab->data = NULL;
	slab->fd = -1;
}

void sy_slab_remove(const char *path)
{
	(void)unlink(path); /* gone already is as good */
}
