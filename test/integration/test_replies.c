/* Replies that are lost, and replies of a unit gone mad: the gate drops or alters what real units
 * answer. Whatever comes, a call ends with the truth or a typed error, no byte is touched outside
 * the slab, and once the unit answers properly again nothing is found missing. */
#include "harness.h"

#include <pthread.h>
#include <slabyard/slabyard.h>
#include <string.h>

#include "clock.h"
#include "cluster.h"
#include "gate.h"
#include "number_of.h"
#include "store_blob.h"

enum { UNITS = 2, SLAB_BYTES = 4 << 20, BIG = 100000 };
static const uint64_t MS_NS = 1000000u, SECOND_NS = 1000000000u;
/* Of a call that waits in vain for one answer: long enough for all the others. */
static const uint64_t IN_VAIN_NS = 2000000000u;

static struct cluster cluster;
static sy_client *honest; /* it goes round the gate */
static uint8_t data[BIG];

/* What happens to the answers of unit 0. */
static struct {
	pthread_mutex_t lock;
	enum sy_op op;           /* 0: nothing */
	enum gate_says says;
	void (*alter)(struct sy_reply *reply);
	uint32_t times;          /* and then all pass */
	uint32_t asked[16];      /* requests seen, by op, since the script was set */
	struct sy_request_id last[16]; /* of them; one that is sent again is the same */
} script = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	(void)age_ns;
	pthread_mutex_lock(&script.lock);
	struct sy_request_id *last = &script.last[request->op];
	bool again = last->session == request->id.session && last->slot == request->id.slot &&
	             last->seq == request->id.seq;
	if (unit_id == 0 && !again) {
		script.asked[request->op]++;
		*last = request->id;
	}
	pthread_mutex_unlock(&script.lock);
	return GATE_PASS;
}

static enum gate_says on_reply(uint32_t unit_id, enum sy_op op, struct sy_reply *reply,
                               uint64_t age_ns)
{
	enum gate_says says = GATE_PASS;

	(void)age_ns;
	pthread_mutex_lock(&script.lock);
	if (unit_id == 0 && script.times > 0 && op == script.op) {
		script.times--;
		says = script.says;
		if (script.alter != NULL)
			script.alter(reply);
	}
	pthread_mutex_unlock(&script.lock);
	return says;
}

static void play(enum sy_op op, enum gate_says says, void (*alter)(struct sy_reply *reply),
                 uint32_t times)
{
	pthread_mutex_lock(&script.lock);
	script.op = op;
	script.says = says;
	script.alter = alter;
	script.times = times;
	memset(script.asked, 0, sizeof script.asked);
	pthread_mutex_unlock(&script.lock);
}

/* How many more times, and how many requests of this kind came meanwhile. */
static uint32_t times_left(void)
{
	pthread_mutex_lock(&script.lock);
	uint32_t times = script.times;
	pthread_mutex_unlock(&script.lock);
	return times;
}

static uint32_t times_asked(enum sy_op op)
{
	pthread_mutex_lock(&script.lock);
	uint32_t asked = script.asked[op];
	pthread_mutex_unlock(&script.lock);
	return asked;
}

static int start(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir};

	(void)state;
	for (int i = 0; i < BIG; i++)
		data[i] = (uint8_t)(i * 13 + i / 256);
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	gate_open(&cluster, &(struct gate_hooks){.request = on_request, .reply = on_reply});
	return sy_client_open(&options, &honest, NULL) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(honest);
	gate_close();
	cluster_stop(&cluster);
	return 0;
}

/* Waits until a number of unit 0 is what it should be: what is given back travels in notices. */
static void await_number(const char *name, uint64_t wanted)
{
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS, got;
	sy_unit_report reports[UNITS];

	do {
		assert_int_equal(sy_client_reports(honest, 0, reports, NULL), SY_OK);
		got = number_of(&reports[0], name);
	} while (got != wanted && sy_clock_now_ns() < end_ns);
	assert_int_equal(got, wanted);
}

