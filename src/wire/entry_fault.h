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
static inline const char *sy_extent_fault(sy_kind kind, const sy_shape *shape, uint64_t unit,
                            uint64_t dim0_max, uint64_t extent)
{
	if (kind == SY_KIND_JSON_NULL && extent != 0)
		return "is a null with bytes";
	if (kind != SY_KIND_TENSOR)
		return extent > SY_LENGTH_MAX_BYTES ? "is too long" : NULL;
	if (unit == 0)
		return extent > dim0_max ? "has a shape that is too large" : NULL;
	if (extent > SY_LENGTH_MAX_BYTES)
		return "is too long";
	if (shape->rank == 0 && extent != unit)
		return "is a scalar of another length than its dtype's";
	/* Most units are powers of two, and a division for each of thousands of entries is felt. */
	bool power = (unit & (unit - 1)) == 0;
	if (power ? (extent & (unit - 1)) != 0 : extent % unit != 0)
		return "has a length that is no multiple of its trailing shape";
	return NULL;
}

#endif
