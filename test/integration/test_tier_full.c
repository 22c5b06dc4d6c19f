/* A disk tier that says it has more room than its filesystem: one of 64 MiB, mounted by the test
 * in a mount namespace of its own. */
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "bytes.h"
#include "cluster.h"

enum { SLAB_BYTES = 16 << 20, VALUE_BYTES = 256 << 10, ROWS = 1000, SKIPPED = 77 };

static struct cluster cluster;
static char ssd_dir[] = "/tmp/slabyard-test-full-XXXXXX";
static sy_client *client;
static uint8_t bytes[VALUE_BYTES];

static void make_value(uint64_t row)
{
	for (size_t i = 0; i < VALUE_BYTES; i += 8)
		sy_store_u64(bytes + i, sy_mix64(row * VALUE_BYTES + i));
}

static sy_status put_row(uint64_t row)
{
	sy_key key = {row, "response", 8};
	sy_value value = {.data = bytes, .nbytes = VALUE_BYTES, .kind = SY_KIND_BYTES};
	sy_error err = {0};
	make_value(row);
	return sy_client_put(client, &key, &value, 1, 0, &err);
}

static void expect_row(uint64_t row)
{
	sy_key key = {row, "response", 8};
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};
	if (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err) != SY_OK)
		fail_msg("get of row %lu: %s", row, err.message);
	make_value(row);
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, VALUE_BYTES);
	assert_memory_equal(value.data, bytes, VALUE_BYTES);
	sy_result_free(result);
}

static uint64_t count_of(const char *name)
{
	sy_unit_report report;
	sy_error err = {0};
	if (sy_client_reports(client, 0, &report, &err) != SY_OK)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < report.count_count; i++) {
		if (strcmp(report.counts[i].name, name) == 0)
			return report.counts[i].value;
	}
	fail_msg("no count %s", name);
	return 0;
}

/* Puts rows until the unit says it is full; all that it took stays, and room that comes back is
 * used again. */
static void test_filled(void **state)
{
	uint64_t count = 0;
	sy_status status = SY_OK;
	(void)state;
	while (count < ROWS && (status = put_row(count)) == SY_OK)
		count++;
	assert_int_equal(status, SY_E_UNIT_FULL);
	/* More than the slab holds, less than slab and filesystem together. */
	assert_true(count * VALUE_BYTES > SLAB_BYTES);
	assert_true(count * VALUE_BYTES < SLAB_BYTES + (64 << 20));
	assert_true(count_of("ssd_full") > 0);
	for (uint64_t row = 0; row < count; row++)
		expect_row(row);
	assert_int_equal(count_of("ssd_lost_blobs"), 0);
	for (uint64_t row = 0; row < count; row += 2)
		assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	for (uint64_t row = 0; row < count; row += 4)
		assert_int_equal(put_row(row), SY_OK);
	for (uint64_t row = 0; row < count; row++) {
		if (row % 2 == 1 || row % 4 == 0)
			expect_row(row);
	}
	print_message("%lu rows of %d KiB, then full\n", count, VALUE_BYTES >> 10);
}

static int start(void **state)
{
	sy_error err = {0};
	(void)state;
	cluster_start(&cluster, 1, SLAB_BYTES, false);
	sy_client_options options = {.run_dir = cluster.run_dir, .ssd = true,
	                             .timeout_ns = 20000000000u};
	return sy_client_open(&options, &client, &err) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

/* Only this process and those it makes see it; it goes with them. */
static bool mount_small(void)
{
	bool mine = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
	return mine && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", ssd_dir, "tmpfs", 0, "size=64m") == 0;
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_filled)};
	if (mkdtemp(ssd_dir) == NULL || setenv("TEST_SSD_DIR", ssd_dir, 1) != 0 ||
	    setenv("TEST_SSD_BYTES", "268435456", 1) != 0)
		return 1;
	if (!mount_small()) {
		printf("cannot mount a filesystem here: %s\n", strerror(errno));
		rmdir(ssd_dir);
		return SKIPPED;
	}
	int failed = cmocka_run_group_tests(tests, start, stop);
	(void)umount(ssd_dir);
	(void)rmdir(ssd_dir);
	return failed;
}
