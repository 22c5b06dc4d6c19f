#include "local.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fail.h"
#include "local_parts.h"
#include "proto.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

enum { BACKLOG_COUNT = 512 };

struct sy_local_server {
	int fd;
	int spare_fd; /* given up for a moment to turn a client away when descriptors have run out */
	bool any_user; /* the socket's group decides who may connect */
	uint64_t refused_count;
	char path[sizeof ((struct sockaddr_un *)0)->sun_path];
};

/* Nobody can connect before listen, so the mode is right from the first client on. */
static int bind_and_listen(int fd, const struct sockaddr_un *address, int group)
{
	const struct sockaddr *named = (const struct sockaddr *)address;
	if (bind(fd, named, sizeof *address) != 0)
		return errno;
	int failed = 0;
	if (group != -1 && chown(address->sun_path, (uid_t)-1, (gid_t)group) != 0)
		failed = errno;
	else if (chmod(address->sun_path, group != -1 ? 0660 : 0600) != 0)
		failed = errno;
	else if (listen(fd, BACKLOG_COUNT) != 0)
		failed = errno;
	if (failed != 0)
		unlink(address->sun_path);
	return failed;
}

sy_status sy_local_server_open(const char *path, int group, struct sy_local_server **ret_server,
                               sy_error *err)
{
	struct sockaddr_un address;
	sy_status status = sy_local_address(path, &address, err);
	if (status != SY_OK)
		return status;
	struct sy_local_server *server = calloc(1, sizeof *server);
	if (server == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	server->any_user = group != -1;
	server->spare_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	server->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int failed = server->fd < 0 || server->spare_fd < 0
	                     ? errno
	                     : bind_and_listen(server->fd, &address, group);
	if (failed != 0) {
		sy_local_server_close(server);
		return sy_fail(err, SY_E_SYS, __func__, "cannot listen at %s: %s", path, strerror(failed));
	}
	memcpy(server->path, address.sun_path, sizeof server->path);
	*ret_server = server;
	return SY_OK;
}

void sy_local_server_close(struct sy_local_server *server)
{
	if (server == NULL)
		return;
	if (server->path[0] != '\0')
		unlink(server->path);
	if (server->fd >= 0)
		close(server->fd);
	if (server->spare_fd >= 0)
		close(server->spare_fd);
	free(server);
}

int sy_local_server_fd(const struct sy_local_server *server)
{
	return server->fd;
}

uint64_t sy_local_server_refused(const struct sy_local_server *server)
{
	return server->refused_count;
}

/* A descriptor of the peer's process. SO_PEERPIDFD (Linux 6.5) names the process that connected,
 * whatever became of its number. Before it, the number is looked up, and may by then be another
 * process's; but if the socket has not ended after the look-up, the process that connected was
 * still there during it, as far as it alone holds the socket: a library of ours closes it in a
 * fork child and at exec. */
static int peer_pidfd(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t bytes = sizeof pidfd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &bytes) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT)
		return -1;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ended = {.fd = fd, .events = POLLIN};
	if (pidfd >= 0 && (poll(&ended, 1, 0) < 0 || (ended.revents & (POLLHUP | POLLERR)) != 0)) {
		close(pidfd);
		return -1;
	}
	return pidfd;
}

/* False, and why if it can be told. */
static bool check_peer(const struct sy_local_server *server, int fd,
                       struct sy_local_peer *ret_peer, uint64_t *ret_why)
{
	struct ucred credentials;
	socklen_t bytes = sizeof credentials;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0)
		return false;
	/* Number 0: a process our pid namespace does not see, so nobody could name it in a log or
	 * count on seeing its end. */
	if (credentials.pid <= 0)
		*ret_why = SY_LOCAL_OTHER_NAMESPACE;
	else if (!server->any_user && credentials.uid != geteuid() && credentials.uid != 0)
		*ret_why = SY_LOCAL_OTHER_USER;
	if (*ret_why != 0)
		return false;
	int pidfd = peer_pidfd(fd, credentials.pid);
	if (pidfd < 0)
		return false;
	*ret_peer = (struct sy_local_peer){.fd = fd, .pidfd = pidfd, .pid = (uint32_t)credentials.pid};
	return true;
}

/* A client left waiting would wake the unit for ever. */
void sy_local_server_turn_away(struct sy_local_server *server)
{
	close(server->spare_fd);
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		server->refused_count++;
	}
	server->spare_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

bool sy_local_server_accept(struct sy_local_server *server, struct sy_local_peer *ret_peer)
{
	int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			sy_local_server_turn_away(server);
		return false;
	}
	struct sy_local_word refusal = {.magic = SY_LOCAL_REFUSAL_MAGIC};
	if (check_peer(server, fd, ret_peer, &refusal.number))
		return true;
	if (refusal.number != 0)
		(void)send(fd, &refusal, sizeof refusal, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
	server->refused_count++;
	return false;
}

bool sy_local_peer_welcome(const struct sy_local_peer *peer,
                           const struct sy_local_welcome *welcome, int slab_fd)
{
	struct sy_local_welcome text = *welcome;
	text.magic = SY_LOCAL_WELCOME_MAGIC;
	return sy_local_send(peer->fd, &text, sizeof text, &slab_fd, 1);
}

/* A peer that went with a message of ours unread leaves an error, and what it said last behind
 * it. */
static ssize_t receive(int fd, struct msghdr *message)
{
	ssize_t got = recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	return got < 0 && errno == ECONNRESET ? recvmsg(fd, message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
	                                      : got;
}

enum sy_local_said sy_local_peer_read(const struct sy_local_peer *peer, uint64_t *ret_last_notice,
                                      struct sy_local_lane *ret_lane)
{
	union {
		struct cmsghdr header; /* aligns the bytes */
		char bytes[CMSG_SPACE(SY_LOCAL_JOIN_FDS * sizeof(int))];
	} control = {0};
	struct sy_local_word word = {0};
	struct iovec part = {.iov_base = &word, .iov_len = sizeof word};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = sizeof control.bytes,
	};
	int fds[SY_LOCAL_JOIN_FDS];
	ssize_t got = receive(peer->fd, &message);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return SY_LOCAL_NOTHING;
	size_t count = got > 0 ? sy_local_take(&message, fds, SY_LOCAL_JOIN_FDS) : 0;
	bool whole = got == (ssize_t)sizeof word && word.reserved == 0 &&
	             (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
	if (whole && word.magic == SY_LOCAL_BYE_MAGIC && count == 0) {
		*ret_last_notice = word.number;
		return SY_LOCAL_BYE;
	}
	if (whole && word.magic == SY_LOCAL_JOIN_MAGIC && count == SY_LOCAL_JOIN_FDS &&
	    word.number == 0) {
		*ret_lane = (struct sy_local_lane){fds[0], fds[1], fds[2]};
		return SY_LOCAL_JOIN;
	}
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	return SY_LOCAL_EOF;
}
