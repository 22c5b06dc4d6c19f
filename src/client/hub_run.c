/* Operations: started under the lock, written outside it, waited for by turns. */
#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "failpoints.h"
#include "guard.h"
#include "hub_inner.h"

enum { READY_MAX = 64 }; /* descriptors served a turn */

static const uint64_t INTERRUPT_LOOK_NS = 100 * 1000 * 1000;
static const uint64_t WELCOME_TRY_NS = 1000 * 1000 * 1000;
static const uint64_t DEAD_ASK_NS = 1000 * 1000 * 1000;

void sy_waiter_wake(struct sy_hub *hub, struct sy_waiter *waiter)
{
	uint64_t one = 1;

	if (waiter->awake)
		return;
	waiter->awake = true;
	if (waiter != hub->leader)
		pthread_cond_signal(&waiter->wake);
	else if (hub->leader_on_bell)
		sy_bell_ring(hub->bell);
	else if (hub->leader_in_epoll) /* else it is at work itself, and sees it by `awake` */
		(void)!write(hub->leader_fd, &one, sizeof one);
}

void sy_hub_serve(struct sy_hub *hub, int wake_fd, int wait_ms)
{
	struct epoll_event events[READY_MAX];
	struct pollfd sources[] = {{.fd = hub->epoll_fd, .events = POLLIN},
	                           {.fd = wake_fd, .events = POLLIN}};
	uint64_t drained;

	if (wait_ms != 0) {
		pthread_mutex_unlock(&hub->lock);
		if (poll(sources, 2, wait_ms) > 0 && sources[1].revents != 0)
			(void)!read(wake_fd, &drained, sizeof drained);
		pthread_mutex_lock(&hub->lock);
	}
	int count = epoll_wait(hub->epoll_fd, events, READY_MAX, 0);
	for (int i = 0; i < count; i++) {
		uint64_t tag = events[i].data.u64;

		if (hub->links[(tag >> 1) - 1] != NULL)
			sy_link_ready(hub->links[(tag >> 1) - 1], (tag & 1) != 0);
	}
}

/* Reads the lanes of the units that rang. False: none did. */
static bool answer_bell(struct sy_hub *hub)
{
	bool any = false;

	for (uint32_t group = 0; group * 64 < hub->unit_count; group++) {
		uint64_t rang = sy_bell_take(hub->bell, group);

		for (; rang != 0; rang &= rang - 1) {
			uint32_t unit_id = group * 64 + (uint32_t)__builtin_ctzll(rang);

			any = true;
			if (unit_id < hub->unit_count && hub->links[unit_id] != NULL)
				sy_link_pump(hub->links[unit_id], sy_clock_now_ns());
		}
	}
	return any;
}

static void lead_on_bell(struct sy_hub *hub, uint64_t until_ns)
{
	/* Read before the units are looked at: who rings after that moves it on. */
	uint32_t seen = sy_bell_look(hub->bell);

	if (answer_bell(hub) || until_ns == 0)
		return;
	bool may_spin = sy_spin_may(&hub->spin), hit = false;
	hub->leader_on_bell = true;
	pthread_mutex_unlock(&hub->lock);
	if (may_spin)
		hit = sy_bell_spin(hub->bell, seen);
	if (!hit)
		sy_bell_wait(hub->bell, seen, until_ns);
	pthread_mutex_lock(&hub->lock);
	hub->leader_on_bell = false;
	if (may_spin)
		sy_spin_end(&hub->spin, hit);
	answer_bell(hub);
}

void sy_hub_lead(struct sy_hub *hub, uint64_t until_ns)
{
	if (hub->lane_count > 0) {
		lead_on_bell(hub, until_ns);
		return;
	}
	hub->leader_in_epoll = until_ns != 0;
	sy_hub_serve(hub, hub->leader_fd, sy_clock_poll_ms(sy_clock_now_ns(), until_ns));
	hub->leader_in_epoll = false;
}

static void wait_for_wake(struct sy_hub *hub, struct sy_waiter *me, uint64_t until_ns)
{
	struct timespec end;
	uint64_t now_ns = sy_clock_now_ns();

	if (until_ns == UINT64_MAX) {
		pthread_cond_wait(&me->wake, &hub->lock);
		return;
	}
	uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
	clock_gettime(CLOCK_MONOTONIC, &end);
	uint64_t end_ns = (uint64_t)end.tv_nsec + wait_ns;
	end.tv_sec += (time_t)(end_ns / 1000000000u);
	end.tv_nsec = (long)(end_ns % 1000000000u);
	pthread_cond_timedwait(&me->wake, &hub->lock, &end);
}

