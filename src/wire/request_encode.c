#include "message.h"
#include "wire_parts.h"

/* More than the heads, ids and numbers of any request take. */
enum { FIXED_BYTES = 256, FIELD_HEAD_BYTES = 5 };

static size_t fields_bytes(const struct sy_span *fields, uint32_t count)
{
	size_t bytes = 0;
	for (uint32_t i = 0; i < count; i++)
		bytes += FIELD_HEAD_BYTES + fields[i].bytes;
	return bytes;
}

static size_t args_bytes(const struct sy_request *request)
{
	switch (request->op) {
	case SY_OP_HELLO:
		return request->hello.ns.bytes;
	case SY_OP_PUT_INLINE:
		return request->put_inline.blob.bytes;
	case SY_OP_RESOLVE_KEYS:
		return (request->resolve.field_of != NULL ? 10 : 8) * (size_t)request->resolve.row_count +
		       fields_bytes(request->resolve.fields, request->resolve.field_count);
	case SY_OP_RELEASE_ROWS:
		return 8 * (size_t)request->release.row_count +
		       (request->release.all_fields
		            ? 0
		            : fields_bytes(request->release.fields, request->release.field_count));
	case SY_OP_PIN_CHECK:
		return SY_REQUEST_ID_BYTES * (size_t)request->pin_check.count;
	case SY_OP_SCAN:
		return fields_bytes(request->scan.fields, request->scan.field_count);
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
	return 0;
}

size_t sy_request_bytes(const struct sy_request *request)
{
	return FIXED_BYTES + SY_NOTICE_BYTES * (size_t)request->notice_count + args_bytes(request);
}

static void write_id(struct sy_buf *buf, struct sy_request_id id)
{
	uint8_t bytes[SY_REQUEST_ID_BYTES];
	sy_request_id_store(bytes, id);
	sy_mp_write_bin(buf, bytes, sizeof bytes);
}

static void write_blob_id(struct sy_buf *buf, const sy_blob_id *id)
{
	sy_mp_write_bin(buf, id->bytes, sizeof id->bytes);
}

static void write_fields(struct sy_buf *buf, const struct sy_span *fields, uint32_t count)
{
	sy_mp_write_array(buf, count);
	for (uint32_t i = 0; i < count; i++)
		sy_mp_write_str(buf, fields[i].data, fields[i].bytes);
}

static void write_hello(struct sy_buf *buf, const struct sy_hello_args *args)
{
	sy_mp_write_array(buf, SY_HELLO_ARGS_COUNT);
	sy_mp_write_uint(buf, args->version);
	sy_mp_write_uint(buf, args->slot_count);
	sy_mp_write_str(buf, args->ns.data, args->ns.bytes);
	sy_mp_write_bin(buf, args->identity.boot_id, sizeof args->identity.boot_id);
	sy_mp_write_uint(buf, args->identity.start_time);
	sy_mp_write_uint(buf, args->identity.random);
	sy_mp_write_uint(buf, args->identity.pid);
	sy_mp_write_uint(buf, args->connection_count);
	sy_mp_write_uint(buf, args->token);
}

static void write_alloc(struct sy_buf *buf, const struct sy_alloc_args *args)
{
	sy_mp_write_array(buf, 5);
	write_blob_id(buf, &args->blob_id);
	sy_mp_write_uint(buf, args->nbytes);
	sy_mp_write_uint(buf, args->entry_count);
	sy_mp_write_uint(buf, args->until_ns);
	sy_mp_write_bool(buf, args->ssd);
}

static void write_commit(struct sy_buf *buf, const struct sy_commit_args *args)
{
	sy_mp_write_array(buf, 7);
	write_blob_id(buf, &args->blob_id);
	sy_mp_write_uint(buf, args->generation);
	sy_mp_write_uint(buf, args->until_ns);
	sy_mp_write_uint(buf, args->next_bytes);
	if (args->grant.session != 0)
		write_id(buf, args->grant);
	else
		sy_mp_write_nil(buf);
	sy_mp_write_uint(buf, args->nbytes);
	sy_mp_write_uint(buf, args->entry_count);
}

static void write_put_inline(struct sy_buf *buf, const struct sy_put_inline_args *args)
{
	sy_mp_write_array(buf, 4);
	sy_mp_write_bin(buf, args->blob.data, args->blob.bytes);
	write_blob_id(buf, &args->blob_id);
	sy_mp_write_uint(buf, args->until_ns);
	sy_mp_write_bool(buf, args->ssd);
}

static void write_resolve(struct sy_buf *buf, const struct sy_resolve_args *args)
{
	sy_mp_write_array(buf, 4);
	write_fields(buf, args->fields, args->field_count);
	sy_mp_write_bin(buf, args->rows, 8 * (size_t)args->row_count);
	if (args->field_of != NULL)
		sy_mp_write_bin(buf, args->field_of, 2 * (size_t)args->row_count);
	else
		sy_mp_write_nil(buf);
	sy_mp_write_uint(buf, args->inline_max_bytes);
}

static void write_release(struct sy_buf *buf, const struct sy_release_args *args)
{
	sy_mp_write_array(buf, 2);
	sy_mp_write_bin(buf, args->rows, 8 * (size_t)args->row_count);
	if (args->all_fields)
		sy_mp_write_nil(buf);
	else
		write_fields(buf, args->fields, args->field_count);
}

static void write_pin_check(struct sy_buf *buf, const struct sy_pin_check_args *args)
{
	sy_mp_write_array(buf, 1);
	uint8_t *room = sy_mp_write_bin_room(buf, SY_REQUEST_ID_BYTES * (size_t)args->count);
	for (uint32_t i = 0; room != NULL && i < args->count; i++)
		sy_request_id_store(room + SY_REQUEST_ID_BYTES * (size_t)i, args->names[i]);
}

static void write_scan(struct sy_buf *buf, const struct sy_scan_args *args)
{
	sy_mp_write_array(buf, 5);
	sy_mp_write_uint(buf, args->cursor);
	sy_mp_write_uint(buf, args->first_row);
	sy_mp_write_uint(buf, args->last_row);
	write_fields(buf, args->fields, args->field_count);
	sy_mp_write_uint(buf, args->limit);
}

static void write_args(struct sy_buf *buf, const struct sy_request *request)
{
	switch (request->op) {
	case SY_OP_HELLO:
		write_hello(buf, &request->hello);
		break;
	case SY_OP_ALLOC:
		write_alloc(buf, &request->alloc);
		break;
	case SY_OP_COMMIT:
		write_commit(buf, &request->commit);
		break;
	case SY_OP_PUT_INLINE:
		write_put_inline(buf, &request->put_inline);
		break;
	case SY_OP_RESOLVE_KEYS:
		write_resolve(buf, &request->resolve);
		break;
	case SY_OP_RELEASE_ROWS:
		write_release(buf, &request->release);
		break;
	case SY_OP_PIN_CHECK:
		write_pin_check(buf, &request->pin_check);
		break;
	case SY_OP_SCAN:
		write_scan(buf, &request->scan);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		sy_mp_write_array(buf, 0);
		break;
	}
}

static void write_notices(struct sy_buf *buf, const struct sy_request *request)
{
	sy_mp_write_array(buf, 2);
	sy_mp_write_uint(buf, request->first_notice);
	uint8_t *at = sy_mp_write_bin_room(buf, SY_NOTICE_BYTES * (size_t)request->notice_count);
	for (uint32_t i = 0; at != NULL && i < request->notice_count; i++, at += SY_NOTICE_BYTES) {
		at[0] = (uint8_t)request->notices[i].kind;
		at[1] = request->notices[i].in_flight;
		sy_request_id_store(at + 2, request->notices[i].name);
	}
}

void sy_request_encode(const struct sy_request *request, struct sy_buf *buf)
{
	if (sy_request_bytes(request) > SY_MESSAGE_MAX_BYTES) {
		buf->failed = true;
		return;
	}
	sy_mp_write_array(buf, 4);
	sy_mp_write_uint(buf, (uint64_t)request->op);
	write_id(buf, request->id);
	write_args(buf, request);
	write_notices(buf, request);
}
