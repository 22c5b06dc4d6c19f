/* Puts: alloc, WRITE, commit; what a failure at each stage leaves; until_ns. */
#include "machine_rig.h"

/* A put whose region was granted and whose WRITE is under way. */
static struct sy_request_id start_writing(struct rig *rig, struct sy_machine_op *op,
                                          uint64_t timeout_ns)
{
	uint32_t writing = rig->writing_count;
	rig_start(rig, op, SY_OP_KIND_PUT, timeout_ns);
	struct rig_sent alloc = *rig_last(rig);
	assert_int_equal(alloc.op, SY_OP_ALLOC);
	rig_answer(rig, &alloc, SY_ANSWER_REGION);
	assert_int_equal(rig->writing_count, writing + 1);
	assert_ptr_equal(rig->writing[writing], op);
	assert_int_equal(op->outcome.offset, 4096);
	assert_true(sy_request_id_equal(op->name, alloc.id));
	assert_int_equal(op->incarnation, 7);
	return alloc.id;
}

static void written(struct rig *rig, struct sy_machine_op *op, bool ok, bool in_flight)
{
	sy_machine_written(rig->machine, op, ok, in_flight, rig->now_ns);
	rig_pump(rig);
}

static void test_a_put_goes_through(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	struct sy_request_id name = start_writing(rig, &op, 100 * RIG_S);
	uint32_t count = rig->sent_count;
	rig_pass(rig, 40 * RIG_S); /* the WRITE takes its time: nothing is sent again */
	assert_int_equal(rig->sent_count, count);
	written(rig, &op, true, false);
	assert_int_equal(rig->sent_count, count + 1);
	assert_int_equal(rig_last(rig)->op, SY_OP_COMMIT);
	assert_int_equal(rig_last(rig)->generation, 31);
	assert_false(rig->ended_count);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_false(op.unknown || op.in_flight);
	assert_int_equal(op.outcome.generation, 31);
	assert_int_equal(op.outcome.offset, 4096);
	assert_true(sy_request_id_equal(op.name, name));
	assert_true(sy_machine_notices_done(rig->machine));
	rig_free(rig);
}

static void test_a_writing_put_takes_no_slot(void **state)
{
	(void)state;
	enum { PUTS = 150 };
	struct rig *rig = rig_new_ready();
	struct sy_machine_op *ops = calloc(PUTS, sizeof *ops);
	assert_non_null(ops);
	for (size_t i = 0; i < PUTS; i++)
		start_writing(rig, &ops[i], 10 * RIG_S);
	for (size_t i = 0; i < PUTS; i++) {
		written(rig, &ops[i], true, false);
		rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	}
	assert_int_equal(rig->ended_count, PUTS);
	rig->ended_count = 0;
	free(ops);
	rig_free(rig);
}

static void test_a_failed_write_aborts(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op a = {0}, b = {0};
	struct sy_request_id name = start_writing(rig, &a, 10 * RIG_S);
	written(rig, &a, false, false);
	rig_expect(rig, 1, &a, SY_OP_END_WRITE);
	assert_false(a.in_flight);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig->notices_done = 1;
	rig_ok(rig, rig_last(rig));
	assert_true(sy_machine_notices_done(rig->machine));

	name = start_writing(rig, &b, 10 * RIG_S);
	written(rig, &b, false, true);
	rig_expect(rig, 3, &b, SY_OP_END_WRITE);
	assert_true(b.in_flight);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, true, name);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	sy_machine_drained(rig->machine, b.name, rig->now_ns);
	rig_expect_notice(rig_next(rig), SY_NOTICE_DRAINED, false, name);
	assert_int_equal(rig_last(rig)->first_notice, 3);
	rig_free(rig);
}

/* Who looks after what was left in flight may be faster than who left it. */
static void test_a_write_proved_finished_before_it_is_said_to_be_in_flight(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	struct sy_request_id name = start_writing(rig, &op, 10 * RIG_S);
	sy_machine_drained(rig->machine, name, rig->now_ns);
	assert_true(sy_machine_notices_done(rig->machine));
	written(rig, &op, false, true);
	rig_expect(rig, 1, &op, SY_OP_END_WRITE);
	assert_false(op.in_flight);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig->notices_done = 1;
	rig_ok(rig, rig_last(rig));
	assert_true(sy_machine_notices_done(rig->machine));
	rig_free(rig);
}

