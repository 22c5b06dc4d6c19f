#include "harness.h"
#include "own_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "entropy.h"
#include "slab.h"

enum { MIB = 1 << 20 };

static void name_slab(char name[SY_SLAB_NAME_BYTES])
{
	sy_slab_name(3, (sy_incarnation){sy_entropy_u64()}, name);
}

static bool exists(const char *path)
{
	struct stat info;
	return stat(path, &info) == 0;
}

static void test_name(void **state)
{
	(void)state;
	char name[SY_SLAB_NAME_BYTES], expected[SY_SLAB_NAME_BYTES];
	sy_slab_name(12, (sy_incarnation){0xabc}, name);
	snprintf(expected, sizeof expected, "slabyard-%u-12-0000000000000abc", (unsigned)geteuid());
	assert_string_equal(name, expected);
}

static void test_create_and_destroy(void **state)
{
	(void)state;
	char name[SY_SLAB_NAME_BYTES];
	struct sy_slab slab = {.fd = -1};
	struct stat info;
	sy_error err = {0};
	name_slab(name);
	if (sy_slab_create(SY_SLAB_DIR, name, 4 * MIB, 5, NULL, &slab, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal((uintptr_t)slab.data % SY_SLAB_ALIGN_BYTES, 0);
	assert_int_equal(fstat(slab.fd, &info), 0);
	assert_int_equal(info.st_size, 4 * MIB);
	assert_int_equal(info.st_mode & 07777, 0600);
	/* All of it is allocated before anyone touches it. */
	assert_true((uint64_t)info.st_blocks * 512 >= 4 * MIB);
	assert_int_equal(fcntl(slab.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	for (size_t i = 0; i < 4 * MIB; i += 4096)
		assert_int_equal(slab.data[i], 0);
	memset(slab.data, 0x5a, 4 * MIB);

	/* Another mapping of the descriptor sees the same bytes, also after the file is gone. */
	uint8_t *other = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, slab.fd, 0);
	assert_true(other != MAP_FAILED);
	char path[SY_SLAB_PATH_BYTES];
	memcpy(path, slab.path, sizeof path);
	assert_true(exists(path));
	sy_slab_destroy(&slab);
	assert_false(exists(path));
	assert_int_equal(other[4 * MIB - 1], 0x5a);
	munmap(other, 4 * MIB);
	sy_slab_destroy(&slab); /* twice is no harm */
}

static bool at_once(void)
{
	return true;
}

static void test_given_up(void **state)
{
	(void)state;
	char name[SY_SLAB_NAME_BYTES], path[SY_SLAB_PATH_BYTES];
	struct sy_slab slab;
	sy_error err = {0};
	name_slab(name);
	snprintf(path, sizeof path, "%s/%s", SY_SLAB_DIR, name);
	assert_int_equal(sy_slab_create(SY_SLAB_DIR, name, MIB, 0, at_once, &slab, &err),
	                 SY_E_TIMEOUT);
	assert_false(exists(path));
}

static void test_never_takes_over_a_file(void **state)
{
	(void)state;
	char name[SY_SLAB_NAME_BYTES];
	struct sy_slab slab, other;
	sy_error err = {0};
	name_slab(name);
	assert_int_equal(sy_slab_create(SY_SLAB_DIR, name, MIB, 0, NULL, &slab, &err), SY_OK);
	assert_int_equal(sy_slab_create(SY_SLAB_DIR, name, MIB, 0, NULL, &other, &err), SY_E_SYS);
	assert_non_null(strstr(err.message, "File exists"));
	assert_true(exists(slab.path)); /* and the failed one removed nothing */
	sy_slab_destroy(&slab);
}

static void test_too_large_is_said_at_once(void **state)
{
	(void)state;
	char name[SY_SLAB_NAME_BYTES], path[SY_SLAB_PATH_BYTES];
	struct sy_slab slab;
	struct statvfs room;
	sy_error err = {0};
	name_slab(name);
	snprintf(path, sizeof path, "%s/%s", SY_SLAB_DIR, name);
	assert_int_equal(statvfs(SY_SLAB_DIR, &room), 0);
	uint64_t bytes = ((uint64_t)1 << 46) / 4096 * 4096;
	assert_int_equal(sy_slab_create(SY_SLAB_DIR, name, bytes, 0, NULL, &slab, &err), SY_E_SYS);
	assert_non_null(strstr(err.message, "64 TiB"));
	assert_non_null(strstr(err.message, "--slab-bytes"));
	assert_null(strchr(err.message, '\n'));
	assert_false(exists(path));
	assert_int_equal(sy_slab_create("/nonexistent", name, MIB, 0, NULL, &slab, &err), SY_E_SYS);
	assert_non_null(strstr(err.message, "No such file"));
}

/* What is not there is missed when the slab is made, not when it is touched. A mount of 2 MiB, in
 * a child so that it goes with the child's mount namespace. Exit 77: the system lets us make
 * none. */
static int try_small_mount(const char *dir)
{
	char name[SY_SLAB_NAME_BYTES], path[SY_SLAB_PATH_BYTES + 64];
	struct sy_slab slab;
	sy_error err = {0};
	if (!enter_mount_namespace() || mount("tmpfs", dir, "tmpfs", 0, "size=2m,mode=0700") != 0)
		return 77;
	name_slab(name);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	if (sy_slab_create(dir, name, 4 * MIB, 0, NULL, &slab, &err) != SY_E_SYS ||
	    strstr(err.message, "2 MiB") == NULL || strstr(err.message, "--shm-size") == NULL ||
	    exists(path))
		return 1;
	/* Half of it is taken already. */
	if (sy_slab_create(dir, name, MIB, 0, NULL, &slab, &err) != SY_OK)
		return 2;
	name_slab(name);
	struct sy_slab second;
	if (sy_slab_create(dir, name, MIB + 4096, 0, NULL, &second, &err) != SY_E_SYS)
		return 3;
	sy_slab_destroy(&slab);
	if (sy_slab_create(dir, name, MIB + 4096, 0, NULL, &second, &err) != SY_OK)
		return 4;
	sy_slab_destroy(&second);
	return 0;
}

enum { PARTS_MIB = 128, MOUNT_MIB = 160 }; /* two parts, between which the maker looks up */
static char filler[SY_SLAB_PATH_BYTES];

/* Somebody else takes what the second part needs. Never given up. */
static bool fill_mount(void)
{
	int fd = open(filler, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	bool filled = fd >= 0 && posix_fallocate(fd, 0, (off_t)(MOUNT_MIB - 96) * MIB) == 0;
	if (fd >= 0)
		close(fd);
	return !filled;
}

/* There was room when it looked: that there is none any more is seen while it is made. */
static int try_filling_mount(const char *dir)
{
	char name[SY_SLAB_NAME_BYTES], path[SY_SLAB_PATH_BYTES + 64];
	struct sy_slab slab;
	sy_error err = {0};
	if (!enter_mount_namespace() || mount("tmpfs", dir, "tmpfs", 0, "size=160m,mode=0700") != 0)
		return 77;
	name_slab(name);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	snprintf(filler, sizeof filler, "%s/filler", dir);
	if (sy_slab_create(dir, name, PARTS_MIB * MIB, 0, fill_mount, &slab, &err) != SY_E_SYS)
		return 1;
	if (!exists(filler) || strstr(err.message, "--shm-size") == NULL || exists(path))
		return 2;
	unlink(filler);
	if (sy_slab_create(dir, name, PARTS_MIB * MIB, 0, NULL, &slab, &err) != SY_OK)
		return 3;
	sy_slab_destroy(&slab);
	return 0;
}

static void try_in_child(int (*try)(const char *dir))
{
	char dir[] = "/tmp/slabyard-test-XXXXXX";
	int status = 0;
	assert_non_null(mkdtemp(dir));
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(try(dir));
	assert_int_equal(waitpid(child, &status, 0), child);
	rmdir(dir);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		print_message("skip: no mount may be made here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Kind: SIGBUS on a sparse shared memory. */
static void test_small_mount(void **state)
{
	(void)state;
	try_in_child(try_small_mount);
}

static void test_a_mount_that_fills(void **state)
{
	(void)state;
	try_in_child(try_filling_mount);
}

/* A client cuts the file off: the creator reads zeros, knows it, and lives. */
static int try_torn(void)
{
	char name[SY_SLAB_NAME_BYTES];
	struct sy_slab slab;
	sy_error err = {0};
	name_slab(name);
	if (sy_slab_create(SY_SLAB_DIR, name, MIB, 0, NULL, &slab, &err) != SY_OK)
		return 1;
	int status = 0;
	memset(slab.data, 0x5a, MIB);
	if (sy_slab_guard(&slab, &err) != SY_OK || sy_slab_is_torn() ||
	    ftruncate(slab.fd, MIB / 2) != 0)
		status = 2;
	else if (slab.data[MIB / 2 - 1] != 0x5a || sy_slab_is_torn())
		status = 3;
	else if (slab.data[MIB - 1] != 0 || !sy_slab_is_torn())
		status = 4;
	slab.data[MIB - 2] = 1; /* and may write there */
	sy_slab_destroy(&slab);
	return status;
}

static void test_torn(void **state)
{
	(void)state;
	int status = 0;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(try_torn());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_create_and_destroy),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_never_takes_over_a_file),
		cmocka_unit_test(test_too_large_is_said_at_once),
		cmocka_unit_test(test_small_mount),
		cmocka_unit_test(test_a_mount_that_fills),
		cmocka_unit_test(test_torn),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
