/* The audit of what is volatile: who owns reservations, pins and their references, parked requests
 * and jobs (I6, I7). */
#include "audit.h"

#include "job.h"
#include "park.h"
#include "pin.h"
#include "reserve.h"
#include "tier.h"

#include <stddef.h>

bool sy_audit_chain(struct sy_core *core, const struct sy_pool *pool, size_t link_at,
                    const struct sy_chain *chain)
{
	uint32_t prev = 0, count = 0;
	for (uint32_t i = chain->head; i != 0; count++) {
		if (i > pool->touched || count >= chain->count)
			return false;
		const char *item = sy_pool_at(core, pool, i);
		struct sy_link link;
		memcpy(&link, item + link_at, sizeof link);
		if (link.prev != prev)
			return false;
		prev = i;
		i = link.next;
	}
	return count == chain->count && chain->tail == prev;
}

static const char *chains_fault(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	const struct {
		const struct sy_pool *pool;
		size_t link_at;
		const struct sy_chain *chain;
	} chains[] = {
		{ &v->sessions, offsetof(struct sy_session, order_link), &v->remote_sessions },
		{ &v->sessions, offsetof(struct sy_session, end_link), &v->ending_sessions },
		{ &v->pins, offsetof(struct sy_pin, expiry_link), &v->expiring_pins },
		{ &v->pins, offsetof(struct sy_pin, expiry_link), &v->loose_pins },
		{ &core->tables.blobs, offsetof(struct sy_blob, timer_link), &v->graced_blobs },
		{ &core->tables.blobs, offsetof(struct sy_blob, timer_link), &v->quarantined_blobs },
		{ &v->jobs, offsetof(struct sy_job, link), &v->running_jobs },
	};
	for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
		if (!sy_audit_chain(core, chains[i].pool, chains[i].link_at, chains[i].chain))
			return "the links of a list do not agree";
	}
	return v->running_jobs.count == v->jobs.used ? NULL : "a job is in no list";
}

/* Timers are in order, and those in a list are the ones in the state it is for. */
static bool timers_right(struct sy_core *core, const struct sy_chain *chain,
                         enum sy_blob_state state)
{
	uint64_t last_ns = 0;
	for (uint32_t i = chain->head; i != 0; i = sy_blob_at(core, i)->timer_link.next) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state != state || blob->timer_ns < last_ns)
			return false;
		last_ns = blob->timer_ns;
	}
	return true;
}

static uint32_t blobs_in(struct sy_core *core, enum sy_blob_state state)
{
	uint32_t count = 0;
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++)
		count += sy_blob_at(core, i)->state == state;
	return count;
}

static const char *reservations_fault(struct sy_core *core, const struct sy_session *session,
                                      uint32_t *count, uint64_t *granted_bytes)
{
	if (!sy_audit_chain(core, &core->tables.blobs, offsetof(struct sy_blob, session_link),
	                    &session->blobs))
		return "the links of a session's reservations do not agree";
	for (uint32_t i = session->blobs.head; i != 0;) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state != SY_BLOB_ALLOCATED && blob->state != SY_BLOB_RETIRED
		    && blob->state != SY_BLOB_COMMITTING)
			return "a session holds a blob that is no reservation";
		if (blob->name.session != session->number || sy_reserve_find(core, blob->name) != i)
			return "a reservation has another session's name, or is not found by it";
		*granted_bytes += sy_blob_is_grant(blob) ? blob->nbytes : 0;
		i = blob->session_link.next;
	}
	*count += session->blobs.count;
	return NULL;
}

static const char *pin_fault(struct sy_core *core, uint32_t index)
{
	const struct sy_pin *pin = sy_pin_at(core, index);
	uint32_t count = 0;
	for (uint32_t i = pin->ref_head; i != 0; count++) {
		const struct sy_pin_ref *ref = sy_pool_at(core, &core->volatiles.pin_refs, i);
		if (i > core->volatiles.pin_refs.touched || count >= pin->ref_count)
			return "a pin's list of references is too long";
		if (ref->blob == 0 || sy_blob_at(core, ref->blob)->state == SY_BLOB_FREE)
			return "a pin holds a blob that is free";
		i = ref->next;
	}
	if (count != pin->ref_count)
		return "a pin's count of references is wrong";
	return sy_pin_find(core, pin->name) == index ? NULL : "a pin is not found by its name";
}

static const char *pins_fault(struct sy_core *core, uint32_t session_index, uint32_t *pin_count,
                              uint32_t *ref_count)
{
	const struct sy_session *session = sy_session_at(core, session_index);
	const char *fault = NULL;
	if (!sy_audit_chain(core, &core->volatiles.pins, offsetof(struct sy_pin, session_link),
	                    &session->pins))
		return "the links of a session's pins do not agree";
	for (uint32_t i = session->pins.head; i != 0 && fault == NULL;) {
		const struct sy_pin *pin = sy_pin_at(core, i);
		if (pin->session != session_index || pin->name.session != session->number)
			return "a pin stands with another session";
		fault = pin_fault(core, i);
		*ref_count += pin->ref_count;
		i = pin->session_link.next;
	}
	*pin_count += session->pins.count;
	return fault;
}

