/* The disk tier of a real unit: more than its memory holds, files that are damaged, and a unit
 * that is killed. */
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bytes.h"
#include "cluster.h"
#include "crc32c.h"
#include "prng.h"
#include "sanitized.h"

enum { MIB = 1 << 20, SLAB_BYTES = 16 * MIB, VALUE_BYTES = 64 << 10, ROWS = 1024,
       WRITERS = 4, READERS = 4, VERSIONS = 2, HEAD = 24, RESIDENT_OVER = 64 * MIB };
#define SSD_BYTES UINT64_C(268435456)

static struct cluster cluster;
static char ssd_dir[] = "/tmp/slabyard-test-tier-XXXXXX";

static sy_client *open_client(void)
{
	sy_error err = {0};
	sy_client *client = NULL;
	sy_client_options options = {.run_dir = cluster.run_dir, .ssd = true,
	                             .timeout_ns = 60000000000u};
	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

/* row u64, version u64, checksum of the rest u64, and a run of numbers of both. */
static void make_value(uint64_t row, uint64_t version, uint8_t *value)
{
	struct sy_prng prng;
	sy_prng_seed(&prng, row * 1000 + version);
	for (size_t i = HEAD; i < VALUE_BYTES; i += 8)
		sy_store_u64(value + i, sy_prng_next(&prng));
	sy_store_u64(value, row);
	sy_store_u64(value + 8, version);
	sy_store_u64(value + 16, sy_crc32c(0, value + HEAD, VALUE_BYTES - HEAD));
}

static bool put_row(sy_client *client, uint64_t row, uint64_t version)
{
	static uint8_t bytes[VALUE_BYTES];
	sy_key key = {row, "response", 8};
	sy_value value = {.data = bytes, .nbytes = VALUE_BYTES, .kind = SY_KIND_BYTES};
	sy_error err = {0};
	make_value(row, version, bytes);
	if (sy_client_put(client, &key, &value, 1, 0, &err) == SY_OK)
		return true;
	print_error("put of row %lu: %s\n", row, err.message);
	return false;
}

/* The version found, or 0: absent. UINT64_MAX: something is wrong with it. */
static uint64_t get_row(sy_client *client, uint64_t row)
{
	sy_key key = {row, "response", 8};
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};
	uint64_t version = 0;
	if (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err) != SY_OK) {
		print_error("get of row %lu: %s\n", row, err.message);
		return UINT64_MAX;
	}
	if (sy_result_value(result, 0, &value)) {
		const uint8_t *bytes = value.data;
		bool right = value.nbytes == VALUE_BYTES && sy_load_u64(bytes) == row &&
		             sy_load_u64(bytes + 16) ==
		                     sy_crc32c(0, bytes + HEAD, VALUE_BYTES - HEAD);
		version = right ? sy_load_u64(bytes + 8) : UINT64_MAX;
	}
	sy_result_free(result);
	return version;
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
	sy_client *client = open_client();
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

static int run_reader(uint64_t seed)
{
	sy_client *client = open_client();
	struct sy_prng prng;
	bool right = true;
	sy_prng_seed(&prng, seed);
	for (int i = 0; i < ROWS && right; i++)
		right = get_row(client, sy_prng_below(&prng, ROWS)) <= VERSIONS;
	sy_client_close(client);
	return right ? 0 : 1;
}

static uint64_t count_of(const sy_unit_report *report, const char *name)
{
	for (size_t i = 0; i < report->count_count; i++) {
		if (strcmp(report->counts[i].name, name) == 0)
			return report->counts[i].value;
	}
	fail_msg("no count %s", name);
	return 0;
}

