/* What is to be done for units that are dead, be they many or large and their directory silent,
 * holds up no call on the unit that lives. */
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
#include "store_inner.h"

enum { DEAD = 8, UNITS = DEAD + 1, LIVING = DEAD, SLAB_BYTES = 8 << 20, BIG = 256 << 10 };
static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static bool hold_resolve, store_held; /* atomic */

static bool is_set(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	(void)unit_id;
	(void)age_ns;
	return is_set(&hold_resolve) && request->op == SY_OP_RESOLVE_KEYS ? GATE_HOLD : GATE_PASS;
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	gate_open(&cluster, &(struct gate_hooks){.request = on_request});
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

/* The linker leads what the client unmaps through here. Both atomic. */
static bool hold_unmapping, unmapping;

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);

int __wrap_munmap(void *at, size_t bytes)
{
	for (int i = 0; i < 5000 && bytes >= SLAB_BYTES && is_set(&hold_unmapping); i++) {
		set(&unmapping, true);
		usleep(1000);
	}
	set(&unmapping, false);
	return __real_munmap(at, bytes);
}

/* The first units. */
static void die(uint32_t count)
{
	for (uint32_t u = 0; u < count; u++)
		cluster_kill(&cluster, u, SIGKILL);
}

/* Nothing is left of what the test did. */
static void live_again(sy_client *client, uint32_t count)
{
	uint64_t rows[UNITS];
	sy_error err = {0};

	for (uint32_t u = 0; u < count; u++)
		gate_unit_gone(u);
	gate_directory_silent(false);
	for (uint32_t u = 0; u < count; u++) {
		cluster_restart(&cluster, u);
		gate_unit_new(u);
	}
	for (uint32_t u = 0; u < UNITS; u++)
		rows[u] = u;
	if (sy_client_clear(client, rows, UNITS, NULL, 0, 0, NULL, &err) != SY_OK)
		fail_msg("%s: %s", err.where, err.message);
}

static sy_client *open_client(void)
{
	sy_client_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 20 * SECOND_NS};
	sy_client *client;
	sy_error err = {0};

	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

/* Row u is unit u's. */
static sy_status put_rows(sy_client *client, uint32_t count, uint64_t given_ns, sy_error *err)
{
	static uint8_t data[BIG];
	sy_key keys[UNITS];
	sy_value values[UNITS];

	for (uint32_t i = 0; i < count; i++) {
		keys[i] = (sy_key){i, "x", 1};
		values[i] = (sy_value){.data = data, .nbytes = sizeof data, .kind = SY_KIND_BYTES};
	}
	return sy_client_put(client, keys, values, count, sy_deadline_after(given_ns), err);
}

static sy_status get_living(sy_client *client, uint64_t given_ns, sy_result **ret_result,
                            sy_error *err)
{
	sy_key key = {LIVING, "x", 1};

	return sy_client_get(client, &key, 1, 0, sy_deadline_after(given_ns), ret_result, err);
}

/* Pins of all of them are to be given back: whoever tries to connect for that must not keep the
 * time of other callers from being looked at. */
static void test_notices_for_the_dead_hold_up_nobody(void **state)
{
	enum { CALLS = 48 };
	sy_client *client = open_client();
	struct watch watch = {.what = "beside notices for dead units"};
	sy_result *view = NULL, *result = NULL;
	sy_key keys[DEAD];
	sy_error err = {0};

	(void)state;
	for (uint32_t u = 0; u < DEAD; u++)
		keys[u] = (sy_key){u, "x", 1};
	if (put_rows(client, UNITS, 10 * SECOND_NS, &err) != SY_OK ||
	    sy_client_get(client, keys, DEAD, SY_GET_VIEW, 0, &view, &err) != SY_OK)
		fail_msg("%s: %s", err.where, err.message);
	die(DEAD);
	gate_directory_silent(true);
	sy_result_free(view);
	set(&hold_resolve, true);
	/* Over all the pauses between tries to connect, which grow. */
	for (int i = 0; i < CALLS; i++) {
		uint64_t start_ns = sy_clock_now_ns(), given_ns = 50 * MS_NS;

		assert_int_equal(get_living(client, given_ns, &result, &err), SY_E_TIMEOUT);
		back(&watch, start_ns, given_ns);
	}
	assert_null(result);
	set(&hold_resolve, false);
	live_again(client, DEAD);
	sy_client_close(client);
	expect_punctual(&watch);
}

/* One call for all units: what it asks about the dead takes none of the time in which the unit
 * that lives is connected to and written to. */
