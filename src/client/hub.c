/* The hub's life: opening, views, closing, and what the directory said. */
#include "hub.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "entropy.h"
#include "fail.h"
#include "failpoints.h"
#include "guard.h"
#include "hub_inner.h"
#include "local.h"
#include "process.h"

/* How long a close waits for the units to have executed the last notices. */
static const uint64_t LAST_NOTICES_NS = 1000 * 1000 * 1000;
static const uint64_t LOOK_NS = 10 * 1000 * 1000;
/* Of messages that wait for room, or have come in part. */
static const uint64_t BUDGET_BYTES = 256u << 20;
/* A call returns by its deadline plus this. */
static const uint64_t SPARE_NS = 100 * 1000 * 1000;

/* Of each unit: fewer keys are sorted and written down sooner than a wake-up takes. */
enum { ANNOUNCED_KEYS = 512 };

sy_status sy_hub_enter(struct sy_hub *hub, sy_error *err)
{
	if (hub->fork_count != sy_local_fork_count())
		return sy_fail(err, SY_E_FATAL, __func__,
		               "this client was opened before a fork; open one in the child");
	pthread_mutex_lock(&hub->lock);
	bool closed = hub->closed, poisoned = sy_hub_is_poisoned(hub);
	hub->running += !closed && !poisoned;
	pthread_mutex_unlock(&hub->lock);
	if (poisoned && !closed)
		return sy_fail(err, SY_E_FATAL, __func__,
		               "transfers that never ended hold more memory than allowed: this process "
		               "can move no more data");
	return closed ? sy_fail(err, SY_E_FATAL, __func__, "the client is closed") : SY_OK;
}

void sy_hub_leave(struct sy_hub *hub)
{
	pthread_mutex_lock(&hub->lock);
	if (--hub->running == 0)
		pthread_cond_broadcast(&hub->idle);
	pthread_mutex_unlock(&hub->lock);
}

static void take_list(struct sy_hub *hub, const struct sy_unit_list *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->units[i].unit_id < hub->unit_count)
			hub->units[list->units[i].unit_id] = list->units[i];
	}
}

static void hub_free(struct sy_hub *hub)
{
	for (uint32_t i = 0; hub->links != NULL && i < hub->unit_count; i++)
		sy_link_free(hub->links[i]);
	sy_hub_unmap_all(hub);
	sy_ucx_mover_close(hub->mover);
	sy_ucx_memories_unref(hub->config.memories);
	sy_control_context_close(hub->context);
	sy_dir_client_close(hub->directory);
	if (hub->epoll_fd >= 0)
		close(hub->epoll_fd);
	if (hub->leader_fd >= 0)
		close(hub->leader_fd);
	if (hub->keeper_fd >= 0)
		close(hub->keeper_fd);
	if (hub->bell_fd >= 0)
		close(hub->bell_fd);
	sy_bell_unmap(hub->bell);
	pthread_mutex_destroy(&hub->lock);
	pthread_cond_destroy(&hub->idle);
	pthread_cond_destroy(&hub->keeper_wake);
	free(hub->links);
	free(hub->units);
	free(hub->scratch.data);
	free(hub->lane_copy);
	free(hub);
}

static sy_status learn_units(struct sy_hub *hub, uint64_t deadline_ns, sy_error *err)
{
	struct sy_unit_list list = {0};

	SY_FAILPOINT(CLIENT_UNITS_ASKED);
	sy_status status = sy_dir_client_units(hub->directory, 0, deadline_ns, &list, err);
	SY_FAILPOINT(CLIENT_UNITS_TOLD);

	if (status != SY_OK)
		return status;
	hub->unit_count = list.slot_count;
	hub->times = list.times;
	hub->units = calloc(hub->unit_count, sizeof *hub->units);
	hub->links = calloc(hub->unit_count, sizeof *hub->links);
	if (hub->units == NULL || hub->links == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	else
		take_list(hub, &list);
	sy_unit_list_done(&list);
	return status;
}

/* Of the family of the units' addresses, which that of the directory need not tell. */
static const char *remote_address(const struct sy_hub *hub)
{
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		if (hub->units[i].tcp_address[0] != '\0')
			return hub->units[i].tcp_address;
	}
	return hub->config.directory;
}

