/* Control messages between a client and a unit of one host, through memory that both map: a ring
 * each way, and at each end a bounded queue of what has no room yet. Waking the other end is the
 * caller's: sy_lane tells when it is due. */
#ifndef SY_LANE_H
#define SY_LANE_H

#include <slabyard/status.h>

#include "ring.h"

struct sy_lane_shared {
	struct sy_ring_shared requests, replies;
};

struct sy_lane_message; /* one that waits */

struct sy_lane {
	struct sy_lane_shared *shared; /* NULL: no lane */
	struct sy_ring_writer out;
	struct sy_ring_reader in;
	struct sy_ring_budget *budget;
	struct sy_lane_message *first, *last;
	size_t first_at;      /* how much of the first is in the ring */
	uint64_t queued_bytes;
	bool due;             /* the other end is to be woken: something was written, or read that it
	                       * waits to hear of; cleared by who wakes it */
	bool broken;          /* nonsense was met, or too much waits: to be cut */
};

/* The client's end. The descriptor is the caller's, to be handed to the unit and closed. The
 * memory is not inherited over fork. The budget outlives the lane. SY_E_SYS. */
sy_status sy_lane_make(struct sy_ring_budget *budget, struct sy_lane *ret_lane, int *ret_fd,
                       sy_error *err);
/* The unit's end, of a descriptor that a client sent and that stays the caller's. False: it is
 * no such memory, or it could be taken away under us. */
bool sy_lane_map(int fd, struct sy_ring_budget *budget, struct sy_lane *ret_lane);
void sy_lane_done(struct sy_lane *lane);

/* Sends or queues a copy. False: the lane is broken, now or before (more waits than the queue
 * holds). */
bool sy_lane_send(struct sy_lane *lane, const void *message, size_t bytes);
/* Moves on what waits. False: broken. */
bool sy_lane_flush(struct sy_lane *lane);
/* The next message, borrowed until the next call; copy has room for SY_RING_BYTES. False: none
 * now, or broken. */
bool sy_lane_receive(struct sy_lane *lane, uint8_t *copy, const void **ret_message,
                     size_t *ret_bytes);

#endif
