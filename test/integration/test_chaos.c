/* Many threads on shared rows while units are stopped, killed and replaced under them: whatever a
 * get returns is what some put wrote under that key, in one piece; errors are of the kinds that
 * the fault can explain; every call is back; and at the end nothing is left. */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "clock.h"
#include "cluster.h"
#include "prng.h"

enum { UNITS = 3, SLAB_BYTES = 16 << 20, THREADS = 6, ROWS = 40, LONGEST = 60000, VIEWS = 3 };
static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static sy_client *clients[2];

static int start(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20 * SECOND_NS,
	                             .control_timeout_ns = SECOND_NS / 2};

	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	return sy_client_open(&options, &clients[0], NULL) == SY_OK &&
	               sy_client_open(&options, &clients[1], NULL) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(clients[0]);
	sy_client_close(clients[1]);
	cluster_stop(&cluster);
	return 0;
}

/* A value tells whose it is: row and seed, and then bytes that follow from both. */
static void fill(uint8_t *bytes, size_t n, uint64_t row, uint64_t seed)
{
	memcpy(bytes, &row, 8);
	memcpy(bytes + 8, &seed, 8);
	for (size_t i = 16; i < n; i += 8) {
		uint64_t word = sy_mix64(row ^ seed ^ i);

		memcpy(bytes + i, &word, n - i < 8 ? n - i : 8);
	}
}

static bool is_whole(const sy_value *value, uint64_t row)
{
	static _Thread_local uint8_t wanted[LONGEST];
	uint64_t seed;

	if (value->nbytes < 16 || value->nbytes > LONGEST)
		return false;
	memcpy(&seed, (const uint8_t *)value->data + 8, 8);
	fill(wanted, value->nbytes, row, seed);
	return memcmp(value->data, wanted, value->nbytes) == 0;
}

struct worker {
	pthread_t thread;
	uint64_t seed;
	uint32_t number;
	bool kills; /* units are killed: something may be lost */
	uint64_t oks, errors;
	char fault[300];
};

static bool stopping; /* atomic */

static void note(struct worker *me, const char *what, const sy_error *err)
{
	if (me->fault[0] == 0)
		snprintf(me->fault, sizeof me->fault, "%s: %s: %s", what, sy_status_name(err->status),
		         err->message);
}

/* Is this what may come of a unit that is stopped or gone? */
static void judge(struct worker *me, const char *what, sy_status status, const sy_error *err)
{
	bool explained = status == SY_OK || status == SY_E_TIMEOUT ||
	                 status == SY_E_TRANSFER_FAILED || (me->kills && status == SY_E_LOST);

	me->oks += status == SY_OK;
	me->errors += status != SY_OK;
	if (!explained || (status != SY_OK && err->status != status))
		note(me, what, err);
}

static void put_some(struct worker *me, struct sy_prng *prng, sy_client *client, uint64_t end)
{
	static _Thread_local uint8_t bytes[2][LONGEST];
	uint64_t row = sy_prng_below(prng, ROWS);
	sy_key keys[] = {{row, "a", 1}, {row, "b", 1}};
	sy_value values[2];
	sy_error err = {0};

	/* Both fields of one put bear one seed. */
	uint64_t seed = sy_prng_next(prng);
	for (int i = 0; i < 2; i++) {
		size_t n = 16 + (size_t)sy_prng_below(prng, i == 0 ? 2000 : LONGEST - 16);

		fill(bytes[i], n, row, seed);
		values[i] = (sy_value){.data = bytes[i], .nbytes = n, .kind = SY_KIND_BYTES};
	}
	judge(me, "put", sy_client_put(client, keys, values, 2, end, &err), &err);
}

