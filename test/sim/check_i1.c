/* I1: no region is handed out while a pinned read or an unfinished write may touch it. */
#include "sim_check.h"

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a_bytes > 0 && b_bytes > 0 && a < b + b_bytes && b < a + a_bytes;
}

bool check_i1_same(const struct sim_life *life, uint64_t offset, uint64_t bytes,
                   uint64_t generation)
{
	const struct sim_shadow *shadow = life->shadow;
	for (uint64_t at = offset / SY_ENTRY_ALIGN_BYTES;
	     bytes > 0 && at <= (offset + bytes - 1) / SY_ENTRY_ALIGN_BYTES; at++) {
		if (at >= shadow->line_count || shadow->line_generation[at] != generation)
			return false;
	}
	return true;
}

/* Until when the unit must keep what this reader has: for ever for a local one. */
static bool pin_stands(struct sim_life *life, const struct sim_client *client,
                       const struct sim_task *task)
{
	struct sim *sim = life->sim;
	if (client->local)
		return true;
	const struct sim_request *r = sim_shadow_request(life->shadow, task->op.name);
	return r != NULL && sim->shown_ns < r->ran_ns + 2 * sim->config.params.read_pin_ns;
}

static void check_reader(struct sim_life *life, const struct sim_client *client,
                         const struct sim_task *task, const struct sim_grant *grant,
                         uint64_t generation)
{
	for (size_t i = 0; i < task->range_count; i++) {
		const struct sim_range *range = &task->ranges[i];
		if (overlap(range->offset, range->nbytes, grant->offset, grant->nbytes) &&
		    pin_stands(life, client, task))
			sim_fail(life->sim, 1, "u%u granted %lu+%lu (generation %lu) while c%u reads put %lu "
			         "there under its pin", life->slot, grant->offset, grant->nbytes,
			         generation, client->index, range->put->number);
	}
}

static bool may_write(struct sim_life *life, const struct sim_client *client,
                      const struct sim_task *task)
{
	const struct sim_session *s = sim_shadow_session(life, task->op.name.session);
	return client->local || s == NULL || !s->fenced;
}

static void check_task(struct sim_life *life, const struct sim_client *client,
                       const struct sim_task *task, const struct sim_grant *grant,
                       uint64_t generation)
{
	if (task->life != life)
		return;
	switch (task->state) {
	case SIM_TASK_WRITING:
		if (task->op.outcome.generation != generation && may_write(life, client, task) &&
		    overlap(task->op.outcome.offset, task->put->nbytes, grant->offset, grant->nbytes))
			sim_fail(life->sim, 1, "u%u granted %lu+%lu (generation %lu) while c%u writes put "
			         "%lu there", life->slot, grant->offset, grant->nbytes, generation,
			         client->index, task->put->number);
		break;
	case SIM_TASK_READING:
	case SIM_TASK_VIEWING:
	case SIM_TASK_CHECKING:
		if (task->pinned)
			check_reader(life, client, task, grant, generation);
		break;
	case SIM_TASK_IDLE:
	case SIM_TASK_RUNNING:
		break;
	}
}

void check_i1_grant(struct sim_life *life, uint64_t generation)
{
	struct sim *sim = life->sim;
	const struct sim_grant *grant = &life->shadow->grants[generation];
	for (uint32_t i = 0; i < sim->config.clients; i++) {
		const struct sim_client *client = &sim->clients[i];
		for (uint32_t k = 0; client->alive && k < sim->config.tasks; k++)
			check_task(life, client, &client->tasks[k], grant, generation);
	}
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		const struct sim_stray *stray = &sim->strays[i];
		if (!stray->used || stray->put == NULL || stray->life != life || stray->landed ||
		    stray->done_bytes == stray->put->nbytes || sim->true_ns >= stray->stop_ns)
			continue;
		if (overlap(stray->offset, stray->put->nbytes, grant->offset, grant->nbytes))
			sim_fail(sim, 1, "u%u granted %lu+%lu (generation %lu) while a write of put %lu may "
			         "still land there", life->slot, grant->offset, grant->nbytes, generation,
			         stray->put->number);
	}
}

void check_i1_land(struct sim_life *life, const struct sim_put *put, uint64_t offset,
                   uint64_t bytes, uint64_t generation)
{
	if (!check_i1_same(life, offset, bytes, generation))
		sim_fail(life->sim, 1, "u%u: %lu bytes of put %lu land at %lu, which was granted anew",
		         life->slot, bytes, put->number, offset);
}
