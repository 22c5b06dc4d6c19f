#include "leftovers.h"
#include "clock.h"
#include "dir_message.h"
#include "fail.h"
#include "units.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

/* A unit between locking its id and writing down its pid can only be looked at again. */
enum { LOOK_AGAIN_MS = 10 };

struct unit_ids {
	uint32_t ids[SY_UNITS_MAX];
	uint32_t count;
};

/* "unit-<id>.<ending>"; ending NULL: any of the three. */
static bool parse_unit_file(const char *name, const char *ending, uint32_t *ret_id)
{
	static const char *const endings[] = {".lock", ".ipc", ".sock"};
	uint64_t id;
	if (strncmp(name, "unit-", 5) != 0)
		return false;
	size_t digits = strspn(name + 5, "0123456789");
	if (sy_parse_u64(name + 5, digits, &id, NULL) != SY_OK || id > UINT32_MAX)
		return false;
	const char *rest = name + 5 + digits;
	bool is_ours = ending != NULL && strcmp(rest, ending) == 0;
	for (size_t i = 0; ending == NULL && i < 3; i++)
		is_ours = is_ours || strcmp(rest, endings[i]) == 0;
	*ret_id = (uint32_t)id;
	return is_ours;
}

static void ids_find(const struct sy_run_dir *dir, const char *ending, struct unit_ids *ret_ids)
{
	ret_ids->count = 0;
	DIR *folder = opendir(dir->path);
	if (folder == NULL)
		return;
	for (struct dirent *entry = readdir(folder); entry != NULL && ret_ids->count < SY_UNITS_MAX;
	     entry = readdir(folder)) {
		uint32_t id;
		if (parse_unit_file(entry->d_name, ending, &id))
			ret_ids->ids[ret_ids->count++] = id;
	}
	closedir(folder);
}

static bool is_slabyard(pid_t pid)
{
	char path[64], name[16] = "";
	sy_format(path, sizeof path, "/proc/%d/comm", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;
	if (fd >= 0)
		close(fd);
	return got >= 8 && strncmp(name, "slabyard", 8) == 0;
}

/* The live unit's process; -1: it does not live, or has not written its pid down, or the pid
 * that stands in its file is of something else. */
static int unit_pidfd(const struct sy_run_dir *dir, uint32_t unit_id)
{
	pid_t pid = 0, again = 0;
	if (!sy_run_unit_lives(dir, unit_id, &pid) || pid <= 0)
		return -1;
	int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0)
		return -1;
	if (sy_run_unit_lives(dir, unit_id, &again) && again == pid && is_slabyard(pid))
		return pidfd;
	close(pidfd);
	return -1;
}

static void unit_signal(const struct sy_run_dir *dir, uint32_t unit_id, int signal)
{
	int pidfd = unit_pidfd(dir, unit_id);
	if (pidfd < 0)
		return;
	pidfd_send_signal(pidfd, signal, NULL, 0);
	pidfd_send_signal(pidfd, SIGCONT, NULL, 0); /* a stopped one hears it then */
	close(pidfd);
}

/* False: the unit still lives at deadline_ns. */
static bool unit_await(const struct sy_run_dir *dir, uint32_t unit_id, uint64_t deadline_ns)
{
	pid_t pid;
	while (sy_run_unit_lives(dir, unit_id, &pid)) {
		uint64_t now = sy_clock_now_ns();
		if (now >= deadline_ns)
			return false;
		struct pollfd wait = {.fd = unit_pidfd(dir, unit_id), .events = POLLIN};
		int ms = sy_clock_poll_ms(now, deadline_ns);
		poll(&wait, 1, wait.fd < 0 && ms > LOOK_AGAIN_MS ? LOOK_AGAIN_MS : ms);
		if (wait.fd >= 0)
			close(wait.fd);
	}
	return true;
}

