/* The system gives less than it should: memory and descriptors that run out at every place in
 * turn, signals, clocks that jump an hour. The linker leads the calls of this program, which is
 * client, unit and directory in one, through here. */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bytes.h"
#include "clock.h"
#include "cluster.h"
#include "sanitized.h"
#include "shortage.h"
#include "thread_state.h"

enum { UNITS = 2, SLAB_BYTES = 4 << 20, BIG = 20000, PLACES_MAX = 400 };
static const uint64_t SECOND_NS = 1000000000u, HOUR_NS = 3600u * 1000000000u;

/* One file, mapped by every process of this test. All atomic. */
static struct shared {
	uint32_t of_directory;    /* memory is short there, not in a unit */
	uint32_t memory;          /* this allocation of it fails; 0: none */
	uint32_t memory_failed;   /* it did */
	uint32_t wall_jumps;      /* CLOCK_REALTIME is an hour early or late by turns */
	uint64_t boot_ahead_ns;   /* CLOCK_BOOTTIME: the host slept so long */
} nothing, *shared = &nothing;
static bool is_unit, is_directory;

bool runs_short(int error)
{
	bool of_directory = __atomic_load_n(&shared->of_directory, __ATOMIC_ACQUIRE) != 0;

	if (!(of_directory ? is_directory : is_unit) ||
	    __atomic_load_n(&shared->memory, __ATOMIC_ACQUIRE) == 0 ||
	    __atomic_sub_fetch(&shared->memory, 1, __ATOMIC_ACQ_REL) != 0)
		return false;
	__atomic_store_n(&shared->memory_failed, 1, __ATOMIC_RELEASE);
	errno = error;
	return true;
}

SHORTAGE(int, clock_gettime, clockid_t clock, struct timespec *ret_time)
{
	static uint32_t turn;
	int result = __real_clock_gettime(clock, ret_time);

	if (clock == CLOCK_REALTIME && __atomic_load_n(&shared->wall_jumps, __ATOMIC_ACQUIRE))
		ret_time->tv_sec += __atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED) % 2 ? 3600 : -3600;
	if (clock == CLOCK_BOOTTIME)
		ret_time->tv_sec += (time_t)(__atomic_load_n(&shared->boot_ahead_ns,
		                                             __ATOMIC_ACQUIRE) / SECOND_NS);
	return result;
}

/* --- The cluster and its use. --- */

static struct cluster cluster;
static char shared_path[64];
static uint8_t data[BIG];

static void share(void)
{
	const char *given = getenv("SY_TEST_SHARED");
	int fd;

	if (given != NULL) {
		fd = open(given, O_RDWR | O_CLOEXEC);
	} else {
		snprintf(shared_path, sizeof shared_path, "/tmp/slabyard-shared-%d", (int)getpid());
		setenv("SY_TEST_SHARED", shared_path, 1);
		fd = open(shared_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	}
	void *memory = MAP_FAILED;
	if (fd >= 0 && (given != NULL || ftruncate(fd, sizeof *shared) == 0))
		memory = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		abort();
	shared = memory;
	close(fd);
}

static int start(void **state)
{
	(void)state;
	memset(data, 0x5c, sizeof data);
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&cluster);
	return 0;
}

static sy_client *open_client(uint64_t timeout_ns)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = timeout_ns,
	                             .control_timeout_ns = SECOND_NS / 20};
	sy_client *client = NULL;
	sy_error err = {0};

	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

/* A row on either unit, large and small, put, read both ways and cleared. */
static sy_status use(sy_client *client, sy_error *err)
{
	sy_key keys[] = {{0, "big", 3}, {1, "big", 3}, {2, "small", 5}, {3, "small", 5}};
	sy_value values[4];
	uint64_t rows[] = {0, 1, 2, 3};
	sy_status status;

	for (int i = 0; i < 4; i++)
		values[i] = (sy_value){.data = data, .nbytes = i < 2 ? BIG : 100, .kind = SY_KIND_BYTES};
	if ((status = sy_client_put(client, keys, values, 2, 0, err)) != SY_OK ||
	    (status = sy_client_put(client, keys + 2, values + 2, 2, 0, err)) != SY_OK)
		return status;
	for (int flags = SY_GET_COPY; flags <= SY_GET_VIEW; flags++) {
		sy_result *result = NULL;
		sy_value value;

		if ((status = sy_client_get(client, keys, 4, flags, 0, &result, err)) != SY_OK)
			return status;
		for (size_t i = 0; i < 4; i++) {
			assert_true(sy_result_value(result, i, &value));
			assert_memory_equal(value.data, data, value.nbytes);
		}
		sy_result_free(result);
	}
	return sy_client_clear(client, rows, 4, NULL, 0, 0, NULL, err);
}

