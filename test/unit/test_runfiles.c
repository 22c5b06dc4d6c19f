#include "harness.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entropy.h"
#include "late_end.h"
#include "run_folder.h"

static bool exists(const char *path)
{
	struct stat info;
	return lstat(path, &info) == 0;
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* Nothing may be left. */
static int close_empty_rig(void **state)
{
	struct rig *rig = *state;
	char version[SY_RUN_PATH_BYTES];
	if (sy_run_dir_file(&rig->dir, "VERSION", version, NULL) == SY_OK)
		unlink(version);
	sy_run_dir_remove(&rig->dir);
	int left = rmdir(rig->parent);
	free(rig);
	return left;
}

static void test_directory(void **state)
{
	struct rig *rig = *state;
	struct sy_run_dir dir;
	struct stat info;
	char path[SY_RUN_PATH_BYTES], before[1024];
	sy_error err = {0};
	assert_int_equal(stat(rig->path, &info), 0);
	assert_int_equal(info.st_mode & 07777, S_ISVTX | S_IRWXU);
	assert_string_equal(rig->dir.path, rig->path);
	assert_int_equal(sy_run_dir_open(rig->path, true, &dir, &err), SY_OK);
	assert_int_equal(sy_run_dir_open(rig->path, false, &dir, &err), SY_OK);
	/* Where everybody may put a socket, nobody can be believed. */
	assert_int_equal(chmod(rig->path, 0707), 0);
	assert_int_equal(sy_run_dir_open(rig->path, true, &dir, &err), SY_E_AUTH);
	assert_non_null(strstr(err.message, "chmod o-w"));
	assert_int_equal(chmod(rig->path, S_ISVTX | S_IRWXU), 0);
	/* Found again under a relative name, and remembered under an absolute one. */
	assert_non_null(getcwd(before, sizeof before));
	assert_int_equal(chdir(rig->parent), 0);
	assert_int_equal(sy_run_dir_open("run", false, &dir, &err), SY_OK);
	assert_int_equal(chdir(before), 0);
	assert_string_equal(dir.path, rig->path);
	assert_int_equal(sy_run_dir_file(&dir, "x", path, &err), SY_OK);
	assert_int_equal(strlen(path), strlen(rig->path) + 2);
}

static void test_directory_errors(void **state)
{
	struct rig *rig = *state;
	struct sy_run_dir dir;
	char path[256], name[128];
	sy_error err = {0};
	assert_int_equal(sy_run_dir_open("", true, &dir, &err), SY_E_INVALID);
	snprintf(path, sizeof path, "%s/absent", rig->parent);
	assert_int_equal(sy_run_dir_open(path, false, &dir, &err), SY_E_SYS);
	assert_false(exists(path));
	snprintf(path, sizeof path, "%s/no/parent", rig->parent);
	assert_int_equal(sy_run_dir_open(path, true, &dir, &err), SY_E_SYS);
	assert_int_equal(sy_run_dir_open("/dev/null", true, &dir, &err), SY_E_SYS);
	/* No run directory: no VERSION in it, and who only looks makes none. */
	assert_int_equal(sy_run_dir_open(rig->parent, false, &dir, &err), SY_E_SYS);
	/* Too long for sockets: said, and nothing is left behind. */
	memset(name, 'x', sizeof name);
	name[100] = '\0';
	snprintf(path, sizeof path, "%s/%s", rig->parent, name);
	assert_int_equal(sy_run_dir_open(path, true, &dir, &err), SY_E_INVALID);
	assert_non_null(strstr(err.message, "shorter --run-dir"));
	assert_false(exists(path));
	assert_int_equal(sy_run_dir_file(&rig->dir, name, path, &err), SY_E_INVALID);
	/* Another version's files are left alone. */
	snprintf(path, sizeof path, "%s/VERSION", rig->path);
	write_text(path, "slabyard run directory, version 1\n");
	assert_int_equal(sy_run_dir_open(rig->path, true, &dir, &err), SY_E_PROTOCOL);
	assert_non_null(strstr(err.message, "another version"));
	write_text(path, "");
	assert_int_equal(sy_run_dir_open(rig->path, true, &dir, &err), SY_E_PROTOCOL);
}

/* A unit in a process of its own, which says when it stands. */
static pid_t start_unit(const struct rig *rig, uint32_t unit_id, const char *slab_path,
                        const char *ssd_dir)
{
	int said[2];
	char byte = 0;
	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sy_run_unit unit;
		close(said[0]);
		if (sy_run_unit_init(&rig->dir, unit_id, &unit, NULL) != SY_OK ||
		    sy_run_unit_record(&unit, slab_path, ssd_dir, (sy_incarnation){5}, NULL) != SY_OK)
			_exit(1);
		write_text(unit.ipc_path, "");
		write_text(unit.sock_path, "");
		write_text(slab_path, "");
		if (write(said[1], "x", 1) != 1)
			_exit(2);
		pause();
		_exit(0);
	}
	close(said[1]);
	assert_int_equal(read(said[0], &byte, 1), 1);
	close(said[0]);
	return child;
}

