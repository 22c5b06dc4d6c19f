#include "whole.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Of calls that begin anew: a program that gets more signals than that never gets anywhere. */
enum { SIGNALS_MAX = 64 };

ssize_t sy_read_whole(int fd, void *out, size_t room)
{
	size_t bytes = 0;
	while (bytes < room) {
		ssize_t got = pread(fd, (uint8_t *)out + bytes, room - bytes, (off_t)bytes);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		bytes += (size_t)got;
	}
	return (ssize_t)bytes;
}

bool sy_write_whole(int fd, const void *data, size_t bytes)
{
	size_t done = 0;
	while (done < bytes) {
		ssize_t went = pwrite(fd, (const uint8_t *)data + done, bytes - done, (off_t)done);
		if (went < 0 && errno == EINTR)
			continue;
		if (went < 0)
			return false;
		if (went == 0) {
			errno = ENOSPC;
			return false;
		}
		done += (size_t)went;
	}
	return true;
}

int sy_allocate_whole(int fd, uint64_t at, uint64_t bytes)
{
	int failed = EINTR;
	for (int i = 0; i < SIGNALS_MAX && failed == EINTR; i++)
		failed = posix_fallocate(fd, (off_t)at, (off_t)bytes);
	return failed;
}

int sy_sync_whole(int fd)
{
	int failed = EINTR;
	for (int i = 0; i < SIGNALS_MAX && failed == EINTR; i++)
		failed = fsync(fd) == 0 ? 0 : errno;
	return failed;
}

bool sy_read_stream(int fd, void *out, size_t bytes)
{
	size_t got = 0;
	while (got < bytes) {
		ssize_t more = read(fd, (uint8_t *)out + got, bytes - got);
		if (more == 0 || (more < 0 && errno != EINTR))
			return false;
		got += more > 0 ? (size_t)more : 0;
	}
	return true;
}
