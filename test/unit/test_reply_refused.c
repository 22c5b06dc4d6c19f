/* Replies: each check of the decoder has a case that only it refuses. */
#include "reply_fixture.h"

static void assert_refused(const struct sy_buf *buf, enum sy_op op, uint32_t asked,
                           const char *said)
{
	struct sy_scratch scratch = scratch_new();
	struct sy_reply got = {.key_count = 77};
	sy_error err = {0};
	assert_false(buf->failed);
	err.message[0] = '\0';
	uint8_t *copy = malloc(buf->bytes); /* exact, so that ASan sees a byte read past its end */
	assert_non_null(copy);
	memcpy(copy, buf->data, buf->bytes);
	sy_status status = sy_reply_decode(copy, buf->bytes, op, asked, &scratch, &got, &err);
	free(copy);
	if (status != SY_E_PROTOCOL || strstr(err.message, said) == NULL)
		fail_msg("%s, \"%s\": %d \"%s\"", sy_op_name((uint8_t)op), said, (int)status, err.message);
	assert_int_equal(got.key_count, 77);
}

static void assert_reply_refused(const struct sy_reply *reply, enum sy_op op, uint32_t asked,
                                 const char *said)
{
	struct sy_buf buf = {0};
	sy_reply_encode(reply, op, &buf);
	assert_refused(&buf, op, asked, said);
	sy_buf_free(&buf);
}

/* A reply around these bytes. */
static void frame(struct sy_buf *buf, bool ok, const void *result, size_t bytes)
{
	uint8_t id[SY_REQUEST_ID_BYTES] = {7};
	sy_buf_reset(buf);
	sy_mp_write_array(buf, 5);
	sy_mp_write_bin(buf, id, sizeof id);
	sy_mp_write_bool(buf, ok);
	sy_buf_append(buf, result, bytes);
	sy_mp_write_uint(buf, 3);
	sy_mp_write_uint(buf, 4);
}

#define REFUSED(ok, op, asked, said, ...) \
	do { \
		static const uint8_t result_[] = {__VA_ARGS__}; \
		struct sy_buf buf_ = {0}; \
		frame(&buf_, ok, result_, sizeof result_); \
		assert_refused(&buf_, op, asked, said); \
		sy_buf_free(&buf_); \
	} while (0)

/* Key 0 absent, key 1 a f32 [1, 2] inline, key 2 bytes in the slab. */
static struct sy_reply three_keys(void)
{
	struct sy_reply reply = {.outcome = {.op = SY_OP_RESOLVE_KEYS}, .key_count = 3,
	                         .resolved = drawn_resolved(), .inline_bytes = text("123456789")};
	memset(drawn_shapes, 0, sizeof drawn_shapes);
	memset(drawn_found, 0, 3);
	reply.resolved.shape_count = 2;
	drawn_shapes[0].rank = 1;
	drawn_shapes[1].rank = 2;
	drawn_shapes[1].tail[0] = 2;
	drawn_found[1] = SY_FOUND_INLINE;
	drawn_dtype[1] = SY_DTYPE_F32;
	drawn_kind[1] = SY_KIND_TENSOR;
	drawn_offset[1] = drawn_dim0[1] = drawn_tail[1] = 1;
	drawn_nbytes[1] = 8;
	drawn_generation[1] = 5;
	drawn_found[2] = SY_FOUND_PINNED;
	drawn_dtype[2] = SY_DTYPE_NONE;
	drawn_kind[2] = SY_KIND_BYTES;
	drawn_offset[2] = drawn_nbytes[2] = (uint64_t)1 << 40;
	drawn_dim0[2] = 0;
	drawn_generation[2] = 6;
	return reply;
}

/* The bytes of the n-th bin of a resolve's result; all of them are short ones here. */
static uint8_t *bin_at(struct sy_buf *buf, uint32_t n)
{
	uint8_t *at = buf->data + 1 + 22 + 1 + 1;
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(at[0], 0xc4);
		at += 2 + at[1];
	}
	return at + 2;
}

