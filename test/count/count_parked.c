/* Steps of a unit that has parked requests, for callgrind: the same with one put and one resolve
 * that wait as with 500 of each, since no step may walk them. The disk never comes to an end, so
 * that they wait for as long as it takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

enum { MIB = 1 << 20, SESSIONS = 17, MANY = 500, ROUNDS = 10, PUT_BYTES = 12 * MIB };

static const uint64_t now_ns = 1000;

struct unit {
	struct sy_core *core;
	struct sy_effects effects;
	uint64_t sessions[SESSIONS], seq, message;
	struct sy_resolved out;
	struct sy_effect write; /* the first one */
};

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "count_parked: %s\n", what);
	exit(1);
}

static const struct sy_effect *effect_of(const struct unit *unit, enum sy_effect_kind kind)
{
	for (uint32_t i = 0; i < unit->effects.count; i++) {
		if (unit->effects.items[i].kind == kind)
			return &unit->effects.items[i];
	}
	return NULL;
}

static void step(struct unit *unit, const struct sy_event *event)
{
	const struct sy_effect *write;

	sy_core_step(unit->core, event, now_ns, &unit->effects);
	write = effect_of(unit, SY_EFFECT_DISK_WRITE);
	if (write != NULL && unit->write.nbytes == 0)
		unit->write = *write;
}

static struct sy_event request(struct unit *unit, enum sy_op op, uint32_t who, uint32_t slot)
{
	struct sy_event event = {.kind = SY_EVENT_REQUEST};

	event.request.op = op;
	event.request.id = (struct sy_request_id){
		.session = unit->sessions[who], .seq = ++unit->seq, .slot = slot};
	event.request.message = ++unit->message;
	return event;
}

static const struct sy_effect *reply(const struct unit *unit)
{
	const struct sy_effect *effect = effect_of(unit, SY_EFFECT_REPLY);

	if (effect == NULL || effect->outcome.fault != SY_FAULT_NONE)
		die("a request that was to be served is not");
	return effect;
}

static struct sy_event alloc(struct unit *unit, uint32_t who, uint32_t slot, uint64_t bytes)
{
	struct sy_event event = request(unit, SY_OP_ALLOC, who, slot);

	memcpy(event.request.alloc.blob_id.bytes, &unit->seq, sizeof unit->seq);
	event.request.alloc.nbytes = bytes;
	event.request.alloc.until_ns = UINT64_MAX;
	event.request.alloc.entry_count = 1;
	event.request.alloc.ssd = true;
	return event;
}

/* A blob of one row. */
static void put(struct unit *unit, const uint64_t *row, uint64_t bytes)
{
	sy_column column = {.field = "v", .field_bytes = 1, .kind = SY_KIND_BYTES, .row_count = 1,
	                    .extent = bytes};
	sy_index index = {.rows = row, .row_count = 1, .columns = &column, .column_count = 1};
	sy_error err = {0};
	struct sy_event event = alloc(unit, 0, 0, 0);

	index.blob_id = event.request.alloc.blob_id;
	if (sy_index_layout(&index, &err) != SY_OK)
		die(err.message);
	event.request.alloc.nbytes = index.blob_bytes;
	step(unit, &event);
	uint64_t generation = reply(unit)->outcome.generation;
	event = request(unit, SY_OP_COMMIT, 0, 0);
	event.request.commit.blob_id = index.blob_id;
	event.request.commit.generation = generation;
	event.request.commit.until_ns = UINT64_MAX;
	event.request.commit.index = &index;
	step(unit, &event);
	reply(unit);
}

static void park(struct unit *unit, struct sy_event event)
{
	step(unit, &event);
	if (effect_of(unit, SY_EFFECT_KEEP) == NULL || effect_of(unit, SY_EFFECT_REPLY) != NULL)
		die("a request that was to wait does not");
}

/* A put that waits for room, and a resolve of what is being read from the disk. */
static void park_two(struct unit *unit, uint32_t number)
{
	static const uint64_t row = 1;
	static const struct sy_span field = {(const uint8_t *)"v", 1};
	uint32_t who = 1 + number / 32, slot = number % 32 * 2;

	park(unit, alloc(unit, who, slot, PUT_BYTES));
	struct sy_event event = request(unit, SY_OP_RESOLVE_KEYS, who, slot + 1);
	event.request.resolve.rows = &row;
	event.request.resolve.fields = &field;
	event.request.resolve.row_count = event.request.resolve.field_count = 1;
	event.request.resolve.key_count = 1;
	event.request.resolve.out = &unit->out;
	park(unit, event);
}

