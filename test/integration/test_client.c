/* The client by keys, against a real cluster. */
#include "harness.h"

#include <signal.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cluster.h"

enum { UNITS = 3, SLAB_BYTES = 16 << 20 };

static struct cluster cluster;
static sy_client *client;

static int start(void **state)
{
	sy_error err = {0};
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 10000000000u};

	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	if (sy_client_open(&options, &client, &err) != SY_OK) {
		print_error("%s\n", err.message);
		return -1;
	}
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

static sy_key key_of(const char *text)
{
	sy_key key;

	assert_int_equal(sy_key_from_text(text, strlen(text), &key, NULL), SY_OK);
	return key;
}

static void put_bytes(const char *text, const void *data, size_t nbytes)
{
	sy_key key = key_of(text);
	sy_value value = {.data = data, .nbytes = nbytes, .kind = SY_KIND_BYTES};
	sy_error err = {0};

	if (sy_client_put(client, &key, &value, 1, 0, &err) != SY_OK)
		fail_msg("put %s: %s", text, err.message);
	cluster.put_bytes += nbytes;
}

static void expect_bytes(const char *text, const void *data, size_t nbytes, int flags)
{
	sy_key key = key_of(text);
	sy_result *result;
	sy_value value;
	sy_error err = {0};

	if (sy_client_get(client, &key, 1, flags, 0, &result, &err) != SY_OK)
		fail_msg("get %s: %s", text, err.message);
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, nbytes);
	assert_int_equal(value.kind, SY_KIND_BYTES);
	if (nbytes > 0)
		assert_memory_equal(value.data, data, nbytes);
	cluster.got_bytes += nbytes;
	sy_result_free(result);
}

static uint64_t stat_of(const sy_stat *stats, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].value;
	}
	fail_msg("no number %s", name);
	return 0;
}

static void expect_all_free(void)
{
	sy_unit_report reports[UNITS];
	sy_error err = {0};

	assert_int_equal(sy_client_reports(client, 0, reports, &err), SY_OK);
	for (int u = 0; u < UNITS; u++) {
		assert_true(reports[u].answered);
		assert_int_equal(stat_of(reports[u].bytes, reports[u].byte_count, "free"),
		                 reports[u].capacity_bytes);
		assert_int_equal(stat_of(reports[u].counts, reports[u].count_count, "pins"), 0);
		assert_int_equal(stat_of(reports[u].counts, reports[u].count_count, "entries"), 0);
	}
}

static void clear_all(void)
{
	uint64_t rows[4096], count;

	for (uint64_t i = 0; i < 4096; i++)
		rows[i] = i;
	assert_int_equal(sy_client_clear(client, rows, 4096, NULL, 0, 0, &count, NULL), SY_OK);
}

static void test_put_and_get(void **state)
{
	static const size_t SIZES[] = {0, 1, 63, 64, 65, 4096, 8192, 8193, 100000, 3 << 20};
	uint8_t *data = malloc(3 << 20);

	(void)state;
	for (size_t i = 0; i < 3 << 20; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t i = 0; i < COUNT_OF(SIZES); i++) {
		for (int row = 0; row < UNITS; row++) {
			char key[32];

			snprintf(key, sizeof key, "%d@f%zu", row, i);
			put_bytes(key, data, SIZES[i]);
			expect_bytes(key, data, SIZES[i], SY_GET_COPY);
			expect_bytes(key, data, SIZES[i], SY_GET_VIEW);
		}
	}
	clear_all();
	expect_all_free();
	free(data);
}

/* Kind: absent against empty. */
static void test_absent_is_not_empty(void **state)
{
	sy_key keys[] = {key_of("1@there"), key_of("1@not"), key_of("7@there"), key_of("1@there")};
	sy_result *result;
	sy_value value;

	(void)state;
	put_bytes("1@there", "", 0);
	assert_int_equal(sy_client_get(client, keys, 4, 0, 0, &result, NULL), SY_OK);
	assert_int_equal(sy_result_count(result), 4);
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, 0);
	assert_false(sy_result_value(result, 1, &value));
	assert_false(sy_result_value(result, 2, &value));
	assert_true(sy_result_value(result, 3, &value));
	sy_result_free(result);
	clear_all();
}

static void test_overwrite(void **state)
{
	(void)state;
	put_bytes("5@x", "first", 5);
	put_bytes("5@x", "second!", 7);
	expect_bytes("5@x", "second!", 7, SY_GET_COPY);
	clear_all();
	expect_all_free();
}

