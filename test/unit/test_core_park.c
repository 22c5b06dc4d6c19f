/* Parking: who waits, for how long, in which order, and who forgets it. */
#include "core_driver.h"
#include "park.h"

static struct test_index t;

enum { TOKEN = 9, ROWS = 8000, SLAB = 1 << 20 };

/* A slab full to the last byte, of which a release under way will give back `blobs` blobs of
 * 1,000 rows, each BLOB_BYTES and side by side. */
enum { BLOB_BYTES = 64 + 8000 + 64 + 64 * 1000, BLOB_ROOM = (BLOB_BYTES + 63) / 64 * 64 };

struct scene {
	struct driver *d;
	struct client filler, a, b;
};

static struct scene scene_open(uint32_t max_parked)
{
	struct scene s = {0};
	struct sy_core_params params = driver_params(SLAB);
	params.max_parked = max_parked;
	params.max_entries = 16384;
	s.d = driver_open(&params);
	s.filler = client_new(s.d, 1, TOKEN);
	s.a = client_new(s.d, 2, TOKEN + 1);
	s.b = client_new(s.d, 3, TOKEN + 2);
	for (uint64_t i = 0; i < 8; i++)
		put(s.d, &s.filler, 0, 1 + 2 * i, 1000 + i,
		    index_of(&t, 1000 + i, i * 1000, 1000, 1, 64));
	uint64_t left = stats(s.d).largest_hole;
	assert_int_equal(alloc(s.d, &s.filler, 1, 1, 1, left, 1).fault, SY_FAULT_NONE);
	assert_int_equal(stats(s.d).bytes.free, 0);
	return s;
}

/* Begins the release that makes space, of all the rows; before it two of rows that there are
 * not, which take some sixty steps. */
static void make_space(struct scene *s)
{
	release(s->d, &s->filler, 2, 1, 100000, SY_ROWS_PER_RELEASE_MAX);
	release(s->d, &s->filler, 3, 1, 100000, SY_ROWS_PER_RELEASE_MAX);
	release(s->d, &s->filler, 4, 1, 0, ROWS);
	assert_true(s->d->fx.again);
	assert_int_equal(stats(s->d).bytes.free, 0);
}

/* The reply of the last step to an alloc; releases end when they do. */
static const struct sy_effect *alloc_reply(const struct driver *d)
{
	for (uint32_t i = 0; i < d->fx.count; i++) {
		const struct sy_effect *effect = &d->fx.items[i];
		if (effect->kind == SY_EFFECT_REPLY && effect->outcome.op == SY_OP_ALLOC)
			return effect;
	}
	return NULL;
}

static struct sy_event parked_alloc(struct scene *s, const struct client *c, uint32_t slot,
                                    uint64_t nbytes)
{
	struct sy_event e = alloc_event(c, slot, 1, 10000 * c->identity.random + slot, nbytes, 1);
	e.request.message = 100 * c->identity.random + slot;
	step(s->d, &e);
	assert_null(alloc_reply(s->d));
	assert_int_equal(count_effects(s->d, SY_EFFECT_KEEP), 1);
	assert_int_equal(effect_of(s->d, SY_EFFECT_KEEP)->message, e.request.message);
	return e;
}

/* Steps on until an effect of this kind comes, or nothing more does. */
static const struct sy_effect *await(struct driver *d, enum sy_effect_kind kind)
{
	for (int i = 0; i < 1000 && effect_of(d, kind) == NULL && d->fx.again; i++)
		step_kind(d, SY_EVENT_CONTINUE);
	return effect_of(d, kind);
}

static void redo(struct driver *d, struct sy_event *e)
{
	e->request.redo = true;
	e->request.route = 1; /* of long ago */
	step(d, e);
}

