/* What the system gives a program, refused: the linker leads the program's own calls here. Who
 * includes this says with runs_short(errno) whether the call that is made just now fails, and has
 * shortage_link_args of meson.build. */
#ifndef SY_TEST_SHORTAGE_H
#define SY_TEST_SHORTAGE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

bool runs_short(int error);

#define SHORTAGE(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

SHORTAGE(void *, malloc, size_t bytes)
{
	return runs_short(ENOMEM) ? NULL : __real_malloc(bytes);
}

SHORTAGE(void *, calloc, size_t count, size_t bytes)
{
	return runs_short(ENOMEM) ? NULL : __real_calloc(count, bytes);
}

SHORTAGE(void *, realloc, void *memory, size_t bytes)
{
	return runs_short(ENOMEM) ? NULL : __real_realloc(memory, bytes);
}

SHORTAGE(void *, aligned_alloc, size_t alignment, size_t bytes)
{
	return runs_short(ENOMEM) ? NULL : __real_aligned_alloc(alignment, bytes);
}

SHORTAGE(char *, strdup, const char *text)
{
	return runs_short(ENOMEM) ? NULL : __real_strdup(text);
}

SHORTAGE(void *, mmap64, void *at, size_t bytes, int access, int flags, int fd, off_t offset)
{
	return runs_short(ENOMEM) ? MAP_FAILED : __real_mmap64(at, bytes, access, flags, fd, offset);
}

SHORTAGE(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
         void *(*run)(void *), void *argument)
{
	return runs_short(EAGAIN) ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

SHORTAGE(int, memfd_create, const char *name, unsigned flags)
{
	return runs_short(EMFILE) ? -1 : __real_memfd_create(name, flags);
}

SHORTAGE(int, open64, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	unsigned mode = (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0;
	va_end(args);
	return runs_short(EMFILE) ? -1 : __real_open64(path, flags, mode);
}

SHORTAGE(int, openat64, int dir_fd, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	unsigned mode = (flags & O_CREAT) != 0 ? va_arg(args, unsigned) : 0;
	va_end(args);
	return runs_short(EMFILE) ? -1 : __real_openat64(dir_fd, path, flags, mode);
}

SHORTAGE(FILE *, fopen64, const char *path, const char *how)
{
	return runs_short(EMFILE) ? NULL : __real_fopen64(path, how);
}

SHORTAGE(DIR *, opendir, const char *path)
{
	return runs_short(EMFILE) ? NULL : __real_opendir(path);
}

SHORTAGE(int, socket, int domain, int type, int protocol)
{
	return runs_short(EMFILE) ? -1 : __real_socket(domain, type, protocol);
}

SHORTAGE(int, eventfd, unsigned count, int flags)
{
	return runs_short(EMFILE) ? -1 : __real_eventfd(count, flags);
}

SHORTAGE(int, epoll_create1, int flags)
{
	return runs_short(EMFILE) ? -1 : __real_epoll_create1(flags);
}

SHORTAGE(int, epoll_ctl, int fd, int what, int of, struct epoll_event *event)
{
	bool adds = what == EPOLL_CTL_ADD;

	return adds && runs_short(ENOSPC) ? -1 : __real_epoll_ctl(fd, what, of, event);
}

SHORTAGE(int, pidfd_open, pid_t pid, unsigned flags)
{
	return runs_short(EMFILE) ? -1 : __real_pidfd_open(pid, flags);
}

SHORTAGE(int, pipe2, int fds[2], int flags)
{
	return runs_short(EMFILE) ? -1 : __real_pipe2(fds, flags);
}

#endif