/* Until something happens that this caller should look at. */
static void wait_turn(struct sy_hub *hub, struct sy_waiter *me)
{
	bool asks = hub->config.interrupted != NULL && !me->interrupted;
	uint64_t until_ns = sy_min_u64(asks ? me->look_ns : UINT64_MAX, me->ask_ns);

	if (me->awake)
		return;
	if (hub->leader == NULL) {
		hub->leader = me;
		sy_hub_lead(hub, until_ns);
		hub->leader = NULL;
	} else {
		me->asleep = true;
		wait_for_wake(hub, me, until_ns);
		me->asleep = false;
	}
}

/* Somebody must read the sockets when the leader has what it came for, or has other things to do.
 * A waiter that is not asleep needs no wake-up: before it sleeps it sees that nobody leads. */
static void hand_over(struct sy_hub *hub)
{
	struct sy_waiter *next = hub->waiters;

	while (next != NULL && !next->asleep)
		next = next->next;
	if (hub->leader == NULL && next != NULL)
		sy_waiter_wake(hub, next);
}

/* Asks, when it is time, whether the caller's calls are to end early. True: the lock was dropped
 * meanwhile. A WRITE that is under way ends by itself, at its deadline at the latest. */
static bool look_for_interrupt(struct sy_hub *hub, struct sy_waiter *me,
                               struct sy_call *const *calls, size_t count)
{
	uint64_t now_ns = sy_clock_now_ns();

	if (hub->config.interrupted == NULL || me->interrupted || now_ns < me->look_ns)
		return false;
	me->look_ns = now_ns + INTERRUPT_LOOK_NS;
	hand_over(hub);
	pthread_mutex_unlock(&hub->lock);
	bool interrupted = hub->config.interrupted(hub->config.interrupted_context);
	pthread_mutex_lock(&hub->lock);
	if (!interrupted)
		return true;
	me->interrupted = true;
	for (size_t i = 0; i < count; i++) {
		struct sy_call *call = calls[i];

		if (call->settled || call->done)
			continue;
		call->op.deadline_ns = sy_min_u64(call->op.deadline_ns, now_ns);
		sy_machine_cancel(call->link->machine, &call->op, now_ns);
		sy_link_pump(call->link, now_ns);
	}
	return true;
}

/* A unit whose lease ran out is dead though its process may stand still, or be cut off from the
 * directory: its connection tells nothing then. So whoever has waited for an answer for long asks
 * the directory, once each control_timeout, and a unit that is dead or replaced there is connected
 * to anew, which ends what waits for it. True: the lock was dropped meanwhile. */
static bool look_for_dead(struct sy_hub *hub, struct sy_waiter *me, struct sy_call *const *calls,
                          size_t count)
{
	uint64_t now_ns = sy_clock_now_ns(), end_ns = now_ns + DEAD_ASK_NS;

	if (now_ns < me->ask_ns)
		return false;
	me->ask_ns = now_ns + hub->config.control_timeout_ns;
	for (size_t i = 0; i < count; i++) {
		if (!calls[i]->settled && !calls[i]->done)
			end_ns = sy_min_u64(end_ns, calls[i]->op.deadline_ns);
	}
	hand_over(hub);
	pthread_mutex_unlock(&hub->lock);
	sy_status status = sy_hub_refresh(hub, end_ns, NULL);
	pthread_mutex_lock(&hub->lock);
	for (size_t i = 0; status == SY_OK && i < count; i++) {
		const struct sy_unit_info *slot = &hub->units[calls[i]->unit_id];
		struct sy_link *link = calls[i]->link;

		if (calls[i]->settled || calls[i]->done || link->remote == NULL)
			continue;
		if (slot->state == SY_UNIT_DEAD || slot->incarnation != link->remote->incarnation)
			sy_link_set_due(link, true);
	}
	return true;
}

