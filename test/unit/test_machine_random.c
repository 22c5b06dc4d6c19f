/* One machine against a model of a unit over a network that loses, doubles, delays and reorders,
 * with sessions that end and units that start anew. Whatever happens: every op ends once and by
 * its deadline, no request that must not run twice does, what is told is true, and in the end
 * the unit holds nothing. */
#include "machine.h"
#include "machine_impl.h"
#include "machine_unit.h"

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

enum { OPS = 96, EVENTS_MAX = 4096, ROUNDS = 100, STARTS_A_ROUND = 1200 };

/* A message on its way, or something the shell does later. */
enum event_kind { TO_UNIT = 1, TO_CLIENT, WRITTEN, DRAINED, UNPIN, CONNECTED };

struct event {
	uint64_t at_ns;
	enum event_kind kind;
	struct sy_buf message;
	struct op *op;
	struct sy_request_id name;
};

struct op {
	struct sy_machine_op op;
	uint64_t blob;
	bool running, writing, written;
};

/* What the caller of a put was told. */
enum told { TOLD_NOTHING = 0, TOLD_OK, TOLD_UNKNOWN, TOLD_FAILED };

struct world {
	struct sy_prng prng;
	struct sy_machine *machine;
	struct unit unit;
	uint64_t now_ns, ahead_ns;
	struct op ops[OPS];
	struct event events[EVENTS_MAX];
	uint32_t event_count, running, faults_percent;
	uint64_t blob_count;
	uint64_t slot_seq[SY_SLOT_COUNT]; /* highest of any message sent */
	uint8_t written[UNIT_BLOBS_MAX];
	uint64_t deadline_ns[UNIT_BLOBS_MAX];
	enum told told[UNIT_BLOBS_MAX];
	uint64_t ends[SY_OP_END_NO_PATH + 1];
	struct sy_scratch scratch;
	bool local;
};

static struct event *later(struct world *world, enum event_kind kind, uint64_t max_ns)
{
	assert_true(world->event_count < EVENTS_MAX);
	struct event *event = &world->events[world->event_count++];
	*event = (struct event){.kind = kind,
	                        .at_ns = world->now_ns + sy_prng_below(&world->prng, max_ns + 1)};
	return event;
}

/* Lost, doubled, or late; mostly just a little late. */
static void transmit(struct world *world, enum event_kind kind, const void *data, size_t bytes)
{
	uint32_t copies = 1;
	if (sy_prng_chance(&world->prng, world->faults_percent))
		copies = (uint32_t)sy_prng_below(&world->prng, 3);
	for (uint32_t i = 0; i < copies && world->event_count < EVENTS_MAX - OPS * 4; i++) {
		bool slow = sy_prng_chance(&world->prng, world->faults_percent / 2);
		struct event *event = later(world, kind, slow ? 20 * S : 20 * MS);
		sy_buf_append(&event->message, data, bytes);
	}
}

static void check_request(struct world *world, const void *data, size_t bytes)
{
	struct sy_request request;
	struct sy_request_id id;
	world->scratch.used = 0;
	assert_int_equal(
		sy_request_decode(data, bytes, &world->scratch, &request, &id, NULL), SY_OK);
	if (request.op == SY_OP_HELLO)
		return;
	if (request.op == SY_OP_RESOLVE_KEYS)
		assert_true(id.seq > world->slot_seq[id.slot]);
	assert_true(id.seq >= world->slot_seq[id.slot]);
	world->slot_seq[id.slot] = id.seq;
	if (request.op == SY_OP_COMMIT)
		assert_true(world->written[unit_blob(&request.commit.blob_id)]);
}

static bool is_put(const struct op *op)
{
	return op->op.kind == SY_OP_KIND_PUT || op->op.kind == SY_OP_KIND_PUT_INLINE;
}

