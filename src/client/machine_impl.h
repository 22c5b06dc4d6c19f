/* The inside of the client's protocol machine; only machine*.c include it.
 *
 * Where an op stands, and who moves it on:
 *
 *   start -> QUEUED -> SENT -> WRITE_DUE -> WRITING -> FIRST -> SENT -> DONE -> the caller
 *              ^        |  ^ resend after control_timeout, or Busy(fenced): same seq
 *              |        v
 *            FIRST <- BACKOFF   Busy, pending, a resolve without an answer: new seq
 *
 * A PUT that finds a grant goes from start to WRITE_DUE at once.
 *
 * An op holds a slot in SENT only, so that neither a long WRITE nor a Busy unit takes slots
 * from others. Ops that a request was already spent on (FIRST) go before new ones (QUEUED). */
#ifndef SY_MACHINE_IMPL_H
#define SY_MACHINE_IMPL_H

#include "guard.h"
#include "machine.h"
#include "mutants.h"

enum {
	/* The last slot is for heartbeats, so that notices go out while all others wait. */
	SY_MACHINE_OP_SLOTS = SY_SLOT_COUNT - 1,
	SY_MACHINE_BEAT_SLOT = SY_SLOT_COUNT - 1,
	/* Unacknowledged notices past which new puts and resolves wait. */
	SY_MACHINE_NOTICES_HIGH = SY_NOTICES_OPEN_MAX - 192,
	/* Free places in the ring for what the requests now out may come to: one notice each. */
	SY_MACHINE_NOTICES_SLACK = 2 * SY_SLOT_COUNT,
	SY_MACHINE_GRANTS_MAX = 4,
};

#define SY_MACHINE_BUSY_NS UINT64_C(200000000)
#define SY_MACHINE_BUSY_MAX_NS UINT64_C(2000000000)
#define SY_MACHINE_PENDING_NS UINT64_C(10000000)
#define SY_MACHINE_LINK_NS UINT64_C(50000000)
#define SY_MACHINE_LINK_MAX_NS UINT64_C(1000000000)
#define SY_MACHINE_BEAT_MIN_NS UINT64_C(1000000)

enum sy_machine_list {
	SY_MACHINE_LIST_NONE = 0,
	SY_MACHINE_LIST_FIRST,
	SY_MACHINE_LIST_QUEUED,
	SY_MACHINE_LIST_SENT,
	SY_MACHINE_LIST_BACKOFF,
	SY_MACHINE_LIST_WRITE_DUE, /* the effect WRITE is still to be taken */
	SY_MACHINE_LIST_WRITING,   /* the shell copies; ends only at sy_machine_written */
	SY_MACHINE_LIST_DONE,      /* the effect DONE is still to be taken */
	SY_MACHINE_LIST_COUNT
};

struct sy_machine_ops {
	struct sy_machine_op *head, *tail;
};

/* Notices not yet acknowledged, oldest first, in a ring. */
struct sy_machine_notices {
	struct sy_notice *ring;
	size_t capacity; /* a power of two */
	size_t head, count;
	size_t held;       /* notices that reservations and pins now held will need */
	uint64_t first;    /* number of ring[head] */
	uint64_t sent;     /* highest number that went out in this session */
	uint64_t giving_up; /* the newest that gives up a request which may be under way; 0: none */
	uint64_t due_ns;   /* a heartbeat goes out by then, if one waits */
};

/* A region of this session's for a put that is still to come. */
struct sy_machine_grant {
	struct sy_request_id name;
	uint64_t offset, generation, nbytes;
	uint64_t due_ns; /* it goes back then */
};

struct sy_machine {
	struct sy_machine_config config;
	enum sy_machine_state link; /* DOWN, GREETING or READY; closed is apart */
	bool closed, connecting, hello_due;
	uint64_t connection_count, token, link_incarnation;
	uint64_t session, last_session; /* session is 0 unless READY */
	uint64_t incarnation;
	struct sy_hello_result hello;
	uint64_t hello_wake_ns, hello_backoff_ns;
	uint64_t connect_ns, link_backoff_ns;
	uint64_t beat_ns; /* a remote session's next heartbeat */
	uint64_t stamp_unit_ns, stamp_here_ns; /* the newest unit_now_ns and when it was received */

	uint64_t free_slots, due_slots; /* bit masks: not in use; a message is to be sent */
	uint64_t slot_seq[SY_SLOT_COUNT]; /* last one used; grows over sessions too */
	struct sy_machine_op *slot_op[SY_SLOT_COUNT];

	struct sy_machine_ops lists[SY_MACHINE_LIST_COUNT];
	uint64_t timer_ns; /* no op's wake_ns is before it */

	struct sy_machine_grant grants[SY_MACHINE_GRANTS_MAX];
	uint32_t grant_count;
	uint64_t put_ns, put_bytes; /* when the last put began, and its size */
	uint64_t no_grant_ns; /* when a commit that asked for a grant was given none; 0: never */

	struct sy_machine_notices notices;
	struct sy_notice sending[SY_NOTICES_PER_MESSAGE];
	struct sy_buf out;
	enum sy_op out_op; /* what is in it */
};

