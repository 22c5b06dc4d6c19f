/* Parked requests: alloc and put_inline that lack bytes while space is being made, that is
 * while a release runs or a session's end gives memory back.
 *
 * First in, first out. A smaller one may pass one that does not fit yet, at most
 * SY_PARK_PASS_MAX times. One is redone (SY_EFFECT_REDO) when its bytes are there; until its
 * message is back none behind it is looked at. */
#ifndef SY_PARK_H
#define SY_PARK_H

#include "handle.h"

enum { SY_PARK_PASS_MAX = 16 };

static inline struct sy_parked *sy_parked_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.parked, index);
}

/* May a request that was not parked take `bytes` before those that are? If so, counts it. */
bool sy_park_pass(struct sy_core *core, uint64_t bytes);
/* May one that lacks bytes wait? */
bool sy_park_hopeful(const struct sy_core *core);
/* Parks the request of this call (again, if it was redone), or answers Busy(queue_full). */
enum sy_run sy_park_hold(struct sy_call *call, uint64_t bytes, uint64_t until_ns);
/* The slot of a parked request moved on, or its session ended: its message is dropped. */
void sy_park_forget(struct sy_core *core, uint32_t parked);
/* The request was redone and is answered: its record goes, its message is with the shell. */
void sy_park_done(struct sy_core *core, uint32_t parked);

/* Says SY_EFFECT_DROP for what was forgotten. */
void sy_park_drop(struct sy_step *step);
/* Redoes the next one that fits; answers UnitFull where no space is being made. False: there was
 * no room for more effects. */
bool sy_park_run(struct sy_step *step);
/* Answers Busy(spilling) to those that waited long enough. */
void sy_park_expire(struct sy_step *step);
/* When the next one is due; UINT64_MAX: never. Linear in the parked ones. */
uint64_t sy_park_deadline(const struct sy_core *core);

#endif
