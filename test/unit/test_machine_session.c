/* Connections, hellos, sessions that end and incarnations that change. */
#include "machine_rig.h"

static void test_it_connects_only_when_there_is_something_to_do(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op op = {0};
	rig_pass(rig, 100 * RIG_S);
	assert_int_equal(rig->connects, 0);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_DOWN);
	assert_true(sy_machine_deadline(rig->machine) == UINT64_MAX);
	rig_start(rig, &op, SY_OP_KIND_INFO, 100 * RIG_S);
	assert_int_equal(rig->connects, 1);
	rig_pass(rig, 10 * RIG_S); /* asked once, until it is told how that went */
	assert_int_equal(rig->connects, 1);
	rig_free(rig);
}

static void test_reconnects_wait_50_ms_doubling_to_1_s(void **state)
{
	(void)state;
	static const uint64_t waits_ms[] = {50, 100, 200, 400, 800, 1000, 1000};
	struct rig *rig = rig_new();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_INFO, 100 * RIG_S);
	for (uint32_t i = 0; i < COUNT_OF(waits_ms); i++) {
		assert_int_equal(rig->connects, i + 1);
		sy_machine_disconnected(rig->machine, rig->now_ns);
		rig_pump(rig);
		rig_pass(rig, waits_ms[i] * RIG_MS - 1);
		assert_int_equal(rig->connects, i + 1);
		rig_pass(rig, 1);
	}
	/* A reply makes the wait short again. */
	rig_connect(rig, 55, 100, 7);
	rig_ok(rig, rig_last(rig));
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	sy_machine_disconnected(rig->machine, rig->now_ns);
	uint32_t connects = rig->connects;
	struct sy_machine_op next = {0};
	rig_start(rig, &next, SY_OP_KIND_INFO, 100 * RIG_S);
	rig_pass(rig, 50 * RIG_MS);
	assert_int_equal(rig->connects, connects + 1);
	rig_free(rig);
}

static void test_hello_says_who_it_is_and_is_sent_again(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_INFO, 100 * RIG_S);
	sy_machine_connected(rig->machine, 55, 7, rig->now_ns);
	rig_pump(rig);
	struct rig_sent hello = *rig_last(rig);
	assert_int_equal(hello.op, SY_OP_HELLO);
	assert_int_equal(hello.id.session, 0);
	assert_int_equal(hello.id.slot, 0);
	assert_int_equal(hello.id.seq, 1);
	assert_int_equal(hello.connection_count, 1);
	assert_int_equal(hello.token, 55);
	assert_int_equal(hello.version, SY_PROTOCOL_VERSION);
	assert_int_equal(hello.slot_count, 4);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_GREETING);
	rig_pass(rig, RIG_CONTROL_NS);
	assert_int_equal(rig->sent_count, 2);
	assert_int_equal(rig_last(rig)->connection_count, 1);
	/* Of a former connection, and of none. */
	struct sy_reply reply = rig_hello_reply(rig, &hello, 100, 7);
	reply.id.seq = 0;
	rig_deliver(rig, &reply, SY_OP_HELLO);
	reply.id.seq = 2;
	rig_deliver(rig, &reply, SY_OP_HELLO);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_GREETING);
	reply.id.seq = 1;
	rig_deliver(rig, &reply, SY_OP_HELLO);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_READY);
	assert_int_equal(sy_machine_incarnation(rig->machine), 7);
	assert_int_equal(sy_machine_hello(rig->machine)->eager_max_bytes, 8192);
	assert_int_equal(rig_last(rig)->op, SY_OP_INFO);
	assert_int_equal(rig_last(rig)->id.session, 100);
	/* Once more, with another session: it is too late for that. */
	uint32_t count = rig->sent_count;
	reply.hello.session = 999;
	rig_deliver(rig, &reply, SY_OP_HELLO);
	assert_int_equal(rig->sent_count, count);
	rig_ok(rig, rig_last(rig));
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	rig_free(rig);
}

