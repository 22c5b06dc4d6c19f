/* The tree of holes, of which region.h is made: by (bytes, offset), balanced. */
#ifndef SY_HOLE_H
#define SY_HOLE_H

#include "region.h"

static inline struct sy_region *sy_region_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.regions, index);
}

/* A run that is no blob's and in no tree becomes a hole, or is one no more; the account of free
 * bytes follows. Neither joins neighbours. */
void sy_hole_enter(struct sy_core *core, uint32_t region);
void sy_hole_leave(struct sy_core *core, uint32_t region);
/* The smallest hole of at least so many bytes, the lowest of equals; or 0. */
uint32_t sy_hole_fit(struct sy_core *core, enum sy_space_id space, uint64_t bytes);
/* NULL, or what is wrong with the tree: order, balance, number of nodes. */
const char *sy_hole_fault(struct sy_core *core, enum sy_space_id space);

#endif
