/* What becomes of large transfers between hosts in whose middle the unit is killed, stopped or
 * cut off; test_afar.py runs it on one of three hosts, as afar FAULT. The unit is on the second,
 * and on the third are others, who fill all of the slab as soon as it is given out again.
 *
 * Each call ends with the error of its fault, by its deadline. Then its caller's memory gets
 * another pattern, and all that the others were given theirs: both are looked at when everything
 * has come to its end. */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "number_of.h"
#include "punctual.h"
#include "store_blob.h"

enum { SLAB_BYTES = 160 << 20, LARGE = 128 << 20, MIDDLE = 4 << 20, PIECE = 1 << 20 };
enum { PIECES = 256 }; /* at most, in a slab */
enum { VICTIM_ROW = 1, OTHERS_ROW = 1000, ATTEMPTS = 20 };
static const uint64_t SECOND_NS = 1000000000u;

enum fault { KILLED, STOPPED, CUT_OFF };
enum op { PUT, PUT_MANY, GET, READ_ENTRIES };
static const char *const FAULTS[] = {"killed", "stopped", "cut-off"};

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK)
		fail_msg("%s: %s", sy_status_name(status), err->message);
}

/* --- The others: a process of their own, that does what it is told by a byte. --- */

/* Nothing but what is published, and little of it free. */
static bool is_full(sy_client *client)
{
	sy_unit_report report = {0};

	if (sy_client_reports(client, 0, &report, NULL) != SY_OK || !report.answered)
		return false;
	uint64_t free_bytes = number_of(&report, "free");
	return free_bytes < 2 * PIECE && free_bytes + number_of(&report, "published") +
	                                         number_of(&report, "rounding") == SLAB_BYTES;
}

/* Row by row until there is no room, also where a transfer was under way at first. */
static bool fill_all(sy_client *client, uint64_t *ret_last_row)
{
	static uint8_t piece[PIECE];
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS, victim = VICTIM_ROW;
	sy_key key = {OTHERS_ROW, "theirs", 6};
	sy_value value = {.data = piece, .nbytes = PIECE, .kind = SY_KIND_BYTES};

	if (sy_client_clear(client, &victim, 1, NULL, 0, 0, NULL, NULL) != SY_OK)
		return false;
	while (sy_clock_now_ns() < end_ns) {
		fill_words(piece, PIECE, key.row);
		sy_status status = sy_client_put(client, &key, &value, 1, 0, NULL);

		key.row += status == SY_OK;
		*ret_last_row = key.row;
		if (status == SY_E_UNIT_FULL && is_full(client))
			return true;
	}
	return false;
}

static bool has_all(sy_client *client, uint64_t last_row)
{
	for (uint64_t row = OTHERS_ROW; row < last_row; row++) {
		sy_key key = {row, "theirs", 6};
		sy_result *result;
		sy_value value = {0};

		if (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, NULL) != SY_OK)
			return false;
		bool right = sy_result_value(result, 0, &value) && value.nbytes == PIECE &&
		             holds_words(value.data, PIECE, row);
		sy_result_free(result);
		if (!right)
			return false;
	}
	return true;
}

/* Until all of the slab is free. */
static bool clear_all(sy_client *client)
{
	uint64_t rows[PIECES + 1] = {VICTIM_ROW}, end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	sy_unit_report report = {0};

	for (uint64_t i = 0; i < PIECES; i++)
		rows[i + 1] = OTHERS_ROW + i;
	if (sy_client_clear(client, rows, COUNT_OF(rows), NULL, 0, 0, NULL, NULL) != SY_OK)
		return false;
	while (sy_clock_now_ns() < end_ns) {
		if (sy_client_reports(client, 0, &report, NULL) == SY_OK && report.answered &&
		    number_of(&report, "free") == SLAB_BYTES)
			return true;
	}
	return false;
}

static int run_others(const char *run_dir)
{
	const sy_client_options options = {.run_dir = run_dir, .timeout_ns = 60 * SECOND_NS};
	sy_client *client;
	uint64_t last_row = OTHERS_ROW;
	sy_error err = {0};
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!cluster_move_to("SLABYARD_TEST_OTHERS_HOST", 0)) {
		fprintf(stderr, "others: no way to their host\n");
		return 1;
	}
	if (sy_client_open(&options, &client, &err) != SY_OK) {
		fprintf(stderr, "others: %s\n", err.message);
		return 1;
	}
	while (read(STDIN_FILENO, &word, 1) == 1) {
		bool done = word == 'f' ? fill_all(client, &last_row)
		                        : word == 'v' ? has_all(client, last_row) : clear_all(client);

		if (write(STDOUT_FILENO, done ? "y" : "n", 1) != 1)
			break;
	}
	sy_client_close(client);
	return 0;
}

static struct cluster cluster;
static struct {
	pid_t pid;
	int order_fd, answer_fd;
} others;

