/* What is kept for the next get stays ours while gets follow each other, and may be taken by the
 * kernel after that. */
#include "harness.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "clock.h"

enum { LARGE_BYTES = 64 << 20, REST_S = 3 };

static uint64_t after_ns(uint64_t seconds)
{
	return sy_clock_now_ns() + seconds * 1000000000u;
}

/* KiB of the mapping with this address that the kernel may not take. */
static long held_kib(const void *address)
{
	uintptr_t at = (uintptr_t)address;
	unsigned long from, to;
	long rss = 0, lazy = 0, value;
	bool ours = false;
	char line[512];
	FILE *maps = fopen("/proc/self/smaps", "r");

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps) != NULL) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			ours = from <= at && at < to;
		else if (ours && sscanf(line, "Rss: %ld", &value) == 1)
			rss = value;
		else if (ours && sscanf(line, "LazyFree: %ld", &value) == 1)
			lazy = value;
	}
	fclose(maps);
	return rss - lazy;
}

/* A block as a get uses it; where it lay. */
static uint8_t *used_block_of(size_t bytes)
{
	uint8_t *block = sy_block_new(bytes);

	assert_non_null(block);
	assert_int_equal((uintptr_t)block % 64, 0);
	memset(block, 7, bytes);
	sy_block_free(block, bytes);
	return block;
}

static uint8_t *used_block(void)
{
	return used_block_of(LARGE_BYTES);
}

static void test_kept_while_it_is_used(void **state)
{
	(void)state;
	sy_block_tend(true);
	const uint8_t *block = used_block();
	sy_block_rest(after_ns(REST_S - 1));
	assert_int_equal(held_kib(block), LARGE_BYTES / 1024);
	assert_ptr_equal(used_block(), block);
	sy_block_tend(false);
}

static void test_taken_after_a_rest(void **state)
{
	(void)state;
	sy_block_tend(true);
	const uint8_t *block = used_block();
	sy_block_rest(after_ns(REST_S + 1));
	assert_int_equal(held_kib(block), 0);
	/* It is for use again. */
	assert_ptr_equal(used_block(), block);
	assert_int_equal(held_kib(block), LARGE_BYTES / 1024);
	sy_block_tend(false);
}

/* Whoever tends it has other things to look at in between. */
static void test_taken_in_parts(void **state)
{
	enum { PARTS = 2, PART_BYTES = 256 << 20 };

	(void)state;
	sy_block_tend(true);
	sy_block_rest(after_ns(REST_S + 1)); /* what other tests have left */
	const uint8_t *block = used_block_of((size_t)PARTS * PART_BYTES);
	for (int left = PARTS - 1; left >= 0; left--) {
		assert_int_equal(sy_block_rest(after_ns(REST_S + 1)), left > 0);
		assert_int_equal(held_kib(block), (long)left * PART_BYTES / 1024);
	}
	sy_block_tend(false);
}

static void test_taken_when_nobody_tends_it(void **state)
{
	(void)state;
	sy_block_tend(true);
	const uint8_t *block = used_block();
	assert_int_equal(held_kib(block), LARGE_BYTES / 1024);
	sy_block_tend(false);
	assert_int_equal(held_kib(block), 0);
	assert_ptr_equal(used_block(), block);
	assert_int_equal(held_kib(block), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept_while_it_is_used),
		cmocka_unit_test(test_taken_after_a_rest),
		cmocka_unit_test(test_taken_in_parts),
		cmocka_unit_test(test_taken_when_nobody_tends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
