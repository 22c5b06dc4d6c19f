/* Notices: numbered, repeated until done, bounded; heartbeats that carry them. */
#include "machine_rig.h"

static struct sy_request_id name_of(uint64_t k)
{
	return (struct sy_request_id){.session = 100, .seq = k, .slot = (uint32_t)(k % 60)};
}

static void unpin(struct rig *rig, uint64_t k)
{
	sy_machine_unpin(rig->machine, name_of(k), rig->now_ns);
	rig_pump(rig);
}

static void test_they_ride_until_they_are_done(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op ops[4] = {0};
	assert_true(sy_machine_notices_done(rig->machine));
	assert_int_equal(sy_machine_last_notice(rig->machine), 0);
	for (uint64_t k = 1; k <= 3; k++)
		unpin(rig, k);
	assert_int_equal(sy_machine_last_notice(rig->machine), 3);
	rig_start(rig, &ops[0], SY_OP_KIND_INFO, RIG_S);
	assert_int_equal(rig_last(rig)->first_notice, 1);
	assert_int_equal(rig_last(rig)->notice_count, 3);
	assert_true(sy_request_id_equal(rig_last(rig)->notice.name, name_of(1)));
	assert_true(sy_request_id_equal(rig_last(rig)->last_notice.name, name_of(3)));
	/* Unanswered: again, with what came since. */
	unpin(rig, 4);
	rig_start(rig, &ops[1], SY_OP_KIND_INFO, RIG_S);
	assert_int_equal(rig_last(rig)->first_notice, 1);
	assert_int_equal(rig_last(rig)->notice_count, 4);
	/* A part is done. */
	rig->notices_done = 2;
	rig_ok(rig, &rig->sent[rig->sent_count - 2]);
	rig_start(rig, &ops[2], SY_OP_KIND_INFO, RIG_S);
	assert_int_equal(rig_last(rig)->first_notice, 3);
	assert_int_equal(rig_last(rig)->notice_count, 2);
	assert_false(sy_machine_notices_done(rig->machine));
	/* A count that was overtaken, and one that is not of ours. */
	rig->notices_done = 1;
	rig_ok(rig, &rig->sent[rig->sent_count - 2]);
	rig->notices_done = 99;
	rig_ok(rig, rig_last(rig));
	assert_false(sy_machine_notices_done(rig->machine));
	rig->notices_done = 4;
	rig_start(rig, &ops[3], SY_OP_KIND_INFO, RIG_S);
	assert_int_equal(rig_last(rig)->first_notice, 3);
	rig_ok(rig, rig_last(rig));
	assert_true(sy_machine_notices_done(rig->machine));
	assert_int_equal(sy_machine_last_notice(rig->machine), 4);
	rig_free(rig);
}

/* A reply may say done only of what went out: a number reused by a later notice would be lost. */
static void test_done_never_covers_what_was_not_sent(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	unpin(rig, 1);
	rig_start(rig, &op, SY_OP_KIND_INFO, RIG_S);
	unpin(rig, 2);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	assert_false(sy_machine_notices_done(rig->machine));
	rig_pass(rig, RIG_BEAT_NS);
	assert_int_equal(rig_last(rig)->first_notice, 1);
	assert_int_equal(rig_last(rig)->notice_count, 2);
	rig_free(rig);
}

