#include "dir_message.h"
#include "fail.h"
#include "mp_reader.h"
#include "mp_writer.h"
#include "utf8.h"

enum { UNIT_ITEMS = 14, TIMES_ITEMS = 3, BOOT_ID_BYTES = 16 };

const char *sy_dir_fault_text(uint8_t fault)
{
	switch (fault) {
#define FAULT_TEXT(name, value, text) \
	case value: \
		return text;
		SY_DIR_FAULT_LIST(FAULT_TEXT)
#undef FAULT_TEXT
	default:
		return "unknown fault";
	}
}

const char *sy_dir_op_name(uint8_t op)
{
	static const char *const names[] = {
		"unknown",
#define OP_NAME(name, value, text) [value] = text,
		SY_DIR_OP_LIST(OP_NAME)
#undef OP_NAME
	};
	return op < sizeof names / sizeof names[0] ? names[op] : names[0];
}

bool sy_dir_times_lease(const struct sy_dir_times *times)
{
	return times->suspect_after_ns != 0 || times->fence_after_ns != 0 || times->dead_after_ns != 0;
}

const char *sy_dir_times_fault(const struct sy_dir_times *times)
{
	if (!sy_dir_times_lease(times))
		return NULL;
	bool rise = times->suspect_after_ns != 0 && times->suspect_after_ns < times->fence_after_ns &&
	            times->fence_after_ns < times->dead_after_ns;
	return rise ? NULL : "suspect_after, fence_after and dead_after must be over 0 and rise";
}

/* Addresses are shown on terminals and stand in messages, so control characters are out. */
static const char *text_fault(const char *text, size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		size_t step = sy_utf8_bytes(text + at, bytes - at);
		if (step == 0)
			return "the address is no valid UTF-8";
		if (step == 1 && ((uint8_t)text[at] < 0x20 || (uint8_t)text[at] == 0x7f))
			return "the address holds a control character";
		at += step;
	}
	return NULL;
}

const char *sy_unit_address_fault(const char *text)
{
	const char *end = memchr(text, '\0', SY_UNIT_ADDRESS_BYTES);
	return end == NULL ? "the address is too long" : text_fault(text, (size_t)(end - text));
}

static void unit_encode(const struct sy_unit_info *unit, struct sy_buf *buf)
{
	sy_mp_write_array(buf, UNIT_ITEMS);
	sy_mp_write_uint(buf, unit->unit_id);
	sy_mp_write_uint(buf, (uint64_t)unit->state);
	sy_mp_write_bool(buf, unit->draining);
	sy_mp_write_uint(buf, unit->starts);
	sy_mp_write_uint(buf, unit->incarnation);
	sy_mp_write_uint(buf, unit->turn);
	sy_mp_write_uint(buf, unit->epoch);
	sy_mp_write_bin(buf, unit->boot_id, BOOT_ID_BYTES);
	sy_mp_write_uint(buf, unit->pid);
	sy_mp_write_uint(buf, unit->start_time);
	sy_mp_write_uint(buf, unit->slab_bytes);
	sy_mp_write_text(buf, unit->ipc_address);
	sy_mp_write_text(buf, unit->tcp_address);
	sy_mp_write_text(buf, unit->local_path);
}

static enum sy_unit_state state_decode(struct sy_mp_reader *reader)
{
	return (enum sy_unit_state)sy_mp_read_uint(reader, SY_UNIT_DEAD);
}

static uint32_t unit_id_decode(struct sy_mp_reader *reader)
{
	return sy_mp_read_u32(reader); /* whether the cluster has it, the registry says */
}

static void text_decode(struct sy_mp_reader *reader, char *out, size_t out_bytes)
{
	struct sy_span text = sy_mp_read_str(reader, out_bytes - 1);
	const char *fault = text_fault((const char *)text.data, text.bytes);
	if (fault == NULL && text.bytes > 0 && memchr(text.data, '\0', text.bytes) != NULL)
		fault = "the address holds a NUL";
	if (fault != NULL) {
		sy_mp_fail(reader, fault);
		return;
	}
	if (text.bytes > 0)
		memcpy(out, text.data, text.bytes);
	out[text.bytes] = '\0';
}

