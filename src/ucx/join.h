/* What goes over a new connection before any byte of a slab does: one message each way.
 *
 * The client says which session of the unit it is, which of its lanes, and how often that lane has
 * connected. The unit answers with where its slab lies and the key to it, which nobody else gets;
 * so both know that the connection is whole, and only such a one may be closed by force.
 *
 * A later connection of a lane takes the place of the one before: that one is fenced before the
 * answer goes out, so that whoever has the answer knows that no write of the earlier one can land
 * any more. */
#ifndef SY_JOIN_H
#define SY_JOIN_H

#include <stdint.h>

enum { SY_JOIN_ASK_ID = 1, SY_JOIN_ANSWER_ID = 2 };
enum { SY_JOIN_LANES_MAX = 16, SY_JOIN_KEY_MAX_BYTES = 4096, SY_UCX_ADDRESS_BYTES = 64 };

static const uint64_t SY_JOIN_MAGIC = 0x31786375646a7973ull;

/* Both hosts are little-endian, as all that travels. */
struct sy_join_ask {
	uint64_t magic, session;
	uint32_t lane, number;
};

/* The packed key follows; without it the unit refuses, and the last four are 0. */
struct sy_join_answer {
	uint64_t magic, session;
	uint32_t lane, number;
	uint64_t base, slab_bytes, incarnation;
	uint64_t by_message; /* 1: bytes travel in messages, which the unit's thread carries out */
};

/* Over TCP, UCX emulates puts and gets by messages of its own, and ends the process of a target
 * that cannot answer one since its client has gone (1.13, `unexpected error`). So where TCP is
 * allowed the messages are ours, which end with their connection and nothing else:
 *
 *   WRITE    offset in the slab, and the bytes
 *   READ     tag, offset, nbytes      -> DATA     tag, and the bytes
 *   FLUSH    tag, nbytes: of all      -> FLUSHED  tag, once so many bytes have been written
 *            WRITEs of the connection */
enum {
	SY_MESSAGE_WRITE_ID = 3,
	SY_MESSAGE_READ_ID,
	SY_MESSAGE_FLUSH_ID,
	SY_MESSAGE_DATA_ID,
	SY_MESSAGE_FLUSHED_ID,
};
enum { SY_MESSAGE_PIECE_BYTES = 256 << 10, SY_MESSAGE_READS_MAX = 256 };

struct sy_message_head {
	uint64_t tag, offset, nbytes;
};

#endif
