#include "harness.h"

#include <string.h>

#include "copy.h"
#include "prng.h"

enum {
	GUARD_BYTES = 128,
	MAX_BYTES = (1 << 20) + 4096,
	BUFFER_BYTES = MAX_BYTES + 2 * GUARD_BYTES,
};

struct copy_test {
	uint8_t *from;
	uint8_t *to;
	uint8_t *expected;
};

/* The destination starts as 0xa5 all over; the whole of it is compared, so a byte too many shows
 * as well as a byte too few. */
static void check(struct copy_test *test, size_t from_at, size_t to_at, size_t bytes)
{
	const size_t wholes[] = {bytes, BUFFER_BYTES, 0};
	memset(test->expected, 0xa5, BUFFER_BYTES);
	memcpy(test->expected + to_at, test->from + from_at, bytes);
	for (size_t i = 0; i < COUNT_OF(wholes); i++) {
		memset(test->to, 0xa5, BUFFER_BYTES);
		sy_copy(test->to + to_at, test->from + from_at, bytes, wholes[i]);
		sy_copy_fence();
		if (memcmp(test->to, test->expected, BUFFER_BYTES) != 0)
			fail_msg("%zu bytes of %zu from offset %zu to offset %zu", bytes, wholes[i], from_at,
			         to_at);
	}
}

static void test_small_sizes(void **state)
{
	struct copy_test *test = *state;
	const size_t sizes[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 128, 4095, 4096, 4097};
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		for (size_t at = 0; at < 3; at++)
			check(test, GUARD_BYTES + at, GUARD_BYTES + 2 * at, sizes[i]);
	}
	sy_copy(NULL, NULL, 0, 0);
}

/* Around the size where streaming starts, and where whole lines end. */
static void test_sizes_around_the_switch(void **state)
{
	struct copy_test *test = *state;
	const size_t switch_bytes = 256u << 10;
	const size_t steps[] = {0, 1, 63, 64, 65, 4095, 4096, 4097};
	for (size_t i = 0; i < COUNT_OF(steps); i++) {
		check(test, GUARD_BYTES, GUARD_BYTES, switch_bytes + steps[i]);
		check(test, GUARD_BYTES, GUARD_BYTES, switch_bytes - steps[i]);
		check(test, GUARD_BYTES + 5, GUARD_BYTES + 1, switch_bytes + steps[i]);
	}
}

static void test_every_alignment(void **state)
{
	struct copy_test *test = *state;
	for (size_t at = 0; at < 64; at++) {
		check(test, GUARD_BYTES, GUARD_BYTES + at, 300000);
		check(test, GUARD_BYTES + at, GUARD_BYTES, 300000);
		check(test, GUARD_BYTES + 63 - at, GUARD_BYTES + at, 300000);
	}
}

static void test_random(void **state)
{
	struct copy_test *test = *state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 100; i++) {
		size_t bytes = sy_prng_below(&prng, MAX_BYTES + 1);
		size_t room = BUFFER_BYTES - bytes + 1;
		check(test, sy_prng_below(&prng, room), sy_prng_below(&prng, room), bytes);
	}
}

static int set_up(void **state)
{
	static struct copy_test test;
	struct sy_prng prng;
	test.from = malloc(BUFFER_BYTES);
	test.to = malloc(BUFFER_BYTES);
	test.expected = malloc(BUFFER_BYTES);
	if (test.from == NULL || test.to == NULL || test.expected == NULL)
		return -1;
	sy_prng_seed(&prng, 5);
	for (size_t i = 0; i < BUFFER_BYTES; i++)
		test.from[i] = (uint8_t)sy_prng_next(&prng);
	*state = &test;
	return 0;
}

static int tear_down(void **state)
{
	struct copy_test *test = *state;
	free(test->from);
	free(test->to);
	free(test->expected);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_sizes),
		cmocka_unit_test(test_sizes_around_the_switch),
		cmocka_unit_test(test_every_alignment),
		cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
