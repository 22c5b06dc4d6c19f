/* Reads and writes of files and pipes that take a byte at a time, and waits of which half end with
 * a signal. The linker leads the calls of this program, which is client, unit and directory in
 * one, through here. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "bytes.h"
#include "clock.h"
#include "cluster.h"
#include "dir_client.h"
#include "slab.h"

enum { UNITS = 2, SLAB_BYTES = 4 << 20, BIG = 20000 };
static const uint64_t SECOND_NS = 1000000000u;
static uint32_t short_count, signal_count; /* atomic: of this process's calls */

/* Never for sockets and counters, which take all or nothing. */
static bool is_file_or_pipe(int fd)
{
	struct stat info;

	return fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISFIFO(info.st_mode));
}

/* Half of them. Not by turns: of a loop with two waits always the same one would end early. */
static bool is_signalled(void)
{
	static uint32_t turn;

	if (sy_mix64(__atomic_add_fetch(&turn, 1, __ATOMIC_RELAXED)) % 2 == 0)
		return false;
	__atomic_add_fetch(&signal_count, 1, __ATOMIC_RELAXED);
	errno = EINTR;
	return true;
}

static size_t taken(int fd, size_t bytes)
{
	if (bytes <= 1 || !is_file_or_pipe(fd))
		return bytes;
	__atomic_add_fetch(&short_count, 1, __ATOMIC_RELAXED);
	return 1;
}

#define WRAP(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

WRAP(ssize_t, read, int fd, void *out, size_t bytes)
{
	if (is_file_or_pipe(fd) && is_signalled())
		return -1;
	return __real_read(fd, out, taken(fd, bytes));
}

WRAP(ssize_t, write, int fd, const void *data, size_t bytes)
{
	if (is_file_or_pipe(fd) && is_signalled())
		return -1;
	return __real_write(fd, data, taken(fd, bytes));
}

WRAP(ssize_t, pread64, int fd, void *out, size_t bytes, off_t at)
{
	return is_signalled() ? -1 : __real_pread64(fd, out, taken(fd, bytes), at);
}

WRAP(ssize_t, pwrite64, int fd, const void *data, size_t bytes, off_t at)
{
	return is_signalled() ? -1 : __real_pwrite64(fd, data, taken(fd, bytes), at);
}

WRAP(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms)
{
	return timeout_ms != 0 && is_signalled() ? -1 : __real_poll(fds, count, timeout_ms);
}

WRAP(int, epoll_wait, int fd, struct epoll_event *events, int count, int timeout_ms)
{
	return timeout_ms != 0 && is_signalled() ? -1
	                                         : __real_epoll_wait(fd, events, count, timeout_ms);
}

/* Of a socket that waits. */
WRAP(int, connect, int fd, const struct sockaddr *address, socklen_t bytes)
{
	return is_signalled() ? -1 : __real_connect(fd, address, bytes);
}

WRAP(int, accept4, int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	return is_signalled() ? -1 : __real_accept4(fd, address, bytes, flags);
}

WRAP(ssize_t, recvmsg, int fd, struct msghdr *message, int flags)
{
	return is_signalled() ? -1 : __real_recvmsg(fd, message, flags);
}

WRAP(int, posix_fallocate64, int fd, off_t at, off_t bytes)
{
	return is_signalled() ? EINTR : __real_posix_fallocate64(fd, at, bytes);
}

WRAP(int, fsync, int fd)
{
	return is_signalled() ? -1 : __real_fsync(fd);
}

/* ZeroMQ looks at its own commands first, and does nothing else if a signal comes then. */
WRAP(int, zmq_connect, void *socket, const char *endpoint)
{
	return is_signalled() ? -1 : __real_zmq_connect(socket, endpoint);
}

WRAP(int, zmq_bind, void *socket, const char *endpoint)
{
	return is_signalled() ? -1 : __real_zmq_bind(socket, endpoint);
}

WRAP(int, zmq_send, void *socket, const void *data, size_t bytes, int flags)
{
	return is_signalled() ? -1 : __real_zmq_send(socket, data, bytes, flags);
}

