/* For the tests of messages: the replies. */
#ifndef SY_REPLY_FIXTURE_H
#define SY_REPLY_FIXTURE_H

#include "message_fixture.h"

static uint8_t drawn_found[KEYS], drawn_dtype[KEYS], drawn_kind[KEYS], drawn_held[KEYS];
static uint64_t drawn_offset[KEYS], drawn_nbytes[KEYS], drawn_generation[KEYS], drawn_dim0[KEYS];
static uint32_t drawn_tail[KEYS];
static struct sy_shape drawn_shapes[KEYS];
static struct sy_scan_entry drawn_scan[SY_SCAN_LIMIT_MAX];

static inline struct sy_resolved drawn_resolved(void)
{
	return (struct sy_resolved){
		.found = drawn_found, .dtype = drawn_dtype, .kind = drawn_kind, .offset = drawn_offset,
		.nbytes = drawn_nbytes, .generation = drawn_generation, .dim0 = drawn_dim0,
		.tail = drawn_tail, .shapes = drawn_shapes};
}

static inline void shape_draw(struct sy_prng *prng, struct sy_shape *shape)
{
	memset(shape, 0, sizeof *shape);
	shape->rank = (uint32_t)sy_prng_below(prng, 9);
	for (uint32_t i = 0; i + 1 < shape->rank; i++)
		shape->tail[i] = sy_prng_chance(prng, 10) ? 0 : 1 + sy_prng_below(prng, 5);
}

/* A type, and a length and dim0 that go with it. */
static inline void entry_draw(struct sy_prng *prng, const struct sy_shape *shape, uint8_t *dtype,
                              uint8_t *kind, uint64_t *nbytes, uint64_t *dim0)
{
	uint64_t unit;
	*dim0 = 0;
	*dtype = 0;
	*kind = (uint8_t)(1 + sy_prng_below(prng, 7));
	*nbytes = *kind == SY_KIND_JSON_NULL ? 0 : sy_prng_below(prng, 300);
	if (*kind != SY_KIND_TENSOR)
		return;
	*dtype = (uint8_t)(1 + sy_prng_below(prng, 19));
	assert_true(sy_shape_unit_bytes((sy_dtype)*dtype, shape, &unit));
	*dim0 = shape->rank == 0 ? 0 : sy_prng_below(prng, 20);
	*nbytes = shape->rank == 0 ? unit : *dim0 * unit;
}

static inline void resolved_draw(struct sy_prng *prng, struct sy_reply *reply)
{
	uint64_t inline_bytes = 0;
	reply->key_count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
	reply->resolved = drawn_resolved();
	reply->resolved.shape_count = 1 + (uint32_t)sy_prng_below(prng, 6);
	if (reply->resolved.shape_count > reply->key_count)
		reply->resolved.shape_count = reply->key_count;
	for (uint32_t i = 0; i < reply->resolved.shape_count; i++)
		shape_draw(prng, &drawn_shapes[i]);
	reply->row_keys = sy_prng_chance(prng, 60) ? 1 + (uint32_t)sy_prng_below(prng, 4) : 0;
	for (uint32_t k = 0; k < reply->key_count; k++) {
		bool repeats = reply->row_keys > 0 && k >= reply->row_keys;
		uint32_t as = repeats ? k - reply->row_keys : k; /* mostly: a few differ */
		drawn_found[k] = reply->row_keys > 0 ? SY_FOUND_PINNED
			: (uint8_t)sy_prng_below(prng, SY_FOUND_COUNT);
		drawn_tail[k] = (uint32_t)sy_prng_below(prng, reply->resolved.shape_count);
		entry_draw(prng, &drawn_shapes[drawn_tail[k]], &drawn_dtype[k], &drawn_kind[k],
		           &drawn_nbytes[k], &drawn_dim0[k]);
		if (repeats && !sy_prng_chance(prng, 1)) {
			drawn_tail[k] = drawn_tail[as];
			drawn_dtype[k] = drawn_dtype[as];
			drawn_kind[k] = drawn_kind[as];
			drawn_nbytes[k] = drawn_nbytes[as];
			drawn_dim0[k] = drawn_dim0[as];
		}
		if (inline_bytes + drawn_nbytes[k] > sizeof drawn_bytes)
			drawn_found[k] = SY_FOUND_PINNED;
		drawn_offset[k] = drawn_found[k] == SY_FOUND_INLINE ? inline_bytes : number(prng) >> 1;
		inline_bytes += drawn_found[k] == SY_FOUND_INLINE ? drawn_nbytes[k] : 0;
		drawn_generation[k] = repeats && !sy_prng_chance(prng, 3) ? drawn_generation[as]
		                                                          : number(prng);
	}
	bytes_draw(prng, drawn_bytes, inline_bytes);
	reply->inline_bytes = (struct sy_span){drawn_bytes, inline_bytes};
}