/* A byte of one bin of three_keys changed, and a part of what is then said. */
enum { FOUND, DTYPE, KIND, OFFSET, NBYTES, GENERATION, DIM0, TAIL, SHAPES };
static const struct {
	uint32_t bin, at;
	uint8_t value;
	const char *said;
} bad_bytes[] = {
	{FOUND, 1, SY_FOUND_COUNT, "a state of a key"},
	{FOUND, 2, SY_FOUND_INLINE, "outside the inline bytes"},
	{DTYPE, 0, 1, "without a value"},
	{KIND, 0, 1, "without a value"},
	{OFFSET, 7, 1, "without a value"},
	{NBYTES, 0, 1, "without a value"},
	{GENERATION, 3, 1, "without a value"},
	{DIM0, 0, 1, "without a value"},
	{TAIL, 0, 1, "without a value"},
	{OFFSET, 8, 2, "outside the inline bytes"},
	{OFFSET, 15, 0xff, "outside the inline bytes"},
	{NBYTES, 8, 9, "outside the inline bytes"},
	{NBYTES, 15, 0x80, "outside the inline bytes"},
	{NBYTES, 8, 7, "does not match its length"},
	{NBYTES, 8, 0, "does not match its length"},
	{DIM0, 4, 2, "does not match its length"},
	{DIM0, 7, 1, "does not match its length"},
	{DTYPE, 1, 20, "unknown dtype"},
	{DTYPE, 1, 0, "without a dtype"},
	{DTYPE, 1, SY_DTYPE_F64, "does not match its length"},
	{KIND, 1, SY_KIND_BYTES, "a shape for what is no tensor"},
	{TAIL, 3, 2, "a shape it does not hold"},
	{TAIL, 4, 1, "a shape it does not hold"},
	{TAIL, 5, 1, "a shape it does not hold"},
	{TAIL, 3, 0, "does not match its length"},
	{TAIL, 6, 1, "a shape for what is no tensor"},
	{KIND, 2, 0, "unknown kind"},
	{KIND, 2, 8, "unknown kind"},
	{KIND, 2, SY_KIND_JSON_NULL, "null with bytes"},
	{DTYPE, 2, 1, "has a dtype but is no tensor"},
	{DIM0, 8, 1, "along no dimension"},
	{NBYTES, 23, 0x50, "too long"},
	{SHAPES, 0, 9, "shape that cannot be read"},
	{SHAPES, 1, 3, "shape that cannot be read"},
	{SHAPES, 1, 1, "shape that cannot be read"},
};

static void test_each_byte_of_a_resolve(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad_bytes); i++) {
		struct sy_reply reply = three_keys();
		struct sy_buf buf = {0};
		sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
		bin_at(&buf, bad_bytes[i].bin)[bad_bytes[i].at] = bad_bytes[i].value;
		assert_refused(&buf, SY_OP_RESOLVE_KEYS, 3, bad_bytes[i].said);
		sy_buf_free(&buf);
	}
}

/* One bin after the other is short of its last item (the shapes' one of their last byte). */
static void test_each_length_of_a_resolve(void **state)
{
	(void)state;
	static const uint8_t item_bytes[] = {1, 1, 1, 8, 8, 4, 4, 3, 1};
	for (uint32_t n = 0; n < COUNT_OF(item_bytes); n++) {
		struct sy_reply reply = three_keys();
		struct sy_buf buf = {0};
		/* Read as a shape by a decoder that runs on, "8 bytes" is a rank past the end. */
		reply.inline_bytes = text("12345678");
		drawn_offset[1] = 0;
		sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
		uint8_t *at = bin_at(&buf, n);
		uint8_t *rest = at + at[-1];
		at[-1] = (uint8_t)(at[-1] - item_bytes[n]);
		memmove(rest - item_bytes[n], rest, (size_t)(buf.data + buf.bytes - rest));
		buf.bytes -= item_bytes[n];
		assert_refused(&buf, SY_OP_RESOLVE_KEYS, 3,
		               n == SHAPES ? "shape that cannot be read" : "another number of keys");
		sy_buf_free(&buf);
	}
}

/* Six keys whose types are told of two: each of the runs that tell of as many may be longer or
 * shorter by one, and the keys that were asked for other than a multiple. */
