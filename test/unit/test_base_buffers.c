/* The pool and the graveyard: what is given out, what never again, and when all is over. */
#include "harness.h"

#include "buffers.h"
#include "prng.h"

enum { BASE = 1000, MANY = 64, STEPS = 20000 };

static const struct sy_buffers_config SMALL = {
	.base_count = 2, .base_bytes = BASE, .pool_max_bytes = 8192, .graveyard_max_bytes = 5000};

/* Takes one and, if it is to be made, says that it is. */
static struct sy_buffer *take(struct sy_buffers *buffers, uint64_t nbytes, struct sy_buffer *room)
{
	struct sy_buffer *got = NULL;
	uint64_t bytes = 0;
	enum sy_buffers_answer answer = sy_buffers_take(buffers, nbytes, &got, &bytes);

	if (answer == SY_BUFFERS_READY)
		return got;
	if (answer != SY_BUFFERS_MAKE)
		return NULL;
	sy_buffers_made(buffers, room, bytes);
	return room;
}

static enum sy_buffers_answer answer_to(struct sy_buffers *buffers, uint64_t nbytes)
{
	struct sy_buffer *got;
	uint64_t bytes;

	return sy_buffers_take(buffers, nbytes, &got, &bytes);
}

static void test_base_buffers_are_made_once_and_used_again(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	struct sy_buffer rooms[3];

	sy_buffers_init(&buffers, &SMALL);
	struct sy_buffer *first = take(&buffers, 10, &rooms[0]);
	struct sy_buffer *second = take(&buffers, BASE, &rooms[1]);
	assert_ptr_equal(first, &rooms[0]);
	assert_int_equal(first->nbytes, BASE);
	assert_int_equal(answer_to(&buffers, 1), SY_BUFFERS_WAIT);
	sy_buffers_give(&buffers, second);
	assert_ptr_equal(take(&buffers, 500, &rooms[2]), second);
	assert_null(sy_buffers_audit(&buffers));
	assert_null(sy_buffers_drop(&buffers));
}

static void test_large_ones_are_kept_by_last_use_up_to_the_pools_bound(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	struct sy_buffer rooms[4];

	sy_buffers_init(&buffers, &SMALL);
	struct sy_buffer *two = take(&buffers, 1025, &rooms[0]);
	struct sy_buffer *four = take(&buffers, 4096, &rooms[1]);
	assert_int_equal(two->nbytes, 2048); /* rounded to a power of two */
	assert_int_equal(answer_to(&buffers, 2049), SY_BUFFERS_WAIT); /* both are in use */
	assert_int_equal(answer_to(&buffers, 8193), SY_BUFFERS_TOO_LARGE);
	assert_int_equal(answer_to(&buffers, UINT64_MAX), SY_BUFFERS_TOO_LARGE);
	sy_buffers_give(&buffers, two);
	assert_ptr_equal(take(&buffers, 2000, &rooms[2]), two);
	sy_buffers_give(&buffers, two);
	sy_buffers_give(&buffers, four);
	/* The one that was used longest ago makes room. */
	assert_ptr_equal(take(&buffers, 4097, &rooms[2]), &rooms[2]);
	assert_ptr_equal(sy_buffers_drop(&buffers), two);
	assert_ptr_equal(sy_buffers_drop(&buffers), four);
	assert_null(sy_buffers_drop(&buffers));
	assert_null(sy_buffers_audit(&buffers));
}

/* What is free stays where dropping it would not be enough: it would be registered anew. */
static void test_a_large_one_that_has_no_room_drops_none(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	struct sy_buffer rooms[4];

	sy_buffers_init(&buffers, &SMALL);
	struct sy_buffer *four = take(&buffers, 4096, &rooms[0]);
	struct sy_buffer *two = take(&buffers, 2048, &rooms[1]);
	sy_buffers_give(&buffers, two);
	assert_int_equal(answer_to(&buffers, 8192), SY_BUFFERS_WAIT);
	assert_null(sy_buffers_drop(&buffers));
	assert_ptr_equal(take(&buffers, 2048, &rooms[2]), two);
	sy_buffers_give(&buffers, two);
	sy_buffers_give(&buffers, four);
	assert_ptr_equal(take(&buffers, 8192, &rooms[3]), &rooms[3]);
	assert_null(sy_buffers_audit(&buffers));
}

