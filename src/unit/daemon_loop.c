/* One turn: messages first, then connections and ends, then work that goes on, then timers.
 * Each part is bounded, so that none starves the others. */
#include "daemon_state.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "failpoints.h"
#include "process.h"
#include "proto.h"

enum {
	MESSAGES_A_TURN = 64,
	STEPS_A_TURN = 16,
	EVENTS_A_TURN = 64,
	/* Heard before the first timer after a stall: more than the sockets' queues of many clients
	 * hold, yet an end where somebody sends for ever. */
	MESSAGES_A_DRAIN = 65536,
};

/* What an epoll event is about: a kind, and of a peer its index. */
enum watched { WATCH_CONTROL, WATCH_LOCAL, WATCH_SIGNAL, WATCH_DIRECTORY, WATCH_PEER, WATCH_PID,
               WATCH_DISK };

static bool watch(struct sy_daemon *daemon, int fd, enum watched kind, uint32_t index)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)kind << 32 | index};
	return epoll_ctl(daemon->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void send_reply(void *context, uint64_t route, const void *message, size_t bytes)
{
	struct sy_daemon *daemon = context;
	/* What was read from a slab that was cut off is nobody's value. */
	if (!sy_slab_is_torn())
		sy_control_server_send(daemon->control, route, message, bytes);
}

static bool fenced(void *context)
{
	const struct sy_daemon *daemon = context;
	return daemon->registered && sy_lease_is_fenced(&daemon->lease, sy_clock_now_ns());
}

static bool token_lives(void *context, uint64_t token)
{
	struct sy_daemon *daemon = context;
	uint32_t index = sy_peers_find(&daemon->peers, token);
	struct sy_peer *peer = index != 0 ? sy_peers_at(&daemon->peers, index) : NULL;
	if (peer == NULL || peer->fd < 0)
		return false;
	peer->greeted = true;
	return true;
}

static void peer_done(void *context, uint64_t token)
{
	struct sy_daemon *daemon = context;
	uint32_t index = sy_peers_find(&daemon->peers, token);
	if (index != 0)
		sy_peers_remove(&daemon->peers, index);
}

static void run_disk(void *context, const struct sy_disk_job *job)
{
	struct sy_daemon *daemon = context;
	sy_disk_run(daemon->disk, job);
}

static void hear_disk(struct sy_daemon *daemon, uint64_t now_ns)
{
	struct sy_disk_end end;
	for (int i = 0; i < SY_DISK_JOBS_MAX && sy_disk_next(daemon->disk, &end); i++)
		sy_serve_disk(daemon->serve, end.blob, end.grant, end.ok, end.full, now_ns);
}

struct sy_serve_io sy_daemon_io(struct sy_daemon *daemon)
{
	return (struct sy_serve_io){
		.context = daemon,
		.send = send_reply,
		.fenced = fenced,
		.token_lives = token_lives,
		.peer_done = peer_done,
		.disk = run_disk,
	};
}

/* ZeroMQ ends the process where it has no descriptor for a connection, and connections to its
 * socket come from whoever was welcomed here: so nobody is whose connection might be one too
 * many. Counted: socket, pidfd and connection of the new one, a connection of each that has not
 * said hello, and two for old ones that are just being closed. */
static bool has_room_for_a_peer(const struct sy_daemon *daemon)
{
	uint32_t count = 3 + 2;
	for (uint32_t i = 1; i <= daemon->peers.count; i++) {
		const struct sy_peer *peer = &daemon->peers.items[i];
		count += peer->token != 0 && peer->fd >= 0 && !peer->greeted;
	}
	return sy_process_has_descriptors(count);
}

static void accept_peer(struct sy_daemon *daemon)
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
		.unit_id = daemon->config->unit_id,
		.incarnation = daemon->incarnation.value,
		.token = sy_peers_at(&daemon->peers, index)->token,
		.slab_bytes = daemon->config->slab_bytes,
	};
	if (!watch(daemon, local.fd, WATCH_PEER, index) ||
	    !watch(daemon, local.pidfd, WATCH_PID, index) ||
	    !sy_local_peer_welcome(&local, &welcome, daemon->slab.fd))
		sy_peers_remove(&daemon->peers, index);
	SY_FAILPOINT(UNIT_WELCOMED);
}

