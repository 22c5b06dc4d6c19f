/* The disk tier of a real unit: more than its memory holds, files that are damaged, and a unit
 * that is killed. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "sanitized.h"
#include "tier_fixture.h"

enum { MIB = 1 << 20, SLAB_BYTES = 16 * MIB, ROW_BYTES = 64 << 10, ROWS = 1024, WRITERS = 4,
       READERS = 4, VERSIONS = 2, LAST_ROW = 1020, READS_MAX = 1000 * ROWS, TIMEOUT_S = 60,
       RESIDENT_OVER = 64 * MIB };
#define SSD_BYTES UINT64_C(268435456)

static struct tier tier;
static uint64_t seed;

static bool put_row(sy_client *client, uint64_t row, uint64_t version)
{
	sy_error err = {0};
	if (tier_put(client, row, version, ROW_BYTES, 0, &err) == SY_OK)
		return true;
	print_error("put of row %lu: %s\n", row, err.message);
	return false;
}

static bool is_cleared(uint64_t row)
{
	return row % 10 == 3;
}

static uint64_t last_version(uint64_t row)
{
	return is_cleared(row) ? 0 : row % 3 == 0 ? VERSIONS : 1;
}

/* Each writer has every fourth row: puts it, puts some anew, clears some. */
static int run_writer(uint64_t first)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	bool right = true;
	for (uint64_t row = first; row < ROWS && right; row += WRITERS)
		right = put_row(client, row, 1);
	for (uint64_t row = first; row < ROWS && right; row += WRITERS) {
		if (row % 3 == 0)
			right = put_row(client, row, VERSIONS);
		if (is_cleared(row) && right)
			right = sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL) == SY_OK;
	}
	sy_client_close(client);
	return right ? 0 : 1;
}

/* Reads as long as the writers write: LAST_ROW is the last that one of them puts anew. */
static int run_reader(uint64_t number)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	struct sy_prng prng;
	uint64_t seen[ROWS] = {0};
	bool right = true;
	sy_prng_seed(&prng, seed + number);
	for (int i = 0; i < READS_MAX && right && seen[LAST_ROW] != VERSIONS; i++) {
		/* Some again and again. */
		uint64_t row = i % 2 == 0 ? sy_prng_below(&prng, ROWS)
		                          : LAST_ROW - 32 * sy_prng_below(&prng, LAST_ROW / 32);
		uint64_t version = tier_get(client, row, ROW_BYTES);
		/* None is older than what was seen before, and a row that was cleared stays so. */
		bool gone = version == tier_absent && (seen[row] == 0 || is_cleared(row));
		right = gone || (version >= seen[row] && version <= VERSIONS);
		if (!right)
			print_error("row %lu: version %lu after %lu\n", row, version, seen[row]);
		seen[row] = gone && seen[row] > 0 ? tier_wrong : version;
	}
	sy_client_close(client);
	return right && seen[LAST_ROW] == VERSIONS ? 0 : 1;
}

/* The most memory the unit ever had, in bytes. */
static uint64_t peak_bytes(pid_t pid)
{
	char path[64], line[256];
	unsigned long kib = 0;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof line, file) != NULL && sscanf(line, "VmHWM: %lu", &kib) != 1)
		continue;
	fclose(file);
	return kib * 1024;
}

