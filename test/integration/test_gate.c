/* put_many asks all units at once. Between the client and four real units stands a gate that
 * holds every alloc until all four allocs have come, and every commit likewise: a client that
 * waited for one unit before it asked the next would never get through. And what is small goes
 * with its message: the gate counts them. */
#include "harness.h"

#include <slabyard/slabyard.h>
#include <string.h>

#include "clock.h"
#include "cluster.h"
#include "gate.h"
#include "store_blob.h"

enum { UNITS = 4, SLAB_BYTES = 4 << 20, BYTES = 100000, ALL = (1 << UNITS) - 1 };
static const uint64_t MILLISECOND_NS = 1000000u, LATE_NS = 200 * 1000000u;

enum mode { PASS, TOGETHER, LATE };

static struct cluster cluster;
static enum mode mode;                 /* atomic */
static uint32_t allocs_seen, commits_seen; /* a bit a unit; the gate's thread's */
static uint32_t asked[64], notices_seen;   /* messages of each kind that passed; atomic */

/* In turn TOGETHER an alloc passes once all four stand before the gate, and a commit likewise. */
static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	enum mode now = __atomic_load_n(&mode, __ATOMIC_ACQUIRE);
	uint32_t *seen = request->op == SY_OP_ALLOC ? &allocs_seen : &commits_seen;

	if (now == LATE)
		return age_ns < LATE_NS ? GATE_HOLD : GATE_PASS;
	if (now == PASS) {
		__atomic_fetch_add(&asked[request->op % COUNT_OF(asked)], 1, __ATOMIC_ACQ_REL);
		__atomic_fetch_add(&notices_seen, (uint32_t)request->notice_count, __ATOMIC_ACQ_REL);
	}
	if (now == PASS || (request->op != SY_OP_ALLOC && request->op != SY_OP_COMMIT))
		return GATE_PASS;
	*seen |= 1u << unit_id;
	return *seen == ALL ? GATE_PASS : GATE_HOLD;
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	gate_open(&cluster, &(struct gate_hooks){.request = on_request});
	return 0;
}

static int stop(void **state)
{
	(void)state;
	gate_close();
	cluster_stop(&cluster);
	return 0;
}

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK)
		fail_msg("%s", err->message);
}

static void put_four(enum mode how)
{
	static uint8_t data[BYTES];
	sy_store_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 20000 * MILLISECOND_NS};
	struct store_blob made[UNITS];
	sy_store_blob blobs[UNITS];
	sy_store *store;
	uint64_t row = 1;
	sy_unit_rows rows[UNITS];
	sy_error err = {0};

	must(sy_store_open(&options, &store, &err), &err);
	for (uint32_t u = 0; u < UNITS; u++) {
		store_blob_make(&made[u], u, row, "x", data, BYTES);
		blobs[u] = made[u].blob;
		rows[u] = (sy_unit_rows){u, &row, 1};
	}
	/* Sessions first, so that what is timed is the put alone. */
	must(sy_store_release_rows(store, rows, UNITS, 0, &err), &err);
	__atomic_store_n(&mode, how, __ATOMIC_RELEASE);
	uint64_t start_ns = sy_clock_now_ns();
	must(sy_store_put_many(store, blobs, UNITS, 0, &err), &err);
	print_message("put_many on %d units: %llu ms\n", UNITS,
	              (unsigned long long)((sy_clock_now_ns() - start_ns) / MILLISECOND_NS));
	__atomic_store_n(&mode, PASS, __ATOMIC_RELEASE);
	must(sy_store_release_rows(store, rows, UNITS, 0, &err), &err);
	sy_store_close(store);
}

static void test_all_units_are_asked_at_once(void **state)
{
	(void)state;
	put_four(TOGETHER);
}

/* Each message 200 ms late: alloc and commit are 400 ms one after the other, whatever the number
 * of units; the time is printed, not asserted. */
static void test_late_units_are_late_together(void **state)
{
	(void)state;
	put_four(LATE);
}

static uint32_t times_asked(enum sy_op op)
{
	return __atomic_exchange_n(&asked[op], 0, __ATOMIC_ACQ_REL);
}

/* A small value is put in one message and got in one, and nothing of it is pinned. */
static void test_small_values_go_with_their_message(void **state)
{
	sy_client_options options = {.directory = gate_directory(), .control = SY_CONTROL_ZMQ,
	                            .timeout_ns = 20000 * MILLISECOND_NS};
	sy_key key = {1, "x", 1};
	sy_value value = {.data = "small", .nbytes = 5, .kind = SY_KIND_BYTES}, got;
	sy_client *client;
	sy_result *result;
	sy_error err = {0};

	(void)state;
	must(sy_client_open(&options, &client, &err), &err);
	/* What is small is told when the session begins. */
	must(sy_client_put(client, &key, &value, 1, 0, &err), &err);
	for (size_t i = 0; i < COUNT_OF(asked); i++)
		times_asked((enum sy_op)i);
	__atomic_store_n(&notices_seen, 0, __ATOMIC_RELEASE);
	for (int k = 0; k < 3; k++) {
		must(sy_client_put(client, &key, &value, 1, 0, &err), &err);
		must(sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err), &err);
		assert_true(sy_result_value(result, 0, &got) && got.nbytes == 5);
		sy_result_free(result);
	}
	assert_int_equal(times_asked(SY_OP_PUT_INLINE), 3);
	assert_int_equal(times_asked(SY_OP_RESOLVE_KEYS), 3);
	assert_int_equal(times_asked(SY_OP_ALLOC) + times_asked(SY_OP_COMMIT), 0);
	must(sy_client_clear(client, &key.row, 1, NULL, 0, 0, NULL, &err), &err);
	assert_int_equal(__atomic_load_n(&notices_seen, __ATOMIC_ACQUIRE), 0);
	sy_client_close(client);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_units_are_asked_at_once),
		cmocka_unit_test(test_late_units_are_late_together),
		cmocka_unit_test(test_small_values_go_with_their_message),
	};

	cluster_main(argc, argv);
	return cmocka_run_group_tests(tests, start, stop);
}
