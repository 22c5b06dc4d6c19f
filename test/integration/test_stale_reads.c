/* Reads that take longer than their pins last, over UCX: by the time they are done the unit has
 * given the region to others, and what came is theirs. The answer to a resolve is held at a gate,
 * or the READ by the store's lock, until others' bytes are known to lie there. */
#include "harness.h"

#include <semaphore.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "gate.h"
#include "number_of.h"
#include "slow_get.h"

enum { SLAB_BYTES = 4 << 20, ROWS = SLOW_GET_ROWS, LARGE = 50000, JUNK_ROW = 100, JUNK_MAX = 512,
       POLL_US = 2000 };
static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t PIN_NS = 1000000000u; /* of a cluster with short leases */

static struct cluster cluster;
static sy_client *writer, *reader; /* the reader's messages pass the gate */
static sem_t at_gate;
static bool holding, slow;   /* atomic: answers to resolves stay at the gate; for a while */
static uint32_t check_count; /* atomic: how often a unit was asked whether a pin stood */
static uint32_t hello_count; /* atomic: how often the reader began a session */

static enum gate_says on_reply(uint32_t unit_id, enum sy_op op, struct sy_reply *reply,
                               uint64_t age_ns)
{
	static bool told;

	(void)unit_id;
	(void)reply;
	if (op != SY_OP_RESOLVE_KEYS)
		return GATE_PASS;
	if (__atomic_load_n(&slow, __ATOMIC_ACQUIRE))
		return age_ns > PIN_NS / 2 ? GATE_PASS : GATE_HOLD;
	bool hold = __atomic_load_n(&holding, __ATOMIC_ACQUIRE);
	if (hold && !told)
		sem_post(&at_gate);
	told = hold;
	return hold ? GATE_HOLD : GATE_PASS;
}

static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	(void)unit_id;
	(void)age_ns;
	if (request->op == SY_OP_PIN_CHECK)
		__atomic_add_fetch(&check_count, 1, __ATOMIC_RELEASE);
	if (request->op == SY_OP_HELLO)
		__atomic_add_fetch(&hello_count, 1, __ATOMIC_RELEASE);
	return GATE_PASS;
}

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK)
		fail_msg("%s: %s", sy_status_name(status), err->message);
}

static int start(void **state)
{
	sy_client_options options = {.timeout_ns = 60 * SECOND_NS};
	sy_error err = {0};

	(void)state;
	sem_init(&at_gate, 0, 0);
	cluster_start(&cluster, 1, SLAB_BYTES, true);
	gate_open(&cluster, &(struct gate_hooks){.request = on_request, .reply = on_reply});
	options.run_dir = cluster.run_dir;
	must(sy_client_open(&options, &writer, &err), &err);
	options.run_dir = NULL;
	options.directory = gate_directory();
	must(sy_client_open(&options, &reader, &err), &err);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(reader);
	sy_client_close(writer);
	gate_close();
	cluster_stop(&cluster);
	return 0;
}

static uint8_t byte_of(uint64_t row, uint8_t salt, size_t i)
{
	return (uint8_t)(row * 37 + salt * 101 + i * 11 + i / 251);
}

static void put_rows(uint8_t salt)
{
	static uint8_t bytes[ROWS][LARGE];
	sy_key keys[ROWS];
	sy_value values[ROWS];
	sy_error err = {0};

	for (uint64_t r = 0; r < ROWS; r++) {
		for (size_t i = 0; i < LARGE; i++)
			bytes[r][i] = byte_of(r, salt, i);
		keys[r] = (sy_key){r, "x", 1};
		values[r] = (sy_value){.data = bytes[r], .nbytes = LARGE, .kind = SY_KIND_BYTES};
	}
	must(sy_client_put(writer, keys, values, ROWS, 0, &err), &err);
}

static void clear_from(uint64_t first, size_t count)
{
	uint64_t rows[JUNK_MAX];
	sy_error err = {0};

	for (size_t r = 0; r < count; r++)
		rows[r] = first + r;
	must(sy_client_clear(writer, rows, count, NULL, 0, 0, NULL, &err), &err);
}

