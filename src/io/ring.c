#include "ring.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "guard.h"
#include "spin.h"

enum { LAST = 1u << 30, LOOKS_MAX = 4 };

static uint32_t padded(uint32_t bytes)
{
	return (bytes + 7) & ~7u;
}

static void copy_in(struct sy_ring_shared *shared, uint32_t at, const void *from, uint32_t bytes)
{
	uint32_t start = at % SY_RING_BYTES, first = SY_RING_BYTES - start;
	first = first < bytes ? first : bytes;
	memcpy(shared->bytes + start, from, first);
	memcpy(shared->bytes, (const uint8_t *)from + first, bytes - first);
}

static void copy_out(const struct sy_ring_shared *shared, uint32_t at, uint8_t *to, uint32_t bytes)
{
	uint32_t start = at % SY_RING_BYTES, first = SY_RING_BYTES - start;
	first = first < bytes ? first : bytes;
	memcpy(to, shared->bytes + start, first);
	memcpy(to + first, shared->bytes, bytes - first);
}

/* How much of the rest goes into so much room; 0: nothing yet. */
static uint32_t part_bytes(uint32_t room, size_t rest)
{
	const uint32_t least = SY_RING_PART_HEAD_BYTES + SY_RING_PART_MIN_BYTES;
	if (room > SY_RING_PART_HEAD_BYTES && rest <= room - SY_RING_PART_HEAD_BYTES)
		return (uint32_t)rest;
	return room >= least ? room - SY_RING_PART_HEAD_BYTES : 0;
}

enum sy_ring_wrote sy_ring_write(struct sy_ring_writer *writer, const uint8_t *message,
                                 size_t bytes, size_t *at)
{
	struct sy_ring_shared *shared = writer->shared;
	SY_ASSERT(bytes < LAST);
	/* A part is a quarter of the ring at least, but for the last: so many, and the looks after
	 * which a reader that makes room all the time is left to wake us. */
	for (uint32_t look = 0; *at < bytes;) {
		uint32_t tail = __atomic_load_n(&shared->tail, __ATOMIC_ACQUIRE);
		uint32_t used = writer->head - tail;
		if (used > SY_RING_BYTES || used % 8 != 0)
			return SY_RING_MAD;
		uint32_t part = part_bytes(SY_RING_BYTES - used, bytes - *at);
		if (part == 0) {
			if (look++ == LOOKS_MAX)
				return SY_RING_STALLED;
			/* Said first, looked at again then: the reader moves its tail and then looks. */
			__atomic_store_n(&shared->stalled, 1, __ATOMIC_SEQ_CST);
			if (__atomic_load_n(&shared->tail, __ATOMIC_SEQ_CST) == tail)
				return SY_RING_STALLED;
			continue;
		}
		const uint32_t head[2] = {part | (part == bytes - *at ? LAST : 0u), (uint32_t)bytes};
		copy_in(shared, writer->head, head, sizeof head);
		copy_in(shared, writer->head + SY_RING_PART_HEAD_BYTES, message + *at, part);
		writer->head += SY_RING_PART_HEAD_BYTES + padded(part);
		*at += part;
		__atomic_store_n(&shared->cpu, sy_spin_cpu(), __ATOMIC_RELAXED);
		__atomic_store_n(&shared->head, writer->head, __ATOMIC_RELEASE);
	}
	return SY_RING_DONE;
}

static void drop_whole(struct sy_ring_reader *reader)
{
	if (reader->whole != NULL)
		reader->budget->used_bytes -= reader->capacity;
	free(reader->whole);
	reader->whole = NULL;
	reader->capacity = reader->got_bytes = reader->whole_bytes = 0;
	reader->whole_lent = false;
}

void sy_ring_reader_done(struct sy_ring_reader *reader)
{
	drop_whole(reader);
}

/* Grows with what came, not with what is claimed to come. */
static bool make_room(struct sy_ring_reader *reader, uint32_t part)
{
	size_t need = reader->got_bytes + part, grown = reader->capacity * 2;
	if (need <= reader->capacity)
		return true;
	grown = sy_min_u64(sy_max_u64(grown, need), reader->whole_bytes);
	struct sy_ring_budget *budget = reader->budget;
	if (grown - reader->capacity > budget->max_bytes - budget->used_bytes)
		return false;
	uint8_t *whole = realloc(reader->whole, grown);
	if (whole == NULL)
		return false;
	budget->used_bytes += grown - reader->capacity;
	reader->whole = whole;
	reader->capacity = grown;
	return true;
}