/* Several rows at once; the two fields of a row are of one put. */
static void get_some(struct worker *me, struct sy_prng *prng, sy_client *client, uint64_t end,
                     sy_result **views)
{
	sy_key keys[12];
	int flags = sy_prng_below(prng, 2) == 0 ? SY_GET_COPY : SY_GET_VIEW;
	sy_result *result = NULL;
	sy_error err = {0};

	for (size_t i = 0; i < COUNT_OF(keys); i += 2) {
		uint64_t row = sy_prng_below(prng, ROWS);

		keys[i] = (sy_key){row, "a", 1};
		keys[i + 1] = (sy_key){row, "b", 1};
	}
	sy_status status = sy_client_get(client, keys, COUNT_OF(keys), flags, end, &result, &err);
	judge(me, "get", status, &err);
	if (status != SY_OK)
		return;
	for (size_t i = 0; i < COUNT_OF(keys); i += 2) {
		sy_value a, b;
		bool has_a = sy_result_value(result, i, &a), has_b = sy_result_value(result, i + 1, &b);

		if (has_a != has_b ||
		    (has_a && (!is_whole(&a, keys[i].row) || !is_whole(&b, keys[i].row) ||
		               memcmp(a.data, b.data, 16) != 0)))
			note(me, "a row that nobody put so", &(sy_error){.message = ""});
	}
	if (flags == SY_GET_COPY) {
		sy_result_free(result);
		return;
	}
	/* A view is looked at again when others have come and gone; its order is that of the keys. */
	sy_result **place = &views[sy_prng_below(prng, VIEWS)];
	for (size_t i = 0; *place != NULL && i < sy_result_count(*place); i++) {
		sy_value value;
		uint64_t row;

		if (!sy_result_value(*place, i, &value))
			continue;
		memcpy(&row, value.data, 8);
		if (row >= ROWS || !is_whole(&value, row))
			note(me, "a view that changed", &(sy_error){.message = ""});
	}
	sy_result_free(*place);
	*place = result;
}

static void *work(void *argument)
{
	struct worker *me = argument;
	struct sy_prng prng;
	sy_result *views[VIEWS] = {NULL};

	sy_prng_seed(&prng, me->seed + me->number);
	while (!__atomic_load_n(&stopping, __ATOMIC_ACQUIRE) && me->fault[0] == 0) {
		sy_client *client = clients[sy_prng_below(&prng, 2)];
		uint64_t end = sy_deadline_after((1 + sy_prng_below(&prng, 300)) * 1000000);
		uint64_t choice = sy_prng_below(&prng, 10), row = sy_prng_below(&prng, ROWS);
		sy_error err = {0};

		if (choice < 4)
			put_some(me, &prng, client, end);
		else if (choice < 9)
			get_some(me, &prng, client, end, views);
		else
			judge(me, "clear", sy_client_clear(client, &row, 1, NULL, 0, end, NULL, &err), &err);
	}
	for (int i = 0; i < VIEWS; i++)
		sy_result_free(views[i]);
	return NULL;
}

/* Every unit, however lately it was started, takes values and gives them back. */
static void check_that_all_serve(void)
{
	static uint8_t bytes[UNITS][LONGEST];
	sy_key keys[UNITS];
	sy_value values[UNITS];
	sy_result *result;
	sy_error err = {0};

	for (uint64_t row = 0; row < UNITS; row++) {
		fill(bytes[row], LONGEST, row, 1);
		keys[row] = (sy_key){row, "a", 1};
		values[row] = (sy_value){.data = bytes[row], .nbytes = LONGEST, .kind = SY_KIND_BYTES};
	}
	sy_status status = sy_client_put(clients[0], keys, values, UNITS, 0, &err);
	if (status == SY_OK)
		status = sy_client_get(clients[1], keys, UNITS, SY_GET_COPY, 0, &result, &err);
	if (status != SY_OK)
		fail_msg("%s: %s", sy_status_name(status), err.message);
	for (uint64_t row = 0; row < UNITS; row++)
		assert_true(sy_result_value(result, row, &values[row]) && is_whole(&values[row], row));
	sy_result_free(result);
}

