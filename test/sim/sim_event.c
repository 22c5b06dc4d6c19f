/* The heap of events: by time, then by the order in which they were made. */
#include <stdlib.h>

#include "sim.h"

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(struct sim_event *a, struct sim_event *b)
{
	struct sim_event c = *a;
	*a = *b;
	*b = c;
}

void sim_events_push(struct sim_events *events, const struct sim_event *event)
{
	if (events->count == events->capacity) {
		events->capacity = events->capacity == 0 ? 16 : events->capacity * 2;
		events->items = realloc(events->items, events->capacity * sizeof *events->items);
		if (events->items == NULL)
			abort();
	}
	events->items[events->count++] = *event;
}

static void heap_push(struct sim_events *heap, const struct sim_event *event)
{
	sim_events_push(heap, event);
	for (size_t i = heap->count - 1; i > 0; i = (i - 1) / 2) {
		if (!before(&heap->items[i], &heap->items[(i - 1) / 2]))
			return;
		swap(&heap->items[i], &heap->items[(i - 1) / 2]);
	}
}

void sim_at(struct sim *sim, uint64_t delay_ns, struct sim_event event)
{
	event.at_ns = delay_ns > UINT64_MAX - sim->true_ns ? UINT64_MAX : sim->true_ns + delay_ns;
	event.order = sim->order++;
	heap_push(&sim->heap, &event);
}

bool sim_next(struct sim *sim, struct sim_event *ret_event)
{
	struct sim_events *heap = &sim->heap;
	if (heap->count == 0)
		return false;
	*ret_event = heap->items[0];
	heap->items[0] = heap->items[--heap->count];
	for (size_t i = 0;;) {
		size_t least = i;
		for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++) {
			if (child < heap->count && before(&heap->items[child], &heap->items[least]))
				least = child;
		}
		if (least == i)
			return true;
		swap(&heap->items[i], &heap->items[least]);
		i = least;
	}
}

void sim_events_free(struct sim_events *events)
{
	for (size_t i = 0; i < events->count; i++)
		free(events->items[i].bytes);
	free(events->items);
	*events = (struct sim_events){0};
}

void sim_events_release(struct sim *sim, struct sim_events *events)
{
	for (size_t i = 0; i < events->count; i++)
		sim_at(sim, 0, events->items[i]);
	events->count = 0;
}