static bool write_one(struct sy_hub *hub, struct sy_waiter *me)
{
	struct sy_call *call = me->writes;
	bool in_flight = false;
	sy_status status = SY_E_TRANSFER;

	if (call == NULL)
		return false;
	me->writes = call->next_write;
	hand_over(hub);
	pthread_mutex_unlock(&hub->lock);

	struct sy_remote *remote = call->remote_now;
	SY_FAILPOINT(CLIENT_EFFECT_WRITE);
	if (remote != NULL && sy_op_reaches(&call->op, remote->incarnation)) {
		/* The ranges' offsets are of the blob; the region is known only now. */
		if (hub->config.lock != NULL)
			hub->config.lock(hub->config.lock_context);
		const struct sy_transfer transfer = {
			.ranges = call->ranges, .count = call->range_count,
			.base_offset = call->op.outcome.offset, .deadline_ns = call->op.deadline_ns,
			.name = call->op.name,
		};
		status = remote->transport->write(remote, &transfer, &in_flight, &call->error);
		if (hub->config.unlock != NULL)
			hub->config.unlock(hub->config.lock_context);
	}
	sy_remote_unref(remote);
	SY_FAILPOINT(CLIENT_WRITTEN);

	pthread_mutex_lock(&hub->lock);
	uint64_t now_ns = sy_clock_now_ns();
	call->waits_since_ns = now_ns;
	sy_machine_written(call->link->machine, &call->op, status == SY_OK, in_flight, now_ns);
	sy_link_pump(call->link, now_ns);
	return true;
}

/* A unit that does not answer must hold up neither the connections to the others nor what is to
 * be written to them: it gets its share of the time that is left, as the directory that is asked
 * after it does, and after a backoff of its machine another one. */
static bool connect_one(struct sy_hub *hub, struct sy_waiter *me, struct sy_call *const *calls,
                        size_t count)
{
	struct sy_link *first = NULL;
	uint64_t now_ns = sy_clock_now_ns(), due_count = 0, deadline_ns = 0;

	/* Asked after each answer, and of many units none is due then. */
	for (size_t i = 0; hub->due_count > 0 && i < count; i++) {
		struct sy_link *link = calls[i]->link;

		if (calls[i]->done || !link->connect_due || link->connecting)
			continue;
		due_count++;
		if (!sy_link_is_before(link, first))
			continue;
		first = link;
		deadline_ns = calls[i]->op.deadline_ns;
	}
	if (first == NULL)
		return false;
	struct sy_connect_limits limits = {.deadline_ns = sy_max_u64(deadline_ns, now_ns)};
	uint64_t left_ns = limits.deadline_ns - now_ns;
	limits.welcome_ns = sy_min_u64(left_ns / (due_count + 1), WELCOME_TRY_NS);
	if (me->pending == 1) /* there is nothing else to do meanwhile */
		limits.ask_ns = left_ns;
	else if (!sy_hub_is_silent(me->silent_ns, now_ns))
		limits.ask_ns = limits.welcome_ns;
	hand_over(hub);
	if (!sy_link_connect(first, &limits))
		me->silent_ns = sy_clock_now_ns();
	return true;
}

static void start(struct sy_hub *hub, struct sy_call *call, struct sy_waiter *me)
{
	uint64_t now_ns = sy_clock_now_ns();

	call->waiter = me;
	call->done = call->found_dead = call->refused = false;
	call->op.owner = call;
	call->link = sy_link_get(hub, call->unit_id);
	if (call->link == NULL) {
		call->done = true;
		call->op.end = SY_OP_END_NONE;
		sy_call_push(&me->ended, call);
		return;
	}
	me->pending++;
	call->next_on_link = call->link->calls;
	call->link->calls = call;
	sy_machine_start(call->link->machine, &call->op, now_ns);
	sy_link_pump(call->link, now_ns);
	/* The list says dead, which decides nothing, so the directory is asked, and at once: each call
	 * would wait longer than the one before if it waited for the backoff of the connection. So it
	 * is with a unit that refused this process. */
	if (hub->units[call->unit_id].state == SY_UNIT_DEAD ||
	    (call->link->failure.status == SY_E_AUTH && !sy_link_connected(call->link)))
		sy_link_set_due(call->link, true);
}

static void enter(struct sy_hub *hub, struct sy_waiter *me)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&me->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	me->prev = NULL;
	me->next = hub->waiters;
	if (me->next != NULL)
		me->next->prev = me;
	hub->waiters = me;
}

static void leave(struct sy_hub *hub, struct sy_waiter *me)
{
	if (me->prev != NULL)
		me->prev->next = me->next;
	else
		hub->waiters = me->next;
	if (me->next != NULL)
		me->next->prev = me->prev;
	hand_over(hub);
	pthread_cond_destroy(&me->wake);
}

/* What one caller has under way. Ended calls are looked at, which makes them settled or has them
 * started anew. */
struct run {
	struct sy_hub *hub;
	struct sy_call *const *calls;
	size_t count;
	sy_call_next *next;
	void *context;
	struct sy_waiter me;
	struct sy_call *asking; /* ended; looked at when no other is under way */
	struct sy_call *anew;   /* to be started */
};

