#include "machine_impl.h"

#include <stdlib.h>

struct sy_machine *sy_machine_new(const struct sy_machine_config *config)
{
	struct sy_machine *machine = calloc(1, sizeof *machine);
	if (machine == NULL)
		return NULL;
	machine->config = *config;
	machine->free_slots = (UINT64_C(1) << SY_MACHINE_OP_SLOTS) - 1;
	machine->timer_ns = UINT64_MAX;
	machine->link_backoff_ns = SY_MACHINE_LINK_NS;
	if (!sy_machine_notices_init(&machine->notices)) {
		sy_machine_free(machine);
		return NULL;
	}
	return machine;
}

void sy_machine_free(struct sy_machine *machine)
{
	if (machine == NULL)
		return;
	free(machine->notices.ring);
	sy_buf_free(&machine->out);
	free(machine);
}

static enum sy_op first_request(enum sy_op_kind kind)
{
	switch (kind) {
	case SY_OP_KIND_PUT:
		return SY_OP_ALLOC;
	case SY_OP_KIND_PUT_INLINE:
		return SY_OP_PUT_INLINE;
	case SY_OP_KIND_COMMIT:
		return SY_OP_COMMIT;
	case SY_OP_KIND_RESOLVE:
		return SY_OP_RESOLVE_KEYS;
	case SY_OP_KIND_RELEASE:
		return SY_OP_RELEASE_ROWS;
	case SY_OP_KIND_PIN_CHECK:
		return SY_OP_PIN_CHECK;
	case SY_OP_KIND_SCAN:
		return SY_OP_SCAN;
	case SY_OP_KIND_INFO:
		return SY_OP_INFO;
	case SY_OP_KIND_STATS:
		return SY_OP_STATS;
	}
	SY_ASSERT(false); /* no such kind */
	return SY_OP_INFO;
}

static void clear_answer(struct sy_machine_op *op)
{
	op->end = SY_OP_END_NONE;
	op->in_flight = op->over = false;
	op->unknown = op->kind == SY_OP_KIND_COMMIT;
	op->was_busy = false;
	op->outcome = (struct sy_outcome){0};
	memset(op->reason, 0, sizeof op->reason);
	op->name = (struct sy_request_id){0};
	op->sent_ns = 0;
	op->answered_ns = 0;
	op->reply = (struct sy_reply){0};
	sy_buf_reset(&op->result);
	op->reserved = false;
	op->pending = false;
	op->granted = op->tried_again = false;
	op->next_bytes = 0;
	op->ending = SY_OP_END_NONE;
	op->backoff_ns = 0;
}

void sy_machine_start(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	SY_ASSERT(op->list == SY_MACHINE_LIST_NONE);
	clear_answer(op);
	op->request = (uint8_t)first_request(op->kind);
	op->incarnation =
		op->kind == SY_OP_KIND_COMMIT ? op->commit.incarnation : machine->incarnation;
	if (op->kind == SY_OP_KIND_RELEASE)
		sy_machine_grants_return(machine, now_ns); /* who clears wants the room */
	if (machine->closed)
		sy_machine_op_finish(machine, op, SY_OP_END_CLOSED, now_ns);
	else if (now_ns >= op->deadline_ns)
		sy_machine_op_finish(machine, op, SY_OP_END_TIMEOUT, now_ns);
	else if (op->kind != SY_OP_KIND_PUT || !sy_machine_grant_take(machine, op, now_ns))
		sy_machine_op_queue(machine, op, SY_MACHINE_LIST_QUEUED);
	if (op->kind == SY_OP_KIND_PUT_INLINE)
		sy_machine_note_put(machine, op->put_inline.blob.bytes, now_ns);
}

void sy_machine_written(struct sy_machine *machine, struct sy_machine_op *op, bool ok,
                        bool in_flight, uint64_t now_ns)
{
	SY_ASSERT(op->list == SY_MACHINE_LIST_WRITING);
	if (SY_MUTANT(9)) {
		ok = true;
		in_flight = false;
	}
	op->in_flight = !ok && in_flight && !op->over && !SY_MUTANT(49);
	if (op->ending != SY_OP_END_NONE) {
		sy_machine_op_finish(machine, op, (enum sy_op_end)op->ending, now_ns);
	} else if (now_ns >= op->deadline_ns) {
		sy_machine_op_finish(machine, op, SY_OP_END_TIMEOUT, now_ns);
	} else if (!ok) {
		sy_machine_op_finish(machine, op, SY_OP_END_WRITE, now_ns);
	} else {
		op->request = SY_OP_COMMIT;
		if (machine->grant_count == SY_MACHINE_GRANTS_MAX ||
		    machine->notices.count >= SY_MACHINE_NOTICES_HIGH)
			op->next_bytes = 0;
		sy_machine_op_queue(machine, op, SY_MACHINE_LIST_FIRST);
	}
}

void sy_machine_cancel(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	if (op->list == SY_MACHINE_LIST_NONE || op->list == SY_MACHINE_LIST_DONE)
		return;
	if (op->list != SY_MACHINE_LIST_WRITING)
		sy_machine_op_stop(machine, op, SY_OP_END_TIMEOUT, now_ns);
	else if (op->ending == SY_OP_END_NONE)
		op->ending = SY_OP_END_TIMEOUT;
}

void sy_machine_close(struct sy_machine *machine, uint64_t now_ns)
{
	static const enum sy_machine_list lists[] = {
		SY_MACHINE_LIST_SENT, SY_MACHINE_LIST_FIRST, SY_MACHINE_LIST_QUEUED,
		SY_MACHINE_LIST_BACKOFF, SY_MACHINE_LIST_WRITE_DUE,
	};
	machine->closed = true;
	sy_machine_grants_return(machine, now_ns);
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		while (machine->lists[lists[i]].head != NULL)
			sy_machine_op_stop(machine, machine->lists[lists[i]].head, SY_OP_END_CLOSED, now_ns);
	}
	struct sy_machine_op *op = machine->lists[SY_MACHINE_LIST_WRITING].head;
	for (; op != NULL; op = op->next) {
		if (op->ending == SY_OP_END_NONE)
			op->ending = SY_OP_END_CLOSED;
	}
	machine->notices.due_ns = now_ns;
}

uint64_t sy_machine_deadline(const struct sy_machine *machine)
{
	uint64_t at_ns = machine->timer_ns;
	switch (machine->link) {
	case SY_MACHINE_DOWN:
		if (!machine->connecting && sy_machine_link_needed(machine))
			at_ns = sy_min_u64(at_ns, machine->connect_ns);
		break;
	case SY_MACHINE_GREETING:
		at_ns = sy_min_u64(at_ns, machine->hello_wake_ns);
		break;
	case SY_MACHINE_READY:
		at_ns = sy_min_u64(at_ns, sy_machine_link_beat_at(machine));
		break;
	case SY_MACHINE_CLOSED:
		break;
	}
	return at_ns;
}

enum sy_machine_state sy_machine_state(const struct sy_machine *machine)
{
	return machine->closed ? SY_MACHINE_CLOSED : machine->link;
}

uint64_t sy_machine_incarnation(const struct sy_machine *machine)
{
	return machine->incarnation;
}

uint64_t sy_machine_session(const struct sy_machine *machine)
{
	return machine->session;
}

const struct sy_hello_result *sy_machine_hello(const struct sy_machine *machine)
{
	return &machine->hello;
}
