/* Copies between private memory and a slab. */
#ifndef SY_COPY_H
#define SY_COPY_H

#include <stddef.h>

/* Copies n bytes, a part of `whole` bytes that are being copied; ranges do not overlap. Where the
 * whole is large it uses non-temporal stores, so a copy into a slab is finished for others only
 * after sy_copy_fence() in the same thread. */
void sy_copy(void *dst, const void *src, size_t n, size_t whole);
/* The same for a destination that is in the cache most likely, and is read from there next: a
 * large copy takes a third less time than by non-temporal stores. */
void sy_copy_near(void *dst, const void *src, size_t n, size_t whole);
void sy_copy_fence(void);

#endif
