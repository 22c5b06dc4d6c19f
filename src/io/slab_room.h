/* Whether a slab fits, said before it is tried, and where its memory should lie. */
#ifndef SY_SLAB_ROOM_H
#define SY_SLAB_ROOM_H

#include <slabyard/status.h>

/* SY_E_SYS with what is free and what to do, if dir, the host's memory or the limit of our
 * container cannot take a file of so many bytes. */
sy_status sy_slab_room_check(const char *dir, uint64_t bytes, sy_error *err);
/* The same words for a file in dir that did not fit after all. */
sy_status sy_slab_room_fail(const char *dir, uint64_t bytes, sy_error *err);

/* Asks for memory of one NUMA node: number `place` of those that have memory, modulo their
 * number. Nothing where there is only one. A wish, not a bond: on a node that is too small a
 * bond would have the kernel kill the unit, where a wish takes the rest from the next node. */
void sy_slab_place(void *data, uint64_t bytes, uint32_t place);

#endif
