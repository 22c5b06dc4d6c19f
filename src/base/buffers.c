#include "buffers.h"

#include "bytes.h"
#include "guard.h"

#include <stddef.h>

static struct sy_buffer_list *list_of(struct sy_buffers *buffers, uint8_t state)
{
	switch ((enum sy_buffer_state)state) {
	case SY_BUFFER_FREE:
		return &buffers->free;
	case SY_BUFFER_USED:
		return &buffers->used;
	case SY_BUFFER_DROPPED:
		return &buffers->dropped;
	case SY_BUFFER_NONE:
	case SY_BUFFER_BURIED: /* its grave has it */
	default:
		return NULL;
	}
}

static void move(struct sy_buffers *buffers, struct sy_buffer *buffer, enum sy_buffer_state state)
{
	struct sy_buffer_list *from = list_of(buffers, buffer->state);
	struct sy_buffer_list *to = list_of(buffers, (uint8_t)state);

	if (from != NULL) {
		*(buffer->prev != NULL ? &buffer->prev->next : &from->head) = buffer->next;
		*(buffer->next != NULL ? &buffer->next->prev : &from->tail) = buffer->prev;
	}
	buffer->state = (uint8_t)state;
	buffer->prev = to != NULL ? to->tail : NULL;
	buffer->next = NULL;
	if (to == NULL)
		return;
	*(to->tail != NULL ? &to->tail->next : &to->head) = buffer;
	to->tail = buffer;
}

void sy_buffers_init(struct sy_buffers *buffers, const struct sy_buffers_config *config)
{
	SY_ASSERT(config->base_count > 0 && config->base_bytes > 0);
	*buffers = (struct sy_buffers){.config = *config};
}

/* Counts what stands in the pool: free, used, or being made. */
static void count(struct sy_buffers *buffers, bool base, uint64_t nbytes, bool more)
{
	if (base)
		buffers->base_count += more ? 1 : UINT32_MAX;
	else
		buffers->large_bytes += more ? nbytes : UINT64_MAX - nbytes + 1;
}

static enum sy_buffers_answer make(struct sy_buffers *buffers, bool base, uint64_t nbytes,
                                   uint64_t *ret_bytes)
{
	count(buffers, base, nbytes, true);
	buffers->making++;
	*ret_bytes = nbytes;
	return SY_BUFFERS_MAKE;
}

static struct sy_buffer *find_free(const struct sy_buffers *buffers, bool base, uint64_t nbytes)
{
	struct sy_buffer *best = NULL;

	for (struct sy_buffer *b = buffers->free.head; b != NULL; b = b->next) {
		if (b->base == base && b->nbytes >= nbytes && (best == NULL || b->nbytes < best->nbytes))
			best = b;
	}
	return best;
}

static void drop(struct sy_buffers *buffers, struct sy_buffer *buffer)
{
	count(buffers, buffer->base, buffer->nbytes, false);
	move(buffers, buffer, SY_BUFFER_DROPPED);
}

/* Of the larger ones the free one that was used longest ago. */
static bool drop_oldest(struct sy_buffers *buffers)
{
	struct sy_buffer *b = buffers->free.head;

	while (b != NULL && b->base)
		b = b->next;
	if (b != NULL)
		drop(buffers, b);
	return b != NULL;
}

/* Of larger ones that are used, or being made: what no drop makes room in. */
static uint64_t busy_large_bytes(const struct sy_buffers *buffers)
{
	uint64_t busy = buffers->large_bytes;

	for (const struct sy_buffer *b = buffers->free.head; b != NULL; b = b->next)
		busy -= b->base ? 0 : b->nbytes;
	return busy;
}

/* A power of two, so that few sizes serve all. 0: it has none. */
static uint64_t round_up(uint64_t nbytes)
{
	uint64_t rounded = 1;

	while (rounded < nbytes && rounded != 0)
		rounded <<= 1;
	return rounded;
}

