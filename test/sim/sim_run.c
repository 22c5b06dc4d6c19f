/* One run: the loop over events, and its three ends: a violation, the last step, and the quiet
 * after it in which everything must have come back. */
#include "sim_check.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t sim_draw(struct sim *sim, uint64_t bound)
{
	return bound == 0 ? 0 : sy_prng_below(&sim->prng, bound);
}

void sim_count_fault(struct sim *sim, enum sim_fault fault)
{
	sim->counts.faults_made[fault]++;
}

bool sim_strikes(struct sim *sim, enum sim_fault fault)
{
	uint32_t rate = sim->config.rate[fault];
	if (rate == 0 || sim->winding_down || sim_draw(sim, 10000) >= rate)
		return false;
	/* Those of processes count themselves where they really happen. */
	if (fault != SIM_FAULT_CLIENT_KILL && fault != SIM_FAULT_CLIENT_STOP &&
	    fault != SIM_FAULT_UNIT_KILL && fault != SIM_FAULT_UNIT_STOP &&
	    fault != SIM_FAULT_RECONNECT && fault != SIM_FAULT_ARENA_MOVE &&
	    fault != SIM_FAULT_ARENA_REBUILD && fault != SIM_FAULT_LATE_WRITE &&
	    fault != SIM_FAULT_FORCED_CLOSE && fault != SIM_FAULT_READ_LEFT)
		sim_count_fault(sim, fault);
	return true;
}

uint64_t sim_wait(struct sim *sim, uint64_t mean_ns)
{
	uint64_t roll = sim_draw(sim, 100);
	return sim_draw(sim, (roll < 90 ? 2 : roll < 99 ? 10 : 1000) * mean_ns + 1);
}

void sim_log(struct sim *sim, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	sim_history_add(&sim->history, sim->shown_ns, format, args);
	va_end(args);
}

void sim_fail(struct sim *sim, int invariant, const char *format, ...)
{
	va_list args;
	bool muted = sim->config.only != 0 && invariant != (int)sim->config.only;
	if (sim->violated != 0 || muted)
		return;
	sim->violated = invariant;
	va_start(args, format);
	vsnprintf(sim->violation, sizeof sim->violation, format, args);
	va_end(args);
	sim_log(sim, "violation: %s", sim->violation);
}

static void look(struct sim *sim)
{
	for (uint32_t slot = 0; slot < sim->config.units; slot++)
		check_i7_look(sim->units[slot].life);
	if (!sim->winding_down)
		sim_at(sim, sim->config.params.heartbeat_ns / 2, (struct sim_event){.kind = SIM_LOOK});
}

static void resume(struct sim *sim, const struct sim_event *event)
{
	if (event->slot == 1 && sim->units[event->who].life->number == event->life)
		sim_unit_resume(sim->units[event->who].life);
	else if (event->slot == 0 && sim->clients[event->who].life == event->life)
		sim_client_resume(&sim->clients[event->who]);
}

static void dispatch(struct sim *sim, struct sim_event *event)
{
	switch (event->kind) {
	case SIM_TO_UNIT:
	case SIM_TO_CLIENT:
		sim_net_arrive(sim, event);
		break;
	case SIM_UNIT_TICK:
	case SIM_UNIT_CONTINUE:
	case SIM_UNIT_GREET:
	case SIM_UNIT_PEER:
	case SIM_UNIT_FENCED:
	case SIM_UNIT_DISK:
	case SIM_UNIT_RENEW:
	case SIM_UNIT_RENEWED:
		sim_unit_event(sim, event);
		break;
	case SIM_LINK_WELCOME:
	case SIM_LINK_FAILED:
	case SIM_LINK_TICK:
	case SIM_TASK:
	case SIM_DEADLINE:
	case SIM_FLUSHED:
		sim_client_event(sim, event);
		break;
	case SIM_LAND:
		sim_transfer_land(sim, event);
		break;
	case SIM_WORLD:
		sim_world_turn(sim);
		break;
	case SIM_LOOK:
		look(sim);
		break;
	case SIM_STRANGER:
		sim_stranger_turn(sim);
		break;
	case SIM_RESUME:
		resume(sim, event);
		break;
	case SIM_BURY:
		sim_directory_exited(sim, event);
		break;
	case SIM_TO_DIRECTORY:
	case SIM_DIRECTORY_TICK:
	case SIM_DIRECTORY_GOES_ON:
		sim_directory_event(sim, event);
		break;
	case SIM_DISK:
		sim_disk_event(sim, event);
		break;
	}
}

/* What clocks show: they stand still while they are held, and then catch up at once. */
static void show_time(struct sim *sim)
{
	if (sim->held_until_ns > sim->true_ns)
		return;
	if (sim->held_until_ns != 0) {
		sim->held_until_ns = 0;
		sim->smooth_since_ns = sim->true_ns;
	}
	sim->shown_ns = sim->true_ns;
}

