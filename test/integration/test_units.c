/* The directory as programs see it, and single units through the store. */
#include "harness.h"

#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>

#include "cluster.h"
#include "store_blob.h"

static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static sy_store *store;
static sy_directory *directory;

static int start(void **state)
{
	sy_store_options options = {.run_dir = cluster.run_dir, .timeout_ns = 10 * SECOND_NS};
	sy_directory_options where = {.run_dir = cluster.run_dir, .timeout_ns = 10 * SECOND_NS};
	sy_error err = {0};

	(void)state;
	cluster_start(&cluster, 2, 8 << 20, false);
	if (sy_store_open(&options, &store, &err) == SY_OK &&
	    sy_directory_open(&where, &directory, &err) == SY_OK)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

static int stop(void **state)
{
	(void)state;
	sy_directory_close(directory);
	sy_store_close(store);
	cluster_stop(&cluster);
	return 0;
}

static void list(sy_unit_entry *units, uint64_t min_epoch, size_t *ret_count, uint64_t *ret_epoch)
{
	uint32_t slot_count = 0;
	sy_error err = {0};

	if (sy_directory_units(directory, min_epoch, 0, units, SY_DIRECTORY_UNITS_MAX, ret_count,
	                       &slot_count, ret_epoch, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(slot_count, 2);
}

static void test_directory(void **state)
{
	sy_unit_entry units[SY_DIRECTORY_UNITS_MAX];
	sy_directory_options both = {.run_dir = cluster.run_dir, .address = "ipc:///x"};
	sy_directory_options nowhere = {.run_dir = "/nonexistent/slabyard"};
	sy_directory *other;
	size_t count = 0;
	uint64_t epoch = 0;
	bool dead = true;

	(void)state;
	list(units, 0, &count, &epoch);
	assert_int_equal(count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(units[i].unit_id, i);
		assert_string_equal(units[i].state, "active");
		assert_int_equal(units[i].pid, cluster.units[i]);
		assert_int_equal(units[i].slab_bytes, 8 << 20);
		assert_true(strncmp(units[i].control_address, "ipc://", 6) == 0);
		assert_int_equal(sy_directory_is_dead(directory, i, units[i].incarnation, 0, &dead, NULL),
		                 SY_OK);
		assert_false(dead);
	}
	list(units, epoch + 1, &count, NULL);
	assert_int_equal(count, 0);
	assert_int_equal(sy_directory_units(directory, 0, 0, units, 1, &count, NULL, NULL, NULL),
	                 SY_E_INVALID);
	assert_int_equal(sy_directory_is_dead(directory, 7, 1, 0, &dead, NULL), SY_E_INVALID);
	assert_int_equal(sy_directory_exited(directory, 7, 1, 0, NULL), SY_E_INVALID);
	assert_int_equal(sy_directory_exited(directory, 0, 0, 0, NULL), SY_E_INVALID);
	assert_int_equal(strncmp(sy_directory_address(directory), "ipc://", 6), 0);
	assert_int_equal(sy_directory_open(&both, &other, NULL), SY_E_INVALID);
	assert_int_equal(sy_directory_open(&nowhere, &other, NULL), SY_E_SYS);
}

static void test_transfer(void **state)
{
	static const char DATA[] = "from memory to memory";
	struct store_blob made;
	char got[sizeof DATA] = {0};
	sy_key key = {1, "t", 1};
	sy_unit_keys keys = {1, &key, 1};
	sy_resolved_keys *resolved;
	sy_located where;
	sy_error err = {0};

	(void)state;
	sy_segment away = {got, UINT64_MAX - 1, 1};
	assert_int_equal(sy_store_transfer(store, 1, false, &away, 1, 0, &err), SY_E_TRANSFER);
	assert_non_null(strstr(err.message, "not connected"));
	assert_int_equal(sy_store_connect(store, 1, 0, NULL), SY_OK);
	assert_int_equal(sy_store_transfer(store, 1, false, &away, 1, 0, &err), SY_E_TRANSFER);
	assert_non_null(strstr(err.message, "outside"));

	store_blob_make(&made, 1, 1, "t", DATA, sizeof DATA);
	assert_int_equal(sy_store_put_segments(store, &made.blob, 0, NULL), SY_OK);
	assert_int_equal(sy_store_resolve_keys(store, &keys, 1, 0, &resolved, NULL), SY_OK);
	assert_true(sy_resolved_at(resolved, 0, 0, &where));
	sy_segment local = {got, where.slab_offset, sizeof got};
	assert_int_equal(sy_store_transfer(store, 1, false, &local, 1, 0, NULL), SY_OK);
	assert_string_equal(got, DATA);
	got[0] = 'F';
	assert_int_equal(sy_store_transfer(store, 1, true, &local, 1, 0, NULL), SY_OK);
	memset(got, 0, sizeof got);
	assert_int_equal(sy_store_transfer(store, 1, false, &local, 1, 0, NULL), SY_OK);
	assert_int_equal(got[0], 'F');
	sy_resolved_keys_free(resolved);
}

/* Last: it ends a unit. */
static void test_dead(void **state)
{
	sy_unit_entry units[SY_DIRECTORY_UNITS_MAX];
	size_t count = 0;
	bool dead = false;

	(void)state;
	list(units, 0, &count, NULL);
	cluster_kill(&cluster, 0, SIGKILL);
	assert_int_equal(sy_directory_is_dead(directory, 0, units[0].incarnation, 0, &dead, NULL),
	                 SY_OK);
	assert_true(dead);
	assert_int_equal(sy_store_connect(store, 0, 0, NULL), SY_E_LOST);
	assert_int_equal(sy_store_connect(store, 9, 0, NULL), SY_E_LOST);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_transfer),
		cmocka_unit_test(test_dead),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
