/* Grants: regions that the unit gave along with its answer to a commit, each for one put that is
 * still to come. That put begins with its WRITE and needs one message.
 *
 * Asked for only where one put follows another of about its size; few, and none for long, since
 * what lies idle here others may need. Each is a reservation: it goes back by an abort. */
#include "machine_impl.h"

/* A message's bytes are copied on both sides: more than these take longer than a WRITE does. */
enum { INLINE_ALWAYS_BYTES = 4 << 10 };

/* How long one may lie idle, and how soon a put must follow another to count as one of many. The
 * unit has it back within a heartbeat: the notice takes at most the other half of that. */
static uint64_t idle_ns(const struct sy_machine *machine)
{
	return machine->hello.heartbeat_ns / 2;
}

static void drop(struct sy_machine *machine, uint32_t at)
{
	machine->grants[at] = machine->grants[--machine->grant_count];
}

static void give_back(struct sy_machine *machine, uint32_t at, uint64_t now_ns)
{
	struct sy_notice notice = {.kind = SY_NOTICE_ABORT, .name = machine->grants[at].name};
	drop(machine, at);
	sy_machine_notices_let_go(&machine->notices);
	sy_machine_notices_queue(machine, notice, now_ns);
}

/* Sizes differ by at most twice: a put leaves at most half of its grant unused, and its commit
 * gives that back. */
static bool is_like(uint64_t smaller, uint64_t larger)
{
	return smaller <= larger && larger - smaller <= smaller;
}

/* Rounded up by at most an eighth, so that the next put, a little larger, may fit as well. */
static uint64_t round_up(uint64_t bytes)
{
	uint64_t step = 64;
	while (step * 16 <= bytes)
		step *= 2;
	return (bytes + step - 1) / step * step;
}

static bool is_recent(const struct sy_machine *machine, uint64_t at_ns, uint64_t now_ns)
{
	return at_ns != 0 && now_ns - at_ns < idle_ns(machine);
}

/* Does a put of this size follow one like it? */
static bool repeats(const struct sy_machine *machine, uint64_t nbytes, uint64_t now_ns)
{
	uint64_t last_bytes = machine->put_bytes;
	return is_recent(machine, machine->put_ns, now_ns) &&
	       (is_like(last_bytes, nbytes) || is_like(nbytes, last_bytes));
}

/* What the commit of a PUT is to ask for; 0: nothing. */
static uint64_t wanted_bytes(const struct sy_machine *machine, uint64_t nbytes, uint64_t now_ns)
{
	uint64_t max_bytes = machine->hello.grant_max_bytes;
	uint64_t bytes = sy_max_u64(nbytes, machine->put_bytes);
	if (!repeats(machine, nbytes, now_ns) || bytes > max_bytes)
		return 0;
	return sy_min_u64(round_up(bytes), max_bytes);
}

void sy_machine_note_put(struct sy_machine *machine, uint64_t nbytes, uint64_t now_ns)
{
	machine->put_ns = now_ns;
	machine->put_bytes = nbytes;
}

void sy_machine_note_no_grant(struct sy_machine *machine, uint64_t now_ns)
{
	machine->no_grant_ns = now_ns;
}

bool sy_machine_puts_inline(const struct sy_machine *machine, uint64_t nbytes, bool writes_fast,
                            uint64_t now_ns)
{
	if (machine->link != SY_MACHINE_READY || nbytes > machine->hello.eager_max_bytes)
		return false;
	return nbytes <= INLINE_ALWAYS_BYTES || !writes_fast || !repeats(machine, nbytes, now_ns) ||
	       nbytes > machine->hello.grant_max_bytes ||
	       is_recent(machine, machine->no_grant_ns, now_ns);
}

bool sy_machine_grant_take(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns)
{
	uint64_t nbytes = op->put.nbytes;
	uint32_t best = SY_MACHINE_GRANTS_MAX;
	op->next_bytes = wanted_bytes(machine, nbytes, now_ns);
	sy_machine_note_put(machine, nbytes, now_ns);
	for (uint32_t i = 0; i < machine->grant_count; i++) {
		if ((is_like(nbytes, machine->grants[i].nbytes) || SY_MUTANT(67)) &&
		    (best == SY_MACHINE_GRANTS_MAX ||
		     machine->grants[i].nbytes < machine->grants[best].nbytes))
			best = i;
	}
	if (best == SY_MACHINE_GRANTS_MAX)
		return false;
	const struct sy_machine_grant *grant = &machine->grants[best];
	op->name = grant->name;
	op->outcome = (struct sy_outcome){.op = SY_OP_ALLOC, .answer = SY_ANSWER_REGION,
	                                  .offset = grant->offset, .generation = grant->generation};
	op->reserved = true; /* the notice that it may need is held already */
	op->granted = true;
	if (!SY_MUTANT(68))
		drop(machine, best);
	sy_machine_op_queue(machine, op, SY_MACHINE_LIST_WRITE_DUE);
	return true;
}

bool sy_machine_grant_add(struct sy_machine *machine, const struct sy_machine_op *op,
                          const struct sy_reply *reply, uint64_t now_ns)
{
	if (!sy_machine_notices_hold(&machine->notices))
		return false;
	if (machine->grant_count == SY_MACHINE_GRANTS_MAX)
		give_back(machine, 0, now_ns);
	struct sy_machine_grant *grant = &machine->grants[machine->grant_count++];
	*grant = (struct sy_machine_grant){
		.name = reply->id,
		.offset = reply->outcome.offset,
		.generation = reply->outcome.generation,
		.nbytes = op->next_bytes,
		.due_ns = sy_machine_after(now_ns, idle_ns(machine)),
	};
	machine->timer_ns = sy_min_u64(machine->timer_ns, grant->due_ns);
	return true;
}

void sy_machine_grants_return(struct sy_machine *machine, uint64_t now_ns)
{
	while (machine->grant_count > 0)
		give_back(machine, machine->grant_count - 1, now_ns);
}

void sy_machine_grants_tick(struct sy_machine *machine, uint64_t now_ns)
{
	for (uint32_t i = machine->grant_count; i-- > 0;) {
		if (machine->grants[i].due_ns <= now_ns)
			give_back(machine, i, now_ns);
		else
			machine->timer_ns = sy_min_u64(machine->timer_ns, machine->grants[i].due_ns);
	}
}

bool sy_machine_has_grant(const struct sy_machine *machine, struct sy_request_id name)
{
	uint32_t i = 0;
	while (i < machine->grant_count && !sy_request_id_equal(machine->grants[i].name, name))
		i++;
	return i < machine->grant_count;
}
