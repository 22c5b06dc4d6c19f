/* Fences in a row, each of a client that stands still in the middle of a transfer and goes on
 * after it: the region of its WRITE has been given out again by then, and nothing lands there. */
#include "ucx_rig.h"

#include <sched.h>

#include "sanitized.h"

enum { FENCES = SANITIZED ? 20 : 100, SMALL_BYTES = 1 << 20, WRITE_BYTES = 8 << 20 };
enum { OTHERS_AT = 16 << 20, OTHERS_BYTES = 1 << 20, FIRST_SESSION = 1000 };
static const uint8_t ODD = 0x55, EVEN = 0xaa;

/* What the client is told, and what it answers. */
struct task {
	uint64_t session, nbytes;
	bool write;
};
struct outcome {
	sy_status status;
	bool in_flight;
};

/* The client: one process, a session after the other, and in each transfers until one fails. */
static int run_sessions(const char *address)
{
	const struct sy_ucx_mover_config config = {.allow_tcp = by_tcp()};
	static uint8_t memory[WRITE_BYTES]; /* a transfer may be under way to the end */
	struct sy_ucx_mover *mover;
	struct task task;
	sy_error err = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sy_ucx_mover_open(&config, &mover, &err) != SY_OK) {
		fprintf(stderr, "client: %s\n", err.message);
		return 1;
	}
	while (read(STDIN_FILENO, &task, sizeof task) == (ssize_t)sizeof task) {
		struct sy_ucx_peer *peer =
			sy_ucx_peer_new(mover, address, task.session, INCARNATION, SLAB_BYTES);
		struct outcome outcome = {0};

		for (int turn = 0; outcome.status == SY_OK; turn++) {
			if (task.write)
				memset(memory, turn % 2 == 0 ? EVEN : ODD, task.nbytes);
			outcome.status = move(peer, task.write, 0, memory, task.nbytes, 60 * SECOND_NS, 0,
			                      &outcome.in_flight, NULL);
			if (turn == 0 && write(STDOUT_FILENO, &outcome, sizeof outcome) < 0)
				return 1;
		}
		sy_ucx_peer_free(peer);
		sy_ucx_mover_poll(mover);
		if (write(STDOUT_FILENO, &outcome, sizeof outcome) < 0)
			return 1;
	}
	sy_ucx_mover_close(mover);
	return 0;
}

static struct {
	pid_t pid;
	int order_fd, answer_fd;
} client;

static void start_sessions(const struct rig *rig)
{
	int orders[2], answers[2];
	char *argv[] = {"sessions", "sessions", (char *)(uintptr_t)rig->address, NULL};

	assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
	assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
	client.pid = fork();
	assert_true(client.pid >= 0);
	if (client.pid == 0) {
		dup2(orders[0], STDIN_FILENO);
		dup2(answers[1], STDOUT_FILENO);
		close(rig->order_fd);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(orders[0]);
	close(answers[1]);
	client.order_fd = orders[1];
	client.answer_fd = answers[0];
}

static void stop_sessions(void)
{
	int status = 0;

	close(client.order_fd);
	close(client.answer_fd);
	waitpid(client.pid, &status, 0);
	assert_int_equal(status, 0);
}

/* Of a WRITE: its first bytes have landed and its last ones have not. A READ shows nothing here,
 * and one follows the other. */
static void await_middle(const struct rig *rig, const struct task *task)
{
	const uint8_t *first = rig->slab, *last = rig->slab + task->nbytes - 1;
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;

	while (task->write && peek(first) == peek(last)) {
		assert_true(sy_clock_now_ns() < end_ns);
		sched_yield();
	}
}

static void stop_client(void)
{
	int status = 0;

	kill(client.pid, SIGSTOP);
	assert_int_equal(waitpid(client.pid, &status, WUNTRACED), client.pid);
	assert_true(WIFSTOPPED(status));
}

static void fence_one(struct rig *rig, const struct task *task, uint8_t salt)
{
	static uint8_t others[OTHERS_BYTES];
	struct outcome outcome = {0};

	say(rig, WORD_ADMIT, task->session);
	expect(rig, WORD_ADMIT, task->session);
	assert_int_equal(write(client.order_fd, task, sizeof *task), sizeof *task);
	assert_true(read_whole(client.answer_fd, &outcome, sizeof outcome));
	assert_int_equal(outcome.status, SY_OK);
	await_middle(rig, task);
	stop_client();
	say(rig, WORD_FENCE, task->session);
	/* Others are served meanwhile. */
	fill(others, sizeof others, salt);
	must_move(rig->peer, true, OTHERS_AT, others, sizeof others);
	expect(rig, WORD_FENCE, task->session);
	fill(rig->slab, task->nbytes, salt);
	kill(client.pid, SIGCONT);
	assert_true(read_whole(client.answer_fd, &outcome, sizeof outcome));
	assert_int_equal(outcome.status, SY_E_TRANSFER);
	assert_true(task->write || !outcome.in_flight);
	memset(others, 0, sizeof others);
	must_move(rig->peer, false, OTHERS_AT, others, sizeof others);
	assert_true(holds(others, sizeof others, salt));
	if (!holds(rig->slab, task->nbytes, salt))
		fail_msg("fence %llu: bytes landed after it", (unsigned long long)task->session);
}

static void test_in_a_row(void **state)
{
	struct sy_ucx_account account;
	struct rig rig;

	(void)state;
	rig_start(&rig, 0);
	start_sessions(&rig);
	for (uint64_t i = 0; i < FENCES; i++) {
		struct task task = {.session = FIRST_SESSION + i,
		                    .nbytes = i % 10 == 0 ? WRITE_BYTES : SMALL_BYTES,
		                    .write = i % 10 != 9};

		fence_one(&rig, &task, (uint8_t)i);
	}
	stop_sessions();
	sy_ucx_mover_account(rig.mover, &account);
	printf("%d fences; beside them over ucx %llu put of %d, %llu got of %d\n", (int)FENCES,
	       (unsigned long long)account.written_bytes, FENCES * OTHERS_BYTES,
	       (unsigned long long)account.read_bytes, FENCES * OTHERS_BYTES);
	rig_stop(&rig);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_a_row)};

	if (argc == 5 && strcmp(argv[1], "target") == 0)
		return run_target(argv);
	rig_choose();
	if (argc == 3 && strcmp(argv[1], "sessions") == 0)
		return run_sessions(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
