/* Puts into regions that commits before them were granted. */
#include "machine_rig.h"

enum { GRANTED = 32, GRANT_OFFSET = 65536, GRANT_MAX = 1000000 };

/* One ready to go, of a unit that grants regions. */
static struct rig *rig_new_granting(void)
{
	struct rig *rig = rig_new();
	rig->grant_max_bytes = GRANT_MAX;
	rig_connect(rig, 55, 100, 7);
	return rig;
}

static void start_put(struct rig *rig, struct sy_machine_op *op, uint64_t nbytes)
{
	op->kind = SY_OP_KIND_PUT;
	op->deadline_ns = rig->now_ns + 100 * RIG_S;
	op->put = (struct sy_alloc_args){.blob_id = {{1}}, .nbytes = nbytes, .entry_count = 4};
	sy_machine_start(rig->machine, op, rig->now_ns);
	rig_pump(rig);
}

static void written(struct rig *rig, struct sy_machine_op *op)
{
	assert_ptr_equal(rig->writing[rig->writing_count - 1], op);
	sy_machine_written(rig->machine, op, true, false, rig->now_ns);
	rig_pump(rig);
	assert_int_equal(rig_last(rig)->op, SY_OP_COMMIT);
}

/* A put by alloc up to its commit, which is the last message. */
static const struct rig_sent *put_to_commit(struct rig *rig, struct sy_machine_op *op,
                                            uint64_t nbytes)
{
	start_put(rig, op, nbytes);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	rig_answer(rig, rig_last(rig), SY_ANSWER_REGION);
	written(rig, op);
	return rig_last(rig);
}

static void answer_granting(struct rig *rig, const struct rig_sent *sent)
{
	struct sy_reply reply = rig_reply(rig, sent);
	reply.outcome.answer = SY_ANSWER_PUBLISHED;
	reply.outcome.offset = GRANT_OFFSET;
	reply.outcome.generation = GRANTED;
	rig_deliver(rig, &reply, SY_OP_COMMIT);
}

/* Two puts of this size, the second of which asks and is granted a region; its commit. */
static struct rig_sent two_puts(struct rig *rig, struct sy_machine_op ops[2], uint64_t nbytes)
{
	assert_int_equal(put_to_commit(rig, &ops[0], nbytes)->next_bytes, 0);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	struct rig_sent commit = *put_to_commit(rig, &ops[1], nbytes);
	assert_in_range(commit.next_bytes, nbytes, nbytes + nbytes / 8);
	assert_int_equal(commit.grant.session, 0);
	answer_granting(rig, &commit);
	rig_expect(rig, rig->ended_count, &ops[1], SY_OP_END_OK);
	assert_int_equal(ops[1].outcome.generation, 31); /* its own region's */
	assert_true(sy_machine_has_grant(rig->machine, commit.id));
	return commit;
}

static void test_the_third_put_needs_one_message(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[4] = {0};
	struct rig_sent granted_to = two_puts(rig, ops, 4096);
	uint32_t sent = rig->sent_count;
	start_put(rig, &ops[2], 4000);
	assert_int_equal(rig->sent_count, sent);
	assert_int_equal(ops[2].outcome.offset, GRANT_OFFSET);
	assert_int_equal(ops[2].outcome.generation, GRANTED);
	assert_true(sy_request_id_equal(ops[2].name, granted_to.id));
	assert_false(sy_machine_has_grant(rig->machine, granted_to.id));
	written(rig, &ops[2]);
	assert_int_equal(rig->sent_count, sent + 1);
	const struct rig_sent *commit = rig_last(rig);
	assert_true(sy_request_id_equal(commit->grant, granted_to.id));
	assert_int_equal(commit->generation, GRANTED);
	assert_int_equal(commit->nbytes, 4000);
	assert_int_equal(commit->next_bytes, 4096);
	rig_answer(rig, commit, SY_ANSWER_PUBLISHED); /* the unit gives none this time */
	rig_expect(rig, 3, &ops[2], SY_OP_END_OK);
	start_put(rig, &ops[3], 4000);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	assert_true(sy_machine_notices_done(rig->machine));
	rig_free(rig);
}

static void test_only_a_put_of_about_its_size_takes_it(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[5] = {0};
	two_puts(rig, ops, 4096);
	start_put(rig, &ops[2], 4097);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	uint32_t sent = rig->sent_count;
	start_put(rig, &ops[3], 2047);
	assert_int_equal(rig->sent_count, sent + 1);
	start_put(rig, &ops[4], 2048);
	assert_int_equal(rig->sent_count, sent + 1);
	assert_int_equal(ops[4].outcome.generation, GRANTED);
	rig_free(rig);
}

static void test_the_smallest_that_fits_is_taken(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[5] = {0};
	two_puts(rig, ops, 8000);
	put_to_commit(rig, &ops[2], 3900);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	struct rig_sent small = *put_to_commit(rig, &ops[3], 3900);
	assert_int_equal(small.next_bytes, 4096);
	answer_granting(rig, &small);
	start_put(rig, &ops[4], 4096);
	assert_true(sy_request_id_equal(ops[4].name, small.id));
	rig_free(rig);
}

