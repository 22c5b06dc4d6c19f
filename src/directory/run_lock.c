#include "run_lock.h"
#include "fail.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100, ENDING_MS = 10000 };

static const char lock_name[] = "supervisor.lock";

/* The process that holds the lock; 0: none. */
static pid_t holder_of(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(fd, F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK)
		return 0;
	return whole.l_pid;
}

static sy_status fail_busy(const struct sy_run_dir *dir, int fd, sy_error *err)
{
	return sy_fail(err, SY_E_BUSY, "sy_run_lock_take",
	               "a cluster already runs in %s (process %d): use it, or stop it with `slabyard "
	               "down --run-dir %s`",
	               dir->path, (int)holder_of(fd), dir->path);
}

/* A cluster that stops removes its lock file: the lock counts only if the path still names the
 * file that was locked. */
static bool is_same_file(int fd, const char *path)
{
	struct stat locked, named;
	return fstat(fd, &locked) == 0 && stat(path, &named) == 0 && locked.st_ino == named.st_ino &&
	       locked.st_dev == named.st_dev;
}

/* A supervisor that was killed holds its lock until the last of its threads is gone. True: nobody
 * holds it any more, or another. */
static bool await_ending(int fd)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	if (fcntl(fd, F_GETLK, &whole) != 0 || whole.l_type == F_UNLCK)
		return whole.l_type == F_UNLCK;
	return sy_process_await_end(whole.l_pid, ENDING_MS);
}

/* Of the file that the path names now; else there is none, or it is another by the time. */
static bool try_lock(struct sy_run_lock *lock, bool *ret_held)
{
	const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	bool locked = fcntl(lock->fd, F_SETLK, &whole) == 0;
	*ret_held = !locked && (errno == EAGAIN || errno == EACCES);
	return locked && is_same_file(lock->fd, lock->path);
}

sy_status sy_run_lock_take(const struct sy_run_dir *dir, struct sy_run_lock *ret_lock,
                           sy_error *err)
{
	struct sy_run_lock lock = {.fd = -1};
	sy_status status = sy_run_dir_file(dir, lock_name, lock.path, err);
	for (uint32_t attempt = 0; status == SY_OK && attempt < ATTEMPTS; attempt++) {
		bool held;
		lock.fd = open(lock.path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (lock.fd < 0)
			break;
		if (try_lock(&lock, &held)) {
			*ret_lock = lock;
			return SY_OK;
		}
		int why = errno;
		if (held && !await_ending(lock.fd))
			status = fail_busy(dir, lock.fd, err);
		close(lock.fd);
		errno = why;
	}
	if (status != SY_OK)
		return status;
	return sy_fail(err, SY_E_SYS, __func__, "cannot lock %s: %s", lock.path, strerror(errno));
}

void sy_run_lock_done(struct sy_run_lock *lock)
{
	if (lock->fd < 0)
		return;
	unlink(lock->path);
	close(lock->fd);
	lock->fd = -1;
}

sy_status sy_run_lock_open(const char *path, struct sy_run_dir *ret_dir,
                           struct sy_run_lock *ret_lock, sy_error *err)
{
	struct sy_run_dir dir;
	struct sy_run_lock lock;
	sy_status status = sy_run_dir_open_first(path, true, &dir, err);
	if (status != SY_OK)
		return status;
	status = sy_run_lock_take(&dir, &lock, err);
	if (status == SY_OK) {
		lock.was_bare = sy_run_dir_is_bare(dir.path);
		status = sy_run_dir_open(dir.path, true, ret_dir, err);
		if (status == SY_OK)
			*ret_lock = lock;
		else
			sy_run_lock_done(&lock);
	}
	if (status != SY_OK)
		sy_run_dir_remove(&dir);
	return status;
}

bool sy_run_lock_tidy(const struct sy_run_dir *dir)
{
	struct sy_run_lock lock;
	struct stat info;
	char path[SY_RUN_PATH_BYTES];
	if (sy_run_dir_file(dir, lock_name, path, NULL) != SY_OK || lstat(path, &info) != 0 ||
	    !S_ISREG(info.st_mode) || info.st_size != 0) /* ours is empty */
		return false;
	if (sy_run_lock_take(dir, &lock, NULL) != SY_OK)
		return false;
	sy_run_lock_done(&lock);
	return true;
}

bool sy_run_lock_holder(const struct sy_run_dir *dir, struct sy_run_lock_holder *ret_holder)
{
	char path[SY_RUN_PATH_BYTES];
	if (sy_run_dir_file(dir, lock_name, path, NULL) != SY_OK)
		return false;
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	/* The number may pass to another process between asking and opening; but a process that
	 * holds the lock after its pidfd was made is the one the pidfd is of. */
	struct sy_run_lock_holder holder = {.pid = holder_of(fd), .pidfd = -1};
	if (holder.pid > 0)
		holder.pidfd = pidfd_open(holder.pid, 0);
	holder.is_ending = holder.pidfd >= 0 && sy_process_is_ending(holder.pid);
	bool holds = holder.pidfd >= 0 && holder_of(fd) == holder.pid;
	close(fd);
	if (holds)
		*ret_holder = holder;
	else if (holder.pidfd >= 0)
		close(holder.pidfd);
	return holds;
}
