/* hello, slots, notices, NoSession. */
#include "core_driver.h"

static struct test_index t;

static struct driver *open_default(void)
{
	struct sy_core_params params = driver_params(1 << 20);
	return driver_open(&params);
}

static void test_hello_counts(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 7, 0);
	uint64_t first = c.session;
	struct sy_event e = hello_event(&c);
	step(d, &e);
	assert_int_equal(answer(d).count, first);
	c.count = 0;
	e = hello_event(&c);
	step(d, &e);
	assert_silent(d);
	assert_int_equal(stats(d).dropped, 1);
	c.count = 4;
	hello(d, &c);
	assert_int_not_equal(c.session, first);
	/* The older one is ended: its requests run no more. */
	struct client old = c;
	old.session = first;
	e = request(&old, SY_OP_HEARTBEAT, 0, 1);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_NO_SESSION);
	/* Another process with another random number is another client. */
	struct client other = client_new(d, 8, 0);
	assert_int_not_equal(other.session, c.session);
	driver_close(d);
}

static void test_hello_again_after_the_end(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 7, 5);
	uint64_t first = c.session;
	assert_int_equal(alloc(d, &c, 0, 1, 1, 64, 1).fault, SY_FAULT_NONE);
	peer(d, SY_EVENT_PEER_EOF, 5, 0);
	settle(d);
	struct sy_event e = hello_event(&c);
	step(d, &e);
	assert_ok(d);
	assert_int_not_equal(answer(d).count, first);
	/* Of two sessions with one count the newer is the one that is live. */
	uint64_t second = answer(d).count;
	step(d, &e);
	assert_int_equal(answer(d).count, second);
	driver_close(d);
}

static void test_hello_refused(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = {.identity = {.random = 1}, .count = 1};
	struct sy_event e = hello_event(&c);
	e.request.hello.version = SY_PROTOCOL_VERSION + 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_VERSION);
	e = hello_event(&c);
	e.request.hello.slot_count = 4;
	step(d, &e);
	assert_protocol(d, SY_WHY_CLUSTER_SIZE);
	e = hello_event(&c);
	e.request.hello.ns = span("");
	step(d, &e);
	assert_protocol(d, SY_WHY_NAMESPACE);
	assert_int_equal(stats(d).sessions, 0);
	assert_int_equal(stats(d).protocol_errors, 3);
	driver_close(d);
}

static void test_hello_full(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(1 << 20);
	params.max_sessions = 2;
	struct driver *d = driver_open(&params);
	struct client a = client_new(d, 1, 0);
	client_new(d, 2, 0);
	struct client c = {.identity = {.random = 3}, .count = 1};
	struct sy_event e = hello_event(&c);
	step(d, &e);
	assert_full(d, SY_RESOURCE_SESSIONS);
	assert_int_equal(stats(d).namespaces, 1);
	/* A client that comes again ends its older session though there is no room for a new one;
	 * once that is fenced it gets in. */
	a.count++;
	e = hello_event(&a);
	step(d, &e);
	assert_full(d, SY_RESOURCE_SESSIONS);
	const struct sy_effect *fence = effect_of(d, SY_EFFECT_FENCE);
	assert_non_null(fence);
	struct sy_event fenced = {.kind = SY_EVENT_FENCED};
	fenced.fenced.session = fence->session;
	step(d, &fenced);
	settle(d);
	step(d, &e);
	assert_ok(d);
	driver_close(d);
}

static void test_hello_namespaces_full(void **state)
{
	(void)state;
	struct driver *d = open_default();
	const char *names[] = {"one", "two", "three", "four", "five"};
	for (uint64_t i = 0; i < 5; i++) {
		struct client c = {.identity = {.random = i + 1}, .count = 1};
		struct sy_event e = hello_event(&c);
		e.request.hello.ns = span(names[i]);
		step(d, &e);
		if (i < 4)
			assert_ok(d);
		else
			assert_full(d, SY_RESOURCE_NAMESPACES);
	}
	assert_int_equal(stats(d).sessions, 4);
	driver_close(d);
}

static void test_no_session(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client nobody = {.session = 12345};
	struct sy_event e = alloc_event(&nobody, 0, 1, 1, 64, 1);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_NO_SESSION);
	assert_int_equal(answer(d).op, SY_OP_ALLOC);
	nobody.session = 0;
	e = alloc_event(&nobody, 0, 1, 1, 64, 1);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_NO_SESSION);
	assert_int_equal(stats(d).blobs, 0);
	driver_close(d);
}

