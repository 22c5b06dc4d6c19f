#include "message.h"

#include "fail.h"
#include "key.h"
#include "wire_parts.h"

enum { HELLO_PARTS_MAX = 64 }; /* of a hello of another version */

static void read_16(struct sy_mp_reader *reader, uint8_t out[16])
{
	struct sy_span bytes = sy_mp_read_bin(reader, 16);
	if (bytes.bytes == 16)
		memcpy(out, bytes.data, 16);
	else
		sy_mp_fail(reader, "holds an id of another length");
}

static const uint64_t *read_rows(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                                 uint32_t max, uint32_t *ret_count)
{
	const uint8_t *items = sy_mp_read_items(reader, 8, max, ret_count);
	uint64_t *rows = sy_wire_take(reader, scratch, *ret_count, sizeof *rows);
	if (rows != NULL)
		memcpy(rows, items, 8 * (size_t)*ret_count);
	return rows;
}

static const struct sy_span *read_fields(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                                         uint32_t *ret_count)
{
	uint32_t count = sy_mp_read_array(reader, SY_FIELDS_PER_REQUEST_MAX);
	struct sy_span *fields = sy_wire_take(reader, scratch, count, sizeof *fields);
	for (uint32_t i = 0; reader->fault == NULL && i < count; i++) {
		fields[i] = sy_mp_read_str(reader, SY_FIELD_MAX_BYTES);
		if (sy_name_fault(fields[i].data, fields[i].bytes) != NULL)
			sy_mp_fail(reader, "holds a field that is no valid name");
	}
	*ret_count = count;
	return fields;
}

/* The namespace is judged by the unit, which has a word of its own for a bad one. */
static void read_hello(struct sy_mp_reader *reader, struct sy_hello_args *args)
{
	uint32_t count = sy_mp_read_array(reader, HELLO_PARTS_MAX);
	args->version = sy_mp_read_u32(reader);
	if (reader->fault == NULL && args->version != SY_PROTOCOL_VERSION) {
		for (uint32_t i = 1; reader->fault == NULL && i < count; i++)
			sy_mp_skip(reader);
		return;
	}
	if (count != SY_HELLO_ARGS_COUNT)
		sy_mp_fail(reader, "has another number of items than it must");
	args->slot_count = sy_mp_read_u32(reader);
	args->ns = sy_mp_read_str(reader, SY_FIELD_MAX_BYTES);
	read_16(reader, args->identity.boot_id);
	args->identity.start_time = sy_mp_read_u64(reader);
	args->identity.random = sy_mp_read_u64(reader);
	args->identity.pid = sy_mp_read_u32(reader);
	args->connection_count = sy_mp_read_u64(reader);
	args->token = sy_mp_read_u64(reader);
}

static void read_alloc(struct sy_mp_reader *reader, struct sy_alloc_args *args)
{
	sy_mp_expect_array(reader, 5);
	read_16(reader, args->blob_id.bytes);
	args->nbytes = sy_mp_read_u64(reader);
	args->entry_count = sy_mp_read_u32(reader);
	args->until_ns = sy_mp_read_u64(reader);
	args->ssd = sy_mp_read_bool(reader);
}

static void read_commit(struct sy_mp_reader *reader, struct sy_commit_args *args)
{
	sy_mp_expect_array(reader, 7);
	read_16(reader, args->blob_id.bytes);
	args->generation = sy_mp_read_u64(reader);
	args->until_ns = sy_mp_read_u64(reader);
	args->next_bytes = sy_mp_read_u64(reader);
	if (!sy_mp_read_nil(reader)) {
		args->grant = sy_wire_read_id(reader);
		if (args->grant.session == 0)
			sy_mp_fail(reader, "names a grant of no session");
	}
	args->nbytes = sy_mp_read_u64(reader);
	args->entry_count = sy_mp_read_u32(reader);
}

static void read_put_inline(struct sy_mp_reader *reader, struct sy_put_inline_args *args)
{
	sy_mp_expect_array(reader, 4);
	args->blob = sy_mp_read_bin(reader, SY_MESSAGE_MAX_BYTES);
	read_16(reader, args->blob_id.bytes);
	args->until_ns = sy_mp_read_u64(reader);
	args->ssd = sy_mp_read_bool(reader);
}

static void read_field_of(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                          struct sy_resolve_args *args)
{
	uint32_t count;
	const uint8_t *items = sy_mp_read_items(reader, 2, args->row_count, &count);
	if (count != args->row_count)
		sy_mp_fail(reader, "has another number of fields than of rows");
	uint16_t *field_of = sy_wire_take(reader, scratch, args->row_count, sizeof *field_of);
	for (uint32_t k = 0; reader->fault == NULL && k < args->row_count; k++) {
		field_of[k] = sy_load_u16(items + 2 * (size_t)k);
		if (field_of[k] >= args->field_count)
			sy_mp_fail(reader, "names a field it does not hold");
	}
	args->field_of = field_of;
}

