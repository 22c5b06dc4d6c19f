/* For the tests of messages: requests and replies of every op with contents drawn from a seed,
 * and their comparison part by part. What is drawn stands until the next is drawn. */
#ifndef SY_MESSAGE_FIXTURE_H
#define SY_MESSAGE_FIXTURE_H

#include "harness.h"

#include <string.h>

#include "message.h"
#include "mp_writer.h"
#include "prng.h"

enum { KEYS = SY_KEYS_PER_RESOLVE_MAX, DRAWN_MAX = 40 };

static uint64_t drawn_rows[KEYS];
static uint16_t drawn_field_of[KEYS];
static struct sy_span drawn_fields[KEYS];
static struct sy_request_id drawn_names[SY_NAMES_PER_PIN_CHECK_MAX];
static struct sy_notice drawn_notices[SY_NOTICES_PER_MESSAGE];
static uint8_t drawn_bytes[1 << 16];
_Alignas(16) static uint8_t scratch_bytes[SY_SCRATCH_BYTES];

static inline struct sy_scratch scratch_new(void)
{
	memset(scratch_bytes, 0xa5, sizeof scratch_bytes);
	return (struct sy_scratch){.data = scratch_bytes, .bytes = sizeof scratch_bytes};
}

static inline struct sy_span text(const char *chars)
{
	return (struct sy_span){(const uint8_t *)chars, strlen(chars)};
}

/* Numbers of every length that msgpack knows. */
static inline uint64_t number(struct sy_prng *prng)
{
	return sy_prng_next(prng) >> sy_prng_below(prng, 64);
}

static inline uint32_t number32(struct sy_prng *prng)
{
	return (uint32_t)(number(prng) >> 32);
}

static inline struct sy_request_id name_draw(struct sy_prng *prng)
{
	return (struct sy_request_id){number(prng), number(prng), number32(prng)};
}

static inline void fields_draw(struct sy_prng *prng, uint32_t count)
{
	static const char *const pool[] = {"ids", "a@b", "\xc3\xa9", "x", "advantages",
	                                   "a field of more than thirty-one bytes"};
	for (uint32_t i = 0; i < count; i++)
		drawn_fields[i] = text(pool[sy_prng_below(prng, COUNT_OF(pool))]);
}

static inline void rows_draw(struct sy_prng *prng, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		drawn_rows[i] = number(prng);
}

static inline void bytes_draw(struct sy_prng *prng, void *out, size_t count)
{
	uint8_t *at = out;
	for (size_t i = 0; i < count; i++)
		at[i] = (uint8_t)sy_prng_next(prng);
}

static inline void hello_draw(struct sy_prng *prng, struct sy_hello_args *args)
{
	fields_draw(prng, 1);
	args->version = SY_PROTOCOL_VERSION;
	args->slot_count = number32(prng);
	args->ns = drawn_fields[0];
	bytes_draw(prng, args->identity.boot_id, 16);
	args->identity.start_time = number(prng);
	args->identity.random = number(prng);
	args->identity.pid = number32(prng);
	args->connection_count = number(prng);
	args->token = number(prng);
}

static inline void resolve_draw(struct sy_prng *prng, struct sy_resolve_args *args)
{
	args->row_count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
	args->field_count = 1 + (uint32_t)sy_prng_below(prng, DRAWN_MAX);
	rows_draw(prng, args->row_count);
	fields_draw(prng, args->field_count);
	args->rows = drawn_rows;
	args->fields = drawn_fields;
	if (sy_prng_chance(prng, 50)) {
		for (uint32_t k = 0; k < args->row_count; k++)
			drawn_field_of[k] = (uint16_t)sy_prng_below(prng, args->field_count);
		args->field_of = drawn_field_of;
	}
	args->inline_max_bytes = number32(prng);
}

static inline void release_draw(struct sy_prng *prng, struct sy_release_args *args)
{
	args->row_count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
	rows_draw(prng, args->row_count);
	args->rows = drawn_rows;
	args->all_fields = sy_prng_chance(prng, 50);
	if (!args->all_fields) {
		args->field_count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
		fields_draw(prng, args->field_count);
		args->fields = drawn_fields;
	}
}

static inline void scan_draw(struct sy_prng *prng, struct sy_scan_args *args)
{
	args->cursor = number(prng);
	args->first_row = number(prng);
	args->last_row = number(prng);
	args->field_count = (uint32_t)sy_prng_below(prng, 4);
	fields_draw(prng, args->field_count);
	args->fields = drawn_fields;
	args->limit = 1 + (uint32_t)sy_prng_below(prng, SY_SCAN_LIMIT_MAX);
}

