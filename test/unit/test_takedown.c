/* What is said of a cluster that is ended, and what it leaves. */
#include "harness.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "late_end.h"
#include "lock_holder.h"
#include "run_folder.h"
#include "takedown.h"

static void put_file(const struct rig *rig, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", rig->path, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void drop_file(const struct rig *rig, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", rig->path, name);
	assert_int_equal(unlink(path), 0);
}

/* A pid that is nobody's. */
static pid_t dead_pid(void)
{
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0)
		_exit(0);
	assert_int_equal(waitpid(child, &status, 0), child);
	return child;
}

static enum sy_takedown look_down(const struct rig *rig)
{
	const struct sy_takedown_config config = {.run_dir = rig->path};
	enum sy_takedown what = 0;
	bool log_kept = true;
	sy_error err = {0};

	if (sy_takedown_run(&config, &what, &log_kept, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_false(log_kept);
	return what;
}

/* ... after which nothing is there. */
static enum sy_takedown down(const struct rig *rig)
{
	enum sy_takedown what = look_down(rig);

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

/* Killed as its first or last act, one leaves a directory without VERSION. */
static void test_what_is_left_without_version(void **state)
{
	static const char *const texts[] = {"", "slabyard run dir"};
	struct rig *rig = *state;
	char name[32];

	drop_file(rig, "VERSION");
	for (size_t i = 0; i < COUNT_OF(texts); i++) {
		snprintf(name, sizeof name, "VERSION.%d", (int)dead_pid());
		put_file(rig, name, texts[i]);
		assert_int_equal(down(rig), SY_TAKEDOWN_CLEANED);
		assert_int_equal(mkdir(rig->path, S_ISVTX | S_IRWXU), 0);
	}
	put_file(rig, "supervisor.lock", "");
	assert_int_equal(down(rig), SY_TAKEDOWN_CLEANED);
	assert_int_equal(down(rig), SY_TAKEDOWN_NOTHING);
}

static void test_who_begins_is_left_alone(void **state)
{
	struct rig *rig = *state;
	int fds[2], status = 0;
	char name[32];

	drop_file(rig, "VERSION");
	snprintf(name, sizeof name, "VERSION.%d", (int)getpid());
	put_file(rig, name, "");
	assert_int_equal(look_down(rig), SY_TAKEDOWN_NOTHING);
	pid_t holder = lock_holder_start(&rig->dir, false, fds);
	enum sy_takedown what = look_down(rig);
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_true(WIFEXITED(status));
	assert_int_equal(what, SY_TAKEDOWN_NOTHING);
	assert_true(rig_has(rig, name));
	assert_true(rig_has(rig, "supervisor.lock"));
}

/* Somebody's own file that is only named as one of ours. */
static void test_what_others_wrote_stays(void **state)
{
	struct rig *rig = *state;
	char name[32];

	snprintf(name, sizeof name, "VERSION.%d", (int)dead_pid());
	put_file(rig, name, "2.0 of something else\n");
	put_file(rig, "supervisor.lock", "");
	assert_int_equal(look_down(rig), SY_TAKEDOWN_CLEANED);
	assert_false(rig_has(rig, "VERSION"));
	assert_true(rig_has(rig, name));
	assert_false(rig_has(rig, "supervisor.lock"));
	put_file(rig, "supervisor.lock", "of another supervisor\n");
	assert_int_equal(look_down(rig), SY_TAKEDOWN_NOTHING);
	assert_true(rig_has(rig, name));
	assert_true(rig_has(rig, "supervisor.lock"));
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_who_lives_is_ended),
		WITH_RIG(test_who_was_killed_is_no_cluster),
		WITH_RIG(test_whose_last_thread_is_there_is_no_cluster),
		WITH_RIG(test_what_is_left_without_version),
		WITH_RIG(test_who_begins_is_left_alone),
		WITH_RIG(test_what_others_wrote_stays),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