static sy_status open_use_close(uint64_t timeout_ns, sy_error *err)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = timeout_ns,
	                             .control_timeout_ns = SECOND_NS / 20};
	sy_client *client;
	sy_status status = sy_client_open(&options, &client, err);

	if (status != SY_OK)
		return status;
	status = use(client, err);
	sy_client_close(client);
	return status;
}

static void must_use(const char *when)
{
	sy_error err = {0};

	if (open_use_close(20 * SECOND_NS, &err) != SY_OK)
		fail_msg("%s: %s", when, err.message);
}

static bool is_typed(sy_status status)
{
	return status == SY_OK || status == SY_E_SYS || status == SY_E_TIMEOUT ||
	       status == SY_E_TRANSFER_FAILED || status == SY_E_AUTH;
}

/* --- Memory of a unit, and of the directory. --- */

static void fail_memory_at(uint32_t place)
{
	__atomic_store_n(&shared->memory_failed, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&shared->memory, place, __ATOMIC_RELEASE);
}

static bool has_failed(void)
{
	__atomic_store_n(&shared->memory, 0, __ATOMIC_RELEASE);
	return __atomic_load_n(&shared->memory_failed, __ATOMIC_ACQUIRE) != 0;
}

/* Starts unit 1 anew. True: it serves; false: it said why not and ended with 1. */
static bool starts(void)
{
	int status, ready_fd = cluster_spawn(&cluster, 1);
	bool ready = cluster_is_ready(&cluster, ready_fd);

	close(ready_fd);
	if (ready)
		return true;
	assert_int_equal(waitpid(cluster.units[1], &status, 0), cluster.units[1]);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	cluster.units[1] = 0;
	return false;
}

static void test_unit_starts_short_of_memory(void **state)
{
	uint32_t failures = 0, place = 0;
	bool failed = true;

	(void)state;
	while (failed) {
		assert_true(++place < PLACES_MAX);
		cluster_kill(&cluster, 1, SIGTERM);
		fail_memory_at(place);
		bool ready = starts();
		failed = has_failed();
		assert_true(ready || failed);
		failures += !ready;
		if (!ready)
			assert_true(starts()); /* with memory again nothing stands in its way */
	}
	print_message("a unit starts: memory short at %u places, it did not start at %u\n", place - 1,
	              failures);
	assert_true(failures > 0);
	must_use("after a start");
}

static void test_unit_runs_short_of_memory(void **state)
{
	uint32_t place = 0, errors = 0;
	bool failed = true;

	(void)state;
	while (failed) {
		sy_error err = {0};

		assert_true(++place < PLACES_MAX);
		cluster_kill(&cluster, 1, SIGTERM); /* a new one has its buffers still to make */
		cluster_restart(&cluster, 1);
		sy_client *client = open_client(20 * SECOND_NS);
		fail_memory_at(place);
		sy_status status = open_use_close(2 * SECOND_NS, &err);
		failed = has_failed();
		errors += status != SY_OK;
		if (!is_typed(status))
			fail_msg("place %u: %s: %s", place, sy_status_name(status), err.message);
		memset(&err, 0, sizeof err);
		if (use(client, &err) != SY_OK)
			fail_msg("after place %u: %s", place, err.message);
		sy_client_close(client);
		assert_int_equal(waitpid(cluster.units[1], NULL, WNOHANG), 0); /* it lives */
	}
	print_message("a unit runs: memory short at %u places, %u typed errors\n", place - 1, errors);
	assert_true(place > 1);
}

