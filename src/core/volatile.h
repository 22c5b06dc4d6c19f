/* What a restart forgets: sessions with their slots, reservations, pins, parked requests, jobs.
 * Layouts only. Functions are in session.h, reserve.h, pin.h, park.h, job.h, tier.h. */
#ifndef SY_VOLATILE_H
#define SY_VOLATILE_H

#include "pool.h"
#include "proto.h"

/* The last request of a slot and what it came to. */
enum sy_slot_state {
	SY_SLOT_DONE = 0,   /* outcome holds the answer; seq 0: never used */
	SY_SLOT_WAITING,    /* parked or in a job; a resend attaches to it */
	SY_SLOT_GIVEN_UP,   /* a notice overtook it: no answer, never runs */
	SY_SLOT_ONCE,       /* a resolve: it ran, and is not answered again */
};

struct sy_slot {
	uint64_t seq;
	uint64_t route; /* where the newest copy of the request came from */
	uint8_t state;  /* enum sy_slot_state */
	uint32_t waiting; /* parked request, or job of a release, of a WAITING slot; 0: none */
	struct sy_outcome outcome; /* op: of the last request, whatever the state */
};

enum sy_session_state {
	SY_SESSION_FREE = 0,
	SY_SESSION_LIVE,
	SY_SESSION_ENDING, /* a cursor walks its reservations and pins */
	SY_SESSION_ENDED,  /* still owns pins or regions, or its process lives: notices count */
};

/* What the cursor of an ENDING session does with each thing it holds. */
enum sy_walk {
	SY_WALK_NONE = 0,
	SY_WALK_RETIRE, /* reservations become RETIRED, pins stay */
	SY_WALK_GRACE,  /* fenced: its RETIRED regions are free after a grace */
	SY_WALK_FREE,   /* all is given back */
};

/* Why it ended: decides what becomes of what it holds. */
enum sy_session_end {
	SY_END_NONE = 0,
	SY_END_BYE,      /* all was given back: nothing of it is in use */
	SY_END_SOCKET,   /* same host, its socket ended without bye: its process may still write */
	SY_END_PROCESS,  /* same host, its process is gone: nothing of it is in use */
	SY_END_EXPIRED,  /* other host, no heartbeat */
	SY_END_REPLACED, /* the same client said hello with a higher count */
};

struct sy_session {
	uint32_t free_next;
	uint8_t state, end;
	uint8_t walk;          /* enum sy_walk, of an ENDING session */
	bool local;
	bool socket_ended;     /* of its local connection: no hello comes over it any more */
	bool fence_asked, fenced; /* other host: SY_EFFECT_FENCE was said; FENCED was answered */
	uint16_t ns;
	uint64_t number;
	uint64_t token;      /* of the local connection; 0: other host */
	struct sy_identity identity;
	uint64_t connection_count;
	uint64_t notices_done; /* executed in order up to here */
	uint64_t bye_notice;   /* a bye that overtook notices: complete when notices_done reaches it */
	uint64_t heard_ns;     /* last message, for expiry */
	uint32_t number_next, identity_next, token_next; /* hash chains */
	struct sy_link order_link; /* remote sessions by heard_ns, oldest first */
	struct sy_link end_link;   /* sessions whose end is being worked on */
	uint32_t walk_left;    /* blobs its cursor has still to look at */
	struct sy_chain blobs; /* reservations and retired regions */
	struct sy_chain pins;
	struct sy_slot slots[SY_SLOT_COUNT];
};

/* A reader's hold on blobs, named by its resolve. */
struct sy_pin {
	uint32_t free_next;
	uint32_t session;   /* index; stays, ended or not, while the session owns a pin */
	uint32_t ref_head, ref_count;
	struct sy_request_id name;
	uint32_t name_next;
	struct sy_link session_link;
	struct sy_link expiry_link; /* remote pins, oldest first; loose ones */
	bool loose;                 /* given back; what it held is let go of step by step */
	uint64_t expires_ns;        /* 0: stands until given back or its process is gone */
};