static void test_view_outlives_clear_and_client(void **state)
{
	sy_client_options options = {.run_dir = cluster.run_dir};
	sy_client *other;
	sy_key key = key_of("2@view");
	uint8_t data[100000], again[100000];
	sy_result *result;
	sy_value value;

	(void)state;
	memset(data, 'a', sizeof data);
	memset(again, 'b', sizeof again);
	put_bytes("2@view", data, sizeof data);
	assert_int_equal(sy_client_open(&options, &other, NULL), SY_OK);
	assert_int_equal(sy_client_get(other, &key, 1, SY_GET_VIEW, 0, &result, NULL), SY_OK);
	sy_client_close(other);
	clear_all();
	/* Fills the slab as far as it goes: the pinned region must not be among what is given out. */
	for (int i = 0; i < 400; i++) {
		char text[32];
		sy_key filler;
		sy_value bytes = {.data = again, .nbytes = sizeof again, .kind = SY_KIND_BYTES};

		snprintf(text, sizeof text, "%d@fill", 2 + 3 * i);
		filler = key_of(text);
		if (sy_client_put(client, &filler, &bytes, 1, 0, NULL) != SY_OK)
			break;
	}
	assert_true(sy_result_value(result, 0, &value));
	assert_memory_equal(value.data, data, sizeof data);
	sy_result_free(result);
	clear_all();
	expect_all_free();
}

static void test_unit_full_says_numbers(void **state)
{
	sy_key key = key_of("0@large");
	static uint8_t data[SLAB_BYTES];
	uint32_t indexes[1];
	sy_value value = {.data = data, .nbytes = sizeof data, .kind = SY_KIND_BYTES};
	sy_error err = {.indexes = indexes, .index_capacity = 1};

	(void)state;
	assert_int_equal(sy_client_put(client, &key, &value, 1, 0, &err), SY_E_UNIT_FULL);
	assert_string_equal(err.reason, "bytes");
	assert_true(err.need > SLAB_BYTES);
	assert_int_equal(err.free, SLAB_BYTES);
	assert_int_equal(err.largest_hole, SLAB_BYTES);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(indexes[0], 0);
	expect_all_free();
}

