/* Buffers for what goes out, scratch for what comes in. */
#include "harness.h"

#include <string.h>

#include "buf.h"
#include "prng.h"
#include "scratch.h"

/* The linker sends every call of realloc here, so that memory runs short when a test says so. */
void *__real_realloc(void *data, size_t bytes);
void *__wrap_realloc(void *data, size_t bytes);

static bool memory_short;

void *__wrap_realloc(void *data, size_t bytes)
{
	return memory_short ? NULL : __real_realloc(data, bytes);
}

static void test_appends_keep_order_and_content(void **state)
{
	(void)state;
	struct sy_prng prng;
	struct sy_buf buf = {0};
	static uint8_t expected[1 << 20];
	uint8_t piece[4000];
	size_t at = 0;
	sy_prng_seed(&prng, harness_seed());
	while (at < sizeof expected - sizeof piece) {
		size_t bytes = (size_t)sy_prng_below(&prng, sizeof piece);
		for (size_t i = 0; i < bytes; i++)
			piece[i] = (uint8_t)sy_prng_next(&prng);
		memcpy(expected + at, piece, bytes);
		if (sy_prng_chance(&prng, 50)) {
			sy_buf_append(&buf, piece, bytes);
		} else {
			void *room = sy_buf_extend(&buf, bytes);
			assert_non_null(room);
			memcpy(room, piece, bytes);
		}
		at += bytes;
		assert_int_equal(buf.bytes, at);
		assert_true(buf.capacity >= at);
	}
	assert_false(buf.failed);
	assert_memory_equal(buf.data, expected, at);
	sy_buf_free(&buf);
}

static void test_reset_keeps_the_memory(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	sy_buf_append(&buf, "abc", 3);
	uint8_t *data = buf.data;
	size_t capacity = buf.capacity;
	sy_buf_reset(&buf);
	assert_int_equal(buf.bytes, 0);
	sy_buf_append(&buf, "x", 1);
	assert_ptr_equal(buf.data, data);
	assert_int_equal(buf.capacity, capacity);
	assert_int_equal(buf.data[0], 'x');
	sy_buf_free(&buf);
	assert_null(buf.data);
	sy_buf_free(&buf);
	sy_buf_free(NULL);
}

static void test_nothing_appended_is_not_a_failure(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	assert_non_null(sy_buf_extend(&buf, 0));
	sy_buf_append(&buf, NULL, 0);
	assert_int_equal(buf.bytes, 0);
	assert_false(buf.failed);
	sy_buf_free(&buf);
}

static void test_the_limit(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	assert_non_null(sy_buf_extend(&buf, SY_BUF_MAX_BYTES));
	assert_false(buf.failed);
	assert_non_null(sy_buf_extend(&buf, 0));
	assert_null(sy_buf_extend(&buf, 1));
	assert_true(buf.failed);
	assert_int_equal(buf.bytes, SY_BUF_MAX_BYTES);
	sy_buf_reset(&buf);
	assert_false(buf.failed);
	sy_buf_append(&buf, "abc", 3);
	assert_null(sy_buf_extend(&buf, SIZE_MAX)); /* a sum that would wrap */
	assert_true(buf.failed);
	assert_null(sy_buf_extend(&buf, 1)); /* a failure stays */
	sy_buf_append(&buf, "d", 1);
	assert_int_equal(buf.bytes, 3);
	sy_buf_free(&buf);
}

static void test_memory_that_runs_short(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	memory_short = true;
	assert_null(sy_buf_extend(&buf, 1));
	assert_true(buf.failed);
	memory_short = false;
	assert_null(sy_buf_extend(&buf, 1)); /* what was lost stays lost */
	sy_buf_reset(&buf);
	sy_buf_append(&buf, "abc", 3);
	memory_short = true;
	sy_buf_append(&buf, "def", 3); /* fits what is there */
	assert_false(buf.failed);
	assert_null(sy_buf_extend(&buf, buf.capacity));
	assert_true(buf.failed);
	assert_int_equal(buf.bytes, 6);
	assert_memory_equal(buf.data, "abcdef", 6);
	memory_short = false;
	sy_buf_free(&buf);
}

static void test_scratch_is_aligned_and_bounded(void **state)
{
	(void)state;
	_Alignas(16) uint8_t memory[64];
	struct sy_scratch scratch = {.data = memory, .bytes = sizeof memory};
	assert_ptr_equal(sy_scratch_take(&scratch, 1), memory);
	assert_ptr_equal(sy_scratch_take(&scratch, 17), memory + 16);
	assert_int_equal(scratch.used, 33);
	assert_null(sy_scratch_take(&scratch, 17));
	assert_null(sy_scratch_take(&scratch, SIZE_MAX));
	assert_null(sy_scratch_take(&scratch, SIZE_MAX - 47));
	assert_int_equal(scratch.used, 33); /* a refusal takes nothing */
	assert_ptr_equal(sy_scratch_take(&scratch, 16), memory + 48);
	assert_ptr_equal(sy_scratch_take(&scratch, 0), memory + 64);
	assert_null(sy_scratch_take(&scratch, 1));
	scratch.used = 0;
	assert_ptr_equal(sy_scratch_take(&scratch, 64), memory);
}

static void test_scratch_of_odd_size_and_of_none(void **state)
{
	(void)state;
	_Alignas(16) uint8_t memory[64];
	struct sy_scratch odd = {.data = memory, .bytes = 19};
	assert_non_null(sy_scratch_take(&odd, 18));
	assert_null(sy_scratch_take(&odd, 0)); /* the next place is past the end */
	struct sy_scratch none = {0};
	assert_null(sy_scratch_take(&none, 1));
	assert_null(sy_scratch_take(&none, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_appends_keep_order_and_content),
		cmocka_unit_test(test_reset_keeps_the_memory),
		cmocka_unit_test(test_nothing_appended_is_not_a_failure),
		cmocka_unit_test(test_the_limit),
		cmocka_unit_test(test_memory_that_runs_short),
		cmocka_unit_test(test_scratch_is_aligned_and_bounded),
		cmocka_unit_test(test_scratch_of_odd_size_and_of_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
