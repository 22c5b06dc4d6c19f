/* What the files of the mover share.
 *
 *   mover --- lanes: a worker each, used by one thread at a time
 *               |--- conns: an endpoint to a peer each, of this lane
 *         --- pool: registered buffers, one a lane that moves; and graves, what was posted and
 *               not proved finished, by the accounts of buffers.h */
#ifndef SY_MOVER_STATE_H
#define SY_MOVER_STATE_H

#include <pthread.h>

#include "buffers.h"
#include "join.h"
#include "ucx_context.h"
#include "ucx_mover.h"

struct sy_ucx_peer {
	struct sy_ucx_mover *mover;
	uint32_t refs;  /* under the mover's lock: its owner's, and each conn's and grave's */
	bool gone;      /* its owner let go of it: the session has ended */
	char address[SY_UCX_ADDRESS_BYTES];
	uint64_t session, incarnation, slab_bytes;
	uint32_t next_number[SY_JOIN_LANES_MAX]; /* of its connections; each lane's own */
};

enum sy_mover_conn_state {
	SY_MOVER_CONN_ASKED,   /* made; the unit has not answered, so it is not closed by force */
	SY_MOVER_CONN_READY,
	SY_MOVER_CONN_CLOSING, /* by force: until its close and a flush of the worker are done */
};

struct sy_mover_conn {
	struct sy_mover_lane *lane;
	struct sy_ucx_peer *peer; /* one reference */
	enum sy_mover_conn_state state;
	bool broken;              /* UCX reported an error of it */
	ucs_status_t error;
	uint32_t number;
	ucp_ep_h ep;
	ucp_rkey_h key;           /* READY */
	uint64_t base;
	bool by_message;
	uint64_t written_bytes;   /* by messages */
	struct sy_join_ask ask;   /* sent from here */
	void *asking, *closing, *flushing; /* requests */
	uint64_t flush_began_ns;  /* 0: it has not */
	struct sy_mover_conn *next;
};

enum { SY_MOVER_OPS_MAX = 128 };

/* A lane's buffer is used in halves: one is filled or emptied while the other travels. */
struct sy_mover_op {
	void *request;
	uint64_t slab_offset, nbytes;
	uint8_t *local;   /* in the half, or in the caller's memory */
	ucp_mem_h memory; /* registered */
	/* by messages */
	struct sy_message_head head;
	uint64_t left; /* of a READ: bytes that have not come */
};

struct sy_mover_half {
	uint8_t *data;
	size_t room, used;
	uint64_t direct_bytes; /* of operations that go straight */
	uint32_t op_count;
	struct sy_mover_op ops[SY_MOVER_OPS_MAX];
	/* of a READ: where the bytes go, from this range and byte on */
	size_t range;
	uint64_t range_at;
};

/* Of the transfer that runs: registered memory of its caller's, as the mover has it registered. */
struct sy_mover_direct {
	struct sy_holds *holds;
	ucp_mem_h handles[SY_HOLDS_MAX]; /* NULL: it has not */
};

struct sy_mover_buffer {
	struct sy_buffer account; /* the first: the pool's */
	uint8_t *data;
	size_t bytes;
	ucp_mem_h memory;
};

/* A transfer that ended otherwise than well. */
struct sy_mover_grave {
	struct sy_grave account;  /* the first: the pool's */
	struct sy_ucx_peer *peer; /* one reference */
	uint32_t lane, number;    /* fenced when a later connection of the lane is answered */
	bool drained;             /* of one that is out */
	struct sy_mover_grave *next; /* of those that are out */
};

struct sy_mover_lane {
	struct sy_ucx_mover *mover;
	uint32_t index;
	bool made, busy;
	struct sy_mover_grave *grave; /* it is busy with one that was given up; NULL: it is not */
	ucp_worker_h worker;
	int fd;
	struct sy_mover_conn *conns;
	struct sy_mover_conn *connecting; /* its endpoint is being made */
	/* of the transfer that runs, or was given up */
	struct sy_mover_conn *conn;
	struct sy_mover_buffer *buffer; /* NULL: none, or it is in the grave */
	struct sy_mover_half halves[2];
	void *flush;
	/* by messages */
	struct sy_message_head flush_head;
	uint64_t last_tag, flushed_tag;
};

struct sy_ucx_mover {
	struct sy_ucx_mover_config config;
	uint64_t direct_max_bytes; /* of a half */
	struct sy_ucx_context context;

