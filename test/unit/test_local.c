#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "local_parts.h"
#include "proto.h"

/* Long enough for any machine; nothing waits for it to pass. */
static const uint64_t patience_ns = 20000000000u;

struct rig {
	char dir[64], path[96];
	struct sy_local_server *server;
	int slab_fd;
};

static int open_rig(void **state)
{
	struct rig *rig = calloc(1, sizeof *rig);
	sy_error err = {0};
	assert_non_null(rig);
	snprintf(rig->dir, sizeof rig->dir, "/tmp/slabyard-test-XXXXXX");
	assert_non_null(mkdtemp(rig->dir));
	snprintf(rig->path, sizeof rig->path, "%s/unit.sock", rig->dir);
	if (sy_local_server_open(rig->path, -1, &rig->server, &err) != SY_OK)
		fail_msg("%s", err.message);
	rig->slab_fd = memfd_create("slab", MFD_CLOEXEC);
	assert_true(rig->slab_fd >= 0);
	assert_int_equal(ftruncate(rig->slab_fd, 4096), 0);
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;
	sy_local_server_close(rig->server);
	close(rig->slab_fd);
	int left = rmdir(rig->dir);
	free(rig);
	return left;
}

static uint64_t soon(void)
{
	return sy_clock_now_ns() + patience_ns;
}

static void await_readable(int fd)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};
	int ready;
	do
		ready = poll(&waited, 1, 20000);
	while (ready < 0 && errno == EINTR);
	assert_int_equal(ready, 1);
}

static bool is_readable(int fd)
{
	struct pollfd asked = {.fd = fd, .events = POLLIN};
	return poll(&asked, 1, 0) > 0;
}

static struct sy_local_peer accept_peer(struct rig *rig)
{
	struct sy_local_peer peer;
	await_readable(sy_local_server_fd(rig->server));
	assert_true(sy_local_server_accept(rig->server, &peer));
	return peer;
}

static void welcome_peer(struct rig *rig, const struct sy_local_peer *peer)
{
	const struct sy_local_welcome welcome = {
		.version = SY_PROTOCOL_VERSION, .unit_id = 2, .incarnation = 77, .token = 88,
		.slab_bytes = 4096};
	assert_true(sy_local_peer_welcome(peer, &welcome, rig->slab_fd));
}

static void close_peer(const struct sy_local_peer *peer)
{
	close(peer->fd);
	close(peer->pidfd);
}

/* A client in a process of its own: connects, writes to the slab, then does as `ending` says. */
enum ending { SAY_BYE, JUST_CLOSE, WAIT_FOR_KILL, CLOSE_AND_WAIT };

/* What a peer said where no join is awaited. */
static enum sy_local_said read_peer(const struct sy_local_peer *peer, uint64_t *ret_last_notice)
{
	struct sy_local_lane none;
	return sy_local_peer_read(peer, ret_last_notice, &none);
}

static pid_t start_client(const struct rig *rig, enum ending ending)
{
	pid_t child = fork();
	assert_true(child >= 0);
	if (child != 0)
		return child;
	struct sy_local_welcome welcome;
	int fd = -1, slab_fd = -1;
	sy_error err = {0};
	if (sy_local_connect(rig->path, soon(), &welcome, &fd, &slab_fd, &err) != SY_OK)
		_exit(1);
	if (welcome.incarnation != 77 || welcome.token != 88 || welcome.slab_bytes != 4096 ||
	    welcome.unit_id != 2)
		_exit(2);
	if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0 || (fcntl(slab_fd, F_GETFD) & FD_CLOEXEC) == 0)
		_exit(3);
	uint8_t *slab = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, slab_fd, 0);
	if (slab == MAP_FAILED)
		_exit(4);
	slab[100] = 42;
	if (ending == SAY_BYE)
		sy_local_bye(fd, 123456789);
	if (ending != WAIT_FOR_KILL)
		sy_local_close(fd);
	if (ending == WAIT_FOR_KILL || ending == CLOSE_AND_WAIT)
		pause();
	_exit(0);
}