static void run_while(void (*disturb)(struct sy_prng *prng), bool kills)
{
	struct worker workers[THREADS];
	uint64_t seed = harness_seed(), rows[ROWS], oks = 0, errors = 0;
	struct sy_prng prng;

	sy_prng_seed(&prng, seed ^ 1);
	__atomic_store_n(&stopping, false, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.seed = seed, .number = i, .kills = kills};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	disturb(&prng);
	__atomic_store_n(&stopping, true, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].fault[0] != 0)
			fail_msg("%s", workers[i].fault);
		oks += workers[i].oks;
		errors += workers[i].errors;
	}
	print_message("%llu calls done, %llu typed errors\n", (unsigned long long)oks,
	              (unsigned long long)errors);
	assert_true(oks > 0);

	/* All goes back: rows by a clear, the rest by notices. */
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	sy_unit_report reports[UNITS];
	bool clean = false;
	for (uint64_t i = 0; i < ROWS; i++)
		rows[i] = i;
	for (int i = 0; i < 3; i++) {
		if (i == 2) /* both know the units that are there now */
			check_that_all_serve();
		assert_int_equal(sy_client_clear(clients[i % 2], rows, ROWS, NULL, 0, 0, NULL, NULL),
		                 SY_OK);
	}
	while (!clean && sy_clock_now_ns() < end_ns) {
		assert_int_equal(sy_client_reports(clients[0], 0, reports, NULL), SY_OK);
		clean = true;
		for (int u = 0; u < UNITS; u++)
			clean = clean && reports[u].answered && reports[u].bytes[0].value == SLAB_BYTES;
	}
	assert_true(clean);
}

static void stop_units(struct sy_prng *prng)
{
	for (int i = 0; i < 12; i++) {
		uint32_t unit = (uint32_t)sy_prng_below(prng, UNITS);

		kill(cluster.units[unit], SIGSTOP);
		usleep((useconds_t)(50000 + sy_prng_below(prng, 300000)));
		kill(cluster.units[unit], SIGCONT);
		usleep((useconds_t)sy_prng_below(prng, 100000));
	}
}

static void kill_units(struct sy_prng *prng)
{
	for (int i = 0; i < 12; i++) {
		uint32_t unit = (uint32_t)sy_prng_below(prng, UNITS);

		usleep((useconds_t)(100000 + sy_prng_below(prng, 100000)));
		cluster_kill(&cluster, unit, sy_prng_below(prng, 3) == 0 ? SIGTERM : SIGKILL);
		usleep((useconds_t)sy_prng_below(prng, 200000));
		cluster_restart(&cluster, unit);
	}
}

/* Nobody dies: nothing is lost, however long units stand still. */
static void test_stopped_units(void **state)
{
	(void)state;
	run_while(stop_units, false);
}

static void test_killed_units(void **state)
{
	(void)state;
	run_while(kill_units, true);
}

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK)
		fail_msg("%s: %s", sy_status_name(status), err->message);
}

static sy_status put_text(sy_client *client, const uint64_t *rows, size_t count, const char *text,
                          sy_error *err)
{
	sy_key keys[UNITS];
	sy_value values[UNITS];

	for (size_t i = 0; i < count; i++) {
		keys[i] = (sy_key){rows[i], "a", 1};
		values[i] = (sy_value){.data = text, .nbytes = strlen(text), .kind = SY_KIND_UTF8};
	}
	return sy_client_put(client, keys, values, count, 0, err);
}

static void expect_text(sy_client *client, uint64_t row, int flags, const char *text)
{
	sy_key key = {row, "a", 1};
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};

	must(sy_client_get(client, &key, 1, flags, 0, &result, &err), &err);
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, strlen(text));
	assert_memory_equal(value.data, text, value.nbytes);
	sy_result_free(result);
}

/* Who has not heard yet that the unit was replaced finds in it what others put there since, and of
 * the rest alone hears that it is lost, which is true then; who has heard finds that it is not
 * there. */
