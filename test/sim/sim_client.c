/* Clients: processes with one shipped machine a unit, their connections and their ends. */
#include <stdlib.h>

#include "sim.h"
#include "sim_check.h"

enum { CONNECT_TIMEOUT_S = 5 };

uint64_t sim_client_now(const struct sim_client *client)
{
	return client->sim->shown_ns + client->offset_ns;
}

static void make_link(struct sim_client *client, uint32_t slot)
{
	struct sim_link *link = &client->links[slot];
	struct sy_machine_config config = {
		.unit_id = slot,
		.slot_count = client->sim->config.units,
		.identity = client->identity,
		.ns = sim_space(client->space),
		.control_timeout_ns = client->sim->config.control_timeout_ns,
		.trust_ns = client->sim->config.times.dead_after_ns -
		            client->sim->config.times.fence_after_ns,
	};
	*link = (struct sim_link){.machine = sy_machine_new(&config), .tick_ns = UINT64_MAX};
	if (link->machine == NULL)
		abort();
}

void sim_client_start(struct sim *sim, uint32_t index, bool local, uint32_t space)
{
	struct sim_client *client = &sim->clients[index];
	struct sim_task *tasks = calloc(sim->config.tasks, sizeof *tasks);
	if (tasks == NULL)
		abort();
	*client = (struct sim_client){
		.sim = sim,
		.index = index,
		.life = ++sim->client_life_count,
		.alive = true,
		.local = local,
		.space = space,
		.offset_ns = local ? 0 : sim_draw(sim, 1000 * SIM_S),
		.running_since_ns = sim->shown_ns,
		.tasks = tasks,
	};
	client->identity = (struct sy_identity){
		.random = sy_mix64(sim->config.seed ^ client->life << 20),
		.pid = (uint32_t)(1000 + client->life),
		.start_time = client->life,
		.boot_id = {(uint8_t)(client->local ? 1 : 2 + index)},
	};
	sy_buffers_init(&client->buffers, &sim->config.buffers);
	for (uint32_t slot = 0; slot < sim->config.units; slot++)
		make_link(client, slot);
	sim_log(sim, "c%u starts, %s, namespace %u", index, local ? "local" : "remote", client->space);
	for (uint32_t i = 0; i < sim->config.tasks; i++)
		sim_task_later(client, &tasks[i], sim_wait(sim, sim->config.think_ns));
}

static void connect_link(struct sim_client *client, uint32_t slot)
{
	struct sim *sim = client->sim;
	struct sim_link *link = &client->links[slot];
	const struct sim_life *life = sim->units[slot].life;
	link->connecting = true;
	link->connection = sim_connect(sim, client->index, slot);
	link->life = NULL;
	struct sim_event event = {.who = client->index, .slot = slot, .life = client->life,
	                          .number = link->connection};
	uint64_t delay_ns = sim_wait(sim, sim->config.latency_ns);
	if (!client->local) {
		event.kind = SIM_LINK_WELCOME;
		sim_at(sim, delay_ns, event);
		return;
	}
	event.kind = SIM_LINK_FAILED;
	event.extra = 1; /* counts only while nobody has answered */
	sim_at(sim, life->alive ? CONNECT_TIMEOUT_S * SIM_S : delay_ns, event);
	if (!life->alive)
		return;
	struct sim_event greet = {.kind = SIM_UNIT_GREET, .who = slot, .life = life->number,
	                          .number = link->connection};
	sim_at(sim, delay_ns, greet);
}

/* The unit of the slot is dead and so the directory says: what waits for it waits in vain. */
static void fail_waiting(struct sim_client *client, uint32_t slot)
{
	for (uint32_t i = 0; i < client->sim->config.tasks; i++) {
		struct sim_task *task = &client->tasks[i];
		if (task->state != SIM_TASK_RUNNING || task->slot != slot)
			continue;
		task->found_dead = true;
		sy_machine_cancel(client->links[slot].machine, &task->op, sim_client_now(client));
	}
}