static void test_served_when_space_is_there(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	/* Where no space is being made there is nothing to wait for. */
	struct sy_event e = alloc_event(&s.a, 0, 1, 200, 64, 1);
	step(d, &e);
	assert_full(d, SY_RESOURCE_BYTES);
	make_space(&s);
	e = parked_alloc(&s, &s.a, 1, 2 * BLOB_ROOM);
	assert_int_equal(stats(d).parked, 1);
	/* A resend attaches, its message is not kept. */
	struct sy_event resend = e;
	resend.request.route = 4711;
	step(d, &resend);
	assert_silent(d);
	assert_int_equal(count_effects(d, SY_EFFECT_KEEP), 0);
	const struct sy_effect *effect = await(d, SY_EFFECT_REDO);
	assert_non_null(effect);
	assert_int_equal(effect->message, e.request.message);
	assert_true(stats(d).entries > 4000); /* long before all is cleared */
	redo(d, &e);
	const struct sy_effect *reply = effect_of(d, SY_EFFECT_REPLY);
	assert_non_null(reply);
	assert_int_equal(reply->route, 4711);
	assert_int_equal(reply->outcome.answer, SY_ANSWER_REGION);
	assert_int_equal(count_effects(d, SY_EFFECT_DROP), 0);
	assert_int_equal(stats(d).parked, 0);
	/* Given in twice, it does nothing. */
	redo(d, &e);
	assert_int_equal(count_effects(d, SY_EFFECT_KEEP), 0);
	settle(d);
	assert_int_equal(stats(d).reservations, 2);
	driver_close(d);
}

static void test_put_inline_parks(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	static struct test_index small;
	struct sy_event e = request(&s.a, SY_OP_PUT_INLINE, 1, 1);
	e.request.put_inline.index = index_of(&small, 777, 90000, 2, 1, 100);
	e.request.put_inline.until_ns = UINT64_MAX;
	step(d, &e);
	assert_int_equal(count_effects(d, SY_EFFECT_KEEP), 1);
	/* A resend does not need its index; the message given back does. */
	assert_false(sy_core_wants_index(d->core, &e.request));
	assert_non_null(await(d, SY_EFFECT_REDO));
	e.request.redo = true;
	assert_true(sy_core_wants_index(d->core, &e.request));
	redo(d, &e);
	assert_int_equal(count_effects(d, SY_EFFECT_STORE), 1);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	driver_close(d);
}

static void test_full_when_no_more_comes(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event big = parked_alloc(&s, &s.a, 1, SLAB);
	struct sy_event fits = parked_alloc(&s, &s.b, 1, 8 * BLOB_ROOM);
	for (int i = 0; i < 1000 && d->fx.again && alloc_reply(d) == NULL; i++)
		step_kind(d, SY_EVENT_CONTINUE);
	/* The one that cannot be served is told so, and it is the other's turn. */
	const struct sy_effect *reply = alloc_reply(d);
	assert_non_null(reply);
	assert_int_equal(reply->outcome.fault, SY_FAULT_UNIT_FULL);
	assert_int_equal(reply->outcome.resource, SY_RESOURCE_BYTES);
	assert_int_equal(reply->outcome.need, SLAB);
	assert_int_equal(reply->outcome.free, 8 * BLOB_ROOM);
	assert_int_equal(reply->outcome.hole, 8 * BLOB_ROOM);
	assert_int_equal(effect_of(d, SY_EFFECT_DROP)->message, big.request.message);
	assert_int_equal(effect_of(d, SY_EFFECT_REDO)->message, fits.request.message);
	redo(d, &fits);
	assert_ok(d);
	/* The outcome is kept as any other. */
	step(d, &big);
	assert_full(d, SY_RESOURCE_BYTES);
	driver_close(d);
}

static void test_busy_after_a_while(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event soon = alloc_event(&s.a, 1, 1, 201, SLAB / 2, 1);
	soon.request.alloc.until_ns = d->now_ns + 10;
	step(d, &soon);
	assert_int_equal(count_effects(d, SY_EFFECT_KEEP), 1);
	parked_alloc(&s, &s.b, 1, SLAB / 2);
	assert_int_equal(sy_core_deadline(d->core), d->now_ns + 10);
	advance(d, 10);
	assert_busy(d, SY_BUSY_SPILLING);
	assert_int_equal(effect_of(d, SY_EFFECT_REPLY)->id.session, s.a.session);
	assert_int_equal(count_effects(d, SY_EFFECT_DROP), 1);
	assert_int_equal(sy_core_deadline(d->core), d->now_ns - 10 + SEC);
	advance(d, SEC - 10);
	assert_busy(d, SY_BUSY_SPILLING);
	assert_int_equal(stats(d).parked, 0);
	assert_int_equal(sy_core_deadline(d->core), UINT64_MAX);
	driver_close(d);
}

