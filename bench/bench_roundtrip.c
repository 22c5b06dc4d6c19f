/* What one control round trip costs over each channel that could carry it: two processes, one
 * question of 100 bytes and one answer at a time, all channels in turns.
 *
 *   zmq         DEALER and ROUTER over ipc, as the control plane has it
 *   socket      a unix socket of packets, blocking
 *   epoll       the same, each side waits in epoll for it and others
 *   eventfd     a slot in shared memory, an eventfd wakes
 *   futex       a slot in shared memory, a futex wakes
 *   spin        the same, the waiter looks for 30 us before it sleeps
 *
 *   bench_roundtrip [ROUNDS [TRIPS]]: both processes on the CPUs they are allowed. A line of JSON
 * each; ours_over_theirs has the last's time, which is what the store does, over that one's. */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <zmq.h>

#include "measure.h"

enum { MESSAGE_BYTES = 100, CHANNELS = 6, ROUNDS_MAX = 100, ROUTE_BYTES = 64 };
static const uint64_t spin_ns = 30000;
static const uint64_t burst_ns = 100000000; /* where spinners starve each other a burst is cut */

/* One direction through shared memory. */
struct lane {
	uint32_t full; /* atomic: 1, a message is there; the futex */
	uint32_t sleeping; /* atomic: its reader sleeps */
	char message[MESSAGE_BYTES];
	char pad[64];
};

struct bench {
	struct lane *lanes; /* to the server, to the client */
	int packets[2], polled[2], events[2];
	char address[96];
	void *context, *socket;
	int epoll_fd;
};

struct channel {
	const char *name;
	/* side 0 is the client. */
	void (*send)(struct bench *bench, int side, const char *message);
	void (*receive)(struct bench *bench, int side, char *message);
};

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "bench_roundtrip: %s: %s\n", what, strerror(errno));
	exit(1);
}

static char route[ROUTE_BYTES];
static int route_bytes;

static void zmq_give(struct bench *bench, int side, const char *message)
{
	if (side == 1 && zmq_send(bench->socket, route, (size_t)route_bytes, ZMQ_SNDMORE) < 0)
		die("zmq_send");
	if (zmq_send(bench->socket, message, MESSAGE_BYTES, 0) < 0)
		die("zmq_send");
}

static void zmq_take(struct bench *bench, int side, char *message)
{
	if (side == 1)
		route_bytes = zmq_recv(bench->socket, route, sizeof route, 0);
	if (zmq_recv(bench->socket, message, MESSAGE_BYTES, 0) != MESSAGE_BYTES)
		die("zmq_recv");
}

static void socket_give(struct bench *bench, int side, const char *message)
{
	if (send(bench->packets[side], message, MESSAGE_BYTES, 0) != MESSAGE_BYTES)
		die("send");
}

static void socket_take(struct bench *bench, int side, char *message)
{
	if (recv(bench->packets[side], message, MESSAGE_BYTES, 0) != MESSAGE_BYTES)
		die("recv");
}

static void epoll_give(struct bench *bench, int side, const char *message)
{
	if (send(bench->polled[side], message, MESSAGE_BYTES, 0) != MESSAGE_BYTES)
		die("send");
}

static void epoll_take(struct bench *bench, int side, char *message)
{
	struct epoll_event event;

	while (epoll_wait(bench->epoll_fd, &event, 1, -1) != 1)
		;
	if (recv(bench->polled[side], message, MESSAGE_BYTES, MSG_DONTWAIT) != MESSAGE_BYTES)
		die("recv");
}

static void eventfd_give(struct bench *bench, int side, const char *message)
{
	uint64_t one = 1;

	memcpy(bench->lanes[side].message, message, MESSAGE_BYTES);
	if (write(bench->events[side], &one, sizeof one) != sizeof one)
		die("write");
}

static void eventfd_take(struct bench *bench, int side, char *message)
{
	uint64_t count;

	if (read(bench->events[1 - side], &count, sizeof count) != sizeof count)
		die("read");
	memcpy(message, bench->lanes[1 - side].message, MESSAGE_BYTES);
}

/* Wakes only a reader that sleeps. */
static void futex_give(struct bench *bench, int side, const char *message)
{
	struct lane *lane = &bench->lanes[side];

	memcpy(lane->message, message, MESSAGE_BYTES);
	__atomic_store_n(&lane->full, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&lane->sleeping, __ATOMIC_SEQ_CST) != 0)
		syscall(SYS_futex, &lane->full, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void take_full(struct bench *bench, int side, char *message, uint64_t look_ns)
{
	struct lane *lane = &bench->lanes[1 - side];
	uint64_t end_ns = look_ns > 0 ? measure_now_ns() + look_ns : 0;

	while (__atomic_load_n(&lane->full, __ATOMIC_ACQUIRE) == 0 && measure_now_ns() < end_ns)
		;
	while (__atomic_load_n(&lane->full, __ATOMIC_ACQUIRE) == 0) {
		__atomic_store_n(&lane->sleeping, 1, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &lane->full, FUTEX_WAIT, 0, NULL, NULL, 0);
		__atomic_store_n(&lane->sleeping, 0, __ATOMIC_SEQ_CST);
	}
	memcpy(message, lane->message, MESSAGE_BYTES);
	__atomic_store_n(&lane->full, 0, __ATOMIC_RELEASE);
}

static void futex_take(struct bench *bench, int side, char *message)
{
	take_full(bench, side, message, 0);
}

static void spin_take(struct bench *bench, int side, char *message)
{
	take_full(bench, side, message, spin_ns);
}

static const struct channel channels[CHANNELS] = {
	{"zmq", zmq_give, zmq_take},
	{"socket", socket_give, socket_take},
	{"epoll", epoll_give, epoll_take},
	{"eventfd", eventfd_give, eventfd_take},
	{"futex", futex_give, futex_take},
	{"spin", futex_give, spin_take},
};

/* After the fork, in each process. */
static void side_open(struct bench *bench, int side)
{
	struct epoll_event event = {.events = EPOLLIN};
	int no_linger = 0;

	bench->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	epoll_ctl(bench->epoll_fd, EPOLL_CTL_ADD, bench->polled[side], &event);
	bench->context = zmq_ctx_new();
	bench->socket = zmq_socket(bench->context, side == 1 ? ZMQ_ROUTER : ZMQ_DEALER);
	zmq_setsockopt(bench->socket, ZMQ_LINGER, &no_linger, sizeof no_linger);
	if ((side == 1 ? zmq_bind : zmq_connect)(bench->socket, bench->address) != 0)
		die("zmq");
}

/* A message's first byte names the channel of the next one; its end is CHANNELS. */
_Noreturn static void serve(struct bench *bench, pid_t client)
{
	char message[MESSAGE_BYTES] = {0};
	int channel = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != client)
		_exit(1);
	side_open(bench, 1);
	while (channel < CHANNELS) {
		channels[channel].receive(bench, 1, message);
		channels[channel].send(bench, 1, message);
		channel = message[0];
	}
	_exit(0);
}