static sy_status make_parts(struct sy_hub *hub, sy_error *err)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&hub->lock, NULL);
	pthread_cond_init(&hub->idle, &monotonic);
	pthread_cond_init(&hub->keeper_wake, &monotonic);
	pthread_condattr_destroy(&monotonic);

	hub->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	hub->leader_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	hub->keeper_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	hub->scratch.bytes = SY_SCRATCH_BYTES;
	hub->scratch.data = aligned_alloc(64, SY_SCRATCH_BYTES);
	hub->lane_copy = aligned_alloc(64, SY_RING_BYTES);
	if (hub->epoll_fd < 0 || hub->leader_fd < 0 || hub->keeper_fd < 0 ||
	    hub->scratch.data == NULL || hub->lane_copy == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "cannot make the client's descriptors (errno %d)",
		               errno);
	sy_status status = sy_control_context_open(&hub->context, err);
	if (status == SY_OK && hub->config.keys != NULL) {
		struct sy_control_keys keys;
		status = sy_control_keys_client(hub->config.keys, &keys, err);
		if (status == SY_OK)
			sy_control_context_set_keys(hub->context, &keys);
	}
	if (status == SY_OK && hub->config.control != SY_CONTROL_ZMQ)
		status = sy_bell_make(&hub->bell, &hub->bell_fd, err);
	return status;
}

sy_status sy_hub_open(const struct sy_hub_config *config, struct sy_hub **ret_hub, sy_error *err)
{
	/* Of all of it: on a busy host the making of threads and sockets takes its time, too. */
	uint64_t deadline_ns = sy_clock_now_ns() + config->timeout_ns;
	struct sy_hub *hub = calloc(1, sizeof *hub);
	size_t name_bytes = strlen(config->name_space);

	if (hub == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	hub->refs = 1;
	hub->bell_fd = -1;
	sy_spin_init(&hub->spin);
	hub->budget.max_bytes = BUDGET_BYTES;
	hub->config = *config;
	hub->fork_count = sy_local_fork_count();
	memcpy(hub->name_space, config->name_space, name_bytes + 1);
	hub->config.name_space = hub->name_space;
	sy_ucx_memories_ref(config->memories);
	sy_process_identity(&hub->identity);

	sy_status status = make_parts(hub, err);
	if (status == SY_OK)
		status = sy_dir_client_open(config->directory, &hub->directory, err);
	if (status == SY_OK)
		status = sy_dir_client_use_keys(hub->directory, config->keys, err);
	if (status == SY_OK)
		sy_dir_client_set_interrupt(hub->directory, config->interrupted,
		                            config->interrupted_context);
	if (status == SY_OK)
		status = learn_units(hub, deadline_ns, err);
	if (status == SY_OK && config->path == SY_PATH_UCX) /* says at once what it lacks */
		status = sy_hub_need_mover(hub, remote_address(hub), err);
	if (status == SY_OK && pthread_create(&hub->keeper, NULL, sy_hub_keeper, hub) != 0)
		status = sy_fail(err, SY_E_SYS, __func__, "cannot start a thread");
	if (status != SY_OK) {
		hub_free(hub);
		return status;
	}
	*ret_hub = hub;
	return SY_OK;
}

struct sy_hub *sy_hub_ref(struct sy_hub *hub)
{
	__atomic_add_fetch(&hub->refs, 1, __ATOMIC_RELAXED);
	return hub;
}

static bool notices_done(struct sy_hub *hub)
{
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		struct sy_link *link = hub->links[i];

		if (link != NULL && sy_link_connected(link) && !sy_machine_notices_done(link->machine))
			return false;
	}
	return true;
}

