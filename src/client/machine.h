/* The client's protocol logic for one unit, as a pure state machine: slots, retries, deadlines,
 * notices, sessions. No clock, thread, socket or transfer inside: the library (link.c) and the
 * simulator are its shells.
 *
 * A shell starts operations, feeds in messages, connections and the time, and after every call
 * takes effects with sy_machine_next until there is none. One call at a time (the shell locks).
 *
 *   op PUT         queued -> alloc -> WRITE (the shell copies) -> commit -> done
 *                  WRITE -> commit -> done      (into a region that an earlier commit was granted)
 *   op PUT_INLINE  queued -> put_inline -> done
 *   op COMMIT      queued -> commit -> done     (of a PUT whose commit came to no answer)
 *   op RESOLVE     queued -> resolve_keys -> done
 *   op RELEASE, PIN_CHECK, SCAN, INFO, STATS    queued -> request -> done
 */
#ifndef SY_MACHINE_H
#define SY_MACHINE_H

#include "message.h"

enum sy_op_kind {
	SY_OP_KIND_PUT = 1,
	SY_OP_KIND_PUT_INLINE,
	SY_OP_KIND_COMMIT,
	SY_OP_KIND_RESOLVE,
	SY_OP_KIND_RELEASE,
	SY_OP_KIND_PIN_CHECK,
	SY_OP_KIND_SCAN,
	SY_OP_KIND_INFO,
	SY_OP_KIND_STATS,
};

enum sy_op_stage {
	SY_OP_STAGE_IDLE = 0, /* not started, or done */
	SY_OP_STAGE_QUEUED,   /* waits for a session, a slot, or room for notices */
	SY_OP_STAGE_SENT,     /* a request is out */
	SY_OP_STAGE_WRITING,  /* the shell copies into the region */
	SY_OP_STAGE_BACKOFF,  /* Busy: 0.2 s doubling to 2.0 s; or pending: 0.01 s */
};

/* How an operation ended. */
enum sy_op_end {
	SY_OP_END_NONE = 0,
	SY_OP_END_OK,
	SY_OP_END_TIMEOUT,  /* its deadline came; `busy` says if the unit was Busy last */
	SY_OP_END_FULL,     /* outcome: resource, need, free, hole */
	SY_OP_END_MISSING,  /* the unit does not have the blob (commit) */
	SY_OP_END_PROTOCOL, /* the unit refused it: outcome.why and reason */
	SY_OP_END_SESSION,  /* its session ended under it; nothing was carried over */
	SY_OP_END_WRITE,    /* the WRITE failed */
	SY_OP_END_CLOSED,   /* the machine was closed */
	SY_OP_END_NO_PATH,  /* no transport reaches the slab */
	SY_OP_END_LATE,     /* RESOLVE: answered as for OK, yet so late that the unit may be dead
	                     * since: OK if the directory says that it lives, else to be unpinned */
	SY_OP_END_BUSY,     /* RESOLVE that gives way: the unit loads, and nothing is pinned */
};

/* One operation. The memory, and all that its fields point to, belongs to the caller and stays
 * put from sy_machine_start until the effect DONE. Zero it before the first use. */
struct sy_machine_op {
	/* asked */
	enum sy_op_kind kind;
	uint64_t deadline_ns;
	union {
		struct sy_alloc_args put;         /* until_ns is set by the machine */
		struct sy_put_inline_args put_inline;
		struct {
			sy_blob_id blob_id;
			uint64_t generation;
			uint64_t incarnation; /* another one: ends SESSION */
		} commit;
		struct sy_resolve_args resolve;
		struct sy_release_args release;
		struct sy_pin_check_args pin_check;
		struct sy_scan_args scan;
	};
	void *owner; /* the shell's */
	bool gives_way; /* RESOLVE: its caller holds other pins. What the unit must load it may have no
	                 * room for until they are given back: that ends the op, which does not wait */