static inline void hello_result_draw(struct sy_prng *prng, struct sy_hello_result *hello)
{
	hello->session = 1 + (number(prng) >> 1);
	hello->incarnation = 1 + (number(prng) >> 1);
	hello->slab_bytes = number(prng);
	hello->unit_id = number32(prng);
	hello->slot_count = 1 + (number32(prng) >> 1);
	hello->read_pin_ns = 1 + (number(prng) >> 1);
	hello->heartbeat_ns = 1 + (number(prng) >> 1);
	hello->session_expire_ns = 1 + (number(prng) >> 1);
	hello->eager_max_bytes = number32(prng);
	hello->inline_max_bytes = number32(prng);
	hello->max_keys = 1 + (number32(prng) >> 1);
	hello->max_entries = 1 + (number32(prng) >> 1);
	hello->max_message_bytes = 1 + (number32(prng) >> 1);
	hello->transports = number32(prng);
	hello->grant_max_bytes = number(prng);
}

static inline void scan_result_draw(struct sy_prng *prng, struct sy_reply *reply)
{
	reply->scan_count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
	reply->scan_cursor = number(prng);
	reply->scan = drawn_scan;
	fields_draw(prng, reply->scan_count);
	for (uint32_t i = 0; i < reply->scan_count; i++) {
		struct sy_scan_entry *entry = &drawn_scan[i];
		shape_draw(prng, &entry->shape);
		entry->row = number(prng);
		entry->field = drawn_fields[i];
		entry_draw(prng, &entry->shape, &entry->dtype, &entry->kind, &entry->nbytes,
		           &entry->dim0);
		if (entry->kind != SY_KIND_TENSOR)
			memset(&entry->shape, 0, sizeof entry->shape);
	}
}

static inline void stats_draw(struct sy_prng *prng, struct sy_unit_stats *stats)
{
	stats->capacity_bytes = number(prng);
	stats->state = (enum sy_unit_state)sy_prng_below(prng, 5);
#define DRAW_BYTES(field, text) stats->bytes.field = number(prng);
	SY_BYTES_LIST(DRAW_BYTES)
#undef DRAW_BYTES
#define DRAW_COUNT(field, text) stats->field = number(prng);
	SY_COUNTS_LIST(DRAW_COUNT)
#undef DRAW_COUNT
}

static inline void result_draw(struct sy_prng *prng, enum sy_op op, struct sy_reply *reply)
{
	struct sy_outcome *outcome = &reply->outcome;
	switch (op) {
	case SY_OP_HELLO:
		hello_result_draw(prng, &reply->hello);
		outcome->count = reply->hello.session;
		break;
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
		outcome->answer = (uint8_t)(op == SY_OP_ALLOC ? 1 + sy_prng_below(prng, 3)
		                                              : 2 + sy_prng_below(prng, 2));
		if (outcome->answer == SY_ANSWER_REGION) {
			outcome->offset = number(prng);
			outcome->generation = number(prng);
		} else if (op == SY_OP_COMMIT && outcome->answer == SY_ANSWER_PUBLISHED &&
		           sy_prng_chance(prng, 50)) {
			outcome->offset = number(prng);
			outcome->generation = 1 + (number(prng) >> 1);
		}
		break;
	case SY_OP_RESOLVE_KEYS:
		resolved_draw(prng, reply);
		break;
	case SY_OP_RELEASE_ROWS:
		outcome->count = number(prng);
		break;
	case SY_OP_PIN_CHECK:
		reply->held_count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
		for (uint32_t i = 0; i < reply->held_count; i++)
			drawn_held[i] = (uint8_t)sy_prng_below(prng, 2);
		reply->held = drawn_held;
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
		reply->unit_state = (enum sy_unit_state)sy_prng_below(prng, 5);
		break;
	case SY_OP_SCAN:
		scan_result_draw(prng, reply);
		break;
	case SY_OP_STATS:
		stats_draw(prng, &reply->stats);
		reply->unit_state = reply->stats.state;
		break;
	}
}

