/* For the tests of the blob's index: a sample, whatever a test makes of it in bytes, and a check
 * of every promise of index.h that does not share the library's way of checking. */
#ifndef SY_INDEX_FIXTURE_H
#define SY_INDEX_FIXTURE_H

#include "harness.h"

#include <slabyard/index.h>
#include <string.h>

#include "bytes.h"
#include "crc32c.h"
#include "key.h"
#include "proto.h"

enum {
	ROWS_MAX = 24,
	COLUMNS_MAX = 32,
	ENTRIES = SY_ENTRIES_PER_BLOB_MAX,
	AT_CRC = 44,
	AT_COLUMNS = 64, /* plus 8 a row */
};

/* An index and the memory its pointers lead to. */
struct fixture {
	sy_index index;
	uint64_t rows[ROWS_MAX];
	sy_column columns[COLUMNS_MAX];
	uint32_t ordinals[COLUMNS_MAX][ROWS_MAX];
	uint64_t extents[COLUMNS_MAX][ROWS_MAX];
	char fields[COLUMNS_MAX][SY_FIELD_MAX_BYTES + 1];
};

static sy_column decoded_columns[ENTRIES];
static uint8_t decoded_marks[ENTRIES];

static inline uint8_t *xmalloc(size_t bytes)
{
	uint8_t *data = malloc(bytes > 0 ? bytes : 1); /* exact, so that ASan sees one byte more */
	assert_non_null(data);
	return data;
}

static inline sy_status decode(const uint8_t *bytes, size_t index_bytes, uint64_t blob_bytes,
                        sy_index *ret_index, sy_error *err)
{
	memset(decoded_marks, 0xa5, sizeof decoded_marks); /* their contents are of no matter */
	return sy_index_decode(bytes, index_bytes, blob_bytes, decoded_columns, ENTRIES,
	                       decoded_marks, ENTRIES, ret_index, err);
}

static inline void crc_store(uint8_t *bytes, size_t index_bytes)
{
	if (index_bytes >= SY_INDEX_HEADER_BYTES)
		sy_store_u32(bytes + AT_CRC, sy_crc32c(0, bytes + 64, index_bytes - 64));
}

/* --- the promises of index.h, checked one by one without regard to cost ------------------- */

static inline bool inside(const void *at, size_t bytes, const uint8_t *start, size_t size)
{
	const uint8_t *p = at;
	return p >= start && p <= start + size && bytes <= (size_t)(start + size - p);
}

static inline uint64_t product(const sy_column *column)
{
	unsigned __int128 unit = sy_dtype_bytes(column->dtype);
	for (uint32_t i = 0; i + 1 < column->shape.rank; i++) {
		unit *= column->shape.tail[i];
		assert_true(unit <= (unsigned __int128)1 << 62);
	}
	return (uint64_t)unit;
}

static inline void check_type(const sy_column *column)
{
	assert_true(strcmp(sy_kind_name(column->kind), "unknown") != 0);
	assert_true(sy_dtype_bytes(column->dtype) != 0);
	assert_true(column->shape.rank <= SY_RANK_MAX);
	if (column->kind == SY_KIND_TENSOR) {
		assert_int_not_equal(column->dtype, SY_DTYPE_NONE);
	} else {
		assert_int_equal(column->dtype, SY_DTYPE_NONE);
		assert_int_equal(column->shape.rank, 0);
	}
}

static inline uint32_t row_of(const sy_column *column, uint32_t k)
{
	return column->ordinals != NULL ? column->ordinals[k] : k;
}

static inline void check_column(const sy_index *index, const sy_column *column,
                                const uint8_t *start)
{
	assert_true(inside(column->field, column->field_bytes, start, index->index_bytes));
	assert_null(sy_name_fault(column->field, column->field_bytes));
	check_type(column);
	assert_true(column->row_count >= 1 && column->row_count <= index->row_count);
	if (column->ordinals == NULL)
		assert_int_equal(column->row_count, index->row_count);
	else
		assert_true(inside(column->ordinals, 4 * (size_t)column->row_count, start,
		                   index->index_bytes));
	if (column->extents != NULL)
		assert_true(inside(column->extents, 8 * (size_t)column->row_count, start,
		                   index->index_bytes));
	uint64_t unit = product(column);
	for (uint32_t k = 0; k < column->row_count; k++) {
		uint64_t extent = sy_column_extent(column, k);
		assert_true(row_of(column, k) < index->row_count);
		assert_true(k == 0 || row_of(column, k) > row_of(column, k - 1));
		if (column->kind == SY_KIND_JSON_NULL)
			assert_int_equal(extent, 0);
		if (column->kind != SY_KIND_TENSOR)
			assert_int_equal(sy_column_entry_bytes(column, extent), extent);
		else if (column->shape.rank == 0)
			assert_int_equal(extent, sy_dtype_bytes(column->dtype));
		else
			assert_true(sy_column_entry_bytes(column, extent) ==
			            sy_column_entry_dim0(column, extent) * unit);
	}
}

