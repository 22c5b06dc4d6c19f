#include "machine_impl.h"

static void unlink_op(struct sy_machine *machine, struct sy_machine_op *op)
{
	if (op->list == SY_MACHINE_LIST_NONE)
		return;
	struct sy_machine_ops *ops = &machine->lists[op->list];
	if (op->prev != NULL)
		op->prev->next = op->next;
	else
		ops->head = op->next;
	if (op->next != NULL)
		op->next->prev = op->prev;
	else
		ops->tail = op->prev;
}

static enum sy_op_stage stage_of(enum sy_machine_list list)
{
	switch (list) {
	case SY_MACHINE_LIST_FIRST:
	case SY_MACHINE_LIST_QUEUED:
		return SY_OP_STAGE_QUEUED;
	case SY_MACHINE_LIST_SENT:
		return SY_OP_STAGE_SENT;
	case SY_MACHINE_LIST_BACKOFF:
		return SY_OP_STAGE_BACKOFF;
	case SY_MACHINE_LIST_WRITE_DUE:
	case SY_MACHINE_LIST_WRITING:
		return SY_OP_STAGE_WRITING;
	case SY_MACHINE_LIST_NONE:
	case SY_MACHINE_LIST_DONE:
	case SY_MACHINE_LIST_COUNT:
	default:
		return SY_OP_STAGE_IDLE;
	}
}

void sy_machine_op_move(struct sy_machine *machine, struct sy_machine_op *op,
                        enum sy_machine_list list)
{
	if (op->list == SY_MACHINE_LIST_SENT) {
		uint64_t bit = UINT64_C(1) << op->slot;
		SY_ASSERT(machine->slot_op[op->slot] == op);
		machine->slot_op[op->slot] = NULL;
		machine->free_slots |= bit;
		machine->due_slots &= ~bit;
	}
	unlink_op(machine, op);
	op->list = (uint8_t)list;
	op->stage = stage_of(list);
	op->prev = NULL;
	op->next = NULL;
	if (list == SY_MACHINE_LIST_NONE)
		return;
	struct sy_machine_ops *ops = &machine->lists[list];
	op->prev = ops->tail;
	if (ops->tail != NULL)
		ops->tail->next = op;
	else
		ops->head = op;
	ops->tail = op;
}

void sy_machine_op_wake_at(struct sy_machine *machine, struct sy_machine_op *op, uint64_t at_ns)
{
	op->wake_ns = at_ns;
	machine->timer_ns = sy_min_u64(machine->timer_ns, at_ns);
}

void sy_machine_op_queue(struct sy_machine *machine, struct sy_machine_op *op,
                         enum sy_machine_list list)
{
	sy_machine_op_move(machine, op, list);
	sy_machine_op_wake_at(machine, op, op->deadline_ns);
}

void sy_machine_op_admit(struct sy_machine *machine, struct sy_machine_op *op)
{
	SY_ASSERT(machine->free_slots != 0);
	sy_machine_op_move(machine, op, SY_MACHINE_LIST_SENT);
	op->slot = (uint32_t)__builtin_ctzll(machine->free_slots);
	uint64_t bit = UINT64_C(1) << op->slot;
	SY_ASSERT(machine->slot_op[op->slot] == NULL);
	machine->free_slots &= ~bit;
	machine->due_slots |= bit;
	machine->slot_op[op->slot] = op;
	op->seq = ++machine->slot_seq[op->slot];
	op->incarnation = machine->incarnation;
	sy_machine_op_wake_at(machine, op, op->deadline_ns);
}

void sy_machine_op_backoff(struct sy_machine *machine, struct sy_machine_op *op,
                           uint64_t delay_ns, uint64_t now_ns)
{
	sy_machine_op_move(machine, op, SY_MACHINE_LIST_BACKOFF);
	uint64_t at_ns = sy_machine_after(now_ns, delay_ns);
	if (!SY_MUTANT(27))
		at_ns = sy_min_u64(at_ns, op->deadline_ns);
	sy_machine_op_wake_at(machine, op, at_ns);
}

uint64_t sy_machine_op_busy_ns(struct sy_machine_op *op)
{
	op->backoff_ns = op->backoff_ns == 0
	                         ? SY_MACHINE_BUSY_NS
	                         : sy_min_u64(op->backoff_ns * 2, SY_MACHINE_BUSY_MAX_NS);
	return op->backoff_ns;
}

static void abort_name(struct sy_machine *machine, struct sy_request_id name, bool in_flight,
                       uint64_t now_ns)
{
	if (SY_MUTANT(20))
		return;
	struct sy_notice notice = {.kind = SY_NOTICE_ABORT, .in_flight = in_flight, .name = name};
	sy_machine_notices_give_up(machine, notice, now_ns);
}