static void test_bad_requests(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	struct sy_event e = request(&c, SY_OP_HEARTBEAT, SY_SLOT_COUNT, 1);
	step(d, &e);
	assert_protocol(d, SY_WHY_SLOT);
	e = request(&c, SY_OP_HEARTBEAT, 0, 0);
	step(d, &e);
	assert_protocol(d, SY_WHY_MALFORMED);
	e = request(&c, (enum sy_op)99, 0, 1);
	step(d, &e);
	assert_protocol(d, SY_WHY_MALFORMED);
	driver_close(d);
}

static void test_resend_of_a_done_one(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	struct sy_event e = alloc_event(&c, 3, 5, 1, 640, 2);
	step(d, &e);
	struct sy_outcome first = answer(d);
	e.request.route = 4711;
	step(d, &e);
	struct sy_outcome again = answer(d);
	assert_memory_equal(&first, &again, sizeof first);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->route, 4711);
	assert_int_equal(stats(d).blobs, 1);
	/* An older one of the slot is not run. */
	e = alloc_event(&c, 3, 4, 2, 640, 2);
	step(d, &e);
	assert_silent(d);
	assert_int_equal(stats(d).blobs, 1);
	/* Nor one of the same seq that is another operation. */
	e = request(&c, SY_OP_HEARTBEAT, 3, 5);
	step(d, &e);
	assert_silent(d);
	/* A failure is an outcome as well. */
	e = alloc_event(&c, 4, 1, 9, 0, 1);
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e.request.alloc.nbytes = 64;
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	/* Slots are apart. */
	assert_int_equal(alloc(d, &c, 5, 1, 3, 64, 1).fault, SY_FAULT_NONE);
	driver_close(d);
}

static void test_resolve_runs_once(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 1, 1, 2000));
	resolve(d, &c, 1, 1, 10, 1);
	assert_int_equal(stats(d).pins, 1);
	struct sy_span field = span("a00");
	struct sy_event e = resolve_event(d, &c, 1, 1, 10, 1, &field, 1, 0);
	step(d, &e);
	assert_silent(d);
	assert_int_equal(stats(d).pins, 1);
	driver_close(d);
}

static void test_harmless_ones_run_again(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	enum sy_op ops[] = {SY_OP_HEARTBEAT, SY_OP_INFO, SY_OP_STATS};
	for (uint32_t i = 0; i < COUNT_OF(ops); i++) {
		struct sy_event e = request(&c, ops[i], i, 1);
		step(d, &e);
		assert_ok(d);
		e.request.route = 5;
		step(d, &e);
		assert_ok(d);
		assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->route, 5);
	}
	driver_close(d);
}

static void test_notices_in_order(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(alloc(d, &c, i, 1, i + 1, 64, 1).fault, SY_FAULT_NONE);
	struct sy_notice n[3];
	for (uint32_t i = 0; i < 3; i++)
		n[i] = (struct sy_notice){.kind = SY_NOTICE_ABORT, .name = name_of(&c, i, 1)};
	/* Number 2 before number 1 is left aside. */
	struct sy_event e = request(&c, SY_OP_HEARTBEAT, 63, 1);
	e.request.first_notice = 2;
	e.request.notice_count = 2;
	e.request.notices = &n[1];
	step(d, &e);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->notices_done, 0);
	assert_int_equal(stats(d).reservations, 3);
	/* 1 and 2, then 1 to 3: what is done is not done again. */
	e = request(&c, SY_OP_HEARTBEAT, 63, 2);
	e.request.first_notice = 1;
	e.request.notice_count = 2;
	e.request.notices = n;
	step(d, &e);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->notices_done, 2);
	assert_int_equal(stats(d).reservations, 1);
	/* They are executed though the message's own request is dropped. */
	e = request(&c, SY_OP_HEARTBEAT, 63, 1);
	e.request.first_notice = 1;
	e.request.notice_count = 3;
	e.request.notices = n;
	step(d, &e);
	assert_silent(d);
	assert_int_equal(stats(d).reservations, 0);
	driver_close(d);
}

static void test_notice_overtakes_request(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 2, 7), false);
	struct sy_event e = alloc_event(&c, 2, 7, 1, 64, 1);
	step(d, &e);
	assert_silent(d);
	e = alloc_event(&c, 2, 6, 1, 64, 1);
	step(d, &e);
	assert_silent(d);
	assert_int_equal(stats(d).blobs, 0);
	assert_int_equal(alloc(d, &c, 2, 8, 1, 64, 1).fault, SY_FAULT_NONE);
	/* An unpin likewise, in the very message of a later request. */
	struct sy_notice n = {.kind = SY_NOTICE_UNPIN, .name = name_of(&c, 3, 4)};
	e = request(&c, SY_OP_HEARTBEAT, 3, 4);
	e.request.first_notice = ++c.notice;
	e.request.notice_count = 1;
	e.request.notices = &n;
	step(d, &e);
	assert_silent(d);
	/* A drained raises nothing, and names nothing here. */
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&c, 4, 9), false);
	assert_int_equal(alloc(d, &c, 4, 1, 2, 64, 1).fault, SY_FAULT_NONE);
	driver_close(d);
}

