/* The segment files of a disk tier: bytes by their place on the disk. */
#ifndef SY_DISK_FILES_H
#define SY_DISK_FILES_H

#include <pthread.h>

#include "disk.h"

struct sy_disk_files {
	int dir_fd, lock_fd;
	uint32_t unit_id, segment_count;
	uint64_t bytes, segment_bytes, incarnation;
	int *segments; /* descriptors; -1: not made yet */
	pthread_mutex_t lock; /* of segments */
	bool cached;   /* (atomic) files cannot be opened past the cache here */
};

/* Locks the directory for this unit and removes what earlier incarnations left. */
sy_status sy_disk_files_open(const struct sy_disk_config *config, struct sy_disk_files *ret_files,
                             sy_error *err);
/* Removes the files. */
void sy_disk_files_close(struct sy_disk_files *files);

/* 0, or an errno. Aligned to 4,096 in all: place, size and buffer. Any thread. */
int sy_disk_files_write(struct sy_disk_files *files, uint64_t at, const uint8_t *data,
                        size_t bytes);
int sy_disk_files_read(struct sy_disk_files *files, uint64_t at, uint8_t *data, size_t bytes);

#endif
