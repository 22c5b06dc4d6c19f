#include "peers.h"

#include <stdlib.h>
#include <unistd.h>

#include "entropy.h"
#include "guard.h"

bool sy_peers_init(struct sy_peers *peers)
{
	*peers = (struct sy_peers){0};
	peers->items = calloc(SY_PEERS_MAX + 1, sizeof *peers->items);
	return peers->items != NULL;
}

void sy_peers_done(struct sy_peers *peers)
{
	if (peers->items == NULL)
		return;
	for (uint32_t i = 1; i <= peers->count; i++) {
		if (peers->items[i].token != 0)
			sy_peers_remove(peers, i);
	}
	free(peers->items);
	*peers = (struct sy_peers){0};
}

uint32_t sy_peers_add(struct sy_peers *peers, const struct sy_local_peer *local)
{
	uint32_t index = peers->free_head;
	if (index == 0 && peers->count == SY_PEERS_MAX)
		return 0;
	if (index != 0)
		peers->free_head = peers->items[index].free_next;
	else
		index = ++peers->count;
	peers->items[index] = (struct sy_peer){
		.token = sy_entropy_u64(), .fd = local->fd, .pidfd = local->pidfd, .pid = local->pid,
	};
	return index;
}

struct sy_peer *sy_peers_at(struct sy_peers *peers, uint32_t index)
{
	SY_ASSERT(index != 0 && index <= peers->count);
	return peers->items[index].token != 0 ? &peers->items[index] : NULL;
}

uint32_t sy_peers_find(const struct sy_peers *peers, uint64_t token)
{
	for (uint32_t i = 1; token != 0 && i <= peers->count; i++) {
		if (peers->items[i].token == token)
			return i;
	}
	return 0;
}

void sy_peers_end(struct sy_peers *peers, uint32_t index)
{
	struct sy_peer *peer = &peers->items[index];
	if (peer->fd >= 0)
		close(peer->fd); /* leaves every epoll set by itself */
	peer->fd = -1;
}

void sy_peers_remove(struct sy_peers *peers, uint32_t index)
{
	struct sy_peer *peer = &peers->items[index];
	SY_ASSERT(peer->token != 0);
	sy_peers_end(peers, index);
	close(peer->pidfd);
	*peer = (struct sy_peer){.fd = -1, .pidfd = -1, .free_next = peers->free_head};
	peers->free_head = index;
}
