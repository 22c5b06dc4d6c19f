/* A cluster of several hosts, as far as one host can be several: directory and units in processes
 * that nobody watches, each unit in a run directory of its own. Death is known by leases alone. */
#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "daemon.h"
#include "dir_daemon.h"
#include "runfiles.h"

enum { UNITS = 2, ROWS = 8, TEXT_BYTES = 128 };

static const uint64_t MS = 1000000u, SECOND_NS = 1000000000u;
static const uint64_t PATIENCE_NS = 60 * 1000000000ull;

static struct {
	char top[64], address[TEXT_BYTES];
	uint64_t suspect_ms, fence_ms, dead_ms;
	pid_t directory, units[UNITS];
	sy_directory *view;
	sy_client *client;
} hosts;

static int ready_fd;

static bool say_address(void *context, const char *run_dir, const char *address)
{
	(void)context;
	(void)run_dir;
	return write(ready_fd, address, strlen(address) + 1) > 0;
}

static void say_ready(void *context, const struct sy_unit_info *info)
{
	(void)context;
	(void)info;
	ssize_t unused = write(ready_fd, "", 1);
	(void)unused;
}

/* argv: program, role, pipe, run directory, address, three times or the unit's id */
static int play(char **argv)
{
	sy_error err = {0};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ready_fd = (int)strtol(argv[2], NULL, 10);
	if (strcmp(argv[1], "directory") == 0) {
		const struct sy_dir_daemon_config config = {
			.run_dir = argv[3], .slot_count = UNITS, .listen = argv[4], .ready = say_address,
			.times = {strtoull(argv[5], NULL, 10) * MS, strtoull(argv[6], NULL, 10) * MS,
			          strtoull(argv[7], NULL, 10) * MS}};
		sy_status status = sy_dir_daemon_run(&config, &err);
		if (status != SY_OK)
			fprintf(stderr, "directory: %s\n", err.message);
		return status == SY_OK ? 0 : 1;
	}
	struct sy_unit_config config;
	sy_unit_config_init(&config);
	config.run_dir = argv[3];
	config.directory = argv[4];
	config.unit_id = (uint32_t)strtoul(argv[5], NULL, 10);
	config.slot_count = UNITS;
	config.slab_bytes = 4 << 20;
	config.heartbeat_ns = 100 * MS;
	config.session_expire_ns = 2 * SECOND_NS;
	config.ready = say_ready;
	return sy_unit_run(&config, 1);
}

/* Runs this program in a role and waits until it is ready; what it said is in `said`. */
static pid_t start(const char *role, const char *const words[5], char said[TEXT_BYTES])
{
	int ends[2];
	char fd[16];
	assert_int_equal(pipe(ends), 0);
	snprintf(fd, sizeof fd, "%d", ends[1]);
	const char *argv[] = {"test_leases", role,     fd,       words[0], words[1],
	                      words[2],      words[3], words[4], NULL};
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(ends[0]);
		execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(ends[1]);
	struct pollfd ready = {.fd = ends[0], .events = POLLIN};
	assert_int_equal(poll(&ready, 1, (int)(PATIENCE_NS / MS)), 1);
	assert_true(read(ends[0], said, TEXT_BYTES) > 0);
	close(ends[0]);
	return pid;
}

static void host_dir(char out[TEXT_BYTES], const char *name, uint32_t number)
{
	snprintf(out, TEXT_BYTES, "%s/%s%u", hosts.top, name, number);
}

static void start_directory(void)
{
	char dir[TEXT_BYTES], times[3][24], said[TEXT_BYTES];
	const uint64_t lasts_ms[] = {hosts.suspect_ms, hosts.fence_ms, hosts.dead_ms};
	host_dir(dir, "directory", 0);
	for (int i = 0; i < 3; i++)
		snprintf(times[i], sizeof times[i], "%llu", (unsigned long long)lasts_ms[i]);
	const char *const words[5] = {dir, hosts.address, times[0], times[1], times[2]};
	hosts.directory = start("directory", words, said);
	snprintf(hosts.address, sizeof hosts.address, "%s", said); /* the same one at a restart */
}

static void start_unit(uint32_t unit_id)
{
	char dir[TEXT_BYTES], id[16], said[TEXT_BYTES];
	host_dir(dir, "host", unit_id);
	snprintf(id, sizeof id, "%u", unit_id);
	const char *const words[5] = {dir, hosts.address, id, NULL, NULL};
	hosts.units[unit_id] = start("unit", words, said);
}

