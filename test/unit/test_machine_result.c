/* What an op keeps of a reply after the message and the scratch are gone. */
#include "machine_rig.h"

/* Delivers from memory of its own, then wipes that and the scratch. */
static void deliver_and_wipe(struct rig *rig, const struct sy_reply *reply, enum sy_op op)
{
	struct sy_buf buf = {0};
	sy_reply_encode(reply, op, &buf);
	assert_false(buf.failed);
	sy_machine_receive(rig->machine, buf.data, buf.bytes, &rig->scratch, rig->now_ns);
	memset(buf.data, 0xee, buf.bytes);
	sy_buf_free(&buf);
	memset(rig->scratch.data, 0xee, rig->scratch.bytes);
	rig_pump(rig);
}

static void test_a_resolve(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	static const uint64_t rows[] = {5, 6, 7};
	static uint8_t found[] = {SY_FOUND_PINNED, SY_FOUND_INLINE, SY_FOUND_ABSENT};
	static uint8_t dtype[] = {SY_DTYPE_F32, SY_DTYPE_NONE, 0};
	static uint8_t kind[] = {SY_KIND_TENSOR, SY_KIND_UTF8, 0};
	static uint64_t offset[] = {640, 0, 0}, nbytes[] = {48, 3, 0}, generation[] = {9, 10, 0};
	static uint64_t dim0[] = {4, 0, 0};
	static uint32_t tail[] = {0, 0, 0};
	static struct sy_shape shapes[] = {{.rank = 2, .tail = {3}}};
	static const uint8_t inline_bytes[] = "abc";
	struct sy_span field = rig_field();
	struct sy_machine_op op = {
		.kind = SY_OP_KIND_RESOLVE,
		.deadline_ns = rig->now_ns + RIG_S,
		.resolve = {.rows = rows, .fields = &field, .row_count = 3, .field_count = 1},
	};
	sy_machine_start(rig->machine, &op, rig->now_ns);
	rig_pump(rig);
	struct sy_reply reply = rig_reply(rig, rig_last(rig));
	reply.key_count = 3;
	reply.inline_bytes = (struct sy_span){inline_bytes, 3};
	reply.resolved = (struct sy_resolved){
		.found = found, .dtype = dtype, .kind = kind, .offset = offset, .nbytes = nbytes,
		.generation = generation, .dim0 = dim0, .tail = tail, .shapes = shapes, .shape_count = 1};
	deliver_and_wipe(rig, &reply, SY_OP_RESOLVE_KEYS);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	const struct sy_resolved *got = &op.reply.resolved;
	assert_int_equal(op.reply.key_count, 3);
	assert_memory_equal(got->found, found, sizeof found);
	assert_memory_equal(got->dtype, dtype, sizeof dtype);
	assert_memory_equal(got->kind, kind, sizeof kind);
	assert_memory_equal(got->offset, offset, sizeof offset);
	assert_memory_equal(got->nbytes, nbytes, sizeof nbytes);
	assert_memory_equal(got->generation, generation, sizeof generation);
	assert_memory_equal(got->dim0, dim0, sizeof dim0);
	assert_int_equal(got->shape_count, 2); /* one more, for what is no tensor */
	assert_int_equal(got->shapes[got->tail[0]].rank, 2);
	assert_int_equal(got->shapes[got->tail[0]].tail[0], 3);
	assert_int_equal(got->shapes[got->tail[1]].rank, 0);
	assert_int_equal(got->shapes[got->tail[2]].rank, 0);
	assert_int_equal(op.reply.inline_bytes.bytes, 3);
	assert_memory_equal(op.reply.inline_bytes.data, "abc", 3);
	assert_true((uintptr_t)got->offset % 8 == 0 && (uintptr_t)got->shapes % 8 == 0 &&
	            (uintptr_t)got->tail % 4 == 0);
	/* The same op again, with what it has grown. */
	sy_machine_start(rig->machine, &op, rig->now_ns);
	rig_pump(rig);
	reply.id = rig_last(rig)->id;
	uint8_t all_inline[] = {SY_FOUND_ABSENT, SY_FOUND_INLINE, SY_FOUND_ABSENT};
	reply.resolved.found = all_inline;
	deliver_and_wipe(rig, &reply, SY_OP_RESOLVE_KEYS);
	rig_expect(rig, 2, &op, SY_OP_END_OK);
	assert_int_equal(op.name.session, 0); /* nothing pinned, nothing to give back */
	assert_memory_equal(op.reply.resolved.found, all_inline, 3);
	rig->ended_count = 1;
	rig_free(rig);
}

