/* What comes with time alone: leases, pins, graces, quarantines, parked requests. */
#ifndef SY_TIMERS_H
#define SY_TIMERS_H

#include "step.h"

/* Does what is due, a bounded part of it; sy_core_deadline says whether more is. */
void sy_timers_run(struct sy_step *step);
/* The unit stood still: leases of other hosts get the time back. */
void sy_timers_stalled(struct sy_core *core, uint64_t gap_ns, uint64_t now_ns);

#endif