static enum sy_buffers_answer take_large(struct sy_buffers *buffers, uint64_t nbytes,
                                         uint64_t *ret_bytes)
{
	uint64_t rounded = round_up(nbytes), max_bytes = buffers->config.pool_max_bytes;

	if (rounded == 0 || rounded > max_bytes)
		return SY_BUFFERS_TOO_LARGE;
	/* None goes for nothing: others would have to be registered anew. */
	if (busy_large_bytes(buffers) > max_bytes - rounded)
		return SY_BUFFERS_WAIT;
	while (buffers->large_bytes > max_bytes - rounded && drop_oldest(buffers))
		continue;
	return make(buffers, false, rounded, ret_bytes);
}

enum sy_buffers_answer sy_buffers_take(struct sy_buffers *buffers, uint64_t nbytes,
                                       struct sy_buffer **ret_buffer, uint64_t *ret_bytes)
{
	bool base = nbytes <= buffers->config.base_bytes;

	if (buffers->poisoned)
		return SY_BUFFERS_FATAL;
	struct sy_buffer *found = find_free(buffers, base, nbytes);
	if (found != NULL) {
		move(buffers, found, SY_BUFFER_USED);
		*ret_buffer = found;
		return SY_BUFFERS_READY;
	}
	if (!base)
		return take_large(buffers, nbytes, ret_bytes);
	if (buffers->base_count < buffers->config.base_count)
		return make(buffers, true, buffers->config.base_bytes, ret_bytes);
	return SY_BUFFERS_WAIT;
}

void sy_buffers_made(struct sy_buffers *buffers, struct sy_buffer *buffer, uint64_t nbytes)
{
	SY_ASSERT(buffers->making > 0);
	buffers->making--;
	*buffer = (struct sy_buffer){.nbytes = nbytes, .base = nbytes <= buffers->config.base_bytes};
	move(buffers, buffer, SY_BUFFER_USED);
}

enum sy_buffers_answer sy_buffers_failed(struct sy_buffers *buffers, uint64_t nbytes)
{
	bool base = nbytes <= buffers->config.base_bytes;

	SY_ASSERT(buffers->making > 0);
	buffers->making--;
	count(buffers, base, nbytes, false);
	if (base)
		return buffers->base_count == 0 ? SY_BUFFERS_FATAL : SY_BUFFERS_WAIT;
	return buffers->large_bytes == 0 ? SY_BUFFERS_TOO_LARGE : SY_BUFFERS_WAIT;
}

/* A base buffer that comes back from a grave may find its place taken. */
static void come_back(struct sy_buffers *buffers, struct sy_buffer *buffer)
{
	bool room = buffer->base ? buffers->base_count < buffers->config.base_count
	                         : buffers->large_bytes + buffer->nbytes <=
	                                   buffers->config.pool_max_bytes;

	if (!SY_MUTANT(57))
		count(buffers, buffer->base, buffer->nbytes, true);
	move(buffers, buffer, SY_BUFFER_FREE);
	if (!room)
		drop(buffers, buffer);
}

void sy_buffers_give(struct sy_buffers *buffers, struct sy_buffer *buffer)
{
	SY_ASSERT(buffer->state == SY_BUFFER_USED);
	move(buffers, buffer, SY_BUFFER_FREE);
}

struct sy_buffer *sy_buffers_drop(struct sy_buffers *buffers)
{
	struct sy_buffer *buffer = buffers->dropped.head;

	if (buffer != NULL)
		move(buffers, buffer, SY_BUFFER_NONE);
	return buffer;
}

bool sy_buffers_bury(struct sy_buffers *buffers, struct sy_grave *grave)
{
	struct sy_buffer *buffer = grave->buffer;

	if (buffer != NULL && SY_MUTANT(52)) {
		sy_buffers_give(buffers, buffer);
	} else if (buffer != NULL) {
		SY_ASSERT(buffer->state == SY_BUFFER_USED);
		count(buffers, buffer->base, buffer->nbytes, false);
		move(buffers, buffer, SY_BUFFER_BURIED);
	}
	sy_holds_bury(&grave->holds);
	if (SY_MUTANT(62))
		sy_holds_end(&grave->holds);
	grave->buried = true;
	grave->flushed = false;
	grave->prev = NULL;
	grave->next = buffers->graves;
	if (grave->next != NULL)
		grave->next->prev = grave;
	buffers->graves = grave;
	buffers->grave_count++;
	buffers->buried_bytes += grave->nbytes;
	if (buffers->buried_bytes > buffers->config.graveyard_max_bytes && !SY_MUTANT(58))
		buffers->poisoned = true;
	return !buffers->poisoned;
}

