/* The world of fuzz_core_events: a core, its clients, their requests, and the look at each effect
 * of a step, which is held against the model. */
#ifndef SY_FUZZ_CORE_WORLD_H
#define SY_FUZZ_CORE_WORLD_H

#include "core_driver.h"
#include "fuzz_model.h"
#include "session.h"

enum {
	SLAB_BYTES = 16 << 10, STEPS_MAX = 96, ACTORS = 4, SLOTS = 4, BLOBS = 32, LONG_ROWS = 2048,
	RECORDS = 2 * STEPS_MAX + 1, ROUNDS_MAX = 1024, GRANTS_MAX = 2 * STEPS_MAX,
};

/* A request as it was made: it may come later, and again. Its number is its message and route. */
struct record {
	struct sy_event event;
	uint32_t actor, blob; /* blob: of a put */
	uint64_t rows[8];
	struct sy_span fields[MODEL_FIELDS];
	struct model_release *release;
	bool has_run, is_running; /* it is run by the step at hand */
	bool is_kept, is_answered, is_stored;
	uint64_t stored_at;
};

struct actor {
	struct client c;
	uint64_t seqs[SLOTS];
	struct sy_request_id name; /* of its last alloc or resolve */
	uint32_t blob;             /* of its last alloc, and what that was granted */
	uint64_t generation;
};

static struct driver *d;
static struct fuzz_blob blobs[BLOBS];
static uint64_t long_rows[LONG_ROWS];

/* What stands during one input. */
static struct {
	struct model model;
	struct actor actors[ACTORS];
	struct record records[RECORDS]; /* 1 .. */
	uint32_t record_count;
	struct record *redo[RECORDS]; /* oldest first */
	uint32_t redo_count;
	struct {
		uint64_t generation, offset;
	} grants[GRANTS_MAX];
	uint32_t grant_count;
	uint64_t fences[RECORDS], ended[RECORDS]; /* ended: connections whose process lives on */
	uint32_t fence_count, ended_count;
	uint64_t next_token, next_random;
} run;

static inline struct record *record_of(uint64_t number)
{
	FUZZ_CHECK(number >= 1 && number <= run.record_count);
	return &run.records[number];
}

/* Each client has its namespace with another one: 0 and 1. */
static inline uint32_t space_of(const struct record *r)
{
	return r->actor % 2;
}

static inline uint64_t grant_offset(uint64_t generation)
{
	for (uint32_t i = 0; i < run.grant_count; i++) {
		if (run.grants[i].generation == generation)
			return run.grants[i].offset;
	}
	fuzz_fail(__FILE__, __LINE__, "a commit of a generation that nobody was granted");
}

/* --- what the core says -------------------------------------------------------------------- */

static inline void on_region(struct record *r, const struct sy_outcome *outcome)
{
	struct actor *a = &run.actors[r->actor];
	uint64_t nbytes = r->event.request.alloc.nbytes;
	FUZZ_CHECK(d->now_ns < r->event.request.alloc.until_ns);
	FUZZ_CHECK(outcome->offset % SY_ENTRY_ALIGN_BYTES == 0 && outcome->offset <= SLAB_BYTES &&
	           nbytes <= SLAB_BYTES - outcome->offset);
	FUZZ_CHECK(model_is_free(&run.model, outcome->offset, nbytes));
	for (uint32_t i = 0; i < run.grant_count; i++)
		FUZZ_CHECK(run.grants[i].generation < outcome->generation);
	run.grants[run.grant_count].generation = outcome->generation;
	run.grants[run.grant_count++].offset = outcome->offset;
	a->blob = r->blob;
	a->generation = outcome->generation;
	a->name = r->event.request.id;
}

/* A commit that was given no index, and a put_inline that stored nothing, found their blob there
 * already: nothing changes. */
static inline void on_put(const struct record *r, const struct sy_outcome *outcome)
{
	const struct sy_event_request *q = &r->event.request;
	const sy_index *index = &blobs[r->blob].index;
	FUZZ_CHECK(outcome->answer == SY_ANSWER_PUBLISHED); /* there is no disk */
	if (q->op == SY_OP_COMMIT && q->commit.index != NULL) {
		FUZZ_CHECK(d->now_ns < q->commit.until_ns);
		model_put(&run.model, space_of(r), index, grant_offset(q->commit.generation),
		          q->commit.generation);
	} else if (q->op == SY_OP_PUT_INLINE && r->is_stored) {
		FUZZ_CHECK(d->now_ns < q->put_inline.until_ns);
		uint32_t session = sy_session_find(d->core, q->id.session);
		uint32_t blob = sy_blob_find(d->core, sy_session_at(d->core, session)->ns,
		                             index->blob_id);
		FUZZ_CHECK(blob != 0 && sy_blob_at(d->core, blob)->offset == r->stored_at);
		model_put(&run.model, space_of(r), index, r->stored_at,
		          sy_blob_at(d->core, blob)->generation);
	}
}

static inline void on_resolve(const struct record *r)
{
	const struct sy_event_request *q = &r->event.request;
	for (uint32_t k = 0; k < q->resolve.key_count; k++) {
		uint64_t row = q->resolve.rows[k / q->resolve.field_count];
		struct sy_span field = q->resolve.fields[k % q->resolve.field_count];
		const struct model_entry *e = model_find(&run.model, space_of(r), row, field);
		bool is_found = d->out.found[k] != SY_FOUND_ABSENT;
		if (!is_found && e != NULL && model_may_be_gone(&run.model, e))
			continue;
		FUZZ_CHECK(is_found == (e != NULL));
		if (!is_found)
			continue;
		FUZZ_CHECK(d->out.offset[k] == e->offset && d->out.nbytes[k] == e->nbytes);
		FUZZ_CHECK(d->out.generation[k] == e->generation && d->out.dim0[k] == e->dim0);
		FUZZ_CHECK(d->out.kind[k] == e->kind && d->out.dtype[k] == e->dtype);
		FUZZ_CHECK(d->out.found[k] == SY_FOUND_PINNED ||
		           e->nbytes <= q->resolve.inline_max_bytes);
	}
}