static void unit_decode(struct sy_mp_reader *reader, struct sy_unit_info *ret_unit)
{
	memset(ret_unit, 0, sizeof *ret_unit);
	sy_mp_expect_array(reader, UNIT_ITEMS);
	ret_unit->unit_id = unit_id_decode(reader);
	ret_unit->state = state_decode(reader);
	ret_unit->draining = sy_mp_read_bool(reader);
	ret_unit->starts = sy_mp_read_u32(reader);
	ret_unit->incarnation = sy_mp_read_u64(reader);
	ret_unit->turn = sy_mp_read_u64(reader);
	ret_unit->epoch = sy_mp_read_u64(reader);
	struct sy_span boot_id = sy_mp_read_bin(reader, BOOT_ID_BYTES);
	if (boot_id.bytes == BOOT_ID_BYTES)
		memcpy(ret_unit->boot_id, boot_id.data, BOOT_ID_BYTES);
	else
		sy_mp_fail(reader, "a boot id has 16 bytes");
	ret_unit->pid = sy_mp_read_u32(reader);
	ret_unit->start_time = sy_mp_read_u64(reader);
	ret_unit->slab_bytes = sy_mp_read_u64(reader);
	text_decode(reader, ret_unit->ipc_address, sizeof ret_unit->ipc_address);
	text_decode(reader, ret_unit->tcp_address, sizeof ret_unit->tcp_address);
	text_decode(reader, ret_unit->local_path, sizeof ret_unit->local_path);
}

void sy_dir_request_encode(const struct sy_dir_request *request, struct sy_buf *buf)
{
	sy_mp_write_array(buf, 3);
	sy_mp_write_uint(buf, (uint64_t)request->op);
	sy_mp_write_uint(buf, request->request_id);
	switch (request->op) {
	case SY_DIR_OP_REGISTER:
		unit_encode(&request->unit, buf);
		break;
	case SY_DIR_OP_RENEW:
	case SY_DIR_OP_EXITED:
		sy_mp_write_array(buf, 2);
		sy_mp_write_uint(buf, request->unit.unit_id);
		sy_mp_write_uint(buf, request->unit.incarnation);
		break;
	case SY_DIR_OP_SET_STATE:
		sy_mp_write_array(buf, 3);
		sy_mp_write_uint(buf, request->unit.unit_id);
		sy_mp_write_uint(buf, request->unit.incarnation);
		sy_mp_write_uint(buf, (uint64_t)request->unit.state);
		break;
	case SY_DIR_OP_UNITS:
		sy_mp_write_array(buf, 1);
		sy_mp_write_uint(buf, request->min_epoch);
		break;
	case SY_DIR_OP_EPOCH:
	case SY_DIR_OP_STATS:
		sy_mp_write_array(buf, 0);
		break;
	}
}

static void args_decode(struct sy_mp_reader *reader, struct sy_dir_request *request)
{
	switch (request->op) {
	case SY_DIR_OP_REGISTER:
		unit_decode(reader, &request->unit);
		break;
	case SY_DIR_OP_RENEW:
	case SY_DIR_OP_EXITED:
		sy_mp_expect_array(reader, 2);
		request->unit.unit_id = unit_id_decode(reader);
		request->unit.incarnation = sy_mp_read_u64(reader);
		break;
	case SY_DIR_OP_SET_STATE:
		sy_mp_expect_array(reader, 3);
		request->unit.unit_id = unit_id_decode(reader);
		request->unit.incarnation = sy_mp_read_u64(reader);
		request->unit.state = state_decode(reader);
		break;
	case SY_DIR_OP_UNITS:
		sy_mp_expect_array(reader, 1);
		request->min_epoch = sy_mp_read_u64(reader);
		break;
	case SY_DIR_OP_EPOCH:
	case SY_DIR_OP_STATS:
		sy_mp_expect_array(reader, 0);
		break;
	default:
		sy_mp_fail(reader, "no such operation");
		break;
	}
	sy_mp_expect_end(reader);
}

