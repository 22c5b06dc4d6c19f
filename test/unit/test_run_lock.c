/* Who may take a run directory's lock while its last holder is being taken down. */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "late_end.h"
#include "lock_holder.h"

enum { TAKERS = 4, TAKES = 2000 };

struct taker {
	struct sy_run_dir dir;
	sy_status status;
	char words[sizeof((sy_error *)0)->message];
	pid_t tid;
	bool ended;
};

static char path[] = "/tmp/slabyard-lock-XXXXXX";

static void *take(void *argument)
{
	struct taker *taker = argument;
	struct sy_run_lock lock;
	sy_error err = {0};

	__atomic_store_n(&taker->tid, gettid(), __ATOMIC_RELEASE);
	taker->status = sy_run_lock_take(&taker->dir, &lock, &err);
	memcpy(taker->words, err.message, sizeof taker->words);
	if (taker->status == SY_OK)
		sy_run_lock_done(&lock);
	__atomic_store_n(&taker->ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void test_who_is_killed_is_waited_for(void **state)
{
	struct taker taker = {0};
	const bool never = false;
	pthread_t thread;
	int fds[2], status = 0;
	(void)state;

	assert_int_equal(sy_run_dir_open(path, true, &taker.dir, NULL), SY_OK);
	pid_t holder = lock_holder_start(&taker.dir, true, fds);
	lock_holder_await(holder, holder, 'Z', &never);
	assert_int_equal(pthread_create(&thread, NULL, take, &taker), 0);
	while (__atomic_load_n(&taker.tid, __ATOMIC_ACQUIRE) == 0)
		sched_yield();
	lock_holder_await(getpid(), taker.tid, 'S', &taker.ended); /* it waits, or it has given up */
	close(fds[1]);
	pthread_join(thread, NULL);
	if (taker.status != SY_OK)
		fail_msg("%s", taker.words);
	assert_int_equal(waitpid(holder, &status, 0), holder);
}

static void test_who_has_yet_to_die_is_waited_for(void **state)
{
	struct sy_run_dir dir;
	struct sy_run_lock lock;
	sy_error err = {0};
	cpu_set_t cpus;
	int fds[2], status = 0;
	(void)state;

	assert_int_equal(sy_run_dir_open(path, true, &dir, NULL), SY_OK);
	pid_t holder = lock_holder_start(&dir, false, fds);
	late_end_kill(holder, &cpus);
	sy_status taken = sy_run_lock_take(&dir, &lock, &err);
	assert_int_equal(sched_setaffinity(0, sizeof cpus, &cpus), 0);
	if (taken != SY_OK)
		fail_msg("%s", err.message);
	sy_run_lock_done(&lock);
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
}

static void test_who_runs_is_not(void **state)
{
	struct sy_run_dir dir;
	struct sy_run_lock lock;
	sy_error err = {0};
	int fds[2], status = 0;
	(void)state;

	assert_int_equal(sy_run_dir_open(path, true, &dir, NULL), SY_OK);
	pid_t holder = lock_holder_start(&dir, false, fds);
	assert_int_equal(sy_run_lock_take(&dir, &lock, &err), SY_E_BUSY);
	assert_non_null(strstr(err.message, "already runs"));
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(sy_run_lock_take(&dir, &lock, &err), SY_OK);
	sy_run_lock_done(&lock);
}

/* Who cannot have the directory has made nothing in it. */
static void test_version_comes_with_the_lock(void **state)
{
	struct sy_run_dir dir;
	struct sy_run_lock lock;
	char version[SY_RUN_PATH_BYTES];
	int fds[2], status = 0;
	(void)state;

	assert_int_equal(sy_run_dir_open(path, true, &dir, NULL), SY_OK);
	assert_int_equal(sy_run_dir_file(&dir, "VERSION", version, NULL), SY_OK);
	assert_int_equal(unlink(version), 0); /* as one that is about to end has */
	pid_t holder = lock_holder_start(&dir, false, fds);
	assert_int_equal(sy_run_lock_open(path, &dir, &lock, NULL), SY_E_BUSY);
	assert_int_not_equal(access(version, F_OK), 0);
	close(fds[1]);
	assert_int_equal(waitpid(holder, &status, 0), holder);
	for (int bare = 1; bare >= 0; bare--) {
		assert_int_equal(sy_run_lock_open(path, &dir, &lock, NULL), SY_OK);
		assert_int_equal(lock.was_bare, bare);
		assert_int_equal(access(version, F_OK), 0);
		sy_run_lock_done(&lock);
	}
}

/* True: each time that it had the lock it was alone. */
static bool take_over_and_over(const struct sy_run_dir *dir)
{
	char alone[SY_RUN_PATH_BYTES];
	struct sy_run_lock lock;

	if (sy_run_dir_file(dir, "alone", alone, NULL) != SY_OK)
		return false;
	for (int take = 0; take < TAKES; take++) {
		if (sy_run_lock_take(dir, &lock, NULL) != SY_OK)
			continue;
		int fd = open(alone, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		sched_yield();
		if (fd < 0 || close(fd) != 0 || unlink(alone) != 0)
			return false;
		sy_run_lock_done(&lock);
	}
	return true;
}

/* Who ends removes the file that others have open to lock it. */
static void test_one_at_a_time(void **state)
{
	struct sy_run_dir dir;
	pid_t takers[TAKERS];
	int status = 0, failed = 0;
	(void)state;

	assert_int_equal(sy_run_dir_open(path, true, &dir, NULL), SY_OK);
	for (int i = 0; i < TAKERS; i++) {
		takers[i] = fork();
		assert_true(takers[i] >= 0);
		if (takers[i] == 0)
			_exit(take_over_and_over(&dir) ? 0 : 1);
	}
	for (int i = 0; i < TAKERS; i++) {
		assert_int_equal(waitpid(takers[i], &status, 0), takers[i]);
		failed += status != 0;
	}
	assert_int_equal(failed, 0);
}

static int teardown(void **state)
{
	static const char *const names[] = {"VERSION", "alone", "supervisor.lock"};
	char name[sizeof path + 32];
	(void)state;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(name, sizeof name, "%s/%s", path, names[i]);
		(void)unlink(name);
	}
	return rmdir(path);
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(path) == NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_is_killed_is_waited_for),
		cmocka_unit_test(test_who_has_yet_to_die_is_waited_for),
		cmocka_unit_test(test_who_runs_is_not),
		cmocka_unit_test(test_version_comes_with_the_lock),
		cmocka_unit_test(test_one_at_a_time),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
