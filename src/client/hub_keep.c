/* The keeper: the timers of all links, and the sockets while nobody waits on them. */
#include "block.h"
#include "clock.h"
#include "guard.h"
#include "hub_inner.h"
#include "transport.h"

#include <time.h>
#include <unistd.h>

static const uint64_t LOOK_AGAIN_NS = 1000 * 1000 * 1000;
/* While the keeper connects nobody looks at the time for the others: less than the 100 ms that a
 * call may be late, for there is one connect between two looks. What takes longer is tried again
 * after a backoff. */
static const uint64_t CONNECT_LIMIT_NS = 30 * 1000 * 1000;

void sy_hub_keep_by(struct sy_hub *hub, uint64_t instant_ns)
{
	if (instant_ns >= hub->keeper_wakes_ns)
		return;
	hub->keeper_wakes_ns = instant_ns;
	sy_hub_wake_keeper(hub);
}

void sy_hub_wake_keeper(struct sy_hub *hub)
{
	uint64_t one = 1;

	if (hub->keeper_in_epoll)
		(void)!write(hub->keeper_fd, &one, sizeof one);
	else
		pthread_cond_signal(&hub->keeper_wake);
}

/* While the leader sleeps on the bell nobody else sees the end of a socket, nor ZeroMQ. */
static void sleep_in_epoll(struct sy_hub *hub, uint64_t now_ns)
{
	int wait_ms = sy_clock_poll_ms(
		now_ns, sy_min_u64(hub->keeper_wakes_ns, now_ns + LOOK_AGAIN_NS));

	hub->keeper_in_epoll = true;
	sy_hub_serve(hub, hub->keeper_fd, wait_ms);
	hub->keeper_in_epoll = false;
}

static void sleep_until(struct sy_hub *hub, uint64_t now_ns)
{
	struct timespec at;
	uint64_t wait_ns = sy_min_u64(hub->keeper_wakes_ns - now_ns, LOOK_AGAIN_NS);

	/* The condition waits on CLOCK_MONOTONIC, which stands still while the host sleeps; an
	 * early or late look does no harm. */
	clock_gettime(CLOCK_MONOTONIC, &at);
	uint64_t end_ns = (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec + wait_ns;
	at.tv_sec = (time_t)(end_ns / 1000000000u);
	at.tv_nsec = (long)(end_ns % 1000000000u);
	pthread_cond_timedwait(&hub->keeper_wake, &hub->lock, &at);
}

/* Ends what is late, of all links. */
static void tick_all(struct sy_hub *hub)
{
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		struct sy_link *link = hub->links[i];

		if (link == NULL)
			continue;
		uint64_t now_ns = sy_clock_now_ns();
		/* Before it is said that no answer came in time: one may lie in the socket, if whoever
		 * reads for all is held up. */
		sy_link_pump(link, now_ns);
		if (sy_machine_deadline(link->machine) <= now_ns) {
			sy_machine_tick(link->machine, now_ns);
			sy_link_pump(link, now_ns);
		}
	}
}

/* To be connected for notices, where no caller will: the one that has waited longest, or NULL. */
static struct sy_link *next_to_connect(const struct sy_hub *hub)
{
	struct sy_link *next = NULL;

	for (uint32_t i = 0; hub->due_count > 0 && i < hub->unit_count; i++) {
		struct sy_link *link = hub->links[i];

		if (link != NULL && link->connect_due && !link->connecting && link->calls == NULL &&
		    sy_link_is_before(link, next))
			next = link;
	}
	return next;
}

/* True: it took its time. */
static bool connect_next(struct sy_hub *hub)
{
	struct sy_link *link = next_to_connect(hub);
	uint64_t now_ns = sy_clock_now_ns();
	bool silent = sy_hub_is_silent(hub->keeper_silent_ns, now_ns);
	const struct sy_connect_limits limits = {
		.welcome_ns = CONNECT_LIMIT_NS, .ask_ns = silent ? 0 : CONNECT_LIMIT_NS,
		.deadline_ns = now_ns + CONNECT_LIMIT_NS,
	};

	if (link == NULL)
		return false;
	if (!sy_link_connect(link, &limits))
		hub->keeper_silent_ns = sy_clock_now_ns();
	if (next_to_connect(hub) != NULL)
		sy_hub_keep_by(hub, 0);
	return true;
}

void sy_hub_populate(struct sy_hub *hub, struct sy_remote *remote)
{
	remote->next = hub->unpopulated;
	hub->unpopulated = sy_remote_ref(remote);
	sy_hub_keep_by(hub, 0);
}

