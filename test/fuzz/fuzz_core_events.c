/* Sequences of events of the unit core against a naive model of what it is for: the keys and what
 * was put there last (fuzz_model.h). After each step the audit holds; no request runs twice; a
 * resolve and a scan find exactly what the model holds, also after all clients are gone; nothing
 * is granted or stored over an entry that stands.
 *
 * An input is steps, one after the other. */
#include "fuzz.h"

#include "fuzz_core_world.h"

/* --- what clients send --------------------------------------------------------------------- */

static void connect_actor(uint32_t number, bool is_newer)
{
	static const char *const spaces[] = {"one", "two"};
	struct actor *a = &run.actors[number];
	uint64_t before = a->c.session;
	a->c.count += is_newer;
	struct sy_event e = hello_event(&a->c);
	e.request.hello.ns = span(spaces[number % 2]);
	run_event(&e);
	const struct sy_effect *reply = effect_of(d, SY_EFFECT_REPLY);
	if (reply == NULL || reply->outcome.fault != SY_FAULT_NONE)
		return;
	a->c.session = reply->outcome.count;
	if (a->c.session == before)
		return;
	memset(a->seqs, 0, sizeof a->seqs);
	a->c.notice = 0;
	a->generation = 0;
}

static void new_process(uint32_t number)
{
	struct actor *a = &run.actors[number];
	memset(a, 0, sizeof *a);
	a->c.identity.random = ++run.next_random;
	a->c.token = number + 1 < ACTORS ? ++run.next_token : 0;
	connect_actor(number, true);
}

static void fill_put(struct fuzz_input *input, struct record *r)
{
	struct sy_event_request *q = &r->event.request;
	const struct actor *a = &run.actors[r->actor];
	uint8_t how = fuzz_u8(input);
	uint64_t until_ns = how >= 192 ? d->now_ns + how / 4 % 4 * (SEC / 2) : UINT64_MAX;
	r->blob = q->op == SY_OP_COMMIT && how % 8 != 7 ? a->blob : fuzz_below(input, BLOBS);
	const sy_index *index = &blobs[r->blob].index;
	if (q->op == SY_OP_ALLOC) {
		q->alloc.blob_id = index->blob_id;
		q->alloc.entry_count = index->entry_count;
		q->alloc.nbytes = index->blob_bytes + (how % 4 == 3 ? how * 61u : 0);
		q->alloc.until_ns = until_ns;
	} else if (q->op == SY_OP_COMMIT) {
		q->commit.blob_id = index->blob_id;
		q->commit.generation = a->generation - (how % 16 == 15);
		q->commit.until_ns = until_ns;
	} else {
		q->put_inline.index = index;
		q->put_inline.until_ns = until_ns;
	}
}

static void fill_rows(struct fuzz_input *input, struct record *r)
{
	struct sy_event_request *q = &r->event.request;
	uint8_t how = fuzz_u8(input), row = fuzz_u8(input), field = fuzz_u8(input);
	uint32_t rows = how % 8 + 1u, fields = how / 8 % MODEL_FIELDS + 1u;
	for (uint32_t i = 0; i < rows; i++)
		r->rows[i] = fuzz_blob_row((uint8_t)(row + i));
	for (uint32_t i = 0; i < fields; i++)
		r->fields[i] = fuzz_blob_field((uint8_t)(field + i));
	if (q->op == SY_OP_RELEASE_ROWS) {
		bool is_long = how >= 128; /* several steps */
		q->release.rows = is_long ? long_rows : r->rows;
		q->release.row_count = is_long ? LONG_ROWS : rows;
		q->release.all_fields = how / 32 % 2 == 0;
		q->release.fields = r->fields;
		q->release.field_count = fields;
		return;
	}
	q->resolve.rows = r->rows;
	q->resolve.fields = r->fields;
	q->resolve.row_count = rows;
	q->resolve.field_count = fields;
	q->resolve.key_count = rows * fields;
	q->resolve.inline_max_bytes = how >= 128 ? 256 : 0;
	q->resolve.out = &d->out;
}

