/* A call that waits ends when its caller says so, long before its deadline. */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "cluster.h"
#include "gate.h"

static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static _Atomic uint32_t asked;
static _Atomic bool stop_now;

static bool interrupted(void *context)
{
	assert_ptr_equal(context, &cluster);
	asked++;
	return stop_now;
}

static void open_client(sy_client **ret_client)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 60 * SECOND_NS,
	                             .interrupted = interrupted, .interrupted_context = &cluster};
	sy_error err = {0};

	if (sy_client_open(&options, ret_client, &err) != SY_OK)
		fail_msg("%s", err.message);
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, 1, 8 << 20, false);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&cluster);
	return 0;
}

static sy_status put(sy_client *client, const void *data, uint64_t nbytes)
{
	sy_key key = {1, "x", 1};
	sy_value value = {.data = data, .nbytes = nbytes, .kind = SY_KIND_BYTES};

	return sy_client_put(client, &key, &value, 1, 0, NULL);
}

static sy_status get(sy_client *client)
{
	sy_key key = {1, "x", 1};
	sy_result *result = NULL;
	sy_status status = sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, NULL);

	sy_result_free(result);
	return status;
}

/* While the unit stands still each kind of call ends at the first yes. */
static void test_a_wait_ends(void **state)
{
	static uint8_t large[1 << 20];
	const uint64_t row = 1;
	sy_client *client;

	(void)state;
	stop_now = false;
	open_client(&client);
	assert_int_equal(put(client, "abc", 3), SY_OK);
	assert_int_equal(kill(cluster.units[0], SIGSTOP), 0);
	stop_now = true;
	asked = 0;
	assert_int_equal(put(client, "abc", 3), SY_E_TIMEOUT);
	assert_int_equal(put(client, large, sizeof large), SY_E_TIMEOUT);
	assert_int_equal(get(client), SY_E_TIMEOUT);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_E_TIMEOUT);
	assert_int_equal(asked, 4);
	assert_int_equal(kill(cluster.units[0], SIGCONT), 0);

	/* Nothing of it is left behind: the client works on. */
	stop_now = false;
	assert_int_equal(put(client, large, sizeof large), SY_OK);
	assert_int_equal(get(client), SY_OK);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_client_close(client);
}

static void *get_in_thread(void *client)
{
	return (void *)(intptr_t)get(client);
}

/* Two callers of one client: one leads, one waits for the leader; both are asked. */
static void test_all_waiters_are_asked(void **state)
{
	sy_client *client;
	pthread_t threads[2];
	void *status;

	(void)state;
	stop_now = false;
	open_client(&client);
	assert_int_equal(put(client, "abc", 3), SY_OK);
	assert_int_equal(kill(cluster.units[0], SIGSTOP), 0);
	asked = 0;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, get_in_thread, client), 0);
	while (asked < 6)
		sched_yield();
	stop_now = true;
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], &status);
		assert_int_equal((intptr_t)status, SY_E_TIMEOUT);
	}
	assert_int_equal(kill(cluster.units[0], SIGCONT), 0);
	sy_client_close(client);
}

/* Where no directory answers, opening ends too. */
static void test_open_ends(void **state)
{
	char directory[128];
	sy_client_options options = {.directory = directory, .timeout_ns = 60 * SECOND_NS,
	                             .interrupted = interrupted, .interrupted_context = &cluster};
	sy_client *client;

	(void)state;
	snprintf(directory, sizeof directory, "ipc://%s/nobody.ipc", cluster.run_dir);
	stop_now = true;
	asked = 0;
	assert_int_equal(sy_client_open(&options, &client, NULL), SY_E_TIMEOUT);
	assert_int_equal(asked, 1);
}

/* A put one message of which stands before the gate until its caller was told of the wait. */
static struct {
	sy_client *client;
	_Atomic enum sy_op op;
	_Atomic uint64_t mapped_ns, granted_ns, waits_since_ns;
	_Atomic bool came;
} held;

int __real_madvise(void *start, size_t bytes, int advice);
int __wrap_madvise(void *start, size_t bytes, int advice);

/* A slab is being mapped; its pages are another thread's work. */
int __wrap_madvise(void *start, size_t bytes, int advice)
{
	if (advice == MADV_DONTFORK)
		held.mapped_ns = sy_clock_now_ns();
	return __real_madvise(start, bytes, advice);
}

static enum gate_says hold_request(uint32_t unit_id, const struct sy_request *request,
                                   uint64_t age_ns)
{
	(void)unit_id;
	(void)age_ns;
	if (request->op != held.op || held.waits_since_ns != 0)
		return GATE_PASS;
	held.came = true;
	return GATE_HOLD;
}

static enum gate_says see_grant(uint32_t unit_id, enum sy_op op, struct sy_reply *reply,
                                uint64_t age_ns)
{
	(void)unit_id;
	(void)reply;
	(void)age_ns;
	if (op == SY_OP_ALLOC)
		held.granted_ns = sy_clock_now_ns();
	return GATE_PASS;
}

static bool ask_of_wait(void *context)
{
	uint32_t unit_id;
	uint64_t wait_ns;

	(void)context;
	if (held.came && held.waits_since_ns == 0 &&
	    sy_client_awaits(held.client, &unit_id, &wait_ns))
		held.waits_since_ns = sy_clock_now_ns() - wait_ns;
	return false;
}

static void put_held_at(enum sy_op op)
{
	static uint8_t large[1 << 20];

	held.came = false;
	held.waits_since_ns = 0;
	held.op = op;
	assert_int_equal(put(held.client, large, sizeof large), SY_OK);
}

/* The time that a client took to map a slab, or to copy into it, is none that it waited. */
static void test_own_work_is_no_wait(void **state)
{
	sy_client_options options = {.control = SY_CONTROL_ZMQ, .interrupted = ask_of_wait};

	(void)state;
	gate_open(&cluster, &(struct gate_hooks){.request = hold_request, .reply = see_grant});
	options.directory = gate_directory();
	held.mapped_ns = 0;
	assert_int_equal(sy_client_open(&options, &held.client, NULL), SY_OK);
	put_held_at(SY_OP_HELLO);
	assert_true(held.mapped_ns > 0);
	assert_true(held.waits_since_ns > held.mapped_ns);
	held.granted_ns = 0;
	put_held_at(SY_OP_COMMIT);
	assert_true(held.granted_ns > 0);
	assert_true(held.waits_since_ns > held.granted_ns);
	sy_client_close(held.client);
	gate_close();
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_wait_ends),
		cmocka_unit_test(test_all_waiters_are_asked),
		cmocka_unit_test(test_open_ends),
		cmocka_unit_test(test_own_work_is_no_wait),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
