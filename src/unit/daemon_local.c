/* Same-host clients: their socket, their lane, their process. */
#include "daemon_state.h"

#include <poll.h>
#include <unistd.h>

#include "clock.h"
#include "failpoints.h"
#include "process.h"
#include "proto.h"

enum {
	/* Of one client before the next one's turn. */
	MESSAGES_A_LANE = 16,
	LANES_A_TURN = 64,
	/* What a lane can hold at its client's end: its smallest messages take 16 bytes. */
	MESSAGES_AT_END = SY_RING_BYTES / 16,
};

static const uint64_t say_again_ns = 1000000000u;

bool sy_daemon_token_lives(void *context, uint64_t token)
{
	struct sy_daemon *daemon = context;
	uint32_t index = sy_peers_find(&daemon->peers, token);
	struct sy_peer *peer = index != 0 ? sy_peers_at(&daemon->peers, index) : NULL;
	if (peer == NULL || peer->fd < 0)
		return false;
	peer->greeted = true;
	return true;
}

void sy_daemon_peer_done(void *context, uint64_t token)
{
	struct sy_daemon *daemon = context;
	uint32_t index = sy_peers_find(&daemon->peers, token);
	if (index == 0)
		return;
	/* The message at hand may lie in the memory of its lane. */
	if (index == daemon->serving)
		sy_peers_at(&daemon->peers, index)->leaving = true;
	else
		sy_peers_remove(&daemon->peers, index);
}

/* ZeroMQ ends the process where it has no descriptor for a connection, and connections to its
 * socket come from whoever was welcomed here: so nobody is whose connection might be one too
 * many. Counted, beside its welcome: a connection of each that has not said hello. */
static bool has_room_for_a_peer(const struct sy_daemon *daemon)
{
	uint32_t count = SY_DAEMON_WELCOME_FDS;
	for (uint32_t i = 1; i <= daemon->peers.count; i++) {
		const struct sy_peer *peer = &daemon->peers.items[i];
		count += peer->token != 0 && peer->fd >= 0 && !peer->greeted;
	}
	return sy_process_has_descriptors(count);
}

void sy_daemon_accept(struct sy_daemon *daemon)
{
	struct sy_local_peer local;
	if (!has_room_for_a_peer(daemon)) {
		sy_local_server_turn_away(daemon->local);
		return;
	}
	if (!sy_local_server_accept(daemon->local, &local))
		return;
	SY_FAILPOINT(UNIT_ACCEPTED);
	uint32_t index = sy_peers_add(&daemon->peers, &local);
	if (index == 0) {
		close(local.fd);
		close(local.pidfd);
		return;
	}
	const struct sy_local_welcome welcome = {
		.version = SY_PROTOCOL_VERSION,
		.unit_id = daemon->config.unit_id,
		.lanes = daemon->config.zmq_only ? 0 : 1,
		.incarnation = daemon->incarnation.value,
		.token = sy_peers_at(&daemon->peers, index)->token,
		.slab_bytes = daemon->config.slab_bytes,
	};
	if (!sy_daemon_watch(daemon, local.fd, SY_DAEMON_PEER, index) ||
	    !sy_daemon_watch(daemon, local.pidfd, SY_DAEMON_PID, index) ||
	    !sy_local_peer_welcome(&local, &welcome, daemon->slab.fd))
		sy_peers_remove(&daemon->peers, index);
	SY_FAILPOINT(UNIT_WELCOMED);
}

static void ring_if_due(const struct sy_daemon *daemon, struct sy_peer *peer)
{
	if (!peer->lane.due)
		return;
	peer->lane.due = false;
	SY_FAILPOINT(UNIT_RINGING);
	sy_bell_ring_for(peer->bell, daemon->config.unit_id);
}

void sy_daemon_lane_send(struct sy_daemon *daemon, uint64_t route, const void *message,
                         size_t bytes)
{
	uint32_t index = sy_peers_at_route(&daemon->peers, route);
	struct sy_peer *peer = index != 0 ? sy_peers_at(&daemon->peers, index) : NULL;
	if (peer == NULL)
		return;
	/* A core that is being stepped must not hear of an end: that is for later. */
	if (sy_lane_send(&peer->lane, message, bytes))
		ring_if_due(daemon, peer);
	else
		sy_peers_add_work(&daemon->peers, index);
}

/* Messages of a peer, up to `max`, none while its replies wait for it to take some: what it does
 * not read is bounded by that. False: it is gone. */
static bool hear_lane(struct sy_daemon *daemon, uint32_t index, uint32_t max)
{
	struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	uint64_t route = sy_peers_route(&daemon->peers, index);
	const void *message;
	size_t bytes;
	uint32_t heard = 0;
	daemon->serving = index;
	for (; heard < max && !peer->leaving && sy_lane_flush(&peer->lane) &&
	       peer->lane.first == NULL &&
	       sy_lane_receive(&peer->lane, daemon->loop->lane_copy, &message, &bytes);
	     heard++)
		sy_serve_message(daemon->serve, route, message, bytes, sy_clock_now_ns());
	daemon->serving = 0;
	ring_if_due(daemon, peer);
	if (peer->leaving)
		sy_peers_remove(&daemon->peers, index);
	else if (heard > 0 && !peer->lane.broken)
		sy_daemon_attend(daemon, index);
	return sy_peers_at(&daemon->peers, index) != NULL;
}

