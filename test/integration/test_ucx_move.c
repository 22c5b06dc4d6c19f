/* Transfers over UCX between two processes.
 *
 * Whatever a transfer that was given up still does, it does where nobody else has anything: memory
 * that its caller has back, and regions that were proved finished, carry patterns that are looked
 * at until the end. */
#include "mover_state.h"
#include "ucx_rig.h"

static void test_sizes(void **state)
{
	static const size_t sizes[] = {1, 63, 4096, 65537, 4 << 20, (4 << 20) + 1, LARGE_BYTES};
	struct rig rig;
	uint8_t *memory = malloc(LARGE_BYTES);
	struct sy_ucx_account account;
	uint64_t total = 0;

	(void)state;
	rig_start(&rig, 0);
	for (size_t i = 0; i < COUNT_OF(sizes); i++) {
		fill(memory, sizes[i], (uint8_t)i);
		must_move(rig.peer, true, 64, memory, sizes[i]);
		assert_true(holds(rig.slab + 64, sizes[i], (uint8_t)i));
		memset(memory, 0, sizes[i]);
		must_move(rig.peer, false, 64, memory, sizes[i]);
		assert_true(holds(memory, sizes[i], (uint8_t)i));
		total += sizes[i];
	}
	must_move(rig.peer, true, 0, memory, 0);
	sy_ucx_mover_account(rig.mover, &account);
	assert_int_equal(account.written_bytes, total);
	assert_int_equal(account.read_bytes, total);
	assert_int_equal(account.grave_count, 0);
	rig_stop(&rig);
	free(memory);
}

enum { THREADS = 6, MOVES = 20, PART_BYTES = SLAB_BYTES / THREADS, RANGES_MAX = 400 };

struct worker {
	struct rig *rig;
	uint32_t index;
	uint64_t seed;
	pthread_t thread;
	const char *fault;
};

/* Ranges of random lengths, with gaps or without, to their own part of the slab and back. */
static void *work(void *argument)
{
	struct worker *worker = argument;
	struct sy_prng prng;
	uint8_t *out = malloc(PART_BYTES), *in = malloc(PART_BYTES);
	struct sy_range ranges[RANGES_MAX];

	sy_prng_seed(&prng, worker->seed + worker->index);

	for (uint32_t m = 0; m < MOVES && worker->fault == NULL; m++) {
		size_t count = (size_t)sy_prng_below(&prng, RANGES_MAX), at = 0, memory_at = 0;
		uint64_t largest = sy_prng_chance(&prng, 10) ? PART_BYTES / 4 : 40000;
		size_t made = 0;
		bool in_flight;

		for (; made < count; made++) {
			size_t nbytes = (size_t)sy_prng_below(&prng, largest);

			at += sy_prng_chance(&prng, 50) ? (size_t)sy_prng_below(&prng, 500) : 0;
			if (at + nbytes > PART_BYTES)
				break;
			ranges[made] = (struct sy_range){.offset = at, .nbytes = nbytes,
			                                 .from = out + memory_at};
			at += nbytes;
			memory_at += nbytes;
		}
		for (size_t i = 0; i < memory_at; i++)
			out[i] = (uint8_t)sy_prng_next(&prng);
		struct sy_ucx_transfer transfer = {
			.ranges = ranges, .count = made, .write = true,
			.base_offset = (uint64_t)worker->index * PART_BYTES,
			.deadline_ns = sy_clock_now_ns() + 60 * SECOND_NS,
		};
		if (sy_ucx_move(worker->rig->peer, &transfer, &in_flight, NULL) != SY_OK)
			worker->fault = "a WRITE failed";
		for (size_t i = 0; i < made; i++)
			ranges[i].to = in + ((const uint8_t *)ranges[i].from - out);
		transfer.write = false;
		if (sy_ucx_move(worker->rig->peer, &transfer, &in_flight, NULL) != SY_OK)
			worker->fault = "a READ failed";
		if (memcmp(in, out, memory_at) != 0)
			worker->fault = "other bytes came back";
	}
	free(out);
	free(in);
	return NULL;
}

static void test_threads(void **state)
{
	struct worker workers[THREADS] = {0};
	uint64_t seed = harness_seed();
	struct rig rig;

	(void)state;
	rig_start(&rig, 0);
	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.rig = &rig, .index = i, .seed = seed};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (uint32_t i = 0; i < THREADS; i++) {
		if (workers[i].fault != NULL)
			fail_msg("thread %u: %s", i, workers[i].fault);
	}
	rig_stop(&rig);
}

enum { HURT_RANGES = 256 };

/* A transfer in a thread of its own, for something to happen in the middle of it. */
struct hurt {
	struct rig *rig;
	bool write;
	uint64_t timeout_ns, offset, nbytes; /* in the slab */
	uint8_t *memory;
	sy_status status;
	bool in_flight;
	sy_error err;
};

