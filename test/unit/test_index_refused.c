/* The blob's index: each check has a case that only it refuses. */
#include "index_fixture.h"

static void patch(uint8_t *bytes, size_t at, uint64_t value, size_t width)
{
	for (size_t i = 0; i < width; i++)
		bytes[at + i] = (uint8_t)(value >> (8 * i));
}

/* A value put in a place of the sample, of so many bytes, and a part of what is then said. */
static const struct {
	size_t at, width;
	uint64_t value;
	const char *said;
} bad_bytes[] = {
	{0, 1, 'S', "does not start with an index"},
	{8, 4, 2, "version 2"},
	{12, 4, 1, "flags"},
	{16, 8, 296, "bytes, given are"},
	{16, 8, 4, "an index has no 4 bytes"},
	{16, 8, 284, "an index has no"},
	{16, 8, 0x2c8, "an index has no"},
	{16, 8, UINT64_MAX - 7, "an index has no"},
	{24, 8, 0x2c0 - 64, "of a blob of"},
	{24, 8, 0x2c0 + 64, "of a blob of"},
	{32, 4, 8, "holds 9 entries and says 8"},
	{32, 4, 10, "holds 9 entries and says 10"},
	{36, 4, 0, "column 1 is padded"},
	{36, 4, UINT32_MAX, "over the limit"},
	{36, 4, ENTRIES, "row numbers are cut off"},
	{36, 4, 2, "column 0"},
	{40, 4, 0, "bytes follow the last column"},
	{40, 4, 3, "bytes follow the last column"},
	{40, 4, 5, "column 4 is cut off"},
	{40, 4, UINT32_MAX, "over the limit"},
	{64, 8, 5, "row numbers do not ascend at position 1"},
	{72, 8, UINT64_MAX, "row numbers do not ascend at position 2"},
	{AT_COLUMNS + 24, 2, 0, "column 1 has unknown flags"},
	{AT_COLUMNS + 24, 2, UINT16_MAX, "is cut off"},
	{AT_COLUMNS + 24 + 2, 1, 20, "unknown dtype"},
	{AT_COLUMNS + 24 + 2, 1, 255, "unknown dtype"},
	{AT_COLUMNS + 24 + 2, 1, 0, "without a dtype"},
	{AT_COLUMNS + 24 + 3, 1, 0, "unknown kind"},
	{AT_COLUMNS + 24 + 3, 1, 8, "unknown kind"},
	{AT_COLUMNS + 24 + 3, 1, SY_KIND_UTF8, "has a dtype but is no tensor"},
	{AT_COLUMNS + 24 + 4, 1, 9, "rank over 8"},
	{AT_COLUMNS + 24 + 5, 1, 4, "unknown flags"},
	{AT_COLUMNS + 24 + 6, 2, 0x100, "unknown flags"},
	{AT_COLUMNS + 24 + 8, 4, 0, "has no rows"},
	{AT_COLUMNS + 24 + 8, 4, 2, "all rows but another number"},
	{AT_COLUMNS + 24 + 12, 4, 1, "unknown flags"},
	{AT_COLUMNS + 24 + 16, 8, 0x148, "not aligned"},
	{AT_COLUMNS + 24 + 16, 8, 0x100, "overlap"},
	{AT_COLUMNS + 24 + 16, 8, 0x180, "overlap"}, /* its third entry with "b" */
	{AT_COLUMNS + 24 + 24, 8, 4, "another length than its dtype's"},
	{AT_COLUMNS + 24 + 33, 1, 1, "padded with other than zeros"},
	{AT_COLUMNS + 64 + 4, 1, 1, "has a shape but is no tensor"},
	{AT_COLUMNS + 64 + 8, 4, UINT32_MAX, "is cut off"},
	{AT_COLUMNS + 64 + 16, 8, UINT64_MAX & ~(uint64_t)63, "pass the end"},
	{AT_COLUMNS + 64 + 24, 8, 0x81, "overlap"},
	{AT_COLUMNS + 64 + 24, 8, UINT64_MAX, "too long"},
	{AT_COLUMNS + 64 + 24, 8, (uint64_t)1 << 62, "pass the end"},
	{AT_COLUMNS + 64 + 44, 4, 0, "do not ascend"},
	{AT_COLUMNS + 64 + 44, 4, 3, "past the last row"},
	{AT_COLUMNS + 64 + 44, 4, 1, "has this field twice"},
	{AT_COLUMNS + 64 + 48, 1, 'c', "not sorted"},
	{AT_COLUMNS + 64 + 48, 1, 0, "NUL"},
	{AT_COLUMNS + 64 + 48, 1, 0xff, "UTF-8"},
	{AT_COLUMNS + 120 + 8, 4, 1000, "is cut off"},
	{AT_COLUMNS + 120 + 24, 8, 3, "no multiple"},
	{AT_COLUMNS + 120 + 24, 8, (uint64_t)1 << 61, "too large"},
	{AT_COLUMNS + 120 + 24, 8, UINT64_MAX, "too large"},
	{AT_COLUMNS + 120 + 32, 8, 7, "no multiple"},
	{AT_COLUMNS + 120 + 40, 4, 2, "has this field twice"},
	{AT_COLUMNS + 168 + 16, 8, 0x300, "pass the end"},
	{AT_COLUMNS + 168 + 32, 8, UINT64_MAX, "too large"},
	{AT_COLUMNS + 168 + 40, 8, UINT64_MAX, "too large"},
	{AT_COLUMNS + 168 + 49, 1, 'x', "UTF-8"},
};

