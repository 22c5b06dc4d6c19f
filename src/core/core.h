/* The unit as a pure state machine: events and the time in, effects out.
 *
 * No clock, thread, socket, file, allocation or log inside. The daemon (src/unit) and the
 * simulator (test/sim) are its shells. One event at a time, from one thread. */
#ifndef SY_CORE_H
#define SY_CORE_H

#include "arena.h"

/* Makes a core in `arena`: sy_core_arena_bytes(params) bytes, zeroed, 64-aligned, owned by the
 * caller for longer than the core; a core needs no undoing. NULL, and nothing written, if a
 * parameter is out of range. */
struct sy_core *sy_core_init(void *arena, const struct sy_core_params *params);

enum sy_event_kind {
	SY_EVENT_REQUEST = 1, /* a decoded message */
	SY_EVENT_TICK,        /* time passed: sent when sy_core_deadline is due */
	SY_EVENT_CONTINUE,    /* the last step said `again` */
	SY_EVENT_PEER_BYE,    /* a local connection said bye(last_notice) */
	SY_EVENT_PEER_EOF,    /* ... ended without it; its process may live on */
	SY_EVENT_PEER_GONE,   /* the process of a local connection is gone */
	SY_EVENT_FENCED,      /* a session's writer can write no more (after SY_EFFECT_FENCE) */
	SY_EVENT_STATE,       /* the operator drains the unit or makes it active again */
	SY_EVENT_STALLED,     /* the unit itself stood still for gap_ns: leases get it back */
	SY_EVENT_DISK,        /* a DISK_WRITE or DISK_READ came to its end, well or not */
};

/* The message the request came in, decoded. Spans and arrays point into memory of the shell
 * and are read during the step only. The message stays the shell's whatever becomes of it: it
 * may go when the step's effects are done, unless one of them was KEEP of it; a kept one stays
 * until REDO or DROP names it, and comes to one of the two.
 * What the shell itself cannot read is not an event: it answers or counts those. */
struct sy_event_request {
	struct sy_request_id id;
	enum sy_op op;
	uint64_t route;   /* opaque: comes back with the reply */
	uint64_t message; /* opaque handle of the message: comes back in KEEP, REDO and DROP. 0: the
	                   * shell has no room for it; Busy(queue_full) in place of parking */
	bool redo;        /* a kept message given back after SY_EFFECT_REDO */
	uint64_t first_notice; /* number of notices[0] */
	uint32_t notice_count;
	const struct sy_notice *notices;
	union {
		struct {
			uint32_t version, slot_count;
			struct sy_span ns; /* namespace */
			struct sy_identity identity;
			uint64_t connection_count;
			uint64_t token; /* 0: not over the local socket. The shell checked that it lives */
		} hello;
		struct {
			sy_blob_id blob_id;
			uint64_t nbytes, until_ns;
			uint32_t entry_count;
			bool ssd;
		} alloc;
		struct {
			sy_blob_id blob_id;
			uint64_t generation, until_ns;
			uint64_t next_bytes; /* asks for a grant of so many for the next put; 0: for none */
			struct sy_request_id grant; /* that the put was written to; session 0: to an alloc's */
			uint64_t nbytes;      /* of a put in a grant, as is entry_count */
			uint32_t entry_count;
			const sy_index *index; /* decoded and checked; NULL: not read, or not valid */
		} commit;
		struct {
			const sy_index *index; /* as above; blob_bytes are its size */
			uint64_t until_ns;
			bool ssd;
		} put_inline;
		struct {
			const uint64_t *rows;
			const struct sy_span *fields;
			const uint16_t *field_of; /* a key; NULL: every row times every field, row-major */
			uint32_t row_count, field_count, key_count;
			uint32_t inline_max_bytes;
			struct sy_resolved *out; /* lent: arrays of key_count; written if the reply is ok */
		} resolve;
		struct {
			const uint64_t *rows;
			const struct sy_span *fields; /* field_count 0 and all_fields: every field */
			uint32_t row_count, field_count;
			bool all_fields;
		} release;
		struct {
			const struct sy_request_id *names;
			uint32_t count;
			uint8_t *held; /* lent: 1 or 0 each */
		} pin_check;
		struct {
			uint64_t cursor; /* 0 at first */
			uint64_t first_row, last_row; /* inclusive */
			const struct sy_span *fields; /* field_count 0: every field */
			uint32_t field_count, limit;
			struct sy_scan_item *out; /* lent: `limit` items */
			uint32_t *ret_count;
			uint64_t *ret_cursor; /* 0: the end */
		} scan;
	};
};