static void welcome(struct sim_client *client, uint32_t slot, const struct sim_event *event)
{
	struct sim_link *link = &client->links[slot];
	uint64_t incarnation = 0;
	if (!link->connecting || link->connection != event->number)
		return;
	link->connecting = false;
	link->token = event->extra;
	if (event->other != 0) {
		link->life = client->sim->lives[event->other - 1];
		incarnation = link->life->incarnation;
	}
	sim_log(client->sim, "c%u/u%u connected %lu", client->index, slot, link->connection);
	sy_machine_connected(link->machine, link->token, incarnation, sim_client_now(client));
}

static void tell_unit(struct sim_client *client, uint32_t slot, enum sy_event_kind kind,
                      uint64_t token, uint64_t notice)
{
	struct sim *sim = client->sim;
	const struct sim_life *life = sim->units[slot].life;
	struct sim_event event = {.kind = SIM_UNIT_PEER, .who = slot, .life = life->number,
	                          .number = token, .slot = (uint32_t)kind, .extra = notice};
	if (token != 0)
		sim_at(sim, 1 + sim_draw(sim, 4 * sim->config.latency_ns), event);
}

static void disconnected(struct sim_client *client, uint32_t slot)
{
	struct sim *sim = client->sim;
	struct sim_link *link = &client->links[slot];
	sim_log(sim, "c%u/u%u connection %lu ends", client->index, slot, link->connection);
	link->connecting = false;
	link->connection = link->token = 0;
	link->life = NULL;
	link->disturbed_ns = sim->true_ns;
	sy_machine_disconnected(link->machine, sim_client_now(client));
	if (sim_directory(sim, slot, 0) == SY_DIRECTORY_DEAD)
		fail_waiting(client, slot);
}

void sim_link_break(struct sim_client *client, uint32_t slot)
{
	const struct sim_link *link = &client->links[slot];
	if (!client->alive || client->stopped || link->connecting || link->connection == 0)
		return;
	sim_count_fault(client->sim, SIM_FAULT_RECONNECT);
	tell_unit(client, slot, SY_EVENT_PEER_EOF, link->token, 0);
	disconnected(client, slot);
	sim_link_pump(client, slot);
}

static void tick(struct sim_client *client, uint32_t slot, const struct sim_event *event)
{
	struct sim_link *link = &client->links[slot];
	if (link->tick_ns != event->number)
		return;
	link->tick_ns = UINT64_MAX;
	sy_machine_tick(link->machine, sim_client_now(client));
}

static void arm(struct sim_client *client, uint32_t slot)
{
	struct sim *sim = client->sim;
	struct sim_link *link = &client->links[slot];
	uint64_t due_ns = sy_machine_deadline(link->machine);
	if (due_ns == UINT64_MAX || due_ns >= link->tick_ns)
		return;
	link->tick_ns = due_ns;
	uint64_t at_ns = due_ns > client->offset_ns ? due_ns - client->offset_ns : 0;
	if (at_ns < sim->true_ns)
		at_ns = sim->true_ns;
	if (at_ns < sim->held_until_ns)
		at_ns = sim->held_until_ns;
	struct sim_event event = {.kind = SIM_LINK_TICK, .who = client->index, .slot = slot,
	                          .life = client->life, .number = due_ns};
	sim_at(sim, at_ns - sim->true_ns, event);
}

static void send_message(struct sim_client *client, uint32_t slot,
                         const struct sy_machine_effect *effect)
{
	struct sim *sim = client->sim;
	check_sent(client, slot, effect->message, effect->bytes);
	sim_stranger_heard(sim, slot, effect->message, effect->bytes);
	sim_net_to_unit(sim, &client->links[slot], slot, effect->message, effect->bytes);
}

/* A request that was answered Busy did nothing: the next one may go out in another session. */
static void forget_refused(struct sim_client *client, uint32_t slot)
{
	for (uint32_t i = 0; i < client->sim->config.tasks; i++) {
		struct sim_task *task = &client->tasks[i];
		if (task->state == SIM_TASK_RUNNING && task->slot == slot &&
		    task->op.stage == SY_OP_STAGE_BACKOFF)
			task->mutating_session = 0;
	}
}