static void read_resolve(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                         struct sy_resolve_args *args)
{
	sy_mp_expect_array(reader, 4);
	args->fields = read_fields(reader, scratch, &args->field_count);
	args->rows = read_rows(reader, scratch, SY_KEYS_PER_RESOLVE_MAX, &args->row_count);
	if (!sy_mp_read_nil(reader))
		read_field_of(reader, scratch, args);
	else if ((uint64_t)args->row_count * args->field_count > SY_KEYS_PER_RESOLVE_MAX)
		sy_mp_fail(reader, "asks for more keys than allowed");
	args->inline_max_bytes = sy_mp_read_u32(reader);
}

static void read_release(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                         struct sy_release_args *args)
{
	sy_mp_expect_array(reader, 2);
	args->rows = read_rows(reader, scratch, SY_ROWS_PER_RELEASE_MAX, &args->row_count);
	args->all_fields = sy_mp_read_nil(reader);
	if (!args->all_fields)
		args->fields = read_fields(reader, scratch, &args->field_count);
}

static void read_pin_check(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                           struct sy_pin_check_args *args)
{
	sy_mp_expect_array(reader, 1);
	const uint8_t *items = sy_mp_read_items(reader, SY_REQUEST_ID_BYTES,
	                                        SY_NAMES_PER_PIN_CHECK_MAX, &args->count);
	struct sy_request_id *names = sy_wire_take(reader, scratch, args->count, sizeof *names);
	for (uint32_t i = 0; names != NULL && i < args->count; i++)
		names[i] = sy_request_id_load(items + SY_REQUEST_ID_BYTES * (size_t)i);
	args->names = names;
}

static void read_scan(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                      struct sy_scan_args *args)
{
	sy_mp_expect_array(reader, 5);
	args->cursor = sy_mp_read_u64(reader);
	args->first_row = sy_mp_read_u64(reader);
	args->last_row = sy_mp_read_u64(reader);
	args->fields = read_fields(reader, scratch, &args->field_count);
	args->limit = (uint32_t)sy_mp_read_uint(reader, SY_SCAN_LIMIT_MAX);
	if (args->limit == 0)
		sy_mp_fail(reader, "asks for no entries");
}

static void read_args(struct sy_mp_reader *reader, struct sy_scratch *scratch, uint64_t op,
                      struct sy_request *request)
{
	switch (op) {
	case SY_OP_HELLO:
		read_hello(reader, &request->hello);
		break;
	case SY_OP_ALLOC:
		read_alloc(reader, &request->alloc);
		break;
	case SY_OP_COMMIT:
		read_commit(reader, &request->commit);
		break;
	case SY_OP_PUT_INLINE:
		read_put_inline(reader, &request->put_inline);
		break;
	case SY_OP_RESOLVE_KEYS:
		read_resolve(reader, scratch, &request->resolve);
		break;
	case SY_OP_RELEASE_ROWS:
		read_release(reader, scratch, &request->release);
		break;
	case SY_OP_PIN_CHECK:
		read_pin_check(reader, scratch, &request->pin_check);
		break;
	case SY_OP_SCAN:
		read_scan(reader, scratch, &request->scan);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		sy_mp_expect_array(reader, 0);
		break;
	default:
		sy_mp_fail(reader, "names an operation that is not known");
	}
}

static void read_notices(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                         struct sy_request *request)
{
	sy_mp_expect_array(reader, 2);
	request->first_notice = sy_mp_read_u64(reader);
	uint32_t count;
	const uint8_t *at = sy_mp_read_items(reader, SY_NOTICE_BYTES, SY_NOTICES_PER_MESSAGE, &count);
	if (request->first_notice > UINT64_MAX - count)
		sy_mp_fail(reader, "numbers its notices past the last number");
	struct sy_notice *notices = sy_wire_take(reader, scratch, count, sizeof *notices);
	for (uint32_t i = 0; reader->fault == NULL && i < count; i++, at += SY_NOTICE_BYTES) {
		if (at[0] < SY_NOTICE_ABORT || at[0] > SY_NOTICE_DRAINED || at[1] > 1) {
			sy_mp_fail(reader, "holds a notice that is not known");
			break;
		}
		notices[i].kind = (enum sy_notice_kind)at[0];
		notices[i].in_flight = at[1] == 1;
		notices[i].name = sy_request_id_load(at + 2);
	}
	request->notices = notices;
	request->notice_count = count;
}

sy_status sy_request_decode(const void *message, size_t bytes, struct sy_scratch *scratch,
                            struct sy_request *ret_request, struct sy_request_id *ret_id,
                            sy_error *err)
{
	struct sy_mp_reader reader = sy_mp_reader_init(message, bytes);
	struct sy_request request;
	memset(&request, 0, sizeof request);
	sy_mp_expect_array(&reader, 4);
	uint64_t op = sy_mp_read_u64(&reader);
	request.id = sy_wire_read_id(&reader);
	*ret_id = request.id;
	if (bytes > SY_MESSAGE_MAX_BYTES)
		sy_mp_fail(&reader, "is longer than allowed");
	read_args(&reader, scratch, op, &request);
	read_notices(&reader, scratch, &request);
	sy_mp_expect_end(&reader);
	if (reader.fault != NULL)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the request %s", reader.fault);
	request.op = (enum sy_op)op;
	*ret_request = request;
	return SY_OK;
}
