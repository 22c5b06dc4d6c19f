/* put_many asks all units at once. Between the client and four real units stands a gate that
 * holds every alloc until all four allocs have come, and every commit likewise: a client that
 * waited for one unit before it asked the next would never get through. */
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "control.h"
#include "dir_client.h"
#include "dir_server.h"
#include "fail.h"
#include "message.h"
#include "store_blob.h"

enum { UNITS = 4, SLAB_BYTES = 4 << 20, BYTES = 100000, HELD_MAX = 64 };
static const uint64_t MILLISECOND_NS = 1000000u, LATE_NS = 200 * 1000000u;

enum gate_mode { PASS, HOLD, LATE };

/* A message on its way to its unit. */
struct held {
	uint8_t *bytes;
	size_t count;
	enum sy_op op;
	uint64_t due_ns;
};

struct gate_unit {
	struct sy_control_server *server; /* the client's side */
	struct sy_control_client *client; /* the unit's side */
	uint64_t route;
	struct held held[HELD_MAX];
	size_t held_count;
};

struct gate {
	char run_dir[64], directory[96];
	struct sy_dir_server *server;
	struct sy_control_context *context;
	struct gate_unit units[UNITS];
	pthread_t thread;
	enum gate_mode mode; /* atomic, as are the next two */
	bool stop;
	int opened[2]; /* how often all four allocs, all four commits stood before the gate */
};

static struct cluster cluster;
static struct gate gate;

static void must(sy_status status, const sy_error *err)
{
	if (status != SY_OK) {
		fprintf(stderr, "test_gate: %s\n", err->message);
		exit(1);
	}
}

static enum sy_op op_of(const void *message, size_t bytes)
{
	static _Alignas(16) uint8_t memory[SY_SCRATCH_BYTES];
	struct sy_scratch scratch = {.data = memory, .bytes = sizeof memory};
	struct sy_request request;
	struct sy_request_id id;
	sy_error err = {0};

	must(sy_request_decode(message, bytes, &scratch, &request, &id, &err), &err);
	return request.op;
}

static void hold(struct gate_unit *unit, const void *message, size_t bytes)
{
	struct held *held = &unit->held[unit->held_count++];
	enum gate_mode mode = __atomic_load_n(&gate.mode, __ATOMIC_ACQUIRE);

	*held = (struct held){.bytes = malloc(bytes), .count = bytes, .op = op_of(message, bytes)};
	memcpy(held->bytes, message, bytes);
	if (mode == LATE)
		held->due_ns = sy_clock_now_ns() + LATE_NS;
}

static bool all_wait_for(enum sy_op op)
{
	for (int u = 0; u < UNITS; u++) {
		bool here = false;

		for (size_t i = 0; i < gate.units[u].held_count; i++)
			here = here || gate.units[u].held[i].op == op;
		if (!here)
			return false;
	}
	return true;
}

/* May this message pass now? */
static bool passes(const struct held *held, bool allocs, bool commits)
{
	if (held->due_ns > sy_clock_now_ns())
		return false;
	if (__atomic_load_n(&gate.mode, __ATOMIC_ACQUIRE) != HOLD)
		return true;
	return (held->op != SY_OP_ALLOC || allocs) && (held->op != SY_OP_COMMIT || commits);
}

static void let_pass(void)
{
	bool allocs = all_wait_for(SY_OP_ALLOC), commits = all_wait_for(SY_OP_COMMIT);

	gate.opened[0] += allocs;
	gate.opened[1] += commits;
	for (int u = 0; u < UNITS; u++) {
		struct gate_unit *unit = &gate.units[u];
		size_t kept = 0;

		for (size_t i = 0; i < unit->held_count; i++) {
			struct held held = unit->held[i];

			if (!passes(&held, allocs, commits)) {
				unit->held[kept++] = held;
				continue;
			}
			sy_control_client_send(unit->client, held.bytes, held.count);
			free(held.bytes);
		}
		unit->held_count = kept;
	}
}

