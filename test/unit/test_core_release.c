/* release_rows, small and large, with others in between. */
#include "core_driver.h"

static struct test_index t;

enum { TOKEN = 9, SLAB = 1 << 24 };

static struct driver *open_default(void)
{
	struct sy_core_params params = driver_params(SLAB);
	params.max_fields = 1024;
	params.max_entries = 16384;
	return driver_open(&params);
}

static void test_small(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 10, 2, 100));
	struct sy_event e = release_event(d, &c, 1, 1, 12, 3);
	step(d, &e);
	assert_int_equal(answer(d).count, 6);
	assert_false(d->fx.again);
	step(d, &e); /* the same outcome */
	assert_int_equal(answer(d).count, 6);
	release(d, &c, 1, 2, 12, 3);
	assert_int_equal(answer(d).count, 0);
	resolve(d, &c, 2, 1, 10, 10);
	static const uint8_t found[] = {1, 1, 0, 0, 0, 1, 1, 1, 1, 1};
	assert_memory_equal(d->out.found, found, sizeof found);
	release(d, &c, 1, 3, 0, 0);
	assert_int_equal(answer(d).count, 0);
	assert_int_equal(stats(d).cleared, 6);
	driver_close(d);
}

static void test_fields(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 10, 3, 100));
	struct sy_span fields[] = {span("a01"), span("unknown"), span("a01")};
	struct sy_event e = release_event(d, &c, 1, 1, 10, 10);
	e.request.release.all_fields = false;
	e.request.release.fields = fields;
	e.request.release.field_count = 3;
	step(d, &e);
	assert_int_equal(answer(d).count, 10);
	assert_int_equal(stats(d).rows, 10);
	/* None that is known is none, and not all. */
	e.request.id.seq = 2;
	e.request.release.fields = &fields[1];
	e.request.release.field_count = 1;
	step(d, &e);
	assert_int_equal(answer(d).count, 0);
	e.request.id.seq = 3;
	e.request.release.field_count = 0;
	step(d, &e);
	assert_int_equal(answer(d).count, 0);
	release(d, &c, 1, 4, 10, 10);
	assert_int_equal(answer(d).count, 20);
	assert_int_equal(stats(d).bytes.free, SLAB);
	assert_int_equal(stats(d).fields, 0);
	driver_close(d);
}

static void test_too_many(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	release(d, &c, 1, 1, 10, SY_ROWS_PER_RELEASE_MAX + 1);
	assert_protocol(d, SY_WHY_TOO_MANY);
	struct sy_event e = release_event(d, &c, 1, 2, 10, 1);
	e.request.release.field_count = SY_FIELDS_PER_REQUEST_MAX + 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_MANY);
	driver_close(d);
}

/* Puts 8 blobs of 1,000 rows from row 0 on. */
static void put_rows(struct driver *d, const struct client *c, uint64_t seq)
{
	for (uint64_t i = 0; i < 8; i++)
		put(d, c, 0, seq + 2 * i, 1000 + i, index_of(&t, 1000 + i, i * 1000, 1000, 1, 64));
}