static bool expect_replaced(sy_client *client, uint64_t anew, uint64_t gone)
{
	sy_key keys[] = {{anew, "a", 1}, {gone, "a", 1}};
	uint32_t failed[2];
	sy_error err = {.indexes = failed, .index_capacity = 2};
	sy_result *result = NULL;
	sy_value value;
	sy_status status = sy_client_get(client, keys, 2, SY_GET_COPY, 0, &result, &err);

	if (status == SY_OK) {
		assert_true(sy_result_value(result, 0, &value));
		assert_false(sy_result_value(result, 1, &value));
	} else {
		assert_int_equal(status, SY_E_LOST);
		assert_int_equal(err.index_count, 1);
		assert_int_equal(failed[0], 1);
	}
	sy_result_free(result);
	expect_text(client, anew, SY_GET_COPY, "anew");
	return status == SY_E_LOST;
}

/* Kind: one peer's death aborts the survivors.
 * Whoever works with the units that are left goes on as if nothing had been, with what he had in
 * his hands before; and of a call that concerns all, what concerns those is done, and no more than
 * the rest is named. */
static void test_survivors_go_on(void **state)
{
	const uint64_t rows[UNITS] = {0, 1, 2}, more = UNITS; /* of unit 0 */
	const uint64_t gone = UNITS + 1;                      /* of unit 1 */
	sy_key key = {0, "a", 1};
	sy_result *view = NULL;
	sy_value value;
	uint64_t entries = 0;
	uint32_t failed[UNITS];
	sy_error err = {.indexes = failed, .index_capacity = UNITS};

	(void)state;
	must(put_text(clients[0], rows, UNITS, "stays", &err), &err);
	must(put_text(clients[0], &gone, 1, "gone", &err), &err);
	must(sy_client_get(clients[0], &key, 1, SY_GET_VIEW, 0, &view, &err), &err);
	cluster_kill(&cluster, 1, SIGKILL);
	for (int i = 0; i < 20; i++) {
		sy_client *client = clients[i % 2];

		expect_text(client, 0, SY_GET_COPY, "stays");
		expect_text(client, 2, SY_GET_VIEW, "stays");
		must(put_text(client, &more, 1, "more", &err), &err);
		expect_text(client, more, SY_GET_COPY, "more");
		must(sy_client_clear(client, &more, 1, NULL, 0, 0, &entries, &err), &err);
		assert_int_equal(entries, 1);
	}
	assert_true(sy_result_value(view, 0, &value));
	assert_memory_equal(value.data, "stays", 5);
	sy_result_free(view);
	assert_int_equal(put_text(clients[0], rows, UNITS, "all", &err), SY_E_TRANSFER_FAILED);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(failed[0], 1);
	expect_text(clients[1], 0, SY_GET_COPY, "all");
	expect_text(clients[1], 2, SY_GET_COPY, "all");
	/* A client of the same host hears of it at once; one of another mostly by its next call. */
	bool told = getenv("SLABYARD_TRANSPORT") == NULL;
	for (int i = 0; i < 20 && (i == 0 || !told); i++) {
		if (i > 0)
			cluster_kill(&cluster, 1, SIGKILL);
		cluster_restart(&cluster, 1);
		must(put_text(clients[0], rows, UNITS, "anew", &err), &err);
		told |= expect_replaced(clients[1], 1, gone);
	}
	assert_true(told);
	cluster_kill(&cluster, 1, SIGKILL);
	cluster_restart(&cluster, 1);
	must(put_text(clients[0], &rows[1], 1, "anew", &err), &err);
	must(sy_client_clear(clients[1], &rows[1], 1, NULL, 0, 0, &entries, &err), &err);
	assert_int_equal(entries, 1);
	must(sy_client_clear(clients[0], rows, UNITS, NULL, 0, 0, NULL, &err), &err);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stopped_units),
		cmocka_unit_test(test_killed_units),
		cmocka_unit_test(test_survivors_go_on),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
