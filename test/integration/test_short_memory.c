/* Memory, descriptors or threads are short at every single place of every call in turn: the call
 * ends with a typed error or does its work all the same, and the next one finds all in order. */
#include "harness.h"

#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>

#include "clock.h"
#include "cluster.h"
#include "shortage.h"
#include "store_blob.h"

enum { UNITS = 2, SLAB_BYTES = 8 << 20, BIG = 20000, ROWS = 300, PLACES_MAX = 4000 };

/* Of all threads of this process, which is a client alone while it is armed. Atomic. */
static bool armed, for_good, has_failed; /* for_good: all after the first fail, not one */
static int only_error; /* 0, or what fails alone */
static uint32_t passes; /* so many go through first */

bool runs_short(int error)
{
	if (!__atomic_load_n(&armed, __ATOMIC_ACQUIRE) || (only_error != 0 && error != only_error))
		return false;
	uint32_t left = __atomic_load_n(&passes, __ATOMIC_RELAXED);
	while (left > 0 && !__atomic_compare_exchange_n(&passes, &left, left - 1, false,
	                                                __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (left > 0 ||
	    (__atomic_exchange_n(&has_failed, true, __ATOMIC_ACQ_REL) && !for_good))
		return false;
	errno = error;
	return true;
}

static void arm(bool on)
{
	__atomic_store_n(&armed, on, __ATOMIC_RELEASE);
}

static struct cluster cluster;
static sy_client *client;
static sy_store *store;
static uint8_t data[BIG];
static uint64_t rows[ROWS];
static uint64_t numbers[ROWS];

static int start(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u,
	                             .control_timeout_ns = 50000000u};
	sy_store_options store_options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u,
	                                  .control_timeout_ns = 50000000u};

	(void)state;
	for (uint64_t i = 0; i < ROWS; i++) {
		rows[i] = (i * 7 + 3) % 1000;
		numbers[i] = i * i;
	}
	memset(data, 0x5c, sizeof data);
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	return sy_client_open(&options, &client, NULL) == SY_OK &&
	               sy_store_open(&store_options, &store, NULL) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	sy_store_close(store);
	cluster_stop(&cluster);
	return 0;
}

/* Where memory is short it may be for good; afterwards a busy machine has its time. */
static uint64_t patience_ns(void)
{
	return __atomic_load_n(&armed, __ATOMIC_ACQUIRE) ? 300000000u : 20000000000u;
}

static uint64_t until_ns(void)
{
	return sy_clock_now_ns() + patience_ns();
}

static sy_status open_and_close(sy_error *err)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = patience_ns()};
	sy_client *mine;
	sy_status status = sy_client_open(&options, &mine, err);

	if (status == SY_OK)
		sy_client_close(mine);
	return status;
}

static sy_status first_use(sy_error *err)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = patience_ns(),
	                             .control_timeout_ns = 50000000u};
	uint64_t row = 1;
	sy_client *mine;
	bool was_armed = __atomic_load_n(&armed, __ATOMIC_ACQUIRE);

	arm(false);
	assert_int_equal(sy_client_open(&options, &mine, NULL), SY_OK);
	arm(was_armed);
	sy_status status = sy_client_clear(mine, &row, 1, NULL, 0, 0, NULL, err);
	arm(false);
	sy_client_close(mine);
	return status;
}

static sy_status put_keys(sy_error *err)
{
	sy_key keys[] = {{4, "small", 5}, {5, "large", 5}, {4, "large", 5}};
	sy_value values[] = {{.data = data, .nbytes = 10, .kind = SY_KIND_BYTES},
	                     {.data = data, .nbytes = BIG, .kind = SY_KIND_BYTES},
	                     {.data = data, .nbytes = BIG, .kind = SY_KIND_UTF8}};
	sy_status status = sy_client_put(client, keys, values, 1, until_ns(), err);

	return status != SY_OK ? status : sy_client_put(client, keys, values, 3, until_ns(), err);
}