static void on_done(struct world *world, struct op *op)
{
	struct sy_machine_op *m = &op->op;
	assert_true(op->running && !op->writing);
	op->running = false;
	world->running--;
	world->ends[m->end]++;
	if (!op->written) /* a WRITE may end later than its deadline, nothing else may */
		assert_true(world->now_ns <= m->deadline_ns);
	if (is_put(op)) {
		enum told failed = m->unknown ? TOLD_UNKNOWN : TOLD_FAILED;
		world->told[op->blob] = m->end == SY_OP_END_OK ? TOLD_OK : failed;
		if (m->end == SY_OP_END_OK)
			assert_int_equal(world->unit.published[op->blob], 1);
		if (m->in_flight)
			later(world, DRAINED, 5 * S)->name = m->name;
	}
	if (m->kind == SY_OP_KIND_RESOLVE && m->end == SY_OP_END_OK) {
		bool pinned = m->reply.resolved.found[0] == SY_FOUND_PINNED;
		assert_int_equal(pinned, m->name.session != 0);
		if (pinned)
			later(world, UNPIN, 5 * S)->name = m->name;
	}
}

static void pump(struct world *world)
{
	struct sy_machine_effect effect;
	while (sy_machine_next(world->machine, &effect, world->now_ns)) {
		struct op *op = effect.op == NULL ? NULL : effect.op->owner;
		switch (effect.kind) {
		case SY_MACHINE_SEND:
			check_request(world, effect.message, effect.bytes);
			transmit(world, TO_UNIT, effect.message, effect.bytes);
			break;
		case SY_MACHINE_WRITE:
			op->writing = true;
			later(world, WRITTEN, 300 * MS)->op = op;
			break;
		case SY_MACHINE_DONE:
			on_done(world, op);
			break;
		case SY_MACHINE_CONNECT:
			later(world, CONNECTED, 100 * MS);
			break;
		}
	}
}

static void start_one(struct world *world)
{
	static const uint64_t rows[1] = {1};
	static const uint8_t bytes[8] = {1};
	static const struct sy_span field = {bytes, 1};
	static const enum sy_op_kind kinds[] = {
		SY_OP_KIND_PUT,     SY_OP_KIND_PUT,     SY_OP_KIND_PUT_INLINE, SY_OP_KIND_RESOLVE,
		SY_OP_KIND_RESOLVE, SY_OP_KIND_RELEASE, SY_OP_KIND_INFO,
	};
	struct op *op = &world->ops[sy_prng_below(&world->prng, OPS)];
	if (op->running || world->blob_count == UNIT_BLOBS_MAX)
		return;
	struct sy_machine_op *m = &op->op;
	op->blob = 0;
	op->running = true;
	op->written = false;
	m->owner = op;
	m->kind = kinds[sy_prng_below(&world->prng, COUNT_OF(kinds))];
	bool soon = sy_prng_chance(&world->prng, 30);
	m->deadline_ns = world->now_ns + sy_prng_below(&world->prng, soon ? 400 * MS : 30 * S);
	sy_blob_id id = {{0}};
	if (is_put(op)) {
		op->blob = world->blob_count++;
		world->deadline_ns[op->blob] = m->deadline_ns;
	}
	sy_store_u64(id.bytes, op->blob);
	if (m->kind == SY_OP_KIND_PUT)
		m->put = (struct sy_alloc_args){.blob_id = id, .nbytes = 64, .entry_count = 1};
	else if (m->kind == SY_OP_KIND_PUT_INLINE)
		m->put_inline = (struct sy_put_inline_args){.blob_id = id, .blob = {bytes, 8}};
	else if (m->kind == SY_OP_KIND_RESOLVE)
		m->resolve = (struct sy_resolve_args){
			.rows = rows, .fields = &field, .row_count = 1, .field_count = 1};
	else if (m->kind == SY_OP_KIND_RELEASE)
		m->release = (struct sy_release_args){.rows = rows, .row_count = 1, .all_fields = true};
	world->running++;
	sy_machine_start(world->machine, m, world->now_ns);
}

