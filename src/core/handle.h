/* Handlers of requests: one a table row, found by the operation. */
#ifndef SY_HANDLE_H
#define SY_HANDLE_H

#include "slot.h"

/* A request being run, of a live session, its slot begun. */
struct sy_call {
	struct sy_step *step;
	const struct sy_event_request *request;
	uint32_t session_index;
	struct sy_session *session;
	struct sy_outcome *outcome; /* zeroed but for op; a handler that does nothing says ok */
};

enum sy_run {
	SY_RUN_ANSWER, /* the outcome is the answer */
	SY_RUN_WAIT,   /* answered later; the slot waits */
};

enum sy_run sy_handle_alloc(struct sy_call *call);
enum sy_run sy_handle_commit(struct sy_call *call);
enum sy_run sy_handle_put_inline(struct sy_call *call);
enum sy_run sy_handle_resolve(struct sy_call *call);
enum sy_run sy_handle_release(struct sy_call *call);
enum sy_run sy_handle_pin_check(struct sy_call *call);
enum sy_run sy_handle_scan(struct sy_call *call);
enum sy_run sy_handle_heartbeat(struct sy_call *call);
enum sy_run sy_handle_nothing(struct sy_call *call); /* info, stats: the shell has the answer */

/* hello stands outside sessions and slots. */
void sy_handle_hello(struct sy_step *step, const struct sy_event_request *request);

/* Executes those notices of a message that are next in order. */
void sy_notices_run(struct sy_step *step, uint32_t session,
                    const struct sy_event_request *request);

/* Outcomes of failure; each returns SY_RUN_ANSWER. */
enum sy_run sy_refuse(struct sy_call *call, enum sy_why why);
enum sy_run sy_refuse_busy(struct sy_call *call, enum sy_busy busy);
enum sy_run sy_refuse_full(struct sy_call *call, enum sy_resource resource, uint64_t need,
                           uint64_t free);
/* UnitFull of bytes: free and the largest hole as they are now. */
enum sy_run sy_refuse_bytes(struct sy_call *call, uint64_t need);

/* Sets of fields. */
static inline void sy_field_set_add(struct sy_field_set *set, uint32_t field)
{
	set->words[field / 64] |= (uint64_t)1 << (field % 64);
}

static inline bool sy_field_set_has(const struct sy_field_set *set, uint32_t field)
{
	return (set->words[field / 64] >> (field % 64) & 1) != 0;
}

#endif