/* The socket's last words, and behind them nothing: what was written before them was said before
 * them, and what a client writes after them is not heard, or it would hold up the others. A hello
 * with this token is refused from here on. */
static void end_socket(struct sy_daemon *daemon, uint32_t index, enum sy_event_kind kind,
                       uint64_t last_notice, uint64_t now_ns)
{
	struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	if (peer->lane.shared != NULL) {
		sy_ring_end(&peer->lane.in);
		if (!hear_lane(daemon, index, MESSAGES_AT_END))
			return;
	}
	uint64_t token = peer->token;
	bool greeted = peer->greeted;
	sy_peers_end(&daemon->peers, index);
	if (greeted)
		sy_serve_peer(daemon->serve, kind, token, last_notice, now_ns);
	else
		sy_peers_remove(&daemon->peers, index); /* the core never heard of it */
}

/* To the core it is as if the client had closed its socket. */
static void cut(struct sy_daemon *daemon, uint32_t index)
{
	uint64_t now_ns = sy_clock_now_ns();
	if (now_ns - daemon->cut_said_ns >= say_again_ns || daemon->cut_said_ns == 0) {
		sy_daemon_say(daemon, "process %u sent nonsense, or takes no replies: disconnected",
		              sy_peers_at(&daemon->peers, index)->pid);
		daemon->cut_said_ns = now_ns;
	}
	end_socket(daemon, index, SY_EVENT_PEER_EOF, 0, now_ns);
}

void sy_daemon_serve_lane(struct sy_daemon *daemon, uint32_t index)
{
	struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	/* The event may be of an earlier peer under this index. */
	if (peer == NULL || peer->lane.shared == NULL || !hear_lane(daemon, index, MESSAGES_A_LANE))
		return;
	if (peer->lane.broken)
		cut(daemon, index);
	else if (peer->lane.first == NULL && sy_ring_ready(&peer->lane.in))
		sy_peers_add_work(&daemon->peers, index);
}

void sy_daemon_hear_door(struct sy_daemon *daemon, uint32_t index)
{
	const struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	if (peer == NULL || peer->lane.shared == NULL)
		return;
	if (!sy_ring_ready(&peer->lane.in) && peer->lane.first == NULL && !peer->lane.broken)
		daemon->loop->expects |= sy_daemon_attend(daemon, index);
	sy_daemon_serve_lane(daemon, index);
}

/* Each once: who comes back into the list waits for those that only the next look at events hears
 * of. */
void sy_daemon_work(struct sy_daemon *daemon)
{
	uint32_t last = daemon->peers.work_tail, index = 0;
	for (uint32_t i = 0; i < LANES_A_TURN && index != last && daemon->peers.work_head != 0; i++) {
		index = sy_peers_next_work(&daemon->peers);
		sy_daemon_serve_lane(daemon, index);
	}
}

static bool join(struct sy_daemon *daemon, uint32_t index, const struct sy_local_lane *handed)
{
	struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	if (!sy_peers_join(&daemon->peers, index, handed))
		return false;
	/* What was written before this is reported at once. */
	return !daemon->config.zmq_only &&
	       sy_daemon_watch(daemon, peer->door_fd, SY_DAEMON_DOOR, index);
}

bool sy_daemon_read_socket(struct sy_daemon *daemon, uint32_t index, uint64_t now_ns)
{
	const struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	uint64_t last_notice = 0;
	struct sy_local_lane handed;
	if (peer == NULL || peer->fd < 0)
		return true;
	const struct sy_local_peer local = {.fd = peer->fd, .pidfd = peer->pidfd, .pid = peer->pid};
	switch (sy_local_peer_read(&local, &last_notice, &handed)) {
	case SY_LOCAL_NOTHING:
		return false;
	case SY_LOCAL_JOIN:
		if (join(daemon, index, &handed))
			return false;
		break;
	case SY_LOCAL_BYE:
		SY_FAILPOINT(UNIT_BYE);
		end_socket(daemon, index, SY_EVENT_PEER_BYE, last_notice, now_ns);
		return true;
	case SY_LOCAL_EOF:
		SY_FAILPOINT(UNIT_EOF);
		break;
	}
	end_socket(daemon, index, SY_EVENT_PEER_EOF, 0, now_ns);
	return true;
}

static bool is_readable(int fd)
{
	struct pollfd asked = {.fd = fd, .events = POLLIN};
	return poll(&asked, 1, 0) > 0;
}

/* The process is gone: nothing of it writes or reads any more, whatever it left unsaid. */
void sy_daemon_end_process(struct sy_daemon *daemon, uint32_t index, uint64_t now_ns)
{
	const struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	/* The event may be of an earlier peer under this index. */
	if (peer == NULL || !is_readable(peer->pidfd))
		return;
	SY_FAILPOINT(UNIT_GONE);
	uint64_t token = peer->token;
	/* A join, a bye, and the end: no client says more. */
	for (int i = 0; i < 3 && !sy_daemon_read_socket(daemon, index, now_ns); i++)
		;
	if (sy_peers_find(&daemon->peers, token) == index &&
	    sy_peers_at(&daemon->peers, index)->fd >= 0)
		end_socket(daemon, index, SY_EVENT_PEER_EOF, 0, now_ns);
	if (sy_peers_find(&daemon->peers, token) != index)
		return;
	sy_peers_remove(&daemon->peers, index);
	sy_serve_peer(daemon->serve, SY_EVENT_PEER_GONE, token, 0, now_ns);
}
