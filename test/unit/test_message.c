/* Messages: what is encoded decodes to the same, in its form, and at its limits. */
#include "reply_fixture.h"

static void buf_dump(const struct sy_buf *buf)
{
	for (size_t i = 0; i < buf->bytes; i++)
		print_error("%02x", buf->data[i]);
	print_error("\n");
}

/* Decodes an exact copy, so that ASan sees a byte read past its end. */
static sy_status request_back(const struct sy_buf *buf, struct sy_scratch *scratch,
                              struct sy_request *ret_request, uint8_t **ret_copy, sy_error *err)
{
	struct sy_request_id id;
	*ret_copy = malloc(buf->bytes);
	assert_non_null(*ret_copy);
	memcpy(*ret_copy, buf->data, buf->bytes);
	return sy_request_decode(*ret_copy, buf->bytes, scratch, ret_request, &id, err);
}

static void assert_request_survives(const struct sy_request *sent)
{
	struct sy_buf buf = {0};
	struct sy_request got;
	uint8_t *copy;
	sy_error err = {0};
	sy_request_encode(sent, &buf);
	assert_false(buf.failed);
	assert_true(buf.bytes <= sy_request_bytes(sent));
	assert_true(sy_request_bytes(sent) <= SY_MESSAGE_MAX_BYTES);
	struct sy_scratch scratch = scratch_new();
	if (request_back(&buf, &scratch, &got, &copy, &err) != SY_OK) {
		buf_dump(&buf);
		fail_msg("%s", err.message);
	}
	assert_requests_equal(sent, &got);
	free(copy);
	sy_buf_free(&buf);
}

static void assert_reply_survives(const struct sy_reply *sent, enum sy_op op)
{
	struct sy_buf buf = {0};
	struct sy_reply got;
	struct sy_request_id id;
	sy_error err = {0};
	sy_reply_encode(sent, op, &buf);
	assert_false(buf.failed);
	assert_true(buf.bytes <= SY_MESSAGE_MAX_BYTES);
	uint8_t *copy = malloc(buf.bytes);
	assert_non_null(copy);
	memcpy(copy, buf.data, buf.bytes);
	assert_int_equal(sy_reply_peek(copy, buf.bytes, &id, &err), SY_OK);
	assert_ids_equal(id, sent->id);
	struct sy_scratch scratch = scratch_new();
	uint32_t asked = asked_of(sent, op);
	if (sy_reply_decode(copy, buf.bytes, op, asked, &scratch, &got, &err) != SY_OK)
		fail_msg("%s: %s", sy_op_name((uint8_t)op), err.message);
	assert_replies_equal(sent, &got);
	free(copy);
	sy_buf_free(&buf);
}

static void test_every_request_survives(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 300; i++) {
		for (enum sy_op op = SY_OP_HELLO; op <= SY_OP_STATS; op++) {
			struct sy_request sent = request_draw(&prng, op);
			assert_request_survives(&sent);
		}
	}
}

static void test_every_reply_survives(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 300; i++) {
		for (enum sy_op op = SY_OP_HELLO; op <= SY_OP_STATS; op++) {
			struct sy_reply sent = reply_draw(&prng, op, sy_prng_chance(&prng, 70));
			assert_reply_survives(&sent, op);
		}
	}
}

