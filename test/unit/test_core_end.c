/* What becomes of what a session holds when it ends. */
#include "core_driver.h"

static struct test_index t;

enum { TOKEN = 9, SLAB = 1 << 20 };

/* A client with an allocated, an aborted in flight and a published and pinned blob. */
static struct client busy_client(struct driver *d, uint64_t number, uint64_t token)
{
	struct client c = client_new(d, number, token);
	put(d, &c, 0, 1, number * 10, index_of(&t, number * 10, number * 100, 1, 1, 2000));
	resolve(d, &c, 1, 1, number * 100, 1);
	assert_int_equal(alloc(d, &c, 2, 1, number * 10 + 1, 64, 1).fault, SY_FAULT_NONE);
	assert_int_equal(alloc(d, &c, 3, 1, number * 10 + 2, 128, 1).fault, SY_FAULT_NONE);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 3, 1), true);
	assert_int_equal(stats(d).bytes.allocated, 64);
	assert_int_equal(stats(d).bytes.retired, 128);
	assert_int_equal(stats(d).pins, 1);
	return c;
}

static struct driver *open_default(void)
{
	struct sy_core_params params = driver_params(SLAB);
	return driver_open(&params);
}

static void assert_nothing_held(struct driver *d)
{
	struct sy_unit_stats s = stats(d);
	assert_int_equal(s.sessions, 0);
	assert_int_equal(s.pins, 0);
	assert_int_equal(s.reservations, 0);
	assert_int_equal(s.parked, 0);
	assert_int_equal(s.bytes.allocated + s.bytes.retired + s.bytes.quarantined, 0);
}

static void test_bye(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	peer(d, SY_EVENT_PEER_BYE, TOKEN, c.notice);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_int_equal(effect_of(d, SY_EFFECT_PEER_DONE)->token, TOKEN);
	assert_nothing_held(d);
	assert_int_equal(stats(d).entries, 1);
	/* The process goes later: nothing is known of it. */
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	assert_int_equal(d->fx.count, 1);
	assert_int_equal(effect_of(d, SY_EFFECT_PEER_DONE)->token, TOKEN);
	driver_close(d);
}

static void test_bye_before_its_notices(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	peer(d, SY_EVENT_PEER_BYE, TOKEN, c.notice + 2);
	settle(d);
	assert_int_equal(d->fx.count, 0);
	assert_int_equal(stats(d).bytes.allocated, 0);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	assert_int_equal(stats(d).pins, 1);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	/* The last one: all is free. */
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 2, 1), true);
	assert_int_equal(answer(d).fault, SY_FAULT_NO_SESSION);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_nothing_held(d);
	driver_close(d);
}

static void test_bye_speaks_for_older_sessions(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	hello(d, &c);
	settle(d);
	assert_int_equal(stats(d).sessions, 2);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	peer(d, SY_EVENT_PEER_BYE, TOKEN, 0);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_nothing_held(d);
	driver_close(d);
}

static void test_eof_without_bye(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	settle(d);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 0);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	assert_int_equal(stats(d).pins, 1);
	/* However long it is stopped. */
	advance(d, 100000ull * SEC);
	settle(d);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	assert_int_equal(stats(d).pins, 1);
	struct sy_event e = commit_event(&c, 2, 2, 11, 2, NULL);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_NO_SESSION);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_nothing_held(d);
	driver_close(d);
}

static void test_eof_then_notices(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	settle(d);
	/* That its writer is finished is proof, whatever retired it. */
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 2, 1), false);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&c, 3, 1), false);
	assert_int_equal(stats(d).bytes.retired, 0);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	assert_int_equal(stats(d).pins, 0);
	/* The process may yet come with more: its record stays. */
	assert_int_equal(stats(d).sessions, 1);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_nothing_held(d);
	driver_close(d);
}

static void test_process_gone(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	client_new(d, 2, TOKEN + 1);
	hello(d, &c);
	settle(d);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	settle(d);
	assert_int_equal(stats(d).sessions, 1);
	assert_int_equal(stats(d).reservations, 0);
	assert_int_equal(stats(d).pins, 0);
	/* Of a connection that never said hello nothing is left at once. */
	peer(d, SY_EVENT_PEER_GONE, 4711, 0);
	assert_int_equal(effect_of(d, SY_EFFECT_PEER_DONE)->token, 4711);
	driver_close(d);
}

static void test_replaced_local(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	struct client old = c;
	hello(d, &c);
	settle(d);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	assert_int_equal(stats(d).pins, 1);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&old, 1, 1), false);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&old, 2, 1), false);
	assert_int_equal(stats(d).sessions, 2);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&old, 3, 1), false);
	/* It owns nothing, and its client has another: connecting for ever takes no room. */
	assert_int_equal(stats(d).sessions, 1);
	for (int i = 0; i < 100; i++)
		hello(d, &c);
	settle(d);
	assert_int_equal(stats(d).sessions, 1);
	driver_close(d);
}