struct part {
	uint32_t bytes, total_bytes;
	bool last;
};

/* Every number is read once, into our own memory, and believed only if it fits all others. */
static bool check_part(const struct sy_ring_reader *reader, uint32_t there, struct part *ret_part)
{
	uint32_t head[2];
	if (there > SY_RING_BYTES || there <= SY_RING_PART_HEAD_BYTES || there % 8 != 0)
		return false;
	copy_out(reader->shared, reader->tail, (uint8_t *)head, sizeof head);
	struct part part = {.bytes = head[0] & ~(uint32_t)LAST, .total_bytes = head[1],
	                    .last = (head[0] & LAST) != 0};
	if (part.bytes == 0 || part.bytes > there - SY_RING_PART_HEAD_BYTES ||
	    padded(part.bytes) > there - SY_RING_PART_HEAD_BYTES ||
	    part.total_bytes > reader->message_max)
		return false;
	if (reader->got_bytes != 0 && part.total_bytes != reader->whole_bytes)
		return false;
	if (part.bytes > part.total_bytes - reader->got_bytes ||
	    part.last != (part.bytes == part.total_bytes - reader->got_bytes) ||
	    (!part.last && part.bytes < SY_RING_PART_MIN_BYTES))
		return false;
	*ret_part = part;
	return true;
}

static bool move_tail(struct sy_ring_reader *reader, uint32_t bytes)
{
	struct sy_ring_shared *shared = reader->shared;
	reader->tail += SY_RING_PART_HEAD_BYTES + padded(bytes);
	__atomic_store_n(&shared->tail, reader->tail, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&shared->stalled, __ATOMIC_SEQ_CST) != 0 &&
	       __atomic_exchange_n(&shared->stalled, 0, __ATOMIC_SEQ_CST) != 0;
}

enum sy_ring_read sy_ring_read(struct sy_ring_reader *reader, uint8_t *copy,
                               const uint8_t **ret_message, size_t *ret_bytes,
                               bool *ret_writer_waits)
{
	struct part part;
	*ret_writer_waits = false;
	if (reader->whole_lent)
		drop_whole(reader);
	/* Ends at the message's end, which no more than message_max bytes lie before. */
	for (;;) {
		uint32_t head = reader->ends
		                        ? reader->end
		                        : __atomic_load_n(&reader->shared->head, __ATOMIC_ACQUIRE);
		uint32_t there = head - reader->tail;
		if (there == 0)
			return SY_RING_EMPTY;
		if (!check_part(reader, there, &part))
			return SY_RING_BROKEN;
		bool alone = part.last && reader->got_bytes == 0;
		reader->whole_bytes = part.total_bytes;
		if (!alone && !make_room(reader, part.bytes))
			return SY_RING_BROKEN;
		copy_out(reader->shared, reader->tail + SY_RING_PART_HEAD_BYTES,
		         alone ? copy : reader->whole + reader->got_bytes, part.bytes);
		reader->got_bytes += part.bytes;
		*ret_writer_waits |= move_tail(reader, part.bytes);
		if (!part.last)
			continue;
		*ret_message = alone ? copy : reader->whole;
		*ret_bytes = part.total_bytes;
		reader->whole_lent = true;
		return SY_RING_MESSAGE;
	}
}

void sy_ring_end(struct sy_ring_reader *reader)
{
	reader->end = __atomic_load_n(&reader->shared->head, __ATOMIC_ACQUIRE);
	reader->ends = true;
}

bool sy_ring_ready(const struct sy_ring_reader *reader)
{
	return __atomic_load_n(&reader->shared->head, __ATOMIC_SEQ_CST) != reader->tail;
}

void sy_ring_attend(struct sy_ring_reader *reader, bool attend)
{
	__atomic_store_n(&reader->shared->attended, attend ? 1u : 0u, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

bool sy_ring_is_attended(const struct sy_ring_writer *writer)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&writer->shared->attended, __ATOMIC_SEQ_CST) != 0;
}

uint32_t sy_ring_writer_cpu(const struct sy_ring_reader *reader)
{
	return __atomic_load_n(&reader->shared->cpu, __ATOMIC_RELAXED);
}
