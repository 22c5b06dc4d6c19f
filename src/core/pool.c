#include "pool.h"

#include "arena.h"
#include "guard.h"

/* An item begins with the link of the free list; items are read as bytes, so that the pool need
 * not know their types. */
static uint32_t free_next(const void *item)
{
	return sy_load_u32(item);
}

uint32_t sy_pool_take(struct sy_core *core, struct sy_pool *pool)
{
	uint32_t index = pool->free_head;
	if (index != 0) {
		void *item = sy_pool_at(core, pool, index);
		pool->free_head = free_next(item);
		sy_store_u32(item, 0);
	} else if (pool->touched < pool->capacity) {
		index = ++pool->touched;
	} else {
		return 0;
	}
	pool->used++;
	return index;
}

void sy_pool_give(struct sy_core *core, struct sy_pool *pool, uint32_t index)
{
	SY_ASSERT(index != 0 && index <= pool->touched && pool->used > 0);
	void *item = sy_pool_at(core, pool, index);
	memset(item, 0, pool->item_bytes);
	sy_store_u32(item, pool->free_head);
	pool->free_head = index;
	pool->used--;
}

static struct sy_link *link_of(struct sy_core *core, const struct sy_pool *pool, uint32_t link_at,
                               uint32_t index)
{
	return (struct sy_link *)(void *)((char *)sy_pool_at(core, pool, index) + link_at);
}

void sy_chain_append(struct sy_core *core, const struct sy_pool *pool, uint32_t link_at,
                     struct sy_chain *chain, uint32_t index)
{
	struct sy_link *link = link_of(core, pool, link_at, index);
	SY_ASSERT(index != 0 && link->prev == 0 && link->next == 0 && chain->head != index);
	link->prev = chain->tail;
	if (chain->tail != 0)
		link_of(core, pool, link_at, chain->tail)->next = index;
	else
		chain->head = index;
	chain->tail = index;
	chain->count++;
}

void sy_chain_remove(struct sy_core *core, const struct sy_pool *pool, uint32_t link_at,
                     struct sy_chain *chain, uint32_t index)
{
	struct sy_link *link = link_of(core, pool, link_at, index);
	SY_ASSERT(index != 0 && chain->count > 0);
	SY_ASSERT(link->prev != 0 || chain->head == index);
	SY_ASSERT(link->next != 0 || chain->tail == index);
	if (link->prev != 0)
		link_of(core, pool, link_at, link->prev)->next = link->next;
	else
		chain->head = link->next;
	if (link->next != 0)
		link_of(core, pool, link_at, link->next)->prev = link->prev;
	else
		chain->tail = link->prev;
	*link = (struct sy_link){0};
	chain->count--;
}