/* After every test: nothing pinned, nothing reserved, and all bytes back once the rows go. */
static int clean(void **state)
{
	uint64_t rows[64];
	sy_unit_report reports[UNITS];

	(void)state;
	play(0, GATE_PASS, NULL, 0);
	for (uint64_t i = 0; i < 64; i++)
		rows[i] = i;
	assert_int_equal(sy_client_clear(honest, rows, 64, NULL, 0, 0, NULL, NULL), SY_OK);
	await_number("pins", 0);
	await_number("reservations", 0);
	assert_int_equal(sy_client_reports(honest, 0, reports, NULL), SY_OK);
	assert_int_equal(reports[0].bytes[0].value, SLAB_BYTES);
	return 0;
}

static sy_client *open_client(void)
{
	sy_client_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 5 * SECOND_NS,
	                             .control_timeout_ns = 100 * MS_NS};
	sy_client *client;
	sy_error err = {0};

	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

static sy_store *open_store(void)
{
	sy_store_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 5 * SECOND_NS,
	                            .control_timeout_ns = 100 * MS_NS};
	sy_store *store;
	sy_error err = {0};

	if (sy_store_open(&options, &store, &err) != SY_OK)
		fail_msg("%s", err.message);
	return store;
}

static sy_status put(sy_client *client, uint64_t row, size_t nbytes, uint64_t given_ns,
                     sy_error *err)
{
	sy_key key = {row, "x", 1};
	sy_value value = {.data = data, .nbytes = nbytes, .kind = SY_KIND_BYTES};

	return sy_client_put(client, &key, &value, 1, sy_deadline_after(given_ns), err);
}

static void expect_there(sy_client *client, uint64_t row, size_t nbytes)
{
	sy_key key = {row, "x", 1};
	sy_result *result;
	sy_value value;
	sy_error err = {0};

	if (sy_client_get(client, &key, 1, 0, 0, &result, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, nbytes);
	assert_memory_equal(value.data, data, nbytes);
	sy_result_free(result);
}

/* Every kind of answer is lost once, and the call goes on as if nothing was. */
static void test_lost_answers(void **state)
{
	static const enum sy_op OPS[] = {SY_OP_HELLO, SY_OP_ALLOC, SY_OP_COMMIT, SY_OP_PUT_INLINE,
	                                 SY_OP_RESOLVE_KEYS, SY_OP_RELEASE_ROWS};
	uint64_t row = 2, entries;
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(OPS); i++) {
		sy_client *client = open_client();

		play(OPS[i], GATE_DROP, NULL, 1);
		assert_int_equal(put(client, 2, BIG, 5 * SECOND_NS, &err), SY_OK);
		expect_there(client, 2, BIG);
		assert_int_equal(put(client, 2, 100, 5 * SECOND_NS, &err), SY_OK);
		expect_there(client, 2, 100);
		assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, &entries, &err), SY_OK);
		assert_int_equal(entries, 1);
		assert_int_equal(times_left(), 0); /* it was lost indeed */
		sy_client_close(client);
	}
}

static void beyond(struct sy_reply *reply)
{
	if (reply->outcome.fault == SY_FAULT_NONE && reply->resolved.found[0] == SY_FOUND_PINNED)
		reply->resolved.offset[0] = SLAB_BYTES - 10;
}

static void endless(struct sy_reply *reply)
{
	if (reply->outcome.fault == SY_FAULT_NONE)
		reply->resolved.nbytes[0] = (uint64_t)1 << 44;
}

static void far_away(struct sy_reply *reply)
{
	if (reply->outcome.fault == SY_FAULT_NONE)
		reply->resolved.offset[0] = (uint64_t)1 << 62;
}