static void test_types_that_do_not_repeat(void **state)
{
	(void)state;
	static const struct {
		uint32_t bin, item_bytes;
	} told[] = {{DTYPE, 1}, {KIND, 1}, {GENERATION, 8}, {TAIL, 3}};
	struct sy_reply reply = {.outcome = {.op = SY_OP_RESOLVE_KEYS}, .key_count = 6, .row_keys = 2,
	                         .resolved = drawn_resolved()};
	for (uint32_t k = 0; k < 6; k++) {
		drawn_found[k] = SY_FOUND_PINNED;
		drawn_dtype[k] = SY_DTYPE_NONE;
		drawn_kind[k] = SY_KIND_BYTES;
		drawn_offset[k] = drawn_dim0[k] = 0;
		drawn_tail[k] = 0;
		drawn_nbytes[k] = drawn_generation[k] = 7;
	}
	for (uint32_t n = 0; n < COUNT_OF(told); n++) {
		struct sy_buf buf = {0};
		sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
		uint8_t *at = bin_at(&buf, told[n].bin);
		uint8_t *rest = at + at[-1];
		assert_int_equal(at[-1], 2 * told[n].item_bytes);
		at[-1] = (uint8_t)told[n].item_bytes;
		memmove(rest - told[n].item_bytes, rest, (size_t)(buf.data + buf.bytes - rest));
		buf.bytes -= told[n].item_bytes;
		assert_refused(&buf, SY_OP_RESOLVE_KEYS, 6, "another number of keys");
		sy_buf_free(&buf);
	}
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 5, "another number of keys");
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 7, "another number of keys");
	REFUSED(true, SY_OP_RESOLVE_KEYS, 6, "another number of keys", 0x9a, 0xc4, 4, 1, 1, 1, 1, 0, 0,
	        0, 0, 0, 0, 0);
	REFUSED(true, SY_OP_RESOLVE_KEYS, 6, "another number of keys", 0x9a, 0xc4, 0, 0, 0, 0, 0, 0, 0,
	        0, 0, 0);
	/* What is wrong with the place of one key is seen though the types were checked before it. */
	drawn_nbytes[5] = UINT64_MAX;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 6, "too long");
	drawn_offset[5] = 1;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 6, "outside any slab");
}

/* Scratch of every size from none to enough: refused or right, and never a byte past it. */
static void test_scratch_of_every_size(void **state)
{
	(void)state;
	struct sy_reply reply = three_keys();
	struct sy_buf buf = {0};
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	size_t bytes = 0;
	for (sy_status status = SY_E_PROTOCOL; status != SY_OK; bytes++) {
		struct sy_scratch scratch = {.data = malloc(bytes), .bytes = bytes};
		struct sy_reply got;
		sy_error err = {0};
		assert_non_null(scratch.data);
		status = sy_reply_decode(buf.data, buf.bytes, SY_OP_RESOLVE_KEYS, 3, &scratch, &got, &err);
		if (status == SY_OK)
			assert_resolved_equal(&reply, &got);
		free(scratch.data);
		assert_true(bytes < 4096);
	}
	sy_buf_free(&buf);
}

