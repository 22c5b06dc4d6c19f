/* What happens to processes, links, clocks and arenas; and how a run ends: everything comes to
 * rest, everybody leaves, all rows are released, and nothing may be left. */
#include "sim.h"
#include "sim_check.h"

/* A length from a millisecond to some minutes, longer than every lease. */
static uint64_t length(struct sim *sim)
{
	return 1 + sim_draw(sim, SIM_MS << sim_draw(sim, 18));
}

static void turn_clients(struct sim *sim)
{
	struct sim_client *client = &sim->clients[sim_draw(sim, sim->config.clients)];
	uint32_t slot = (uint32_t)sim_draw(sim, sim->config.units);
	if (!client->alive) {
		if (sim_strikes(sim, SIM_FAULT_CLIENT_START))
			sim_client_start_drawn(sim, client->index);
		return;
	}
	if (sim_strikes(sim, SIM_FAULT_CLIENT_KILL)) {
		sim_client_kill(client);
		return;
	}
	if (sim_strikes(sim, SIM_FAULT_CLIENT_CLOSE))
		sim_client_close(client);
	else if (sim_strikes(sim, SIM_FAULT_CLIENT_STOP))
		sim_client_stop(client, length(sim));
	else if (sim_strikes(sim, SIM_FAULT_RECONNECT))
		sim_link_break(client, slot);
	else if (sim_strikes(sim, SIM_FAULT_FORCED_CLOSE))
		sim_transfer_close(client, slot);
	else if (sim_strikes(sim, SIM_FAULT_CUT))
		client->links[slot].cut_until_ns = sim->true_ns + length(sim) / 4;
}

static void turn_units(struct sim *sim)
{
	uint32_t slot = (uint32_t)sim_draw(sim, sim->config.units);
	struct sim_life *life = sim->units[slot].life;
	if (!life->alive) {
		if (sim_directory_takes(sim, slot) && sim_strikes(sim, SIM_FAULT_UNIT_START))
			sim_unit_start(sim, slot);
		return;
	}
	if (sim_strikes(sim, SIM_FAULT_UNIT_KILL)) {
		sim_unit_kill(sim, slot);
		return;
	}
	if (sim_strikes(sim, SIM_FAULT_UNIT_STOP))
		sim_unit_stop(sim, slot, length(sim));
	if (sim_strikes(sim, SIM_FAULT_RENEWAL_CUT))
		life->cut_until_ns = sim->true_ns + sim_draw(sim, 3 * sim->config.times.dead_after_ns);
	if (life->stopped)
		return;
	if (sim_strikes(sim, SIM_FAULT_UNIT_DRAIN)) {
		bool drained = sy_serve_core(life->serve)->unit_state == SY_UNIT_DRAINING;
		if (!sim_directory_drain(life, !drained)) {
			sim_log(sim, "u%u %s", slot, drained ? "is active again" : "drains");
			sy_serve_state(life->serve, drained ? SY_UNIT_ACTIVE : SY_UNIT_DRAINING,
			               sim->shown_ns);
			sim_unit_after(life);
		}
	}
	if (sim_strikes(sim, SIM_FAULT_ARENA_MOVE))
		sim_arena_move(life);
	if (sim_strikes(sim, SIM_FAULT_ARENA_REBUILD))
		sim_arena_rebuild(life);
}

/* As after a suspended host: time has passed for everybody. */
static void jump(struct sim *sim, uint64_t length_ns)
{
	sim_log(sim, "the clock jumps %.3f s", (double)length_ns / 1e9);
	sim->true_ns += length_ns;
	sim->shown_ns = sim->smooth_since_ns = sim->true_ns;
	sim_directory_deaf(sim, length_ns);
	for (uint32_t slot = 0; slot < sim->config.units; slot++) {
		struct sim_life *life = sim->units[slot].life;
		life->disturbed_ns = sim->true_ns;
		if (!life->alive || life->stopped || length_ns <= sim->config.params.heartbeat_ns)
			continue;
		sy_serve_stalled(life->serve, length_ns, sim->shown_ns);
		sim_unit_after(life);
	}
}

static void turn_clock(struct sim *sim)
{
	if (sim->held_until_ns > sim->true_ns)
		return;
	if (sim_strikes(sim, SIM_FAULT_CLOCK_JUMP)) {
		jump(sim, length(sim));
	} else if (sim_strikes(sim, SIM_FAULT_CLOCK_HELD)) {
		sim->held_until_ns = sim->true_ns + 1 + sim_draw(sim, 400 * SIM_MS);
		sim_log(sim, "the clock is held");
	}
}

void sim_world_turn(struct sim *sim)
{
	if (sim->winding_down)
		return;
	turn_clients(sim);
	turn_units(sim);
	turn_clock(sim);
	if (sim_strikes(sim, SIM_FAULT_DIRECTORY))
		sim_directory_silence(sim, length(sim) / 4);
	if (sim->directory.registry != NULL && sim_strikes(sim, SIM_FAULT_DIRECTORY_RESTART))
		sim_directory_restart(sim, length(sim) / 8);
	sim_at(sim, 1 + sim_draw(sim, 2 * sim->config.turn_ns),
	       (struct sim_event){.kind = SIM_WORLD});
}

static void end_task(struct sim_client *client, struct sim_task *task)
{
	task->views_left = 0;
	if (task->state == SIM_TASK_RUNNING || task->state == SIM_TASK_CHECKING) {
		sy_machine_cancel(client->links[task->slot].machine, &task->op, sim_client_now(client));
		sy_machine_cancel(client->links[task->slot].machine, &task->check,
		                  sim_client_now(client));
		sim_link_pump(client, task->slot);
		return;
	}
	task->number = ++client->sim->op_count; /* what it waited for so long comes now */
	sim_task_later(client, task, 1);
}

void sim_world_wind_down(struct sim *sim)
{
	sim_log(sim, "the run winds down");
	sim->winding_down = true;
	sim->directory.silent_until_ns = 0;
	sim_directory_go_on(sim);
	for (uint32_t slot = 0; slot < sim->config.units; slot++) {
		struct sim_life *life = sim->units[slot].life;
		sim_unit_resume(life);
		if (!life->alive)
			continue;
		life->cut_until_ns = 0;
		(void)sim_directory_drain(life, false);
		sy_serve_state(life->serve, SY_UNIT_ACTIVE, sim->shown_ns);
		sim_unit_after(life);
	}
	for (uint32_t i = 0; i < sim->config.clients; i++) {
		struct sim_client *client = &sim->clients[i];
		for (uint32_t slot = 0; slot < sim->config.units; slot++)
			client->links[slot].cut_until_ns = 0;
		sim_client_resume(client);
		for (uint32_t k = 0; client->alive && k < sim->config.tasks; k++)
			end_task(client, &client->tasks[k]);
		sim_client_close(client);
	}
}
