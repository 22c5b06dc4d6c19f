#include "park.h"
#include "guard.h"
#include "region.h"
#include "tier.h"

#include <stddef.h>

static const uint32_t link_at = offsetof(struct sy_parked, link);

static bool space_is_made(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	return v->running_jobs.count > 0 || v->ending_sessions.count > 0 || v->loose_pins.count > 0;
}

bool sy_park_hopeful(const struct sy_core *core, bool ssd)
{
	return space_is_made(core) || core->volatiles.parked_requests.count > 0 ||
	       (ssd && sy_tier_makes_room(core));
}

static struct sy_chain *chain_of(struct sy_core *core, const struct sy_parked *parked)
{
	struct sy_volatile *v = &core->volatiles;
	return parked->op == SY_OP_RESOLVE_KEYS ? &v->parked_loads : &v->parked_requests;
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
	if (bytes > sy_region_largest_hole(core, SY_SPACE_SLAB))
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

/* The record of a request that waits: that of before, if it was redone, or a new one. 0: there is
 * none left, or the shell has no room for the message (handle 0). */
static uint32_t record_of(struct sy_call *call, uint64_t until_ns)
{
	struct sy_core *core = call->step->core;
	struct sy_volatile *v = &core->volatiles;
	uint32_t parked = call->session->slots[call->request->id.slot].waiting;
	if (call->request->redo)
		return parked;
	parked = call->request->message == 0 ? 0 : sy_pool_take(core, &v->parked);
	if (parked == 0)
		return 0;
	struct sy_parked *p = sy_parked_at(core, parked);
	p->session = call->session_index;
	p->slot = call->request->id.slot;
	p->seq = call->request->id.seq;
	p->until_ns = sy_min_u64(until_ns, call->step->now_ns + core->params.park_max_ns);
	p->op = (uint8_t)call->request->op;
	p->rooms = v->tier.rooms;
	sy_chain_append(core, &v->parked, link_at, chain_of(core, p), parked);
	return parked;
}

static enum sy_run hold(struct sy_call *call, uint32_t parked, uint64_t bytes)
{
	if (parked == 0)
		return sy_refuse_busy(call, SY_BUSY_QUEUE_FULL);
	struct sy_parked *p = sy_parked_at(call->step->core, parked);
	p->need_bytes = bytes;
	p->redoing = false;
	p->message = call->request->message;
	keep(call, &call->session->slots[call->request->id.slot], parked);
	return SY_RUN_WAIT;
}

enum sy_run sy_park_hold(struct sy_call *call, uint64_t bytes, uint64_t until_ns, bool ssd)
{
	uint32_t parked = record_of(call, until_ns);
	if (parked != 0)
		sy_parked_at(call->step->core, parked)->ssd = ssd;
	return hold(call, parked, bytes);
}

enum sy_run sy_park_hold_load(struct sy_call *call, uint32_t copy, uint64_t bytes)
{
	struct sy_core *core = call->step->core;
	uint32_t parked = record_of(call, UINT64_MAX);
	if (parked != 0) {
		struct sy_parked *p = sy_parked_at(core, parked);
		p->ssd = true;
		p->copy = copy;
		p->grant = copy != 0 ? sy_blob_at(core, copy)->grant : 0;
	}
	return hold(call, parked, bytes);
}

void sy_park_done(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	sy_chain_remove(core, &v->parked, link_at, chain_of(core, sy_parked_at(core, parked)), parked);
	sy_pool_give(core, &v->parked, parked);
	v->tier.changed = true;
}

void sy_park_forget(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	/* One being redone is on its way back already; the shell forgets it then. */
	if (sy_parked_at(core, parked)->redoing) {
		sy_park_done(core, parked);
		return;
	}
	sy_chain_remove(core, &v->parked, link_at, chain_of(core, sy_parked_at(core, parked)), parked);
	sy_chain_append(core, &v->parked, link_at, &v->dropped_requests, parked);
	v->tier.changed = true;
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
		.free = sy_region_free_bytes(step->core, SY_SPACE_SLAB),
		.hole = sy_region_largest_hole(step->core, SY_SPACE_SLAB),
	};
	answer(step, parked, &outcome);
}