/* Every fault with every reason, and its text for people. */
static void test_every_error_survives(void **state)
{
	(void)state;
	struct sy_reply sent;
	memset(&sent, 0, sizeof sent);
	sent.outcome.op = SY_OP_ALLOC;
	sent.outcome.fault = SY_FAULT_BUSY;
	for (uint8_t busy = 0; busy <= SY_BUSY_FENCED; busy++) {
		sent.outcome.busy = busy;
		assert_reply_survives(&sent, SY_OP_ALLOC);
	}
	sent.outcome.busy = 0;
	sent.outcome.fault = SY_FAULT_UNIT_FULL;
	sent.outcome.need = sent.outcome.free = sent.outcome.hole = UINT64_MAX;
	for (uint8_t resource = 0; resource <= SY_RESOURCE_NAMESPACES; resource++) {
		sent.outcome.resource = resource;
		assert_reply_survives(&sent, SY_OP_ALLOC);
	}
	memset(&sent.outcome, 0, sizeof sent.outcome);
	sent.outcome.fault = SY_FAULT_PROTOCOL;
	for (unsigned why = 0; why <= UINT8_MAX; why++) {
		struct sy_buf buf = {0};
		struct sy_reply got;
		sy_error err = {0};
		sent.outcome.why = (uint8_t)why;
		sy_reply_encode(&sent, SY_OP_COMMIT, &buf);
		struct sy_scratch scratch = scratch_new();
		assert_int_equal(
			sy_reply_decode(buf.data, buf.bytes, SY_OP_COMMIT, 0, &scratch, &got, &err), SY_OK);
		assert_int_equal(got.outcome.why, why);
		assert_string_equal(got.reason, sy_why_text((uint8_t)why)); /* whole: it fits */
		sy_buf_free(&buf);
	}
}

/* The form in bytes: programs in other languages read it. */
static void test_the_form_is_as_written_down(void **state)
{
	(void)state;
	static const uint8_t request_form[] = {
		0x94, 5, 0xc4, 20, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
		0x94, 0x92, 0xa1, 'x', 0xa2, 0xc3, 0xa9, 0xc4, 16, 9, 0, 0, 0, 0, 0, 0, 0,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc4, 4, 1, 0, 0, 0, 0xcd, 0x01, 0x00,
		0x92, 7, 0xc4, 22, 1, 1, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0,
	};
	static const uint8_t reply_form[] = {
		0x95, 0xc4, 20, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0xc3,
		0x9a, 0xc4, 2, 0, 2, 0xc4, 2, 0, 12, 0xc4, 2, 0, 1,
		0xc4, 8, 0, 0, 0, 0, 1, 0, 0, 0, /* four bytes each where all fit */
		0xc4, 8, 0, 0, 0, 0, 8, 0, 0, 0,
		0xc4, 16, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0,
		0xc4, 8, 0, 0, 0, 0, 1, 0, 0, 0,
		0xc4, 6, 0, 0, 0, 1, 0, 0, 0xc4, 10, 1, 2, 2, 0, 0, 0, 0, 0, 0, 0,
		0xc4, 9, 'z', 1, 2, 3, 4, 5, 6, 7, 8, 11, 0xcd, 1, 0,
	};
	static const uint64_t rows[] = {9, UINT64_MAX};
	static const uint16_t field_of[] = {1, 0};
	const struct sy_span fields[] = {text("x"), text("\xc3\xa9")};
	const struct sy_notice notice = {SY_NOTICE_ABORT, true, {8, 10, 9}};
	struct sy_request request = {
		.op = SY_OP_RESOLVE_KEYS, .id = {1, 3, 2}, .first_notice = 7, .notice_count = 1,
		.notices = &notice,
		.resolve = {.rows = rows, .fields = fields, .field_of = field_of, .row_count = 2,
		            .field_count = 2, .inline_max_bytes = 256},
	};
	struct sy_buf buf = {0};
	sy_request_encode(&request, &buf);
	assert_int_equal(buf.bytes, sizeof request_form);
	assert_memory_equal(buf.data, request_form, sizeof request_form);
	sy_buf_reset(&buf);
	struct sy_reply reply = {.id = {1, 3, 2}, .outcome = {.op = SY_OP_RESOLVE_KEYS},
	                         .resolved = drawn_resolved(), .key_count = 2,
	                         .inline_bytes = text("z\1\2\3\4\5\6\7\10"), .notices_done = 11,
	                         .unit_now_ns = 256};
	memset(drawn_shapes, 0, sizeof drawn_shapes);
	reply.resolved.shape_count = 2;
	drawn_shapes[0].rank = 1;
	drawn_shapes[1].rank = 2;
	drawn_shapes[1].tail[0] = 2;
	drawn_found[0] = SY_FOUND_ABSENT; /* what else stands there does not travel */
	drawn_dtype[0] = drawn_kind[0] = 9;
	drawn_offset[0] = drawn_nbytes[0] = drawn_generation[0] = drawn_dim0[0] = drawn_tail[0] = 9;
	drawn_found[1] = SY_FOUND_INLINE;
	drawn_dtype[1] = SY_DTYPE_F32;
	drawn_kind[1] = SY_KIND_TENSOR;
	drawn_offset[1] = drawn_dim0[1] = drawn_tail[1] = 1;
	drawn_nbytes[1] = 8;
	drawn_generation[1] = ((uint64_t)1 << 32) + 5;
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	assert_int_equal(buf.bytes, sizeof reply_form);
	assert_memory_equal(buf.data, reply_form, sizeof reply_form);
	sy_buf_free(&buf);
}

