/* The form of an index in bytes, and the checks that its encoder and its decoder share.
 *
 * Header:                          Column, a multiple of 8 bytes:
 *   0  magic "slabyard"              0  field bytes u16
 *   8  version u32                   2  dtype u8
 *  12  flags u32, 0                  3  kind u8
 *  16  index_bytes u64               4  rank u8
 *  24  blob_bytes u64                5  flags u8: 1 ordinals, 2 an extent a row
 *  32  entry count u32               6  zero u16
 *  36  row count u32                 8  row count u32
 *  40  column count u32             12  zero u32
 *  44  crc32c u32 of all after      16  base u64
 *      the header                   24  tail, u64 each: rank - 1, none for rank 0
 *  48  blob id                          extents, u64 each: one, or one a row
 *                                       ordinals, u32 each, if flagged
 *                                       field, then zeros up to a multiple of 8
 *
 * Wide numbers come first, so that each is aligned in an aligned copy and can be read there. */
#ifndef SY_INDEX_CHECK_H
#define SY_INDEX_CHECK_H

#include <slabyard/index.h>

#include "entry_fault.h"
#include "proto.h"

enum {
	SY_INDEX_VERSION = 1,
	SY_INDEX_MAX_BYTES = 32 << 20, /* 16,384 columns of one entry each take 18 MiB */
	SY_INDEX_AT_VERSION = 8,
	SY_INDEX_AT_FLAGS = 12,
	SY_INDEX_AT_INDEX_BYTES = 16,
	SY_INDEX_AT_BLOB_BYTES = 24,
	SY_INDEX_AT_ENTRY_COUNT = 32,
	SY_INDEX_AT_ROW_COUNT = 36,
	SY_INDEX_AT_COLUMN_COUNT = 40,
	SY_INDEX_AT_CRC = 44,
	SY_INDEX_AT_BLOB_ID = 48,
	SY_COLUMN_AT_DTYPE = 2,
	SY_COLUMN_AT_KIND = 3,
	SY_COLUMN_AT_RANK = 4,
	SY_COLUMN_AT_FLAGS = 5,
	SY_COLUMN_AT_ROW_COUNT = 8,
	SY_COLUMN_AT_BASE = 16,
	SY_COLUMN_FIXED_BYTES = 24,
	SY_COLUMN_HAS_ORDINALS = 1,
	SY_COLUMN_HAS_EXTENTS = 2,
};

#define SY_INDEX_MAGIC "slabyard" /* 8 bytes, no NUL */

/* Bytes of a column's record. No overflow: its counts are within 32 bits, its name within
 * SY_FIELD_MAX_BYTES. */
static inline uint64_t sy_column_record_bytes(const sy_column *column)
{
	uint64_t rows = column->row_count;
	uint64_t bytes = SY_COLUMN_FIXED_BYTES + 8 * (uint64_t)sy_shape_tail_count(column->shape.rank);
	bytes += 8 * (column->extents != NULL ? rows : 1);
	bytes += 4 * (column->ordinals != NULL ? rows : 0);
	return sy_align_up(bytes + column->field_bytes, 8);
}

/* Everything index.h promises of an index but the places of its entries. `marks` has one byte a
 * row, contents of no matter. Fails with `status`. On success *ret_entry_count is the sum of the
 * columns' rows. O(rows + entries + bytes of names). */
sy_status sy_index_check(const sy_index *index, uint8_t *marks, sy_status status,
                         uint32_t *ret_entry_count, sy_error *err);

/* The end of the column's last entry when its first lies at column->base, or false if that
 * passes `limit` (at most SY_LENGTH_MAX_BYTES). */
bool sy_column_end(const sy_column *column, uint64_t limit, uint64_t *ret_end);

#endif