/* One op of each kind out, one waiting in backoff, more than slots queued: then NoSession. */
static void test_no_session_ends_what_was_out_and_nothing_else(void **state)
{
	(void)state;
	static const enum sy_op_kind kinds[] = {
		SY_OP_KIND_PUT,     SY_OP_KIND_PUT_INLINE, SY_OP_KIND_COMMIT, SY_OP_KIND_RESOLVE,
		SY_OP_KIND_RELEASE, SY_OP_KIND_PIN_CHECK,  SY_OP_KIND_SCAN,   SY_OP_KIND_INFO,
		SY_OP_KIND_STATS,
	};
	struct rig *rig = rig_new_ready();
	struct sy_machine_op backing = {0}, out[COUNT_OF(kinds)] = {0};
	rig_start(rig, &backing, SY_OP_KIND_PUT, 100 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_DRAINING);
	uint32_t at = rig->sent_count;
	for (size_t i = 0; i < COUNT_OF(kinds); i++)
		rig_start(rig, &out[i], kinds[i], 100 * RIG_S);
	rig_fault(rig, &rig->sent[at], SY_FAULT_NO_SESSION, 0);
	assert_int_equal(rig->ended_count, COUNT_OF(kinds));
	for (size_t i = 0; i < COUNT_OF(kinds); i++) {
		assert_int_equal(out[i].end, SY_OP_END_SESSION);
		assert_int_equal(out[i].unknown,
		                 kinds[i] == SY_OP_KIND_PUT_INLINE || kinds[i] == SY_OP_KIND_COMMIT);
		assert_int_equal(out[i].incarnation, 7);
	}
	assert_int_equal(rig_last(rig)->op, SY_OP_HELLO);
	assert_int_equal(rig_last(rig)->connection_count, 2);
	assert_int_equal(rig_last(rig)->token, 55);
	/* More of the old session's replies: nobody cares. */
	uint32_t count = rig->sent_count;
	rig_fault(rig, &rig->sent[at + 1], SY_FAULT_NO_SESSION, 0);
	rig_ok(rig, &rig->sent[at + 4]);
	assert_int_equal(rig->sent_count, count);
	rig_greet(rig, 101, 7);
	/* Aborts and the unpin of the old names, in the new session's numbers, at once. */
	assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT);
	assert_int_equal(rig_last(rig)->id.session, 101);
	assert_int_equal(rig_last(rig)->first_notice, 1);
	assert_int_equal(rig_last(rig)->notice_count, 4);
	assert_int_equal(rig_last(rig)->notice.name.session, 100);
	rig_pass(rig, 200 * RIG_MS);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	assert_int_equal(rig_last(rig)->id.session, 101);
	rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
	assert_ptr_equal(rig->writing[0], &backing);
	assert_int_equal(backing.name.session, 101);
	rig_free(rig);
}

static void test_queued_ops_go_on_in_the_next_session(void **state)
{
	(void)state;
	enum { OPS = 70, SLOTS = SY_SLOT_COUNT - 1 };
	struct rig *rig = rig_new_ready();
	struct sy_machine_op *ops = calloc(OPS, sizeof *ops);
	assert_non_null(ops);
	for (size_t i = 0; i < OPS; i++)
		rig_start(rig, &ops[i], SY_OP_KIND_RELEASE, 100 * RIG_S);
	sy_machine_disconnected(rig->machine, rig->now_ns);
	rig_pump(rig);
	assert_int_equal(rig->ended_count, SLOTS);
	uint32_t at = rig->sent_count;
	rig_pass(rig, 50 * RIG_MS);
	assert_int_equal(rig->connects, 1);
	rig_connect(rig, 56, 200, 7);
	assert_int_equal(rig->sent_count, at + 1 + OPS - SLOTS);
	for (uint32_t i = 0; i < OPS - SLOTS; i++) {
		assert_int_equal(rig->sent[at + 1 + i].id.session, 200);
		rig_ok(rig, &rig->sent[at + 1 + i]);
		rig_expect(rig, SLOTS + i + 1, &ops[SLOTS + i], SY_OP_END_OK);
	}
	free(ops);
	rig->ended_count = 0;
	rig_free(rig);
}