static void test_each_check_of_a_resolve(void **state)
{
	(void)state;
	struct sy_reply reply = three_keys();
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 4, "another number of keys");
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 2, "over the limit");
	reply.resolved.shape_count = 4; /* more shapes than keys, though fewer bytes than could be */
	drawn_shapes[1].rank = drawn_shapes[2].rank = drawn_shapes[3].rank = 1;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "shape that cannot be read");
	reply = three_keys();
	drawn_shapes[1].tail[0] = 0; /* an empty tensor, its dim0 past what fits; bytes it has not */
	drawn_nbytes[1] = 8;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "does not match its length");
	drawn_nbytes[1] = 0;
	drawn_dim0[1] = ((uint64_t)1 << 60) + 1; /* times 4 bytes */
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "too large");
	reply = three_keys(); /* a product that wraps to the length; one past the limit */
	drawn_dim0[1] = ((uint64_t)1 << 61) + 1;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "does not match its length");
	drawn_found[1] = SY_FOUND_PINNED;
	drawn_dim0[1] = (uint64_t)1 << 60;
	drawn_nbytes[1] = (uint64_t)1 << 63;
	drawn_offset[1] = 0;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "too large");
	reply = three_keys(); /* a scalar of another length, and one with a dim0 */
	drawn_shapes[1].rank = 0;
	drawn_dim0[1] = 0;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "scalar of another length");
	drawn_nbytes[1] = 4;
	drawn_dim0[1] = 1;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "along no dimension");
	reply = three_keys(); /* an end that wraps */
	drawn_offset[2] = UINT64_MAX - 9;
	drawn_nbytes[2] = 10;
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "outside any slab");
	uint8_t *bytes = calloc(1, SY_MESSAGE_INLINE_TOTAL_BYTES + 1);
	assert_non_null(bytes);
	reply = three_keys();
	reply.inline_bytes = (struct sy_span){bytes, SY_MESSAGE_INLINE_TOTAL_BYTES + 1};
	assert_reply_refused(&reply, SY_OP_RESOLVE_KEYS, 3, "over the limit");
	free(bytes);
}

static void test_each_zero_a_hello_may_not_hold(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, 1);
	for (int i = 0; i < 9; i++) {
		struct sy_reply reply = reply_draw(&prng, SY_OP_HELLO, true);
		uint64_t *longs[] = {&reply.hello.session, &reply.hello.incarnation,
		                     &reply.hello.read_pin_ns, &reply.hello.heartbeat_ns,
		                     &reply.hello.session_expire_ns};
		uint32_t *shorts[] = {&reply.hello.slot_count, &reply.hello.max_keys,
		                      &reply.hello.max_entries, &reply.hello.max_message_bytes};
		if (i < 5)
			*longs[i] = 0;
		else
			*shorts[i - 5] = 0;
		assert_reply_refused(&reply, SY_OP_HELLO, 0, "holds a 0");
	}
}

static void test_each_check_of_small_results(void **state)
{
	(void)state;
	REFUSED(true, SY_OP_ALLOC, 0, "answer that is not known", 0x91, 0);
	REFUSED(true, SY_OP_ALLOC, 0, "answer that is not known", 0x91, 4);
	REFUSED(true, SY_OP_ALLOC, 0, "answer that is not known", 0x91, 1);
	REFUSED(true, SY_OP_ALLOC, 0, "answer that is not known", 0x93, 2, 0, 0);
	REFUSED(true, SY_OP_ALLOC, 0, "answer that is not known", 0x92, 1, 0);
	REFUSED(true, SY_OP_ALLOC, 0, "more items", 0x94, 1, 0, 0, 0);
	REFUSED(true, SY_OP_COMMIT, 0, "answer that is not known", 0x93, 1, 0, 0);
	REFUSED(true, SY_OP_COMMIT, 0, "answer that is not known", 0x93, 2, 0, 1);
	REFUSED(true, SY_OP_COMMIT, 0, "answer that is not known", 0x93, 3, 0, 0);
	REFUSED(true, SY_OP_COMMIT, 0, "answer that is not known", 0x92, 3, 0);
	REFUSED(true, SY_OP_PUT_INLINE, 0, "answer that is not known", 0x93, 3, 0, 1);
	REFUSED(true, SY_OP_PUT_INLINE, 0, "answer that is not known", 0x93, 1, 0, 0);
	REFUSED(true, SY_OP_HEARTBEAT, 0, "out of range", 0x91, 5);
	REFUSED(true, SY_OP_INFO, 0, "out of range", 0x91, 5);
	REFUSED(true, SY_OP_HEARTBEAT, 0, "more items", 0x92, 1, 1);
	REFUSED(true, SY_OP_PIN_CHECK, 2, "another number of names", 0x91, 0xc4, 1, 0);
	REFUSED(true, SY_OP_PIN_CHECK, 1, "over the limit", 0x91, 0xc4, 2, 0, 0);
	REFUSED(true, SY_OP_PIN_CHECK, 2, "held or not", 0x91, 0xc4, 2, 1, 2);
	REFUSED(true, SY_OP_STATS, 0, "out of range", 0x81, 0xa5, 's', 't', 'a', 't', 'e', 5);
	REFUSED(true, SY_OP_STATS, 0, "number belongs", 0x81, 0xa4, 'r', 'o', 'w', 's', 0xa1, 'x');
	REFUSED(true, SY_OP_STATS, 0, "text belongs", 0x81, 1, 1);
	REFUSED(true, SY_OP_STATS, 0, "map belongs", 0x91, 1);
	REFUSED(true, SY_OP_STATS, 0, "cut off", 0xdf, 0xff, 0xff, 0xff, 0xff);
	REFUSED(true, SY_OP_SCAN, 8, "cut off", 0x92, 0, 0xdd, 0xff, 0xff, 0xff, 0xff);
}

