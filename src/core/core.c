#include "core.h"
#include "entry.h"
#include "guard.h"
#include "handle.h"
#include "job.h"
#include "layout.h"
#include "park.h"
#include "pin.h"
#include "prng.h"
#include "tier.h"
#include "timers.h"

/* Things an ending session's cursor looks at in one step. */
enum { WALK_BUDGET = 64 };
/* Entries of blobs that are gone, and blobs that pins given back let go of, in one step. */
enum { REAP_BUDGET = 1024, UNPIN_BUDGET = 1024 };

struct sy_core *sy_core_init(void *arena, const struct sy_core_params *params)
{
	struct sy_core *core = arena;
	struct sy_prng prng;
	if (sy_layout(params, core) == 0)
		return NULL;
	sy_tables_init(core);
	core->unit_state = SY_UNIT_ACTIVE;
	/* Not the very numbers that the hashes' secret is drawn from. */
	sy_prng_seed(&prng, sy_mix64(params->seed ^ params->incarnation));
	memcpy(core->volatiles.random, prng.s, sizeof prng.s);
	return core;
}

struct sy_effect *sy_step_emit(struct sy_step *step, enum sy_effect_kind kind)
{
	SY_ASSERT(sy_step_room(step) > 0);
	struct sy_effect *effect = &step->effects->items[step->effects->count++];
	*effect = (struct sy_effect){.kind = kind};
	return effect;
}

void sy_step_reply(struct sy_step *step, uint64_t route, struct sy_request_id id, uint32_t session,
                   const struct sy_outcome *outcome)
{
	struct sy_effect *effect = sy_step_emit(step, SY_EFFECT_REPLY);
	effect->route = route;
	effect->id = id;
	effect->outcome = *outcome;
	if (session != 0)
		effect->notices_done = sy_session_at(step->core, session)->notices_done;
	if (outcome->fault == SY_FAULT_PROTOCOL)
		step->core->volatiles.protocol_errors++;
}

static enum sy_run (*const handlers[])(struct sy_call *call) = {
	[SY_OP_ALLOC] = sy_handle_alloc,
	[SY_OP_COMMIT] = sy_handle_commit,
	[SY_OP_PUT_INLINE] = sy_handle_put_inline,
	[SY_OP_RESOLVE_KEYS] = sy_handle_resolve,
	[SY_OP_RELEASE_ROWS] = sy_handle_release,
	[SY_OP_PIN_CHECK] = sy_handle_pin_check,
	[SY_OP_HEARTBEAT] = sy_handle_heartbeat,
	[SY_OP_SCAN] = sy_handle_scan,
	[SY_OP_INFO] = sy_handle_nothing,
	[SY_OP_STATS] = sy_handle_nothing,
};

static bool is_handled(enum sy_op op)
{
	return (uint32_t)op < sizeof handlers / sizeof handlers[0] && handlers[op] != NULL;
}

/* An answer that no slot keeps. */
static void answer_loose(struct sy_step *step, const struct sy_event_request *request,
                         uint32_t session, enum sy_fault fault, enum sy_why why)
{
	struct sy_outcome outcome = {
		.op = (uint8_t)request->op, .fault = (uint8_t)fault, .why = (uint8_t)why};
	if (request->redo)
		return;
	sy_step_reply(step, request->route, request->id, session, &outcome);
}

/* Runs a request in its slot and keeps what it came to. */
static void run_in_slot(struct sy_step *step, uint32_t session,
                        const struct sy_event_request *request)
{
	struct sy_session *s = sy_session_at(step->core, session);
	struct sy_slot *slot = &s->slots[request->id.slot];
	struct sy_outcome outcome = {.op = (uint8_t)request->op};
	struct sy_call call = {.step = step,
	                       .request = request,
	                       .session_index = session,
	                       .session = s,
	                       .outcome = &outcome};
	if (!request->redo)
		sy_slot_begin(step->core, s, request);
	if (handlers[request->op](&call) == SY_RUN_WAIT)
		return;
	if (request->redo)
		sy_park_done(step->core, slot->waiting);
	slot->waiting = 0;
	slot->outcome = outcome;
	slot->state = request->op == SY_OP_RESOLVE_KEYS ? SY_SLOT_ONCE : SY_SLOT_DONE;
	sy_step_reply(step, slot->route, request->id, session, &outcome);
}

static void run_request(struct sy_step *step, const struct sy_event_request *request)
{
	struct sy_core *core = step->core;
	core->volatiles.requests += !request->redo;
	if (request->op == SY_OP_HELLO) {
		sy_handle_hello(step, request);
		return;
	}
	uint32_t session = sy_session_find(core, request->id.session);
	if (session != 0)
		sy_notices_run(step, session, request);
	struct sy_session *s = session == 0 ? NULL : sy_session_at(core, session);
	if (s == NULL || (s->state != SY_SESSION_LIVE && !SY_MUTANT(14))) {
		answer_loose(step, request, session, SY_FAULT_NO_SESSION, SY_WHY_NONE);
		return;
	}
	if (!request->redo)
		sy_session_heard(core, session, step->now_ns);
	if (request->id.slot >= SY_SLOT_COUNT) {
		answer_loose(step, request, session, SY_FAULT_PROTOCOL, SY_WHY_SLOT);
		return;
	}
	if (request->id.seq == 0 || !is_handled(request->op)) {
		answer_loose(step, request, session, SY_FAULT_PROTOCOL, SY_WHY_MALFORMED);
		return;
	}
	struct sy_slot *slot = &s->slots[request->id.slot];
	switch (sy_slot_judge(core, s, request)) {
	case SY_VERDICT_RUN:
		run_in_slot(step, session, request);
		break;
	case SY_VERDICT_ANSWER:
		slot->route = request->route;
		sy_step_reply(step, request->route, request->id, session, &slot->outcome);
		break;
	case SY_VERDICT_ATTACH:
		slot->route = request->route;
		break;
	case SY_VERDICT_DROP:
		core->volatiles.dropped++;
		break;
	}
}

