/* What an ended operation means: its verdict, and the words for it. */
#include "clock.h"
#include "fail.h"
#include "hub_inner.h"

static const uint64_t ASK_AGAIN_NS = 20 * 1000 * 1000;

/* Kinds that change nothing on the unit, or nothing twice: a fresh request is as good. A commit
 * names one grant of one incarnation, whose fate it asks for. */
static bool may_start_anew(enum sy_op_kind kind)
{
	return kind != SY_OP_KIND_PUT && kind != SY_OP_KIND_PUT_INLINE;
}

static const char *call_name(enum sy_op_kind kind)
{
	switch (kind) {
	case SY_OP_KIND_PUT:
	case SY_OP_KIND_PUT_INLINE:
		return "put";
	case SY_OP_KIND_COMMIT:
		return "commit";
	case SY_OP_KIND_RESOLVE:
		return "get";
	case SY_OP_KIND_RELEASE:
		return "clear";
	case SY_OP_KIND_PIN_CHECK:
		return "pin_check";
	case SY_OP_KIND_SCAN:
		return "scan";
	case SY_OP_KIND_INFO:
	case SY_OP_KIND_STATS:
		break;
	}
	return "status";
}

/* The directory says that the incarnation is dead: may the operation start anew with another one
 * that is in its place by now? */
static bool has_successor(struct sy_hub *hub, const struct sy_call *call)
{
	struct sy_unit_info info;

	return sy_op_outlives_unit(&call->op) &&
	       sy_hub_ask_slot(hub, call->unit_id, call->op.deadline_ns, &info, NULL) == SY_OK &&
	       sy_unit_lives(info.state);
}

/* A put wraps what it cannot name better. */
static sy_status refused_status(enum sy_op_kind kind)
{
	bool put = !may_start_anew(kind) || kind == SY_OP_KIND_COMMIT;

	return put ? SY_E_TRANSFER_FAILED : SY_E_AUTH;
}

/* Why nothing came by the deadline, as far as this side knows. */
static const char *timeout_reason(const struct sy_call *call)
{
	if (call->refused)
		return call->link->failure.message;
	if (call->op.was_busy && call->op.outcome.busy == SY_BUSY_FENCED)
		return "the unit was out of touch with the directory until the deadline, and answers "
		       "nobody meanwhile";
	if (call->op.was_busy)
		return "the unit stayed busy until the deadline";
	if (!sy_link_connected(call->link) && call->link->failure.status != SY_OK)
		return call->link->failure.message; /* it could not even be connected to */
	return "the unit did not answer by the deadline";
}

/* Says which rows went with the unit: nothing else of what a caller has tells it. */
static void fill_lost(struct sy_call *call)
{
	uint32_t unit_count = call->link->hub->unit_count;

	if (unit_count == 1)
		sy_fail(&call->error, SY_E_LOST, call_name(call->op.kind),
		        "unit 0: the unit is dead, and all rows are lost");
	else
		sy_fail(&call->error, SY_E_LOST, call_name(call->op.kind),
		        "unit %u: the unit is dead, and its rows, those with row %% %u = %u, are lost",
		        call->unit_id, unit_count, call->unit_id);
	call->error.reason = "dead";
}

