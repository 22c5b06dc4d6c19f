/* What serve.c, serve_decode.c and serve_reply.c share: the memory around a core.
 *
 * All of it is made once and used again for every message; a batch of messages allocates
 * nothing, but that buffers grow to the largest message seen and that a parked message is kept
 * as a copy. */
#ifndef SY_SERVE_STATE_H
#define SY_SERVE_STATE_H

#include "keep.h"
#include "serve.h"

/* A message on its way in: new, or a kept one under its handle. */
struct sy_serve_input {
	uint64_t route;
	const uint8_t *data;
	size_t bytes;
	uint32_t handle;
	bool redo;
};

/* The request that is being stepped, and what the core filled of its results. */
struct sy_serve_request {
	const struct sy_serve_input *input; /* NULL: no request is being stepped */
	uint32_t handle;
	bool offered; /* handle is free room for it */
	bool kept;
	struct sy_request wire;
	sy_index index;       /* of a commit or put_inline */
	uint32_t key_count;   /* of a resolve */
	uint32_t scan_count;
	uint64_t scan_cursor;
};

/* Filled anew for each message. The units of a thread share one: it is then at hand, where one for
 * each of many units would have left the caches since that unit's last message. */
struct sy_serve_room {
	struct sy_scratch scratch;

	/* a private copy of an index that is being checked */
	uint8_t *index_copy; /* 8-aligned */
	size_t index_capacity;
	sy_column *columns; /* SY_ENTRIES_PER_BLOB_MAX, as are marks */
	uint8_t *marks;

	/* lent to the core */
	struct sy_resolved resolved; /* SY_KEYS_PER_RESOLVE_MAX each */
	uint8_t *held;
	struct sy_scan_item *scan_items; /* SY_SCAN_LIMIT_MAX, as are scan_entries */
	struct sy_scan_entry *scan_entries;

	struct sy_buf reply, inline_bytes;

	struct sy_serve_request request;
	struct sy_effects effects;
	struct sy_disk_job disk_job; /* the one being handed out */
};

struct sy_serve {
	struct sy_core *core;
	struct sy_core_params params;
	uint8_t *slab;
	struct sy_serve_io io;
	struct sy_serve_room *room;
	struct sy_keep keep; /* parked messages */
	bool again;
	uint64_t unreadable_count, lost_reply_count;
};

/* Fills the core's event from a decoded request; copies and checks a blob's index where the core
 * would read it. False: the request can be answered without the core, with *ret_why. */
bool sy_serve_fill(struct sy_serve *serve, struct sy_event_request *ret_event,
                   enum sy_why *ret_why);

/* Encodes and sends the reply of a REPLY effect. `current`: it answers the room's request, whose
 * bulk results are in the lent memory. */
void sy_serve_answer(struct sy_serve *serve, const struct sy_effect *effect, bool current,
                     uint64_t now_ns);
/* The same for a request that never reached the core: fault Protocol. */
void sy_serve_refuse(struct sy_serve *serve, uint64_t route, struct sy_request_id id,
                     enum sy_op op, enum sy_why why, uint64_t now_ns);

#endif
