/* Two processes with UCX between them, by TCP over the loopback: this one moves, a child is the
 * target. The slab's memory is mapped by both, so that what lands in it is seen from here. Where
 * SLABYARD_TEST_UNIT_POLICY is rdma the environment says by which devices. The target listens at
 * the address of SLABYARD_TEST_UNIT_LISTEN, if there is one. */
#ifndef SY_TEST_UCX_RIG_H
#define SY_TEST_UCX_RIG_H

#include "harness.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "guard.h"
#include "prng.h"
#include "ucx_mover.h"
#include "ucx_target.h"

enum { SLAB_BYTES = 32 << 20, LARGE_BYTES = 12 << 20, SESSION = 77, WAIT_MS = 60000 };
static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t INCARNATION = 4711;

/* What is said to the child, and what it answers with the same word. */
enum word { WORD_ADMIT = 1, WORD_FENCE };
struct order {
	enum word word;
	uint64_t session;
	char host[64]; /* that the session comes from */
};

struct rig {
	uint8_t *slab;
	pid_t child;
	int order_fd, answer_fd;
	char address[64];
	struct sy_ucx_mover *mover;
	struct sy_ucx_peer *peer;
};

static inline bool by_tcp(void)
{
	const char *policy = getenv("SLABYARD_TEST_UNIT_POLICY");

	return policy == NULL || strcmp(policy, "rdma") != 0;
}

/* What UCX is to use, for this process and those that it starts. */
static inline void rig_choose(void)
{
	if (!by_tcp())
		return;
	setenv("UCX_TLS", "tcp", 1);
	setenv("UCX_NET_DEVICES", "lo", 1);
}

/* "10.0.0.1" of "tcp://10.0.0.1:*", or "::1" of "tcp://[::1]:*". */
static inline void target_host(char out[64])
{
	const char *listen = getenv("SLABYARD_TEST_UNIT_LISTEN"), *devices;

	snprintf(out, 64, "127.0.0.1");
	if (listen == NULL)
		return;
	listen += strlen("tcp://");
	bool bracketed = *listen == '[';
	listen += bracketed;
	snprintf(out, 64, "%.*s", (int)strcspn(listen, bracketed ? "]" : ":"), listen);
	devices = getenv("SLABYARD_TEST_UNIT_DEVICES");
	if (devices != NULL)
		setenv("UCX_NET_DEVICES", devices, 1);
}

static inline bool read_whole(int fd, void *out, size_t bytes)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	size_t got = 0;

	while (got < bytes) {
		if (poll(&wanted, 1, WAIT_MS) <= 0)
			return false;
		ssize_t more = read(fd, (char *)out + got, bytes - got);
		if (more <= 0)
			return false;
		got += (size_t)more;
	}
	return true;
}

/* The child: argv is program, "target", slab's descriptor, its orders, its answers. */
static inline int run_target(char **argv)
{
	int slab_fd = (int)strtol(argv[2], NULL, 10), order_fd = (int)strtol(argv[3], NULL, 10);
	int answer_fd = (int)strtol(argv[4], NULL, 10);
	struct sy_ucx_target *target;
	sy_error err = {0};
	void *slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, slab_fd, 0);
	char address[64] = "", host[64];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	target_host(host);
	const struct sy_ucx_target_config config = {
		.slab = slab, .slab_bytes = SLAB_BYTES, .incarnation = INCARNATION,
		.host = host, .allow_tcp = by_tcp(),
	};
	if (sy_ucx_target_open(&config, &target, &err) != SY_OK) {
		fprintf(stderr, "target: %s\n", err.message);
		return 1;
	}
	memcpy(address, sy_ucx_target_address(target), strlen(sy_ucx_target_address(target)));
	if (write(answer_fd, address, sizeof address) < 0)
		return 1;
	for (;;) {
		struct pollfd fds[] = {{.fd = order_fd, .events = POLLIN},
		                       {.fd = sy_ucx_target_fd(target), .events = POLLIN}};
		struct order order = {0};

		if (poll(fds, 2, -1) < 0)
			break;
		if (sy_ucx_target_next(target, &order.session)) {
			order.word = WORD_FENCE;
			if (write(answer_fd, &order, sizeof order) < 0)
				break;
		}
		if (fds[0].revents == 0)
			continue;
		if (read(order_fd, &order, sizeof order) != (ssize_t)sizeof order)
			break;
		if (order.word == WORD_FENCE)
			sy_ucx_target_fence(target, order.session);
		else if (!sy_ucx_target_admit(target, order.session, order.host) ||
		         write(answer_fd, &order, sizeof order) < 0)
			break;
	}
	sy_ucx_target_close(target);
	return 0;
}

/* The address that connections of this process to the target come from. */
static inline void own_host(const struct rig *rig, char out[64])
{
	struct sockaddr_storage at;
	socklen_t bytes;
	char text[SY_UCX_ADDRESS_BYTES];
	int fd;

	assert_true(sy_address_from_text(rig->address, &at, &bytes));
	fd = socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, bytes), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
	close(fd);
	sy_address_text((const struct sockaddr *)&at, text);
	*strrchr(text, ':') = '\0';
	snprintf(out, 64, "%.*s", (int)strcspn(text + (text[0] == '['), "]"),
	         text + (text[0] == '['));
}

