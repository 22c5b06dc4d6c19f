/* Messages that nobody of ours would send: cut off, changed in one byte, with counts that no
 * memory could hold, with parts that do not fit each other. Each is refused or decodes to
 * something within every limit; none reads past its end (run with ASan). */
#include "reply_fixture.h"

enum { OURS = SY_PROTOCOL_VERSION, OTHER };

static void assert_name_valid(struct sy_span name)
{
	assert_true(name.bytes >= 1 && name.bytes <= SY_FIELD_MAX_BYTES);
	assert_null(memchr(name.data, 0, name.bytes));
}

static uint64_t sum_of(struct sy_span span) /* reads every byte */
{
	uint64_t sum = 0;
	for (size_t i = 0; i < span.bytes; i++)
		sum += span.data[i];
	return sum;
}

static void check_fields(const struct sy_span *fields, uint32_t count)
{
	assert_true(count <= SY_FIELDS_PER_REQUEST_MAX);
	for (uint32_t i = 0; i < count; i++) {
		assert_name_valid(fields[i]);
		sum_of(fields[i]);
	}
}

/* What every receiver may rely on. */
static void check_request(const struct sy_request *request)
{
	static volatile uint64_t sum;
	assert_true(request->notice_count <= SY_NOTICES_PER_MESSAGE);
	assert_true(request->first_notice <= UINT64_MAX - request->notice_count);
	for (uint32_t i = 0; i < request->notice_count; i++)
		assert_in_range(request->notices[i].kind, SY_NOTICE_ABORT, SY_NOTICE_DRAINED);
	const struct sy_resolve_args *resolve = &request->resolve;
	switch (request->op) {
	case SY_OP_HELLO:
		assert_true(request->hello.ns.bytes <= SY_FIELD_MAX_BYTES);
		sum = sum_of(request->hello.ns);
		break;
	case SY_OP_PUT_INLINE:
		sum = sum_of(request->put_inline.blob);
		break;
	case SY_OP_RESOLVE_KEYS:
		check_fields(resolve->fields, resolve->field_count);
		sum = sum_of((struct sy_span){(const uint8_t *)resolve->rows, 8 * resolve->row_count});
		for (uint32_t k = 0; resolve->field_of != NULL && k < resolve->row_count; k++)
			assert_true(resolve->field_of[k] < resolve->field_count);
		assert_true((uint64_t)resolve->row_count *
		                (resolve->field_of != NULL ? 1 : resolve->field_count) <=
		            SY_KEYS_PER_RESOLVE_MAX);
		break;
	case SY_OP_RELEASE_ROWS:
		check_fields(request->release.fields, request->release.field_count);
		assert_true(request->release.row_count <= SY_ROWS_PER_RELEASE_MAX);
		sum = sum_of((struct sy_span){(const uint8_t *)request->release.rows,
		                              8 * request->release.row_count});
		break;
	case SY_OP_PIN_CHECK:
		assert_true(request->pin_check.count <= SY_NAMES_PER_PIN_CHECK_MAX);
		break;
	case SY_OP_SCAN:
		check_fields(request->scan.fields, request->scan.field_count);
		assert_in_range(request->scan.limit, 1, SY_SCAN_LIMIT_MAX);
		break;
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	default:
		fail_msg("op %d", (int)request->op);
	}
	(void)sum;
}

static void check_entry(uint8_t dtype, uint8_t kind, const sy_shape *shape, uint64_t nbytes,
                        uint64_t dim0)
{
	uint64_t unit;
	assert_in_range(kind, SY_KIND_TENSOR, SY_KIND_JSON);
	if (kind != SY_KIND_TENSOR) {
		assert_int_equal(dtype, SY_DTYPE_NONE);
		assert_int_equal(shape->rank, 0);
		assert_int_equal(dim0, 0);
		return;
	}
	assert_in_range(dtype, SY_DTYPE_BOOL, SY_DTYPE_C128);
	assert_true(sy_shape_unit_bytes((sy_dtype)dtype, shape, &unit));
	if (shape->rank == 0)
		assert_true(nbytes == unit && dim0 == 0);
	else
		assert_true((unsigned __int128)unit * dim0 == nbytes);
}