static void *run_hurt(void *argument)
{
	struct hurt *hurt = argument;
	struct sy_range ranges[HURT_RANGES];
	const struct sy_ucx_transfer transfer = {
		.ranges = ranges, .count = HURT_RANGES, .write = hurt->write,
		.base_offset = hurt->offset,
		.deadline_ns = sy_clock_now_ns() + hurt->timeout_ns,
		.name = {.session = SESSION, .seq = 9, .slot = 3},
	};

	for (int i = 0; i < HURT_RANGES; i++)
		ranges[i] = (struct sy_range){.nbytes = hurt->nbytes, .to = hurt->memory};
	hurt->status = sy_ucx_move(hurt->rig->peer, &transfer, &hurt->in_flight, &hurt->err);
	return NULL;
}

/* The same bytes over and over: it is not done before the signal, however busy the host is. */
static void hurt_in_the_middle(struct rig *rig, struct hurt *hurt, int signal)
{
	uint8_t *memory = malloc(LARGE_BYTES);
	const uint8_t *seen = hurt->write ? rig->slab : memory;
	pthread_t thread;

	hurt->rig = rig;
	hurt->memory = memory;
	hurt->nbytes = LARGE_BYTES;
	memset(hurt->memory, hurt->write ? 0xa5 : 0, LARGE_BYTES);
	memset(rig->slab, hurt->write ? 0 : 0xa5, LARGE_BYTES);
	must_move(rig->peer, true, LARGE_BYTES, memory, 1); /* it is connected */
	assert_int_equal(pthread_create(&thread, NULL, run_hurt, hurt), 0);
	for (uint64_t end_ns = sy_clock_now_ns() + 10 * SECOND_NS; peek(seen) != 0xa5;)
		assert_true(sy_clock_now_ns() < end_ns);
	kill(rig->child, signal);
	pthread_join(thread, NULL);
	assert_int_equal(hurt->status, SY_E_TRANSFER);
	assert_int_equal(hurt->in_flight, hurt->write);
	print_message("%s\n", hurt->err.message);
}

static void test_killed(void **state)
{
	(void)state;
	for (int write = 0; write < 2; write++) {
		struct rig rig;
		struct hurt hurt = {.write = write != 0, .timeout_ns = 20 * SECOND_NS};

		rig_start(&rig, 0);
		hurt_in_the_middle(&rig, &hurt, SIGKILL);
		assert_null(strstr(hurt.err.message, "deadline")); /* it was seen before */
		fill(hurt.memory, LARGE_BYTES, 1);
		for (int i = 0; i < 20; i++)
			sy_ucx_mover_poll(rig.mover);
		assert_true(holds(hurt.memory, LARGE_BYTES, 1));
		rig_stop(&rig);
		free(hurt.memory);
	}
}

/* The target stands still, the transfer is given up, the target goes on. What the caller has back,
 * and the region once it was proved finished, are not touched by anything any more. */
static void test_stopped(void **state)
{
	(void)state;
	for (int write = 0; write < 2; write++) {
		struct rig rig;
		struct hurt hurt = {.write = write != 0, .timeout_ns = 3 * SECOND_NS};
		struct sy_ucx_ended ended = {0};
		uint8_t *more = malloc(LARGE_BYTES);

		rig_start(&rig, 0);
		hurt_in_the_middle(&rig, &hurt, SIGSTOP);
		fill(hurt.memory, LARGE_BYTES, 1);
		sy_ucx_mover_poll(rig.mover);
		assert_false(sy_ucx_mover_ended(rig.mover, &ended));
		kill(rig.child, SIGCONT);
		wait_for_graves(&rig);
		assert_int_equal(sy_ucx_mover_ended(rig.mover, &ended), write != 0);
		assert_int_equal(ended.name.seq, write != 0 ? 9 : 0);
		assert_int_equal(ended.drained, write != 0);
		fill(rig.slab, LARGE_BYTES, 2);
		for (uint8_t i = 0; i < 4; i++) {
			fill(more, LARGE_BYTES, i);
			must_move(rig.peer, true, LARGE_BYTES, more, LARGE_BYTES);
			must_move(rig.peer, false, LARGE_BYTES, more, LARGE_BYTES);
			assert_true(holds(more, LARGE_BYTES, i));
		}
		assert_true(holds(rig.slab, LARGE_BYTES, 2));
		assert_true(holds(hurt.memory, LARGE_BYTES, 1));
		rig_stop(&rig);
		free(hurt.memory);
		free(more);
	}
}

/* The instants of one poll that a lane is waited for until, where they lie ahead. */
static struct { uint64_t first_ns, last_ns; } waits;
static pthread_t poller;

void __real_sy_mover_lane_wait(struct sy_mover_lane *lane, uint64_t until_ns);
void __wrap_sy_mover_lane_wait(struct sy_mover_lane *lane, uint64_t until_ns);

