#include "peers.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "entropy.h"
#include "guard.h"

/* Unfinished and unsent messages of all clients together. */
static const uint64_t budget_bytes = 256u << 20;
static const uint64_t lane_route = UINT64_C(1) << 63;

bool sy_peers_init(struct sy_peers *peers, int epoll_fd)
{
	*peers = (struct sy_peers){.epoll_fd = epoll_fd, .budget = {.max_bytes = budget_bytes}};
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
	struct sy_peer *peer = &peers->items[index];
	*peer = (struct sy_peer){
		.token = sy_entropy_u64(), .fd = local->fd, .pidfd = local->pidfd, .pid = local->pid,
		.uses = peer->uses + 1, .door_fd = -1,
		/* It may still stand in the list for the one before it, which does no harm. */
		.at_work = peer->at_work, .work_next = peer->work_next,
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

/* The door is the client's, too, and stays open there: closing ours alone would leave it in the
 * set. */
static void end_lane(struct sy_peers *peers, struct sy_peer *peer)
{
	if (peer->door_fd >= 0) {
		(void)epoll_ctl(peers->epoll_fd, EPOLL_CTL_DEL, peer->door_fd, NULL);
		close(peer->door_fd);
	}
	peer->door_fd = -1;
	sy_bell_unmap(peer->bell);
	peer->bell = NULL;
	sy_lane_done(&peer->lane);
}

bool sy_peers_join(struct sy_peers *peers, uint32_t index, const struct sy_local_lane *handed)
{
	struct sy_peer *peer = &peers->items[index];
	bool joined = peer->door_fd < 0 && sy_lane_map(handed->lane_fd, &peers->budget, &peer->lane);
	if (joined) {
		peer->door_fd = handed->door_fd;
		peer->bell = sy_bell_map(handed->bell_fd);
		joined = peer->bell != NULL;
		if (!joined) /* what lies in it already could not be answered */
			end_lane(peers, peer);
	} else {
		close(handed->door_fd);
	}
	close(handed->lane_fd);
	close(handed->bell_fd);
	return joined;
}

uint64_t sy_peers_route(const struct sy_peers *peers, uint32_t index)
{
	return lane_route | (uint64_t)(peers->items[index].uses & INT32_MAX) << 32 | index;
}

bool sy_peers_is_route(uint64_t route)
{
	return (route & lane_route) != 0;
}

uint32_t sy_peers_at_route(const struct sy_peers *peers, uint64_t route)
{
	uint32_t index = (uint32_t)route;
	return index != 0 && index <= peers->count && peers->items[index].lane.shared != NULL &&
	                       sy_peers_route(peers, index) == route
	               ? index
	               : 0;
}

void sy_peers_add_work(struct sy_peers *peers, uint32_t index)
{
	struct sy_peer *peer = &peers->items[index];
	if (peer->at_work)
		return;
	peer->at_work = true;
	peer->work_next = 0;
	if (peers->work_head == 0)
		peers->work_head = index;
	else
		peers->items[peers->work_tail].work_next = index;
	peers->work_tail = index;
}

uint32_t sy_peers_next_work(struct sy_peers *peers)
{
	uint32_t index = peers->work_head;
	if (index != 0) {
		peers->work_head = peers->items[index].work_next;
		peers->items[index].at_work = false;
	}
	return index;
}

void sy_peers_end(struct sy_peers *peers, uint32_t index)
{
	struct sy_peer *peer = &peers->items[index];
	end_lane(peers, peer);
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
}

void sy_peers_remove(struct sy_peers *peers, uint32_t index)
{
	struct sy_peer *peer = &peers->items[index];
	SY_ASSERT(peer->token != 0);
	sy_peers_end(peers, index);
	close(peer->pidfd);
	*peer = (struct sy_peer){
		.fd = -1, .pidfd = -1, .door_fd = -1, .free_next = peers->free_head,
		.uses = peer->uses, .at_work = peer->at_work, .work_next = peer->work_next,
	};
	peers->free_head = index;
}
