/* A core with a disk tier, and a disk that does all it is asked, at once or when it is told. */
#ifndef SY_TIER_DRIVER_H
#define SY_TIER_DRIVER_H

#include "core_driver.h"

enum { TIER_OPS_MAX = 64 };

struct tier_driver {
	struct driver *d;
	struct client c;
	struct sy_effect ops[TIER_OPS_MAX]; /* with the disk */
	uint32_t op_count, reads, held;     /* held: so many of them it does not do */
	uint64_t seq;
	struct sy_event asked; /* the request under way: it is redone when the core says so */
	struct sy_outcome answer;
	bool answered, redo;
};

static inline struct tier_driver tier_open_disk(uint32_t max_entries, uint64_t slab_bytes,
                                                uint64_t disk_bytes)
{
	struct tier_driver t = {0};
	struct sy_core_params params = driver_params(slab_bytes);
	params.max_entries = max_entries;
	params.staging_bytes = slab_bytes / 8;
	params.disk_bytes = disk_bytes;
	params.load_whole_bytes = 1 << 20;
	params.grant_max_bytes = params.grant_total_bytes = slab_bytes / 16;
	t.d = driver_open(&params);
	t.c = client_new(t.d, 1, 9);
	return t;
}

static inline struct tier_driver tier_open(uint32_t max_entries, uint64_t slab_bytes)
{
	return tier_open_disk(max_entries, slab_bytes, 16 * slab_bytes);
}

static inline void tier_close(struct tier_driver *t)
{
	driver_close(t->d);
}

/* What the last step asks for. */
static inline void tier_note(struct tier_driver *t)
{
	for (uint32_t i = 0; i < t->d->fx.count; i++) {
		const struct sy_effect *effect = &t->d->fx.items[i];
		if (effect->kind == SY_EFFECT_DISK_WRITE || effect->kind == SY_EFFECT_DISK_READ) {
			assert_true(t->op_count < TIER_OPS_MAX);
			t->ops[t->op_count++] = *effect;
			t->reads += effect->kind == SY_EFFECT_DISK_READ;
		}
		t->redo = t->redo || effect->kind == SY_EFFECT_REDO;
		if (effect->kind == SY_EFFECT_REPLY) {
			t->answer = effect->outcome;
			t->answered = true;
		}
	}
}

static inline void tier_step(struct tier_driver *t, const struct sy_event *event)
{
	step(t->d, event);
	tier_note(t);
}

/* Until nothing is left to do but what the disk holds. */
static inline void tier_drain(struct tier_driver *t)
{
	for (int i = 0; i < 100000; i++) {
		struct sy_event event = {.kind = SY_EVENT_CONTINUE};
		if (t->d->fx.again) {
			tier_step(t, &event);
		} else if (t->redo) {
			t->redo = false;
			t->asked.request.redo = true;
			tier_step(t, &t->asked);
		} else if (t->op_count > t->held) {
			event.kind = SY_EVENT_DISK;
			event.disk.blob = t->ops[t->held].blob;
			event.disk.grant = t->ops[t->held].grant;
			event.disk.result = SY_DISK_OK;
			t->op_count--;
			memmove(t->ops + t->held, t->ops + t->held + 1,
			        (t->op_count - t->held) * sizeof t->ops[0]);
			tier_step(t, &event);
		} else {
			return;
		}
	}
	fail_msg("the core never comes to rest");
}

/* The request's answer, once the disk has done what it does; fault Busy also stands for none. */
static inline struct sy_outcome tier_ask(struct tier_driver *t, const struct sy_event *event)
{
	t->asked = *event;
	t->answered = false;
	tier_step(t, event);
	tier_drain(t);
	return t->answered ? t->answer : (struct sy_outcome){.fault = SY_FAULT_BUSY};
}

/* Puts a row of one value; blob ids are rows + 1. Its alloc's answer, if that is no region. */
static inline struct sy_outcome tier_try_row(struct tier_driver *t, uint64_t row, uint64_t nbytes)
{
	static struct test_index index;
	const sy_index *in = index_of(&index, row + 1, row, 1, 1, nbytes);
	struct sy_event e = alloc_event(&t->c, 0, ++t->seq, row + 1, in->blob_bytes, 1);
	e.request.alloc.ssd = true;
	struct sy_outcome region = tier_ask(t, &e);
	if (region.fault != SY_FAULT_NONE)
		return region;
	e = commit_event(&t->c, 0, ++t->seq, row + 1, region.generation, in);
	return tier_ask(t, &e);
}

static inline void tier_put_row(struct tier_driver *t, uint64_t row, uint64_t nbytes)
{
	assert_int_equal(tier_try_row(t, row, nbytes).fault, SY_FAULT_NONE);
}

/* Resolves rows, and gives back what it pinned. inline_max 0: as for views. */
static inline struct sy_outcome tier_resolve(struct tier_driver *t, uint64_t first, uint32_t rows,
                                             uint32_t inline_max)
{
	struct sy_span field = span("a00");
	struct sy_event e =
		resolve_event(t->d, &t->c, 0, ++t->seq, first, rows, &field, 1, inline_max);
	struct sy_outcome outcome = tier_ask(t, &e);
	if (outcome.fault == SY_FAULT_NONE)
		notify_one(t->d, &t->c, SY_NOTICE_UNPIN, e.request.id, false);
	tier_note(t);
	tier_drain(t);
	return outcome;
}

static inline void assert_full_of(struct sy_outcome outcome, enum sy_resource resource)
{
	assert_int_equal(outcome.fault, SY_FAULT_UNIT_FULL);
	assert_int_equal(outcome.resource, resource);
}

#endif