/* What all rows have in common is written once, the generations only where they repeat, too. */
static void test_types_that_repeat_are_written_once(void **state)
{
	(void)state;
	static const uint8_t form[] = {
		0x95, 0xc4, 20, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0xc3,
		0x9a, 0xc4, 2, 1, 1, 0xc4, 2, 2, 0, 0xc4, 2, 1, 2,
		0xc4, 24, 0, 0, 0, 0, 64, 0, 0, 0, 128, 0, 0, 0, 192, 0, 0, 0, 0, 1, 0, 0, 64, 1, 0, 0,
		0xc4, 24, 1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 6, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0,
		0xc4, 16, 9, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
		0xc4, 24, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
		0xc4, 6, 0, 0, 0, 0, 0, 0, 0xc4, 1, 1, 0xc4, 0, 0, 0,
	};
	struct sy_reply reply = {.id = {1, 3, 2}, .outcome = {.op = SY_OP_RESOLVE_KEYS},
	                         .resolved = drawn_resolved(), .key_count = 6, .row_keys = 2};
	struct sy_buf buf = {0};
	memset(drawn_shapes, 0, sizeof drawn_shapes);
	reply.resolved.shape_count = 1;
	drawn_shapes[0].rank = 1;
	for (uint32_t k = 0; k < 6; k++) {
		drawn_found[k] = SY_FOUND_PINNED;
		drawn_kind[k] = k % 2 == 0 ? SY_KIND_TENSOR : SY_KIND_BYTES;
		drawn_dtype[k] = k % 2 == 0 ? SY_DTYPE_U8 : SY_DTYPE_NONE;
		drawn_offset[k] = 64 * (uint64_t)k;
		drawn_nbytes[k] = k % 2 == 0 ? 1 + k / 2 : 5 + k / 2;
		drawn_dim0[k] = k % 2 == 0 ? drawn_nbytes[k] : 0;
		drawn_generation[k] = 9;
		drawn_tail[k] = 0;
	}
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	assert_int_equal(buf.bytes, sizeof form);
	assert_memory_equal(buf.data, form, sizeof form);
	assert_reply_survives(&reply, SY_OP_RESOLVE_KEYS);
	/* Another generation, another type, or but two rows, which could be taken for something else:
	 * the one is written out, or all are. */
	size_t all_bytes = sizeof form + 4 * 3 + 4 * 3;
	sy_buf_reset(&buf);
	drawn_generation[5] = 10;
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	assert_int_equal(buf.bytes, sizeof form - 16 + 24);
	assert_reply_survives(&reply, SY_OP_RESOLVE_KEYS);
	sy_buf_reset(&buf);
	drawn_kind[5] = SY_KIND_JSON;
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	assert_int_equal(buf.bytes, all_bytes + 8);
	assert_reply_survives(&reply, SY_OP_RESOLVE_KEYS);
	reply.key_count = 4;
	assert_reply_survives(&reply, SY_OP_RESOLVE_KEYS);
	sy_buf_free(&buf);
}

/* --- limits ------------------------------------------------------------------------------- */

static char long_names[KEYS][SY_FIELD_MAX_BYTES];