	/* answered: valid at DONE (offset, generation, incarnation, name also at WRITE) */
	enum sy_op_end end;
	bool in_flight;      /* PUT: the WRITE was posted and not proved finished */
	bool unknown;        /* PUT, COMMIT, PUT_INLINE: it may have been published */
	bool was_busy;
	struct sy_outcome outcome;
	char reason[64];
	uint64_t incarnation;
	struct sy_request_id name; /* of the reservation (PUT) or the pin (RESOLVE that pinned) */
	uint64_t sent_ns, answered_ns; /* RESOLVE: when the request that was answered went out, and
	                                * when its reply came, for pins' age */
	uint64_t pin_ns;     /* RESOLVE: how long its pins last by themselves; UINT64_MAX: for ever, as
	                      * those of a session of the unit's own host */
	/* RESOLVE, PIN_CHECK, SCAN, INFO, STATS: the decoded reply; its arrays are copied into
	 * `result`, which the machine grows and the caller frees with sy_buf_free. */
	struct sy_reply reply;
	struct sy_buf result;

	/* the machine's own */
	enum sy_op_stage stage;
	uint8_t list;        /* where it is linked */
	bool reserved;       /* `name` is a reservation of ours, to be aborted if not published */
	bool pending;        /* the unit accepted it and answered "pending" */
	bool granted;        /* PUT: `name` is the commit that its region was granted to */
	bool tried_again;    /* UnitFull was answered once by giving grants back */
	uint64_t next_bytes; /* its commit asks for a grant of so many */
	bool over;           /* its WRITE is proved finished, which will be said to be in flight */
	uint8_t ending;      /* enum sy_op_end that awaits it at sy_machine_written */
	uint32_t slot;
	uint64_t seq;
	uint8_t request;      /* enum sy_op now under way */
	uint64_t wake_ns;     /* resend, backoff or deadline, whichever is next */
	uint64_t backoff_ns;
	struct sy_machine_op *prev, *next;
};

struct sy_machine_config {
	uint32_t unit_id, slot_count; /* N */
	struct sy_identity identity;
	struct sy_span ns; /* namespace; memory outlives the machine */
	uint64_t control_timeout_ns;
	uint64_t trust_ns; /* a resolve's answer that took longer ends LATE; 0: none does */
};

enum sy_machine_state {
	SY_MACHINE_DOWN = 0,  /* no connection: CONNECT was or will be asked for */
	SY_MACHINE_GREETING,  /* hello is out */
	SY_MACHINE_READY,
	SY_MACHINE_CLOSED,
};

enum sy_machine_effect_kind {
	SY_MACHINE_SEND = 1, /* send these bytes to the unit; they are valid until the next call */
	SY_MACHINE_WRITE,    /* copy op's data to op->outcome.offset, then sy_machine_written */
	SY_MACHINE_DONE,     /* op has ended */
	SY_MACHINE_CONNECT,  /* connect (anew), then sy_machine_connected or _disconnected */
};

struct sy_machine_effect {
	enum sy_machine_effect_kind kind;
	struct sy_machine_op *op;
	const uint8_t *message;
	size_t bytes;
	enum sy_op request; /* what SEND sends */
};

struct sy_machine;

/* Owned by the caller; NULL if memory is short. free(NULL) is a no-op. */
struct sy_machine *sy_machine_new(const struct sy_machine_config *config);
void sy_machine_free(struct sy_machine *machine);

/* Starts op; if the machine is closed or its deadline is past, DONE follows at once. */
void sy_machine_start(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns);
/* The WRITE of op ended. ok: it and a flush (or store fence) are done. in_flight: it may land
 * later; then, once it is proved finished, the shell calls sy_machine_drained (it may have done so
 * already). Past op's deadline the op ends TIMEOUT and never commits. */
void sy_machine_written(struct sy_machine *machine, struct sy_machine_op *op, bool ok,
                        bool in_flight, uint64_t now_ns);
/* Ends op early as TIMEOUT (queues abort or unpin as needed). An op in WRITING ends only at
 * sy_machine_written: its memory is in use till then. */
void sy_machine_cancel(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns);

/* Queues a notice; it rides on the next message, or on a heartbeat within half a heartbeat_ns, and
 * is repeated until the unit has executed it. One notice for each pin that was handed out, and
 * one drained for each op that ended in_flight. A name of session 0 (nothing pinned) is left
 * aside. */
void sy_machine_unpin(struct sy_machine *machine, struct sy_request_id name, uint64_t now_ns);
void sy_machine_drained(struct sy_machine *machine, struct sy_request_id name, uint64_t now_ns);
/* In place of drained, for an op of this incarnation that ended in_flight and whose session has
 * ended: nothing will prove any more that its WRITE is over, and the unit waits for its fence and
 * the grace. */
