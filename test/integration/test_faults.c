/* Clients and units that are killed or stopped in the worst moment. */
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bytes.h"
#include "clock.h"
#include "cluster.h"
#include "number_of.h"
#include "prng.h"
#include "store_blob.h"

enum { UNITS = 2, SLAB_BYTES = 8 << 20, BIG = 1 << 20 };
static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static sy_client *client;

static int start(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 10 * SECOND_NS,
	                             .control_timeout_ns = 2 * SECOND_NS};
	sy_error err = {0};

	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	if (sy_client_open(&options, &client, &err) == SY_OK)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

static void fill(uint8_t *bytes, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)(sy_mix64(seed + i / 8) >> (i % 8 * 8));
}

static sy_status put(uint64_t row, const void *bytes, uint64_t n, sy_error *err)
{
	sy_key key = {row, "x", 1};
	sy_value value = {.data = bytes, .nbytes = n, .kind = SY_KIND_BYTES};

	return sy_client_put(client, &key, &value, 1, 0, err);
}

/* Waits until nothing is held on the unit but `published` bytes; prints how long it took. */
static void await_clean(uint32_t unit_id, const char *after)
{
	uint64_t start_ns = sy_clock_now_ns(), end_ns = start_ns + 60 * SECOND_NS;
	sy_unit_report reports[UNITS];

	do {
		assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
		const sy_unit_report *report = &reports[unit_id];
		if (report->answered && report->bytes[0].value == report->capacity_bytes &&
		    number_of(report, "pins") == 0 && number_of(report, "sessions") == 1) {
			print_message("all back %llu us after %s\n",
			              (unsigned long long)(sy_clock_now_ns() - start_ns) / 1000, after);
			return;
		}
	} while (sy_clock_now_ns() < end_ns);
	fail_msg("memory, pins or sessions are left after %s", after);
}

static void expect(uint64_t row, const void *bytes, uint64_t n)
{
	sy_key key = {row, "x", 1};
	sy_result *result = NULL;
	sy_value value;
	sy_error err = {0};

	if (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, n);
	assert_memory_equal(value.data, bytes, n);
	sy_result_free(result);
}

/* A child that says on a pipe where it stands. */
struct child {
	pid_t pid;
	int said;
};

static int child_pipe;

static void child_says(void)
{
	char byte = 1;

	(void)!write(child_pipe, &byte, 1);
}

/* This program again, as the child that plays this part: exec gives it threads of its own. */
static struct child spawn(const char *part)
{
	int ends[2];
	char fd[16];

	assert_int_equal(pipe(ends), 0);
	snprintf(fd, sizeof fd, "%d", ends[1]);
	char *argv[] = {"test_faults", "child", (char *)(uintptr_t)part, cluster.run_dir, fd, NULL};
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(ends[1]);
	return (struct child){pid, ends[0]};
}

static void await_said(const struct child *child)
{
	struct pollfd fd = {.fd = child->said, .events = POLLIN};
	char byte;

	assert_int_equal(poll(&fd, 1, 60000), 1);
	assert_int_equal(read(child->said, &byte, 1), 1);
}

static int await_end(struct child *child)
{
	int status = 0;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	close(child->said);
	return status;
}

/* The store's lock is taken between alloc and WRITE. */
static void lock_and_stay(void *context)
{
	(void)context;
	child_says();
	pause();
}

static void unlock(void *context)
{
	(void)context;
}

static void put_and_stay(void)
{
	static uint8_t bytes[BIG];
	sy_store_options options = {.run_dir = cluster.run_dir, .lock = lock_and_stay,
	                            .unlock = unlock};
	struct store_blob made;
	sy_store *store;

	if (sy_store_open(&options, &store, NULL) != SY_OK)
		_exit(1);
	store_blob_make(&made, 0, 4, "x", bytes, sizeof bytes);
	sy_store_put_segments(store, &made.blob, 0, NULL);
}

/* Kind: writer dies before commit and the row is writable again. */
static void test_killed_between_alloc_and_commit(void **state)
{
	static uint8_t bytes[BIG];
	uint64_t row = 4;
	sy_unit_report reports[UNITS];

	(void)state;
	assert_int_equal(put(row, "before", 6, NULL), SY_OK);
	struct child child = spawn("put_and_stay");
	await_said(&child);
	assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
	assert_true(number_of(&reports[0], "reservations") == 1);
	expect(row, "before", 6);
	kill(child.pid, SIGKILL);
	await_end(&child);
	expect(row, "before", 6);
	fill(bytes, BIG, 3);
	assert_int_equal(put(row, bytes, BIG, NULL), SY_OK);
	expect(row, bytes, BIG);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	await_clean(0, "kill -9 between alloc and commit");
}

