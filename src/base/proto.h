/* The vocabulary of the protocol: plain types that the wire turns into bytes and the cores of
 * both sides work with. Nothing here owns memory. */
#ifndef SY_PROTO_H
#define SY_PROTO_H

#include <slabyard/index.h>

#include "bytes.h"

enum {
	/* Goes up with every change of a message, or of the rings that both sides map: what does not
	 * fit is told at once. */
	SY_PROTOCOL_VERSION = 4,
	SY_SLOT_COUNT = 64,              /* requests a session may have outstanding */
	SY_NOTICES_OPEN_MAX = 4096,      /* unacknowledged notices of a session */
	SY_NOTICES_PER_MESSAGE = 256,
	SY_KEYS_PER_RESOLVE_MAX = 16384,
	SY_ROWS_PER_RELEASE_MAX = 16384,
	SY_FIELDS_PER_REQUEST_MAX = 16384,
	SY_ENTRIES_PER_BLOB_MAX = 16384,
	SY_NAMES_PER_PIN_CHECK_MAX = 1024,
	SY_SCAN_LIMIT_MAX = 2048, /* with names of 1,024 bytes a reply stays within its limit */
};

/* X(name, value, text) */
#define SY_OP_LIST(X) \
	X(SY_OP_HELLO, 1, "hello") \
	X(SY_OP_ALLOC, 2, "alloc") \
	X(SY_OP_COMMIT, 3, "commit") \
	X(SY_OP_PUT_INLINE, 4, "put_inline") \
	X(SY_OP_RESOLVE_KEYS, 5, "resolve_keys") \
	X(SY_OP_RELEASE_ROWS, 6, "release_rows") \
	X(SY_OP_PIN_CHECK, 7, "pin_check") \
	X(SY_OP_HEARTBEAT, 8, "heartbeat") \
	X(SY_OP_SCAN, 9, "scan") \
	X(SY_OP_INFO, 10, "info") \
	X(SY_OP_STATS, 11, "stats")

enum sy_op {
#define SY_OP_ENUM(name, value, text) name = value,
	SY_OP_LIST(SY_OP_ENUM)
#undef SY_OP_ENUM
};

/* 20 bytes on the wire. Names the request and, for an alloc, a commit or a resolve, the
 * reservation, the grant or the pin it made. */
struct sy_request_id {
	uint64_t session;
	uint64_t seq;
	uint32_t slot;
};

static inline bool sy_request_id_equal(struct sy_request_id a, struct sy_request_id b)
{
	return a.session == b.session && a.seq == b.seq && a.slot == b.slot;
}

/* A client (one opened library object of one process). The random number alone tells two apart;
 * the rest is for the watching of processes. */
struct sy_identity {
	uint8_t boot_id[16];
	uint64_t start_time; /* of the process, clock ticks since boot */
	uint64_t random;
	uint32_t pid;
};

enum sy_notice_kind { SY_NOTICE_ABORT = 1, SY_NOTICE_UNPIN = 2, SY_NOTICE_DRAINED = 3 };

struct sy_notice {
	enum sy_notice_kind kind;
	bool in_flight; /* of an abort: its WRITE may still land */
	struct sy_request_id name;
};

/* Kinds of error in a reply. X(name, value, text) */
#define SY_FAULT_LIST(X) \
	X(SY_FAULT_NONE, 0, "ok") \
	X(SY_FAULT_UNIT_FULL, 1, "UnitFull") \
	X(SY_FAULT_BUSY, 2, "Busy") \
	X(SY_FAULT_MISSING, 3, "Missing") \
	X(SY_FAULT_NO_SESSION, 4, "NoSession") \
	X(SY_FAULT_PROTOCOL, 5, "Protocol")

enum sy_fault {
#define SY_FAULT_ENUM(name, value, text) name = value,
	SY_FAULT_LIST(SY_FAULT_ENUM)
#undef SY_FAULT_ENUM
};

#define SY_BUSY_LIST(X) \
	X(SY_BUSY_NONE, 0, "") \
	X(SY_BUSY_STARTING, 1, "starting") \
	X(SY_BUSY_SPILLING, 2, "spilling") \
	X(SY_BUSY_LOADING, 3, "loading") \
	X(SY_BUSY_QUEUE_FULL, 4, "queue_full") \
	X(SY_BUSY_DRAINING, 5, "draining") \
	X(SY_BUSY_FENCED, 6, "fenced")

enum sy_busy {
#define SY_BUSY_ENUM(name, value, text) name = value,
	SY_BUSY_LIST(SY_BUSY_ENUM)
#undef SY_BUSY_ENUM
};

#define SY_RESOURCE_LIST(X) \
	X(SY_RESOURCE_NONE, 0, "") \
	X(SY_RESOURCE_BYTES, 1, "bytes") \
	X(SY_RESOURCE_BLOBS, 2, "blobs") \
	X(SY_RESOURCE_ENTRIES, 3, "entries") \
	X(SY_RESOURCE_FIELDS, 4, "fields") \
	X(SY_RESOURCE_SHAPES, 5, "shapes") \
	X(SY_RESOURCE_PINS, 6, "pins") \
	X(SY_RESOURCE_SESSIONS, 7, "sessions") \
	X(SY_RESOURCE_NAMESPACES, 8, "namespaces")