static void test_first_in_first_out(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event first = parked_alloc(&s, &s.a, 1, 2 * BLOB_ROOM);
	struct sy_event second = parked_alloc(&s, &s.b, 1, 2 * BLOB_ROOM);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, first.request.message);
	/* Until it is back none else is looked at, nor does a newcomer as large take its place. */
	struct sy_event third = parked_alloc(&s, &s.b, 2, 2 * BLOB_ROOM);
	assert_int_equal(count_effects(d, SY_EFFECT_REDO), 0);
	redo(d, &first);
	assert_ok(d);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, second.request.message);
	redo(d, &second);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, third.request.message);
	redo(d, &third);
	settle(d);
	assert_int_equal(stats(d).parked, 0);
	driver_close(d);
}

static void test_small_ones_pass_sixteen_times(void **state)
{
	(void)state;
	struct scene s = scene_open(64);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event big = parked_alloc(&s, &s.a, 1, 7 * BLOB_ROOM);
	/* Two that were parked pass the first, */
	struct sy_event small = parked_alloc(&s, &s.b, 1, 64);
	struct sy_event other = parked_alloc(&s, &s.b, 2, 64);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, small.request.message);
	redo(d, &small);
	assert_ok(d);
	assert_int_equal(effect_of(d, SY_EFFECT_REDO)->message, other.request.message);
	redo(d, &other);
	assert_ok(d);
	/* and fourteen that come anew; then none. */
	for (uint32_t i = 0; i < 14; i++)
		assert_int_equal(alloc(d, &s.b, 10 + i, 1, 5000 + i, 64, 1).fault, SY_FAULT_NONE);
	struct sy_event last = parked_alloc(&s, &s.b, 40, 64);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, big.request.message);
	redo(d, &big);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, last.request.message);
	driver_close(d);
}

/* One that came later was passed less often, and that is what counts once it is the first. */
static void test_each_is_passed_sixteen_times(void **state)
{
	(void)state;
	struct scene s = scene_open(64);
	struct driver *d = s.d;
	uint64_t id = 5000;
	make_space(&s);
	parked_alloc(&s, &s.a, 1, SLAB);
	struct sy_event small = parked_alloc(&s, &s.b, 1, 64);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, small.request.message);
	redo(d, &small);
	assert_ok(d);
	struct sy_event second = parked_alloc(&s, &s.a, 2, SLAB);
	for (uint32_t i = 0; i < SY_PARK_PASS_MAX - 1; i++)
		assert_int_equal(alloc(d, &s.b, 10, 1 + i, ++id, 64, 1).fault, SY_FAULT_NONE);
	small = parked_alloc(&s, &s.b, 2, 64);
	assert_int_equal(count_effects(d, SY_EFFECT_REDO), 0);
	notify_one(d, &s.a, SY_NOTICE_ABORT, name_of(&s.a, 1, 1), false);
	assert_int_equal(effect_of(d, SY_EFFECT_REDO)->message, small.request.message);
	redo(d, &small);
	assert_ok(d);
	small = parked_alloc(&s, &s.b, 3, 64);
	assert_int_equal(count_effects(d, SY_EFFECT_REDO), 0);
	notify_one(d, &s.a, SY_NOTICE_ABORT, name_of(&s.a, 2, 1), false);
	assert_int_equal(effect_of(d, SY_EFFECT_DROP)->message, second.request.message);
	assert_int_equal(effect_of(d, SY_EFFECT_REDO)->message, small.request.message);
	driver_close(d);
}