/* It looked at the whole table: what it found is what there is. */
static inline void on_scan(const struct record *r)
{
	uint32_t there = 0, unsure = 0;
	for (uint32_t i = 0; i < d->item_count; i++) {
		const struct sy_scan_item *item = &d->items[i];
		const struct model_entry *e =
			model_find(&run.model, space_of(r), item->row, item->field);
		FUZZ_CHECK(e != NULL && e->nbytes == item->nbytes && e->dim0 == item->dim0 &&
		           e->kind == item->kind && e->dtype == item->dtype);
	}
	for (uint32_t i = 0; i < run.model.entry_count; i++) {
		const struct model_entry *e = &run.model.entries[i];
		there += e->ns == space_of(r);
		unsure += e->ns == space_of(r) && model_may_be_gone(&run.model, e);
	}
	FUZZ_CHECK(d->cursor == 0);
	FUZZ_CHECK(d->item_count <= there && d->item_count + unsure >= there);
}

static inline void on_reply(const struct sy_effect *effect, bool is_current)
{
	const struct sy_outcome *outcome = &effect->outcome;
	if (outcome->op == SY_OP_HELLO || outcome->op == SY_OP_HEARTBEAT)
		return;
	struct record *r = record_of(effect->route);
	FUZZ_CHECK(outcome->op == r->event.request.op);
	FUZZ_CHECK(sy_request_id_equal(effect->id, r->event.request.id));
	bool is_first = !r->is_answered, is_ok = outcome->fault == SY_FAULT_NONE;
	r->is_answered = true;
	if (outcome->op == SY_OP_SCAN && is_ok) {
		FUZZ_CHECK(is_current);
		on_scan(r);
	} else if (outcome->op == SY_OP_RESOLVE_KEYS && is_ok) {
		FUZZ_CHECK(is_current && is_first);
		on_resolve(r);
	} else if (outcome->op == SY_OP_RELEASE_ROWS && r->release != NULL && r->release->is_open) {
		if (is_ok)
			model_release_answered(&run.model, r->release, outcome->count);
		else if (r->is_running) /* refused */
			r->release->is_open = false;
	} else if (is_ok && is_first && outcome->answer == SY_ANSWER_REGION) {
		on_region(r, outcome);
	} else if (is_ok && is_first && outcome->op != SY_OP_ALLOC) {
		on_put(r, outcome);
	}
}

static inline void on_store(const struct sy_effect *effect)
{
	struct record *r = record_of(effect->message);
	FUZZ_CHECK(!r->is_stored && effect->nbytes == blobs[r->blob].index.blob_bytes);
	FUZZ_CHECK(effect->offset <= SLAB_BYTES && effect->nbytes <= SLAB_BYTES - effect->offset);
	FUZZ_CHECK(model_is_free(&run.model, effect->offset, effect->nbytes));
	r->is_stored = true;
	r->stored_at = effect->offset;
}

static inline void look(const struct sy_event *event)
{
	for (uint32_t i = 0; i < d->fx.count; i++) {
		const struct sy_effect *effect = &d->fx.items[i];
		switch (effect->kind) {
		case SY_EFFECT_DISK_WRITE:
		case SY_EFFECT_DISK_READ:
			FUZZ_CHECK(false); /* it has no tier */
			break;
		case SY_EFFECT_REPLY:
			on_reply(effect, event->kind == SY_EVENT_REQUEST &&
			                     sy_request_id_equal(event->request.id, effect->id));
			break;
		case SY_EFFECT_STORE:
			on_store(effect);
			break;
		case SY_EFFECT_KEEP:
			FUZZ_CHECK(!record_of(effect->message)->is_kept);
			record_of(effect->message)->is_kept = true;
			break;
		case SY_EFFECT_REDO:
			FUZZ_CHECK(record_of(effect->message)->is_kept);
			run.redo[run.redo_count++] = record_of(effect->message);
			break;
		case SY_EFFECT_DROP:
			FUZZ_CHECK(record_of(effect->message)->is_kept);
			record_of(effect->message)->is_kept = false;
			break;
		case SY_EFFECT_FENCE:
			run.fences[run.fence_count++] = effect->session;
			break;
		case SY_EFFECT_PEER_DONE:
			break;
		}
	}
}

/* Steps, and gives in what the core asks for, until it asks no more. */
static inline void run_event(const struct sy_event *event)
{
	struct sy_event next = *event;
	for (uint32_t i = 0; i < ROUNDS_MAX; i++) {
		step(d, &next);
		look(&next);
		if (d->core->volatiles.running_jobs.count == 0)
			model_release_all(&run.model); /* also those that nobody is told about */
		if (run.redo_count == 0)
			return;
		struct record *r = run.redo[0];
		memmove(&run.redo[0], &run.redo[1], --run.redo_count * sizeof run.redo[0]);
		r->is_kept = false;
		next = r->event;
		next.request.redo = true;
	}
	fuzz_fail(__FILE__, __LINE__, "messages are redone without an end");
}

static inline void run_kind(enum sy_event_kind kind)
{
	const struct sy_event e = {.kind = kind};
	run_event(&e);
}

#endif