static void fill_scan(struct sy_event_request *q)
{
	q->scan.last_row = UINT64_MAX;
	q->scan.limit = COUNT_OF(d->items);
	q->scan.out = d->items;
	q->scan.ret_count = &d->item_count;
	q->scan.ret_cursor = &d->cursor;
}

static void begin_release(struct record *r)
{
	const struct sy_event_request *q = &r->event.request;
	struct model_release *release = model_release_begin(
		&run.model, space_of(r), q->release.rows, q->release.row_count);
	release->all_fields = q->release.all_fields;
	release->field_count = q->release.field_count;
	memcpy(release->fields, q->release.fields, q->release.field_count * sizeof *q->release.fields);
	release->match_count = model_matches(&run.model, release);
	r->release = release;
}

/* Gives in a request, for the first time or again, with the index that a shell would read. */
static void give(struct record *r)
{
	struct sy_event_request *q = &r->event.request;
	uint64_t offset = 0, nbytes = 0;
	if (q->op == SY_OP_COMMIT) {
		bool is_read = sy_core_commit_region(d->core, q, &offset, &nbytes);
		q->commit.index = is_read ? &blobs[r->blob].index : NULL;
		if (is_read)
			FUZZ_CHECK(offset == grant_offset(q->commit.generation));
	}
	r->is_running = sy_core_wants_index(d->core, q);
	FUZZ_CHECK(!r->is_running || !r->has_run || q->op == SY_OP_SCAN);
	r->has_run = r->has_run || r->is_running;
	if (r->is_running && q->op == SY_OP_RELEASE_ROWS)
		begin_release(r);
	const struct sy_event e = r->event;
	run_event(&e);
	r->is_running = false;
}

static struct record *new_record(uint32_t number, uint32_t slot, uint32_t skip, enum sy_op op)
{
	struct record *r = &run.records[++run.record_count];
	struct actor *a = &run.actors[number];
	FUZZ_CHECK(run.record_count < RECORDS);
	a->seqs[slot] += 1 + skip;
	r->actor = number;
	r->event = request(&a->c, op, slot, a->seqs[slot]);
	r->event.request.message = run.record_count;
	r->event.request.route = run.record_count;
	return r;
}

static void send_new(struct fuzz_input *input, bool is_late)
{
	static const enum sy_op ops[] = {SY_OP_ALLOC,        SY_OP_COMMIT,       SY_OP_PUT_INLINE,
	                                 SY_OP_RESOLVE_KEYS, SY_OP_RELEASE_ROWS, SY_OP_SCAN};
	uint8_t how = fuzz_u8(input);
	enum sy_op op = ops[fuzz_below(input, COUNT_OF(ops))];
	struct record *r = new_record(how % ACTORS, how / ACTORS % SLOTS, how >= 224, op);
	if (op == SY_OP_SCAN)
		fill_scan(&r->event.request);
	else if (op == SY_OP_RESOLVE_KEYS || op == SY_OP_RELEASE_ROWS)
		fill_rows(input, r);
	else
		fill_put(input, r);
	if (op == SY_OP_RESOLVE_KEYS)
		run.actors[r->actor].name = r->event.request.id;
	if (!is_late)
		give(r);
}

/* alloc and commit. */
static void send_put(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input);
	struct record *r = new_record(how % ACTORS, how / ACTORS % SLOTS, 0, SY_OP_ALLOC);
	fill_put(input, r);
	give(r);
	r = new_record(how % ACTORS, how / ACTORS % SLOTS, 0, SY_OP_COMMIT);
	struct fuzz_input nothing = {input->end, input->end};
	fill_put(&nothing, r);
	give(r);
}

static void send_again(struct fuzz_input *input)
{
	uint8_t back = fuzz_u8(input);
	if (run.record_count == 0)
		return;
	struct record *r = &run.records[1 + back % run.record_count];
	if (!r->is_kept)
		give(r);
}

