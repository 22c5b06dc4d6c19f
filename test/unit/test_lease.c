/* A unit that cannot tell whether it still counts: when it falls silent, and what it then says. */
#include "serve_rig.h"

#include "blob.h"
#include "lease.h"

static int open_rig(void **state)
{
	struct rig *rig = malloc(sizeof *rig);
	assert_non_null(rig);
	rig_open(rig);
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;
	const char *wrong = sy_core_audit(sy_serve_core(rig->serve));
	rig_close(rig);
	free(rig);
	if (wrong != NULL)
		print_error("audit: %s\n", wrong);
	return wrong != NULL;
}

static void test_it_counts_from_the_sending(void **state)
{
	(void)state;
	struct sy_lease lease;
	sy_lease_init(&lease, 45, 100, 120);
	assert_false(sy_lease_is_fenced(&lease, 144));
	assert_true(sy_lease_is_fenced(&lease, 145));
	/* Answers out of order: the newest sending counts. */
	sy_lease_renewed(&lease, 130, 131);
	sy_lease_renewed(&lease, 110, 139);
	assert_false(sy_lease_is_fenced(&lease, 174));
	assert_true(sy_lease_is_fenced(&lease, 175));
	/* It serves again when the directory is back. */
	sy_lease_renewed(&lease, 1000, 1000);
	assert_false(sy_lease_is_fenced(&lease, 1044));
	assert_true(sy_lease_is_fenced(&lease, UINT64_MAX));
}

static void test_without_leases_it_is_never_fenced(void **state)
{
	(void)state;
	struct sy_lease lease;
	sy_lease_init(&lease, 0, 0, 0);
	assert_false(sy_lease_is_fenced(&lease, UINT64_MAX - 1));
	sy_lease_renewed(&lease, 5, 6);
	assert_false(sy_lease_is_fenced(&lease, UINT64_MAX - 1));
}

static void expect_fenced(const struct sy_reply *reply)
{
	assert_int_equal(reply->outcome.fault, SY_FAULT_BUSY);
	assert_int_equal(reply->outcome.busy, SY_BUSY_FENCED);
}

static struct sy_request inline_put(const struct rig *rig, uint32_t slot, uint64_t seq,
                                    const uint8_t *blob, uint64_t bytes)
{
	struct sy_request request = rig_request(rig, SY_OP_PUT_INLINE, slot, seq);
	request.put_inline = (struct sy_put_inline_args){
		.blob_id = rig_blob_id(1), .blob = {blob, (size_t)bytes}, .until_ns = UINT64_MAX / 2};
	return request;
}

static struct sy_request find_row(const struct rig *rig, uint64_t seq, const uint64_t *row,
                                  const struct sy_span *field)
{
	struct sy_request request = rig_request(rig, SY_OP_RESOLVE_KEYS, 5, seq);
	request.resolve = (struct sy_resolve_args){.rows = row, .fields = field, .row_count = 1,
	                                           .field_count = 1};
	return request;
}

/* What it answers has run, once: asked again under the same seq it tells the outcome. */
static void test_what_a_fenced_unit_ran_is_told_later(void **state)
{
	struct rig *rig = *state;
	const uint64_t row = 10;
	const struct sy_span field = rig_text("a");
	uint64_t bytes = 0;
	rig_hello(rig, rig->live_token);
	uint8_t *blob = rig_blob(1, row, 1, 100, &bytes);
	struct sy_request put = inline_put(rig, 1, 1, blob, bytes);
	struct sy_request release = rig_request(rig, SY_OP_RELEASE_ROWS, 2, 1);
	release.release =
		(struct sy_release_args){.rows = &row, .row_count = 1, .all_fields = true};

	rig->fenced = true;
	expect_fenced(rig_ask(rig, &put, 0));
	rig->fenced = false;
	const struct sy_reply *reply = rig_ask(rig, &put, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->outcome.answer, SY_ANSWER_PUBLISHED);

	rig->fenced = true;
	struct sy_request find = find_row(rig, 1, &row, &field);
	expect_fenced(rig_ask(rig, &find, 1));
	rig->fenced = false;
	/* A resolve is not answered twice: its pin goes by a notice, which a later one carries. */
	const struct sy_notice unpin = {.kind = SY_NOTICE_UNPIN, .name = find.id};
	find = find_row(rig, 2, &row, &field);
	find.notices = &unpin;
	find.notice_count = 1;
	reply = rig_ask(rig, &find, 1);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->notices_done, 1);
	struct sy_unit_stats stats;
	sy_serve_stats(rig->serve, &stats);
	assert_int_equal(stats.pins, 1);

	rig->fenced = true;
	expect_fenced(rig_ask(rig, &release, 0));
	rig->fenced = false;
	reply = rig_ask(rig, &release, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->outcome.count, 1);
	free(blob);
}

/* Nothing else goes out: not a hello's answer, not a refusal, not that a session is unknown. The
 * notices that ran are told, for that changes nothing for anybody. */
static void test_a_fenced_unit_says_nothing_else(void **state)
{
	struct rig *rig = *state;
	rig->fenced = true;
	struct sy_request hello = rig_hello_request(rig->live_token, 1);
	expect_fenced(rig_ask(rig, &hello, 0));
	rig->fenced = false;
	rig_hello(rig, rig->live_token); /* the same one again: the session it had made */
	rig->fenced = true;
	struct sy_request unknown = rig_request(rig, SY_OP_INFO, 1, 1);
	unknown.id.session ^= 1;
	expect_fenced(rig_ask(rig, &unknown, 0));
	struct sy_request refused = rig_request(rig, SY_OP_ALLOC, 1, 1);
	expect_fenced(rig_ask(rig, &refused, 0));
	struct sy_request beat = rig_request(rig, SY_OP_HEARTBEAT, SY_SLOT_COUNT - 1, 1);
	const struct sy_notice unpin = {.kind = SY_NOTICE_UNPIN, .name = refused.id};
	beat.notices = &unpin;
	beat.notice_count = 1;
	const struct sy_reply *reply = rig_ask(rig, &beat, 0);
	expect_fenced(reply);
	assert_int_equal(reply->notices_done, 1);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_counts_from_the_sending),
		cmocka_unit_test(test_without_leases_it_is_never_fenced),
		WITH_RIG(test_what_a_fenced_unit_ran_is_told_later),
		WITH_RIG(test_a_fenced_unit_says_nothing_else),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
