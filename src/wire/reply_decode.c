#include "message.h"

#include "fail.h"
#include "key.h"
#include "utf8.h"
#include "wire_parts.h"

enum { NAME_MAX_BYTES = 256, STATS_MAX = 1024, ERROR_PARTS_MAX = 64 };

static bool text_is(struct sy_span text, const char *name)
{
	return text.bytes == strlen(name) && memcmp(text.data, name, text.bytes) == 0;
}

/* What a client divides by, waits for or takes for a name is never 0. */
static void read_hello(struct sy_mp_reader *reader, struct sy_reply *reply)
{
	struct sy_hello_result *hello = &reply->hello;
	sy_mp_expect_array(reader, SY_HELLO_RESULT_COUNT);
	hello->session = sy_mp_read_u64(reader);
	hello->incarnation = sy_mp_read_u64(reader);
	hello->slab_bytes = sy_mp_read_u64(reader);
	hello->unit_id = sy_mp_read_u32(reader);
	hello->slot_count = sy_mp_read_u32(reader);
	hello->read_pin_ns = sy_mp_read_u64(reader);
	hello->heartbeat_ns = sy_mp_read_u64(reader);
	hello->session_expire_ns = sy_mp_read_u64(reader);
	hello->eager_max_bytes = sy_mp_read_u32(reader);
	hello->inline_max_bytes = sy_mp_read_u32(reader);
	hello->max_keys = sy_mp_read_u32(reader);
	hello->max_entries = sy_mp_read_u32(reader);
	hello->max_message_bytes = sy_mp_read_u32(reader);
	hello->transports = sy_mp_read_u32(reader);
	struct sy_span address = sy_mp_read_str(reader, sizeof hello->ucx_address - 1);
	if (reader->fault == NULL && address.bytes > 0)
		memcpy(hello->ucx_address, address.data, address.bytes);
	hello->grant_max_bytes = sy_mp_read_u64(reader);
	if (hello->session == 0 || hello->incarnation == 0 || hello->slot_count == 0 ||
	    hello->read_pin_ns == 0 || hello->heartbeat_ns == 0 || hello->session_expire_ns == 0 ||
	    hello->max_keys == 0 || hello->max_entries == 0 || hello->max_message_bytes == 0)
		sy_mp_fail(reader, "holds a 0 where none may be");
	reply->outcome.count = hello->session;
}

static void read_answer(struct sy_mp_reader *reader, enum sy_op op, struct sy_outcome *outcome)
{
	uint32_t count = sy_mp_read_array(reader, 3);
	outcome->answer = sy_mp_read_u8(reader);
	switch (outcome->answer) {
	case SY_ANSWER_REGION:
		if (op != SY_OP_ALLOC || count != 3)
			break;
		outcome->offset = sy_mp_read_u64(reader);
		outcome->generation = sy_mp_read_u64(reader);
		return;
	case SY_ANSWER_PUBLISHED:
		if (count == 1)
			return;
		if (op != SY_OP_COMMIT || count != 3)
			break;
		outcome->offset = sy_mp_read_u64(reader);
		outcome->generation = sy_mp_read_u64(reader);
		if (outcome->generation == 0)
			break;
		return;
	case SY_ANSWER_PENDING:
		if (count != 1)
			break;
		return;
	default:
		break;
	}
	sy_mp_fail(reader, "holds an answer that is not known");
}

static enum sy_unit_state read_state(struct sy_mp_reader *reader)
{
	return (enum sy_unit_state)sy_mp_read_uint(reader, SY_UNIT_DEAD);
}

static void read_scan_entry(struct sy_mp_reader *reader, struct sy_scan_entry *entry)
{
	sy_mp_expect_array(reader, SY_SCAN_ENTRY_COUNT);
	entry->row = sy_mp_read_u64(reader);
	entry->field = sy_mp_read_str(reader, SY_FIELD_MAX_BYTES);
	entry->dtype = sy_mp_read_u8(reader);
	entry->kind = sy_mp_read_u8(reader);
	entry->nbytes = sy_mp_read_u64(reader);
	entry->dim0 = sy_mp_read_u64(reader);
	struct sy_span shape = sy_mp_read_bin(reader, SY_SHAPE_MAX_BYTES);
	if (!sy_shape_load(&shape, &entry->shape) || shape.bytes > 0)
		sy_mp_fail(reader, "holds a shape that cannot be read");
	if (sy_name_fault(entry->field.data, entry->field.bytes) != NULL)
		sy_mp_fail(reader, "holds a field that is no valid name");
	const char *fault =
		sy_entry_fault(entry->dtype, entry->kind, &entry->shape, entry->nbytes, entry->dim0);
	if (fault != NULL)
		sy_mp_fail(reader, fault);
}

