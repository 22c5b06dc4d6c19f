/* The slab's allocator: offsets only, best fit, neighbours joined at once.
 *
 * Holes stand in a balanced tree by (bytes, offset), so that a fit and the largest hole are
 * exact and cost O(log holes): UnitFull for bytes is said if and only if no hole is as large
 * as the need. */
#ifndef SY_REGION_H
#define SY_REGION_H

#include "arena.h"

/* One hole over the whole slab. */
void sy_region_init(struct sy_core *core);
/* Takes bytes (rounded up to 64) from the smallest hole that fits (lowest offset among equal
 * ones). Returns the region's index, or 0: no hole is large enough, or no descriptor is left.
 * The caller notes its blob in the region. */
uint32_t sy_region_take(struct sy_core *core, uint64_t bytes);
void sy_region_give(struct sy_core *core, uint32_t region);
/* Takes exactly this run (offset a multiple of 64, bytes rounded up), which lies in a hole; for
 * the rebuild. 0 if it does not. O(1) where it lies in the first run of the slab, so a rebuild
 * goes from the last one down. */
uint32_t sy_region_carve(struct sy_core *core, uint64_t offset, uint64_t bytes);

uint64_t sy_region_free_bytes(const struct sy_core *core);
uint64_t sy_region_largest_hole(struct sy_core *core);
uint32_t sy_region_hole_count(const struct sy_core *core);
/* Asserts the links, the tree's order and balance, and that runs cover the slab exactly. */
void sy_region_validate(struct sy_core *core);
/* The same without assertions: NULL, or what is wrong (static text). */
const char *sy_region_fault(struct sy_core *core);

#endif
