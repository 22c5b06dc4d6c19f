#include "harness.h"

#include <string.h>

#include "dir_message.h"
#include "mp_writer.h"
#include "prng.h"

static struct sy_unit_info unit_example(uint32_t unit_id)
{
	struct sy_unit_info unit = {
		.unit_id = unit_id,
		.state = SY_UNIT_DRAINING,
		.draining = true,
		.starts = 3,
		.incarnation = 0xfedcba9876543210u,
		.turn = 7,
		.epoch = 1u << 20,
		.boot_id = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		.pid = 4194303,
		.start_time = 123456789,
		.slab_bytes = (uint64_t)1 << 40,
	};
	snprintf(unit.ipc_address, sizeof unit.ipc_address, "ipc:///run/slab/unit-%u.ipc", unit_id);
	snprintf(unit.tcp_address, sizeof unit.tcp_address, "tcp://127.0.0.1:%u", 40000 + unit_id);
	snprintf(unit.local_path, sizeof unit.local_path, "/run/slabyard/\xc3\xa9-%u.sock", unit_id);
	return unit;
}

/* Field by field: padding is not ours. */
static void assert_units_equal(const struct sy_unit_info *a, const struct sy_unit_info *b)
{
	assert_int_equal(a->unit_id, b->unit_id);
	assert_int_equal(a->state, b->state);
	assert_int_equal(a->draining, b->draining);
	assert_int_equal(a->starts, b->starts);
	assert_int_equal(a->incarnation, b->incarnation);
	assert_int_equal(a->turn, b->turn);
	assert_int_equal(a->epoch, b->epoch);
	assert_memory_equal(a->boot_id, b->boot_id, sizeof a->boot_id);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->start_time, b->start_time);
	assert_int_equal(a->slab_bytes, b->slab_bytes);
	assert_string_equal(a->ipc_address, b->ipc_address);
	assert_string_equal(a->tcp_address, b->tcp_address);
	assert_string_equal(a->local_path, b->local_path);
}

static void test_every_request_comes_back_as_it_went(void **state)
{
	(void)state;
	for (int op = SY_DIR_OP_REGISTER; op <= SY_DIR_OP_STATS; op++) {
		struct sy_dir_request sent = {
			.op = (enum sy_dir_op)op,
			.request_id = UINT64_MAX - (uint64_t)op,
			.unit = unit_example(3),
			.min_epoch = 99,
		};
		struct sy_buf buf = {0};
		sy_dir_request_encode(&sent, &buf);
		assert_false(buf.failed);
		struct sy_dir_request got;
		uint64_t id = 0;
		sy_error err = {0};
		assert_int_equal(sy_dir_request_decode(buf.data, buf.bytes, &got, &id, &err), SY_OK);
		assert_int_equal(got.op, op);
		assert_int_equal(got.request_id, sent.request_id);
		assert_int_equal(id, sent.request_id);
		if (op == SY_DIR_OP_REGISTER)
			assert_units_equal(&got.unit, &sent.unit);
		if (op == SY_DIR_OP_RENEW || op == SY_DIR_OP_EXITED || op == SY_DIR_OP_SET_STATE) {
			assert_int_equal(got.unit.unit_id, 3);
			assert_int_equal(got.unit.incarnation, sent.unit.incarnation);
		}
		if (op == SY_DIR_OP_SET_STATE)
			assert_int_equal(got.unit.state, SY_UNIT_DRAINING);
		if (op == SY_DIR_OP_UNITS)
			assert_int_equal(got.min_epoch, 99);
		sy_buf_free(&buf);
	}
}

