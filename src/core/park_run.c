/* Whose turn it is: what a step does for those that are parked. */
#include "park.h"
#include "guard.h"
#include "region.h"
#include "tier.h"

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

static void redo(struct sy_step *step, uint32_t parked)
{
	struct sy_parked *p = sy_parked_at(step->core, parked);
	p->redoing = true;
	sy_step_emit(step, SY_EFFECT_REDO)->message = p->message;
}

static bool fits(struct sy_core *core, uint32_t parked)
{
	const struct sy_parked *p = sy_parked_at(core, parked);
	return p->need_bytes <= sy_region_largest_hole(core, SY_SPACE_SLAB) ||
	       (p->queue == SY_PARK_TIER && sy_tier_must_stage(core, p->need_bytes));
}

/* The put that may go now: the first, or else a smaller one, if the first may be passed; or 0. */
static uint32_t next_to_go(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	if (fits(core, v->parked_requests.head))
		return v->parked_requests.head;
	for (int i = SY_PARK_BYTES; i <= SY_PARK_TIER && v->passed < SY_PARK_PASS_MAX; i++) {
		uint32_t smallest = sy_park_heap_first(core, &v->parked_needs[i]);
		if (smallest != 0 && fits(core, smallest))
			return smallest;
	}
	return 0;
}

/* The first one for which no space is being made, or 0. */
static uint32_t first_hopeless(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	if (sy_park_space_is_made(core))
		return 0;
	if (sy_tier_makes_room(core))
		return v->parked_queues[SY_PARK_BYTES].head;
	return v->parked_requests.head;
}

bool sy_park_run(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_volatile *v = &core->volatiles;
	while (v->parked_requests.head != 0 && v->redoing_request == 0) {
		uint32_t next = next_to_go(core), hopeless = first_hopeless(core);
		if (next == 0 && hopeless == 0)
			return true;
		if (sy_step_room(step) == 0)
			return false;
		/* One that fits is not told that there is no room, whoever goes before it. */
		if (hopeless != 0 && hopeless != next && !fits(core, hopeless)) {
			answer_full(step, hopeless);
		} else if (next != 0) {
			sy_park_let_by(core, next);
			v->redoing_request = next;
			redo(step, next);
		} else {
			return true;
		}
	}
	return true;
}

/* May this resolve, which waits for room, be run again? The first of all may take that of copies
 * which others have not come for yet. */
static bool may_load(struct sy_core *core, uint32_t parked)
{
	const struct sy_volatile *v = &core->volatiles;
	const struct sy_parked *p = parked != 0 ? sy_parked_at(core, parked) : NULL;
	if (p == NULL || p->queue != SY_PARK_ROOM || p->redoing)
		return false;
	return p->need_bytes <= sy_region_largest_hole(core, SY_SPACE_SLAB) ||
	       p->need_bytes <= sy_region_largest_hole(core, SY_SPACE_STAGING) ||
	       (parked == v->parked_loads.head && v->tier.lists[SY_TIER_IDLE].count > 0);
}

/* Of those that wait for room the first of all, the first of them and the one that needs least:
 * whoever of them gets room lets the others have their turn. */
bool sy_park_run_loads(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_volatile *v = &core->volatiles;
	while (v->woken_loads.head != 0) {
		uint32_t woken = v->woken_loads.head;
		if (sy_step_room(step) == 0)
			return false;
		sy_park_take(core, woken);
		redo(step, woken);
	}
	const uint32_t next[] = {v->parked_loads.head, v->parked_queues[SY_PARK_ROOM].head,
	                         sy_park_heap_first(core, &v->parked_needs[SY_PARK_ROOM])};
	for (size_t i = 0; v->tier.changed && i < sizeof next / sizeof next[0]; i++) {
		if (!may_load(core, next[i]))
			continue;
		if (sy_step_room(step) == 0)
			return false;
		redo(step, next[i]);
	}
	v->tier.changed = false;
	return true;
}

/* Slab and disk are full, and nothing came back all the time it waited for room: it would wait as
 * long for ever. */
static bool is_stuck(const struct sy_core *core, const struct sy_parked *p)
{
	return p->queue == SY_PARK_ROOM && p->rooms == core->volatiles.tier.rooms &&
	       sy_load_is_stuck(core, p->need_bytes);
}

void sy_park_expire(struct sy_step *step)
{
	struct sy_core *core = step->core;
	const struct sy_park_heap *times = &core->volatiles.parked_times;
	while (times->count > 0 && sy_step_room(step) > 0) {
		uint32_t parked = sy_park_heap_first(core, times);
		const struct sy_parked *p = sy_parked_at(core, parked);
		enum sy_busy busy = p->op == SY_OP_RESOLVE_KEYS ? SY_BUSY_LOADING : SY_BUSY_SPILLING;
		struct sy_outcome outcome = {
			.op = p->op, .fault = SY_FAULT_BUSY, .busy = (uint8_t)busy};
		if (p->until_ns > step->now_ns)
			return;
		if (is_stuck(core, p))
			answer_full(step, parked);
		else
			answer(step, parked, &outcome);
	}
}

uint64_t sy_park_deadline(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	uint32_t first = sy_park_heap_first(core, &v->parked_times);
	const struct sy_parked *items = (const void *)((const char *)core + v->parked.at);
	return first != 0 ? items[first].until_ns : UINT64_MAX;
}