static void test_who_asks(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[10] = {0};
	put_to_commit(rig, &ops[0], 5000);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_int_equal(put_to_commit(rig, &ops[1], 2499)->next_bytes, 0); /* another size */
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_pass(rig, RIG_BEAT_NS / 2);
	assert_int_equal(put_to_commit(rig, &ops[2], 2499)->next_bytes, 0); /* too long ago */
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_int_equal(put_to_commit(rig, &ops[3], 4998)->next_bytes, 5120); /* the larger of both */
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_int_equal(put_to_commit(rig, &ops[4], 2500)->next_bytes, 5120);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	put_to_commit(rig, &ops[5], GRANT_MAX + 1);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_int_equal(put_to_commit(rig, &ops[6], GRANT_MAX)->next_bytes, 0); /* too large */
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_int_equal(put_to_commit(rig, &ops[7], GRANT_MAX)->next_bytes, GRANT_MAX);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	rig_free(rig);
	rig = rig_new_ready(); /* its unit grants nothing */
	put_to_commit(rig, &ops[8], 640);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_int_equal(put_to_commit(rig, &ops[9], 640)->next_bytes, 0);
	rig_free(rig);
}

static void test_an_idle_grant_goes_back(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[2] = {0};
	struct rig_sent commit = two_puts(rig, ops, 4096);
	rig_pass(rig, RIG_BEAT_NS / 2 - 1);
	assert_true(sy_machine_has_grant(rig->machine, commit.id));
	rig_pass(rig, 1);
	assert_false(sy_machine_has_grant(rig->machine, commit.id));
	rig_pass(rig, RIG_BEAT_NS / 2);
	assert_int_equal(rig_last(rig)->op, SY_OP_HEARTBEAT);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, false, commit.id);
	rig_free(rig);
}

static void test_a_clear_brings_it_back(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[3] = {0};
	struct rig_sent commit = two_puts(rig, ops, 4096);
	rig_start(rig, &ops[2], SY_OP_KIND_RELEASE, RIG_S);
	assert_int_equal(rig_last(rig)->op, SY_OP_RELEASE_ROWS);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, false, commit.id);
	rig_free(rig);
}

static void test_the_end_of_a_session_gives_it_back(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[3] = {0};
	struct rig_sent commit = two_puts(rig, ops, 4096);
	sy_machine_disconnected(rig->machine, rig->now_ns);
	assert_false(sy_machine_has_grant(rig->machine, commit.id));
	rig_connect(rig, 56, 101, 7);
	start_put(rig, &ops[2], 4096);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, false, commit.id);
	rig_free(rig);
}

static void test_close_gives_it_back(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[2] = {0};
	struct rig_sent commit = two_puts(rig, ops, 4096);
	sy_machine_close(rig->machine, rig->now_ns);
	rig_pump(rig);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, false, commit.id);
	rig_free(rig);
}

/* The unit may have no room because of it: asked once more, behind its abort. */
static void test_a_full_unit_is_asked_again_without_it(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[3] = {0};
	struct rig_sent commit = two_puts(rig, ops, 4096);
	start_put(rig, &ops[2], 100000);
	struct rig_sent alloc = *rig_last(rig);
	rig_fault(rig, &alloc, SY_FAULT_UNIT_FULL, SY_RESOURCE_BYTES);
	assert_int_equal(rig->ended_count, 2);
	assert_int_equal(rig_last(rig)->op, SY_OP_ALLOC);
	assert_true(rig_last(rig)->id.seq > alloc.id.seq);
	rig_expect_notice(rig_last(rig), SY_NOTICE_ABORT, false, commit.id);
	rig_fault(rig, rig_last(rig), SY_FAULT_UNIT_FULL, SY_RESOURCE_BYTES);
	rig_expect(rig, 3, &ops[2], SY_OP_END_FULL);
	rig_free(rig);
}

static void test_a_busy_unit_gets_it_back(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[3] = {0};
	struct rig_sent commit = two_puts(rig, ops, 4096);
	rig_start(rig, &ops[2], SY_OP_KIND_PUT_INLINE, 10 * RIG_S);
	rig_fault(rig, rig_last(rig), SY_FAULT_BUSY, SY_BUSY_SPILLING);
	assert_false(sy_machine_has_grant(rig->machine, commit.id));
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, commit.id);
	rig_free(rig);
}

/* Nobody would know of what a reply that was lost has granted: the commit itself is given up, and
 * then the region it was about. */
static void test_a_commit_that_asked_is_given_up_by_name(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[3] = {0};
	struct rig_sent granted_to = two_puts(rig, ops, 4096);
	start_put(rig, &ops[2], 4096);
	written(rig, &ops[2]);
	struct rig_sent commit = *rig_last(rig);
	sy_machine_cancel(rig->machine, &ops[2], rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 3, &ops[2], SY_OP_END_TIMEOUT);
	assert_true(ops[2].unknown);
	const struct rig_sent *sent = rig_next(rig);
	assert_int_equal(sent->notice_count, 2);
	assert_int_equal(sent->notice.kind, SY_NOTICE_ABORT);
	assert_true(sy_request_id_equal(sent->notice.name, commit.id));
	assert_int_equal(sent->last_notice.kind, SY_NOTICE_ABORT);
	assert_true(sy_request_id_equal(sent->last_notice.name, granted_to.id));
	answer_granting(rig, &commit); /* comes all the same: nobody takes it */
	assert_false(sy_machine_has_grant(rig->machine, commit.id));
	rig_free(rig);
}

