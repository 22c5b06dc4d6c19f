/* Reservations: blobs that are ALLOCATED, or RETIRED and not yet reusable. Each stands in its
 * session's chain and in the hash of names (the alloc that made it); one in its grace also in
 * the chain of timers. */
#ifndef SY_RESERVE_H
#define SY_RESERVE_H

#include "session.h"

/* Gives a blob just allocated to a session. */
void sy_reserve_add(struct sy_core *core, uint32_t blob, uint32_t session,
                    struct sy_request_id name);
/* The reservation of this name, or 0. */
uint32_t sy_reserve_find(struct sy_core *core, struct sy_request_id name);
/* Takes it out of all lists: it is published now, or about to be freed. */
void sy_reserve_remove(struct sy_core *core, uint32_t blob);
/* ALLOCATED becomes RETIRED; it stays with its session. */
void sy_reserve_retire(struct sy_core *core, uint32_t blob);
/* Nothing can write to it any more: ALLOCATED or RETIRED becomes FREE. */
void sy_reserve_free(struct sy_core *core, uint32_t blob);
/* RETIRED, its writer fenced: free at due_ns, which is no earlier than those given before. */
void sy_reserve_grace(struct sy_core *core, uint32_t blob, uint64_t due_ns);
/* Frees those whose grace is over, at most `budget`. */
void sy_reserve_expire(struct sy_core *core, uint64_t now_ns, uint32_t budget);

#endif
