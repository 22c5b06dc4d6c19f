/* Effects, and the messages in them. */
#include "failpoints.h"
#include "machine_impl.h"

/* The deadline on the unit's clock, never late: the newest stamp was taken before it was
 * received, so the unit reaches stamp + rest no later than the deadline comes here. */
static uint64_t until_of(const struct sy_machine *machine, uint64_t deadline_ns)
{
	if (deadline_ns >= machine->stamp_here_ns)
		return sy_machine_after(machine->stamp_unit_ns, deadline_ns - machine->stamp_here_ns);
	uint64_t back_ns = machine->stamp_here_ns - deadline_ns;
	return machine->stamp_unit_ns > back_ns ? machine->stamp_unit_ns - back_ns : 0;
}

static void encode(struct sy_machine *machine, const struct sy_request *request)
{
	SY_FAILPOINT_NOTICES(CLIENT_NOTICE, request->notices, request->notice_count);
	sy_buf_reset(&machine->out);
	sy_request_encode(request, &machine->out);
	machine->out_op = request->op;
}

void sy_machine_send_hello(struct sy_machine *machine, uint64_t now_ns)
{
	struct sy_request request = {
		.op = SY_OP_HELLO,
		.id = {.seq = machine->connection_count},
		.hello = {
			.version = SY_PROTOCOL_VERSION,
			.slot_count = machine->config.slot_count,
			.ns = machine->config.ns,
			.identity = machine->config.identity,
			.connection_count = machine->connection_count,
			.token = machine->token,
		},
	};
	encode(machine, &request);
	machine->hello_due = false;
	machine->hello_wake_ns = sy_machine_after(now_ns, machine->config.control_timeout_ns);
}

void sy_machine_send_beat(struct sy_machine *machine, uint64_t now_ns)
{
	struct sy_request request = {
		.op = SY_OP_HEARTBEAT,
		.id = {.session = machine->session,
		       .slot = SY_MACHINE_BEAT_SLOT,
		       .seq = ++machine->slot_seq[SY_MACHINE_BEAT_SLOT]},
	};
	sy_machine_notices_load(machine, &request, now_ns);
	encode(machine, &request);
	machine->beat_ns = sy_machine_after(now_ns, machine->hello.heartbeat_ns);
}

static void fill(const struct sy_machine *machine, const struct sy_machine_op *op,
                 struct sy_request *request)
{
	request->op = (enum sy_op)op->request;
	request->id = sy_machine_op_id(machine, op);
	uint64_t until_ns = until_of(machine, op->deadline_ns);
	switch (request->op) {
	case SY_OP_ALLOC:
		request->alloc = op->put;
		request->alloc.until_ns = until_ns;
		break;
	case SY_OP_COMMIT:
		request->commit.until_ns = until_ns;
		if (op->kind == SY_OP_KIND_PUT) {
			request->commit.blob_id = op->put.blob_id;
			request->commit.generation = op->outcome.generation;
			request->commit.next_bytes = op->next_bytes;
			if (op->granted) {
				request->commit.grant = op->name;
				request->commit.nbytes = op->put.nbytes;
				request->commit.entry_count = op->put.entry_count;
			}
		} else {
			request->commit.blob_id = op->commit.blob_id;
			request->commit.generation = op->commit.generation;
		}
		break;
	case SY_OP_PUT_INLINE:
		request->put_inline = op->put_inline;
		request->put_inline.until_ns = until_ns;
		break;
	case SY_OP_RESOLVE_KEYS:
		request->resolve = op->resolve;
		break;
	case SY_OP_RELEASE_ROWS:
		request->release = op->release;
		break;
	case SY_OP_PIN_CHECK:
		request->pin_check = op->pin_check;
		break;
	case SY_OP_SCAN:
		request->scan = op->scan;
		break;
	case SY_OP_HELLO:
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
	default:
		break;
	}
}

/* Encodes what its slot is due. Memory that is short counts as a message lost: it is sent again
 * after control_timeout. */
void sy_machine_send_op(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	struct sy_request request = {0};
	fill(machine, op, &request);
	size_t max = sy_min_u64(SY_MESSAGE_MAX_BYTES, machine->hello.max_message_bytes);
	/* Room for all notices that may have to ride on it: it never goes without them. */
	request.notice_count = SY_NOTICES_PER_MESSAGE;
	if (sy_request_bytes(&request) > max) { /* the unit would not read it */
		op->outcome = (struct sy_outcome){
			.op = op->request, .fault = SY_FAULT_PROTOCOL, .why = SY_WHY_TOO_MANY};
		sy_machine_op_finish(machine, op, SY_OP_END_PROTOCOL, now_ns);
		return;
	}
	sy_machine_notices_load(machine, &request, now_ns);
	if (request.op == SY_OP_COMMIT || request.op == SY_OP_PUT_INLINE)
		op->unknown = true;
	op->sent_ns = now_ns;
	machine->due_slots &= ~(UINT64_C(1) << op->slot);
	uint64_t at_ns = sy_machine_after(now_ns, machine->config.control_timeout_ns);
	sy_machine_op_wake_at(machine, op,
	                      SY_MUTANT(26) ? at_ns : sy_min_u64(at_ns, op->deadline_ns));
	encode(machine, &request);
}

