/* The files of one unit (runfiles.h).
 *
 * The lock is of the open file description (F_OFD_SETLK): it is held as long as the unit's
 * process lives, running or stopped, and can be looked at without being taken. A unit that dies
 * leaves its lock file, unlocked, with the name of its slab in it. */
#include "runfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "process.h"
#include "segments.h"
#include "whole.h"
#include "units.h"

enum { TEXT_BYTES = 512 + PATH_MAX, LOCK_ATTEMPTS = 100, ENDING_MS = 10000 };

static sy_status name_files(const struct sy_run_dir *dir, uint32_t unit_id,
                            struct sy_run_unit *unit, sy_error *err)
{
	static const char *const endings[] = {"lock", "ipc", "sock"};
	char *const paths[] = {unit->lock_path, unit->ipc_path, unit->sock_path};
	for (size_t i = 0; i < 3; i++) {
		char name[32];
		sy_format(name, sizeof name, "unit-%u.%s", unit_id, endings[i]);
		sy_status status = sy_run_dir_file(dir, name, paths[i], err);
		if (status != SY_OK)
			return status;
	}
	return SY_OK;
}

static bool read_lock_file(int fd, char out[TEXT_BYTES])
{
	ssize_t got = sy_read_whole(fd, out, TEXT_BYTES - 1);
	out[got > 0 ? got : 0] = '\0';
	return got > 0;
}

/* The value of a line "name value" of a lock file; false if it has none. */
static bool find_value(const char *text, const char *name, char *out, size_t out_bytes)
{
	size_t name_bytes = strlen(name);
	for (const char *line = text; line != NULL && *line != '\0';) {
		size_t line_bytes = strcspn(line, "\n");
		if (line_bytes > name_bytes + 1 && strncmp(line, name, name_bytes) == 0 &&
		    line[name_bytes] == ' ' && line_bytes - name_bytes - 1 < out_bytes) {
			memcpy(out, line + name_bytes + 1, line_bytes - name_bytes - 1);
			out[line_bytes - name_bytes - 1] = '\0';
			return true;
		}
		line += line_bytes + (line[line_bytes] == '\n');
	}
	return false;
}

static pid_t find_pid(const char *text)
{
	char value[24];
	uint64_t pid = 0;
	if (!find_value(text, "pid", value, sizeof value) ||
	    sy_parse_u64(value, strlen(value), &pid, NULL) != SY_OK || pid > INT32_MAX)
		return 0;
	return (pid_t)pid;
}

/* 0: it tells of none. */
static uint64_t find_incarnation(const char *text)
{
	char value[24], *end = NULL;
	if (!find_value(text, "incarnation", value, sizeof value))
		return 0;
	unsigned long long number = strtoull(value, &end, 16);
	return end == value + 16 && *end == '\0' ? number : 0;
}

static sy_status fail_lives(pid_t pid, uint32_t unit_id, sy_error *err)
{
	return sy_fail(err, SY_E_BUSY, "sy_run_unit_init",
	               "unit %u already runs in this run directory (process %d): stop it first, or "
	               "give this one another id or run directory", unit_id, (int)pid);
}

/* Opens and locks the lock file, which a unit that stops may be removing at this moment: the
 * lock counts only if the path still names the file that was locked. One that was killed holds it
 * until the last of its threads is gone. */
static sy_status lock(struct sy_run_unit *unit, uint32_t unit_id, sy_error *err)
{
	const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	for (uint32_t attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
		struct stat locked, named;
		char text[TEXT_BYTES];
		int fd = open(unit->lock_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0)
			break;
		if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
			bool lives = errno == EAGAIN || errno == EACCES;
			pid_t pid = lives && read_lock_file(fd, text) ? find_pid(text) : 0;
			close(fd);
			if (!lives)
				break;
			if (attempt + 1 < LOCK_ATTEMPTS && sy_process_await_end(pid, ENDING_MS))
				continue;
			return fail_lives(pid, unit_id, err);
		}
		if (fstat(fd, &locked) == 0 && stat(unit->lock_path, &named) == 0 &&
		    locked.st_ino == named.st_ino && locked.st_dev == named.st_dev) {
			unit->lock_fd = fd;
			return SY_OK;
		}
		close(fd);
	}
	return sy_fail(err, SY_E_SYS, "sy_run_unit_init", "cannot lock %s: %s", unit->lock_path,
	               strerror(errno));
}