static void long_fields(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		memset(long_names[i], 'n', sizeof long_names[i]);
		memcpy(long_names[i], &(uint32_t){0x61616161 + i % 16 + (i / 16 % 16 << 8) +
		                                  (i / 256 % 16 << 16) + (i / 4096 << 24)}, 4);
		drawn_fields[i] = (struct sy_span){(const uint8_t *)long_names[i], sizeof long_names[i]};
	}
}

static struct sy_request largest_resolve(void)
{
	struct sy_request request = {
		.op = SY_OP_RESOLVE_KEYS, .id = {UINT64_MAX, UINT64_MAX, UINT32_MAX},
		.first_notice = UINT64_MAX - SY_NOTICES_PER_MESSAGE,
		.notice_count = SY_NOTICES_PER_MESSAGE, .notices = drawn_notices,
		.resolve = {.rows = drawn_rows, .fields = drawn_fields, .field_of = drawn_field_of,
		            .row_count = KEYS, .inline_max_bytes = UINT32_MAX},
	};
	for (uint32_t i = 0; i < SY_NOTICES_PER_MESSAGE; i++)
		drawn_notices[i] = (struct sy_notice){SY_NOTICE_UNPIN, false, {1, i, 2}};
	for (uint32_t k = 0; k < KEYS; k++)
		drawn_rows[k] = UINT64_MAX - k;
	return request;
}

/* All keys, all notices, and as many of the longest names as fit: the message fits exactly as
 * far as sy_request_bytes says, and one name more is refused before anything is written. */
static void test_the_largest_resolve_fits(void **state)
{
	(void)state;
	struct sy_request request = largest_resolve();
	struct sy_resolve_args *args = &request.resolve;
	long_fields(KEYS);
	while (sy_request_bytes(&request) <= SY_MESSAGE_MAX_BYTES)
		args->field_count++;
	args->field_count--;
	assert_true(args->field_count > 3800);
	for (uint32_t k = 0; k < KEYS; k++)
		drawn_field_of[k] = (uint16_t)(k % args->field_count);
	assert_request_survives(&request);
	args->field_count++;
	struct sy_buf buf = {0};
	sy_request_encode(&request, &buf);
	assert_true(buf.failed);
	assert_int_equal(buf.bytes, 0);
	sy_buf_free(&buf);
}

/* As many fields as keys, with names of usual lengths. */
static void test_a_field_for_every_key_fits(void **state)
{
	(void)state;
	struct sy_request request = largest_resolve();
	struct sy_resolve_args *args = &request.resolve;
	long_fields(KEYS);
	args->field_count = KEYS;
	for (uint32_t k = 0; k < KEYS; k++) {
		drawn_fields[k].bytes = 100;
		drawn_field_of[k] = (uint16_t)k;
	}
	assert_request_survives(&request);
	args->field_of = NULL; /* the full product is counted in keys */
	args->row_count = 1;
	assert_request_survives(&request);
}

static void test_the_other_largest_requests_fit(void **state)
{
	(void)state;
	struct sy_request request = {.op = SY_OP_RELEASE_ROWS};
	request.release.rows = drawn_rows;
	request.release.row_count = SY_ROWS_PER_RELEASE_MAX;
	request.release.fields = drawn_fields;
	long_fields(3000);
	request.release.field_count = 3000;
	assert_request_survives(&request);
	request = (struct sy_request){.op = SY_OP_PIN_CHECK};
	for (uint32_t i = 0; i < SY_NAMES_PER_PIN_CHECK_MAX; i++)
		drawn_names[i] = (struct sy_request_id){i, i, i};
	request.pin_check.names = drawn_names;
	request.pin_check.count = SY_NAMES_PER_PIN_CHECK_MAX;
	assert_request_survives(&request);
	request = (struct sy_request){.op = SY_OP_SCAN};
	request.scan.fields = drawn_fields;
	request.scan.field_count = 3000;
	request.scan.limit = SY_SCAN_LIMIT_MAX;
	assert_request_survives(&request);
	request = (struct sy_request){.op = SY_OP_PUT_INLINE};
	size_t room = SY_MESSAGE_MAX_BYTES - sy_request_bytes(&request);
	uint8_t *blob = calloc(1, room + 1);
	assert_non_null(blob);
	request.put_inline.blob = (struct sy_span){blob, room};
	assert_request_survives(&request);
	request.put_inline.blob.bytes++;
	struct sy_buf buf = {0};
	sy_request_encode(&request, &buf);
	assert_true(buf.failed);
	sy_buf_free(&buf);
	free(blob);
}

