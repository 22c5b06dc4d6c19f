/* The end of a session: a cursor over what it holds. */
#include "blob.h"
#include "guard.h"
#include "pin.h"
#include "reserve.h"
#include "slot.h"

#include <stddef.h>

static void enqueue(struct sy_core *core, uint32_t session, enum sy_walk walk)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_session *s = sy_session_at(core, session);
	if (s->state != SY_SESSION_ENDING)
		sy_chain_append(core, &v->sessions, offsetof(struct sy_session, end_link),
		                &v->ending_sessions, session);
	s->state = SY_SESSION_ENDING;
	s->walk = (uint8_t)walk;
	s->walk_left = s->blobs.count;
}

static bool gives_all_back(uint8_t end)
{
	return end == SY_END_BYE || end == SY_END_PROCESS;
}

void sy_session_end(struct sy_core *core, uint32_t session, enum sy_session_end end)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_session *s = sy_session_at(core, session);
	s->socket_ended = s->socket_ended || end == SY_END_SOCKET;
	if (s->state != SY_SESSION_LIVE) {
		if (end == SY_END_REPLACED && s->end == SY_END_SOCKET) {
			s->end = SY_END_REPLACED; /* its client waits for nothing of it any more */
			sy_session_settle(core, session);
		}
		if (!gives_all_back((uint8_t)end) || gives_all_back(s->end))
			return;
		s->end = (uint8_t)end;
		enqueue(core, session, SY_WALK_FREE);
		return;
	}
	if (!s->local)
		sy_chain_remove(core, &v->sessions, offsetof(struct sy_session, order_link),
		                &v->remote_sessions, session);
	for (uint32_t i = 0; i < SY_SLOT_COUNT; i++)
		sy_slot_forget(core, &s->slots[i]);
	s->end = (uint8_t)end;
	enqueue(core, session, gives_all_back((uint8_t)end) ? SY_WALK_FREE : SY_WALK_RETIRE);
}

void sy_session_fenced(struct sy_core *core, uint32_t session)
{
	struct sy_session *s = sy_session_at(core, session);
	if (!s->fence_asked || s->fenced)
		return;
	s->fenced = true;
	enqueue(core, session, SY_WALK_GRACE);
}

void sy_session_settle(struct sy_core *core, uint32_t session)
{
	const struct sy_session *s = sy_session_at(core, session);
	if (s->state == SY_SESSION_ENDED && s->blobs.count == 0 && s->pins.count == 0)
		enqueue(core, session, SY_WALK_NONE);
}

/* From the fence on: what was posted before it may still be under way. */
static uint64_t grace_end(const struct sy_step *step)
{
	return SY_MUTANT(47) ? step->now_ns : step->now_ns + step->core->params.retire_grace_ns;
}

/* Looks at each of the session's blobs once, by moving the first one to the back. What a notice
 * takes away in between only makes it look at some twice. */
static uint32_t walk_blobs(struct sy_step *step, struct sy_session *s, uint32_t budget)
{
	struct sy_core *core = step->core;
	uint32_t used = 0;
	while (used < budget && s->walk_left > 0 && s->blobs.head != 0) {
		uint32_t blob = s->blobs.head;
		used++;
		s->walk_left--;
		/* A commit that was accepted goes on. */
		bool committing = sy_blob_at(core, blob)->state == SY_BLOB_COMMITTING;
		if (!committing && (s->walk == SY_WALK_FREE || SY_MUTANT(4))) {
			sy_reserve_free(core, blob);
			continue;
		}
		sy_chain_remove(core, &core->tables.blobs, offsetof(struct sy_blob, session_link),
		                &s->blobs, blob);
		sy_chain_append(core, &core->tables.blobs, offsetof(struct sy_blob, session_link),
		                &s->blobs, blob);
		if (s->walk == SY_WALK_RETIRE)
			sy_reserve_retire(core, blob);
		if (!committing && (s->walk == SY_WALK_GRACE || (SY_MUTANT(48) && !s->local)))
			sy_reserve_grace(core, blob, grace_end(step));
	}
	if (s->blobs.head == 0)
		s->walk_left = 0;
	return used;
}

static uint32_t walk_pins(struct sy_step *step, struct sy_session *s, uint32_t budget)
{
	uint32_t used = 0;
	while (used < budget && s->pins.head != 0 && !SY_MUTANT(19)) {
		used += 1 + sy_pin_at(step->core, s->pins.head)->ref_count;
		sy_pin_drop(step->core, s->pins.head, false, step->now_ns);
	}
	return used;
}

/* The cursor is through: the fence is asked for, and a record with nothing left to wait for
 * goes. At most one effect of each kind. */
static void walk_done(struct sy_step *step, uint32_t session)
{
	struct sy_core *core = step->core;
	struct sy_session *s = sy_session_at(core, session);
	sy_chain_remove(core, &core->volatiles.sessions, offsetof(struct sy_session, end_link),
	                &core->volatiles.ending_sessions, session);
	s->state = SY_SESSION_ENDED;
	s->walk = SY_WALK_NONE;
	if (!s->local && core->params.remote_write && !s->fence_asked && !SY_MUTANT(55)) {
		sy_step_emit(step, SY_EFFECT_FENCE)->session = s->number;
		s->fence_asked = true;
	}
	if (s->blobs.count > 0 || s->pins.count > 0 || s->fence_asked != s->fenced)
		return;
	if (s->local && !gives_all_back(s->end) && s->end != SY_END_REPLACED)
		return;
	uint64_t token = gives_all_back(s->end) || s->socket_ended ? s->token : 0;
	sy_session_free(core, session);
	if (token != 0 && sy_session_token_first(core, token) == 0)
		sy_step_emit(step, SY_EFFECT_PEER_DONE)->token = token;
}

void sy_session_walk(struct sy_step *step, uint32_t budget)
{
	struct sy_chain *ending = &step->core->volatiles.ending_sessions;
	/* Each pass uses budget or ends one of at most max_sessions. */
	while (ending->head != 0 && budget > 0 && sy_step_room(step) >= 2) {
		uint32_t session = ending->head;
		struct sy_session *s = sy_session_at(step->core, session);
		uint32_t used = 1 + walk_blobs(step, s, budget);
		bool unpins = s->walk == SY_WALK_FREE || (SY_MUTANT(54) && !s->local);
		if (unpins && used < budget)
			used += walk_pins(step, s, budget - used);
		bool pins_left = s->walk == SY_WALK_FREE && s->pins.head != 0 && !SY_MUTANT(19);
		if (s->walk_left == 0 && !pins_left)
			walk_done(step, session);
		budget -= used < budget ? used : budget;
	}
}
