/* Who waits for what: no caller stands in another's way, and each is back by its deadline plus
 * 100 ms, whoever is stopped, dead or silent. */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "gate.h"
#include "punctual.h"
#include "store_blob.h"
#include "thread_state.h"

enum { UNITS = 2, SLAB_BYTES = 8 << 20, BIG = 1 << 20 };
static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;

/* What the gate does now; all atomic. */
static struct {
	bool hold_alloc;        /* until a resolve has stood before the gate for a while */
	bool hold_resolve;      /* for good */
	bool hold_found;        /* a resolve's answer, until somebody writes */
	bool resolve_came, resolve_held, writing, reader_done;
} now;

static bool is_set(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static void set_none(void)
{
	bool *const all[] = {&now.hold_alloc,   &now.hold_resolve, &now.hold_found, &now.resolve_came,
	                     &now.resolve_held, &now.writing,      &now.reader_done};

	for (size_t i = 0; i < COUNT_OF(all); i++)
		set(all[i], false);
}

static void await(const bool *flag)
{
	for (int i = 0; i < 20000 && !is_set(flag); i++)
		usleep(1000);
	assert_true(is_set(flag));
}

static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	(void)unit_id;
	(void)age_ns;
	if (request->op == SY_OP_RESOLVE_KEYS) {
		if (is_set(&now.hold_resolve)) {
			set(&now.resolve_held, true);
			return GATE_HOLD;
		}
		set(&now.resolve_came, true);
	}
	if (request->op == SY_OP_ALLOC && is_set(&now.hold_alloc) && !is_set(&now.resolve_came))
		return GATE_HOLD;
	return GATE_PASS;
}

static enum gate_says on_reply(uint32_t unit_id, enum sy_op op, struct sy_reply *reply,
                               uint64_t age_ns)
{
	(void)unit_id;
	(void)reply;
	if (op == SY_OP_RESOLVE_KEYS && is_set(&now.hold_found) && !is_set(&now.writing))
		return GATE_HOLD;
	/* Whoever asked for the resolve sleeps by the time that the alloc's answer comes. */
	if (op == SY_OP_ALLOC && is_set(&now.hold_alloc) && age_ns < 30 * MS_NS)
		return GATE_HOLD;
	return GATE_PASS;
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	gate_open(&cluster, &(struct gate_hooks){.request = on_request, .reply = on_reply});
	return watch_host_start();
}

static int stop(void **state)
{
	(void)state;
	watch_host_stop();
	gate_close();
	cluster_stop(&cluster);
	return 0;
}

/* The store's lock, which its user may hold for long. */
static void lock(void *context)
{
	(void)context;
	uint64_t end_ns = sy_clock_now_ns() + 10 * SECOND_NS;

	set(&now.writing, true);
	while (is_set(&now.hold_alloc) && !is_set(&now.reader_done) && sy_clock_now_ns() < end_ns)
		usleep(1000);
}

static void unlock(void *context)
{
	(void)context;
}

static void *put_big(void *store)
{
	static uint8_t data[BIG];
	struct store_blob made;

	store_blob_make(&made, 0, 2, "x", data, sizeof data);
	return (void *)(intptr_t)sy_store_put_segments(store, &made.blob, 0, NULL);
}

/* One caller waits for an alloc, and reads the sockets for all; another waits for a resolve. The
 * first gets its region and is long in its WRITE: the second must get its answer meanwhile. */
static void test_a_writer_leaves_the_sockets_to_others(void **state)
{
	sy_store_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 20 * SECOND_NS,
	                            .lock = lock, .unlock = unlock};
	sy_key key = {3, "none", 4};
	sy_unit_keys keys[] = {{1, &key, 1}};
	uint64_t row = 2;
	sy_unit_rows rows[] = {{0, &row, 1}, {1, &row, 1}};
	sy_store *store;

	(void)state;
	assert_int_equal(sy_store_open(&options, &store, NULL), SY_OK);
	assert_int_equal(sy_store_release_rows(store, rows, 2, 0, NULL), SY_OK);
	for (int round = 0; round < 10; round++) {
		sy_resolved_keys *resolved;
		pthread_t writer;
		void *put;
		sy_error err = {0};

		set(&now.resolve_came, false);
		set(&now.writing, false);
		set(&now.reader_done, false);
		set(&now.hold_found, true);
		set(&now.hold_alloc, true);
		assert_int_equal(pthread_create(&writer, NULL, put_big, store), 0);
		usleep(20000); /* it leads by now; if not, this round shows nothing */
		uint64_t deadline = sy_deadline_after(5 * SECOND_NS); /* the writer takes longer */
		sy_status status = sy_store_resolve_keys(store, keys, 1, deadline, &resolved, &err);
		set(&now.reader_done, true);
		set(&now.hold_alloc, false);
		set(&now.hold_found, false);
		pthread_join(writer, &put);
		assert_int_equal((intptr_t)put, SY_OK);
		if (status != SY_OK)
			fail_msg("round %d: %s", round, err.message);
		sy_resolved_keys_free(resolved);
		assert_int_equal(sy_store_release_rows(store, rows, 1, 0, NULL), SY_OK);
	}
	sy_store_close(store);
}