static void test_each_check_of_decode(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	uint8_t *good = encode(&f->index);
	size_t index_bytes = f->index.index_bytes;
	for (size_t i = 0; i < COUNT_OF(bad_bytes); i++) {
		uint8_t *bytes = xmalloc(index_bytes);
		memcpy(bytes, good, index_bytes);
		patch(bytes, bad_bytes[i].at, bad_bytes[i].value, bad_bytes[i].width);
		err.message[0] = '\0';
		sy_status status = decode_patched(bytes, index_bytes, f->index.blob_bytes, &err);
		if (status != SY_E_PROTOCOL || strstr(err.message, bad_bytes[i].said) == NULL)
			fail_msg("case %zu, \"%s\": status %d, \"%s\"", i, bad_bytes[i].said, (int)status,
			         err.message);
		free(bytes);
	}
	free(good);
}

/* --- what layout refuses, decode refuses too ---------------------------------------------- */

static void test_bad_rows(void **state)
{
	(void)state;
	struct fixture *f = sample();
	f->rows[2] = 5;
	assert_both_refuse(&f->index, "do not ascend at position 2");
	f = sample();
	f->rows[0] = 6;
	assert_both_refuse(&f->index, "do not ascend at position 1");
	f = sample();
	f->index.column_count = 1;
	f->columns[0].row_count = 2;
	f->columns[0].ordinals = f->ordinals[0];
	f->ordinals[0][1] = 1;
	assert_both_refuse(&f->index, "3 rows but only 2 entries");
	f = sample();
	f->index.row_count = 0;
	for (uint32_t c = 0; c < f->index.column_count; c++)
		f->columns[c].row_count = 0;
	assert_both_refuse(&f->index, "0 rows");
	f = sample();
	f->index.column_count = 0;
	assert_both_refuse(&f->index, "0 columns");
}

