/* Registered memory for transfers to other hosts, and transfers that were posted and never seen
 * done: the accounts, without memory, threads or clock. The shell registers memory and moves bytes
 * (a transport; the simulator has one of its own); here is decided which buffer a transfer gets,
 * which one must not be given out again, and when this process can move no more data.
 *
 *               take              give
 *   ready, FREE -----> USED ----------------> FREE, or DROPPED past the pool's bound
 *     ^                  | bury: not proved finished
 *     | made             v
 *   the shell         BURIED --- ended: DONE, FLUSHED ---> FREE or DROPPED
 *   registers
 *
 * What the end of a transfer proves:
 *
 *   | end      | memory is safe | unit is told |
 *   | DONE     | yes            | yes          | its own status and a flush after it were good
 *   | FAILED   | no             | no           | an error or a timeout prove nothing
 *   | CANCELED | no             | no           | nor does a forced close, which says so at once
 *   | FLUSHED  | yes            | no           | the worker was flushed after a forced close: this
 *   |          |                |              | side is over, what is under way may land
 *   | FENCED   | yes            | yes          | after FLUSHED: the unit closed its side, too, and
 *   |          |                |              | answered a later connection
 *   | LEFT     | yes            | no           | after FLUSHED: the session is replaced, or the
 *   |          |                |              | unit dead; its fence sees to the region
 *
 * A WRITE that is FLUSHED stays, without its memory, until it is FENCED or LEFT; a READ is out.
 * Memory is a buffer of the pool, or the caller's own (memories.h), or both.
 *
 * A lock of the shell's guards each object. Buffers and graves are the shell's own memory and are
 * linked in here; they must stay where they are until they are DROPPED, or out. */
#ifndef SY_BUFFERS_H
#define SY_BUFFERS_H

#include "memories.h"
#include "proto.h"

enum sy_buffer_state {
	SY_BUFFER_NONE = 0, /* not linked: the shell may free it */
	SY_BUFFER_FREE,
	SY_BUFFER_USED,
	SY_BUFFER_BURIED,
	SY_BUFFER_DROPPED,  /* to be taken out by sy_buffers_drop */
};

struct sy_buffer {
	uint64_t nbytes;
	bool base;          /* one of the base buffers, or what replaced one */
	uint8_t state;      /* enum sy_buffer_state */
	struct sy_buffer *prev, *next;
};

struct sy_buffer_list {
	struct sy_buffer *head, *tail; /* least recently used first */
};

/* A transfer that was left in flight. */
struct sy_grave {
	struct sy_buffer *buffer; /* retired with it; NULL: it had none */
	struct sy_holds holds;    /* on memory of the caller's own */
	uint64_t nbytes;          /* that were posted and not seen done */
	bool write;
	uint32_t unit_id;
	uint64_t incarnation;
	struct sy_request_id name; /* of a WRITE's reservation; session 0: none */
	bool buried, flushed;
	struct sy_grave *prev, *next;
};

struct sy_buffers_config {
	uint32_t base_count;          /* client_staging_buffers, at least 1 */
	uint64_t base_bytes;          /* client_staging_bytes */
	uint64_t pool_max_bytes;      /* of larger ones that are free or used */
	uint64_t graveyard_max_bytes; /* past it the process is poisoned */
};

struct sy_buffers {
	struct sy_buffers_config config;
	struct sy_buffer_list free, used, dropped;
	struct sy_grave *graves;
	uint32_t base_count;       /* base ones that are FREE or USED, and those being made */
	uint32_t making;           /* of both kinds: MAKE was said, made or failed not yet */
	uint64_t large_bytes;      /* larger ones, FREE, USED and being made */
	uint64_t buried_bytes;     /* of all graves */
	uint32_t grave_count;
	bool poisoned;
};

/* Nothing is registered yet: the first takes are answered MAKE. */
void sy_buffers_init(struct sy_buffers *buffers, const struct sy_buffers_config *config);

enum sy_buffers_answer {
	SY_BUFFERS_READY = 1, /* *ret_buffer is the caller's until it is given back or buried */
	SY_BUFFERS_MAKE,      /* register *ret_bytes, after all that sy_buffers_drop gives; then say
	                       * sy_buffers_made, or sy_buffers_failed */
	SY_BUFFERS_WAIT,      /* all are in use: ask again when one comes back */
	SY_BUFFERS_TOO_LARGE, /* no pool of this size ever holds so much: in smaller parts */
	SY_BUFFERS_FATAL,     /* poisoned, or no base buffer is left and none can be made */
};

enum sy_buffers_answer sy_buffers_take(struct sy_buffers *buffers, uint64_t nbytes,
                                       struct sy_buffer **ret_buffer, uint64_t *ret_bytes);
/* The memory is there: `buffer` is the caller's, USED. nbytes as MAKE said. */
void sy_buffers_made(struct sy_buffers *buffers, struct sy_buffer *buffer, uint64_t nbytes);
/* It could not be registered. WAIT: others may come back. FATAL or TOO_LARGE: none of its kind is
 * left. */
enum sy_buffers_answer sy_buffers_failed(struct sy_buffers *buffers, uint64_t nbytes);
/* Its transfer is proved finished, or was never posted. */
void sy_buffers_give(struct sy_buffers *buffers, struct sy_buffer *buffer);
/* The next one to deregister and free; NULL: none. After every give and end, before MAKE. */
struct sy_buffer *sy_buffers_drop(struct sy_buffers *buffers);

/* A posted transfer was given up. Its buffer is retired and another takes its place. `grave` is
 * filled in by the caller, but for its links. False: the graveyard is past its bound, and from now
 * on nothing is given out any more. */
bool sy_buffers_bury(struct sy_buffers *buffers, struct sy_grave *grave);

/* What its caller is told of one that was given up: may bytes land later, in the region of a WRITE
 * or in the caller's own memory? */
bool sy_buffers_in_flight(const struct sy_grave *grave);

enum sy_transfer_end {
	SY_TRANSFER_DONE = 1,
	SY_TRANSFER_FAILED,
	SY_TRANSFER_CANCELED,
	SY_TRANSFER_FLUSHED,
	SY_TRANSFER_FENCED,
	SY_TRANSFER_LEFT,
};

/* What became of a buried one. True: it is out, and *ret_drained says whether its unit is to be
 * told (sy_machine_drained; else sy_machine_never_drained). False: it stays. */
bool sy_buffers_ended(struct sy_buffers *buffers, struct sy_grave *grave,
                      enum sy_transfer_end end, bool *ret_drained);

/* Do the accounts agree with the lists? For tests and the simulator. NULL: yes; otherwise what is
 * wrong. */
const char *sy_buffers_audit(const struct sy_buffers *buffers);

#endif