/* Processes of their own, each with a number; all of them must do well. */
static void in_processes(uint64_t count, int (*run)(uint64_t))
{
	pid_t pids[WRITERS + READERS];
	for (uint64_t i = 0; i < count; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(run(i));
	}
	for (uint64_t i = 0; i < count; i++) {
		int status = 0;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static int run_either(uint64_t number)
{
	return number < WRITERS ? run_writer(number) : run_reader(number);
}

/* All rows, in an order of its own. */
static int run_checker(uint64_t number)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	uint64_t rows[ROWS];
	struct sy_prng prng;
	bool right = true;
	sy_prng_seed(&prng, seed + number);
	for (uint64_t i = 0; i < ROWS; i++)
		rows[i] = i;
	for (uint64_t i = ROWS - 1; i > 0; i--) {
		uint64_t other = sy_prng_below(&prng, i + 1), row = rows[i];
		rows[i] = rows[other];
		rows[other] = row;
	}
	for (int i = 0; i < ROWS && right; i++)
		right = tier_get(client, rows[i], ROW_BYTES) == last_version(rows[i]);
	sy_client_close(client);
	return right ? 0 : 1;
}

static void put_and_check_all(void)
{
	in_processes(WRITERS + READERS, run_either);
	in_processes(READERS, run_checker);
}

static void test_four_times_the_slab(void **state)
{
	(void)state;
	put_and_check_all();
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	assert_true(tier_count(client, "ssd_demotions") > 0);
	assert_true(tier_count(client, "ssd_loads") > 0);
	assert_int_equal(tier_count(client, "ssd_lost_blobs"), 0);
	print_message("%lu demotions, %lu promotions, %lu loads, %lu spills\n",
	              tier_count(client, "ssd_demotions"), tier_count(client, "ssd_promotions"),
	              tier_count(client, "ssd_loads"), tier_count(client, "ssd_spills"));
	uint64_t peak = peak_bytes(tier.cluster.units[0]);
	print_message("at most %lu MiB resident\n", peak / MIB);
	assert_true(SANITIZED || peak <= SLAB_BYTES + RESIDENT_OVER);
	tier_clear(client, ROWS);
	sy_client_close(client);
}

/* Rows of one call whose values are more than the slab holds: `rows` of them, and what is got. */
static void expect_all(sy_client *client, const uint64_t *rows)
{
	static sy_key keys[TIER_FIELDS * ROWS];
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};
	for (size_t i = 0; i < TIER_FIELDS * ROWS; i++)
		keys[i] = (sy_key){rows[i / TIER_FIELDS], tier_fields[i % TIER_FIELDS],
		                   (uint32_t)strlen(tier_fields[i % TIER_FIELDS])};
	if (sy_client_get(client, keys, TIER_FIELDS * ROWS, SY_GET_COPY, 0, &result, &err) != SY_OK)
		fail_msg("get by keys: %s", err.message);
	for (size_t i = 0; i < TIER_FIELDS * ROWS; i++) {
		assert_true(sy_result_value(result, i, &value));
		assert_int_equal(tier_version_of(keys[i].row, keys[i].field, &value,
		                                 ROW_BYTES / TIER_FIELDS), 1);
	}
	sy_result_free(result);
	if (sy_client_get_columns(client, rows, ROWS, tier_fields, TIER_FIELDS, SY_GET_COPY, 0,
	                          &result, &err) != SY_OK)
		fail_msg("get by columns: %s", err.message);
	for (size_t i = 0; i < TIER_FIELDS * ROWS; i++) {
		assert_true(sy_result_value(result, i, &value));
		assert_int_equal(tier_version_of(rows[i % ROWS], tier_fields[i / ROWS], &value,
		                                 ROW_BYTES / TIER_FIELDS), 1);
	}
	sy_result_free(result);
}

/* A copy of more than the slab holds is got in parts, a view of it is refused. */
static void test_more_than_the_slab_at_once(void **state)
{
	uint64_t rows[ROWS];
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	sy_result *result = NULL;
	sy_error err = {0};
	(void)state;
	for (uint64_t row = 0; row < ROWS; row++) {
		assert_true(put_row(client, row, 1));
		rows[(row * 7 + 3) % ROWS] = row;
	}
	expect_all(client, rows);
	assert_int_equal(sy_client_get_columns(client, rows, ROWS, tier_fields, TIER_FIELDS,
	                                       SY_GET_VIEW, 0, &result, &err), SY_E_UNIT_FULL);
	tier_clear(client, ROWS);
	sy_client_close(client);
}

/* Small rows, more keys than one request holds, and views of somebody's that leave less room in
 * the slab than all of them take. */
enum { CROWD = 2 * 16384, CHUNK = 1024, SMALL_BYTES = 192, HELD = 11 };
static const char *const small = "small";
static uint64_t crowd[CROWD + HELD];
static sy_result *held[HELD];

static void hold_most_of_the_slab(sy_client *client)
{
	static uint8_t big[MIB - 4096];
	for (size_t k = 0; k < HELD; k++) {
		sy_key key = {crowd[CROWD + k] = CROWD + k, "big", 3};
		sy_value value = {.data = big, .nbytes = sizeof big, .kind = SY_KIND_BYTES};
		assert_int_equal(sy_client_put(client, &key, &value, 1, 0, NULL), SY_OK);
		assert_int_equal(sy_client_get(client, &key, 1, SY_GET_VIEW, 0, &held[k], NULL), SY_OK);
	}
}

static void put_crowd(sy_client *client)
{
	static uint8_t values[CHUNK][SMALL_BYTES];
	sy_error err = {0};
	for (uint64_t first = 0; first < CROWD; first += CHUNK) {
		sy_put_column column = {.field = small, .field_bytes = strlen(small), .data = values,
		                        .row_bytes = SMALL_BYTES, .stride_bytes = SMALL_BYTES,
		                        .kind = SY_KIND_BYTES};
		for (uint64_t k = 0; k < CHUNK; k++) {
			crowd[first + k] = first + k;
			tier_make_value(first + k, small, 1, values[k], SMALL_BYTES);
		}
		if (sy_client_put_columns(client, &crowd[first], CHUNK, &column, 1, 0, &err) != SY_OK)
			fail_msg("put: %s", err.message);
	}
}

static bool get_crowd(sy_client *client, size_t first, size_t count, int flags)
{
	sy_result *result = NULL;
	sy_error err = {0};
	sy_value value;
	bool right = true;
	if (sy_client_get_columns(client, crowd + first, count, &small, 1, flags, 0, &result, &err) !=
	    SY_OK) {
		print_error("get of %zu rows: %s\n", count, err.message);
		return false;
	}
	for (size_t i = 0; i < count && right; i++)
		right = sy_result_value(result, i, &value) &&
		        tier_version_of(first + i, small, &value, SMALL_BYTES) == 1;
	sy_result_free(result);
	return right;
}

static void let_go(void)
{
	for (size_t k = 0; k < HELD; k++)
		sy_result_free(held[k]);
}

