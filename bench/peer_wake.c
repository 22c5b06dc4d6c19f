/* What it costs to wake so many processes and to be woken by them, and nothing else: each waits in
 * epoll for its eventfd as a unit does, and answers by a futex as a unit does, but moves no byte
 * and looks nothing up. Below this no put or get of as many units can come. */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

enum { SLEEPERS_MAX = 1024 };

/* In memory that all of them share. */
struct bell {
	uint32_t word;     /* the futex */
	uint32_t sleeping; /* atomic: the asker sleeps */
	uint32_t answered; /* atomic */
};

struct crew {
	struct bell *bell;
	uint32_t count;
	int doors[SLEEPERS_MAX];
};

_Noreturn static void sleeper(struct bell *bell, int door)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, door, &event) != 0)
		_exit(1);
	for (;;) {
		if (epoll_wait(epoll_fd, &event, 1, -1) != 1)
			continue;
		__atomic_add_fetch(&bell->answered, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&bell->word, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST) != 0)
			syscall(SYS_futex, &bell->word, FUTEX_WAKE, 1, NULL, NULL, 0);
	}
}

static bool sleeper_start(struct peer *peer, struct crew *crew)
{
	pid_t asker = getpid();
	int door = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pid_t pid = door >= 0 ? fork() : -1;

	if (pid < 0)
		return peer_fail(peer, "a process to wake: %s", strerror(errno));
	if (pid == 0) {
		signal(SIGCHLD, SIG_DFL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != asker)
			_exit(1);
		sleeper(crew->bell, door);
	}
	crew->doors[peer->server_count] = door;
	peer->servers[peer->server_count++] = pid;
	return true;
}

static bool wake_open(struct peer *peer)
{
	struct crew *crew = calloc(1, sizeof *crew);
	bool ok = crew != NULL;

	peer->shared = crew;
	if (!ok)
		return peer_fail(peer, "out of memory");
	crew->count = (uint32_t)strtoul(peer->address, NULL, 10);
	if (crew->count < 1 || crew->count > SLEEPERS_MAX)
		return peer_fail(peer, "1 to %d processes to wake", SLEEPERS_MAX);
	crew->bell = mmap(NULL, sizeof *crew->bell, PROT_READ | PROT_WRITE,
	                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	peer->servers = calloc(crew->count, sizeof *peer->servers);
	if (crew->bell == MAP_FAILED || peer->servers == NULL)
		return peer_fail(peer, "out of memory");
	while (ok && peer->server_count < crew->count)
		ok = sleeper_start(peer, crew);
	return ok;
}

static void wake_close(struct peer *peer)
{
	struct crew *crew = peer->shared;

	signal(SIGCHLD, SIG_DFL); /* they end by our doing */
	for (size_t i = 0; i < peer->server_count; i++) {
		kill(peer->servers[i], SIGKILL);
		waitpid(peer->servers[i], NULL, 0);
		close(crew->doors[i]);
	}
	free(peer->servers);
	free(crew);
	peer->servers = NULL;
	peer->server_count = 0;
	peer->shared = NULL;
}

static void *wake_connect(struct peer *peer, uint32_t batch_max, bool fresh)
{
	(void)batch_max;
	(void)fresh;
	return peer;
}

static void wake_disconnect(void *connection)
{
	(void)connection;
}

/* All at once, then all their answers. */
static bool wake_all(void *connection, const struct batch *batch, enum peer_way way)
{
	const struct peer *peer = connection;
	const struct crew *crew = peer->shared;
	struct bell *bell = crew->bell;
	uint64_t one = 1;

	(void)batch;
	(void)way;
	__atomic_store_n(&bell->answered, 0, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < crew->count; i++) {
		if (write(crew->doors[i], &one, sizeof one) != sizeof one)
			return peer_fail(connection, "a process to wake: %s", strerror(errno));
	}
	for (;;) {
		uint32_t seen = __atomic_load_n(&bell->word, __ATOMIC_SEQ_CST);

		if (__atomic_load_n(&bell->answered, __ATOMIC_SEQ_CST) == crew->count)
			return true;
		__atomic_store_n(&bell->sleeping, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &bell->word, FUTEX_WAIT, seen, NULL, NULL, 0);
		__atomic_store_n(&bell->sleeping, 0, __ATOMIC_SEQ_CST);
	}
}

static bool wake_value(void *connection, const struct batch *batch, uint32_t i, uint32_t column,
                       const void **ret_data, size_t *ret_bytes)
{
	const struct peer *peer = connection;
	uint32_t slot = peer->held[batch->positions[i]];

	if (slot == PAYLOAD_EMPTY)
		return false;
	*ret_data = payload_value(batch->payload, slot, column, ret_bytes);
	return true;
}

static void wake_release(void *connection)
{
	(void)connection;
}

static bool wake_clear(void *connection, const struct batch *batch)
{
	(void)connection;
	(void)batch;
	return true;
}

const struct peer_kind peer_wake = {
	.name = "wake",
	.copies_only = true,
	.open = wake_open,
	.close = wake_close,
	.connect = wake_connect,
	.disconnect = wake_disconnect,
	.put = wake_all,
	.get = wake_all,
	.value = wake_value,
	.release = wake_release,
	.clear = wake_clear,
};
