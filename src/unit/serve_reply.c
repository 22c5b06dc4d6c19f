/* From a reply effect to the message that goes out. */
#include "serve_state.h"

#include "fail.h"
#include "failpoints.h"
#include "guard.h"

static bool is_fenced(const struct sy_serve *serve)
{
	return serve->io.fenced != NULL && !SY_MUTANT(41) && serve->io.fenced(serve->io.context);
}

/* The client asks again under the same seq, and gets the outcome once the fence is lifted. The
 * notices have run, and that may be told. */
static void encode_fenced(struct sy_serve *serve, const struct sy_reply *reply, enum sy_op op)
{
	const struct sy_reply fenced = {
		.id = reply->id,
		.outcome = {.op = (uint8_t)op, .fault = SY_FAULT_BUSY, .busy = SY_BUSY_FENCED},
		.notices_done = reply->notices_done,
		.unit_now_ns = reply->unit_now_ns,
	};
	sy_buf_reset(&serve->room->reply);
	sy_reply_encode(&fenced, op, &serve->room->reply);
}

static void send_reply(struct sy_serve *serve, uint64_t route, const struct sy_reply *reply,
                       enum sy_op op)
{
	sy_buf_reset(&serve->room->reply);
	sy_reply_encode(reply, op, &serve->room->reply);
	if (is_fenced(serve))
		encode_fenced(serve, reply, op);
	if (serve->room->reply.failed) {
		/* As if the message was lost on its way: the client asks again, or gives up and
		 * says so in a notice. */
		serve->lost_reply_count++;
		return;
	}
	SY_FAILPOINT_OP(UNIT_EFFECT_REPLY, op);
	serve->io.send(serve->io.context, route, serve->room->reply.data, serve->room->reply.bytes);
	SY_FAILPOINT_OP(UNIT_REPLIED, op);
}

static void answer_hello(const struct sy_serve *serve, struct sy_reply *reply, bool local)
{
	const struct sy_core_params *params = &serve->params;
	const char *address = "";
	if (!local && params->remote_write && serve->io.admit != NULL)
		address = serve->io.admit(serve->io.context, reply->outcome.count);
	bool remote = params->remote_write && address != NULL;
	reply->hello = (struct sy_hello_result){
		.session = reply->outcome.count,
		.incarnation = params->incarnation,
		.slab_bytes = params->slab_bytes,
		.unit_id = params->unit_id,
		.slot_count = params->slot_count,
		.read_pin_ns = params->read_pin_ns,
		.heartbeat_ns = params->heartbeat_ns,
		.session_expire_ns = params->session_expire_ns,
		.eager_max_bytes = params->eager_max_bytes,
		.inline_max_bytes = params->inline_max_bytes,
		.max_keys = SY_KEYS_PER_RESOLVE_MAX,
		.max_entries = SY_ENTRIES_PER_BLOB_MAX,
		.max_message_bytes = SY_MESSAGE_MAX_BYTES,
		.grant_max_bytes = params->grant_max_bytes,
		.transports = local ? SY_TRANSPORT_SHM : remote ? SY_TRANSPORT_UCX : 0u,
	};
	if (remote)
		sy_format(reply->hello.ucx_address, SY_HELLO_ADDRESS_BYTES, "%s", address);
}

/* Inline values come from the slab right after the step that found them: at the next one their
 * region may already be another's. Their offsets change from the slab's to the message's. */
static bool gather_inline(struct sy_serve *serve, uint32_t key_count)
{
	struct sy_resolved *resolved = &serve->room->resolved;
	sy_buf_reset(&serve->room->inline_bytes);
	for (uint32_t k = 0; k < key_count; k++) {
		if (resolved->found[k] != SY_FOUND_INLINE)
			continue;
		uint64_t offset = resolved->offset[k], nbytes = resolved->nbytes[k];
		SY_ASSERT(offset <= serve->params.slab_bytes &&
		          nbytes <= serve->params.slab_bytes - offset);
		resolved->offset[k] = serve->room->inline_bytes.bytes;
		sy_buf_append(&serve->room->inline_bytes, serve->slab + offset, (size_t)nbytes);
	}
	SY_ASSERT(serve->room->inline_bytes.bytes <= serve->params.inline_total_bytes);
	return !serve->room->inline_bytes.failed;
}