static void view_and_stay(void)
{
	sy_client_options options = {.run_dir = cluster.run_dir};
	sy_key key = {4, "x", 1};
	sy_client *mine;
	sy_result *result;

	if (sy_client_open(&options, &mine, NULL) != SY_OK ||
	    sy_client_get(mine, &key, 1, SY_GET_VIEW, 0, &result, NULL) != SY_OK)
		_exit(1);
	child_says();
	pause();
}

static void test_killed_while_it_holds_pins(void **state)
{
	static uint8_t bytes[BIG];
	uint64_t row = 4;
	sy_unit_report reports[UNITS];

	(void)state;
	assert_int_equal(put(4, bytes, BIG, NULL), SY_OK);
	struct child child = spawn("view_and_stay");
	await_said(&child);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
	assert_int_equal(number_of(&reports[0], "pins"), 1);
	kill(child.pid, SIGKILL);
	await_end(&child);
	await_clean(0, "kill -9 of a reader");
}

/* Resolves, says so, is stopped there for long, then reads and compares. */
static void read_after_a_stop(void)
{
	static uint8_t wanted[BIG], got[BIG];
	sy_store_options options = {.run_dir = cluster.run_dir};
	sy_key key = {4, "x", 1};
	sy_unit_keys keys[] = {{0, &key, 1}};
	sy_store *store;
	sy_resolved_keys *resolved;
	sy_located at;

	fill(wanted, BIG, 1);
	if (sy_store_open(&options, &store, NULL) != SY_OK ||
	    sy_store_resolve_keys(store, keys, 1, 0, &resolved, NULL) != SY_OK ||
	    !sy_resolved_at(resolved, 0, 0, &at))
		_exit(1);
	child_says();
	raise(SIGSTOP);
	sy_read read = {0, at.slab_offset, at.nbytes, got};
	sy_status status = sy_store_read_entries(store, &read, 1, 0, NULL);
	/* The library gives back what was not read for a pin's time. Of two threads that go on it may
	 * be the first to run. */
	_exit(status == SY_E_STALE_READ || (status == SY_OK && memcmp(got, wanted, BIG) == 0) ? 0 : 1);
}

static void view_after_a_stop(void)
{
	static uint8_t wanted[BIG];
	sy_client_options options = {.run_dir = cluster.run_dir};
	sy_key key = {4, "x", 1};
	sy_client *mine;
	sy_result *result;
	sy_value value;

	fill(wanted, BIG, 1);
	if (sy_client_open(&options, &mine, NULL) != SY_OK ||
	    sy_client_get(mine, &key, 1, SY_GET_VIEW, 0, &result, NULL) != SY_OK)
		_exit(1);
	child_says();
	raise(SIGSTOP);
	if (!sy_result_value(result, 0, &value) || value.nbytes != BIG ||
	    memcmp(value.data, wanted, BIG) != 0)
		_exit(1);
	sy_result_free(result);
	sy_client_close(mine);
	_exit(0);
}

/* Puts until the unit is full, so that every free region is given out. */
static uint64_t fill_up(void)
{
	static uint8_t other[BIG / 4];
	uint64_t row = 0;

	memset(other, 0xee, sizeof other);
	for (row = 10; row < 10000; row += 2) {
		sy_error err = {0};

		if (put(row, other, sizeof other, &err) == SY_OK)
			continue;
		assert_int_equal(err.status, SY_E_UNIT_FULL);
		break;
	}
	return row;
}

static void stopped_reader(const char *part)
{
	static uint8_t bytes[BIG];
	uint64_t rows[5000], row = 4;
	int status;

	fill(bytes, BIG, 1);
	assert_int_equal(put(4, bytes, BIG, NULL), SY_OK);
	struct child child = spawn(part);
	await_said(&child);
	assert_int_equal(waitpid(child.pid, &status, WUNTRACED), child.pid);
	assert_true(WIFSTOPPED(status));
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	uint64_t end = fill_up();
	/* Longer than every lease of the unit: time itself is what is tested here. */
	usleep(2500000);
	assert_int_equal(fill_up(), 10); /* nothing came free meanwhile: full at once */
	kill(child.pid, SIGCONT);
	assert_int_equal(await_end(&child), 0);
	size_t count = 0;
	for (row = 10; row < end; row += 2)
		rows[count++] = row;
	assert_int_equal(sy_client_clear(client, rows, count, NULL, 0, 0, NULL, NULL), SY_OK);
	await_clean(0, "a stopped reader went on");
}

static void test_stopped_reader_of_a_view(void **state)
{
	(void)state;
	stopped_reader("view_after_a_stop");
}

static void test_stopped_reader_of_a_resolve(void **state)
{
	(void)state;
	stopped_reader("read_after_a_stop");
}