/* A place outside the slab is no place, whether it was to be copied, viewed or only told. */
static void test_places_outside_the_slab(void **state)
{
	static void (*const ALTER[])(struct sy_reply *) = {beyond, endless, far_away};
	sy_key keys[] = {{4, "x", 1}, {5, "x", 1}};
	sy_unit_keys units[] = {{0, keys, 1}};
	sy_client *client = open_client();
	sy_store *store = open_store();
	sy_result *result = NULL;
	sy_resolved_keys *resolved = NULL;
	uint32_t indexes[2];
	sy_error err = {.indexes = indexes, .index_capacity = 2};

	(void)state;
	assert_int_equal(put(client, 4, BIG, 5 * SECOND_NS, &err), SY_OK);
	assert_int_equal(put(client, 5, BIG, 5 * SECOND_NS, &err), SY_OK);
	for (size_t i = 0; i < COUNT_OF(ALTER); i++) {
		for (int flags = SY_GET_COPY; flags <= SY_GET_VIEW; flags++) {
			indexes[0] = 9;
			play(SY_OP_RESOLVE_KEYS, GATE_ALTERED, ALTER[i], UINT32_MAX);
			assert_int_equal(sy_client_get(client, keys, 2, flags, 0, &result, &err),
			                 SY_E_PROTOCOL);
			assert_int_equal(err.index_count, 1);
			assert_int_equal(indexes[0], 0);
		}
		play(SY_OP_RESOLVE_KEYS, GATE_ALTERED, ALTER[i], UINT32_MAX);
		assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, &err),
		                 SY_E_PROTOCOL);
		await_number("pins", 0); /* such an answer is given back, too */
	}
	assert_null(result);
	assert_null(resolved);
	play(0, GATE_PASS, NULL, 0);
	expect_there(client, 4, BIG);
	sy_client_close(client);
	sy_store_close(store);
}

static void region_beyond(struct sy_reply *reply)
{
	reply->outcome.offset = SLAB_BYTES - 64;
}

static void region_nowhere(struct sy_reply *reply)
{
	reply->outcome.offset = UINT64_MAX - 64;
}

static void test_regions_outside_the_slab(void **state)
{
	static void (*const ALTER[])(struct sy_reply *) = {region_beyond, region_nowhere};
	const uint64_t row = 6;
	sy_client *client = open_client();
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(ALTER); i++) {
		play(SY_OP_ALLOC, GATE_ALTERED, ALTER[i], 100);
		assert_int_equal(put(client, 6, BIG, 5 * SECOND_NS, &err), SY_E_TRANSFER_FAILED);
		assert_int_equal(err.status, SY_E_TRANSFER_FAILED);
		play(0, GATE_PASS, NULL, 0);
		assert_int_equal(put(client, 6, BIG, 5 * SECOND_NS, &err), SY_OK);
		expect_there(client, 6, BIG);
		/* Or the next put would be written to what this one was granted, without an alloc. */
		assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	}
	sy_client_close(client);
}

static void pending(struct sy_reply *reply)
{
	reply->outcome.answer = SY_ANSWER_PENDING;
}

static void test_pending_for_ever(void **state)
{
	sy_client *client = open_client();
	sy_error err = {0};

	(void)state;
	play(SY_OP_COMMIT, GATE_ALTERED, pending, UINT32_MAX);
	assert_int_equal(put(client, 8, BIG, IN_VAIN_NS, &err), SY_E_TIMEOUT);
	play(0, GATE_PASS, NULL, 0);
	expect_there(client, 8, BIG); /* it is there all the same, and put says only: not known */
	sy_client_close(client);
}

static void huge_limits(struct sy_reply *reply)
{
	reply->hello.eager_max_bytes = reply->hello.max_message_bytes = UINT32_MAX;
	reply->hello.heartbeat_ns = reply->hello.read_pin_ns = UINT64_MAX;
}

static void tiny_limits(struct sy_reply *reply)
{
	reply->hello.max_message_bytes = reply->hello.max_keys = reply->hello.max_entries = 1;
	reply->hello.heartbeat_ns = reply->hello.read_pin_ns = 1;
}

static void other_unit(struct sy_reply *reply)
{
	reply->hello.unit_id = 1;
}

static void no_path(struct sy_reply *reply)
{
	reply->hello.transports = 0;
}