static void test_the_deadline_at_each_stage(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op ops[6] = {0};
	/* No connection at all. */
	rig_start(rig, &ops[0], SY_OP_KIND_PUT, RIG_S);
	rig_pass(rig, RIG_S);
	rig_expect(rig, 1, &ops[0], SY_OP_END_TIMEOUT);
	assert_false(ops[0].unknown);
	rig_connect(rig, 55, 100, 7);
	/* The alloc is out. */
	rig_start(rig, &ops[1], SY_OP_KIND_PUT, RIG_S);
	struct sy_request_id name = rig_last(rig)->id;
	rig_pass(rig, RIG_S);
	rig_expect(rig, 2, &ops[1], SY_OP_END_TIMEOUT);
	assert_false(ops[1].unknown || ops[1].in_flight);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig->notices_done = 1;
	rig_ok(rig, rig_last(rig));
	/* The WRITE runs: it ends when the shell says so, and never commits. */
	name = start_writing(rig, &ops[2], RIG_S);
	rig_pass(rig, 2 * RIG_S);
	assert_int_equal(rig->ended_count, 3);
	written(rig, &ops[2], true, false);
	rig_expect(rig, 4, &ops[2], SY_OP_END_TIMEOUT);
	assert_false(ops[2].unknown || ops[2].in_flight);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	/* The commit is out: it may have been published. */
	name = start_writing(rig, &ops[3], RIG_S);
	written(rig, &ops[3], true, false);
	rig_pass(rig, RIG_S);
	rig_expect(rig, 6, &ops[3], SY_OP_END_TIMEOUT);
	assert_true(ops[3].unknown);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig->notices_done = 3;
	rig_ok(rig, rig_last(rig));
	/* Pending until the deadline. */
	start_writing(rig, &ops[4], RIG_S);
	written(rig, &ops[4], true, false);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PENDING);
	rig_pass(rig, RIG_S);
	rig_expect(rig, 8, &ops[4], SY_OP_END_TIMEOUT);
	assert_true(ops[4].unknown);
	/* Started too late. */
	rig_start(rig, &ops[5], SY_OP_KIND_PUT, 0);
	rig_expect(rig, 9, &ops[5], SY_OP_END_TIMEOUT);
	rig_free(rig);
}

static void test_a_region_granted_too_late_is_given_back(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_PUT, RIG_S);
	struct rig_sent alloc = *rig_last(rig);
	rig->now_ns += RIG_S; /* the reply is read before the tick */
	rig_answer(rig, &alloc, SY_ANSWER_REGION);
	assert_int_equal(rig->writing_count, 0);
	rig_expect(rig, 1, &op, SY_OP_END_TIMEOUT);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, alloc.id);
	rig_free(rig);
}

static void test_cancel_at_each_stage(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op ops[4] = {0};
	rig_start(rig, &ops[0], SY_OP_KIND_PUT, RIG_S);
	sy_machine_cancel(rig->machine, &ops[0], rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 1, &ops[0], SY_OP_END_TIMEOUT);
	sy_machine_cancel(rig->machine, &ops[0], rig->now_ns); /* ended: nothing */
	rig_connect(rig, 55, 100, 7);
	rig_start(rig, &ops[1], SY_OP_KIND_PUT, RIG_S);
	struct sy_request_id name = rig_last(rig)->id;
	sy_machine_cancel(rig->machine, &ops[1], rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 2, &ops[1], SY_OP_END_TIMEOUT);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig->notices_done = 1;
	rig_ok(rig, rig_last(rig));
	name = start_writing(rig, &ops[2], RIG_S);
	sy_machine_cancel(rig->machine, &ops[2], rig->now_ns);
	rig_pump(rig);
	assert_int_equal(rig->ended_count, 3);
	written(rig, &ops[2], false, true);
	rig_expect(rig, 4, &ops[2], SY_OP_END_TIMEOUT);
	assert_true(ops[2].in_flight);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, true, name);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	rig_start(rig, &ops[3], SY_OP_KIND_PUT_INLINE, RIG_S);
	name = rig_last(rig)->id;
	sy_machine_cancel(rig->machine, &ops[3], rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 6, &ops[3], SY_OP_END_TIMEOUT);
	assert_true(ops[3].unknown);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig_free(rig);
}