static void test_a_backlog_goes_out_256_a_message_in_order(void **state)
{
	(void)state;
	enum { NOTICES = 10000 };
	struct rig *rig = rig_new_ready();
	for (uint64_t k = 1; k <= NOTICES; k++)
		unpin(rig, k);
	assert_int_equal(sy_machine_last_notice(rig->machine), NOTICES);
	uint64_t done = 0;
	uint64_t since_ns = rig->now_ns;
	rig_pass(rig, RIG_BEAT_NS);
	while (done < NOTICES) {
		const struct rig_sent *sent = rig_last(rig);
		assert_int_equal(sent->op, SY_OP_HEARTBEAT);
		assert_int_equal(sent->first_notice, done + 1);
		assert_int_equal(sent->notice_count, sy_min_u64(256, NOTICES - done));
		assert_true(sy_request_id_equal(sent->notice.name, name_of(done + 1)));
		assert_true(
			sy_request_id_equal(sent->last_notice.name, name_of(done + sent->notice_count)));
		done += sent->notice_count;
		rig->notices_done = done;
		uint32_t count = rig->sent_count;
		rig_ok(rig, sent);
		if (rig->sent_count == count)
			rig_pass(rig, RIG_BEAT_NS);
	}
	assert_true(sy_machine_notices_done(rig->machine));
	assert_true(rig->now_ns - since_ns <= 3 * RIG_BEAT_NS); /* not one heartbeat each */
	rig_free(rig);
}

static void test_past_the_limit_new_puts_and_resolves_wait(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op resolve = {0}, put = {0}, eager = {0}, info = {0}, release = {0};
	uint64_t done = 0;
	for (uint64_t k = 1; k <= 4000; k++)
		unpin(rig, k);
	rig_start(rig, &resolve, SY_OP_KIND_RESOLVE, 100 * RIG_S);
	rig_start(rig, &put, SY_OP_KIND_PUT, 100 * RIG_S);
	rig_start(rig, &eager, SY_OP_KIND_PUT_INLINE, RIG_BEAT_NS * 2);
	uint32_t count = rig->sent_count;
	assert_int_equal(rig_last(rig)->op, SY_OP_HELLO);
	rig_start(rig, &info, SY_OP_KIND_INFO, 100 * RIG_S); /* passes them */
	assert_int_equal(rig_last(rig)->op, SY_OP_INFO);
	assert_int_equal(rig->sent_count, count + 1);
	rig_start(rig, &release, SY_OP_KIND_RELEASE, 100 * RIG_S);
	assert_int_equal(rig_last(rig)->op, SY_OP_RELEASE_ROWS);
	rig_pass(rig, RIG_BEAT_NS * 2); /* within their deadlines */
	rig_expect(rig, 1, &eager, SY_OP_END_TIMEOUT);
	assert_false(eager.unknown);
	rig->notices_done = done = 256;
	rig_ok(rig, rig_last(rig));
	bool resolve_out = false, put_out = false;
	for (uint32_t i = count; i < rig->sent_count; i++) {
		resolve_out = resolve_out || rig->sent[i].op == SY_OP_RESOLVE_KEYS;
		put_out = put_out || rig->sent[i].op == SY_OP_ALLOC;
	}
	assert_true(resolve_out && put_out);
	rig_free(rig);
}

/* What was sent from `from` on: the place of the first `op`, or sent_count. */
static uint32_t find_sent(const struct rig *rig, uint32_t from, enum sy_op op)
{
	while (from < rig->sent_count && rig->sent[from].op != op)
		from++;
	return from;
}

/* A caller that was told Timeout of a release puts the row again: the release, late, must not
 * come after the put. So its abort goes first, even where 256 older notices go before that. */