void sim_link_pump(struct sim_client *client, uint32_t slot)
{
	struct sim_link *link = &client->links[slot];
	struct sy_machine_effect effect;
	while (sy_machine_next(link->machine, &effect, sim_client_now(client))) {
		struct sim_task *task = effect.op != NULL ? effect.op->owner : NULL;
		switch (effect.kind) {
		case SY_MACHINE_SEND:
			send_message(client, slot, &effect);
			break;
		case SY_MACHINE_WRITE:
			sim_copy_write(client, task);
			break;
		case SY_MACHINE_DONE:
			if (effect.op == &task->check)
				sim_task_checked(client, task);
			else
				sim_task_done(client, task);
			break;
		case SY_MACHINE_CONNECT:
			connect_link(client, slot);
			break;
		}
	}
	forget_refused(client, slot);
	arm(client, slot);
}

/* When every notice is executed, or the wait is over: the last word on each connection. */
static void say_bye(struct sim_client *client)
{
	client->said_bye = true;
	for (uint32_t slot = 0; slot < client->sim->config.units; slot++) {
		struct sim_link *link = &client->links[slot];
		tell_unit(client, slot, SY_EVENT_PEER_BYE, link->token,
		          sy_machine_last_notice(link->machine));
	}
	sim_log(client->sim, "c%u says bye", client->index);
}

/* The end of its process, as each unit that watches it sees it. */
static void process_ends(struct sim_client *client)
{
	struct sim *sim = client->sim;
	for (uint32_t slot = 0; slot < sim->config.units; slot++) {
		const struct sim_life *life = sim->units[slot].life;
		for (size_t i = 0; life->alive && i < life->peer_count; i++) {
			const struct sim_peer *peer = &life->peers[i];
			if (peer->client_life != client->life || !peer->watched)
				continue;
			if (!client->said_bye && sim_draw(sim, 2) == 0)
				tell_unit(client, slot, SY_EVENT_PEER_EOF, peer->token, 0);
			tell_unit(client, slot, SY_EVENT_PEER_GONE, peer->token, 0);
		}
	}
	client->alive = client->stopped = false;
	client->died_ns = sim->true_ns;
	sim_client_free(client);
}

/* All that it did was ended; views are dropped, notices have gone out as far as they could. */
static void leave(struct sim_client *client)
{
	say_bye(client);
	process_ends(client);
}

void sim_client_close(struct sim_client *client)
{
	if (!client->alive || client->stopped || client->closing)
		return;
	sim_log(client->sim, "c%u closes", client->index);
	client->closing = true;
	for (uint32_t slot = 0; slot < client->sim->config.units; slot++) {
		sy_machine_close(client->links[slot].machine, sim_client_now(client));
		sim_link_pump(client, slot);
	}
	for (uint32_t i = 0; i < client->sim->config.tasks; i++)
		sim_task_later(client, &client->tasks[i], sim_wait(client->sim, 10 * SIM_MS));
}

/* A closing client leaves once no task has anything under way. Whether all notices were
 * executed makes a difference to the unit, and both happen. */
static void try_leave(struct sim_client *client)
{
	bool done = true;
	for (uint32_t i = 0; i < client->sim->config.tasks; i++) {
		if (client->tasks[i].state != SIM_TASK_IDLE)
			return;
	}
	for (uint32_t slot = 0; slot < client->sim->config.units; slot++)
		done = done && sy_machine_notices_done(client->links[slot].machine);
	if (done || sim_draw(client->sim, 4) == 0)
		leave(client);
	else
		sim_task_later(client, &client->tasks[0], 100 * SIM_MS);
}

/* A new incarnation of the unit: from here on another slab is reached. */
static void attach(const struct sim_client *client, struct sim_link *link)
{
	uint64_t incarnation = sy_machine_incarnation(link->machine);
	if (!client->local && (link->remote == NULL || link->remote->incarnation != incarnation))
		link->remote = sim_life_of(client->sim, incarnation);
}