/* The socket's last words. A hello with this token is refused from here on. */
static void end_socket(struct sy_daemon *daemon, uint32_t index, enum sy_event_kind kind,
                       uint64_t last_notice, uint64_t now_ns)
{
	const struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	uint64_t token = peer->token;
	bool greeted = peer->greeted;
	sy_peers_end(&daemon->peers, index);
	if (greeted)
		sy_serve_peer(daemon->serve, kind, token, last_notice, now_ns);
	else
		sy_peers_remove(&daemon->peers, index); /* the core never heard of it */
}

/* True if the peer's socket has ended, now or before. */
static bool read_socket(struct sy_daemon *daemon, uint32_t index, uint64_t now_ns)
{
	const struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	uint64_t last_notice = 0;
	if (peer == NULL || peer->fd < 0)
		return true;
	const struct sy_local_peer local = {.fd = peer->fd, .pidfd = peer->pidfd, .pid = peer->pid};
	switch (sy_local_peer_read(&local, &last_notice)) {
	case SY_LOCAL_NOTHING:
		return false;
	case SY_LOCAL_BYE:
		SY_FAILPOINT(UNIT_BYE);
		end_socket(daemon, index, SY_EVENT_PEER_BYE, last_notice, now_ns);
		return true;
	case SY_LOCAL_EOF:
		SY_FAILPOINT(UNIT_EOF);
		end_socket(daemon, index, SY_EVENT_PEER_EOF, 0, now_ns);
		return true;
	}
	return true;
}

static bool is_readable(int fd)
{
	struct pollfd asked = {.fd = fd, .events = POLLIN};
	return poll(&asked, 1, 0) > 0;
}

/* The process is gone: nothing of it writes or reads any more, whatever it left unsaid. */
static void end_process(struct sy_daemon *daemon, uint32_t index, uint64_t now_ns)
{
	const struct sy_peer *peer = sy_peers_at(&daemon->peers, index);
	/* The event may be of an earlier peer under this index. */
	if (peer == NULL || !is_readable(peer->pidfd))
		return;
	SY_FAILPOINT(UNIT_GONE);
	uint64_t token = peer->token;
	if (!read_socket(daemon, index, now_ns))
		end_socket(daemon, index, SY_EVENT_PEER_EOF, 0, now_ns);
	if (sy_peers_find(&daemon->peers, token) != index)
		return;
	sy_peers_remove(&daemon->peers, index);
	sy_serve_peer(daemon->serve, SY_EVENT_PEER_GONE, token, 0, now_ns);
}

