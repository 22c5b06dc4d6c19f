/* What a reply means for the op whose request it answers. */
#include "failpoints.h"
#include "machine_impl.h"

/* A refusal says that the request did nothing. Not so if an earlier one of this blob was
 * accepted (pending), or its fate was unknown before the op began. */
static void refused(struct sy_machine_op *op)
{
	if (!op->pending && op->kind != SY_OP_KIND_COMMIT)
		op->unknown = false;
}

static void on_region(struct sy_machine *machine, struct sy_machine_op *op,
                      const struct sy_reply *reply)
{
	if (!sy_machine_notices_hold(&machine->notices))
		return; /* as if the reply was lost: the resend is answered the same */
	op->name = reply->id;
	op->reserved = true;
	op->pending = false;
	op->backoff_ns = 0;
	sy_machine_op_move(machine, op, SY_MACHINE_LIST_WRITE_DUE);
	sy_machine_op_wake_at(machine, op, op->deadline_ns);
}

/* A fenced unit is silent before it is dead; but how long a message took in between nobody knows.
 * Within dead_after - fence_after of the question its answer was given by one that lived. */
static bool is_late(const struct sy_machine *machine, const struct sy_machine_op *op)
{
	uint64_t trust_ns = machine->config.trust_ns;
	return trust_ns != 0 && !SY_MUTANT(45) && op->answered_ns - op->sent_ns > trust_ns;
}

static void on_resolved(struct sy_machine *machine, struct sy_machine_op *op,
                        const struct sy_reply *reply, uint64_t now_ns)
{
	bool pinned = reply->resolved.sum.pinned_count > 0;
	if (pinned && !sy_machine_notices_hold(&machine->notices))
		return; /* as if the reply was lost: unpinned and asked again */
	if (SY_MUTANT(6))
		sy_machine_unpin(machine, op->name, now_ns);
	if (pinned)
		op->name = reply->id;
	bool local = (machine->hello.transports & SY_TRANSPORT_SHM) != 0;
	op->pin_ns = local ? UINT64_MAX : machine->hello.read_pin_ns;
	if (SY_MUTANT(6) && !op->pending) {
		op->pending = true;
		sy_machine_op_queue(machine, op, SY_MACHINE_LIST_FIRST);
		return;
	}
	enum sy_op_end end = is_late(machine, op) ? SY_OP_END_LATE : SY_OP_END_OK;
	sy_machine_op_finish(machine, op, end, now_ns);
}

static void on_ok(struct sy_machine *machine, struct sy_machine_op *op,
                  const struct sy_reply *reply, uint64_t now_ns)
{
	op->was_busy = false;
	switch ((enum sy_op)op->request) {
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
		if (op->outcome.answer == SY_ANSWER_REGION) {
			on_region(machine, op, reply);
		} else if (op->outcome.answer == SY_ANSWER_PUBLISHED) {
			bool asked = op->next_bytes > 0 && op->request == SY_OP_COMMIT;
			if (asked && reply->outcome.generation == 0)
				sy_machine_note_no_grant(machine, now_ns);
			else if (asked && !sy_machine_grant_add(machine, op, reply, now_ns))
				return; /* as if the reply was lost: the resend is answered the same */
			sy_machine_op_finish(machine, op, SY_OP_END_OK, now_ns);
		} else {
			op->pending = true;
			op->unknown = true;
			sy_machine_op_backoff(machine, op, SY_MACHINE_PENDING_NS, now_ns);
		}
		return;
	case SY_OP_RESOLVE_KEYS:
		on_resolved(machine, op, reply, now_ns);
		return;
	case SY_OP_RELEASE_ROWS:
	case SY_OP_PIN_CHECK:
	case SY_OP_SCAN:
	case SY_OP_INFO:
	case SY_OP_STATS:
		sy_machine_op_finish(machine, op, SY_OP_END_OK, now_ns);
		return;
	case SY_OP_HELLO:
	case SY_OP_HEARTBEAT:
	default:
		return;
	}
}

static void on_busy(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	op->was_busy = true;
	sy_machine_grants_return(machine, now_ns);
	bool fenced = op->outcome.busy == SY_BUSY_FENCED;
	uint64_t wait_ns = sy_machine_op_busy_ns(op);
	if (fenced && op->request != SY_OP_RESOLVE_KEYS) {
		/* It may stand for the reply of a request that ran: only the same seq tells. */
		uint64_t at_ns = sy_machine_after(now_ns, wait_ns);
		sy_machine_op_wake_at(machine, op, sy_min_u64(at_ns, op->deadline_ns));
		return;
	}
	if (fenced) /* a resolve is not answered twice, and may have pinned */
		sy_machine_op_give_up(machine, op, now_ns);
	refused(op);
	if (op->gives_way && op->outcome.busy == SY_BUSY_LOADING)
		sy_machine_op_finish(machine, op, SY_OP_END_BUSY, now_ns);
	else
		sy_machine_op_backoff(machine, op, wait_ns, now_ns);
}

/* What this client keeps for later puts may be the very room that this one lacks: it goes back
 * with the next message, and the unit is asked once more. */
