/* Messages of parked requests: copies that stay until the core asks for them back.
 *
 * Bounded by a number of messages and by bytes. A handle is an index, never 0. Room for the
 * message at hand is got before the core decides, so that a KEEP never fails. */
#ifndef SY_KEEP_H
#define SY_KEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SY_KEEP_BYTES_MAX = 64 << 20 };

struct sy_kept_message {
	uint8_t *data; /* NULL: free */
	size_t bytes;
	uint64_t route;
	uint32_t next; /* free list, or queue of those to be given in again */
	bool queued;
};

struct sy_keep {
	struct sy_kept_message *items; /* 1 .. capacity */
	uint32_t capacity, free_head;
	uint32_t queue_head, queue_tail;
	uint64_t bytes_total;
	uint8_t *spare; /* room for the next one */
	size_t spare_bytes;
};

/* Room for `capacity` messages. False: memory is short, and nothing is owned. */
bool sy_keep_init(struct sy_keep *keep, uint32_t capacity);
void sy_keep_done(struct sy_keep *keep);

/* The handle that a message of this size would be kept under, with the memory for it at hand;
 * 0 if it cannot be kept: too many, too many bytes, or memory is short. */
uint32_t sy_keep_offer(struct sy_keep *keep, size_t bytes);
/* The offered handle was not needed. */
void sy_keep_withdraw(struct sy_keep *keep, uint32_t handle);
/* Keeps a copy under the handle offered last, which is the caller's till it drops it. */
void sy_keep_put(struct sy_keep *keep, uint32_t handle, const void *data, size_t bytes,
                 uint64_t route);
/* The message of a handle; valid until it is dropped. */
const struct sy_kept_message *sy_keep_get(const struct sy_keep *keep, uint32_t handle);
void sy_keep_drop(struct sy_keep *keep, uint32_t handle);

/* Messages to be given in again, in order. Dropping one takes it out, too. */
void sy_keep_queue(struct sy_keep *keep, uint32_t handle);
uint32_t sy_keep_next(struct sy_keep *keep); /* takes the first; 0: none */

#endif
