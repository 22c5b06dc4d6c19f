#include "slot.h"
#include "guard.h"
#include "job.h"
#include "park.h"

bool sy_op_runs_again(enum sy_op op)
{
	return op == SY_OP_HEARTBEAT || op == SY_OP_INFO || op == SY_OP_STATS || op == SY_OP_SCAN ||
	       op == SY_OP_PIN_CHECK;
}

/* A message that comes back after SY_EFFECT_REDO runs only if its slot still waits for it. */
static enum sy_verdict judge_redo(struct sy_core *core, const struct sy_slot *slot,
                                  const struct sy_event_request *request)
{
	bool waits = slot->seq == request->id.seq && slot->state == SY_SLOT_WAITING &&
	             slot->outcome.op == request->op && request->op != SY_OP_RELEASE_ROWS;
	if (waits && sy_parked_at(core, slot->waiting)->redoing)
		return SY_VERDICT_RUN;
	return SY_VERDICT_DROP;
}

enum sy_verdict sy_slot_judge(struct sy_core *core, const struct sy_session *session,
                              const struct sy_event_request *request)
{
	const struct sy_slot *slot = &session->slots[request->id.slot];
	if (request->redo)
		return judge_redo(core, slot, request);
	if (request->id.seq > slot->seq || (SY_MUTANT(10) && request->id.seq < slot->seq))
		return SY_VERDICT_RUN;
	if (request->id.seq < slot->seq || slot->outcome.op != request->op)
		return SY_VERDICT_DROP;
	switch ((enum sy_slot_state)slot->state) {
	case SY_SLOT_DONE:
		return sy_op_runs_again(request->op) || SY_MUTANT(11) ? SY_VERDICT_RUN
		                                                      : SY_VERDICT_ANSWER;
	case SY_SLOT_WAITING:
		return SY_VERDICT_ATTACH;
	case SY_SLOT_GIVEN_UP:
	case SY_SLOT_ONCE:
		break;
	}
	return SY_VERDICT_DROP;
}

void sy_slot_begin(struct sy_core *core, struct sy_session *session,
                   const struct sy_event_request *request)
{
	struct sy_slot *slot = &session->slots[request->id.slot];
	sy_slot_forget(core, slot);
	*slot = (struct sy_slot){.seq = request->id.seq, .route = request->route};
	slot->outcome.op = (uint8_t)request->op;
}

void sy_slot_forget(struct sy_core *core, struct sy_slot *slot)
{
	if (slot->state != SY_SLOT_WAITING)
		return;
	if (slot->outcome.op == SY_OP_RELEASE_ROWS)
		sy_job_detach(core, slot->waiting);
	else
		sy_park_forget(core, slot->waiting);
	slot->state = SY_SLOT_GIVEN_UP;
	slot->waiting = 0;
}

void sy_slot_give_up(struct sy_core *core, struct sy_session *session, uint32_t slot, uint64_t seq)
{
	struct sy_slot *s = &session->slots[slot];
	if (seq < s->seq)
		return;
	sy_slot_forget(core, s);
	if (seq > s->seq) {
		s->seq = seq;
		s->state = SY_SLOT_GIVEN_UP;
	}
}

void sy_slot_answer(struct sy_step *step, uint32_t session, uint32_t slot,
                    const struct sy_outcome *outcome)
{
	struct sy_session *s = sy_session_at(step->core, session);
	struct sy_slot *at = &s->slots[slot];
	SY_ASSERT(at->state == SY_SLOT_WAITING);
	at->state = SY_SLOT_DONE;
	at->waiting = 0;
	at->outcome = *outcome;
	struct sy_request_id id = {.session = s->number, .seq = at->seq, .slot = slot};
	sy_step_reply(step, at->route, id, session, outcome);
}