static void slab_path_of(uint32_t unit_id, char out[SY_SLAB_PATH_BYTES])
{
	char name[SY_SLAB_NAME_BYTES];
	sy_slab_name(unit_id, (sy_incarnation){sy_entropy_u64()}, name);
	snprintf(out, SY_SLAB_PATH_BYTES, "%s/%s", SY_SLAB_DIR, name);
}

static void test_a_second_unit_and_a_dead_one(void **state)
{
	struct rig *rig = *state;
	struct sy_run_unit unit = {.lock_fd = -1}, other;
	char slab[SY_SLAB_PATH_BYTES], pid_text[32];
	sy_error err = {0};
	pid_t pid = 0;
	int status = 0;
	slab_path_of(4, slab);
	assert_false(sy_run_unit_lives(&rig->dir, 4, &pid));
	pid_t child = start_unit(rig, 4, slab, NULL);
	assert_true(sy_run_unit_lives(&rig->dir, 4, &pid));
	assert_int_equal(pid, child);
	assert_false(sy_run_unit_lives(&rig->dir, 5, &pid));

	/* Running or stopped, its id is taken and its files stay. */
	for (int stopped = 0; stopped < 2; stopped++) {
		if (stopped) {
			assert_int_equal(kill(child, SIGSTOP), 0);
			assert_int_equal(waitpid(child, &status, WUNTRACED), child);
		}
		assert_int_equal(sy_run_unit_init(&rig->dir, 4, &unit, &err), SY_E_BUSY);
		snprintf(pid_text, sizeof pid_text, "%d", (int)child);
		assert_non_null(strstr(err.message, pid_text));
		assert_true(exists(slab));
		assert_true(sy_run_unit_lives(&rig->dir, 4, &pid));
	}
	/* Another id is free. */
	assert_int_equal(sy_run_unit_init(&rig->dir, 5, &other, &err), SY_OK);
	sy_run_unit_done(&other);

	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(exists(slab));
	assert_false(sy_run_unit_lives(&rig->dir, 4, &pid));
	assert_int_equal(sy_run_unit_init(&rig->dir, 4, &unit, &err), SY_OK);
	assert_false(exists(slab));
	assert_false(exists(unit.ipc_path));
	assert_false(exists(unit.sock_path));
	assert_true(exists(unit.lock_path));
	sy_run_unit_done(&unit);
	assert_false(exists(unit.lock_path));
	sy_run_unit_done(&unit); /* twice is no harm */
}