static bool is_tried_again(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	bool had_grants = machine->grant_count > 0;
	sy_machine_grants_return(machine, now_ns);
	if (!had_grants || op->tried_again ||
	    (op->request != SY_OP_ALLOC && op->request != SY_OP_PUT_INLINE))
		return false;
	op->tried_again = true;
	sy_machine_op_queue(machine, op, SY_MACHINE_LIST_FIRST);
	return true;
}

static void on_fault(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	switch ((enum sy_fault)op->outcome.fault) {
	case SY_FAULT_BUSY:
		on_busy(machine, op, now_ns);
		return;
	case SY_FAULT_UNIT_FULL:
		refused(op);
		if (!is_tried_again(machine, op, now_ns))
			sy_machine_op_finish(machine, op, SY_OP_END_FULL, now_ns);
		return;
	case SY_FAULT_MISSING:
		refused(op);
		sy_machine_op_finish(machine, op, SY_OP_END_MISSING, now_ns);
		return;
	case SY_FAULT_PROTOCOL:
		refused(op);
		/* An old stamp can make until_ns early; this reply brought a fresh one. */
		if (op->outcome.why == SY_WHY_TOO_LATE)
			sy_machine_op_backoff(machine, op, sy_machine_op_busy_ns(op), now_ns);
		else if (op->outcome.why == SY_WHY_NO_PATH)
			sy_machine_op_finish(machine, op, SY_OP_END_NO_PATH, now_ns);
		else
			sy_machine_op_finish(machine, op, SY_OP_END_PROTOCOL, now_ns);
		return;
	case SY_FAULT_NONE:
	case SY_FAULT_NO_SESSION:
	default:
		return;
	}
}

static void on_op_reply(struct sy_machine *machine, struct sy_machine_op *op,
                        const struct sy_reply *reply, uint64_t now_ns)
{
	if (!sy_machine_result_copy(op, reply))
		return; /* as if it was lost */
	/* A reservation's place outlives the outcome of its commit. */
	struct sy_outcome region = op->outcome;
	op->outcome = reply->outcome;
	if (op->reserved) {
		op->outcome.offset = region.offset;
		op->outcome.generation = region.generation;
	}
	memcpy(op->reason, reply->reason, sizeof op->reason);
	op->answered_ns = now_ns;
	if (reply->outcome.fault == SY_FAULT_NONE)
		on_ok(machine, op, reply, now_ns);
	else
		on_fault(machine, op, now_ns);
}

static void receive_hello(struct sy_machine *machine, struct sy_request_id id, const void *message,
                          size_t bytes, struct sy_scratch *scratch, uint64_t now_ns)
{
	struct sy_reply reply;
	if (machine->link == SY_MACHINE_GREETING && id.slot == 0 &&
	    id.seq == machine->connection_count &&
	    sy_reply_decode(message, bytes, SY_OP_HELLO, 0, scratch, &reply, NULL) == SY_OK) {
		SY_FAILPOINT_OP(CLIENT_REPLY, SY_OP_HELLO);
		sy_machine_link_hello_reply(machine, &reply, now_ns);
	}
}

/* Replies that are late, doubled, or of another session or connection find no request here and
 * change nothing. */
static void receive_reply(struct sy_machine *machine, struct sy_request_id id, const void *message,
                          size_t bytes, struct sy_scratch *scratch, uint64_t now_ns)
{
	if (machine->session == 0 || id.session != machine->session || id.slot >= SY_SLOT_COUNT)
		return;
	struct sy_machine_op *op = machine->slot_op[id.slot];
	enum sy_op request = SY_OP_HEARTBEAT;
	uint32_t count = 0;
	if (id.slot != SY_MACHINE_BEAT_SLOT) {
		if (op == NULL || op->seq != id.seq)
			return;
		request = (enum sy_op)op->request;
		count = sy_machine_result_count(op);
	} else if (id.seq != machine->slot_seq[id.slot]) {
		return;
	}
	struct sy_reply reply;
	if (sy_reply_decode(message, bytes, request, count, scratch, &reply, NULL) != SY_OK)
		return;
	SY_FAILPOINT_OP(CLIENT_REPLY, request);
	if (reply.outcome.fault == SY_FAULT_NO_SESSION) {
		sy_machine_link_no_session(machine, now_ns);
		return;
	}
	machine->link_backoff_ns = SY_MACHINE_LINK_NS;
	sy_machine_link_stamp(machine, reply.unit_now_ns, now_ns);
	sy_machine_notices_acknowledge(machine, reply.notices_done, now_ns);
	if (op != NULL)
		on_op_reply(machine, op, &reply, now_ns);
}

void sy_machine_receive(struct sy_machine *machine, const void *message, size_t bytes,
                        struct sy_scratch *scratch, uint64_t now_ns)
{
	struct sy_request_id id;
	if (sy_reply_peek(message, bytes, &id, NULL) != SY_OK)
		return;
	size_t used = scratch->used;
	if (id.session == 0)
		receive_hello(machine, id, message, bytes, scratch, now_ns);
	else
		receive_reply(machine, id, message, bytes, scratch, now_ns);
	scratch->used = used;
}
