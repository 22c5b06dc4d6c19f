/* A unit is killed at every step of a demotion, a load and a commit that waits for the disk. What
 * was handed out before is lost while nobody stands in its place, stale once somebody does, and
 * never somebody else's bytes; no file of it is left; its successor works as well as it did. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "failpoints.h"
#include "proto.h"
#include "tier_fixture.h"

enum { MIB = 1 << 20, SLAB_BYTES = 16 * MIB, SSD_BYTES = 128 * MIB, ROW_BYTES = 128 << 10,
       ROWS = 4 * SLAB_BYTES / ROW_BYTES, BEFORE = 94, LARGE_BYTES = 5 * MIB / 4, LARGE_ROW = 2000,
       TIMEOUT_S = 30, WAIT_MS = 30000 };

static struct tier tier;
static struct sy_failpoint_control *control;
static char control_path[64];

/* What is done to have the unit come to the point. */
enum phase { DEMOTE, LOAD, COMMIT };
static enum phase phase;

/* What was handed out of row 0 before. */
struct handles {
	sy_store *store;
	sy_resolved_keys *resolved;
	sy_read read;
	sy_result *views[BEFORE + 1];
	uint8_t bytes[ROW_BYTES / TIER_FIELDS];
};
static struct handles handles;

/* Of all its fields: as much of the slab is held when it comes back from the disk for it. */
static sy_result *view_row(uint64_t row)
{
	sy_key keys[TIER_FIELDS];
	sy_result *result = NULL;
	sy_error err = {0};
	for (int i = 0; i < TIER_FIELDS; i++)
		keys[i] = (sy_key){row, tier_fields[i], strlen(tier_fields[i])};
	if (sy_client_get(tier.client, keys, TIER_FIELDS, SY_GET_VIEW, 0, &result, &err) != SY_OK)
		fail_msg("view of row %lu: %s", row, err.message);
	return result;
}

static void put_rows(uint64_t first, uint64_t last, uint64_t version)
{
	sy_error err = {0};
	for (uint64_t row = first; row < last; row++) {
		if (tier_put(tier.client, row, version, ROW_BYTES, 0, &err) != SY_OK)
			fail_msg("put of row %lu: %s", row, err.message);
	}
}

/* To where the next thing to do is the phase's own. */
static void prepare(void)
{
	sy_error err = {0};
	put_rows(0, BEFORE, 1);
	if (phase == LOAD)
		put_rows(BEFORE, 2 * BEFORE, 1);
	for (uint64_t row = 0; phase == COMMIT && row < BEFORE; row++)
		handles.views[row + 1] = view_row(row);
	/* All that is in the slab is held, and what is left is less than such a row takes. */
	if (phase == COMMIT) {
		assert_int_equal(tier_put(tier.client, LARGE_ROW, 1, LARGE_BYTES, 0, &err), SY_OK);
		tier_wait_idle(tier.client); /* it has gone to the disk, for nobody held it */
		handles.views[0] = view_row(LARGE_ROW);
	}
	tier_wait_idle(tier.client);
	if (phase == COMMIT) {
		assert_int_equal(tier_put(tier.client, LARGE_ROW - 1, 1, LARGE_BYTES, 0, &err), SY_OK);
		assert_int_equal(tier_count(tier.client, "ssd_spills"), 1);
	}
}

static sy_status resolve_row(sy_resolved_keys **ret_resolved)
{
	sy_key key = {0, tier_fields[0], strlen(tier_fields[0])};
	sy_unit_keys keys = {.keys = &key, .key_count = 1};
	sy_error err = {0};
	return sy_store_resolve_keys(handles.store, &keys, 1, 0, ret_resolved, &err);
}

static bool is_first_version(const void *bytes)
{
	sy_value value = {.data = bytes, .nbytes = sizeof handles.bytes};
	return tier_version_of(0, tier_fields[0], &value, sizeof handles.bytes) == 1;
}