static void test_bad_names(void **state)
{
	(void)state;
	static char long_name[4096];
	memset(long_name, 'n', sizeof long_name);
	const struct {
		const char *name;
		size_t bytes;
		const char *said;
	} cases[] = {
		{"", 0, "is empty"},
		{"a\0b", 3, "NUL"},
		{"\xff", 1, "UTF-8"},
		{"\xc0\x80", 2, "UTF-8"},         /* overlong NUL */
		{"\xed\xa0\x80", 3, "UTF-8"},     /* surrogate */
		{"\xf4\x90\x80\x80", 4, "UTF-8"}, /* past U+10FFFF */
		{"ab\xc3", 3, "UTF-8"},           /* cut off */
		{long_name, 1025, "1024"},
		{long_name, 4096, "1024"},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct fixture *f = sample();
		f->index.column_count = 1;
		f->columns[0].field = cases[i].name;
		f->columns[0].field_bytes = cases[i].bytes;
		assert_both_refuse(&f->index, cases[i].said);
	}
	struct fixture *f = sample();
	sy_error err = {0};
	f->index.column_count = 1;
	f->columns[0].field = long_name;
	f->columns[0].field_bytes = 1024;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
}

static void test_bad_order_and_double_keys(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_column first = f->columns[0];
	f->columns[0] = f->columns[1];
	f->columns[1] = first;
	assert_both_refuse(&f->index, "not sorted");
	f = sample(); /* a longer name before its prefix */
	f->columns[0].field = "bb";
	f->columns[0].field_bytes = 2;
	assert_both_refuse(&f->index, "not sorted");
	f = sample(); /* bytes above 127 come last */
	f->columns[0].field = "\xc3\xa9";
	f->columns[0].field_bytes = 2;
	assert_both_refuse(&f->index, "not sorted");
	f = sample(); /* all rows against one */
	f->columns[0].field = "b";
	assert_both_refuse(&f->index, "twice");
	f = sample(); /* neighbours */
	f->ordinals[2][0] = 2;
	assert_both_refuse(&f->index, "twice");
	f = sample(); /* the first and the third of one field */
	f->index.column_count = 4;
	f->columns[3] = f->columns[2];
	f->columns[3].ordinals = f->ordinals[3];
	f->ordinals[3][0] = 2;
	assert_both_refuse(&f->index, "twice");
	f = sample(); /* rows of one field do not count against the next one's */
	sy_error err = {0};
	f->columns[3].field = "c";
	f->columns[3].field_bytes = 1;
	f->index.column_count = 5;
	f->columns[4] = f->columns[2];
	f->columns[4].field = "d";
	f->columns[3].ordinals = f->ordinals[3];
	f->columns[3].row_count = 2;
	f->ordinals[3][0] = 0;
	f->ordinals[3][1] = 2;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	f->columns[4].field = "c"; /* row 1: not in the other column of "c" */
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	f->ordinals[3][1] = 1;
	assert_both_refuse(&f->index, "twice");
}

static void test_bad_ordinals(void **state)
{
	(void)state;
	struct fixture *f = sample();
	f->ordinals[1][0] = 2;
	assert_both_refuse(&f->index, "do not ascend");
	f = sample();
	f->ordinals[1][1] = 0;
	assert_both_refuse(&f->index, "do not ascend");
	f = sample();
	f->ordinals[1][1] = 3;
	assert_both_refuse(&f->index, "past the last row");
	f = sample();
	f->ordinals[1][1] = UINT32_MAX;
	assert_both_refuse(&f->index, "past the last row");
	f = sample();
	f->columns[0].row_count = 2;
	assert_both_refuse(&f->index, "all rows but another number");
	f = sample();
	f->columns[1].row_count = 4;
	assert_both_refuse(&f->index, "more rows than the index");
	f = sample();
	f->columns[1].row_count = 0;
	assert_both_refuse(&f->index, "has no rows");
}