/* Where the first one does not fit the smallest goes before it. Others leave from the middle of
 * the heaps meanwhile, which stay in order: the audit sees to it. */
static void test_the_smallest_passes(void **state)
{
	(void)state;
	enum { WAIT = 40 };
	struct scene s = scene_open(64);
	struct driver *d = s.d;
	struct sy_event waits[WAIT];
	make_space(&s);
	parked_alloc(&s, &s.a, 0, SLAB);
	for (uint32_t i = 0; i < WAIT; i++)
		waits[i] = parked_alloc(&s, &s.b, i, 64 * (1 + i * 11 % WAIT));
	for (uint32_t i = 1; i < WAIT; i += 2)
		notify_one(d, &s.b, SY_NOTICE_ABORT, name_of(&s.b, i, 1), false);
	assert_int_equal(stats(d).parked, 1 + WAIT / 2);
	uint64_t last = 0;
	for (int i = 0; i < SY_PARK_PASS_MAX; i++) {
		uint64_t message = await(d, SY_EFFECT_REDO)->message;
		struct sy_event *e = &waits[message - waits[0].request.message];
		assert_true(e->request.alloc.nbytes > last);
		last = e->request.alloc.nbytes;
		redo(d, e);
		assert_ok(d);
	}
	assert_int_equal(count_effects(d, SY_EFFECT_REDO), 0);
	driver_close(d);
}

static void test_queue_full(void **state)
{
	(void)state;
	struct scene s = scene_open(2);
	struct driver *d = s.d;
	make_space(&s);
	parked_alloc(&s, &s.a, 1, 2 * BLOB_ROOM);
	parked_alloc(&s, &s.a, 2, 2 * BLOB_ROOM);
	struct sy_event e = alloc_event(&s.a, 3, 1, 300, 2 * BLOB_ROOM, 1);
	step(d, &e);
	assert_busy(d, SY_BUSY_QUEUE_FULL);
	/* Nor where the shell has no room for the message. */
	notify_one(d, &s.a, SY_NOTICE_ABORT, name_of(&s.a, 2, 1), false);
	e = alloc_event(&s.a, 3, 2, 300, 2 * BLOB_ROOM, 1);
	e.request.message = 0;
	step(d, &e);
	assert_busy(d, SY_BUSY_QUEUE_FULL);
	assert_int_equal(stats(d).parked, 1);
	driver_close(d);
}

static void test_client_moves_on(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	/* By the slot's next request, */
	struct sy_event e = parked_alloc(&s, &s.a, 1, 2 * BLOB_ROOM);
	struct sy_event next = request(&s.a, SY_OP_HEARTBEAT, 1, 2);
	step(d, &next);
	assert_int_equal(effect_of(d, SY_EFFECT_DROP)->message, e.request.message);
	/* by a notice of it, of it exactly, or of a later one; */
	e = parked_alloc(&s, &s.a, 2, 2 * BLOB_ROOM);
	notify_one(d, &s.a, SY_NOTICE_ABORT, name_of(&s.a, 2, 1), false);
	assert_int_equal(effect_of(d, SY_EFFECT_DROP)->message, e.request.message);
	e = parked_alloc(&s, &s.a, 3, 2 * BLOB_ROOM);
	notify_one(d, &s.a, SY_NOTICE_UNPIN, name_of(&s.a, 3, 0), false);
	assert_int_equal(count_effects(d, SY_EFFECT_DROP), 0);
	notify_one(d, &s.a, SY_NOTICE_ABORT, name_of(&s.a, 3, 5), false);
	assert_int_equal(effect_of(d, SY_EFFECT_DROP)->message, e.request.message);
	/* by its session's end. */
	e = parked_alloc(&s, &s.a, 4, 2 * BLOB_ROOM);
	peer(d, SY_EVENT_PEER_EOF, TOKEN + 1, 0);
	assert_int_equal(effect_of(d, SY_EFFECT_DROP)->message, e.request.message);
	settle(d);
	assert_int_equal(stats(d).parked, 0);
	assert_int_equal(stats(d).reservations, 1);
	driver_close(d);
}

