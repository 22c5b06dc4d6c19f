#include "gate.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "control.h"
#include "dir_client.h"
#include "dir_server.h"
#include "fail.h"

enum { HELD_MAX = 512, ASKED_MAX = 1024, TURN_MS = 2 };

/* A message before the gate. */
struct held {
	uint8_t *bytes;
	size_t count;
	uint64_t since_ns;
};

struct line {
	struct held held[HELD_MAX];
	size_t count;
};

/* A request that passed, so that its reply can be read and finds its way. */
struct asked {
	struct sy_request_id id;
	uint64_t route;
	enum sy_op op;
	uint32_t count;
};

struct gate_unit {
	struct sy_control_server *server; /* the client's side */
	struct sy_control_client *client; /* the unit's side */
	char endpoint[96], tcp[96]; /* of the server */
	struct line requests, replies;
	struct asked asked[ASKED_MAX]; /* a ring */
	size_t asked_next;
	uint32_t pid;
};

static struct {
	const struct cluster *cluster;
	struct gate_hooks hooks;
	char directory[96];
	struct sy_dir_server *server;
	struct sy_control_context *context;
	struct gate_unit units[CLUSTER_UNITS_MAX];
	pthread_t thread;
	bool stop, silent;        /* atomic */
	uint32_t gone;            /* atomic: unit + 1 whose end is to be reported */
} gate;

static _Alignas(64) uint8_t memory[SY_SCRATCH_BYTES];

static void must(sy_status status, const sy_error *err)
{
	if (status == SY_OK)
		return;
	fprintf(stderr, "gate: %s\n", err->message);
	exit(1);
}

static void take(struct line *line, const void *message, size_t bytes)
{
	struct held *held = &line->held[line->count++];

	*held = (struct held){malloc(bytes + 1), bytes, sy_clock_now_ns()};
	memcpy(held->bytes, message, bytes);
}

static uint32_t count_of(const struct sy_request *request)
{
	if (request->op == SY_OP_RESOLVE_KEYS) /* the library always tells each key's field */
		return request->resolve.row_count;
	if (request->op == SY_OP_PIN_CHECK)
		return request->pin_check.count;
	return request->op == SY_OP_SCAN ? request->scan.limit : 0;
}

static void remember(struct gate_unit *unit, const struct sy_request *request, uint64_t route)
{
	unit->asked[unit->asked_next++ % ASKED_MAX] =
		(struct asked){request->id, route, request->op, count_of(request)};
}

/* The newest first: hellos of several clients bear the same id. */
static const struct asked *asked_of(const struct gate_unit *unit, struct sy_request_id id)
{
	for (size_t i = 0; i < ASKED_MAX && i < unit->asked_next; i++) {
		const struct asked *asked = &unit->asked[(unit->asked_next - 1 - i) % ASKED_MAX];

		if (asked->id.session == id.session && asked->id.slot == id.slot &&
		    asked->id.seq == id.seq)
			return asked;
	}
	return NULL;
}

static void decode(const struct held *held, struct sy_request *ret_request)
{
	struct sy_scratch scratch = {.data = memory, .bytes = sizeof memory};
	struct sy_request_id id;
	sy_error err = {0};

	must(sy_request_decode(held->bytes, held->count, &scratch, ret_request, &id, &err), &err);
}

static enum gate_says on_request(uint32_t unit_id, const struct held *held)
{
	struct sy_request request;

	if (gate.hooks.request == NULL)
		return GATE_PASS;
	decode(held, &request);
	return gate.hooks.request(unit_id, &request, sy_clock_now_ns() - held->since_ns);
}

static void let_requests_pass(uint32_t unit_id)
{
	struct gate_unit *unit = &gate.units[unit_id];
	size_t kept = 0;

	for (size_t i = 0; i < unit->requests.count; i++) {
		struct held held = unit->requests.held[i];
		enum gate_says says = on_request(unit_id, &held);

		if (says == GATE_HOLD) {
			unit->requests.held[kept++] = held;
			continue;
		}
		if (says == GATE_PASS)
			sy_control_client_send(unit->client, held.bytes, held.count);
		free(held.bytes);
	}
	unit->requests.count = kept;
}

