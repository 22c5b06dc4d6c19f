/* A disk that fails, writes short, or hangs: what the system says of the unit's files goes through
 * this test (--wrap; the build has 64-bit offsets, so the calls are the ones named so). */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <slabyard/slabyard.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bytes.h"
#include "cluster.h"

enum { SLAB_BYTES = 16 << 20, VALUE_BYTES = 128 << 10, ROWS = 256, SMALL = 64, HELD_S = 5,
       SAMPLES = 10000 };

/* Shared by the test and the unit, through a file that the environment names. */
struct faults {
	atomic_int write_errno, read_errno; /* of the next *_left calls; 0: none */
	atomic_int writes_left, reads_left;
	atomic_bool short_writes, held;
};

static struct faults *faults;
static struct cluster cluster;
static char ssd_dir[] = "/tmp/slabyard-test-faults-XXXXXX", control[128];
static sy_client *client;
static uint8_t bytes[VALUE_BYTES];

ssize_t __real_pwrite64(int fd, const void *data, size_t count, off_t at);
ssize_t __real_pread64(int fd, void *data, size_t count, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t count, off_t at);
ssize_t __wrap_pread64(int fd, void *data, size_t count, off_t at);

static void map_faults(void)
{
	int fd = open(getenv("TEST_FAULTS"), O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		abort();
	faults = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (faults == MAP_FAILED)
		abort();
	close(fd);
}

/* Only blocks of records: other files are written, too. */
static bool is_ours(size_t count)
{
	return faults != NULL && count >= 4096 && count % 4096 == 0;
}

static void wait_held(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	for (int i = 0; i < 20000 && atomic_load(&faults->held); i++)
		nanosleep(&moment, NULL);
}

static bool strikes(atomic_int *left)
{
	return atomic_load(left) > 0 && atomic_fetch_sub(left, 1) > 0;
}

ssize_t __wrap_pwrite64(int fd, const void *data, size_t count, off_t at)
{
	if (is_ours(count)) {
		wait_held();
		if (strikes(&faults->writes_left)) {
			if (atomic_load(&faults->short_writes))
				return (ssize_t)count - 4096;
			errno = atomic_load(&faults->write_errno);
			return -1;
		}
	}
	return __real_pwrite64(fd, data, count, at);
}

ssize_t __wrap_pread64(int fd, void *data, size_t count, off_t at)
{
	if (is_ours(count)) {
		wait_held();
		if (strikes(&faults->reads_left)) {
			errno = atomic_load(&faults->read_errno);
			return -1;
		}
	}
	return __real_pread64(fd, data, count, at);
}

static sy_status put_value(uint64_t row, size_t nbytes, uint64_t timeout_s)
{
	sy_key key = {row, "response", 8};
	sy_value value = {.data = bytes, .nbytes = nbytes, .kind = SY_KIND_BYTES};
	sy_error err = {0};
	for (size_t i = 0; i < nbytes; i += 8)
		sy_store_u64(bytes + i, sy_mix64(row * VALUE_BYTES + i));
	return sy_client_put(client, &key, &value, 1, sy_deadline_after(timeout_s * 1000000000u),
	                     &err);
}

/* Is it there, and right? */
static bool get_value(uint64_t row, size_t nbytes)
{
	sy_key key = {row, "response", 8};
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};
	if (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err) != SY_OK)
		fail_msg("get of row %lu: %s", row, err.message);
	bool found = sy_result_value(result, 0, &value);
	if (found) {
		const uint8_t *got = value.data;
		assert_int_equal(value.nbytes, nbytes);
		for (size_t i = 0; i < nbytes; i += 8)
			assert_true(sy_load_u64(got + i) == sy_mix64(row * VALUE_BYTES + i));
	}
	sy_result_free(result);
	return found;
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

static void clear_all(void)
{
	uint64_t rows[2 * ROWS];
	for (uint64_t i = 0; i < 2 * ROWS; i++)
		rows[i] = i;
	assert_int_equal(sy_client_clear(client, rows, 2 * ROWS, NULL, 0, 0, NULL, NULL), SY_OK);
}

/* No write succeeds: the unit is full when its memory is, and has all that it took; it goes on
 * when the disk does. */
static void try_failing_writes(void)
{
	uint64_t count = 0, errors = count_of("ssd_write_errors");
	atomic_store(&faults->writes_left, 1 << 30);
	while (count < ROWS && put_value(count, VALUE_BYTES, 20) == SY_OK)
		count++;
	assert_true(count < ROWS && count >= SLAB_BYTES / VALUE_BYTES * 3 / 4);
	assert_true(count_of("ssd_write_errors") > errors);
	for (uint64_t row = 0; row < count; row++)
		assert_true(get_value(row, VALUE_BYTES));
	atomic_store(&faults->writes_left, 0);
	/* The tier tries again a second after the failure. */
	sy_status status = SY_E_UNIT_FULL;
	for (int i = 0; i < 500 && status != SY_OK; i++) {
		status = put_value(count, VALUE_BYTES, 20);
		usleep(status == SY_OK ? 0 : 20000);
	}
	assert_int_equal(status, SY_OK);
	for (uint64_t row = 0; row <= count; row++)
		assert_true(get_value(row, VALUE_BYTES));
	assert_int_equal(count_of("ssd_lost_blobs"), 0);
	clear_all();
}