struct sy_pin_ref {
	uint32_t next;
	uint32_t blob;
};

/* What a parked request waits for: those that wait for the same stand in a list of their own. */
enum sy_park_queue {
	SY_PARK_BYTES = 0, /* a put, for room in the slab alone */
	SY_PARK_TIER,      /* a put, for room that the disk tier may make */
	SY_PARK_ROOM,      /* a resolve, for room for a copy of what is on disk */
	SY_PARK_QUEUES,    /* those above need bytes, and are in a heap by them */
	SY_PARK_COPY = SY_PARK_QUEUES, /* a resolve, for one copy, which has the list */
	SY_PARK_WOKEN,     /* a resolve whose copy is read or gone */
	SY_PARK_NONE,      /* the same, and being redone */
};

/* Parked requests as a heap: an array u32[max_parked] in the arena, smallest first. */
struct sy_park_heap {
	uint64_t at;
	uint32_t count;
	bool by_time; /* by until_ns, else by need_bytes; of equals the one that came first */
};

/* A request held until the unit can serve it. The shell keeps its message. */
struct sy_parked {
	uint32_t free_next;
	uint32_t session, slot;
	uint64_t seq;
	uint64_t number;      /* in the order in which they came */
	uint64_t need_bytes;
	uint64_t until_ns;    /* answered Busy then */
	uint64_t message;     /* the shell's handle */
	uint32_t passed_more; /* smaller ones let through before it and not before the one behind it */
	uint8_t op;
	uint8_t queue;        /* enum sy_park_queue */
	bool redoing;         /* SY_EFFECT_REDO was said: its message is on its way back */
	uint32_t copy;        /* the LOADING copy that one in SY_PARK_COPY waits for */
	uint64_t rooms;       /* the tier's, when it began to wait */
	struct sy_link link;  /* puts or resolves, first in, first out */
	struct sy_link queue_link;
	uint32_t time_place, need_place; /* in its heaps, from 1 on */
};

/* A release under way. Its rows and fields are copied here, so that its message may go. */
struct sy_job {
	uint32_t free_next;
	uint32_t session, slot; /* session 0: its client moved on, nobody is answered */
	uint64_t seq;
	uint64_t accept_seq;   /* spares entries of blobs accepted after it */
	uint32_t row_count, row_at; /* cursor */
	uint32_t tries;        /* steps spent on this row: each may look at twice as many entries */
	uint32_t field_count;  /* 0: all fields */
	uint16_t ns;
	uint64_t cleared;
	struct sy_link link;
	/* rows u64[SY_ROWS_PER_RELEASE_MAX], fields u16[SY_FIELDS_PER_REQUEST_MAX] (each once) follow,
	 * in tables of their own by the job's index; it holds a reference to its namespace and to
	 * each of its fields */
};

/* A set of interned fields. */
struct sy_field_set {
	uint64_t words[65536 / 64];
};

/* In which of the tier's lists a blob stands. */
enum sy_tier_list {
	SY_TIER_NONE = 0,
	SY_TIER_COLD,   /* PUBLISHED, not pinned: the one read longest ago first */
	SY_TIER_STAGED, /* the same, but in staging: goes to disk first */
	SY_TIER_UNFIT,  /* either, but its record fits no hole of the disk, in the order they went */
	SY_TIER_WRITES, /* COMMITTING, its write not begun */
	SY_TIER_READS,  /* LOADING, its read not begun */
	SY_TIER_IDLE,   /* LOADING, read, not pinned: goes when its time is over */
	SY_TIER_LISTS,
};