/* Until the unit holds nothing but what is published: no pin keeps anything back. */
static bool is_plain(uint64_t *ret_free)
{
	sy_unit_report report = {0};
	sy_error err = {0};

	must(sy_client_reports(writer, 0, &report, &err), &err);
	*ret_free = report.answered ? number_of(&report, "free") : 0;
	return report.answered && *ret_free + number_of(&report, "published") +
	                                  number_of(&report, "rounding") == SLAB_BYTES;
}

/* Clears the rows and has other bytes wherever they find room, also where pins kept them out. */
static void give_it_to_others(void)
{
	static uint8_t junk[LARGE];
	sy_key key = {JUNK_ROW, "junk", 4};
	sy_value value = {.data = junk, .nbytes = LARGE, .kind = SY_KIND_BYTES};
	uint64_t end_ns = sy_clock_now_ns() + 30 * SECOND_NS, free_bytes = SLAB_BYTES;
	bool full = false;
	sy_error err = {0};

	clear_from(0, ROWS);
	memset(junk, 0xee, sizeof junk);
	while (!full && sy_clock_now_ns() < end_ns) {
		sy_status status = sy_client_put(writer, &key, &value, 1, 0, &err);

		if (status == SY_OK)
			key.row++;
		else
			assert_int_equal(status, SY_E_UNIT_FULL);
		full = status != SY_OK && is_plain(&free_bytes);
		if (status != SY_OK && !full)
			usleep(POLL_US); /* a pin's end tells nobody */
	}
	assert_true(full);
	assert_true(key.row < JUNK_ROW + JUNK_MAX);
}

static void clear_all(void)
{
	uint64_t free_bytes = 0, end_ns = sy_clock_now_ns() + 30 * SECOND_NS;

	clear_from(0, ROWS);
	clear_from(JUNK_ROW, JUNK_MAX);
	while (!is_plain(&free_bytes) || free_bytes != SLAB_BYTES) {
		assert_true(sy_clock_now_ns() < end_ns);
		usleep(POLL_US);
	}
}

static void check_bytes(const uint8_t *bytes, uint64_t row, uint8_t salt)
{
	for (size_t i = 0; i < LARGE; i++) {
		if (bytes[i] != byte_of(row, salt, i))
			fail_msg("row %llu, byte %zu: another's", (unsigned long long)row, i);
	}
}

static void check_result(const struct slow_get *get, uint8_t salt)
{
	for (size_t r = 0; r < sy_result_count(get->result); r++) {
		sy_value value;

		assert_true(sy_result_value(get->result, r, &value));
		assert_int_equal(value.nbytes, LARGE);
		check_bytes(value.data, r, salt);
	}
}

static bool was_asked(void)
{
	return __atomic_exchange_n(&check_count, 0, __ATOMIC_ACQ_REL) > 0;
}

/* On a host that stands still for a second the reader's session ends, and the get resolves anew in
 * its next one, which may be while there are no rows. */
static bool found_none(const struct slow_get *get)
{
	sy_value value;

	for (size_t r = 0; r < sy_result_count(get->result); r++) {
		if (sy_result_value(get->result, r, &value))
			return false;
	}
	return true;
}

