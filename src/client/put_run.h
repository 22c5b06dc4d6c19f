/* Puts of many blobs on many units: one blob a unit at a time, all units at once. */
#ifndef SY_PUT_RUN_H
#define SY_PUT_RUN_H

#include "hub.h"
#include "put_plan.h"

struct sy_put_terms {
	uint64_t deadline_ns;
	bool ssd;
	bool eager; /* small blobs may go whole in put_inline, whose outcome nobody can ask for */
};

/* Runs every plan, a unit's in the caller's order, and no unit's waits for another unit; then,
 * once, those that failed and may be tried again: never one whose commit came to no answer, for it
 * may be published. How each went is in the plans. */
void sy_puts_run(struct sy_hub *hub, struct sy_blob_plan *plans, size_t count,
                 const struct sy_put_terms *terms);

/* SY_OK if all are published; else the first of Fatal, Invalid, UnitFull, Timeout, and
 * TransferFailed that a plan ended with, copied to err without its lent array. */
sy_status sy_puts_verdict(const struct sy_blob_plan *plans, size_t count, sy_error *err);

#endif
