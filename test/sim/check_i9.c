/* I9: lost is said only when the bytes are confirmed gone: the directory says so of a unit that
 * has ended, or has fallen silent for good. */
#include "sim_check.h"

static uint32_t position(sy_status status)
{
	static const int values[] = {
#define VALUE(name, value, python, meaning) value,
		SY_STATUS_LIST(VALUE)
#undef VALUE
	};
	uint32_t i = 0;
	while (i + 1 < sizeof values / sizeof values[0] && values[i] != (int)status)
		i++;
	return i;
}

void check_i9_verdict(struct sim_client *client, const struct sim_task *task, sy_status status)
{
	struct sim *sim = client->sim;
	const struct sim_life *life = task->found_dead || task->op.incarnation == 0
	                                      ? sim->units[task->slot].life
	                                      : sim_life_of(sim, task->op.incarnation);
	sim->counts.verdicts[position(status)]++;
	if (status == SY_E_LOST && (life == NULL || !life->buried))
		sim_fail(sim, 9, "c%u/u%u says lost, but the unit %s", client->index, task->slot,
		         life != NULL && life->alive ? "lives" : "is not confirmed dead");
	/* By its exit it may have died since it answered; by its lease it cannot have. */
	bool got = task->op.kind == SY_OP_KIND_RESOLVE && status == SY_OK;
	if (got && life != NULL && life->buried_by_lease)
		sim_fail(sim, 9, "c%u/u%u believes what a unit said that was dead when it came",
		         client->index, task->slot);
}

void check_i9_buried(struct sim_life *life, enum sy_unit_state state)
{
	struct sim *sim = life->sim;
	if (state != SY_UNIT_DEAD)
		sim_fail(sim, 9, "the directory brings u%u back from the dead", life->slot);
	else if (!life->buried && life->alive && !sy_lease_is_fenced(&life->lease, sim->shown_ns))
		sim_fail(sim, 9, "the directory buries u%u, which lives and may answer", life->slot);
}

void check_i9_reply(struct sim_life *life, const struct sy_reply *reply)
{
	bool silent = reply->outcome.fault == SY_FAULT_BUSY && reply->outcome.busy == SY_BUSY_FENCED;
	if (life->buried && !silent)
		sim_fail(life->sim, 9, "u%u answers, though the directory said that it is dead",
		         life->slot);
}
