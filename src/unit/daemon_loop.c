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
#include "proto.h"

enum {
	MESSAGES_A_TURN = 64,
	STEPS_A_TURN = 16,
	EVENTS_A_TURN = 64,
	/* Heard before the first timer after a stall: more than the sockets' queues of many clients
	 * hold, yet an end where somebody sends for ever. */
	MESSAGES_A_DRAIN = 65536,
};

bool sy_daemon_watch(struct sy_daemon *daemon, int fd, enum sy_daemon_watched kind,
                     uint32_t index)
{
	/* Nobody reads a door: each time it is written it reports once. */
	uint32_t events = kind == SY_DAEMON_DOOR ? EPOLLIN | EPOLLET : EPOLLIN;
	struct epoll_event event = {.events = events, .data.u64 = (uint64_t)kind << 32 | index};
	return epoll_ctl(daemon->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void send_reply(void *context, uint64_t route, const void *message, size_t bytes)
{
	struct sy_daemon *daemon = context;
	/* What was read from a slab that was cut off is nobody's value. */
	if (sy_slab_is_torn())
		return;
	if (sy_peers_is_route(route)) {
		sy_daemon_lane_send(daemon, route, message, bytes);
		return;
	}
	sy_control_server_send(daemon->control, route, message, bytes);
	daemon->control_due = true;
}

static bool fenced(void *context)
{
	const struct sy_daemon *daemon = context;
	return daemon->registered && sy_lease_is_fenced(&daemon->lease, sy_clock_now_ns());
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
		sy_serve_disk(daemon->serve, end.blob, end.grant, end.result, now_ns);
}

static const char *admit(void *context, uint64_t session)
{
	struct sy_daemon *daemon = context;
	return sy_ucx_target_admit(daemon->ucx, session) ? sy_ucx_target_address(daemon->ucx) : NULL;
}

static void fence(void *context, uint64_t session)
{
	struct sy_daemon *daemon = context;
	sy_ucx_target_fence(daemon->ucx, session);
}

static void hear_ucx(struct sy_daemon *daemon, uint64_t now_ns)
{
	uint64_t session;
	for (uint32_t i = 0; i < daemon->config->max_sessions; i++) {
		if (!sy_ucx_target_next(daemon->ucx, &session))
			return;
		sy_serve_fenced(daemon->serve, session, now_ns);
	}
}

struct sy_serve_io sy_daemon_io(struct sy_daemon *daemon)
{
	return (struct sy_serve_io){
		.context = daemon,
		.send = send_reply,
		.fenced = fenced,
		.token_lives = sy_daemon_token_lives,
		.peer_done = sy_daemon_peer_done,
		.disk = run_disk,
		.admit = admit,
		.fence = fence,
		.allow_tcp = sy_unit_config_policy(daemon->config) == SY_POLICY_ALLOW_TCP,
	};
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
	switch ((enum sy_daemon_watched)(data >> 32)) {
	case SY_DAEMON_CONTROL:
		break; /* looked at first */
	case SY_DAEMON_LOCAL:
		sy_daemon_accept(daemon);
		break;
	case SY_DAEMON_SIGNAL:
		read_signal(daemon);
		break;
	case SY_DAEMON_DIRECTORY:
		read_directory(daemon, now_ns);
		break;
	case SY_DAEMON_PEER:
		(void)sy_daemon_read_socket(daemon, index, now_ns);
		break;
	case SY_DAEMON_DISK:
		hear_disk(daemon, now_ns);
		break;
	case SY_DAEMON_UCX:
		hear_ucx(daemon, now_ns);
		break;
	case SY_DAEMON_PID:
		sy_daemon_end_process(daemon, index, now_ns);
		break;
	case SY_DAEMON_DOOR:
		sy_daemon_serve_lane(daemon, index);
		break;
	}
}

/* ZeroMQ's descriptor tells of what came since the socket was last used: it is looked at when it
 * does, and after every use. */
static void hear(struct sy_daemon *daemon)
{
	for (uint32_t i = 0; i < MESSAGES_A_TURN && daemon->control_due; i++) {
		uint64_t route = 0;
		const void *message = NULL;
		size_t bytes = 0;
		if (!sy_control_server_receive(daemon->control, &route, &message, &bytes)) {
			daemon->drain_left = 0;
			daemon->control_due = false;
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
	daemon->control_due = true;
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

static int sleep_ms(struct sy_daemon *daemon)
{
	if (daemon->control_due)
		daemon->control_due = sy_control_server_ready(daemon->control);
	if (daemon->control_due || sy_serve_pending(daemon->serve) || daemon->peers.work_head != 0)
		return 0;
	uint64_t now_ns = sy_clock_now_ns();
	uint64_t latest_ns = now_ns + daemon->config->heartbeat_ns / 2;
	return sy_clock_poll_ms(now_ns, sy_min_u64(latest_ns, sy_serve_deadline(daemon->serve)));
}

static sy_status turn(struct sy_daemon *daemon, sy_error *err)
{
	struct epoll_event events[EVENTS_A_TURN];
	int wait_ms = sleep_ms(daemon);
	if (wait_ms != 0 && sy_daemon_spin(daemon))
		wait_ms = 0;
	int count = epoll_wait(daemon->epoll_fd, events, EVENTS_A_TURN, wait_ms);
	if (count < 0 && errno != EINTR)
		return sy_fail(err, SY_E_SYS, __func__, "cannot wait for events: %s", strerror(errno));
	uint64_t now_ns = sy_clock_now_ns();
	notice_stall(daemon, now_ns);
	notice_fence(daemon);
	for (int i = 0; i < count; i++)
		daemon->control_due |= events[i].data.u64 >> 32 == SY_DAEMON_CONTROL;
	hear(daemon);
	now_ns = sy_clock_now_ns();
	for (int i = 0; i < count; i++)
		run_event(daemon, events[i].data.u64, now_ns);
	sy_daemon_look(daemon);
	sy_daemon_work(daemon);
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
	if (!sy_daemon_watch(daemon, sy_control_server_fd(daemon->control), SY_DAEMON_CONTROL, 0) ||
	    !sy_daemon_watch(daemon, sy_local_server_fd(daemon->local), SY_DAEMON_LOCAL, 0) ||
	    !sy_daemon_watch(daemon, daemon->signal_fd, SY_DAEMON_SIGNAL, 0) ||
	    (daemon->disk != NULL &&
	     !sy_daemon_watch(daemon, sy_disk_fd(daemon->disk), SY_DAEMON_DISK, 0)) ||
	    (daemon->ucx != NULL &&
	     !sy_daemon_watch(daemon, sy_ucx_target_fd(daemon->ucx), SY_DAEMON_UCX, 0)) ||
	    (daemon->watch != NULL &&
	     !sy_daemon_watch(daemon, sy_dir_watch_fd(daemon->watch), SY_DAEMON_DIRECTORY, 0)))
		return sy_fail(err, SY_E_SYS, __func__, "cannot watch the sockets: %s", strerror(errno));
	daemon->turn_ns = sy_clock_now_ns();
	daemon->control_due = true;
	sy_spin_init(&daemon->spin);
	sy_status status = SY_OK;
	while (status == SY_OK && !daemon->stop)
		status = turn(daemon, err);
	return status;
}