/* What the tier knows of a blob, under the blob's index. */
struct sy_tiered {
	uint8_t list;         /* enum sy_tier_list */
	uint8_t tries;        /* of a read */
	bool running;         /* its own disk operation is with the shell */
	bool ready;           /* LOADING: its bytes are there */
	bool taken;           /* LOADING: somebody who waited for it has had it */
	uint8_t lost;         /* ON_SSD: an enum sy_found of a loss; its record cannot be read */
	uint32_t source;      /* LOADING: the blob it is a copy of; 0: that is gone */
	uint64_t source_at;   /* where in it */
	uint32_t reads;       /* of an ON_SSD one: since it was written */
	struct sy_link link;  /* of the list */
	struct sy_link copy_link;
	struct sy_chain copies; /* ON_SSD: its LOADING ones */
	struct sy_chain waiting; /* LOADING: resolves parked until it is read */
	uint64_t idle_until_ns;
	/* scratch of one resolve: what it asks of this blob */
	uint64_t asked;       /* the resolve's number */
	uint64_t from, to;
	uint32_t asked_next;
};

struct sy_tier {
	struct sy_pool blobs; /* struct sy_tiered; items are never taken or given */
	struct sy_chain lists[SY_TIER_LISTS];
	uint32_t writes_running, reads_running;
	uint32_t copy_count;     /* blobs that are copies: no part of what max_entries allows */
	uint64_t demoting_bytes; /* of the slab's own space, on their way out */
	uint64_t pause_until_ns; /* after a failed write */
	uint64_t resolves;       /* number of the last resolve that asked */
	uint32_t asked_head;
	uint32_t own_count;      /* scratch of one resolve: copies that it found ready */
	uint64_t rooms;          /* regions given back */
	bool draining;           /* above the high watermark, and not yet below the low one */
	uint32_t unfit_left;     /* UNFIT ones not looked at since a run of the disk came back */
	bool changed;            /* a copy is ready or gone, or room came back, since the last look */
	uint64_t demotions, promotions, loads, spills, written_bytes, read_bytes;
	uint64_t write_errors, read_errors, full_count, lost_blobs;
};

struct sy_volatile {
	struct sy_pool sessions, pins, pin_refs, parked, jobs;
	uint64_t number_buckets_at, identity_buckets_at, token_buckets_at;
	uint32_t session_bucket_count;
	uint64_t pin_name_buckets_at, blob_name_buckets_at;
	uint32_t pin_bucket_count, blob_name_bucket_count;
	uint64_t job_rows_at, job_fields_at;
	struct sy_chain remote_sessions; /* by heard_ns */
	struct sy_chain ending_sessions;
	struct sy_chain expiring_pins;   /* by expires_ns */
	struct sy_chain loose_pins;
	struct sy_chain graced_blobs;    /* RETIRED whose session is fenced, by timer_ns */
	struct sy_chain quarantined_blobs; /* by timer_ns */
	struct sy_chain parked_requests;
	struct sy_chain parked_loads; /* resolves that wait for the disk */
	struct sy_chain parked_queues[SY_PARK_QUEUES], woken_loads;
	struct sy_park_heap parked_needs[SY_PARK_QUEUES], parked_times; /* of all */
	uint64_t parked_number;   /* of the last one */
	uint32_t passed;          /* smaller ones let through before the first of parked_requests */
	uint32_t redoing_request; /* of parked_requests; 0: none */
	struct sy_chain dropped_requests; /* no longer parked, SY_EFFECT_DROP not yet said */
	struct sy_chain running_jobs;
	struct sy_tier tier;
	uint32_t reservation_count; /* blobs in all sessions' chains */
	uint64_t granted_bytes;     /* of those that are grants */
	/* Scratch of one step: fields as a set, and the fields of a resolve in its order. */
	struct sy_field_set field_set;
	uint16_t field_ids[SY_FIELDS_PER_REQUEST_MAX];
	uint64_t random[4]; /* struct sy_prng, for session numbers */
	uint64_t requests, dropped, puts, overwritten, resolved, cleared, protocol_errors;
	uint64_t granted_puts; /* those of the puts that were written to a grant */
	/* Of blobs that sessions of this host (shm) and of others (ucx) wrote into the slab
	 * themselves, and of values that they were told to read there. */
	uint64_t shm_put_bytes, shm_get_bytes, ucx_put_bytes, ucx_get_bytes;
};

#endif
