/* Regions granted for the next put, over real processes: puts that follow each other need one
 * message, their bytes are right, what is not used goes back, and nobody else misses it. */
#include "harness.h"

#include <slabyard/slabyard.h>

#include "clock.h"
#include "cluster.h"
#include "number_of.h"

enum { SLAB_BYTES = 16 << 20, PUT_BYTES = 100 << 10, ROWS = 16 };

/* For what must come, but for which there is no event to wait for here. */
static const uint64_t patience_ns = 60000000000u;

static struct cluster cluster;

static sy_client *open_client(void)
{
	sy_client_options options = {.run_dir = cluster.run_dir};
	sy_client *client = NULL;
	sy_error err = {0};

	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, 1, SLAB_BYTES, false);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	cluster_stop(&cluster);
	return 0;
}

static uint64_t number(sy_client *client, const char *name)
{
	sy_unit_report report;

	assert_int_equal(sy_client_reports(client, 0, &report, NULL), SY_OK);
	uint64_t value = number_of(&report, name);
	assert_true(value != UINT64_MAX);
	return value;
}

static void fill(uint8_t *bytes, size_t count, uint32_t version)
{
	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(version * 31 + i * 7 + i / 251);
}

static sy_status put(sy_client *client, uint64_t row, size_t count, uint32_t version,
                     sy_error *err)
{
	static uint8_t bytes[SLAB_BYTES];
	sy_key key = {row, "x", 1};
	sy_value value = {.data = bytes, .nbytes = count, .kind = SY_KIND_BYTES};

	fill(bytes, count, version);
	return sy_client_put(client, &key, &value, 1, 0, err);
}

static void assert_row(sy_client *client, uint64_t row, size_t count, uint32_t version)
{
	static uint8_t wanted[SLAB_BYTES];
	sy_key key = {row, "x", 1};
	sy_result *result = NULL;

	assert_int_equal(sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, NULL), SY_OK);
	sy_value value;
	assert_true(sy_result_value(result, 0, &value));
	assert_int_equal(value.nbytes, count);
	fill(wanted, count, version);
	assert_memory_equal(value.data, wanted, count);
	sy_result_free(result);
}

static void clear_all(sy_client *client)
{
	uint64_t rows[ROWS];

	for (uint64_t i = 0; i < ROWS; i++)
		rows[i] = i;
	assert_int_equal(sy_client_clear(client, rows, ROWS, NULL, 0, 0, NULL, NULL), SY_OK);
}

/* Puts until one was written to a grant; how many were. */
static uint32_t put_until_granted(sy_client *client)
{
	uint64_t before = number(client, "granted_puts"), end_ns = sy_clock_now_ns() + patience_ns;
	uint32_t count = 0;

	do {
		/* Sizes a little apart; a row is put again and again. */
		for (int i = 0; i < 4; i++, count++)
			assert_int_equal(put(client, count % ROWS, PUT_BYTES + 100 * (count % 7), count, NULL),
			                 SY_OK);
	} while (number(client, "granted_puts") == before && sy_clock_now_ns() < end_ns);
	assert_true(number(client, "granted_puts") > before);
	return count;
}

static void await_none_reserved(sy_client *client)
{
	uint64_t end_ns = sy_clock_now_ns() + patience_ns;

	while (number(client, "reservations") != 0 && sy_clock_now_ns() < end_ns)
		continue;
	assert_int_equal(number(client, "reservations"), 0);
}

static void test_puts_that_follow_each_other(void **state)
{
	(void)state;
	sy_client *client = open_client();
	uint32_t count = put_until_granted(client);
	for (uint32_t i = count > ROWS ? count - ROWS : 0; i < count; i++)
		assert_row(client, i % ROWS, PUT_BYTES + 100 * (i % 7), i);
	await_none_reserved(client); /* while it is idle, and open */
	clear_all(client);
	sy_client_close(client);
}

static void test_a_client_that_goes_leaves_none(void **state)
{
	(void)state;
	sy_client *client = open_client(), *other = open_client();
	put_until_granted(client);
	sy_client_close(client);
	await_none_reserved(other);
	clear_all(other);
	sy_client_close(other);
}

/* What it keeps for puts to come its own larger put does not miss. */
static void test_a_put_that_needs_all_the_room(void **state)
{
	(void)state;
	sy_client *client = open_client();
	sy_error err = {0};
	put_until_granted(client);
	clear_all(client);
	sy_status status = put(client, 1, SLAB_BYTES - 4096, 1, &err);
	if (status != SY_OK)
		fail_msg("%s", err.message);
	assert_row(client, 1, SLAB_BYTES - 4096, 1);
	clear_all(client);
	await_none_reserved(client);
	sy_client_close(client);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_puts_that_follow_each_other),
		cmocka_unit_test(test_a_client_that_goes_leaves_none),
		cmocka_unit_test(test_a_put_that_needs_all_the_room),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
