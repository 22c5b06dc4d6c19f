/* Random events, resends and ends against the core, audited after each step and watched from
 * outside (core_watch.h); when all clients are gone nothing is left. */
#include "core_watch.h"

static void run_redo(struct world *w)
{
	while (w->redo_count > 0) {
		struct record *r = w->redo[0];
		struct sy_event e = r->event;
		w->redo_count--;
		memmove(&w->redo[0], &w->redo[1], w->redo_count * sizeof w->redo[0]);
		e.request.redo = true;
		step_and_look(w, &e, r);
	}
}

static bool is_kept(const struct world *w, const struct record *r)
{
	for (uint64_t i = 0; i < w->kept_count; i++) {
		if (w->kept[i].record == r)
			return true;
	}
	return false;
}

static struct record *record_new(struct world *w)
{
	struct record *r = NULL;
	do
		r = &w->records[w->record_count++ % RECORDS];
	while (is_kept(w, r));
	memset(&r->event, 0, sizeof r->event);
	return r;
}

static void connect_client(struct world *w, struct actor *a)
{
	uint32_t client = (uint32_t)(a - w->actors);
	struct sy_event e;
	a->c.count++;
	a->notice_count = 0;
	memset(a->seq, 0, sizeof a->seq);
	e = hello_event(&a->c);
	if (a->c.session != 0 && client_of(w, a->c.session) == client && a->c.token == 0) {
		/* Its older session's regions are its own until they are fenced. */
		for (uint32_t i = 0; i < HOLDS; i++) {
			struct hold *h = &w->holds[i];
			if (h->used && h->client == client && !h->is_pin)
				h->client = CLIENTS;
		}
	}
	step_and_look(w, &e, NULL);
	const struct sy_effect *reply = effect_of(w->d, SY_EFFECT_REPLY);
	a->c.session = reply != NULL && reply->outcome.fault == SY_FAULT_NONE
	                       ? reply->outcome.count
	                       : 1;
}

/* A new process in the place of one that is gone. */
static void new_client(struct world *w, struct actor *a)
{
	bool local = a - w->actors < CLIENTS - 2;
	memset(a, 0, sizeof *a);
	a->c.identity.random = ++w->next_random;
	a->c.token = local ? ++w->next_token : 0;
	connect_client(w, a);
}

static void add_notices(struct world *w, struct actor *a, struct sy_event_request *r)
{
	uint64_t first = a->notice_count > 3 ? a->notice_count - below(w, 4) : a->notice_count;
	uint64_t done = notices_done(w, a->c.session);
	if (first > done)
		first = done;
	r->first_notice = first + 1;
	r->notices = &a->notices[first];
	r->notice_count = (uint32_t)(a->notice_count - first);
	if (below(w, 8) == 0)
		r->notice_count = 0;
}

static void fill_put(struct world *w, struct actor *a, struct record *r)
{
	struct sy_event_request *q = &r->event.request;
	uint64_t until_ns = w->d->now_ns + below(w, 3) * SEC;
	uint64_t kind = below(w, 3);
	if (kind == 0 || (kind == 1 && a->region.generation == 0)) {
		q->op = SY_OP_ALLOC;
		a->blob = below(w, 10) == 0 ? a->blob : ++w->next_blob;
		index_of(&r->index, a->blob, below(w, 24), 1 + (uint32_t)below(w, 4), 2,
		         below(w, 3000));
		q->alloc.blob_id = blob_id(a->blob);
		q->alloc.nbytes = r->index.index.blob_bytes;
		q->alloc.entry_count = r->index.index.entry_count;
		q->alloc.until_ns = until_ns;
	} else if (kind == 1) {
		q->op = SY_OP_COMMIT;
		q->commit.blob_id = blob_id(a->blob);
		q->commit.generation = a->region.generation;
		q->commit.until_ns = until_ns;
		uint64_t offset = 0, nbytes = 0;
		/* The index that the alloc was for, read by the shell only where it is wanted. */
		for (uint32_t i = 0; i < RECORDS; i++) {
			const struct record *alloc_record = &w->records[i];
			if (alloc_record->event.request.op == SY_OP_ALLOC &&
			    memcmp(&alloc_record->index.index.blob_id, &q->commit.blob_id, 16) == 0 &&
			    sy_core_commit_region(w->d->core, q, &offset, &nbytes))
				q->commit.index = &alloc_record->index.index;
		}
	} else {
		q->op = SY_OP_PUT_INLINE;
		q->put_inline.index = index_of(&r->index, ++w->next_blob, below(w, 24),
		                               1 + (uint32_t)below(w, 4), 2, below(w, 600));
		q->put_inline.until_ns = until_ns;
	}
}