static bool answer_resolve(struct sy_serve *serve, struct sy_reply *reply)
{
	const struct sy_resolve_args *asked = &serve->room->request.wire.resolve;

	if (!gather_inline(serve, serve->room->request.key_count)) {
		serve->lost_reply_count++;
		return false;
	}
	reply->resolved = serve->room->resolved;
	reply->key_count = serve->room->request.key_count;
	reply->row_keys = asked->field_of == NULL ? asked->field_count : 0;
	reply->inline_bytes.data = serve->room->inline_bytes.data;
	reply->inline_bytes.bytes = serve->room->inline_bytes.bytes;
	return true;
}

static void answer_scan(struct sy_serve *serve, struct sy_reply *reply)
{
	SY_ASSERT(serve->room->request.scan_count <= SY_SCAN_LIMIT_MAX);
	for (uint32_t i = 0; i < serve->room->request.scan_count; i++) {
		const struct sy_scan_item *item = &serve->room->scan_items[i];
		struct sy_scan_entry *entry = &serve->room->scan_entries[i];
		*entry = (struct sy_scan_entry){
			.row = item->row, .nbytes = item->nbytes, .dim0 = item->dim0,
			.field = item->field, .dtype = item->dtype, .kind = item->kind,
		};
		if (item->shape != NULL)
			entry->shape = *item->shape;
	}
	reply->scan = serve->room->scan_entries;
	reply->scan_count = serve->room->request.scan_count;
	reply->scan_cursor = serve->room->request.scan_cursor;
}

/* Adds what an outcome does not hold. False: memory is short. */
static bool add_results(struct sy_serve *serve, struct sy_reply *reply)
{
	const struct sy_request *wire = &serve->room->request.wire;
	switch (wire->op) {
	case SY_OP_HELLO:
		answer_hello(serve, reply, wire->hello.token != 0);
		return true;
	case SY_OP_RESOLVE_KEYS:
		return answer_resolve(serve, reply);
	case SY_OP_PIN_CHECK:
		reply->held = serve->room->held;
		reply->held_count = wire->pin_check.count;
		return true;
	case SY_OP_SCAN:
		answer_scan(serve, reply);
		return true;
	case SY_OP_STATS:
		sy_serve_stats(serve, &reply->stats);
		reply->unit_state = serve->core->unit_state;
		return true;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
		reply->unit_state = serve->core->unit_state;
		return true;
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
	case SY_OP_RELEASE_ROWS:
		return true;
	}
	return true;
}

void sy_serve_answer(struct sy_serve *serve, const struct sy_effect *effect, bool current,
                     uint64_t now_ns)
{
	struct sy_reply reply = {
		.id = effect->id,
		.outcome = effect->outcome,
		.notices_done = effect->notices_done,
		.unit_now_ns = now_ns,
	};
	if (effect->outcome.fault == SY_FAULT_NONE && current && !add_results(serve, &reply))
		return;
	send_reply(serve, effect->route, &reply, (enum sy_op)effect->outcome.op);
}

void sy_serve_refuse(struct sy_serve *serve, uint64_t route, struct sy_request_id id,
                     enum sy_op op, enum sy_why why, uint64_t now_ns)
{
	const struct sy_reply reply = {
		.id = id,
		.outcome = {.op = (uint8_t)op, .fault = SY_FAULT_PROTOCOL, .why = (uint8_t)why},
		.unit_now_ns = now_ns,
	};
	send_reply(serve, route, &reply, op);
}