/* The next event, unless it is later than `until_ns`. */
static bool step(struct sim *sim, uint64_t until_ns)
{
	struct sim_event event;
	if (sim->violated != 0 || sim->heap.count == 0 || sim->heap.items[0].at_ns > until_ns)
		return false;
	sim_next(sim, &event);
	if (event.at_ns > sim->true_ns)
		sim->true_ns = event.at_ns;
	show_time(sim);
	sim->steps++;
	sim->counts.events++;
	dispatch(sim, &event);
	return true;
}

static bool anybody(const struct sim *sim)
{
	for (uint32_t i = 0; i < sim->config.clients; i++) {
		if (sim->clients[i].alive)
			return true;
	}
	return false;
}

static void run_until_empty(struct sim *sim, uint64_t length_ns)
{
	uint64_t until_ns = sim->true_ns + length_ns;
	while (anybody(sim) && step(sim, until_ns))
		continue;
	if (sim->violated == 0 && anybody(sim))
		sim_fail(sim, 10, "a client that closes has not ended after %.0f s",
		         (double)length_ns / 1e9);
}

static void run_for(struct sim *sim, uint64_t length_ns)
{
	uint64_t until_ns = sim->true_ns + length_ns;
	while (step(sim, until_ns))
		continue;
	if (sim->violated == 0) {
		sim->true_ns = until_ns;
		show_time(sim);
	}
}

/* A last client that releases all rows of a namespace on all units. */
static void sweep(struct sim *sim, uint32_t space)
{
	struct sim_client *client = &sim->clients[0];
	sim_client_start(sim, 0, true, space);
	for (uint32_t slot = 0; slot < sim->config.units; slot++) {
		if (!sim->units[slot].life->alive)
			continue;
		sim_task_sweep(client, slot);
		run_for(sim, 30 * SIM_S);
	}
	sim_client_close(client);
	run_until_empty(sim, 300 * SIM_S);
}

static void wind_down(struct sim *sim)
{
	const struct sy_core_params *params = &sim->config.params;
	sim_world_wind_down(sim);
	run_until_empty(sim, 300 * SIM_S);
	run_for(sim, params->session_expire_ns + params->retire_grace_ns + 2 * params->read_pin_ns +
	             sim->config.fence_late_ns + 40 * SIM_S);
	for (uint32_t space = 0; space < SIM_SPACES && sim->violated == 0; space++)
		sweep(sim, space);
	run_for(sim, 10 * SIM_S);
	for (uint32_t slot = 0; slot < sim->config.units && sim->violated == 0; slot++) {
		if (sim->units[slot].life->alive)
			check_i7_end(sim->units[slot].life);
	}
}

static void make_scratch(struct sy_scratch *scratch)
{
	*scratch = (struct sy_scratch){.data = malloc(SY_SCRATCH_BYTES), .bytes = SY_SCRATCH_BYTES};
	if (scratch->data == NULL)
		abort();
}

void sim_run(struct sim *ret_sim, const struct sim_config *config, enum sim_trace trace)
{
	struct sim *sim = ret_sim;
	*sim = (struct sim){.config = *config, .true_ns = 1000 * SIM_S, .shown_ns = 1000 * SIM_S};
	sy_prng_seed(&sim->prng, config->seed);
	sim_history_init(&sim->history, trace);
	make_scratch(&sim->scratch);
	make_scratch(&sim->peek_scratch);
	sim->room = sy_serve_room_new();
	if (sim->room == NULL)
		abort();
	sim_directory_open(sim);
	for (uint32_t slot = 0; slot < config->units; slot++)
		sim_unit_start(sim, slot);
	for (uint32_t i = 0; i < config->clients; i++)
		sim_client_start_drawn(sim, i);
	sim_at(sim, config->turn_ns, (struct sim_event){.kind = SIM_WORLD});
	sim_at(sim, config->params.heartbeat_ns, (struct sim_event){.kind = SIM_LOOK});
	sim_at(sim, SIM_MS, (struct sim_event){.kind = SIM_STRANGER});
	while (sim->steps < config->steps && step(sim, UINT64_MAX))
		continue;
	if (sim->violated == 0)
		wind_down(sim);
	for (uint32_t slot = 0; slot < config->units; slot++) {
		if (sim->units[slot].life->alive)
			check_counts(sim->units[slot].life);
	}
	if (config->rate[SIM_FAULT_CAPACITY] != 0)
		sim_count_fault(sim, SIM_FAULT_CAPACITY);
}

void sim_done(struct sim *sim)
{
	for (uint64_t i = 0; i < sim->life_count; i++)
		sim_unit_free(sim->lives[i]);
	free(sim->lives);
	sy_serve_room_free(sim->room);
	for (uint32_t i = 0; i < sim->config.units; i++)
		sim_events_free(&sim->units[i].limbo);
	for (uint32_t i = 0; i < sim->config.clients; i++) {
		if (sim->clients[i].alive)
			sim_client_free(&sim->clients[i]);
	}
	sim_directory_done(sim);
	sim_events_free(&sim->heap);
	sim_events_free(&sim->caught);
	sim_puts_free(&sim->puts, sim->put_count);
	free(sim->connections);
	free(sim->scratch.data);
	free(sim->peek_scratch.data);
	sim_history_done(&sim->history);
}