static sy_status get_row(sy_client *client, uint64_t row, uint64_t given_ns, int flags,
                         sy_result **ret_result, sy_error *err)
{
	sy_key key = {row, "x", 1};

	return sy_client_get(client, &key, 1, flags, sy_deadline_after(given_ns), ret_result, err);
}

static sy_client *open_client(uint64_t timeout_ns)
{
	sy_client_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = timeout_ns};
	sy_client *client;
	sy_error err = {0};

	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

static void put_row(sy_client *client, uint64_t row)
{
	static uint8_t data[BIG / 4];
	sy_key key = {row, "x", 1};
	sy_value value = {.data = data, .nbytes = sizeof data, .kind = SY_KIND_BYTES};
	sy_error err = {0};

	if (sy_client_put(client, &key, &value, 1, 0, &err) != SY_OK)
		fail_msg("%s", err.message);
}

/* Many callers at once, each with a deadline of its own, on a unit that stands still: connected
 * or not. */
struct caller {
	pthread_t thread;
	sy_client *client;
	uint32_t number;
	uint64_t late_ns;
	int wrong;
};

static void *call_the_stopped(void *argument)
{
	struct caller *me = argument;
	static uint8_t data[BIG / 4];

	for (uint32_t i = 0; i < 6; i++) {
		uint64_t given_ns = (20 + (me->number * 37 + i * 61) % 250) * MS_NS, row = 1;
		uint64_t start_ns = sy_clock_now_ns();
		struct watch watch = {0};
		sy_key key = {1, "x", 1};
		sy_value value = {.data = data, .nbytes = i % 2 ? 10 : sizeof data,
		                  .kind = SY_KIND_BYTES};
		sy_result *result = NULL;
		sy_status status;

		if (i % 3 == 0)
			status = get_row(me->client, 1, given_ns, 0, &result, NULL);
		else if (i % 3 == 1)
			status = sy_client_put(me->client, &key, &value, 1, sy_deadline_after(given_ns), NULL);
		else
			status = sy_client_clear(me->client, &row, 1, NULL, 0, sy_deadline_after(given_ns),
			                         NULL, NULL);
		back(&watch, start_ns, given_ns);
		me->wrong += status != SY_E_TIMEOUT || result != NULL;
		if (watch.late_ns > me->late_ns)
			me->late_ns = watch.late_ns;
	}
	return NULL;
}

static void call_at_once(sy_client *client, const char *what)
{
	enum { CALLERS = 16 };
	struct caller callers[CALLERS];
	struct watch watch = {.what = what};
	int wrong = 0;

	for (uint32_t i = 0; i < CALLERS; i++) {
		callers[i] = (struct caller){.client = client, .number = i};
		assert_int_equal(pthread_create(&callers[i].thread, NULL, call_the_stopped, &callers[i]),
		                 0);
	}
	for (uint32_t i = 0; i < CALLERS; i++) {
		pthread_join(callers[i].thread, NULL);
		wrong += callers[i].wrong;
		if (callers[i].late_ns > watch.late_ns)
			watch.late_ns = callers[i].late_ns;
	}
	assert_int_equal(wrong, 0);
	expect_punctual(&watch);
}