static inline void say(const struct rig *rig, enum word word, uint64_t session)
{
	struct order order = {.word = word, .session = session};

	own_host(rig, order.host);
	assert_int_equal(write(rig->order_fd, &order, sizeof order), sizeof order);
}

static inline void expect(const struct rig *rig, enum word word, uint64_t session)
{
	struct order order = {0};

	assert_true(read_whole(rig->answer_fd, &order, sizeof order));
	assert_int_equal(order.word, word);
	assert_int_equal(order.session, session);
}

static inline void start_target(struct rig *rig, int slab_fd)
{
	int orders[2], answers[2];
	char words[3][16];

	assert_int_equal(pipe(orders), 0);
	assert_int_equal(pipe(answers), 0);
	/* Not for the targets of other rigs, which would keep this one's orders open. */
	fcntl(orders[1], F_SETFD, FD_CLOEXEC);
	fcntl(answers[0], F_SETFD, FD_CLOEXEC);
	snprintf(words[0], sizeof words[0], "%d", slab_fd);
	snprintf(words[1], sizeof words[1], "%d", orders[0]);
	snprintf(words[2], sizeof words[2], "%d", answers[1]);
	char *argv[] = {"target", "target", words[0], words[1], words[2], NULL};
	rig->child = fork();
	assert_true(rig->child >= 0);
	if (rig->child == 0) {
		close(orders[1]);
		close(answers[0]);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(orders[0]);
	close(answers[1]);
	rig->order_fd = orders[1];
	rig->answer_fd = answers[0];
	assert_true(read_whole(rig->answer_fd, rig->address, sizeof rig->address));
	say(rig, WORD_ADMIT, SESSION);
	expect(rig, WORD_ADMIT, SESSION);
}

static inline void rig_start_with(struct rig *rig, struct sy_ucx_mover_config config)
{
	int slab_fd = memfd_create("slab", 0);
	sy_error err = {0};

	assert_int_equal(ftruncate(slab_fd, SLAB_BYTES), 0);
	rig->slab = mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, slab_fd, 0);
	assert_ptr_not_equal(rig->slab, MAP_FAILED);
	start_target(rig, slab_fd);
	close(slab_fd);
	config.allow_tcp = by_tcp();
	if (sy_ucx_mover_open(&config, &rig->mover, &err) != SY_OK)
		fail_msg("%s", err.message);
	rig->peer = sy_ucx_peer_new(rig->mover, rig->address, SESSION, INCARNATION, SLAB_BYTES);
}

static inline void rig_start(struct rig *rig, uint64_t graveyard_max_bytes)
{
	rig_start_with(rig,
	               (struct sy_ucx_mover_config){.graveyard_max_bytes = graveyard_max_bytes});
}

/* The target ends cleanly, unless the test has killed it. */
static inline void rig_stop(struct rig *rig)
{
	int status = 0;

	sy_ucx_peer_free(rig->peer);
	sy_ucx_mover_close(rig->mover);
	kill(rig->child, SIGCONT);
	close(rig->order_fd); /* it ends */
	close(rig->answer_fd);
	waitpid(rig->child, &status, 0);
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL : WEXITSTATUS(status) != 0)
		fail_msg("the target ended with signal %d or status %d", WTERMSIG(status),
		         WEXITSTATUS(status));
	munmap(rig->slab, SLAB_BYTES);
}

static inline sy_status move(struct sy_ucx_peer *peer, bool write, uint64_t offset, void *memory,
                      uint64_t nbytes, uint64_t timeout_ns, uint64_t seq, bool *ret_in_flight,
                      sy_error *err)
{
	struct sy_range range = {.offset = offset, .nbytes = nbytes, .to = memory};
	const struct sy_ucx_transfer transfer = {
		.ranges = &range, .count = 1, .deadline_ns = sy_clock_now_ns() + timeout_ns,
		.write = write, .name = {.session = SESSION, .seq = seq, .slot = 3},
	};

	return sy_ucx_move(peer, &transfer, ret_in_flight, err);
}

static inline void must_move(struct sy_ucx_peer *peer, bool write, uint64_t offset, void *memory,
                      uint64_t nbytes)
{
	bool in_flight = true;
	sy_error err = {0};

	if (move(peer, write, offset, memory, nbytes, 20 * SECOND_NS, 0, &in_flight, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_false(in_flight);
}

/* A byte that UCX may be writing just now in another thread: what the thread sanitizer calls a
 * race is what is looked for here. */
__attribute__((no_sanitize("thread"))) static inline uint8_t peek(const volatile uint8_t *at)
{
	return *at;
}

static inline void fill(uint8_t *memory, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++)
		memory[i] = (uint8_t)(seed + i * 7 + (i >> 12));
}

static inline bool holds(const uint8_t *memory, size_t bytes, uint8_t seed)
{
	for (size_t i = 0; i < bytes; i++) {
		if (memory[i] != (uint8_t)(seed + i * 7 + (i >> 12)))
			return false;
	}
	return true;
}

static inline void wait_for_graves(struct rig *rig)
{
	struct sy_ucx_account account = {.grave_count = 1};

	for (uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS; account.grave_count > 0;) {
		sy_ucx_mover_poll(rig->mover);
		sy_ucx_mover_account(rig->mover, &account);
		assert_true(sy_clock_now_ns() < end_ns);
	}
	assert_int_equal(account.grave_bytes, 0);
}

#endif