static void test_large_in_steps(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct client other = client_new(d, 2, TOKEN + 1);
	put_rows(d, &c, 1);
	struct sy_event e = release_event(d, &c, 1, 1, 0, 8000);
	step(d, &e);
	assert_silent(d);
	assert_true(d->fx.again);
	assert_true(stats(d).entries > 6000);
	/* A resend attaches: the answer goes where it came from. */
	e.request.route = 4711;
	step(d, &e);
	assert_silent(d);
	/* The rows were copied: the message may go. */
	memset(d->rows, 0xff, sizeof d->rows);
	/* A put accepted now survives, in rows already cleared and in rows still to come. */
	put(d, &other, 0, 1, 5001, index_of(&t, 5001, 5, 1, 1, 64));
	put(d, &other, 0, 3, 5002, index_of(&t, 5002, 7990, 10, 1, 64));
	for (int i = 0; i < 1000 && count_effects(d, SY_EFFECT_REPLY) + d->fx.again > 0; i++) {
		if (count_effects(d, SY_EFFECT_REPLY) > 0 &&
		    effect_of(d, SY_EFFECT_REPLY)->outcome.op == SY_OP_RELEASE_ROWS)
			break;
		step_kind(d, SY_EVENT_CONTINUE);
	}
	const struct sy_effect *reply = effect_of(d, SY_EFFECT_REPLY);
	assert_int_equal(reply->route, 4711);
	/* Ten were overwritten before their turn came. */
	assert_int_equal(reply->outcome.count, 7990);
	assert_int_equal(stats(d).entries, 11);
	resolve(d, &c, 2, 1, 7990, 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(d->out.found[i], SY_FOUND_PINNED);
	step(d, &e);
	assert_int_equal(answer(d).count, 7990);
	driver_close(d);
}

static void test_row_of_many_fields(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	enum { FIELDS = 250, PUTS = 4 };
	/* 1,000 fields of one row; names differ by their letter. */
	for (uint64_t i = 0; i < PUTS; i++) {
		index_of(&t, i + 1, 5, 1, FIELDS, 1);
		for (uint32_t k = 0; k < FIELDS; k++)
			t.names[k][0] = (char)(t.names[k][0] + 3 * (int)i);
		put(d, &c, 0, 2 * i + 1, i + 1, &t.index);
	}
	assert_int_equal(stats(d).rows, 1);
	/* The fields of one blob, which stand at either end of the row. */
	struct sy_span fields[FIELDS];
	for (uint64_t i = 0; i < PUTS; i += 3) {
		for (uint32_t k = 0; k < FIELDS; k++) {
			snprintf(t.names[k], sizeof t.names[k], "%c%02u",
			         'a' + (int)(k / 100) + 3 * (int)i, k % 100);
			fields[k] = span(t.names[k]);
		}
		struct sy_event e = release_event(d, &c, 1, i + 1, 5, 1);
		e.request.release.all_fields = false;
		e.request.release.fields = fields;
		e.request.release.field_count = FIELDS;
		uint64_t before = stats(d).entries;
		step(d, &e);
		for (int k = 0; k < 20 && count_effects(d, SY_EFFECT_REPLY) == 0; k++) {
			/* Between steps a row is whole. */
			assert_int_equal(stats(d).entries, before);
			step_kind(d, SY_EVENT_CONTINUE);
		}
		assert_int_equal(answer(d).count, FIELDS);
		assert_int_equal(stats(d).entries, before - FIELDS);
	}
	assert_int_equal(stats(d).entries, FIELDS * (PUTS - 2));
	release(d, &c, 1, 100, 5, 1);
	settle(d);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

static void test_client_moves_on(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put_rows(d, &c, 1);
	release(d, &c, 1, 1, 0, 8000);
	assert_true(d->fx.again);
	struct sy_event e = request(&c, SY_OP_HEARTBEAT, 1, 2);
	step(d, &e);
	assert_ok(d);
	for (int i = 0; i < 1000 && d->fx.again; i++) {
		step_kind(d, SY_EVENT_CONTINUE);
		assert_silent(d);
	}
	/* What was begun is done, and answers nobody. */
	assert_int_equal(stats(d).entries, 0);
	driver_close(d);
}

static void test_session_ends_meanwhile(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put_rows(d, &c, 1);
	release(d, &c, 1, 1, 0, 8000);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	assert_int_equal(stats(d).sessions, 0);
	assert_int_equal(stats(d).namespaces, 1);
	for (int i = 0; i < 1000 && d->fx.again; i++) {
		step_kind(d, SY_EVENT_CONTINUE);
		assert_silent(d);
	}
	assert_int_equal(stats(d).entries, 0);
	assert_int_equal(stats(d).namespaces, 0);
	driver_close(d);
}

static void test_aborted_by_notice(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put_rows(d, &c, 1);
	struct sy_event e = release_event(d, &c, 1, 1, 0, 8000);
	step(d, &e);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 1, 1), false);
	step(d, &e);
	for (int i = 0; i < 1000 && d->fx.again; i++) {
		assert_silent(d);
		step_kind(d, SY_EVENT_CONTINUE);
	}
	assert_silent(d);
	driver_close(d);
}

static void test_queue_full(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put_rows(d, &c, 1);
	for (uint32_t i = 0; i < 4; i++) {
		release(d, &c, 1 + i, 1, i * 2000, 2000);
		assert_silent(d);
	}
	release(d, &c, 10, 1, 9000, 1);
	assert_busy(d, SY_BUSY_QUEUE_FULL);
	uint32_t replies = 0;
	for (int i = 0; i < 1000 && d->fx.again; i++) {
		step_kind(d, SY_EVENT_CONTINUE);
		replies += count_effects(d, SY_EFFECT_REPLY);
	}
	assert_int_equal(replies, 4);
	release(d, &c, 10, 2, 9000, 1);
	assert_int_equal(answer(d).count, 0);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_large_in_steps),
		cmocka_unit_test(test_row_of_many_fields),
		cmocka_unit_test(test_client_moves_on),
		cmocka_unit_test(test_session_ends_meanwhile),
		cmocka_unit_test(test_aborted_by_notice),
		cmocka_unit_test(test_queue_full),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