static inline uint64_t sy_machine_after(uint64_t now_ns, uint64_t delay_ns)
{
	return delay_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + delay_ns;
}

static inline struct sy_request_id sy_machine_op_id(const struct sy_machine *machine,
                                                    const struct sy_machine_op *op)
{
	return (struct sy_request_id){.session = machine->session, .seq = op->seq, .slot = op->slot};
}

/* machine_op.c: an op's moves. */
void sy_machine_op_move(struct sy_machine *machine, struct sy_machine_op *op,
                        enum sy_machine_list list);
void sy_machine_op_wake_at(struct sy_machine *machine, struct sy_machine_op *op, uint64_t at_ns);
void sy_machine_op_queue(struct sy_machine *machine, struct sy_machine_op *op,
                         enum sy_machine_list list);
/* Puts a queued op into a free slot, under the slot's next seq. */
void sy_machine_op_admit(struct sy_machine *machine, struct sy_machine_op *op);
void sy_machine_op_backoff(struct sy_machine *machine, struct sy_machine_op *op,
                           uint64_t delay_ns, uint64_t now_ns);
/* The next wait after a Busy: 0.2 s doubling to 2.0 s. */
uint64_t sy_machine_op_busy_ns(struct sy_machine_op *op);
/* Queues what makes the unit forget the request that is out, whether it came, comes or never
 * does. */
void sy_machine_op_give_up(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns);
/* Ends it; a reservation that was not published is aborted. */
void sy_machine_op_finish(struct sy_machine *machine, struct sy_machine_op *op,
                          enum sy_op_end end, uint64_t now_ns);
/* Ends it early, in any stage but WRITING. */
void sy_machine_op_stop(struct sy_machine *machine, struct sy_machine_op *op,
                        enum sy_op_end end, uint64_t now_ns);

/* machine_notices.c */
bool sy_machine_notices_init(struct sy_machine_notices *notices);
/* Room for one notice more, beside those held and the slack. False if memory is short. */
bool sy_machine_notices_room(struct sy_machine_notices *notices);
/* Something now held will need a notice one day; and its end. */
bool sy_machine_notices_hold(struct sy_machine_notices *notices);
void sy_machine_notices_let_go(struct sy_machine_notices *notices);
void sy_machine_notices_queue(struct sy_machine *machine, struct sy_notice notice,
                              uint64_t now_ns);
/* The same, of one that gives up a request which may be under way and run later. */
void sy_machine_notices_give_up(struct sy_machine *machine, struct sy_notice notice,
                                uint64_t now_ns);
/* False: a message now would not bring all notices that give something up, so that a request
 * given up might run after the message's own (I4). */
bool sy_machine_notices_ride(const struct sy_machine_notices *notices);
/* Fills request's notices with the oldest ones. */
void sy_machine_notices_load(struct sy_machine *machine, struct sy_request *request,
                             uint64_t now_ns);
void sy_machine_notices_acknowledge(struct sy_machine *machine, uint64_t done, uint64_t now_ns);
/* A new session begins: numbers from 1. */
void sy_machine_notices_renumber(struct sy_machine *machine, bool keep, uint64_t now_ns);

/* machine_grant.c */
/* Notes that a PUT begins; true: it has a grant, and its WRITE is due. */
bool sy_machine_grant_take(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns);
/* A put of this size begins. */
void sy_machine_note_put(struct sy_machine *machine, uint64_t nbytes, uint64_t now_ns);
/* A commit that asked for one was answered without. */
void sy_machine_note_no_grant(struct sy_machine *machine, uint64_t now_ns);
/* A commit was answered with one. False, and nothing is changed: memory is short. */
bool sy_machine_grant_add(struct sy_machine *machine, const struct sy_machine_op *op,
                          const struct sy_reply *reply, uint64_t now_ns);
/* Gives all back: their session ended, or the room is wanted. */
void sy_machine_grants_return(struct sy_machine *machine, uint64_t now_ns);
/* Gives back those that lay idle. */
void sy_machine_grants_tick(struct sy_machine *machine, uint64_t now_ns);

/* machine_link.c */
void sy_machine_link_hello_reply(struct sy_machine *machine, const struct sy_reply *reply,
                                 uint64_t now_ns);
void sy_machine_link_no_session(struct sy_machine *machine, uint64_t now_ns);
/* Is there anything that needs a connection? */
bool sy_machine_link_needed(const struct sy_machine *machine);
uint64_t sy_machine_link_beat_at(const struct sy_machine *machine);
/* Takes the unit's clock from a reply. */
void sy_machine_link_stamp(struct sy_machine *machine, uint64_t unit_now_ns, uint64_t now_ns);

/* machine_send.c: encodes into machine->out. */
void sy_machine_send_hello(struct sy_machine *machine, uint64_t now_ns);
void sy_machine_send_beat(struct sy_machine *machine, uint64_t now_ns);
void sy_machine_send_op(struct sy_machine *machine, struct sy_machine_op *op, uint64_t now_ns);

/* machine_result.c: copies the reply and its arrays into op. False if memory is short. */
bool sy_machine_result_copy(struct sy_machine_op *op, const struct sy_reply *reply);
uint32_t sy_machine_result_count(const struct sy_machine_op *op);

#endif