/* Kind: two clean-up paths that each leave it to the other.
 * The same where the unit sees the old socket end before the new hello comes; and of a connection
 * that ended nothing is watched once nothing is left of it. */
static void test_replaced_after_its_end(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, TOKEN);
	struct client old = c;
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	settle(d);
	c.token = TOKEN + 1;
	hello(d, &c);
	settle(d);
	assert_int_equal(stats(d).sessions, 2);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&old, 1, 1), false);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&old, 2, 1), false);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 0);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&old, 3, 1), false);
	assert_int_equal(stats(d).sessions, 1);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_int_equal(effect_of(d, SY_EFFECT_PEER_DONE)->token, TOKEN);
	for (uint64_t i = 1; i <= 100; i++) {
		peer(d, SY_EVENT_PEER_EOF, TOKEN + i, 0);
		c.token = TOKEN + i + 1;
		hello(d, &c);
		settle(d);
		assert_int_equal(stats(d).sessions, 1);
	}
	/* Replaced first, and then the old socket ends. */
	c.token = TOKEN + 200;
	hello(d, &c);
	settle(d);
	assert_int_equal(stats(d).sessions, 1);
	peer(d, SY_EVENT_PEER_EOF, TOKEN + 101, 0);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	driver_close(d);
}

static void fence(struct driver *d, uint64_t session)
{
	struct sy_event e = {.kind = SY_EVENT_FENCED};
	e.fenced.session = session;
	step(d, &e);
}

static void test_remote_expires(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, 0);
	uint64_t resolved_ns = d->now_ns;
	d->now_ns += 15ull * SEC;
	struct sy_event e = request(&c, SY_OP_HEARTBEAT, 0, 3);
	step(d, &e);
	advance(d, 15ull * SEC);
	assert_int_equal(stats(d).bytes.allocated, 64);
	assert_int_equal(sy_core_deadline(d->core), d->now_ns + 5ull * SEC);
	fence(d, c.session); /* nobody asked */
	advance(d, 5ull * SEC);
	assert_int_equal(count_effects(d, SY_EFFECT_FENCE), 1);
	assert_int_equal(effect_of(d, SY_EFFECT_FENCE)->session, c.session);
	settle(d);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	assert_int_equal(stats(d).pins, 1);
	/* Its pin ends at its own time. */
	assert_int_equal(sy_core_deadline(d->core), resolved_ns + 60ull * SEC);
	advance(d, 25ull * SEC);
	assert_int_equal(stats(d).pins, 0);
	advance(d, 100000ull * SEC);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	fence(d, c.session);
	settle(d);
	fence(d, c.session); /* said twice */
	assert_int_equal(sy_core_deadline(d->core), d->now_ns + 120ull * SEC);
	advance(d, 119ull * SEC);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	advance(d, 1ull * SEC);
	settle(d);
	assert_nothing_held(d);
	assert_int_equal(sy_core_deadline(d->core), UINT64_MAX);
	driver_close(d);
}

static void test_remote_that_owns_nothing(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	/* A hello again is a sign of life as any message is. */
	d->now_ns += 15ull * SEC;
	struct sy_event e = hello_event(&c);
	step(d, &e);
	advance(d, 15ull * SEC);
	assert_int_equal(d->fx.count, 0);
	advance(d, 5ull * SEC);
	assert_int_equal(count_effects(d, SY_EFFECT_FENCE), 1);
	/* Its record stays until its writer is proved finished, so that FENCED finds it. */
	settle(d);
	assert_int_equal(stats(d).sessions, 1);
	fence(d, c.session);
	assert_int_equal(stats(d).sessions, 0);
	driver_close(d);
}

static void test_remote_notices_during_grace(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, 0);
	advance(d, 20ull * SEC);
	settle(d);
	fence(d, c.session);
	settle(d);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&c, 3, 1), false);
	assert_int_equal(stats(d).bytes.retired, 64);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 2, 1), false);
	assert_int_equal(stats(d).bytes.retired, 0);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	assert_nothing_held(d);
	driver_close(d);
}