static void test_one_that_has_yet_to_die_is_waited_for(void **state)
{
	struct rig *rig = *state;
	struct sy_run_unit unit = {.lock_fd = -1};
	char slab[SY_SLAB_PATH_BYTES];
	sy_error err = {0};
	cpu_set_t cpus;
	int status = 0;
	slab_path_of(4, slab);
	pid_t child = start_unit(rig, 4, slab, NULL);
	late_end_kill(child, &cpus);
	sy_status taken = sy_run_unit_init(&rig->dir, 4, &unit, &err);
	assert_int_equal(sched_setaffinity(0, sizeof cpus, &cpus), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (taken != SY_OK) /* what it left goes all the same */
		assert_int_equal(sy_run_unit_init(&rig->dir, 4, &unit, NULL), SY_OK);
	sy_run_unit_done(&unit);
	assert_false(exists(slab));
	if (taken != SY_OK)
		fail_msg("%s", err.message);
}

/* Its segments go, and nobody else's, nor what is only named much like them. */
static void test_segments_of_a_dead_unit(void **state)
{
	static const char *const names[] = {
		"slabyard-4-0000000000000005-0.seg", "slabyard-4-0000000000000005-17.seg",
		"slabyard-4.lock", "slabyard-4-0000000000000006-0.seg",
		"slabyard-5-0000000000000005-0.seg", "slabyard-4-0000000000000005-0.segs", "notes",
	};
	struct rig *rig = *state;
	struct sy_run_unit unit = {.lock_fd = -1};
	char slab[SY_SLAB_PATH_BYTES], path[160], before[1024];
	int status = 0;
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(path, sizeof path, "%s/%s", rig->parent, names[i]);
		write_text(path, "");
	}
	slab_path_of(4, slab);
	/* It names its folder from where it stands; who tidies up stands elsewhere. */
	assert_non_null(getcwd(before, sizeof before));
	assert_int_equal(chdir(rig->parent), 0);
	pid_t child = start_unit(rig, 4, slab, ".");
	assert_int_equal(chdir(before), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(sy_run_unit_init(&rig->dir, 4, &unit, NULL), SY_OK);
	sy_run_unit_done(&unit);
	for (size_t i = 0; i < COUNT_OF(names); i++) {
		snprintf(path, sizeof path, "%s/%s", rig->parent, names[i]);
		assert_int_equal(unlink(path) == 0, i >= 3);
	}
}

/* A lock file that says something else makes nobody remove it. */
static void test_only_slabs_are_removed(void **state)
{
	struct rig *rig = *state;
	char folder[64], inside[96], beside[64], lock[SY_RUN_PATH_BYTES], text[512];
	struct sy_run_unit unit;
	sy_error err = {0};
	unsigned number = (unsigned)getpid();
	/* In a folder named as a slab is, and a file named almost so. */
	snprintf(folder, sizeof folder, "/dev/shm/slabyard-%u-test-%u", (unsigned)geteuid(), number);
	snprintf(inside, sizeof inside, "%s/precious", folder);
	snprintf(beside, sizeof beside, "/dev/shm/slabyard-test-%u", number);
	assert_int_equal(mkdir(folder, 0700), 0);
	write_text(inside, "x");
	write_text(beside, "x");
	const char *const slabs[] = {inside, beside, "/dev/shm/../etc/passwd", ""};
	assert_int_equal(sy_run_dir_file(&rig->dir, "unit-6.lock", lock, &err), SY_OK);
	for (size_t i = 0; i < COUNT_OF(slabs); i++) {
		snprintf(text, sizeof text, "pid 1\nincarnation 5\nslab %s\n", slabs[i]);
		write_text(lock, text);
		assert_int_equal(sy_run_unit_init(&rig->dir, 6, &unit, &err), SY_OK);
		bool all_there = exists(inside) && exists(beside) && exists("/etc/passwd");
		if (!all_there || i + 1 == COUNT_OF(slabs)) {
			unlink(inside);
			unlink(beside);
			rmdir(folder);
		}
		assert_true(all_there);
		sy_run_unit_done(&unit);
	}
	memset(text, 0xff, sizeof text - 1);
	text[sizeof text - 1] = '\0';
	write_text(lock, text);
	assert_int_equal(sy_run_unit_init(&rig->dir, 6, &unit, &err), SY_OK);
	sy_run_unit_done(&unit);
}

/* Root may tidy up after anybody: the slab is its unit's user's, and nobody else's. */
static void test_root_removes_what_another_user_left(void **state)
{
	enum { OTHER = 65534 };
	struct rig *rig = *state;
	char slabs[3][SY_SLAB_PATH_BYTES], lock[SY_RUN_PATH_BYTES], text[512];
	const unsigned users[] = {OTHER, 0, OTHER - 1};
	struct sy_run_unit unit;
	if (geteuid() != 0) {
		print_message("skip: only root can become another user\n");
		skip();
	}
	assert_int_equal(sy_run_dir_file(&rig->dir, "unit-6.lock", lock, NULL), SY_OK);
	for (size_t i = 0; i < COUNT_OF(users); i++) {
		snprintf(slabs[i], sizeof slabs[i], "/dev/shm/slabyard-%u-6-%016llx", users[i],
		         (unsigned long long)sy_entropy_u64());
		write_text(slabs[i], "");
		snprintf(text, sizeof text, "pid 1\nincarnation 0000000000000005\nslab %s\n", slabs[i]);
		write_text(lock, text);
		assert_int_equal(chown(lock, OTHER, OTHER), 0);
		assert_int_equal(sy_run_unit_init(&rig->dir, 6, &unit, NULL), SY_OK);
		sy_run_unit_done(&unit);
	}
	for (size_t i = 0; i < COUNT_OF(users); i++)
		assert_int_equal(unlink(slabs[i]) == 0, users[i] == OTHER - 1);
}

/* Units that come and go: a lock on a file that was just removed is none. */
static int come_and_go(const struct rig *rig)
{
	char busy[128];
	snprintf(busy, sizeof busy, "%s/busy", rig->parent);
	for (int i = 0; i < 2000; i++) {
		struct sy_run_unit unit;
		if (sy_run_unit_init(&rig->dir, 8, &unit, NULL) != SY_OK)
			continue;
		int fd = open(busy, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return 1; /* somebody else is in */
		close(fd);
		unlink(busy);
		sy_run_unit_done(&unit);
	}
	return 0;
}

static void test_one_at_a_time(void **state)
{
	struct rig *rig = *state;
	int failures = 0, status = 0;
	for (int i = 0; i < 4; i++) {
		pid_t child = fork();
		assert_true(child >= 0);
		if (child == 0)
			_exit(come_and_go(rig));
	}
	for (int i = 0; i < 4; i++) {
		assert_true(waitpid(-1, &status, 0) > 0);
		failures += status != 0;
	}
	assert_int_equal(failures, 0);
}

/* Many start at once with one id: one of them gets it. */
static void test_a_race_for_one_id(void **state)
{
	struct rig *rig = *state;
	enum { RACERS = 12 };
	pid_t children[RACERS];
	int go[2], done[2], winners = 0;
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(done, O_CLOEXEC), 0);
	for (int i = 0; i < RACERS; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i] == 0) {
			struct sy_run_unit unit;
			char byte;
			close(go[1]);
			close(done[1]);
			if (read(go[0], &byte, 1) != 0)
				_exit(3);
			bool won = sy_run_unit_init(&rig->dir, 7, &unit, NULL) == SY_OK;
			/* The winner holds it until everybody has tried. */
			if (won && read(done[0], &byte, 1) != 0)
				_exit(4);
			if (won)
				sy_run_unit_done(&unit);
			_exit(won ? 0 : 1);
		}
	}
	close(go[1]);
	int status = 0;
	for (int left = RACERS; left > 1; left--) {
		assert_true(waitpid(-1, &status, 0) > 0);
		assert_int_equal(WEXITSTATUS(status), 1);
	}
	close(done[1]);
	assert_true(waitpid(-1, &status, 0) > 0);
	winners += WEXITSTATUS(status) == 0;
	assert_int_equal(winners, 1);
	close(go[0]);
	close(done[0]);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_empty_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_directory),
		WITH_RIG(test_directory_errors),
		WITH_RIG(test_a_second_unit_and_a_dead_one),
		WITH_RIG(test_one_that_has_yet_to_die_is_waited_for),
		WITH_RIG(test_segments_of_a_dead_unit),
		WITH_RIG(test_only_slabs_are_removed),
		WITH_RIG(test_root_removes_what_another_user_left),
		WITH_RIG(test_a_race_for_one_id),
		WITH_RIG(test_one_at_a_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