static void test_every_reply_comes_back_as_it_went(void **state)
{
	(void)state;
	struct sy_unit_info units[2] = {unit_example(0), unit_example(4)};
	for (int op = SY_DIR_OP_REGISTER; op <= SY_DIR_OP_STATS; op++) {
		struct sy_dir_reply sent = {
			.request_id = 5, .epoch = 11, .slot_count = 5, .units = units, .unit_count = 2,
			.unit_state = SY_UNIT_DRAINING, .times = {5, 45, 60},
			.stats = {.requests = 1, .refused = 2, .malformed = 3, .store_failures = 9},
		};
		struct sy_buf buf = {0};
		sy_dir_reply_encode(&sent, (enum sy_dir_op)op, &buf);
		struct sy_dir_reply got;
		struct sy_unit_info got_units[5];
		uint64_t id = 0;
		assert_int_equal(sy_dir_reply_peek(buf.data, buf.bytes, &id, NULL), SY_OK);
		assert_int_equal(id, 5);
		assert_int_equal(sy_dir_reply_decode(buf.data, buf.bytes, (enum sy_dir_op)op, got_units,
		                                     5, &got, NULL),
		                 SY_OK);
		assert_int_equal(got.fault, SY_DIR_FAULT_NONE);
		assert_int_equal(got.epoch, 11);
		if (op == SY_DIR_OP_UNITS) {
			assert_int_equal(got.slot_count, 5);
			assert_int_equal(got.unit_count, 2);
			assert_units_equal(&got.units[0], &units[0]);
			assert_units_equal(&got.units[1], &units[1]);
			assert_int_equal(got.times.suspect_after_ns, 5);
			assert_int_equal(got.times.fence_after_ns, 45);
			assert_int_equal(got.times.dead_after_ns, 60);
		}
		if (op == SY_DIR_OP_RENEW)
			assert_int_equal(got.unit_state, SY_UNIT_DRAINING);
		if (op == SY_DIR_OP_STATS) {
			assert_int_equal(got.stats.requests, 1);
			assert_int_equal(got.stats.malformed, 3);
			assert_int_equal(got.stats.store_failures, 9);
		}
		sy_buf_free(&buf);
	}
}

/* A client or a unit that went by such times would say lost too early, or fence too late. */
static void test_times_that_do_not_rise_are_refused(void **state)
{
	(void)state;
	static const struct {
		struct sy_dir_times times;
		bool ok;
	} cases[] = {
		{{0, 0, 0}, true},    {{1, 2, 3}, true},  {{5, 45, 45}, false}, {{5, 60, 45}, false},
		{{45, 45, 60}, false}, {{0, 45, 60}, false}, {{0, 0, 60}, false},  {{5, 45, 0}, false},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct sy_dir_reply sent = {.slot_count = 1, .times = cases[i].times}, got;
		struct sy_unit_info room[1];
		struct sy_buf buf = {0};
		sy_dir_reply_encode(&sent, SY_DIR_OP_UNITS, &buf);
		sy_status status =
			sy_dir_reply_decode(buf.data, buf.bytes, SY_DIR_OP_UNITS, room, 1, &got, NULL);
		assert_int_equal(status, cases[i].ok ? SY_OK : SY_E_PROTOCOL);
		assert_int_equal(sy_dir_times_fault(&cases[i].times) == NULL, cases[i].ok);
		assert_int_equal(sy_dir_times_lease(&cases[i].times), i != 0);
		sy_buf_free(&buf);
	}
}

static void test_a_refusal_carries_its_reason(void **state)
{
	(void)state;
	struct sy_dir_reply sent = {.request_id = 1, .fault = SY_DIR_FAULT_HELD, .text = "pid 12"};
	struct sy_buf buf = {0};
	sy_dir_reply_encode(&sent, SY_DIR_OP_REGISTER, &buf);
	struct sy_dir_reply got;
	assert_int_equal(
		sy_dir_reply_decode(buf.data, buf.bytes, SY_DIR_OP_REGISTER, NULL, 0, &got, NULL), SY_OK);
	assert_int_equal(got.fault, SY_DIR_FAULT_HELD);
	assert_string_equal(got.text, "pid 12");
	sy_buf_free(&buf);
}

static void test_addresses_are_checked(void **state)
{
	(void)state;
	char text[SY_UNIT_ADDRESS_BYTES];
	assert_null(sy_unit_address_fault(""));
	assert_null(sy_unit_address_fault("ipc:///run/\xc3\xa9"));
	assert_non_null(sy_unit_address_fault("ipc://a\nb"));
	assert_non_null(sy_unit_address_fault("ipc://\xff"));
	memset(text, 'a', sizeof text);
	assert_string_equal(sy_unit_address_fault(text), "the address is too long");
	text[sizeof text - 1] = '\0';
	assert_null(sy_unit_address_fault(text));
}

/* A register whose last text is given: what the wire may hold and a struct may not. */
static sy_status register_with(const void *text, size_t bytes, sy_error *err)
{
	struct sy_dir_request sent = {.op = SY_DIR_OP_REGISTER, .request_id = 1};
	struct sy_buf buf = {0};
	sy_dir_request_encode(&sent, &buf);
	buf.bytes--; /* the empty text that local_path is */
	sy_mp_write_str(&buf, text, bytes);
	struct sy_dir_request got;
	uint64_t id;
	sy_status status = sy_dir_request_decode(buf.data, buf.bytes, &got, &id, err);
	sy_buf_free(&buf);
	return status;
}