static void test_a_backlog_holds_up_what_follows_a_request_given_up(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op release = {0}, put = {0}, resolve = {0}, info = {0};
	rig_start(rig, &release, SY_OP_KIND_RELEASE, RIG_S);
	struct sy_request_id name = rig_last(rig)->id;
	for (uint64_t k = 1; k <= 300; k++)
		unpin(rig, k);
	uint32_t from = rig->sent_count;
	rig_pass(rig, RIG_S);
	rig_expect(rig, 1, &release, SY_OP_END_TIMEOUT);
	rig_start(rig, &put, SY_OP_KIND_PUT_INLINE, 100 * RIG_S);
	rig_start(rig, &resolve, SY_OP_KIND_RESOLVE, 100 * RIG_S);
	rig_start(rig, &info, SY_OP_KIND_INFO, 100 * RIG_S); /* changes nothing: passes them */
	assert_int_equal(rig_last(rig)->op, SY_OP_INFO);
	/* What has to go before them goes at once. */
	uint32_t beat = find_sent(rig, from, SY_OP_HEARTBEAT);
	assert_int_not_equal(beat, rig->sent_count);
	assert_int_equal(rig->sent[beat].at_ns, rig->now_ns);
	rig_pass(rig, 10 * RIG_BEAT_NS);
	assert_int_equal(find_sent(rig, from, SY_OP_PUT_INLINE), rig->sent_count);
	assert_int_equal(find_sent(rig, from, SY_OP_RESOLVE_KEYS), rig->sent_count);
	rig->notices_done = 256;
	rig_ok(rig, rig_last(rig));
	uint32_t at = find_sent(rig, from, SY_OP_PUT_INLINE);
	assert_int_not_equal(at, rig->sent_count);
	assert_int_equal(rig->sent[at].first_notice, 257);
	assert_int_equal(rig->sent[at].last_notice.kind, SY_NOTICE_ABORT);
	assert_true(sy_request_id_equal(rig->sent[at].last_notice.name, name));
	assert_int_not_equal(find_sent(rig, from, SY_OP_RESOLVE_KEYS), rig->sent_count);
	rig_free(rig);
}

/* A request so large that its notices would not fit beside it would go without them. */
static void test_a_request_leaves_room_for_its_notices(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	struct sy_machine_op ops[2] = {0};
	sy_machine_connected(rig->machine, 55, 7, rig->now_ns);
	rig_pump(rig);
	struct sy_reply reply = rig_hello_reply(rig, rig_last(rig), 100, 7);
	reply.hello.max_message_bytes = 1000;
	rig_deliver(rig, &reply, SY_OP_HELLO);
	for (uint64_t k = 1; k <= 300; k++)
		unpin(rig, k);
	uint32_t from = rig->sent_count;
	rig_start(rig, &ops[0], SY_OP_KIND_RELEASE, RIG_S);
	rig_expect(rig, 1, &ops[0], SY_OP_END_PROTOCOL);
	assert_int_equal(ops[0].outcome.why, SY_WHY_TOO_MANY);
	assert_int_equal(rig->sent_count, from);
	rig_free(rig);
}

static void test_a_local_session_beats_only_for_notices(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	uint32_t count = rig->sent_count;
	rig_pass(rig, 100 * RIG_S);
	assert_int_equal(rig->sent_count, count);
	unpin(rig, 1);
	assert_int_equal(rig->sent_count, count);
	uint64_t since_ns = rig->now_ns;
	rig_pass(rig, RIG_BEAT_NS);
	assert_true(rig->sent_count > count);
	const struct rig_sent *beat = &rig->sent[count];
	assert_int_equal(beat->op, SY_OP_HEARTBEAT);
	assert_true(beat->at_ns - since_ns <= RIG_BEAT_NS);
	rig_expect_notice(beat, SY_NOTICE_UNPIN, false, name_of(1));
	/* Lost: the unit still knows within two heartbeats. */
	rig_until(rig, since_ns + 2 * RIG_BEAT_NS - 1);
	assert_true(rig->sent_count >= count + 2);
	rig_expect_notice(&rig->sent[count + 1], SY_NOTICE_UNPIN, false, name_of(1));
	assert_true(rig->sent[count + 1].id.seq > beat->id.seq);
	rig->notices_done = 1;
	rig_ok(rig, rig_last(rig));
	count = rig->sent_count;
	rig_pass(rig, 100 * RIG_S);
	assert_int_equal(rig->sent_count, count);
	rig_free(rig);
}

static void test_a_remote_session_beats_always(void **state)
{
	(void)state;
	struct rig *rig = rig_new();
	rig_connect(rig, 0, 100, 7);
	uint32_t count = rig->sent_count;
	for (uint32_t i = 1; i <= 20; i++) {
		rig_pass(rig, RIG_BEAT_NS);
		assert_int_equal(rig->sent_count, count + i);
		assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT);
		if (i % 2 == 0) { /* answered or not */
			struct sy_reply reply = rig_reply(rig, rig_last(rig));
			reply.unit_state = SY_UNIT_ACTIVE;
			rig_deliver(rig, &reply, SY_OP_HEARTBEAT);
		}
	}
	/* The unit forgot it. */
	rig_fault(rig, rig_last(rig), SY_FAULT_NO_SESSION, 0);
	assert_int_equal(rig_last(rig)->op, SY_OP_HELLO);
	assert_int_equal(rig_last(rig)->connection_count, 2);
	rig_free(rig);
}