static void fill_other(struct world *w, struct actor *a, struct record *r)
{
	struct sy_event_request *q = &r->event.request;
	static const struct sy_span fields[] = {{(const uint8_t *)"a00", 3},
	                                        {(const uint8_t *)"a01", 3}};
	uint64_t first = below(w, 24);
	for (uint32_t i = 0; i < COUNT_OF(r->rows); i++)
		r->rows[i] = first + i;
	switch (below(w, 4)) {
	case 0:
		q->op = SY_OP_RESOLVE_KEYS;
		q->resolve.rows = r->rows;
		q->resolve.fields = fields;
		q->resolve.row_count = 1 + (uint32_t)below(w, 8);
		q->resolve.field_count = 2;
		q->resolve.key_count = 2 * q->resolve.row_count;
		q->resolve.inline_max_bytes = below(w, 2) == 0 ? 0 : 512;
		q->resolve.out = &w->d->out;
		break;
	case 1:
		q->op = SY_OP_RELEASE_ROWS;
		q->release.rows = below(w, 3) == 0 ? w->d->rows : r->rows;
		q->release.row_count = q->release.rows == r->rows ? 1 + (uint32_t)below(w, 8)
		                                                  : SY_ROWS_PER_RELEASE_MAX;
		q->release.all_fields = below(w, 2) == 0;
		q->release.fields = fields;
		q->release.field_count = 1;
		break;
	case 2:
		q->op = SY_OP_PIN_CHECK;
		r->names[0] = a->pin;
		q->pin_check.names = r->names;
		q->pin_check.count = 1;
		q->pin_check.held = r->held;
		break;
	default:
		q->op = SY_OP_HEARTBEAT;
		break;
	}
}

static void send_request(struct world *w, struct actor *a)
{
	struct record *r = record_new(w);
	uint32_t slot = (uint32_t)below(w, SLOTS);
	r->event.kind = SY_EVENT_REQUEST;
	r->event.request.id = name_of(&a->c, slot, ++a->seq[slot]);
	r->event.request.message = ++w->next_message;
	add_notices(w, a, &r->event.request);
	if (below(w, 2) == 0)
		fill_put(w, a, r);
	else
		fill_other(w, a, r);
	if (below(w, 12) == 0)
		return; /* lost; perhaps it comes later */
	step_and_look(w, &r->event, r);
}

static void send_again(struct world *w)
{
	struct record *r = &w->records[below(w, RECORDS)];
	if (r->event.kind != SY_EVENT_REQUEST || is_kept(w, r))
		return;
	struct sy_event e = r->event;
	e.request.redo = false;
	e.request.notice_count = 0;
	if (e.request.op == SY_OP_PUT_INLINE && !sy_core_wants_index(w->d->core, &e.request))
		e.request.put_inline.index = NULL;
	step_and_look(w, &e, r);
}