static void test_what_a_refused_commit_says(void **state)
{
	(void)state;
	static const struct {
		enum sy_fault fault;
		uint8_t detail;
		bool pending;
		enum sy_op_end end;
	} cases[] = {
		{SY_FAULT_MISSING, 0, false, SY_OP_END_MISSING},
		{SY_FAULT_MISSING, 0, true, SY_OP_END_MISSING},
		{SY_FAULT_UNIT_FULL, SY_RESOURCE_ENTRIES, false, SY_OP_END_FULL},
		{SY_FAULT_PROTOCOL, SY_WHY_INDEX, false, SY_OP_END_PROTOCOL},
	};
	struct rig *rig = rig_new_ready();
	struct sy_machine_op ops[COUNT_OF(cases)] = {0};
	for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
		struct sy_request_id name = start_writing(rig, &ops[i], 10 * RIG_S);
		written(rig, &ops[i], true, false);
		if (cases[i].pending) {
			rig_answer(rig, rig_last(rig), SY_ANSWER_PENDING);
			rig_pass(rig, 10 * RIG_MS);
		}
		rig_fault(rig, rig_last(rig), cases[i].fault, cases[i].detail);
		rig_expect(rig, 2 * i + 1, &ops[i], cases[i].end);
		assert_int_equal(ops[i].unknown, cases[i].pending);
		rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
		rig->notices_done++;
		rig_ok(rig, rig_last(rig));
	}
	rig_free(rig);
}

static void test_a_commit_op_stays_unknown_until_it_knows(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op ops[4] = {0};
	rig_start(rig, &ops[0], SY_OP_KIND_COMMIT, RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_MISSING, 0);
	rig_expect(rig, 1, &ops[0], SY_OP_END_MISSING);
	assert_true(ops[0].unknown);
	rig_start(rig, &ops[1], SY_OP_KIND_COMMIT, RIG_S);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_expect(rig, 2, &ops[1], SY_OP_END_OK);
	assert_false(ops[1].unknown);
	/* Of another incarnation: never sent. */
	uint32_t count = rig->sent_count;
	ops[2].kind = SY_OP_KIND_COMMIT;
	ops[2].deadline_ns = rig->now_ns + RIG_S;
	ops[2].commit.incarnation = 8;
	sy_machine_start(rig->machine, &ops[2], rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 3, &ops[2], SY_OP_END_SESSION);
	assert_int_equal(ops[2].incarnation, 8);
	assert_int_equal(rig->sent_count, count);
	rig_free(rig);
}

static void test_an_alloc_of_a_blob_that_is_there(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_PUT, RIG_S);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PENDING);
	rig_pass(rig, 10 * RIG_MS);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_int_equal(rig->writing_count, 0);
	assert_true(sy_machine_notices_done(rig->machine));
	rig_free(rig);
}

static void test_put_inline(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op ops[3] = {0};
	rig_start(rig, &ops[0], SY_OP_KIND_PUT_INLINE, RIG_S);
	assert_int_equal(rig_last(rig)->op, SY_OP_PUT_INLINE);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_SPILLING);
	assert_false(ops[0].unknown); /* Busy: it did not run */
	rig_pass(rig, 200 * RIG_MS);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_expect(rig, 1, &ops[0], SY_OP_END_OK);
	rig_start(rig, &ops[1], SY_OP_KIND_PUT_INLINE, RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_UNIT_FULL, SY_RESOURCE_BYTES);
	rig_expect(rig, 2, &ops[1], SY_OP_END_FULL);
	assert_false(ops[1].unknown);
	rig_start(rig, &ops[2], SY_OP_KIND_PUT_INLINE, RIG_S);
	struct sy_request_id name = rig_last(rig)->id;
	rig_pass(rig, RIG_S);
	rig_expect(rig, 3, &ops[2], SY_OP_END_TIMEOUT);
	assert_true(ops[2].unknown);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, name);
	rig_free(rig);
}

static void test_too_late_by_an_old_stamp_is_asked_again(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_PUT, 10 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_PROTOCOL, SY_WHY_TOO_LATE);
	assert_int_equal(rig->ended_count, 0);
	rig_pass(rig, 200 * RIG_MS);
	rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
	assert_int_equal(rig->writing_count, 1);
	rig_free(rig);
}

static void test_a_put_with_no_transport(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op a = {0}, b = {0};
	rig->transports = 0;
	rig_connect(rig, 0, 100, 7);
	uint32_t count = rig->sent_count;
	rig_start(rig, &a, SY_OP_KIND_PUT, RIG_S);
	rig_expect(rig, 1, &a, SY_OP_END_NO_PATH);
	assert_int_equal(rig->sent_count, count);
	rig_start(rig, &b, SY_OP_KIND_PUT_INLINE, RIG_S); /* needs none */
	assert_int_equal(rig_last(rig)->op, SY_OP_PUT_INLINE);
	rig_free(rig);
}