static inline void error_draw(struct sy_prng *prng, struct sy_outcome *outcome)
{
	outcome->fault = (uint8_t)(1 + sy_prng_below(prng, 5));
	if (outcome->fault == SY_FAULT_BUSY)
		outcome->busy = (uint8_t)(1 + sy_prng_below(prng, 6));
	if (outcome->fault == SY_FAULT_PROTOCOL)
		outcome->why = (uint8_t)(1 + sy_prng_below(prng, 14));
	if (outcome->fault == SY_FAULT_UNIT_FULL) {
		outcome->resource = (uint8_t)(1 + sy_prng_below(prng, 8));
		outcome->need = number(prng);
		outcome->free = number(prng);
		outcome->hole = number(prng);
	}
}

static inline struct sy_reply reply_draw(struct sy_prng *prng, enum sy_op op, bool ok)
{
	struct sy_reply reply;
	memset(&reply, 0, sizeof reply);
	reply.id = name_draw(prng);
	reply.outcome.op = (uint8_t)op;
	reply.notices_done = number(prng);
	reply.unit_now_ns = number(prng);
	if (ok)
		result_draw(prng, op, &reply);
	else
		error_draw(prng, &reply.outcome);
	return reply;
}

/* How many items the receiver of this reply asked for. */
static inline uint32_t asked_of(const struct sy_reply *reply, enum sy_op op)
{
	return op == SY_OP_RESOLVE_KEYS ? reply->key_count
	       : op == SY_OP_PIN_CHECK  ? reply->held_count
	       : op == SY_OP_SCAN       ? SY_SCAN_LIMIT_MAX
	                                : 0;
}

static inline void assert_shapes_equal(const sy_shape *a, const sy_shape *b)
{
	assert_int_equal(a->rank, b->rank);
	assert_memory_equal(a->tail, b->tail, sizeof a->tail);
}

static inline void assert_resolved_equal(const struct sy_reply *a, const struct sy_reply *b)
{
	static const sy_shape no_shape;
	const struct sy_resolved *x = &a->resolved;
	const struct sy_resolved *y = &b->resolved;
	struct sy_resolved_sum sum = {0};
	assert_int_equal(a->key_count, b->key_count);
	assert_spans_equal(a->inline_bytes, b->inline_bytes);
	for (uint32_t k = 0; k < a->key_count; k++) {
		sum.absent_count += x->found[k] == SY_FOUND_ABSENT;
		sum.lost_count += sy_found_is_lost(x->found[k]);
		if (x->found[k] == SY_FOUND_INLINE)
			sum.inline_largest = sy_max_u64(sum.inline_largest, x->nbytes[k]);
		if (x->found[k] == SY_FOUND_PINNED) {
			sum.pinned_count++;
			sum.pinned_bytes += x->nbytes[k];
			sum.pinned_end = sy_max_u64(sum.pinned_end, x->offset[k] + x->nbytes[k]);
		}
		bool absent = !sy_found_is_value(x->found[k]);
		bool tensor = !absent && x->kind[k] == SY_KIND_TENSOR;
		assert_int_equal(y->found[k], x->found[k]);
		assert_int_equal(y->dtype[k], absent ? 0 : x->dtype[k]);
		assert_int_equal(y->kind[k], absent ? 0 : x->kind[k]);
		assert_int_equal(y->offset[k], absent ? 0 : x->offset[k]);
		assert_int_equal(y->nbytes[k], absent ? 0 : x->nbytes[k]);
		assert_int_equal(y->generation[k], absent ? 0 : x->generation[k]);
		assert_int_equal(y->dim0[k], absent ? 0 : x->dim0[k]);
		assert_true(y->tail[k] < y->shape_count);
		assert_shapes_equal(tensor ? &x->shapes[x->tail[k]] : &no_shape, &y->shapes[y->tail[k]]);
	}
	assert_int_equal(y->sum.pinned_count, sum.pinned_count);
	assert_int_equal(y->sum.absent_count, sum.absent_count);
	assert_int_equal(y->sum.lost_count, sum.lost_count);
	assert_int_equal(y->sum.pinned_bytes, sum.pinned_bytes);
	assert_int_equal(y->sum.pinned_end, sum.pinned_end);
	assert_int_equal(y->sum.inline_largest, sum.inline_largest);
}

