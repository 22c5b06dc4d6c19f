/* A disk that fails, writes short, or hangs: what the system does for the unit's files goes
 * through this test (--wrap; the build has 64-bit offsets, so the calls are the ones named so).
 * With TEST_NO_URING the system refuses io_uring, and the unit's threads do the work; nor can its
 * filesystem preallocate, so that the library writes a byte of each block. With TEST_NO_DIRECT its
 * files cannot be opened past the system's cache. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <liburing.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "sanitized.h"
#include "tier_fixture.h"

enum { SLAB_BYTES = 16 << 20, ROW_BYTES = 128 << 10, ROWS = 256, SMALL = 128, SMALL_ROWS = 64,
       TIMEOUT_S = 30, SAMPLES = SANITIZED ? 1000 : 10000 };
#define SSD_BYTES UINT64_C(268435456)

/* Shared by the test and the unit, through a file that the environment names. */
struct faults {
	atomic_int write_errno, read_errno; /* of the next *_left calls; 0: none */
	atomic_int writes_left, reads_left;
	atomic_bool part, held; /* part: it does not fail, and does not all that is asked */
};

static struct faults *faults;
static struct tier tier;
static char control[128];

ssize_t __real_pwrite64(int fd, const void *data, size_t count, off_t at);
ssize_t __real_pread64(int fd, void *data, size_t count, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *data, size_t count, off_t at);
ssize_t __wrap_pread64(int fd, void *data, size_t count, off_t at);
int __real_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags);
int __real_io_uring_submit(struct io_uring *ring);
int __real_posix_fallocate64(int fd, off_t at, off_t bytes);
int __wrap_posix_fallocate64(int fd, off_t at, off_t bytes);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_openat64(int dir_fd, const char *path, int flags, ...);
int __wrap_openat64(int dir_fd, const char *path, int flags, ...);
int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

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

static size_t part_of(size_t count)
{
	return count > 4096 ? count / 2 - count / 2 % 4096 : count;
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
			if (atomic_load(&faults->part))
				return __real_pwrite64(fd, data, part_of(count), at);
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
			if (atomic_load(&faults->part))
				return __real_pread64(fd, data, part_of(count), at);
			errno = atomic_load(&faults->read_errno);
			return -1;
		}
	}
	return __real_pread64(fd, data, count, at);
}

int __wrap_io_uring_queue_init(unsigned entries, struct io_uring *ring, unsigned flags)
{
	return getenv("TEST_NO_URING") != NULL ? -EPERM
	                                       : __real_io_uring_queue_init(entries, ring, flags);
}

int __wrap_posix_fallocate64(int fd, off_t at, off_t bytes)
{
	if (getenv("TEST_NO_URING") == NULL)
		return __real_posix_fallocate64(fd, at, bytes);
	for (off_t end = at + bytes; at < end; at += 4096) {
		if (__real_pwrite64(fd, "", 1, at) != 1)
			return errno;
	}
	return ftruncate(fd, at) == 0 ? 0 : errno;
}

static bool is_refused(int flags)
{
	return (flags & O_DIRECT) != 0 && getenv("TEST_NO_DIRECT") != NULL;
}