/* Rides on a heartbeat that is refused, so that no slot is used. */
static void send_notice(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input);
	struct actor *a = &run.actors[how % ACTORS];
	struct sy_notice notice = {.kind = (enum sy_notice_kind)(1 + how / ACTORS % 3),
	                           .in_flight = how >= 128, .name = a->name};
	struct sy_event e = request(&a->c, SY_OP_HEARTBEAT, 63, 0);
	e.request.first_notice = ++a->c.notice;
	e.request.notice_count = 1;
	e.request.notices = &notice;
	run_event(&e);
}

/* --- everything else ----------------------------------------------------------------------- */

static void end_peer(enum sy_event_kind kind, uint64_t token, uint64_t last_notice)
{
	struct sy_event e = {.kind = kind};
	e.peer.token = token;
	e.peer.last_notice = last_notice;
	run_event(&e);
}

/* Its process says goodbye, loses its connection or goes; or one that did one of the first two
 * is gone at last. */
static void step_peer(struct fuzz_input *input)
{
	uint8_t how = fuzz_u8(input);
	uint32_t number = how % (ACTORS - 1), kind = how / 4 % 4;
	struct actor *a = &run.actors[number];
	if (kind == 3 && run.ended_count > 0) {
		uint32_t at = how / 16 % run.ended_count;
		uint64_t token = run.ended[at];
		run.ended[at] = run.ended[--run.ended_count];
		end_peer(SY_EVENT_PEER_GONE, token, 0);
		return;
	}
	uint64_t token = a->c.token;
	if (kind == 0) {
		run.ended[run.ended_count++] = token;
		end_peer(SY_EVENT_PEER_BYE, token, a->c.notice + (how >= 192));
		new_process(number);
	} else if (kind == 1) {
		run.ended[run.ended_count++] = token;
		end_peer(SY_EVENT_PEER_EOF, token, 0);
		a->c.token = ++run.next_token;
		connect_actor(number, true);
	} else {
		end_peer(SY_EVENT_PEER_GONE, token, 0);
		new_process(number);
	}
}

static void answer_fence(uint32_t at)
{
	if (run.fence_count == 0)
		return;
	struct sy_event e = {.kind = SY_EVENT_FENCED};
	at %= run.fence_count;
	e.fenced.session = run.fences[at];
	run.fences[at] = run.fences[--run.fence_count];
	run_event(&e);
}

static void step_time(struct fuzz_input *input)
{
	static const uint64_t spans[] = {0,           SEC / 4,     2ull * SEC,
	                                 21ull * SEC, 61ull * SEC, 121ull * SEC};
	uint8_t how = fuzz_u8(input);
	struct sy_event e = {.kind = SY_EVENT_STALLED};
	d->now_ns += spans[how % 8 % COUNT_OF(spans)];
	e.stalled.gap_ns = spans[how % 8 % COUNT_OF(spans)];
	if (how >= 224)
		run_event(&e);
	run_kind(SY_EVENT_TICK);
}

static void one_step(struct fuzz_input *input)
{
	uint8_t what = fuzz_u8(input);
	struct sy_event e = {.kind = SY_EVENT_STATE};
	switch (what % 16) {
	case 0:
		send_again(input);
		break;
	case 1:
		send_notice(input);
		break;
	case 2:
		step_time(input);
		break;
	case 3:
		connect_actor(what / 16 % ACTORS, what >= 128);
		break;
	case 4:
		step_peer(input);
		break;
	case 5:
		answer_fence(what / 16);
		break;
	case 6:
		e.unit.state = what >= 192 ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE;
		run_event(&e);
		break;
	case 7:
		run_kind(SY_EVENT_CONTINUE);
		break;
	case 8:
	case 9:
	case 10:
		send_put(input);
		break;
	case 11:
		send_new(input, true);
		break;
	default:
		send_new(input, false);
		break;
	}
}

static void settle_run(void)
{
	for (uint32_t i = 0; i < ROUNDS_MAX; i++) {
		uint64_t due_ns = sy_core_deadline(d->core);
		if (!d->fx.again && run.fence_count == 0 && due_ns == UINT64_MAX)
			return;
		answer_fence(0);
		if (!d->fx.again && due_ns != UINT64_MAX)
			d->now_ns = sy_max_u64(d->now_ns, due_ns);
		run_kind(SY_EVENT_TICK);
	}
	fuzz_fail(__FILE__, __LINE__, "there is no end to what is under way");
}