/* Kind: one failed connect is permanent. */
static void test_a_stopped_unit(void **state)
{
	sy_client *connected = open_client(20 * SECOND_NS), *fresh = open_client(20 * SECOND_NS);
	uint64_t row = 1;

	(void)state;
	set_none();
	put_row(connected, 1);
	kill(cluster.units[1], SIGSTOP);
	call_at_once(connected, "connected to a stopped unit");
	call_at_once(fresh, "not connected to a stopped unit");
	kill(cluster.units[1], SIGCONT);
	assert_int_equal(sy_client_clear(fresh, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	assert_int_equal(sy_client_clear(connected, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_client_close(connected);
	sy_client_close(fresh);
}

/* Dead, and the directory does not say so: not lost, whether it is silent or knows nothing yet. */
static void test_a_death_nobody_confirms(void **state)
{
	sy_client *client = open_client(20 * SECOND_NS);
	struct watch watch = {.what = "a death nobody confirms"};
	sy_result *result = NULL;
	sy_error err = {0};
	uint64_t row = 1;

	(void)state;
	put_row(client, 1);
	cluster_kill(&cluster, 1, SIGKILL); /* the gate's directory is not told */
	for (int i = 0; i < 4; i++) {
		uint64_t start_ns = sy_clock_now_ns(), given_ns = SECOND_NS / 4;

		gate_directory_silent(i >= 2);
		sy_status status = get_row(client, 1, given_ns, 0, &result, &err);
		back(&watch, start_ns, given_ns);
		assert_true(status == SY_E_TIMEOUT || status == SY_E_TRANSFER_FAILED);
		start_ns = sy_clock_now_ns();
		status = sy_client_clear(client, &row, 1, NULL, 0, sy_deadline_after(given_ns), NULL,
		                         &err);
		back(&watch, start_ns, given_ns);
		assert_true(status == SY_E_TIMEOUT || status == SY_E_TRANSFER_FAILED);
	}
	/* The news comes while a caller waits: it says lost then, not at its deadline. */
	gate_directory_silent(false);
	gate_unit_gone(1);
	assert_int_equal(get_row(client, 1, 10 * SECOND_NS, 0, &result, &err), SY_E_LOST);
	assert_null(result);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, &err), SY_OK);
	cluster_restart(&cluster, 1);
	gate_unit_new(1);
	put_row(client, 1);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, &err), SY_OK);
	sy_client_close(client);
	expect_punctual(&watch);
}

static void test_a_silent_directory_at_open(void **state)
{
	sy_client_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = SECOND_NS / 3};
	struct watch watch = {.what = "open without a directory"};
	sy_client *client = NULL;
	uint64_t start_ns = sy_clock_now_ns();

	(void)state;
	gate_directory_silent(true);
	assert_int_equal(sy_client_open(&options, &client, NULL), SY_E_TIMEOUT);
	back(&watch, start_ns, options.timeout_ns);
	gate_directory_silent(false);
	assert_null(client);
	expect_punctual(&watch);
}

/* Far more than fits into the time: what had no turn costs none. */
static void test_more_than_there_is_time_for(void **state)
{
	enum { BLOBS = 30000, ROWS = 100000 };
	sy_store_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 20 * SECOND_NS};
	struct watch watch = {.what = "more than there is time for"};
	struct store_blob made;
	sy_store_blob *blobs = malloc(BLOBS * sizeof *blobs);
	uint32_t *indexes = malloc(BLOBS * sizeof *indexes);
	uint64_t *rows = malloc(ROWS * sizeof *rows), given_ns = 50 * MS_NS;
	uint8_t bytes[8] = {0};
	sy_put_column column = {.field = "c", .field_bytes = 1, .kind = SY_KIND_BYTES, .data = bytes,
	                        .row_bytes = 8};
	const char *fields[] = {"c"};
	sy_error err = {.indexes = indexes, .index_capacity = BLOBS};
	sy_client *client = open_client(20 * SECOND_NS);
	sy_result *result = NULL;
	sy_store *store;

	(void)state;
	assert_int_equal(sy_store_open(&options, &store, NULL), SY_OK);
	store_blob_make(&made, 0, 2, "x", bytes, 8);
	for (size_t i = 0; i < BLOBS; i++) {
		blobs[i] = made.blob;
		sy_blob_id_new(&blobs[i].blob_id); /* not that of its index: each is refused */
	}
	uint64_t start_ns = sy_clock_now_ns();
	assert_int_equal(sy_store_put_many(store, blobs, BLOBS, sy_deadline_after(given_ns), &err),
	                 SY_E_TIMEOUT);
	back(&watch, start_ns, given_ns);
	assert_int_equal(err.index_count, BLOBS);
	for (size_t i = 0; i < ROWS; i++)
		rows[i] = (ROWS - i) * 7919 % 1000003;
	start_ns = sy_clock_now_ns();
	assert_int_equal(sy_client_put_columns(client, rows, ROWS, &column, 1, 1, &err),
	                 SY_E_TIMEOUT);
	assert_int_equal(err.index_count, ROWS);
	back(&watch, start_ns, 0);
	start_ns = sy_clock_now_ns();
	assert_int_equal(sy_client_get_columns(client, rows, ROWS, fields, 1, 0, 1, &result, &err),
	                 SY_E_TIMEOUT);
	assert_int_equal(err.index_count, ROWS);
	back(&watch, start_ns, 0);
	sy_client_close(client);
	sy_store_close(store);
	free(blobs);
	free(indexes);
	free(rows);
	expect_punctual(&watch);
}