/* Nonsense in a hello: a call may fail, but it ends, and another client does not suffer. */
static void test_nonsense_in_hello(void **state)
{
	static void (*const ALTER[])(struct sy_reply *) = {huge_limits, tiny_limits, other_unit,
	                                                   no_path};
	static const size_t SIZES[] = {100, BIG, 8 << 20};
	uint8_t *large = calloc(1, 8 << 20);
	sy_key key = {10, "x", 1};
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(ALTER); i++) {
		sy_client *client = open_client();

		play(SY_OP_HELLO, GATE_ALTERED, ALTER[i], UINT32_MAX);
		for (size_t s = 0; s < COUNT_OF(SIZES); s++) {
			sy_value value = {.data = large, .nbytes = SIZES[s], .kind = SY_KIND_BYTES};
			sy_result *result = NULL;
			sy_status status = sy_client_put(client, &key, &value, 1,
			                                 sy_deadline_after(SECOND_NS / 5), &err);

			assert_true(status == SY_OK || err.status == status);
			status = sy_client_get(client, &key, 1, 0, sy_deadline_after(SECOND_NS / 5), &result,
			                       &err);
			assert_int_equal(status == SY_OK, result != NULL);
			sy_result_free(result);
		}
		sy_client_close(client);
		play(0, GATE_PASS, NULL, 0);
		client = open_client();
		assert_int_equal(put(client, 10, BIG, 5 * SECOND_NS, &err), SY_OK);
		sy_client_close(client);
	}
	free(large);
}

static void no_session(struct sy_reply *reply)
{
	reply->outcome = (struct sy_outcome){.fault = SY_FAULT_NO_SESSION};
}

/* A commit that came to no answer: not put again in the call, and known when asked for. */
static void unknown_commit(enum gate_says says, void (*alter)(struct sy_reply *), size_t nbytes)
{
	sy_store *store = open_store();
	struct store_blob made;
	uint32_t index = 9;
	sy_error err = {.indexes = &index, .index_capacity = 1};
	bool published = false;

	store_blob_make(&made, 0, 12, "x", data, nbytes);
	play(SY_OP_COMMIT, says, alter, UINT32_MAX);
	uint64_t given_ns = alter != NULL ? 20 * SECOND_NS : IN_VAIN_NS;
	sy_status status =
		sy_store_put_segments(store, &made.blob, sy_deadline_after(given_ns), &err);
	assert_int_equal(status, alter != NULL ? SY_E_TRANSFER_FAILED : SY_E_TIMEOUT);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(index, 0);
	assert_int_equal(times_asked(SY_OP_ALLOC), 1);
	/* Again without an answer: an error, and nothing is said of the blob. */
	play(SY_OP_COMMIT, GATE_DROP, NULL, UINT32_MAX);
	assert_int_equal(sy_store_commit(store, 0, made.blob.blob_id,
	                                 sy_deadline_after(SECOND_NS / 5), &published, &err),
	                 SY_E_TIMEOUT);
	assert_false(published);
	/* The session ends under the question: it is asked in the next one. */
	play(SY_OP_COMMIT, GATE_ALTERED, no_session, 1);
	assert_int_equal(sy_store_commit(store, 0, made.blob.blob_id, 0, &published, &err), SY_OK);
	assert_true(published);
	expect_there(honest, 12, nbytes);
	sy_store_close(store);
}

static void test_unknown_commits(void **state)
{
	(void)state;
	unknown_commit(GATE_DROP, NULL, BIG);
	unknown_commit(GATE_ALTERED, no_session, BIG);
	unknown_commit(GATE_DROP, NULL, 100); /* small enough for put_inline, which tells no grant */
	unknown_commit(GATE_ALTERED, no_session, 100);
}