static bool makes_notices(const struct sy_machine_op *op)
{
	return op->request == SY_OP_ALLOC || op->request == SY_OP_PUT_INLINE ||
	       op->request == SY_OP_RESOLVE_KEYS;
}

/* What order does not matter to: it changes nothing at the unit. */
static bool changes_nothing(const struct sy_machine_op *op)
{
	return op->request == SY_OP_INFO || op->request == SY_OP_STATS ||
	       op->request == SY_OP_SCAN || op->request == SY_OP_PIN_CHECK;
}

/* The first op that may go out now; NULL if none may. */
static struct sy_machine_op *pick(struct sy_machine *machine)
{
	if (machine->free_slots == 0 || !sy_machine_notices_room(&machine->notices))
		return NULL;
	bool full = machine->notices.count >= SY_MACHINE_NOTICES_HIGH;
	bool behind = !sy_machine_notices_ride(&machine->notices);
	for (int i = 0; i < 2; i++) {
		enum sy_machine_list list = i == 0 ? SY_MACHINE_LIST_FIRST : SY_MACHINE_LIST_QUEUED;
		struct sy_machine_op *op = machine->lists[list].head;
		while (op != NULL && ((full && makes_notices(op)) || (behind && !changes_nothing(op))))
			op = op->next;
		if (op != NULL)
			return op;
	}
	return NULL;
}

/* Sends op's message, or ends op if it must not go out any more. */
static void send_or_end(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	bool queued = op->list != SY_MACHINE_LIST_SENT;
	if (now_ns >= op->deadline_ns) {
		sy_machine_op_stop(machine, op, SY_OP_END_TIMEOUT, now_ns);
	} else if (queued && op->kind == SY_OP_KIND_COMMIT &&
	           op->commit.incarnation != machine->incarnation) {
		sy_machine_op_finish(machine, op, SY_OP_END_SESSION, now_ns);
	} else if (queued && op->request == SY_OP_ALLOC && machine->hello.transports == 0) {
		op->incarnation = machine->incarnation;
		sy_machine_op_finish(machine, op, SY_OP_END_NO_PATH, now_ns);
	} else {
		if (queued)
			sy_machine_op_admit(machine, op);
		sy_machine_send_op(machine, op, now_ns);
	}
}

/* The next message into machine->out; false if there is none. May end ops instead. */
static bool next_message(struct sy_machine *machine, uint64_t now_ns)
{
	sy_buf_reset(&machine->out);
	if (machine->link == SY_MACHINE_GREETING && machine->hello_due) {
		sy_machine_send_hello(machine, now_ns);
		return true;
	}
	if (machine->link != SY_MACHINE_READY)
		return false;
	struct sy_machine_op *op;
	if (machine->due_slots != 0)
		op = machine->slot_op[__builtin_ctzll(machine->due_slots)];
	else
		op = pick(machine);
	if (op != NULL)
		send_or_end(machine, op, now_ns);
	else if (now_ns >= sy_machine_link_beat_at(machine))
		sy_machine_send_beat(machine, now_ns);
	else
		return false;
	return true;
}

static bool next_op_effect(struct sy_machine *machine, struct sy_machine_effect *ret_effect,
                           uint64_t now_ns)
{
	struct sy_machine_op *op = machine->lists[SY_MACHINE_LIST_WRITE_DUE].head;
	if (op != NULL && now_ns >= op->deadline_ns) {
		sy_machine_op_stop(machine, op, SY_OP_END_TIMEOUT, now_ns);
		op = NULL;
	}
	struct sy_machine_op *done = machine->lists[SY_MACHINE_LIST_DONE].head;
	if (done != NULL) {
		sy_machine_op_move(machine, done, SY_MACHINE_LIST_NONE);
		*ret_effect = (struct sy_machine_effect){.kind = SY_MACHINE_DONE, .op = done};
		return true;
	}
	if (op != NULL) {
		sy_machine_op_move(machine, op, SY_MACHINE_LIST_WRITING);
		*ret_effect = (struct sy_machine_effect){.kind = SY_MACHINE_WRITE, .op = op};
		return true;
	}
	return false;
}

bool sy_machine_next(struct sy_machine *machine, struct sy_machine_effect *ret_effect,
                     uint64_t now_ns)
{
	/* Every turn gives an effect or takes one op or message on: it ends. */
	while (!next_op_effect(machine, ret_effect, now_ns)) {
		if (machine->link == SY_MACHINE_DOWN) {
			if (machine->connecting || now_ns < machine->connect_ns ||
			    !sy_machine_link_needed(machine))
				return false;
			machine->connecting = true;
			*ret_effect = (struct sy_machine_effect){.kind = SY_MACHINE_CONNECT};
			return true;
		}
		if (!next_message(machine, now_ns))
			return false;
		if (machine->out.failed || machine->out.bytes == 0)
			continue; /* memory was short, or an op ended instead */
		*ret_effect = (struct sy_machine_effect){.kind = SY_MACHINE_SEND,
		                                         .message = machine->out.data,
		                                         .bytes = machine->out.bytes,
		                                         .request = machine->out_op};
		return true;
	}
	return true;
}
