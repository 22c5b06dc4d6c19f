#include "disk_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "segments.h"
#include "whole.h"

enum { SEGMENTS = 256, SEGMENT_MIN_BYTES = 16 << 20 };

/* Also finds out whether files there can be opened past the cache. */
static sy_status lock(const struct sy_disk_config *config, struct sy_disk_files *files,
                      sy_error *err)
{
	char name[SY_SEGMENT_NAME_BYTES];
	sy_segments_lock_name(files->unit_id, name);
	files->dir_fd = open(config->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (files->dir_fd < 0)
		return sy_fail(err, SY_E_INVALID, "sy_disk_open",
		               "cannot open the directory --ssd-dir %.80s: %s", config->dir,
		               strerror(errno));
	int fault = sy_segments_lock(files->dir_fd, files->unit_id, &files->lock_fd);
	if (fault == EWOULDBLOCK)
		return sy_fail(err, SY_E_INVALID, "sy_disk_open",
		               "another unit %u uses --ssd-dir %.80s: give each cluster one of its own",
		               files->unit_id, config->dir);
	if (fault != 0)
		return sy_fail(err, SY_E_INVALID, "sy_disk_open", "cannot write in --ssd-dir %.80s: %s",
		               config->dir, strerror(fault));
	int fd = openat(files->dir_fd, name, O_RDWR | O_DIRECT | O_CLOEXEC | O_NOFOLLOW);
	files->cached = fd < 0;
	if (fd >= 0)
		close(fd);
	return SY_OK;
}

sy_status sy_disk_files_open(const struct sy_disk_config *config, struct sy_disk_files *ret_files,
                             sy_error *err)
{
	struct sy_disk_files *files = ret_files;
	*files = (struct sy_disk_files){
		.dir_fd = -1, .lock_fd = -1, .unit_id = config->unit_id, .bytes = config->bytes,
		.incarnation = config->incarnation,
	};
	/* Few enough to keep them all open, and not so large that a small filesystem has no room. */
	files->segment_bytes = sy_max_u64(SEGMENT_MIN_BYTES,
	                                  sy_align_up(config->bytes / SEGMENTS, SEGMENT_MIN_BYTES));
	files->segment_count = (uint32_t)((config->bytes + files->segment_bytes - 1) /
	                                  files->segment_bytes);
	pthread_mutex_init(&files->lock, NULL);
	sy_status status = lock(config, files, err);
	if (status != SY_OK)
		return status;
	files->segments = malloc(files->segment_count * sizeof *files->segments);
	if (files->segments == NULL)
		return sy_fail(err, SY_E_SYS, "sy_disk_open", "out of memory");
	for (uint32_t i = 0; i < files->segment_count; i++)
		files->segments[i] = -1;
	/* The lock is ours, so whoever made these is dead. */
	sy_segments_remove(files->dir_fd, files->unit_id, 0);
	return SY_OK;
}

void sy_disk_files_close(struct sy_disk_files *files)
{
	for (uint32_t i = 0; files->segments != NULL && i < files->segment_count; i++) {
		if (files->segments[i] >= 0)
			close(files->segments[i]);
	}
	if (files->segments != NULL)
		sy_segments_remove(files->dir_fd, files->unit_id, 0);
	free(files->segments);
	if (files->lock_fd >= 0)
		sy_segments_unlock(files->dir_fd, files->unit_id, files->lock_fd);
	if (files->dir_fd >= 0)
		close(files->dir_fd);
	pthread_mutex_destroy(&files->lock);
}

static uint64_t segment_bytes(const struct sy_disk_files *files, uint32_t segment)
{
	uint64_t at = (uint64_t)segment * files->segment_bytes;
	return sy_min_u64(files->bytes - at, files->segment_bytes);
}

/* A file with all its room, or -1. One whose room cannot be had is not left behind. The room comes
 * before O_DIRECT: where the filesystem cannot preallocate, the library writes single bytes. */
static int make_segment(const struct sy_disk_files *files, uint32_t segment, int *ret_fault)
{
	const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
	char name[SY_SEGMENT_NAME_BYTES];
	sy_segment_name(files->unit_id, files->incarnation, segment, name);
	int fd = openat(files->dir_fd, name, flags, 0600);
	if (fd < 0) {
		*ret_fault = errno;
		return -1;
	}
	int fault = sy_allocate_whole(fd, 0, segment_bytes(files, segment));
	if (fault == 0 && !files->cached && fcntl(fd, F_SETFL, O_DIRECT) != 0)
		fault = errno;
	if (fault == 0)
		return fd;
	close(fd);
	(void)unlinkat(files->dir_fd, name, 0);
	*ret_fault = fault;
	return -1;
}

int sy_disk_files_at(struct sy_disk_files *files, uint64_t at, bool make, int *ret_fd,
                     uint64_t *ret_at)
{
	uint32_t segment = (uint32_t)(at / files->segment_bytes);
	int fault = 0;
	pthread_mutex_lock(&files->lock);
	if (files->segments[segment] < 0 && make)
		files->segments[segment] = make_segment(files, segment, &fault);
	else if (files->segments[segment] < 0)
		fault = ENOENT;
	*ret_fd = files->segments[segment];
	pthread_mutex_unlock(&files->lock);
	*ret_at = at % files->segment_bytes;
	return fault;
}

uint64_t sy_disk_files_left(const struct sy_disk_files *files, uint64_t at)
{
	return files->segment_bytes - at % files->segment_bytes;
}