static void open_client(void)
{
	const sy_client_options options = {
		.directory = hosts.address, .timeout_ns = PATIENCE_NS, .control_timeout_ns = 200 * MS};
	sy_error err = {0};
	if (sy_client_open(&options, &hosts.client, &err) != SY_OK)
		fail_msg("%s", err.message);
}

static void begin(uint64_t suspect_ms, uint64_t fence_ms, uint64_t dead_ms)
{
	hosts.suspect_ms = suspect_ms;
	hosts.fence_ms = fence_ms;
	hosts.dead_ms = dead_ms;
	snprintf(hosts.top, sizeof hosts.top, "/tmp/slabyard-test-XXXXXX");
	assert_non_null(mkdtemp(hosts.top));
	snprintf(hosts.address, sizeof hosts.address, "tcp://127.0.0.1:*");
	start_directory();
	for (uint32_t i = 0; i < UNITS; i++)
		start_unit(i);
	const sy_directory_options options = {.address = hosts.address, .timeout_ns = PATIENCE_NS};
	assert_int_equal(sy_directory_open(&options, &hosts.view, NULL), SY_OK);
	open_client();
}

static int end_process(pid_t *pid, int signal)
{
	int status = 0;
	if (*pid <= 0)
		return 0;
	/* In this order: the leak sanitizer stops a process at its end, and must not be undone. */
	kill(*pid, SIGCONT);
	kill(*pid, signal);
	waitpid(*pid, &status, 0);
	*pid = 0;
	return status;
}