/* The rows are cleared under the get, or cleared and put anew: it says what holds afterwards. */
static void test_a_get_outlives_its_pins(void **state)
{
	(void)state;
	for (int anew = 0; anew < 2; anew++) {
		for (enum path path = SINGLE; path <= COLUMNS; path++) {
			struct slow_get get = {.client = reader, .path = path};

			put_rows(1);
			__atomic_store_n(&holding, true, __ATOMIC_RELEASE);
			assert_int_equal(pthread_create(&get.thread, NULL, get_slowly, &get), 0);
			sem_wait(&at_gate);
			uint32_t greeted = __atomic_load_n(&hello_count, __ATOMIC_ACQUIRE);
			give_it_to_others();
			if (anew == 1) {
				clear_from(JUNK_ROW, JUNK_MAX);
				put_rows(2);
			}
			__atomic_store_n(&holding, false, __ATOMIC_RELEASE);
			pthread_join(get.thread, NULL);
			must(get.status, &get.err);
			bool again = greeted != __atomic_load_n(&hello_count, __ATOMIC_ACQUIRE);
			bool none = found_none(&get);
			if (anew == 0)
				assert_true(none);
			else if (!again || !none)
				check_result(&get, 2);
			assert_true(was_asked() || again);
			sy_result_free(get.result);
			clear_all();
		}
	}
}

/* Half of the pin's time is over, so that the unit must be asked; what it says of the pin, and so
 * whether the get resolves anew, depends on how long all that takes, and the bytes do not. */
static void test_a_get_is_slow(void **state)
{
	(void)state;
	put_rows(1);
	__atomic_store_n(&slow, true, __ATOMIC_RELEASE);
	for (enum path path = SINGLE; path <= COLUMNS; path++) {
		struct slow_get get = {.client = reader, .path = path};

		get_slowly(&get);
		if (get.status == SY_E_TRANSFER_FAILED)
			continue; /* this host stood still for half a second, twice: it was told so */
		must(get.status, &get.err);
		check_result(&get, 1);
		assert_true(was_asked());
		sy_result_free(get.result);
	}
	__atomic_store_n(&slow, false, __ATOMIC_RELEASE);
	clear_all();
}

static bool others_come; /* while the store is about to read */

static void on_lock(void *context)
{
	(void)context;
	if (others_come)
		give_it_to_others();
	others_come = false;
}

static void on_unlock(void *context)
{
	(void)context;
}

static void test_a_store_outlives_its_pins(void **state)
{
	static uint8_t got[2][LARGE];
	sy_store_options options = {.directory = gate_directory(), .timeout_ns = 60 * SECOND_NS,
	                            .lock = on_lock, .unlock = on_unlock};
	sy_key wanted[] = {{2, "x", 1}, {4, "x", 1}};
	sy_unit_keys keys = {0, wanted, 2};
	sy_resolved_keys *resolved;
	sy_store *store;
	sy_read reads[2];
	uint32_t indexes[4];
	sy_error err = {.indexes = indexes, .index_capacity = 4};

	(void)state;
	put_rows(1);
	must(sy_store_open(&options, &store, &err), &err);
	must(sy_store_resolve_keys(store, &keys, 1, 0, &resolved, &err), &err);
	for (size_t k = 0; k < 2; k++) {
		sy_located at;

		assert_true(sy_resolved_at(resolved, 0, k, &at));
		reads[k] = (sy_read){0, at.slab_offset, at.nbytes, got[k]};
	}
	others_come = true;
	assert_int_equal(sy_store_read_entries(store, reads, 2, 0, &err), SY_E_STALE_READ);
	assert_int_equal(err.index_count, 2);
	assert_false(err.in_flight);
	assert_true(was_asked());
	sy_resolved_keys_free(resolved);
	clear_all();
	put_rows(3);
	must(sy_store_resolve_keys(store, &keys, 1, 0, &resolved, &err), &err);
	for (size_t k = 0; k < 2; k++) {
		sy_located at;

		assert_true(sy_resolved_at(resolved, 0, k, &at));
		reads[k].slab_offset = at.slab_offset;
	}
	must(sy_store_read_entries(store, reads, 2, 0, &err), &err);
	check_bytes(got[0], 2, 3);
	check_bytes(got[1], 4, 3);
	sy_resolved_keys_free(resolved);
	sy_store_close(store);
	clear_all();
}

int main(int argc, char **argv)
{
	cluster_choose_ucx();
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_get_outlives_its_pins),
		cmocka_unit_test(test_a_get_is_slow),
		cmocka_unit_test(test_a_store_outlives_its_pins),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