static sy_status put_columns(sy_error *err)
{
	sy_put_column columns[] = {
		{.field = "n", .field_bytes = 1, .dtype = SY_DTYPE_U64, .kind = SY_KIND_TENSOR,
		 .data = numbers, .row_bytes = 8, .stride_bytes = 8},
		{.field = "b", .field_bytes = 1, .kind = SY_KIND_BYTES, .data = data, .row_bytes = 100},
	};

	return sy_client_put_columns(client, rows, ROWS, columns, 2, until_ns(), err);
}

static sy_status get_keys(sy_error *err)
{
	sy_key keys[] = {{4, "small", 5}, {5, "large", 5}, {4, "none", 4}, {5, "large", 5}};
	sy_status status = SY_OK;

	for (int flags = SY_GET_COPY; status == SY_OK && flags <= SY_GET_VIEW; flags++) {
		sy_result *result = NULL;
		sy_value value;

		status = sy_client_get(client, keys, 4, flags, until_ns(), &result, err);
		assert_int_equal(status == SY_OK, result != NULL);
		if (status != SY_OK)
			break;
		assert_true(sy_result_value(result, 3, &value));
		assert_int_equal(value.nbytes, BIG);
		assert_memory_equal(value.data, data, BIG);
		sy_result_free(result);
	}
	return status;
}

static sy_status get_columns(sy_error *err)
{
	const char *fields[] = {"n", "b"};
	sy_result *result = NULL;
	sy_got_column column;
	sy_status status =
		sy_client_get_columns(client, rows, ROWS, fields, 2, 0, until_ns(), &result, err);

	assert_int_equal(status == SY_OK, result != NULL);
	if (status == SY_OK) {
		assert_true(sy_result_column(result, 0, &column));
		assert_true(column.dense);
		assert_memory_equal(column.data, numbers, sizeof numbers);
	}
	sy_result_free(result);
	return status;
}

static bool visit(void *context, const sy_scan_info *info)
{
	(void)info;
	(*(uint64_t *)context)++;
	return true;
}

static sy_status walk(sy_error *err)
{
	uint64_t visits = 0;
	sy_unit_report reports[UNITS];
	sy_status status = sy_client_scan(client, 0, UINT64_MAX, visit, &visits, until_ns(), err);

	if (status == SY_OK)
		assert_int_equal(visits, 2 * ROWS + 3);
	return status != SY_OK ? status : sy_client_reports(client, until_ns(), reports, err);
}

static sy_status use_store(sy_error *err)
{
	sy_key keys[] = {{9, "x", 1}, {10, "x", 1}};
	sy_unit_keys units[] = {{0, keys, 2}, {1, keys, 2}};
	uint64_t nine = 9;
	sy_unit_rows both[] = {{0, &nine, 1}, {1, &nine, 1}};
	struct store_blob made[UNITS];
	sy_store_blob blobs[UNITS];
	sy_resolved_keys *resolved = NULL;
	static uint8_t got[BIG];
	sy_located at;

	for (uint32_t u = 0; u < UNITS; u++) {
		store_blob_make(&made[u], u, 9, "x", data, BIG);
		blobs[u] = made[u].blob;
	}
	sy_status status = sy_store_put_many(store, blobs, UNITS, until_ns(), err);
	if (status == SY_OK)
		status = sy_store_resolve_keys(store, units, UNITS, until_ns(), &resolved, err);
	if (status == SY_OK) {
		assert_true(sy_resolved_at(resolved, 1, 0, &at));
		sy_read read = {1, at.slab_offset, at.nbytes, got};

		status = sy_store_read_entries(store, &read, 1, until_ns(), err);
	}
	sy_resolved_keys_free(resolved);
	return status != SY_OK ? status : sy_store_release_rows(store, both, UNITS, until_ns(), err);
}

static sy_status clear_rows(sy_error *err)
{
	const char *fields[] = {"n"};
	sy_status status = sy_client_clear(client, rows, ROWS, fields, 1, until_ns(), NULL, err);

	return status != SY_OK
		? status : sy_client_clear(client, rows, ROWS, NULL, 0, until_ns(), NULL, err);
}

