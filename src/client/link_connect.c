/* Connecting to one unit: through its local socket and shared memory, or as to one of another
 * host. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "failpoints.h"
#include "hub_inner.h"
#include "local.h"

static const uint64_t SILENT_NS = 1000 * 1000 * 1000;

/* The slot's unit is dead by the directory, or (incarnation 0) lets nobody of this process in:
 * what waits for it waits in vain. */
static void fail_waiting(struct sy_link *link, uint64_t incarnation, uint64_t now_ns)
{
	struct sy_call *next;

	for (struct sy_call *call = link->calls; call != NULL; call = next) {
		next = call->next_on_link;
		if (call->op.stage == SY_OP_STAGE_WRITING)
			continue;
		call->found_dead = incarnation != 0;
		call->refused = incarnation == 0;
		call->dead_incarnation = incarnation;
		sy_machine_cancel(link->machine, &call->op, now_ns);
	}
}

/* The unit has just handed its slab over, and the time that mapping it took was ours. */
static void wait_anew(struct sy_link *link, uint64_t now_ns)
{
	for (struct sy_call *call = link->calls; call != NULL; call = call->next_on_link)
		call->waits_since_ns = now_ns;
}

/* What one connect makes, outside the lock. */
struct connection {
	struct sy_local_welcome welcome;
	int local_fd, door_fd;
	struct sy_remote *remote;
	struct sy_control_client *control;
	struct sy_lane lane;
	bool was_ready; /* the unit, before this */
};

static void unmake(struct connection *made)
{
	sy_lane_done(&made->lane);
	sy_local_close(made->door_fd);
	sy_local_close(made->local_fd);
	sy_remote_unref(made->remote);
	*made = (struct connection){.local_fd = -1, .door_fd = -1, .was_ready = made->was_ready};
}

/* What a lane takes of this process: memory, which also RLIMIT_FSIZE bounds, and descriptors. */
static sy_status make_lane(struct sy_hub *hub, struct connection *made,
                           struct sy_local_lane *ret_handed, sy_error *err)
{
	sy_status status = sy_lane_make(&hub->budget, &made->lane, &ret_handed->lane_fd, err);

	if (status != SY_OK)
		return status;
	ret_handed->door_fd = made->door_fd = sy_local_door();
	if (made->door_fd >= 0)
		return SY_OK;
	status = sy_fail(err, SY_E_SYS, __func__, "cannot make a descriptor (errno %d)", errno);
	close(ret_handed->lane_fd);
	sy_lane_done(&made->lane);
	return status;
}

/* A client that was not told which way to take goes over ZeroMQ where it can have no lane. */
static sy_status open_channel(struct sy_hub *hub, const struct sy_unit_info *info,
                              struct connection *made, sy_error *err)
{
	struct sy_local_lane handed = {.lane_fd = -1, .bell_fd = hub->bell_fd};
	bool by_lane = hub->config.control != SY_CONTROL_ZMQ && made->welcome.lanes != 0;

	if (!by_lane && hub->config.control == SY_CONTROL_LOCAL)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "unit %u takes messages over ZeroMQ alone, and the client was told to use "
		               "nothing but shared memory", info->unit_id);
	if (by_lane) {
		sy_status status = make_lane(hub, made, &handed, err);

		if (status != SY_OK && hub->config.control == SY_CONTROL_LOCAL)
			return status;
		by_lane = status == SY_OK;
	}
	if (!by_lane)
		return sy_control_client_open(hub->context, info->ipc_address, &made->control, err);
	/* Everything that the unit needs to read our messages and to wake us goes over in one. */
	bool joined = sy_local_join(made->local_fd, &handed);

	close(handed.lane_fd);
	return joined ? SY_OK
	              : sy_fail(err, SY_E_SYS, __func__, "the unit closed the connection");
}

static sy_status make_local(struct sy_hub *hub, const struct sy_unit_info *info,
                            uint64_t welcome_ns, struct connection *made, sy_error *err)
{
	int slab_fd = -1;
	sy_status status = sy_local_connect(info->local_path, welcome_ns, &made->welcome,
	                                    &made->local_fd, &slab_fd, err);

	if (status != SY_OK)
		return status;
	SY_FAILPOINT(CLIENT_WELCOMED);
	if (made->welcome.unit_id != info->unit_id) {
		close(slab_fd);
		unmake(made);
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the socket of unit %u belongs to unit %u",
		               info->unit_id, made->welcome.unit_id);
	}
	status = sy_shm_attach(slab_fd, made->welcome.slab_bytes, made->welcome.incarnation,
	                       &made->remote, err);
	SY_FAILPOINT(CLIENT_ATTACHED);
	if (status == SY_OK)
		status = open_channel(hub, info, made, err);
	if (status != SY_OK)
		unmake(made);
	return status;
}

static bool is_this_host(const struct sy_hub *hub, const struct sy_unit_info *info)
{
	return memcmp(info->boot_id, hub->identity.boot_id, sizeof info->boot_id) == 0;
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "tcp://127.", 10) == 0 || strncmp(address, "tcp://[::1]", 11) == 0;
}

/* Of another host: control messages over tcp, values over UCX. What UCX lacks is no obstacle to a
 * session, for small values need none; each transfer says it. A unit that asks for other keys than
 * there are never answers. */
static sy_status make_remote(struct sy_hub *hub, const struct sy_unit_info *info,
                             uint64_t welcome_ns, struct connection *made, sy_error *err)
{
	sy_status status = SY_OK;

	if (!is_this_host(hub, info) && is_loopback(info->tcp_address))
		return sy_fail(err, SY_E_SYS, __func__,
		               "unit %u is on another host and listens there at %s alone: start it with "
		               "--listen and an address that this host reaches", info->unit_id,
		               info->tcp_address);
	if (!made->was_ready)
		status = sy_control_context_check(hub->context, info->tcp_address, welcome_ns, err);
	if (status != SY_OK)
		return status;
	(void)sy_hub_need_mover(hub, info->tcp_address, NULL);
	return sy_control_client_open(hub->context, info->tcp_address, &made->control, err);
}

