/* What a failed operation means: the one place that may say lost (I9), but
 * for what a living unit says of its own disk (lookup.c). */
#include "guard.h"
#include "machine.h"

/* The incarnation is confirmed DEAD: its bytes are gone. So keys are lost, clearing them is done,
 * and a put fails until a new incarnation registers. */
static sy_status dead_verdict(enum sy_op_kind kind)
{
	switch (kind) {
	case SY_OP_KIND_RESOLVE:
	case SY_OP_KIND_PIN_CHECK:
	case SY_OP_KIND_SCAN:
		return SY_E_LOST;
	case SY_OP_KIND_RELEASE:
		return SY_OK;
	case SY_OP_KIND_PUT:
	case SY_OP_KIND_PUT_INLINE:
	case SY_OP_KIND_COMMIT:
	case SY_OP_KIND_INFO:
	case SY_OP_KIND_STATS:
	default:
		return SY_E_TRANSFER_FAILED;
	}
}

/* A put wraps what it cannot name better in TransferFailed. */
static sy_status protocol_verdict(enum sy_op_kind kind)
{
	bool put = kind == SY_OP_KIND_PUT || kind == SY_OP_KIND_PUT_INLINE ||
	           kind == SY_OP_KIND_COMMIT;
	return put ? SY_E_TRANSFER_FAILED : SY_E_PROTOCOL;
}

bool sy_op_reaches(const struct sy_machine_op *op, uint64_t incarnation)
{
	return incarnation != 0 && (incarnation == op->incarnation || SY_MUTANT(60));
}

bool sy_op_outlives_unit(const struct sy_machine_op *op)
{
	return op->kind != SY_OP_KIND_COMMIT && op->kind != SY_OP_KIND_PIN_CHECK && !op->in_flight &&
	       (op->kind != SY_OP_KIND_SCAN || op->scan.cursor == 0);
}

enum sy_read_verdict sy_read_verdict(const struct sy_machine_op *resolve, uint64_t ended_ns)
{
	if (SY_MUTANT(53) || ended_ns - resolve->sent_ns <= resolve->pin_ns / 2)
		return SY_READ_GOOD;
	return SY_READ_ASK;
}

bool sy_read_stood(const struct sy_machine_op *resolve, const struct sy_machine_op *check)
{
	return check->end == SY_OP_END_OK && check->incarnation == resolve->incarnation &&
	       check->reply.held_count == 1 && (check->reply.held[0] != 0 || SY_MUTANT(59));
}

sy_status sy_verdict(enum sy_op_kind kind, enum sy_op_end end, enum sy_directory_says says)
{
	if (SY_MUTANT(24) && end == SY_OP_END_TIMEOUT && says == SY_DIRECTORY_ALIVE)
		says = SY_DIRECTORY_DEAD;
	if (SY_MUTANT(25) && end == SY_OP_END_SESSION && says == SY_DIRECTORY_ALIVE)
		says = SY_DIRECTORY_DEAD;
	bool dead = says == SY_DIRECTORY_DEAD;
	bool alive = says == SY_DIRECTORY_ALIVE;
	switch (end) {
	case SY_OP_END_OK:
		return SY_OK;
	case SY_OP_END_FULL: /* the unit itself said so */
		return SY_E_UNIT_FULL;
	case SY_OP_END_BUSY:
		return SY_E_BUSY;
	case SY_OP_END_CLOSED:
		return SY_E_INVALID;
	case SY_OP_END_TIMEOUT:
		return dead ? dead_verdict(kind) : SY_E_TIMEOUT;
	case SY_OP_END_PROTOCOL:
		return dead ? dead_verdict(kind) : protocol_verdict(kind);
	case SY_OP_END_LATE: /* it may have been dead when it said so */
		return dead ? dead_verdict(kind) : alive ? SY_OK : SY_E_TRANSFER_FAILED;
	case SY_OP_END_MISSING: /* a commit's outcome is no longer known: never lost */
	case SY_OP_END_SESSION:
	case SY_OP_END_WRITE:
	case SY_OP_END_NO_PATH:
	case SY_OP_END_NONE:
	default:
		return dead ? dead_verdict(kind) : SY_E_TRANSFER_FAILED;
	}
}