/* Ends a hold by a notice: the client does not touch it from now on. */
static void queue_notice(struct world *w, uint32_t client)
{
	struct actor *a = &w->actors[client];
	struct hold *h = &w->holds[below(w, HOLDS)];
	for (uint32_t i = 0; i < HOLDS && (!h->used || h->client != client || h->number != 0); i++)
		h = &w->holds[(uint32_t)(h - w->holds + 1) % HOLDS];
	if (!h->used || h->client != client || h->number != 0 || a->notice_count + 2 > NOTICES)
		return;
	if (h->is_pin) {
		a->notices[a->notice_count++] =
			(struct sy_notice){.kind = SY_NOTICE_UNPIN, .name = h->name};
		for (uint32_t i = 0; i < HOLDS; i++) {
			struct hold *same = &w->holds[i];
			if (!same->used || !same->is_pin || !sy_request_id_equal(same->name, h->name))
				continue;
			/* One that expires first is in quarantine all the same. */
			same->carrier = a->c.session;
			same->number = a->notice_count;
		}
		return;
	}
	bool in_flight = below(w, 2) == 0;
	a->notices[a->notice_count++] =
		(struct sy_notice){.kind = SY_NOTICE_ABORT, .in_flight = in_flight, .name = h->name};
	if (in_flight)
		a->notices[a->notice_count++] =
			(struct sy_notice){.kind = SY_NOTICE_DRAINED, .name = h->name};
	h->carrier = a->c.session;
	h->number = a->notice_count;
	if (sy_request_id_equal(a->name, h->name))
		a->region.generation = 0;
}

static void end_client(struct world *w, uint32_t client)
{
	struct actor *a = &w->actors[client];
	uint64_t kind = below(w, 4);
	struct sy_event e = {.kind = SY_EVENT_PEER_EOF};
	if (a->c.token == 0 || kind == 0) {
		connect_client(w, a);
		return;
	}
	e.peer.token = a->c.token;
	if (kind == 1) {
		step_and_look(w, &e, NULL);
		e.kind = SY_EVENT_PEER_GONE;
	} else if (kind == 2) {
		e.kind = SY_EVENT_PEER_GONE;
	} else {
		e.kind = SY_EVENT_PEER_BYE;
		e.peer.last_notice = a->notice_count;
	}
	drop_holds(w, client);
	step_and_look(w, &e, NULL);
	if (kind == 3) {
		e.kind = SY_EVENT_PEER_GONE;
		if (below(w, 2) == 0)
			step_and_look(w, &e, NULL);
		else
			step_and_look(w, &(struct sy_event){.kind = SY_EVENT_CONTINUE}, NULL);
		step_and_look(w, &e, NULL);
	}
	new_client(w, a);
}

static void answer_fence(struct world *w)
{
	if (w->fence_count == 0)
		return;
	uint32_t i = (uint32_t)below(w, w->fence_count);
	struct sy_event e = {.kind = SY_EVENT_FENCED};
	e.fenced.session = w->fences[i];
	w->fences[i] = w->fences[--w->fence_count];
	/* Nothing can be written any more, but what was posted may land during the grace. */
	for (uint32_t k = 0; k < HOLDS; k++) {
		struct hold *h = &w->holds[k];
		if (h->used && !h->is_pin && h->name.session == e.fenced.session)
			h->until_ns = w->d->now_ns + w->d->params.retire_grace_ns;
	}
	step_and_look(w, &e, NULL);
}

static void pass_time(struct world *w)
{
	static const uint64_t spans[] = {0, 1000, SEC, 7ull * SEC, 61ull * SEC};
	w->d->now_ns += spans[below(w, below(w, 8) == 0 ? COUNT_OF(spans) : 3)];
	step_and_look(w, &(struct sy_event){.kind = SY_EVENT_TICK}, NULL);
}

/* What is derived, made anew, is what it was: on a copy, so that the run goes on as it would. */
static void try_rebuild(struct world *w)
{
	struct driver *d = w->d;
	void *copy = NULL;
	assert_int_equal(posix_memalign(&copy, 64, d->core->arena_bytes), 0);
	memcpy(copy, d->arena, d->core->arena_bytes);
	struct sy_core *core = copy;
	struct sy_unit_stats before, after;
	sy_core_stats(core, &before);
	sy_core_rebuild(core, true);
	assert_null(sy_core_audit(core));
	sy_core_stats(core, &after);
#define SAME_BYTES(field, text) assert_int_equal(before.bytes.field, after.bytes.field);
#define SAME_COUNT(field, text) assert_int_equal(before.field, after.field);
	SY_BYTES_LIST(SAME_BYTES)
	SY_COUNTS_LIST(SAME_COUNT)
#undef SAME_BYTES
#undef SAME_COUNT
	sy_core_rebuild(core, false);
	assert_null(sy_core_audit(core));
	sy_core_stats(core, &after);
	assert_int_equal(after.rows, before.rows);
	assert_int_equal(after.bytes.free + after.bytes.published + after.bytes.rounding, SLAB);
	free(copy);
}

