/* Notices: abort, unpin, drained. Executed once and in order, whatever message brings them. */
#include "blob.h"
#include "guard.h"
#include "handle.h"
#include "pin.h"
#include "reserve.h"
#include "tier.h"

static void abort_reservation(struct sy_core *core, const struct sy_notice *notice,
                              uint64_t now_ns)
{
	uint32_t blob = sy_reserve_find(core, notice->name);
	if (blob == 0 || (sy_blob_is_grant(sy_blob_at(core, blob)) && SY_MUTANT(66)))
		return;
	if (sy_blob_at(core, blob)->state == SY_BLOB_COMMITTING)
		sy_tier_abort(core, blob, now_ns);
	else if (!notice->in_flight || SY_MUTANT(2))
		sy_reserve_free(core, blob);
	else
		sy_reserve_retire(core, blob);
}

static void drained(struct sy_core *core, const struct sy_notice *notice)
{
	uint32_t blob = sy_reserve_find(core, notice->name);
	if (blob != 0 && sy_blob_at(core, blob)->state == SY_BLOB_RETIRED)
		sy_reserve_free(core, blob);
}

/* A message may give back pins of millions of blobs. */
static void unpin(struct sy_step *step, const struct sy_notice *notice)
{
	uint32_t pin = sy_pin_find(step->core, notice->name);
	if (pin != 0)
		sy_pin_loosen(step->core, pin);
}

/* One notice. It may name what another session of the same client made. */
static void run_one(struct sy_step *step, uint32_t session, const struct sy_notice *notice)
{
	struct sy_core *core = step->core;
	uint32_t owner = sy_session_find(core, notice->name.session);
	if (owner == 0 || notice->name.slot >= SY_SLOT_COUNT)
		return;
	struct sy_session *o = sy_session_at(core, owner);
	if (!sy_identity_equal(&o->identity, &sy_session_at(core, session)->identity))
		return;
	switch (notice->kind) {
	case SY_NOTICE_ABORT:
		sy_slot_give_up(core, o, notice->name.slot, notice->name.seq);
		abort_reservation(core, notice, step->now_ns);
		break;
	case SY_NOTICE_UNPIN:
		sy_slot_give_up(core, o, notice->name.slot, notice->name.seq);
		unpin(step, notice);
		break;
	case SY_NOTICE_DRAINED:
		drained(core, notice);
		break;
	}
}

/* A bye that overtook notices is complete when the last one is there: nothing of the client
 * is in use any more. */
static void finish_bye(struct sy_core *core, uint32_t session)
{
	struct sy_session *s = sy_session_at(core, session);
	if (s->bye_notice == 0 || s->notices_done < s->bye_notice)
		return;
	s->bye_notice = 0;
	uint32_t at = sy_session_token_first(core, s->token);
	for (; at != 0; at = sy_session_token_next(core, at))
		sy_session_end(core, at, SY_END_BYE);
}

void sy_notices_run(struct sy_step *step, uint32_t session, const struct sy_event_request *request)
{
	struct sy_session *s = sy_session_at(step->core, session);
	for (uint32_t i = 0; i < request->notice_count; i++) {
		uint64_t number = request->first_notice + i;
		if (number <= s->notices_done)
			continue;
		if (number != s->notices_done + 1 && !SY_MUTANT(28))
			break;
		run_one(step, session, &request->notices[i]);
		s->notices_done = number;
	}
	/* Before the request, which may want the room. */
	sy_pin_work(step->core, step->now_ns, &step->unpin_budget);
	finish_bye(step->core, session);
}
