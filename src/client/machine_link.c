/* Connections and sessions. A session ends at the first sign of it (NoSession, a connection
 * gone): what had a request out ends with it, and only what the unit holds nothing of goes on. */
#include "machine_impl.h"

static void end_all(struct sy_machine *machine, enum sy_machine_list list, bool reserved_only,
                    uint64_t now_ns)
{
	struct sy_machine_op *next;
	for (struct sy_machine_op *op = machine->lists[list].head; op != NULL; op = next) {
		next = op->next;
		if (SY_MUTANT(15) && list == SY_MACHINE_LIST_SENT)
			sy_machine_op_queue(machine, op, SY_MACHINE_LIST_FIRST);
		else if (op->reserved || !reserved_only)
			sy_machine_op_stop(machine, op, SY_OP_END_SESSION, now_ns);
	}
}

static void end_session(struct sy_machine *machine, uint64_t now_ns)
{
	end_all(machine, SY_MACHINE_LIST_SENT, false, now_ns);
	end_all(machine, SY_MACHINE_LIST_WRITE_DUE, false, now_ns);
	end_all(machine, SY_MACHINE_LIST_FIRST, true, now_ns);
	end_all(machine, SY_MACHINE_LIST_QUEUED, true, now_ns);
	end_all(machine, SY_MACHINE_LIST_BACKOFF, true, now_ns);
	struct sy_machine_op *op = machine->lists[SY_MACHINE_LIST_WRITING].head;
	for (; op != NULL; op = op->next) {
		if (op->ending == SY_OP_END_NONE)
			op->ending = SY_OP_END_SESSION;
	}
	if (SY_MUTANT(69))
		machine->grant_count = 0;
	sy_machine_grants_return(machine, now_ns);
	machine->session = 0;
}

/* How long to wait before the next try; the wait after it is twice as long. A reply within a
 * session makes it short again (sy_machine_link_stamp). */
static uint64_t next_wait(struct sy_machine *machine)
{
	uint64_t wait_ns = machine->link_backoff_ns;
	machine->link_backoff_ns = sy_min_u64(wait_ns * 2, SY_MACHINE_LINK_MAX_NS);
	return wait_ns;
}

static void go_down(struct sy_machine *machine, uint64_t now_ns)
{
	machine->link = SY_MACHINE_DOWN;
	machine->connecting = false;
	machine->hello_due = false;
	machine->connect_ns = sy_machine_after(now_ns, next_wait(machine));
}

static void greet(struct sy_machine *machine, uint64_t at_ns, uint64_t now_ns)
{
	machine->link = SY_MACHINE_GREETING;
	machine->connection_count++;
	machine->hello_backoff_ns = 0;
	machine->hello_due = at_ns <= now_ns;
	machine->hello_wake_ns = at_ns;
}

void sy_machine_connected(struct sy_machine *machine, uint64_t token, uint64_t incarnation,
                          uint64_t now_ns)
{
	end_session(machine, now_ns);
	machine->connecting = false;
	machine->token = token;
	machine->link_incarnation = incarnation;
	greet(machine, now_ns, now_ns);
}

void sy_machine_disconnected(struct sy_machine *machine, uint64_t now_ns)
{
	end_session(machine, now_ns);
	go_down(machine, now_ns);
}

/* The same connection serves again. At once the first time; a unit that forgets every session
 * is not asked in a tight loop. */
void sy_machine_link_no_session(struct sy_machine *machine, uint64_t now_ns)
{
	end_session(machine, now_ns);
	bool first = machine->link_backoff_ns == SY_MACHINE_LINK_NS;
	uint64_t wait_ns = next_wait(machine);
	greet(machine, first ? now_ns : sy_machine_after(now_ns, wait_ns), now_ns);
}

void sy_machine_link_stamp(struct sy_machine *machine, uint64_t unit_now_ns, uint64_t now_ns)
{
	/* An older stamp came late: it would make until_ns needlessly early. */
	if (unit_now_ns <= machine->stamp_unit_ns)
		return;
	machine->stamp_unit_ns = unit_now_ns;
	machine->stamp_here_ns = now_ns;
}