static void take_handles(void)
{
	sy_store_options options = {.run_dir = tier.cluster.run_dir,
	                            .timeout_ns = TIMEOUT_S * UINT64_C(1000000000)};
	sy_located located;
	sy_error err = {0};
	if (sy_store_open(&options, &handles.store, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(resolve_row(&handles.resolved), SY_OK);
	assert_true(sy_resolved_at(handles.resolved, 0, 0, &located));
	assert_true(located.found && located.nbytes == sizeof handles.bytes);
	handles.read = (sy_read){0, located.slab_offset, located.nbytes, handles.bytes};
	if (handles.views[1] == NULL)
		handles.views[1] = view_row(0);
}

/* Reading by what was handed out. What comes of it are the bytes of then, and views keep theirs,
 * whoever has the unit's place. */
static void expect_read(sy_status status)
{
	sy_error err = {0};
	sy_value value;
	memset(handles.bytes, 0, sizeof handles.bytes);
	assert_int_equal(sy_store_read_entries(handles.store, &handles.read, 1, 0, &err), status);
	assert_int_equal(is_first_version(handles.bytes), status == SY_OK);
	assert_true(sy_result_value(handles.views[1], 0, &value));
	assert_true(value.nbytes == sizeof handles.bytes && is_first_version(value.data));
}

/* Nobody has its place: once the directory has said so, all of it is lost. */
static void expect_lost(void)
{
	sy_resolved_keys *resolved = NULL;
	assert_int_equal(resolve_row(&resolved), SY_E_LOST);
	assert_int_equal(tier_get(tier.client, 0, ROW_BYTES), tier_lost);
	expect_read(SY_E_LOST);
}

/* Somebody has: as soon as the store has heard of it, what the former one handed out is stale. */
static void expect_stale(bool found)
{
	sy_resolved_keys *resolved = NULL;
	sy_located located;
	assert_int_equal(resolve_row(&resolved), SY_OK);
	assert_int_equal(sy_resolved_at(resolved, 0, 0, &located), found);
	/* The new one covers what it covers; the old one does so no more. */
	sy_resolved_keys_free(resolved);
	expect_read(SY_E_STALE_READ);
	assert_int_equal(tier_get(tier.client, 0, ROW_BYTES), found ? 2 : tier_absent);
}

static void drop_handles(void)
{
	for (int i = 0; i <= BEFORE; i++)
		sy_result_free(handles.views[i]);
	sy_resolved_keys_free(handles.resolved);
	sy_store_close(handles.store);
	memset(&handles, 0, sizeof handles);
}

/* Until the unit is killed under it; how its calls end then is of no account. */
static void *act(void *argument)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	sy_error err = {0};
	sy_status status = SY_OK;
	(void)argument;
	for (uint64_t i = 0; i < ROWS && status == SY_OK; i++) {
		if (phase == DEMOTE)
			status = tier_put(client, BEFORE + i, 1, ROW_BYTES, 5, &err);
		else if (phase == COMMIT)
			status = tier_put(client, LARGE_ROW + 1 + i, 1, LARGE_BYTES, 5, &err);
		else
			status = tier_get(client, i, ROW_BYTES) == 1 ? SY_OK : SY_E_LOST;
	}
	sy_client_close(client);
	return NULL;
}

static void arm(uint32_t point)
{
	control->point = point;
	control->nth = 1;
	control->action = SY_FAILPOINT_KILL;
	__atomic_store_n(&control->hits, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->pid, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->armed, 1, __ATOMIC_RELEASE);
}

static void expect_hit(uint32_t point)
{
	for (int i = 0; i < WAIT_MS && __atomic_load_n(&control->pid, __ATOMIC_ACQUIRE) == 0; i++)
		usleep(1000);
	if (control->pid != (uint32_t)tier.cluster.units[0])
		fail_msg("the unit did not come to %s", sy_failpoint_name(point));
}

/* Four times the slab through the successor. */
static void expect_works(void)
{
	put_rows(0, ROWS, 3);
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(tier_get(tier.client, row, ROW_BYTES), 3);
	assert_int_equal(tier_count(tier.client, "ssd_lost_blobs"), 0);
	tier_clear(tier.client, ROWS);
}

static void kill_at(uint32_t point)
{
	pthread_t thread;
	print_message("killed at %s\n", sy_failpoint_name(point));
	tier.client = tier_open(&tier, TIMEOUT_S);
	prepare();
	take_handles();
	arm(point);
	assert_int_equal(pthread_create(&thread, NULL, act, NULL), 0);
	expect_hit(point);
	cluster_kill(&tier.cluster, 0, SIGKILL);
	assert_int_equal(pthread_join(thread, NULL), 0);
	expect_lost();
	cluster_restart(&tier.cluster, 0);
	assert_int_equal(tier_segment_count(&tier), 0);
	expect_stale(false);
	put_rows(0, 1, 2);
	expect_stale(true);
	drop_handles();
	expect_works();
	sy_client_close(tier.client);
}

static void test_demote(void **state)
{
	(void)state;
	phase = DEMOTE;
	kill_at(SY_FAILPOINT_UNIT_EFFECT_DISK_WRITE);
	kill_at(SY_FAILPOINT_UNIT_DISK_ASKED);
	kill_at(SY_FAILPOINT_UNIT_DISK_ANSWERED);
	kill_at(SY_FAILPOINT_UNIT_DISK_DONE);
}

static void test_load(void **state)
{
	(void)state;
	phase = LOAD;
	kill_at(SY_FAILPOINT_UNIT_EFFECT_DISK_READ);
	kill_at(SY_FAILPOINT_UNIT_DISK_ASKED);
	kill_at(SY_FAILPOINT_UNIT_DISK_ANSWERED);
	kill_at(SY_FAILPOINT_UNIT_DISK_DONE);
	kill_at(SY_FAILPOINT_UNIT_EFFECT_REDO);
}

static void test_commit(void **state)
{
	(void)state;
	phase = COMMIT;
	kill_at(SY_FAILPOINT_UNIT_EFFECT_DISK_WRITE);
	kill_at(SY_FAILPOINT_UNIT_EFFECT_REPLY + SY_OP_COMMIT);
	kill_at(SY_FAILPOINT_UNIT_REPLIED + SY_OP_COMMIT);
	kill_at(SY_FAILPOINT_UNIT_DISK_ASKED);
	kill_at(SY_FAILPOINT_UNIT_DISK_ANSWERED);
	kill_at(SY_FAILPOINT_UNIT_DISK_DONE);
}

static int start(void **state)
{
	(void)state;
	cluster_start(&tier.cluster, 1, SLAB_BYTES, false);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&tier.cluster);
	return 0;
}

static bool make_control(void)
{
	snprintf(control_path, sizeof control_path, "/tmp/slabyard-test-kill-%d", (int)getpid());
	int fd = open(control_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *control) != 0)
		return false;
	void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return false;
	control = memory;
	return setenv("SLABYARD_FAILPOINTS", control_path, 1) == 0;
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_demote),
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_commit),
	};
	if (!make_control() || !tier_make_dir(&tier, SSD_BYTES))
		return 1;
	int failed = cmocka_run_group_tests(tests, start, stop);
	(void)unlink(control_path);
	return tier_remove_dir(&tier) ? failed : 1;
}
