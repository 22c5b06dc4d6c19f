/* The memory that a program registered, as the movers of one endpoint know it. A mover has UCX
 * register one when a transfer first uses it directly, and keeps that until it is deregistered or
 * the mover is closed. Thread-safe, and the same where there is no UCX, where nobody uses it. */
#ifndef SY_UCX_MEMORIES_H
#define SY_UCX_MEMORIES_H

#include <pthread.h>
#include <slabyard/status.h>

#include "memories.h"

struct sy_ucx_mover;

/* One as one mover has it registered. */
struct sy_ucx_mapping {
	struct sy_ucx_mover *mover;
	void *handle; /* NULL: it could not be registered, and is copied from and to */
	void (*unmap)(struct sy_ucx_mover *mover, void *handle);
	struct sy_ucx_mapping *next;
};

struct sy_ucx_memory {
	struct sy_memory account; /* the first: the table's */
	struct sy_ucx_mapping *mappings;
};

struct sy_ucx_memories {
	uint32_t refs; /* atomic: a fork child may take one whatever held the lock */
	pthread_mutex_t lock; /* of the table; taken after a mover's */
	struct sy_memories table;
};

/* One reference, the caller's; NULL: memory is short. */
struct sy_ucx_memories *sy_ucx_memories_new(void);
/* NULL is a no-op, of both. */
struct sy_ucx_memories *sy_ucx_memories_ref(struct sy_ucx_memories *memories);
void sy_ucx_memories_unref(struct sy_ucx_memories *memories);

/* SY_E_INVALID, SY_E_SYS. */
sy_status sy_ucx_memories_add(struct sy_ucx_memories *memories, uint64_t addr, uint64_t nbytes,
                              sy_error *err);
/* SY_E_INVALID: no such registration. SY_E_TRANSFER: it stays, as a transfer that runs or never
 * ended may touch it. */
sy_status sy_ucx_memories_remove(struct sy_ucx_memories *memories, uint64_t addr, uint64_t nbytes,
                                 sy_error *err);
/* The mover is about to be closed. */
void sy_ucx_memories_forget(struct sy_ucx_memories *memories, const struct sy_ucx_mover *mover);

#endif
