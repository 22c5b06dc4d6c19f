/* Requests and their replies: lost, doubled, late, refused for a while. */
#include "machine_rig.h"

static void test_a_lost_message_is_sent_again_under_its_seq(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_RELEASE, 100 * RIG_S);
	struct rig_sent first = *rig_last(rig);
	assert_int_equal(first.op, SY_OP_RELEASE_ROWS);
	assert_int_equal(first.row_count, 4);
	uint32_t count = rig->sent_count;
	rig_pass(rig, RIG_CONTROL_NS - 1);
	assert_int_equal(rig->sent_count, count);
	rig_pass(rig, 1);
	assert_int_equal(rig->sent_count, count + 1);
	assert_true(sy_request_id_equal(rig_last(rig)->id, first.id));
	rig_pass(rig, RIG_CONTROL_NS);
	assert_int_equal(rig->sent_count, count + 2);
	struct sy_reply reply = rig_reply(rig, rig_last(rig));
	reply.outcome.count = 12;
	rig_deliver(rig, &reply, SY_OP_RELEASE_ROWS);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_int_equal(op.outcome.count, 12);
	rig_free(rig);
}

static void test_a_doubled_reply_counts_once(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op a = {0}, b = {0};
	rig_start(rig, &a, SY_OP_KIND_INFO, 100 * RIG_S);
	struct rig_sent first = *rig_last(rig);
	rig_ok(rig, &first);
	rig_ok(rig, &first);
	rig_expect(rig, 1, &a, SY_OP_END_OK);
	rig_start(rig, &b, SY_OP_KIND_INFO, 100 * RIG_S);
	assert_int_equal(rig_last(rig)->id.slot, first.id.slot);
	assert_int_equal(rig_last(rig)->id.seq, first.id.seq + 1);
	rig_ok(rig, &first); /* the slot's former request: not b's answer */
	assert_int_equal(rig->ended_count, 1);
	rig_ok(rig, rig_last(rig));
	rig_expect(rig, 2, &b, SY_OP_END_OK);
	rig_free(rig);
}

static void test_replies_in_another_order_find_their_ops(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op ops[3] = {0};
	uint32_t at = rig->sent_count;
	for (size_t i = 0; i < 3; i++)
		rig_start(rig, &ops[i], SY_OP_KIND_RELEASE, 100 * RIG_S);
	for (uint32_t i = 3; i-- > 0;) {
		struct sy_reply reply = rig_reply(rig, &rig->sent[at + i]);
		reply.outcome.count = i;
		rig_deliver(rig, &reply, SY_OP_RELEASE_ROWS);
		rig_expect(rig, 3 - i, &ops[i], SY_OP_END_OK);
		assert_int_equal(ops[i].outcome.count, i);
	}
	rig_free(rig);
}

static void test_a_request_given_up_gets_no_late_answer(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op a = {0}, b = {0};
	rig_start(rig, &a, SY_OP_KIND_RELEASE, RIG_S);
	struct rig_sent first = *rig_last(rig);
	rig_pass(rig, RIG_S - 1);
	assert_int_equal(rig->ended_count, 0);
	rig_pass(rig, 1);
	rig_expect(rig, 1, &a, SY_OP_END_TIMEOUT);
	assert_false(a.was_busy);
	rig_start(rig, &b, SY_OP_KIND_RELEASE, RIG_S);
	struct rig_sent second = *rig_last(rig);
	assert_int_equal(second.id.slot, first.id.slot);
	assert_int_equal(second.id.seq, first.id.seq + 1);
	/* The unit must never run the first one after this. */
	rig_expect_notice(&second, SY_NOTICE_ABORT, false, first.id);
	rig_ok(rig, &first);
	assert_int_equal(rig->ended_count, 1);
	rig_ok(rig, &second);
	rig_expect(rig, 2, &b, SY_OP_END_OK);
	rig_free(rig);
}

static void test_many_ops_wait_for_slots_in_order(void **state)
{
	(void)state;
	enum { OPS = 100, SLOTS = SY_SLOT_COUNT - 1 }; /* one slot is for heartbeats */
	struct rig *rig = rig_new_ready();
	struct sy_machine_op *ops = calloc(OPS, sizeof *ops);
	assert_non_null(ops);
	uint32_t at = rig->sent_count;
	uint64_t used = 0;
	for (size_t i = 0; i < OPS; i++)
		rig_start(rig, &ops[i], SY_OP_KIND_INFO, 100 * RIG_S);
	assert_int_equal(rig->sent_count, at + SLOTS);
	for (uint32_t i = 0; i < SLOTS; i++)
		used |= UINT64_C(1) << rig->sent[at + i].id.slot;
	assert_int_equal(__builtin_popcountll(used), SLOTS);
	assert_int_equal(ops[SLOTS].stage, SY_OP_STAGE_QUEUED);
	for (uint32_t i = 0; i < OPS; i++) {
		assert_true(rig->sent_count > at + i);
		rig_ok(rig, &rig->sent[at + i]);
		rig_expect(rig, i + 1, &ops[i], SY_OP_END_OK);
		if (i + SLOTS < OPS) {
			assert_int_equal(rig->sent_count, at + SLOTS + i + 1);
			assert_int_equal(rig_last(rig)->id.slot, rig->sent[at + i].id.slot);
			assert_int_equal(rig_last(rig)->id.seq, rig->sent[at + i].id.seq + 1);
		}
	}
	assert_int_equal(rig->sent_count, at + OPS);
	free(ops);
	rig->ended_count = 0;
	rig_free(rig);
}

