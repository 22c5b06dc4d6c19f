#include "runfiles.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bytes.h"
#include "fail.h"
#include "process.h"
#include "units.h"
#include "whole.h"

enum { TEXT_BYTES = 512 };

static const char version_format[] = "slabyard run directory, version %d\n";
static const char version_begin[] = "slabyard run directory, version ";

/* What of VERSION an opener wants. */
enum version { VERSION_NEEDED, VERSION_MADE, VERSION_LATER };

/* Reads a small file whole; false if it is absent or larger. */
static bool read_file(int fd, char out[TEXT_BYTES])
{
	ssize_t got = sy_read_whole(fd, out, TEXT_BYTES);
	if (got < 0 || got >= TEXT_BYTES)
		return false;
	out[got] = '\0';
	return true;
}

static bool read_path(const char *path, char out[TEXT_BYTES])
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool ok = fd >= 0 && read_file(fd, out);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* Several units start at once in a fresh directory: each writes a file of its own and one link
 * of them wins, so that nobody reads half a VERSION. */
static bool write_version(const struct sy_run_dir *dir, const char *path, const char *text)
{
	char own[SY_RUN_PATH_BYTES + 32];
	sy_format(own, sizeof own, "%s/VERSION.%d", dir->path, (int)getpid());
	int fd = open(own, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	bool ok = sy_write_whole(fd, text, strlen(text));
	close(fd);
	ok = ok && (link(own, path) == 0 || errno == EEXIST);
	unlink(own);
	return ok;
}

bool sy_run_dir_is_bare(const char *path)
{
	char version[PATH_MAX];
	size_t bytes = sy_format(version, sizeof version, "%s/VERSION", path);
	return bytes < sizeof version && access(version, F_OK) != 0 && errno == ENOENT;
}

static sy_status check_version(const struct sy_run_dir *dir, enum version version, sy_error *err)
{
	char path[SY_RUN_PATH_BYTES + 32], want[64], have[TEXT_BYTES];
	sy_format(path, sizeof path, "%s/VERSION", dir->path);
	sy_format(want, sizeof want, version_format, SY_RUN_VERSION);
	if (!read_path(path, have)) {
		if (version == VERSION_LATER)
			return SY_OK;
		if (version == VERSION_NEEDED)
			return sy_fail(err, SY_E_SYS, "sy_run_dir_open",
			               "%s is no run directory (it has no VERSION): `slabyard up` makes one",
			               dir->path);
		if (!write_version(dir, path, want) || !read_path(path, have))
			return sy_fail(err, SY_E_SYS, "sy_run_dir_open", "cannot write %s: %s", path,
			               strerror(errno));
	}
	if (strcmp(have, want) != 0)
		return sy_fail(err, SY_E_PROTOCOL, "sy_run_dir_open",
		               "%s was made by another version of slabyard (this one has version %d): "
		               "stop that cluster or use another --run-dir", dir->path, SY_RUN_VERSION);
	return SY_OK;
}

/* Whoever may write to the directory can put a socket of his own there. */
static sy_status check_owner(const char *path, sy_error *err)
{
	struct stat info;
	if (stat(path, &info) != 0)
		return sy_fail(err, SY_E_SYS, "sy_run_dir_open", "cannot open the run directory %s: %s%s",
		               path, strerror(errno), errno == ENOENT ? " (is the cluster up?)" : "");
	if (!S_ISDIR(info.st_mode))
		return sy_fail(err, SY_E_SYS, "sy_run_dir_open", "the run directory %s is no directory",
		               path);
	if (info.st_uid != geteuid() && info.st_uid != 0 && geteuid() != 0)
		return sy_fail(err, SY_E_AUTH, "sy_run_dir_open",
		               "the run directory %s belongs to another user", path);
	if ((info.st_mode & S_IWOTH) != 0)
		return sy_fail(err, SY_E_AUTH, "sy_run_dir_open",
		               "everybody may write to the run directory %s: chmod o-w it", path);
	return SY_OK;
}

static sy_status open_existing(const char *path, enum version version, struct sy_run_dir *dir,
                               sy_error *err)
{
	static const char longest[] = "unit-4294967295.sock";
	char unused[SY_RUN_PATH_BYTES];
	sy_status status = check_owner(path, err);
	if (status != SY_OK)
		return status;
	char *absolute = realpath(path, NULL);
	if (absolute == NULL)
		return sy_fail(err, SY_E_SYS, "sy_run_dir_open", "cannot open the run directory %s: %s",
		               path, strerror(errno));
	size_t bytes = strlen(absolute);
	bool fits = bytes < sizeof dir->path;
	if (fits)
		memcpy(dir->path, absolute, bytes + 1);
	free(absolute);
	if (!fits || sy_run_dir_file(dir, longest, unused, NULL) != SY_OK)
		return sy_fail(err, SY_E_INVALID, "sy_run_dir_open",
		               "the run directory's path has %zu bytes; the names of sockets in it leave "
		               "room for %zu: use a shorter --run-dir", bytes,
		               SY_RUN_PATH_BYTES - 1 - sizeof longest);
	return check_version(dir, version, err);
}

static sy_status open_dir(const char *path, bool create, enum version version,
                          struct sy_run_dir *ret_dir, sy_error *err)
{
	struct sy_run_dir dir;
	if (path == NULL || *path == '\0')
		return sy_fail(err, SY_E_INVALID, "sy_run_dir_open", "the run directory has no name");
	bool made = create && mkdir(path, S_ISVTX | S_IRWXU) == 0;
	if (create && !made && errno != EEXIST)
		return sy_fail(err, SY_E_SYS, "sy_run_dir_open", "cannot make the run directory %s: %s",
		               path, strerror(errno));
	sy_status status = open_existing(path, version, &dir, err);
	if (status == SY_OK)
		*ret_dir = dir;
	else if (made)
		rmdir(path);
	return status;
}

sy_status sy_run_dir_open(const char *path, bool create, struct sy_run_dir *ret_dir,
                          sy_error *err)
{
	return open_dir(path, create, create ? VERSION_MADE : VERSION_NEEDED, ret_dir, err);
}

sy_status sy_run_dir_open_first(const char *path, bool create, struct sy_run_dir *ret_dir,
                                sy_error *err)
{
	return open_dir(path, create, VERSION_LATER, ret_dir, err);
}

/* What write_version left where it was killed: as much as it had written by then. */
static bool is_unfinished(const struct sy_run_dir *dir, const char *name)
{
	static const char prefix[] = "VERSION.";
	char path[PATH_MAX], text[TEXT_BYTES];
	const char *number = name + strlen(prefix);
	uint64_t pid;
	if (strncmp(name, prefix, strlen(prefix)) != 0 ||
	    sy_parse_u64(number, strlen(number), &pid, NULL) != SY_OK || pid > INT32_MAX ||
	    !sy_process_await_end((pid_t)pid, 0))
		return false;
	sy_format(path, sizeof path, "%s/%s", dir->path, name);
	return read_path(path, text) &&
	       strncmp(text, version_begin, sy_min_u64(strlen(text), strlen(version_begin))) == 0;
}

bool sy_run_dir_tidy(const struct sy_run_dir *dir)
{
	bool found = false;
	DIR *folder = opendir(dir->path);
	if (folder == NULL)
		return false;
	for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder))
		if (is_unfinished(dir, entry->d_name))
			found = unlinkat(dirfd(folder), entry->d_name, 0) == 0 || found;
	closedir(folder);
	return found;
}

void sy_run_dir_remove(const struct sy_run_dir *dir)
{
	struct stat info;
	(void)sy_run_dir_tidy(dir);
	if (stat(dir->path, &info) == 0 && (info.st_mode & S_ISVTX) != 0)
		rmdir(dir->path); /* fails if it holds anything, as it should */
}

sy_status sy_run_dir_file(const struct sy_run_dir *dir, const char *name,
                          char ret_path[SY_RUN_PATH_BYTES], sy_error *err)
{
	char path[SY_RUN_PATH_BYTES];
	size_t bytes = sy_format(path, sizeof path, "%s/%s", dir->path, name);
	if (bytes >= sizeof path)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "%s/%s has %zu bytes, a socket's path at most %d: use a shorter --run-dir",
		               dir->path, name, bytes, SY_RUN_PATH_BYTES - 1);
	memcpy(ret_path, path, bytes + 1);
	return SY_OK;
}
