/* What a disk tier's parts share: jobs are cut into requests, which one of two engines carries
 * out, a ring of the kernel's (disk_ring.c) or, where it is refused, threads (disk_threads.c). */
#ifndef SY_DISK_STATE_H
#define SY_DISK_STATE_H

#include <pthread.h>

#include "disk.h"
#include "disk_files.h"

/* Requests under way, and the most of one: 1 MiB and what a record of that takes more, so that a
 * blob of 1 MiB is one request. Jobs are cut evenly. */
enum {
	SY_DISK_DEPTH = 8,
	SY_DISK_RINGS = 2, /* of io_uring, a thread each */
	SY_DISK_REQUEST_BLOCKS = 288,
	SY_DISK_REQUEST_BYTES = SY_DISK_REQUEST_BLOCKS * SY_RECORD_BLOCK_BYTES,
};

/* A job under way. */
struct sy_disk_active {
	struct sy_disk_job job;
	bool used;
	uint64_t next, left;  /* blocks that no request has yet */
	uint64_t part_blocks; /* of one request */
	uint32_t requests;    /* under way */
	uint8_t result;       /* enum sy_disk_result */
};

struct sy_disk_request {
	uint32_t active;
	uint64_t first, count; /* blocks of its job */
	uint8_t *buffer;       /* count blocks */
	int fd;
	uint64_t at;           /* in that file */
};

struct sy_disk_ring;

struct sy_disk {
	struct sy_disk_config config;
	struct sy_disk_files files;
	int event_fd;
	uint8_t *buffers; /* SY_DISK_DEPTH of SY_DISK_REQUEST_BYTES */
	pthread_t threads[SY_DISK_DEPTH];
	uint32_t thread_count;
	struct sy_disk_ring *rings[SY_DISK_RINGS]; /* NULL: threads, or this one was refused */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t wake;
	struct sy_disk_active active[SY_DISK_JOBS_MAX];
	uint32_t waiting[SY_DISK_JOBS_MAX]; /* those with blocks left: a ring */
	uint32_t waiting_first, waiting_count;
	struct sy_disk_end ends[SY_DISK_JOBS_MAX];
	uint32_t end_first, end_count;
	bool stop;
	uint64_t said_ns, unsaid_count;
};

static inline uint8_t *sy_disk_buffer(const struct sy_disk *disk, uint32_t number)
{
	return disk->buffers + number * (size_t)SY_DISK_REQUEST_BYTES;
}

/* disk.c, for the engines. The next request, through `buffer`, packed if it is a write. wait:
 * until there is one, or the disk is being closed. False: there is none. */
bool sy_disk_take(struct sy_disk *disk, uint8_t *buffer, bool wait,
                  struct sy_disk_request *ret_request);
bool sy_disk_reads(const struct sy_disk *disk, const struct sy_disk_request *request);
/* Carries it out from its byte `done` on, in this thread. All its bytes; fewer: its file ended
 * before; or a negative errno. */
int64_t sy_disk_move(const struct sy_disk *disk, const struct sy_disk_request *request,
                     int64_t done);
/* It came to its end: bytes, or a negative errno. */
void sy_disk_finish(struct sy_disk *disk, const struct sy_disk_request *request, int64_t result);
bool sy_disk_stops(struct sy_disk *disk);

/* Each begins to carry out requests, until `stop`; false: no thread or memory for it. */
bool sy_disk_threads_start(struct sy_disk *disk);
/* 0, or the errno with which the system refuses it. */
int sy_disk_ring_start(struct sy_disk *disk, uint32_t number);
/* Something waits, or it is to stop; of NULL a no-op. */
void sy_disk_ring_wake(const struct sy_disk_ring *ring);
/* Once its thread has ended; of NULL a no-op. */
void sy_disk_ring_free(struct sy_disk_ring *ring);

#endif