/* A put with a reservation, at each stage after the alloc. */
static void test_a_reservation_ends_with_its_session(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op writing = {0}, committing = {0}, pending = {0};
	struct sy_machine_op *ops[] = {&writing, &committing, &pending};
	for (size_t i = 0; i < 3; i++) {
		rig_start(rig, ops[i], SY_OP_KIND_PUT, 100 * RIG_S);
		rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
		if (i == 0)
			continue;
		sy_machine_written(rig->machine, ops[i], true, false, rig->now_ns);
		rig_pump(rig);
		if (i == 2)
			rig_answer(rig, rig_last(rig), SY_ANSWER_PENDING);
	}
	sy_machine_disconnected(rig->machine, rig->now_ns);
	rig_pump(rig);
	assert_int_equal(rig->ended_count, 2);
	assert_int_equal(committing.end, SY_OP_END_SESSION);
	assert_int_equal(pending.end, SY_OP_END_SESSION);
	assert_true(committing.unknown && pending.unknown);
	rig_pass(rig, 50 * RIG_MS);
	rig_connect(rig, 56, 200, 7);
	assert_int_equal(rig_last(rig)->notice_count, 2);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	/* The shell's copy ends after all that: aborted with what the shell knows of it. */
	sy_machine_written(rig->machine, &writing, false, true, rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 3, &writing, SY_OP_END_SESSION);
	assert_true(writing.in_flight);
	assert_false(writing.unknown);
	rig_pass(rig, RIG_BEAT_NS);
	assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, true, writing.name);
	assert_int_equal(writing.name.session, 100);
	rig_free(rig);
}

static void test_a_new_incarnation_knows_nothing_of_the_old(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op writing = {0}, resolve = {0}, queued = {0}, stale = {0}, fresh = {0};
	rig->unit_ahead_ns = 1000 * RIG_S;
	rig_start(rig, &writing, SY_OP_KIND_PUT, 100 * RIG_S);
	rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
	rig_start(rig, &resolve, SY_OP_KIND_RESOLVE, 100 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_NO_SESSION, 0);
	rig_expect(rig, 1, &resolve, SY_OP_END_SESSION);
	rig_start(rig, &queued, SY_OP_KIND_PUT, 100 * RIG_S);
	assert_false(sy_machine_notices_done(rig->machine));
	/* The same socket's token, but the unit behind is another one: connect anew. */
	struct sy_reply reply = rig_hello_reply(rig, rig_last(rig), 300, 8);
	rig_deliver(rig, &reply, SY_OP_HELLO);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_DOWN);
	assert_int_equal(sy_machine_incarnation(rig->machine), 7);
	rig_pass(rig, RIG_S);
	assert_int_equal(rig->connects, 1);
	rig->unit_ahead_ns = 0; /* its clock may be another, too */
	rig_connect(rig, 57, 300, 8);
	assert_int_equal(sy_machine_incarnation(rig->machine), 8);
	assert_true(sy_machine_notices_done(rig->machine));
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	assert_int_equal(rig_last(rig)->notice_count, 0);
	assert_int_equal(rig_last(rig)->until_ns, queued.deadline_ns);
	assert_int_equal(queued.incarnation, 8);
	sy_machine_written(rig->machine, &writing, true, false, rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 2, &writing, SY_OP_END_SESSION);
	assert_int_equal(writing.incarnation, 7);
	assert_true(sy_machine_notices_done(rig->machine)); /* nothing for the new one to abort */
	rig_start(rig, &stale, SY_OP_KIND_COMMIT, RIG_S);
	rig_expect(rig, 3, &stale, SY_OP_END_SESSION);
	assert_int_equal(stale.incarnation, 7);
	rig_start(rig, &fresh, SY_OP_KIND_INFO, RIG_S);
	rig_ok(rig, rig_last(rig));
	rig_expect(rig, 4, &fresh, SY_OP_END_OK);
	assert_int_equal(fresh.incarnation, 8);
	rig_free(rig);
}

