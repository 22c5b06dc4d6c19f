#include "park.h"
#include "guard.h"
#include "region.h"

#include <stddef.h>

static const uint32_t link_at = offsetof(struct sy_parked, link);

static bool space_is_made(const struct sy_core *core)
{
	return core->volatiles.running_jobs.count > 0 || core->volatiles.ending_sessions.count > 0;
}

bool sy_park_hopeful(const struct sy_core *core)
{
	return space_is_made(core) || core->volatiles.parked_requests.count > 0;
}

/* Those that wait before `end` (0: all) are passed once more. */
static void count_pass(struct sy_core *core, uint32_t end)
{
	uint32_t at = core->volatiles.parked_requests.head;
	for (; at != end; at = sy_parked_at(core, at)->link.next)
		sy_parked_at(core, at)->passed++;
}

bool sy_park_pass(struct sy_core *core, uint64_t bytes)
{
	uint32_t at = core->volatiles.parked_requests.head;
	if (at == 0)
		return true;
	if (bytes > sy_region_largest_hole(core))
		return false;
	for (; at != 0; at = sy_parked_at(core, at)->link.next) {
		const struct sy_parked *p = sy_parked_at(core, at);
		if (bytes >= p->need_bytes || p->passed >= SY_PARK_PASS_MAX)
			return false;
	}
	count_pass(core, 0);
	return true;
}

static void keep(struct sy_call *call, struct sy_slot *slot, uint32_t parked)
{
	slot->state = SY_SLOT_WAITING;
	slot->waiting = parked;
	sy_step_emit(call->step, SY_EFFECT_KEEP)->message = call->request->message;
}

enum sy_run sy_park_hold(struct sy_call *call, uint64_t bytes, uint64_t until_ns)
{
	struct sy_core *core = call->step->core;
	struct sy_volatile *v = &core->volatiles;
	struct sy_slot *slot = &call->session->slots[call->request->id.slot];
	uint64_t latest_ns = call->step->now_ns + core->params.park_max_ns;
	uint32_t parked = slot->waiting;
	if (call->request->redo) {
		sy_parked_at(core, parked)->redoing = false;
		sy_parked_at(core, parked)->message = call->request->message;
		keep(call, slot, parked);
		return SY_RUN_WAIT;
	}
	/* Handle 0: the shell has no room for the message. */
	parked = call->request->message == 0 ? 0 : sy_pool_take(core, &v->parked);
	if (parked == 0)
		return sy_refuse_busy(call, SY_BUSY_QUEUE_FULL);
	struct sy_parked *p = sy_parked_at(core, parked);
	p->session = call->session_index;
	p->slot = call->request->id.slot;
	p->seq = call->request->id.seq;
	p->need_bytes = bytes;
	p->until_ns = sy_min_u64(until_ns, latest_ns);
	p->message = call->request->message;
	p->op = (uint8_t)call->request->op;
	sy_chain_append(core, &v->parked, link_at, &v->parked_requests, parked);
	keep(call, slot, parked);
	return SY_RUN_WAIT;
}

void sy_park_done(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	sy_chain_remove(core, &v->parked, link_at, &v->parked_requests, parked);
	sy_pool_give(core, &v->parked, parked);
}

void sy_park_forget(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	/* One being redone is on its way back already; the shell forgets it then. */
	if (sy_parked_at(core, parked)->redoing) {
		sy_park_done(core, parked);
		return;
	}
	sy_chain_remove(core, &v->parked, link_at, &v->parked_requests, parked);
	sy_chain_append(core, &v->parked, link_at, &v->dropped_requests, parked);
}

void sy_park_drop(struct sy_step *step)
{
	struct sy_volatile *v = &step->core->volatiles;
	while (v->dropped_requests.head != 0 && sy_step_room(step) > 0) {
		uint32_t parked = v->dropped_requests.head;
		sy_step_emit(step, SY_EFFECT_DROP)->message =
			sy_parked_at(step->core, parked)->message;
		sy_chain_remove(step->core, &v->parked, link_at, &v->dropped_requests, parked);
		sy_pool_give(step->core, &v->parked, parked);
	}
}

/* The answer of a parked request that is not run again; its message is dropped. */
static void answer(struct sy_step *step, uint32_t parked, const struct sy_outcome *outcome)
{
	const struct sy_parked *p = sy_parked_at(step->core, parked);
	sy_slot_answer(step, p->session, p->slot, outcome);
	sy_park_forget(step->core, parked);
}

static void answer_full(struct sy_step *step, uint32_t parked)
{
	const struct sy_parked *p = sy_parked_at(step->core, parked);
	struct sy_outcome outcome = {
		.op = p->op,
		.fault = SY_FAULT_UNIT_FULL,
		.resource = SY_RESOURCE_BYTES,
		.need = p->need_bytes,
		.free = sy_region_free_bytes(step->core),
		.hole = sy_region_largest_hole(step->core),
	};
	answer(step, parked, &outcome);
}

bool sy_park_run(struct sy_step *step)
{
	struct sy_core *core = step->core;
	uint64_t hole = sy_region_largest_hole(core);
	uint32_t next = 0;
	for (uint32_t at = core->volatiles.parked_requests.head; at != 0; at = next) {
		struct sy_parked *p = sy_parked_at(core, at);
		next = p->link.next;
		if (p->redoing)
			return true;
		if (sy_step_room(step) == 0)
			return false;
		if (p->need_bytes <= hole) {
			count_pass(core, at);
			p->redoing = true;
			sy_step_emit(step, SY_EFFECT_REDO)->message = p->message;
			return true;
		}
		if (!space_is_made(core))
			answer_full(step, at);
		else if (p->passed >= SY_PARK_PASS_MAX)
			return true;
	}
	return true;
}

void sy_park_expire(struct sy_step *step)
{
	struct sy_core *core = step->core;
	uint32_t next = 0;
	for (uint32_t at = core->volatiles.parked_requests.head; at != 0; at = next) {
		const struct sy_parked *p = sy_parked_at(core, at);
		next = p->link.next;
		if (p->until_ns > step->now_ns)
			continue;
		if (sy_step_room(step) == 0)
			return;
		struct sy_outcome outcome = {
			.op = p->op, .fault = SY_FAULT_BUSY, .busy = SY_BUSY_SPILLING};
		answer(step, at, &outcome);
	}
}

uint64_t sy_park_deadline(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	const char *items = (const char *)core + v->parked.at;
	uint64_t due_ns = UINT64_MAX;
	for (uint32_t at = v->parked_requests.head; at != 0;) {
		const struct sy_parked *p =
			(const void *)(items + (uint64_t)at * v->parked.item_bytes);
		due_ns = sy_min_u64(due_ns, p->until_ns);
		at = p->link.next;
	}
	return due_ns;
}