static void end_client(pid_t child)
{
	int status = 0;
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	/* Its own exit code, had it failed before it came to wait. */
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

static void test_socket_is_for_its_owner(void **state)
{
	struct rig *rig = *state;
	struct stat info;
	assert_int_equal(stat(rig->path, &info), 0);
	assert_true(S_ISSOCK(info.st_mode));
	assert_int_equal(info.st_mode & 07777, 0600);
	struct sy_local_peer peer;
	assert_false(sy_local_server_accept(rig->server, &peer)); /* nobody waits, nothing blocks */
}

static void test_descriptor_and_end_of_process(void **state)
{
	struct rig *rig = *state;
	uint64_t last_notice = 0;
	pid_t child = start_client(rig, WAIT_FOR_KILL);
	struct sy_local_peer peer = accept_peer(rig);
	assert_int_equal(peer.pid, child);
	welcome_peer(rig, &peer);
	/* The descriptor went over when its write shows here. */
	uint8_t *slab = mmap(NULL, 4096, PROT_READ, MAP_SHARED, rig->slab_fd, 0);
	assert_true(slab != MAP_FAILED);
	for (uint64_t end_ns = soon(); ((volatile uint8_t *)slab)[100] != 42;)
		assert_true(sy_clock_now_ns() < end_ns);
	munmap(slab, 4096);
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_NOTHING);
	/* Stopped is not gone. */
	assert_int_equal(kill(child, SIGSTOP), 0);
	int status = 0;
	assert_int_equal(waitpid(child, &status, WUNTRACED), child);
	assert_false(is_readable(peer.pidfd));
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_NOTHING);
	assert_int_equal(kill(child, SIGKILL), 0);
	await_readable(peer.pidfd);
	await_readable(peer.fd);
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_EOF);
	close_peer(&peer);
	end_client(child);
}

static void test_bye(void **state)
{
	struct rig *rig = *state;
	uint64_t last_notice = 0;
	pid_t child = start_client(rig, SAY_BYE);
	struct sy_local_peer peer = accept_peer(rig);
	welcome_peer(rig, &peer);
	await_readable(peer.fd);
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_BYE);
	assert_int_equal(last_notice, 123456789);
	await_readable(peer.fd);
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_EOF);
	close_peer(&peer);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* The socket's end says nothing about the process: it lives on and may still write. */
static void test_end_of_socket_alone(void **state)
{
	struct rig *rig = *state;
	uint64_t last_notice = 0;
	pid_t child = start_client(rig, CLOSE_AND_WAIT);
	struct sy_local_peer peer = accept_peer(rig);
	welcome_peer(rig, &peer);
	await_readable(peer.fd);
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_EOF);
	assert_false(is_readable(peer.pidfd));
	end_client(child);
	await_readable(peer.pidfd);
	close_peer(&peer);
}

/* A client's fork child holds nothing: when the client closes, the unit sees the end. */
static int fork_and_close(const struct rig *rig)
{
	struct sy_local_welcome welcome;
	int fd = -1, slab_fd = -1;
	if (sy_local_connect(rig->path, soon(), &welcome, &fd, &slab_fd, NULL) != SY_OK)
		return 1;
	uint32_t count = sy_local_fork_count();
	pid_t grandchild = fork();
	if (grandchild == 0) {
		if (sy_local_fork_count() != count + 1 || fcntl(fd, F_GETFD) != -1)
			_exit(5);
		sy_local_close(fd); /* no harm, though the number is nobody's now */
		pause();
		_exit(0);
	}
	sy_local_close(fd);
	char byte = 0;
	/* Held open until the unit's side has looked. */
	ssize_t got = read(STDIN_FILENO, &byte, 1);
	(void)got;
	int status = 0;
	kill(grandchild, SIGKILL);
	waitpid(grandchild, &status, 0);
	return WIFSIGNALED(status) && sy_local_fork_count() == count ? 0 : 6;
}

