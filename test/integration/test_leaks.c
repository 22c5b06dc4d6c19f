/* What a process holds after many clients and many operations is what it held before. */
#include "harness.h"

#include <dirent.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <unistd.h>

#include "cluster.h"
#include "process_kib.h"
#include "sanitized.h"

enum { UNITS = 2, SLAB_BYTES = 4 << 20, BIG = 20000 };
/* A unit's own: what it opens when it is first needed, and a connection that is just closed. */
enum { SPARE_FDS = 8 };
enum { CLIENTS = SANITIZED ? 50 : 1000, TURNS = SANITIZED ? 500 : 10000 };

static struct cluster cluster;

/* TEST_CLIENTS asks for another number of them. */
static int client_count(void)
{
	const char *asked = getenv("TEST_CLIENTS");

	return asked != NULL ? (int)strtol(asked, NULL, 10) : CLIENTS;
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, true);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&cluster);
	return 0;
}

static size_t entries_of(const char *path)
{
	DIR *dir = opendir(path);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

/* Not more than so many, though one that was joined may stand in /proc for a moment longer. */
static void expect_threads(size_t most)
{
	size_t count = entries_of("/proc/self/task");

	for (int i = 0; i < 1000000 && count > most; i++) {
		sched_yield();
		count = entries_of("/proc/self/task");
	}
	assert_true(count <= most);
}

static size_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long all, resident;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &all, &resident), 2);
	fclose(file);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static sy_client *open_client(void)
{
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 10000000000u};
	sy_client *client;
	sy_error err = {0};

	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

/* Both units, both ways to put, both ways to get. */
static sy_result *use(sy_client *client)
{
	static uint8_t data[BIG];
	sy_key keys[] = {{0, "x", 1}, {1, "x", 1}, {0, "small", 5}};
	sy_value values[] = {{.data = data, .nbytes = BIG, .kind = SY_KIND_BYTES},
	                     {.data = data, .nbytes = BIG, .kind = SY_KIND_BYTES},
	                     {.data = data, .nbytes = 100, .kind = SY_KIND_BYTES}};
	sy_result *copy = NULL, *view = NULL;
	sy_error err = {0};

	if (sy_client_put(client, keys, values, 2, 0, &err) != SY_OK ||
	    sy_client_put(client, keys + 2, values + 2, 1, 0, &err) != SY_OK ||
	    sy_client_get(client, keys, 3, SY_GET_COPY, 0, &copy, &err) != SY_OK ||
	    sy_client_get(client, keys, 3, SY_GET_VIEW, 0, &view, &err) != SY_OK)
		fail_msg("%s", err.message);
	sy_result_free(copy);
	return view;
}

static void one_client(void)
{
	sy_client *client = open_client();
	sy_result *view = use(client);

	sy_client_close(client);
	sy_result_free(view);
}

static size_t descriptors_of(pid_t pid)
{
	char path[48];

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	return entries_of(path);
}

/* A unit hears of a client's end a little after it. */
static void expect_descriptors(pid_t pid, size_t most)
{
	for (int i = 0; i < 20000 && descriptors_of(pid) > most; i++)
		poll(NULL, 0, 1);
	assert_true(descriptors_of(pid) <= most);
}

/* Of the units and the directory together, which also hear of each client. */
static long servers_kib(void)
{
	long kib = process_kib(cluster.server, "RssAnon:");

	for (int i = 0; i < UNITS; i++)
		kib += process_kib(cluster.units[i], "RssAnon:");
	return kib;
}

/* Kind: counters that only grow. */
static void test_many_clients(void **state)
{
	int count = client_count();
	size_t of_unit = descriptors_of(cluster.units[0]) + SPARE_FDS;

	(void)state;
	/* What is made once and kept, malloc's arenas and thread stacks among it. */
	for (int i = 0; i < 5 + CLIENTS / 5; i++)
		one_client();
	size_t fds = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
	size_t resident = resident_bytes();
	long servers = servers_kib();
	for (int i = 0; i < count; i++)
		one_client();
	assert_int_equal(entries_of("/proc/self/fd"), fds);
	expect_threads(threads);
	expect_descriptors(cluster.units[0], of_unit);
	size_t now = resident_bytes();
	long servers_now = servers_kib();
	print_message("%d clients: %zu KiB, then %zu; units and directory %ld, then %ld\n", count,
	              resident / 1024, now / 1024, servers, servers_now);
	if (!SANITIZED) {
		assert_true(now < resident + (2 << 20));
		assert_true(servers_now < servers + 1024 + count / 5);
	}
}

static void test_many_operations(void **state)
{
	sy_client *client = open_client();
	uint64_t rows[] = {0, 1};
	size_t resident = 0;

	(void)state;
	for (int i = 0; i < 2 * TURNS; i++) {
		if (i == TURNS)
			resident = resident_bytes();
		sy_result_free(use(client));
		if (i % 10 == 0)
			assert_int_equal(sy_client_clear(client, rows, 2, NULL, 0, 0, NULL, NULL), SY_OK);
	}
	size_t now = resident_bytes();
	print_message("%d operations: %zu KiB, then %zu\n", 4 * TURNS, resident / 1024, now / 1024);
	if (!SANITIZED)
		assert_true(now < resident + (1 << 20));
	assert_int_equal(sy_client_clear(client, rows, 2, NULL, 0, 0, NULL, NULL), SY_OK);
	sy_client_close(client);
}

int main(int argc, char **argv)
{
	/* All that is freed goes back, from one arena: else it is for the order of threads to say how
	 * often a client's 2 MiB for messages stay with malloc, all touched where it fills them. */
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	mallopt(M_ARENA_MAX, 1);
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_clients),
		cmocka_unit_test(test_many_operations),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