static void check_resolved(const struct sy_reply *reply, uint32_t asked)
{
	const struct sy_resolved *resolved = &reply->resolved;
	assert_int_equal(reply->key_count, asked);
	for (uint32_t k = 0; k < asked; k++) {
		uint64_t offset = resolved->offset[k];
		uint64_t nbytes = resolved->nbytes[k];
		assert_in_range(resolved->found[k], 0, SY_FOUND_COUNT - 1);
		assert_true(resolved->tail[k] < resolved->shape_count);
		if (!sy_found_is_value(resolved->found[k]))
			continue;
		check_entry(resolved->dtype[k], resolved->kind[k], &resolved->shapes[resolved->tail[k]],
		            nbytes, resolved->dim0[k]);
		assert_true(nbytes <= UINT64_MAX - offset);
		if (resolved->found[k] == SY_FOUND_INLINE)
			assert_true(offset + nbytes <= reply->inline_bytes.bytes);
	}
	sum_of(reply->inline_bytes);
}

static void check_reply(const struct sy_reply *reply, enum sy_op op, uint32_t asked)
{
	assert_non_null(memchr(reply->reason, 0, sizeof reply->reason));
	assert_in_range(reply->outcome.fault, 0, SY_FAULT_PROTOCOL);
	assert_in_range(reply->outcome.busy, 0, SY_BUSY_FENCED);
	assert_in_range(reply->outcome.resource, 0, SY_RESOURCE_NAMESPACES);
	assert_in_range(reply->unit_state, 0, SY_UNIT_DEAD);
	if (reply->outcome.fault != SY_FAULT_NONE)
		return;
	switch (op) {
	case SY_OP_HELLO:
		assert_true(reply->hello.session != 0 && reply->hello.max_keys != 0);
		break;
	case SY_OP_ALLOC:
		assert_in_range(reply->outcome.answer, SY_ANSWER_REGION, SY_ANSWER_PUBLISHED);
		break;
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
		assert_in_range(reply->outcome.answer, SY_ANSWER_PENDING, SY_ANSWER_PUBLISHED);
		break;
	case SY_OP_RESOLVE_KEYS:
		check_resolved(reply, asked);
		break;
	case SY_OP_PIN_CHECK:
		assert_int_equal(reply->held_count, asked);
		for (uint32_t i = 0; i < asked; i++)
			assert_in_range(reply->held[i], 0, 1);
		break;
	case SY_OP_SCAN:
		assert_true(reply->scan_count <= asked);
		for (uint32_t i = 0; i < reply->scan_count; i++) {
			const struct sy_scan_entry *entry = &reply->scan[i];
			assert_name_valid(entry->field);
			check_entry(entry->dtype, entry->kind, &entry->shape, entry->nbytes, entry->dim0);
		}
		break;
	case SY_OP_RELEASE_ROWS:
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
}

/* Both decoders on an exact copy. */
static sy_status request_try(const uint8_t *bytes, size_t count)
{
	struct sy_scratch scratch = {.data = scratch_bytes, .bytes = sizeof scratch_bytes};
	struct sy_request got;
	struct sy_request_id id;
	sy_error err = {0};
	uint8_t *copy = malloc(count > 0 ? count : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, count);
	sy_status status = sy_request_decode(copy, count, &scratch, &got, &id, &err);
	assert_true(status == SY_OK || status == SY_E_PROTOCOL);
	if (status == SY_OK)
		check_request(&got);
	free(copy);
	return status;
}

static sy_status reply_try(const uint8_t *bytes, size_t count, enum sy_op op, uint32_t asked)
{
	struct sy_scratch scratch = {.data = scratch_bytes, .bytes = sizeof scratch_bytes};
	struct sy_reply got;
	struct sy_request_id id;
	sy_error err = {0};
	uint8_t *copy = malloc(count > 0 ? count : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, count);
	sy_reply_peek(copy, count, &id, &err);
	sy_status status = sy_reply_decode(copy, count, op, asked, &scratch, &got, &err);
	assert_true(status == SY_OK || status == SY_E_PROTOCOL);
	if (status == SY_OK)
		check_reply(&got, op, asked);
	free(copy);
	return status;
}

static void test_every_truncation_is_refused(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (enum sy_op op = SY_OP_HELLO; op <= SY_OP_STATS; op++) {
		struct sy_buf buf = {0};
		struct sy_request request = request_draw(&prng, op);
		sy_request_encode(&request, &buf);
		assert_int_equal(request_try(buf.data, buf.bytes), SY_OK);
		for (size_t cut = 0; cut < buf.bytes; cut++)
			assert_int_equal(request_try(buf.data, cut), SY_E_PROTOCOL);
		for (int ok = 0; ok < 2; ok++) {
			struct sy_reply reply = reply_draw(&prng, op, ok == 1);
			uint32_t asked = asked_of(&reply, op);
			sy_buf_reset(&buf);
			sy_reply_encode(&reply, op, &buf);
			assert_int_equal(reply_try(buf.data, buf.bytes, op, asked), SY_OK);
			for (size_t cut = 0; cut < buf.bytes; cut++)
				assert_int_equal(reply_try(buf.data, cut, op, asked), SY_E_PROTOCOL);
		}
		sy_buf_free(&buf);
	}
}

/* Of a message of thousands of entries, which each try reads whole, its head and some places. */
static size_t next_place(struct sy_prng *prng, size_t at, size_t bytes)
{
	enum { HEAD_BYTES = 512, PLACES = 256 };
	return at < HEAD_BYTES ? at + 1 : at + 1 + (size_t)(sy_prng_next(prng) % (bytes / PLACES + 1));
}

static void test_any_byte_changed_stays_within_the_limits(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int round = 0; round < 6; round++) {
		for (enum sy_op op = SY_OP_HELLO; op <= SY_OP_STATS; op++) {
			struct sy_buf buf = {0};
			bool reply_turn = round % 2 == 1;
			uint32_t asked = 0;
			if (reply_turn) {
				struct sy_reply reply = reply_draw(&prng, op, round < 5);
				asked = asked_of(&reply, op);
				sy_reply_encode(&reply, op, &buf);
			} else {
				struct sy_request request = request_draw(&prng, op);
				sy_request_encode(&request, &buf);
			}
			for (size_t at = 0; at < buf.bytes; at = next_place(&prng, at, buf.bytes)) {
				static const uint8_t codes[] = {0x00, 0x7f, 0x80, 0x90, 0x9f, 0xa0, 0xbf, 0xc0,
				                                0xc1, 0xc4, 0xc6, 0xc9, 0xcf, 0xd3, 0xd9, 0xdb,
				                                0xdc, 0xdd, 0xde, 0xdf, 0xe0, 0xff};
				uint8_t was = buf.data[at];
				for (size_t i = 0; i < COUNT_OF(codes) + 2; i++) {
					buf.data[at] = i < COUNT_OF(codes) ? codes[i] : (uint8_t)sy_prng_next(&prng);
					if (reply_turn)
						reply_try(buf.data, buf.bytes, op, asked);
					else
						request_try(buf.data, buf.bytes);
				}
				buf.data[at] = was;
			}
			sy_buf_free(&buf);
		}
	}
}