/* True: the directory's process has ended, which it does with 1. */
static bool has_ended(void)
{
	siginfo_t info = {0};

	assert_int_equal(waitid(P_PID, (id_t)cluster.server, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	assert_true(info.si_pid == 0 || (info.si_code == CLD_EXITED && info.si_status == 1));
	return info.si_pid != 0;
}

/* One that comes in the place of another, on what that had stored, and is asked. */
static void test_directory_short_of_memory(void **state)
{
	uint32_t place = 0, errors = 0, failures = 0;
	bool failed = true;

	(void)state;
	__atomic_store_n(&shared->of_directory, 1, __ATOMIC_RELEASE);
	while (failed) {
		sy_status status = SY_E_TIMEOUT;
		bool ended = false;

		assert_true(++place < PLACES_MAX);
		kill(cluster.server, SIGKILL);
		fail_memory_at(place);
		cluster_restart_directory(&cluster);
		for (int i = 0; i < 20 && status != SY_OK && !ended; i++) {
			sy_error err = {0};

			status = open_use_close(SECOND_NS, &err);
			errors += status != SY_OK;
			if (!is_typed(status))
				fail_msg("place %u: %s: %s", place, sy_status_name(status), err.message);
			ended = has_ended();
		}
		failed = has_failed();
		assert_true(failed || !ended);
		failures += ended;
		if (ended)
			cluster_restart_directory(&cluster);
		must_use("with memory again");
	}
	__atomic_store_n(&shared->of_directory, 0, __ATOMIC_RELEASE);
	print_message("a directory: memory short at %u places, it did not start at %u, %u typed "
	              "errors\n", place - 1, failures, errors);
	assert_true(failures > 0 && place - 1 > failures);
}

/* --- Descriptors. --- */

static rlim_t highest_fd(pid_t pid)
{
	char path[64];
	long highest = 2;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		long fd = strtol(entry->d_name, NULL, 10);

		highest = fd > highest && fd != dirfd(dir) ? fd : highest;
	}
	closedir(dir);
	return (rlim_t)highest + 1;
}

static void test_client_short_of_descriptors(void **state)
{
	struct rlimit was, now;
	rlim_t open_now = highest_fd(getpid());
	uint32_t errors = 0;
	sy_status status = SY_E_SYS;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	for (rlim_t more = 0; status != SY_OK; more++) {
		sy_error err = {0};

		assert_true(more < 64);
		now = (struct rlimit){.rlim_cur = open_now + more, .rlim_max = was.rlim_max};
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
		status = open_use_close(SECOND_NS / 3, &err);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
		errors += status != SY_OK;
		if (!is_typed(status) || (status != SY_OK && err.status != status))
			fail_msg("%u more: %s: %s", (unsigned)more, sy_status_name(status), err.message);
	}
	print_message("a client with too few descriptors: %u typed errors\n", errors);
	assert_true(errors > 0);
	must_use("with descriptors again");
}

static void test_unit_short_of_descriptors(void **state)
{
	struct rlimit was, now;
	pid_t pid = cluster.units[1];
	sy_client *client = open_client(20 * SECOND_NS);
	sy_error err = {0};
	uint32_t errors = 0;
	sy_status status = SY_E_SYS;

	(void)state;
	assert_int_equal(use(client, &err), SY_OK);
	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, NULL, &was), 0);
	rlim_t open_now = highest_fd(pid);
	for (rlim_t more = 0; status != SY_OK; more++) {
		assert_true(more < 64);
		now = (struct rlimit){.rlim_cur = open_now + more, .rlim_max = was.rlim_max};
		assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &now, NULL), 0);
		status = open_use_close(SECOND_NS / 3, &err);
		errors += status != SY_OK;
		if (!is_typed(status))
			fail_msg("%u more: %s: %s", (unsigned)more, sy_status_name(status), err.message);
		if (use(client, &err) != SY_OK) /* who is in stays in */
			fail_msg("with %u more: %s", (unsigned)more, err.message);
		assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &was, NULL), 0);
	}
	print_message("a unit with too few descriptors: %u typed errors\n", errors);
	assert_true(errors > 0);
	must_use("with descriptors again");
	sy_client_close(client);
}

/* --- Signals, clocks. --- */

static void on_signal(int number)
{
	(void)number;
}

static bool signalling; /* atomic */

static void *signal_them(void *target)
{
	const struct timespec pause = {0, 300000};

	while (__atomic_load_n(&signalling, __ATOMIC_ACQUIRE)) {
		pthread_kill(*(pthread_t *)target, SIGUSR1);
		kill(cluster.units[0], SIGSTOP); /* its wait ends with EINTR, too */
		kill(cluster.units[0], SIGCONT);
		nanosleep(&pause, NULL);
	}
	return NULL;
}

static void test_real_signals(void **state)
{
	struct sigaction action = {.sa_handler = on_signal}; /* nothing is started anew */
	static pthread_t me; /* if this fails, they go on */
	pthread_t other;

	(void)state;
	if (THREAD_SANITIZED) {
		print_message("skip: the thread sanitizer's runtime can stand still at a signal\n");
		skip();
	}
	me = pthread_self();
	sigaction(SIGUSR1, &action, NULL);
	__atomic_store_n(&signalling, true, __ATOMIC_RELEASE);
	assert_int_equal(pthread_create(&other, NULL, signal_them, &me), 0);
	for (int i = 0; i < 30; i++)
		must_use("with real signals");
	__atomic_store_n(&signalling, false, __ATOMIC_RELEASE);
	pthread_join(other, NULL);
}

static void test_the_wall_clock_jumps(void **state)
{
	(void)state;
	__atomic_store_n(&shared->wall_jumps, 1, __ATOMIC_RELEASE);
	for (int i = 0; i < 5; i++)
		must_use("with a wall clock that jumps");
	cluster_kill(&cluster, 1, SIGTERM);
	cluster_restart(&cluster, 1);
	must_use("after a start with a wall clock that jumps");
	__atomic_store_n(&shared->wall_jumps, 0, __ATOMIC_RELEASE);
}