enum sy_resource {
#define SY_RESOURCE_ENUM(name, value, text) name = value,
	SY_RESOURCE_LIST(SY_RESOURCE_ENUM)
#undef SY_RESOURCE_ENUM
};

/* Why a request was a Protocol error (or a hello refused): static sentences. */
#define SY_WHY_LIST(X) \
	X(SY_WHY_NONE, 0, "") \
	X(SY_WHY_MALFORMED, 1, "the message cannot be read") \
	X(SY_WHY_VERSION, 2, "the unit speaks another protocol version") \
	X(SY_WHY_CLUSTER_SIZE, 3, "the unit belongs to a cluster of another size") \
	X(SY_WHY_NAMESPACE, 4, "the namespace is no valid name") \
	X(SY_WHY_SLOT, 5, "no such slot") \
	X(SY_WHY_BLOB_STATE, 6, "the blob is already allocated or held by another client") \
	X(SY_WHY_SIZE, 7, "the size or the number of entries is out of range") \
	X(SY_WHY_INDEX, 8, "the blob's index is not valid") \
	X(SY_WHY_ENTRY_COUNT, 9, "the blob's index holds another number of entries than allocated") \
	X(SY_WHY_BLOB_ID, 10, "the blob's index names another blob") \
	X(SY_WHY_TOO_LATE, 11, "the caller's deadline has passed") \
	X(SY_WHY_TOO_MANY, 12, "more keys, rows or names than the limit") \
	X(SY_WHY_NO_PATH, 13, "no transport of this unit reaches the client") \
	X(SY_WHY_TOKEN, 14, "the token is not of a live local connection")

enum sy_why {
#define SY_WHY_ENUM(name, value, text) name = value,
	SY_WHY_LIST(SY_WHY_ENUM)
#undef SY_WHY_ENUM
};

/* What alloc, commit or put_inline found or made. */
enum sy_answer { SY_ANSWER_REGION = 1, SY_ANSWER_PENDING = 2, SY_ANSWER_PUBLISHED = 3 };

/* What a request came to. The unit keeps the last one of each slot and answers a resend with
 * it; bulk results (of resolve, scan, pin_check, stats) are not part of it. */
struct sy_outcome {
	uint8_t op;       /* enum sy_op */
	uint8_t fault;    /* enum sy_fault; the fields below it are of that fault */
	uint8_t busy;     /* enum sy_busy */
	uint8_t resource; /* enum sy_resource */
	uint8_t why;      /* enum sy_why */
	uint8_t answer;   /* enum sy_answer, of alloc, commit, put_inline */
	uint64_t need, free, hole; /* of UnitFull */
	uint64_t offset, generation; /* of a region; of a commit: of the one it grants, 0: none */
	uint64_t count;   /* entries a release cleared; session number of a hello */
};

/* A unit as the directory and its clients see it. X(name, value, text) */
#define SY_UNIT_STATE_LIST(X) \
	X(SY_UNIT_NONE, 0, "none") \
	X(SY_UNIT_ACTIVE, 1, "active") \
	X(SY_UNIT_SUSPECT, 2, "suspect") \
	X(SY_UNIT_DRAINING, 3, "draining") \
	X(SY_UNIT_DEAD, 4, "dead")

enum sy_unit_state {
#define SY_UNIT_STATE_ENUM(name, value, text) name = value,
	SY_UNIT_STATE_LIST(SY_UNIT_STATE_ENUM)
#undef SY_UNIT_STATE_ENUM
};

/* Somebody is registered there who is not known to be dead. */
static inline bool sy_unit_lives(enum sy_unit_state state)
{
	return state != SY_UNIT_NONE && state != SY_UNIT_DEAD;
}

/* One key in the answer of resolve_keys. Of a lost one the disk tier had the only bytes and cannot
 * give them back: it is said so until it is put anew or cleared. X(name, value, why) */
#define SY_LOSS_LIST(X) \
	X(SY_FOUND_LOST_DAMAGED, 3, "what was read is not what was written") \
	X(SY_FOUND_LOST_UNREADABLE, 4, "its file cannot be read") \
	X(SY_FOUND_LOST_CUT, 5, "its file is gone or was cut off")

enum sy_found {
	SY_FOUND_ABSENT = 0,
	SY_FOUND_PINNED = 1,
	SY_FOUND_INLINE = 2,
#define SY_LOSS_ENUM(name, value, why) name = value,
	SY_LOSS_LIST(SY_LOSS_ENUM)
#undef SY_LOSS_ENUM
	SY_FOUND_COUNT
};

static inline bool sy_found_is_value(uint8_t found)
{
	return found == SY_FOUND_PINNED || found == SY_FOUND_INLINE;
}