static void test_fork_child_holds_nothing(void **state)
{
	struct rig *rig = *state;
	uint64_t last_notice = 0;
	int go[2];
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(go[1]);
		if (dup2(go[0], STDIN_FILENO) < 0)
			_exit(7);
		_exit(fork_and_close(rig));
	}
	close(go[0]);
	struct sy_local_peer peer = accept_peer(rig);
	welcome_peer(rig, &peer);
	await_readable(peer.fd);
	assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_EOF);
	close(go[1]);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	close_peer(&peer);
}

static void test_nonsense_ends_a_peer(void **state)
{
	struct rig *rig = *state;
	struct sockaddr_un address;
	uint64_t last_notice = 7;
	const struct sy_local_word byes[] = {
		{.magic = SY_LOCAL_BYE_MAGIC + 1, .number = 1},
		{.magic = SY_LOCAL_BYE_MAGIC, .reserved = 1, .number = 1},
	};
	assert_int_equal(sy_local_address(rig->path, &address, NULL), SY_OK);
	for (size_t i = 0; i < 5; i++) {
		char longer[64] = {0};
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
		struct sy_local_peer peer = accept_peer(rig);
		if (i < 2)
			assert_int_equal(send(fd, &byes[i], sizeof byes[i], 0), sizeof byes[i]);
		else
			assert_true(send(fd, longer, i == 2 ? 1 : i == 3 ? 15 : sizeof longer, 0) > 0);
		await_readable(peer.fd);
		assert_int_equal(read_peer(&peer, &last_notice), SY_LOCAL_EOF);
		assert_int_equal(last_notice, 7);
		close_peer(&peer);
		close(fd);
	}
}

static void test_client_errors(void **state)
{
	struct rig *rig = *state;
	struct sy_local_welcome welcome;
	int fd = -2, slab_fd = -2;
	char path[128];
	sy_error err = {0};
	snprintf(path, sizeof path, "%s/nobody", rig->dir);
	assert_int_equal(sy_local_connect(path, soon(), &welcome, &fd, &slab_fd, &err), SY_E_SYS);
	memset(path, 'x', sizeof path - 1);
	path[sizeof path - 1] = '\0';
	assert_int_equal(sy_local_connect(path, soon(), &welcome, &fd, &slab_fd, &err), SY_E_INVALID);
	/* Nobody answers: the listener's backlog takes the connection, and no more. */
	assert_int_equal(sy_local_connect(rig->path, sy_clock_now_ns(), &welcome, &fd, &slab_fd, &err),
	                 SY_E_TIMEOUT);
	/* It is turned away without a welcome: the first in the queue is the one that gave up. */
	struct sy_local_peer gone;
	if (sy_local_server_accept(rig->server, &gone))
		close_peer(&gone);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit((int)(sy_local_connect(rig->path, soon(), &welcome, &fd, &slab_fd, &err) - 400));
	struct sy_local_peer peer = accept_peer(rig);
	close_peer(&peer);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), SY_E_SYS - 400);
	assert_int_equal(fd, -2);
	assert_int_equal(slab_fd, -2);
}

static void test_another_version_is_said(void **state)
{
	struct rig *rig = *state;
	struct sy_local_welcome welcome;
	int fd = -2, slab_fd = -2;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		sy_error err = {0};
		sy_status status = sy_local_connect(rig->path, soon(), &welcome, &fd, &slab_fd, &err);
		_exit(status == SY_E_PROTOCOL && strstr(err.message, "version 9") != NULL ? 0 : 1);
	}
	struct sy_local_peer peer = accept_peer(rig);
	const struct sy_local_welcome other = {.version = 9};
	assert_true(sy_local_peer_welcome(&peer, &other, rig->slab_fd));
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 0);
	close_peer(&peer);
}

