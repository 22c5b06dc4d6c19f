/* The clients connected to the local socket: a table of descriptors, tokens and lanes.
 *
 * A peer stands from its welcome until nothing of it can be left: the core says so (PEER_DONE),
 * or its process is gone. Its socket may end long before. */
#ifndef SY_PEERS_H
#define SY_PEERS_H

#include "bell.h"
#include "lane.h"
#include "local.h"

enum { SY_PEERS_MAX = 4096 };

struct sy_peer {
	uint64_t token; /* 0: free */
	int fd;         /* -1: ended */
	int pidfd;
	uint32_t pid;
	uint32_t free_next;
	uint32_t uses;      /* how many peers this place has had, for the routes of their replies */
	bool greeted; /* a hello with this token came */
	bool leaving; /* the core is done with it, while a message of its own is being served */

	struct sy_lane lane;   /* if it joined */
	struct sy_bell *bell;  /* rung when something was written for it */
	int door_fd;           /* -1: has not joined */
	bool at_work;          /* in the list of peers to be looked at again */
	uint32_t work_next;
};

struct sy_peers {
	struct sy_peer *items; /* 1 .. SY_PEERS_MAX */
	uint32_t free_head, count;
	int epoll_fd; /* that watches them; borrowed */
	uint32_t work_head, work_tail;
	struct sy_ring_budget budget; /* of all lanes */
};

/* False: memory is short. */
bool sy_peers_init(struct sy_peers *peers, int epoll_fd);
/* Closes what is open. */
void sy_peers_done(struct sy_peers *peers);

/* Takes over the descriptors of a new peer and gives it a random token. 0: the table is full, and
 * the descriptors stay the caller's. */
uint32_t sy_peers_add(struct sy_peers *peers, const struct sy_local_peer *local);
struct sy_peer *sy_peers_at(struct sy_peers *peers, uint32_t index); /* NULL: none there */
/* 0: none of this token. Linear in the peers there ever were at once. */
uint32_t sy_peers_find(const struct sy_peers *peers, uint64_t token);
/* Maps what it handed over; the descriptors are taken over in any case. False: it is no lane. */
bool sy_peers_join(struct sy_peers *peers, uint32_t index, const struct sy_local_lane *handed);
/* The route of a peer's replies, and back: 0 if that peer has gone or its lane has. */
uint64_t sy_peers_route(const struct sy_peers *peers, uint32_t index);
uint32_t sy_peers_at_route(const struct sy_peers *peers, uint64_t route);
bool sy_peers_is_route(uint64_t route); /* of a lane, and not of ZeroMQ */
/* To be looked at again, first in first out, once each; 0: none. */
void sy_peers_add_work(struct sy_peers *peers, uint32_t index);
uint32_t sy_peers_next_work(struct sy_peers *peers);
void sy_peers_end(struct sy_peers *peers, uint32_t index);    /* closes its socket and lane */
void sy_peers_remove(struct sy_peers *peers, uint32_t index); /* closes all, forgets the token */

#endif