static void test_a_put_past_the_dead(void **state)
{
	sy_client *fresh = open_client(), *connected = open_client(), *clients[] = {fresh, connected};
	struct watch watch = {.what = "a put past dead units"};
	sy_result *result;
	sy_value value;
	sy_error err = {0};

	(void)state;
	if (put_rows(connected, UNITS, 10 * SECOND_NS, &err) != SY_OK)
		fail_msg("%s: %s", err.where, err.message);
	die(DEAD);
	gate_directory_silent(true);
	for (size_t i = 0; i < COUNT_OF(clients); i++) {
		uint64_t row = LIVING, start_ns, given_ns = 2 * SECOND_NS;

		assert_int_equal(sy_client_clear(connected, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
		start_ns = sy_clock_now_ns();
		assert_int_not_equal(put_rows(clients[i], UNITS, given_ns, &err), SY_OK);
		back(&watch, start_ns, given_ns);
		if (get_living(connected, 10 * SECOND_NS, &result, &err) != SY_OK)
			fail_msg("%s: %s", err.where, err.message);
		if (!sy_result_value(result, 0, &value))
			fail_msg("client %zu did not put what the living unit takes", i);
		sy_result_free(result);
	}
	live_again(connected, DEAD);
	sy_client_close(fresh);
	sy_client_close(connected);
	expect_punctual(&watch);
}

/* The slab of a dead unit is unmapped, which takes its time if it is large. */
static void test_unmapping_holds_up_nobody(void **state)
{
	sy_client *client = open_client();
	struct watch watch = {.what = "beside the unmapping of a slab"};
	sy_result *result = NULL;
	sy_error err = {0};

	(void)state;
	if (put_rows(client, UNITS, 10 * SECOND_NS, &err) != SY_OK)
		fail_msg("%s: %s", err.where, err.message);
	set(&hold_unmapping, true);
	die(1);
	for (int i = 0; i < 20000 && !is_set(&unmapping); i++)
		usleep(1000);
	assert_true(is_set(&unmapping));
	set(&hold_resolve, true);
	uint64_t start_ns = sy_clock_now_ns(), given_ns = 50 * MS_NS;
	assert_int_equal(get_living(client, given_ns, &result, &err), SY_E_TIMEOUT);
	back(&watch, start_ns, given_ns);
	assert_true(is_set(&unmapping)); /* did not wait for it */
	set(&hold_resolve, false);
	set(&hold_unmapping, false);
	live_again(client, 1);
	sy_client_close(client);
	expect_punctual(&watch);
}

static void *hold_store(void *store_lock)
{
	pthread_mutex_lock(store_lock);
	set(&store_held, true);
	/* Longer than the keeper goes without a look at what the store holds, or than the call. */
	for (int i = 0; i < 6000 && is_set(&store_held); i++)
		usleep(1000);
	set(&store_held, false);
	pthread_mutex_unlock(store_lock);
	return NULL;
}

/* Another thread looks through what the store holds, which takes its time if that is much. */
static void test_a_store_at_work_holds_up_nobody(void **state)
{
	sy_store_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 20 * SECOND_NS};
	struct watch watch = {.what = "beside a store at work"};
	sy_key key = {LIVING, "x", 1};
	sy_unit_keys keys = {LIVING, &key, 1};
	sy_resolved_keys *resolved = NULL;
	uint64_t given_ns = 3 * SECOND_NS / 2;
	pthread_t holder;
	sy_store *store;

	(void)state;
	assert_int_equal(sy_store_open(&options, &store, NULL), SY_OK);
	set(&hold_resolve, true);
	assert_int_equal(pthread_create(&holder, NULL, hold_store, &store->lock), 0);
	for (int i = 0; i < 20000 && !is_set(&store_held); i++)
		usleep(1000);
	uint64_t start_ns = sy_clock_now_ns();
	assert_int_equal(sy_store_resolve_keys(store, &keys, 1, sy_deadline_after(given_ns), &resolved,
	                                       NULL), SY_E_TIMEOUT);
	back(&watch, start_ns, given_ns);
	assert_true(is_set(&store_held)); /* did not wait for it */
	set(&store_held, false);
	pthread_join(holder, NULL);
	set(&hold_resolve, false);
	sy_store_close(store);
	expect_punctual(&watch);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		PUNCTUAL(test_notices_for_the_dead_hold_up_nobody),
		PUNCTUAL(test_a_put_past_the_dead),
		PUNCTUAL(test_unmapping_holds_up_nobody),
		PUNCTUAL(test_a_store_at_work_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
