/* What an entry's type, shape and length may be: one rule for the index and for replies. */
#ifndef SY_ENTRY_FAULT_H
#define SY_ENTRY_FAULT_H

#include <slabyard/index.h>

/* Lengths of entries and blobs stay within this, so that sums of a few do not overflow. */
#define SY_LENGTH_MAX_BYTES ((uint64_t)1 << 62)

/* How many dims of a shape stand in its tail. */
static inline uint32_t sy_shape_tail_count(uint32_t rank)
{
	return rank == 0 ? 0 : rank - 1;
}

/* NULL if this dtype, kind and shape go together, else a static phrase. On success *ret_unit
 * are the bytes that dim0 counts: of a lead unit, of the one element of a scalar, 1 for kinds
 * other than tensor; 0 where the tail holds a zero, and *ret_dim0_max is then the largest dim0
 * (whose full shape, zeros left out, still has a size that fits). */
const char *sy_shape_fault(sy_dtype dtype, sy_kind kind, const sy_shape *shape,
                           uint64_t *ret_unit, uint64_t *ret_dim0_max);

/* NULL if an entry of such a column may have this extent, else a static phrase. */
const char *sy_extent_fault(sy_kind kind, const sy_shape *shape, uint64_t unit,
                            uint64_t dim0_max, uint64_t extent);

#endif