/* The host slept: nobody gave anything up, and what is held is held. */
static void test_the_host_sleeps_an_hour(void **state)
{
	sy_client *client = open_client(20 * SECOND_NS);
	sy_key key = {1, "x", 1};
	sy_value value = {.data = data, .nbytes = BIG, .kind = SY_KIND_BYTES}, got;
	sy_result *view, *again;
	uint64_t row = 1;
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_client_put(client, &key, &value, 1, 0, &err), SY_OK);
	assert_int_equal(sy_client_get(client, &key, 1, SY_GET_VIEW, 0, &view, &err), SY_OK);
	__atomic_add_fetch(&shared->boot_ahead_ns, HOUR_NS, __ATOMIC_ACQ_REL);
	assert_int_equal(sy_client_get(client, &key, 1, SY_GET_COPY, 0, &again, &err), SY_OK);
	sy_result_free(again);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, &err), SY_OK);
	for (int i = 0; i < 20; i++)
		assert_int_equal(use(client, &err), SY_OK);
	assert_true(sy_result_value(view, 0, &got));
	assert_memory_equal(got.data, data, BIG);
	sy_result_free(view);
	must_use("after an hour's sleep");
	sy_client_close(client);
}

struct user {
	sy_client *client;
	pid_t tid; /* atomic; 0: not there yet */
	sy_status status;
};

static void *use_once(void *argument)
{
	struct user *user = argument;
	sy_error err = {0};

	__atomic_store_n(&user->tid, gettid(), __ATOMIC_RELEASE);
	user->status = use(user->client, &err);
	return NULL;
}

static void signal_unit(int signal)
{
	siginfo_t info;

	assert_int_equal(kill(cluster.units[0], signal), 0);
	if (signal == SIGSTOP)
		assert_int_equal(waitid(P_PID, (id_t)cluster.units[0], &info, WSTOPPED), 0);
}

/* With a call under way, which a unit answers at once afterwards, or not before it has ended. */
static void test_the_host_sleeps_in_a_call(void **state)
{
	const struct timespec pause = {0, 1000000};

	(void)state;
	for (int late = 0; late <= 1; late++) {
		struct user user = {.client = open_client(20 * SECOND_NS)};
		sy_key key = {100, "x", 1};
		sy_value value = {.data = data, .nbytes = BIG, .kind = SY_KIND_BYTES};
		sy_result *view;
		uint64_t row = 100;
		pthread_t thread;
		sy_error err = {0};

		assert_int_equal(sy_client_put(user.client, &key, &value, 1, 0, &err), SY_OK);
		assert_int_equal(sy_client_get(user.client, &key, 1, SY_GET_VIEW, 0, &view, &err), SY_OK);
		signal_unit(SIGSTOP);
		assert_int_equal(pthread_create(&thread, NULL, use_once, &user), 0);
		bool sleeps = false;
		for (int i = 0; i < 20000 && !sleeps; i++) {
			nanosleep(&pause, NULL);
			sleeps = thread_is(getpid(), __atomic_load_n(&user.tid, __ATOMIC_ACQUIRE), 'S');
		}
		assert_true(sleeps);
		__atomic_add_fetch(&shared->boot_ahead_ns, HOUR_NS, __ATOMIC_ACQ_REL);
		if (!late)
			signal_unit(SIGCONT);
		pthread_join(thread, NULL);
		if (late)
			signal_unit(SIGCONT);
		assert_true(is_typed(user.status) && (!late || user.status != SY_OK));
		assert_int_equal(use(user.client, &err), SY_OK);
		assert_true(sy_result_value(view, 0, &value));
		assert_memory_equal(value.data, data, BIG);
		sy_result_free(view);
		assert_int_equal(sy_client_clear(user.client, &row, 1, NULL, 0, 0, NULL, &err), SY_OK);
		sy_client_close(user.client);
	}
	must_use("after an hour's sleep in a call");
}

int main(int argc, char **argv)
{
	is_unit = argc > 1 && strcmp(argv[1], "cluster-unit") == 0;
	is_directory = argc > 1 && strcmp(argv[1], "cluster-directory") == 0;
	/* Descriptors are counted by the highest: one that we were started with must not be it. */
	if (argc == 1)
		close_range(3, UINT_MAX, 0);
	share();
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unit_starts_short_of_memory),
		cmocka_unit_test(test_unit_runs_short_of_memory),
		cmocka_unit_test(test_directory_short_of_memory),
		cmocka_unit_test(test_client_short_of_descriptors),
		cmocka_unit_test(test_unit_short_of_descriptors),
		cmocka_unit_test(test_real_signals),
		cmocka_unit_test(test_the_wall_clock_jumps),
		cmocka_unit_test(test_the_host_sleeps_an_hour),
		cmocka_unit_test(test_the_host_sleeps_in_a_call),
	};
	int failed = cmocka_run_group_tests(tests, start, stop);

	unlink(shared_path);
	return failed;
}