static void read_scan(struct sy_mp_reader *reader, struct sy_scratch *scratch, uint32_t limit,
                      struct sy_reply *reply)
{
	sy_mp_expect_array(reader, 2);
	reply->scan_cursor = sy_mp_read_u64(reader);
	uint32_t max = limit < SY_SCAN_LIMIT_MAX ? limit : SY_SCAN_LIMIT_MAX;
	uint32_t count = sy_mp_read_array(reader, max);
	struct sy_scan_entry *entries = sy_wire_take(reader, scratch, count, sizeof *entries);
	for (uint32_t i = 0; reader->fault == NULL && i < count; i++)
		read_scan_entry(reader, &entries[i]);
	reply->scan = entries;
	reply->scan_count = count;
}

/* Where the number of this name goes; NULL if it is not known. */
static uint64_t *stats_number(struct sy_unit_stats *stats, struct sy_span name)
{
	if (text_is(name, "capacity_bytes"))
		return &stats->capacity_bytes;
#define FIND_BYTES(field, text) \
	if (text_is(name, "bytes." text)) \
		return &stats->bytes.field;
	SY_BYTES_LIST(FIND_BYTES)
#undef FIND_BYTES
#define FIND_COUNT(field, text) \
	if (text_is(name, text)) \
		return &stats->field;
	SY_COUNTS_LIST(FIND_COUNT)
#undef FIND_COUNT
	return NULL;
}

static void read_stats(struct sy_mp_reader *reader, struct sy_reply *reply)
{
	uint32_t pairs = sy_mp_read_map(reader, STATS_MAX);
	for (uint32_t i = 0; reader->fault == NULL && i < pairs; i++) {
		struct sy_span name = sy_mp_read_str(reader, NAME_MAX_BYTES);
		if (text_is(name, "state")) {
			reply->stats.state = read_state(reader);
			continue;
		}
		uint64_t *number = stats_number(&reply->stats, name);
		if (number != NULL)
			*number = sy_mp_read_u64(reader);
		else
			sy_mp_skip(reader);
	}
	reply->unit_state = reply->stats.state;
}

static void read_held(struct sy_mp_reader *reader, uint32_t count, struct sy_reply *reply)
{
	sy_mp_expect_array(reader, 1);
	struct sy_span held = sy_mp_read_bin(reader, count);
	if (held.bytes != count)
		sy_mp_fail(reader, "answers another number of names than asked");
	for (uint32_t i = 0; reader->fault == NULL && i < count; i++) {
		if (held.data[i] > 1)
			sy_mp_fail(reader, "holds something else than held or not");
	}
	reply->held = held.data;
	reply->held_count = count;
}

static void read_result(struct sy_mp_reader *reader, struct sy_scratch *scratch, enum sy_op op,
                        uint32_t key_count, struct sy_reply *reply)
{
	switch (op) {
	case SY_OP_HELLO:
		read_hello(reader, reply);
		break;
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
		read_answer(reader, op, &reply->outcome);
		break;
	case SY_OP_RESOLVE_KEYS:
		sy_resolved_read(reader, scratch, key_count, reply);
		break;
	case SY_OP_RELEASE_ROWS:
		sy_mp_expect_array(reader, 1);
		reply->outcome.count = sy_mp_read_u64(reader);
		break;
	case SY_OP_PIN_CHECK:
		read_held(reader, key_count, reply);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
		sy_mp_expect_array(reader, 1);
		reply->unit_state = read_state(reader);
		break;
	case SY_OP_SCAN:
		read_scan(reader, scratch, key_count, reply);
		break;
	case SY_OP_STATS:
		read_stats(reader, reply);
		break;
	}
}