static void run(struct sim_client *client, const struct sim_event *event)
{
	struct sim *sim = client->sim;
	uint64_t now_ns = sim_client_now(client);
	struct sim_link *link = &client->links[event->slot];
	switch ((int)event->kind) { /* those meant for others do not come here */
	case SIM_TO_CLIENT:
		sim->scratch.used = 0;
		sy_machine_receive(link->machine, event->bytes, event->bytes_count, &sim->scratch,
		                   now_ns);
		attach(client, link);
		break;
	case SIM_LINK_WELCOME:
		welcome(client, event->slot, event);
		break;
	case SIM_LINK_FAILED:
		if (link->connection != event->number || (event->extra == 1 && !link->connecting))
			return;
		disconnected(client, event->slot);
		break;
	case SIM_LINK_TICK:
		tick(client, event->slot, event);
		break;
	case SIM_TASK:
		if (client->tasks[event->number].number != event->extra)
			return; /* it went on to another operation since */
		sim_task_next(client, &client->tasks[event->number]);
		if (client->closing)
			try_leave(client);
		return;
	case SIM_FLUSHED:
		sim_transfer_flushed(client, event);
		break;
	case SIM_DEADLINE:
		check_i10_ended(client, &client->tasks[event->number], event->extra);
		return;
	default:
		return;
	}
	sim_link_pump(client, event->slot);
}

void sim_client_event(struct sim *sim, struct sim_event *event)
{
	struct sim_client *client = &sim->clients[event->who];
	if (!client->alive || client->life != event->life) {
		free(event->bytes);
		return;
	}
	if (client->stopped) {
		sim_events_push(&client->inbox, event);
		return;
	}
	run(client, event);
	free(event->bytes);
}

void sim_client_free(struct sim_client *client)
{
	sim_transfer_free(client);
	for (uint32_t i = 0; i < client->sim->config.tasks && client->tasks != NULL; i++) {
		sy_buf_free(&client->tasks[i].op.result);
		sy_buf_free(&client->tasks[i].check.result);
		free(client->tasks[i].ranges);
		free(client->tasks[i].scanned);
	}
	free(client->tasks);
	client->tasks = NULL;
	for (uint32_t slot = 0; slot < SIM_UNITS_MAX; slot++) {
		sy_machine_free(client->links[slot].machine);
		client->links[slot].machine = NULL;
	}
	sim_events_free(&client->inbox);
}

/* Its process is gone: what it was copying itself stops at once, what a network card has, not. */
void sim_client_kill(struct sim_client *client)
{
	struct sim *sim = client->sim;
	if (!client->alive)
		return;
	sim_count_fault(sim, SIM_FAULT_CLIENT_KILL);
	sim_log(sim, "c%u is killed", client->index);
	for (uint32_t i = 0; i < sim->config.tasks; i++) {
		if (client->tasks[i].state == SIM_TASK_WRITING && !client->local)
			sim_transfer_leave_write(client, &client->tasks[i]);
	}
	process_ends(client);
}

void sim_client_stop(struct sim_client *client, uint64_t length_ns)
{
	struct sim_event resume = {.kind = SIM_RESUME, .who = client->index, .life = client->life};
	if (!client->alive || client->stopped)
		return;
	sim_count_fault(client->sim, SIM_FAULT_CLIENT_STOP);
	sim_log(client->sim, "c%u is stopped for %.3f s", client->index, (double)length_ns / 1e9);
	client->stopped = true;
	sim_at(client->sim, length_ns, resume);
}

void sim_client_resume(struct sim_client *client)
{
	if (!client->alive || !client->stopped)
		return;
	sim_log(client->sim, "c%u goes on", client->index);
	client->stopped = false;
	client->running_since_ns = client->sim->shown_ns;
	sim_events_release(client->sim, &client->inbox);
}

void sim_client_start_drawn(struct sim *sim, uint32_t index)
{
	bool local = sim_draw(sim, 100) >= sim->config.remote_percent;
	sim_client_start(sim, index, local, (uint32_t)sim_draw(sim, SIM_SPACES));
}