static void test_moved_on_while_being_redone(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event first = parked_alloc(&s, &s.a, 1, BLOB_ROOM);
	struct sy_event second = parked_alloc(&s, &s.b, 1, BLOB_ROOM);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, first.request.message);
	notify_one(d, &s.a, SY_NOTICE_ABORT, name_of(&s.a, 1, 1), false);
	/* It is on its way already: nothing to drop, and the next one's turn. */
	assert_int_equal(count_effects(d, SY_EFFECT_DROP), 0);
	assert_int_equal(effect_of(d, SY_EFFECT_REDO)->message, second.request.message);
	redo(d, &first);
	assert_int_equal(d->fx.count, 0);
	peer(d, SY_EVENT_PEER_GONE, TOKEN + 2, 0);
	assert_int_equal(count_effects(d, SY_EFFECT_DROP), 0);
	redo(d, &second);
	assert_silent(d);
	settle(d);
	assert_int_equal(stats(d).reservations, 1);
	assert_int_equal(stats(d).parked, 0);
	driver_close(d);
}

static void test_redone_and_still_short(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event first = parked_alloc(&s, &s.a, 1, BLOB_ROOM);
	uint64_t until = d->now_ns + SEC;
	assert_non_null(await(d, SY_EFFECT_REDO));
	/* A smaller one takes of its hole meanwhile; it waits on in its place. */
	assert_int_equal(alloc(d, &s.b, 1, 1, 6000, 64, 1).fault, SY_FAULT_NONE);
	d->now_ns += 5;
	redo(d, &first);
	assert_silent(d);
	assert_int_equal(effect_of(d, SY_EFFECT_KEEP)->message, first.request.message);
	assert_int_equal(sy_core_deadline(d->core), until);
	assert_non_null(await(d, SY_EFFECT_REDO));
	redo(d, &first);
	settle(d);
	assert_int_equal(stats(d).parked, 0);
	assert_int_equal(stats(d).reservations, 3);
	driver_close(d);
}

static void test_the_end_of_a_session_makes_space(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	struct driver *d = driver_open(&params);
	struct scene s = {.d = d};
	s.filler = client_new(d, 1, TOKEN);
	s.a = client_new(d, 2, TOKEN + 1);
	for (uint64_t i = 0; i < 1024; i++)
		assert_int_equal(alloc(d, &s.filler, 0, i + 1, i + 1, 1024, 1).fault, SY_FAULT_NONE);
	peer(d, SY_EVENT_PEER_GONE, TOKEN, 0);
	assert_true(d->fx.again);
	struct sy_event e = parked_alloc(&s, &s.a, 1, SLAB);
	assert_int_equal(await(d, SY_EFFECT_REDO)->message, e.request.message);
	redo(d, &e);
	assert_ok(d);
	driver_close(d);
}

static void test_draining_meanwhile(void **state)
{
	(void)state;
	struct scene s = scene_open(32);
	struct driver *d = s.d;
	make_space(&s);
	struct sy_event e = parked_alloc(&s, &s.a, 1, BLOB_ROOM);
	struct sy_event drain = {.kind = SY_EVENT_STATE};
	drain.unit.state = SY_UNIT_DRAINING;
	step(d, &drain);
	assert_non_null(await(d, SY_EFFECT_REDO));
	redo(d, &e);
	assert_busy(d, SY_BUSY_DRAINING);
	assert_int_equal(stats(d).parked, 0);
	driver_close(d);
}

/* More is dropped at once than a step has effects. */
static void test_many_dropped(void **state)
{
	(void)state;
	struct scene s = scene_open(64);
	struct driver *d = s.d;
	make_space(&s);
	for (uint32_t i = 0; i < 60; i++)
		parked_alloc(&s, &s.a, i, SLAB);
	peer(d, SY_EVENT_PEER_GONE, TOKEN + 1, 0);
	assert_true(d->fx.again);
	uint32_t dropped = count_effects(d, SY_EFFECT_DROP);
	for (int i = 0; i < 1000 && d->fx.again; i++) {
		step_kind(d, SY_EVENT_CONTINUE);
		dropped += count_effects(d, SY_EFFECT_DROP);
	}
	assert_int_equal(dropped, 60);
	driver_close(d);
}

