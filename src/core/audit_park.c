/* The audit of parked requests: every one is in one line, one queue and its heaps, and none waits
 * for what is there. */
#include "audit.h"

#include "park.h"
#include "tier.h"

#include <stddef.h>

static const size_t queue_link_at = offsetof(struct sy_parked, queue_link);

static const char *lists_fault(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	const struct sy_chain *lines[] = {&v->parked_requests, &v->parked_loads,
	                                  &v->dropped_requests};
	uint32_t count = 0, queued = v->parked_queues[SY_PARK_BYTES].count;
	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		if (!sy_audit_chain(core, &v->parked, offsetof(struct sy_parked, link), lines[i]))
			return "the links of a list of parked requests do not agree";
		count += lines[i]->count;
	}
	for (int i = 0; i < SY_PARK_QUEUES; i++) {
		const struct sy_chain *queue = &v->parked_queues[i];
		if (!sy_audit_chain(core, &v->parked, queue_link_at, queue) ||
		    !sy_park_heap_right(core, &v->parked_needs[i]) ||
		    queue->count != v->parked_needs[i].count)
			return "a queue of parked requests is out of order";
	}
	queued += v->parked_queues[SY_PARK_TIER].count;
	if (!sy_audit_chain(core, &v->parked, queue_link_at, &v->woken_loads))
		return "the links of woken resolves do not agree";
	if (count != v->parked.used || queued != v->parked_requests.count)
		return "a parked request is in no list";
	if (!sy_park_heap_right(core, &v->parked_times) ||
	    v->parked_times.count != v->parked_requests.count + v->parked_loads.count)
		return "the deadlines of parked requests are out of order";
	return NULL;
}

/* Those in front were passed at least as often, the first as often as is said of all. */
static const char *puts_fault(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	uint64_t number = 0, passed = 0;
	bool redoing = v->redoing_request == 0;
	for (uint32_t at = v->parked_requests.head; at != 0;) {
		const struct sy_parked *p = sy_parked_at(core, at);
		if (p->number <= number || p->queue > SY_PARK_TIER)
			return "parked requests are out of order";
		if (p->redoing != (at == v->redoing_request))
			return "another parked request is redone than is known";
		redoing = redoing || p->redoing;
		number = p->number;
		passed += p->passed_more;
		at = p->link.next;
	}
	if (passed != v->passed || !redoing)
		return "how often parked requests were passed is wrong";
	return NULL;
}

/* What the resolves in line wait for, counted; `counts` has a place for each queue. */
static const char *loads_fault(struct sy_core *core, uint32_t *counts)
{
	for (uint32_t at = core->volatiles.parked_loads.head; at != 0;) {
		const struct sy_parked *p = sy_parked_at(core, at);
		if (p->queue < SY_PARK_ROOM || p->queue > SY_PARK_NONE)
			return "a parked resolve waits for what it cannot";
		counts[p->queue]++;
		if (p->queue == SY_PARK_NONE && !p->redoing)
			return "a parked resolve waits for nothing";
		if (p->queue == SY_PARK_COPY) {
			const struct sy_blob *copy = sy_blob_at(core, p->copy);
			if (copy->state != SY_BLOB_LOADING || sy_tiered_at(core, p->copy)->ready)
				return "a resolve waits for a copy that is read or gone";
		}
		at = p->link.next;
	}
	return NULL;
}

const char *sy_park_fault(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	uint32_t counts[SY_PARK_NONE + 1] = {0}, waiting = 0;
	const char *fault = lists_fault(core);
	if (fault == NULL)
		fault = puts_fault(core);
	if (fault == NULL)
		fault = loads_fault(core, counts);
	if (fault != NULL)
		return fault;
	for (uint32_t i = 1; sy_tier_is_on(core) && i <= core->tables.blobs.touched; i++) {
		const struct sy_chain *chain = &sy_tiered_at(core, i)->waiting;
		if (!sy_audit_chain(core, &v->parked, queue_link_at, chain))
			return "the links of those that wait for a copy do not agree";
		waiting += chain->count;
	}
	if (counts[SY_PARK_COPY] != waiting || counts[SY_PARK_WOKEN] != v->woken_loads.count ||
	    counts[SY_PARK_ROOM] != v->parked_queues[SY_PARK_ROOM].count)
		return "a parked resolve is in no queue";
	return NULL;
}