static void test_a_refused_hello_ends_what_waits(void **state)
{
	(void)state;
	static const struct {
		enum sy_fault fault;
		uint8_t detail;
		enum sy_op_end end;
	} cases[] = {
		{SY_FAULT_PROTOCOL, SY_WHY_VERSION, SY_OP_END_PROTOCOL},
		{SY_FAULT_PROTOCOL, SY_WHY_CLUSTER_SIZE, SY_OP_END_PROTOCOL},
		{SY_FAULT_PROTOCOL, SY_WHY_NO_PATH, SY_OP_END_NO_PATH},
		{SY_FAULT_UNIT_FULL, SY_RESOURCE_SESSIONS, SY_OP_END_FULL},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct rig *rig = rig_new();
		struct sy_machine_op a = {0}, b = {0}, later = {0};
		rig_start(rig, &a, SY_OP_KIND_PUT, 100 * RIG_S);
		rig_start(rig, &b, SY_OP_KIND_INFO, 100 * RIG_S);
		sy_machine_connected(rig->machine, 55, 7, rig->now_ns);
		rig_pump(rig);
		rig_fault(rig, rig_last(rig), cases[i].fault, cases[i].detail);
		assert_int_equal(rig->ended_count, 2);
		rig_expect(rig, 2, &b, cases[i].end);
		assert_int_equal(a.end, cases[i].end);
		assert_int_equal(a.outcome.fault, cases[i].fault);
		if (cases[i].fault == SY_FAULT_PROTOCOL)
			assert_int_equal(a.outcome.why, cases[i].detail);
		else
			assert_int_equal(a.outcome.resource, cases[i].detail);
		assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_DOWN);
		rig_pass(rig, 10 * RIG_S); /* nothing to do: no more hellos */
		assert_int_equal(rig->sent_count, 1);
		assert_int_equal(rig->connects, 1);
		rig_start(rig, &later, SY_OP_KIND_INFO, 100 * RIG_S);
		assert_int_equal(rig->connects, 2);
		rig_free(rig);
	}
}

static void test_a_hello_refused_for_now(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_INFO, 100 * RIG_S);
	sy_machine_connected(rig->machine, 55, 7, rig->now_ns);
	rig_pump(rig);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_STARTING);
	rig_pass(rig, 200 * RIG_MS - 1);
	assert_int_equal(rig->sent_count, 1);
	rig_pass(rig, 1);
	assert_int_equal(rig->sent_count, 2);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_STARTING);
	rig_pass(rig, 400 * RIG_MS);
	assert_int_equal(rig->sent_count, 3);
	/* The token died with its connection: connect anew, and the op waits on. */
	rig_fault(rig, rig_last(rig), SY_FAULT_PROTOCOL, SY_WHY_TOKEN);
	assert_int_equal(rig->ended_count, 0);
	rig_pass(rig, 50 * RIG_MS);
	assert_int_equal(rig->connects, 2);
	rig_connect(rig, 56, 100, 7);
	rig_ok(rig, rig_last(rig));
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	rig_free(rig);
}

static void test_another_unit_behind_the_address(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_INFO, RIG_S);
	sy_machine_connected(rig->machine, 0, 0, rig->now_ns);
	rig_pump(rig);
	struct sy_reply reply = rig_hello_reply(rig, rig_last(rig), 100, 7);
	reply.hello.unit_id = 2;
	rig_deliver(rig, &reply, SY_OP_HELLO);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_DOWN);
	rig_pass(rig, RIG_S);
	rig_expect(rig, 1, &op, SY_OP_END_TIMEOUT);
	rig_free(rig);
}

