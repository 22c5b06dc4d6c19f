/* One unit: its machine, its lane or control socket, its local socket, its slab. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "clock.h"
#include "fail.h"
#include "failpoints.h"
#include "guard.h"
#include "hub_inner.h"
#include "local.h"

enum { BYE_LINGER_MS = 200 };

/* What epoll gives back: the unit's number and which of its two descriptors. */
static uint64_t tag(const struct sy_link *link, bool local_socket)
{
	return ((uint64_t)link->unit_id + 1) << 1 | (local_socket ? 1 : 0);
}

bool sy_link_watch(struct sy_link *link, int fd, bool local_socket)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = tag(link, local_socket)};

	return epoll_ctl(link->hub->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void unwatch(struct sy_link *link, int fd)
{
	epoll_ctl(link->hub->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

struct sy_link *sy_link_get(struct sy_hub *hub, uint32_t unit_id)
{
	SY_ASSERT(unit_id < hub->unit_count);
	if (hub->links[unit_id] != NULL)
		return hub->links[unit_id];

	struct sy_link *link = calloc(1, sizeof *link);
	struct sy_machine_config config = {
		.unit_id = unit_id,
		.slot_count = hub->unit_count,
		.identity = hub->identity,
		.ns = {(const uint8_t *)hub->name_space, strlen(hub->name_space)},
		.control_timeout_ns = hub->config.control_timeout_ns,
		.trust_ns = hub->times.dead_after_ns - hub->times.fence_after_ns,
	};

	if (link == NULL)
		return NULL;
	link->machine = sy_machine_new(&config);
	if (link->machine == NULL) {
		free(link);
		return NULL;
	}
	link->hub = hub;
	link->unit_id = unit_id;
	link->local_fd = -1;
	link->door_fd = -1;
	hub->links[unit_id] = link;
	return link;
}

void sy_link_drop_connection(struct sy_link *link, int linger_ms)
{
	if (link->local_fd >= 0) {
		unwatch(link, link->local_fd);
		sy_local_close(link->local_fd);
		link->local_fd = -1;
	}
	if (link->control != NULL) {
		unwatch(link, sy_control_client_fd(link->control));
		sy_control_client_close(link->control, linger_ms);
		link->control = NULL;
	}
	if (link->lane.shared != NULL) {
		sy_lane_done(&link->lane);
		sy_local_close(link->door_fd);
		link->door_fd = -1;
		link->hub->lane_count--;
	}
	if (link->remote != NULL)
		sy_hub_keep_by(link->hub, 0); /* has it unmapped */
	sy_remote_unref(link->remote);
	link->remote = NULL;
	link->remote_session = 0;
}

bool sy_link_connected(const struct sy_link *link)
{
	return link->control != NULL || link->lane.shared != NULL;
}

void sy_link_free(struct sy_link *link)
{
	if (link == NULL)
		return;
	sy_link_drop_connection(link, 0);
	sy_machine_free(link->machine);
	free(link);
}

/* Every notice was executed, or time is up: after this the unit frees all that we held. */
void sy_link_bye(struct sy_link *link)
{
	SY_FAILPOINT(CLIENT_BYE);
	if (link->local_fd >= 0)
		sy_local_bye(link->local_fd, sy_machine_last_notice(link->machine));
	sy_link_drop_connection(link, BYE_LINGER_MS);
}

static void call_ended(struct sy_link *link, struct sy_call *call)
{
	struct sy_call **at = &link->calls;

	while (*at != call)
		at = &(*at)->next_on_link;
	*at = call->next_on_link;
	call->done = true;
	bool answered = call->op.end == SY_OP_END_OK || call->op.end == SY_OP_END_LATE;
	if (answered && link->remote != NULL && sy_op_reaches(&call->op, link->remote->incarnation))
		call->remote = sy_remote_ref(link->remote);
	call->waiter->pending--;
	sy_call_push(&call->waiter->ended, call);
	sy_waiter_wake(link->hub, call->waiter);
}

static void write_due(struct sy_link *link, struct sy_call *call)
{
	call->remote_now = link->remote != NULL ? sy_remote_ref(link->remote) : NULL;
	call->next_write = call->waiter->writes;
	call->waiter->writes = call;
	sy_waiter_wake(link->hub, call->waiter);
}

void sy_link_set_due(struct sy_link *link, bool due)
{
	link->hub->due_count += due;
	link->hub->due_count -= link->connect_due;
	if (due && !link->connect_due)
		link->due_number = ++link->hub->due_number;
	link->connect_due = due;
}

static void connect_due(struct sy_link *link)
{
	sy_link_set_due(link, true);
	for (struct sy_waiter *w = link->hub->waiters; w != NULL; w = w->next)
		sy_waiter_wake(link->hub, w);
	sy_hub_keep_by(link->hub, 0);
}

static bool receive(struct sy_link *link, const void **ret_message, size_t *ret_bytes)
{
	if (link->lane.shared != NULL)
		return sy_lane_receive(&link->lane, link->hub->lane_copy, ret_message, ret_bytes);
	return link->control != NULL &&
	       sy_control_client_receive(link->control, ret_message, ret_bytes);
}

/* Over UCX a slab is reached in a session, whose connections the unit fences at its end. */
static void follow_session(struct sy_link *link)
{
	const struct sy_hello_result *hello = sy_machine_hello(link->machine);

	link->was_ready |= sy_machine_state(link->machine) == SY_MACHINE_READY;
	if (link->local_fd >= 0 || sy_machine_state(link->machine) != SY_MACHINE_READY ||
	    link->remote_session == hello->session)
		return;
	sy_remote_unref(link->remote);
	link->remote = NULL;
	link->remote_session = hello->session;
	if ((hello->transports & SY_TRANSPORT_UCX) != 0)
		link->remote = sy_ucx_attach(link->hub->mover, &link->hub->mover_fault, hello);
}

static bool drain(struct sy_link *link, uint64_t now_ns)
{
	const void *message;
	size_t bytes;
	bool any = false;

	while (receive(link, &message, &bytes)) {
		link->hub->scratch.used = 0;
		sy_machine_receive(link->machine, message, bytes, &link->hub->scratch, now_ns);
		any = true;
	}
	follow_session(link);
	return any;
}

/* What cannot be sent is lost: its owner's timer sends it again. */
static void send(struct sy_link *link, const struct sy_machine_effect *effect)
{
	if (link->lane.shared != NULL)
		(void)sy_lane_send(&link->lane, effect->message, effect->bytes);
	else if (link->control != NULL)
		sy_control_client_send(link->control, effect->message, effect->bytes);
}

static void run_effects(struct sy_link *link, uint64_t now_ns)
{
	struct sy_machine_effect effect;

	while (sy_machine_next(link->machine, &effect, now_ns)) {
		switch (effect.kind) {
		case SY_MACHINE_SEND:
			SY_FAILPOINT_OP(CLIENT_EFFECT_SEND, effect.request);
			send(link, &effect);
			SY_FAILPOINT_OP(CLIENT_SENT, effect.request);
			break;
		case SY_MACHINE_WRITE:
			write_due(link, effect.op->owner);
			break;
		case SY_MACHINE_DONE:
			SY_FAILPOINT(CLIENT_EFFECT_DONE);
			call_ended(link, effect.op->owner);
			break;
		case SY_MACHINE_CONNECT:
			connect_due(link);
			break;
		}
	}
}

void sy_link_announce(const struct sy_link *link)
{
	uint64_t one = 1;

	if (link->lane.shared != NULL && !sy_ring_is_attended(&link->lane.out))
		(void)!write(link->door_fd, &one, sizeof one);
}

/* Once for all that was written. */
static void wake_unit(struct sy_link *link)
{
	if (!link->lane.due)
		return;
	link->lane.due = false;
	SY_FAILPOINT(CLIENT_RINGING);
	sy_link_announce(link);
}

void sy_link_disconnect(struct sy_link *link, uint64_t now_ns)
{
	sy_link_drop_connection(link, 0);
	sy_machine_disconnected(link->machine, now_ns);
}

bool sy_link_is_remote(const struct sy_link *link)
{
	return link->control != NULL && link->local_fd < 0;
}

void sy_link_drop(struct sy_link *link)
{
	uint64_t now_ns = sy_clock_now_ns();

	sy_link_disconnect(link, now_ns);
	sy_link_pump(link, now_ns);
}

void sy_link_pump(struct sy_link *link, uint64_t now_ns)
{
	if (link->lane.first != NULL)
		(void)sy_lane_flush(&link->lane);
	do {
		run_effects(link, now_ns);
		wake_unit(link);
	} while (drain(link, now_ns));
	wake_unit(link); /* it may wait for the room that was made */
	if (link->lane.broken) {
		sy_link_disconnect(link, now_ns);
		run_effects(link, now_ns);
	}
	sy_hub_keep_by(link->hub, sy_machine_deadline(link->machine));
}

/* A unit says nothing on this socket after its welcome, so anything to read is its end. Asked
 * anew: what epoll reported may have been the end of a connection before this one. */
static bool has_ended(const struct sy_link *link)
{
	struct pollfd ended = {.fd = link->local_fd, .events = POLLIN};

	return link->local_fd >= 0 && poll(&ended, 1, 0) > 0;
}

bool sy_link_stands(const struct sy_link *link, uint64_t incarnation)
{
	return link->remote != NULL && link->remote->incarnation == incarnation && !has_ended(link);
}

void sy_link_ready(struct sy_link *link, bool local_socket)
{
	uint64_t now_ns = sy_clock_now_ns();

	if (local_socket && has_ended(link)) {
		/* What it answered before its end still counts, with the slab it is about. */
		sy_link_pump(link, now_ns);
		if (has_ended(link)) /* and was not dropped by that */
			sy_link_disconnect(link, now_ns);
	}
	sy_link_pump(link, now_ns);
}
