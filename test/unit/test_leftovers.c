/* What a cluster leaves in its run directory, and who may say that it is gone. */
#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "entropy.h"
#include "leftovers.h"
#include "run_folder.h"
#include "takedown.h"

enum { UNITS = 400, STOPPED = 40, FEW_DESCRIPTORS = 24 };

static const uint64_t GRACE_NS = 20000000000u; /* for what must happen */

static void put_file(const struct rig *rig, const char *name, const char *text)
{
	char path[SY_RUN_PATH_BYTES];

	assert_int_equal(sy_run_dir_file(&rig->dir, name, path, NULL), SY_OK);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* A killed unit's three files. */
static void put_unit(const struct rig *rig, uint32_t unit_id, const char *lock_text)
{
	static const char *const endings[] = {"ipc", "sock", "lock"};
	char name[32];

	for (size_t i = 0; i < COUNT_OF(endings); i++) {
		snprintf(name, sizeof name, "unit-%u.%s", (unsigned)unit_id, endings[i]);
		put_file(rig, name, strcmp(endings[i], "lock") == 0 ? lock_text : "");
	}
}

static void put_slab(uint32_t unit_id, char ret_path[SY_SLAB_PATH_BYTES])
{
	char name[SY_SLAB_NAME_BYTES];

	sy_slab_name(unit_id, (sy_incarnation){sy_entropy_u64()}, name);
	snprintf(ret_path, SY_SLAB_PATH_BYTES, "%s/%s", SY_SLAB_DIR, name);
	int fd = open(ret_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
}

/* More files than there may be units. */
static void test_what_many_units_left(void **state)
{
	struct rig *rig = *state;
	const struct sy_takedown_config config = {.run_dir = rig->path};
	static char slabs[UNITS][SY_SLAB_PATH_BYTES];
	enum sy_takedown what = 0;
	char text[256];
	bool log_kept = true;
	sy_error err = {0};
	int left = 0;

	for (uint32_t i = 0; i < UNITS; i++) {
		put_slab(i, slabs[i]);
		snprintf(text, sizeof text, "pid 1\nincarnation %016x\nslab %s\n", i + 1, slabs[i]);
		put_unit(rig, i, text);
	}
	sy_status status = sy_takedown_run(&config, &what, &log_kept, &err);
	for (uint32_t i = 0; i < UNITS; i++)
		left += unlink(slabs[i]) == 0;
	if (status != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(left, 0);
	assert_int_equal(what, SY_TAKEDOWN_CLEANED);
	assert_int_not_equal(access(rig->path, F_OK), 0);
}

/* Whoever finds VERSION looks for what else is there. */
static void test_version_goes_last(void **state)
{
	struct rig *rig = *state;
	char name[SY_RUN_PATH_BYTES], path[SY_RUN_PATH_BYTES];
	struct sy_run_unit unit;
	int ready[2], over[2], status = 0;
	char byte = 0;

	put_unit(rig, 1, "");
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(over), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(over[1]);
		if (sy_run_unit_init(&rig->dir, 2, &unit, NULL) != SY_OK ||
		    write(ready[1], &byte, 1) != 1 || read(over[0], &byte, 1) != 0)
			_exit(1);
		_exit(0);
	}
	close(over[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_true(sy_leftovers_remove(&rig->dir, false));
	bool kept_version = rig_has(rig, "VERSION"), kept_unit = rig_has(rig, "unit-2.lock");
	close(over[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(kept_unit);
	assert_true(kept_version);
	assert_false(rig_has(rig, "unit-1.lock"));
	/* Nor does one that cannot be removed. */
	assert_int_equal(sy_run_dir_file(&rig->dir, "directory.ipc", path, NULL), SY_OK);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_true(sy_leftovers_remove(&rig->dir, false));
	assert_true(rig_has(rig, "VERSION"));
	assert_true(sy_leftovers_find(&rig->dir, name));
	assert_string_equal(name, path);
	assert_int_equal(rmdir(path), 0);
	assert_true(sy_leftovers_remove(&rig->dir, false));
	assert_false(rig_has(rig, "VERSION"));
	assert_false(sy_leftovers_find(&rig->dir, name));
	close(ready[0]);
	close(ready[1]);
}

/* No unit has such a number, or writes it so. */
static void test_what_is_not_ours_stays(void **state)
{
	static const char *const names[] = {"unit-007.lock", "unit-.lock", "unit-1024.sock",
	                                    "unit-3.lock.old", "unit-5000000000.ipc"};
	struct rig *rig = *state;
	char name[SY_RUN_PATH_BYTES];

	for (size_t i = 0; i < COUNT_OF(names); i++)
		put_file(rig, names[i], "");
	put_unit(rig, 1023, "");
	assert_true(sy_leftovers_remove(&rig->dir, false));
	if (sy_leftovers_find(&rig->dir, name))
		fail_msg("%s", name);
	for (size_t i = 0; i < COUNT_OF(names); i++)
		assert_true(rig_has(rig, names[i]));
	assert_false(rig_has(rig, "unit-1023.lock"));
}

/* What is made of a directory for which there is no descriptor; 0: that it is not known. */
static int look_without_descriptors(const struct rig *rig)
{
	const struct rlimit none = {0};
	char name[SY_RUN_PATH_BYTES];
	sy_error err = {0};

	if (setrlimit(RLIMIT_NOFILE, &none) != 0)
		return 1;
	if (sy_leftovers_await(&rig->dir, sy_clock_now_ns(), &err) != SY_E_SYS ||
	    strstr(err.message, "cannot look into") == NULL)
		return 2;
	sy_leftovers_remove(&rig->dir, false);
	return sy_leftovers_find(&rig->dir, name) ? 0 : 3;
}

/* Who cannot look has not found that nothing is there. */
static void test_a_directory_that_cannot_be_read(void **state)
{
	struct rig *rig = *state;
	int status = 0;

	put_unit(rig, 1, "");
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(look_without_descriptors(rig));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_true(rig_has(rig, "VERSION"));
	assert_true(rig_has(rig, "unit-1.lock"));
}

/* A unit named as one is, which does nothing by itself. */
static pid_t start_unit(const struct rig *rig, uint32_t unit_id)
{
	int ready[2];
	char byte = 0;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sy_run_unit unit;
		if (prctl(PR_SET_NAME, "slabyard") != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 ||
		    sy_run_unit_init(&rig->dir, unit_id, &unit, NULL) != SY_OK ||
		    sy_run_unit_record(&unit, "/none", NULL, (sy_incarnation){5}, NULL) != SY_OK ||
		    write(ready[1], &byte, 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return child;
}

/* Each that is waited for takes a descriptor. */
static void test_more_units_than_descriptors(void **state)
{
	struct rig *rig = *state;
	struct rlimit before, few;
	pid_t units[STOPPED];
	sy_error err = {0};
	int status = 0;

	for (uint32_t i = 0; i < STOPPED; i++)
		units[i] = start_unit(rig, i);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = (struct rlimit){.rlim_cur = FEW_DESCRIPTORS, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	sy_status ended = sy_leftovers_end(&rig->dir, GRACE_NS, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	uint32_t lived = 0;
	for (uint32_t i = 0; i < STOPPED; i++) {
		lived += waitpid(units[i], &status, WNOHANG) == 0;
		kill(units[i], SIGKILL);
	}
	while (waitpid(-1, &status, 0) > 0)
		continue;
	if (ended != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(lived, 0);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_what_many_units_left),
		WITH_RIG(test_version_goes_last),
		WITH_RIG(test_what_is_not_ours_stays),
		WITH_RIG(test_a_directory_that_cannot_be_read),
		WITH_RIG(test_more_units_than_descriptors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