sy_status sy_dir_request_decode(const void *message, size_t bytes,
                                struct sy_dir_request *ret_request, uint64_t *ret_request_id,
                                sy_error *err)
{
	struct sy_mp_reader reader = sy_mp_reader_init(message, bytes);
	struct sy_dir_request request = {0};
	if (bytes > SY_DIR_REQUEST_MAX_BYTES)
		sy_mp_fail(&reader, "the request is over the limit");
	sy_mp_expect_array(&reader, 3);
	request.op = (enum sy_dir_op)sy_mp_read_u8(&reader);
	request.request_id = sy_mp_read_u64(&reader);
	*ret_request_id = request.request_id;
	args_decode(&reader, &request);
	if (reader.fault != NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "no request to a directory: %s",
		               reader.fault);
	*ret_request = request;
	return SY_OK;
}

static uint32_t result_items(enum sy_dir_op op)
{
	return op == SY_DIR_OP_UNITS ? 4 : op == SY_DIR_OP_STATS ? 3 : op == SY_DIR_OP_RENEW ? 2 : 1;
}

static void times_encode(const struct sy_dir_times *times, struct sy_buf *buf)
{
	sy_mp_write_array(buf, TIMES_ITEMS);
	sy_mp_write_uint(buf, times->suspect_after_ns);
	sy_mp_write_uint(buf, times->fence_after_ns);
	sy_mp_write_uint(buf, times->dead_after_ns);
}

static void times_decode(struct sy_mp_reader *reader, struct sy_dir_times *ret_times)
{
	sy_mp_expect_array(reader, TIMES_ITEMS);
	ret_times->suspect_after_ns = sy_mp_read_u64(reader);
	ret_times->fence_after_ns = sy_mp_read_u64(reader);
	ret_times->dead_after_ns = sy_mp_read_u64(reader);
	const char *fault = sy_dir_times_fault(ret_times);
	if (reader->fault == NULL && fault != NULL)
		sy_mp_fail(reader, fault);
}

void sy_dir_reply_encode(const struct sy_dir_reply *reply, enum sy_dir_op op, struct sy_buf *buf)
{
	bool ok = reply->fault == SY_DIR_FAULT_NONE;
	sy_mp_write_array(buf, 3);
	sy_mp_write_uint(buf, reply->request_id);
	sy_mp_write_bool(buf, ok);
	if (!ok) {
		sy_mp_write_array(buf, 2);
		sy_mp_write_uint(buf, (uint64_t)reply->fault);
		sy_mp_write_text(buf, reply->text);
		return;
	}
	bool is_list = op == SY_DIR_OP_UNITS || op == SY_DIR_OP_STATS;
	sy_mp_write_array(buf, result_items(op));
	sy_mp_write_uint(buf, reply->epoch);
	if (op == SY_DIR_OP_RENEW)
		sy_mp_write_uint(buf, (uint64_t)reply->unit_state);
	if (is_list)
		sy_mp_write_uint(buf, reply->slot_count);
	if (op == SY_DIR_OP_UNITS) {
		sy_mp_write_array(buf, reply->unit_count);
		for (uint32_t i = 0; i < reply->unit_count; i++)
			unit_encode(&reply->units[i], buf);
		times_encode(&reply->times, buf);
	}
	if (op == SY_DIR_OP_STATS) {
#define STATS_COUNT(field) + 1
		sy_mp_write_array(buf, 0 SY_DIR_STATS_LIST(STATS_COUNT));
#undef STATS_COUNT
#define STATS_WRITE(field) sy_mp_write_uint(buf, reply->stats.field);
		SY_DIR_STATS_LIST(STATS_WRITE)
#undef STATS_WRITE
	}
}