static void to_unit(struct world *world, const struct sy_buf *message)
{
	struct sy_request request;
	struct sy_request_id id;
	struct sy_reply reply;
	static uint8_t found, zero8[1], kind = SY_KIND_BYTES;
	static uint64_t zero64[1];
	static uint32_t zero32[1];
	struct sy_buf buf = {0};
	world->scratch.used = 0;
	assert_int_equal(sy_request_decode(message->data, message->bytes, &world->scratch, &request,
	                                   &id, NULL), SY_OK);
	world->unit.now_ns = world->now_ns + world->ahead_ns;
	if (!unit_request(&world->unit, &request, &reply, &found))
		return;
	reply.key_count = 1;
	reply.resolved = (struct sy_resolved){
		.found = &found, .dtype = zero8, .kind = &kind, .offset = zero64, .nbytes = zero64,
		.generation = zero64, .dim0 = zero64, .tail = zero32};
	sy_reply_encode(&reply, request.op, &buf);
	assert_false(buf.failed);
	transmit(world, TO_CLIENT, buf.data, buf.bytes);
	sy_buf_free(&buf);
}

static void run_event(struct world *world, struct event *event)
{
	struct op *op = event->op;
	bool ok = !sy_prng_chance(&world->prng, world->faults_percent);
	switch (event->kind) {
	case TO_UNIT:
		to_unit(world, &event->message);
		break;
	case TO_CLIENT:
		world->scratch.used = 0;
		sy_machine_receive(world->machine, event->message.data, event->message.bytes,
		                   &world->scratch, world->now_ns);
		break;
	case WRITTEN:
		op->writing = false;
		op->written = true;
		world->written[op->blob] = ok;
		sy_machine_written(world->machine, &op->op, ok,
		                   !ok && sy_prng_chance(&world->prng, 50), world->now_ns);
		break;
	case DRAINED:
		sy_machine_drained(world->machine, event->name, world->now_ns);
		break;
	case UNPIN:
		sy_machine_unpin(world->machine, event->name, world->now_ns);
		break;
	case CONNECTED:
		if (ok)
			sy_machine_connected(world->machine, world->local ? 9 : 0,
			                     world->local ? world->unit.incarnation : 0, world->now_ns);
		else
			sy_machine_disconnected(world->machine, world->now_ns);
		break;
	}
}

/* The next thing that is due by at_ns; false if there is none. */
static bool step(struct world *world, uint64_t at_ns)
{
	uint64_t due_ns = sy_machine_deadline(world->machine);
	uint32_t first = UINT32_MAX;
	for (uint32_t i = 0; i < world->event_count; i++) {
		if (world->events[i].at_ns < due_ns) {
			due_ns = world->events[i].at_ns;
			first = i;
		}
	}
	if (due_ns > at_ns)
		return false;
	world->now_ns = sy_max_u64(world->now_ns, due_ns);
	if (first == UINT32_MAX) {
		sy_machine_tick(world->machine, world->now_ns);
	} else {
		struct event event = world->events[first];
		world->events[first] = world->events[--world->event_count];
		run_event(world, &event);
		sy_buf_free(&event.message);
	}
	pump(world);
	return true;
}

static void pass(struct world *world, uint64_t ns)
{
	uint64_t at_ns = world->now_ns + ns;
	for (uint32_t n = 0; step(world, at_ns); n++)
		assert_true(n < 1000000);
	world->now_ns = at_ns;
}

static void disturb(struct world *world)
{
	uint64_t what = sy_prng_below(&world->prng, 400);
	if (what < 2) {
		unit_end_session(&world->unit);
	} else if (what < 4) {
		sy_machine_disconnected(world->machine, world->now_ns);
	} else if (what == 4) {
		unit_restart(&world->unit);
		if (world->local)
			sy_machine_disconnected(world->machine, world->now_ns);
	} else if (what < 20) {
		struct op *op = &world->ops[sy_prng_below(&world->prng, OPS)];
		if (op->running)
			sy_machine_cancel(world->machine, &op->op, world->now_ns);
	}
	pump(world);
}

