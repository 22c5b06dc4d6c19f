/* A unit's whole state: one flat arena of a layout fixed at start.
 *
 *   struct sy_core | blobs | blob buckets | regions | entries | key buckets | row buckets |
 *   names | shapes | sessions | pins | pin refs | parked | jobs | ...
 *
 * Tables are found by offsets and items by u32 index (0 is none), so the arena may be copied,
 * compared or mapped anywhere. Fresh memory is zero and a table's items are first used in
 * order, so that unused capacity is never touched.
 *
 * Three kinds of state are kept apart. Authoritative: blob records and their entries. Derived
 * (rebuilt by sy_core_rebuild from the authoritative): hashes, holes, counts, interned names'
 * reference counts. Volatile: sessions, pins, reservations, parked requests, jobs. */
#ifndef SY_ARENA_H
#define SY_ARENA_H

#include "params.h"
#include "states.h"
#include "table.h"
#include "volatile.h"

struct sy_core {
	struct sy_core_params params;
	uint64_t arena_bytes;
	uint8_t unit_state; /* enum sy_unit_state: ACTIVE or DRAINING */
	struct sy_tables tables;     /* table.h: authoritative and derived */
	struct sy_volatile volatiles; /* volatile.h */
};

/* Item `index` of a pool; index is not 0 and below the capacity. */
static inline void *sy_pool_at(struct sy_core *core, const struct sy_pool *pool, uint32_t index)
{
	return (char *)core + pool->at + (uint64_t)index * pool->item_bytes;
}

#endif