static void test_a_buffer_in_flight_is_replaced_and_comes_back_when_it_is_safe(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	struct sy_buffer rooms[3];
	bool drained = false;

	sy_buffers_init(&buffers, &SMALL);
	struct sy_buffer *a = take(&buffers, 1, &rooms[0]);
	struct sy_grave grave = {.buffer = a, .nbytes = a->nbytes, .write = true,
	                         .name = {.session = 5, .seq = 1}};
	assert_true(sy_buffers_bury(&buffers, &grave));
	assert_ptr_equal(take(&buffers, 1, &rooms[1]), &rooms[1]); /* not the one in flight */
	assert_ptr_equal(take(&buffers, 1, &rooms[2]), &rooms[2]);
	assert_int_equal(answer_to(&buffers, 1), SY_BUFFERS_WAIT);
	assert_false(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_FAILED, &drained));
	assert_false(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_CANCELED, &drained));
	assert_int_equal(answer_to(&buffers, 1), SY_BUFFERS_WAIT);
	assert_true(sy_buffers_ended(&buffers, &grave, SY_TRANSFER_DONE, &drained));
	assert_true(drained);
	/* Its place was taken: it goes. */
	assert_ptr_equal(sy_buffers_drop(&buffers), a);
	assert_int_equal(answer_to(&buffers, 1), SY_BUFFERS_WAIT);
	assert_null(sy_buffers_audit(&buffers));
	assert_int_equal(buffers.buried_bytes, 0);
}

static void test_only_a_write_that_was_seen_done_is_drained(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	bool drained = true;

	sy_buffers_init(&buffers, &SMALL);
	struct sy_grave write = {.nbytes = 1, .write = true, .name = {.session = 5}};
	struct sy_grave read = {.nbytes = 1, .name = {.session = 5}};
	struct sy_grave nameless = {.nbytes = 1, .write = true};
	sy_buffers_bury(&buffers, &write);
	sy_buffers_bury(&buffers, &read);
	sy_buffers_bury(&buffers, &nameless);
	assert_false(sy_buffers_ended(&buffers, &write, SY_TRANSFER_CANCELED, &drained));
	assert_false(sy_buffers_ended(&buffers, &write, SY_TRANSFER_FLUSHED, &drained));
	assert_int_equal(buffers.buried_bytes, 2); /* its memory is safe; its region is not */
	assert_true(sy_buffers_ended(&buffers, &write, SY_TRANSFER_LEFT, &drained));
	assert_false(drained);
	sy_buffers_bury(&buffers, &write);
	assert_false(sy_buffers_ended(&buffers, &write, SY_TRANSFER_FLUSHED, &drained));
	assert_true(sy_buffers_ended(&buffers, &write, SY_TRANSFER_FENCED, &drained));
	assert_true(drained);
	assert_true(sy_buffers_ended(&buffers, &read, SY_TRANSFER_FLUSHED, &drained));
	assert_false(drained);
	assert_true(sy_buffers_ended(&buffers, &nameless, SY_TRANSFER_DONE, &drained));
	assert_false(drained);
}

static void test_past_its_bound_the_graveyard_poisons(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	struct sy_grave first = {.nbytes = 5000}, second = {.nbytes = 1};
	struct sy_buffer room;
	bool drained;

	sy_buffers_init(&buffers, &SMALL);
	struct sy_buffer *used = take(&buffers, 1, &room);
	assert_true(sy_buffers_bury(&buffers, &first));
	assert_false(sy_buffers_bury(&buffers, &second));
	assert_int_equal(answer_to(&buffers, 1), SY_BUFFERS_FATAL);
	assert_null(sy_buffers_audit(&buffers));
	/* For good: whatever comes back. */
	sy_buffers_give(&buffers, used);
	assert_true(sy_buffers_ended(&buffers, &first, SY_TRANSFER_DONE, &drained));
	assert_true(sy_buffers_ended(&buffers, &second, SY_TRANSFER_DONE, &drained));
	assert_int_equal(answer_to(&buffers, 1), SY_BUFFERS_FATAL);
}