static void test_a_heartbeat_goes_out_while_every_slot_waits(void **state)
{
	(void)state;
	enum { OPS = 80 };
	struct rig *rig = rig_new_ready();
	struct sy_machine_op *ops = calloc(OPS, sizeof *ops);
	assert_non_null(ops);
	for (size_t i = 0; i < OPS; i++)
		rig_start(rig, &ops[i], SY_OP_KIND_INFO, 100 * RIG_S);
	unpin(rig, 1);
	rig_pass(rig, RIG_BEAT_NS);
	assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT);
	for (uint32_t i = 0; i + 1 < rig->sent_count; i++) {
		if (rig->sent[i].op == SY_OP_INFO)
			assert_int_not_equal(rig->sent[i].id.slot, rig_last(rig)->id.slot);
	}
	free(ops);
	rig_free(rig);
}

static void test_they_are_numbered_anew_in_the_next_session(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	for (uint64_t k = 1; k <= 5; k++)
		unpin(rig, k);
	rig_start(rig, &op, SY_OP_KIND_INFO, RIG_S);
	rig->notices_done = 2;
	rig_ok(rig, rig_last(rig));
	sy_machine_disconnected(rig->machine, rig->now_ns);
	rig_pump(rig);
	unpin(rig, 6); /* while there is no connection */
	rig_pass(rig, RIG_S);
	assert_int_equal(rig->connects, 1); /* they are something to do */
	rig_connect(rig, 56, 200, 7);
	assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT);
	assert_int_equal(rig_last(rig)->first_notice, 1);
	assert_int_equal(rig_last(rig)->notice_count, 4);
	assert_true(sy_request_id_equal(rig_last(rig)->notice.name, name_of(3)));
	assert_true(sy_request_id_equal(rig_last(rig)->last_notice.name, name_of(6)));
	assert_int_equal(sy_machine_last_notice(rig->machine), 4);
	rig->notices_done = 4;
	rig_ok(rig, rig_last(rig));
	assert_true(sy_machine_notices_done(rig->machine));
	/* Another incarnation has none of these names. */
	unpin(rig, 7);
	sy_machine_disconnected(rig->machine, rig->now_ns);
	rig_connect(rig, 57, 300, 8);
	assert_true(sy_machine_notices_done(rig->machine));
	assert_int_equal(sy_machine_last_notice(rig->machine), 0);
	rig_free(rig);
}

static void test_names_of_nothing_are_left_aside(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	sy_machine_unpin(rig->machine, (struct sy_request_id){0}, rig->now_ns);
	sy_machine_drained(rig->machine, (struct sy_request_id){0}, rig->now_ns);
	assert_true(sy_machine_notices_done(rig->machine));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_they_ride_until_they_are_done),
		cmocka_unit_test(test_done_never_covers_what_was_not_sent),
		cmocka_unit_test(test_a_backlog_goes_out_256_a_message_in_order),
		cmocka_unit_test(test_past_the_limit_new_puts_and_resolves_wait),
		cmocka_unit_test(test_a_backlog_holds_up_what_follows_a_request_given_up),
		cmocka_unit_test(test_a_request_leaves_room_for_its_notices),
		cmocka_unit_test(test_a_local_session_beats_only_for_notices),
		cmocka_unit_test(test_a_remote_session_beats_always),
		cmocka_unit_test(test_a_heartbeat_goes_out_while_every_slot_waits),
		cmocka_unit_test(test_they_are_numbered_anew_in_the_next_session),
		cmocka_unit_test(test_names_of_nothing_are_left_aside),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