int __wrap_openat64(int dir_fd, const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	unsigned mode = (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0;
	va_end(args);
	if (!is_refused(flags))
		return __real_openat64(dir_fd, path, flags, mode);
	errno = EINVAL;
	return -1;
}

int __wrap_fcntl64(int fd, int command, ...)
{
	va_list args;
	va_start(args, command);
	uintptr_t arg = va_arg(args, uintptr_t);
	va_end(args);
	if (command != F_SETFL || !is_refused((int)arg))
		return __real_fcntl64(fd, command, arg);
	errno = EINVAL;
	return -1;
}

/* A request on no file fails as one on a broken disk does. */
static void hurt(struct io_uring_sqe *sqe)
{
	bool writes = sqe->opcode == IORING_OP_WRITE_FIXED || sqe->opcode == IORING_OP_WRITE;
	if (!is_ours(sqe->len))
		return;
	wait_held();
	if (!strikes(writes ? &faults->writes_left : &faults->reads_left))
		return;
	if (atomic_load(&faults->part))
		sqe->len = (unsigned)part_of(sqe->len);
	else
		sqe->fd = -1;
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
	for (unsigned at = ring->sq.sqe_head; at != ring->sq.sqe_tail; at++)
		hurt(&ring->sq.sqes[at & ring->sq.ring_mask]);
	return __real_io_uring_submit(ring);
}

static sy_status put_row(uint64_t row, size_t nbytes, uint64_t timeout_s)
{
	sy_error err = {0};
	return tier_put(tier.client, row, 1, nbytes, timeout_s, &err);
}

static uint64_t count_of(const char *name)
{
	return tier_count(tier.client, name);
}

static void expect_rows(uint64_t count)
{
	for (uint64_t row = 0; row < count; row++)
		assert_int_equal(tier_get(tier.client, row, ROW_BYTES), 1);
}

static void clear_all(void)
{
	tier_clear(tier.client, ROWS + SMALL_ROWS);
}

/* Puts until there is no room, which is when the slab has none. */
static uint64_t fill_slab(void)
{
	uint64_t count = 0, errors = count_of("ssd_write_errors");
	while (count < ROWS && put_row(count, ROW_BYTES, 20) == SY_OK)
		count++;
	assert_true(count < ROWS && count >= SLAB_BYTES / ROW_BYTES * 3 / 4);
	assert_true(count_of("ssd_write_errors") > errors);
	return count;
}

/* The tier tries again a second after the failure. */
static void expect_works_again(uint64_t count)
{
	sy_status status = SY_E_UNIT_FULL;
	for (int i = 0; i < 500 && status != SY_OK; i++) {
		status = put_row(count, ROW_BYTES, 20);
		usleep(status == SY_OK ? 0 : 20000);
	}
	assert_int_equal(status, SY_OK);
	expect_rows(count + 1);
	assert_int_equal(count_of("ssd_lost_blobs"), 0);
}

/* No write succeeds: the unit is full when its memory is, and has all that it took; it goes on
 * when the disk does. */
static void try_failing_writes(void)
{
	atomic_store(&faults->writes_left, 1 << 30);
	uint64_t count = fill_slab();
	expect_rows(count);
	atomic_store(&faults->writes_left, 0);
	expect_works_again(count);
	clear_all();
}

static void test_write_fails(void **state)
{
	(void)state;
	atomic_store(&faults->write_errno, EIO);
	try_failing_writes();
}

/* A system may take and give less than was asked, as often as it likes: what is left is asked for
 * again, and nothing is wrong with the disk. */
static void test_a_part_at_a_time(void **state)
{
	uint64_t lost = count_of("ssd_lost_blobs"), errors = count_of("ssd_write_errors");
	(void)state;
	atomic_store(&faults->part, true);
	atomic_store(&faults->writes_left, 1 << 30);
	atomic_store(&faults->reads_left, 1 << 30);
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	expect_rows(ROWS);
	assert_true(atomic_exchange(&faults->writes_left, 0) < 1 << 30);
	assert_true(atomic_exchange(&faults->reads_left, 0) < 1 << 30);
	atomic_store(&faults->part, false);
	assert_int_equal(count_of("ssd_lost_blobs"), lost);
	assert_int_equal(count_of("ssd_write_errors"), errors);
	clear_all();
}

/* One failed read is tried again; a second one loses that blob, and no other. */
static void test_read_fails(void **state)
{
	uint64_t found = 0, lost;
	sy_error err = {0};
	(void)state;
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	lost = count_of("ssd_lost_blobs");
	atomic_store(&faults->read_errno, EIO);
	atomic_store(&faults->reads_left, 1);
	assert_int_equal(tier_get(tier.client, 0, ROW_BYTES), 1); /* the oldest: on disk */
	assert_int_equal(atomic_load(&faults->reads_left), 0);
	assert_int_equal(count_of("ssd_lost_blobs"), lost);
	atomic_store(&faults->reads_left, 2);
	assert_int_equal(tier_get_told(tier.client, 1, ROW_BYTES, &err), tier_lost);
	assert_string_equal(err.reason, "disk");
	assert_non_null(strstr(err.message, "row 1: its file cannot be read"));
	assert_int_equal(count_of("ssd_lost_blobs"), lost + 1);
	for (uint64_t row = 0; row < ROWS; row++)
		found += tier_get(tier.client, row, ROW_BYTES) == 1;
	assert_int_equal(found, ROWS - 1);
	/* It stays lost until somebody puts it again. */
	assert_int_equal(tier_get(tier.client, 1, ROW_BYTES), tier_lost);
	assert_int_equal(put_row(1, ROW_BYTES, 20), SY_OK);
	expect_rows(ROWS);
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

static uint64_t took_ns[SAMPLES];

static uint64_t p99_us(void)
{
	qsort(took_ns, SAMPLES, sizeof took_ns[0], by_value);
	return took_ns[SAMPLES * 99 / 100] / 1000;
}

/* Puts and gets of small rows in memory for so long, and SAMPLES at least. Returns how many;
 * of the last ones it is told how long each took. */
static uint64_t run_small(uint64_t enough_ns)
{
	uint64_t began_ns = now_ns(), i = 0;
	for (; i < SAMPLES || now_ns() - began_ns < enough_ns; i++) {
		uint64_t row = ROWS + i / 2 % SMALL_ROWS, start_ns = now_ns();
		if (i % 2 == 0)
			assert_int_equal(put_row(row, SMALL, 4), SY_OK);
		else
			assert_int_equal(tier_get(tier.client, row, SMALL), 1);
		took_ns[i % SAMPLES] = now_ns() - start_ns;
	}
	return i;
}

/* The disk hangs: what is in memory is served as ever. */
static void test_held(void **state)
{
	(void)state;
	for (uint64_t row = 0; row < ROWS / 2; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	atomic_store(&faults->held, true);
	/* Until it has something to do, these may have to wait for it. */
	for (uint64_t row = ROWS / 2;
	     row < ROWS && (row < ROWS / 2 + 8 || count_of("ssd_running") == 0); row++)
		(void)put_row(row, ROW_BYTES, 1);
	/* Long where the system is whole, and nothing slows the test. */
	bool whole = getenv("TEST_NO_URING") == NULL && getenv("TEST_NO_DIRECT") == NULL;
	uint64_t held_s = whole && !SANITIZED ? 5 : 1;
	uint64_t count = run_small(UINT64_C(1000000000) * held_s);
	assert_true(count_of("ssd_running") > 0);
	atomic_store(&faults->held, false);
	expect_rows(ROWS / 2);
	print_message("%lu small puts and gets with the disk held for %lu s, p99 %lu us\n", count,
	              held_s, p99_us());
	clear_all();
}

/* Puts and gets more than the slab holds, over and over: the tier always writes and reads. */
static void *keep_busy(void *argument)
{
	sy_client *client = tier_open(&tier, TIMEOUT_S);
	sy_error err = {0};
	for (uint64_t i = 0; !atomic_load((atomic_bool *)argument); i++) {
		(void)tier_put(client, i % ROWS, 1, ROW_BYTES, 0, &err);
		(void)tier_get(client, (i + ROWS / 2) % ROWS, ROW_BYTES);
	}
	sy_client_close(client);
	return NULL;
}

static void test_busy(void **state)
{
	atomic_bool stop = false;
	pthread_t thread;
	(void)state;
	(void)run_small(0);
	uint64_t idle_us = p99_us();
	assert_int_equal(pthread_create(&thread, NULL, keep_busy, &stop), 0);
	uint64_t before = count_of("ssd_demotions");
	(void)run_small(0);
	uint64_t busy_us = p99_us();
	/* However fast that was: the tier has had something to do meanwhile. */
	for (int i = 0; i < 2000 && count_of("ssd_demotions") == before; i++)
		usleep(10000);
	assert_true(count_of("ssd_demotions") > before);
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("p99 of %d small puts and gets: %lu us with an idle tier, %lu us with a busy "
	              "one\n",
	              SAMPLES, idle_us, busy_us);
	clear_all();
}

/* Calls for each of the unit's segments. */
static uint64_t each_segment(bool (*act)(const char *path))
{
	char path[512];
	uint64_t count = 0;
	DIR *dir = opendir(tier.dir);
	assert_non_null(dir);
	for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
		snprintf(path, sizeof path, "%s/%s", tier.dir, entry->d_name);
		count += strstr(entry->d_name, ".seg") != NULL && act(path);
	}
	closedir(dir);
	return count;
}

static bool unlink_it(const char *path)
{
	return unlink(path) == 0;
}

static bool empty_it(const char *path)
{
	return truncate(path, 0) == 0;
}

/* Files that somebody removes are the unit's all the same, as long as it lives. */
static void test_unlinked(void **state)
{
	uint64_t before = count_of("ssd_lost_blobs");
	(void)state;
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	assert_true(each_segment(unlink_it) > 0);
	expect_rows(ROWS);
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	expect_rows(ROWS);
	assert_int_equal(count_of("ssd_lost_blobs"), before);
	clear_all();
}

/* Files that are cut off take what lay there with them, and that alone; they are used again. */
static void test_emptied(void **state)
{
	uint64_t before = count_of("ssd_lost_blobs"), found = 0, lost = 0;
	(void)state;
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	assert_true(each_segment(empty_it) > 0);
	for (uint64_t row = 0; row < ROWS; row++) {
		uint64_t version = tier_get(tier.client, row, ROW_BYTES);
		found += version == 1;
		lost += version == tier_lost;
	}
	assert_true(found > 0 && lost > 0);
	assert_int_equal(found + lost, ROWS);
	assert_int_equal(count_of("ssd_lost_blobs") - before, lost);
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, ROW_BYTES, 20), SY_OK);
	expect_rows(ROWS);
	clear_all();
}

