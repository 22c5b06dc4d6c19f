/* The shell around the machines: one hub a client object, one link a unit.
 *
 * No thread of its own is on the path of an operation. A caller starts its operations under the
 * hub's lock, copies its data outside it, and while it waits one of the waiting callers (the
 * leader) sleeps in epoll for all; whoever receives a message feeds the machine it is for and
 * wakes the caller it ends. The keeper thread serves timers while nobody waits: notices and
 * heartbeats go out, late replies are read.
 *
 * Messages to a unit of this host go through shared memory (lane.h), and the leader sleeps on the
 * bell that all units ring; the epoll set, with the ends of the units' sockets, is then the
 * keeper's. Over ZeroMQ (other hosts, or by choice) the leader sleeps in epoll. Where a hub has
 * both, the keeper reads ZeroMQ for all.
 *
 * ZeroMQ's descriptor is edge-triggered: whoever sent on or received from a socket drains it
 * before it lets go of the lock.
 *
 * Lock order: hub->lock, then the directory client's own. Neither is held during a transfer,
 * while connecting, or while asking the directory. */
#ifndef SY_HUB_H
#define SY_HUB_H

#include <slabyard/client.h>

#include "dir_client.h"
#include "machine.h"
#include "transport.h"

struct sy_hub;
struct sy_ucx_memories;
struct sy_waiter;
struct sy_link;

/* What there is to say of a unit whose slab no transport reaches from here. */
#define SY_HUB_NO_PATH \
	"it offers its values to no other host, and this process is one to it: start it with " \
	"--policy rdma (to try it out over TCP: allow-tcp)"

struct sy_hub_config {
	const char *directory; /* address */
	const char *keys;      /* of the client, for tcp; NULL: none. For the length of the open */
	const char *name_space;
	uint64_t timeout_ns, control_timeout_ns;
	sy_control control;
	sy_path path;
	sy_policy policy;
	uint64_t graveyard_max_bytes; /* 0: the default */
	struct sy_ucx_memories *memories; /* registered; a reference is taken; or NULL */
	/* If given, held around every transfer (the documented store's lock). */
	void (*lock)(void *context);
	void (*unlock)(void *context);
	void *lock_context;
	/* If given, a waiting caller asks it ten times a second, without the hub's lock. */
	bool (*interrupted)(void *context);
	void *interrupted_context;
	/* If given, called about once a second by the keeper, without the hub's lock. */
	void (*tick)(void *context, uint64_t now_ns);
	void *tick_context;
};

/* One operation on one unit. Belongs to the caller for the length of sy_hub_run. */
struct sy_call {
	struct sy_machine_op op; /* filled in by the caller: kind, deadline, arguments */
	uint32_t unit_id;
	/* PUT: what is copied, offsets relative to the blob. */
	const struct sy_range *ranges;
	size_t range_count;

	/* after sy_hub_run: */
	sy_status status;       /* the verdict: SY_OK or why not */
	sy_error error;
	/* PUT, RESOLVE that ended OK: the slab it is about; one reference, which sy_call_done gives
	 * back. */
	struct sy_remote *remote;

	/* the hub's own */
	struct sy_waiter *waiter;
	struct sy_link *link;
	struct sy_call *next_on_link, *next_write, *next_ended;
	struct sy_remote *remote_now; /* during the WRITE */
	uint64_t dead_incarnation; /* if found_dead: of the unit that the directory's list showed */
	uint64_t waits_since_ns; /* for its unit: since it was started, or what was ours was done */
	bool done, found_dead, refused, settled; /* refused: it never reached the unit, nor will */
	bool outlived; /* the unit it went to first died, and the answer is of another in its place */
};

/* A call has ended. True: it was filled in for another operation, which starts at once. */
typedef bool sy_call_next(void *context, struct sy_call *call);

/* Fetches the unit list from the directory. */
sy_status sy_hub_open(const struct sy_hub_config *config, struct sy_hub **ret_hub, sy_error *err);
/* Refuses new calls and waits at most the timeout for running ones. False: one still runs (a copy
 * from memory that does not come) or this is a fork child; then its owner must leave the hub,
 * and what it is part of, as it is. */
bool sy_hub_shut(struct sy_hub *hub);
/* References: one is the client object's, one each view's. The last one to go says bye to the
 * units; until then sessions and sockets stand. */
struct sy_hub *sy_hub_ref(struct sy_hub *hub);
void sy_hub_unref(struct sy_hub *hub);