/* All keys, each with a shape of its own of the highest rank, and all inline bytes: the scratch
 * suffices and the message stays within its limit. */
static void test_the_largest_resolve_reply_fits(void **state)
{
	(void)state;
	struct sy_reply reply = {.outcome = {.op = SY_OP_RESOLVE_KEYS}, .key_count = KEYS,
	                         .resolved = drawn_resolved()};
	uint8_t *bytes = calloc(1, SY_MESSAGE_INLINE_TOTAL_BYTES);
	assert_non_null(bytes);
	reply.inline_bytes = (struct sy_span){bytes, SY_MESSAGE_INLINE_TOTAL_BYTES};
	reply.resolved.shape_count = KEYS;
	memset(drawn_shapes, 0, sizeof drawn_shapes);
	for (uint32_t k = 0; k < KEYS; k++) {
		drawn_found[k] = SY_FOUND_INLINE;
		drawn_dtype[k] = SY_DTYPE_U8;
		drawn_kind[k] = SY_KIND_TENSOR;
		drawn_shapes[k].rank = SY_RANK_MAX;
		for (uint32_t d = 0; d < SY_TAIL_MAX; d++)
			drawn_shapes[k].tail[d] = 1;
		drawn_tail[k] = k;
		drawn_offset[k] = 64 * (uint64_t)k;
		drawn_nbytes[k] = drawn_dim0[k] = 64;
		drawn_generation[k] = UINT64_MAX - k;
	}
	assert_reply_survives(&reply, SY_OP_RESOLVE_KEYS);
	free(bytes);
}

static void test_the_largest_scan_fits(void **state)
{
	(void)state;
	struct sy_reply reply = {.outcome = {.op = SY_OP_SCAN}, .scan = drawn_scan,
	                         .scan_count = SY_SCAN_LIMIT_MAX, .scan_cursor = UINT64_MAX};
	memset(drawn_scan, 0, sizeof drawn_scan);
	long_fields(SY_SCAN_LIMIT_MAX);
	for (uint32_t i = 0; i < SY_SCAN_LIMIT_MAX; i++) {
		struct sy_scan_entry *entry = &drawn_scan[i];
		entry->row = UINT64_MAX - i;
		entry->field = drawn_fields[i];
		entry->dtype = SY_DTYPE_U8;
		entry->kind = SY_KIND_TENSOR;
		entry->shape.rank = SY_RANK_MAX;
		for (uint32_t d = 0; d < SY_TAIL_MAX; d++)
			entry->shape.tail[d] = 1;
		entry->nbytes = entry->dim0 = (uint64_t)1 << 62;
	}
	assert_reply_survives(&reply, SY_OP_SCAN);
}

/* A reply whose inline bytes pass their limit so far that it would not be read is not made. */
static void test_a_reply_over_the_limit_is_not_made(void **state)
{
	(void)state;
	struct sy_reply reply = {.outcome = {.op = SY_OP_RESOLVE_KEYS}, .resolved = drawn_resolved()};
	struct sy_buf buf = {0};
	sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
	size_t room = SY_MESSAGE_MAX_BYTES - buf.bytes - 3; /* the head grows from 2 bytes to 5 */
	uint8_t *bytes = calloc(1, room + 1);
	assert_non_null(bytes);
	for (size_t over = 0; over < 2; over++) {
		reply.inline_bytes = (struct sy_span){bytes, room + over};
		sy_buf_reset(&buf);
		sy_buf_append(&buf, "before", 6); /* what stood in buf does not count */
		sy_reply_encode(&reply, SY_OP_RESOLVE_KEYS, &buf);
		assert_int_equal(buf.bytes, 6 + SY_MESSAGE_MAX_BYTES + over);
		assert_int_equal(buf.failed, over == 1);
	}
	free(bytes);
	sy_buf_free(&buf);
}