/* Sorted, and no key twice: every pair of columns. */
static inline void check_fields(const sy_index *index)
{
	for (uint32_t a = 0; a < index->column_count; a++) {
		for (uint32_t b = a + 1; b < index->column_count; b++) {
			const sy_column *x = &index->columns[a];
			const sy_column *y = &index->columns[b];
			int order = memcmp(x->field, y->field, sy_min_u64(x->field_bytes, y->field_bytes));
			assert_true(order < 0 || (order == 0 && x->field_bytes <= y->field_bytes));
			if (order != 0 || x->field_bytes != y->field_bytes)
				continue;
			for (uint32_t i = 0; i < x->row_count; i++) {
				for (uint32_t j = 0; j < y->row_count; j++)
					assert_int_not_equal(row_of(x, i), row_of(y, j));
			}
		}
	}
}

static inline void check_promises(const sy_index *index, const uint8_t *start, uint64_t blob_bytes)
{
	assert_true(index->index_bytes <= blob_bytes);
	assert_int_equal(index->blob_bytes, blob_bytes);
	assert_true(index->row_count >= 1 && index->row_count <= index->entry_count);
	assert_true(index->entry_count <= SY_ENTRIES_PER_BLOB_MAX);
	assert_true(inside(index->rows, 8 * (size_t)index->row_count, start, index->index_bytes));
	for (uint32_t i = 1; i < index->row_count; i++)
		assert_true(index->rows[i] > index->rows[i - 1]);
	uint64_t entries = 0;
	uint64_t end = index->index_bytes;
	for (uint32_t c = 0; c < index->column_count; c++) {
		const sy_column *column = &index->columns[c];
		check_column(index, column, start);
		entries += column->row_count;
		assert_true(column->base >= end && column->base % 64 == 0);
		end = column->base;
		for (uint32_t k = 0; k < column->row_count; k++) {
			uint64_t bytes = sy_column_entry_bytes(column, sy_column_extent(column, k));
			end = sy_align_up(end, 64);
			assert_true(end <= blob_bytes && bytes <= blob_bytes - end);
			end += bytes;
		}
	}
	assert_int_equal(entries, index->entry_count);
	check_fields(index);
}

/* --- making indexes ----------------------------------------------------------------------- */

static inline void column_set(struct fixture *f, const char *field, size_t field_bytes,
                              sy_dtype dtype, sy_kind kind)
{
	sy_column *column = &f->columns[f->index.column_count];
	char *name = f->fields[f->index.column_count];
	f->index.column_count++;
	memset(column, 0, sizeof *column);
	memcpy(name, field, field_bytes);
	column->field = name;
	column->field_bytes = field_bytes;
	column->dtype = dtype;
	column->kind = kind;
	column->row_count = f->index.row_count;
}

/* Three rows; "a" u16 scalars; "b" bytes in the outer rows and f32 [2, 2] in the middle one;
 * "b\xc3\xa9" i64 [9, 0, 7]. The case of every check starts from this one. */
static inline struct fixture *sample(void)
{
	static struct fixture f;
	memset(&f, 0, sizeof f);
	f.index.rows = f.rows;
	f.index.columns = f.columns;
	f.index.row_count = 3;
	f.rows[0] = 0;
	f.rows[1] = 5;
	f.rows[2] = UINT64_MAX;
	for (size_t i = 0; i < sizeof f.index.blob_id.bytes; i++)
		f.index.blob_id.bytes[i] = (uint8_t)(0xe0 + i);
	column_set(&f, "a", 1, SY_DTYPE_U16, SY_KIND_TENSOR);
	f.columns[0].extent = 2;
	column_set(&f, "b", 1, SY_DTYPE_NONE, SY_KIND_BYTES);
	f.columns[1].row_count = 2;
	f.columns[1].ordinals = f.ordinals[1];
	f.ordinals[1][1] = 2;
	f.columns[1].extents = f.extents[1];
	f.extents[1][0] = 65;
	column_set(&f, "b", 1, SY_DTYPE_F32, SY_KIND_TENSOR);
	f.columns[2].row_count = 1;
	f.columns[2].ordinals = f.ordinals[2];
	f.ordinals[2][0] = 1;
	f.columns[2].shape.rank = 2;
	f.columns[2].shape.tail[0] = 2;
	f.columns[2].extent = 16;
	column_set(&f, "b\xc3\xa9", 3, SY_DTYPE_I64, SY_KIND_TENSOR);
	f.columns[3].shape.rank = 3;
	f.columns[3].shape.tail[0] = 0;
	f.columns[3].shape.tail[1] = 7;
	f.columns[3].extent = 9;
	return &f;
}