static void test_stopped_unit_is_not_lost(void **state)
{
	sy_key key = {5, "x", 1};
	sy_result *result;
	uint64_t row = 5;
	sy_error err = {0};

	(void)state;
	assert_int_equal(put(5, "here", 4, NULL), SY_OK);
	kill(cluster.units[1], SIGSTOP);
	assert_int_equal(sy_client_get(client, &key, 1, 0, sy_deadline_after(SECOND_NS / 3), &result,
	                               &err), SY_E_TIMEOUT);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, sy_deadline_after(SECOND_NS / 3),
	                                 NULL, &err), SY_E_TIMEOUT);
	kill(cluster.units[1], SIGCONT);
	assert_int_equal(put(5, "again", 5, &err), SY_OK);
	assert_int_equal(sy_client_get(client, &key, 1, 0, 0, &result, &err), SY_OK);
	sy_value value;
	assert_true(sy_result_value(result, 0, &value));
	assert_memory_equal(value.data, "again", 5);
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
}

/* It holds up its own blobs alone: those of the others are put, also the ones after the first. */
static void test_put_many_past_a_stopped_unit(void **state)
{
	enum { BLOBS = 6 };
	static uint8_t bytes[BIG];
	sy_store_options options = {.run_dir = cluster.run_dir, .timeout_ns = 10 * SECOND_NS};
	struct store_blob made[BLOBS];
	sy_store_blob blobs[BLOBS];
	uint64_t rows[BLOBS];
	uint32_t indexes[BLOBS];
	sy_error err = {.indexes = indexes, .index_capacity = BLOBS};
	sy_store *store;

	(void)state;
	assert_int_equal(sy_store_open(&options, &store, NULL), SY_OK);
	fill(bytes, sizeof bytes, 9);
	for (uint32_t i = 0; i < BLOBS; i++) {
		rows[i] = 100 + i;
		store_blob_make(&made[i], i % UNITS, rows[i], "x", bytes, sizeof bytes);
		blobs[i] = made[i].blob;
	}
	kill(cluster.units[0], SIGSTOP);
	sy_status status =
		sy_store_put_many(store, blobs, BLOBS, sy_deadline_after(4 * SECOND_NS), &err);
	kill(cluster.units[0], SIGCONT);
	assert_int_equal(status, SY_E_TIMEOUT);
	assert_int_equal(err.index_count, BLOBS / UNITS);
	for (uint32_t i = 0; i < BLOBS / UNITS; i++)
		assert_int_equal(indexes[i], i * UNITS);
	for (uint32_t i = 1; i < BLOBS; i += UNITS) {
		sy_key key = {rows[i], "x", 1};
		sy_result *result = NULL;
		sy_value value;

		assert_int_equal(sy_client_get(client, &key, 1, 0, 0, &result, NULL), SY_OK);
		assert_true(sy_result_value(result, 0, &value));
		assert_int_equal(value.nbytes, sizeof bytes);
		assert_memory_equal(value.data, bytes, sizeof bytes);
		sy_result_free(result);
	}
	assert_int_equal(sy_client_clear(client, rows, BLOBS, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_store_close(store);
}

/* Kind: lookup pins and no read follows.
 * A resolve that is held but not read gives its pins back after the lease, on every transport. */
static void test_forgotten_resolve(void **state)
{
	static uint8_t bytes[BIG], got[BIG];
	sy_store_options options = {.run_dir = cluster.run_dir};
	sy_key key = {4, "x", 1};
	sy_unit_keys keys[] = {{0, &key, 1}};
	uint64_t row = 4;
	sy_store *store;
	sy_resolved_keys *resolved;
	sy_located at;
	sy_unit_report reports[UNITS];
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;

	(void)state;
	assert_int_equal(put(4, bytes, BIG, NULL), SY_OK);
	assert_int_equal(sy_store_open(&options, &store, NULL), SY_OK);
	assert_int_equal(sy_store_resolve_keys(store, keys, 1, 0, &resolved, NULL), SY_OK);
	assert_true(sy_resolved_at(resolved, 0, 0, &at));
	do {
		assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
	} while (number_of(&reports[0], "pins") > 0 && sy_clock_now_ns() < end_ns);
	assert_int_equal(number_of(&reports[0], "pins"), 0);
	sy_read read = {0, at.slab_offset, at.nbytes, got};
	assert_int_equal(sy_store_read_entries(store, &read, 1, 0, NULL), SY_E_STALE_READ);
	sy_resolved_keys_free(resolved);
	sy_store_close(store);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	await_clean(0, "a forgotten resolve");
}

static void test_dead_unit_is_lost_until_replaced(void **state)
{
	sy_key keys[] = {{4, "x", 1}, {5, "x", 1}, {7, "x", 1}};
	uint64_t rows[] = {4, 5, 7};
	uint32_t lost[3];
	sy_error err = {.indexes = lost, .index_capacity = 3};
	sy_result *result;
	sy_value value;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(put(keys[i].row, "v", 1, NULL), SY_OK);
	cluster_kill(&cluster, 1, SIGKILL);
	assert_int_equal(sy_client_get(client, keys, 3, 0, 0, &result, &err), SY_E_LOST);
	assert_int_equal(err.index_count, 2);
	assert_int_equal(lost[0], 1);
	assert_int_equal(lost[1], 2);
	assert_int_equal(put(5, "v", 1, &err), SY_E_TRANSFER_FAILED);
	assert_int_equal(sy_client_clear(client, rows, 3, NULL, 0, 0, NULL, &err), SY_OK);

	cluster_restart(&cluster, 1);
	assert_int_equal(put(5, "new", 3, &err), SY_OK);
	assert_int_equal(sy_client_get(client, keys, 3, 0, 0, &result, &err), SY_OK);
	assert_false(sy_result_value(result, 0, &value));
	assert_true(sy_result_value(result, 1, &value));
	assert_memory_equal(value.data, "new", 3);
	assert_false(sy_result_value(result, 2, &value));
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, rows, 3, NULL, 0, 0, NULL, &err), SY_OK);
	await_clean(1, "a unit was replaced");
}