static void test_write_fails(void **state)
{
	(void)state;
	atomic_store(&faults->write_errno, EIO);
	try_failing_writes();
}

static void test_write_short(void **state)
{
	(void)state;
	atomic_store(&faults->short_writes, true);
	try_failing_writes();
	atomic_store(&faults->short_writes, false);
}

/* One failed read is tried again; a second one loses that blob, and no other. */
static void test_read_fails(void **state)
{
	uint64_t found = 0, lost;
	(void)state;
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_value(row, VALUE_BYTES, 20), SY_OK);
	lost = count_of("ssd_lost_blobs");
	atomic_store(&faults->read_errno, EIO);
	atomic_store(&faults->reads_left, 1);
	assert_true(get_value(0, VALUE_BYTES)); /* the oldest: on disk */
	assert_int_equal(atomic_load(&faults->reads_left), 0);
	assert_int_equal(count_of("ssd_lost_blobs"), lost);
	atomic_store(&faults->reads_left, 2);
	assert_false(get_value(1, VALUE_BYTES));
	assert_int_equal(count_of("ssd_lost_blobs"), lost + 1);
	for (uint64_t row = 0; row < ROWS; row++)
		found += get_value(row, VALUE_BYTES);
	assert_int_equal(found, ROWS - 1);
	clear_all();
}

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Gets and puts of small blobs in memory; the 99th of a hundred, in microseconds. */
static uint64_t small_p99_us(uint64_t samples)
{
	static uint64_t took_ns[SAMPLES];
	for (uint64_t i = 0; i < samples; i++) {
		uint64_t row = ROWS + i % 64, start_ns = now_ns();
		if (i % 2 == 0)
			assert_int_equal(put_value(row, SMALL, 4), SY_OK);
		else
			assert_true(get_value(row - 1, SMALL));
		took_ns[i] = now_ns() - start_ns;
	}
	qsort(took_ns, samples, sizeof took_ns[0], by_value);
	return took_ns[samples * 99 / 100] / 1000;
}

/* The disk hangs: what is in memory is served as ever. */
static void test_held(void **state)
{
	(void)state;
	uint64_t idle_us = small_p99_us(SAMPLES);
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_int_equal(put_value(row, VALUE_BYTES, 20), SY_OK);
	atomic_store(&faults->held, true);
	/* Until it has something to do, these may have to wait for it. */
	for (uint64_t row = ROWS / 2;
	     row < ROWS && (row < ROWS / 2 + 8 || count_of("ssd_running") == 0); row++)
		(void)put_value(row, VALUE_BYTES, 1);
	uint64_t end_ns = now_ns() + UINT64_C(1000000000) * HELD_S, busy_us = 0, rounds = 0;
	while (now_ns() < end_ns || rounds == 0) {
		busy_us = sy_max_u64(busy_us, small_p99_us(500));
		rounds++;
	}
	assert_true(count_of("ssd_running") > 0);
	atomic_store(&faults->held, false);
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_true(get_value(row, VALUE_BYTES));
	print_message("p99 of small puts and gets: %lu us idle, at most %lu us with the disk held\n",
	              idle_us, busy_us);
	clear_all();
}

static int start(void **state)
{
	sy_error err = {0};
	(void)state;
	cluster_start(&cluster, 1, SLAB_BYTES, false);
	sy_client_options options = {.run_dir = cluster.run_dir, .ssd = true,
	                             .timeout_ns = 30000000000u};
	return sy_client_open(&options, &client, &err) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

int main(int argc, char **argv)
{
	char command[128];
	if (getenv("TEST_FAULTS") != NULL)
		map_faults();
	cluster_main(argc, argv);
	if (mkdtemp(ssd_dir) == NULL)
		return 1;
	snprintf(control, sizeof control, "%s/control", ssd_dir);
	if (setenv("TEST_SSD_DIR", ssd_dir, 1) != 0 || setenv("TEST_SSD_BYTES", "268435456", 1) != 0 ||
	    setenv("TEST_FAULTS", control, 1) != 0)
		return 1;
	map_faults();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_fails),
		cmocka_unit_test(test_write_short),
		cmocka_unit_test(test_read_fails),
		cmocka_unit_test(test_held),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);
	snprintf(command, sizeof command, "rm -rf %s", ssd_dir);
	return system(command) != 0 ? 1 : failed;
}
