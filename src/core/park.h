/* Parked requests: alloc and put_inline that lack bytes while space is being made, that is
 * while a release runs, a session's end gives memory back or the tier writes; and resolves that
 * wait for the disk, in a list of their own.
 *
 * First in, first out: the first one goes when its bytes are there. A smaller one may pass what
 * does not fit yet, the smallest first, each at most SY_PARK_PASS_MAX times. One is redone
 * (SY_EFFECT_REDO) at a time: until its message is back none else is looked at.
 *
 * No step walks them, however many they are. Each stands with those that wait for the same, in
 * order, in a heap by bytes, and in one by time; a resolve that waits for a copy stands with that.
 * How often one was passed is kept as what it is more than that of the one behind it: who is let
 * through before one is let through before all in front of it. So the first was passed most. */
#ifndef SY_PARK_H
#define SY_PARK_H

#include "handle.h"
#include "park_heap.h"

enum { SY_PARK_PASS_MAX = 16 };

static inline struct sy_parked *sy_parked_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.parked, index);
}

/* May a request that was not parked take `bytes` before those that are? If so, counts it. */
bool sy_park_pass(struct sy_core *core, uint64_t bytes);
/* May one that lacks bytes wait? ssd: for the disk tier, too. */
bool sy_park_hopeful(const struct sy_core *core, bool ssd);
/* Parks the request of this call (again, if it was redone), or answers Busy(queue_full). */
enum sy_run sy_park_hold(struct sy_call *call, uint64_t bytes, uint64_t until_ns, bool ssd);
/* The same for a resolve: until this copy is read, or, if it is 0, a hole of so many bytes. */
enum sy_run sy_park_hold_load(struct sy_call *call, uint32_t copy, uint64_t bytes);
/* This copy is read, or gone: those that wait for it are to be redone. */
void sy_park_wake(struct sy_core *core, uint32_t copy);
/* The slot of a parked request moved on, or its session ended: its message is dropped. */
void sy_park_forget(struct sy_core *core, uint32_t parked);
/* The request was redone and is answered: its record goes, its message is with the shell. */
void sy_park_done(struct sy_core *core, uint32_t parked);
void sy_park_reset(struct sy_core *core); /* for rebuild.c: forgets all lists and heaps */

/* Says SY_EFFECT_DROP for what was forgotten. */
void sy_park_drop(struct sy_step *step);

/* park_run.c. Redoes the next one that fits; answers UnitFull where no space is being made.
 * False: there was no room for more effects. */
bool sy_park_run(struct sy_step *step);
/* Redoes the resolves whose copies are read, or for which there is room. False as above. */
bool sy_park_run_loads(struct sy_step *step);
/* Answers Busy(spilling) or Busy(loading) to those that waited long enough. */
void sy_park_expire(struct sy_step *step);
/* When the next one is due; UINT64_MAX: never. */
uint64_t sy_park_deadline(const struct sy_core *core);

/* For park_run.c: this one goes before those in front of it, which are passed once more. */
void sy_park_let_by(struct sy_core *core, uint32_t parked);
/* A woken one is redone: it waits for nothing. */
void sy_park_take(struct sy_core *core, uint32_t parked);
/* Is space being made, whatever the tier does? */
bool sy_park_space_is_made(const struct sy_core *core);

#endif
