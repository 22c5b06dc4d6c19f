/* I10: every operation returns by its deadline plus 100 ms, given that its client runs. */
#include "sim_check.h"

/* Time in which the client stood still, or its clock did, does not count. */
static uint64_t latest_ns(const struct sim_client *client, uint64_t deadline_ns)
{
	uint64_t from_ns = deadline_ns > client->offset_ns ? deadline_ns - client->offset_ns : 0;
	from_ns = sy_max_u64(from_ns, client->running_since_ns);
	return sy_max_u64(from_ns, client->sim->smooth_since_ns) + 100 * SIM_MS;
}

void check_i10_done(struct sim_client *client, const struct sim_task *task,
                    const struct sy_machine_op *op)
{
	struct sim *sim = client->sim;
	uint64_t latest = latest_ns(client, op->deadline_ns);
	if (sim->shown_ns > latest)
		sim_fail(sim, 10, "c%u/u%u op %lu ended %.6f s too late", client->index, task->slot,
		         task->number, (double)(sim->shown_ns - latest) / 1e9);
}

void check_i10_ended(struct sim_client *client, const struct sim_task *task, uint64_t number)
{
	struct sim *sim = client->sim;
	bool checking = task->state == SIM_TASK_CHECKING;
	bool reading = task->state == SIM_TASK_READING && !client->local && sim->config.transfers;
	if (task->number != number || (task->state != SIM_TASK_RUNNING &&
	                               task->state != SIM_TASK_WRITING && !checking && !reading))
		return;
	uint64_t latest =
		latest_ns(client, checking ? task->check.deadline_ns : task->op.deadline_ns);
	struct sim_event due = {.kind = SIM_DEADLINE, .who = client->index, .life = client->life,
	                        .number = (uint64_t)(task - client->tasks), .extra = number};
	if (sim->shown_ns <= latest)
		sim_at(sim, latest + 1 - sim->shown_ns, due);
	else
		sim_fail(sim, 10, "c%u/u%u op %lu has not ended %.6f s after its deadline", client->index,
		         task->slot, number, (double)(sim->shown_ns - latest) / 1e9);
}