static void check_end(struct world *world)
{
	assert_int_equal(world->running, 0);
	assert_true(sy_machine_notices_done(world->machine));
	assert_int_equal(world->machine->notices.held, 0);
	for (uint32_t i = 0; i < world->unit.held_count; i++)
		fail_msg("held: kind %d of slot %u seq %llu", world->unit.held[i].kind,
		         world->unit.held[i].name.slot,
		         (unsigned long long)world->unit.held[i].name.seq);
	for (uint64_t i = 0; i < world->blob_count; i++) {
		uint8_t times = world->unit.published[i];
		assert_true(times <= 1);
		assert_true(world->told[i] != TOLD_OK || times == 1);
		assert_true(world->told[i] != TOLD_FAILED || times == 0);
		if (times == 1) /* never after its caller gave up */
			assert_true(world->unit.published_ns[i] - world->ahead_ns < world->deadline_ns[i]);
	}
}

static void run_round(uint64_t seed, uint64_t *ends, uint64_t *granted)
{
	struct world *world = calloc(1, sizeof *world);
	static const uint8_t ns[] = "n";
	assert_non_null(world);
	sy_prng_seed(&world->prng, seed);
	struct sy_machine_config config = {
		.unit_id = 3, .slot_count = 4, .ns = {ns, 1}, .control_timeout_ns = 3 * S};
	world->machine = sy_machine_new(&config);
	assert_non_null(world->machine);
	world->now_ns = 500 * S;
	world->ahead_ns = sy_prng_below(&world->prng, 1000 * S) - 400 * S;
	world->faults_percent = (uint32_t)sy_prng_below(&world->prng, 40);
	world->local = sy_prng_chance(&world->prng, 50);
	world->unit.prng = &world->prng;
	world->unit.busy_percent = (uint32_t)sy_prng_below(&world->prng, 30);
	world->scratch.bytes = 1 << 16;
	world->scratch.data = aligned_alloc(16, world->scratch.bytes);
	unit_restart(&world->unit);
	uint64_t gap_ns = (1 + sy_prng_below(&world->prng, 100)) * MS;
	for (int i = 0; i < STARTS_A_ROUND; i++) {
		start_one(world);
		pump(world);
		disturb(world);
		pass(world, sy_prng_below(&world->prng, gap_ns));
	}
	pass(world, 40 * S);
	world->faults_percent = 0;
	world->unit.busy_percent = 0;
	pass(world, 60 * S);
	check_end(world);
	for (size_t i = 0; i < COUNT_OF(world->ends); i++)
		ends[i] += world->ends[i];
	*granted += world->unit.granted;
	for (uint32_t i = 0; i < world->event_count; i++)
		sy_buf_free(&world->events[i].message);
	for (size_t i = 0; i < OPS; i++)
		sy_buf_free(&world->ops[i].op.result);
	sy_machine_free(world->machine);
	free(world->scratch.data);
	free(world);
}

static void test_random_runs(void **state)
{
	(void)state;
	uint64_t seed = harness_seed();
	uint64_t ends[SY_OP_END_NO_PATH + 1] = {0}, granted = 0;
	for (uint64_t i = 0; i < ROUNDS; i++)
		run_round(seed + i, ends, &granted);
	print_message("ok %llu, in a grant %llu, timeout %llu, missing %llu, session %llu, write "
	              "%llu\n",
	              (unsigned long long)ends[SY_OP_END_OK], (unsigned long long)granted,
	              (unsigned long long)ends[SY_OP_END_TIMEOUT],
	              (unsigned long long)ends[SY_OP_END_MISSING],
	              (unsigned long long)ends[SY_OP_END_SESSION],
	              (unsigned long long)ends[SY_OP_END_WRITE]);
	assert_true(ends[SY_OP_END_OK] > 0 && ends[SY_OP_END_TIMEOUT] > 0);
	assert_true(granted > 0);
	assert_true(ends[SY_OP_END_SESSION] > 0 && ends[SY_OP_END_WRITE] > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_runs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
