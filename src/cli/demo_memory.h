/* The memory of the units before and after: whether a byte leaked. */
#ifndef SY_DEMO_MEMORY_H
#define SY_DEMO_MEMORY_H

#include <slabyard/client.h>

/* Owned: sy_demo_memory_done. */
struct sy_demo_memory {
	uint64_t *free_bytes; /* a unit */
	uint32_t unit_count;
	uint64_t capacity_bytes, free_sum;
};

/* Asks all units. A unit that does not answer is a failure: SY_E_TIMEOUT. SY_E_SYS. */
sy_status sy_demo_memory_read(sy_client *client, struct sy_demo_memory *ret_memory,
                              sy_error *err);
void sy_demo_memory_done(struct sy_demo_memory *memory);

/* Waits until every unit has as much free as in `before`, for at most the time in which a
 * client's notices reach its units. *ret_leak is NULL or a static buffer that says which unit
 * has how much less. *ret_after: what was read last, the caller's. */
sy_status sy_demo_memory_await(sy_client *client, const struct sy_demo_memory *before,
                               struct sy_demo_memory *ret_after, const char **ret_leak,
                               sy_error *err);

#endif