static bool is_typed(sy_status status)
{
	return status == SY_E_SYS || status == SY_E_TIMEOUT || status == SY_E_TRANSFER_FAILED;
}

static void everywhere(const char *what, sy_status (*call)(sy_error *err))
{
	uint32_t failures = 0, places = 0;

	for (int round = 0; round < 2; round++) {
		for (uint32_t n = 0;; n++) {
			sy_error err = {0};

			assert_true(n < PLACES_MAX);
			__atomic_store_n(&has_failed, false, __ATOMIC_RELAXED);
			__atomic_store_n(&passes, n, __ATOMIC_RELAXED);
			for_good = round != 0;
			arm(true);
			sy_status status = call(&err);
			arm(false);
			if (!__atomic_load_n(&has_failed, __ATOMIC_ACQUIRE))
				break; /* it has no more places */
			places++;
			failures += status != SY_OK;
			if (status != SY_OK && (!is_typed(status) || err.status != status))
				fail_msg("%s, place %u: %s: %s", what, n, sy_status_name(status), err.message);
			memset(&err, 0, sizeof err);
			if (call(&err) != SY_OK)
				fail_msg("%s after place %u: %s", what, n, err.message);
		}
	}
	print_message("%s: memory short at %u places, %u typed errors\n", what, places, failures);
	assert_true(failures > 0);
}

static void test_short_memory(void **state)
{
	(void)state;
	everywhere("open", open_and_close);
	everywhere("first use", first_use);
	everywhere("put keys", put_keys);
	everywhere("put columns", put_columns);
	everywhere("get keys", get_keys);
	everywhere("get columns", get_columns);
	everywhere("walk", walk);
	everywhere("store", use_store);
	everywhere("clear", clear_rows);
}

/* A connection whose end nobody would see is none: after each watch that was refused a unit is
 * replaced, and the client finds the new one. */
static void test_refused_watches(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u};
	uint32_t places = 0;

	(void)state;
	only_error = ENOSPC;
	for_good = false;
	for (uint32_t n = 0;; n++, places++) {
		sy_client *mine;
		sy_error err = {0};

		assert_true(n < PLACES_MAX);
		__atomic_store_n(&has_failed, false, __ATOMIC_RELAXED);
		__atomic_store_n(&passes, n, __ATOMIC_RELAXED);
		arm(true);
		sy_status opened = sy_client_open(&options, &mine, &err), status = opened;
		if (opened == SY_OK)
			status = sy_client_clear(mine, rows, ROWS, NULL, 0, 0, NULL, &err);
		arm(false);
		bool was_refused = __atomic_load_n(&has_failed, __ATOMIC_ACQUIRE);
		if (status != SY_OK && !is_typed(status))
			fail_msg("watch %u: %s: %s", n, sy_status_name(status), err.message);
		if (status == SY_OK) {
			cluster_kill(&cluster, 1, SIGKILL);
			cluster_restart(&cluster, 1);
			if (sy_client_clear(mine, rows, ROWS, NULL, 0, 0, NULL, &err) != SY_OK)
				fail_msg("after watch %u: %s", n, err.message);
		}
		if (opened == SY_OK)
			sy_client_close(mine);
		if (!was_refused)
			break;
	}
	only_error = 0;
	print_message("%u watches refused in turn\n", places);
	assert_true(places > 1);
}

static void test_nothing_is_left(void **state)
{
	uint64_t all[2048];
	sy_unit_report reports[UNITS];
	bool clean = false;

	(void)state;
	for (uint64_t i = 0; i < COUNT_OF(all); i++)
		all[i] = i;
	assert_int_equal(sy_client_clear(client, all, COUNT_OF(all), NULL, 0, 0, NULL, NULL), SY_OK);
	/* What was given back travels in notices. */
	for (int i = 0; i < 5000 && !clean; i++) {
		assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
		clean = reports[0].bytes[0].value == SLAB_BYTES && reports[1].bytes[0].value == SLAB_BYTES;
	}
	assert_true(clean);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_memory),
		cmocka_unit_test(test_refused_watches),
		cmocka_unit_test(test_nothing_is_left),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