static void units_decode(struct sy_mp_reader *reader, struct sy_unit_info *units,
                         uint32_t unit_capacity, struct sy_dir_reply *reply)
{
	reply->unit_count = sy_mp_read_array(reader, unit_capacity);
	reply->units = units;
	for (uint32_t i = 0; i < reply->unit_count && reader->fault == NULL; i++) {
		unit_decode(reader, &units[i]);
		if (units[i].unit_id >= reply->slot_count)
			sy_mp_fail(reader, "a unit's number is over the cluster's size");
	}
	times_decode(reader, &reply->times);
}

static void stats_decode(struct sy_mp_reader *reader, struct sy_dir_stats *stats)
{
#define STATS_COUNT(field) + 1
	sy_mp_expect_array(reader, 0 SY_DIR_STATS_LIST(STATS_COUNT));
#undef STATS_COUNT
#define STATS_READ(field) stats->field = sy_mp_read_u64(reader);
	SY_DIR_STATS_LIST(STATS_READ)
#undef STATS_READ
}

static void fault_decode(struct sy_mp_reader *reader, struct sy_dir_reply *reply)
{
	sy_mp_expect_array(reader, 2);
	reply->fault = (enum sy_dir_fault)sy_mp_read_u8(reader);
	if (reply->fault == SY_DIR_FAULT_NONE)
		sy_mp_fail(reader, "a refusal without a reason");
	text_decode(reader, reply->text, sizeof reply->text);
}

static void result_decode(struct sy_mp_reader *reader, enum sy_dir_op op,
                          struct sy_unit_info *units, uint32_t unit_capacity,
                          struct sy_dir_reply *reply)
{
	bool is_list = op == SY_DIR_OP_UNITS || op == SY_DIR_OP_STATS;
	sy_mp_expect_array(reader, result_items(op));
	reply->epoch = sy_mp_read_u64(reader);
	if (op == SY_DIR_OP_RENEW)
		reply->unit_state = state_decode(reader);
	if (is_list) {
		reply->slot_count = (uint32_t)sy_mp_read_uint(reader, SY_UNITS_MAX);
		if (reply->slot_count == 0)
			sy_mp_fail(reader, "a cluster of no units");
	}
	if (op == SY_DIR_OP_UNITS)
		units_decode(reader, units, unit_capacity, reply);
	if (op == SY_DIR_OP_STATS)
		stats_decode(reader, &reply->stats);
}

sy_status sy_dir_reply_peek(const void *message, size_t bytes, uint64_t *ret_request_id,
                            sy_error *err)
{
	struct sy_mp_reader reader = sy_mp_reader_init(message, bytes);
	sy_mp_expect_array(&reader, 3);
	uint64_t request_id = sy_mp_read_u64(&reader);
	if (reader.fault != NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "no reply of a directory: %s",
		               reader.fault);
	*ret_request_id = request_id;
	return SY_OK;
}

sy_status sy_dir_reply_decode(const void *message, size_t bytes, enum sy_dir_op op,
                              struct sy_unit_info *units, uint32_t unit_capacity,
                              struct sy_dir_reply *ret_reply, sy_error *err)
{
	struct sy_mp_reader reader = sy_mp_reader_init(message, bytes);
	struct sy_dir_reply reply = {0};
	if (bytes > SY_DIR_REPLY_MAX_BYTES)
		sy_mp_fail(&reader, "the reply is over the limit");
	sy_mp_expect_array(&reader, 3);
	reply.request_id = sy_mp_read_u64(&reader);
	if (sy_mp_read_bool(&reader))
		result_decode(&reader, op, units, unit_capacity, &reply);
	else
		fault_decode(&reader, &reply);
	sy_mp_expect_end(&reader);
	if (reader.fault != NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "no reply of a directory: %s",
		               reader.fault);
	*ret_reply = reply;
	return SY_OK;
}