/* One unit does not answer: what the other one pinned goes back. */
static void test_half_a_resolve(void **state)
{
	sy_key key = {14, "x", 1};
	sy_unit_keys units[] = {{1, &key, 1}, {0, &key, 1}};
	sy_store *store = open_store();
	sy_resolved_keys *resolved = NULL;
	struct store_blob made;
	uint32_t indexes[2] = {9, 9};
	sy_error err = {.indexes = indexes, .index_capacity = 2};

	(void)state;
	for (uint32_t u = 0; u < UNITS; u++) {
		store_blob_make(&made, u, 14, "x", data, BIG);
		assert_int_equal(sy_store_put_segments(store, &made.blob, 0, &err), SY_OK);
	}
	play(SY_OP_RESOLVE_KEYS, GATE_DROP, NULL, UINT32_MAX);
	assert_int_equal(sy_store_resolve_keys(store, units, 2, sy_deadline_after(IN_VAIN_NS),
	                                       &resolved, &err), SY_E_TIMEOUT);
	assert_null(resolved);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(indexes[0], 1);
	play(0, GATE_PASS, NULL, 0);
	await_number("pins", 0);
	uint64_t row = 14;
	sy_unit_rows rows[] = {{0, &row, 1}, {1, &row, 1}};
	assert_int_equal(sy_store_release_rows(store, rows, 2, 0, &err), SY_OK);
	sy_unit_report reports[UNITS];
	assert_int_equal(sy_client_reports(honest, 0, reports, NULL), SY_OK);
	assert_int_equal(number_of(&reports[1], "pins"), 0);
	sy_store_close(store);
}

/* After trying all: full before too late, and everything that is not known published is named. */
static void test_order_of_errors(void **state)
{
	sy_store *store = open_store();
	struct store_blob made[4];
	sy_store_blob blobs[4];
	uint32_t indexes[4];
	sy_error err = {.indexes = indexes, .index_capacity = 4};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		store_blob_make(&made[i], i % 2, 20 + i, "x", data, BIG);
		blobs[i] = made[i].blob;
	}
	blobs[3].nbytes = SLAB_BYTES + 64;
	play(SY_OP_ALLOC, GATE_DROP, NULL, UINT32_MAX);
	assert_int_equal(sy_store_put_many(store, blobs, 4, sy_deadline_after(IN_VAIN_NS), &err),
	                 SY_E_UNIT_FULL); /* unit 0 takes all the time, of its own blobs alone */
	assert_int_equal(err.index_count, 3);
	store_blob_make(&made[1], 1, 21, "x", data, BIG);
	blobs[1] = made[1].blob;
	blobs[1].nbytes = SLAB_BYTES + 64;
	assert_int_equal(sy_store_put_many(store, blobs, 4, sy_deadline_after(IN_VAIN_NS), &err),
	                 SY_E_UNIT_FULL);
	assert_int_equal(err.index_count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(indexes[i], i);
	uint64_t row = 21;
	sy_unit_rows rows[] = {{1, &row, 1}};
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, &err), SY_OK);
	sy_store_close(store);
}

static bool count_visits(void *context, const sy_scan_info *info)
{
	(void)info;
	(*(uint64_t *)context)++;
	return true;
}

static void same_cursor(struct sy_reply *reply)
{
	reply->scan_cursor = 1;
}

static void test_a_walk_in_circles(void **state)
{
	sy_client *client = open_client();
	uint64_t visits = 0;
	sy_error err = {0};

	(void)state;
	assert_int_equal(put(client, 16, BIG, 5 * SECOND_NS, &err), SY_OK);
	play(SY_OP_SCAN, GATE_ALTERED, same_cursor, UINT32_MAX);
	assert_int_equal(sy_client_scan(client, 0, UINT64_MAX, count_visits, &visits,
	                                sy_deadline_after(SECOND_NS / 5), &err), SY_E_TIMEOUT);
	sy_client_close(client);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_lost_answers, clean),
		cmocka_unit_test_teardown(test_places_outside_the_slab, clean),
		cmocka_unit_test_teardown(test_regions_outside_the_slab, clean),
		cmocka_unit_test_teardown(test_pending_for_ever, clean),
		cmocka_unit_test_teardown(test_nonsense_in_hello, clean),
		cmocka_unit_test_teardown(test_unknown_commits, clean),
		cmocka_unit_test_teardown(test_half_a_resolve, clean),
		cmocka_unit_test_teardown(test_order_of_errors, clean),
		cmocka_unit_test_teardown(test_a_walk_in_circles, clean),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