static void begin(struct run *run, struct sy_call *call)
{
	uint64_t now_ns = sy_clock_now_ns();

	call->settled = false;
	call->waits_since_ns = now_ns;
	if (run->me.interrupted)
		call->op.deadline_ns = sy_min_u64(call->op.deadline_ns, now_ns);
	start(run->hub, call, &run->me);
}

/* Until all calls have ended; if others may follow them, until one more has. */
static void await_ends(struct run *run)
{
	struct sy_hub *hub = run->hub;
	struct sy_waiter *me = &run->me;

	while (me->pending > 0 && (run->next == NULL || me->ended == NULL)) {
		me->awake = false;
		if (write_one(hub, me) || connect_one(hub, me, run->calls, run->count) ||
		    look_for_interrupt(hub, me, run->calls, run->count) ||
		    look_for_dead(hub, me, run->calls, run->count) || me->pending == 0)
			continue;
		wait_turn(hub, me);
	}
}

/* Whether what its end means is for the directory to say, which may take until the deadline. */
static bool asks(const struct sy_call *call)
{
	return call->link != NULL && (call->found_dead || call->op.end == SY_OP_END_SESSION ||
	                              call->op.end == SY_OP_END_LATE);
}

static struct sy_call *take(struct sy_call **list)
{
	struct sy_call *first = *list;

	if (first != NULL)
		*list = first->next_ended;
	return first;
}

static void judge(struct run *run, struct sy_call *call)
{
	if (!sy_hub_settle(run->hub, call) ||
	    (run->next != NULL && run->next(run->context, call)))
		sy_call_push(&run->anew, call);
}

/* Ended calls, without the lock. Those that ask the directory come after all that do not, and when
 * none of these follows. */
static void look_at(struct run *run, struct sy_call *ended, bool idle)
{
	struct sy_call *call;

	while ((call = take(&ended)) != NULL) {
		if (asks(call))
			sy_call_push(&run->asking, call);
		else
			judge(run, call);
	}
	while (idle && run->anew == NULL && (call = take(&run->asking)) != NULL)
		judge(run, call);
}

void sy_hub_run_each(struct sy_hub *hub, struct sy_call *const *calls, size_t count,
                     sy_call_next *next, void *context)
{
	uint64_t now_ns = sy_clock_now_ns();
	bool leases = hub->times.dead_after_ns > 0, idle = false;
	struct run run = {
		.hub = hub, .calls = calls, .count = count, .next = next, .context = context,
		.me.look_ns = now_ns + INTERRUPT_LOOK_NS,
		.me.ask_ns = leases ? now_ns + hub->config.control_timeout_ns : UINT64_MAX,
	};

	for (size_t i = count; i-- > 0;)
		sy_call_push(&run.anew, calls[i]);
	/* A call starts anew only while its deadline lies ahead. */
	for (bool entered = false; !idle || run.anew != NULL; entered = !idle) {
		struct sy_call *call, *ended;

		pthread_mutex_lock(&hub->lock);
		if (!entered)
			enter(hub, &run.me);
		while ((call = take(&run.anew)) != NULL)
			begin(&run, call);
		await_ends(&run);
		idle = run.me.pending == 0;
		ended = run.me.ended;
		run.me.ended = NULL;
		if (idle)
			leave(hub, &run.me);
		else
			hand_over(hub);
		pthread_mutex_unlock(&hub->lock);
		look_at(&run, ended, idle);
	}
}

void sy_hub_run(struct sy_hub *hub, struct sy_call *const *calls, size_t count)
{
	sy_hub_run_each(hub, calls, count, NULL, NULL);
}

bool sy_hub_awaits(struct sy_hub *hub, uint32_t *ret_unit_id, uint64_t *ret_wait_ns)
{
	uint64_t first_ns = UINT64_MAX, now_ns = sy_clock_now_ns();

	pthread_mutex_lock(&hub->lock);
	for (uint32_t i = 0; i < hub->unit_count; i++) {
		const struct sy_call *call = hub->links[i] != NULL ? hub->links[i]->calls : NULL;

		for (; call != NULL; call = call->next_on_link) {
			if (call->op.stage == SY_OP_STAGE_WRITING || call->waits_since_ns >= first_ns)
				continue;
			first_ns = call->waits_since_ns;
			*ret_unit_id = i;
		}
	}
	pthread_mutex_unlock(&hub->lock);
	if (first_ns == UINT64_MAX)
		return false;
	*ret_wait_ns = now_ns - sy_min_u64(now_ns, first_ns);
	return true;
}

void sy_call_done(struct sy_call *call)
{
	sy_buf_free(&call->op.result);
	sy_remote_unref(call->remote);
	call->remote = NULL;
}