/* One entry found by a scan; each visible entry that stands during the whole scan comes once. */
struct sy_scan_item {
	uint64_t row, nbytes, dim0;
	struct sy_span field; /* points into the arena; valid until the next step */
	const sy_shape *shape;
	uint8_t dtype, kind;
};

struct sy_event {
	enum sy_event_kind kind;
	union {
		struct sy_event_request request;
		struct {
			uint64_t token, last_notice;
		} peer;
		struct {
			uint64_t session;
		} fenced;
		struct {
			enum sy_unit_state state;
		} unit;
		struct {
			uint64_t gap_ns;
		} stalled;
		struct {
			uint32_t blob;  /* as the effect said, as is the grant */
			uint64_t grant;
			uint8_t result; /* enum sy_disk_result */
		} disk;
	};
};

enum sy_effect_kind {
	/* Answer request `id` over `route` with `outcome`. If its fault is NONE and its op is
	 * resolve_keys, pin_check or scan, it is the step's own request and its out arrays are
	 * written; inline values still lie in the slab at `offset` and are copied now. For
	 * heartbeat, outcome.count is the unit's state; what info and stats hold, the shell has. */
	SY_EFFECT_REPLY = 1,
	SY_EFFECT_STORE,     /* copy nbytes of put_inline's blob (of `message`) to `offset`, now */
	SY_EFFECT_KEEP,      /* keep `message`: the request is parked */
	SY_EFFECT_REDO,      /* once this step's effects are run, give the kept `message` in again
	                      * (event with redo, same handle); then forget it, unless that step says
	                      * KEEP */
	SY_EFFECT_DROP,      /* forget the kept `message` */
	SY_EFFECT_FENCE,     /* see to it that session `session` writes no more, then say FENCED */
	SY_EFFECT_PEER_DONE, /* nothing of local connection `token` is left: stop watching it */
	/* Write the record of `blob` (nbytes at `offset` of the slab) to `disk_at`, then say DISK with
	 * `blob` and `grant`. The slab's bytes do not change before, nor is the place given away. */
	SY_EFFECT_DISK_WRITE,
	/* Read nbytes from `skip` on of the blob whose record is at `disk_at` to `offset`, and check
	 * them: not ok unless they are what was written under this generation. */
	SY_EFFECT_DISK_READ,
};

struct sy_effect {
	enum sy_effect_kind kind;
	uint64_t route;
	struct sy_request_id id;
	struct sy_outcome outcome;
	uint64_t notices_done; /* of the session of a REPLY */
	uint64_t message, offset, nbytes, session, token;
	uint64_t disk_at, skip, grant, generation; /* of DISK_WRITE and DISK_READ, as all below */
	uint64_t record_nbytes; /* of the whole blob */
	uint32_t blob;
	sy_blob_id blob_id;
	struct sy_span ns; /* points into the arena; valid until the next step */
};

enum { SY_EFFECTS_MAX = 32 };

struct sy_effects {
	struct sy_effect items[SY_EFFECTS_MAX];
	uint32_t count;
	bool again; /* more is to come: step CONTINUE, other events may come between */
};

/* One step. The shell runs the effects in order before the next step; a REDO is the next step,
 * after the effects that follow it. now_ns never goes back. Never fails: what is wrong with a
 * request is in its reply. Work of a step is bounded by the limits of proto.h.
 *
 * What a reply hands out: the region of an alloc, and one that a commit grants for the next put,
 * is the client's to write until it commits it, aborts it, or its session ends; the blobs of a
 * resolve are held until its unpin, its expiry (other hosts) or the end of the client's process.
 * An outcome with a fault hands out nothing. */
void sy_core_step(struct sy_core *core, const struct sy_event *event, uint64_t now_ns,
                  struct sy_effects *ret_effects);

/* When the next TICK is due; UINT64_MAX: never. */
uint64_t sy_core_deadline(const struct sy_core *core);

/* For a commit, before its event: true if the core would read the blob's index now, and where
 * the blob lies. False: the request will not need it (old, resent, unknown, wrong generation). */
bool sy_core_commit_region(struct sy_core *core, const struct sy_event_request *request,
                           uint64_t *ret_offset, uint64_t *ret_nbytes);
/* For a put_inline, before its event: true if its index would be read (its seq is new). */
bool sy_core_wants_index(struct sy_core *core, const struct sy_event_request *request);

void sy_core_stats(struct sy_core *core, struct sy_unit_stats *ret_stats);

#endif
