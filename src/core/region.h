/* The allocator of the slab and of the disk: offsets only, best fit, neighbours joined at once.
 *
 * Holes stand in a balanced tree by (bytes, offset), so that a fit and the largest hole are
 * exact and cost O(log holes): UnitFull for bytes is said if and only if no hole is as large
 * as the need. */
#ifndef SY_REGION_H
#define SY_REGION_H

#include "arena.h"

/* One hole over each space that has any bytes. */
void sy_region_init(struct sy_core *core);
/* Takes bytes (rounded up to the space's align) from the smallest hole that fits (the lowest of
 * equal ones). Returns the region's index, or 0: no hole is large enough, or no descriptor is
 * left. The caller notes its blob in the region. */
uint32_t sy_region_take(struct sy_core *core, enum sy_space_id space, uint64_t bytes);
void sy_region_give(struct sy_core *core, uint32_t region);
/* Keeps the first bytes (rounded up, at least 1) of a region that is taken and gives back what is
 * behind them; bounded as a give is. */
void sy_region_trim(struct sy_core *core, uint32_t region, uint64_t bytes);
/* Takes exactly this run (offset aligned, bytes rounded up), which lies in a hole; for the
 * rebuild. 0 if it does not. O(1) where it lies in the first run of the space, so a rebuild
 * goes from the last one down. */
uint32_t sy_region_carve(struct sy_core *core, enum sy_space_id space, uint64_t offset,
                         uint64_t bytes);

/* The space of the slab that this offset lies in. */
enum sy_space_id sy_region_space_of(const struct sy_core *core, uint64_t offset);
uint64_t sy_region_free_bytes(const struct sy_core *core, enum sy_space_id space);
uint64_t sy_region_largest_hole(struct sy_core *core, enum sy_space_id space);
uint32_t sy_region_hole_count(const struct sy_core *core, enum sy_space_id space);
/* Asserts the links, the tree's order and balance, and that runs cover each space exactly. */
void sy_region_validate(struct sy_core *core);
/* The same without assertions: NULL, or what is wrong (static text). */
const char *sy_region_fault(struct sy_core *core);

#endif
