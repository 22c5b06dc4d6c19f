/* Slots: each request runs once. */
#ifndef SY_SLOT_H
#define SY_SLOT_H

#include "session.h"

enum sy_verdict {
	SY_VERDICT_RUN,    /* new, or of an operation that may run again */
	SY_VERDICT_ANSWER, /* a resend: the stored outcome is its answer */
	SY_VERDICT_ATTACH, /* a resend of a waiting one: it will be answered where this came from */
	SY_VERDICT_DROP,   /* old, given up, or a resolve that ran */
};

/* What to do with a request of a live session, its slot number being below SY_SLOT_COUNT.
 * Changes nothing. */
enum sy_verdict sy_slot_judge(struct sy_core *core, const struct sy_session *session,
                              const struct sy_event_request *request);

/* True for operations that change nothing and may run again: heartbeat, info, ... */
bool sy_op_runs_again(enum sy_op op);

/* The slot moves on to this request; what it waited for is forgotten. */
void sy_slot_begin(struct sy_core *core, struct sy_session *session,
                   const struct sy_event_request *request);

/* A notice overtook `seq`: a request up to it never runs from now on. */
void sy_slot_give_up(struct sy_core *core, struct sy_session *session, uint32_t slot,
                     uint64_t seq);

/* Forgets what a WAITING slot waits for: a parked request is dropped; a release goes on, since
 * half of it may be done, and answers nobody. The slot is then GIVEN_UP. */
void sy_slot_forget(struct sy_core *core, struct sy_slot *slot);

/* Answers the request that a slot waits for: stores the outcome, replies, waits no more. */
void sy_slot_answer(struct sy_step *step, uint32_t session, uint32_t slot,
                    const struct sy_outcome *outcome);

#endif
