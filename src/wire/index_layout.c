#include "index_check.h"

#include "fail.h"

sy_status sy_index_layout(sy_index *index, sy_error *err)
{
	uint8_t marks[SY_ENTRIES_PER_BLOB_MAX];
	uint32_t entry_count;
	sy_status status = sy_index_check(index, marks, SY_E_INVALID, &entry_count, err);
	if (status != SY_OK)
		return status;
	/* At most 16,384 columns of at most 1.1 KiB and as many rows: below SY_INDEX_MAX_BYTES. */
	uint64_t index_bytes = SY_INDEX_HEADER_BYTES + 8 * (uint64_t)index->row_count;
	for (uint32_t c = 0; c < index->column_count; c++)
		index_bytes += sy_column_record_bytes(&index->columns[c]);
	uint64_t at = sy_align_up(index_bytes, SY_ENTRY_ALIGN_BYTES);
	for (uint32_t c = 0; c < index->column_count; c++) {
		index->columns[c].base = at;
		if (!sy_column_end(&index->columns[c], SY_LENGTH_MAX_BYTES, &at))
			return sy_fail(err, SY_E_INVALID, __func__, "the entries sum to more than 2^62 bytes");
		at = sy_align_up(at, SY_ENTRY_ALIGN_BYTES);
	}
	index->entry_count = entry_count;
	index->index_bytes = index_bytes;
	index->blob_bytes = at;
	return SY_OK;
}
