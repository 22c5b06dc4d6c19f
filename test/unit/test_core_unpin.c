/* Pins that are given back let go of a bounded number of blobs a step, however many a message
 * names; until then their room counts as being made. */
#include "core_driver.h"

static struct test_index t;

enum { TOKEN = 9, SLAB = 1 << 24, BLOBS = 200, PINS = 20, BUDGET = 1024 };

/* Blobs of a row each, all of them pinned by each of PINS resolves. */
static struct driver *open_pinned(struct client *c)
{
	struct sy_core_params params = driver_params(SLAB);
	struct driver *d = driver_open(&params);
	*c = client_new(d, 1, TOKEN);
	for (uint64_t b = 0; b < BLOBS; b++)
		put(d, c, 0, 2 * b + 1, b + 1, index_of(&t, b + 1, b, 1, 1, 100));
	for (uint64_t p = 1; p <= PINS; p++)
		resolve(d, c, 1, p, 0, BLOBS);
	assert_int_equal(stats(d).pins, PINS);
	return d;
}

static void unpin_all(struct driver *d, struct client *c)
{
	struct sy_notice notices[PINS] = {0};
	for (uint64_t p = 0; p < PINS; p++)
		notices[p] = (struct sy_notice){.kind = SY_NOTICE_UNPIN, .name = name_of(c, 1, p + 1)};
	notify(d, c, notices, PINS);
}

static uint8_t held(struct driver *d, const struct client *c, uint64_t seq, uint64_t pin)
{
	struct sy_request_id name = name_of(c, 1, pin);
	struct sy_event e = request(c, SY_OP_PIN_CHECK, 2, seq);
	uint8_t answers = 2;
	e.request.pin_check.names = &name;
	e.request.pin_check.count = 1;
	e.request.pin_check.held = &answers;
	sy_core_step(d->core, &e, d->now_ns, &d->fx);
	return answers;
}

static void test_many_in_one_message(void **state)
{
	(void)state;
	/* A pin that begins within the budget is let go of as a whole. */
	const uint64_t a_step = (BUDGET + BLOBS) / (BLOBS + 1);
	struct client c;
	struct driver *d = open_pinned(&c);
	release(d, &c, 3, 1, 0, BLOBS);
	settle(d);
	assert_int_equal(stats(d).blobs, BLOBS);
	unpin_all(d, &c);
	assert_ok(d);
	for (uint64_t left = PINS - a_step; left > 0; left -= left < a_step ? left : a_step) {
		assert_int_equal(stats(d).pins, left);
		assert_int_equal(stats(d).blobs, BLOBS);
		assert_true(d->fx.again);
		step_kind(d, SY_EVENT_CONTINUE);
	}
	settle(d);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

static void test_given_back_is_not_held(void **state)
{
	(void)state;
	struct client c;
	struct driver *d = open_pinned(&c);
	assert_int_equal(held(d, &c, 1, PINS), 1);
	unpin_all(d, &c);
	assert_true(stats(d).pins > 0);
	assert_int_equal(held(d, &c, 2, PINS), 0);
	/* Once more, while it waits: nothing is let go of twice. */
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, PINS), false);
	settle(d);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).blobs, BLOBS);
	driver_close(d);
}

/* The session that owns them stands as long as they do. */
static void test_session_ends_first(void **state)
{
	(void)state;
	struct client c;
	struct driver *d = open_pinned(&c);
	unpin_all(d, &c);
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	settle(d);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).sessions, 1); /* its process may still write */
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	settle(d);
	assert_int_equal(stats(d).sessions, 0);
	driver_close(d);
}

/* Of another host: what was given back in time does not expire. */
static void test_given_back_does_not_expire(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.unpin_budget = 1;
	struct driver *d = driver_open(&params);
	struct client local = client_new(d, 1, TOKEN), c = client_new(d, 2, 0);
	put(d, &local, 0, 1, 1, index_of(&t, 1, 10, 4, 1, 2000));
	resolve(d, &c, 1, 1, 10, 4);
	resolve(d, &c, 1, 2, 10, 4);
	release(d, &local, 3, 1, 10, 4);
	struct sy_notice notices[] = {{.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 1)},
	                              {.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 2)}};
	notify(d, &c, notices, 2);
	assert_int_equal(stats(d).pins, 1);
	advance(d, 60ull * SEC);
	settle(d);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).bytes.quarantined, 0);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

/* An alloc in the message that gives the room back waits for it. */
static void test_room_is_waited_for(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.unpin_budget = 1;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 1, 1, SLAB / 2));
	resolve(d, &c, 1, 1, 10, 1);
	resolve(d, &c, 1, 2, 10, 1);
	release(d, &c, 3, 1, 10, 1);
	struct sy_notice notices[] = {{.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 1)},
	                              {.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 2)}};
	struct sy_event e = alloc_event(&c, 0, 3, 2, SLAB / 4 * 3, 1);
	e.request.first_notice = 1;
	e.request.notices = notices;
	e.request.notice_count = 2;
	step(d, &e);
	assert_silent(d);
	assert_int_equal(count_effects(d, SY_EFFECT_KEEP), 1);
	assert_true(d->fx.again);
	step_kind(d, SY_EVENT_CONTINUE);
	assert_int_equal(count_effects(d, SY_EFFECT_REDO), 1);
	e.request.redo = true;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_REGION);
	driver_close(d);
}

/* What a step lets go of is there for the request in the same message. */
static void test_room_is_there_at_once(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 1, 1, SLAB / 2));
	resolve(d, &c, 1, 1, 10, 1);
	release(d, &c, 3, 1, 10, 1);
	struct sy_notice notice = {.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 1)};
	struct sy_event e = alloc_event(&c, 0, 3, 2, SLAB / 4 * 3, 1);
	e.request.first_notice = 1;
	e.request.notices = &notice;
	e.request.notice_count = 1;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_REGION);
	driver_close(d);
}

/* References that are about to be free are no reason to say that there are none. */
static void test_references_are_waited_for(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.unpin_budget = 1;
	params.max_entries = 2;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 1, 1, 2000));
	put(d, &c, 0, 3, 2, index_of(&t, 2, 11, 1, 1, 2000));
	resolve(d, &c, 1, 1, 10, 1);
	resolve(d, &c, 1, 2, 10, 1);
	struct sy_notice notices[] = {{.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 1)},
	                              {.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 1, 2)}};
	struct sy_span field = span("a00");
	struct sy_event e = resolve_event(d, &c, 2, 1, 10, 2, &field, 1, 0);
	e.request.first_notice = 1;
	e.request.notices = notices;
	e.request.notice_count = 2;
	step(d, &e);
	assert_busy(d, SY_BUSY_QUEUE_FULL);
	settle(d);
	resolve(d, &c, 2, 2, 10, 2);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_in_one_message),
		cmocka_unit_test(test_given_back_is_not_held),
		cmocka_unit_test(test_session_ends_first),
		cmocka_unit_test(test_given_back_does_not_expire),
		cmocka_unit_test(test_room_is_waited_for),
		cmocka_unit_test(test_room_is_there_at_once),
		cmocka_unit_test(test_references_are_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
