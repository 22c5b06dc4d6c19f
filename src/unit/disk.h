/* The files of a unit's disk tier, and what reads and writes them.
 *
 *   slabyard-<unit id>.lock                    locked as long as the unit lives
 *   slabyard-<unit id>-<incarnation>-<n>.seg   one after the other, the bytes of the disk
 *
 * A segment is made in full when it is first written to, and used again for ever after. Whoever
 * holds the lock removes the segments of earlier incarnations, and at its end the lock, too; no
 * other file is touched. Records are packed and checked (tier_record.h) in buffers of the disk's
 * own, so that files are read and written past the system's cache, whatever the slab's
 * alignment. */
#ifndef SY_DISK_H
#define SY_DISK_H

#include <slabyard/status.h>

#include "tier_record.h"

enum { SY_DISK_JOBS_MAX = 64 };

struct sy_disk_config {
	const char *dir;
	uint64_t bytes;
	uint32_t unit_id;
	uint64_t incarnation;
	uint8_t *slab; /* outlives the disk */
	/* One line for the log; called from any thread, seldom. */
	void (*say)(void *context, const char *line);
	void *context;
};

struct sy_disk;

/* The end of an operation. */
struct sy_disk_end {
	uint32_t blob;
	uint64_t grant;
	uint8_t result; /* enum sy_disk_result */
};

/* Owned by the caller. SY_E_INVALID: no such directory, or not ours to write, or another unit of
 * this number uses it; SY_E_SYS. */
sy_status sy_disk_open(const struct sy_disk_config *config, struct sy_disk **ret_disk,
                       sy_error *err);
/* Waits for what is under way and removes the files. close(NULL) is a no-op. */
void sy_disk_close(struct sy_disk *disk);

/* Readable while ends wait. */
int sy_disk_fd(const struct sy_disk *disk);
/* Begins an operation; at most SY_DISK_JOBS_MAX are under way. Never blocks. */
void sy_disk_run(struct sy_disk *disk, const struct sy_disk_job *job);
/* The next end, in any order; false: none now. */
bool sy_disk_next(struct sy_disk *disk, struct sy_disk_end *ret_end);

#endif