void __wrap_sy_mover_lane_wait(struct sy_mover_lane *lane, uint64_t until_ns)
{
	if (pthread_equal(pthread_self(), poller) && until_ns > sy_clock_now_ns()) {
		waits.first_ns = sy_min_u64(waits.first_ns, until_ns);
		waits.last_ns = sy_max_u64(waits.last_ns, until_ns);
	}
	__real_sy_mover_lane_wait(lane, until_ns);
}

/* Transfers on many lanes are given up, and the unit that would prove their ends says nothing:
 * whoever polls has other things to do. */
static void test_a_poll_of_many_lanes(void **state)
{
	enum { LANES = 8, PART = SLAB_BYTES / LANES, POLLS = 60, POLL_NS = 20 * 1000 * 1000 };
	struct hurt hurts[LANES];
	pthread_t threads[LANES];
	struct rig rig;
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;

	(void)state;
	rig_start(&rig, 0);
	memset(rig.slab, 0, SLAB_BYTES);
	for (int i = 0; i < LANES; i++) {
		hurts[i] = (struct hurt){.rig = &rig, .write = true, .timeout_ns = 6 * SECOND_NS,
		                         .memory = malloc(PART), .nbytes = PART,
		                         .offset = (uint64_t)i * PART};
		memset(hurts[i].memory, 0xa5, PART);
		assert_int_equal(pthread_create(&threads[i], NULL, run_hurt, &hurts[i]), 0);
	}
	for (int i = 0; i < LANES; i++) {
		while (peek(rig.slab + hurts[i].offset) != 0xa5)
			assert_true(sy_clock_now_ns() < end_ns);
	}
	kill(rig.child, SIGSTOP);
	for (int i = 0; i < LANES; i++) {
		pthread_join(threads[i], NULL);
		assert_true(hurts[i].in_flight);
		free(hurts[i].memory);
	}
	poller = pthread_self();
	for (int polls = 0; polls < POLLS;) {
		waits.first_ns = UINT64_MAX;
		waits.last_ns = 0;
		sy_ucx_mover_poll(rig.mover);
		assert_true(sy_clock_now_ns() < end_ns);
		if (waits.last_ns == 0) /* their connections are not closed yet */
			continue;
		assert_in_range(waits.last_ns - waits.first_ns, 0, POLL_NS);
		polls++;
	}
	kill(rig.child, SIGCONT);
	wait_for_graves(&rig);
	rig_stop(&rig);
}

static void test_poisoned(void **state)
{
	struct rig rig;
	struct hurt hurt = {.write = true, .timeout_ns = 3 * SECOND_NS};
	struct sy_ucx_account account;
	bool in_flight = true;
	uint8_t byte = 0;

	(void)state;
	rig_start(&rig, 1 << 20);
	hurt_in_the_middle(&rig, &hurt, SIGSTOP);
	sy_ucx_mover_account(rig.mover, &account);
	assert_true(account.poisoned);
	for (int write = 0; write < 2; write++)
		assert_int_equal(move(rig.peer, write != 0, 0, &byte, 1, SECOND_NS, 0, &in_flight, NULL),
		                 SY_E_FATAL);
	assert_false(in_flight);
	rig_stop(&rig); /* it ends, though its target stands still */
	free(hurt.memory);
}

static void test_fenced(void **state)
{
	struct rig rig;
	uint8_t *memory = malloc(LARGE_BYTES);
	bool in_flight = true;

	(void)state;
	rig_start(&rig, 0);
	fill(memory, LARGE_BYTES, 1);
	must_move(rig.peer, true, 0, memory, LARGE_BYTES);
	say(&rig, WORD_FENCE, SESSION);
	expect(&rig, WORD_FENCE, SESSION);
	memset(memory, 0, LARGE_BYTES);
	assert_int_equal(
		move(rig.peer, true, 0, memory, LARGE_BYTES, 5 * SECOND_NS, 0, &in_flight, NULL),
		SY_E_TRANSFER);
	/* Nor a connection made anew. */
	assert_int_equal(
		move(rig.peer, true, 0, memory, LARGE_BYTES, 5 * SECOND_NS, 0, &in_flight, NULL),
		SY_E_TRANSFER);
	assert_false(in_flight);
	assert_true(holds(rig.slab, LARGE_BYTES, 1));
	rig_stop(&rig);
	free(memory);
}

