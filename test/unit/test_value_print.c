#include "harness.h"

#include <string.h>

#include "prng.h"
#include "value_print.h"

static void assert_prints(const sy_value *value, const char *wanted)
{
	struct sy_text out = {0};
	sy_value_print(&out, value);
	sy_text_add_char(&out, '\0');
	assert_false(out.failed);
	assert_string_equal(out.data, wanted);
	sy_text_done(&out);
}

static void assert_element(sy_dtype dtype, const void *element, const char *wanted)
{
	const sy_value value = {.data = element, .nbytes = sy_dtype_bytes(dtype), .dtype = dtype,
	                        .kind = SY_KIND_TENSOR};
	assert_prints(&value, wanted);
}

static void assert_kind(sy_kind kind, const char *data, size_t bytes, const char *wanted)
{
	const sy_value value = {.data = data, .nbytes = bytes, .kind = kind};
	assert_prints(&value, wanted);
}

static void test_integers(void **state)
{
	(void)state;
	assert_element(SY_DTYPE_BOOL, &(uint8_t){1}, "true");
	assert_element(SY_DTYPE_BOOL, &(uint8_t){0}, "false");
	assert_element(SY_DTYPE_U8, &(uint8_t){255}, "255");
	assert_element(SY_DTYPE_I8, &(int8_t){-128}, "-128");
	assert_element(SY_DTYPE_U16, &(uint16_t){65535}, "65535");
	assert_element(SY_DTYPE_I16, &(int16_t){-1}, "-1");
	assert_element(SY_DTYPE_U32, &(uint32_t){4294967295u}, "4294967295");
	assert_element(SY_DTYPE_I32, &(int32_t){INT32_MIN}, "-2147483648");
	assert_element(SY_DTYPE_U64, &(uint64_t){UINT64_MAX}, "18446744073709551615");
	assert_element(SY_DTYPE_I64, &(int64_t){INT64_MIN}, "-9223372036854775808");
}

static void test_floats(void **state)
{
	(void)state;
	assert_element(SY_DTYPE_F64, &(double){1}, "1.0");
	assert_element(SY_DTYPE_F64, &(double){-0.0}, "-0.0");
	assert_element(SY_DTYPE_F64, &(double){0.1}, "0.1");
	assert_element(SY_DTYPE_F64, &(double){1e22}, "1e+22");
	assert_element(SY_DTYPE_F64, &(double){123456789012345680.0}, "1.2345678901234568e+17");
	assert_element(SY_DTYPE_F32, &(float){0.1f}, "0.10000000149011612");
	assert_element(SY_DTYPE_F64, &(double){__builtin_inf()}, "{\"$float\":\"inf\"}");
}

/* Types of 16 and of 8 bits, at their ends and where they have no number. */
static void test_small_floats(void **state)
{
	static const struct {
		sy_dtype dtype;
		uint16_t bits;
		const char *wanted;
	} cases[] = {
		{SY_DTYPE_BF16, 0x3f80, "1.0"},
		{SY_DTYPE_BF16, 0xbfc0, "-1.5"},
		{SY_DTYPE_BF16, 0x7f80, "{\"$float\":\"inf\"}"},
		{SY_DTYPE_BF16, 0x7fc0, "{\"$float\":\"nan\"}"},
		{SY_DTYPE_F16, 0x3c00, "1.0"},
		{SY_DTYPE_F16, 0x7bff, "65504.0"},
		{SY_DTYPE_F16, 0x0001, "5.9604644775390625e-08"},
		{SY_DTYPE_F16, 0x8000, "-0.0"},
		{SY_DTYPE_F16, 0xfc00, "{\"$float\":\"-inf\"}"},
		{SY_DTYPE_F8_E4M3FN, 0x7e, "448.0"},
		{SY_DTYPE_F8_E4M3FN, 0x01, "0.001953125"},
		{SY_DTYPE_F8_E4M3FN, 0xff, "{\"$float\":\"nan\"}"},
		{SY_DTYPE_F8_E5M2, 0x7b, "57344.0"},
		{SY_DTYPE_F8_E5M2, 0x7c, "{\"$float\":\"inf\"}"},
		{SY_DTYPE_F8_E4M3FNUZ, 0x7f, "240.0"},
		{SY_DTYPE_F8_E4M3FNUZ, 0x80, "{\"$float\":\"nan\"}"},
		{SY_DTYPE_F8_E5M2FNUZ, 0x7f, "57344.0"},
		{SY_DTYPE_F8_E5M2FNUZ, 0x01, "7.62939453125e-06"},
		{SY_DTYPE_F8_E5M2FNUZ, 0x80, "{\"$float\":\"nan\"}"},
	};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(cases); i++)
		assert_element(cases[i].dtype, &cases[i].bits, cases[i].wanted);
}

