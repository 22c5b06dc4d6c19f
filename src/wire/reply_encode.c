#include "message.h"

#include "wire_parts.h"

static void write_hello(struct sy_buf *buf, const struct sy_hello_result *hello)
{
	sy_mp_write_array(buf, SY_HELLO_RESULT_COUNT);
	sy_mp_write_uint(buf, hello->session);
	sy_mp_write_uint(buf, hello->incarnation);
	sy_mp_write_uint(buf, hello->slab_bytes);
	sy_mp_write_uint(buf, hello->unit_id);
	sy_mp_write_uint(buf, hello->slot_count);
	sy_mp_write_uint(buf, hello->read_pin_ns);
	sy_mp_write_uint(buf, hello->heartbeat_ns);
	sy_mp_write_uint(buf, hello->session_expire_ns);
	sy_mp_write_uint(buf, hello->eager_max_bytes);
	sy_mp_write_uint(buf, hello->inline_max_bytes);
	sy_mp_write_uint(buf, hello->max_keys);
	sy_mp_write_uint(buf, hello->max_entries);
	sy_mp_write_uint(buf, hello->max_message_bytes);
	sy_mp_write_uint(buf, hello->transports);
	sy_mp_write_text(buf, hello->ucx_address);
	sy_mp_write_uint(buf, hello->grant_max_bytes);
}

static void write_answer(struct sy_buf *buf, const struct sy_outcome *outcome)
{
	bool region = outcome->answer == SY_ANSWER_REGION || outcome->generation != 0;
	sy_mp_write_array(buf, region ? 3 : 1);
	sy_mp_write_uint(buf, outcome->answer);
	if (region) {
		sy_mp_write_uint(buf, outcome->offset);
		sy_mp_write_uint(buf, outcome->generation);
	}
}

static void write_scan(struct sy_buf *buf, const struct sy_reply *reply)
{
	sy_mp_write_array(buf, 2);
	sy_mp_write_uint(buf, reply->scan_cursor);
	sy_mp_write_array(buf, reply->scan_count);
	for (uint32_t i = 0; i < reply->scan_count; i++) {
		const struct sy_scan_entry *entry = &reply->scan[i];
		uint8_t shape[SY_SHAPE_MAX_BYTES];
		sy_mp_write_array(buf, SY_SCAN_ENTRY_COUNT);
		sy_mp_write_uint(buf, entry->row);
		sy_mp_write_str(buf, entry->field.data, entry->field.bytes);
		sy_mp_write_uint(buf, entry->dtype);
		sy_mp_write_uint(buf, entry->kind);
		sy_mp_write_uint(buf, entry->nbytes);
		sy_mp_write_uint(buf, entry->dim0);
		sy_mp_write_bin(buf, shape, sy_shape_store(shape, &entry->shape));
	}
}

static void write_number(struct sy_buf *buf, const char *name, uint64_t value)
{
	sy_mp_write_text(buf, name);
	sy_mp_write_uint(buf, value);
}

static void write_stats(struct sy_buf *buf, const struct sy_unit_stats *stats)
{
#define ONE(field, text) +1
	sy_mp_write_map(buf, 2 SY_BYTES_LIST(ONE) SY_COUNTS_LIST(ONE));
#undef ONE
	write_number(buf, "state", (uint64_t)stats->state);
	write_number(buf, "capacity_bytes", stats->capacity_bytes);
#define WRITE_BYTES(field, text) write_number(buf, "bytes." text, stats->bytes.field);
	SY_BYTES_LIST(WRITE_BYTES)
#undef WRITE_BYTES
#define WRITE_COUNT(field, text) write_number(buf, text, stats->field);
	SY_COUNTS_LIST(WRITE_COUNT)
#undef WRITE_COUNT
}

static void write_result(struct sy_buf *buf, const struct sy_reply *reply, enum sy_op op)
{
	switch (op) {
	case SY_OP_HELLO:
		write_hello(buf, &reply->hello);
		break;
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
		write_answer(buf, &reply->outcome);
		break;
	case SY_OP_RESOLVE_KEYS:
		sy_resolved_write(buf, reply);
		break;
	case SY_OP_RELEASE_ROWS:
		sy_mp_write_array(buf, 1);
		sy_mp_write_uint(buf, reply->outcome.count);
		break;
	case SY_OP_PIN_CHECK:
		sy_mp_write_array(buf, 1);
		sy_mp_write_bin(buf, reply->held, reply->held_count);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
		sy_mp_write_array(buf, 1);
		sy_mp_write_uint(buf, (uint64_t)reply->unit_state);
		break;
	case SY_OP_SCAN:
		write_scan(buf, reply);
		break;
	case SY_OP_STATS:
		write_stats(buf, &reply->stats);
		break;
	}
}

/* For people and for clients of another version; ours go by the numbers beside it. */
static const char *error_text(const struct sy_outcome *outcome)
{
	switch ((enum sy_fault)outcome->fault) {
	case SY_FAULT_UNIT_FULL:
		return "no room on the unit";
	case SY_FAULT_BUSY:
		return "the unit is temporarily unable";
	case SY_FAULT_MISSING:
		return "the unit has no such blob of that generation";
	case SY_FAULT_NO_SESSION:
		return "the unit has no such session";
	case SY_FAULT_PROTOCOL:
		return sy_why_text(outcome->why);
	case SY_FAULT_NONE:
		break;
	}
	return "";
}

static void write_error(struct sy_buf *buf, const struct sy_outcome *outcome)
{
	bool full = outcome->fault == SY_FAULT_UNIT_FULL;
	bool busy = outcome->fault == SY_FAULT_BUSY;
	bool protocol = outcome->fault == SY_FAULT_PROTOCOL;
	sy_mp_write_map(buf, full ? 6 : busy || protocol ? 3 : 2);
	sy_mp_write_text(buf, "kind");
	sy_mp_write_text(buf, sy_fault_name(outcome->fault));
	sy_mp_write_text(buf, "msg");
	sy_mp_write_text(buf, error_text(outcome));
	if (busy) {
		sy_mp_write_text(buf, "reason");
		sy_mp_write_text(buf, sy_busy_name(outcome->busy));
	} else if (protocol) {
		write_number(buf, "why", outcome->why);
	} else if (full) {
		sy_mp_write_text(buf, "resource");
		sy_mp_write_text(buf, sy_resource_name(outcome->resource));
		write_number(buf, "need", outcome->need);
		write_number(buf, "free", outcome->free);
		write_number(buf, "hole", outcome->hole);
	}
}

void sy_reply_encode(const struct sy_reply *reply, enum sy_op op, struct sy_buf *buf)
{
	size_t start = buf->bytes;
	uint8_t id[SY_REQUEST_ID_BYTES];
	bool ok = reply->outcome.fault == SY_FAULT_NONE;
	sy_request_id_store(id, reply->id);
	sy_mp_write_array(buf, 5);
	sy_mp_write_bin(buf, id, sizeof id);
	sy_mp_write_bool(buf, ok);
	if (ok)
		write_result(buf, reply, op);
	else
		write_error(buf, &reply->outcome);
	sy_mp_write_uint(buf, reply->notices_done);
	sy_mp_write_uint(buf, reply->unit_now_ns);
	if (buf->bytes - start > SY_MESSAGE_MAX_BYTES)
		buf->failed = true;
}