bool sy_buffers_in_flight(const struct sy_grave *grave)
{
	return grave->write || (sy_holds_land(&grave->holds) && !SY_MUTANT(65));
}

/* Its memory is safe. */
static void release(struct sy_buffers *buffers, struct sy_grave *grave)
{
	buffers->buried_bytes -= grave->nbytes;
	grave->nbytes = 0;
	if (grave->buffer != NULL && grave->buffer->state == SY_BUFFER_BURIED)
		come_back(buffers, grave->buffer);
	grave->buffer = NULL;
	if (!SY_MUTANT(63))
		sy_holds_end(&grave->holds);
}

static void take_out(struct sy_buffers *buffers, struct sy_grave *grave)
{
	release(buffers, grave);
	*(grave->prev != NULL ? &grave->prev->next : &buffers->graves) = grave->next;
	if (grave->next != NULL)
		grave->next->prev = grave->prev;
	grave->buried = false;
	buffers->grave_count--;
}

bool sy_buffers_ended(struct sy_buffers *buffers, struct sy_grave *grave,
                      enum sy_transfer_end end, bool *ret_drained)
{
	bool named = grave->write && grave->name.session != 0;
	bool done = end == SY_TRANSFER_DONE || end == SY_TRANSFER_FENCED ||
	            (SY_MUTANT(50) && end == SY_TRANSFER_CANCELED) ||
	            (SY_MUTANT(51) && end == SY_TRANSFER_FLUSHED);

	SY_ASSERT(grave->buried);
	SY_ASSERT((end != SY_TRANSFER_FENCED && end != SY_TRANSFER_LEFT) || grave->flushed);
	if (end == SY_TRANSFER_FLUSHED) {
		grave->flushed = true;
		release(buffers, grave);
	}
	if (!done && end != SY_TRANSFER_LEFT && (end != SY_TRANSFER_FLUSHED || named))
		return false;
	take_out(buffers, grave);
	*ret_drained = named && done;
	return true;
}

/* Base buffers and bytes of larger ones on a list. */
static void add_up(const struct sy_buffer_list *list, uint8_t state, uint32_t *base_count,
                   uint64_t *large_bytes, bool *ret_right)
{
	for (const struct sy_buffer *b = list->head; b != NULL; b = b->next) {
		*ret_right = *ret_right && b->state == state;
		if (b->base)
			++*base_count;
		else
			*large_bytes += b->nbytes;
	}
}

const char *sy_buffers_audit(const struct sy_buffers *buffers)
{
	uint32_t base_count = 0, grave_count = 0;
	uint64_t large_bytes = 0, buried_bytes = 0;
	bool right = true;

	add_up(&buffers->free, SY_BUFFER_FREE, &base_count, &large_bytes, &right);
	add_up(&buffers->used, SY_BUFFER_USED, &base_count, &large_bytes, &right);
	for (const struct sy_grave *g = buffers->graves; g != NULL; g = g->next) {
		grave_count++;
		buried_bytes += g->nbytes;
		right = right && g->buried;
	}
	if (!right)
		return "a buffer or grave stands on a list that is not of its state";
	if (buffers->making == 0 &&
	    (base_count != buffers->base_count || large_bytes != buffers->large_bytes))
		return "the pool's buffers do not add up";
	if (base_count > buffers->config.base_count || large_bytes > buffers->config.pool_max_bytes)
		return "the pool is larger than it may be";
	if (grave_count != buffers->grave_count || buried_bytes != buffers->buried_bytes)
		return "the graveyard does not add up";
	if (buried_bytes > buffers->config.graveyard_max_bytes && !buffers->poisoned)
		return "the graveyard is past its bound, and nobody said so";
	return NULL;
}