static void test_a_failed_write_aborts_its_grant(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[3] = {0};
	struct rig_sent granted_to = two_puts(rig, ops, 4096);
	start_put(rig, &ops[2], 4096);
	sy_machine_written(rig->machine, &ops[2], false, true, rig->now_ns);
	rig_pump(rig);
	rig_expect(rig, 3, &ops[2], SY_OP_END_WRITE);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, true, granted_to.id);
	rig_free(rig);
}

/* Puts at the same time: each has its grant, four are kept at most, and what comes beyond goes
 * back. */
static void test_few_are_kept(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	enum { PUTS = 6 };
	struct sy_machine_op ops[PUTS] = {0};
	struct rig_sent commits[PUTS];
	for (int i = 0; i < PUTS; i++)
		commits[i] = *put_to_commit(rig, &ops[i], 4096);
	for (int i = 1; i < PUTS; i++)
		answer_granting(rig, &commits[i]);
	uint32_t kept = 0;
	for (int i = 1; i < PUTS; i++)
		kept += sy_machine_has_grant(rig->machine, commits[i].id);
	assert_int_equal(kept, 4);
	rig_expect_notice(rig_next(rig), SY_NOTICE_ABORT, false, commits[1].id);
	rig_free(rig);
}

static bool goes_inline(const struct rig *rig, uint64_t nbytes)
{
	return sy_machine_puts_inline(rig->machine, nbytes, true, rig->now_ns);
}

static void put_inline(struct rig *rig, struct sy_machine_op *op, uint64_t nbytes)
{
	static const uint8_t blob[8192];
	op->kind = SY_OP_KIND_PUT_INLINE;
	op->deadline_ns = rig->now_ns + RIG_S;
	op->put_inline = (struct sy_put_inline_args){.blob_id = {{1}}, .blob = {blob, nbytes}};
	sy_machine_start(rig->machine, op, rig->now_ns);
	rig_pump(rig);
	assert_int_equal(rig_last(rig)->op, SY_OP_PUT_INLINE);
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
}

/* Whole in a message: what stands alone, what is small, and what could not be written at once. */
static void test_what_goes_inline(void **state)
{
	(void)state;
	struct rig *rig = rig_new_granting();
	struct sy_machine_op ops[4] = {0};
	assert_true(goes_inline(rig, 8192));
	assert_false(goes_inline(rig, 8193));
	put_inline(rig, &ops[0], 8192);
	assert_false(goes_inline(rig, 8192));
	assert_false(goes_inline(rig, 4097));
	assert_true(goes_inline(rig, 4096));
	assert_true(sy_machine_puts_inline(rig->machine, 8192, false, rig->now_ns));
	assert_int_equal(put_to_commit(rig, &ops[1], 8192)->next_bytes, 8192); /* it counts as one */
	rig_answer(rig, rig_last(rig), SY_ANSWER_PUBLISHED);
	assert_true(goes_inline(rig, 8192)); /* as none was granted */
	rig_pass(rig, RIG_BEAT_NS / 2 - 1);
	put_inline(rig, &ops[2], 8192);
	assert_true(goes_inline(rig, 8192));
	rig_pass(rig, 1);
	assert_false(goes_inline(rig, 8192)); /* asks again */
	rig_pass(rig, RIG_BEAT_NS / 2);
	assert_true(goes_inline(rig, 8192)); /* too long ago */
	sy_machine_disconnected(rig->machine, rig->now_ns);
	assert_false(goes_inline(rig, 64));
	rig_free(rig);
	rig = rig_new_ready(); /* its unit grants nothing */
	put_inline(rig, &ops[3], 8192);
	assert_true(goes_inline(rig, 8192));
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_third_put_needs_one_message),
		cmocka_unit_test(test_only_a_put_of_about_its_size_takes_it),
		cmocka_unit_test(test_the_smallest_that_fits_is_taken),
		cmocka_unit_test(test_who_asks),
		cmocka_unit_test(test_an_idle_grant_goes_back),
		cmocka_unit_test(test_a_clear_brings_it_back),
		cmocka_unit_test(test_the_end_of_a_session_gives_it_back),
		cmocka_unit_test(test_close_gives_it_back),
		cmocka_unit_test(test_a_full_unit_is_asked_again_without_it),
		cmocka_unit_test(test_a_busy_unit_gets_it_back),
		cmocka_unit_test(test_a_commit_that_asked_is_given_up_by_name),
		cmocka_unit_test(test_a_failed_write_aborts_its_grant),
		cmocka_unit_test(test_few_are_kept),
		cmocka_unit_test(test_what_goes_inline),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
