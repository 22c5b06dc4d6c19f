/* A shell of the unit core for tests: builds events, steps, audits after each step. */
#ifndef SY_CORE_DRIVER_H
#define SY_CORE_DRIVER_H

#include "harness.h"

#include "blob.h"
#include "core.h"

#include <string.h>

enum { SEC = 1000000000, DRIVER_KEYS = 16384 };

/* The clients of tests: their identity by a number, and what they said so far. */
struct client {
	struct sy_identity identity;
	uint64_t session, token, count, notice;
};

struct driver {
	struct sy_core_params params;
	void *arena;
	struct sy_core *core;
	uint64_t now_ns;
	struct sy_effects fx;
	/* Lent to resolves and scans. */
	struct sy_resolved out;
	struct sy_scan_item items[64];
	uint32_t item_count;
	uint64_t cursor;
	uint64_t rows[DRIVER_KEYS];
};

/* The audit after each step looks at every bucket, of which there are as many as entries. */
static inline struct sy_core_params driver_params(uint64_t slab_bytes)
{
	return (struct sy_core_params){
		.slab_bytes = slab_bytes, .incarnation = 77, .seed = 5, .unit_id = 0, .slot_count = 3,
		.max_entries = 4096, .max_sessions = 16, .max_pins = 64, .max_fields = 64,
		.max_namespaces = 4, .max_shapes = 16, .max_parked = 32, .max_jobs = 4,
		.eager_max_bytes = 8192, .inline_max_bytes = 1024, .inline_total_bytes = 4096,
		.remote_write = true, .read_pin_ns = 60ull * SEC, .heartbeat_ns = 2ull * SEC,
		.session_expire_ns = 20ull * SEC, .retire_grace_ns = 120ull * SEC,
		.park_max_ns = 1ull * SEC,
	};
}

static inline struct driver *driver_open(const struct sy_core_params *params)
{
	struct driver *d = calloc(1, sizeof *d);
	assert_non_null(d);
	d->params = *params;
	uint64_t bytes = sy_core_arena_bytes(params);
	assert_int_not_equal(bytes, 0);
	assert_int_equal(posix_memalign(&d->arena, 64, bytes), 0);
	memset(d->arena, 0, bytes);
	d->core = sy_core_init(d->arena, params);
	assert_non_null(d->core);
	d->now_ns = 1000ull * SEC;
	d->out.found = calloc(DRIVER_KEYS, 1);
	d->out.dtype = calloc(DRIVER_KEYS, 1);
	d->out.kind = calloc(DRIVER_KEYS, 1);
	d->out.offset = calloc(DRIVER_KEYS, sizeof(uint64_t));
	d->out.nbytes = calloc(DRIVER_KEYS, sizeof(uint64_t));
	d->out.generation = calloc(DRIVER_KEYS, sizeof(uint64_t));
	d->out.dim0 = calloc(DRIVER_KEYS, sizeof(uint64_t));
	d->out.tail = calloc(DRIVER_KEYS, sizeof(uint32_t));
	d->out.shapes = calloc(DRIVER_KEYS, sizeof(struct sy_shape));
	return d;
}

static inline void driver_close(struct driver *d)
{
	void *lent[] = {d->out.found,      d->out.dtype, d->out.kind, d->out.offset, d->out.nbytes,
	                d->out.generation, d->out.dim0,  d->out.tail, d->out.shapes, d->arena};
	for (size_t i = 0; i < COUNT_OF(lent); i++)
		free(lent[i]);
	free(d);
}

static inline void step(struct driver *d, const struct sy_event *event)
{
	sy_core_step(d->core, event, d->now_ns, &d->fx);
	const char *fault = sy_core_audit(d->core);
	if (fault != NULL)
		fail_msg("audit: %s", fault);
}

static inline void step_kind(struct driver *d, enum sy_event_kind kind)
{
	step(d, &(struct sy_event){.kind = kind});
}

/* Steps on until nothing more is to come. The effects are those of the last step. */
static inline void settle(struct driver *d)
{
	for (int i = 0; i < 100000 && d->fx.again; i++)
		step_kind(d, SY_EVENT_CONTINUE);
	assert_false(d->fx.again);
}

static inline void advance(struct driver *d, uint64_t ns)
{
	d->now_ns += ns;
	step_kind(d, SY_EVENT_TICK);
}

static inline uint32_t count_effects(const struct driver *d, enum sy_effect_kind kind)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < d->fx.count; i++)
		count += d->fx.items[i].kind == kind;
	return count;
}

static inline const struct sy_effect *effect_of(const struct driver *d, enum sy_effect_kind kind)
{
	for (uint32_t i = 0; i < d->fx.count; i++) {
		if (d->fx.items[i].kind == kind)
			return &d->fx.items[i];
	}
	return NULL;
}

/* The outcome of the only reply of the last step. */
static inline struct sy_outcome answer(const struct driver *d)
{
	assert_int_equal(count_effects(d, SY_EFFECT_REPLY), 1);
	return effect_of(d, SY_EFFECT_REPLY)->outcome;
}

