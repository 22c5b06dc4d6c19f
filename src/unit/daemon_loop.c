/* One turn: messages first, then connections and ends, then work that goes on, then timers.
 * Each part is bounded, so that none starves the others. Of the units of a process those take part
 * that have something to do. */
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
	uint64_t data = (uint64_t)daemon->number << 48 | (uint64_t)kind << 32 | index;
	struct epoll_event event = {.events = events, .data.u64 = data};
	return epoll_ctl(daemon->loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
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
	const char *host = daemon->hears ? sy_control_server_peer(daemon->control) : NULL;
	bool admitted = sy_ucx_target_admit(daemon->ucx, session, host);
	return admitted ? sy_ucx_target_address(daemon->ucx) : NULL;
}

static void fence(void *context, uint64_t session)
{
	struct sy_daemon *daemon = context;
	sy_ucx_target_fence(daemon->ucx, session);
}

static void hear_ucx(struct sy_daemon *daemon, uint64_t now_ns)
{
	uint64_t session;
	for (uint32_t i = 0; i < daemon->config.max_sessions; i++) {
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
		.allow_tcp = sy_unit_config_policy(&daemon->config) == SY_POLICY_ALLOW_TCP,
	};
}

static enum sy_daemon_watched kind_of(const struct epoll_event *event)
{
	return (enum sy_daemon_watched)(event->data.u64 >> 32 & UINT16_MAX);
}

static struct sy_daemon *daemon_of(struct sy_daemon_loop *loop, const struct epoll_event *event)
{
	return &loop->daemons[event->data.u64 >> 48];
}