static sy_status fail_lives(const struct sy_run_dir *dir, uint32_t unit_id, const char *advice,
                            sy_error *err)
{
	pid_t pid = 0;
	sy_run_unit_lives(dir, unit_id, &pid);
	return sy_fail(err, SY_E_BUSY, "sy_leftovers",
	               "unit %u (process %d) of a former cluster still runs in %s%s", unit_id,
	               (int)pid, dir->path, advice);
}

sy_status sy_leftovers_await(const struct sy_run_dir *dir, uint64_t deadline_ns, sy_error *err)
{
	struct unit_ids units;
	ids_find(dir, ".lock", &units);
	for (uint32_t i = 0; i < units.count; i++) {
		if (!unit_await(dir, units.ids[i], deadline_ns))
			return fail_lives(dir, units.ids[i], ": end it with `slabyard down`", err);
	}
	return SY_OK;
}

sy_status sy_leftovers_end(const struct sy_run_dir *dir, uint64_t grace_ns, sy_error *err)
{
	static const int signals[] = {SIGTERM, SIGKILL};
	struct unit_ids units;
	ids_find(dir, ".lock", &units);
	uint32_t living = 0, one = 0;
	for (size_t attempt = 0; attempt < 2; attempt++) {
		uint64_t deadline_ns = sy_clock_now_ns() + grace_ns;
		living = 0;
		/* All are told before the first is waited for. */
		for (uint32_t i = 0; i < units.count; i++)
			unit_signal(dir, units.ids[i], signals[attempt]);
		for (uint32_t i = 0; i < units.count; i++) {
			if (!unit_await(dir, units.ids[i], deadline_ns)) {
				living++;
				one = units.ids[i];
			}
		}
		if (living == 0)
			return SY_OK;
	}
	return fail_lives(dir, one, " and cannot be ended", err);
}

static const char *const cluster_files[] = {"directory.ipc", "directory.state",
                                            "directory.state.new", "VERSION"};
static const char log_file[] = "slabyard.log";

static bool file_remove(const struct sy_run_dir *dir, const char *name)
{
	char path[SY_RUN_PATH_BYTES];
	return sy_run_dir_file(dir, name, path, NULL) == SY_OK && unlink(path) == 0;
}

bool sy_leftovers_remove(const struct sy_run_dir *dir, bool log_too)
{
	struct unit_ids units;
	bool found = false;
	ids_find(dir, NULL, &units);
	for (uint32_t i = 0; i < units.count; i++) {
		struct sy_run_unit unit;
		found = true;
		/* Taking the id removes what its last unit left. */
		if (sy_run_unit_init(dir, units.ids[i], &unit, NULL) == SY_OK)
			sy_run_unit_done(&unit);
	}
	for (size_t i = 0; i < sizeof cluster_files / sizeof cluster_files[0]; i++)
		found = file_remove(dir, cluster_files[i]) || found;
	if (log_too)
		found = file_remove(dir, log_file) || found;
	return found;
}

bool sy_leftovers_find(const struct sy_run_dir *dir, char ret_name[SY_RUN_PATH_BYTES])
{
	struct unit_ids units;
	ids_find(dir, NULL, &units);
	if (units.count > 0) {
		pid_t pid = 0;
		if (sy_run_unit_lives(dir, units.ids[0], &pid))
			sy_format(ret_name, SY_RUN_PATH_BYTES, "unit %u, process %d", units.ids[0], (int)pid);
		else
			sy_format(ret_name, SY_RUN_PATH_BYTES, "files of unit %u", units.ids[0]);
		return true;
	}
	for (size_t i = 0; i < sizeof cluster_files / sizeof cluster_files[0]; i++) {
		char path[SY_RUN_PATH_BYTES];
		if (sy_run_dir_file(dir, cluster_files[i], path, NULL) == SY_OK &&
		    access(path, F_OK) == 0) {
			memcpy(ret_name, path, sizeof path);
			return true;
		}
	}
	return false;
}
