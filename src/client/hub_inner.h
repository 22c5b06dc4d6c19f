/* What hub.c (life), hub_run.c and hub_settle.c (operations), hub_keep.c (timers) and link.c (one
 * unit) share. */
#ifndef SY_HUB_INNER_H
#define SY_HUB_INNER_H

#include <pthread.h>
#include <sys/epoll.h>

#include "bell.h"
#include "control.h"
#include "hub.h"
#include "lane.h"
#include "ucx_mover.h"
#include "spin.h"

/* One unit as this hub talks to it. Guarded by hub->lock, except while `connecting`: then the
 * connecting thread alone touches what it makes, and puts it in place under the lock. */
struct sy_link {
	struct sy_hub *hub;
	uint32_t unit_id;
	struct sy_machine *machine;
	/* One of both carries the messages; neither: not connected. */
	struct sy_control_client *control; /* ZeroMQ, or NULL */
	struct sy_lane lane;               /* memory shared with the unit, or none */
	int door_fd;                       /* written to wake the unit; -1: no lane */
	struct sy_remote *remote;          /* NULL: no slab within reach */
	uint64_t incarnation;              /* that the directory led to, at the connect */
	uint64_t remote_session;           /* that the remote is of; 0: shm, of the connection */
	int local_fd;                      /* -1: none */
	bool connect_due; /* sy_link_set_due */
	uint64_t due_number; /* the lowest of those that are due has waited longest */
	bool connecting;
	bool was_ready;  /* has had a session: it lets this process in */
	sy_error failure;                  /* of the last connect that failed */
	struct sy_call *calls;             /* those that have not ended */
};

/* To a list of calls that have ended, by next_ended. */
static inline void sy_call_push(struct sy_call **list, struct sy_call *call)
{
	call->next_ended = *list;
	*list = call;
}

/* A caller in sy_hub_run. */
struct sy_waiter {
	pthread_cond_t wake;
	bool awake;              /* something happened that it should look at */
	bool asleep;             /* it waits for its wake-up, and can take over the sockets */
	size_t pending;          /* calls that have not ended */
	struct sy_call *writes;  /* calls whose region waits to be written */
	struct sy_call *ended;   /* calls that nobody has looked at since they ended */
	uint64_t look_ns;        /* when it asks again whether it was interrupted */
	uint64_t ask_ns;         /* when it asks whether who does not answer is dead; of leases only */
	uint64_t silent_ns;      /* when the directory gave it no answer in a connect; 0: never */
	bool interrupted;
	struct sy_waiter *prev, *next;
};

struct sy_hub {
	pthread_mutex_t lock;
	uint32_t refs;           /* the client object and each view */
	bool closed, stopping;
	uint32_t running;        /* public calls under way */
	pthread_cond_t idle;     /* running fell to 0 */
	uint32_t fork_count;
	struct sy_hub_config config;
	char name_space[SY_FIELD_MAX_BYTES + 1];
	struct sy_identity identity;

	struct sy_dir_client *directory;
	struct sy_control_context *context;
	uint32_t unit_count;     /* N */
	struct sy_dir_times times; /* of units' leases */
	struct sy_unit_info *units; /* N, as the directory said last */
	struct sy_link **links;  /* N, made at first use */

	uint64_t asked_ns;          /* when the directory was last asked after remote units */
	struct sy_ucx_mover *mover; /* NULL: not needed yet, or `mover_fault` says why there is none */
	sy_error mover_fault;

	int epoll_fd;
	/* Each ends one's sleep on the epoll set. One for both, in the set itself, would be taken by
	 * the wrong one, who then sleeps on. */
	int leader_fd, keeper_fd;
	struct sy_bell *bell;    /* rung by units that wrote into a lane, and to end a sleep on it */
	int bell_fd;
	uint32_t due_count;      /* links that are to be connected */
	uint64_t due_number;     /* of the one that became so last */
	uint32_t lane_count;     /* links with a lane: with any, who leads sleeps on the bell, and the
	                          * keeper in epoll */
	struct sy_ring_budget budget;
	uint8_t *lane_copy;      /* SY_RING_BYTES, for receiving, under the lock */
	struct sy_waiter *leader, *waiters;
	bool leader_on_bell, leader_in_epoll, keeper_in_epoll; /* asleep there */
	struct sy_spin spin;     /* of the leader */
	struct sy_scratch scratch; /* for decoding, under the lock */

	pthread_t keeper;
	pthread_cond_t keeper_wake;
	uint64_t keeper_wakes_ns; /* when it will look again by itself */
	uint64_t keeper_silent_ns; /* when the directory gave it no answer in a connect */
	/* A thread that the keeper starts, and ends, when pages of slabs are to be mapped or unmapped:
	 * nobody waits for that. */
	pthread_t mapper;
	bool mapper_runs;        /* the keeper's */
	bool mapper_done, mapper_stops; /* atomic */
	struct sy_remote *unpopulated; /* that it has not seen yet; a reference each */
};

