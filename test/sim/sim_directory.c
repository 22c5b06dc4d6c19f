/* The directory: the shipped registry in a process that is slow, stops and starts again from what
 * it wrote, and the renewals of units that hold leases. Where they hold none, a unit's end is
 * reported to it, as a supervisor does. */
#include <stdlib.h>

#include "sim.h"
#include "sim_check.h"

static bool is_leased(const struct sim *sim)
{
	return sy_dir_times_lease(&sim->config.times);
}

static bool is_silent(const struct sim *sim)
{
	return sim->directory.registry == NULL || sim->directory.silent_until_ns > sim->true_ns;
}

/* Looks at what changed: it is stored before anything is answered, and the dead are noted. */
static void note_changes(struct sim *sim, bool by_lease)
{
	struct sim_directory *directory = &sim->directory;
	(void)sy_registry_units(directory->registry, 0, directory->stored);
	directory->stored_epoch = sy_registry_epoch(directory->registry);
	for (uint32_t slot = 0; slot < sim->config.units; slot++) {
		const struct sy_unit_info *info = &directory->stored[slot];
		struct sim_life *life = sim_life_of(sim, info->incarnation);
		if (life == NULL)
			continue;
		if (info->state == SY_UNIT_SUSPECT && directory->shown[slot] != SY_UNIT_SUSPECT)
			sim_count_fault(sim, SIM_FAULT_SUSPECT);
		directory->shown[slot] = info->state;
		if (life->buried || info->state == SY_UNIT_DEAD)
			check_i9_buried(life, info->state);
		if (info->state != SY_UNIT_DEAD || life->buried)
			continue;
		life->buried = true;
		life->buried_by_lease = by_lease;
		if (by_lease)
			sim_count_fault(sim, SIM_FAULT_LEASE_DEATH);
		sim_log(sim, "the directory buries u%u", slot);
	}
}

static void arm(struct sim *sim)
{
	struct sim_directory *directory = &sim->directory;
	uint64_t due_ns = sy_registry_deadline(directory->registry);
	if (due_ns == UINT64_MAX || due_ns >= directory->tick_ns)
		return;
	directory->tick_ns = due_ns;
	uint64_t at_ns = sy_max_u64(sy_max_u64(due_ns, sim->true_ns), sim->held_until_ns);
	sim_at(sim, at_ns - sim->true_ns,
	       (struct sim_event){.kind = SIM_DIRECTORY_TICK, .number = due_ns});
}

void sim_directory_open(struct sim *sim)
{
	sim->directory.registry = sy_registry_new(sim->config.units, &sim->config.times);
	sim->directory.tick_ns = UINT64_MAX;
	if (sim->directory.registry == NULL)
		abort();
}

void sim_directory_done(struct sim *sim)
{
	sy_registry_free(sim->directory.registry);
	sim_events_free(&sim->directory.inbox);
}

bool sim_directory_enter(struct sim_life *life)
{
	struct sim *sim = life->sim;
	struct sim_directory *directory = &sim->directory;
	struct sy_unit_info unit = {.unit_id = life->slot, .incarnation = life->incarnation,
	                            .turn = sy_registry_slot(directory->registry, life->slot)->turn};
	if (sy_registry_register(directory->registry, &unit, sim->shown_ns) != SY_DIR_FAULT_NONE)
		return false;
	note_changes(sim, false);
	sy_lease_init(&life->lease, sim->config.times.fence_after_ns, sim->shown_ns, sim->shown_ns);
	if (is_leased(sim)) {
		arm(sim);
		sim_at(sim, sim->config.renew_ns, (struct sim_event){
			.kind = SIM_UNIT_RENEW, .who = life->slot, .life = life->number});
	}
	return true;
}

bool sim_directory_takes(const struct sim *sim, uint32_t slot)
{
	if (!is_leased(sim))
		return sim->units[slot].life->buried;
	return !is_silent(sim) &&
	       sy_registry_slot(sim->directory.registry, slot)->state == SY_UNIT_DEAD;
}

enum sy_directory_says sim_directory(struct sim *sim, uint32_t slot, uint64_t incarnation)
{
	if (is_silent(sim))
		return SY_DIRECTORY_SILENT;
	const struct sy_unit_info *info = sy_registry_slot(sim->directory.registry, slot);
	bool other = incarnation != 0 && info->incarnation != incarnation;
	return other || info->state == SY_UNIT_DEAD ? SY_DIRECTORY_DEAD : SY_DIRECTORY_ALIVE;
}

/* How long a renewal or its answer is under way; false: it never comes. */
static bool travels(const struct sim_life *life, uint64_t *ret_delay_ns)
{
	struct sim *sim = life->sim;
	if (life->cut_until_ns > sim->true_ns || sim_strikes(sim, SIM_FAULT_RENEWAL_LOST))
		return false;
	*ret_delay_ns = 1 + sim_draw(sim, 2 * sim->config.latency_ns);
	if (sim_strikes(sim, SIM_FAULT_RENEWAL_LATE))
		*ret_delay_ns += sim_draw(sim, 2 * sim->config.times.dead_after_ns);
	return true;
}

void sim_unit_renew(struct sim_life *life)
{
	struct sim *sim = life->sim;
	struct sim_event event = {.kind = SIM_TO_DIRECTORY, .who = life->slot, .life = life->number,
	                          .number = sim->shown_ns};
	uint64_t delay_ns = 0;
	if (travels(life, &delay_ns))
		sim_at(sim, delay_ns, event);
	event.kind = SIM_UNIT_RENEW;
	sim_at(sim, sim->config.renew_ns, event);
}

