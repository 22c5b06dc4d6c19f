/* What a restart forgets: sessions with their slots, pins, parked requests, jobs. Layouts
 * only. Functions are in session.h, pin.h, park.h, job.h. */
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
	uint32_t waiting; /* parked request or job of a WAITING slot */
	struct sy_outcome outcome;
};

enum sy_session_state {
	SY_SESSION_FREE = 0,
	SY_SESSION_LIVE,
	SY_SESSION_ENDING, /* a cursor walks its reservations and pins */
	SY_SESSION_ENDED,  /* still owns pins or retired regions, or its process lives; accepts notices */
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
	bool local, fenced;
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
	struct sy_link expiry_link; /* remote pins, oldest first */
	uint64_t expires_ns;        /* 0: stands until given back or its process is gone */
};

struct sy_pin_ref {
	uint32_t next;
	uint32_t blob;
};

/* A request held until the unit can serve it. The shell keeps its message. */
struct sy_parked {
	uint32_t free_next;
	uint32_t session, slot;
	uint64_t seq;
	uint64_t need_bytes;
	uint64_t until_ns;   /* answered Busy then */
	uint64_t message;    /* the shell's handle */
	uint32_t passed;     /* smaller ones let through before it; at most 16 */
	uint8_t op, busy;
	struct sy_link link; /* first in, first out */
};

/* A release under way. Its rows and fields are copied here, so that its message may go. */
struct sy_job {
	uint32_t free_next;
	uint32_t session, slot;
	uint64_t seq;
	uint64_t accept_seq;   /* spares entries of blobs accepted after it */
	uint32_t row_count, row_at; /* cursor */
	uint32_t entry_at;     /* a row with very many fields: next entry to look at */
	uint32_t field_count;  /* 0: all fields */
	uint16_t ns;
	uint64_t cleared;
	struct sy_link link;
	/* rows u64[SY_ROWS_PER_RELEASE_MAX], fields u16[SY_FIELDS_PER_REQUEST_MAX] follow, in
	 * tables of their own by the job's index */
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
	struct sy_chain graced_blobs;    /* RETIRED whose session is fenced, by timer_ns */
	struct sy_chain quarantined_blobs; /* by timer_ns */
	struct sy_chain parked_requests;
	struct sy_chain running_jobs;
	uint64_t random[4]; /* struct sy_prng, for session numbers */
	uint64_t requests, dropped, puts, overwritten, resolved, cleared, protocol_errors;
};

#endif