/* Where the run directory is there and the socket is not, its unit has gone. */
static bool sees_socket(const char *path)
{
	char dir[SY_UNIT_ADDRESS_BYTES];
	const char *slash = strrchr(path, '/');

	if (access(path, R_OK | W_OK) == 0)
		return true;
	if (errno != ENOENT || slash == NULL)
		return false;
	sy_format(dir, sizeof dir, "%.*s", (int)(slash - path), path);
	return access(dir, X_OK) == 0;
}

/* With a unit of this host through its socket, unless it is told otherwise or sees no such socket:
 * a container has files of its own. */
static sy_status make(struct sy_hub *hub, const struct sy_unit_info *info, uint64_t welcome_ns,
                      struct connection *made, sy_error *err)
{
	bool local = hub->config.path == SY_PATH_SHM ||
	             (hub->config.path == SY_PATH_AUTO && is_this_host(hub, info) &&
	              (sees_socket(info->local_path) ||
	               hub->config.policy == SY_POLICY_SAME_HOST));

	if (!local)
		return make_remote(hub, info, welcome_ns, made, err);
	if (!is_this_host(hub, info))
		return sy_fail(err, SY_E_SYS, __func__,
		               "unit %u is on another host, and the client was told to use nothing but "
		               "shared memory", info->unit_id);
	return make_local(hub, info, welcome_ns, made, err);
}

/* A link that is not watched would miss its unit's end, or its answers: to be dropped then. */
static sy_status put_in_place(struct sy_link *link, const struct connection *made,
                              uint64_t incarnation, sy_error *err)
{
	bool watched;

	sy_link_drop_connection(link, 0);
	link->incarnation = incarnation;
	link->local_fd = made->local_fd;
	link->remote = made->remote;
	link->control = made->control;
	link->lane = made->lane;
	link->door_fd = made->door_fd;
	if (link->control == NULL && link->hub->lane_count++ == 0)
		sy_hub_wake_keeper(link->hub); /* it takes over the epoll set */
	watched = (link->local_fd < 0 || sy_link_watch(link, link->local_fd, true)) &&
	          (link->control == NULL ||
	           sy_link_watch(link, sy_control_client_fd(link->control), false));
	if (!watched)
		return sy_fail(err, SY_E_SYS, __func__, "cannot watch the connection to unit %u: %s",
		               link->unit_id, strerror(errno));
	if (link->remote != NULL)
		sy_hub_populate(link->hub, link->remote);
	sy_machine_connected(link->machine, made->welcome.token, incarnation, sy_clock_now_ns());
	SY_FAILPOINT(CLIENT_CONNECTED);
	return SY_OK;
}

bool sy_hub_is_silent(uint64_t silent_ns, uint64_t now_ns)
{
	return silent_ns != 0 && now_ns - silent_ns < SILENT_NS;
}

/* The list may be old: the unit may be dead, or another one may be in its place. False: no answer
 * came. */
static bool ask_directory(struct sy_hub *hub, const struct sy_connect_limits *limits)
{
	uint64_t now_ns = sy_clock_now_ns();
	uint64_t end_ns = sy_min_u64(now_ns + limits->ask_ns, limits->deadline_ns);

	return end_ns <= now_ns || sy_hub_refresh(hub, end_ns, NULL) != SY_E_TIMEOUT;
}

bool sy_link_connect(struct sy_link *link, const struct sy_connect_limits *limits)
{
	uint64_t welcome_ns = sy_clock_now_ns() + limits->welcome_ns;
	struct sy_hub *hub = link->hub;
	struct sy_unit_info info = hub->units[link->unit_id];
	struct connection made = {.local_fd = -1, .door_fd = -1, .was_ready = link->was_ready};
	bool listed = sy_unit_lives(info.state), answered = true;
	sy_error err = {0};
	sy_status status = SY_E_SYS;

	sy_link_set_due(link, false);
	link->connecting = true;
	pthread_mutex_unlock(&hub->lock);
	SY_FAILPOINT(CLIENT_EFFECT_CONNECT);
	if (listed)
		status = make(hub, &info, welcome_ns, &made, &err);
	if (status != SY_OK) {
		answered = ask_directory(hub, limits);
		pthread_mutex_lock(&hub->lock);
		struct sy_unit_info now = hub->units[link->unit_id];
		pthread_mutex_unlock(&hub->lock);
		bool other = now.incarnation != info.incarnation || !listed;

		info = now;
		if (other && sy_unit_lives(now.state))
			status = make(hub, &info, welcome_ns, &made, &err);
	}
	pthread_mutex_lock(&hub->lock);
	link->connecting = false;
	bool local = made.local_fd >= 0;

	if (status == SY_OK)
		status = put_in_place(link, &made, local ? made.welcome.incarnation : info.incarnation,
		                      &err);
	if (status == SY_OK && local)
		wait_anew(link, sy_clock_now_ns());
	if (status != SY_OK) {
		link->failure = err;
		sy_link_disconnect(link, sy_clock_now_ns());
		if (info.state == SY_UNIT_DEAD)
			fail_waiting(link, info.incarnation, sy_clock_now_ns());
		else if (status == SY_E_AUTH)
			fail_waiting(link, 0, sy_clock_now_ns());
	}
	sy_link_pump(link, sy_clock_now_ns());
	for (struct sy_waiter *w = hub->waiters; w != NULL; w = w->next)
		sy_waiter_wake(hub, w);
	return answered;
}