/* With no descriptor left a client is turned away rather than left to wake the unit for ever. */
static void test_out_of_descriptors(void **state)
{
	struct rig *rig = *state;
	struct sockaddr_un address;
	struct sy_local_peer peer;
	struct rlimit before, none;
	assert_int_equal(sy_local_address(rig->path, &address, NULL), SY_OK);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	/* The spare one's number is below this, so that it can be had again once it is given up. */
	none.rlim_cur = (rlim_t)fd;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int fill[256];
	size_t filled = 0;
	while (filled < COUNT_OF(fill) && (fill[filled] = dup(0)) >= 0)
		filled++;
	bool accepted = sy_local_server_accept(rig->server, &peer);
	for (size_t i = 0; i < filled; i++)
		close(fill[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_true(filled < COUNT_OF(fill));
	assert_false(accepted);
	assert_int_equal(sy_local_server_refused(rig->server), 1);
	assert_false(is_readable(sy_local_server_fd(rig->server)));
	char byte;
	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
	/* And the next one is welcome. */
	pid_t child = start_client(rig, SAY_BYE);
	peer = accept_peer(rig);
	welcome_peer(rig, &peer);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 0);
	close_peer(&peer);
}

/* The unit's process: in a pid namespace of its own, which sees nobody of this one. */
static int serve_in_namespace(const char *path, int said)
{
	struct sy_local_server *server = NULL;
	struct sy_local_peer peer;
	if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
		return 77;
	pid_t inside = fork();
	int status = 0;
	if (inside != 0) /* the first process in there; this one stays outside */
		return waitpid(inside, &status, 0) == inside ? WEXITSTATUS(status) : 1;
	if (sy_local_server_open(path, -1, &server, NULL) != SY_OK || write(said, "x", 1) != 1)
		_exit(1);
	await_readable(sy_local_server_fd(server));
	bool accepted = sy_local_server_accept(server, &peer);
	bool refused = !accepted && sy_local_server_refused(server) == 1;
	sy_local_server_close(server);
	_exit(refused ? 0 : 1);
}

static void test_another_pid_namespace_is_refused(void **state)
{
	struct rig *rig = *state;
	struct sy_local_welcome welcome;
	char path[128], byte;
	int ends[2], status = 0, fd = -1, slab_fd = -1;
	sy_error err = {0};
	snprintf(path, sizeof path, "%s/inside.sock", rig->dir);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(serve_in_namespace(path, ends[1]));
	close(ends[1]);
	bool serves = read(ends[0], &byte, 1) == 1;
	close(ends[0]);
	sy_status told = SY_OK;
	if (serves)
		told = sy_local_connect(path, soon(), &welcome, &fd, &slab_fd, &err);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WEXITSTATUS(status) == 77) {
		print_message("skip: no pid namespace may be made here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(told, SY_E_AUTH);
	assert_non_null(strstr(err.message, "in a pid namespace that the unit does not see"));
}

static void test_another_user_is_refused(void **state)
{
	struct rig *rig = *state;
	if (geteuid() != 0) {
		print_message("skip: only root can become another user\n");
		skip();
	}
	/* Root opens the path to all, so that the check of the peer is what refuses. */
	assert_int_equal(chmod(rig->dir, 0755), 0);
	assert_int_equal(chmod(rig->path, 0666), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct sy_local_welcome welcome;
		int fd = -1, slab_fd = -1;
		if (setuid(12345) != 0)
			_exit(1);
		_exit(sy_local_connect(rig->path, soon(), &welcome, &fd, &slab_fd, NULL) == SY_E_AUTH ? 0
		                                                                                      : 2);
	}
	struct sy_local_peer peer;
	await_readable(sy_local_server_fd(rig->server));
	assert_false(sy_local_server_accept(rig->server, &peer));
	assert_int_equal(sy_local_server_refused(rig->server), 1);
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_socket_is_for_its_owner),
		WITH_RIG(test_descriptor_and_end_of_process),
		WITH_RIG(test_bye),
		WITH_RIG(test_end_of_socket_alone),
		WITH_RIG(test_fork_child_holds_nothing),
		WITH_RIG(test_nonsense_ends_a_peer),
		WITH_RIG(test_client_errors),
		WITH_RIG(test_another_version_is_said),
		WITH_RIG(test_out_of_descriptors),
		WITH_RIG(test_another_user_is_refused),
		WITH_RIG(test_another_pid_namespace_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
