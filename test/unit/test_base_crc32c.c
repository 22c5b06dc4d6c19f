#include "harness.h"

#include <string.h>

#include "crc32c.h"
#include "prng.h"

typedef uint32_t crc_fn(uint32_t crc, const void *data, size_t bytes);
static crc_fn *const both[] = {sy_crc32c, sy_crc32c_by_table};

/* RFC 3720, B.4, and the check value of the polynomial. */
static void test_known_values(void **state)
{
	(void)state;
	uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
	for (size_t i = 0; i < 32; i++) {
		ones[i] = 0xff;
		up[i] = (uint8_t)i;
		down[i] = (uint8_t)(31 - i);
	}
	for (size_t f = 0; f < COUNT_OF(both); f++) {
		assert_int_equal(both[f](0, NULL, 0), 0);
		assert_int_equal(both[f](0, "a", 1), 0xc1d04330u);
		assert_int_equal(both[f](0, "123456789", 9), 0xe3069283u);
		assert_int_equal(both[f](0, zeros, 32), 0x8a9136aau);
		assert_int_equal(both[f](0, ones, 32), 0x62a8ab43u);
		assert_int_equal(both[f](0, up, 32), 0x46dd794eu);
		assert_int_equal(both[f](0, down, 32), 0x113fdb5cu);
	}
}

enum { DATA_BYTES = 600 };

static void fill(struct sy_prng *prng, uint8_t data[DATA_BYTES])
{
	sy_prng_seed(prng, harness_seed());
	for (size_t i = 0; i < DATA_BYTES; i++)
		data[i] = (uint8_t)sy_prng_next(prng);
}

static void test_both_agree_at_any_alignment_and_split(void **state)
{
	(void)state;
	struct sy_prng prng;
	uint8_t data[DATA_BYTES];
	fill(&prng, data);
	for (int round = 0; round < 20000; round++) {
		size_t at = sy_prng_below(&prng, 32);
		size_t bytes = sy_prng_below(&prng, sizeof data - at + 1);
		size_t split = sy_prng_below(&prng, bytes + 1);
		uint32_t whole = sy_crc32c_by_table(0, data + at, bytes);
		assert_int_equal(sy_crc32c(0, data + at, bytes), whole);
		for (size_t f = 0; f < COUNT_OF(both); f++) {
			uint32_t head = both[f](0, data + at, split);
			assert_int_equal(both[f](head, data + at + split, bytes - split), whole);
		}
	}
}

static void test_runs_side_by_side(void **state)
{
	(void)state;
	struct sy_prng prng;
	uint8_t data[DATA_BYTES];
	fill(&prng, data);
	for (int round = 0; round < 2000; round++) {
		size_t count = sy_prng_below(&prng, 8), bytes = sy_prng_below(&prng, 61);
		size_t stride = bytes + sy_prng_below(&prng, 20);
		uint32_t crc = (uint32_t)sy_prng_next(&prng), sums[8] = {0};
		sy_crc32c_runs(crc, data, stride, bytes, count, sums);
		for (size_t i = 0; i < count; i++)
			assert_int_equal(sums[i], sy_crc32c_by_table(crc, data + i * stride, bytes));
		assert_int_equal(sums[count], 0);
	}
}

static void test_every_flipped_bit_shows(void **state)
{
	(void)state;
	uint8_t data[37];
	memset(data, 0x3c, sizeof data);
	uint32_t right = sy_crc32c(0, data, sizeof data);
	for (size_t bit = 0; bit < sizeof data * 8; bit++) {
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_not_equal(sy_crc32c(0, data, sizeof data), right);
		data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_values),
		cmocka_unit_test(test_both_agree_at_any_alignment_and_split),
		cmocka_unit_test(test_runs_side_by_side),
		cmocka_unit_test(test_every_flipped_bit_shows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