static void test_each_check_of_a_scan(void **state)
{
	(void)state;
	struct sy_scan_entry entry = {.row = 1, .nbytes = 3, .field = text("f"),
	                              .kind = SY_KIND_BYTES};
	struct sy_scan_entry two[2] = {entry, entry};
	struct sy_reply reply = {.outcome = {.op = SY_OP_SCAN}, .scan = two, .scan_count = 2};
	assert_reply_refused(&reply, SY_OP_SCAN, 1, "more items");
	two[1].field = text("");
	assert_reply_refused(&reply, SY_OP_SCAN, 2, "no valid name");
	two[1].field = text("\xff");
	assert_reply_refused(&reply, SY_OP_SCAN, 2, "no valid name");
	two[1] = entry;
	two[1].kind = 0;
	assert_reply_refused(&reply, SY_OP_SCAN, 2, "unknown kind");
	two[1].kind = SY_KIND_TENSOR;
	two[1].dtype = SY_DTYPE_U16;
	two[1].shape.rank = 1;
	two[1].nbytes = 4;
	two[1].dim0 = 3;
	assert_reply_refused(&reply, SY_OP_SCAN, 2, "does not match its length");
	/* A shape's bytes: none, a rank too high, some too many. */
	REFUSED(true, SY_OP_SCAN, 1, "shape that cannot be read", 0x92, 0, 0x91, 0x97, 1, 0xa1, 'f',
	        0, 2, 3, 0, 0xc4, 0);
	REFUSED(true, SY_OP_SCAN, 1, "shape that cannot be read", 0x92, 0, 0x91, 0x97, 1, 0xa1, 'f',
	        0, 2, 3, 0, 0xc4, 1, 9);
	REFUSED(true, SY_OP_SCAN, 1, "shape that cannot be read", 0x92, 0, 0x91, 0x97, 1, 0xa1, 'f',
	        0, 2, 3, 0, 0xc4, 2, 0, 0);
}

static void test_each_check_of_an_error(void **state)
{
	(void)state;
	REFUSED(false, SY_OP_ALLOC, 0, "without a kind", 0x80);
	REFUSED(false, SY_OP_ALLOC, 0, "map belongs", 0x91, 1);
	REFUSED(false, SY_OP_ALLOC, 0, "without a kind", 0x81, 0xa4, 'k', 'i', 'n', 'd', 0xa2,
	        'o', 'k');
	REFUSED(false, SY_OP_ALLOC, 0, "word that is not known", 0x81, 0xa4, 'k', 'i', 'n', 'd', 0xa3,
	        'B', 'u', 's');
	REFUSED(false, SY_OP_ALLOC, 0, "word that is not known", 0x81, 0xa4, 'k', 'i', 'n', 'd', 0xa7,
	        'u', 'n', 'k', 'n', 'o', 'w', 'n');
	REFUSED(false, SY_OP_ALLOC, 0, "word that is not known", 0x82, 0xa4, 'k', 'i', 'n', 'd', 0xa4,
	        'B', 'u', 's', 'y', 0xa6, 'r', 'e', 'a', 's', 'o', 'n', 0xa1, 'x');
	REFUSED(false, SY_OP_ALLOC, 0, "out of range", 0x82, 0xa4, 'k', 'i', 'n', 'd', 0xa4, 'B', 'u',
	        's', 'y', 0xa3, 'w', 'h', 'y', 0xcd, 1, 0);
}

