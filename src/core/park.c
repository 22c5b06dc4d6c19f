/* Who is parked: records, lists, heaps. */
#include "park.h"
#include "guard.h"
#include "region.h"
#include "tier.h"

#include <stddef.h>

static const uint32_t link_at = offsetof(struct sy_parked, link);
static const uint32_t queue_link_at = offsetof(struct sy_parked, queue_link);

bool sy_park_space_is_made(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	return v->running_jobs.count > 0 || v->ending_sessions.count > 0 || v->loose_pins.count > 0;
}

bool sy_park_hopeful(const struct sy_core *core, bool ssd)
{
	return sy_park_space_is_made(core) || core->volatiles.parked_requests.count > 0 ||
	       (ssd && sy_tier_makes_room(core));
}

static struct sy_chain *chain_of(struct sy_core *core, const struct sy_parked *parked)
{
	struct sy_volatile *v = &core->volatiles;
	return parked->op == SY_OP_RESOLVE_KEYS ? &v->parked_loads : &v->parked_requests;
}

static struct sy_chain *queue_of(struct sy_core *core, const struct sy_parked *parked)
{
	if (parked->queue < SY_PARK_QUEUES)
		return &core->volatiles.parked_queues[parked->queue];
	if (parked->queue == SY_PARK_COPY)
		return &sy_tiered_at(core, parked->copy)->waiting;
	return parked->queue == SY_PARK_WOKEN ? &core->volatiles.woken_loads : NULL;
}

static void leave_queue(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_parked *p = sy_parked_at(core, parked);
	if (p->queue == SY_PARK_NONE)
		return;
	sy_chain_remove(core, &v->parked, queue_link_at, queue_of(core, p), parked);
	if (p->queue < SY_PARK_QUEUES)
		sy_park_heap_remove(core, &v->parked_needs[p->queue], parked);
	p->queue = SY_PARK_NONE;
}

/* One that stands there already keeps its turn. */
static void enter_queue(struct sy_core *core, uint32_t parked, enum sy_park_queue queue,
                        uint64_t need_bytes)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_parked *p = sy_parked_at(core, parked);
	bool stays = p->queue == queue && queue < SY_PARK_QUEUES;
	if (stays)
		sy_park_heap_remove(core, &v->parked_needs[queue], parked);
	else
		leave_queue(core, parked);
	p->queue = (uint8_t)queue;
	p->need_bytes = need_bytes;
	if (queue < SY_PARK_QUEUES)
		sy_park_heap_add(core, &v->parked_needs[queue], parked);
	if (!stays && queue != SY_PARK_NONE)
		sy_chain_append(core, &v->parked, queue_link_at, queue_of(core, p), parked);
}

/* All that wait up to this one are passed once more; 0: none. */
static void count_pass(struct sy_core *core, uint32_t last)
{
	if (last == 0)
		return;
	core->volatiles.passed++;
	sy_parked_at(core, last)->passed_more += SY_MUTANT(71) ? 0 : 1;
}

void sy_park_let_by(struct sy_core *core, uint32_t parked)
{
	count_pass(core, sy_parked_at(core, parked)->link.prev);
}

bool sy_park_pass(struct sy_core *core, uint64_t bytes)
{
	const struct sy_volatile *v = &core->volatiles;
	if (v->parked_requests.head == 0)
		return true;
	if (bytes > sy_region_largest_hole(core, SY_SPACE_SLAB) || v->passed >= SY_PARK_PASS_MAX)
		return false;
	for (int i = SY_PARK_BYTES; i <= SY_PARK_TIER; i++) {
		uint32_t smallest = sy_park_heap_first(core, &v->parked_needs[i]);
		if (smallest != 0 && bytes >= sy_parked_at(core, smallest)->need_bytes)
			return false;
	}
	count_pass(core, v->parked_requests.tail);
	return true;
}

/* A new record of a request that waits; it stands in no queue yet. 0: there is none left, or the
 * shell has no room for the message (handle 0). */
