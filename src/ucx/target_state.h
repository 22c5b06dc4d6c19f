/* What ucx_target.c (its life, the daemon's calls) and target_loop.c (its thread) share. */
#ifndef SY_TARGET_STATE_H
#define SY_TARGET_STATE_H

#include <pthread.h>

#include "join.h"
#include "ucx_context.h"
#include "port_guard.h"
#include "ucx_target.h"

/* A session that connections may be of. */
struct sy_target_session {
	uint64_t number;
	uint32_t highest[SY_JOIN_LANES_MAX]; /* connection of each lane that joined last */
	bool ending; /* lets in nobody; gone when its last connection is */
	struct sy_target_session *next;
};

enum { SY_TARGET_SENDS_MAX = 4 };

/* A message on its way to the client, and its head. */
struct sy_target_send {
	void *request;
	struct sy_message_head head;
};

/* What one connection asked for by messages. */
struct sy_target_work {
	uint64_t written_bytes;
	struct sy_message_head reads[SY_MESSAGE_READS_MAX]; /* a ring */
	uint32_t read_first, read_count;
	struct sy_message_head flush;
	bool flush_due;
	struct sy_target_send sends[SY_TARGET_SENDS_MAX];
};

enum sy_target_conn_state {
	SY_TARGET_NEW,     /* accepted; it has not said who it is */
	SY_TARGET_ASKED,   /* it has, and waits for the lane's connection before it to be fenced */
	SY_TARGET_JOINED,
	SY_TARGET_REFUSED, /* it is none of ours, was told so and will close */
	SY_TARGET_CLOSING, /* closed by force */
};

struct sy_target_conn {
	struct sy_ucx_target *target;
	ucp_ep_h ep;
	enum sy_target_conn_state state;
	struct sy_join_ask ask;
	uint64_t refused_ns; /* when; 0: it was not */
	bool asked, broken;  /* set by callbacks, looked at after them */
	void *answer, *closing; /* requests */
	void *answer_bytes;  /* that the answer is sent from */
	struct sy_target_work *work; /* by messages; NULL: none yet */
	bool flushing;       /* the flush that runs began after its close was done */
	struct sy_target_conn *next;
};

enum { SY_TARGET_REQUESTS_MAX = 64 };

struct sy_ucx_target {
	struct sy_ucx_target_config config;
	struct sy_ucx_context context;
	ucp_worker_h worker;
	int worker_fd, wake_fd, done_fd;
	ucp_mem_h memory;
	void *key;
	size_t key_bytes;
	ucp_listener_h listener;
	struct sy_port_guard guard; /* the daemon's */
	char address[SY_UCX_ADDRESS_BYTES];
	pthread_t thread;
	bool running;

	/* the thread's own */
	ucp_conn_request_h requests[SY_TARGET_REQUESTS_MAX];
	uint32_t request_count;
	struct sy_target_conn *conns;
	struct sy_target_conn *accepting; /* its endpoint is being made */
	uint32_t conn_count;
	bool ending;          /* lets in nobody any more */
	void *flush;          /* of the worker, under way */
	bool flush_runs;
	uint64_t flush_began_ns;

	pthread_mutex_t lock; /* of what follows */
	bool stop;
	struct sy_target_session *sessions;
	uint64_t *fenced;     /* to be taken by the daemon, first in first out */
	size_t fenced_count, fenced_capacity;
};

/* Lock held. NULL: none. */
struct sy_target_session *sy_target_session_find(struct sy_ucx_target *target, uint64_t number);
/* Tells the daemon, and forgets the session. Lock held. */
void sy_target_session_done(struct sy_ucx_target *target, struct sy_target_session *session);

/* target_message.c */
void sy_target_handle_messages(struct sy_ucx_target *target);
/* True: something was done. */
bool sy_target_work_step(struct sy_target_conn *conn);
bool sy_target_work_is_idle(const struct sy_target_conn *conn); /* nothing is on its way */

void *sy_target_run(void *target);
struct sy_target_conn *sy_target_conn_of(struct sy_ucx_target *target,
                                         const ucp_am_recv_param_t *param);
void sy_target_on_request(ucp_conn_request_h request, void *target);
ucs_status_t sy_target_on_ask(void *target, const void *header, size_t header_bytes, void *data,
                              size_t bytes, const ucp_am_recv_param_t *param);

#endif