static void *run_gate(void *argument)
{
	const void *message;
	size_t bytes;

	(void)argument;
	while (!__atomic_load_n(&gate.stop, __ATOMIC_ACQUIRE)) {
		struct pollfd fds[2 * UNITS + 1];

		for (int u = 0; u < UNITS; u++) {
			struct gate_unit *unit = &gate.units[u];

			while (unit->held_count < HELD_MAX &&
			       sy_control_server_receive(unit->server, &unit->route, &message, &bytes))
				hold(unit, message, bytes);
		}
		let_pass();
		for (int u = 0; u < UNITS; u++) {
			struct gate_unit *unit = &gate.units[u];

			while (sy_control_client_receive(unit->client, &message, &bytes))
				sy_control_server_send(unit->server, unit->route, message, bytes);
			fds[2 * u] = (struct pollfd){.fd = sy_control_server_fd(unit->server),
			                             .events = POLLIN};
			fds[2 * u + 1] = (struct pollfd){.fd = sy_control_client_fd(unit->client),
			                                 .events = POLLIN};
		}
		while (sy_dir_server_step(gate.server))
			;
		fds[2 * UNITS] = (struct pollfd){.fd = sy_dir_server_fd(gate.server), .events = POLLIN};
		poll(fds, 2 * UNITS + 1, 5);
	}
	return NULL;
}

/* The gate's own directory tells the real units' slabs and sockets, but the gate's addresses. */
static void open_gate(void)
{
	char state[96], endpoint[UNITS][96];
	const char *directory = gate.directory;
	struct sy_dir_client *real, *ours;
	struct sy_unit_list list = {0};
	sy_error err = {0};
	uint64_t end_ns = sy_clock_now_ns() + 10000 * MILLISECOND_NS;

	sy_format(gate.run_dir, sizeof gate.run_dir, "%s/gate", cluster.run_dir);
	sy_format(gate.directory, sizeof gate.directory, "ipc://%s.directory", gate.run_dir);
	sy_format(state, sizeof state, "%s.state", gate.run_dir);
	must(sy_dir_server_open(state, UNITS, &directory, 1, &gate.server, &err), &err);
	must(sy_control_context_open(&gate.context, &err), &err);
	must(sy_dir_client_open(cluster.directory, &real, &err), &err);
	must(sy_dir_client_units(real, 0, end_ns, &list, &err), &err);
	sy_dir_client_close(real);
	for (uint32_t u = 0; u < UNITS; u++) {
		const char *bound = endpoint[u];

		sy_format(endpoint[u], sizeof endpoint[u], "ipc://%s.%u", gate.run_dir, u);
		must(sy_control_server_open(&bound, 1, &gate.units[u].server, &err), &err);
		must(sy_control_client_open(gate.context, list.units[u].ipc_address,
		                            &gate.units[u].client, &err), &err);
		sy_format(list.units[u].ipc_address, sizeof list.units[u].ipc_address, "%s", endpoint[u]);
	}
	assert_int_equal(pthread_create(&gate.thread, NULL, run_gate, NULL), 0);
	must(sy_dir_client_open(gate.directory, &ours, &err), &err);
	for (uint32_t u = 0; u < UNITS; u++)
		must(sy_dir_client_register(ours, &list.units[u], end_ns, &err), &err);
	sy_dir_client_close(ours);
	sy_unit_list_done(&list);
}

static int start(void **state)
{
	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	open_gate();
	return 0;
}

static int stop(void **state)
{
	(void)state;
	__atomic_store_n(&gate.stop, true, __ATOMIC_RELEASE);
	pthread_join(gate.thread, NULL);
	for (int u = 0; u < UNITS; u++) {
		sy_control_client_close(gate.units[u].client, 0);
		sy_control_server_close(gate.units[u].server);
	}
	sy_control_context_close(gate.context);
	sy_dir_server_close(gate.server);
	cluster_stop(&cluster);
	return 0;
}

static void put_four(enum gate_mode mode)
{
	static uint8_t data[BYTES];
	sy_store_options options = {.directory = gate.directory, .timeout_ns = 20000 * MILLISECOND_NS};
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
	gate.opened[0] = gate.opened[1] = 0;
	__atomic_store_n(&gate.mode, mode, __ATOMIC_RELEASE);
	uint64_t start_ns = sy_clock_now_ns();
	must(sy_store_put_many(store, blobs, UNITS, 0, &err), &err);
	print_message("put_many on %d units: %llu ms\n", UNITS,
	              (unsigned long long)((sy_clock_now_ns() - start_ns) / MILLISECOND_NS));
	__atomic_store_n(&gate.mode, PASS, __ATOMIC_RELEASE);
	must(sy_store_release_rows(store, rows, UNITS, 0, &err), &err);
	sy_store_close(store);
}

static void test_all_units_are_asked_at_once(void **state)
{
	(void)state;
	put_four(HOLD);
	assert_int_equal(gate.opened[0], 1);
	assert_int_equal(gate.opened[1], 1);
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
