#include "run_lock.h"
#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ATTEMPTS = 100 };

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

sy_status sy_run_lock_take(const struct sy_run_dir *dir, struct sy_run_lock *ret_lock,
                           sy_error *err)
{
	const struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct sy_run_lock lock;
	sy_status status = sy_run_dir_file(dir, lock_name, lock.path, err);
	if (status != SY_OK)
		return status;
	for (uint32_t attempt = 0; attempt < ATTEMPTS; attempt++) {
		lock.fd = open(lock.path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (lock.fd < 0)
			break;
		if (fcntl(lock.fd, F_SETLK, &whole) != 0) {
			bool is_held = errno == EAGAIN || errno == EACCES;
			status = is_held ? fail_busy(dir, lock.fd, err) : SY_OK;
			int why = errno;
			close(lock.fd);
			errno = why;
			if (is_held)
				return status;
			break;
		}
		if (is_same_file(lock.fd, lock.path)) {
			*ret_lock = lock;
			return SY_OK;
		}
		close(lock.fd);
	}
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

bool sy_run_lock_holder(const struct sy_run_dir *dir, pid_t *ret_pid, int *ret_pidfd)
{
	char path[SY_RUN_PATH_BYTES];
	if (sy_run_dir_file(dir, lock_name, path, NULL) != SY_OK)
		return false;
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	/* The number may pass to another process between asking and opening; but a process that
	 * holds the lock after its pidfd was made is the one the pidfd is of. */
	pid_t pid = holder_of(fd);
	int pidfd = pid > 0 ? pidfd_open(pid, 0) : -1;
	bool holds = pidfd >= 0 && holder_of(fd) == pid;
	close(fd);
	if (!holds && pidfd >= 0)
		close(pidfd);
	if (!holds)
		return false;
	*ret_pid = pid;
	*ret_pidfd = pidfd;
	return true;
}