static inline void assert_stats_equal(const struct sy_unit_stats *a, const struct sy_unit_stats *b)
{
	assert_int_equal(a->capacity_bytes, b->capacity_bytes);
	assert_int_equal(a->state, b->state);
#define SAME_BYTES(field, text) assert_int_equal(a->bytes.field, b->bytes.field);
	SY_BYTES_LIST(SAME_BYTES)
#undef SAME_BYTES
#define SAME_COUNT(field, text) assert_int_equal(a->field, b->field);
	SY_COUNTS_LIST(SAME_COUNT)
#undef SAME_COUNT
}

static inline void assert_scans_equal(const struct sy_reply *a, const struct sy_reply *b)
{
	assert_int_equal(a->scan_count, b->scan_count);
	assert_int_equal(a->scan_cursor, b->scan_cursor);
	for (uint32_t i = 0; i < a->scan_count; i++) {
		const struct sy_scan_entry *x = &a->scan[i];
		const struct sy_scan_entry *y = &b->scan[i];
		assert_int_equal(x->row, y->row);
		assert_spans_equal(x->field, y->field);
		assert_shapes_equal(&x->shape, &y->shape);
		assert_int_equal(x->dtype, y->dtype);
		assert_int_equal(x->kind, y->kind);
		assert_int_equal(x->nbytes, y->nbytes);
		assert_int_equal(x->dim0, y->dim0);
	}
}

static inline void assert_hello_results_equal(const struct sy_hello_result *a,
                                              const struct sy_hello_result *b)
{
	assert_int_equal(a->session, b->session);
	assert_int_equal(a->incarnation, b->incarnation);
	assert_int_equal(a->slab_bytes, b->slab_bytes);
	assert_int_equal(a->unit_id, b->unit_id);
	assert_int_equal(a->slot_count, b->slot_count);
	assert_int_equal(a->read_pin_ns, b->read_pin_ns);
	assert_int_equal(a->heartbeat_ns, b->heartbeat_ns);
	assert_int_equal(a->session_expire_ns, b->session_expire_ns);
	assert_int_equal(a->eager_max_bytes, b->eager_max_bytes);
	assert_int_equal(a->inline_max_bytes, b->inline_max_bytes);
	assert_int_equal(a->max_keys, b->max_keys);
	assert_int_equal(a->max_entries, b->max_entries);
	assert_int_equal(a->max_message_bytes, b->max_message_bytes);
	assert_int_equal(a->transports, b->transports);
	assert_int_equal(a->grant_max_bytes, b->grant_max_bytes);
}

static inline void assert_replies_equal(const struct sy_reply *a, const struct sy_reply *b)
{
	assert_ids_equal(a->id, b->id);
	assert_int_equal(a->notices_done, b->notices_done);
	assert_int_equal(a->unit_now_ns, b->unit_now_ns);
	assert_int_equal(a->outcome.op, b->outcome.op);
	assert_int_equal(a->outcome.fault, b->outcome.fault);
	assert_int_equal(a->outcome.busy, b->outcome.busy);
	assert_int_equal(a->outcome.resource, b->outcome.resource);
	assert_int_equal(a->outcome.why, b->outcome.why);
	assert_int_equal(a->outcome.answer, b->outcome.answer);
	assert_int_equal(a->outcome.need, b->outcome.need);
	assert_int_equal(a->outcome.free, b->outcome.free);
	assert_int_equal(a->outcome.hole, b->outcome.hole);
	assert_int_equal(a->outcome.offset, b->outcome.offset);
	assert_int_equal(a->outcome.generation, b->outcome.generation);
	assert_int_equal(a->outcome.count, b->outcome.count);
	assert_hello_results_equal(&a->hello, &b->hello);
	assert_resolved_equal(a, b);
	assert_int_equal(a->held_count, b->held_count);
	if (a->held_count > 0)
		assert_memory_equal(a->held, b->held, a->held_count);
	assert_scans_equal(a, b);
	assert_int_equal(a->unit_state, b->unit_state);
	assert_stats_equal(&a->stats, &b->stats);
}

#endif
