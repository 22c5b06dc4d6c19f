/* The unit's side of UCX: its slab, registered, behind a listener that sessions connect to.
 *
 * A thread of its own accepts connections, answers joins (join.h) and fences; where TCP is
 * allowed it also moves the bytes. Its functions are called by one thread, the daemon's. */
#ifndef SY_UCX_TARGET_H
#define SY_UCX_TARGET_H

#include <stddef.h>

#include <slabyard/status.h>

struct sy_ucx_target;

/* SY_E_SYS: this process can use no UCX at all, and why. */
sy_status sy_ucx_is_there(sy_error *err);

struct sy_ucx_target_config {
	void *slab; /* outlives the target */
	uint64_t slab_bytes, incarnation;
	const char *host; /* to listen at: a numeric address of this host, of either family */
	bool allow_tcp;
};

/* SY_E_POLICY, SY_E_SYS. */
sy_status sy_ucx_target_open(const struct sy_ucx_target_config *config,
                             struct sy_ucx_target **ret_target, sy_error *err);
/* NULL is a no-op. */
void sy_ucx_target_close(struct sy_ucx_target *target);
/* Where clients connect to: "10.0.0.1:4791" or "[::1]:4791". Borrowed. */
const char *sy_ucx_target_address(const struct sy_ucx_target *target);

/* Connections of this session are let in from now on; also if they were before. host: the numeric
 * address that its hello came from; NULL: this host's. Hosts that were never named reach no TCP
 * port of UCX's connection manager. False: memory is short. */
bool sy_ucx_target_admit(struct sy_ucx_target *target, uint64_t session, const char *host);
/* Closes those it has, lets in no further one, and comes with the session in sy_ucx_target_next
 * when none of its puts can land any more. */
void sy_ucx_target_fence(struct sy_ucx_target *target, uint64_t session);
/* Readable while there is something to take. */
int sy_ucx_target_fd(const struct sy_ucx_target *target);
bool sy_ucx_target_next(struct sy_ucx_target *target, uint64_t *ret_session);

#endif
