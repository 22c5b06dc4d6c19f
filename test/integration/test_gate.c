/* put_many asks all units at once. Between the client and four real units stands a gate that
 * holds every alloc until all four allocs have come, and every commit likewise: a client that
 * waited for one unit before it asked the next would never get through. */
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

/* In turn TOGETHER an alloc passes once all four stand before the gate, and a commit likewise. */
static enum gate_says on_request(uint32_t unit_id, const struct sy_request *request,
                                 uint64_t age_ns)
{
	enum mode now = __atomic_load_n(&mode, __ATOMIC_ACQUIRE);
	uint32_t *seen = request->op == SY_OP_ALLOC ? &allocs_seen : &commits_seen;

	if (now == LATE)
		return age_ns < LATE_NS ? GATE_HOLD : GATE_PASS;
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_units_are_asked_at_once),
		cmocka_unit_test(test_late_units_are_late_together),
	};

	cluster_main(argc, argv);
	return cmocka_run_group_tests(tests, start, stop);
}