/* Another client: moves until it is killed. argv is program, "client", address, session, write. */
static int run_client(char **argv)
{
	const struct sy_ucx_mover_config config = {.allow_tcp = by_tcp()};
	uint64_t session = strtoull(argv[3], NULL, 10);
	bool in_flight, write = argv[4][0] == '1';
	uint8_t *memory = calloc(1, LARGE_BYTES);
	struct sy_ucx_mover *mover;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sy_ucx_mover_open(&config, &mover, NULL) != SY_OK)
		return 1;
	struct sy_ucx_peer *peer = sy_ucx_peer_new(mover, argv[2], session, INCARNATION, SLAB_BYTES);
	for (int i = 0; i < 100000; i++) {
		if (move(peer, write, 0, memory, LARGE_BYTES, 20 * SECOND_NS, 0, &in_flight, NULL) !=
		            SY_OK ||
		    putchar('.') == EOF || fflush(stdout) != 0)
			return 1;
	}
	return 0;
}

static pid_t start_client(struct rig *rig, uint64_t session, bool write, int *ret_fd)
{
	char text[24];
	int pipe_fds[2];
	char *argv[] = {"client", "client", rig->address, text, write ? "1" : "0", NULL};

	snprintf(text, sizeof text, "%llu", (unsigned long long)session);
	assert_int_equal(pipe(pipe_fds), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(pipe_fds[1], STDOUT_FILENO);
		close(pipe_fds[0]);
		close(rig->order_fd);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(pipe_fds[1]);
	*ret_fd = pipe_fds[0];
	return pid;
}

/* Clients that end in the middle of what they do disturb nobody else. */
static void test_clients_killed(void **state)
{
	struct rig rig;
	uint8_t *memory = malloc(LARGE_BYTES);

	(void)state;
	rig_start(&rig, 0);
	for (uint64_t i = 0; i < 6; i++) {
		uint64_t session = 1000 + i;
		char byte;
		int fd;

		say(&rig, WORD_ADMIT, session);
		expect(&rig, WORD_ADMIT, session);
		pid_t pid = start_client(&rig, session, i % 2 == 0, &fd);
		for (uint64_t k = 0; k <= i % 3; k++)
			assert_true(read_whole(fd, &byte, 1));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(fd);
		say(&rig, WORD_FENCE, session);
		expect(&rig, WORD_FENCE, session);
		fill(memory, LARGE_BYTES, (uint8_t)i);
		must_move(rig.peer, true, 0, memory, LARGE_BYTES);
		assert_true(holds(rig.slab, LARGE_BYTES, (uint8_t)i));
	}
	rig_stop(&rig);
	free(memory);
}

static void on_signal(int signal)
{
	(void)signal;
}

/* The program's handlers and its stdout stay its own, also where there is something to say. */
static void test_quiet(void **state)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGHUP};
	struct sigaction before, now;
	char path[] = "/tmp/slabyard-quiet-XXXXXX";
	int file = mkstemp(path), saved = dup(STDOUT_FILENO);
	struct rig rig;

	(void)state;
	unlink(path);
	for (size_t i = 0; i < COUNT_OF(signals); i++)
		signal(signals[i], on_signal);
	assert_int_equal(sigaction(SIGHUP, NULL, &before), 0);
	setenv("UCX_NO_SUCH_SETTING", "1", 1);
	fflush(stdout);
	dup2(file, STDOUT_FILENO);
	rig_start(&rig, 0);
	struct sy_ucx_peer *nobody =
		sy_ucx_peer_new(rig.mover, "127.0.0.1:1", SESSION, INCARNATION, SLAB_BYTES);
	uint8_t byte = 0;
	bool in_flight;
	sy_status status = move(nobody, true, 0, &byte, 1, 5 * SECOND_NS, 0, &in_flight, NULL);
	sy_ucx_peer_free(nobody);
	rig_stop(&rig);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	unsetenv("UCX_NO_SUCH_SETTING");
	assert_int_equal(status, SY_E_TRANSFER);
	assert_int_equal(lseek(file, 0, SEEK_END), 0);
	close(file);
	for (size_t i = 0; i < COUNT_OF(signals); i++) {
		assert_int_equal(sigaction(signals[i], NULL, &now), 0);
		assert_true(now.sa_handler == on_signal);
		signal(signals[i], SIG_DFL);
	}
}

static void test_policy(void **state)
{
	struct sy_ucx_mover *mover;
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_ucx_mover_open(&(struct sy_ucx_mover_config){0}, &mover, &err),
	                 SY_E_POLICY);
	assert_non_null(strstr(err.message, "UCX_TLS=tcp"));
	assert_non_null(strstr(err.message, "export UCX_TLS=rc"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quiet), /* before UCX is loaded */
		cmocka_unit_test(test_policy), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_killed), cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_a_poll_of_many_lanes),
		cmocka_unit_test(test_poisoned), cmocka_unit_test(test_fenced),
		cmocka_unit_test(test_clients_killed),
	};

	rig_choose();
	if (argc == 5 && strcmp(argv[1], "target") == 0)
		return run_target(argv);
	if (argc == 5 && strcmp(argv[1], "client") == 0)
		return run_client(argv);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