static inline uint8_t *encode(const sy_index *index)
{
	sy_error err = {0};
	uint8_t *bytes = xmalloc(index->index_bytes);
	assert_int_equal(sy_index_encode(index, bytes, index->index_bytes, &err), SY_OK);
	return bytes;
}

static inline uint64_t record_bytes(const sy_column *column)
{
	uint64_t bytes = 24 + (column->shape.rank > 1 ? 8 * (uint64_t)(column->shape.rank - 1) : 0);
	bytes += column->extents != NULL ? 8 * (uint64_t)column->row_count : 8;
	bytes += column->ordinals != NULL ? 4 * (uint64_t)column->row_count : 0;
	return sy_align_up(bytes + column->field_bytes, 8);
}

/* Lays out whatever stands there, right or wrong, and encodes it. */
static inline uint8_t *encode_unchecked(sy_index *index)
{
	index->index_bytes = 64 + 8 * (uint64_t)index->row_count;
	index->entry_count = 0;
	for (uint32_t c = 0; c < index->column_count; c++) {
		index->index_bytes += record_bytes(&index->columns[c]);
		index->entry_count += index->columns[c].row_count;
	}
	uint64_t at = sy_align_up(index->index_bytes, 64);
	for (uint32_t c = 0; c < index->column_count; c++) {
		index->columns[c].base = at;
		for (uint32_t k = 0; k < index->columns[c].row_count; k++)
			at += sy_align_up(sy_column_entry_bytes(&index->columns[c],
			                                        sy_column_extent(&index->columns[c], k)), 64);
	}
	index->blob_bytes = at;
	return encode(index);
}

static inline void assert_same(const sy_index *a, const sy_index *b)
{
	assert_memory_equal(&a->blob_id, &b->blob_id, sizeof a->blob_id);
	assert_int_equal(a->row_count, b->row_count);
	assert_memory_equal(a->rows, b->rows, 8 * (size_t)a->row_count);
	assert_int_equal(a->column_count, b->column_count);
	assert_int_equal(a->entry_count, b->entry_count);
	assert_int_equal(a->index_bytes, b->index_bytes);
	assert_int_equal(a->blob_bytes, b->blob_bytes);
	for (uint32_t c = 0; c < a->column_count; c++) {
		const sy_column *x = &a->columns[c];
		const sy_column *y = &b->columns[c];
		assert_int_equal(x->field_bytes, y->field_bytes);
		assert_memory_equal(x->field, y->field, x->field_bytes);
		assert_int_equal(x->dtype, y->dtype);
		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->shape.rank, y->shape.rank);
		assert_memory_equal(x->shape.tail, y->shape.tail, sizeof x->shape.tail);
		assert_int_equal(x->row_count, y->row_count);
		assert_int_equal(x->base, y->base);
		assert_int_equal(x->ordinals == NULL, y->ordinals == NULL);
		for (uint32_t k = 0; k < x->row_count; k++) {
			assert_int_equal(row_of(x, k), row_of(y, k));
			assert_int_equal(sy_column_extent(x, k), sy_column_extent(y, k));
		}
	}
}

/* Decodes a copy with the checksum made right; what comes out must keep every promise. */
static inline sy_status decode_patched(uint8_t *bytes, size_t index_bytes, uint64_t blob_bytes,
                                sy_error *err)
{
	sy_index got;
	crc_store(bytes, index_bytes);
	sy_status status = decode(bytes, index_bytes, blob_bytes, &got, err);
	assert_true(status == SY_OK || status == SY_E_PROTOCOL);
	if (status == SY_OK)
		check_promises(&got, bytes, blob_bytes);
	return status;
}

static inline void assert_both_refuse(sy_index *index, const char *said)
{
	sy_error err = {0};
	err.message[0] = '\0';
	if (sy_index_layout(index, &err) != SY_E_INVALID || strstr(err.message, said) == NULL)
		fail_msg("layout, \"%s\": \"%s\"", said, err.message);
	uint8_t *bytes = encode_unchecked(index);
	sy_index got;
	err.message[0] = '\0';
	if (decode(bytes, index->index_bytes, index->blob_bytes, &got, &err) != SY_E_PROTOCOL ||
	    strstr(err.message, said) == NULL)
		fail_msg("decode, \"%s\": \"%s\"", said, err.message);
	free(bytes);
}

#endif
