/* Pins: a reader's hold on blobs, named by its resolve. A pinned region is never reused.
 *
 * A blob whose pin expired may still be read by a reader that does not know it yet, so it waits
 * read_pin_ns more (quarantine_until_ns) before its region is free. */
#ifndef SY_PIN_H
#define SY_PIN_H

#include "session.h"

static inline struct sy_pin *sy_pin_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.pins, index);
}

/* A pin that holds nothing yet; of a session of another host it expires read_pin_ns from now.
 * 0: the pool is used up. */
uint32_t sy_pin_new(struct sy_core *core, uint32_t session, struct sy_request_id name,
                    uint64_t now_ns);
/* Holds a blob, once however often it is taken. False: no reference is left. */
bool sy_pin_take(struct sy_core *core, uint32_t pin, uint32_t blob);
/* The pin of this name, or 0. */
uint32_t sy_pin_find(struct sy_core *core, struct sy_request_id name);
/* It is given back: it holds for nobody any more and does not expire, and sy_pin_work drops it. */
void sy_pin_loosen(struct sy_core *core, uint32_t pin);
/* Drops those that were given back, until *budget references are. A pin is dropped as a whole, and
 * holds no more than one resolve pins in its step. */
void sy_pin_work(struct sy_core *core, uint64_t now_ns, uint32_t *budget);
/* Lets go of all its blobs and gives it back. expired: nobody said so, the time ran out. */
void sy_pin_drop(struct sy_core *core, uint32_t pin, bool expired, uint64_t now_ns);
/* Drops those that are due, until about `budget` references are given back. */
void sy_pin_expire(struct sy_core *core, uint64_t now_ns, uint32_t budget);

#endif
