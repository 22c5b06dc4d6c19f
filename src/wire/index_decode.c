#include "index_check.h"

#include "crc32c.h"
#include "fail.h"

struct cursor {
	const uint8_t *at, *end;
};

static size_t left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

/* The next count * each bytes, or NULL if there are fewer. */
static const uint8_t *take(struct cursor *cursor, uint64_t count, uint64_t each)
{
	if (count > left(cursor) / each)
		return NULL;
	const uint8_t *at = cursor->at;
	cursor->at += count * each;
	return at;
}

sy_status sy_index_peek(const void *header, uint64_t blob_bytes, uint64_t *ret_index_bytes,
                        sy_error *err)
{
	const uint8_t *at = header;
	if (blob_bytes < SY_INDEX_HEADER_BYTES || blob_bytes > SY_LENGTH_MAX_BYTES)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "a blob has no %llu bytes",
		               (unsigned long long)blob_bytes);
	if (memcmp(at, SY_INDEX_MAGIC, 8) != 0)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the blob does not start with an index");
	uint32_t version = sy_load_u32(at + SY_INDEX_AT_VERSION);
	if (version != SY_INDEX_VERSION)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the index has version %u, known is %d",
		               version, SY_INDEX_VERSION);
	if (sy_load_u32(at + SY_INDEX_AT_FLAGS) != 0)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the index has unknown flags");
	if (sy_load_u64(at + SY_INDEX_AT_BLOB_BYTES) != blob_bytes)
		return sy_fail(err, SY_E_PROTOCOL, __func__,
		               "the index is of a blob of %llu bytes, not %llu",
		               (unsigned long long)sy_load_u64(at + SY_INDEX_AT_BLOB_BYTES),
		               (unsigned long long)blob_bytes);
	uint64_t index_bytes = sy_load_u64(at + SY_INDEX_AT_INDEX_BYTES);
	if (index_bytes < SY_INDEX_HEADER_BYTES || index_bytes % 8 != 0 || index_bytes > blob_bytes ||
	    index_bytes > SY_INDEX_MAX_BYTES)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "an index has no %llu bytes",
		               (unsigned long long)index_bytes);
	*ret_index_bytes = index_bytes;
	return SY_OK;
}

sy_status sy_index_peek_id(const void *header, uint64_t blob_bytes, sy_blob_id *ret_id,
                           sy_error *err)
{
	uint64_t index_bytes;
	sy_status status = sy_index_peek(header, blob_bytes, &index_bytes, err);

	if (status == SY_OK)
		memcpy(ret_id->bytes, (const uint8_t *)header + SY_INDEX_AT_BLOB_ID,
		       sizeof ret_id->bytes);
	return status;
}

/* One column's record. NULL, or what is wrong with it; values are checked later. */
static const char *load_column(struct cursor *cursor, sy_column *ret_column)
{
	static const char cut[] = "is cut off";
	const uint8_t *fixed = take(cursor, 1, SY_COLUMN_FIXED_BYTES);
	if (fixed == NULL)
		return cut;
	uint8_t flags = fixed[SY_COLUMN_AT_FLAGS];
	if ((flags & ~(SY_COLUMN_HAS_ORDINALS | SY_COLUMN_HAS_EXTENTS)) != 0 ||
	    sy_load_u16(fixed + SY_COLUMN_AT_FLAGS + 1) != 0 ||
	    sy_load_u32(fixed + SY_COLUMN_AT_ROW_COUNT + 4) != 0)
		return "has unknown flags";
	if (fixed[SY_COLUMN_AT_RANK] > SY_RANK_MAX)
		return "has a rank over 8";
	sy_column column;
	memset(&column, 0, sizeof column);
	column.field_bytes = sy_load_u16(fixed);
	column.dtype = (sy_dtype)fixed[SY_COLUMN_AT_DTYPE];
	column.kind = (sy_kind)fixed[SY_COLUMN_AT_KIND];
	column.shape.rank = fixed[SY_COLUMN_AT_RANK];
	column.row_count = sy_load_u32(fixed + SY_COLUMN_AT_ROW_COUNT);
	column.base = sy_load_u64(fixed + SY_COLUMN_AT_BASE);
	uint32_t tail_count = sy_shape_tail_count(column.shape.rank);
	bool each = (flags & SY_COLUMN_HAS_EXTENTS) != 0;
	const uint8_t *tail = take(cursor, tail_count, 8);
	const uint8_t *extents = tail == NULL ? NULL : take(cursor, each ? column.row_count : 1, 8);
	if (extents == NULL)
		return cut;
	memcpy(column.shape.tail, tail, 8 * (size_t)tail_count);
	/* Aligned: the copy is, and what stands before is a multiple of 8 (of 4 for ordinals). */
	if (each)
		column.extents = (const uint64_t *)(const void *)extents;
	else
		column.extent = sy_load_u64(extents);
	if ((flags & SY_COLUMN_HAS_ORDINALS) != 0) {
		column.ordinals = (const uint32_t *)(const void *)take(cursor, column.row_count, 4);
		if (column.ordinals == NULL)
			return cut;
	}
	column.field = (const char *)take(cursor, column.field_bytes, 1);
	if (column.field == NULL)
		return cut;
	/* The end is a multiple of 8 from the start, so the padding is there. */
	for (; left(cursor) % 8 != 0; cursor->at++) {
		if (*cursor->at != 0)
			return "is padded with other than zeros";
	}
	*ret_column = column;
	return NULL;
}