static void read_signal(struct sy_daemon_loop *loop)
{
	struct signalfd_siginfo info;
	if (read(loop->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
		loop->stop = true;
}

/* The units of a process end together. */
static void fail(struct sy_daemon *daemon, const char *why)
{
	sy_daemon_say(daemon, "%s", why);
	daemon->loop->stop = true;
	daemon->loop->status = 1;
}

static void read_directory(struct sy_daemon *daemon, uint64_t now_ns)
{
	enum sy_unit_state state = sy_dir_watch_state(daemon->watch);
	if (state == SY_UNIT_DEAD)
		fail(daemon, "the directory has declared this unit dead: its rows are lost, stopping");
	else
		sy_serve_state(daemon->serve, state, now_ns);
}

static void run_event(struct sy_daemon *daemon, const struct epoll_event *event, uint64_t now_ns)
{
	uint32_t index = (uint32_t)event->data.u64;
	switch (kind_of(event)) {
	case SY_DAEMON_CONTROL:
		break; /* looked at first */
	case SY_DAEMON_LOCAL:
		sy_daemon_accept(daemon);
		break;
	case SY_DAEMON_SIGNAL:
		read_signal(daemon->loop);
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
		sy_daemon_hear_door(daemon, index);
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
		daemon->hears = true;
		sy_serve_message(daemon->serve, route, message, bytes, sy_clock_now_ns());
		daemon->hears = false;
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
	if (gap_ns <= daemon->config.heartbeat_ns)
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

void sy_daemon_touch(struct sy_daemon *daemon, uint64_t now_ns)
{
	if (daemon->is_touched)
		return;
	daemon->is_touched = true;
	daemon->next_touched = daemon->loop->touched;
	daemon->loop->touched = daemon;
	notice_stall(daemon, now_ns);
	notice_fence(daemon);
	hear(daemon);
}

/* When it has something to do, if nothing happens before. */
static uint64_t next_turn_ns(struct sy_daemon *daemon)
{
	if (daemon->control_due)
		daemon->control_due = sy_control_server_ready(daemon->control);
	if (!daemon->control_due)
		daemon->drain_left = 0;
	if (daemon->control_due || sy_serve_pending(daemon->serve) || daemon->peers.work_head != 0)
		return 0;
	uint64_t latest_ns = sy_clock_now_ns() + daemon->config.heartbeat_ns / 2;
	return sy_min_u64(latest_ns, sy_serve_deadline(daemon->serve));
}

static void run_work(struct sy_daemon *daemon)
{
	sy_daemon_work(daemon);
	uint64_t now_ns = sy_clock_now_ns();
	/* No lease is looked at (both below do) while messages are still to be heard after a stall,
	 * nor where we were stopped since this turn began, which only the next one deals with. */
	if (daemon->drain_left > 0 || now_ns - daemon->turn_ns > daemon->config.heartbeat_ns)
		return;
	for (uint32_t i = 0; i < STEPS_A_TURN && sy_serve_pending(daemon->serve); i++)
		sy_serve_continue(daemon->serve, now_ns);
	if (sy_serve_deadline(daemon->serve) <= now_ns)
		sy_serve_tick(daemon->serve, now_ns);
}

static int sleep_ms(const struct sy_daemon_loop *loop)
{
	uint64_t wakes_ns = UINT64_MAX;
	for (uint32_t i = 0; i < loop->count; i++)
		wakes_ns = sy_min_u64(wakes_ns, loop->wakes_ns[i]);
	return wakes_ns == 0 ? 0 : sy_clock_poll_ms(sy_clock_now_ns(), wakes_ns);
}

/* Who takes part in a turn from its beginning. */
static void touch_all(struct sy_daemon_loop *loop, const struct epoll_event *events, int count)
{
	uint64_t now_ns = sy_clock_now_ns();
	for (int i = 0; i < count; i++)
		daemon_of(loop, &events[i])->control_due |= kind_of(&events[i]) == SY_DAEMON_CONTROL;
	for (int i = 0; i < count; i++)
		sy_daemon_touch(daemon_of(loop, &events[i]), now_ns);
	for (uint32_t i = 0; i < loop->count; i++) {
		if (loop->wakes_ns[i] <= now_ns)
			sy_daemon_touch(&loop->daemons[i], now_ns);
	}
}

static sy_status turn(struct sy_daemon_loop *loop, sy_error *err)
{
	struct epoll_event events[EVENTS_A_TURN];
	int wait_ms = sleep_ms(loop);
	if (wait_ms != 0 && sy_daemon_spin(loop))
		wait_ms = 0;
	loop->expects = false;
	int count = epoll_wait(loop->epoll_fd, events, EVENTS_A_TURN, wait_ms);
	if (count < 0 && errno != EINTR)
		return sy_fail(err, SY_E_SYS, __func__, "cannot wait for events: %s", strerror(errno));
	touch_all(loop, events, count);
	uint64_t now_ns = sy_clock_now_ns();
	for (int i = 0; i < count; i++)
		run_event(daemon_of(loop, &events[i]), &events[i], now_ns);
	sy_daemon_look(loop);
	while (loop->touched != NULL) {
		struct sy_daemon *daemon = loop->touched;
		loop->touched = daemon->next_touched;
		daemon->is_touched = false;
		run_work(daemon);
		loop->wakes_ns[daemon->number] = next_turn_ns(daemon);
	}
	if (sy_slab_is_torn())
		fail(&loop->daemons[0],
		     "a client has cut off the slab's file: its rows are lost, stopping");
	return SY_OK;
}

bool sy_daemon_watch_all(struct sy_daemon *daemon)
{
	return sy_daemon_watch(daemon, sy_control_server_fd(daemon->control), SY_DAEMON_CONTROL, 0) &&
	       sy_daemon_watch(daemon, sy_local_server_fd(daemon->local), SY_DAEMON_LOCAL, 0) &&
	       (daemon->disk == NULL ||
	        sy_daemon_watch(daemon, sy_disk_fd(daemon->disk), SY_DAEMON_DISK, 0)) &&
	       (daemon->ucx == NULL ||
	        sy_daemon_watch(daemon, sy_ucx_target_fd(daemon->ucx), SY_DAEMON_UCX, 0)) &&
	       (daemon->watch == NULL ||
	        sy_daemon_watch(daemon, sy_dir_watch_fd(daemon->watch), SY_DAEMON_DIRECTORY, 0));
}

sy_status sy_daemon_turn(struct sy_daemon_loop *loop, sy_error *err)
{
	for (uint32_t i = 0; i < loop->count; i++) {
		struct sy_daemon *daemon = &loop->daemons[i];
		daemon->turn_ns = sy_clock_now_ns();
		daemon->control_due = true;
	}
	sy_spin_init(&loop->spin);
	sy_spin_init(&loop->announced);
	sy_status status = SY_OK;
	while (status == SY_OK && !loop->stop)
		status = turn(loop, err);
	return status;
}