static void read_signal(struct sy_daemon *daemon)
{
	struct signalfd_siginfo info;
	if (read(daemon->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
		daemon->stop = true;
}

static void fail(struct sy_daemon *daemon, const char *why)
{
	sy_daemon_say(daemon, "%s", why);
	daemon->stop = true;
	daemon->status = 1;
}

static void read_directory(struct sy_daemon *daemon, uint64_t now_ns)
{
	enum sy_unit_state state = sy_dir_watch_state(daemon->watch);
	if (state == SY_UNIT_DEAD)
		fail(daemon, "the directory has declared this unit dead: its rows are lost, stopping");
	else
		sy_serve_state(daemon->serve, state, now_ns);
}

static void run_event(struct sy_daemon *daemon, uint64_t data, uint64_t now_ns)
{
	uint32_t index = (uint32_t)data;
	switch ((enum watched)(data >> 32)) {
	case WATCH_CONTROL:
		break; /* looked at every turn */
	case WATCH_LOCAL:
		accept_peer(daemon);
		break;
	case WATCH_SIGNAL:
		read_signal(daemon);
		break;
	case WATCH_DIRECTORY:
		read_directory(daemon, now_ns);
		break;
	case WATCH_PEER:
		(void)read_socket(daemon, index, now_ns);
		break;
	case WATCH_DISK:
		hear_disk(daemon, now_ns);
		break;
	case WATCH_PID:
		end_process(daemon, index, now_ns);
		break;
	}
}

static void hear(struct sy_daemon *daemon)
{
	for (uint32_t i = 0; i < MESSAGES_A_TURN; i++) {
		uint64_t route = 0;
		const void *message = NULL;
		size_t bytes = 0;
		if (!sy_control_server_receive(daemon->control, &route, &message, &bytes)) {
			daemon->drain_left = 0;
			return;
		}
		sy_serve_message(daemon->serve, route, message, bytes, sy_clock_now_ns());
		daemon->drain_left -= daemon->drain_left > 0;
	}
}

/* A unit that stood still (stopped, or its host was) has not heard its clients meanwhile: remote
 * leases get the time back, and what waits in the sockets is heard before any timer. The loop
 * itself never sleeps longer than half a heartbeat. */
static void notice_stall(struct sy_daemon *daemon, uint64_t now_ns)
{
	uint64_t gap_ns = now_ns - daemon->turn_ns;
	daemon->turn_ns = now_ns;
	if (gap_ns <= daemon->config->heartbeat_ns)
		return;
	sy_serve_stalled(daemon->serve, gap_ns, now_ns);
	daemon->drain_left = MESSAGES_A_DRAIN;
}

/* People shall see why nobody is answered. */
static void notice_fence(struct sy_daemon *daemon)
{
	bool is_fenced = fenced(daemon);
	if (is_fenced == daemon->was_fenced)
		return;
	daemon->was_fenced = is_fenced;
	sy_daemon_say(daemon, is_fenced ? "out of touch with the directory: it may take this unit for "
	                                  "dead, so nobody is answered until it answers"
	                                : "in touch with the directory again, serving");
}

static int sleep_ms(const struct sy_daemon *daemon)
{
	if (sy_serve_pending(daemon->serve) || sy_control_server_ready(daemon->control))
		return 0;
	uint64_t now_ns = sy_clock_now_ns();
	uint64_t latest_ns = now_ns + daemon->config->heartbeat_ns / 2;
	return sy_clock_poll_ms(now_ns, sy_min_u64(latest_ns, sy_serve_deadline(daemon->serve)));
}

static sy_status turn(struct sy_daemon *daemon, sy_error *err)
{
	struct epoll_event events[EVENTS_A_TURN];
	int count = epoll_wait(daemon->epoll_fd, events, EVENTS_A_TURN, sleep_ms(daemon));
	if (count < 0 && errno != EINTR)
		return sy_fail(err, SY_E_SYS, __func__, "cannot wait for events: %s", strerror(errno));
	uint64_t now_ns = sy_clock_now_ns();
	notice_stall(daemon, now_ns);
	notice_fence(daemon);
	hear(daemon);
	now_ns = sy_clock_now_ns();
	for (int i = 0; i < count; i++)
		run_event(daemon, events[i].data.u64, now_ns);
	if (sy_slab_is_torn())
		fail(daemon, "a client has cut off the slab's file: its rows are lost, stopping");
	/* No lease is looked at (both below do) while messages are still to be heard after a stall,
	 * nor where we were stopped since this turn began, which only the next one deals with. */
	if (daemon->drain_left > 0 || now_ns - daemon->turn_ns > daemon->config->heartbeat_ns)
		return SY_OK;
	for (uint32_t i = 0; i < STEPS_A_TURN && sy_serve_pending(daemon->serve); i++)
		sy_serve_continue(daemon->serve, now_ns);
	if (sy_serve_deadline(daemon->serve) <= now_ns)
		sy_serve_tick(daemon->serve, now_ns);
	return SY_OK;
}

sy_status sy_daemon_loop(struct sy_daemon *daemon, sy_error *err)
{
	if (!watch(daemon, sy_control_server_fd(daemon->control), WATCH_CONTROL, 0) ||
	    !watch(daemon, sy_local_server_fd(daemon->local), WATCH_LOCAL, 0) ||
	    !watch(daemon, daemon->signal_fd, WATCH_SIGNAL, 0) ||
	    (daemon->disk != NULL && !watch(daemon, sy_disk_fd(daemon->disk), WATCH_DISK, 0)) ||
	    (daemon->watch != NULL &&
	     !watch(daemon, sy_dir_watch_fd(daemon->watch), WATCH_DIRECTORY, 0)))
		return sy_fail(err, SY_E_SYS, __func__, "cannot watch the sockets: %s", strerror(errno));
	daemon->turn_ns = sy_clock_now_ns();
	sy_status status = SY_OK;
	while (status == SY_OK && !daemon->stop)
		status = turn(daemon, err);
	return status;
}