static void send_altered(struct gate_unit *unit, const struct asked *asked, struct sy_reply *reply)
{
	struct sy_buf out = {0};

	if (asked->op == SY_OP_RESOLVE_KEYS && reply->outcome.fault == SY_FAULT_NONE)
		reply->resolved.shape_count--; /* the last one the decoder has added */
	sy_reply_encode(reply, asked->op, &out);
	sy_control_server_send(unit->server, asked->route, out.data, out.bytes);
	sy_buf_free(&out);
}

static enum gate_says on_reply(uint32_t unit_id, const struct held *held)
{
	struct gate_unit *unit = &gate.units[unit_id];
	struct sy_scratch scratch = {.data = memory, .bytes = sizeof memory};
	struct sy_request_id id;
	struct sy_reply reply;
	enum gate_says says = GATE_PASS;
	sy_error err = {0};

	must(sy_reply_peek(held->bytes, held->count, &id, &err), &err);
	const struct asked *asked = asked_of(unit, id);
	if (asked == NULL)
		return GATE_DROP; /* of a request of long ago */
	must(sy_reply_decode(held->bytes, held->count, asked->op, asked->count, &scratch, &reply,
	                     &err), &err);
	if (gate.hooks.reply != NULL)
		says = gate.hooks.reply(unit_id, asked->op, &reply, sy_clock_now_ns() - held->since_ns);
	if (says == GATE_PASS)
		sy_control_server_send(unit->server, asked->route, held->bytes, held->count);
	if (says == GATE_ALTERED)
		send_altered(unit, asked, &reply);
	return says;
}

static void let_replies_pass(uint32_t unit_id)
{
	struct gate_unit *unit = &gate.units[unit_id];
	size_t kept = 0;

	for (size_t i = 0; i < unit->replies.count; i++) {
		struct held held = unit->replies.held[i];

		if (on_reply(unit_id, &held) == GATE_HOLD)
			unit->replies.held[kept++] = held;
		else
			free(held.bytes);
	}
	unit->replies.count = kept;
}

static void serve_unit(uint32_t unit_id, struct pollfd *fds)
{
	struct gate_unit *unit = &gate.units[unit_id];
	const void *message;
	size_t bytes;
	uint64_t route;

	while (unit->requests.count < HELD_MAX &&
	       sy_control_server_receive(unit->server, &route, &message, &bytes)) {
		struct sy_request request;

		take(&unit->requests, message, bytes);
		decode(&unit->requests.held[unit->requests.count - 1], &request);
		remember(unit, &request, route);
	}
	let_requests_pass(unit_id);
	while (unit->replies.count < HELD_MAX &&
	       sy_control_client_receive(unit->client, &message, &bytes))
		take(&unit->replies, message, bytes);
	let_replies_pass(unit_id);
	fds[0] = (struct pollfd){.fd = sy_control_server_fd(unit->server), .events = POLLIN};
	fds[1] = (struct pollfd){.fd = sy_control_client_fd(unit->client), .events = POLLIN};
}

static void serve_directory(void)
{
	uint32_t gone = __atomic_load_n(&gate.gone, __ATOMIC_ACQUIRE);

	if (gone != 0) {
		sy_dir_server_process_exited(gate.server, gone - 1, gate.units[gone - 1].pid);
		__atomic_store_n(&gate.gone, 0, __ATOMIC_RELEASE);
	}
	while (!__atomic_load_n(&gate.silent, __ATOMIC_ACQUIRE) && sy_dir_server_step(gate.server))
		;
}

static void *run(void *argument)
{
	(void)argument;
	while (!__atomic_load_n(&gate.stop, __ATOMIC_ACQUIRE)) {
		struct pollfd fds[2 * CLUSTER_UNITS_MAX + 1];
		uint32_t n = gate.cluster->unit_count;

		for (uint32_t u = 0; u < n; u++)
			serve_unit(u, &fds[2 * u]);
		serve_directory();
		fds[2 * n] = (struct pollfd){.fd = sy_dir_server_fd(gate.server), .events = POLLIN};
		poll(fds, 2 * n + 1, TURN_MS);
	}
	return NULL;
}