/* One more that waits, its client moving on, and time. */
static void steps(struct unit *unit)
{
	struct sy_event event;

	for (int i = 0; i < ROUNDS; i++) {
		event = alloc(unit, 0, 1, PUT_BYTES + MIB);
		step(unit, &event);
		event = request(unit, SY_OP_HEARTBEAT, 0, 1);
		step(unit, &event);
		event = (struct sy_event){.kind = SY_EVENT_TICK};
		step(unit, &event);
		if (unit->effects.again || sy_core_deadline(unit->core) == UINT64_MAX)
			die("nobody waits any more");
	}
}

/* The empty words tell the functions apart, which are one to a compiler otherwise. */
#define CASE(name) \
	__attribute__((noinline)) static void count_##name(struct unit *unit) \
	{ \
		__asm__ volatile("# " #name); \
		steps(unit); \
	}

CASE(one)
CASE(many)

static void open_unit(struct unit *unit)
{
	const uint64_t second_ns = 1000000000;
	const struct sy_core_params params = {
		.slab_bytes = 64 * MIB, .staging_bytes = 8 * MIB, .disk_bytes = 256 * MIB,
		.load_whole_bytes = MIB, .incarnation = 7, .seed = 5, .slot_count = 1,
		.max_entries = 1024, .max_sessions = SESSIONS, .max_pins = 1024, .max_fields = 4,
		.max_namespaces = 4, .max_shapes = 4, .max_parked = 1024, .max_jobs = 4,
		.eager_max_bytes = 8192, .inline_max_bytes = 8192, .inline_total_bytes = 8192,
		.read_pin_ns = 60 * second_ns, .heartbeat_ns = 2 * second_ns,
		.session_expire_ns = 20 * second_ns, .retire_grace_ns = 120 * second_ns,
		.park_max_ns = second_ns,
	};
	size_t arena_bytes = (sy_core_arena_bytes(&params) + 63) / 64 * 64;
	void *arena = aligned_alloc(64, arena_bytes);
	static uint64_t numbers[4];
	static uint32_t tail;
	static uint8_t bytes[3];
	static struct sy_shape shape;

	if (arena == NULL)
		die("out of memory");
	memset(arena, 0, arena_bytes);
	unit->core = sy_core_init(arena, &params);
	if (unit->core == NULL)
		die("no unit");
	unit->out = (struct sy_resolved){.found = bytes, .dtype = bytes + 1, .kind = bytes + 2,
	                                 .offset = numbers, .nbytes = numbers + 1,
	                                 .generation = numbers + 2, .dim0 = numbers + 3,
	                                 .tail = &tail, .shapes = &shape};
	for (uint32_t i = 0; i < SESSIONS; i++) {
		struct sy_event event = request(unit, SY_OP_HELLO, i, 0);

		event.request.hello.version = SY_PROTOCOL_VERSION;
		event.request.hello.slot_count = 1;
		event.request.hello.ns = (struct sy_span){(const uint8_t *)"count", 5};
		event.request.hello.identity = (struct sy_identity){.random = 1 + i, .pid = 1};
		event.request.hello.connection_count = 1;
		event.request.hello.token = 1 + i;
		step(unit, &event);
		unit->sessions[i] = reply(unit)->outcome.count;
	}
}

int main(void)
{
	static struct unit unit;
	static const uint64_t rows[] = {1, 2};

	open_unit(&unit);
	put(&unit, &rows[0], MIB);
	put(&unit, &rows[1], 49 * MIB);
	/* The slab is nearly full: the first one goes to the disk, the second one is on its way. */
	struct sy_event event = {.kind = SY_EVENT_DISK};
	event.disk.blob = unit.write.blob;
	event.disk.grant = unit.write.grant;
	event.disk.result = SY_DISK_OK;
	step(&unit, &event);
	park_two(&unit, 0);
	count_one(&unit);
	for (uint32_t i = 1; i < MANY; i++)
		park_two(&unit, i);
	count_many(&unit);
	return 0;
}