/* Nothing new can be made in the directory: what has files goes on, for the rest there is the
 * slab alone, and nothing is lost. */
static void test_read_only(void **state)
{
	(void)state;
	assert_int_equal(tier_segment_count(&tier), 0);
	assert_int_equal(chmod(tier.dir, 0500), 0);
	uint64_t count = fill_slab();
	expect_rows(count);
	assert_int_equal(tier_segment_count(&tier), 0);
	assert_int_equal(chmod(tier.dir, 0700), 0);
	expect_works_again(count);
	assert_true(tier_segment_count(&tier) > 0);
	clear_all();
}

static int start(void **state)
{
	(void)state;
	cluster_start(&tier.cluster, 1, SLAB_BYTES, false);
	tier.client = tier_open(&tier, TIMEOUT_S);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	atomic_store(&faults->held, false);
	sy_client_close(tier.client);
	cluster_stop(&tier.cluster);
	return 0;
}

int main(int argc, char **argv)
{
	if (getenv("TEST_FAULTS") != NULL)
		map_faults();
	cluster_main(argc, argv);
	/* The units are to be refused what a directory's mode refuses others, root's too. */
	(void)prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
	snprintf(control, sizeof control, "/tmp/slabyard-test-control-%d", (int)getpid());
	if (!tier_make_dir(&tier, SSD_BYTES) || setenv("TEST_FAULTS", control, 1) != 0)
		return 1;
	map_faults();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_only), /* first: no segment is there yet */
		cmocka_unit_test(test_write_fails),
		cmocka_unit_test(test_a_part_at_a_time),
		cmocka_unit_test(test_read_fails),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_emptied),
		cmocka_unit_test(test_unlinked), /* last: its files are not seen again */
	};
	int failed = cmocka_run_group_tests(tests, start, stop);
	(void)unlink(control);
	return tier_remove_dir(&tier) ? failed : 1;
}
