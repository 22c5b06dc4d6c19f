/* The client's end of the local socket.
 *
 * A fork child is no client of the unit: it must not keep the socket open after its parent, whose
 * end the unit would then not see. Open sockets stand in a table that a fork handler closes in
 * the child; a fork at any instant finds each descriptor either in the table or not yet made. */
#include "local.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "local_parts.h"
#include "proto.h"

enum { OPEN_MAX = 8192, CONNECT_ATTEMPTS = 100000 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static int open_fds[OPEN_MAX]; /* fd + 1; 0: free */
static atomic_uint fork_count;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static int fork_failed;

static void before_fork(void)
{
	pthread_mutex_lock(&table_lock);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&table_lock);
}

static void after_fork_in_child(void)
{
	for (size_t i = 0; i < OPEN_MAX; i++) {
		if (open_fds[i] != 0)
			close(open_fds[i] - 1);
		open_fds[i] = 0;
	}
	atomic_fetch_add(&fork_count, 1);
	pthread_mutex_unlock(&table_lock);
}

static void watch_forks(void)
{
	fork_failed = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

uint32_t sy_local_fork_count(void)
{
	pthread_once(&fork_once, watch_forks); /* who asks before the first connection counts too */
	return atomic_load(&fork_count);
}

static int new_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int new_door(void)
{
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* Makes a descriptor and enters it, with no fork between. Returns -1 and errno on failure. */
static int open_entered(int (*make)(void))
{
	int fd = -1;
	size_t at = 0;
	pthread_once(&fork_once, watch_forks);
	if (fork_failed != 0) {
		errno = fork_failed;
		return -1;
	}
	pthread_mutex_lock(&table_lock);
	while (at < OPEN_MAX && open_fds[at] != 0)
		at++;
	errno = EMFILE;
	if (at < OPEN_MAX)
		fd = make();
	if (fd >= 0)
		open_fds[at] = fd + 1;
	int saved = errno;
	pthread_mutex_unlock(&table_lock);
	errno = saved;
	return fd;
}

int sy_local_door(void)
{
	return open_entered(new_door);
}

void sy_local_close(int fd)
{
	if (fd < 0)
		return;
	pthread_mutex_lock(&table_lock);
	for (size_t i = 0; i < OPEN_MAX; i++) {
		/* In a fork child the number is not in the table, and perhaps another file's. */
		if (open_fds[i] == fd + 1) {
			open_fds[i] = 0;
			close(fd);
			break;
		}
	}
	pthread_mutex_unlock(&table_lock);
}

/* EAGAIN: the unit's backlog is full, and nothing tells when it is not. */
static int connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline_ns)
{
	for (uint32_t attempt = 0; attempt < CONNECT_ATTEMPTS; attempt++) {
		if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return errno;
		if (sy_clock_now_ns() >= deadline_ns)
			return ETIMEDOUT;
		poll(NULL, 0, 1);
	}
	return ETIMEDOUT;
}

static int wait_readable(int fd, uint64_t deadline_ns)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};
	/* Each round is an minute at most; a signal ends one early. */
	for (uint32_t round = 0; round < UINT16_MAX; round++) {
		uint64_t now_ns = sy_clock_now_ns();
		int ready = poll(&waited, 1, sy_clock_poll_ms(now_ns, deadline_ns));
		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return errno;
		if (now_ns >= deadline_ns)
			return ETIMEDOUT;
	}
	return ETIMEDOUT;
}

/* It says why it refuses, so that to try again is of no use. */
static sy_status fail_refused(uint64_t why, sy_error *err)
{
	if (why == SY_LOCAL_OTHER_NAMESPACE)
		return sy_fail(err, SY_E_AUTH, "sy_local_connect",
		               "this process is in a pid namespace that the unit does not see: share the "
		               "unit's, or use transport ucx");
	return sy_fail(err, SY_E_AUTH, "sy_local_connect",
	               "the unit lets in its own user and root alone, and this process is neither's");
}

