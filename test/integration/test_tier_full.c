/* A disk tier that says it has more room than its filesystem: one of 64 MiB, mounted by the test
 * in a mount namespace of its own. */
#include <errno.h>

#include "own_mounts.h"
#include "tier_fixture.h"

enum { SLAB_BYTES = 16 << 20, ROW_BYTES = 256 << 10, ROWS = 1000, TOGETHER = 64, SKIPPED = 77 };

static struct tier tier;

static sy_status put_row(uint64_t row)
{
	sy_error err = {0};
	return tier_put(tier.client, row, 1, ROW_BYTES, 0, &err);
}

/* After a failed write the tier waits a second before it tries again. */
static void put_patiently(uint64_t row)
{
	sy_status status = put_row(row);
	for (int i = 0; i < 500 && status == SY_E_UNIT_FULL; i++) {
		usleep(20000);
		status = put_row(row);
	}
	assert_int_equal(status, SY_OK);
}

static void expect_row(uint64_t row)
{
	assert_int_equal(tier_get(tier.client, row, ROW_BYTES), 1);
}

/* More of them than there is room for at once, for neither slab nor disk has any. */
static void expect_together(uint64_t count)
{
	sy_key keys[TOGETHER] = {0};
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};
	for (uint64_t row = 0; row < count; row++)
		keys[row] = (sy_key){row, tier_fields[0], (uint32_t)strlen(tier_fields[0])};
	if (sy_client_get(tier.client, keys, count, SY_GET_COPY, 0, &result, &err) != SY_OK)
		fail_msg("get of %lu rows: %s", count, err.message);
	for (uint64_t row = 0; row < count; row++) {
		assert_true(sy_result_value(result, row, &value));
		assert_int_equal(tier_version_of(row, tier_fields[0], &value, ROW_BYTES / TIER_FIELDS), 1);
	}
	sy_result_free(result);
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
	assert_true(count * ROW_BYTES > SLAB_BYTES);
	assert_true(count * ROW_BYTES < SLAB_BYTES + (64 << 20));
	assert_true(tier_count(tier.client, "ssd_full") > 0);
	for (uint64_t row = 0; row < count; row++)
		expect_row(row);
	expect_together(TOGETHER);
	assert_int_equal(tier_count(tier.client, "ssd_lost_blobs"), 0);
	for (uint64_t row = 0; row < count; row += 2)
		assert_int_equal(sy_client_clear(tier.client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	for (uint64_t row = 0; row < count; row += 4)
		put_patiently(row);
	for (uint64_t row = 0; row < count; row++) {
		if (row % 2 == 1 || row % 4 == 0)
			expect_row(row);
	}
	print_message("%lu rows of %d KiB, then full\n", count, ROW_BYTES >> 10);
}

static int start(void **state)
{
	(void)state;
	cluster_start(&tier.cluster, 1, SLAB_BYTES, false);
	tier.client = tier_open(&tier, 20);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(tier.client);
	cluster_stop(&tier.cluster);
	return 0;
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_filled)};
	if (!tier_make_dir(&tier, UINT64_C(268435456)))
		return 1;
	if (!enter_mount_namespace() ||
	    mount("none", tier.dir, "tmpfs", 0, "size=64m") != 0) {
		printf("no mount may be made here: %s\n", strerror(errno));
		rmdir(tier.dir);
		return SKIPPED;
	}
	int failed = cmocka_run_group_tests(tests, start, stop);
	(void)umount(tier.dir);
	return tier_remove_dir(&tier) ? failed : 1;
}