/* Every public call stands between these two; a close waits for them. SY_E_FATAL: the hub is
 * closed, or this is a fork child; then there is nothing to leave. */
sy_status sy_hub_enter(struct sy_hub *hub, sy_error *err);
void sy_hub_leave(struct sy_hub *hub);

/* Runs all calls, on any units, at once; returns when each has ended, by its deadline plus
 * 100 ms. A call whose session ended under it asks the directory within its deadline: RESOLVE,
 * RELEASE, COMMIT and queries of a unit that lives are started anew; a PUT is not.
 * Thread-safe. Outcomes are in the calls. */
void sy_hub_run(struct sy_hub *hub, struct sy_call *const *calls, size_t count);
/* The same, asking `next` after each call that ends: no unit waits for another one. */
void sy_hub_run_each(struct sy_hub *hub, struct sy_call *const *calls, size_t count,
                     sy_call_next *next, void *context);
/* Gives back what a call holds (result buffer, remote). */
void sy_call_done(struct sy_call *call);
/* The unit whose answer a running call has waited for longest, and how long; a WRITE waits for
 * none. False: no call waits. */
bool sy_hub_awaits(struct sy_hub *hub, uint32_t *ret_unit_id, uint64_t *ret_wait_ns);

/* Gives a pin back; never blocks, never fails. A pin of another incarnation is gone already. */
void sy_hub_unpin(struct sy_hub *hub, uint32_t unit_id, uint64_t incarnation,
                  struct sy_request_id name);

uint32_t sy_hub_unit_count(const struct sy_hub *hub); /* N */
uint64_t sy_hub_timeout_ns(const struct sy_hub *hub);
/* The cached information on a unit; false: no such slot. */
bool sy_hub_unit_info(struct sy_hub *hub, uint32_t unit_id, struct sy_unit_info *ret_info);
/* Fetches the unit list anew. */
sy_status sy_hub_refresh(struct sy_hub *hub, uint64_t deadline_ns, sy_error *err);
/* Asks the directory whether the incarnation this hub used last is dead. */
enum sy_directory_says sy_hub_ask(struct sy_hub *hub, uint32_t unit_id, uint64_t incarnation,
                                  uint64_t deadline_ns);
/* Asks the directory what is in the slot now. */
sy_status sy_hub_ask_slot(struct sy_hub *hub, uint32_t unit_id, uint64_t deadline_ns,
                          struct sy_unit_info *ret_info, sy_error *err);
/* Nothing speaks against that incarnation: its process holds its end of the connection, and the
 * cached list does not show it dead or replaced. Asks nobody: one look at a socket, which a
 * process closes before anybody can see that it is gone. */
bool sy_hub_stands(struct sy_hub *hub, uint32_t unit_id, uint64_t incarnation);
/* The incarnation of a unit that this hub talked to last; 0: none yet. */
uint64_t sy_hub_incarnation(struct sy_hub *hub, uint32_t unit_id);
/* Is a blob of this size better put whole in a message? False while no session told the limit. */
bool sy_hub_puts_inline(struct sy_hub *hub, uint32_t unit_id, uint64_t nbytes);

/* A call of so many keys begins: where it pays, the units wake up while it is made ready. */
void sy_hub_announce(struct sy_hub *hub, size_t key_count);

/* How long a resolve that is not being read holds its pins; 0 while no session told it. */
uint64_t sy_hub_read_pin_ns(struct sy_hub *hub, uint32_t unit_id);

/* Copies all but the lent array, whose count it clears. to may be NULL. */
void sy_error_copy(sy_error *to, const sy_error *from);

/* Of several failures of one call the one with the lowest number is said: Fatal, Invalid, Lost,
 * UnitFull, Timeout, TransferFailed, then all others. */
int sy_status_severity(sy_status status);

/* One READ of ranges that these resolves of one slab pinned, one or more, under the caller's lock
 * if the store has one. SY_E_STALE_READ: bytes came, but a pin did not stand; SY_E_TRANSFER: it
 * failed, or the unit did not say whether the pins stood; SY_E_TIMEOUT, SY_E_FATAL. */
sy_status sy_hub_read(struct sy_hub *hub, const struct sy_call *const *resolved,
                      size_t resolved_count, const struct sy_range *ranges, size_t count,
                      uint64_t deadline_ns, sy_error *err);

#endif
