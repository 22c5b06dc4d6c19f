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
	bool cached;   /* files cannot be opened past the cache here */
};

/* Locks the directory for this unit and removes what earlier incarnations left. */
sy_status sy_disk_files_open(const struct sy_disk_config *config, struct sy_disk_files *ret_files,
                             sy_error *err);
/* Removes the files. */
void sy_disk_files_close(struct sy_disk_files *files);

/* Where this byte of the disk is: a descriptor, which stays, and the place in its file. make: its
 * segment may be made. 0, or an errno. Any thread. */
int sy_disk_files_at(struct sy_disk_files *files, uint64_t at, bool make, int *ret_fd,
                     uint64_t *ret_at);
/* How many bytes its segment has from there on. */
uint64_t sy_disk_files_left(const struct sy_disk_files *files, uint64_t at);

#endif
