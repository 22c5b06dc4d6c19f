#include "local_parts.h"

#include <string.h>
#include <unistd.h>

#include "fail.h"
#include "guard.h"

sy_status sy_local_address(const char *path, struct sockaddr_un *ret_address, sy_error *err)
{
	size_t bytes = strlen(path);
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (bytes == 0 || bytes >= sizeof ret_address->sun_path)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "a socket's path has 1 to %zu bytes, this one has %zu: %s",
		               sizeof ret_address->sun_path - 1, bytes, path);
	memcpy(ret_address->sun_path, path, bytes + 1);
	return SY_OK;
}

bool sy_local_send(int fd, const void *text, size_t bytes, const int *fds, size_t fd_count)
{
	union {
		struct cmsghdr header; /* aligns the bytes */
		char bytes[CMSG_SPACE(SY_LOCAL_JOIN_FDS * sizeof(int))];
	} control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = bytes};
	SY_ASSERT(fd_count > 0 && fd_count <= SY_LOCAL_JOIN_FDS);
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = CMSG_SPACE(fd_count * sizeof *fds),
	};
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(fd_count * sizeof *fds);
	memcpy(CMSG_DATA(rights), fds, fd_count * sizeof *fds);
	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

size_t sy_local_take(struct msghdr *message, int *fds, size_t max)
{
	size_t taken = 0;
	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
		if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
			if (taken < max)
				fds[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}
