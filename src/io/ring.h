/* Messages one way through shared memory: one writer, one reader, neither of which believes a
 * word of what the other could have scribbled there. Nothing blocks and nothing wakes anybody
 * (lane.h does).
 *
 *   positions count bytes since the start, modulo 2^32; position p lies at p modulo ring_bytes
 *   a part: u32 its bytes | LAST, u32 bytes of the whole message, the bytes, up to 8 aligned
 *   a message is one part, or several of which all but the last fill a quarter of the ring or more
 *
 * A part is seen only when all of it is there: the writer moves `head` over it last. So a writer
 * that dies half-way leaves a message that nobody ever sees. */
#ifndef SY_RING_H
#define SY_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	/* Room for the answer to 3,000 keys of 38 bytes: what goes in parts wakes both sides anew. */
	SY_RING_BYTES = 128 << 10,
	SY_RING_PART_HEAD_BYTES = 8,
	/* No part that goes on in another is shorter, so that a message has a bounded number. */
	SY_RING_PART_MIN_BYTES = SY_RING_BYTES / 4,
};

/* In shared memory: each side writes its own line and reads the other's. */
struct sy_ring_shared {
	_Alignas(64) uint32_t head;
	uint32_t stalled; /* the writer waits for room and is to be told of it */
	uint32_t cpu;     /* that the writer ran on */
	_Alignas(64) uint32_t tail;
	uint32_t attended; /* the reader looks by itself, and is not to be woken */
	_Alignas(64) uint8_t bytes[SY_RING_BYTES];
};

struct sy_ring_writer {
	struct sy_ring_shared *shared;
	uint32_t head; /* ours alone: what stands in `shared` is never read back */
};

enum sy_ring_wrote {
	SY_RING_DONE = 1, /* all of it is in the ring */
	SY_RING_STALLED,  /* the reader has to make room first; it will say so */
	SY_RING_MAD,      /* the reader's position is nonsense: no further use of this ring */
};

/* Writes what fits of message from *at on, and moves *at over it. */
enum sy_ring_wrote sy_ring_write(struct sy_ring_writer *writer, const uint8_t *message,
                                 size_t bytes, size_t *at);

/* Memory that the readers of one process may fill with unfinished and unsent messages. */
struct sy_ring_budget {
	uint64_t used_bytes, max_bytes;
};

struct sy_ring_reader {
	struct sy_ring_shared *shared;
	uint32_t tail;         /* ours alone */
	size_t message_max;    /* a longer one is nonsense */
	struct sy_ring_budget *budget;
	uint8_t *whole;        /* a message of several parts; NULL: none is under way */
	size_t whole_bytes, got_bytes, capacity;
	bool whole_lent;
	bool ends;             /* nothing beyond `end` is read */
	uint32_t end;
};

enum sy_ring_read {
	SY_RING_EMPTY = 1,
	SY_RING_MESSAGE,
	SY_RING_BROKEN, /* nonsense, or over the budget: no further use of this ring */
};

/* The next message, copied out: into `copy`, which has room for SY_RING_BYTES, or where it came in
 * parts into memory of the reader; valid until the next call. *ret_writer_waits: room was made
 * for a writer that wants to hear of it. */
enum sy_ring_read sy_ring_read(struct sy_ring_reader *reader, uint8_t *copy,
                               const uint8_t **ret_message, size_t *ret_bytes,
                               bool *ret_writer_waits);
/* What is written from now on is not read. */
void sy_ring_end(struct sy_ring_reader *reader);
/* Frees what the reader holds; it may not be used any more. */
void sy_ring_reader_done(struct sy_ring_reader *reader);
/* Whether anything is there to be read, nonsense included. */
bool sy_ring_ready(const struct sy_ring_reader *reader);

/* Whether the reader says that it looks by itself. Who stops saying so looks once more: what was
 * written while it stood has woken nobody. Asked after a write. */
void sy_ring_attend(struct sy_ring_reader *reader, bool attend);
bool sy_ring_is_attended(const struct sy_ring_writer *writer);
/* Where its writer ran when it wrote last. */
uint32_t sy_ring_writer_cpu(const struct sy_ring_reader *reader);

#endif