/* link.c. All with hub->lock held. */
struct sy_link *sy_link_get(struct sy_hub *hub, uint32_t unit_id); /* NULL: out of memory */
void sy_link_free(struct sy_link *link);
/* Somebody is to connect it, or does so now. */
void sy_link_set_due(struct sy_link *link, bool due);
/* Sends, completes and receives until there is nothing to do at once; wakes whom it concerns. */
void sy_link_pump(struct sy_link *link, uint64_t now_ns);
/* Wakes the unit up if it sleeps: for a message that is there, or follows in some microseconds. */
void sy_link_announce(const struct sy_link *link);
/* Of links that are due, what has waited longest goes first: one that fails comes due again, and
 * must not keep the others from their turn. */
static inline bool sy_link_is_before(const struct sy_link *link, const struct sy_link *other)
{
	return other == NULL || link->due_number < other->due_number;
}
/* How long the unit has to answer; how long the directory, which is asked after a unit that did
 * not (0: it is not asked); and the instant at which all of it ends. */
struct sy_connect_limits {
	uint64_t welcome_ns, ask_ns, deadline_ns;
};
/* link_connect.c. Drops the lock while it connects; one thread at a time does, others go on.
 * False: the directory was asked and did not answer. */
bool sy_link_connect(struct sy_link *link, const struct sy_connect_limits *limits);
/* A directory that gave no answer to a connect is not asked after other units for a while: each
 * would wait as long. */
bool sy_hub_is_silent(uint64_t silent_ns, uint64_t now_ns);
/* What its descriptor in the epoll set reported. */
void sy_link_ready(struct sy_link *link, bool local_socket);
void sy_link_bye(struct sy_link *link);
/* The unit is gone: what waits for it ends. */
void sy_link_drop(struct sy_link *link);
bool sy_link_is_remote(const struct sy_link *link); /* connected, as to one of another host */
bool sy_link_connected(const struct sy_link *link);
/* Whether that incarnation still holds its end of the local socket; asked of the system alone. */
bool sy_link_stands(const struct sy_link *link, uint64_t incarnation);

/* link.c, for link_connect.c: puts a descriptor into the epoll set (false and errno: the system
 * refuses); lets go of all that a connect made. */
bool sy_link_watch(struct sy_link *link, int fd, bool local_socket);
void sy_link_drop_connection(struct sy_link *link, int linger_ms);
void sy_link_disconnect(struct sy_link *link, uint64_t now_ns);

/* hub_ucx.c. Lock not held: makes the mover if there is none, for units whose addresses are of the
 * family of this one; SY_E_POLICY, SY_E_SYS. */
sy_status sy_hub_need_mover(struct sy_hub *hub, const char *address, sy_error *err);
/* Lock held, which it drops for a moment: looks after transfers that were given up, and passes on
 * which of them are finished. */
void sy_hub_tend_graves(struct sy_hub *hub);
/* Lock held, dropped while it asks: no socket tells of the end of a unit of another host. True: it
 * has asked. */
bool sy_hub_ask_after_remote(struct sy_hub *hub);
bool sy_hub_is_poisoned(const struct sy_hub *hub);

/* hub_run.c, lock held. */
void sy_waiter_wake(struct sy_hub *hub, struct sy_waiter *waiter);
/* Sleeps in epoll until a message, a wake-up or the instant; then serves what came. */
void sy_hub_lead(struct sy_hub *hub, uint64_t until_ns);

/* Sleeps until the epoll set has something or wake_fd is written, drops the lock meanwhile, and
 * serves what came. wait_ms 0: without a sleep. */
void sy_hub_serve(struct sy_hub *hub, int wake_fd, int wait_ms);

/* hub_settle.c. Lock not held: decides what an ended call means, which may take until its
 * deadline. False: it is to be started anew. */
bool sy_hub_settle(struct sy_hub *hub, struct sy_call *call);

/* hub_keep.c */
void *sy_hub_keeper(void *hub);
/* The keeper looks again no later than this instant. Lock held. */
void sy_hub_keep_by(struct sy_hub *hub, uint64_t instant_ns);
/* When there is no keeper any more: no slab that was let go of stays mapped. */
void sy_hub_unmap_all(struct sy_hub *hub);
/* A slab that was attached now. With hub->lock held. */
void sy_hub_populate(struct sy_hub *hub, struct sy_remote *remote);
/* Ends its sleep. Lock held. */
void sy_hub_wake_keeper(struct sy_hub *hub);

#endif