static void trip(struct bench *bench, int channel, int next)
{
	char message[MESSAGE_BYTES] = {0};

	message[0] = (char)next;
	channels[channel].send(bench, 0, message);
	channels[channel].receive(bench, 0, message);
}

static struct bench *bench_new(void)
{
	struct bench *bench = calloc(1, sizeof *bench);

	if (bench == NULL)
		die("memory");
	bench->lanes = mmap(NULL, 2 * sizeof *bench->lanes, PROT_READ | PROT_WRITE,
	                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (bench->lanes == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bench->packets) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, bench->polled) != 0)
		die("channels");
	bench->events[0] = eventfd(0, 0);
	bench->events[1] = eventfd(0, 0);
	const char *top = getenv("TEST_RUN_DIRS");
	snprintf(bench->address, sizeof bench->address, "ipc://%s/slabyard-roundtrip-%d.ipc",
	         top != NULL ? top : "/tmp", (int)getpid());
	return bench;
}

struct tally {
	double *ns, ratios[ROUNDS_MAX];
	size_t count;
	uint64_t cpu_ns;
};

/* Trips of one channel until there are so many or the time is up; returns how many. */
static size_t burst(struct bench *bench, int channel, double *ns, size_t trips)
{
	uint64_t end_ns = measure_now_ns() + burst_ns;
	bool last = false;
	size_t count = 0;

	while (!last) {
		uint64_t start_ns = measure_now_ns();

		last = count + 1 == trips || start_ns > end_ns;
		trip(bench, channel, last ? (channel + 1) % CHANNELS : channel);
		ns[count++] = (double)(measure_now_ns() - start_ns);
	}
	return count;
}

static void measure(struct bench *bench, struct tally *tallies, size_t rounds, size_t trips,
                    pid_t server)
{
	double medians[CHANNELS];

	for (size_t round = 0; round <= rounds; round++) { /* the first warms up */
		for (int c = 0; c < CHANNELS; c++) {
			struct tally *tally = &tallies[c];
			double *ns = tally->ns + tally->count;
			uint64_t cpu_ns = measure_process_cpu_ns() + measure_cpu_of(server);
			size_t count = burst(bench, c, ns, trips);

			medians[c] = measure_quantile(ns, count, 0.5);
			if (round == 0)
				continue;
			tally->count += count;
			tally->cpu_ns += measure_process_cpu_ns() + measure_cpu_of(server) - cpu_ns;
		}
		for (int c = 0; round > 0 && c < CHANNELS; c++)
			tallies[c].ratios[round - 1] = medians[CHANNELS - 1] / medians[c];
	}
	/* The farewell goes where the kernel keeps it when the server ends. */
	trip(bench, 0, 1);
	trip(bench, 1, CHANNELS);
}

int main(int argc, char **argv)
{
	size_t rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
	size_t trips = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
	struct tally tallies[CHANNELS] = {0};
	struct bench *bench = bench_new();
	pid_t self = getpid();

	if (rounds < 1 || rounds > ROUNDS_MAX || trips < 2 || trips > 1000000)
		die("rounds are 1 to 100, trips 2 to 1000000");
	pid_t server = fork();
	if (server < 0)
		die("fork");
	if (server == 0)
		serve(bench, self);
	side_open(bench, 0);
	for (int c = 0; c < CHANNELS; c++) {
		tallies[c].ns = calloc((rounds + 1) * trips, sizeof *tallies[c].ns);
		if (tallies[c].ns == NULL)
			die("memory");
	}
	measure(bench, tallies, rounds, trips, server);
	waitpid(server, NULL, 0);
	for (int c = 0; c < CHANNELS; c++)
		printf("{\"case\": \"roundtrip\", \"who\": \"%s\", \"p50_us\": %.6g, \"p99_us\": %.6g, "
		       "\"runs\": %zu, \"cpu_us_per_op\": %.6g, \"ours_over_theirs\": %.6g}\n",
		       channels[c].name, measure_quantile(tallies[c].ns, tallies[c].count, 0.5) / 1e3,
		       measure_quantile(tallies[c].ns, tallies[c].count, 0.99) / 1e3, rounds,
		       (double)tallies[c].cpu_ns / 1e3 / (double)tallies[c].count,
		       measure_quantile(tallies[c].ratios, rounds, 0.5));
	zmq_close(bench->socket);
	zmq_ctx_term(bench->context);
	unlink(bench->address + sizeof "ipc://" - 1);
	return 0;
}