static void test_bad_types_and_lengths(void **state)
{
	(void)state;
	const struct {
		int dtype, kind;
		uint32_t rank;
		uint64_t tail[SY_TAIL_MAX], extent;
		const char *said;
	} cases[] = {
		{20, SY_KIND_TENSOR, 0, {0}, 1, "unknown dtype"},
		{SY_DTYPE_U8, 0, 0, {0}, 1, "unknown kind"},
		{SY_DTYPE_U8, 8, 0, {0}, 1, "unknown kind"},
		{SY_DTYPE_NONE, SY_KIND_TENSOR, 1, {0}, 1, "without a dtype"},
		{SY_DTYPE_U8, SY_KIND_BYTES, 0, {0}, 1, "has a dtype but is no tensor"},
		{SY_DTYPE_NONE, SY_KIND_PICKLE, 1, {0}, 1, "has a shape but is no tensor"},
		{SY_DTYPE_NONE, SY_KIND_JSON_NULL, 0, {0}, 1, "null with bytes"},
		{SY_DTYPE_NONE, SY_KIND_BYTES, 0, {0}, UINT64_MAX, "too long"},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 1, {0}, UINT64_MAX, "too long"},
		{SY_DTYPE_C128, SY_KIND_TENSOR, 0, {0}, 8, "scalar of another length"},
		{SY_DTYPE_U16, SY_KIND_TENSOR, 0, {0}, 4, "scalar of another length"},
		{SY_DTYPE_U16, SY_KIND_TENSOR, 0, {0}, 0, "scalar of another length"},
		{SY_DTYPE_U16, SY_KIND_TENSOR, 1, {0}, 3, "no multiple"},
		{SY_DTYPE_U16, SY_KIND_TENSOR, 3, {3, 5}, 31, "no multiple"},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 2, {((uint64_t)1 << 62) + 1}, 0, "too large"},
		{SY_DTYPE_U64, SY_KIND_TENSOR, 8, {512, 512, 512, 512, 512, 512, 512}, 0, "too large"},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 3, {(uint64_t)1 << 32, (uint64_t)1 << 32}, 0, "too large"},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 2, {0}, ((uint64_t)1 << 62) + 1, "too large"},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 3, {0, 4}, ((uint64_t)1 << 60) + 1, "too large"},
		{SY_DTYPE_F64, SY_KIND_TENSOR, 3, {4, 0}, UINT64_MAX, "too large"},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct fixture *f = sample();
		sy_column *column = &f->columns[0];
		f->index.column_count = 1;
		column->dtype = (sy_dtype)cases[i].dtype;
		column->kind = (sy_kind)cases[i].kind;
		column->shape.rank = cases[i].rank;
		memcpy(column->shape.tail, cases[i].tail, sizeof column->shape.tail);
		column->extent = cases[i].extent;
		assert_both_refuse(&f->index, cases[i].said);
		/* The same where each row has its length, and only the last one's is wrong. */
		if (strstr(cases[i].said, "multiple") == NULL && strstr(cases[i].said, "too long") == NULL)
			continue;
		column->extents = f->extents[0];
		memset(f->extents[0], 0, sizeof f->extents[0]);
		f->extents[0][2] = cases[i].extent;
		assert_both_refuse(&f->index, cases[i].said);
	}
	struct fixture *f = sample();
	sy_error err = {0};
	f->columns[2].shape.rank = 9; /* no 9th dim is looked for */
	assert_int_equal(sy_index_layout(&f->index, &err), SY_E_INVALID);
	assert_non_null(strstr(err.message, "rank"));
}

static void test_a_sum_over_the_limit_is_refused(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	f->extents[1][0] = (uint64_t)1 << 61;
	f->extents[1][1] = (uint64_t)1 << 61;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_E_INVALID);
	f->extents[1][1] = ((uint64_t)1 << 61) - 4096;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_check_of_decode),
		cmocka_unit_test(test_bad_rows),
		cmocka_unit_test(test_bad_names),
		cmocka_unit_test(test_bad_order_and_double_keys),
		cmocka_unit_test(test_bad_ordinals),
		cmocka_unit_test(test_bad_types_and_lengths),
		cmocka_unit_test(test_a_sum_over_the_limit_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
