#include "timers.h"
#include "blob.h"
#include "park.h"
#include "pin.h"
#include "reserve.h"
#include "tier.h"

#include <stddef.h>

/* Things done in one step. */
enum { TIMER_BUDGET = 64, PIN_BUDGET = 1024 };

static uint64_t lease_end(const struct sy_core *core, const struct sy_session *s)
{
	return s->heard_ns + core->params.session_expire_ns;
}

static void expire_sessions(struct sy_step *step)
{
	struct sy_core *core = step->core;
	const struct sy_chain *remote = &core->volatiles.remote_sessions;
	for (int i = 0; i < TIMER_BUDGET && remote->head != 0; i++) {
		if (lease_end(core, sy_session_at(core, remote->head)) > step->now_ns)
			break;
		sy_session_end(core, remote->head, SY_END_EXPIRED);
	}
}

static void expire_quarantine(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_chain *waiting = &core->volatiles.quarantined_blobs;
	for (int i = 0; i < TIMER_BUDGET && waiting->head != 0; i++) {
		uint32_t blob = waiting->head;
		if (sy_blob_at(core, blob)->timer_ns > step->now_ns)
			break;
		sy_chain_remove(core, &core->tables.blobs, offsetof(struct sy_blob, timer_link),
		                waiting, blob);
		sy_blob_move(core, blob, SY_BLOB_FREE);
	}
}

void sy_timers_run(struct sy_step *step)
{
	expire_sessions(step);
	sy_pin_expire(step->core, step->now_ns, PIN_BUDGET);
	sy_reserve_expire(step->core, step->now_ns, TIMER_BUDGET);
	expire_quarantine(step);
	sy_tier_expire(step);
	sy_park_expire(step);
}

void sy_timers_stalled(struct sy_core *core, uint64_t gap_ns, uint64_t now_ns)
{
	uint32_t at = core->volatiles.remote_sessions.head;
	while (at != 0) {
		struct sy_session *s = sy_session_at(core, at);
		/* Not beyond now, which keeps the list in order. */
		s->heard_ns = gap_ns < now_ns - s->heard_ns ? s->heard_ns + gap_ns : now_ns;
		at = s->order_link.next;
	}
}

/* Item `index` of a pool, of a core that is only read. */
static const void *item(const struct sy_core *core, const struct sy_pool *pool, uint32_t index)
{
	return (const char *)core + pool->at + (uint64_t)index * pool->item_bytes;
}

static uint64_t blob_due(const struct sy_core *core, const struct sy_chain *chain)
{
	if (chain->head == 0)
		return UINT64_MAX;
	return ((const struct sy_blob *)item(core, &core->tables.blobs, chain->head))->timer_ns;
}

uint64_t sy_core_deadline(const struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	uint64_t due_ns = sy_min_u64(sy_park_deadline(core), sy_tier_deadline(core));
	if (v->remote_sessions.head != 0)
		due_ns = sy_min_u64(due_ns, lease_end(core, item(core, &v->sessions,
		                                                 v->remote_sessions.head)));
	if (v->expiring_pins.head != 0) {
		const struct sy_pin *pin = item(core, &v->pins, v->expiring_pins.head);
		due_ns = sy_min_u64(due_ns, pin->expires_ns);
	}
	due_ns = sy_min_u64(due_ns, blob_due(core, &v->graced_blobs));
	return sy_min_u64(due_ns, blob_due(core, &v->quarantined_blobs));
}