static void test_a_unit_that_forgets_is_not_asked_in_a_loop(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op ops[20] = {0};
	uint64_t since_ns = rig->now_ns;
	for (uint32_t i = 0; i < COUNT_OF(ops); i++) {
		rig_start(rig, &ops[i], SY_OP_KIND_INFO, 100 * RIG_S);
		for (int n = 0; n < 100 && rig_last(rig)->id.session != 100 + i; n++) {
			if (rig_last(rig)->op == SY_OP_HELLO && rig_last(rig)->connection_count == i + 1)
				rig_greet(rig, 100 + i, 7);
			else
				rig_until(rig, sy_machine_deadline(rig->machine));
		}
		rig_fault(rig, rig_last(rig), SY_FAULT_NO_SESSION, 0);
		assert_int_equal(rig->ended_count, i + 1);
	}
	assert_true(rig->now_ns - since_ns >= 14 * RIG_S);
	rig_free(rig);
}

static void test_close_ends_all(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op writing = {0}, backing = {0}, sent = {0}, late = {0};
	rig_start(rig, &writing, SY_OP_KIND_PUT, 100 * RIG_S);
	rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
	rig_start(rig, &backing, SY_OP_KIND_PUT, 100 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_SPILLING);
	rig_start(rig, &sent, SY_OP_KIND_RESOLVE, 100 * RIG_S);
	struct sy_request_id name = rig_last(rig)->id;
	sy_machine_close(rig->machine, rig->now_ns);
	rig_pump(rig);
	assert_int_equal(sy_machine_state(rig->machine), SY_MACHINE_CLOSED);
	assert_int_equal(rig->ended_count, 2);
	assert_int_equal(sent.end, SY_OP_END_CLOSED);
	assert_int_equal(backing.end, SY_OP_END_CLOSED);
	assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT); /* at once, with the unpin */
	rig_expect_notice(rig_last(rig), SY_NOTICE_UNPIN, false, name);
	rig->notices_done = 1;
	rig_ok(rig, rig_last(rig));
	assert_true(sy_machine_notices_done(rig->machine));
	sy_machine_written(rig->machine, &writing, true, false, rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 3, &writing, SY_OP_END_CLOSED);
	assert_int_equal(sy_machine_last_notice(rig->machine), 2);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, false, writing.name);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	assert_true(sy_machine_notices_done(rig->machine));
	rig_start(rig, &late, SY_OP_KIND_INFO, RIG_S);
	rig_expect(rig, 4, &late, SY_OP_END_CLOSED);
	/* A view dropped later is still given back. */
	sy_machine_unpin(rig->machine, name, rig->now_ns);
	rig_pump(rig);
	rig_expect_notice(rig_last(rig), SY_NOTICE_UNPIN, false, name);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_connects_only_when_there_is_something_to_do),
		cmocka_unit_test(test_reconnects_wait_50_ms_doubling_to_1_s),
		cmocka_unit_test(test_hello_says_who_it_is_and_is_sent_again),
		cmocka_unit_test(test_no_session_ends_what_was_out_and_nothing_else),
		cmocka_unit_test(test_queued_ops_go_on_in_the_next_session),
		cmocka_unit_test(test_a_reservation_ends_with_its_session),
		cmocka_unit_test(test_a_new_incarnation_knows_nothing_of_the_old),
		cmocka_unit_test(test_a_refused_hello_ends_what_waits),
		cmocka_unit_test(test_a_hello_refused_for_now),
		cmocka_unit_test(test_another_unit_behind_the_address),
		cmocka_unit_test(test_a_unit_that_forgets_is_not_asked_in_a_loop),
		cmocka_unit_test(test_close_ends_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
