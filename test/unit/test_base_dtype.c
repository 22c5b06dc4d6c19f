#include "harness.h"

#include <string.h>

#include <slabyard/index.h>

static void test_sizes_and_names(void **state)
{
	(void)state;
	assert_int_equal(sy_dtype_bytes(SY_DTYPE_BOOL), 1);
	assert_int_equal(sy_dtype_bytes(SY_DTYPE_BF16), 2);
	assert_int_equal(sy_dtype_bytes(SY_DTYPE_F32), 4);
	assert_int_equal(sy_dtype_bytes(SY_DTYPE_I64), 8);
	assert_int_equal(sy_dtype_bytes(SY_DTYPE_C128), 16);
	assert_int_equal(sy_dtype_bytes(SY_DTYPE_F8_E5M2FNUZ), 1);
	assert_string_equal(sy_dtype_name(SY_DTYPE_BF16), "bf16");
	assert_string_equal(sy_dtype_name(SY_DTYPE_NONE), "none");
	assert_string_equal(sy_kind_name(SY_KIND_TENSOR), "tensor");
	assert_string_equal(sy_kind_name(SY_KIND_JSON_NULL), "json-null");
}

static void test_no_such_value(void **state)
{
	(void)state;
	const int values[] = {-1, 20, 255, 1 << 30};
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		assert_int_equal(sy_dtype_bytes((sy_dtype)values[i]), 0);
		assert_string_equal(sy_dtype_name((sy_dtype)values[i]), "unknown");
		assert_string_equal(sy_kind_name((sy_kind)values[i]), "unknown");
	}
	assert_string_equal(sy_kind_name((sy_kind)0), "unknown");
}

static void assert_unit(sy_dtype dtype, sy_shape shape, uint64_t expected)
{
	uint64_t bytes = 77;
	assert_true(sy_shape_unit_bytes(dtype, &shape, &bytes));
	assert_int_equal(bytes, expected);
}

static void assert_no_unit(sy_dtype dtype, sy_shape shape)
{
	uint64_t bytes = 77;
	assert_false(sy_shape_unit_bytes(dtype, &shape, &bytes));
	assert_int_equal(bytes, 77);
}

static void test_unit_bytes(void **state)
{
	(void)state;
	assert_unit(SY_DTYPE_F32, (sy_shape){.rank = 0}, 4);
	assert_unit(SY_DTYPE_F32, (sy_shape){.rank = 1}, 4);
	assert_unit(SY_DTYPE_NONE, (sy_shape){.rank = 0}, 1);
	assert_unit(SY_DTYPE_I16, (sy_shape){.rank = 3, .tail = {24, 8, 1000}}, 384);
	assert_unit(SY_DTYPE_U8, (sy_shape){.rank = 8, .tail = {2, 2, 2, 2, 2, 2, 3}}, 192);
	assert_unit(SY_DTYPE_F64, (sy_shape){.rank = 3, .tail = {0, 5}}, 0);
	assert_unit(SY_DTYPE_F64, (sy_shape){.rank = 3, .tail = {5, 0}}, 0);
	/* Beyond the rank a zero counts for nothing. */
	assert_unit(SY_DTYPE_F64, (sy_shape){.rank = 2, .tail = {5, 0}}, 40);
}

static void test_unit_bytes_limits(void **state)
{
	(void)state;
	const uint64_t max = (uint64_t)1 << 62;
	assert_unit(SY_DTYPE_U8, (sy_shape){.rank = 2, .tail = {max}}, max);
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = 2, .tail = {max + 1}});
	assert_no_unit(SY_DTYPE_U16, (sy_shape){.rank = 2, .tail = {max}});
	/* The product wraps to 0 and to 2^32. */
	const uint64_t half = (uint64_t)1 << 32;
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = 3, .tail = {half, half}});
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = 3, .tail = {half, max + 1}});
	/* The same whichever side the zero stands. */
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = 3, .tail = {0, UINT64_MAX}});
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = 3, .tail = {UINT64_MAX, 0}});
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = 9});
	assert_no_unit(SY_DTYPE_U8, (sy_shape){.rank = UINT32_MAX});
	assert_no_unit((sy_dtype)99, (sy_shape){.rank = 0});
}

static void test_entries(void **state)
{
	(void)state;
	sy_column tokens = {.dtype = SY_DTYPE_I64, .kind = SY_KIND_TENSOR, .shape = {.rank = 1}};
	assert_int_equal(sy_column_entry_bytes(&tokens, 80), 80);
	assert_int_equal(sy_column_entry_dim0(&tokens, 80), 10);
	assert_int_equal(sy_column_entry_dim0(&tokens, 0), 0);

	sy_column experts = {.dtype = SY_DTYPE_I16, .kind = SY_KIND_TENSOR,
	                     .shape = {.rank = 3, .tail = {24, 8}}};
	assert_int_equal(sy_column_entry_bytes(&experts, 3840), 3840);
	assert_int_equal(sy_column_entry_dim0(&experts, 3840), 10);

	sy_column scalar = {.dtype = SY_DTYPE_F32, .kind = SY_KIND_TENSOR};
	assert_int_equal(sy_column_entry_bytes(&scalar, 4), 4);
	assert_int_equal(sy_column_entry_dim0(&scalar, 4), 0);

	sy_column empty = {.dtype = SY_DTYPE_F32, .kind = SY_KIND_TENSOR, .shape = {.rank = 2}};
	assert_int_equal(sy_column_entry_bytes(&empty, 7), 0);
	assert_int_equal(sy_column_entry_dim0(&empty, 7), 7);

	/* The tail of what is no tensor means nothing. */
	sy_column text = {.kind = SY_KIND_UTF8, .shape = {.rank = 2}};
	assert_int_equal(sy_column_entry_bytes(&text, 9), 9);
	assert_int_equal(sy_column_entry_dim0(&text, 9), 0);
}

/* A column that no check has passed must not read beyond its tail or divide by zero. */
static void test_entries_of_a_bad_column(void **state)
{
	(void)state;
	sy_column bad = {.dtype = (sy_dtype)99, .kind = SY_KIND_TENSOR, .shape = {.rank = UINT32_MAX}};
	for (size_t i = 0; i < SY_TAIL_MAX; i++)
		bad.shape.tail[i] = 1;
	assert_int_equal(sy_column_entry_bytes(&bad, 9), 9);
	assert_int_equal(sy_column_entry_dim0(&bad, 9), 0);
}

static void test_extents(void **state)
{
	(void)state;
	const uint64_t extents[] = {3, 1, 2};
	sy_column column = {.extent = 5};
	assert_int_equal(sy_column_extent(&column, 0), 5);
	assert_int_equal(sy_column_extent(&column, 2), 5);
	column.extents = extents;
	assert_int_equal(sy_column_extent(&column, 0), 3);
	assert_int_equal(sy_column_extent(&column, 2), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes_and_names),
		cmocka_unit_test(test_no_such_value),
		cmocka_unit_test(test_unit_bytes),
		cmocka_unit_test(test_unit_bytes_limits),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_entries_of_a_bad_column),
		cmocka_unit_test(test_extents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