static inline void assert_silent(const struct driver *d)
{
	assert_int_equal(count_effects(d, SY_EFFECT_REPLY), 0);
}

static inline void assert_protocol(const struct driver *d, enum sy_why why)
{
	struct sy_outcome outcome = answer(d);
	assert_int_equal(outcome.fault, SY_FAULT_PROTOCOL);
	assert_int_equal(outcome.why, why);
}

static inline void assert_busy(const struct driver *d, enum sy_busy busy)
{
	struct sy_outcome outcome = answer(d);
	assert_int_equal(outcome.fault, SY_FAULT_BUSY);
	assert_int_equal(outcome.busy, busy);
}

static inline void assert_full(const struct driver *d, enum sy_resource resource)
{
	struct sy_outcome outcome = answer(d);
	assert_int_equal(outcome.fault, SY_FAULT_UNIT_FULL);
	assert_int_equal(outcome.resource, resource);
}

static inline void assert_ok(const struct driver *d)
{
	assert_int_equal(answer(d).fault, SY_FAULT_NONE);
}

static inline struct sy_span span(const char *text)
{
	return (struct sy_span){.data = (const uint8_t *)text, .bytes = strlen(text)};
}

static inline sy_blob_id blob_id(uint64_t number)
{
	sy_blob_id id = {{0}};
	memcpy(id.bytes, &number, sizeof number);
	return id;
}

static inline struct sy_event hello_event(const struct client *c)
{
	struct sy_event e = {.kind = SY_EVENT_REQUEST};
	e.request.op = SY_OP_HELLO;
	e.request.hello.version = SY_PROTOCOL_VERSION;
	e.request.hello.slot_count = 3;
	e.request.hello.ns = span("space");
	e.request.hello.identity = c->identity;
	e.request.hello.connection_count = c->count;
	e.request.hello.token = c->token;
	return e;
}

/* The client connects (again); its session is live. */
static inline void hello(struct driver *d, struct client *c)
{
	c->count++;
	c->notice = 0;
	struct sy_event e = hello_event(c);
	step(d, &e);
	assert_ok(d);
	c->session = answer(d).count;
	assert_int_not_equal(c->session, 0);
}

/* Client `number`; token 0: of another host. */
static inline struct client client_new(struct driver *d, uint64_t number, uint64_t token)
{
	struct client c = {.identity = {.random = number, .pid = (uint32_t)number, .start_time = 1},
	                   .token = token};
	hello(d, &c);
	return c;
}

static inline struct sy_request_id name_of(const struct client *c, uint32_t slot, uint64_t seq)
{
	return (struct sy_request_id){.session = c->session, .slot = slot, .seq = seq};
}

static inline struct sy_event request(const struct client *c, enum sy_op op, uint32_t slot,
                                      uint64_t seq)
{
	struct sy_event e = {.kind = SY_EVENT_REQUEST};
	e.request.id = name_of(c, slot, seq);
	e.request.op = op;
	e.request.route = 1000 + slot;
	e.request.message = seq * 100 + slot;
	return e;
}

static inline struct sy_event alloc_event(const struct client *c, uint32_t slot, uint64_t seq,
                                          uint64_t blob, uint64_t nbytes, uint32_t entries)
{
	struct sy_event e = request(c, SY_OP_ALLOC, slot, seq);
	e.request.alloc.blob_id = blob_id(blob);
	e.request.alloc.nbytes = nbytes;
	e.request.alloc.entry_count = entries;
	e.request.alloc.until_ns = UINT64_MAX;
	return e;
}

static inline struct sy_outcome alloc(struct driver *d, const struct client *c, uint32_t slot,
                                      uint64_t seq, uint64_t blob, uint64_t nbytes,
                                      uint32_t entries)
{
	struct sy_event e = alloc_event(c, slot, seq, blob, nbytes, entries);
	step(d, &e);
	return answer(d);
}

/* An index of rows first_row.. by fields "a00", "a01", ..., each entry `bytes` long. */
struct test_index {
	sy_index index;
	sy_column columns[256];
	uint64_t rows[DRIVER_KEYS];
	char names[256][8];
};

static inline const sy_index *index_of(struct test_index *t, uint64_t blob, uint64_t first_row,
                                       uint32_t rows, uint32_t fields, uint64_t bytes)
{
	memset(&t->index, 0, sizeof t->index);
	memset(t->columns, 0, sizeof t->columns);
	t->index.blob_id = blob_id(blob);
	t->index.rows = t->rows;
	t->index.row_count = rows;
	t->index.columns = t->columns;
	t->index.column_count = fields;
	t->index.entry_count = rows * fields;
	t->index.index_bytes = 64 + 8ull * rows + 64ull * fields;
	uint64_t at = (t->index.index_bytes + 63) & ~63ull;
	for (uint32_t i = 0; i < rows; i++)
		t->rows[i] = first_row + i;
	for (uint32_t i = 0; i < fields; i++) {
		sy_column *column = &t->columns[i];
		snprintf(t->names[i], sizeof t->names[i], "%c%02u", 'a' + (int)(i / 100), i % 100);
		column->field = t->names[i];
		column->field_bytes = strlen(t->names[i]);
		column->kind = SY_KIND_BYTES;
		column->row_count = rows;
		column->extent = bytes;
		column->base = at;
		at += rows * ((bytes + 63) & ~63ull);
	}
	/* The last entry ends the blob: no padding after it. */
	t->index.blob_bytes = at - (rows * fields == 0 ? 0 : -bytes % 64);
	return &t->index;
}