/* Nothing is held any more: tells the units so and lets everything go. */
static void finish(struct sy_hub *hub)
{
	uint64_t end_ns = sy_clock_now_ns() + LAST_NOTICES_NS;

	if (hub->fork_count != sy_local_fork_count())
		return; /* the parent's: neither its threads nor its sockets are ours to end */
	pthread_mutex_lock(&hub->lock);
	hub->stopping = true;
	sy_hub_wake_keeper(hub);
	pthread_mutex_unlock(&hub->lock);
	pthread_join(hub->keeper, NULL);

	pthread_mutex_lock(&hub->lock);
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		if (hub->links[i] == NULL)
			continue;
		sy_machine_close(hub->links[i]->machine, sy_clock_now_ns());
		sy_link_pump(hub->links[i], sy_clock_now_ns());
	}
	while (!notices_done(hub) && sy_clock_now_ns() < end_ns) {
		/* No keeper sees the end of a unit any more. */
		if (hub->lane_count > 0)
			sy_hub_serve(hub, hub->keeper_fd, 0);
		sy_hub_lead(hub, sy_min_u64(end_ns, sy_clock_now_ns() + LOOK_NS));
	}
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		if (hub->links[i] != NULL)
			sy_link_bye(hub->links[i]);
	}
	pthread_mutex_unlock(&hub->lock);
	hub_free(hub);
}

void sy_hub_unref(struct sy_hub *hub)
{
	if (hub != NULL && __atomic_sub_fetch(&hub->refs, 1, __ATOMIC_ACQ_REL) == 0)
		finish(hub);
}

bool sy_hub_shut(struct sy_hub *hub)
{
	struct timespec end;
	int rc = 0;

	if (hub->fork_count != sy_local_fork_count())
		return false;
	clock_gettime(CLOCK_MONOTONIC, &end);
	uint64_t wait_ns = (uint64_t)end.tv_nsec + hub->config.timeout_ns + SPARE_NS;
	end.tv_sec += (time_t)(wait_ns / 1000000000u);
	end.tv_nsec = (long)(wait_ns % 1000000000u);
	pthread_mutex_lock(&hub->lock);
	hub->closed = true;
	/* No call outlives its deadline, and none has one further away than the timeout. */
	while (hub->running > 0 && rc == 0)
		rc = pthread_cond_timedwait(&hub->idle, &hub->lock, &end);
	bool idle = hub->running == 0;
	pthread_mutex_unlock(&hub->lock);
	return idle;
}

void sy_hub_unpin(struct sy_hub *hub, uint32_t unit_id, uint64_t incarnation,
                  struct sy_request_id name)
{
	if (hub->fork_count != sy_local_fork_count())
		return; /* the pin is the parent's */
	pthread_mutex_lock(&hub->lock);
	struct sy_link *link = hub->links[unit_id];
	if (link != NULL && sy_machine_incarnation(link->machine) == incarnation) {
		sy_machine_unpin(link->machine, name, sy_clock_now_ns());
		sy_hub_keep_by(hub, sy_machine_deadline(link->machine));
	}
	pthread_mutex_unlock(&hub->lock);
}

uint32_t sy_hub_unit_count(const struct sy_hub *hub)
{
	return hub->unit_count;
}

uint64_t sy_hub_timeout_ns(const struct sy_hub *hub)
{
	return hub->config.timeout_ns;
}

bool sy_hub_unit_info(struct sy_hub *hub, uint32_t unit_id, struct sy_unit_info *ret_info)
{
	if (unit_id >= hub->unit_count)
		return false;
	pthread_mutex_lock(&hub->lock);
	*ret_info = hub->units[unit_id];
	pthread_mutex_unlock(&hub->lock);
	return true;
}

static sy_status fetch_list(struct sy_hub *hub, uint64_t deadline_ns, struct sy_unit_list *list,
                            sy_error *err)
{
	sy_status status = sy_dir_client_units(hub->directory, 0, deadline_ns, list, err);

	if (status != SY_OK)
		return status;
	if (list->slot_count != hub->unit_count)
		return sy_fail(err, SY_E_PROTOCOL, __func__, "the directory now has %u units, not %u",
		               list->slot_count, hub->unit_count);
	pthread_mutex_lock(&hub->lock);
	take_list(hub, list);
	pthread_mutex_unlock(&hub->lock);
	return SY_OK;
}