static void fill_error(struct sy_call *call, sy_status status)
{
	const struct sy_machine_op *op = &call->op;
	const char *why = op->reason[0] != 0 ? op->reason : "no answer";

	if (status == SY_E_LOST) {
		fill_lost(call);
		return;
	}
	if (status == SY_E_UNIT_FULL) {
		sy_fail_full(&call->error, call_name(op->kind), sy_resource_name(op->outcome.resource),
		             op->outcome.need, op->outcome.free, op->outcome.hole);
		return;
	}
	if (op->end == SY_OP_END_WRITE && call->error.status != SY_OK) {
		call->error.status = status; /* the words are the transport's own */
		call->error.in_flight = op->in_flight;
		return;
	}
	if (op->end == SY_OP_END_BUSY)
		why = "it reads its disk";
	if (op->end == SY_OP_END_NO_PATH)
		why = SY_HUB_NO_PATH;
	if (op->end == SY_OP_END_LATE)
		why = "its answer came too late to be believed unless the directory says that it lives";
	if (op->end == SY_OP_END_SESSION)
		why = call->found_dead ? "the unit is dead" : "the unit ended the session";
	pthread_mutex_lock(&call->link->hub->lock); /* the link's failure may change */
	if (op->end == SY_OP_END_TIMEOUT)
		why = timeout_reason(call);
	sy_fail(&call->error, status, call_name(op->kind), "unit %u: %s", call->unit_id, why);
	pthread_mutex_unlock(&call->link->hub->lock);
	call->error.in_flight = op->in_flight;
	if (call->found_dead)
		call->error.reason = "dead";
	else if (call->refused)
		call->error.reason = "refused";
	else if (op->was_busy)
		call->error.reason = sy_busy_name(op->outcome.busy);
}

bool sy_hub_settle(struct sy_hub *hub, struct sy_call *call)
{
	enum sy_directory_says says = SY_DIRECTORY_SILENT;
	enum sy_op_end end = call->found_dead ? SY_OP_END_SESSION : call->op.end;
	uint64_t incarnation = call->op.incarnation;

	call->settled = true;
	if (call->link == NULL) {
		call->status = sy_fail(&call->error, SY_E_SYS, __func__, "out of memory");
		return true;
	}
	call->op.end = end;
	if (end == SY_OP_END_SESSION || end == SY_OP_END_LATE) {
		if (call->found_dead)
			incarnation = call->dead_incarnation;
		says = sy_hub_ask(hub, call->unit_id, incarnation, call->op.deadline_ns);
		bool outlived = says == SY_DIRECTORY_DEAD && has_successor(hub, call);
		bool anew = outlived || (end == SY_OP_END_SESSION && says == SY_DIRECTORY_ALIVE &&
		                         may_start_anew(call->op.kind));

		if (anew && sy_clock_now_ns() + ASK_AGAIN_NS < call->op.deadline_ns) {
			if (end == SY_OP_END_LATE)
				sy_hub_unpin(hub, call->unit_id, incarnation, call->op.name);
			call->outlived |= outlived;
			call->settled = false;
			return false;
		}
	}
	call->found_dead = says == SY_DIRECTORY_DEAD;
	call->status = sy_verdict(call->op.kind, end, says);
	if (call->refused && call->status == SY_E_TIMEOUT)
		call->status = refused_status(call->op.kind);
	/* What no transfer of this process can pass is no matter of this unit. */
	if (end == SY_OP_END_WRITE &&
	    (call->error.status == SY_E_FATAL || call->error.status == SY_E_POLICY))
		call->status = call->error.status;
	if (call->status != SY_OK && end == SY_OP_END_LATE)
		sy_hub_unpin(hub, call->unit_id, incarnation, call->op.name);
	if (call->status != SY_OK)
		fill_error(call, call->status);
	return true;
}

void sy_error_copy(sy_error *to, const sy_error *from)
{
	if (to == NULL)
		return;
	uint32_t *indexes = to->indexes;
	size_t capacity = to->index_capacity;

	*to = *from;
	to->indexes = indexes;
	to->index_capacity = capacity;
	to->index_count = 0;
}

int sy_status_severity(sy_status status)
{
	static const sy_status ORDER[] = {SY_E_FATAL,     SY_E_POLICY,  SY_E_INVALID, SY_E_LOST,
	                                  SY_E_UNIT_FULL, SY_E_TIMEOUT, SY_E_TRANSFER_FAILED};
	const int known = (int)(sizeof ORDER / sizeof ORDER[0]);

	for (int i = 0; i < known; i++) {
		if (ORDER[i] == status)
			return i;
	}
	return known;
}
