/* Messages of the directory, both ways: what decodes is encoded again and decodes to the same.
 *
 *   mode u8 | message        mode 0: a request; else a reply to op mode % 8, with room for
 *                            mode / 8 units */
#include "fuzz.h"

#include "dir_message.h"

enum { UNITS_MAX = 255 / 8 };

static void check_text(const char *text)
{
	FUZZ_CHECK(sy_unit_address_fault(text) == NULL);
}

static void check_unit_equal(const struct sy_unit_info *a, const struct sy_unit_info *b)
{
	check_text(a->ipc_address);
	check_text(a->tcp_address);
	check_text(a->local_path);
	assert_int_equal(a->unit_id, b->unit_id);
	assert_int_equal(a->state, b->state);
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

static void try_request(const uint8_t *message, size_t bytes)
{
	static struct sy_buf buf;
	struct sy_dir_request request, again;
	uint64_t id = 1, id_again;
	sy_error err = {.status = SY_OK};
	sy_status status = sy_dir_request_decode(message, bytes, &request, &id, &err);
	FUZZ_CHECK(status == SY_OK || (status == SY_E_PROTOCOL && err.status == status));
	if (status != SY_OK)
		return;
	FUZZ_CHECK(id == request.request_id);
	sy_buf_reset(&buf);
	sy_dir_request_encode(&request, &buf);
	FUZZ_CHECK(!buf.failed);
	uint8_t *copy = fuzz_copy(buf.data, buf.bytes);
	if (sy_dir_request_decode(copy, buf.bytes, &again, &id_again, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	assert_int_equal(request.op, again.op);
	assert_int_equal(request.request_id, again.request_id);
	assert_int_equal(request.min_epoch, again.min_epoch);
	check_unit_equal(&request.unit, &again.unit);
	free(copy);
}

static void check_replies_equal(const struct sy_dir_reply *a, const struct sy_dir_reply *b)
{
	assert_int_equal(a->request_id, b->request_id);
	assert_int_equal(a->fault, b->fault);
	assert_string_equal(a->text, b->text);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->slot_count, b->slot_count);
	assert_int_equal(a->unit_count, b->unit_count);
	for (uint32_t i = 0; i < a->unit_count; i++) {
		FUZZ_CHECK(a->units[i].unit_id < a->slot_count);
		check_unit_equal(&a->units[i], &b->units[i]);
	}
#define SAME(field) assert_int_equal(a->stats.field, b->stats.field);
	SY_DIR_STATS_LIST(SAME)
#undef SAME
}

static void try_reply(const uint8_t *message, size_t bytes, enum sy_dir_op op, uint32_t room)
{
	static struct sy_buf buf;
	struct sy_dir_reply reply, again;
	uint64_t id = 0;
	sy_error err = {.status = SY_OK};
	struct sy_unit_info *units = malloc(room * sizeof *units + 1);
	struct sy_unit_info units_again[UNITS_MAX];
	FUZZ_CHECK(units != NULL);
	bool has_id = sy_dir_reply_peek(message, bytes, &id, &err) == SY_OK;
	sy_status status = sy_dir_reply_decode(message, bytes, op, units, room, &reply, &err);
	FUZZ_CHECK(status == SY_OK || (status == SY_E_PROTOCOL && err.status == status));
	if (status == SY_OK) {
		FUZZ_CHECK(has_id && id == reply.request_id && reply.unit_count <= room);
		sy_buf_reset(&buf);
		sy_dir_reply_encode(&reply, op, &buf);
		FUZZ_CHECK(!buf.failed);
		uint8_t *copy = fuzz_copy(buf.data, buf.bytes);
		if (sy_dir_reply_decode(copy, buf.bytes, op, units_again, UNITS_MAX, &again, &err) !=
		    SY_OK)
			fuzz_fail(__FILE__, __LINE__, err.message);
		check_replies_equal(&reply, &again);
		free(copy);
	}
	free(units);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	uint8_t mode = fuzz_u8(&input);
	size_t left = fuzz_left(&input);
	uint8_t *message = fuzz_copy(input.at, left);
	if (mode % 8 == 0)
		try_request(message, left);
	else
		try_reply(message, left, (enum sy_dir_op)(mode % 8), mode / 8);
	free(message);
	return 0;
}

static struct sy_unit_info sample_unit(uint32_t unit_id)
{
	struct sy_unit_info unit = {
		.unit_id = unit_id, .state = SY_UNIT_ACTIVE, .incarnation = 0xfeedu << unit_id,
		.turn = 3, .epoch = 70000, .pid = 4711, .start_time = 5000000000u,
		.slab_bytes = (uint64_t)1 << 34,
	};
	memset(unit.boot_id, 0xb0, sizeof unit.boot_id);
	snprintf(unit.ipc_address, sizeof unit.ipc_address, "ipc:///run/yard/unit-%u.sock", unit_id);
	snprintf(unit.tcp_address, sizeof unit.tcp_address, "tcp://127.0.0.1:%u", 9000 + unit_id);
	snprintf(unit.local_path, sizeof unit.local_path, "/run/yard/\xc3\xa9-%u", unit_id);
	return unit;
}

static void seed(struct sy_buf *buf, const char *name, uint32_t number)
{
	FUZZ_CHECK(!buf->failed);
	fuzz_seed(name, number, buf->data, buf->bytes);
	sy_buf_reset(buf);
}

void fuzz_corpus(void)
{
	struct sy_buf buf = {0};
	struct sy_unit_info units[3] = {sample_unit(0), sample_unit(1), sample_unit(2)};
	for (uint8_t op = SY_DIR_OP_REGISTER; op <= SY_DIR_OP_STATS; op++) {
		struct sy_dir_request request = {.op = (enum sy_dir_op)op, .request_id = 1000 + op,
		                                 .unit = units[op % 3], .min_epoch = 9};
		struct sy_dir_reply reply = {.request_id = 1000 + op, .epoch = 300, .slot_count = 3,
		                             .units = units, .unit_count = 3, .stats = {.requests = 77}};
		uint8_t mode = 0;
		sy_buf_append(&buf, &mode, 1);
		sy_dir_request_encode(&request, &buf);
		seed(&buf, "request", op);
		mode = (uint8_t)(3 * 8 + op);
		sy_buf_append(&buf, &mode, 1);
		sy_dir_reply_encode(&reply, (enum sy_dir_op)op, &buf);
		seed(&buf, "reply", op);
	}
	struct sy_dir_reply refusal = {.request_id = 7, .fault = SY_DIR_FAULT_TURN};
	snprintf(refusal.text, sizeof refusal.text, "another unit was there first");
	uint8_t mode = SY_DIR_OP_REGISTER;
	sy_buf_append(&buf, &mode, 1);
	sy_dir_reply_encode(&refusal, SY_DIR_OP_REGISTER, &buf);
	seed(&buf, "refusal", 0);
	sy_buf_free(&buf);
}
