/* Heaps of parked requests: which one is due first, which one needs least. Each knows its place in
 * those that it is in, so that one goes, wherever it stands, without a search. */
#ifndef SY_PARK_HEAP_H
#define SY_PARK_HEAP_H

#include "arena.h"

void sy_park_heap_add(struct sy_core *core, struct sy_park_heap *heap, uint32_t parked);
void sy_park_heap_remove(struct sy_core *core, struct sy_park_heap *heap, uint32_t parked);
/* For the audit: are all in order, and where they think they are? */
bool sy_park_heap_right(struct sy_core *core, const struct sy_park_heap *heap);

/* 0: it is empty. */
static inline uint32_t sy_park_heap_first(const struct sy_core *core,
                                          const struct sy_park_heap *heap)
{
	return heap->count > 0 ? *(const uint32_t *)(const void *)((const char *)core + heap->at) : 0;
}

#endif
