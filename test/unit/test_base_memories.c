/* Registered memory: what covers a range, what may be given back, and what is in doubt. */
#include "harness.h"

#include "buffers.h"
#include "prng.h"

enum { MEMORIES = 6, TRANSFERS = 24, SPACE = 1000, STEPS = 40000 };

static void test_a_range_must_lie_wholly_in_one_registration(void **state)
{
	(void)state;
	struct sy_memories memories = {0};
	struct sy_memory a, b;

	assert_null(sy_memories_find(&memories, 100, 1));
	sy_memories_add(&memories, &a, 100, 50);
	sy_memories_add(&memories, &b, 150, 50);
	assert_ptr_equal(sy_memories_find(&memories, 100, 50), &a);
	assert_ptr_equal(sy_memories_find(&memories, 199, 1), &b);
	assert_null(sy_memories_find(&memories, 99, 1));
	assert_null(sy_memories_find(&memories, 199, 2));
	assert_null(sy_memories_find(&memories, 149, 2)); /* partly in each */
	assert_null(sy_memories_find(&memories, 100, UINT64_MAX));
	assert_null(sy_memories_find(&memories, UINT64_MAX, 1));
}

static void test_what_is_held_is_not_given_back(void **state)
{
	(void)state;
	struct sy_memories memories = {0};
	struct sy_memory a, twice, *removed = NULL;
	struct sy_holds holds = {0};

	sy_memories_add(&memories, &a, 100, 50);
	assert_int_equal(sy_memories_remove(&memories, 100, 49, &removed), SY_MEMORIES_UNKNOWN);
	assert_int_equal(sy_memories_remove(&memories, 101, 49, &removed), SY_MEMORIES_UNKNOWN);
	assert_true(sy_holds_take(&holds, &a, 110, 10, false));
	assert_true(sy_holds_take(&holds, &a, 140, 10, false)); /* the same hold, wider */
	assert_int_equal(holds.count, 1);
	assert_int_equal(sy_memories_remove(&memories, 100, 50, &removed), SY_MEMORIES_HELD);
	sy_memories_add(&memories, &twice, 100, 50);
	assert_int_equal(sy_memories_remove(&memories, 100, 50, &removed), SY_MEMORIES_REMOVED);
	assert_ptr_equal(removed, &twice); /* of the two the one that nobody holds */
	sy_holds_bury(&holds);
	assert_int_equal(sy_memories_remove(&memories, 100, 50, &removed), SY_MEMORIES_HELD);
	sy_holds_end(&holds);
	assert_int_equal(sy_memories_remove(&memories, 100, 50, &removed), SY_MEMORIES_REMOVED);
	assert_ptr_equal(removed, &a);
	assert_null(memories.first);
}

static void test_what_a_read_that_was_given_up_may_write_is_in_doubt(void **state)
{
	(void)state;
	struct sy_memories memories = {0};
	struct sy_memory a, over;
	struct sy_holds reads = {0}, writes = {0};

	sy_memories_add(&memories, &a, 100, 100);
	sy_memories_add(&memories, &over, 0, 1000);
	assert_true(sy_holds_take(&reads, &a, 120, 20, true));
	assert_true(sy_holds_take(&writes, &a, 160, 20, false));
	assert_false(sy_memories_doubt(&memories, 120, 20)); /* they run */
	sy_holds_bury(&reads);
	sy_holds_bury(&writes);
	assert_true(sy_memories_doubt(&memories, 139, 1));
	assert_true(sy_memories_doubt(&memories, 0, 121));
	assert_false(sy_memories_doubt(&memories, 140, 20));
	assert_false(sy_memories_doubt(&memories, 119, 1));
	assert_false(sy_memories_doubt(&memories, 160, 20)); /* a WRITE changes nothing here */
	sy_holds_end(&reads);
	assert_false(sy_memories_doubt(&memories, 120, 20));
	sy_holds_end(&writes);
	assert_int_equal(memories.doubt_count, 0);
}