static void one_step(struct world *w)
{
	uint32_t client = (uint32_t)below(w, CLIENTS);
	struct sy_event e = {.kind = SY_EVENT_STATE};
	uint64_t choice = below(w, 100);
	if (choice < 45)
		send_request(w, &w->actors[client]);
	else if (choice < 60)
		send_again(w);
	else if (choice < 75)
		queue_notice(w, client);
	else if (choice < 78)
		end_client(w, client);
	else if (choice < 82)
		answer_fence(w);
	else if (choice < 90)
		pass_time(w);
	else if (choice < 91) {
		e.unit.state = below(w, 4) == 0 ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE;
		step_and_look(w, &e, NULL);
	} else if (w->d->fx.again)
		step_and_look(w, &(struct sy_event){.kind = SY_EVENT_CONTINUE}, NULL);
	run_redo(w);
}

/* All clients go; all that is theirs comes back. */
static void end_world(struct world *w)
{
	struct driver *d = w->d;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (w->actors[i].c.token == 0)
			continue;
		struct sy_event e = {.kind = SY_EVENT_PEER_GONE};
		e.peer.token = w->actors[i].c.token;
		step_and_look(w, &e, NULL);
	}
	for (int i = 0; i < 1000; i++) {
		d->now_ns += 10ull * SEC;
		step_and_look(w, &(struct sy_event){.kind = SY_EVENT_TICK}, NULL);
		run_redo(w);
		answer_fence(w);
		run_redo(w);
	}
	assert_int_equal(stats(d).sessions, 0);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).reservations, 0);
	assert_int_equal(stats(d).parked, 0);
	assert_int_equal(w->kept_count, 0);
	assert_int_equal(sy_core_deadline(d->core), UINT64_MAX);
	struct sy_unit_stats s = stats(d);
	assert_int_equal(s.bytes.free + s.bytes.published + s.bytes.rounding, SLAB);
}

static void run_world(uint64_t seed, uint64_t counts[16])
{
	struct sy_core_params params = driver_params(SLAB);
	params.max_entries = 256;
	params.max_pins = 24;
	params.max_parked = 4;
	params.max_jobs = 2;
	params.max_sessions = 24;
	struct world *w = calloc(1, sizeof *w);
	assert_non_null(w);
	w->records = calloc(RECORDS, sizeof *w->records);
	assert_non_null(w->records);
	w->d = driver_open(&params);
	for (uint32_t i = 0; i < DRIVER_KEYS; i++)
		w->d->rows[i] = i * 7 % 4096;
	sy_prng_seed(&w->prng, seed);
	for (uint32_t i = 0; i < CLIENTS; i++)
		new_client(w, &w->actors[i]);
	for (uint32_t i = 0; i < STEPS; i++) {
		one_step(w);
		if (i % 200 == 0)
			try_rebuild(w);
	}
	end_world(w);
	for (uint32_t i = 0; i < 16; i++)
		counts[i] += w->counts[i];
	driver_close(w->d);
	free(w->records);
	free(w);
}

static void test_random(void **state)
{
	(void)state;
	uint64_t seed = harness_seed();
	uint64_t counts[16] = {0};
	for (uint64_t i = 0; i < 6; i++)
		run_world(seed + i, counts);
	/* It went everywhere. */
	for (uint32_t fault = 0; fault <= SY_FAULT_PROTOCOL; fault++)
		assert_int_not_equal(counts[fault], 0);
	for (uint32_t effect = SY_EFFECT_REPLY; effect <= SY_EFFECT_PEER_DONE; effect++)
		assert_int_not_equal(counts[8 + effect], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
