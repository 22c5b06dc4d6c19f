#include "leftovers.h"
#include "clock.h"
#include "dir_store.h"
#include "fail.h"
#include "process.h"
#include "units.h"
#include "whole.h"

#include <dirent.h>
#include <errno.h>
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

/* The units of which a file is there. */
struct unit_ids {
	bool has[SY_UNITS_MAX];
	bool any;
};

/* "unit-<id>.<ending>", the id as we write it and one that a unit may have. */
static bool parse_unit_file(const char *name, uint32_t *ret_id)
{
	static const char *const endings[] = {".lock", ".ipc", ".sock"};
	uint64_t id;
	if (strncmp(name, "unit-", 5) != 0)
		return false;
	const char *number = name + 5;
	size_t digits = strspn(number, "0123456789");
	if (sy_parse_u64(number, digits, &id, NULL) != SY_OK || id >= SY_UNITS_MAX ||
	    (number[0] == '0' && digits > 1))
		return false;
	*ret_id = (uint32_t)id;
	for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
		if (strcmp(number + digits, endings[i]) == 0)
			return true;
	return false;
}

/* SY_E_SYS: nobody knows what is there. */
static sy_status ids_find(const struct sy_run_dir *dir, struct unit_ids *ret_ids, sy_error *err)
{
	memset(ret_ids, 0, sizeof *ret_ids);
	DIR *folder = opendir(dir->path);
	errno = folder != NULL ? 0 : errno;
	for (struct dirent *entry = folder != NULL ? readdir(folder) : NULL; entry != NULL;
	     entry = readdir(folder)) {
		uint32_t id;
		if (parse_unit_file(entry->d_name, &id))
			ret_ids->has[id] = ret_ids->any = true;
		errno = 0;
	}
	int why = errno;
	if (folder != NULL)
		closedir(folder);
	if (why != 0)
		return sy_fail(err, SY_E_SYS, "sy_leftovers", "cannot look into %s: %s", dir->path,
		               strerror(why));
	return SY_OK;
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

static sy_status processes_find(const struct sy_run_dir *dir, struct processes *ret_processes,
                                sy_error *err)
{
	struct unit_ids units;
	struct sy_registry *registry = NULL;
	struct sy_identity self;
	char path[SY_RUN_PATH_BYTES];
	pid_t pid;
	ret_processes->count = 0;
	sy_status status = ids_find(dir, &units, err);
	if (status != SY_OK)
		return status;
	for (uint32_t i = 0; i < SY_UNITS_MAX; i++) {
		int pidfd = units.has[i] ? unit_pidfd(dir, i, &pid) : -1;
		if (pidfd >= 0)
			process_add(ret_processes, i, (int)pid, pidfd);
	}
	if (sy_run_dir_file(dir, "directory.state", path, NULL) == SY_OK)
		/* damaged: the locks are what there is */
		(void)sy_dir_store_load(path, 0, &registry, NULL);
	sy_process_identity(&self);
	for (uint32_t i = 0; registry != NULL && i < sy_registry_slot_count(registry); i++)
		process_add_registered(ret_processes, sy_registry_slot(registry, i), self.boot_id);
	sy_registry_free(registry);
	return SY_OK;
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
	sy_status status = ids_find(dir, &units, err);
	if (status != SY_OK)
		return status;
	for (uint32_t i = 0; i < SY_UNITS_MAX; i++) {
		pid_t pid = 0;
		while (units.has[i] && sy_run_unit_lives(dir, i, &pid)) {
			if (sy_clock_now_ns() >= deadline_ns)
				return fail_lives(dir, i, (int)pid, err);
			poll(NULL, 0, LOOK_AGAIN_MS);
		}
	}
	return SY_OK;
}

sy_status sy_leftovers_await(const struct sy_run_dir *dir, uint64_t deadline_ns, sy_error *err)
{
	struct processes processes;
	sy_process_allow_descriptors(); /* two a unit */
	sy_status status = processes_find(dir, &processes, err);
	if (status == SY_OK)
		status = processes_await(dir, &processes, deadline_ns, err);
	if (status == SY_OK)
		status = locks_await(dir, deadline_ns, err);
	processes_done(&processes);
	return status;
}

sy_status sy_leftovers_end(const struct sy_run_dir *dir, uint64_t grace_ns, sy_error *err)
{
	static const int signals[] = {SIGTERM, SIGKILL};
	sy_status status = SY_E_BUSY;
	sy_process_allow_descriptors(); /* two a unit */
	for (size_t attempt = 0; attempt < 2 && status != SY_OK; attempt++) {
		struct processes processes;
		uint64_t deadline_ns = sy_clock_now_ns() + grace_ns;
		status = processes_find(dir, &processes, err);
		processes_signal(&processes, signals[attempt]);
		if (status == SY_OK)
			status = processes_await(dir, &processes, deadline_ns, err);
		if (status == SY_OK)
			status = locks_await(dir, deadline_ns, err);
		processes_done(&processes);
	}
	return status;
}

/* VERSION last: who finds none looks for nothing else. */
static const char *const cluster_files[] = {"directory.ipc", "directory.state",
                                            "directory.state.new", "VERSION"};
enum { FILE_COUNT = sizeof cluster_files / sizeof cluster_files[0] };
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

static bool units_remove(const struct sy_run_dir *dir)
{
	struct unit_ids units;
	if (ids_find(dir, &units, NULL) != SY_OK)
		return false;
	for (uint32_t i = 0; i < SY_UNITS_MAX; i++) {
		struct sy_run_unit unit;
		/* Taking the id removes what its last unit left. */
		if (units.has[i] && sy_run_unit_init(dir, i, &unit, NULL) == SY_OK)
			sy_run_unit_done(&unit);
	}
	return units.any;
}

/* What of a cluster is there: of its units, or of the first file_count of its files. */
static bool find_any(const struct sy_run_dir *dir, size_t file_count,
                     char ret_name[SY_RUN_PATH_BYTES])
{
	struct unit_ids units;
	if (ids_find(dir, &units, NULL) != SY_OK) {
		sy_format(ret_name, SY_RUN_PATH_BYTES, "what cannot be seen");
		return true;
	}
	for (uint32_t i = 0; i < SY_UNITS_MAX; i++) {
		pid_t pid = 0;
		if (!units.has[i])
			continue;
		if (sy_run_unit_lives(dir, i, &pid))
			sy_format(ret_name, SY_RUN_PATH_BYTES, "unit %u, process %d", i, (int)pid);
		else
			sy_format(ret_name, SY_RUN_PATH_BYTES, "files of unit %u", i);
		return true;
	}
	for (size_t i = 0; i < file_count; i++) {
		char path[SY_RUN_PATH_BYTES];
		if (sy_run_dir_file(dir, cluster_files[i], path, NULL) == SY_OK &&
		    access(path, F_OK) == 0) {
			memcpy(ret_name, path, sizeof path);
			return true;
		}
	}
	return false;
}

bool sy_leftovers_remove(const struct sy_run_dir *dir, bool log_too)
{
	char name[SY_RUN_PATH_BYTES];
	bool found = units_remove(dir);
	for (size_t i = 0; i < FILE_COUNT - 1; i++)
		found = file_remove(dir, cluster_files[i]) || found;
	if (!find_any(dir, FILE_COUNT - 1, name))
		found = file_remove(dir, cluster_files[FILE_COUNT - 1]) || found;
	if (log_too || log_is_empty(dir))
		found = file_remove(dir, log_file) || found;
	return found;
}

void sy_leftovers_unmake(const struct sy_run_dir *dir)
{
	for (size_t i = 0; i < FILE_COUNT; i++)
		(void)file_remove(dir, cluster_files[i]);
	if (log_is_empty(dir))
		(void)file_remove(dir, log_file);
}

bool sy_leftovers_find(const struct sy_run_dir *dir, char ret_name[SY_RUN_PATH_BYTES])
{
	return find_any(dir, FILE_COUNT, ret_name);
}