static void ask(sy_client *client, sy_unit_report *ret_report)
{
	sy_error err = {0};
	if (sy_client_reports(client, 0, ret_report, &err) != SY_OK)
		fail_msg("%s", err.message);
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

static int segment_count(void)
{
	DIR *dir = opendir(ssd_dir);
	int count = 0;
	assert_non_null(dir);
	for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
		count += strstr(entry->d_name, ".seg") != NULL;
	closedir(dir);
	return count;
}

static void work_on_it(void)
{
	pid_t pids[WRITERS + READERS];
	for (uint64_t i = 0; i < WRITERS + READERS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0)
			_exit(i < WRITERS ? run_writer(i) : run_reader(i));
	}
	for (int i = 0; i < WRITERS + READERS; i++) {
		int status = 0;
		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void check_all(sy_client *client, uint64_t seed)
{
	uint64_t rows[ROWS];
	struct sy_prng prng;
	sy_prng_seed(&prng, seed);
	for (uint64_t i = 0; i < ROWS; i++)
		rows[i] = i;
	for (uint64_t i = ROWS - 1; i > 0; i--) {
		uint64_t other = sy_prng_below(&prng, i + 1), row = rows[i];
		rows[i] = rows[other];
		rows[other] = row;
	}
	for (int i = 0; i < ROWS; i++)
		assert_int_equal(get_row(client, rows[i]), last_version(rows[i]));
}

static void clear_all(sy_client *client)
{
	uint64_t rows[ROWS];
	sy_unit_report report;
	for (uint64_t i = 0; i < ROWS; i++)
		rows[i] = i;
	assert_int_equal(sy_client_clear(client, rows, ROWS, NULL, 0, 0, NULL, NULL), SY_OK);
	/* What is still being written goes when that is done. */
	for (int i = 0; i < 1000; i++) {
		ask(client, &report);
		if (count_of(&report, "ssd_running") == 0)
			break;
		usleep(10000);
	}
	assert_int_equal(count_of(&report, "ssd_free"), count_of(&report, "ssd_capacity"));
	assert_int_equal(count_of(&report, "entries"), 0);
}

static void test_four_times_the_slab(void **state)
{
	uint64_t seed = harness_seed();
	sy_unit_report report;
	(void)state;
	work_on_it();
	sy_client *client = open_client();
	check_all(client, seed);
	ask(client, &report);
	assert_true(count_of(&report, "ssd_demotions") > 0);
	assert_true(count_of(&report, "ssd_loads") > 0);
	assert_int_equal(count_of(&report, "ssd_lost_blobs"), 0);
	print_message("%lu demotions, %lu promotions, %lu loads, %lu spills\n",
	              count_of(&report, "ssd_demotions"), count_of(&report, "ssd_promotions"),
	              count_of(&report, "ssd_loads"), count_of(&report, "ssd_spills"));
	uint64_t peak = peak_bytes(cluster.units[0]);
	print_message("at most %lu MiB resident\n", peak / MIB);
	assert_true(SANITIZED || peak <= SLAB_BYTES + RESIDENT_OVER);
	clear_all(client);
	sy_client_close(client);
}

/* A bit of every block is turned: what lies there is lost, the rest is right, the unit lives. */
static void test_bits_flipped(void **state)
{
	char path[512];
	(void)state;
	sy_client *client = open_client();
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_true(put_row(client, row, 1));
	DIR *dir = opendir(ssd_dir);
	assert_non_null(dir);
	for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
		if (strstr(entry->d_name, ".seg") == NULL)
			continue;
		snprintf(path, sizeof path, "%s/%s", ssd_dir, entry->d_name);
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
		uint64_t version = get_row(client, row);
		assert_true(version <= 1);
		found += version == 1;
		lost += version == 0;
	}
	sy_unit_report report;
	ask(client, &report);
	assert_true(found > 0 && lost > 0);
	assert_int_equal(count_of(&report, "ssd_lost_blobs"), lost);
	assert_true(count_of(&report, "ssd_read_errors") >= lost);
	assert_true(put_row(client, ROWS, 1));
	assert_int_equal(get_row(client, ROWS), 1);
	uint64_t last = ROWS;
	assert_int_equal(sy_client_clear(client, &last, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	clear_all(client);
	sy_client_close(client);
}

/* Killed while it writes: nothing of its files is left for the next one, which works as well. */
static void test_killed(void **state)
{
	char stranger[512];
	(void)state;
	snprintf(stranger, sizeof stranger, "%s/slabyard-0-notes.seg", ssd_dir);
	int fd = open(stranger, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	sy_client *client = open_client();
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_true(put_row(client, row, 1));
	sy_client_close(client);
	assert_true(segment_count() > 1);
	cluster_kill(&cluster, 0, SIGKILL);
	cluster_restart(&cluster, 0);
	assert_int_equal(segment_count(), 1); /* only the one that is not ours */
	client = open_client();
	assert_int_equal(get_row(client, 1), 0);
	sy_client_close(client);
	work_on_it();
	client = open_client();
	check_all(client, harness_seed());
	clear_all(client);
	sy_client_close(client);
	assert_int_equal(unlink(stranger), 0);
}

static int start(void **state)
{
	char bytes[32];
	(void)state;
	snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)SSD_BYTES);
	if (mkdtemp(ssd_dir) == NULL || setenv("TEST_SSD_DIR", ssd_dir, 1) != 0 ||
	    setenv("TEST_SSD_BYTES", bytes, 1) != 0)
		return -1;
	cluster_start(&cluster, 1, SLAB_BYTES, false);
	return 0;
}

static int stop(void **state)
{
	char command[128];
	(void)state;
	cluster_stop(&cluster);
	int left = segment_count();
	snprintf(command, sizeof command, "rm -rf %s", ssd_dir);
	return system(command) != 0 || left != 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_four_times_the_slab),
		cmocka_unit_test(test_bits_flipped),
		cmocka_unit_test(test_killed),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
