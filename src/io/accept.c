/* accept4() of a program that has servers, in place of libc's also where libzmq calls it.
 *
 * libzmq's listener of ipc addresses ends the process when accept4() has no descriptor (EMFILE),
 * and no option bounds how many connections it takes. So here whoever connects while few
 * descriptors are left is hung up on: libzmq goes on, and the other side tries again until its
 * deadline. Programs name this file among their sources; the library must not have it. */
#include <errno.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For what the process opens beside connections: a file that is written anew, a unit that is
 * started, what a client sends with its lane. */
enum { RESERVED_FDS = 4 };

/* libc's own declaration has a union of all kinds of addresses, which it alone can spell. */
__attribute__((visibility("default"))) int accept4(int socket, void *ret_address,
                                                   unsigned *ret_address_bytes, int flags);

/* The system gives the lowest descriptor that is free: all below it are taken. */
static bool is_one_too_many(int fd)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd + RESERVED_FDS >= limit.rlim_cur;
}

int accept4(int socket, void *ret_address, unsigned *ret_address_bytes, int flags)
{
	int fd = (int)syscall(SYS_accept4, socket, ret_address, ret_address_bytes, flags);
	if (fd >= 0 && !is_one_too_many(fd))
		return fd;
	if (fd >= 0) {
		close(fd);
		errno = ECONNABORTED;
	} else if (errno == EMFILE) {
		errno = EAGAIN; /* the rest is in use, too, for a moment: it is asked again */
	}
	return -1;
}