static void test_many_answered(void **state)
{
	(void)state;
	struct scene s = scene_open(64);
	struct driver *d = s.d;
	make_space(&s);
	for (uint32_t i = 0; i < 60; i++)
		parked_alloc(&s, &s.a, i, SLAB);
	uint32_t busy = 0, dropped = 0;
	advance(d, SEC);
	for (int i = 0; i < 1000; i++) {
		for (uint32_t k = 0; k < d->fx.count; k++)
			busy += d->fx.items[k].kind == SY_EFFECT_REPLY &&
			        d->fx.items[k].outcome.busy == SY_BUSY_SPILLING;
		dropped += count_effects(d, SY_EFFECT_DROP);
		if (!d->fx.again)
			break;
		step_kind(d, SY_EVENT_CONTINUE);
	}
	assert_int_equal(busy, 60);
	assert_int_equal(dropped, 60);
	driver_close(d);
}

static void test_many_told_full(void **state)
{
	(void)state;
	struct scene s = scene_open(64);
	struct driver *d = s.d;
	make_space(&s);
	for (uint32_t i = 0; i < 60; i++)
		parked_alloc(&s, &s.a, i, SLAB);
	uint32_t full = 0, dropped = 0;
	for (int i = 0; i < 1000 && d->fx.again; i++) {
		step_kind(d, SY_EVENT_CONTINUE);
		for (uint32_t k = 0; k < d->fx.count; k++)
			full += d->fx.items[k].kind == SY_EFFECT_REPLY &&
			        d->fx.items[k].outcome.fault == SY_FAULT_UNIT_FULL;
		dropped += count_effects(d, SY_EFFECT_DROP);
	}
	assert_int_equal(full, 60);
	assert_int_equal(dropped, 60);
	driver_close(d);
}

/* So many fences are asked for that there is no room left for those that wait. */
static void test_held_up_by_other_effects(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.max_sessions = 64;
	struct driver *d = driver_open(&params);
	struct scene s = {.d = d, .a = client_new(d, 1, TOKEN)};
	for (uint64_t i = 0; i < 31; i++)
		client_new(d, 100 + i, 0);
	assert_int_equal(alloc(d, &s.a, 0, 1, 1, SLAB, 1).fault, SY_FAULT_NONE);
	d->now_ns += 20ull * SEC;
	release(d, &s.a, 2, 1, 100000, 1700); /* ends with the step after the next */
	parked_alloc(&s, &s.a, 1, 64);
	step_kind(d, SY_EVENT_TICK);
	assert_int_equal(count_effects(d, SY_EFFECT_FENCE), 31);
	assert_int_equal(count_effects(d, SY_EFFECT_REPLY), 1);
	assert_int_equal(stats(d).parked, 1);
	settle(d);
	assert_int_equal(stats(d).parked, 0);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_served_when_space_is_there),
		cmocka_unit_test(test_put_inline_parks),
		cmocka_unit_test(test_full_when_no_more_comes),
		cmocka_unit_test(test_busy_after_a_while),
		cmocka_unit_test(test_first_in_first_out),
		cmocka_unit_test(test_small_ones_pass_sixteen_times),
		cmocka_unit_test(test_each_is_passed_sixteen_times),
		cmocka_unit_test(test_the_smallest_passes),
		cmocka_unit_test(test_queue_full),
		cmocka_unit_test(test_client_moves_on),
		cmocka_unit_test(test_moved_on_while_being_redone),
		cmocka_unit_test(test_redone_and_still_short),
		cmocka_unit_test(test_the_end_of_a_session_makes_space),
		cmocka_unit_test(test_draining_meanwhile),
		cmocka_unit_test(test_many_dropped),
		cmocka_unit_test(test_many_answered),
		cmocka_unit_test(test_many_told_full),
		cmocka_unit_test(test_held_up_by_other_effects),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