/* An error's text is kept as far as it fits, whole characters only; parts that are not known
 * are skipped. */
static void test_the_text_of_an_error(void **state)
{
	(void)state;
	struct sy_buf body = {0};
	struct sy_buf buf = {0};
	struct sy_reply got;
	sy_error err = {0};
	for (size_t lead = 58; lead < 66; lead++) {
		char long_text[200];
		memset(long_text, 'x', lead);
		for (size_t i = 0; i < 40; i++)
			memcpy(long_text + lead + 3 * i, "\xe2\x82\xac", 3);
		sy_buf_reset(&body);
		sy_mp_write_map(&body, 3);
		sy_mp_write_text(&body, "blobs");
		sy_mp_write_array(&body, 1);
		sy_mp_write_nil(&body);
		sy_mp_write_text(&body, "msg");
		sy_mp_write_str(&body, long_text, lead + 120);
		sy_mp_write_text(&body, "kind");
		sy_mp_write_text(&body, "Missing");
		frame(&buf, false, body.data, body.bytes);
		struct sy_scratch scratch = scratch_new();
		assert_int_equal(
			sy_reply_decode(buf.data, buf.bytes, SY_OP_COMMIT, 0, &scratch, &got, &err), SY_OK);
		assert_int_equal(got.outcome.fault, SY_FAULT_MISSING);
		size_t kept = strlen(got.reason);
		assert_memory_equal(got.reason, long_text, kept);
		assert_int_equal(kept, lead >= 63 ? 63 : lead + (63 - lead) / 3 * 3);
	}
	sy_buf_free(&body);
	sy_buf_free(&buf);
}

static void test_each_check_of_the_frame(void **state)
{
	(void)state;
	static const uint8_t result[] = {0x91, 2};
	struct sy_buf buf = {0};
	struct sy_request_id id = {1, 2, 3};
	sy_error err = {0};
	frame(&buf, true, result, sizeof result);
	assert_int_equal(sy_reply_peek(buf.data, buf.bytes, &id, &err), SY_OK);
	assert_int_equal(id.session, 7);
	sy_mp_write_nil(&buf);
	assert_refused(&buf, SY_OP_COMMIT, 0, "followed by more bytes");
	frame(&buf, true, result, sizeof result);
	buf.data[0] = 0x94;
	id = (struct sy_request_id){1, 2, 3};
	assert_int_equal(sy_reply_peek(buf.data, buf.bytes, &id, &err), SY_E_PROTOCOL);
	assert_int_equal(id.session, 1); /* written only on success */
	assert_refused(&buf, SY_OP_COMMIT, 0, "fewer items");
	buf.data[0] = 0x96;
	assert_refused(&buf, SY_OP_COMMIT, 0, "more items");
	buf.data[0] = 0x95;
	buf.data[2] = 19;
	assert_int_equal(sy_reply_peek(buf.data, buf.bytes, &id, &err), SY_E_PROTOCOL);
	assert_refused(&buf, SY_OP_COMMIT, 0, "no request id");
	buf.data[2] = 20;
	buf.data[23] = 1;
	assert_refused(&buf, SY_OP_COMMIT, 0, "true or false");
	assert_refused(&buf, (enum sy_op)12, 0, "");
	sy_buf_free(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_byte_of_a_resolve),
		cmocka_unit_test(test_each_length_of_a_resolve),
		cmocka_unit_test(test_types_that_do_not_repeat),
		cmocka_unit_test(test_scratch_of_every_size),
		cmocka_unit_test(test_each_check_of_a_resolve),
		cmocka_unit_test(test_each_zero_a_hello_may_not_hold),
		cmocka_unit_test(test_each_check_of_small_results),
		cmocka_unit_test(test_each_check_of_a_scan),
		cmocka_unit_test(test_each_check_of_an_error),
		cmocka_unit_test(test_the_text_of_an_error),
		cmocka_unit_test(test_each_check_of_the_frame),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
