#include "park_heap.h"

#include "guard.h"
#include "park.h"

/* Places are counted from 1 on: the children of place i are 2i and 2i + 1. */
static uint32_t *item_at(struct sy_core *core, const struct sy_park_heap *heap, uint32_t place)
{
	return (uint32_t *)(void *)((char *)core + heap->at) + (place - 1);
}

static uint32_t *place_of(struct sy_core *core, const struct sy_park_heap *heap, uint32_t parked)
{
	struct sy_parked *p = sy_parked_at(core, parked);
	return heap->by_time ? &p->time_place : &p->need_place;
}

static bool comes_before(struct sy_core *core, const struct sy_park_heap *heap, uint32_t one,
                         uint32_t other)
{
	const struct sy_parked *a = sy_parked_at(core, one), *b = sy_parked_at(core, other);
	uint64_t x = heap->by_time ? a->until_ns : a->need_bytes;
	uint64_t y = heap->by_time ? b->until_ns : b->need_bytes;
	return x != y ? x < y : a->number < b->number;
}

static void set(struct sy_core *core, const struct sy_park_heap *heap, uint32_t place,
                uint32_t parked)
{
	*item_at(core, heap, place) = parked;
	*place_of(core, heap, parked) = place;
}

/* Puts the request in at this place or above it, where those on the way make room for it. */
static void rise(struct sy_core *core, const struct sy_park_heap *heap, uint32_t place,
                 uint32_t parked)
{
	for (; place > 1; place /= 2) {
		uint32_t above = *item_at(core, heap, place / 2);
		if (!comes_before(core, heap, parked, above))
			break;
		set(core, heap, place, above);
	}
	set(core, heap, place, parked);
}

/* The same at this place or below it. */
static void sink(struct sy_core *core, const struct sy_park_heap *heap, uint32_t place,
                 uint32_t parked)
{
	for (uint32_t below = 2 * place; below <= heap->count; place = below, below = 2 * place) {
		uint32_t child = *item_at(core, heap, below);
		if (below < heap->count &&
		    comes_before(core, heap, *item_at(core, heap, below + 1), child))
			child = *item_at(core, heap, ++below);
		if (!comes_before(core, heap, child, parked))
			break;
		set(core, heap, place, child);
	}
	set(core, heap, place, parked);
}

void sy_park_heap_add(struct sy_core *core, struct sy_park_heap *heap, uint32_t parked)
{
	SY_ASSERT(*place_of(core, heap, parked) == 0 &&
	          heap->count < core->volatiles.parked.capacity);
	rise(core, heap, ++heap->count, parked);
}

void sy_park_heap_remove(struct sy_core *core, struct sy_park_heap *heap, uint32_t parked)
{
	uint32_t place = *place_of(core, heap, parked), last = *item_at(core, heap, heap->count);
	SY_ASSERT(place != 0 && place <= heap->count && *item_at(core, heap, place) == parked);
	*place_of(core, heap, parked) = 0;
	heap->count--;
	if (last == parked)
		return;
	/* The last one takes the place: it belongs there, above it, or below it. */
	if (comes_before(core, heap, last, parked))
		rise(core, heap, place, last);
	else
		sink(core, heap, place, last);
}

bool sy_park_heap_right(struct sy_core *core, const struct sy_park_heap *heap)
{
	if (heap->count > core->volatiles.parked.capacity)
		return false;
	for (uint32_t place = 1; place <= heap->count; place++) {
		uint32_t parked = *item_at(core, heap, place);
		if (parked == 0 || parked > core->volatiles.parked.touched ||
		    *place_of(core, heap, parked) != place)
			return false;
		if (place > 1 && comes_before(core, heap, parked, *item_at(core, heap, place / 2)))
			return false;
	}
	return true;
}
