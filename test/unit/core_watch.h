/* A world of clients around one core, for random tests: what the core promises, watched from
 * outside. No region is handed out that a reader or a writer may still touch, and a kept message
 * comes to one end. */
#ifndef SY_CORE_WATCH_H
#define SY_CORE_WATCH_H

#include "core_driver.h"

#include "prng.h"
#include "session.h"

enum {
	SLAB = 64 * 1024, CLIENTS = 6, SLOTS = 4, RECORDS = 48, HOLDS = 4096, KEPT = 64,
	NOTICES = 256, STEPS = 4000
};

/* A message as a client made it; it may be sent again, much later. */
struct record {
	struct sy_event event;
	struct test_index index;
	uint64_t rows[16];
	uint8_t held[4];
	struct sy_request_id names[4];
};

/* Memory that a reader or writer may touch. */
struct hold {
	struct sy_request_id name;
	uint64_t offset, nbytes, until_ns;
	uint64_t carrier, number; /* the notice that ends it, once there is one */
	uint32_t client;
	bool used, is_pin;
};

struct actor {
	struct client c;
	uint64_t seq[SLOTS];
	struct sy_notice notices[NOTICES];
	uint64_t notice_count; /* of this session */
	uint64_t blob;         /* its last alloc */
	struct sy_outcome region;
	struct sy_request_id name, pin;
};

struct world {
	struct driver *d;
	struct sy_prng prng;
	struct actor actors[CLIENTS];
	struct record *records;
	uint32_t record_count;
	struct hold holds[HOLDS];
	struct {
		uint64_t message;
		struct record *record;
	} kept[KEPT];
	uint64_t kept_count, next_message, next_random, next_token, next_blob, generation;
	uint64_t fences[256];
	uint32_t fence_count;
	struct record *redo[KEPT]; /* oldest first */
	uint32_t redo_count;
	uint64_t counts[16]; /* what happened, by fault and by effect */
};

static inline uint64_t below(struct world *w, uint64_t bound)
{
	return sy_prng_below(&w->prng, bound);
}

static inline struct hold *hold_new(struct world *w, uint32_t client, struct sy_request_id name,
                             uint64_t offset, uint64_t nbytes)
{
	for (uint32_t i = 0; i < HOLDS; i++) {
		struct hold *h = &w->holds[i];
		if (h->used)
			continue;
		*h = (struct hold){.used = true, .client = client, .name = name, .offset = offset,
		                   .nbytes = nbytes, .until_ns = UINT64_MAX};
		return h;
	}
	fail_msg("too many holds");
	return NULL;
}

static inline void assert_untouched(struct world *w, uint64_t offset, uint64_t nbytes)
{
	assert_true(offset % 64 == 0 && offset + nbytes <= SLAB);
	for (uint32_t i = 0; i < HOLDS; i++) {
		const struct hold *h = &w->holds[i];
		bool overlaps = offset < h->offset + h->nbytes && h->offset < offset + nbytes;
		if (h->used && overlaps && w->d->now_ns < h->until_ns)
			fail_msg("region %llu+%llu: %llu+%llu of client %u, slot %u, seq %llu is %s",
			         (unsigned long long)offset, (unsigned long long)nbytes,
			         (unsigned long long)h->offset, (unsigned long long)h->nbytes,
			         h->client, h->name.slot, (unsigned long long)h->name.seq,
			         h->is_pin ? "pinned" : "reserved");
	}
}

static inline void drop_holds(struct world *w, uint32_t client)
{
	for (uint32_t i = 0; i < HOLDS; i++) {
		if (w->holds[i].used && w->holds[i].client == client)
			w->holds[i].used = false;
	}
}

/* Notices of a session that were executed; that of an ended one, and its record with it, may be
 * gone by now, but then the step answered NoSession and said so. */
static inline uint64_t notices_done(struct world *w, uint64_t number)
{
	const struct driver *d = w->d;
	uint32_t session = sy_session_find(d->core, number);
	if (session != 0)
		return sy_session_at(d->core, session)->notices_done;
	for (uint32_t i = 0; i < d->fx.count; i++) {
		if (d->fx.items[i].kind == SY_EFFECT_REPLY && d->fx.items[i].id.session == number)
			return d->fx.items[i].notices_done;
	}
	return 0;
}

/* Holds whose time is over, or whose notice was executed. */
static inline void look_at_holds(struct world *w)
{
	for (uint32_t i = 0; i < HOLDS; i++) {
		struct hold *h = &w->holds[i];
		if (!h->used)
			continue;
		if (w->d->now_ns >= h->until_ns ||
		    (h->number != 0 && notices_done(w, h->carrier) >= h->number))
			h->used = false;
	}
}

static inline uint32_t client_of(struct world *w, uint64_t session)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (w->actors[i].c.session == session)
			return i;
	}
	return CLIENTS;
}