static uint32_t record_new(struct sy_call *call, uint64_t until_ns)
{
	struct sy_core *core = call->step->core;
	struct sy_volatile *v = &core->volatiles;
	uint32_t parked = call->request->message == 0 ? 0 : sy_pool_take(core, &v->parked);
	if (parked == 0)
		return 0;
	struct sy_parked *p = sy_parked_at(core, parked);
	p->session = call->session_index;
	p->slot = call->request->id.slot;
	p->seq = call->request->id.seq;
	p->number = ++v->parked_number;
	p->until_ns = sy_min_u64(until_ns, call->step->now_ns + core->params.park_max_ns);
	p->op = (uint8_t)call->request->op;
	p->queue = SY_PARK_NONE;
	p->rooms = v->tier.rooms;
	sy_chain_append(core, &v->parked, link_at, chain_of(core, p), parked);
	sy_park_heap_add(core, &v->parked_times, parked);
	return parked;
}

/* A request that was redone has its record, and its place in the line, from before. */
static enum sy_run hold(struct sy_call *call, enum sy_park_queue queue, uint32_t copy,
                        uint64_t bytes, uint64_t until_ns)
{
	struct sy_core *core = call->step->core;
	struct sy_slot *slot = &call->session->slots[call->request->id.slot];
	uint32_t parked = call->request->redo ? slot->waiting : record_new(call, until_ns);
	if (parked == 0)
		return sy_refuse_busy(call, SY_BUSY_QUEUE_FULL);
	struct sy_parked *p = sy_parked_at(core, parked);
	if (core->volatiles.redoing_request == parked)
		core->volatiles.redoing_request = 0;
	p->copy = copy;
	enter_queue(core, parked, queue, bytes);
	p->redoing = false;
	p->message = call->request->message;
	slot->state = SY_SLOT_WAITING;
	slot->waiting = parked;
	sy_step_emit(call->step, SY_EFFECT_KEEP)->message = p->message;
	return SY_RUN_WAIT;
}

enum sy_run sy_park_hold(struct sy_call *call, uint64_t bytes, uint64_t until_ns, bool ssd)
{
	return hold(call, ssd ? SY_PARK_TIER : SY_PARK_BYTES, 0, bytes, until_ns);
}

enum sy_run sy_park_hold_load(struct sy_call *call, uint32_t copy, uint64_t bytes)
{
	struct sy_core *core = call->step->core;
	uint32_t parked = call->session->slots[call->request->id.slot].waiting;
	/* It took of the room, or wants other: another may have its turn. */
	if (call->request->redo &&
	    (copy != 0 || sy_parked_at(core, parked)->need_bytes != bytes))
		core->volatiles.tier.changed = true;
	return hold(call, copy != 0 ? SY_PARK_COPY : SY_PARK_ROOM, copy, bytes, UINT64_MAX);
}

void sy_park_wake(struct sy_core *core, uint32_t copy)
{
	const struct sy_chain *waiting = &sy_tiered_at(core, copy)->waiting;
	while (waiting->head != 0)
		enter_queue(core, waiting->head, SY_PARK_WOKEN, 0);
}

void sy_park_take(struct sy_core *core, uint32_t parked)
{
	leave_queue(core, parked);
}

/* Out of all lists and heaps. How often those in front of it were passed stays as it is. */
static void leave(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_parked *p = sy_parked_at(core, parked);
	if (p->link.prev != 0)
		sy_parked_at(core, p->link.prev)->passed_more += p->passed_more;
	else
		v->passed -= p->passed_more;
	p->passed_more = 0;
	if (v->redoing_request == parked)
		v->redoing_request = 0;
	leave_queue(core, parked);
	sy_park_heap_remove(core, &v->parked_times, parked);
	sy_chain_remove(core, &v->parked, link_at, chain_of(core, p), parked);
	v->tier.changed = true;
}

void sy_park_done(struct sy_core *core, uint32_t parked)
{
	leave(core, parked);
	sy_pool_give(core, &core->volatiles.parked, parked);
}

void sy_park_forget(struct sy_core *core, uint32_t parked)
{
	struct sy_volatile *v = &core->volatiles;
	/* One being redone is on its way back already; the shell forgets it then. */
	if (sy_parked_at(core, parked)->redoing) {
		sy_park_done(core, parked);
		return;
	}
	leave(core, parked);
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

void sy_park_reset(struct sy_core *core)
{
	struct sy_volatile *v = &core->volatiles;
	v->parked_requests = v->parked_loads = v->woken_loads = v->dropped_requests =
		(struct sy_chain){0};
	for (int i = 0; i < SY_PARK_QUEUES; i++) {
		v->parked_queues[i] = (struct sy_chain){0};
		v->parked_needs[i].count = 0;
	}
	v->parked_times.count = 0;
	v->passed = v->redoing_request = 0;
}
