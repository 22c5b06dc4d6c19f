/* What is said of a cluster that is ended, and what it leaves. */
#include "harness.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "late_end.h"
#include "lock_holder.h"
#include "takedown.h"

struct rig {
	char parent[64], path[96];
	struct sy_run_dir dir;
};

static int open_rig(void **state)
{
	struct rig *rig = calloc(1, sizeof *rig);
	sy_error err = {0};

	assert_non_null(rig);
	snprintf(rig->parent, sizeof rig->parent, "/tmp/slabyard-down-XXXXXX");
	assert_non_null(mkdtemp(rig->parent));
	snprintf(rig->path, sizeof rig->path, "%s/run", rig->parent);
	if (sy_run_dir_open(rig->path, true, &rig->dir, &err) != SY_OK)
		fail_msg("%s", err.message);
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", rig->parent);
	int left = system(command);
	free(rig);
	return left;
}

static enum sy_takedown down(const struct rig *rig)
{
	const struct sy_takedown_config config = {.run_dir = rig->path};
	enum sy_takedown what = 0;
	bool log_kept = true;
	sy_error err = {0};

	if (sy_takedown_run(&config, &what, &log_kept, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_false(log_kept);
	assert_int_not_equal(access(rig->path, F_OK), 0);
	return what;
}

static void test_who_lives_is_ended(void **state)
{
	struct rig *rig = *state;
	int fds[2], status = 0;
	pid_t pid = 0;

	pid_t holder = lock_holder_start(&rig->dir, false, fds);
	assert_true(sy_takedown_is_running(rig->path, &pid));
	assert_int_equal(pid, holder);
	enum sy_takedown what = down(rig);
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(what, SY_TAKEDOWN_STOPPED);
	assert_int_equal(down(rig), SY_TAKEDOWN_NOTHING);
}

/* It holds its lock until the system has taken it down. */
static void test_who_was_killed_is_no_cluster(void **state)
{
	struct rig *rig = *state;
	int fds[2], status = 0;
	cpu_set_t cpus;
	pid_t pid = 0;

	pid_t holder = lock_holder_start(&rig->dir, false, fds);
	late_end_kill(holder, &cpus);
	bool is_running = sy_takedown_is_running(rig->path, &pid);
	enum sy_takedown what = down(rig);
	assert_int_equal(sched_setaffinity(0, sizeof cpus, &cpus), 0);
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_false(is_running);
	assert_int_equal(what, SY_TAKEDOWN_CLEANED);
}

static void test_whose_last_thread_is_there_is_no_cluster(void **state)
{
	struct rig *rig = *state;
	const bool never = false;
	int fds[2], status = 0;
	pid_t pid = 0;

	pid_t holder = lock_holder_start(&rig->dir, true, fds);
	lock_holder_await(holder, holder, 'Z', &never);
	bool is_running = sy_takedown_is_running(rig->path, &pid);
	enum sy_takedown what = down(rig);
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_false(is_running);
	assert_int_equal(what, SY_TAKEDOWN_CLEANED);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_who_lives_is_ended),
		WITH_RIG(test_who_was_killed_is_no_cluster),
		WITH_RIG(test_whose_last_thread_is_there_is_no_cluster),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