sy_status sy_hub_refresh(struct sy_hub *hub, uint64_t deadline_ns, sy_error *err)
{
	struct sy_unit_list list = {0};
	sy_status status = fetch_list(hub, deadline_ns, &list, err);

	sy_unit_list_done(&list);
	return status;
}

/* Out of this answer alone: another thread may have put an older one into the cache since. */
sy_status sy_hub_ask_slot(struct sy_hub *hub, uint32_t unit_id, uint64_t deadline_ns,
                          struct sy_unit_info *ret_info, sy_error *err)
{
	struct sy_unit_list list = {0};
	sy_status status = fetch_list(hub, deadline_ns, &list, err);

	if (status == SY_OK && (unit_id >= list.count || list.units[unit_id].unit_id != unit_id))
		status = sy_fail(err, SY_E_PROTOCOL, __func__, "the directory's list has no unit %u",
		                 unit_id);
	if (status == SY_OK)
		*ret_info = list.units[unit_id];
	sy_unit_list_done(&list);
	return status;
}

bool sy_hub_stands(struct sy_hub *hub, uint32_t unit_id, uint64_t incarnation)
{
	pthread_mutex_lock(&hub->lock);
	const struct sy_unit_info *listed = &hub->units[unit_id];
	const struct sy_link *link = hub->links[unit_id];
	bool stands = listed->incarnation == incarnation && listed->state != SY_UNIT_DEAD &&
	              link != NULL && sy_link_stands(link, incarnation);
	pthread_mutex_unlock(&hub->lock);
	return stands;
}

enum sy_directory_says sy_hub_ask(struct sy_hub *hub, uint32_t unit_id, uint64_t incarnation,
                                  uint64_t deadline_ns)
{
	bool dead;

	if (sy_dir_client_is_dead(hub->directory, unit_id, incarnation, deadline_ns, &dead, NULL) !=
	    SY_OK)
		return SY_DIRECTORY_SILENT;
	return dead ? SY_DIRECTORY_DEAD : SY_DIRECTORY_ALIVE;
}

uint64_t sy_hub_incarnation(struct sy_hub *hub, uint32_t unit_id)
{
	pthread_mutex_lock(&hub->lock);
	struct sy_link *link = hub->links[unit_id];
	uint64_t incarnation = link != NULL ? sy_machine_incarnation(link->machine) : 0;
	pthread_mutex_unlock(&hub->lock);
	return incarnation;
}

bool sy_hub_puts_inline(struct sy_hub *hub, uint32_t unit_id, uint64_t nbytes)
{
	bool puts = false;

	pthread_mutex_lock(&hub->lock);
	struct sy_link *link = hub->links[unit_id];
	if (link != NULL)
		puts = sy_machine_puts_inline(link->machine, nbytes,
		                              link->remote != NULL && link->remote->base != NULL,
		                              sy_clock_now_ns());
	pthread_mutex_unlock(&hub->lock);
	return puts;
}

void sy_hub_announce(struct sy_hub *hub, size_t key_count)
{
	if (key_count / hub->unit_count < ANNOUNCED_KEYS)
		return;
	pthread_mutex_lock(&hub->lock);
	for (uint32_t u = 0; u < hub->unit_count; u++) {
		if (hub->links[u] != NULL)
			sy_link_announce(hub->links[u]);
	}
	pthread_mutex_unlock(&hub->lock);
}

uint64_t sy_hub_read_pin_ns(struct sy_hub *hub, uint32_t unit_id)
{
	uint64_t ns = 0;

	pthread_mutex_lock(&hub->lock);
	struct sy_link *link = hub->links[unit_id];
	if (link != NULL && sy_machine_state(link->machine) == SY_MACHINE_READY)
		ns = sy_machine_hello(link->machine)->read_pin_ns;
	pthread_mutex_unlock(&hub->lock);
	return ns;
}
