#include "out_file.h"
#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static sy_status cannot(const char *path, sy_error *err)
{
	return sy_fail(err, SY_E_SYS, "out_file", "cannot write %s: %s", path, strerror(errno));
}

static bool bytes_write(int fd, const uint8_t *data, uint64_t bytes)
{
	while (bytes > 0) {
		ssize_t wrote = write(fd, data, bytes > SSIZE_MAX ? SSIZE_MAX : bytes);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0)
			return false;
		data += wrote;
		bytes -= (uint64_t)wrote;
	}
	return true;
}

static sy_status in_place_write(const char *path, const void *data, uint64_t bytes, sy_error *err)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDOUT_FILENO) : open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return cannot(path, err);
	bool ok = bytes_write(fd, data, bytes);
	if (!ok) {
		sy_status status = cannot(path, err);
		close(fd);
		return status;
	}
	return close(fd) == 0 ? SY_OK : cannot(path, err);
}

/* The mode that a file made by open(2) would have had; one that is replaced keeps its own. */
static mode_t mode_of(const struct stat *about, bool is_there)
{
	if (is_there)
		return about->st_mode & 07777;
	mode_t mask = umask(0);
	umask(mask);
	return 0666 & ~mask;
}

static sy_status aside_write(const char *path, mode_t mode, const void *data, uint64_t bytes,
                             sy_error *err)
{
	char aside[PATH_MAX];
	if (sy_format(aside, sizeof aside, "%s.XXXXXX", path) >= sizeof aside) {
		errno = ENAMETOOLONG;
		return cannot(path, err);
	}
	int fd = mkostemp(aside, O_CLOEXEC);
	if (fd < 0)
		return cannot(path, err);
	bool ok = bytes_write(fd, data, bytes) && fchmod(fd, mode) == 0;
	int why = errno;
	if (close(fd) != 0 && ok) {
		why = errno;
		ok = false;
	}
	if (ok && rename(aside, path) != 0) {
		why = errno;
		ok = false;
	}
	if (ok)
		return SY_OK;
	unlink(aside);
	errno = why;
	return cannot(path, err);
}

sy_status sy_out_file_write(const char *path, const void *data, uint64_t bytes, sy_error *err)
{
	struct stat about;
	bool is_there = strcmp(path, "-") != 0 && stat(path, &about) == 0;
	if (strcmp(path, "-") == 0 || (is_there && !S_ISREG(about.st_mode)))
		return in_place_write(path, data, bytes, err);
	char *real = is_there ? realpath(path, NULL) : NULL;
	if (is_there && real == NULL)
		return cannot(path, err);
	const char *target = real != NULL ? real : path;
	sy_status status = aside_write(target, mode_of(&about, is_there), data, bytes, err);
	free(real);
	return status;
}