static void start_others(const char *run_dir)
{
	int orders[2], answers[2];
	char *argv[] = {"afar", "others", (char *)(uintptr_t)run_dir, NULL};

	assert_int_equal(pipe2(orders, O_CLOEXEC), 0);
	assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
	others.pid = fork();
	assert_true(others.pid >= 0);
	if (others.pid == 0) {
		dup2(orders[0], STDIN_FILENO);
		dup2(answers[1], STDOUT_FILENO);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(orders[0]);
	close(answers[1]);
	others.order_fd = orders[1];
	others.answer_fd = answers[0];
}

static void tell_others(char word)
{
	char answer = 0;

	assert_int_equal(write(others.order_fd, &word, 1), 1);
	assert_int_equal(read(others.answer_fd, &answer, 1), 1);
	if (answer != 'y')
		fail_msg("the others could not: %c", word);
}

/* --- The victim. --- */

static enum fault fault;
static sy_client *client;
static sy_store *store;

/* The cable is the runner's. */
static void ask_runner(const char *what)
{
	char line[16];

	printf("runner: %s\n", what);
	fflush(stdout);
	assert_non_null(fgets(line, sizeof line, stdin));
}

static int start(void **state)
{
	sy_client_options options = {.timeout_ns = 60 * SECOND_NS, .run_dir = cluster.run_dir};
	sy_store_options same = {.timeout_ns = 60 * SECOND_NS, .run_dir = cluster.run_dir};

	(void)state;
	cluster_start(&cluster, 1, SLAB_BYTES, true);
	start_others(cluster.run_dir);
	if (watch_host_start() != 0)
		return -1;
	return sy_client_open(&options, &client, NULL) == SY_OK &&
	               sy_store_open(&same, &store, NULL) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	watch_host_stop();
	sy_client_close(client);
	sy_store_close(store);
	close(others.order_fd);
	waitpid(others.pid, NULL, 0);
	if (cluster.units[0] > 0)
		kill(cluster.units[0], SIGCONT); /* a test that failed left it standing */
	cluster_stop(&cluster);
	return 0;
}

/* What the wire has carried, this way. */
static uint64_t carried(bool out)
{
	char text[32] = "";
	int fd = open(out ? "/sys/class/net/eth0/statistics/tx_bytes"
	                  : "/sys/class/net/eth0/statistics/rx_bytes", O_RDONLY);

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof text - 1) > 0);
	close(fd);
	return strtoull(text, NULL, 10);
}

struct hurt {
	enum op op;
	uint8_t *memory;          /* of a put: what is put; of a READ of the store: where it goes */
	sy_resolved_keys *resolved;
	sy_read read;
	uint64_t timeout_ns, late_ns;
	bool done; /* atomic */
	sy_status status;
	sy_error err;
};

static bool writes(const struct hurt *hurt)
{
	return hurt->op == PUT || hurt->op == PUT_MANY;
}

static void call(struct hurt *hurt, uint64_t deadline_ns)
{
	sy_key key = {VICTIM_ROW, "ours", 4};
	sy_value value = {.data = hurt->memory, .nbytes = LARGE, .kind = SY_KIND_BYTES};
	struct store_blob blob;
	sy_result *result = NULL;

	switch (hurt->op) {
	case PUT:
		hurt->status = sy_client_put(client, &key, &value, 1, deadline_ns, &hurt->err);
		break;
	case PUT_MANY:
		store_blob_make(&blob, 0, VICTIM_ROW, "ours", hurt->memory, LARGE);
		hurt->status = sy_store_put_many(store, &blob.blob, 1, deadline_ns, &hurt->err);
		break;
	case GET:
		hurt->status =
			sy_client_get(client, &key, 1, SY_GET_COPY, deadline_ns, &result, &hurt->err);
		if (hurt->status == SY_OK)
			sy_result_free(result);
		break;
	case READ_ENTRIES:
		hurt->status = sy_store_read_entries(store, &hurt->read, 1, deadline_ns, &hurt->err);
		break;
	}
}

