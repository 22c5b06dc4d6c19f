#include "keep.h"

#include <stdlib.h>
#include <string.h>

#include "guard.h"

bool sy_keep_init(struct sy_keep *keep, uint32_t capacity)
{
	*keep = (struct sy_keep){0};
	keep->items = calloc((size_t)capacity + 1, sizeof *keep->items);
	if (keep->items == NULL)
		return false;
	keep->capacity = capacity;
	for (uint32_t i = capacity; i > 0; i--) {
		keep->items[i].next = keep->free_head;
		keep->free_head = i;
	}
	return true;
}

void sy_keep_done(struct sy_keep *keep)
{
	if (keep->items != NULL) {
		for (uint32_t i = 1; i <= keep->capacity; i++)
			free(keep->items[i].data);
	}
	free(keep->items);
	free(keep->spare);
	*keep = (struct sy_keep){0};
}

uint32_t sy_keep_offer(struct sy_keep *keep, size_t bytes)
{
	if (keep->free_head == 0 || keep->bytes_total + bytes > SY_KEEP_BYTES_MAX)
		return 0;
	if (keep->spare_bytes < bytes || keep->spare == NULL) {
		uint8_t *grown = realloc(keep->spare, bytes + 1);
		if (grown == NULL)
			return 0;
		keep->spare = grown;
		keep->spare_bytes = bytes;
	}
	uint32_t handle = keep->free_head;
	keep->free_head = keep->items[handle].next;
	return handle;
}

void sy_keep_withdraw(struct sy_keep *keep, uint32_t handle)
{
	SY_ASSERT(keep->items[handle].data == NULL);
	keep->items[handle].next = keep->free_head;
	keep->free_head = handle;
}

void sy_keep_put(struct sy_keep *keep, uint32_t handle, const void *data, size_t bytes,
                 uint64_t route)
{
	SY_ASSERT(handle != 0 && handle <= keep->capacity && keep->spare_bytes >= bytes);
	struct sy_kept_message *item = &keep->items[handle];
	SY_ASSERT(item->data == NULL && keep->spare != NULL);
	memcpy(keep->spare, data, bytes);
	uint8_t *fitted = realloc(keep->spare, bytes + 1);
	item->data = fitted != NULL ? fitted : keep->spare;
	item->bytes = bytes;
	item->route = route;
	item->next = 0;
	item->queued = false;
	keep->bytes_total += bytes;
	keep->spare = NULL;
	keep->spare_bytes = 0;
}

static struct sy_kept_message *kept(const struct sy_keep *keep, uint32_t handle)
{
	SY_ASSERT(handle != 0 && handle <= keep->capacity && keep->items[handle].data != NULL);
	return &keep->items[handle];
}

const struct sy_kept_message *sy_keep_get(const struct sy_keep *keep, uint32_t handle)
{
	return kept(keep, handle);
}

/* The queue is as short as one step's REDO effects in all but rare moments. */
static void unqueue(struct sy_keep *keep, uint32_t handle)
{
	uint32_t before = 0, at = keep->queue_head;
	while (at != 0 && at != handle) {
		before = at;
		at = keep->items[at].next;
	}
	SY_ASSERT(at == handle);
	uint32_t after = keep->items[handle].next;
	if (before == 0)
		keep->queue_head = after;
	else
		keep->items[before].next = after;
	if (keep->queue_tail == handle)
		keep->queue_tail = before;
	keep->items[handle].queued = false;
}

void sy_keep_drop(struct sy_keep *keep, uint32_t handle)
{
	struct sy_kept_message *item = kept(keep, handle);
	if (item->queued)
		unqueue(keep, handle);
	keep->bytes_total -= item->bytes;
	free(item->data);
	item->data = NULL;
	item->next = keep->free_head;
	keep->free_head = handle;
}

void sy_keep_queue(struct sy_keep *keep, uint32_t handle)
{
	struct sy_kept_message *item = kept(keep, handle);
	SY_ASSERT(!item->queued);
	item->queued = true;
	item->next = 0;
	if (keep->queue_tail == 0)
		keep->queue_head = handle;
	else
		keep->items[keep->queue_tail].next = handle;
	keep->queue_tail = handle;
}

uint32_t sy_keep_next(struct sy_keep *keep)
{
	uint32_t handle = keep->queue_head;
	if (handle != 0)
		unqueue(keep, handle);
	return handle;
}