static const char *slots_fault(struct sy_core *core, uint32_t session_index)
{
	const struct sy_session *session = sy_session_at(core, session_index);
	for (uint32_t i = 0; i < SY_SLOT_COUNT; i++) {
		const struct sy_slot *slot = &session->slots[i];
		if (slot->state != SY_SLOT_WAITING)
			continue;
		uint32_t of_session, of_slot;
		uint64_t seq;
		if (slot->outcome.op == SY_OP_RELEASE_ROWS) {
			const struct sy_job *job = sy_job_at(core, slot->waiting);
			of_session = job->session;
			of_slot = job->slot;
			seq = job->seq;
		} else {
			const struct sy_parked *parked = sy_parked_at(core, slot->waiting);
			of_session = parked->session;
			of_slot = parked->slot;
			seq = parked->seq;
		}
		if (slot->waiting == 0 || of_session != session_index || of_slot != i || seq != slot->seq)
			return "a slot waits for what does not know it";
	}
	return NULL;
}

static const char *sessions_fault(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	uint32_t sessions = 0, reservations = 0, pins = 0, refs = 0;
	uint64_t granted_bytes = 0;
	const char *fault = NULL;
	for (uint32_t i = 1; i <= v->sessions.touched && fault == NULL; i++) {
		const struct sy_session *session = sy_session_at(core, i);
		if (session->state == SY_SESSION_FREE)
			continue;
		sessions++;
		if (sy_session_find(core, session->number) != i)
			return "a session is not found by its number";
		fault = reservations_fault(core, session, &reservations, &granted_bytes);
		if (fault == NULL)
			fault = pins_fault(core, i, &pins, &refs);
		if (fault == NULL)
			fault = slots_fault(core, i);
	}
	if (fault != NULL)
		return fault;
	if (sessions != v->sessions.used)
		return "sessions in use are not as many as the pool says";
	if (reservations != v->reservation_count || reservations
	    != blobs_in(core, SY_BLOB_ALLOCATED) + blobs_in(core, SY_BLOB_RETIRED)
	       + blobs_in(core, SY_BLOB_COMMITTING))
		return "a reservation belongs to no session";
	if (granted_bytes != v->granted_bytes)
		return "the bytes of grants are wrong";
	if (pins != v->pins.used || refs != v->pin_refs.used)
		return "a pin or a reference of one belongs to nobody";
	return NULL;
}

/* Takes every reference off its blob's count, or puts it back. */
static void add_pins(struct sy_core *core, uint32_t amount)
{
	const struct sy_volatile *v = &core->volatiles;
	for (uint32_t i = 1; i <= v->pins.touched; i++) {
		const struct sy_pin *pin = sy_pin_at(core, i);
		if (pin->session == 0)
			continue;
		for (uint32_t r = pin->ref_head; r != 0;) {
			const struct sy_pin_ref *ref = sy_pool_at(core, &v->pin_refs, r);
			sy_blob_at(core, ref->blob)->pin_count += amount;
			r = ref->next;
		}
	}
}

static const char *pin_counts_fault(struct sy_core *core)
{
	const char *fault = NULL;
	add_pins(core, UINT32_MAX);
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state != SY_BLOB_FREE && blob->pin_count != 0)
			fault = "a blob's count of pins is wrong";
	}
	add_pins(core, 1);
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state == SY_BLOB_RELEASED && blob->pin_count == 0 && blob->io_count == 0)
			fault = "a released blob that nothing holds is not free";
	}
	return fault;
}

static const char *volatile_pools_fault(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	const struct sy_pool *pools[] = { &v->sessions, &v->pins, &v->pin_refs, &v->parked, &v->jobs };
	const char *fault = NULL;
	for (size_t i = 0; i < sizeof pools / sizeof pools[0] && fault == NULL; i++)
		fault = sy_audit_pool(core, pools[i]);
	return fault;
}

const char *sy_core_audit(struct sy_core *core)
{
	const struct sy_volatile *v = &core->volatiles;
	const char *fault = sy_tables_audit(core);
	if (fault == NULL)
		fault = volatile_pools_fault(core);
	if (fault == NULL)
		fault = chains_fault(core);
	if (fault == NULL)
		fault = sy_park_fault(core);
	if (fault == NULL)
		fault = sessions_fault(core);
	if (fault == NULL)
		fault = pin_counts_fault(core);
	if (fault == NULL)
		fault = sy_tier_fault(core);
	if (fault != NULL)
		return fault;
	if (!timers_right(core, &v->graced_blobs, SY_BLOB_RETIRED)
	    || !timers_right(core, &v->quarantined_blobs, SY_BLOB_QUARANTINED)
	    || v->quarantined_blobs.count != blobs_in(core, SY_BLOB_QUARANTINED))
		return "a list of timers is out of order, or has what does not belong there";
	return NULL;
}