	pthread_mutex_t lock; /* of what follows; a busy lane is its user's */
	uint32_t refs;        /* its owner's and each peer's */
	bool closed;          /* no lane is left */
	pthread_cond_t freed;
	struct sy_mover_lane lanes[SY_JOIN_LANES_MAX];
	struct sy_buffers pool;
	struct sy_mover_grave *ended; /* WRITEs that are out of it, to be told */
	uint64_t written_bytes, read_bytes, direct_bytes;
	uint64_t register_count; /* atomic */
	bool no_large;           /* atomic: a larger buffer could not be registered */
	uint32_t first_polled;   /* lane of the next poll; of the one thread that polls */
};

static const uint64_t SY_MOVER_TCP_FLUSH_NS = 1000 * 1000 * 1000;

/* ucx_mover.c, lock held. */
void sy_mover_peer_unref(struct sy_ucx_peer *peer);
/* Frees what the pool has dropped. */
void sy_mover_buffers_drop(struct sy_ucx_mover *mover);
/* A free lane, best one that is connected to the peer, waited for until the instant. */
struct sy_mover_lane *sy_mover_lane_take(struct sy_ucx_mover *mover,
                                         const struct sy_ucx_peer *peer, uint64_t until_ns);
void sy_mover_lane_give(struct sy_mover_lane *lane);

/* Lock not held: makes what the lane lacks, a worker and, unless nothing is to go through it, a
 * buffer for so many bytes, by turns. SY_E_SYS; SY_E_FATAL: poisoned, or no buffer is left and
 * none can be made. */
sy_status sy_mover_lane_make(struct sy_mover_lane *lane, uint64_t copied_bytes, sy_error *err);
sy_status sy_mover_fail_poisoned(sy_error *err);
/* Lock not held. SY_E_SYS. */
sy_status sy_mover_register(struct sy_ucx_mover *mover, void *data, size_t bytes,
                            ucp_mem_h *ret_memory, sy_error *err);

/* mover_conn.c, by the lane's user. */
/* The conn to this peer, made if there is none; NULL and the error. */
struct sy_mover_conn *sy_mover_conn_get(struct sy_mover_lane *lane, struct sy_ucx_peer *peer,
                                        sy_error *err);
/* Closes connections that are broken, or of peers that are gone, and drops those that are closed.
 * It lets no callback run: what broke one can be read until it is called. */
void sy_mover_conns_step(struct sy_mover_lane *lane);
/* Closes a READY one by force. */
void sy_mover_conn_close(struct sy_mover_conn *conn);
/* Progresses, and sleeps until there may be more or the instant. */
void sy_mover_lane_wait(struct sy_mover_lane *lane, uint64_t until_ns);
ucs_status_t sy_mover_on_answer(void *lane, const void *header, size_t header_bytes, void *data,
                                size_t bytes, const ucp_am_recv_param_t *param);

/* mover_message.c: what is posted where bytes travel in messages. */
void sy_mover_handle_messages(struct sy_mover_lane *lane);
void sy_mover_message_post(struct sy_mover_conn *conn, struct sy_mover_op *op, bool write);
void sy_mover_message_flush(struct sy_mover_conn *conn);

/* mover_memory.c. Lock not held: holds what of the transfer's memory can be used directly.
 * SY_E_TRANSFER: some of it is in doubt; nothing is held then. */
sy_status sy_mover_direct_begin(struct sy_ucx_mover *mover,
                                const struct sy_ucx_transfer *transfer, struct sy_holds *holds,
                                struct sy_mover_direct *ret_direct, sy_error *err);
/* Nothing was posted, or all of it has ended well. */
void sy_mover_direct_end(struct sy_ucx_mover *mover, struct sy_holds *holds);
/* Of a range that goes straight; NULL: it is copied. */
ucp_mem_h sy_mover_direct_of(const struct sy_mover_direct *direct,
                             const struct sy_ucx_mover *mover, const struct sy_range *range);

/* mover_grave.c */
/* Waits until the instant for the end of all that the lane has posted, and of connections that
 * close. */
bool sy_mover_settle(struct sy_mover_lane *lane, uint64_t until_ns);
/* The transfer on the lane is given up: buried, and its connection closed by force. The lane goes
 * back, now or later. The grave has its peer, lane and number, and in its account what the
 * transfer was and what it holds. True: bytes of it may land later. */
bool sy_mover_give_up(struct sy_mover_lane *lane, struct sy_mover_grave *grave);

#endif
