/* Copies between private memory and a slab. */
#ifndef SY_COPY_H
#define SY_COPY_H

#include <stddef.h>

/* Copies n bytes, a part of `whole` bytes that are being copied; ranges do not overlap. Where the
 * whole is large, and the part not tiny, it uses non-temporal stores, so a copy into a slab is
 * finished for others only after sy_copy_fence() in the same thread. whole 0: the destination is
 * in the cache, and is read from there next, so that plain stores take a third less time. */
void sy_copy(void *dst, const void *src, size_t n, size_t whole);
void sy_copy_fence(void);

#endif