static void test_floats_read_back(void **state)
{
	struct sy_prng prng;
	(void)state;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 20000; i++) {
		uint64_t bits = sy_prng_next(&prng);
		double number, again;
		memcpy(&number, &bits, sizeof number);
		if ((bits >> 52 & 0x7ff) == 0x7ff)
			continue;
		const sy_value value = {.data = &number, .nbytes = 8, .dtype = SY_DTYPE_F64,
		                        .kind = SY_KIND_TENSOR};
		struct sy_text out = {0};
		sy_value_print(&out, &value);
		sy_text_add_char(&out, '\0');
		again = strtod(out.data, NULL);
		assert_memory_equal(&number, &again, sizeof number);
		assert_non_null(strpbrk(out.data, ".e"));
		sy_text_done(&out);
	}
}

static void test_shapes(void **state)
{
	static const int16_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
	static const float complex_parts[] = {1, -2, 0.5f, 0};
	sy_value value = {.data = numbers, .nbytes = 24, .dtype = SY_DTYPE_I16,
	                  .kind = SY_KIND_TENSOR, .rank = 3, .dims = {2, 3, 2}};
	(void)state;
	assert_prints(&value, "[[[1,2],[3,4],[5,6]],[[7,8],[9,10],[11,12]]]");
	value.rank = 1;
	value.dims[0] = 12;
	assert_prints(&value, "[1,2,3,4,5,6,7,8,9,10,11,12]");
	value.nbytes = 0;
	value.dims[0] = 0;
	assert_prints(&value, "[]");
	value.rank = 2;
	value.dims[0] = 3;
	value.dims[1] = 0;
	assert_prints(&value, "[[],[],[]]");
	value = (sy_value){.data = complex_parts, .nbytes = 16, .dtype = SY_DTYPE_C64,
	                   .kind = SY_KIND_TENSOR, .rank = 1, .dims = {2}};
	assert_prints(&value, "[[1.0,-2.0],[0.5,0.0]]");
}

static void test_tensors_that_do_not_fit(void **state)
{
	static const uint8_t bytes[] = {1, 2, 3};
	sy_value value = {.data = bytes, .nbytes = 3, .dtype = SY_DTYPE_I16, .kind = SY_KIND_TENSOR,
	                  .rank = 1, .dims = {2}};
	(void)state;
	assert_prints(&value, "{\"$bytes\":\"AQID\"}");
	value.rank = SY_RANK_MAX + 1;
	assert_prints(&value, "{\"$bytes\":\"AQID\"}");
	value.rank = 2;
	value.dims[0] = value.dims[1] = UINT64_MAX;
	assert_prints(&value, "{\"$bytes\":\"AQID\"}");
	value.dtype = (sy_dtype)99;
	assert_prints(&value, "{\"$bytes\":\"AQID\"}");
}

static void test_other_kinds(void **state)
{
	(void)state;
	assert_kind(SY_KIND_UTF8, "a\"\\\n\x01\x7f\xc3\xa9", 8,
	            "\"a\\\"\\\\\\n\\u0001\\u007f\xc3\xa9\"");
	assert_kind(SY_KIND_UTF8, "", 0, "\"\"");
	assert_kind(SY_KIND_UTF8, "\xff", 1, "{\"$bytes\":\"/w==\"}");
	assert_kind(SY_KIND_BYTES, "", 0, "{\"$bytes\":\"\"}");
	assert_kind(SY_KIND_BYTES, "ab", 2, "{\"$bytes\":\"YWI=\"}");
	assert_kind(SY_KIND_MSGPACK, "\x01", 1, "{\"$msgpack\":\"AQ==\"}");
	assert_kind(SY_KIND_PICKLE, "abc", 3, "{\"$pickle\":\"YWJj\"}");
	assert_kind(SY_KIND_JSON_NULL, "", 0, "null");
	assert_kind(SY_KIND_JSON, "[1, 1.0,\n true]", 15, "[1,1.0,true]");
	assert_kind(SY_KIND_JSON, "[1,", 3, "{\"$bytes\":\"WzEs\"}");
	assert_kind(SY_KIND_JSON, "1 2", 3, "{\"$bytes\":\"MSAy\"}");
	assert_kind(SY_KIND_JSON, "", 0, "{\"$bytes\":\"\"}");
}

static void test_names(void **state)
{
	struct sy_text out = {0};
	(void)state;
	sy_string_print(&out, "a\xff\"", 3);
	sy_text_add_char(&out, '\0');
	assert_string_equal(out.data, "\"a\xef\xbf\xbd\\\"\"");
	sy_text_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_small_floats),
		cmocka_unit_test(test_floats_read_back),
		cmocka_unit_test(test_shapes),
		cmocka_unit_test(test_tensors_that_do_not_fit),
		cmocka_unit_test(test_other_kinds),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