void sy_machine_never_drained(struct sy_machine *machine);

/* A connection stands. token: of the local socket, 0 for another host. incarnation: as the local
 * socket said, 0 if only hello will tell. */
void sy_machine_connected(struct sy_machine *machine, uint64_t token, uint64_t incarnation,
                          uint64_t now_ns);
/* It is gone, or could not be made: ops under way end SESSION (queued ones wait), and CONNECT is
 * asked for again after a backoff of 50 ms doubling to 1 s, while there is anything to do. */
void sy_machine_disconnected(struct sy_machine *machine, uint64_t now_ns);
/* A message came from the unit. The scratch is lent for the call and left as it was. Junk, late
 * and doubled replies change nothing. */
void sy_machine_receive(struct sy_machine *machine, const void *message, size_t bytes,
                        struct sy_scratch *scratch, uint64_t now_ns);
/* Time passed: to be called when sy_machine_deadline is due. */
void sy_machine_tick(struct sy_machine *machine, uint64_t now_ns);
/* Ends all ops (CLOSED; those in WRITING at sy_machine_written). Afterwards only notices still go
 * out, at once, and a remote session's heartbeats. */
void sy_machine_close(struct sy_machine *machine, uint64_t now_ns);

/* The next effect; false: there is none until the next call or sy_machine_deadline. */
bool sy_machine_next(struct sy_machine *machine, struct sy_machine_effect *ret_effect,
                     uint64_t now_ns);
/* Does it keep a region for the next put that the commit of this name was granted? */
bool sy_machine_has_grant(const struct sy_machine *machine, struct sy_request_id name);
/* When the next tick is due; UINT64_MAX: never. May be earlier than anything happens. */
uint64_t sy_machine_deadline(const struct sy_machine *machine);

/* CLOSED from sy_machine_close on; the link lives on behind it. */
enum sy_machine_state sy_machine_state(const struct sy_machine *machine);
uint64_t sy_machine_incarnation(const struct sy_machine *machine); /* 0: none yet */
uint64_t sy_machine_session(const struct sy_machine *machine);     /* 0: none now */
/* Of the last hello answered; all zero before. */
const struct sy_hello_result *sy_machine_hello(const struct sy_machine *machine);
/* Is a blob of this size better put whole in a message than by a WRITE? writes_fast: a WRITE is
 * done without a round trip. Of blobs that follow one another most have a grant then. */
bool sy_machine_puts_inline(const struct sy_machine *machine, uint64_t nbytes, bool writes_fast,
                            uint64_t now_ns);
/* Number of the last notice queued (it changes when a new session begins), and whether the unit
 * has executed all up to it. */
uint64_t sy_machine_last_notice(const struct sy_machine *machine);
bool sy_machine_notices_done(const struct sy_machine *machine);

/* What an operation's end means, given what the directory said about the incarnation it used
 * within the same operation. Nothing else may say lost (I9). */
enum sy_directory_says { SY_DIRECTORY_SILENT = 0, SY_DIRECTORY_ALIVE, SY_DIRECTORY_DEAD };

sy_status sy_verdict(enum sy_op_kind kind, enum sy_op_end end, enum sy_directory_says says);

/* May it start anew with the incarnation that came after the one it began with, which is dead? Of
 * what the new one holds that death says nothing, and what was put into the dead one is nowhere:
 * so all may, but what names something of the dead one (a grant, a pin, a place in a scan), or
 * still uses the caller's memory. */
bool sy_op_outlives_unit(const struct sy_machine_op *op);

/* Does a remote of this incarnation reach what op is about? A unit's new incarnation has other
 * regions under the same offsets: what was allocated or resolved before is not in them. */
bool sy_op_reaches(const struct sy_machine_op *op, uint64_t incarnation);

/* A READ under a resolve's pins has ended well. GOOD: the pin stood all the while, since it lasts
 * pin_ns from when the resolve ran and half of that is not over since it was sent. ASK:
 * only a pin_check tells, sent after the READ; then sy_read_stood, or the read is stale. */
enum sy_read_verdict { SY_READ_GOOD = 1, SY_READ_ASK };
enum sy_read_verdict sy_read_verdict(const struct sy_machine_op *resolve, uint64_t ended_ns);
/* `check` asked for the resolve's one name. */
bool sy_read_stood(const struct sy_machine_op *resolve, const struct sy_machine_op *check);

#endif