static void test_noise_is_refused(void **state)
{
	(void)state;
	struct sy_prng prng;
	uint8_t bytes[64];
	sy_prng_seed(&prng, harness_seed());
	assert_int_equal(request_try(bytes, 0), SY_E_PROTOCOL);
	assert_int_equal(reply_try(bytes, 0, SY_OP_STATS, 0), SY_E_PROTOCOL);
	for (int i = 0; i < 20000; i++) {
		size_t count = 1 + (size_t)sy_prng_below(&prng, sizeof bytes);
		bytes_draw(&prng, bytes, count);
		if (sy_prng_chance(&prng, 80))
			bytes[0] = sy_prng_chance(&prng, 50) ? 0x94 : 0x95;
		assert_int_equal(request_try(bytes, count), SY_E_PROTOCOL);
		assert_int_equal(reply_try(bytes, count, SY_OP_STATS, 0), SY_E_PROTOCOL);
	}
}

/* --- one thing wrong ---------------------------------------------------------------------- */

static void head_write(struct sy_buf *buf, unsigned op)
{
	uint8_t id[SY_REQUEST_ID_BYTES] = {7};
	sy_mp_write_array(buf, 4);
	sy_mp_write_uint(buf, op);
	sy_mp_write_bin(buf, id, sizeof id);
}