/* Many threads on one client: each owns its rows and checks every byte. */
struct worker {
	pthread_t thread;
	uint64_t seed;
	uint32_t number;
	int faults;
};

static void *work(void *argument)
{
	struct worker *me = argument;
	struct sy_prng prng;
	uint8_t bytes[70000];

	sy_prng_seed(&prng, me->seed + me->number);
	for (int i = 0; i < 150 && me->faults == 0; i++) {
		sy_key key = {1000 + me->number * 100 + sy_prng_below(&prng, 10), "t", 1};
		size_t n = (size_t)sy_prng_below(&prng, i % 3 == 0 ? sizeof bytes : 5000);
		sy_value value = {.data = bytes, .nbytes = n, .kind = SY_KIND_BYTES}, got;
		sy_result *result;

		fill(bytes, n, me->seed + (uint64_t)i);
		me->faults += sy_client_put(client, &key, &value, 1, 0, NULL) != SY_OK;
		if (sy_client_get(client, &key, 1, i % 2 ? SY_GET_VIEW : SY_GET_COPY, 0, &result, NULL) !=
		    SY_OK) {
			me->faults++;
			break;
		}
		me->faults += !sy_result_value(result, 0, &got) || got.nbytes != n ||
		              (n != 0 && memcmp(got.data, bytes, n) != 0);
		sy_result_free(result);
		if (i % 5 == 0)
			me->faults += sy_client_clear(client, &key.row, 1, NULL, 0, 0, NULL, NULL) != SY_OK;
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	enum { THREADS = 8 };
	struct worker workers[THREADS];
	uint64_t rows[2000], seed = harness_seed();

	(void)state;
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.seed = seed, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].faults, 0);
	}
	for (uint64_t i = 0; i < 2000; i++)
		rows[i] = 1000 + i;
	assert_int_equal(sy_client_clear(client, rows, 2000, NULL, 0, 0, NULL, NULL), SY_OK);
	await_clean(0, "many threads");
	await_clean(1, "many threads");
}

/* Runs a child's part, if this program was started as one. */
static void child_main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} PARTS[] = {
		{"put_and_stay", put_and_stay},
		{"view_and_stay", view_and_stay},
		{"read_after_a_stop", read_after_a_stop},
		{"view_after_a_stop", view_after_a_stop},
	};

	if (argc != 5 || strcmp(argv[1], "child") != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(cluster.run_dir, sizeof cluster.run_dir, "%s", argv[3]);
	child_pipe = (int)strtol(argv[4], NULL, 10);
	for (size_t i = 0; i < COUNT_OF(PARTS); i++) {
		if (strcmp(PARTS[i].name, argv[2]) == 0)
			PARTS[i].run();
	}
	exit(1);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	child_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_between_alloc_and_commit),
		cmocka_unit_test(test_killed_while_it_holds_pins),
		cmocka_unit_test(test_stopped_reader_of_a_view),
		cmocka_unit_test(test_stopped_reader_of_a_resolve),
		cmocka_unit_test(test_stopped_unit_is_not_lost),
		cmocka_unit_test(test_put_many_past_a_stopped_unit),
		cmocka_unit_test(test_forgotten_resolve),
		cmocka_unit_test(test_dead_unit_is_lost_until_replaced),
		cmocka_unit_test(test_many_threads),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
