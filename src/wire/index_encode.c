#include "index_check.h"

#include "crc32c.h"
#include "fail.h"
#include "guard.h"

static void store_header(const sy_index *index, uint8_t *out)
{
	memcpy(out, SY_INDEX_MAGIC, 8);
	sy_store_u32(out + SY_INDEX_AT_VERSION, SY_INDEX_VERSION);
	sy_store_u32(out + SY_INDEX_AT_FLAGS, 0);
	sy_store_u64(out + SY_INDEX_AT_INDEX_BYTES, index->index_bytes);
	sy_store_u64(out + SY_INDEX_AT_BLOB_BYTES, index->blob_bytes);
	sy_store_u32(out + SY_INDEX_AT_ENTRY_COUNT, index->entry_count);
	sy_store_u32(out + SY_INDEX_AT_ROW_COUNT, index->row_count);
	sy_store_u32(out + SY_INDEX_AT_COLUMN_COUNT, index->column_count);
	memcpy(out + SY_INDEX_AT_BLOB_ID, index->blob_id.bytes, sizeof index->blob_id.bytes);
	uint64_t rest = index->index_bytes - SY_INDEX_HEADER_BYTES;
	sy_store_u32(out + SY_INDEX_AT_CRC, sy_crc32c(0, out + SY_INDEX_HEADER_BYTES, rest));
}

static uint8_t *store(uint8_t *at, const void *data, size_t bytes)
{
	memcpy(at, data, bytes);
	return at + bytes;
}

static uint8_t *store_column(const sy_column *column, uint8_t *out)
{
	unsigned flags = (column->ordinals != NULL ? SY_COLUMN_HAS_ORDINALS : 0u) |
	                 (column->extents != NULL ? SY_COLUMN_HAS_EXTENTS : 0u);
	memset(out, 0, SY_COLUMN_FIXED_BYTES);
	sy_store_u16(out, (uint16_t)column->field_bytes);
	out[SY_COLUMN_AT_DTYPE] = (uint8_t)column->dtype;
	out[SY_COLUMN_AT_KIND] = (uint8_t)column->kind;
	out[SY_COLUMN_AT_RANK] = (uint8_t)column->shape.rank;
	out[SY_COLUMN_AT_FLAGS] = (uint8_t)flags;
	sy_store_u32(out + SY_COLUMN_AT_ROW_COUNT, column->row_count);
	sy_store_u64(out + SY_COLUMN_AT_BASE, column->base);
	uint8_t *at = out + SY_COLUMN_FIXED_BYTES;
	at = store(at, column->shape.tail, 8 * (size_t)sy_shape_tail_count(column->shape.rank));
	if (column->extents != NULL)
		at = store(at, column->extents, 8 * (size_t)column->row_count);
	else
		at = store(at, &column->extent, 8);
	if (column->ordinals != NULL)
		at = store(at, column->ordinals, 4 * (size_t)column->row_count);
	at = store(at, column->field, column->field_bytes);
	uint8_t *end = out + sy_column_record_bytes(column);
	memset(at, 0, (size_t)(end - at));
	return end;
}

sy_status sy_index_encode(const sy_index *index, void *out, size_t out_bytes, sy_error *err)
{
	uint8_t *start = out;
	if (out_bytes < index->index_bytes)
		return sy_fail(err, SY_E_INVALID, __func__, "the index takes %llu bytes, given are %zu",
		               (unsigned long long)index->index_bytes, out_bytes);
	/* Also where layout was not called, or rows or columns were added since: nothing is
	 * written past what was measured. */
	uint64_t need = SY_INDEX_HEADER_BYTES + 8 * (uint64_t)index->row_count;
	for (uint32_t c = 0; c < index->column_count; c++)
		need += sy_column_record_bytes(&index->columns[c]);
	if (need != index->index_bytes)
		return sy_fail(err, SY_E_INVALID, __func__, "the index changed since it was laid out");
	uint8_t *at = store(start + SY_INDEX_HEADER_BYTES, index->rows, 8 * (size_t)index->row_count);
	for (uint32_t c = 0; c < index->column_count; c++)
		at = store_column(&index->columns[c], at);
	SY_ASSERT(at == start + index->index_bytes);
	store_header(index, start);
	return SY_OK;
}
