/* What a step works with, inside the core: the time, and the caller's array of effects. */
#ifndef SY_STEP_H
#define SY_STEP_H

#include "core.h"

struct sy_step {
	struct sy_core *core;
	uint64_t now_ns;
	struct sy_effects *effects;
	uint32_t unpin_budget; /* what is left of it for this step */
};

/* An event itself makes a few effects at most; the work that follows it looks at the room first
 * and leaves the rest to the next step. */
static inline uint32_t sy_step_room(const struct sy_step *step)
{
	return (uint32_t)SY_EFFECTS_MAX - step->effects->count;
}

/* A zeroed effect at the end of the array, which has room. */
struct sy_effect *sy_step_emit(struct sy_step *step, enum sy_effect_kind kind);

/* Answers a request; notices_done is that of session `session` (an index; 0: none). Counts
 * protocol errors. */
void sy_step_reply(struct sy_step *step, uint64_t route, struct sy_request_id id, uint32_t session,
                   const struct sy_outcome *outcome);

#endif
