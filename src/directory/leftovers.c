#include "leftovers.h"
#include "clock.h"
#include "dir_store.h"
#include "fail.h"
#include "process.h"
#include "units.h"
#include "whole.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
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
	ssize_t got = fd >= 0 ? sy_read_whole(fd, name, sizeof name - 1) : -1;
	if (fd >= 0)
		close(fd);
	return got >= 8 && strncmp(name, "slabyard", 8) == 0;
}

/* The live unit's process; -1: it does not live, or has not written its pid down, or the pid
 * that stands in its file is of something else. */
static int unit_pidfd(const struct sy_run_dir *dir, uint32_t unit_id, pid_t *ret_pid)
{
	pid_t pid = 0, again = 0;
	if (!sy_run_unit_lives(dir, unit_id, &pid) || pid <= 0)
		return -1;
	int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0)
		return -1;
	if (sy_run_unit_lives(dir, unit_id, &again) && again == pid && is_slabyard(pid)) {
		*ret_pid = pid;
		return pidfd;
	}
	close(pidfd);
	return -1;
}

/* A unit's process that may live. Some are known by the lock they hold, some, whose files are
 * gone already and which are about to end, only by what the directory wrote down. */
struct process {
	uint32_t unit_id;
	int pid, pidfd;
};

struct processes {
	struct process list[2 * SY_UNITS_MAX];
	uint32_t count;
};

static void process_add(struct processes *processes, uint32_t unit_id, int pid, int pidfd)
{
	processes->list[processes->count++] =
		(struct process){.unit_id = unit_id, .pid = pid, .pidfd = pidfd};
}

/* The pid may have passed to another process since, but not with the same start. */
static void process_add_registered(struct processes *processes, const struct sy_unit_info *unit,
                                   const uint8_t boot_id[16])
{
	if (unit->pid == 0 || unit->pid > INT_MAX || memcmp(unit->boot_id, boot_id, 16) != 0)
		return;
	int pidfd = pidfd_open((pid_t)unit->pid, 0);
	if (pidfd < 0)
		return;
	if (sy_process_start_time(unit->pid) == unit->start_time)
		process_add(processes, unit->unit_id, (int)unit->pid, pidfd);
	else
		close(pidfd);
}

static void processes_find(const struct sy_run_dir *dir, struct processes *ret_processes)
{
	struct unit_ids units;
	struct sy_registry *registry = NULL;
	struct sy_identity self;
	char path[SY_RUN_PATH_BYTES];
	pid_t pid;
	ret_processes->count = 0;
	ids_find(dir, ".lock", &units);
	for (uint32_t i = 0; i < units.count; i++) {
		int pidfd = unit_pidfd(dir, units.ids[i], &pid);
		if (pidfd >= 0)
			process_add(ret_processes, units.ids[i], (int)pid, pidfd);
	}
	if (sy_run_dir_file(dir, "directory.state", path, NULL) == SY_OK)
		/* damaged: the locks are what there is */
		(void)sy_dir_store_load(path, 0, &registry, NULL);
	sy_process_identity(&self);
	for (uint32_t i = 0; registry != NULL && i < sy_registry_slot_count(registry); i++)
		process_add_registered(ret_processes, sy_registry_slot(registry, i), self.boot_id);
	sy_registry_free(registry);
}

static void processes_done(struct processes *processes)
{
	for (uint32_t i = 0; i < processes->count; i++)
		close(processes->list[i].pidfd);
}

static void processes_signal(const struct processes *processes, int signal)
{
	for (uint32_t i = 0; i < processes->count; i++) {
		pidfd_send_signal(processes->list[i].pidfd, signal, NULL, 0);
		/* A stopped one hears it only once it goes on. */
		pidfd_send_signal(processes->list[i].pidfd, SIGCONT, NULL, 0);
	}
}

static sy_status fail_lives(const struct sy_run_dir *dir, uint32_t unit_id, int pid, sy_error *err)
{
	return sy_fail(err, SY_E_BUSY, "sy_leftovers",
	               "unit %u (process %d) of a former cluster still runs in %s", unit_id, pid,
	               dir->path);
}

/* SY_E_BUSY: the first that lives at deadline_ns. */
static sy_status processes_await(const struct sy_run_dir *dir, const struct processes *processes,
                                 uint64_t deadline_ns, sy_error *err)
{
	for (uint32_t i = 0; i < processes->count; i++) {
		const struct process *process = &processes->list[i];
		struct pollfd wait = {.fd = process->pidfd, .events = POLLIN};
		uint64_t now_ns = sy_clock_now_ns();
		while (poll(&wait, 1, sy_clock_poll_ms(now_ns, deadline_ns)) <= 0) {
			now_ns = sy_clock_now_ns();
			if (now_ns >= deadline_ns)
				return fail_lives(dir, process->unit_id, process->pid, err);
		}
	}
	return SY_OK;
}

/* Whoever had not written its pid down when the processes were looked for holds a lock. */
static sy_status locks_await(const struct sy_run_dir *dir, uint64_t deadline_ns, sy_error *err)
{
	struct unit_ids units;
	ids_find(dir, ".lock", &units);
	for (uint32_t i = 0; i < units.count; i++) {
		pid_t pid = 0;
		while (sy_run_unit_lives(dir, units.ids[i], &pid)) {
			if (sy_clock_now_ns() >= deadline_ns)
				return fail_lives(dir, units.ids[i], (int)pid, err);
			poll(NULL, 0, LOOK_AGAIN_MS);
		}
	}
	return SY_OK;
}

sy_status sy_leftovers_await(const struct sy_run_dir *dir, uint64_t deadline_ns, sy_error *err)
{
	struct processes processes;
	processes_find(dir, &processes);
	sy_status status = processes_await(dir, &processes, deadline_ns, err);
	if (status == SY_OK)
		status = locks_await(dir, deadline_ns, err);
	processes_done(&processes);
	return status;
}

sy_status sy_leftovers_end(const struct sy_run_dir *dir, uint64_t grace_ns, sy_error *err)
{
	static const int signals[] = {SIGTERM, SIGKILL};
	sy_status status = SY_E_BUSY;
	for (size_t attempt = 0; attempt < 2 && status != SY_OK; attempt++) {
		struct processes processes;
		uint64_t deadline_ns = sy_clock_now_ns() + grace_ns;
		processes_find(dir, &processes);
		processes_signal(&processes, signals[attempt]);
		status = processes_await(dir, &processes, deadline_ns, err);
		if (status == SY_OK)
			status = locks_await(dir, deadline_ns, err);
		processes_done(&processes);
	}
	return status;
}

static const char *const cluster_files[] = {"directory.ipc", "directory.state",
                                            "directory.state.new", "VERSION"};
static const char log_file[] = "slabyard.log";

static bool file_remove(const struct sy_run_dir *dir, const char *name)
{
	char path[SY_RUN_PATH_BYTES];
	return sy_run_dir_file(dir, name, path, NULL) == SY_OK && unlink(path) == 0;
}

static bool log_is_empty(const struct sy_run_dir *dir)
{
	char path[SY_RUN_PATH_BYTES];
	struct stat info;
	return sy_run_dir_file(dir, log_file, path, NULL) == SY_OK && stat(path, &info) == 0 &&
	       info.st_size == 0;
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
	if (log_too || log_is_empty(dir))
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