/* All clients go. Nothing of theirs is left, and a new one finds what they put. */
static void end_run(void)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i + 1 < ACTORS; i++)
		end_peer(SY_EVENT_PEER_GONE, run.actors[i].c.token, 0);
	for (uint32_t i = 0; i < run.ended_count; i++)
		end_peer(SY_EVENT_PEER_GONE, run.ended[i], 0);
	settle_run();
	struct sy_unit_stats s = stats(d);
#define ADD(field, text) bytes += s.bytes.field;
	SY_BYTES_LIST(ADD)
#undef ADD
	FUZZ_CHECK(bytes == SLAB_BYTES);
	FUZZ_CHECK(s.sessions == 0 && s.pins == 0 && s.reservations == 0 && s.parked == 0);
	FUZZ_CHECK(s.bytes.free + s.bytes.published + s.bytes.rounding == SLAB_BYTES);
	for (uint32_t i = 1; i <= run.record_count; i++)
		FUZZ_CHECK(!run.records[i].is_kept);
	FUZZ_CHECK(s.entries >= run.model.entry_count);
	for (uint32_t number = 0; number < 2; number++) {
		new_process(number);
		struct record *r = new_record(number, 0, 0, SY_OP_SCAN);
		fill_scan(&r->event.request);
		give(r);
		FUZZ_CHECK(r->is_answered && effect_of(d, SY_EFFECT_REPLY)->outcome.fault == 0);
	}
}

static void make_driver(void)
{
	struct sy_core_params params = driver_params(SLAB_BYTES);
	params.max_entries = COUNT_OF(d->items);
	params.max_sessions = 8;
	params.max_pins = 8;
	params.max_fields = 8;
	params.max_shapes = 8;
	params.max_parked = 3;
	params.max_jobs = 2;
	d = driver_open(&params);
	for (uint32_t i = 0; i < LONG_ROWS; i++)
		long_rows[i] = fuzz_blob_row((uint8_t)(i * 7));
	for (uint8_t i = 0; i < BLOBS; i++)
		fuzz_blob_make(&blobs[i], i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	if (d == NULL)
		make_driver();
	memset(d->arena, 0, (size_t)d->core->arena_bytes);
	FUZZ_CHECK(sy_core_init(d->arena, &d->params) == d->core);
	memset(&d->fx, 0, sizeof d->fx);
	memset(&run, 0, sizeof run);
	d->now_ns = 1000ull * SEC;
	for (uint32_t i = 0; i < ACTORS; i++)
		new_process(i);
	for (uint32_t i = 0; i < STEPS_MAX && fuzz_left(&input) > 0; i++)
		one_step(&input);
	end_run();
	return 0;
}

void fuzz_corpus(void)
{
	static const uint8_t steps[][24] = {
		{8, 0, 0, 1, 12, 0, 3, 10, 1, 0, 12, 0, 5, 12, 0, 4, 3, 0, 0, 12, 0, 5},
		{12, 1, 2, 0, 3, 12, 5, 2, 0, 3, 0, 0, 12, 1, 3, 255, 1, 0, 1, 5, 4, 4},
		{8, 0, 3, 4, 8, 4, 3, 5, 8, 8, 3, 6, 12, 0, 4, 128, 0, 0, 8, 0, 3, 9, 7, 7},
		{11, 0, 0, 0, 7, 1, 1, 0, 0, 2, 3, 0, 0, 131, 0, 0},
		{8, 3, 0, 7, 12, 3, 3, 7, 0, 0, 2, 3, 5, 2, 5, 12, 0, 5, 4, 9, 4, 12},
		{12, 2, 0, 0, 8, 1, 10, 1, 138, 1, 18, 4, 2, 198, 8, 2, 0, 1, 6, 8, 2, 0, 1},
	};
	for (uint32_t i = 0; i < COUNT_OF(steps); i++)
		fuzz_seed("steps", i, steps[i], sizeof steps[i]);
}
