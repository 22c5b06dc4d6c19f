/* A unit's slab: one file in shared memory, mapped by the unit and by the clients of its host.
 *
 * The file lies in /dev/shm rather than in a memfd. The mount's size limit turns a slab that
 * is too large into an error at once, where a memfd would have the host kill somebody; the
 * mount decides about huge pages; and the file can be seen, named and found again.
 *
 * The price: a memfd can be sealed against shrinking, a file cannot. Whoever may write to the
 * slab may also cut it off (ftruncate), and touching the missing part is SIGBUS. A client that
 * does so has destroyed all bytes of the slab for everybody, as it could by writing to them.
 * sy_slab_guard keeps that from crashing the unit: it goes on with zeros, sees
 * sy_slab_is_torn, sends nothing any more, and stops with a clear line. */
#ifndef SY_SLAB_H
#define SY_SLAB_H

#include <slabyard/status.h>

enum { SY_SLAB_ALIGN_BYTES = 2 << 20, SY_SLAB_PATH_BYTES = 128, SY_SLAB_NAME_BYTES = 64 };

struct sy_slab {
	uint8_t *data; /* 2 MiB-aligned */
	uint64_t bytes;
	int fd; /* what clients are given */
	char path[SY_SLAB_PATH_BYTES];
};

/* The folder slabs lie in. */
#define SY_SLAB_DIR "/dev/shm"

/* slabyard-<uid>-<unit>-<incarnation hex> */
void sy_slab_name(uint32_t unit_id, sy_incarnation incarnation, char out[SY_SLAB_NAME_BYTES]);

/* Makes the file dir/name (mode 0600; fails if it is there), with all its memory allocated and
 * mapped: huge pages where the mount gives them, near NUMA node `place` modulo the nodes where
 * there are two or more. bytes is a multiple of 4,096. The caller owns it: sy_slab_destroy.
 * SY_E_SYS with a line that says what is free and what to do; nothing is left behind then.
 * It takes a second a GiB or two; give_up (may be NULL) is asked in between: true ends it with
 * SY_E_TIMEOUT. */
sy_status sy_slab_create(const char *dir, const char *name, uint64_t bytes, uint32_t place,
                         bool (*give_up)(void), struct sy_slab *ret_slab, sy_error *err);
/* Unmaps it and removes the file. Processes that mapped it keep their mapping. */
void sy_slab_destroy(struct sy_slab *slab);
/* Removes the file of a slab whose creator is dead. */
void sy_slab_remove(const char *path);

/* From now on a fault in the slab gives zeros in place of SIGBUS, for the life of the process; for
 * units. SY_E_SYS. */
sy_status sy_slab_guard(const struct sy_slab *slab, sy_error *err);
/* True once such a fault happened: a file was cut off and its bytes are gone. */
bool sy_slab_is_torn(void);

#endif
