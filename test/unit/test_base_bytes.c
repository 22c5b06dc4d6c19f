#include "harness.h"

#include "bytes.h"

static void test_loads_and_stores_are_little_endian_at_any_alignment(void **state)
{
	(void)state;
	for (size_t at = 0; at < 8; at++) {
		uint8_t buffer[24] = {0};
		sy_store_u64(buffer + at, 0x1122334455667788u);
		assert_int_equal(buffer[at], 0x88);
		assert_int_equal(buffer[at + 7], 0x11);
		assert_int_equal(buffer[at + 8], 0);
		assert_int_equal(sy_load_u64(buffer + at), 0x1122334455667788u);
		assert_int_equal(sy_load_u32(buffer + at), 0x55667788u);
		assert_int_equal(sy_load_u16(buffer + at), 0x7788u);
		sy_store_u32(buffer + at, 0xaabbccddu);
		assert_int_equal(sy_load_u64(buffer + at), 0x11223344aabbccddu);
		sy_store_u16(buffer + at, 0xeeff);
		assert_int_equal(sy_load_u64(buffer + at), 0x11223344aabbeeffu);
	}
}

static void test_align_up(void **state)
{
	(void)state;
	assert_int_equal(sy_align_up(0, 64), 0);
	assert_int_equal(sy_align_up(1, 64), 64);
	assert_int_equal(sy_align_up(63, 64), 64);
	assert_int_equal(sy_align_up(64, 64), 64);
	assert_int_equal(sy_align_up(65, 64), 128);
	assert_int_equal(sy_align_up(((uint64_t)1 << 62) + 1, 1u << 21),
	                 ((uint64_t)1 << 62) + (1u << 21));
}

static void test_span_equal(void **state)
{
	(void)state;
	const uint8_t data[] = {1, 2, 3, 1, 2, 4};
	struct sy_span empty = {NULL, 0};
	assert_true(sy_span_equal(empty, (struct sy_span){data, 0}));
	assert_true(sy_span_equal((struct sy_span){data, 2}, (struct sy_span){data + 3, 2}));
	assert_false(sy_span_equal((struct sy_span){data, 3}, (struct sy_span){data + 3, 3}));
	assert_false(sy_span_equal((struct sy_span){data, 3}, (struct sy_span){data, 2}));
}

static void test_min_max(void **state)
{
	(void)state;
	assert_int_equal(sy_min_u64(3, UINT64_MAX), 3);
	assert_int_equal(sy_min_u64(UINT64_MAX, 3), 3);
	assert_int_equal(sy_max_u64(3, UINT64_MAX), UINT64_MAX);
	assert_int_equal(sy_max_u64(UINT64_MAX, 3), UINT64_MAX);
}

/* The finaliser of splitmix64: its published outputs for seed 0 are mix64(k * golden). */
static void test_mix64(void **state)
{
	(void)state;
	const uint64_t golden = 0x9e3779b97f4a7c15u;
	assert_int_equal(sy_mix64(golden), 0xe220a8397b1dcdafu);
	assert_int_equal(sy_mix64(golden * 2), 0x6e789e6aa1b965f4u);
	assert_int_equal(sy_mix64(golden * 3), 0x06c45d188009454fu);
}

static void test_range32_stays_in_range_and_reaches_all(void **state)
{
	(void)state;
	assert_int_equal(sy_range32(0, 7), 0);
	assert_int_equal(sy_range32(UINT32_MAX, 7), 6);
	assert_int_equal(sy_range32(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1);
	assert_int_equal(sy_range32(UINT32_MAX, 1), 0);
	assert_int_equal(sy_range32(1u << 31, 8), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads_and_stores_are_little_endian_at_any_alignment),
		cmocka_unit_test(test_align_up),
		cmocka_unit_test(test_span_equal),
		cmocka_unit_test(test_min_max),
		cmocka_unit_test(test_mix64),
		cmocka_unit_test(test_range32_stays_in_range_and_reaches_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