static void tail_write(struct sy_buf *buf)
{
	sy_mp_write_array(buf, 2);
	sy_mp_write_uint(buf, 0);
	sy_mp_write_bin(buf, NULL, 0);
}

/* A request of this op with these bytes as its args, said to be refused for this. */
static void assert_args_refused(unsigned op, const void *args, size_t bytes, const char *said)
{
	struct sy_buf buf = {0};
	struct sy_scratch scratch = scratch_new();
	struct sy_request got = {.notice_count = 77};
	struct sy_request_id id = {0};
	sy_error err = {0};
	head_write(&buf, op);
	sy_buf_append(&buf, args, bytes);
	tail_write(&buf);
	err.message[0] = '\0';
	sy_status status = sy_request_decode(buf.data, buf.bytes, &scratch, &got, &id, &err);
	if (status != SY_E_PROTOCOL || strstr(err.message, said) == NULL)
		fail_msg("\"%s\": %d \"%s\"", said, (int)status, err.message);
	assert_int_equal(id.session, 7); /* so that it can be answered */
	assert_int_equal(got.notice_count, 77);
	sy_buf_free(&buf);
}

#define REFUSED(op, said, ...) \
	do { \
		static const uint8_t args_[] = {__VA_ARGS__}; \
		assert_args_refused(op, args_, sizeof args_, said); \
	} while (0)

static void test_hostile_counts(void **state)
{
	(void)state;
	/* array32, map32, bin32 and str32 of 2^32 - 1. */
	REFUSED(SY_OP_RESOLVE_KEYS, "cut off", 0xdd, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_RESOLVE_KEYS, "cut off", 0x94, 0xdd, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_RESOLVE_KEYS, "over the limit", 0x94, 0x90, 0xc6, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_RELEASE_ROWS, "over the limit", 0x92, 0xc6, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_PUT_INLINE, "over the limit", 0x94, 0xc6, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_PUT_INLINE, "cut off", 0x94, 0xc6, 0x00, 0x10, 0x00, 0x00);
	REFUSED(SY_OP_PIN_CHECK, "over the limit", 0x91, 0xc6, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_HELLO, "over the limit", 0x99, OURS, 3, 0xdb, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_HELLO, "cut off", 0xdd, 0xff, 0xff, 0xff, 0xff, 1);
	REFUSED(SY_OP_SCAN, "cut off", 0x95, 0, 0, 0, 0xdc, 0xff, 0xff);
	/* Skipped parts as well: of a hello of another version. */
	REFUSED(SY_OP_HELLO, "cut off", 0x92, OTHER, 0xdd, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_HELLO, "cut off", 0x92, OTHER, 0xdf, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_HELLO, "cut off", 0x92, OTHER, 0xc6, 0xff, 0xff, 0xff, 0xff);
	REFUSED(SY_OP_HELLO, "cut off", 0x92, OTHER, 0xc9, 0xff, 0xff, 0xff, 0xff, 0);
}

static void test_hostile_depth(void **state)
{
	(void)state;
	enum { DEPTH = 10000 };
	static uint8_t args[DEPTH + 3];
	args[0] = 0x92;
	args[1] = OTHER; /* the version */
	memset(args + 2, 0x91, DEPTH);
	args[DEPTH + 2] = 0xc0;
	assert_args_refused(SY_OP_HELLO, args, sizeof args, "nested too deep");
	memset(args + 2, 0x81, DEPTH);
	assert_args_refused(SY_OP_HELLO, args, sizeof args, "nested too deep");
	assert_args_refused(SY_OP_ALLOC, args + 2, DEPTH, "where an array belongs");
}