static void test_busy_is_asked_again_under_new_seqs(void **state)
{
	(void)state;
	static const uint64_t waits_ms[] = {200, 400, 800, 1600, 2000, 2000};
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0}, other = {0};
	rig_start(rig, &op, SY_OP_KIND_PUT, 8 * RIG_S);
	for (size_t i = 0; i < COUNT_OF(waits_ms); i++) {
		uint32_t count = rig->sent_count;
		struct rig_sent sent = *rig_last(rig);
		rig_fault(rig, &sent, SY_FAULT_BUSY, SY_BUSY_QUEUE_FULL);
		assert_int_equal(op.stage, SY_OP_STAGE_BACKOFF);
		assert_true(op.was_busy);
		rig_pass(rig, waits_ms[i] * RIG_MS - 1);
		assert_int_equal(rig->sent_count, count);
		rig_pass(rig, 1);
		assert_int_equal(rig->sent_count, count + 1);
		assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
		assert_int_equal(rig_last(rig)->id.seq, sent.id.seq + 1);
		assert_int_equal(rig_last(rig)->notice_count, 0); /* an outcome: nothing to take back */
	}
	/* A waiting op keeps no slot. The last wait is cut short by the deadline. */
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_LOADING);
	rig_start(rig, &other, SY_OP_KIND_INFO, RIG_S);
	assert_int_equal(rig_last(rig)->id.slot, 0);
	rig_ok(rig, rig_last(rig));
	rig_until(rig, op.deadline_ns - 1);
	assert_int_equal(rig->ended_count, 1);
	rig_pass(rig, 1);
	rig_expect(rig, 2, &op, SY_OP_END_TIMEOUT);
	assert_true(op.was_busy);
	assert_int_equal(op.outcome.busy, SY_BUSY_LOADING);
	rig_free(rig);
}

/* Only what may wait for room that its own caller takes does not wait. */
static void test_what_gives_way_does_not_wait_for_a_load(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {.gives_way = true};
	uint64_t row = 1;
	struct sy_span field = {(const uint8_t *)"x", 1};
	op.resolve = (struct sy_resolve_args){
		.rows = &row, .fields = &field, .row_count = 1, .field_count = 1};
	rig_start(rig, &op, SY_OP_KIND_RESOLVE, 8 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_QUEUE_FULL);
	assert_int_equal(op.stage, SY_OP_STAGE_BACKOFF);
	rig_pass(rig, 200 * RIG_MS);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_LOADING);
	rig_expect(rig, 1, &op, SY_OP_END_BUSY);
	assert_int_equal(op.name.session, 0); /* nothing to give back */
	op.gives_way = false;
	rig_start(rig, &op, SY_OP_KIND_RESOLVE, 8 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_LOADING);
	assert_int_equal(op.stage, SY_OP_STAGE_BACKOFF);
	rig_until(rig, op.deadline_ns);
	rig_expect(rig, 2, &op, SY_OP_END_TIMEOUT);
	sy_buf_free(&op.result);
	rig_free(rig);
}

static void test_busy_fenced_is_asked_again_under_its_seq(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_RELEASE, 100 * RIG_S);
	struct rig_sent first = *rig_last(rig);
	rig_fault(rig, &first, SY_FAULT_BUSY, SY_BUSY_FENCED);
	rig_pass(rig, 200 * RIG_MS);
	assert_true(sy_request_id_equal(rig_last(rig)->id, first.id));
	assert_int_equal(rig_last(rig)->at_ns, rig->now_ns);
	rig_fault(rig, &first, SY_FAULT_BUSY, SY_BUSY_FENCED);
	rig_pass(rig, 400 * RIG_MS);
	assert_int_equal(rig_last(rig)->at_ns, rig->now_ns);
	rig_ok(rig, &first);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	rig_free(rig);
}