/* until_ns is the deadline or earlier on the unit's clock, whatever the clocks show. */
static void test_until_is_never_late(void **state)
{
	(void)state;
	static const uint64_t aheads[] = {
		0, 12345 * RIG_S, UINT64_MAX - 999 * RIG_S + 1, /* 999 s behind */
	};
	for (size_t i = 0; i < COUNT_OF(aheads); i++) {
		struct rig *rig = rig_new();
		struct sy_machine_op op = {0};
		rig->unit_ahead_ns = aheads[i];
		sy_machine_connected(rig->machine, 55, 0, rig->now_ns);
		rig_pump(rig);
		struct sy_reply hello = rig_hello_reply(rig, rig_last(rig), 100, 7);
		rig_pass(rig, 3 * RIG_MS); /* the reply was on its way so long */
		rig_deliver(rig, &hello, SY_OP_HELLO);
		rig_pass(rig, 5 * RIG_S);
		rig_start(rig, &op, SY_OP_KIND_PUT, 10 * RIG_S);
		uint64_t exact_ns = op.deadline_ns + aheads[i];
		assert_int_equal(rig_last(rig)->until_ns, exact_ns - 3 * RIG_MS);
		/* The next stamp came faster, and is the one used. */
		rig_pass(rig, RIG_S);
		rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
		sy_machine_written(rig->machine, &op, true, false, rig->now_ns);
		rig_pump(rig);
		assert_int_equal(rig_last(rig)->op, SY_OP_COMMIT);
		assert_int_equal(rig_last(rig)->until_ns, exact_ns);
		rig_free(rig);
	}
}

static void test_a_stale_stamp_is_left_aside(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op a = {0}, b = {0}, c = {0};
	rig_start(rig, &a, SY_OP_KIND_INFO, 90 * RIG_S);
	rig_start(rig, &b, SY_OP_KIND_INFO, 90 * RIG_S);
	struct rig_sent first = rig->sent[rig->sent_count - 2];
	struct sy_reply early = rig_reply(rig, &first);
	rig_pass(rig, 20 * RIG_S);
	rig_ok(rig, rig_last(rig));
	rig_deliver(rig, &early, SY_OP_INFO); /* 20 s on its way */
	assert_int_equal(rig->ended_count, 2);
	rig_start(rig, &c, SY_OP_KIND_PUT, 10 * RIG_S);
	assert_int_equal(rig_last(rig)->until_ns, c.deadline_ns);
	rig_free(rig);
}

static void test_until_stays_in_range(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {.kind = SY_OP_KIND_PUT, .deadline_ns = UINT64_MAX};
	rig->unit_ahead_ns = 1;
	struct sy_machine_op info = {0};
	rig_pass(rig, 1);
	rig_start(rig, &info, SY_OP_KIND_INFO, RIG_S);
	rig_ok(rig, rig_last(rig));
	sy_machine_start(rig->machine, &op, rig->now_ns);
	rig_pump(rig);
	assert_true(rig_last(rig)->until_ns == UINT64_MAX);
	rig_pass(rig, 1000 * RIG_S); /* resends, and no end */
	assert_int_equal(rig->ended_count, 1);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_put_goes_through),
		cmocka_unit_test(test_a_writing_put_takes_no_slot),
		cmocka_unit_test(test_a_failed_write_aborts),
		cmocka_unit_test(test_a_write_proved_finished_before_it_is_said_to_be_in_flight),
		cmocka_unit_test(test_the_deadline_at_each_stage),
		cmocka_unit_test(test_a_region_granted_too_late_is_given_back),
		cmocka_unit_test(test_cancel_at_each_stage),
		cmocka_unit_test(test_what_a_refused_commit_says),
		cmocka_unit_test(test_a_commit_op_stays_unknown_until_it_knows),
		cmocka_unit_test(test_an_alloc_of_a_blob_that_is_there),
		cmocka_unit_test(test_put_inline),
		cmocka_unit_test(test_too_late_by_an_old_stamp_is_asked_again),
		cmocka_unit_test(test_a_put_with_no_transport),
		cmocka_unit_test(test_until_is_never_late),
		cmocka_unit_test(test_a_stale_stamp_is_left_aside),
		cmocka_unit_test(test_until_stays_in_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