static inline struct sy_event commit_event(const struct client *c, uint32_t slot, uint64_t seq,
                                           uint64_t blob, uint64_t generation,
                                           const sy_index *index)
{
	struct sy_event e = request(c, SY_OP_COMMIT, slot, seq);
	e.request.commit.blob_id = blob_id(blob);
	e.request.commit.generation = generation;
	e.request.commit.until_ns = UINT64_MAX;
	e.request.commit.index = index;
	return e;
}

static inline void commit(struct driver *d, const struct client *c, uint32_t slot, uint64_t seq,
                          uint64_t blob, uint64_t generation, const sy_index *index)
{
	struct sy_event e = commit_event(c, slot, seq, blob, generation, index);
	step(d, &e);
}

/* alloc and commit under seq and seq + 1. */
static inline struct sy_outcome put(struct driver *d, const struct client *c, uint32_t slot,
                                    uint64_t seq, uint64_t blob, const sy_index *index)
{
	struct sy_outcome region =
		alloc(d, c, slot, seq, blob, index->blob_bytes, index->entry_count);
	assert_int_equal(region.fault, SY_FAULT_NONE);
	assert_int_equal(region.answer, SY_ANSWER_REGION);
	commit(d, c, slot, seq + 1, blob, region.generation, index);
	assert_ok(d);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	return region;
}

static inline struct sy_event resolve_event(struct driver *d, const struct client *c,
                                            uint32_t slot, uint64_t seq, uint64_t first_row,
                                            uint32_t rows, const struct sy_span *fields,
                                            uint32_t field_count, uint32_t inline_max)
{
	struct sy_event e = request(c, SY_OP_RESOLVE_KEYS, slot, seq);
	for (uint32_t i = 0; i < rows && i < DRIVER_KEYS; i++)
		d->rows[i] = first_row + i;
	e.request.resolve.rows = d->rows;
	e.request.resolve.fields = fields;
	e.request.resolve.row_count = rows;
	e.request.resolve.field_count = field_count;
	e.request.resolve.key_count = rows * field_count;
	e.request.resolve.inline_max_bytes = inline_max;
	e.request.resolve.out = &d->out;
	return e;
}

/* Resolves field a00 of some rows, pinning all but empty values. */
static inline void resolve(struct driver *d, const struct client *c, uint32_t slot, uint64_t seq,
                           uint64_t first_row, uint32_t rows)
{
	struct sy_span field = span("a00");
	struct sy_event e = resolve_event(d, c, slot, seq, first_row, rows, &field, 1, 0);
	step(d, &e);
	assert_ok(d);
}

static inline struct sy_event release_event(struct driver *d, const struct client *c,
                                            uint32_t slot, uint64_t seq, uint64_t first_row,
                                            uint32_t rows)
{
	struct sy_event e = request(c, SY_OP_RELEASE_ROWS, slot, seq);
	for (uint32_t i = 0; i < rows && i < DRIVER_KEYS; i++)
		d->rows[i] = first_row + i;
	e.request.release.rows = d->rows;
	e.request.release.row_count = rows;
	e.request.release.all_fields = true;
	return e;
}

static inline void release(struct driver *d, const struct client *c, uint32_t slot, uint64_t seq,
                           uint64_t first_row, uint32_t rows)
{
	struct sy_event e = release_event(d, c, slot, seq, first_row, rows);
	step(d, &e);
}

/* A heartbeat under its own slot 63 that carries notices. */
static inline void notify(struct driver *d, struct client *c, const struct sy_notice *notices,
                          uint32_t count)
{
	struct sy_event e = request(c, SY_OP_HEARTBEAT, 63, c->notice + 1);
	e.request.first_notice = c->notice + 1;
	e.request.notice_count = count;
	e.request.notices = notices;
	c->notice += count;
	step(d, &e);
}

static inline void notify_one(struct driver *d, struct client *c, enum sy_notice_kind kind,
                              struct sy_request_id name, bool in_flight)
{
	struct sy_notice notice = {.kind = kind, .in_flight = in_flight, .name = name};
	notify(d, c, &notice, 1);
}

static inline void peer(struct driver *d, enum sy_event_kind kind, uint64_t token,
                        uint64_t last_notice)
{
	struct sy_event e = {.kind = kind};
	e.peer.token = token;
	e.peer.last_notice = last_notice;
	step(d, &e);
}

static inline struct sy_unit_stats stats(struct driver *d)
{
	struct sy_unit_stats s;
	sy_core_stats(d->core, &s);
	return s;
}

#endif