static void test_a_fenced_resolve_is_unpinned_and_asked_anew(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_RESOLVE, 100 * RIG_S);
	struct rig_sent first = *rig_last(rig);
	rig_fault(rig, &first, SY_FAULT_BUSY, SY_BUSY_FENCED);
	rig_pass(rig, 200 * RIG_MS);
	struct rig_sent second = *rig_last(rig);
	assert_int_equal(second.op, SY_OP_RESOLVE_KEYS);
	assert_int_equal(second.id.seq, first.id.seq + 1);
	rig_expect_notice(&second, SY_NOTICE_UNPIN, false, first.id);
	rig_resolve_ok(rig, &second);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_true(sy_request_id_equal(op.name, second.id));
	rig_free(rig);
}

static void test_pending_is_asked_every_10_ms(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_COMMIT, RIG_S);
	for (int i = 0; i < 5; i++) {
		struct rig_sent sent = *rig_last(rig);
		uint32_t count = rig->sent_count;
		rig_answer(rig, &sent, SY_ANSWER_PENDING);
		rig_pass(rig, 10 * RIG_MS - 1);
		assert_int_equal(rig->sent_count, count);
		rig_pass(rig, 1);
		assert_int_equal(rig->sent_count, count + 1);
		assert_int_equal(rig_last(rig)->op, SY_OP_COMMIT);
		assert_int_equal(rig_last(rig)->generation, 31);
		assert_int_equal(rig_last(rig)->id.seq, sent.id.seq + 1);
	}
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_false(op.unknown);
	rig_free(rig);
}

static void test_a_resolve_is_never_sent_twice(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_RESOLVE, 70 * RIG_S);
	struct rig_sent first = *rig_last(rig);
	assert_int_equal(first.op, SY_OP_RESOLVE_KEYS);
	rig_pass(rig, RIG_CONTROL_NS);
	struct rig_sent second = *rig_last(rig);
	assert_int_equal(second.op, SY_OP_RESOLVE_KEYS);
	assert_int_equal(second.id.seq, first.id.seq + 1);
	rig_expect_notice(&second, SY_NOTICE_UNPIN, false, first.id);
	rig_resolve_ok(rig, &first); /* late: its pin is given back already */
	assert_int_equal(rig->ended_count, 0);
	rig_pass(rig, RIG_MS);
	rig->notices_done = 1;
	rig_resolve_ok(rig, &second);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_true(sy_request_id_equal(op.name, second.id));
	assert_int_equal(op.sent_ns, second.at_ns);
	assert_int_equal(op.answered_ns, rig->now_ns);
	assert_int_equal(op.incarnation, 7);
	rig_free(rig);
}

static void test_a_resolve_that_ran_out_is_unpinned(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0}, other = {0};
	rig_start(rig, &op, SY_OP_KIND_RESOLVE, RIG_S);
	struct rig_sent first = *rig_last(rig);
	rig_pass(rig, RIG_S);
	rig_expect(rig, 1, &op, SY_OP_END_TIMEOUT);
	rig_start(rig, &other, SY_OP_KIND_INFO, RIG_S);
	rig_expect_notice(rig_last(rig), SY_NOTICE_UNPIN, false, first.id);
	rig_free(rig);
}

static void test_faults_end_an_op_as_what_they_are(void **state)
{
	(void)state;
	static const struct {
		enum sy_fault fault;
		uint8_t detail;
		enum sy_op_end end;
	} cases[] = {
		{SY_FAULT_UNIT_FULL, SY_RESOURCE_PINS, SY_OP_END_FULL},
		{SY_FAULT_PROTOCOL, SY_WHY_TOO_MANY, SY_OP_END_PROTOCOL},
		{SY_FAULT_PROTOCOL, SY_WHY_NO_PATH, SY_OP_END_NO_PATH},
		{SY_FAULT_MISSING, 0, SY_OP_END_MISSING},
	};
	struct rig *rig = rig_new_ready();
	for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
		struct sy_machine_op op = {0};
		rig_start(rig, &op, SY_OP_KIND_RESOLVE, RIG_S);
		struct sy_reply reply = rig_reply(rig, rig_last(rig));
		reply.outcome.fault = (uint8_t)cases[i].fault;
		reply.outcome.resource = cases[i].detail;
		reply.outcome.why = cases[i].detail;
		reply.outcome.need = 11;
		memcpy(reply.reason, "words", 6);
		rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
		rig_expect(rig, i + 1, &op, cases[i].end);
		assert_int_equal(op.outcome.fault, cases[i].fault);
		assert_int_equal(op.name.session, 0);
		if (cases[i].fault == SY_FAULT_UNIT_FULL)
			assert_int_equal(op.outcome.resource, SY_RESOURCE_PINS);
		if (cases[i].fault == SY_FAULT_PROTOCOL) {
			assert_int_equal(op.outcome.why, cases[i].detail);
			assert_true(op.reason[0] != '\0');
		}
		rig->ended[i] = &op; /* its result stays empty */
		sy_buf_free(&op.result);
	}
	rig->ended_count = 0;
	rig_free(rig);
}