/* Stats of a newer unit hold names that an older client skips, whatever their values. */
static void test_stats_may_grow(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	struct sy_reply got;
	sy_error err = {0};
	uint8_t id[SY_REQUEST_ID_BYTES] = {1};
	sy_mp_write_array(&buf, 5);
	sy_mp_write_bin(&buf, id, sizeof id);
	sy_mp_write_bool(&buf, true);
	sy_mp_write_map(&buf, 4);
	sy_mp_write_text(&buf, "spilled_blobs");
	sy_mp_write_array(&buf, 2);
	sy_mp_write_map(&buf, 1);
	sy_mp_write_text(&buf, "a");
	sy_mp_write_nil(&buf);
	sy_mp_write_bin(&buf, id, sizeof id);
	sy_mp_write_text(&buf, "rows");
	sy_mp_write_uint(&buf, 1319);
	sy_mp_write_text(&buf, "state");
	sy_mp_write_uint(&buf, SY_UNIT_DRAINING);
	sy_mp_write_text(&buf, "bytes.published");
	sy_mp_write_uint(&buf, UINT64_MAX);
	sy_mp_write_uint(&buf, 5);
	sy_mp_write_uint(&buf, 6);
	struct sy_scratch scratch = scratch_new();
	assert_int_equal(
		sy_reply_decode(buf.data, buf.bytes, SY_OP_STATS, 0, &scratch, &got, &err), SY_OK);
	assert_int_equal(got.stats.rows, 1319);
	assert_int_equal(got.stats.bytes.published, UINT64_MAX);
	assert_int_equal(got.stats.entries, 0);
	assert_int_equal(got.unit_state, SY_UNIT_DRAINING);
	assert_int_equal(got.unit_now_ns, 6);
	sy_buf_free(&buf);
}

/* A client of another version hears so, whatever else its hello holds. */
static void test_a_hello_of_another_version_is_read_as_far_as_that(void **state)
{
	(void)state;
	struct sy_buf buf = {0};
	struct sy_request got;
	uint8_t *copy;
	sy_error err = {0};
	uint8_t id[SY_REQUEST_ID_BYTES] = {0};
	sy_mp_write_array(&buf, 4);
	sy_mp_write_uint(&buf, SY_OP_HELLO);
	sy_mp_write_bin(&buf, id, sizeof id);
	sy_mp_write_array(&buf, 3);
	sy_mp_write_uint(&buf, SY_PROTOCOL_VERSION + 1);
	sy_mp_write_map(&buf, 0);
	sy_mp_write_text(&buf, "whatever");
	sy_mp_write_array(&buf, 2);
	sy_mp_write_uint(&buf, 1);
	sy_mp_write_bin(&buf, id, 0);
	struct sy_scratch scratch = scratch_new();
	assert_int_equal(request_back(&buf, &scratch, &got, &copy, &err), SY_OK);
	assert_int_equal(got.hello.version, SY_PROTOCOL_VERSION + 1);
	assert_int_equal(got.hello.ns.bytes, 0);
	free(copy);
	sy_buf_free(&buf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_request_survives),
		cmocka_unit_test(test_every_reply_survives),
		cmocka_unit_test(test_every_error_survives),
		cmocka_unit_test(test_the_form_is_as_written_down),
		cmocka_unit_test(test_types_that_repeat_are_written_once),
		cmocka_unit_test(test_the_largest_resolve_fits),
		cmocka_unit_test(test_a_field_for_every_key_fits),
		cmocka_unit_test(test_the_other_largest_requests_fit),
		cmocka_unit_test(test_the_largest_resolve_reply_fits),
		cmocka_unit_test(test_the_largest_scan_fits),
		cmocka_unit_test(test_a_reply_over_the_limit_is_not_made),
		cmocka_unit_test(test_stats_may_grow),
		cmocka_unit_test(test_a_hello_of_another_version_is_read_as_far_as_that),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