static inline void args_draw(struct sy_prng *prng, struct sy_request *request)
{
	switch (request->op) {
	case SY_OP_HELLO:
		hello_draw(prng, &request->hello);
		break;
	case SY_OP_ALLOC:
		bytes_draw(prng, request->alloc.blob_id.bytes, 16);
		request->alloc.nbytes = number(prng);
		request->alloc.until_ns = number(prng);
		request->alloc.entry_count = number32(prng);
		request->alloc.ssd = sy_prng_chance(prng, 50);
		break;
	case SY_OP_COMMIT:
		bytes_draw(prng, request->commit.blob_id.bytes, 16);
		request->commit.generation = number(prng);
		request->commit.until_ns = number(prng);
		request->commit.next_bytes = number(prng);
		request->commit.nbytes = number(prng);
		request->commit.entry_count = (uint32_t)number(prng);
		if (sy_prng_chance(prng, 50))
			request->commit.grant = (struct sy_request_id){
				.session = number(prng) | 1, .seq = number(prng), .slot = (uint32_t)number(prng)};
		break;
	case SY_OP_PUT_INLINE:
		bytes_draw(prng, request->put_inline.blob_id.bytes, 16);
		request->put_inline.blob.data = drawn_bytes;
		request->put_inline.blob.bytes = (size_t)sy_prng_below(prng, 600);
		bytes_draw(prng, drawn_bytes, request->put_inline.blob.bytes);
		request->put_inline.until_ns = number(prng);
		request->put_inline.ssd = sy_prng_chance(prng, 50);
		break;
	case SY_OP_RESOLVE_KEYS:
		resolve_draw(prng, &request->resolve);
		break;
	case SY_OP_RELEASE_ROWS:
		release_draw(prng, &request->release);
		break;
	case SY_OP_PIN_CHECK:
		request->pin_check.count = (uint32_t)sy_prng_below(prng, DRAWN_MAX);
		for (uint32_t i = 0; i < request->pin_check.count; i++)
			drawn_names[i] = name_draw(prng);
		request->pin_check.names = drawn_names;
		break;
	case SY_OP_SCAN:
		scan_draw(prng, &request->scan);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
}

static inline struct sy_request request_draw(struct sy_prng *prng, enum sy_op op)
{
	struct sy_request request;
	memset(&request, 0, sizeof request);
	request.op = op;
	request.id = name_draw(prng);
	request.first_notice = number(prng) >> 1;
	request.notice_count = sy_prng_chance(prng, 50) ? 0 : (uint32_t)sy_prng_below(prng, 8);
	for (uint32_t i = 0; i < request.notice_count; i++) {
		drawn_notices[i].kind = (enum sy_notice_kind)(1 + sy_prng_below(prng, 3));
		drawn_notices[i].in_flight = sy_prng_chance(prng, 50);
		drawn_notices[i].name = name_draw(prng);
	}
	request.notices = drawn_notices;
	args_draw(prng, &request);
	return request;
}

static inline void assert_ids_equal(struct sy_request_id a, struct sy_request_id b)
{
	assert_int_equal(a.session, b.session);
	assert_int_equal(a.slot, b.slot);
	assert_int_equal(a.seq, b.seq);
}

static inline void assert_spans_equal(struct sy_span a, struct sy_span b)
{
	assert_int_equal(a.bytes, b.bytes);
	assert_true(sy_span_equal(a, b));
}

static inline void assert_fields_equal(const struct sy_span *a, const struct sy_span *b,
                                       uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_spans_equal(a[i], b[i]);
}

static inline void assert_rows_equal(const uint64_t *a, const uint64_t *b, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(a[i], b[i]);
}

static inline void assert_hellos_equal(const struct sy_hello_args *a,
                                       const struct sy_hello_args *b)
{
	assert_int_equal(a->version, b->version);
	assert_int_equal(a->slot_count, b->slot_count);
	assert_spans_equal(a->ns, b->ns);
	assert_memory_equal(a->identity.boot_id, b->identity.boot_id, 16);
	assert_int_equal(a->identity.start_time, b->identity.start_time);
	assert_int_equal(a->identity.random, b->identity.random);
	assert_int_equal(a->identity.pid, b->identity.pid);
	assert_int_equal(a->connection_count, b->connection_count);
	assert_int_equal(a->token, b->token);
}

static inline void assert_allocs_equal(const struct sy_alloc_args *a,
                                       const struct sy_alloc_args *b)
{
	assert_memory_equal(a->blob_id.bytes, b->blob_id.bytes, 16);
	assert_int_equal(a->nbytes, b->nbytes);
	assert_int_equal(a->until_ns, b->until_ns);
	assert_int_equal(a->entry_count, b->entry_count);
	assert_int_equal(a->ssd, b->ssd);
}

static inline void assert_resolves_equal(const struct sy_resolve_args *a,
                                         const struct sy_resolve_args *b)
{
	assert_int_equal(a->row_count, b->row_count);
	assert_int_equal(a->field_count, b->field_count);
	assert_rows_equal(a->rows, b->rows, a->row_count);
	assert_fields_equal(a->fields, b->fields, a->field_count);
	assert_int_equal(a->field_of == NULL, b->field_of == NULL);
	for (uint32_t k = 0; a->field_of != NULL && k < a->row_count; k++)
		assert_int_equal(a->field_of[k], b->field_of[k]);
	assert_int_equal(a->inline_max_bytes, b->inline_max_bytes);
}

static inline void assert_args_equal(const struct sy_request *a, const struct sy_request *b)
{
	switch (a->op) {
	case SY_OP_HELLO:
		assert_hellos_equal(&a->hello, &b->hello);
		break;
	case SY_OP_ALLOC:
		assert_allocs_equal(&a->alloc, &b->alloc);
		break;
	case SY_OP_COMMIT:
		assert_memory_equal(a->commit.blob_id.bytes, b->commit.blob_id.bytes, 16);
		assert_int_equal(a->commit.generation, b->commit.generation);
		assert_int_equal(a->commit.until_ns, b->commit.until_ns);
		assert_int_equal(a->commit.next_bytes, b->commit.next_bytes);
		assert_int_equal(a->commit.nbytes, b->commit.nbytes);
		assert_int_equal(a->commit.entry_count, b->commit.entry_count);
		assert_true(sy_request_id_equal(a->commit.grant, b->commit.grant));
		break;
	case SY_OP_PUT_INLINE:
		assert_memory_equal(a->put_inline.blob_id.bytes, b->put_inline.blob_id.bytes, 16);
		assert_spans_equal(a->put_inline.blob, b->put_inline.blob);
		assert_int_equal(a->put_inline.until_ns, b->put_inline.until_ns);
		assert_int_equal(a->put_inline.ssd, b->put_inline.ssd);
		break;
	case SY_OP_RESOLVE_KEYS:
		assert_resolves_equal(&a->resolve, &b->resolve);
		break;
	case SY_OP_RELEASE_ROWS:
		assert_int_equal(a->release.row_count, b->release.row_count);
		assert_int_equal(a->release.all_fields, b->release.all_fields);
		assert_int_equal(a->release.field_count, b->release.field_count);
		assert_rows_equal(a->release.rows, b->release.rows, a->release.row_count);
		assert_fields_equal(a->release.fields, b->release.fields, a->release.field_count);
		break;
	case SY_OP_PIN_CHECK:
		assert_int_equal(a->pin_check.count, b->pin_check.count);
		for (uint32_t i = 0; i < a->pin_check.count; i++)
			assert_ids_equal(a->pin_check.names[i], b->pin_check.names[i]);
		break;
	case SY_OP_SCAN:
		assert_int_equal(a->scan.cursor, b->scan.cursor);
		assert_int_equal(a->scan.first_row, b->scan.first_row);
		assert_int_equal(a->scan.last_row, b->scan.last_row);
		assert_int_equal(a->scan.field_count, b->scan.field_count);
		assert_fields_equal(a->scan.fields, b->scan.fields, a->scan.field_count);
		assert_int_equal(a->scan.limit, b->scan.limit);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
}

static inline void assert_requests_equal(const struct sy_request *a, const struct sy_request *b)
{
	assert_int_equal(a->op, b->op);
	assert_ids_equal(a->id, b->id);
	assert_int_equal(a->first_notice, b->first_notice);
	assert_int_equal(a->notice_count, b->notice_count);
	for (uint32_t i = 0; i < a->notice_count; i++) {
		assert_int_equal(a->notices[i].kind, b->notices[i].kind);
		assert_int_equal(a->notices[i].in_flight, b->notices[i].in_flight);
		assert_ids_equal(a->notices[i].name, b->notices[i].name);
	}
	assert_args_equal(a, b);
}

#endif