static inline void on_region(struct world *w, const struct sy_effect *effect)
{
	uint32_t client = client_of(w, effect->id.session);
	if (effect->outcome.generation <= w->generation)
		return; /* a resend */
	w->generation = effect->outcome.generation;
	assert_int_not_equal(client, CLIENTS);
	struct actor *a = &w->actors[client];
	uint64_t nbytes = 0;
	for (uint32_t i = 0; i < RECORDS; i++) {
		const struct sy_event_request *r = &w->records[i].event.request;
		if (r->op == SY_OP_ALLOC && sy_request_id_equal(r->id, effect->id))
			nbytes = r->alloc.nbytes;
	}
	assert_untouched(w, effect->outcome.offset, nbytes);
	if (nbytes == 0)
		return; /* parked for so long that its record is gone */
	hold_new(w, client, effect->id, effect->outcome.offset, nbytes);
	a->region = effect->outcome;
	a->name = effect->id;
}

static inline void on_resolve(struct world *w, const struct record *r)
{
	const struct sy_event_request *request = &r->event.request;
	uint32_t client = client_of(w, request->id.session);
	struct driver *d = w->d;
	assert_int_not_equal(client, CLIENTS);
	for (uint32_t k = 0; k < request->resolve.key_count; k++) {
		if (d->out.found[k] != SY_FOUND_PINNED)
			continue;
		struct hold *h =
			hold_new(w, client, request->id, d->out.offset[k], d->out.nbytes[k]);
		h->is_pin = true;
		if (w->actors[client].c.token == 0)
			h->until_ns = d->now_ns + 2 * d->params.read_pin_ns;
		w->actors[client].pin = request->id;
	}
}

static inline void on_kept(struct world *w, struct record *r)
{
	assert_non_null(r);
	assert_true(w->kept_count < KEPT);
	w->kept[w->kept_count].message = r->event.request.message;
	w->kept[w->kept_count++].record = r;
}

static inline struct record *forget_kept(struct world *w, uint64_t message)
{
	for (uint64_t i = 0; i < w->kept_count; i++) {
		if (w->kept[i].message != message)
			continue;
		struct record *r = w->kept[i].record;
		w->kept[i] = w->kept[--w->kept_count];
		return r;
	}
	fail_msg("message %llu is not kept", (unsigned long long)message);
	return NULL;
}

/* A blob that was published is no reservation any more. */
static inline void look_at_commits(struct world *w)
{
	for (uint32_t i = 0; i < HOLDS; i++) {
		struct hold *h = &w->holds[i];
		if (!h->used || h->is_pin)
			continue;
		bool stands = false;
		for (uint32_t b = 1; b <= w->d->core->tables.blobs.touched && !stands; b++) {
			const struct sy_blob *blob = sy_blob_at(w->d->core, b);
			stands = blob->offset == h->offset && blob->state == SY_BLOB_PUBLISHED &&
			         sy_request_id_equal(blob->name, h->name);
		}
		if (stands)
			h->used = false;
	}
}

/* Steps, and looks at every effect. `r`: the message of a request. */
static inline void step_and_look(struct world *w, const struct sy_event *event, struct record *r)
{
	struct driver *d = w->d;
	step(d, event);
	look_at_holds(w);
	look_at_commits(w);
	for (uint32_t i = 0; i < d->fx.count; i++) {
		const struct sy_effect *effect = &d->fx.items[i];
		w->counts[8 + effect->kind]++;
		switch (effect->kind) {
		case SY_EFFECT_REPLY:
			w->counts[effect->outcome.fault]++;
			if (effect->outcome.fault != SY_FAULT_NONE)
				break;
			if (effect->outcome.op == SY_OP_ALLOC &&
			    effect->outcome.answer == SY_ANSWER_REGION)
				on_region(w, effect);
			if (effect->outcome.op == SY_OP_RESOLVE_KEYS)
				on_resolve(w, r);
			break;
		case SY_EFFECT_STORE:
			assert_untouched(w, effect->offset, effect->nbytes);
			break;
		case SY_EFFECT_KEEP:
			on_kept(w, r);
			break;
		case SY_EFFECT_REDO:
			assert_true(w->redo_count < KEPT);
			w->redo[w->redo_count++] = forget_kept(w, effect->message);
			break;
		case SY_EFFECT_DROP:
			forget_kept(w, effect->message);
			break;
		case SY_EFFECT_DISK_WRITE:
		case SY_EFFECT_DISK_READ:
			fail_msg("a unit without a tier asked for the disk");
			break;
		case SY_EFFECT_FENCE:
			assert_true(w->fence_count < COUNT_OF(w->fences));
			w->fences[w->fence_count++] = effect->session;
			break;
		case SY_EFFECT_PEER_DONE:
			break;
		}
	}
}

#endif