static void begin_session(struct sy_machine *machine, const struct sy_reply *reply,
                          uint64_t now_ns)
{
	const struct sy_hello_result *hello = &reply->hello;
	bool same_unit = hello->incarnation == machine->incarnation;
	bool same_session = same_unit && hello->session == machine->last_session;
	machine->hello = *hello;
	machine->hello.heartbeat_ns = sy_max_u64(hello->heartbeat_ns, SY_MACHINE_BEAT_MIN_NS);
	machine->incarnation = hello->incarnation;
	machine->session = hello->session;
	machine->last_session = hello->session;
	machine->link = SY_MACHINE_READY;
	machine->beat_ns = sy_machine_after(now_ns, machine->hello.heartbeat_ns);
	if (!same_unit)
		machine->stamp_unit_ns = 0;
	sy_machine_link_stamp(machine, reply->unit_now_ns, now_ns);
	if (!same_session)
		sy_machine_notices_renumber(machine, same_unit, now_ns);
}

static void refuse_list(struct sy_machine *machine, enum sy_machine_list list, enum sy_op_end end,
                        const struct sy_reply *reply, uint64_t now_ns)
{
	while (machine->lists[list].head != NULL) {
		struct sy_machine_op *op = machine->lists[list].head;
		op->outcome = reply->outcome;
		memcpy(op->reason, reply->reason, sizeof op->reason);
		sy_machine_op_stop(machine, op, end, now_ns);
	}
}

static void refuse_all(struct sy_machine *machine, enum sy_op_end end,
                       const struct sy_reply *reply, uint64_t now_ns)
{
	refuse_list(machine, SY_MACHINE_LIST_FIRST, end, reply, now_ns);
	refuse_list(machine, SY_MACHINE_LIST_QUEUED, end, reply, now_ns);
	refuse_list(machine, SY_MACHINE_LIST_BACKOFF, end, reply, now_ns);
	go_down(machine, now_ns);
}

void sy_machine_link_hello_reply(struct sy_machine *machine, const struct sy_reply *reply,
                                 uint64_t now_ns)
{
	const struct sy_hello_result *hello = &reply->hello;
	uint64_t *backoff_ns = &machine->hello_backoff_ns;
	switch ((enum sy_fault)reply->outcome.fault) {
	case SY_FAULT_NONE:
		/* Not the unit that the local socket or the directory led to: it was replaced between. */
		if (hello->unit_id != machine->config.unit_id ||
		    (machine->link_incarnation != 0 && hello->incarnation != machine->link_incarnation))
			go_down(machine, now_ns);
		else
			begin_session(machine, reply, now_ns);
		return;
	case SY_FAULT_BUSY:
		*backoff_ns = *backoff_ns == 0 ? SY_MACHINE_BUSY_NS
		                               : sy_min_u64(*backoff_ns * 2, SY_MACHINE_BUSY_MAX_NS);
		machine->hello_wake_ns = sy_machine_after(now_ns, *backoff_ns);
		return;
	case SY_FAULT_PROTOCOL:
		if (reply->outcome.why == SY_WHY_TOKEN) /* the connection it came with is gone */
			go_down(machine, now_ns);
		else if (reply->outcome.why == SY_WHY_NO_PATH)
			refuse_all(machine, SY_OP_END_NO_PATH, reply, now_ns);
		else
			refuse_all(machine, SY_OP_END_PROTOCOL, reply, now_ns);
		return;
	case SY_FAULT_UNIT_FULL:
		refuse_all(machine, SY_OP_END_FULL, reply, now_ns);
		return;
	case SY_FAULT_MISSING:
	case SY_FAULT_NO_SESSION:
	default:
		return; /* no answer to a hello */
	}
}

bool sy_machine_link_needed(const struct sy_machine *machine)
{
	return machine->lists[SY_MACHINE_LIST_FIRST].head != NULL ||
	       machine->lists[SY_MACHINE_LIST_QUEUED].head != NULL ||
	       machine->lists[SY_MACHINE_LIST_BACKOFF].head != NULL || machine->notices.count > 0;
}

uint64_t sy_machine_link_beat_at(const struct sy_machine *machine)
{
	uint64_t at_ns = machine->token == 0 ? machine->beat_ns : UINT64_MAX;
	if (machine->notices.count > 0)
		at_ns = sy_min_u64(at_ns, machine->notices.due_ns);
	return at_ns;
}