void sim_unit_renewed(struct sim_life *life, const struct sim_event *event)
{
	struct sim *sim = life->sim;
	enum sy_unit_state state = (enum sy_unit_state)event->other;
	if ((enum sy_dir_fault)event->extra == SY_DIR_FAULT_BURIED) {
		sim_log(sim, "u%u hears that it is dead, and ends", life->slot);
		sim_unit_end(life);
		return;
	}
	if (sy_lease_is_fenced(&life->lease, sim->shown_ns))
		life->disturbed_ns = sim->true_ns;
	sy_lease_renewed(&life->lease, event->number, sim->shown_ns);
	if (state != sy_serve_core(life->serve)->unit_state &&
	    (state == SY_UNIT_ACTIVE || state == SY_UNIT_DRAINING)) {
		sim_log(sim, "u%u %s", life->slot, state == SY_UNIT_ACTIVE ? "is active again" : "drains");
		sy_serve_state(life->serve, state, sim->shown_ns);
		sim_unit_after(life);
	}
}

static void hear_renewal(struct sim *sim, const struct sim_event *event)
{
	struct sy_registry *registry = sim->directory.registry;
	const struct sim_life *life = sim->lives[event->life - 1];
	enum sy_dir_fault fault =
		sy_registry_renew(registry, event->who, life->incarnation, sim->shown_ns);
	note_changes(sim, true);
	struct sim_event answer = {.kind = SIM_UNIT_RENEWED, .who = event->who, .life = event->life,
	                           .number = event->number, .extra = (uint64_t)fault,
	                           .other = (uint64_t)sy_registry_slot(registry, event->who)->state};
	uint64_t delay_ns = 0;
	if (travels(life, &delay_ns))
		sim_at(sim, delay_ns, answer);
}

static void tick(struct sim *sim)
{
	(void)sy_registry_tick(sim->directory.registry, sim->shown_ns);
	note_changes(sim, true);
	arm(sim);
}

void sim_directory_exited(struct sim *sim, const struct sim_event *event)
{
	const struct sim_life *life = sim->lives[event->life - 1];
	if (is_leased(sim) && is_silent(sim)) {
		sim_at(sim, 100 * SIM_MS, *event); /* who reports it tries again */
		return;
	}
	(void)sy_registry_exited(sim->directory.registry, event->who, life->incarnation);
	note_changes(sim, false);
}

bool sim_directory_drain(struct sim_life *life, bool drain)
{
	struct sim *sim = life->sim;
	if (!is_leased(sim))
		return false;
	if (!is_silent(sim))
		(void)sy_registry_set_state(sim->directory.registry, life->slot, life->incarnation,
		                            drain ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE);
	return true;
}

void sim_directory_silence(struct sim *sim, uint64_t length_ns)
{
	struct sim_directory *directory = &sim->directory;
	if (directory->silent_until_ns <= sim->true_ns)
		directory->silent_since_ns = sim->shown_ns;
	directory->silent_until_ns = sim->true_ns + length_ns;
	if (is_leased(sim)) {
		sim_log(sim, "the directory stands still for %.3f s", (double)length_ns / 1e9);
		sim_at(sim, length_ns, (struct sim_event){.kind = SIM_DIRECTORY_GOES_ON});
	}
}

/* Its process ends and starts again after a while: what it had not written, and what was on its
 * way to it, is gone. */
void sim_directory_restart(struct sim *sim, uint64_t length_ns)
{
	struct sim_directory *directory = &sim->directory;
	sim_log(sim, "the directory is killed");
	sy_registry_free(directory->registry);
	directory->registry = NULL;
	directory->inbox.count = 0;
	sim_directory_silence(sim, length_ns);
}

void sim_directory_deaf(struct sim *sim, uint64_t gap_ns)
{
	if (sim->directory.registry != NULL && gap_ns > sim->config.times.suspect_after_ns)
		sy_registry_deaf(sim->directory.registry, sim->shown_ns);
}

void sim_directory_go_on(struct sim *sim)
{
	struct sim_directory *directory = &sim->directory;
	if (directory->silent_until_ns > sim->true_ns)
		return; /* it was stopped once more meanwhile */
	if (directory->registry == NULL) {
		if (sy_registry_restore(directory->stored_epoch, &sim->config.times, directory->stored,
		                        sim->config.units, sim->shown_ns, &directory->registry) != SY_OK)
			abort();
		sim_log(sim, "the directory starts again");
		note_changes(sim, true);
	} else {
		sim_directory_deaf(sim, sim->shown_ns - directory->silent_since_ns);
	}
	/* What waited for it is heard before a lease is looked at. */
	for (size_t i = 0; i < directory->inbox.count; i++)
		hear_renewal(sim, &directory->inbox.items[i]);
	directory->inbox.count = 0;
	directory->tick_ns = UINT64_MAX;
	tick(sim);
}

void sim_directory_event(struct sim *sim, const struct sim_event *event)
{
	struct sim_directory *directory = &sim->directory;
	if (event->kind == SIM_DIRECTORY_GOES_ON) {
		sim_directory_go_on(sim);
	} else if (event->kind == SIM_TO_DIRECTORY && directory->registry != NULL) {
		if (is_silent(sim))
			sim_events_push(&directory->inbox, event);
		else
			hear_renewal(sim, event);
	} else if (event->kind == SIM_DIRECTORY_TICK && !is_silent(sim) &&
	           event->number == directory->tick_ns) {
		directory->tick_ns = UINT64_MAX;
		tick(sim);
	}
}