static void test_a_transfer_holds_so_many_and_no_more(void **state)
{
	(void)state;
	struct sy_memories memories = {0};
	struct sy_memory each[SY_HOLDS_MAX + 1];
	struct sy_holds holds = {0};

	for (uint64_t i = 0; i <= SY_HOLDS_MAX; i++) {
		sy_memories_add(&memories, &each[i], 100 * (i + 1), 100);
		assert_int_equal(sy_holds_take(&holds, &each[i], 100 * (i + 1), 1, true),
		                 i < SY_HOLDS_MAX);
	}
	assert_true(sy_holds_take(&holds, &each[0], 150, 50, true));
	assert_null(each[SY_HOLDS_MAX].holds);
	sy_holds_end(&holds);
	for (uint64_t i = 0; i <= SY_HOLDS_MAX; i++)
		assert_null(each[i].holds);
}

static void test_a_grave_holds_until_its_memory_is_safe(void **state)
{
	(void)state;
	const struct sy_buffers_config config = {.base_count = 1, .base_bytes = 1,
	                                         .graveyard_max_bytes = 1000};
	struct sy_buffers buffers;
	struct sy_memories memories = {0};
	struct sy_memory a, *removed;
	bool drained = true;

	sy_buffers_init(&buffers, &config);
	sy_memories_add(&memories, &a, 100, 100);
	for (int write = 0; write < 2; write++) {
		struct sy_grave grave = {.nbytes = 100, .write = write != 0, .name = {.session = 5}};

		assert_true(sy_holds_take(&grave.holds, &a, 100, 100, write == 0));
		assert_true(sy_buffers_bury(&buffers, &grave));
		assert_true(sy_buffers_in_flight(&grave));
		assert_false(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_CANCELED, &drained));
		assert_int_equal(sy_memories_doubt(&memories, 100, 1), write == 0);
		assert_int_equal(sy_memories_remove(&memories, 100, 100, &removed), SY_MEMORIES_HELD);
		/* A WRITE is not out yet, and its memory is. */
		assert_int_equal(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_FLUSHED, &drained),
		                 write == 0);
		assert_null(a.holds);
		assert_int_equal(sy_buffers_in_flight(&grave), write != 0);
		if (write != 0)
			assert_true(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_LEFT, &drained));
	}
	assert_false(sy_memories_doubt(&memories, 100, 100));
	/* One that used the pool's buffers alone touches nothing of its caller's. */
	struct sy_grave copied = {.nbytes = 1};
	sy_buffers_bury(&buffers, &copied);
	assert_false(sy_buffers_in_flight(&copied));
}

/* A READ into memory that could not be registered ends in a buffer of the pool. */
static void test_what_is_copied_after_all_is_not_in_doubt(void **state)
{
	(void)state;
	const struct sy_buffers_config config = {.base_count = 1, .base_bytes = 1,
	                                         .graveyard_max_bytes = 1000};
	struct sy_buffers buffers;
	struct sy_memories memories = {0};
	struct sy_memory a, b, *removed;
	struct sy_grave grave = {.nbytes = 100};
	bool drained;

	sy_buffers_init(&buffers, &config);
	sy_memories_add(&memories, &a, 100, 100);
	sy_memories_add(&memories, &b, 300, 100);
	assert_true(sy_holds_take(&grave.holds, &a, 100, 100, true));
	assert_true(sy_holds_take(&grave.holds, &b, 300, 100, true));
	sy_holds_copied(&grave.holds, 0);
	assert_true(sy_holds_land(&grave.holds));
	sy_holds_copied(&grave.holds, 1);
	assert_false(sy_holds_land(&grave.holds));
	assert_true(sy_buffers_bury(&buffers, &grave));
	assert_false(sy_buffers_in_flight(&grave));
	assert_false(sy_memories_doubt(&memories, 100, 300));
	assert_int_equal(memories.doubt_count, 0);
	assert_true(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_FLUSHED, &drained));
	assert_int_equal(memories.doubt_count, 0);
	assert_int_equal(sy_memories_remove(&memories, 100, 100, &removed), SY_MEMORIES_REMOVED);
	assert_int_equal(sy_memories_remove(&memories, 300, 100, &removed), SY_MEMORIES_REMOVED);
}

