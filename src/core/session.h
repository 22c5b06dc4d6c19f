/* Sessions: found by number, identity and token; their slots; their end.
 *
 *   (none) --hello--> LIVE --end--> ENDING --cursor done--> ENDED --owns nothing--> (none)
 *                                     ^                       |
 *                                     +--- fenced, bye, gone -+
 *
 * An ending session stands in volatiles.ending_sessions and sy_session_walk moves its cursor, a
 * bounded number of things a step. An ended one keeps its record while it owns pins or retired
 * regions; a local one also until its process is gone or said bye (a REPLACED one has nothing
 * to wait for), one of another host until its fence is answered. */
#ifndef SY_SESSION_H
#define SY_SESSION_H

#include "step.h"

static inline struct sy_session *sy_session_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.sessions, index);
}

/* The session of this number, live or ended, or 0. */
uint32_t sy_session_find(struct sy_core *core, uint64_t number);
/* The newest session of this identity, which has its highest connection count, or 0. */
uint32_t sy_session_newest(struct sy_core *core, const struct sy_identity *identity);
bool sy_identity_equal(const struct sy_identity *a, const struct sy_identity *b);

/* The sessions of a local connection, newest first: the first one, or 0; the next one, or 0. */
uint32_t sy_session_token_first(struct sy_core *core, uint64_t token);
uint32_t sy_session_token_next(struct sy_core *core, uint32_t session);

/* A live session of a valid hello. 0 and the resource that is short (SESSIONS, NAMESPACES). */
uint32_t sy_session_new(struct sy_core *core, const struct sy_event_request *hello,
                        uint64_t now_ns, enum sy_resource *ret_short);

/* A readable message came: a lease starts anew. */
void sy_session_heard(struct sy_core *core, uint32_t session, uint64_t now_ns);

/* Ends a live session, or tells an ended one that its process is gone or said bye. What its
 * slots wait for is dropped at once; the cursor does the rest. No effect on a session that
 * ended for the same or a stronger reason. */
void sy_session_end(struct sy_core *core, uint32_t session, enum sy_session_end end);

/* The writer of an ended session can write no more: its retired regions enter their grace. */
void sy_session_fenced(struct sy_core *core, uint32_t session);

/* Something the session owned is gone: if nothing is left and it ended, it is looked at again. */
void sy_session_settle(struct sy_core *core, uint32_t session);

/* Moves the cursors of ending sessions on by about `budget` things. */
void sy_session_walk(struct sy_step *step, uint32_t budget);

/* Gives the record back; the session ended and owns nothing. */
void sy_session_free(struct sy_core *core, uint32_t session);

#endif
