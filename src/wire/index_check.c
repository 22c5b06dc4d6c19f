#include "index_check.h"

#include "fail.h"
#include "key.h"

static sy_status check_rows(const sy_index *index, sy_status status, sy_error *err)
{
	if (index->row_count == 0 || index->row_count > SY_ENTRIES_PER_BLOB_MAX)
		return sy_fail(err, status, "sy_index_check", "%u rows: a blob has 1 to %d",
		               index->row_count, SY_ENTRIES_PER_BLOB_MAX);
	if (index->column_count == 0 || index->column_count > SY_ENTRIES_PER_BLOB_MAX)
		return sy_fail(err, status, "sy_index_check", "%u columns: a blob has 1 to %d",
		               index->column_count, SY_ENTRIES_PER_BLOB_MAX);
	for (uint32_t i = 1; i < index->row_count; i++) {
		if (index->rows[i] <= index->rows[i - 1])
			return sy_fail(err, status, "sy_index_check",
			               "row numbers do not ascend at position %u", i);
	}
	return SY_OK;
}

/* A fault of column c, with its name as far as it can be shown. */
static sy_status column_fail(const sy_index *index, uint32_t c, const char *fault,
                             sy_status status, sy_error *err)
{
	const sy_column *column = &index->columns[c];
	return sy_fail(err, status, "sy_index_check", "column %u, field \"%.*s\": %s", c,
	               (int)sy_min_u64(column->field_bytes, 80), column->field, fault);
}

static const char *ordinals_fault(const sy_index *index, const sy_column *column)
{
	if (column->row_count == 0)
		return "has no rows";
	if (column->ordinals == NULL)
		return column->row_count == index->row_count ? NULL
		                                             : "has all rows but another number of them";
	if (column->row_count > index->row_count)
		return "has more rows than the index";
	for (uint32_t k = 1; k < column->row_count; k++) {
		if (column->ordinals[k] <= column->ordinals[k - 1])
			return "has row positions that do not ascend";
	}
	/* They ascend, so the last is the largest. */
	if (column->ordinals[column->row_count - 1] >= index->row_count)
		return "has a position past the last row";
	return NULL;
}

static const char *column_fault(const sy_index *index, const sy_column *column)
{
	const char *fault = sy_name_fault(column->field, column->field_bytes);
	if (fault == NULL)
		fault = ordinals_fault(index, column);
	uint64_t unit = 0;
	uint64_t dim0_max = 0;
	if (fault == NULL)
		fault = sy_shape_fault(column->dtype, column->kind, &column->shape, &unit, &dim0_max);
	const uint64_t *extents = column->extents != NULL ? column->extents : &column->extent;
	uint32_t extent_count = column->extents != NULL ? column->row_count : 1;
	for (uint32_t k = 0; fault == NULL && k < extent_count; k++)
		fault = sy_extent_fault(column->kind, &column->shape, unit, dim0_max, extents[k]);
	return fault;
}

/* Bytewise, a prefix first. */
static int field_compare(const sy_column *a, const sy_column *b)
{
	size_t common = a->field_bytes < b->field_bytes ? a->field_bytes : b->field_bytes;
	int order = memcmp(a->field, b->field, common);
	if (order != 0)
		return order;
	return a->field_bytes < b->field_bytes ? -1 : a->field_bytes > b->field_bytes;
}

/* Sets the marks of the column's rows to `value`; false if one had it already. */
static bool marks_set(const sy_column *column, uint8_t *marks, uint8_t value)
{
	for (uint32_t k = 0; k < column->row_count; k++) {
		uint32_t row = column->ordinals != NULL ? column->ordinals[k] : k;
		if (marks[row] == value)
			return false;
		marks[row] = value;
	}
	return true;
}

/* Columns of one field stand side by side; the rows of each such run are marked while it lasts,
 * so that a row in two of them is seen, and unmarked by the same walk. */
static sy_status check_keys(const sy_index *index, uint8_t *marks, sy_status status, sy_error *err)
{
	memset(marks, 0, index->row_count);
	uint32_t first = 0;
	for (uint32_t c = 1; c < index->column_count; c++) {
		int order = field_compare(&index->columns[c - 1], &index->columns[c]);
		if (order > 0)
			return column_fail(index, c, "columns are not sorted by field", status, err);
		if (order == 0) {
			if (c - first == 1)
				marks_set(&index->columns[first], marks, 1);
			if (!marks_set(&index->columns[c], marks, 1))
				return column_fail(index, c, "a row has this field twice", status, err);
			continue;
		}
		for (uint32_t done = first; c - first > 1 && done < c; done++)
			marks_set(&index->columns[done], marks, 0);
		first = c;
	}
	return SY_OK;
}

sy_status sy_index_check(const sy_index *index, uint8_t *marks, sy_status status,
                         uint32_t *ret_entry_count, sy_error *err)
{
	if (check_rows(index, status, err) != SY_OK)
		return status;
	uint64_t entry_count = 0;
	for (uint32_t c = 0; c < index->column_count; c++) {
		const char *fault = column_fault(index, &index->columns[c]);
		if (fault != NULL)
			return column_fail(index, c, fault, status, err);
		entry_count += index->columns[c].row_count;
	}
	if (entry_count > SY_ENTRIES_PER_BLOB_MAX)
		return sy_fail(err, status, __func__, "%llu entries: a blob has at most %d",
		               (unsigned long long)entry_count, SY_ENTRIES_PER_BLOB_MAX);
	if (index->row_count > entry_count)
		return sy_fail(err, status, __func__, "%u rows but only %llu entries", index->row_count,
		               (unsigned long long)entry_count);
	if (check_keys(index, marks, status, err) != SY_OK)
		return status;
	*ret_entry_count = (uint32_t)entry_count;
	return SY_OK;
}

bool sy_column_end(const sy_column *column, uint64_t limit, uint64_t *ret_end)
{
	/* A column of lead units without bytes stores nothing, whatever its extents say. */
	bool stores = sy_column_entry_bytes(column, 1) != 0;
	uint64_t end = column->base;
	for (uint32_t k = 0; k < column->row_count; k++) {
		end = sy_align_up(end, SY_ENTRY_ALIGN_BYTES);
		uint64_t extent = column->extents != NULL ? column->extents[k] : column->extent;
		uint64_t bytes = stores ? extent : 0;
		if (end > limit || bytes > limit - end)
			return false;
		end += bytes;
	}
	*ret_end = end;
	return true;
}