WRAP(int, zmq_msg_send, zmq_msg_t *message, void *socket, int flags)
{
	return is_signalled() ? -1 : __real_zmq_msg_send(message, socket, flags);
}

WRAP(int, zmq_msg_recv, zmq_msg_t *message, void *socket, int flags)
{
	return is_signalled() ? -1 : __real_zmq_msg_recv(message, socket, flags);
}

static struct cluster cluster;

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, true); /* its files are written so */
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&cluster);
	return 0;
}

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK)
		fail_msg("%s: %s", sy_status_name(status), err->message);
}

/* A client's life: a large and a small value on either unit. */
static void use(void)
{
	static uint8_t data[BIG];
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20 * SECOND_NS};
	sy_key keys[] = {{0, "x", 1}, {1, "x", 1}};
	uint64_t rows[] = {0, 1};
	sy_client *client;
	sy_error err = {0};

	memset(data, 0x5c, sizeof data);
	must(sy_client_open(&options, &client, &err), &err);
	for (size_t nbytes = 100; nbytes <= BIG; nbytes += BIG - 100) {
		sy_value value = {.data = data, .nbytes = nbytes, .kind = SY_KIND_BYTES};
		sy_value values[] = {value, value};
		sy_result *result;

		must(sy_client_put(client, keys, values, 2, 0, &err), &err);
		must(sy_client_get(client, keys, 2, SY_GET_COPY, 0, &result, &err), &err);
		for (size_t i = 0; i < 2; i++) {
			assert_true(sy_result_value(result, i, &value));
			assert_int_equal(value.nbytes, nbytes);
			assert_memory_equal(value.data, data, nbytes);
		}
		sy_result_free(result);
	}
	must(sy_client_clear(client, rows, 2, NULL, 0, 0, NULL, &err), &err);
	sy_client_close(client);
}

static void ask_directory(struct sy_unit_info *ret_unit, struct sy_dir_stats *ret_stats)
{
	uint64_t end_ns = sy_clock_now_ns() + 20 * SECOND_NS;
	struct sy_unit_list list = {0};
	struct sy_dir_client *client;
	sy_error err = {0};

	must(sy_dir_client_open(cluster.directory, &client, &err), &err);
	must(sy_dir_client_units(client, 0, end_ns, &list, &err), &err);
	must(sy_dir_client_stats(client, end_ns, ret_stats, &err), &err);
	*ret_unit = list.units[1];
	sy_unit_list_done(&list);
	sy_dir_client_close(client);
}

/* What a killed unit and a killed directory wrote is read by those in their places: the slab of
 * the one is found and removed, the other goes on where it was. */
static void test_a_byte_a_time(void **state)
{
	struct sy_unit_info before, after;
	struct sy_dir_stats stats;
	char name[SY_SLAB_NAME_BYTES], path[SY_SLAB_PATH_BYTES];

	(void)state;
	use();
	ask_directory(&before, &stats);
	assert_int_equal(stats.store_failures, 0);
	snprintf(name, sizeof name, "slabyard-%u-1-%016llx", (unsigned)geteuid(),
	         (unsigned long long)before.incarnation);
	snprintf(path, sizeof path, "%s/%s", SY_SLAB_DIR, name);
	assert_int_equal(access(path, F_OK), 0);
	cluster_kill(&cluster, 1, SIGKILL);
	kill(cluster.server, SIGKILL);
	cluster_restart_directory(&cluster);
	ask_directory(&after, &stats);
	assert_int_equal(after.incarnation, before.incarnation);
	assert_int_equal(after.state, SY_UNIT_DEAD);
	cluster_restart(&cluster, 1);
	bool left = access(path, F_OK) == 0;
	if (left)
		unlink(path);
	assert_false(left);
	ask_directory(&after, &stats);
	assert_int_equal(after.state, SY_UNIT_ACTIVE);
	assert_int_equal(stats.store_failures, 0);
	use();
	assert_true(short_count > 0 && signal_count > 0);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_byte_a_time),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