static void test_replaced_remote(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = busy_client(d, 1, 0);
	struct client old = c;
	hello(d, &c);
	const struct sy_effect *effect = effect_of(d, SY_EFFECT_FENCE);
	assert_non_null(effect);
	assert_int_equal(effect->session, old.session);
	assert_int_equal(stats(d).bytes.retired, 64 + 128);
	fence(d, old.session);
	for (int i = 0; i < 12; i++) { /* the new one stays */
		d->now_ns += 10ull * SEC;
		struct sy_event e = request(&c, SY_OP_HEARTBEAT, 0, (uint64_t)i + 1);
		step(d, &e);
		step_kind(d, SY_EVENT_TICK);
	}
	settle(d);
	assert_int_equal(stats(d).bytes.retired, 0);
	assert_int_equal(stats(d).sessions, 1);
	driver_close(d);
}

static void test_remote_without_a_path(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.remote_write = false;
	struct driver *d = driver_open(&params);
	struct client local = client_new(d, 1, TOKEN);
	put(d, &local, 0, 1, 1, index_of(&t, 1, 10, 1, 1, 2000));
	struct client c = client_new(d, 2, 0);
	struct sy_event e = alloc_event(&c, 0, 1, 1, 64, 1);
	step(d, &e);
	assert_protocol(d, SY_WHY_NO_PATH);
	resolve(d, &c, 1, 1, 10, 1);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	advance(d, 20ull * SEC);
	assert_int_equal(d->fx.count, 0);
	advance(d, 40ull * SEC);
	settle(d);
	assert_int_equal(stats(d).sessions, 1);
	driver_close(d);
}

/* The end of a session that holds much goes on in steps, others being served in between. */
static void test_the_end_is_a_cursor(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct client other = client_new(d, 2, TOKEN + 1);
	enum { MANY = 1000 };
	for (uint64_t i = 0; i < MANY; i++)
		assert_int_equal(alloc(d, &c, 0, i + 1, i + 1, 64, 1).fault, SY_FAULT_NONE);
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	assert_true(d->fx.again);
	assert_true(stats(d).bytes.allocated >= 64ull * (MANY - 128));
	/* One of those not yet retired is nobody's to commit. */
	struct client again = {.identity = c.identity, .token = TOKEN + 2, .count = c.count};
	hello(d, &again);
	commit(d, &again, 0, 1, MANY, MANY, index_of(&t, MANY, 1, 1, 1, 1));
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	/* Notices take away from under the cursor. */
	struct sy_notice n[64];
	for (uint32_t i = 0; i < 64; i++)
		n[i] = (struct sy_notice){.kind = SY_NOTICE_ABORT, .name = name_of(&c, 0, i * 15 + 1)};
	notify(d, &c, n, 64);
	assert_int_equal(alloc(d, &other, 0, 1, 1, 64, 1).fault, SY_FAULT_NONE);
	settle(d);
	assert_int_equal(stats(d).bytes.retired, 64ull * (MANY - 64));
	/* GONE in the middle of another walk. */
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	settle(d);
	assert_int_equal(stats(d).reservations, 1);
	driver_close(d);
}

static void test_gone_in_the_middle_of_the_end(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	for (uint64_t i = 0; i < 500; i++)
		assert_int_equal(alloc(d, &c, 0, i + 1, i + 1, 64, 1).fault, SY_FAULT_NONE);
	peer(d, SY_EVENT_PEER_EOF, TOKEN, 0);
	step_kind(d, SY_EVENT_CONTINUE);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	settle(d);
	assert_int_equal(count_effects(d, SY_EFFECT_PEER_DONE), 1);
	assert_nothing_held(d);
	driver_close(d);
}

static void test_many_pins_at_the_end(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.max_pins = 1000;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 4, 1, 2000));
	for (uint64_t i = 1; i <= 500; i++)
		resolve(d, &c, 1, i, 10, 4);
	release(d, &c, 2, 1, 10, 4);
	assert_int_equal(stats(d).blobs, 1);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	assert_true(d->fx.again);
	settle(d);
	assert_nothing_held(d);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bye),
		cmocka_unit_test(test_bye_before_its_notices),
		cmocka_unit_test(test_bye_speaks_for_older_sessions),
		cmocka_unit_test(test_eof_without_bye),
		cmocka_unit_test(test_eof_then_notices),
		cmocka_unit_test(test_process_gone),
		cmocka_unit_test(test_replaced_local),
		cmocka_unit_test(test_replaced_after_its_end),
		cmocka_unit_test(test_remote_expires),
		cmocka_unit_test(test_remote_that_owns_nothing),
		cmocka_unit_test(test_remote_notices_during_grace),
		cmocka_unit_test(test_replaced_remote),
		cmocka_unit_test(test_remote_without_a_path),
		cmocka_unit_test(test_the_end_is_a_cursor),
		cmocka_unit_test(test_gone_in_the_middle_of_the_end),
		cmocka_unit_test(test_many_pins_at_the_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
