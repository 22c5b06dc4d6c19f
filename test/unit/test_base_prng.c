#include "harness.h"

#include "prng.h"

/* The published outputs of xoshiro256** from this state. */
static void test_next_is_xoshiro256(void **state)
{
	(void)state;
	struct sy_prng prng = {{1, 2, 3, 4}};
	const uint64_t expected[] = {11520, 0, 1509978240, 1215971899390074240u, 1216172134540287360u,
	                             607988272756665600u};
	for (size_t i = 0; i < COUNT_OF(expected); i++)
		assert_int_equal(sy_prng_next(&prng), expected[i]);
}

/* splitmix64 from seed 0 fills the state. */
static void test_seed(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, 0);
	assert_int_equal(prng.s[0], 0xe220a8397b1dcdafu);
	assert_int_equal(prng.s[1], 0x6e789e6aa1b965f4u);
	assert_int_equal(prng.s[2], 0x06c45d188009454fu);
	assert_int_equal(prng.s[3], 0xf88bb8a8724c81ecu);
}

static void test_equal_seeds_repeat_and_others_differ(void **state)
{
	(void)state;
	struct sy_prng a, b, c;
	sy_prng_seed(&a, 7);
	sy_prng_seed(&b, 7);
	sy_prng_seed(&c, 8);
	for (int i = 0; i < 100; i++) {
		uint64_t drawn = sy_prng_next(&a);
		assert_int_equal(drawn, sy_prng_next(&b));
		assert_int_not_equal(drawn, sy_prng_next(&c));
	}
}

static void test_below_stays_below_and_is_even(void **state)
{
	(void)state;
	struct sy_prng prng;
	uint32_t counts[10] = {0};
	sy_prng_seed(&prng, 1);
	for (int i = 0; i < 100000; i++) {
		uint64_t drawn = sy_prng_below(&prng, COUNT_OF(counts));
		assert_true(drawn < COUNT_OF(counts));
		counts[drawn]++;
	}
	for (size_t i = 0; i < COUNT_OF(counts); i++)
		assert_in_range(counts[i], 9600, 10400); /* 4 deviations; the seed is fixed */
	for (int i = 0; i < 100; i++)
		assert_int_equal(sy_prng_below(&prng, 1), 0);
}

/* With 3 * 2^62 a draw that is only scaled gives every third value twice the chance. */
static void test_below_is_even_for_large_bounds(void **state)
{
	(void)state;
	struct sy_prng prng;
	const uint64_t bound = (uint64_t)3 << 62;
	uint32_t counts[3] = {0};
	sy_prng_seed(&prng, 2);
	for (int i = 0; i < 30000; i++) {
		uint64_t drawn = sy_prng_below(&prng, bound);
		assert_true(drawn < bound);
		counts[drawn % 3]++;
	}
	for (size_t i = 0; i < COUNT_OF(counts); i++)
		assert_in_range(counts[i], 9600, 10400);
	assert_true(sy_prng_below(&prng, UINT64_MAX) < UINT64_MAX);
}

static void test_chance(void **state)
{
	(void)state;
	struct sy_prng prng;
	uint32_t hits = 0;
	sy_prng_seed(&prng, 3);
	for (int i = 0; i < 10000; i++) {
		assert_false(sy_prng_chance(&prng, 0));
		assert_true(sy_prng_chance(&prng, 100));
		hits += sy_prng_chance(&prng, 25);
	}
	assert_in_range(hits, 2300, 2700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_next_is_xoshiro256),
		cmocka_unit_test(test_seed),
		cmocka_unit_test(test_equal_seeds_repeat_and_others_differ),
		cmocka_unit_test(test_below_stays_below_and_is_even),
		cmocka_unit_test(test_below_is_even_for_large_bounds),
		cmocka_unit_test(test_chance),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
