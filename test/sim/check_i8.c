/* I8: after a release is acknowledged, no later resolve finds the row unless a commit accepted
 * after it put it; and no put is accepted once its client was told that it is not. */
#include "sim_check.h"

bool check_i8_found(struct sim_life *life, const struct sim_key *key, const struct sim_put *put)
{
	bool cleared = put->accepted_life == life->number && put->accepted_order != 0 &&
	               put->accepted_order < key->acked_order;
	if (cleared)
		sim_fail(life->sim, 8, "u%u shows put %lu where an acknowledged release cleared it",
		         life->slot, put->number);
	return cleared;
}

void check_i8_accepted(struct sim_life *life, const struct sim_put *put)
{
	struct sim *sim = life->sim;
	if (sim->shown_ns > put->deadline_ns)
		sim_fail(sim, 8, "u%u accepted put %lu %.6f s after its deadline", life->slot,
		         put->number, (double)(sim->shown_ns - put->deadline_ns) / 1e9);
	else if (put->told == SIM_TOLD_FAILED)
		sim_fail(sim, 8, "u%u accepted put %lu after its client was told it is not published",
		         life->slot, put->number);
}
