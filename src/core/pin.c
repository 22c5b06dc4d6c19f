#include "pin.h"
#include "blob.h"
#include "guard.h"
#include "layout.h"
#include "tier_list.h"

#include <stddef.h>

static const uint32_t session_link_at = offsetof(struct sy_pin, session_link);
static const uint32_t expiry_link_at = offsetof(struct sy_pin, expiry_link);

static uint32_t *name_bucket(struct sy_core *core, struct sy_request_id name)
{
	struct sy_volatile *v = &core->volatiles;
	uint64_t hash = sy_mix64(name.session + sy_mix64(name.seq ^ core->tables.hash_secret) +
	                         name.slot);
	return sy_bucket_at(core, v->pin_name_buckets_at,
	                    sy_range32((uint32_t)(hash >> 32), v->pin_bucket_count));
}

static struct sy_pin_ref *ref_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.pin_refs, index);
}

uint32_t sy_pin_new(struct sy_core *core, uint32_t session, struct sy_request_id name,
                    uint64_t now_ns)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_session *s = sy_session_at(core, session);
	uint32_t pin = sy_pool_take(core, &v->pins);
	if (pin == 0)
		return 0;
	struct sy_pin *p = sy_pin_at(core, pin);
	uint32_t *bucket = name_bucket(core, name);
	p->session = session;
	p->name = name;
	p->name_next = *bucket;
	*bucket = pin;
	sy_chain_append(core, &v->pins, session_link_at, &s->pins, pin);
	if (!s->local) {
		p->expires_ns = now_ns + core->params.read_pin_ns;
		sy_chain_append(core, &v->pins, expiry_link_at, &v->expiring_pins, pin);
	}
	return pin;
}

bool sy_pin_take(struct sy_core *core, uint32_t pin, uint32_t blob)
{
	struct sy_pin *p = sy_pin_at(core, pin);
	struct sy_blob *b = sy_blob_at(core, blob);
	if (b->pin_mark == pin || (SY_MUTANT(29) && blob % 2 == 1))
		return true;
	uint32_t ref = sy_pool_take(core, &core->volatiles.pin_refs);
	if (ref == 0)
		return false;
	ref_at(core, ref)->blob = blob;
	ref_at(core, ref)->next = p->ref_head;
	p->ref_head = ref;
	p->ref_count++;
	b->pin_mark = pin;
	b->pin_count++;
	sy_tier_place(core, blob);
	return true;
}

uint32_t sy_pin_find(struct sy_core *core, struct sy_request_id name)
{
	uint32_t at = *name_bucket(core, name);
	while (at != 0 && !sy_request_id_equal(sy_pin_at(core, at)->name, name))
		at = sy_pin_at(core, at)->name_next;
	return at;
}

static void give_ref(struct sy_core *core, uint32_t pin, uint32_t ref, bool expired,
                     uint64_t now_ns)
{
	uint32_t blob = ref_at(core, ref)->blob;
	struct sy_blob *b = sy_blob_at(core, blob);
	sy_pool_give(core, &core->volatiles.pin_refs, ref);
	/* The mark is this pin's index, which the next pin may get. */
	if (b->pin_mark == pin)
		b->pin_mark = 0;
	b->pin_count = SY_MUTANT(1) ? 0 : b->pin_count - 1;
	if (expired)
		b->quarantine_until_ns = sy_max_u64(b->quarantine_until_ns,
		                                    now_ns + core->params.read_pin_ns);
	sy_tier_place(core, blob);
	sy_blob_settle(core, blob, now_ns);
}

void sy_pin_drop(struct sy_core *core, uint32_t pin, bool expired, uint64_t now_ns)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_pin *p = sy_pin_at(core, pin);
	uint32_t *at = name_bucket(core, p->name);
	while (*at != pin) {
		SY_ASSERT(*at != 0);
		at = &sy_pin_at(core, *at)->name_next;
	}
	*at = p->name_next;
	for (uint32_t ref = p->ref_head; ref != 0;) {
		uint32_t next = ref_at(core, ref)->next;
		give_ref(core, pin, ref, expired, now_ns);
		ref = next;
	}
	uint32_t session = p->session;
	sy_chain_remove(core, &v->pins, session_link_at, &sy_session_at(core, session)->pins, pin);
	if (p->loose)
		sy_chain_remove(core, &v->pins, expiry_link_at, &v->loose_pins, pin);
	else if (p->expires_ns != 0)
		sy_chain_remove(core, &v->pins, expiry_link_at, &v->expiring_pins, pin);
	sy_pool_give(core, &v->pins, pin);
	sy_session_settle(core, session);
}

void sy_pin_loosen(struct sy_core *core, uint32_t pin)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_pin *p = sy_pin_at(core, pin);
	if (p->loose)
		return;
	if (p->expires_ns != 0)
		sy_chain_remove(core, &v->pins, expiry_link_at, &v->expiring_pins, pin);
	p->loose = true;
	p->expires_ns = 0;
	sy_chain_append(core, &v->pins, expiry_link_at, &v->loose_pins, pin);
}

void sy_pin_work(struct sy_core *core, uint64_t now_ns, uint32_t *budget)
{
	const struct sy_chain *loose = &core->volatiles.loose_pins;
	while (*budget > 0 && loose->head != 0) {
		const struct sy_pin *p = sy_pin_at(core, loose->head);
		*budget -= p->ref_count < *budget ? p->ref_count + 1 : *budget;
		sy_pin_drop(core, loose->head, false, now_ns);
	}
}

void sy_pin_expire(struct sy_core *core, uint64_t now_ns, uint32_t budget)
{
	const struct sy_chain *expiring = &core->volatiles.expiring_pins;
	while (budget > 0 && expiring->head != 0) {
		const struct sy_pin *p = sy_pin_at(core, expiring->head);
		if (p->expires_ns > now_ns)
			break;
		budget -= p->ref_count < budget ? p->ref_count + 1 : budget;
		sy_pin_drop(core, expiring->head, true, now_ns);
	}
}