static void remove_folder(const char *path)
{
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

/* Also where a test failed in its middle. */
static int end_all(void **state)
{
	char path[TEXT_BYTES];
	(void)state;
	sy_client_close(hosts.client);
	sy_directory_close(hosts.view);
	for (uint32_t i = 0; i < UNITS; i++)
		(void)end_process(&hosts.units[i], SIGTERM);
	(void)end_process(&hosts.directory, SIGTERM);
	for (uint32_t i = 0; i < UNITS; i++) {
		struct sy_run_dir dir;
		struct sy_run_unit unit;
		host_dir(path, "host", i);
		/* What a killed one left goes by the lock file, as a successor does it. */
		if (sy_run_dir_open(path, false, &dir, NULL) == SY_OK &&
		    sy_run_unit_init(&dir, i, &unit, NULL) == SY_OK)
			sy_run_unit_done(&unit);
		remove_folder(path);
	}
	host_dir(path, "directory", 0);
	remove_folder(path);
	bool gone = hosts.top[0] == '\0' || rmdir(hosts.top) == 0;
	memset(&hosts, 0, sizeof hosts);
	return gone ? 0 : -1;
}

static sy_unit_entry entry_of(uint32_t unit_id)
{
	sy_unit_entry units[UNITS];
	size_t count = 0;
	sy_error err = {0};
	if (sy_directory_units(hosts.view, 0, 0, units, UNITS, &count, NULL, NULL, &err) != SY_OK)
		fail_msg("%s", err.message);
	return units[unit_id];
}

static void await_state(uint32_t unit_id, const char *state)
{
	for (uint64_t end_ns = sy_clock_now_ns() + PATIENCE_NS; sy_clock_now_ns() < end_ns;) {
		if (strcmp(entry_of(unit_id).state, state) == 0)
			return;
		poll(NULL, 0, 2); /* nobody tells who asks the directory */
	}
	fail_msg("unit %u never came to be %s", unit_id, state);
}

static void expect_the_same_units(const uint64_t incarnations[UNITS])
{
	for (uint32_t i = 0; i < UNITS; i++) {
		await_state(i, "active");
		assert_int_equal(entry_of(i).incarnation, incarnations[i]);
	}
}

/* Row r lives on unit r % 2 and holds its own number, many times over where it is large. */
static sy_status put_row(uint64_t row, size_t words, uint64_t wait_ns)
{
	uint64_t *data = calloc(words, sizeof *data);
	assert_non_null(data);
	for (size_t i = 0; i < words; i++)
		data[i] = row;
	const sy_key key = {row, "field", 5};
	const sy_value value = {
		.data = data, .nbytes = words * sizeof *data, .kind = SY_KIND_BYTES};
	sy_error err = {0};
	sy_status status =
		sy_client_put(hosts.client, &key, &value, 1, sy_deadline_after(wait_ns), &err);
	free(data);
	return status;
}

/* SY_OK, and the value is the row's; the row is there or not as `there` says. */
static sy_status get_row(uint64_t row, bool there, uint64_t wait_ns, sy_error *err)
{
	const sy_key key = {row, "field", 5};
	sy_result *result = NULL;
	sy_status status = sy_client_get(hosts.client, &key, 1, SY_GET_COPY,
	                                 sy_deadline_after(wait_ns), &result, err);
	if (status != SY_OK)
		return status;
	sy_value value;
	assert_int_equal(sy_result_value(result, 0, &value), there);
	for (size_t i = 0; there && i < value.nbytes / sizeof row; i++)
		assert_memory_equal((const uint8_t *)value.data + i * sizeof row, &row, sizeof row);
	sy_result_free(result);
	return SY_OK;
}

static void expect_row(uint64_t row, bool there)
{
	sy_error err = {0};
	if (get_row(row, there, PATIENCE_NS, &err) != SY_OK)
		fail_msg("row %llu: %s", (unsigned long long)row, err.message);
}

static void put_rows(void)
{
	for (uint64_t row = 0; row < ROWS; row++)
		assert_int_equal(put_row(row, row % 4 < 2 ? 8 : 4096, PATIENCE_NS), SY_OK);
}

static void expect_rows(void)
{
	for (uint64_t row = 0; row < ROWS; row++)
		expect_row(row, true);
}

/* Puts, gets and clears between a client and units that know each other; step 2: unit 0 alone. */
static void work_on(uint64_t step)
{
	for (uint64_t row = 100; row < 150; row += step) {
		assert_int_equal(put_row(row, row % 4 < 2 ? 8 : 4096, PATIENCE_NS), SY_OK);
		expect_row(row, true);
		assert_int_equal(sy_client_clear(hosts.client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
		expect_row(row, false);
	}
}

static void work(void)
{
	work_on(1);
}

/* Until the unit of a row answers nobody: no call may say lost, each ends by its deadline. */
static void await_fence(uint64_t row)
{
	for (uint64_t end_ns = sy_clock_now_ns() + PATIENCE_NS; sy_clock_now_ns() < end_ns;) {
		sy_error err = {0};
		sy_status status = get_row(row, true, 100 * MS, &err);
		if (status == SY_OK)
			continue;
		assert_int_equal(status, SY_E_TIMEOUT);
		if (err.reason != NULL && strcmp(err.reason, "fenced") == 0)
			return;
	}
	fail_msg("the unit of row %llu went on answering", (unsigned long long)row);
}

static void test_a_stopped_unit_loses_nothing_and_comes_back(void **state)
{
	(void)state;
	begin(300, 1000, 60000);
	put_rows();
	uint64_t incarnation = entry_of(1).incarnation;
	kill(hosts.units[1], SIGSTOP);
	await_state(1, "suspect");
	sy_error err = {0};
	assert_int_equal(get_row(1, true, 300 * MS, &err), SY_E_TIMEOUT); /* and not lost */
	expect_row(0, true); /* the other serves on */
	kill(hosts.units[1], SIGCONT);
	await_state(1, "active");
	expect_rows();
	work();
	assert_int_equal(entry_of(1).incarnation, incarnation);
}

static void test_a_short_absence_of_the_directory_stops_nothing(void **state)
{
	(void)state;
	begin(1000, 60000, 90000);
	put_rows();
	work(); /* they know each other */
	uint64_t incarnation = entry_of(0).incarnation;
	kill(hosts.directory, SIGSTOP);
	work();
	kill(hosts.directory, SIGCONT);
	(void)end_process(&hosts.directory, SIGKILL);
	work();
	start_directory();
	work();
	expect_rows();
	await_state(0, "active");
	await_state(1, "active");
	assert_int_equal(entry_of(0).incarnation, incarnation);
}

/* Kind: process stalled, everyone else declared dead.
 * Longer than the lease: units pause, calls end by their deadlines, nothing is lost, and nobody is
 * taken for dead by a directory that was not there to listen. */
static void test_a_long_absence_pauses_and_loses_nothing(void **state)
{
	(void)state;
	begin(300, 1000, 3000);
	put_rows();
	const uint64_t incarnations[UNITS] = {entry_of(0).incarnation, entry_of(1).incarnation};
	for (int restart = 0; restart < 2; restart++) {
		uint64_t gone_ns = sy_clock_now_ns();
		if (restart)
			(void)end_process(&hosts.directory, SIGKILL);
		else
			kill(hosts.directory, SIGSTOP);
		for (uint64_t row = 0; row < UNITS; row++)
			await_fence(row);
		sy_error err = {0};
		while (sy_clock_now_ns() < gone_ns + (hosts.dead_ms + 500) * MS) {
			/* Until each lease is over for long. */
			assert_int_equal(get_row(0, true, 200 * MS, &err), SY_E_TIMEOUT);
			assert_int_not_equal(put_row(200, 8, 100 * MS), SY_E_LOST);
		}
		if (restart)
			start_directory();
		else
			kill(hosts.directory, SIGCONT);
		expect_rows();
		work();
		expect_the_same_units(incarnations);
	}
}

/* kill -9 where no supervisor sees it: suspect, then dead, and only then lost. */
static void test_a_killed_unit_is_lost_only_when_it_is_dead(void **state)
{
	(void)state;
	begin(300, 1000, 4000);
	put_rows();
	(void)end_process(&hosts.units[1], SIGKILL);
	sy_error err = {0};
	sy_status status;
	bool was_suspect = false;
	uint64_t end_ns = sy_clock_now_ns() + PATIENCE_NS;
	while ((status = get_row(1, true, 100 * MS, &err)) != SY_E_LOST) {
		assert_true(sy_clock_now_ns() < end_ns);
		assert_true(status == SY_E_TIMEOUT || status == SY_E_TRANSFER_FAILED);
		was_suspect = was_suspect || strcmp(entry_of(1).state, "suspect") == 0;
	}
	assert_string_equal(entry_of(1).state, "dead");
	assert_true(was_suspect);
	assert_int_not_equal(put_row(1, 8, 100 * MS), SY_OK);
	const uint64_t row = 1;
	assert_int_equal(sy_client_clear(hosts.client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	expect_row(0, true);
	start_unit(1);
	expect_row(1, false);
	work();
}

/* Its successor on the same host knows by the lock that it has ended: no lease is waited for. */
static void test_a_successor_on_the_same_host_need_not_wait(void **state)
{
	(void)state;
	begin(1000, 60000, 3600 * 1000);
	put_rows();
	uint64_t incarnation = entry_of(1).incarnation;
	(void)end_process(&hosts.units[1], SIGKILL);
	start_unit(1);
	assert_int_not_equal(entry_of(1).incarnation, incarnation);
	/* One that still went to the dead incarnation is told that it is lost. */
	sy_error err = {0};
	sy_status status = get_row(1, false, PATIENCE_NS, &err);
	assert_true(status == SY_OK || status == SY_E_LOST);
	expect_row(1, false);
	expect_row(0, true);
	work();
}

/* Stopped past its lease it is dead for ever: when it goes on it answers nobody, and ends. */
static void test_a_unit_that_slept_through_its_death_ends(void **state)
{
	(void)state;
	begin(200, 1000, 3000);
	put_rows();
	kill(hosts.units[1], SIGSTOP);
	await_state(1, "dead");
	uint64_t incarnation = entry_of(1).incarnation;
	sy_error err = {0};
	/* Whose connection stands yet asks when no answer came for long, and then at once. */
	assert_int_equal(get_row(1, true, PATIENCE_NS, &err), SY_E_LOST);
	expect_row(0, true);
	assert_int_not_equal(put_row(1, 8, PATIENCE_NS), SY_OK);
	sy_client_close(hosts.client);
	open_client();
	assert_int_equal(get_row(1, true, PATIENCE_NS, &err), SY_E_LOST);
	kill(hosts.units[1], SIGCONT);
	int status = 0;
	assert_int_equal(waitpid(hosts.units[1], &status, 0), hosts.units[1]);
	hosts.units[1] = 0;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_string_equal(entry_of(1).state, "dead");
	assert_int_equal(entry_of(1).incarnation, incarnation);
	start_unit(1);
	expect_row(1, false);
	expect_row(0, true);
}

/* Until a unit takes no put of this row: it hears that it drains at its next renewal. */
static void await_draining(uint64_t row)
{
	const sy_key key = {row, "field", 5};
	const sy_value value = {.data = &row, .nbytes = sizeof row, .kind = SY_KIND_BYTES};
	for (uint64_t end_ns = sy_clock_now_ns() + PATIENCE_NS; sy_clock_now_ns() < end_ns;) {
		sy_error err = {0};
		sy_status status =
			sy_client_put(hosts.client, &key, &value, 1, sy_deadline_after(300 * MS), &err);
		assert_true(status == SY_OK || status == SY_E_TIMEOUT);
		if (status != SY_OK && err.reason != NULL && strcmp(err.reason, "draining") == 0)
			return;
	}
	fail_msg("the unit of row %llu went on taking rows", (unsigned long long)row);
}

/* Draining refuses what needs room, and only that. */
static void test_a_draining_unit_serves_what_it_has(void **state)
{
	(void)state;
	begin(1000, 60000, 90000);
	put_rows();
	sy_error err = {0};
	assert_int_equal(sy_directory_drain(hosts.view, 1, true, 0, &err), SY_OK);
	await_state(1, "draining");
	await_draining(101);
	assert_int_equal(put_row(101, 4096, 100 * MS), SY_E_TIMEOUT);
	expect_rows();
	const uint64_t row = 3;
	assert_int_equal(sy_client_clear(hosts.client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	expect_row(3, false);
	assert_int_equal(put_row(100, 8, PATIENCE_NS), SY_OK);
	assert_int_equal(sy_directory_drain(hosts.view, 1, false, 0, &err), SY_OK);
	assert_int_equal(put_row(101, 8, PATIENCE_NS), SY_OK);
	assert_int_equal(sy_directory_drain(hosts.view, UNITS, true, 0, &err), SY_E_INVALID);
}

/* --- The same with the times that a cluster has by itself, for minutes. --- */

static void test_a_unit_stopped_for_20_s(void **state)
{
	(void)state;
	begin(5000, 45000, 60000);
	put_rows();
	uint64_t incarnation = entry_of(1).incarnation;
	kill(hosts.units[1], SIGSTOP);
	for (uint64_t end_ns = sy_clock_now_ns() + 20 * SECOND_NS; sy_clock_now_ns() < end_ns;) {
		sy_error err = {0};
		assert_int_equal(get_row(1, true, 200 * MS, &err), SY_E_TIMEOUT);
		assert_int_not_equal(put_row(1, 8, 200 * MS), SY_E_LOST);
		work_on(2);
	}
	assert_string_equal(entry_of(1).state, "suspect");
	kill(hosts.units[1], SIGCONT);
	expect_rows();
	work();
	await_state(1, "active");
	assert_int_equal(entry_of(1).incarnation, incarnation);
}

static void test_a_directory_stopped_for_20_s(void **state)
{
	(void)state;
	begin(5000, 45000, 60000);
	put_rows();
	work();
	const uint64_t incarnations[UNITS] = {entry_of(0).incarnation, entry_of(1).incarnation};
	kill(hosts.directory, SIGSTOP);
	for (uint64_t end_ns = sy_clock_now_ns() + 20 * SECOND_NS; sy_clock_now_ns() < end_ns;) {
		work();
		expect_rows();
	}
	kill(hosts.directory, SIGCONT);
	work();
	expect_the_same_units(incarnations);
}

/* Past the fence, and past what would make both dead. */
static void test_a_directory_stopped_for_70_s(void **state)
{
	(void)state;
	begin(5000, 45000, 60000);
	put_rows();
	work();
	const uint64_t incarnations[UNITS] = {entry_of(0).incarnation, entry_of(1).incarnation};
	kill(hosts.directory, SIGSTOP);
	uint64_t end_ns = sy_clock_now_ns() + 70 * SECOND_NS;
	for (uint64_t row = 0; row < UNITS; row++)
		await_fence(row);
	while (sy_clock_now_ns() < end_ns) {
		sy_error err = {0};
		assert_int_equal(get_row(0, true, SECOND_NS, &err), SY_E_TIMEOUT);
	}
	kill(hosts.directory, SIGCONT);
	expect_rows();
	work();
	expect_the_same_units(incarnations);
}

int main(int argc, char **argv)
{
	if (argc > 5)
		return play(argv);
#define ENDED(test) cmocka_unit_test_teardown(test, end_all)
	const struct CMUnitTest tests[] = {
		ENDED(test_a_stopped_unit_loses_nothing_and_comes_back),
		ENDED(test_a_short_absence_of_the_directory_stops_nothing),
		ENDED(test_a_long_absence_pauses_and_loses_nothing),
		ENDED(test_a_killed_unit_is_lost_only_when_it_is_dead),
		ENDED(test_a_successor_on_the_same_host_need_not_wait),
		ENDED(test_a_unit_that_slept_through_its_death_ends),
		ENDED(test_a_draining_unit_serves_what_it_has),
	};
	const struct CMUnitTest long_tests[] = {
		ENDED(test_a_unit_stopped_for_20_s),
		ENDED(test_a_directory_stopped_for_20_s),
		ENDED(test_a_directory_stopped_for_70_s),
	};
	if (argc == 2 && strcmp(argv[1], "--own-times") == 0)
		return cmocka_run_group_tests(long_tests, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
