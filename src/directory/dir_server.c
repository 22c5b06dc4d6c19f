#include "dir_server.h"
#include "clock.h"
#include "control.h"
#include "dir_store.h"
#include "fail.h"
#include "failpoints.h"

#include <stdlib.h>

/* Renewals that wait are heard before a lease is looked at; a flood of other messages delays that
 * by so many steps at most. */
enum { REQUESTS_PER_STEP = 64, BUSY_STEPS_MAX = 1024 };

struct sy_dir_server {
	struct sy_control_server *control;
	struct sy_registry *registry;
	struct sy_unit_info *units; /* room for the list of a reply */
	char *state_path;
	struct sy_buf reply;
	struct sy_dir_stats stats;
	uint64_t stored_changes, changes; /* unequal: the file is behind */
	uint64_t step_ns;                 /* when the last step began */
	uint32_t busy_steps;              /* that left messages waiting, in a row */
};

/* True when all that the registry holds is on disk: only then may anything be answered, for an
 * answer must outlive a crash. */
static bool state_store(struct sy_dir_server *server, sy_error *err)
{
	if (server->stored_changes == server->changes)
		return true;
	if (sy_dir_store_save(server->state_path, server->registry, err) != SY_OK) {
		server->stats.store_failures++;
		return false;
	}
	server->stored_changes = server->changes;
	server->stats.stores++;
	return true;
}

static sy_status registry_load(struct sy_dir_server *server, uint32_t slot_count,
                               const struct sy_dir_times *times, sy_error *err)
{
	server->step_ns = sy_clock_now_ns();
	sy_status status =
		sy_dir_store_load(server->state_path, server->step_ns, &server->registry, err);
	if (status != SY_OK)
		return status;
	if (server->registry == NULL)
		server->registry = sy_registry_new(slot_count, times);
	if (server->registry == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory for %u slots", slot_count);
	uint32_t stored = sy_registry_slot_count(server->registry);
	if (stored != slot_count)
		return sy_fail(err, SY_E_INVALID, __func__, "the cluster has %u units, not %u", stored,
		               slot_count);
	/* A unit goes by the times that it was told when it registered. */
	if (memcmp(times, sy_registry_times(server->registry), sizeof *times) != 0)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "the cluster was made with other times until a unit is suspect, fenced "
		               "and dead: give the same ones");
	return SY_OK;
}