static void test_junk_and_cut_replies_change_nothing(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_RESOLVE, RIG_S);
	struct sy_reply reply = rig_resolved(rig, rig_last(rig));
	struct sy_buf buf = {0};
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	for (size_t n = 0; n < buf.bytes; n++)
		sy_machine_receive(rig->machine, buf.data, n, &rig->scratch, rig->now_ns);
	reply.id.slot = 64;
	rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
	reply.id.slot = UINT32_MAX;
	rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
	reply.id = rig_last(rig)->id;
	reply.id.session++;
	rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
	rig_ok(rig, rig_last(rig)); /* a result for no keys at all */
	assert_int_equal(rig->ended_count, 0);
	sy_machine_receive(rig->machine, buf.data, buf.bytes, &rig->scratch, rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	sy_buf_free(&buf);
	rig_free(rig);
}

/* Between question and answer the unit may have died: what came too late is for the directory to
 * say. Its pin is held until then, and given back as any other. */
static void test_a_late_answer_of_a_resolve_is_not_believed_unasked(void **state)
{
	(void)state;
	static const struct {
		uint64_t after_ns;
		enum sy_op_end end;
	} cases[] = {{15 * RIG_S, SY_OP_END_OK}, {15 * RIG_S + 1, SY_OP_END_LATE}};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct rig *rig = rig_new_trusting(15 * RIG_S);
		rig_connect(rig, 1, 501, 71);
		struct sy_machine_op op = {0}, release = {0};
		rig_start(rig, &op, SY_OP_KIND_RESOLVE, 60 * RIG_S);
		rig_start(rig, &release, SY_OP_KIND_RELEASE, 60 * RIG_S);
		struct rig_sent asked = *(rig_last(rig) - 1), other = *rig_last(rig);
		rig_pass(rig, cases[i].after_ns);
		rig_resolve_ok(rig, &asked);
		rig_expect(rig, 1, &op, cases[i].end);
		assert_true(sy_request_id_equal(op.name, asked.id));
		assert_true(op.reply.key_count > 0);
		/* What changes the unit is acknowledged by one that lived, or had no effect. */
		rig_ok(rig, &other);
		rig_expect(rig, 2, &release, SY_OP_END_OK);
		sy_machine_unpin(rig->machine, op.name, rig->now_ns);
		rig_pass(rig, RIG_BEAT_NS);
		rig_expect_notice(rig_last(rig), SY_NOTICE_UNPIN, false, op.name);
		rig_free(rig);
	}
}

static void test_a_request_too_long_for_a_message_is_not_sent(void **state)
{
	(void)state;
	enum { FIELDS = 5000 };
	struct rig *rig = rig_new_ready();
	static uint8_t name[1024];
	static struct sy_span fields[FIELDS];
	static const uint64_t rows[1] = {1};
	struct sy_machine_op op = {.kind = SY_OP_KIND_RESOLVE, .deadline_ns = rig->now_ns + RIG_S};
	memset(name, 'x', sizeof name);
	for (size_t i = 0; i < FIELDS; i++)
		fields[i] = (struct sy_span){name, sizeof name};
	op.resolve = (struct sy_resolve_args){
		.rows = rows, .fields = fields, .row_count = 1, .field_count = FIELDS};
	uint32_t count = rig->sent_count;
	sy_machine_start(rig->machine, &op, rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 1, &op, SY_OP_END_PROTOCOL);
	assert_int_equal(op.outcome.why, SY_WHY_TOO_MANY);
	assert_int_equal(rig->sent_count, count);
	assert_true(sy_machine_notices_done(rig->machine));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_lost_message_is_sent_again_under_its_seq),
		cmocka_unit_test(test_a_doubled_reply_counts_once),
		cmocka_unit_test(test_replies_in_another_order_find_their_ops),
		cmocka_unit_test(test_a_request_given_up_gets_no_late_answer),
		cmocka_unit_test(test_many_ops_wait_for_slots_in_order),
		cmocka_unit_test(test_busy_is_asked_again_under_new_seqs),
		cmocka_unit_test(test_what_gives_way_does_not_wait_for_a_load),
		cmocka_unit_test(test_busy_fenced_is_asked_again_under_its_seq),
		cmocka_unit_test(test_a_fenced_resolve_is_unpinned_and_asked_anew),
		cmocka_unit_test(test_pending_is_asked_every_10_ms),
		cmocka_unit_test(test_a_resolve_is_never_sent_twice),
		cmocka_unit_test(test_a_resolve_that_ran_out_is_unpinned),
		cmocka_unit_test(test_faults_end_an_op_as_what_they_are),
		cmocka_unit_test(test_junk_and_cut_replies_change_nothing),
		cmocka_unit_test(test_a_late_answer_of_a_resolve_is_not_believed_unasked),
		cmocka_unit_test(test_a_request_too_long_for_a_message_is_not_sent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