static bool standing; /* atomic: the leader is to stand still */

static void stand(int signal)
{
	(void)signal;
	/* Bounded: should it have been caught with the client's lock, all would wait for it. */
	for (int i = 0; i < 3000 && __atomic_load_n(&standing, __ATOMIC_ACQUIRE); i++)
		usleep(1000);
}

static pid_t leader_tid; /* atomic; 0: it has not begun */

static void *lead(void *client)
{
	__atomic_store_n(&leader_tid, gettid(), __ATOMIC_RELEASE);
	sy_result *result = NULL;
	sy_status status = get_row(client, 1, 20 * SECOND_NS, 0, &result, NULL);

	sy_result_free(result);
	return (void *)(intptr_t)status;
}

/* The thread that reads for all is held up: the others get their answers by their deadlines, and
 * are late for none. */
static void test_a_leader_that_stands_still(void **state)
{
	sy_client *client = open_client(20 * SECOND_NS);
	struct sigaction action = {.sa_handler = stand};
	struct watch watch = {.what = "beside a leader that stands still"};
	sy_result *result = NULL;
	pthread_t leader;
	void *status;

	(void)state;
	set_none();
	put_row(client, 1);
	put_row(client, 0);
	sigaction(SIGUSR1, &action, NULL);
	set(&now.hold_resolve, true);
	assert_int_equal(pthread_create(&leader, NULL, lead, client), 0);
	await(&now.resolve_held);
	pid_t tid = __atomic_load_n(&leader_tid, __ATOMIC_ACQUIRE);
	for (int i = 0; i < 20000 && !thread_is(getpid(), tid, 'S'); i++)
		usleep(1000);
	set(&standing, true);
	pthread_kill(leader, SIGUSR1);
	uint64_t start_ns = sy_clock_now_ns();
	assert_int_equal(get_row(client, 0, SECOND_NS / 5, 0, &result, NULL), SY_E_TIMEOUT);
	back(&watch, start_ns, SECOND_NS / 5);
	set(&now.hold_resolve, false);
	assert_int_equal(get_row(client, 0, 5 * SECOND_NS, 0, &result, NULL), SY_OK);
	sy_result_free(result);
	set(&standing, false);
	pthread_join(leader, &status);
	assert_int_equal((intptr_t)status, SY_OK);
	uint64_t rows[] = {0, 1};
	assert_int_equal(sy_client_clear(client, rows, 2, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_client_close(client);
	expect_punctual(&watch);
}

struct closing {
	sy_client *client;
	sy_status status;
};

static void *get_slowly(void *argument)
{
	struct closing *me = argument;
	sy_result *result = NULL;

	me->status = get_row(me->client, 0, 20 * SECOND_NS, 0, &result, NULL);
	sy_result_free(result);
	return NULL;
}

static void *close_it(void *client)
{
	sy_client_close(client);
	return NULL;
}

/* A close waits for the calls that run, and refuses those that come meanwhile. */
static void test_close_beside_calls(void **state)
{
	struct closing call = {.client = open_client(5 * SECOND_NS)};
	sy_result *result = NULL;
	pthread_t caller, closer;
	sy_status status = SY_E_TIMEOUT;

	(void)state;
	set_none();
	put_row(call.client, 0);
	set(&now.hold_resolve, true);
	assert_int_equal(pthread_create(&caller, NULL, get_slowly, &call), 0);
	await(&now.resolve_held);
	assert_int_equal(pthread_create(&closer, NULL, close_it, call.client), 0);
	/* The client is there as long as the first call runs. */
	for (int i = 0; i < 1000 && status == SY_E_TIMEOUT; i++)
		status = get_row(call.client, 0, 10 * MS_NS, 0, &result, NULL);
	set_none();
	assert_int_equal(status, SY_E_FATAL);
	pthread_join(caller, NULL);
	pthread_join(closer, NULL);
	assert_int_equal(call.status, SY_OK);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_writer_leaves_the_sockets_to_others),
		PUNCTUAL(test_a_stopped_unit),
		PUNCTUAL(test_a_death_nobody_confirms),
		PUNCTUAL(test_a_silent_directory_at_open),
		PUNCTUAL(test_more_than_there_is_time_for),
		PUNCTUAL(test_a_leader_that_stands_still),
		cmocka_unit_test(test_close_beside_calls),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