/* Slabs that were attached since, before the ones that are being mapped. */
static struct sy_remote *take_new(struct sy_hub *hub, struct sy_remote *remotes)
{
	pthread_mutex_lock(&hub->lock);
	struct sy_remote *first = hub->unpopulated, **end = &first;
	hub->unpopulated = NULL;
	pthread_mutex_unlock(&hub->lock);
	while (*end != NULL)
		end = &(*end)->next;
	*end = remotes;
	return first;
}

/* Maps a part of each; who has no more, or is held by nobody else, is let go of. */
static void populate_each(struct sy_remote **remotes, bool stops)
{
	for (struct sy_remote *remote = *remotes; remote != NULL; remote = *remotes) {
		if (!stops && sy_shm_populate(remote)) {
			remotes = &remote->next;
			continue;
		}
		*remotes = remote->next;
		sy_remote_unref(remote);
	}
}

/* Whoever uses a slab at once pays a page fault for each first touch, and may well be done before
 * a large slab is mapped: it waits for none of that. The slabs take turns, so that none keeps a
 * dead one's memory from the system. */
static void *map(void *argument)
{
	struct sy_hub *hub = argument;
	struct sy_remote *remotes = NULL;

	do {
		remotes = take_new(hub, remotes);
		populate_each(&remotes, __atomic_load_n(&hub->mapper_stops, __ATOMIC_RELAXED));
		sy_shm_unmap(sy_shm_left());
	} while (remotes != NULL);
	__atomic_store_n(&hub->mapper_done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void start_mapper(struct sy_hub *hub)
{
	if (hub->mapper_runs && !__atomic_load_n(&hub->mapper_done, __ATOMIC_ACQUIRE))
		return;
	if (hub->mapper_runs)
		pthread_join(hub->mapper, NULL);
	hub->mapper_runs = hub->mapper_done = false;
	pthread_mutex_lock(&hub->lock);
	bool needed = hub->unpopulated != NULL || sy_shm_has_left();
	pthread_mutex_unlock(&hub->lock);
	if (!needed)
		return;
	hub->mapper_runs = pthread_create(&hub->mapper, NULL, map, hub) == 0;
	if (hub->mapper_runs)
		return;
	struct sy_remote *remotes = take_new(hub, NULL);
	populate_each(&remotes, true);
	sy_shm_unmap(sy_shm_left());
}

void sy_hub_unmap_all(struct sy_hub *hub)
{
	__atomic_store_n(&hub->mapper_stops, true, __ATOMIC_RELAXED);
	if (hub->mapper_runs)
		pthread_join(hub->mapper, NULL);
	populate_each(&hub->unpopulated, true);
	sy_shm_unmap(sy_shm_left());
}

/* Between two looks at the time of calls one thing is done that may take long, for all units at
 * once or for one of them. */
static void look(struct sy_hub *hub)
{
	hub->keeper_wakes_ns = sy_clock_now_ns() + LOOK_AGAIN_NS;
	tick_all(hub);
	if (connect_next(hub))
		tick_all(hub);
	/* Descriptors that only epoll tells of: the end of a unit's local socket. */
	if (hub->leader == NULL)
		sy_hub_lead(hub, 0);
	if (sy_hub_ask_after_remote(hub))
		tick_all(hub);
	sy_hub_tend_graves(hub);
	pthread_mutex_unlock(&hub->lock);
	start_mapper(hub);
	bool more = sy_block_rest(sy_clock_now_ns());
	if (hub->config.tick != NULL)
		hub->config.tick(hub->config.tick_context, sy_clock_now_ns());
	pthread_mutex_lock(&hub->lock);
	if (more)
		sy_hub_keep_by(hub, 0);
}

void *sy_hub_keeper(void *argument)
{
	struct sy_hub *hub = argument;

	sy_block_tend(true);
	pthread_mutex_lock(&hub->lock);
	while (!hub->stopping) {
		uint64_t now_ns = sy_clock_now_ns();

		if (hub->keeper_wakes_ns > now_ns && (hub->lane_count > 0 || hub->leader_on_bell))
			sleep_in_epoll(hub, now_ns);
		else if (hub->keeper_wakes_ns > now_ns)
			sleep_until(hub, now_ns);
		if (!hub->stopping && hub->keeper_wakes_ns <= sy_clock_now_ns())
			look(hub);
	}
	pthread_mutex_unlock(&hub->lock);
	sy_block_tend(false);
	return NULL;
}