/* A count just over its limit, all its bytes there. */
static void test_counts_over_their_limits(void **state)
{
	(void)state;
	enum { RUN = 8 * (SY_KEYS_PER_RESOLVE_MAX + 1) };
	static uint8_t args[2 * RUN];
	uint8_t *at = args;
	*at++ = 0x92;
	*at++ = 0xc6;
	*at++ = 0;
	*at++ = 2;
	*at++ = 0;
	*at++ = 8; /* 0x20008 bytes: 16,385 rows */
	at += RUN;
	*at++ = 0xc0;
	assert_args_refused(SY_OP_RELEASE_ROWS, args, (size_t)(at - args), "over the limit");
	/* 16,385 fields of one byte, and 129 x 128 keys. */
	memset(args, 0, sizeof args);
	at = args;
	*at++ = 0x94;
	*at++ = 0xdc;
	*at++ = 0x40;
	*at++ = 0x01;
	for (int i = 0; i <= SY_FIELDS_PER_REQUEST_MAX; i++) {
		*at++ = 0xa1;
		*at++ = 'f';
	}
	assert_args_refused(SY_OP_RESOLVE_KEYS, args, (size_t)(at - args), "more items");
	args[2] = 0x00;
	args[3] = 129;
	at = args + 4 + 2 * 129;
	*at++ = 0xc5;
	*at++ = 4;
	*at++ = 0; /* 128 rows */
	memset(at, 0, 1024);
	at += 1024;
	*at++ = 0xc0;
	*at++ = 0;
	assert_args_refused(SY_OP_RESOLVE_KEYS, args, (size_t)(at - args), "more keys than allowed");
	args[3] = 128; /* 128 x 128 are allowed */
	memmove(args + 4, args + 6, (size_t)(at - args) - 6);
	struct sy_buf buf = {0};
	head_write(&buf, SY_OP_RESOLVE_KEYS);
	sy_buf_append(&buf, args, (size_t)(at - args) - 2);
	tail_write(&buf);
	assert_int_equal(request_try(buf.data, buf.bytes), SY_OK);
	sy_buf_free(&buf);
	/* 1,025 names: 0x5014 bytes. */
	args[0] = 0x91;
	args[1] = 0xc5;
	args[2] = 0x50;
	args[3] = 0x14;
	assert_args_refused(SY_OP_PIN_CHECK, args, 4 + 0x5014, "over the limit");
}

/* Bins of ids, all zero. */
#define ZEROS_16 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
#define ID_16 0xc4, 16, ZEROS_16
#define ID_20 0xc4, 20, ZEROS_16, 0, 0, 0, 0