static void end_all(struct sy_core *core, uint64_t token, enum sy_session_end end)
{
	uint32_t at = sy_session_token_first(core, token);
	for (; at != 0; at = sy_session_token_next(core, at))
		sy_session_end(core, at, end);
}

/* bye(last_notice) is about the newest session of the connection; the notices of older ones
 * came before. */
static void run_bye(struct sy_core *core, uint64_t token, uint64_t last_notice)
{
	uint32_t newest = sy_session_token_first(core, token);
	if (newest == 0)
		return;
	struct sy_session *s = sy_session_at(core, newest);
	if (s->notices_done < last_notice) {
		s->bye_notice = last_notice;
		end_all(core, token, SY_END_SOCKET);
	} else {
		end_all(core, token, SY_END_BYE);
	}
}

static void run_peer(struct sy_step *step, const struct sy_event *event)
{
	struct sy_core *core = step->core;
	uint64_t token = event->peer.token;
	bool known = sy_session_token_first(core, token) != 0;
	if (event->kind == SY_EVENT_PEER_BYE)
		run_bye(core, token, event->peer.last_notice);
	else
		end_all(core, token,
		        event->kind == SY_EVENT_PEER_GONE ? SY_END_PROCESS : SY_END_SOCKET);
	if (!known)
		sy_step_emit(step, SY_EFFECT_PEER_DONE)->token = token;
}

static void run_event(struct sy_step *step, const struct sy_event *event)
{
	struct sy_core *core = step->core;
	uint32_t session = 0;
	switch (event->kind) {
	case SY_EVENT_REQUEST:
		run_request(step, &event->request);
		break;
	case SY_EVENT_TICK:
	case SY_EVENT_CONTINUE:
		sy_timers_run(step);
		break;
	case SY_EVENT_PEER_BYE:
	case SY_EVENT_PEER_EOF:
	case SY_EVENT_PEER_GONE:
		run_peer(step, event);
		break;
	case SY_EVENT_FENCED:
		session = sy_session_find(core, event->fenced.session);
		if (session != 0)
			sy_session_fenced(core, session);
		break;
	case SY_EVENT_STATE:
		core->unit_state = (uint8_t)event->unit.state;
		break;
	case SY_EVENT_DISK:
		sy_tier_done(step, event);
		break;
	case SY_EVENT_STALLED:
		sy_timers_stalled(core, event->stalled.gap_ns, step->now_ns);
		break;
	}
}

/* After the event, a bounded part of the work under way. Leases end only with TICK and CONTINUE,
 * so that a message that came in time is heard before its lease is looked at. */
void sy_core_step(struct sy_core *core, const struct sy_event *event, uint64_t now_ns,
                  struct sy_effects *ret_effects)
{
	struct sy_step step = {.core = core, .now_ns = now_ns, .effects = ret_effects};
	const struct sy_volatile *v = &core->volatiles;
	step.unpin_budget =
		core->params.unpin_budget != 0 ? core->params.unpin_budget : UNPIN_BUDGET;
	ret_effects->count = 0;
	ret_effects->again = false;
	run_event(&step, event);
	sy_pin_work(core, now_ns, &step.unpin_budget);
	sy_session_walk(&step, WALK_BUDGET);
	/* The names and shapes of a scan's answer lie in the arena until the shell has sent it: no
	 * release goes on in this step, which could give them back. */
	bool lent = event->kind == SY_EVENT_REQUEST && event->request.op == SY_OP_SCAN;
	if (!lent && (!SY_MUTANT(21) || event->kind == SY_EVENT_CONTINUE))
		sy_jobs_run(&step);
	if (!lent)
		sy_entry_reap(core, core->params.reap_budget != 0 ? core->params.reap_budget
		                                                  : REAP_BUDGET);
	bool held_up = !sy_tier_run(&step);
	held_up = !sy_park_run(&step) || held_up;
	held_up = !sy_park_run_loads(&step) || held_up;
	sy_park_drop(&step);
	bool ticked = event->kind == SY_EVENT_TICK || event->kind == SY_EVENT_CONTINUE;
	ret_effects->again = v->ending_sessions.count > 0 || v->running_jobs.count > 0 ||
	                     v->dropped_requests.count > 0 || v->loose_pins.count > 0 || held_up ||
	                     core->tables.reap_count > 0 ||
	                     (ticked && sy_core_deadline(core) <= now_ns);
}
