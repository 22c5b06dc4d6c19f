/* A client of another host is stopped between its alloc and its WRITE, past the end of its
 * session, the fence and every grace; its region is others' by then. It goes on, nothing of it
 * lands, and it is told. UCX carries the bytes, as the environment says, or else by TCP over the
 * loopback. */
#include "harness.h"

#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "number_of.h"
#include "store_blob.h"

enum { SLAB_BYTES = 16 << 20, LARGE = 8 << 20, PIECE = 256 << 10 };
enum { WRITER_ROW = 1, OTHERS_ROW = 1000, PIECES_MAX = SLAB_BYTES / PIECE };
enum { FIRST_TRIES = 20 };
enum { SAID_AS_DUE = 3, SAID_OTHERWISE, COULD_NOT }; /* how the writer ends */
static const uint64_t SECOND_NS = 1000000000u;

static struct cluster cluster;
static sy_client *client;

/* --- The writer: a process of its own. --- */

static bool stops; /* before the next transfer, for which the region has been allocated */

static void on_lock(void *context)
{
	(void)context;
	if (stops)
		raise(SIGSTOP);
	stops = false;
}

static void on_unlock(void *context)
{
	(void)context;
}

/* argv: program, "writer", run directory, whether it is connected before */
static int run_writer(char **argv)
{
	const sy_store_options options = {.run_dir = argv[2], .timeout_ns = 120 * SECOND_NS,
	                                  .lock = on_lock, .unlock = on_unlock};
	static uint8_t memory[LARGE]; /* a WRITE may be under way to the end */
	struct store_blob blob;
	sy_store *store;
	sy_error err = {0};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sy_store_open(&options, &store, &err) != SY_OK)
		return COULD_NOT;
	fill_words(memory, LARGE, 99);
	sy_status status = argv[3][0] == '1' ? SY_E_BUSY : SY_OK;
	/* A session lasts a second here, and on a host that stands still not even that. */
	for (int i = 0; status != SY_OK && i < FIRST_TRIES; i++) {
		store_blob_make(&blob, 0, WRITER_ROW, "first", memory, PIECE);
		status = sy_store_put_segments(store, &blob.blob, 0, &err);
	}
	if (status != SY_OK)
		return COULD_NOT;
	store_blob_make(&blob, 0, WRITER_ROW, "large", memory, LARGE);
	stops = true;
	status = sy_store_put_segments(store, &blob.blob, 0, &err);
	printf("the writer was told: %s: %s\n", sy_status_name(status), err.message);
	fflush(stdout);
	sy_store_close(store);
	/* One that never connected has written nothing: it may have asked for a region anew. */
	bool due = status == SY_E_TRANSFER_FAILED ||
	           (status == SY_E_UNIT_FULL && argv[3][0] == '0' && !err.in_flight);
	return due ? SAID_AS_DUE : SAID_OTHERWISE;
}

static pid_t start_writer(bool connected)
{
	char *argv[] = {"writer", "writer", cluster.run_dir, connected ? "1" : "0", NULL};
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

/* --- The others: this process. --- */

/* Nothing but what is published, and no more than so much of it free. */
static bool is_plain(uint64_t most_free)
{
	sy_unit_report report = {0};

	if (sy_client_reports(client, 0, &report, NULL) != SY_OK || !report.answered)
		return false;
	uint64_t free_bytes = number_of(&report, "free");
	return free_bytes <= most_free && free_bytes + number_of(&report, "published") +
	                                          number_of(&report, "rounding") == SLAB_BYTES;
}

/* Row by row until there is no room left, that of the writer's region included. */
static uint64_t fill_all(void)
{
	static uint8_t piece[PIECE];
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	sy_key key = {OTHERS_ROW, "theirs", 6};
	sy_value value = {.data = piece, .nbytes = PIECE, .kind = SY_KIND_BYTES};
	sy_status status;

	do {
		fill_words(piece, PIECE, key.row);
		status = sy_client_put(client, &key, &value, 1, 0, NULL);
		assert_true(sy_clock_now_ns() < end_ns);
		key.row += status == SY_OK;
		cluster.put_bytes += status == SY_OK ? PIECE : 0;
	} while (status != SY_E_UNIT_FULL || !is_plain(2 * PIECE));
	return key.row;
}

static void check_all(uint64_t last_row)
{
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;

	for (uint64_t row = OTHERS_ROW; row < last_row; row++) {
		sy_key key = {row, "theirs", 6};
		sy_result *result;
		sy_value value = {0};
		sy_error err = {0};

		/* Pins last a second here, which on a host that stands still a READ outlives. */
		while (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err) != SY_OK) {
			if (sy_clock_now_ns() >= end_ns)
				fail_msg("row %llu: %s", (unsigned long long)row, err.message);
		}
		assert_true(sy_result_value(result, 0, &value));
		assert_int_equal(value.nbytes, PIECE);
		if (!holds_words(value.data, PIECE, row))
			fail_msg("row %llu: another's bytes landed in it", (unsigned long long)row);
		cluster.got_bytes += PIECE;
		sy_result_free(result);
	}
}

static void clear_all(void)
{
	uint64_t rows[PIECES_MAX + 1] = {WRITER_ROW}, end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	sy_unit_report report = {0};

	for (uint64_t i = 0; i < PIECES_MAX; i++)
		rows[i + 1] = OTHERS_ROW + i;
	assert_int_equal(sy_client_clear(client, rows, COUNT_OF(rows), NULL, 0, 0, NULL, NULL), SY_OK);
	while (sy_client_reports(client, 0, &report, NULL) != SY_OK || !report.answered ||
	       number_of(&report, "free") != SLAB_BYTES)
		assert_true(sy_clock_now_ns() < end_ns);
}

static void stop_past_every_grace(bool connected)
{
	pid_t writer = start_writer(connected);
	uint64_t row = WRITER_ROW;
	int status = 0;

	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
	uint64_t last_row = fill_all();
	kill(writer, SIGCONT);
	assert_int_equal(waitpid(writer, &status, 0), writer);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), SAID_AS_DUE);
	check_all(last_row);
	clear_all();
}

static void test_of_a_connected_writer(void **state)
{
	(void)state;
	stop_past_every_grace(true);
}

static void test_of_one_that_never_connected(void **state)
{
	(void)state;
	stop_past_every_grace(false);
}

static int start(void **state)
{
	sy_client_options options = {.timeout_ns = 60 * SECOND_NS, .run_dir = cluster.run_dir};

	(void)state;
	cluster_start(&cluster, 1, SLAB_BYTES, true);
	return sy_client_open(&options, &client, NULL) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_a_connected_writer),
		cmocka_unit_test(test_of_one_that_never_connected),
	};

	cluster_choose_ucx();
	cluster_main(argc, argv);
	if (argc == 4 && strcmp(argv[1], "writer") == 0)
		return run_writer(argv);
	return cmocka_run_group_tests(tests, start, stop);
}