static sy_status load_columns(struct cursor *cursor, sy_index *index, sy_error *err)
{
	for (uint32_t c = 0; c < index->column_count; c++) {
		const char *fault = load_column(cursor, &index->columns[c]);
		if (fault != NULL)
			return sy_fail(err, SY_E_PROTOCOL, __func__, "column %u %s", c, fault);
	}
	if (left(cursor) != 0)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "%zu bytes follow the last column",
		               left(cursor));
	return SY_OK;
}

static sy_status check_places(const sy_index *index, sy_error *err)
{
	uint64_t end = index->index_bytes;
	for (uint32_t c = 0; c < index->column_count; c++) {
		const sy_column *column = &index->columns[c];
		if (column->base % SY_ENTRY_ALIGN_BYTES != 0)
			return sy_fail(err, SY_E_PROTOCOL, __func__,
			               "the entries of column %u are not aligned", c);
		if (column->base < end)
			return sy_fail(err, SY_E_PROTOCOL, __func__,
			               "the entries of column %u overlap what is before them", c);
		if (!sy_column_end(column, index->blob_bytes, &end))
			return sy_fail(err, SY_E_PROTOCOL, __func__,
			               "the entries of column %u pass the end of the blob", c);
	}
	return SY_OK;
}

sy_status sy_index_decode(const void *bytes, size_t index_bytes, uint64_t blob_bytes,
                          sy_column *columns, uint32_t column_capacity, uint8_t *marks,
                          uint32_t mark_capacity, sy_index *ret_index, sy_error *err)
{
	const uint8_t *start = bytes;
	uint64_t said_bytes;
	if (((uintptr_t)start & 7) != 0)
		return sy_fail(err, SY_E_INVALID, __func__, "the copy of the index is not 8-aligned");
	if (index_bytes < SY_INDEX_HEADER_BYTES)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the index is cut off");
	sy_status status = sy_index_peek(start, blob_bytes, &said_bytes, err);
	if (status != SY_OK)
		return status;
	if (said_bytes != index_bytes)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the index has %llu bytes, given are %zu",
		               (unsigned long long)said_bytes, index_bytes);
	sy_index index = {.blob_bytes = blob_bytes, .index_bytes = index_bytes, .columns = columns};
	struct cursor cursor = {start + SY_INDEX_HEADER_BYTES, start + index_bytes};
	if (sy_crc32c(0, cursor.at, left(&cursor)) != sy_load_u32(start + SY_INDEX_AT_CRC))
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the checksum of the index is wrong");
	memcpy(index.blob_id.bytes, start + SY_INDEX_AT_BLOB_ID, sizeof index.blob_id.bytes);
	index.row_count = sy_load_u32(start + SY_INDEX_AT_ROW_COUNT);
	index.column_count = sy_load_u32(start + SY_INDEX_AT_COLUMN_COUNT);
	if (index.row_count > mark_capacity || index.column_count > column_capacity)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "%u rows and %u columns: over the limit",
		               index.row_count, index.column_count);
	index.rows = (const uint64_t *)(const void *)take(&cursor, index.row_count, 8);
	if (index.rows == NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the row numbers are cut off");
	status = load_columns(&cursor, &index, err);
	if (status == SY_OK)
		status = sy_index_check(&index, marks, SY_E_PROTOCOL, &index.entry_count, err);
	if (status == SY_OK)
		status = check_places(&index, err);
	if (status != SY_OK)
		return status;
	if (index.entry_count != sy_load_u32(start + SY_INDEX_AT_ENTRY_COUNT))
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the index holds %u entries and says %u",
		               index.entry_count, sy_load_u32(start + SY_INDEX_AT_ENTRY_COUNT));
	*ret_index = index;
	return SY_OK;
}