/* The value that has this name, of `count` values from 0. */
static uint8_t read_named(struct sy_mp_reader *reader, const char *(*name_of)(uint8_t),
                          uint8_t count)
{
	struct sy_span text = sy_mp_read_str(reader, NAME_MAX_BYTES);
	for (uint8_t value = 0; reader->fault == NULL && value < count; value++) {
		if (text_is(text, name_of(value)))
			return value;
	}
	sy_mp_fail(reader, "holds a word that is not known");
	return 0;
}

/* Cut between characters to fit. */
static void read_message(struct sy_mp_reader *reader, char *out, size_t out_bytes)
{
	struct sy_span text = sy_mp_read_str(reader, SY_MESSAGE_MAX_BYTES);
	size_t end = 0;
	while (end < text.bytes) {
		size_t step = sy_utf8_bytes(text.data + end, text.bytes - end);
		step = step == 0 ? 1 : step;
		if (end + step >= out_bytes)
			break;
		end += step;
	}
	if (end > 0)
		memcpy(out, text.data, end);
	out[end] = '\0';
}

#define COUNT_VALUE(name, value, text) +1
enum {
	FAULT_COUNT = 0 SY_FAULT_LIST(COUNT_VALUE),
	BUSY_COUNT = 0 SY_BUSY_LIST(COUNT_VALUE),
	RESOURCE_COUNT = 0 SY_RESOURCE_LIST(COUNT_VALUE),
};
#undef COUNT_VALUE

static void read_error(struct sy_mp_reader *reader, struct sy_reply *reply)
{
	struct sy_outcome *outcome = &reply->outcome;
	uint32_t pairs = sy_mp_read_map(reader, ERROR_PARTS_MAX);
	for (uint32_t i = 0; reader->fault == NULL && i < pairs; i++) {
		struct sy_span name = sy_mp_read_str(reader, NAME_MAX_BYTES);
		if (text_is(name, "kind"))
			outcome->fault = read_named(reader, sy_fault_name, FAULT_COUNT);
		else if (text_is(name, "msg"))
			read_message(reader, reply->reason, sizeof reply->reason);
		else if (text_is(name, "reason"))
			outcome->busy = read_named(reader, sy_busy_name, BUSY_COUNT);
		else if (text_is(name, "why"))
			outcome->why = sy_mp_read_u8(reader);
		else if (text_is(name, "resource"))
			outcome->resource = read_named(reader, sy_resource_name, RESOURCE_COUNT);
		else if (text_is(name, "need"))
			outcome->need = sy_mp_read_u64(reader);
		else if (text_is(name, "free"))
			outcome->free = sy_mp_read_u64(reader);
		else if (text_is(name, "hole"))
			outcome->hole = sy_mp_read_u64(reader);
		else
			sy_mp_skip(reader);
	}
	if (outcome->fault == SY_FAULT_NONE)
		sy_mp_fail(reader, "is an error without a kind");
}

sy_status sy_reply_peek(const void *message, size_t bytes, struct sy_request_id *ret_id,
                        sy_error *err)
{
	struct sy_mp_reader reader = sy_mp_reader_init(message, bytes);
	sy_mp_expect_array(&reader, 5);
	struct sy_request_id id = sy_wire_read_id(&reader);
	if (reader.fault != NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the reply %s", reader.fault);
	*ret_id = id;
	return SY_OK;
}

sy_status sy_reply_decode(const void *message, size_t bytes, enum sy_op op, uint32_t key_count,
                          struct sy_scratch *scratch, struct sy_reply *ret_reply, sy_error *err)
{
	struct sy_mp_reader reader = sy_mp_reader_init(message, bytes);
	struct sy_reply reply;
	memset(&reply, 0, sizeof reply);
	if (bytes > SY_MESSAGE_MAX_BYTES)
		sy_mp_fail(&reader, "is longer than allowed");
	sy_mp_expect_array(&reader, 5);
	reply.id = sy_wire_read_id(&reader);
	reply.outcome.op = (uint8_t)op;
	if (sy_mp_read_bool(&reader))
		read_result(&reader, scratch, op, key_count, &reply);
	else
		read_error(&reader, &reply);
	reply.notices_done = sy_mp_read_u64(&reader);
	reply.unit_now_ns = sy_mp_read_u64(&reader);
	sy_mp_expect_end(&reader);
	if (reader.fault != NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the reply %s", reader.fault);
	*ret_reply = reply;
	return SY_OK;
}