/* Of a unit that is dead. Where another one of this number has the directory now, it is none of
 * our business. */
static void remove_segments(const char *ssd_dir, uint32_t unit_id, uint64_t incarnation)
{
	int fd = open(ssd_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock_fd;
	if (fd < 0)
		return;
	if (sy_segments_lock(fd, unit_id, &lock_fd) == 0) {
		sy_segments_remove(fd, unit_id, incarnation);
		sy_segments_unlock(fd, unit_id, lock_fd);
	}
	close(fd);
}

static bool is_slab_of(const char *path, uid_t user)
{
	char prefix[SY_SLAB_NAME_BYTES];
	sy_format(prefix, sizeof prefix, SY_SLAB_DIR "/slabyard-%u-", (unsigned)user);
	return strncmp(path, prefix, strlen(prefix)) == 0 &&
	       strchr(path + sizeof SY_SLAB_DIR, '/') == NULL;
}

/* The lock is ours, so whoever wrote the file is dead. A damaged file must not make us remove
 * just any file: only a slab of this user, or of the file's, after whom root may tidy up, and what
 * is named as that unit's segments. */
static void remove_leftovers(struct sy_run_unit *unit)
{
	char text[TEXT_BYTES], slab[SY_SLAB_PATH_BYTES];
	char ssd_dir[PATH_MAX];
	struct stat info;
	bool is_left = fstat(unit->lock_fd, &info) == 0 && read_lock_file(unit->lock_fd, text);
	unit->former = is_left ? find_incarnation(text) : 0;
	if (is_left && find_value(text, "slab", slab, sizeof slab) &&
	    (is_slab_of(slab, geteuid()) || is_slab_of(slab, info.st_uid)))
		sy_slab_remove(slab);
	if (unit->former != 0 && find_value(text, "ssd", ssd_dir, sizeof ssd_dir))
		remove_segments(ssd_dir, unit->unit_id, unit->former);
	unlink(unit->ipc_path);
	unlink(unit->sock_path);
}

sy_status sy_run_unit_init(const struct sy_run_dir *dir, uint32_t unit_id,
                           struct sy_run_unit *ret_unit, sy_error *err)
{
	struct sy_run_unit unit = {.unit_id = unit_id, .lock_fd = -1};
	sy_status status = name_files(dir, unit_id, &unit, err);
	if (status == SY_OK)
		status = lock(&unit, unit_id, err);
	if (status != SY_OK)
		return status;
	remove_leftovers(&unit);
	*ret_unit = unit;
	return SY_OK;
}

sy_status sy_run_unit_record(const struct sy_run_unit *unit, const char *slab_path,
                             const char *ssd_dir, sy_incarnation incarnation, sy_error *err)
{
	char text[TEXT_BYTES], ssd[PATH_MAX];
	/* The unit's own folder is not that of who tidies up; a line is no place for a name of two. */
	bool has_ssd = ssd_dir != NULL && realpath(ssd_dir, ssd) != NULL && strchr(ssd, '\n') == NULL;
	size_t bytes = sy_format(text, sizeof text, "pid %d\nincarnation %016llx\nslab %s\n%s%s%s",
	                         (int)getpid(), (unsigned long long)incarnation.value, slab_path,
	                         has_ssd ? "ssd " : "", has_ssd ? ssd : "", has_ssd ? "\n" : "");
	if (bytes >= sizeof text || !sy_write_whole(unit->lock_fd, text, bytes) ||
	    ftruncate(unit->lock_fd, (off_t)bytes) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot write %s: %s", unit->lock_path,
		               strerror(errno));
	return SY_OK;
}

void sy_run_unit_done(struct sy_run_unit *unit)
{
	if (unit->lock_fd < 0)
		return;
	unlink(unit->ipc_path);
	unlink(unit->sock_path);
	unlink(unit->lock_path);
	close(unit->lock_fd);
	unit->lock_fd = -1;
}

bool sy_run_unit_lives(const struct sy_run_dir *dir, uint32_t unit_id, pid_t *ret_pid)
{
	struct sy_run_unit unit;
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char text[TEXT_BYTES];
	if (name_files(dir, unit_id, &unit, NULL) != SY_OK)
		return false;
	int fd = open(unit.lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	bool lives = fcntl(fd, F_OFD_GETLK, &whole) == 0 && whole.l_type != F_UNLCK;
	*ret_pid = lives && read_lock_file(fd, text) ? find_pid(text) : 0;
	close(fd);
	return lives;
}