static void test_where_nothing_can_be_registered_it_says_so(void **state)
{
	(void)state;
	struct sy_buffers buffers;
	struct sy_buffer *got, room;
	uint64_t bytes;

	sy_buffers_init(&buffers, &SMALL);
	assert_int_equal(sy_buffers_take(&buffers, 1, &got, &bytes), SY_BUFFERS_MAKE);
	assert_int_equal(sy_buffers_failed(&buffers, bytes), SY_BUFFERS_FATAL);
	assert_ptr_equal(take(&buffers, 1, &room), &room);
	assert_int_equal(sy_buffers_take(&buffers, 1, &got, &bytes), SY_BUFFERS_MAKE);
	assert_int_equal(sy_buffers_failed(&buffers, bytes), SY_BUFFERS_WAIT); /* one comes back */
	assert_int_equal(sy_buffers_take(&buffers, 2000, &got, &bytes), SY_BUFFERS_MAKE);
	assert_int_equal(sy_buffers_failed(&buffers, bytes), SY_BUFFERS_TOO_LARGE);
	assert_null(sy_buffers_audit(&buffers));
}

/* What a run of many transfers holds at a time. */
struct world {
	struct sy_buffers buffers;
	struct sy_buffer buffer[MANY];
	struct sy_grave graves[MANY];
	struct sy_prng prng;
};

static uint32_t draw(struct world *w, uint32_t bound)
{
	return (uint32_t)sy_prng_below(&w->prng, bound);
}

static void begin(struct world *w)
{
	struct sy_buffer *got = NULL;
	uint32_t room = 0;
	uint64_t bytes = 0;

	while (sy_buffers_drop(&w->buffers) != NULL)
		continue;
	while (room < MANY && w->buffer[room].state != SY_BUFFER_NONE)
		room++;
	if (room == MANY)
		return;
	uint64_t wanted = 1 + draw(w, draw(w, 2) == 0 ? BASE : 9000);
	enum sy_buffers_answer answer = sy_buffers_take(&w->buffers, wanted, &got, &bytes);
	if (answer == SY_BUFFERS_MAKE && draw(w, 5) == 0) {
		sy_buffers_failed(&w->buffers, bytes);
	} else if (answer == SY_BUFFERS_MAKE) {
		while (sy_buffers_drop(&w->buffers) != NULL)
			continue;
		assert_true(bytes >= wanted);
		sy_buffers_made(&w->buffers, &w->buffer[room], bytes);
	} else if (answer == SY_BUFFERS_READY) {
		assert_true(got->nbytes >= wanted);
		for (uint32_t i = 0; i < MANY; i++)
			assert_false(w->graves[i].buried && w->graves[i].buffer == got);
	}
}

static void end(struct world *w, uint32_t i)
{
	uint32_t grave = draw(w, MANY);

	if (w->buffer[i].state != SY_BUFFER_USED)
		return;
	if (draw(w, 3) != 0 || w->graves[grave].buried) {
		sy_buffers_give(&w->buffers, &w->buffer[i]);
		return;
	}
	w->graves[grave] = (struct sy_grave){.buffer = &w->buffer[i], .nbytes = w->buffer[i].nbytes};
	sy_buffers_bury(&w->buffers, &w->graves[grave]);
}

static void test_accounts_agree_whatever_happens(void **state)
{
	(void)state;
	struct world *w = calloc(1, sizeof *w);
	struct sy_buffers_config config = SMALL;
	bool drained;

	assert_non_null(w);
	config.graveyard_max_bytes = 1 << 20;
	sy_prng_seed(&w->prng, harness_seed());
	sy_buffers_init(&w->buffers, &config);
	for (int step = 0; step < STEPS; step++) {
		struct sy_grave *grave = &w->graves[draw(w, MANY)];

		begin(w);
		end(w, draw(w, MANY));
		if (grave->buried)
			sy_buffers_ended(&w->buffers, grave, (enum sy_transfer_end)(1 + draw(w, 4)),
			                 &drained);
		const char *wrong = sy_buffers_audit(&w->buffers);
		if (wrong != NULL)
			fail_msg("step %d: %s", step, wrong);
	}
	free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_base_buffers_are_made_once_and_used_again),
		cmocka_unit_test(test_large_ones_are_kept_by_last_use_up_to_the_pools_bound),
		cmocka_unit_test(test_a_large_one_that_has_no_room_drops_none),
		cmocka_unit_test(test_a_buffer_in_flight_is_replaced_and_comes_back_when_it_is_safe),
		cmocka_unit_test(test_only_a_write_that_was_seen_done_is_drained),
		cmocka_unit_test(test_past_its_bound_the_graveyard_poisons),
		cmocka_unit_test(test_where_nothing_can_be_registered_it_says_so),
		cmocka_unit_test(test_accounts_agree_whatever_happens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
