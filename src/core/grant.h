/* Grants: regions given before their put is known, which then needs no alloc. A commit may ask for
 * one; it is named by that commit, ALLOCATED and its session's, as what an alloc reserves, but has
 * no id and no entries before the commit of a put that was written to it names it. */
#ifndef SY_GRANT_H
#define SY_GRANT_H

#include "handle.h"
#include "table.h"

/* Was this commit's put written to a grant? */
bool sy_commit_is_granted(const struct sy_event_request *request);
/* The grant that this commit names, whatever state it is in; or 0. */
uint32_t sy_grant_find(struct sy_core *core, const struct sy_event_request *request);
/* May a put of nbytes have been written to it? */
bool sy_grant_holds(const struct sy_blob *grant, uint64_t nbytes);
/* A commit was published: gives what it asks for, if there is plenty, and says so in its
 * outcome. */
void sy_grant_next(struct sy_call *call);

#endif
