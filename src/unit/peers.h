/* The clients connected to the local socket: a table of descriptors and tokens.
 *
 * A peer stands from its welcome until nothing of it can be left: the core says so (PEER_DONE),
 * or its process is gone. Its socket may end long before. */
#ifndef SY_PEERS_H
#define SY_PEERS_H

#include "local.h"

enum { SY_PEERS_MAX = 4096 };

struct sy_peer {
	uint64_t token; /* 0: free */
	int fd;         /* -1: ended */
	int pidfd;
	uint32_t pid;
	uint32_t free_next;
	bool greeted; /* a hello with this token came */
};

struct sy_peers {
	struct sy_peer *items; /* 1 .. SY_PEERS_MAX */
	uint32_t free_head, count;
};

/* False: memory is short. */
bool sy_peers_init(struct sy_peers *peers);
/* Closes what is open. */
void sy_peers_done(struct sy_peers *peers);

/* Takes over the descriptors of a new peer and gives it a random token. 0: the table is full, and
 * the descriptors stay the caller's. */
uint32_t sy_peers_add(struct sy_peers *peers, const struct sy_local_peer *local);
struct sy_peer *sy_peers_at(struct sy_peers *peers, uint32_t index); /* NULL: none there */
/* 0: none of this token. Linear in the peers there ever were at once. */
uint32_t sy_peers_find(const struct sy_peers *peers, uint64_t token);
void sy_peers_end(struct sy_peers *peers, uint32_t index);    /* closes its socket */
void sy_peers_remove(struct sy_peers *peers, uint32_t index); /* closes all, forgets the token */

#endif
