#include "machine_impl.h"

#include <stdlib.h>

static bool grow(struct sy_machine_notices *notices, size_t need)
{
	size_t capacity = notices->capacity;
	while (capacity < need)
		capacity *= 2;
	if (capacity == notices->capacity)
		return true;
	struct sy_notice *ring = malloc(capacity * sizeof *ring);
	if (ring == NULL)
		return false;
	for (size_t i = 0; i < notices->count; i++)
		ring[i] = notices->ring[(notices->head + i) & (notices->capacity - 1)];
	free(notices->ring);
	notices->ring = ring;
	notices->capacity = capacity;
	notices->head = 0;
	return true;
}

bool sy_machine_notices_init(struct sy_machine_notices *notices)
{
	notices->capacity = 2 * SY_SLOT_COUNT * 2;
	notices->ring = malloc(notices->capacity * sizeof *notices->ring);
	notices->first = 1;
	return notices->ring != NULL;
}

bool sy_machine_notices_room(struct sy_machine_notices *notices)
{
	return grow(notices, notices->count + notices->held + SY_MACHINE_NOTICES_SLACK);
}

bool sy_machine_notices_hold(struct sy_machine_notices *notices)
{
	if (!grow(notices, notices->count + notices->held + 1 + SY_MACHINE_NOTICES_SLACK))
		return false;
	notices->held++;
	return true;
}

/* Never below zero: after a new incarnation what the former one held is counted no more. */
void sy_machine_notices_let_go(struct sy_machine_notices *notices)
{
	if (notices->held > 0)
		notices->held--;
}

void sy_machine_notices_queue(struct sy_machine *machine, struct sy_notice notice, uint64_t now_ns)
{
	struct sy_machine_notices *notices = &machine->notices;
	/* Places were made before anything was held or sent. Only names that were never ours can
	 * come to more; they cost nothing if dropped. */
	if (notices->count == notices->capacity && !grow(notices, notices->count + 1))
		return;
	notices->ring[(notices->head + notices->count) & (notices->capacity - 1)] = notice;
	notices->count++;
	/* Half a heartbeat, so that one may be lost and the unit still knows within two. */
	uint64_t due_ns = sy_machine_after(now_ns, machine->hello.heartbeat_ns / 2);
	if (machine->closed)
		due_ns = now_ns;
	if (notices->count == 1 || due_ns < notices->due_ns)
		notices->due_ns = due_ns;
}

void sy_machine_notices_give_up(struct sy_machine *machine, struct sy_notice notice,
                                uint64_t now_ns)
{
	struct sy_machine_notices *notices = &machine->notices;
	sy_machine_notices_queue(machine, notice, now_ns);
	notices->giving_up = sy_machine_last_notice(machine);
	/* What is held up by it need not wait for a heartbeat's time. */
	if (!sy_machine_notices_ride(notices))
		notices->due_ns = now_ns;
}

bool sy_machine_notices_ride(const struct sy_machine_notices *notices)
{
	return notices->giving_up < notices->first + SY_NOTICES_PER_MESSAGE;
}

void sy_machine_notices_load(struct sy_machine *machine, struct sy_request *request,
                             uint64_t now_ns)
{
	struct sy_machine_notices *notices = &machine->notices;
	size_t count = notices->count;
	if (count > SY_NOTICES_PER_MESSAGE)
		count = SY_NOTICES_PER_MESSAGE;
	for (size_t i = 0; i < count; i++)
		machine->sending[i] = notices->ring[(notices->head + i) & (notices->capacity - 1)];
	request->first_notice = notices->first;
	request->notices = machine->sending;
	request->notice_count = (uint32_t)count;
	if (count == 0)
		return;
	notices->sent = sy_max_u64(notices->sent, notices->first + count - 1);
	notices->due_ns = sy_machine_after(now_ns, machine->hello.heartbeat_ns / 2);
}

void sy_machine_notices_acknowledge(struct sy_machine *machine, uint64_t done, uint64_t now_ns)
{
	struct sy_machine_notices *notices = &machine->notices;
	if (done < notices->first || done > notices->sent)
		return; /* late, or not of ours */
	size_t count = (size_t)(done - notices->first + 1);
	notices->head = (notices->head + count) & (notices->capacity - 1);
	notices->count -= count;
	notices->first = done + 1;
	/* A backlog goes out a message after the other, not one a heartbeat. */
	if (notices->count >= SY_NOTICES_PER_MESSAGE || machine->closed)
		notices->due_ns = now_ns;
}

void sy_machine_notices_renumber(struct sy_machine *machine, bool keep, uint64_t now_ns)
{
	struct sy_machine_notices *notices = &machine->notices;
	if (!keep) { /* another incarnation knows none of the names */
		notices->count = 0;
		notices->held = 0;
	}
	notices->first = 1;
	notices->sent = 0;
	notices->giving_up = 0; /* what an ended session's requests come to is NoSession */
	notices->due_ns = now_ns;
}

void sy_machine_unpin(struct sy_machine *machine, struct sy_request_id name, uint64_t now_ns)
{
	if (name.session == 0)
		return; /* nothing was pinned */
	sy_machine_notices_let_go(&machine->notices);
	if (SY_MUTANT(18))
		return;
	struct sy_notice notice = {.kind = SY_NOTICE_UNPIN, .name = name};
	sy_machine_notices_queue(machine, notice, now_ns);
}

void sy_machine_drained(struct sy_machine *machine, struct sy_request_id name, uint64_t now_ns)
{
	if (name.session == 0)
		return;
	/* Whoever looks after what was left may be faster than who left it. Told before the abort, the
	 * unit would not know what this is about. */
	struct sy_machine_op *op = machine->lists[SY_MACHINE_LIST_WRITING].head;
	while (op != NULL && !sy_request_id_equal(op->name, name))
		op = op->next;
	if (op != NULL) {
		op->over = true;
		return;
	}
	sy_machine_notices_let_go(&machine->notices);
	if (SY_MUTANT(56))
		return;
	struct sy_notice notice = {.kind = SY_NOTICE_DRAINED, .name = name};
	sy_machine_notices_queue(machine, notice, now_ns);
}

void sy_machine_never_drained(struct sy_machine *machine)
{
	sy_machine_notices_let_go(&machine->notices);
}

uint64_t sy_machine_last_notice(const struct sy_machine *machine)
{
	return machine->notices.first + machine->notices.count - 1;
}

bool sy_machine_notices_done(const struct sy_machine *machine)
{
	return machine->notices.count == 0;
}
