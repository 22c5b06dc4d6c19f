/* I9: lost is said only when the bytes are confirmed gone. */
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
}