/* It must not wait for the room that its own first request takes. */
static void test_a_get_does_not_wait_for_itself(void **state)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	(void)state;
	hold_most_of_the_slab(client);
	put_crowd(client);
	assert_true(get_crowd(client, 0, CROWD, SY_GET_COPY));
	let_go();
	assert_int_equal(sy_client_clear(client, crowd, CROWD + HELD, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_client_close(client);
}

static void *view_crowd(void *client)
{
	return get_crowd(client, 0, CROWD, SY_GET_VIEW) ? client : NULL;
}

/* Views cannot be got in parts; but while they wait they leave the room to others. */
static void test_a_get_of_views_waits_with_nothing_in_its_hands(void **state)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S), *viewer = tier_open(&tier, 3 * TIMEOUT_S);
	pthread_t thread;
	void *right = NULL;
	(void)state;
	hold_most_of_the_slab(client);
	put_crowd(client);
	uint64_t before = tier_count(client, "ssd_loads");
	assert_int_equal(pthread_create(&thread, NULL, view_crowd, viewer), 0);
	for (int i = 0; i < 1000 && tier_count(client, "ssd_loads") == before; i++)
		usleep(10000);
	for (size_t half = 0; half < 2; half++)
		assert_true(get_crowd(client, half * CROWD / 2, CROWD / 2, SY_GET_COPY));
	let_go();
	assert_int_equal(pthread_join(thread, &right), 0);
	assert_ptr_equal(right, viewer);
	assert_int_equal(sy_client_clear(client, crowd, CROWD + HELD, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_client_close(viewer);
	sy_client_close(client);
}

/* A bit of every block is turned: what lies there is lost, the rest is right, the unit lives. */
static void test_bits_flipped(void **state)
{
	char path[512];
	(void)state;
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_true(put_row(client, row, 1));
	/* Beside requests past the cache the system fails an fsync of what went through it. */
	tier_wait_idle(client);
	DIR *dir = opendir(tier.dir);
	assert_non_null(dir);
	for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
		if (strstr(entry->d_name, ".seg") == NULL)
			continue;
		snprintf(path, sizeof path, "%s/%s", tier.dir, entry->d_name);
		int fd = open(path, O_RDWR);
		assert_true(fd >= 0);
		struct stat stat;
		assert_int_equal(fstat(fd, &stat), 0);
		for (off_t at = 100; at < stat.st_size; at += 4096) {
			uint8_t byte = 0;
			assert_int_equal(pread(fd, &byte, 1, at), 1);
			byte ^= 1;
			assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		}
		assert_int_equal(fsync(fd), 0);
		close(fd);
	}
	closedir(dir);
	uint64_t found = 0, lost = 0;
	for (uint64_t row = 0; row < ROWS / 2; row++) {
		uint64_t version = tier_get(client, row, ROW_BYTES);
		found += version == 1;
		lost += version == tier_lost;
	}
	assert_int_equal(found + lost, ROWS / 2);
	assert_true(found > 0 && lost > 0);
	assert_int_equal(tier_count(client, "ssd_lost_blobs"), lost);
	assert_true(tier_count(client, "ssd_read_errors") >= lost);
	assert_true(put_row(client, ROWS, 1));
	assert_int_equal(tier_get(client, ROWS, ROW_BYTES), 1);
	uint64_t last = ROWS;
	assert_int_equal(sy_client_clear(client, &last, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	tier_clear(client, ROWS);
	sy_client_close(client);
}

/* Killed while it writes: nothing of its files is left for the next one, which works as well. */
static void test_killed(void **state)
{
	char stranger[512];
	(void)state;
	snprintf(stranger, sizeof stranger, "%s/slabyard-0-notes.seg", tier.dir);
	int fd = open(stranger, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_true(put_row(client, row, 1));
	sy_client_close(client);
	assert_true(tier_segment_count(&tier) > 1);
	cluster_kill(&tier.cluster, 0, SIGKILL);
	cluster_restart(&tier.cluster, 0);
	assert_int_equal(tier_segment_count(&tier), 1); /* only the one that is not ours */
	client = tier_open(&tier, TIMEOUT_S);
	assert_int_equal(tier_get(client, 1, ROW_BYTES), tier_absent);
	sy_client_close(client);
	put_and_check_all();
	client = tier_open(&tier, TIMEOUT_S);
	tier_clear(client, ROWS);
	sy_client_close(client);
	assert_int_equal(unlink(stranger), 0);
}

static int start(void **state)
{
	(void)state;
	seed = harness_seed();
	if (!tier_make_dir(&tier, SSD_BYTES))
		return -1;
	cluster_start(&tier.cluster, 1, SLAB_BYTES, false);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&tier.cluster);
	return tier_remove_dir(&tier) ? 0 : -1;
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_four_times_the_slab),
		cmocka_unit_test(test_more_than_the_slab_at_once),
		cmocka_unit_test(test_a_get_does_not_wait_for_itself),
		cmocka_unit_test(test_a_get_of_views_waits_with_nothing_in_its_hands),
		cmocka_unit_test(test_bits_flipped),
		cmocka_unit_test(test_killed),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