static sy_status server_fill(struct sy_dir_server *server, uint32_t slot_count,
                             const struct sy_dir_times *times, const char *const *endpoints,
                             size_t endpoint_count, const struct sy_control_keys *keys,
                             sy_error *err)
{
	sy_status status = registry_load(server, slot_count, times, err);
	if (status != SY_OK)
		return status;
	server->units = calloc(slot_count, sizeof *server->units);
	if (server->units == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	/* It answers nobody yet. A start that finds its address taken leaves no state behind. */
	status = sy_control_server_open(endpoints, endpoint_count, keys, &server->control, err);
	if (status != SY_OK)
		return status;
	server->changes = 1; /* the raised epoch of a restart is a change, too */
	return state_store(server, err) ? SY_OK : SY_E_SYS;
}

sy_status sy_dir_server_open(const char *state_path, uint32_t slot_count,
                             const struct sy_dir_times *times, const char *const *endpoints,
                             size_t endpoint_count, const struct sy_control_keys *keys,
                             struct sy_dir_server **ret_server, sy_error *err)
{
	static const struct sy_dir_times no_leases;
	const struct sy_dir_times *wanted = times != NULL ? times : &no_leases;
	if (slot_count == 0 || slot_count > SY_UNITS_MAX)
		return sy_fail(err, SY_E_INVALID, __func__, "a cluster has 1 to %d units, not %u",
		               SY_UNITS_MAX, slot_count);
	if (sy_dir_times_fault(wanted) != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "%s", sy_dir_times_fault(wanted));
	struct sy_dir_server *server = calloc(1, sizeof *server);
	char *path = strdup(state_path);
	if (server == NULL || path == NULL) {
		free(server);
		free(path);
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	server->state_path = path;
	sy_status status =
		server_fill(server, slot_count, wanted, endpoints, endpoint_count, keys, err);
	if (status != SY_OK) {
		sy_dir_server_close(server);
		return status;
	}
	*ret_server = server;
	return SY_OK;
}

void sy_dir_server_close(struct sy_dir_server *server)
{
	if (server == NULL)
		return;
	if (server->control != NULL)
		sy_control_server_close(server->control);
	sy_registry_free(server->registry);
	sy_buf_free(&server->reply);
	free(server->units);
	free(server->state_path);
	free(server);
}

const char *sy_dir_server_endpoint(const struct sy_dir_server *server, size_t index)
{
	return sy_control_server_endpoint(server->control, index);
}

int sy_dir_server_fd(const struct sy_dir_server *server)
{
	return sy_control_server_fd(server->control);
}

const struct sy_registry *sy_dir_server_registry(const struct sy_dir_server *server)
{
	return server->registry;
}

const struct sy_dir_stats *sy_dir_server_stats(const struct sy_dir_server *server)
{
	return &server->stats;
}

/* Counts what a call changed by what it left in its slot: a turn or an epoch that moved. */
static void changes_count(struct sy_dir_server *server, uint32_t unit_id,
                          const struct sy_unit_info *before)
{
	const struct sy_unit_info *slot = sy_registry_slot(server->registry, unit_id);
	if (slot == NULL || (slot->turn == before->turn && slot->epoch == before->epoch))
		return;
	server->changes++;
	if (slot->state == SY_UNIT_DEAD && before->state != SY_UNIT_DEAD)
		server->stats.deaths++;
	if (slot->incarnation != before->incarnation)
		server->stats.registrations++;
}

static enum sy_dir_fault request_run(struct sy_dir_server *server,
                                     const struct sy_dir_request *request)
{
	const struct sy_unit_info *unit = &request->unit;
	struct sy_registry *registry = server->registry;
	const struct sy_unit_info *slot = sy_registry_slot(registry, unit->unit_id);
	struct sy_unit_info before = slot != NULL ? *slot : (struct sy_unit_info){0};
	enum sy_dir_fault fault = SY_DIR_FAULT_NONE;
	switch (request->op) {
	case SY_DIR_OP_REGISTER:
		fault = sy_registry_register(registry, unit, sy_clock_now_ns());
		break;
	case SY_DIR_OP_RENEW:
		fault = sy_registry_renew(registry, unit->unit_id, unit->incarnation, sy_clock_now_ns());
		break;
	case SY_DIR_OP_EXITED:
		fault = sy_registry_exited(registry, unit->unit_id, unit->incarnation);
		break;
	case SY_DIR_OP_SET_STATE:
		fault = sy_registry_set_state(registry, unit->unit_id, unit->incarnation, unit->state);
		break;
	case SY_DIR_OP_UNITS:
	case SY_DIR_OP_EPOCH:
	case SY_DIR_OP_STATS:
		return SY_DIR_FAULT_NONE;
	}
	changes_count(server, unit->unit_id, &before);
	return fault;
}

static void fault_explain(const struct sy_dir_server *server, const struct sy_dir_request *request,
                          struct sy_dir_reply *reply)
{
	const struct sy_unit_info *slot = sy_registry_slot(server->registry, request->unit.unit_id);
	if (reply->fault == SY_DIR_FAULT_HELD && slot != NULL)
		sy_format(reply->text, sizeof reply->text, "process %u", slot->pid);
	if (reply->fault == SY_DIR_FAULT_NO_SLOT)
		sy_format(reply->text, sizeof reply->text, "it has %u units",
		          sy_registry_slot_count(server->registry));
}

static void request_answer(struct sy_dir_server *server, uint64_t route, const void *message,
                           size_t bytes)
{
	struct sy_dir_request request = {0};
	struct sy_dir_reply reply = {0};
	sy_error err = {0};
	server->stats.requests++;
	if (sy_dir_request_decode(message, bytes, &request, &reply.request_id, &err) != SY_OK) {
		server->stats.malformed++;
		reply.fault = SY_DIR_FAULT_MALFORMED;
	} else {
		SY_FAILPOINT_OP(DIRECTORY_GOT, request.op);
		reply.fault = request_run(server, &request);
		SY_FAILPOINT_OP(DIRECTORY_EXECUTED, request.op);
		fault_explain(server, &request, &reply);
	}
	if (!state_store(server, &err)) {
		reply.fault = SY_DIR_FAULT_STORE;
		sy_format(reply.text, sizeof reply.text, "%s", err.message);
	}
	SY_FAILPOINT_OP(DIRECTORY_STORED, request.op);
	if (reply.fault != SY_DIR_FAULT_NONE)
		server->stats.refused++;
	reply.epoch = sy_registry_epoch(server->registry);
	reply.slot_count = sy_registry_slot_count(server->registry);
	reply.times = *sy_registry_times(server->registry);
	reply.stats = server->stats;
	if (reply.fault == SY_DIR_FAULT_NONE && request.op == SY_DIR_OP_RENEW)
		reply.unit_state = sy_registry_slot(server->registry, request.unit.unit_id)->state;
	if (reply.fault == SY_DIR_FAULT_NONE && request.op == SY_DIR_OP_UNITS) {
		reply.units = server->units;
		reply.unit_count = sy_registry_units(server->registry, request.min_epoch, server->units);
	}
	sy_buf_reset(&server->reply);
	sy_dir_reply_encode(&reply, request.op, &server->reply);
	if (!server->reply.failed) /* else it is asked again */
		sy_control_server_send(server->control, route, server->reply.data, server->reply.bytes);
}

static uint64_t longest_sleep_ns(const struct sy_dir_server *server)
{
	return sy_registry_times(server->registry)->suspect_after_ns / 2;
}

/* This process stood still, or its disk did: renewals may have come to nothing meanwhile, so that
 * no silence before now counts. */
static void notice_stall(struct sy_dir_server *server, uint64_t now_ns)
{
	if (now_ns - server->step_ns > 2 * longest_sleep_ns(server))
		sy_registry_deaf(server->registry, now_ns);
	server->step_ns = now_ns;
}

static void look_at_leases(struct sy_dir_server *server, uint64_t now_ns)
{
	const struct sy_registry_ticked ticked = sy_registry_tick(server->registry, now_ns);
	if (ticked.suspects == 0 && ticked.deaths == 0)
		return;
	server->changes++;
	server->stats.suspects += ticked.suspects;
	server->stats.deaths += ticked.deaths;
	state_store(server, NULL);
}

bool sy_dir_server_step(struct sy_dir_server *server)
{
	uint64_t route;
	const void *message;
	size_t bytes;
	bool more = true;
	/* Leases are looked at with this time, though it may be long ago when they are. */
	uint64_t now_ns = sy_clock_now_ns();
	notice_stall(server, now_ns);
	for (uint32_t done = 0; done < REQUESTS_PER_STEP && more; done++) {
		more = sy_control_server_receive(server->control, &route, &message, &bytes);
		if (more)
			request_answer(server, route, message, bytes);
	}
	server->busy_steps = more ? server->busy_steps + 1 : 0;
	if (!more || server->busy_steps > BUSY_STEPS_MAX)
		look_at_leases(server, now_ns);
	return more;
}

uint64_t sy_dir_server_deadline(const struct sy_dir_server *server)
{
	uint64_t due_ns = sy_registry_deadline(server->registry);
	if (due_ns == UINT64_MAX)
		return due_ns;
	return sy_min_u64(due_ns, server->step_ns + longest_sleep_ns(server));
}

void sy_dir_server_exited(struct sy_dir_server *server, uint32_t unit_id, uint64_t incarnation)
{
	struct sy_dir_request request = {
		.op = SY_DIR_OP_EXITED, .unit = {.unit_id = unit_id, .incarnation = incarnation}};
	request_run(server, &request);
	state_store(server, NULL);
}

void sy_dir_server_process_exited(struct sy_dir_server *server, uint32_t unit_id, uint32_t pid)
{
	const struct sy_unit_info *slot = sy_registry_slot(server->registry, unit_id);
	if (slot == NULL)
		return;
	struct sy_unit_info before = *slot;
	SY_FAILPOINT(DIRECTORY_DEATH_TOLD);
	sy_registry_process_exited(server->registry, unit_id, pid);
	changes_count(server, unit_id, &before);
	SY_FAILPOINT(DIRECTORY_DEATH_KNOWN);
	state_store(server, NULL);
	SY_FAILPOINT(DIRECTORY_DEATH_STORED);
}