static void test_bad_calls(void **state)
{
	sy_key twice[] = {key_of("1@a"), key_of("1@a")};
	sy_key bad = {.row = 1, .field = "a\0b", .field_bytes = 3};
	sy_value values[2] = {{.data = "x", .nbytes = 1, .kind = SY_KIND_BYTES},
	                      {.data = "y", .nbytes = 1, .kind = SY_KIND_BYTES}};
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_client_put(client, twice, values, 2, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_put(client, &bad, values, 1, 0, &err), SY_E_INVALID);
	values[0].dtype = SY_DTYPE_F32;
	assert_int_equal(sy_client_put(client, twice, values, 1, 0, &err), SY_E_INVALID);
	values[0] = (sy_value){.data = "xyz", .nbytes = 3, .kind = SY_KIND_TENSOR,
	                       .dtype = SY_DTYPE_F32, .rank = 1, .dims = {1}};
	assert_int_equal(sy_client_put(client, twice, values, 1, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_put(client, NULL, NULL, 0, 0, &err), SY_OK);
	expect_all_free();
}

/* What a program forgot to give is an error, not its end. */
static void test_missing_arguments(void **state)
{
	sy_key key = key_of("1@a"), nameless = {.row = 1, .field = NULL, .field_bytes = 3};
	sy_value value = {.data = "x", .nbytes = 1, .kind = SY_KIND_BYTES};
	const char *fields[] = {"a", NULL};
	uint64_t row = 1;
	sy_result *result = NULL;
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_client_put(client, NULL, &value, 1, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_put(client, &key, NULL, 1, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_put(client, &nameless, &value, 1, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_get(client, NULL, 1, 0, 0, &result, &err), SY_E_INVALID);
	assert_int_equal(sy_client_get(client, &nameless, 1, 0, 0, &result, &err), SY_E_INVALID);
	assert_int_equal(sy_client_get(client, &key, 1, 77, 0, &result, &err), SY_E_INVALID);
	assert_int_equal(sy_client_get_columns(client, NULL, 1, fields, 1, 0, 0, &result, &err),
	                 SY_E_INVALID);
	assert_int_equal(sy_client_get_columns(client, &row, 1, NULL, 1, 0, 0, &result, &err),
	                 SY_E_INVALID);
	assert_int_equal(sy_client_get_columns(client, &row, 1, fields, 2, 0, 0, &result, &err),
	                 SY_E_INVALID);
	assert_int_equal(sy_client_clear(client, NULL, 1, NULL, 0, 0, NULL, &err), SY_E_INVALID);
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 1, 0, NULL, &err), SY_E_INVALID);
	assert_int_equal(sy_client_clear(client, &row, 1, fields, 2, 0, NULL, &err), SY_E_INVALID);
	assert_null(result);
	expect_all_free();
}

static void test_fork_child_is_refused(void **state)
{
	(void)state;
	put_bytes("1@fork", "parent", 6);
	pid_t pid = fork();
	if (pid == 0) {
		sy_key key = key_of("1@fork");
		sy_result *result;

		_exit(sy_client_get(client, &key, 1, 0, 0, &result, NULL) == SY_E_FATAL ? 0 : 1);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_bytes("1@fork", "parent", 6, SY_GET_COPY);
	clear_all();
	expect_all_free();
}

/* Its first put meets a slot without a unit, the next one the unit that came meanwhile. */
static void test_a_client_older_than_its_unit(void **state)
{
	static uint8_t bytes[100000];
	struct cluster late;
	sy_client_options options = {.run_dir = late.run_dir, .timeout_ns = 10000000000u};
	sy_key key = key_of("1@early");
	sy_value value = {.data = bytes, .nbytes = sizeof bytes, .kind = SY_KIND_BYTES};
	sy_client *older, *common = client;
	sy_error err = {0};

	(void)state;
	memset(bytes, 5, sizeof bytes);
	cluster_start(&late, 2, SLAB_BYTES, false);
	cluster_kill(&late, 1, SIGTERM);
	assert_int_equal(sy_client_open(&options, &older, NULL), SY_OK);
	assert_int_equal(sy_client_put(older, &key, &value, 1, 0, &err), SY_E_TRANSFER_FAILED);
	assert_non_null(strstr(err.message, "dead"));
	cluster_restart(&late, 1);
	client = older;
	put_bytes("1@early", bytes, sizeof bytes);
	expect_bytes("1@early", bytes, sizeof bytes, SY_GET_COPY);
	client = common;
	cluster.put_bytes -= sizeof bytes; /* of the other cluster's */
	cluster.got_bytes -= sizeof bytes;
	late.put_bytes = late.got_bytes = sizeof bytes;
	sy_client_close(older);
	cluster_stop(&late);
}

/* Bytes of slabs that this process may write to and has pages of. */
static uint64_t mapped_bytes(void)
{
	FILE *maps = fopen("/proc/self/smaps", "r");
	bool of_slab = false;
	uint64_t bytes = 0;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof line, maps) != NULL) {
		unsigned long long kib;

		if (strstr(line, " rw-s ") != NULL)
			of_slab = strstr(line, "/slabyard-") != NULL;
		else if (strstr(line, "-s ") != NULL || strstr(line, "-p ") != NULL)
			of_slab = false;
		if (of_slab && sscanf(line, "Rss: %llu kB", &kib) == 1)
			bytes += (uint64_t)kib << 10;
	}
	fclose(maps);
	return bytes;
}

/* Soon after a slab was attached no call pays a page fault for its first touch. */
static void test_pages_are_mapped_meanwhile(void **state)
{
	const struct timespec pause = {0, 10000000};
	const char *transport = getenv("SLABYARD_TRANSPORT");
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t bytes = 0;

	(void)state;
	assert_ptr_not_equal(page, MAP_FAILED);
	/* From Linux 5.14 on; over UCX nothing is mapped. */
	bool can = transport == NULL && madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
	munmap(page, 4096);
	for (int row = 0; row < UNITS; row++) {
		char key[32];

		snprintf(key, sizeof key, "%d@mapped", row);
		put_bytes(key, "x", 1);
	}
	for (int i = 0; can && bytes < (uint64_t)UNITS * SLAB_BYTES && i < 3000; i++) {
		bytes = mapped_bytes();
		nanosleep(&pause, NULL);
	}
	assert_int_equal(bytes, can ? (uint64_t)UNITS * SLAB_BYTES : 0);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages_are_mapped_meanwhile),
		cmocka_unit_test(test_put_and_get),
		cmocka_unit_test(test_absent_is_not_empty),
		cmocka_unit_test(test_overwrite),
		cmocka_unit_test(test_view_outlives_clear_and_client),
		cmocka_unit_test(test_unit_full_says_numbers),
		cmocka_unit_test(test_bad_calls),
		cmocka_unit_test(test_missing_arguments),
		cmocka_unit_test(test_fork_child_is_refused),
		cmocka_unit_test(test_a_client_older_than_its_unit),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