static void test_each_check_of_a_request(void **state)
{
	(void)state;
	REFUSED(0, "names an operation", 0x90);
	REFUSED(12, "names an operation", 0x90);
	REFUSED(SY_OP_STATS, "more items", 0x91, 0);
	REFUSED(SY_OP_STATS, "array belongs", 0xc0);
	REFUSED(SY_OP_COMMIT, "fewer items", 0x93, 0, 0, 0);
	REFUSED(SY_OP_COMMIT, "more items", 0x98, 0, 0, 0, 0, 0, 0, 0, 0);
	REFUSED(SY_OP_COMMIT, "another length", 0x97, 0xc4, 2, 0, 0, 0, 0, 0, 0, 0, 0);
	REFUSED(SY_OP_COMMIT, "bytes belong", 0x97, 0xa2, 'a', 'b', 0, 0, 0, 0, 0, 0);
	REFUSED(SY_OP_COMMIT, "no request id", 0x97, ID_16, 0, 0, 0, 0xc4, 1, 0, 0, 0);
	REFUSED(SY_OP_COMMIT, "grant of no session", 0x97, ID_16, 0, 0, 0, ID_20, 0, 0);
	REFUSED(SY_OP_PIN_CHECK, "part of an item", 0x91, 0xc4, 1, 0);
	REFUSED(SY_OP_RELEASE_ROWS, "part of an item", 0x92, 0xc4, 7, 0, 0, 0, 0, 0, 0, 0, 0xc0);
	REFUSED(SY_OP_RELEASE_ROWS, "array belongs", 0x92, 0xc4, 0, 0xc3);
	REFUSED(SY_OP_RELEASE_ROWS, "no valid name", 0x92, 0xc4, 0, 0x91, 0xa0);
	REFUSED(SY_OP_RELEASE_ROWS, "no valid name", 0x92, 0xc4, 0, 0x91, 0xa2, 'a', 0);
	REFUSED(SY_OP_RELEASE_ROWS, "no valid name", 0x92, 0xc4, 0, 0x91, 0xa1, 0xff);
	REFUSED(SY_OP_RELEASE_ROWS, "text belongs", 0x92, 0xc4, 0, 0x91, 0xc4, 1, 'a');
	REFUSED(SY_OP_RELEASE_ROWS, "over the limit", 0x92, 0xc4, 0, 0x91, 0xda, 4, 1);
	REFUSED(SY_OP_SCAN, "no entries", 0x95, 0, 0, 0, 0x90, 0);
	REFUSED(SY_OP_SCAN, "out of range", 0x95, 0, 0, 0, 0x90, 0xcd, 0x08, 0x01);
	REFUSED(SY_OP_SCAN, "number belongs", 0x95, 0xff, 0, 0, 0x90, 1);
	REFUSED(SY_OP_SCAN, "number belongs", 0x95, 0xca, 0, 0, 0, 0, 0, 0, 0x90, 1);
	REFUSED(SY_OP_SCAN, "never uses", 0x95, 0xc1, 0, 0, 0x90, 1);
	REFUSED(SY_OP_HELLO, "another number of items", 0x98, OURS, 3, 0xa0, 0, 0, 0, 0, 0);
	REFUSED(SY_OP_HELLO, "more items", 0xdc, 0, 65, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
	REFUSED(SY_OP_HELLO, "out of range", 0x99, 0xce, 0, 0, 0, OURS, 0xcf, 0, 0, 0, 1, 0, 0, 0, 0);
	/* One row, one field; field_of of two, of none, of a field that is not there. */
	REFUSED(SY_OP_RESOLVE_KEYS, "over the limit", 0x94, 0x91, 0xa1, 'x', 0xc4, 8, 0, 0, 0, 0, 0, 0,
	        0, 0, 0xc4, 4, 0, 0, 0, 0, 0);
	REFUSED(SY_OP_RESOLVE_KEYS, "another number of fields", 0x94, 0x91, 0xa1, 'x', 0xc4, 8, 0, 0,
	        0, 0, 0, 0, 0, 0, 0xc4, 0, 0);
	REFUSED(SY_OP_RESOLVE_KEYS, "a field it does not hold", 0x94, 0x91, 0xa1, 'x', 0xc4, 8, 0, 0,
	        0, 0, 0, 0, 0, 0, 0xc4, 2, 1, 0, 0);
}

/* Bytes after the message; an id that cannot be read; notices. */
static void test_each_check_of_the_frame(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	head_write(&buf, SY_OP_STATS);
	sy_mp_write_array(&buf, 0);
	tail_write(&buf);
	assert_int_equal(request_try(buf.data, buf.bytes), SY_OK);
	sy_mp_write_nil(&buf);
	assert_int_equal(request_try(buf.data, buf.bytes), SY_E_PROTOCOL);
	buf.data[3] = 19;
	struct sy_scratch scratch = scratch_new();
	struct sy_request got;
	struct sy_request_id id = {1, 1, 1};
	sy_error err = {0};
	assert_int_equal(sy_request_decode(buf.data, buf.bytes, &scratch, &got, &id, &err),
	                 SY_E_PROTOCOL);
	assert_int_equal(id.session | id.slot | id.seq, 0);
	static const struct {
		uint64_t first;
		size_t count, cut;
		uint8_t kind, in_flight;
		sy_status status;
	} cases[] = {
		{1, 1, 0, SY_NOTICE_UNPIN, 0, SY_OK},
		{1, 1, 0, 0, 0, SY_E_PROTOCOL},
		{1, 1, 0, 4, 0, SY_E_PROTOCOL},
		{1, 1, 0, SY_NOTICE_ABORT, 2, SY_E_PROTOCOL},
		{1, 1, 1, SY_NOTICE_ABORT, 1, SY_E_PROTOCOL},
		{1, SY_NOTICES_PER_MESSAGE, 0, SY_NOTICE_ABORT, 1, SY_OK},
		{1, SY_NOTICES_PER_MESSAGE + 1, 0, SY_NOTICE_ABORT, 1, SY_E_PROTOCOL},
		{UINT64_MAX - 2, 2, 0, SY_NOTICE_DRAINED, 0, SY_OK},
		{UINT64_MAX - 2, 3, 0, SY_NOTICE_DRAINED, 0, SY_E_PROTOCOL},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		sy_buf_reset(&buf);
		head_write(&buf, SY_OP_STATS);
		sy_mp_write_array(&buf, 0);
		sy_mp_write_array(&buf, 2);
		sy_mp_write_uint(&buf, cases[i].first);
		uint8_t *at = sy_mp_write_bin_room(&buf, 22 * cases[i].count - cases[i].cut);
		memset(at, 0, 22 * cases[i].count - cases[i].cut);
		for (size_t n = 0; n < cases[i].count; n++) {
			at[22 * n] = cases[i].kind;
			at[22 * n + 1] = cases[i].in_flight;
		}
		assert_int_equal(request_try(buf.data, buf.bytes), cases[i].status);
	}
	sy_buf_free(&buf);
}

/* A message of one byte more than allowed, right in all else. */
static void test_the_length_of_a_message(void **state)
{
	(void)state;
	for (int over = 0; over < 2; over++) {
		struct sy_buf buf = {0};
		uint8_t id[16] = {0};
		head_write(&buf, SY_OP_PUT_INLINE);
		sy_mp_write_array(&buf, 4);
		size_t fixed = buf.bytes + 5 + 18 + 2 + 4;
		uint8_t *blob = sy_mp_write_bin_room(&buf, SY_MESSAGE_MAX_BYTES - fixed + (size_t)over);
		memset(blob, 0, SY_MESSAGE_MAX_BYTES - fixed + (size_t)over);
		sy_mp_write_bin(&buf, id, sizeof id);
		sy_mp_write_uint(&buf, 0);
		sy_mp_write_bool(&buf, false);
		tail_write(&buf);
		assert_int_equal(buf.bytes, SY_MESSAGE_MAX_BYTES + over);
		assert_int_equal(request_try(buf.data, buf.bytes), over == 0 ? SY_OK : SY_E_PROTOCOL);
		sy_buf_free(&buf);
	}
}

/* The same of a reply: the name of a stat that nobody knows fills it up. */
static void test_the_length_of_a_reply(void **state)
{
	(void)state;
	for (int over = 0; over < 2; over++) {
		struct sy_buf buf = {0};
		uint8_t id[SY_REQUEST_ID_BYTES] = {7};
		sy_mp_write_array(&buf, 5);
		sy_mp_write_bin(&buf, id, sizeof id);
		sy_mp_write_bool(&buf, true);
		sy_mp_write_map(&buf, 1);
		sy_mp_write_text(&buf, "x");
		size_t value_bytes = SY_MESSAGE_MAX_BYTES - buf.bytes - 5 - 2 + (size_t)over;
		uint8_t *value = sy_mp_write_bin_room(&buf, value_bytes);
		memset(value, 0, value_bytes);
		sy_mp_write_uint(&buf, 0);
		sy_mp_write_uint(&buf, 0);
		assert_int_equal(buf.bytes, SY_MESSAGE_MAX_BYTES + over);
		assert_int_equal(reply_try(buf.data, buf.bytes, SY_OP_STATS, 0),
		                 over == 0 ? SY_OK : SY_E_PROTOCOL);
		sy_buf_free(&buf);
	}
}

static void test_too_little_scratch_is_a_refusal(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, 1);
	struct sy_request request = request_draw(&prng, SY_OP_PIN_CHECK);
	struct sy_buf buf = {0};
	struct sy_request got;
	struct sy_request_id id;
	sy_error err = {0};
	request.pin_check.count = 30;
	sy_request_encode(&request, &buf);
	struct sy_scratch scratch = {.data = scratch_bytes, .bytes = 16};
	assert_int_equal(sy_request_decode(buf.data, buf.bytes, &scratch, &got, &id, &err),
	                 SY_E_PROTOCOL);
	assert_non_null(strstr(err.message, "memory"));
	sy_buf_free(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_any_byte_changed_stays_within_the_limits),
		cmocka_unit_test(test_noise_is_refused),
		cmocka_unit_test(test_hostile_counts),
		cmocka_unit_test(test_hostile_depth),
		cmocka_unit_test(test_counts_over_their_limits),
		cmocka_unit_test(test_each_check_of_a_request),
		cmocka_unit_test(test_each_check_of_the_frame),
		cmocka_unit_test(test_the_length_of_a_message),
		cmocka_unit_test(test_the_length_of_a_reply),
		cmocka_unit_test(test_too_little_scratch_is_a_refusal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