/* Enters the unit, as the cluster's directory tells it, into the gate's under its address. */
void gate_unit_new(uint32_t unit_id)
{
	uint64_t end_ns = sy_clock_now_ns() + 20000000000u;
	struct sy_dir_client *real, *ours;
	struct sy_unit_list list = {0};
	sy_error err = {0};

	must(sy_dir_client_open(gate.cluster->directory, &real, &err), &err);
	must(sy_dir_client_units(real, 0, end_ns, &list, &err), &err);
	sy_dir_client_close(real);
	struct sy_unit_info *unit = &list.units[unit_id];
	gate.units[unit_id].pid = unit->pid;
	sy_format(unit->ipc_address, sizeof unit->ipc_address, "%s", gate.units[unit_id].endpoint);
	sy_format(unit->tcp_address, sizeof unit->tcp_address, "%s", gate.units[unit_id].tcp);
	must(sy_dir_client_open(gate.directory, &ours, &err), &err);
	must(sy_dir_client_register(ours, unit, end_ns, NULL, &err), &err);
	sy_dir_client_close(ours);
	sy_unit_list_done(&list);
}

void gate_unit_gone(uint32_t unit_id)
{
	__atomic_store_n(&gate.gone, unit_id + 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&gate.gone, __ATOMIC_ACQUIRE) != 0)
		poll(NULL, 0, 1);
}

void gate_directory_silent(bool silent)
{
	__atomic_store_n(&gate.silent, silent, __ATOMIC_RELEASE);
}

const char *gate_directory(void)
{
	return gate.directory;
}

static void open_unit(uint32_t unit_id, const char *address)
{
	struct gate_unit *unit = &gate.units[unit_id];
	const char *bound[] = {unit->endpoint, "tcp://127.0.0.1:*"};
	sy_error err = {0};

	sy_format(unit->endpoint, sizeof unit->endpoint, "ipc://%s/gate.%u", gate.cluster->run_dir,
	          unit_id);
	must(sy_control_server_open(bound, 2, NULL, &unit->server, &err), &err);
	sy_format(unit->tcp, sizeof unit->tcp, "%s", sy_control_server_endpoint(unit->server, 1));
	must(sy_control_client_open(gate.context, address, &unit->client, &err), &err);
}

void gate_open(const struct cluster *cluster, const struct gate_hooks *hooks)
{
	char state[96];
	const char *directory = gate.directory;
	struct sy_dir_client *real;
	struct sy_unit_list list = {0};
	sy_error err = {0};

	gate.cluster = cluster;
	gate.hooks = *hooks;
	gate.stop = false;
	sy_format(gate.directory, sizeof gate.directory, "ipc://%s/gate.directory", cluster->run_dir);
	sy_format(state, sizeof state, "%s/gate.state", cluster->run_dir);
	must(sy_dir_server_open(state, cluster->unit_count, NULL, &directory, 1, NULL, &gate.server,
	                        &err),
	     &err);
	must(sy_control_context_open(&gate.context, &err), &err);
	must(sy_dir_client_open(cluster->directory, &real, &err), &err);
	must(sy_dir_client_units(real, 0, sy_clock_now_ns() + 20000000000u, &list, &err), &err);
	sy_dir_client_close(real);
	for (uint32_t u = 0; u < cluster->unit_count; u++)
		open_unit(u, list.units[u].ipc_address);
	sy_unit_list_done(&list);
	if (pthread_create(&gate.thread, NULL, run, NULL) != 0)
		exit(1);
	for (uint32_t u = 0; u < cluster->unit_count; u++)
		gate_unit_new(u);
}

static void forget(struct line *line)
{
	for (size_t i = 0; i < line->count; i++)
		free(line->held[i].bytes);
	line->count = 0;
}

void gate_close(void)
{
	__atomic_store_n(&gate.stop, true, __ATOMIC_RELEASE);
	pthread_join(gate.thread, NULL);
	for (uint32_t u = 0; u < gate.cluster->unit_count; u++) {
		struct gate_unit *unit = &gate.units[u];

		forget(&unit->requests);
		forget(&unit->replies);
		sy_control_client_close(unit->client, 0);
		sy_control_server_close(unit->server);
	}
	sy_control_context_close(gate.context);
	sy_dir_server_close(gate.server);
}
