/* When a unit falls silent of itself, because it cannot tell whether it still counts.
 *
 *   renewal sent      came to the directory        fence_ns         DEAD there
 *   ----|--------------------|-----------------------|-----------------|---->
 *       |<------------- fence_after ---------------->|                 |
 *                            |<------------ dead_after --------------->|
 *
 * Counted from the sending, so that however long a renewal or its answer was under way the unit
 * is silent before anybody is told that it is dead. Pure. One thread renews, another asks. */
#ifndef SY_LEASE_H
#define SY_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct sy_lease {
	uint64_t fence_after_ns;
	_Atomic uint64_t fence_ns; /* silent from this instant on; UINT64_MAX: never */
};

/* fence_after_ns 0: there are no leases. Begins with the register, an answered renewal. */
void sy_lease_init(struct sy_lease *lease, uint64_t fence_after_ns, uint64_t sent_ns,
                   uint64_t answered_ns);
/* A renewal was answered, and this incarnation is not dead. */
void sy_lease_renewed(struct sy_lease *lease, uint64_t sent_ns, uint64_t answered_ns);
/* To be asked right before each reply is sent. */
bool sy_lease_is_fenced(const struct sy_lease *lease, uint64_t now_ns);

#endif