static void *run(void *argument)
{
	struct hurt *hurt = argument;
	uint64_t start_ns = sy_clock_now_ns();
	struct watch watch = {0};

	call(hurt, sy_deadline_after(hurt->timeout_ns));
	back(&watch, start_ns, hurt->timeout_ns);
	hurt->late_ns = watch.late_ns;
	__atomic_store_n(&hurt->done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* What is there for a READ. */
static void prepare(struct hurt *hurt)
{
	sy_key key = {VICTIM_ROW, "ours", 4};
	sy_value value = {.data = hurt->memory, .nbytes = LARGE, .kind = SY_KIND_BYTES};
	sy_unit_keys keys = {0, &key, 1};
	sy_located at;
	sy_error err = {0};

	fill_words(hurt->memory, LARGE, 1);
	if (writes(hurt))
		return;
	must(sy_client_put(client, &key, &value, 1, 0, &err), &err);
	if (hurt->op == GET)
		return;
	must(sy_store_resolve_keys(store, &keys, 1, 0, &hurt->resolved, &err), &err);
	assert_true(sy_resolved_at(hurt->resolved, 0, 0, &at));
	hurt->read = (sy_read){0, at.slab_offset, at.nbytes, hurt->memory};
}

static void do_harm(void)
{
	if (fault == KILLED) {
		cluster_kill(&cluster, 0, SIGKILL);
		return;
	}
	kill(cluster.units[0], SIGSTOP); /* a cut takes a moment, in which the transfer stands still */
	if (fault == CUT_OFF) {
		ask_runner("cut");
		kill(cluster.units[0], SIGCONT);
	}
}

static void undo_harm(void)
{
	if (fault == KILLED)
		cluster_restart(&cluster, 0);
	else if (fault == STOPPED)
		kill(cluster.units[0], SIGCONT);
}

/* False: it was through before the harm was done. */
static bool try_to_hurt(struct hurt *hurt)
{
	pthread_t thread;

	hurt->timeout_ns = (fault == KILLED ? 20 : 2) * SECOND_NS;
	hurt->err = (sy_error){0};
	__atomic_store_n(&hurt->done, false, __ATOMIC_RELEASE);
	tell_others('c');
	prepare(hurt);
	uint64_t before = carried(writes(hurt));
	assert_int_equal(pthread_create(&thread, NULL, run, hurt), 0);
	while (carried(writes(hurt)) < before + MIDDLE &&
	       !__atomic_load_n(&hurt->done, __ATOMIC_ACQUIRE))
		continue;
	do_harm();
	pthread_join(thread, NULL);
	if (hurt->status != SY_OK)
		return true;
	undo_harm();
	if (fault == CUT_OFF)
		ask_runner("mend");
	sy_resolved_keys_free(hurt->resolved);
	hurt->resolved = NULL;
	return false;
}

static void check_error(const struct hurt *hurt)
{
	struct watch watch = {"the call", hurt->late_ns};

	print_message("%s: %s\n", sy_status_name(hurt->status), hurt->err.message);
	if (fault != KILLED)
		assert_int_equal(hurt->status, SY_E_TIMEOUT);
	else if (writes(hurt) || hurt->status != SY_E_LOST)
		assert_int_equal(hurt->status, SY_E_TRANSFER_FAILED);
	assert_int_equal(hurt->err.status, hurt->status);
	assert_int_equal(hurt->err.in_flight, writes(hurt));
	expect_punctual(&watch);
}

/* The same client and store go on. */
static void check_all_well(void)
{
	static uint8_t piece[PIECE];
	sy_key key = {VICTIM_ROW, "ours", 4};
	sy_value value = {.data = piece, .nbytes = PIECE, .kind = SY_KIND_BYTES};
	struct store_blob blob;
	sy_result *result;
	sy_error err = {0};

	fill_words(piece, PIECE, 3);
	must(sy_client_put(client, &key, &value, 1, 0, &err), &err);
	must(sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err), &err);
	assert_true(sy_result_value(result, 0, &value) && holds_words(value.data, PIECE, 3));
	sy_result_free(result);
	store_blob_make(&blob, 0, VICTIM_ROW, "ours", piece, PIECE);
	must(sy_store_put_many(store, &blob.blob, 1, 0, &err), &err);
}

static void hurt_in_the_middle(enum op op)
{
	static bool hurt_yet; /* the cluster, by a test that failed: the next ones say nothing */
	struct hurt hurt = {.op = op, .memory = malloc(LARGE)};
	int attempts = 1;

	assert_non_null(hurt.memory);
	assert_false(hurt_yet);
	hurt_yet = true;
	while (!try_to_hurt(&hurt))
		assert_true(++attempts <= ATTEMPTS);
	check_error(&hurt);
	fill_words(hurt.memory, LARGE, 2);
	undo_harm();
	tell_others('f');
	if (fault == CUT_OFF)
		ask_runner("mend"); /* what is still under way may come through */
	sy_resolved_keys_free(hurt.resolved);
	tell_others('v');
	tell_others('c');
	check_all_well();
	tell_others('f');
	tell_others('v');
	assert_true(holds_words(hurt.memory, LARGE, 2));
	free(hurt.memory);
	hurt_yet = false;
}

static void test_put(void **state)
{
	(void)state;
	hurt_in_the_middle(PUT);
}

static void test_put_many(void **state)
{
	(void)state;
	hurt_in_the_middle(PUT_MANY);
}

static void test_get(void **state)
{
	(void)state;
	hurt_in_the_middle(GET);
}

static void test_read_entries(void **state)
{
	(void)state;
	hurt_in_the_middle(READ_ENTRIES);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		PUNCTUAL(test_put), PUNCTUAL(test_put_many), PUNCTUAL(test_get),
		PUNCTUAL(test_read_entries),
	};

	cluster_main(argc, argv);
	if (argc == 3 && strcmp(argv[1], "others") == 0)
		return run_others(argv[2]);
	while (argc == 2 && fault < COUNT_OF(FAULTS) && strcmp(argv[1], FAULTS[fault]) != 0)
		fault++;
	if (argc != 2 || fault == COUNT_OF(FAULTS))
		return 2;
	return cmocka_run_group_tests(tests, start, stop);
}