static void test_hostile_texts_are_refused(void **state)
{
	(void)state;
	char text[SY_UNIT_ADDRESS_BYTES];
	memset(text, 'a', sizeof text);
	sy_error err = {0};
	assert_int_equal(register_with(text, sizeof text - 1, &err), SY_OK);
	assert_int_equal(register_with(text, sizeof text, &err), SY_E_PROTOCOL);
	assert_int_equal(register_with("a\0b", 3, &err), SY_E_PROTOCOL);
	assert_int_equal(register_with("a\x1b[2J", 5, &err), SY_E_PROTOCOL);
	assert_int_equal(register_with("\xed\xa0\x80", 3, &err), SY_E_PROTOCOL);
}

static void test_lists_are_bounded(void **state)
{
	(void)state;
	struct sy_unit_info units[3] = {unit_example(0), unit_example(1), unit_example(2)};
	struct sy_dir_reply sent = {
		.request_id = 1, .epoch = 1, .slot_count = 3, .units = units, .unit_count = 3};
	struct sy_buf buf = {0};
	sy_dir_reply_encode(&sent, SY_DIR_OP_UNITS, &buf);
	struct sy_unit_info room[3];
	struct sy_dir_reply got;
	sy_error err = {0};
	assert_int_equal(
		sy_dir_reply_decode(buf.data, buf.bytes, SY_DIR_OP_UNITS, room, 2, &got, &err),
		SY_E_PROTOCOL);
	assert_int_equal(
		sy_dir_reply_decode(buf.data, buf.bytes, SY_DIR_OP_UNITS, room, 3, &got, &err), SY_OK);
	/* A unit whose number is not below N. */
	units[2].unit_id = 3;
	sy_buf_reset(&buf);
	sy_dir_reply_encode(&sent, SY_DIR_OP_UNITS, &buf);
	assert_int_equal(
		sy_dir_reply_decode(buf.data, buf.bytes, SY_DIR_OP_UNITS, room, 3, &got, &err),
		SY_E_PROTOCOL);
	/* N out of range. */
	sent.unit_count = 0;
	for (int over = 0; over < 2; over++) {
		sent.slot_count = over ? SY_UNITS_MAX + 1 : 0;
		sy_buf_reset(&buf);
		sy_dir_reply_encode(&sent, SY_DIR_OP_UNITS, &buf);
		assert_int_equal(
			sy_dir_reply_decode(buf.data, buf.bytes, SY_DIR_OP_UNITS, room, 3, &got, &err),
			SY_E_PROTOCOL);
	}
	sy_buf_free(&buf);
}

static void test_the_largest_list_fits_a_reply(void **state)
{
	(void)state;
	struct sy_unit_info *units = calloc(SY_UNITS_MAX, sizeof *units);
	assert_non_null(units);
	for (uint32_t i = 0; i < SY_UNITS_MAX; i++) {
		units[i] = unit_example(i);
		memset(units[i].ipc_address, 'i', SY_UNIT_ADDRESS_BYTES - 1);
		memset(units[i].tcp_address, 't', SY_UNIT_ADDRESS_BYTES - 1);
		memset(units[i].local_path, 'l', SY_UNIT_ADDRESS_BYTES - 1);
		units[i].turn = units[i].epoch = units[i].start_time = UINT64_MAX;
	}
	struct sy_dir_reply sent = {.request_id = UINT64_MAX, .epoch = UINT64_MAX,
	                            .slot_count = SY_UNITS_MAX, .units = units,
	                            .unit_count = SY_UNITS_MAX};
	struct sy_buf buf = {0};
	sy_dir_reply_encode(&sent, SY_DIR_OP_UNITS, &buf);
	assert_false(buf.failed);
	assert_true(buf.bytes <= SY_DIR_REPLY_MAX_BYTES);
	struct sy_buf request = {0};
	struct sy_dir_request reg = {.op = SY_DIR_OP_REGISTER, .unit = units[0]};
	sy_dir_request_encode(&reg, &request);
	assert_true(request.bytes <= SY_DIR_REQUEST_MAX_BYTES);
	sy_buf_free(&buf);
	sy_buf_free(&request);
	free(units);
}

