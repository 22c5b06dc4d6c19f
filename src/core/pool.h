/* Pools of equal items in the arena, and lists threaded through them by index. */
#ifndef SY_POOL_H
#define SY_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct sy_core;

/* Items 1..capacity; 0 is none. A free item is all zero but for its first four bytes, which link
 * the free ones: so a free blob, session or entry reads as one that is not in use. */
struct sy_pool {
	uint64_t at;         /* offset of item 0 in the arena */
	uint32_t item_bytes;
	uint32_t capacity;
	uint32_t free_head;
	uint32_t touched;    /* items 1..touched were used at least once */
	uint32_t used;
};

/* A zeroed item, or 0 if all are used. Never used ones come last, in order, so that capacity
 * that is not needed is never touched. */
uint32_t sy_pool_take(struct sy_core *core, struct sy_pool *pool);
/* Zeroes the item and makes it free. */
void sy_pool_give(struct sy_core *core, struct sy_pool *pool, uint32_t index);

/* A doubly linked list; `link_at` is the offset of a struct sy_link inside the item. */
struct sy_link {
	uint32_t prev, next;
};

struct sy_chain {
	uint32_t head, tail, count;
};

void sy_chain_append(struct sy_core *core, const struct sy_pool *pool, uint32_t link_at,
                     struct sy_chain *chain, uint32_t index);
void sy_chain_remove(struct sy_core *core, const struct sy_pool *pool, uint32_t link_at,
                     struct sy_chain *chain, uint32_t index);

#endif