static void test_a_full_product_and_a_list_of_keys(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	static const uint64_t rows[] = {5, 6, 7};
	static const uint16_t field_of[] = {1, 0, 1};
	struct sy_span fields[2] = {rig_field(), {(const uint8_t *)"mask", 4}};
	for (int listed = 0; listed < 2; listed++) {
		struct sy_machine_op op = {
			.kind = SY_OP_KIND_RESOLVE,
			.deadline_ns = rig->now_ns + RIG_S,
			.resolve = {.rows = rows, .fields = fields, .row_count = 3, .field_count = 2,
			            .field_of = listed ? field_of : NULL},
		};
		sy_machine_start(rig->machine, &op, rig->now_ns);
		rig_pump(rig);
		uint8_t bytes[6] = {0};
		uint64_t words[6] = {0};
		uint32_t tails[6] = {0};
		struct sy_reply reply = rig_reply(rig, rig_last(rig));
		reply.resolved = (struct sy_resolved){
			.found = bytes, .dtype = bytes, .kind = bytes, .offset = words, .nbytes = words,
			.generation = words, .dim0 = words, .tail = tails};
		reply.key_count = listed ? 6 : 3; /* not as many as asked */
		rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
		assert_int_equal(op.stage, SY_OP_STAGE_SENT);
		reply.key_count = listed ? 3 : 6;
		rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
		assert_int_equal(op.end, SY_OP_END_OK);
		assert_int_equal(op.reply.key_count, listed ? 3 : 6);
		sy_buf_free(&op.result);
		rig->ended_count = 0;
	}
	rig_free(rig);
}

static void test_a_pin_check(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	static const uint8_t held[] = {1, 0};
	struct sy_machine_op op = {0};
	rig_start(rig, &op, SY_OP_KIND_PIN_CHECK, RIG_S);
	struct sy_reply reply = rig_reply(rig, rig_last(rig));
	reply.held = held;
	reply.held_count = 2;
	deliver_and_wipe(rig, &reply, SY_OP_PIN_CHECK);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_int_equal(op.reply.held_count, 2);
	assert_memory_equal(op.reply.held, held, 2);
	rig_free(rig);
}

static void test_a_scan(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op op = {0};
	const struct sy_scan_entry entries[] = {
		{.row = 4, .nbytes = 3, .field = rig_field(), .kind = SY_KIND_BYTES},
		{.row = 5, .nbytes = 8, .dim0 = 2, .field = {(const uint8_t *)"x", 1},
		 .shape = {.rank = 1}, .dtype = SY_DTYPE_I32, .kind = SY_KIND_TENSOR},
	};
	rig_start(rig, &op, SY_OP_KIND_SCAN, RIG_S);
	struct sy_reply reply = rig_reply(rig, rig_last(rig));
	reply.scan = entries;
	reply.scan_count = 2;
	reply.scan_cursor = 77;
	deliver_and_wipe(rig, &reply, SY_OP_SCAN);
	rig_expect(rig, 1, &op, SY_OP_END_OK);
	assert_int_equal(op.reply.scan_count, 2);
	assert_int_equal(op.reply.scan_cursor, 77);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(op.reply.scan[i].row, entries[i].row);
		assert_int_equal(op.reply.scan[i].nbytes, entries[i].nbytes);
		assert_true(sy_span_equal(op.reply.scan[i].field, entries[i].field));
		assert_int_equal(op.reply.scan[i].shape.rank, entries[i].shape.rank);
		assert_int_equal(op.reply.scan[i].dtype, entries[i].dtype);
	}
	rig_free(rig);
}

static void test_info_and_stats(void **state)
{
	(void)state;
	struct rig *rig = rig_new_ready();
	struct sy_machine_op info = {0}, stats = {0};
	rig_start(rig, &info, SY_OP_KIND_INFO, RIG_S);
	struct sy_reply reply = rig_reply(rig, rig_last(rig));
	reply.unit_state = SY_UNIT_DRAINING;
	deliver_and_wipe(rig, &reply, SY_OP_INFO);
	rig_expect(rig, 1, &info, SY_OP_END_OK);
	assert_int_equal(info.reply.unit_state, SY_UNIT_DRAINING);
	rig_start(rig, &stats, SY_OP_KIND_STATS, RIG_S);
	reply = rig_reply(rig, rig_last(rig));
	reply.stats.capacity_bytes = 1000;
	reply.stats.bytes.free = 400;
	reply.stats.rows = 12;
	deliver_and_wipe(rig, &reply, SY_OP_STATS);
	rig_expect(rig, 2, &stats, SY_OP_END_OK);
	assert_int_equal(stats.reply.stats.capacity_bytes, 1000);
	assert_int_equal(stats.reply.stats.bytes.free, 400);
	assert_int_equal(stats.reply.stats.rows, 12);
	rig_free(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_resolve),
		cmocka_unit_test(test_a_full_product_and_a_list_of_keys),
		cmocka_unit_test(test_a_pin_check),
		cmocka_unit_test(test_a_scan),
		cmocka_unit_test(test_info_and_stats),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