/* What the accounts should say, by looking at all there is. */
struct world {
	struct sy_memories memories;
	struct sy_memory memory[MEMORIES];
	bool there[MEMORIES];
	struct sy_holds holds[TRANSFERS];
	bool lands[TRANSFERS], buried[TRANSFERS];
	struct sy_prng prng;
};

static uint64_t draw(struct world *w, uint64_t bound)
{
	return sy_prng_below(&w->prng, bound);
}

static bool doubt(const struct world *w, uint64_t addr, uint64_t nbytes)
{
	for (uint32_t t = 0; t < TRANSFERS; t++) {
		for (uint32_t i = 0; w->buried[t] && w->lands[t] && i < w->holds[t].count; i++) {
			const struct sy_hold *hold = &w->holds[t].each[i];

			if (addr < hold->to && hold->from < addr + nbytes)
				return true;
		}
	}
	return false;
}

static bool is_held(const struct world *w, const struct sy_memory *memory)
{
	for (uint32_t t = 0; t < TRANSFERS; t++) {
		for (uint32_t i = 0; i < w->holds[t].count; i++) {
			if (w->holds[t].each[i].memory == memory)
				return true;
		}
	}
	return false;
}

static void change_memory(struct world *w)
{
	uint64_t m = draw(w, MEMORIES);
	struct sy_memory *removed = NULL, *memory = &w->memory[m];

	if (!w->there[m]) {
		uint64_t addr = 1 + draw(w, SPACE);

		sy_memories_add(&w->memories, memory, addr, 1 + draw(w, SPACE));
		w->there[m] = true;
		return;
	}
	enum sy_memories_answer answer =
		sy_memories_remove(&w->memories, memory->addr, memory->nbytes, &removed);
	assert_int_not_equal(answer, SY_MEMORIES_UNKNOWN);
	if (answer == SY_MEMORIES_REMOVED) {
		assert_false(is_held(w, removed));
		w->there[removed - w->memory] = false;
	} else {
		assert_true(is_held(w, memory));
	}
}

static void change_transfer(struct world *w, uint32_t t)
{
	struct sy_holds *holds = &w->holds[t];
	uint64_t what = draw(w, 6), addr = draw(w, 2 * SPACE), nbytes = 1 + draw(w, SPACE / 2);

	if (holds->count == 0) {
		w->lands[t] = draw(w, 2) == 0;
		w->buried[t] = false;
	}
	if (what == 0) {
		sy_holds_end(holds);
		w->buried[t] = false;
	} else if (what == 1 && !w->buried[t] && holds->count > 0) {
		sy_holds_bury(holds);
		w->buried[t] = true;
	} else if (!w->buried[t]) {
		struct sy_memory *found = sy_memories_find(&w->memories, addr, nbytes);

		if (found == NULL)
			return;
		assert_true(addr >= found->addr && addr + nbytes <= found->addr + found->nbytes);
		(void)sy_holds_take(holds, found, addr, nbytes, w->lands[t]);
	}
}

static void test_accounts_agree_whatever_happens(void **state)
{
	(void)state;
	struct world *w = calloc(1, sizeof *w);

	assert_non_null(w);
	sy_prng_seed(&w->prng, harness_seed());
	for (int step = 0; step < STEPS; step++) {
		uint64_t addr = draw(w, 2 * SPACE), nbytes = 1 + draw(w, 50);

		change_memory(w);
		change_transfer(w, (uint32_t)draw(w, TRANSFERS));
		assert_int_equal(sy_memories_doubt(&w->memories, addr, nbytes), doubt(w, addr, nbytes));
	}
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_range_must_lie_wholly_in_one_registration),
		cmocka_unit_test(test_what_is_held_is_not_given_back),
		cmocka_unit_test(test_what_a_read_that_was_given_up_may_write_is_in_doubt),
		cmocka_unit_test(test_a_transfer_holds_so_many_and_no_more),
		cmocka_unit_test(test_a_grave_holds_until_its_memory_is_safe),
		cmocka_unit_test(test_what_is_copied_after_all_is_not_in_doubt),
		cmocka_unit_test(test_accounts_agree_whatever_happens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