static inline bool sy_found_is_lost(uint8_t found)
{
	return found >= SY_FOUND_LOST_DAMAGED && found < SY_FOUND_COUNT;
}

/* How a disk operation ended. */
enum sy_disk_result {
	SY_DISK_OK = 0,
	SY_DISK_FAILED,
	SY_DISK_FULL,    /* a write, for lack of room */
	SY_DISK_DAMAGED, /* a read: other bytes than were written */
	SY_DISK_CUT,     /* a read: there is no such place in a file any more */
};

/* What the keys of an answer come to. Its reader fills it, who has looked at each. */
struct sy_resolved_sum {
	uint32_t pinned_count, absent_count, lost_count;
	uint64_t pinned_bytes;
	uint64_t pinned_end;     /* no pinned value ends after this place of the slab */
	uint64_t inline_largest; /* bytes of a value */
};

/* The answer of resolve_keys, arrays in request order, lent by whoever asks. */
struct sy_resolved {
	uint8_t *found;       /* enum sy_found */
	uint8_t *dtype;
	uint8_t *kind;
	uint64_t *offset;     /* in the slab; of an inline value: in the inline bytes */
	uint64_t *nbytes;
	uint64_t *generation; /* of the blob's region */
	uint64_t *dim0;
	uint32_t *tail;       /* index into shapes */
	struct sy_shape *shapes; /* as many as keys; those used come first */
	uint32_t shape_count;
	struct sy_resolved_sum sum; /* of one that was read */
};

/* Bytes by state, of a unit; they sum to its capacity. X(field, text) */
#define SY_BYTES_LIST(X) \
	X(free, "free") \
	X(allocated, "allocated") \
	X(committing, "committing") \
	X(published, "published") \
	X(demoting, "demoting") \
	X(released, "released") \
	X(retired, "retired") \
	X(quarantined, "quarantined") \
	X(loading, "loading") \
	X(staging, "staging") \
	X(rounding, "rounding")

/* X(field, text): the other numbers of a unit. */
#define SY_COUNTS_LIST(X) \
	X(rows, "rows") \
	X(entries, "entries") \
	X(entries_capacity, "entries_capacity") \
	X(blobs, "blobs") \
	X(sessions, "sessions") \
	X(pins, "pins") \
	X(parked, "parked") \
	X(reservations, "reservations") \
	X(fields, "fields") \
	X(shapes, "shapes") \
	X(namespaces, "namespaces") \
	X(holes, "holes") \
	X(largest_hole, "largest_hole") \
	X(requests, "requests") \
	X(dropped, "dropped") \
	X(puts, "puts") \
	X(granted_puts, "granted_puts") \
	X(overwritten, "overwritten") \
	X(resolved, "resolved") \
	X(cleared, "cleared") \
	X(protocol_errors, "protocol_errors") \
	X(shm_put_bytes, "shm_put_bytes") \
	X(shm_get_bytes, "shm_get_bytes") \
	X(ucx_put_bytes, "ucx_put_bytes") \
	X(ucx_get_bytes, "ucx_get_bytes") \
	X(allow_tcp, "allow_tcp") \
	X(ssd_capacity, "ssd_capacity") \
	X(ssd_free, "ssd_free") \
	X(ssd_on_disk, "ssd_on_disk") \
	X(ssd_writing, "ssd_writing") \
	X(ssd_leaving, "ssd_leaving") \
	X(ssd_queued, "ssd_queued") \
	X(ssd_running, "ssd_running") \
	X(ssd_demotions, "ssd_demotions") \
	X(ssd_promotions, "ssd_promotions") \
	X(ssd_loads, "ssd_loads") \
	X(ssd_spills, "ssd_spills") \
	X(ssd_written_bytes, "ssd_written_bytes") \
	X(ssd_read_bytes, "ssd_read_bytes") \
	X(ssd_write_errors, "ssd_write_errors") \
	X(ssd_read_errors, "ssd_read_errors") \
	X(ssd_full, "ssd_full") \
	X(ssd_lost_blobs, "ssd_lost_blobs")

struct sy_unit_stats {
	uint64_t capacity_bytes;
	enum sy_unit_state state;
	struct {
#define SY_BYTES_FIELD(field, text) uint64_t field;
		SY_BYTES_LIST(SY_BYTES_FIELD)
#undef SY_BYTES_FIELD
	} bytes;
#define SY_COUNTS_FIELD(field, text) uint64_t field;
	SY_COUNTS_LIST(SY_COUNTS_FIELD)
#undef SY_COUNTS_FIELD
};

const char *sy_op_name(uint8_t op);           /* "unknown" for no such value, as all below */
const char *sy_fault_name(uint8_t fault);
const char *sy_busy_name(uint8_t busy);
const char *sy_resource_name(uint8_t resource);
const char *sy_why_text(uint8_t why);
const char *sy_unit_state_name(uint8_t state);

#endif