static void test_notices_of_others(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client a = client_new(d, 1, 9);
	struct client b = client_new(d, 2, 10);
	assert_int_equal(alloc(d, &a, 0, 1, 1, 64, 1).fault, SY_FAULT_NONE);
	/* Another client's names are nothing to this one, but the notice counts as done. */
	notify_one(d, &b, SY_NOTICE_ABORT, name_of(&a, 0, 1), false);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->notices_done, 1);
	assert_int_equal(stats(d).reservations, 1);
	/* Its own next session speaks for its older one. */
	struct client old = a;
	hello(d, &a);
	settle(d);
	assert_int_equal(stats(d).bytes.retired, 64);
	notify_one(d, &a, SY_NOTICE_DRAINED, name_of(&old, 0, 1), false);
	assert_int_equal(stats(d).reservations, 0);
	assert_int_equal(stats(d).sessions, 2);
	/* A slot or a session that there is not. */
	notify_one(d, &a, SY_NOTICE_ABORT, name_of(&a, SY_SLOT_COUNT, 1), false);
	notify_one(d, &a, SY_NOTICE_UNPIN, name_of(&old, 0, 1), false);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->notices_done, 3);
	driver_close(d);
}

static void test_notices_of_an_ended_session(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 1, 1, 2000));
	resolve(d, &c, 1, 1, 10, 1);
	peer(d, SY_EVENT_PEER_EOF, 9, 0);
	settle(d);
	assert_int_equal(stats(d).pins, 1);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	assert_int_equal(answer(d).fault, SY_FAULT_NO_SESSION);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->notices_done, 1);
	assert_int_equal(stats(d).pins, 0);
	driver_close(d);
}

static void test_abort_by_state(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 9);
	/* In flight: retired until drained; the same id gets a new region meanwhile. */
	struct sy_outcome first = alloc(d, &c, 0, 1, 1, 64, 1);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&c, 0, 1), false);
	assert_int_equal(stats(d).bytes.allocated, 64);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 1), true);
	assert_int_equal(stats(d).bytes.retired, 64);
	struct sy_outcome second = alloc(d, &c, 0, 2, 1, 64, 1);
	assert_int_equal(second.answer, SY_ANSWER_REGION);
	assert_int_not_equal(second.offset, first.offset);
	assert_true(second.generation > first.generation);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&c, 0, 1), false);
	assert_int_equal(stats(d).bytes.retired, 0);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 2), false);
	assert_int_equal(stats(d).bytes.free, 1 << 20);
	/* A published one: nothing. */
	put(d, &c, 1, 1, 2, index_of(&t, 2, 10, 1, 1, 100));
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 1, 1), true);
	assert_int_equal(stats(d).entries, 1);
	driver_close(d);
}

static void test_a_stalled_unit_gives_leases_back(void **state)
{
	(void)state;
	struct driver *d = open_default();
	client_new(d, 1, 0);
	assert_int_equal(sy_core_deadline(d->core), d->now_ns + 20ull * SEC);
	d->now_ns += 30ull * SEC;
	struct sy_event e = {.kind = SY_EVENT_STALLED};
	e.stalled.gap_ns = 15ull * SEC;
	step(d, &e);
	assert_int_equal(sy_core_deadline(d->core), d->now_ns + 5ull * SEC);
	/* Not more than was missed. */
	e.stalled.gap_ns = 100ull * SEC;
	step(d, &e);
	assert_int_equal(sy_core_deadline(d->core), d->now_ns + 20ull * SEC);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_counts),
		cmocka_unit_test(test_hello_again_after_the_end),
		cmocka_unit_test(test_hello_refused),
		cmocka_unit_test(test_hello_full),
		cmocka_unit_test(test_hello_namespaces_full),
		cmocka_unit_test(test_no_session),
		cmocka_unit_test(test_bad_requests),
		cmocka_unit_test(test_resend_of_a_done_one),
		cmocka_unit_test(test_resolve_runs_once),
		cmocka_unit_test(test_harmless_ones_run_again),
		cmocka_unit_test(test_notices_in_order),
		cmocka_unit_test(test_notice_overtakes_request),
		cmocka_unit_test(test_notices_of_others),
		cmocka_unit_test(test_notices_of_an_ended_session),
		cmocka_unit_test(test_abort_by_state),
		cmocka_unit_test(test_a_stalled_unit_gives_leases_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