bool sy_park_run(struct sy_step *step)
{
	struct sy_core *core = step->core;
	uint64_t hole = sy_region_largest_hole(core, SY_SPACE_SLAB);
	uint32_t next = 0;
	for (uint32_t at = core->volatiles.parked_requests.head; at != 0; at = next) {
		struct sy_parked *p = sy_parked_at(core, at);
		next = p->link.next;
		if (p->redoing)
			return true;
		if (sy_step_room(step) == 0)
			return false;
		if (p->need_bytes <= hole || (p->ssd && sy_tier_must_stage(core, p->need_bytes))) {
			count_pass(core, at);
			p->redoing = true;
			sy_step_emit(step, SY_EFFECT_REDO)->message = p->message;
			return true;
		}
		if (!space_is_made(core) && !(p->ssd && sy_tier_makes_room(core)))
			answer_full(step, at);
		else if (p->passed >= SY_PARK_PASS_MAX)
			return true;
	}
	return true;
}

/* May it be run again: is its copy read, or room for it? */
static bool load_may_go(struct sy_core *core, uint32_t at)
{
	const struct sy_parked *p = sy_parked_at(core, at);
	const struct sy_volatile *v = &core->volatiles;
	if (p->copy == 0)
		return p->need_bytes <= sy_region_largest_hole(core, SY_SPACE_SLAB) ||
		       p->need_bytes <= sy_region_largest_hole(core, SY_SPACE_STAGING) ||
		       (at == v->parked_loads.head && v->tier.lists[SY_TIER_IDLE].count > 0);
	const struct sy_blob *copy = sy_blob_at(core, p->copy);
	return copy->state != SY_BLOB_LOADING || copy->grant != p->grant ||
	       sy_tiered_at(core, p->copy)->ready;
}

bool sy_park_run_loads(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_volatile *v = &core->volatiles;
	if (!v->tier.changed)
		return true;
	for (uint32_t at = v->parked_loads.head; at != 0; at = sy_parked_at(core, at)->link.next) {
		struct sy_parked *p = sy_parked_at(core, at);
		if (p->redoing || !load_may_go(core, at))
			continue;
		if (sy_step_room(step) == 0)
			return false;
		p->redoing = true;
		sy_step_emit(step, SY_EFFECT_REDO)->message = p->message;
	}
	v->tier.changed = false;
	return true;
}

/* Slab and disk are full, and nothing came back all the time it waited for room: it would wait as
 * long for ever. */
static bool is_stuck(const struct sy_core *core, const struct sy_parked *p)
{
	return p->op == SY_OP_RESOLVE_KEYS && p->copy == 0 &&
	       p->rooms == core->volatiles.tier.rooms && sy_load_is_stuck(core, p->need_bytes);
}

static void expire(struct sy_step *step, const struct sy_chain *chain, enum sy_busy busy)
{
	struct sy_core *core = step->core;
	uint32_t next = 0;
	for (uint32_t at = chain->head; at != 0; at = next) {
		const struct sy_parked *p = sy_parked_at(core, at);
		next = p->link.next;
		if (p->until_ns > step->now_ns)
			continue;
		if (sy_step_room(step) == 0)
			return;
		struct sy_outcome outcome = {
			.op = p->op, .fault = SY_FAULT_BUSY, .busy = (uint8_t)busy};
		if (is_stuck(core, p))
			answer_full(step, at);
		else
			answer(step, at, &outcome);
	}
}

void sy_park_expire(struct sy_step *step)
{
	const struct sy_volatile *v = &step->core->volatiles;
	expire(step, &v->parked_requests, SY_BUSY_SPILLING);
	expire(step, &v->parked_loads, SY_BUSY_LOADING);
}

static uint64_t due(const struct sy_core *core, const struct sy_chain *chain)
{
	const struct sy_volatile *v = &core->volatiles;
	const char *items = (const char *)core + v->parked.at;
	uint64_t due_ns = UINT64_MAX;
	for (uint32_t at = chain->head; at != 0;) {
		const struct sy_parked *p =
			(const void *)(items + (uint64_t)at * v->parked.item_bytes);
		due_ns = sy_min_u64(due_ns, p->until_ns);
		at = p->link.next;
	}
	return due_ns;
}

uint64_t sy_park_deadline(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	return sy_min_u64(due(core, &v->parked_requests), due(core, &v->parked_loads));
}