/* Cut at every length and changed at random, a message is a typed error or a whole message. */
static void test_damaged_messages_do_no_harm(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	struct sy_unit_info units[2] = {unit_example(0), unit_example(1)};
	struct sy_dir_request request = {.op = SY_DIR_OP_REGISTER, .request_id = 1, .unit = units[0]};
	struct sy_dir_reply reply = {
		.request_id = 1, .epoch = 2, .slot_count = 2, .units = units, .unit_count = 2};
	struct sy_buf buf = {0};
	for (uint32_t round = 0; round < 2000; round++) {
		sy_buf_reset(&buf);
		if (round % 2 == 0)
			sy_dir_request_encode(&request, &buf);
		else
			sy_dir_reply_encode(&reply, SY_DIR_OP_UNITS, &buf);
		size_t bytes = sy_prng_next(&prng) % (buf.bytes + 1);
		if (round % 4 >= 2) {
			bytes = buf.bytes;
			for (uint32_t i = 0; i < 3; i++)
				buf.data[sy_prng_next(&prng) % bytes] = (uint8_t)sy_prng_next(&prng);
		}
		/* In memory of exactly that length, so that a sanitizer sees a step past its end. */
		uint8_t *copy = malloc(bytes + 1);
		assert_non_null(copy);
		uint8_t *at = copy + 1;
		memcpy(at, buf.data, bytes);
		struct sy_dir_request got_request;
		struct sy_dir_reply got_reply;
		struct sy_unit_info room[2];
		uint64_t id = 0;
		sy_error err = {0};
		sy_status status = sy_dir_request_decode(at, bytes, &got_request, &id, &err);
		assert_true(status == SY_OK || (status == SY_E_PROTOCOL && err.message[0] != '\0'));
		status = sy_dir_reply_decode(at, bytes, SY_DIR_OP_UNITS, room, 2, &got_reply, &err);
		assert_true(status == SY_OK || status == SY_E_PROTOCOL);
		if (status == SY_OK && got_reply.unit_count > 0)
			assert_null(sy_unit_address_fault(room[0].local_path));
		if (bytes < buf.bytes)
			assert_int_not_equal(sy_dir_request_decode(at, bytes, &got_request, &id, &err),
			                     SY_OK);
		free(copy);
	}
	sy_buf_free(&buf);
}

static void test_more_than_the_message_is_refused(void **state)
{
	(void)state;
	for (int op = SY_DIR_OP_REGISTER; op <= SY_DIR_OP_STATS; op++) {
		struct sy_dir_request request = {.op = (enum sy_dir_op)op, .request_id = 1};
		struct sy_dir_reply reply = {.request_id = 1, .slot_count = 1};
		struct sy_buf buf = {0};
		struct sy_unit_info room[1];
		uint64_t id;
		sy_dir_request_encode(&request, &buf);
		sy_mp_write_nil(&buf);
		assert_int_equal(sy_dir_request_decode(buf.data, buf.bytes, &request, &id, NULL),
		                 SY_E_PROTOCOL);
		sy_buf_reset(&buf);
		sy_dir_reply_encode(&reply, (enum sy_dir_op)op, &buf);
		sy_mp_write_nil(&buf);
		assert_int_equal(sy_dir_reply_decode(buf.data, buf.bytes, (enum sy_dir_op)op, room, 1,
		                                     &reply, NULL),
		                 SY_E_PROTOCOL);
		sy_buf_free(&buf);
	}
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(sy_dir_op_name(SY_DIR_OP_REGISTER), "register");
	assert_string_equal(sy_dir_op_name(SY_DIR_OP_STATS), "stats");
	assert_string_equal(sy_dir_op_name(0), "unknown");
	assert_string_equal(sy_dir_op_name(255), "unknown");
	assert_string_equal(sy_dir_fault_text(SY_DIR_FAULT_BURIED), "this incarnation is dead");
	assert_string_equal(sy_dir_fault_text(200), "unknown fault");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_request_comes_back_as_it_went),
		cmocka_unit_test(test_every_reply_comes_back_as_it_went),
		cmocka_unit_test(test_times_that_do_not_rise_are_refused),
		cmocka_unit_test(test_a_refusal_carries_its_reason),
		cmocka_unit_test(test_addresses_are_checked),
		cmocka_unit_test(test_hostile_texts_are_refused),
		cmocka_unit_test(test_lists_are_bounded),
		cmocka_unit_test(test_the_largest_list_fits_a_reply),
		cmocka_unit_test(test_damaged_messages_do_no_harm),
		cmocka_unit_test(test_more_than_the_message_is_refused),
		cmocka_unit_test(test_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