static sy_status fail_welcome(const char *path, const struct sy_local_welcome *welcome,
                              ssize_t got, sy_error *err)
{
	struct sy_local_word word;
	if (got <= 0)
		return sy_fail(err, SY_E_SYS, "sy_local_connect",
		               "the unit at %s hangs up: it has too few descriptors for one client more "
		               "(ulimit -n), or is about to end", path);
	memcpy(&word, welcome, sizeof word);
	if (got == (ssize_t)sizeof word && word.magic == SY_LOCAL_REFUSAL_MAGIC)
		return fail_refused(word.number, err);
	if (got >= 8 && welcome->magic == SY_LOCAL_WELCOME_MAGIC &&
	    welcome->version != SY_PROTOCOL_VERSION)
		return sy_fail(err, SY_E_PROTOCOL, "sy_local_connect",
		               "the unit at %s speaks protocol version %u, this library version %d", path,
		               welcome->version, SY_PROTOCOL_VERSION);
	return sy_fail(err, SY_E_PROTOCOL, "sy_local_connect", "what listens at %s is no unit", path);
}

static sy_status receive_welcome(int fd, const char *path, struct sy_local_welcome *ret_welcome,
                                 int *ret_slab_fd, sy_error *err)
{
	union {
		struct cmsghdr header; /* aligns the bytes */
		char bytes[CMSG_SPACE(4 * sizeof(int))];
	} control = {0};
	struct sy_local_welcome welcome = {0};
	struct iovec part = {.iov_base = &welcome, .iov_len = sizeof welcome};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1,
		.msg_control = control.bytes, .msg_controllen = sizeof control.bytes,
	};
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int slab_fd = -1;
	if (got > 0)
		(void)sy_local_take(&message, &slab_fd, 1);
	if (got != (ssize_t)sizeof welcome || welcome.magic != SY_LOCAL_WELCOME_MAGIC ||
	    welcome.version != SY_PROTOCOL_VERSION || slab_fd < 0 ||
	    (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
		if (slab_fd >= 0)
			close(slab_fd);
		return fail_welcome(path, &welcome, got, err);
	}
	*ret_welcome = welcome;
	*ret_slab_fd = slab_fd;
	return SY_OK;
}

sy_status sy_local_connect(const char *path, uint64_t deadline_ns,
                           struct sy_local_welcome *ret_welcome, int *ret_fd, int *ret_slab_fd,
                           sy_error *err)
{
	struct sockaddr_un address;
	sy_status status = sy_local_address(path, &address, err);
	if (status != SY_OK)
		return status;
	int fd = open_entered(new_socket);
	if (fd < 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot make a socket: %s", strerror(errno));
	int failed = connect_until(fd, &address, deadline_ns);
	if (failed == 0)
		failed = wait_readable(fd, deadline_ns);
	if (failed == ETIMEDOUT)
		status = sy_fail(err, SY_E_TIMEOUT, __func__, "no answer from the unit at %s", path);
	else if (failed == EACCES || failed == EPERM)
		status = sy_fail(err, SY_E_AUTH, __func__, "may not connect to the unit at %s: %s", path,
		                 strerror(failed));
	else if (failed != 0)
		status = sy_fail(err, SY_E_SYS, __func__, "no unit listens at %s: %s", path,
		                 strerror(failed));
	else
		status = receive_welcome(fd, path, ret_welcome, ret_slab_fd, err);
	if (status == SY_OK)
		*ret_fd = fd;
	else
		sy_local_close(fd);
	return status;
}

bool sy_local_join(int fd, const struct sy_local_lane *lane)
{
	const struct sy_local_word join = {.magic = SY_LOCAL_JOIN_MAGIC};
	const int fds[SY_LOCAL_JOIN_FDS] = {lane->lane_fd, lane->bell_fd, lane->door_fd};
	return sy_local_send(fd, &join, sizeof join, fds, SY_LOCAL_JOIN_FDS);
}

void sy_local_bye(int fd, uint64_t last_notice)
{
	const struct sy_local_word bye = {.magic = SY_LOCAL_BYE_MAGIC, .number = last_notice};
	/* One that cannot be sent is an end without bye for the unit, which is safe. */
	(void)send(fd, &bye, sizeof bye, MSG_NOSIGNAL | MSG_DONTWAIT);
}