/* An abort also of what reserves nothing: it raises the slot's seq at the unit, so that a late
 * release or put_inline cannot undo what its caller does after being told Timeout. */
void sy_machine_op_give_up(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	struct sy_request_id id = sy_machine_op_id(machine, op);
	struct sy_notice unpin = {.kind = SY_NOTICE_UNPIN, .name = id};
	switch ((enum sy_op)op->request) {
	case SY_OP_ALLOC:
	case SY_OP_PUT_INLINE:
	case SY_OP_RELEASE_ROWS:
		abort_name(machine, id, false, now_ns);
		return;
	case SY_OP_RESOLVE_KEYS:
		sy_machine_notices_give_up(machine, unpin, now_ns);
		return;
	case SY_OP_COMMIT: /* its alloc's name is aborted when the op ends */
		if (op->next_bytes > 0) /* it may have been granted a region, or will be */
			abort_name(machine, id, false, now_ns);
		return;
	case SY_OP_HELLO:
	case SY_OP_PIN_CHECK:
	case SY_OP_HEARTBEAT:
	case SY_OP_SCAN:
	case SY_OP_INFO:
	case SY_OP_STATS:
	default:
		return;
	}
}

void sy_machine_op_finish(struct sy_machine *machine, struct sy_machine_op *op,
                          enum sy_op_end end, uint64_t now_ns)
{
	if (op->reserved) {
		op->reserved = false;
		/* While the WRITE is in flight one more notice will come: drained. */
		if (!op->in_flight)
			sy_machine_notices_let_go(&machine->notices);
		if (end != SY_OP_END_OK && op->incarnation == machine->incarnation)
			abort_name(machine, op->name, op->in_flight, now_ns);
	}
	if (end == SY_OP_END_OK)
		op->unknown = false;
	op->end = end;
	sy_machine_op_move(machine, op, SY_MACHINE_LIST_DONE);
}

void sy_machine_op_stop(struct sy_machine *machine, struct sy_machine_op *op,
                        enum sy_op_end end, uint64_t now_ns)
{
	SY_ASSERT(op->list != SY_MACHINE_LIST_WRITING);
	if (op->list == SY_MACHINE_LIST_SENT)
		sy_machine_op_give_up(machine, op, now_ns);
	sy_machine_op_finish(machine, op, end, now_ns);
}

/* Its time came: deadline, resend, or the end of a backoff. */
static void wake(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	if (now_ns >= op->deadline_ns) {
		sy_machine_op_stop(machine, op, SY_OP_END_TIMEOUT, now_ns);
		return;
	}
	if (op->list == SY_MACHINE_LIST_BACKOFF) {
		sy_machine_op_queue(machine, op, SY_MACHINE_LIST_FIRST);
		return;
	}
	SY_ASSERT(op->list == SY_MACHINE_LIST_SENT);
	if (op->request == SY_OP_RESOLVE_KEYS && !SY_MUTANT(12)) {
		/* It may have run and pinned: asked again under the same seq it would not be
		 * answered. The unpin undoes it, and a late answer finds no op of its seq. */
		sy_machine_op_give_up(machine, op, now_ns);
		sy_machine_op_queue(machine, op, SY_MACHINE_LIST_FIRST);
		return;
	}
	machine->due_slots |= UINT64_C(1) << op->slot;
	sy_machine_op_wake_at(machine, op, op->deadline_ns);
}

static void scan(struct sy_machine *machine, enum sy_machine_list list, uint64_t now_ns)
{
	struct sy_machine_op *next;
	for (struct sy_machine_op *op = machine->lists[list].head; op != NULL; op = next) {
		next = op->next;
		if (op->wake_ns <= now_ns)
			wake(machine, op, now_ns);
		else
			machine->timer_ns = sy_min_u64(machine->timer_ns, op->wake_ns);
	}
}

void sy_machine_tick(struct sy_machine *machine, uint64_t now_ns)
{
	if (machine->link == SY_MACHINE_GREETING && now_ns >= machine->hello_wake_ns)
		machine->hello_due = true;
	if (now_ns < machine->timer_ns)
		return;
	machine->timer_ns = UINT64_MAX;
	scan(machine, SY_MACHINE_LIST_SENT, now_ns);
	scan(machine, SY_MACHINE_LIST_BACKOFF, now_ns);
	scan(machine, SY_MACHINE_LIST_FIRST, now_ns);
	scan(machine, SY_MACHINE_LIST_QUEUED, now_ns);
	scan(machine, SY_MACHINE_LIST_WRITE_DUE, now_ns);
	sy_machine_grants_tick(machine, now_ns);
}
