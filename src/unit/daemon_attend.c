/* Clients that are answered without a wake-up of the unit.
 *
 * An attended client wakes nobody, neither when it has written nor when it has made room. So its
 * lane is looked at for both, and not left until both were looked at after its ring has said that
 * it is attended no more. Whose replies wait for room is attended no longer than to the next
 * sleep: it may take its time. */
#include "daemon_state.h"

#include "clock.h"

/* The lane of an attended peer, NULL if it has gone: its place is given up then. */
static struct sy_lane *lane_at(struct sy_daemon *daemon, uint32_t place)
{
	uint32_t index = daemon->attended[place];
	struct sy_peer *peer = index != 0 ? sy_peers_at(&daemon->peers, index) : NULL;
	if (peer != NULL && peer->lane.shared != NULL && !peer->lane.broken)
		return &peer->lane;
	daemon->attended[place] = 0;
	return NULL;
}

void sy_daemon_attend(struct sy_daemon *daemon, uint32_t index)
{
	uint32_t place = SY_DAEMON_ATTENDED_MAX;
	if (daemon->spin.off)
		return;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		if (daemon->attended[i] == index)
			return;
		if (lane_at(daemon, i) == NULL)
			place = i;
	}
	if (place == SY_DAEMON_ATTENDED_MAX)
		return;
	daemon->attended[place] = index;
	sy_ring_attend(&lane_at(daemon, place)->in, true);
}

static bool has_work(const struct sy_lane *lane)
{
	return sy_ring_ready(&lane->in) || lane->first != NULL;
}

void sy_daemon_look(struct sy_daemon *daemon)
{
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(daemon, i);
		if (lane != NULL && has_work(lane))
			sy_daemon_serve_lane(daemon, daemon->attended[i]);
	}
}

/* True: one of them has written. */
static bool watch_lanes(struct sy_daemon *daemon)
{
	uint64_t end_ns = sy_clock_now_ns() + SY_SPIN_NS;
	do {
		uint32_t cpu = UINT32_MAX;
		for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
			const struct sy_lane *lane = lane_at(daemon, i);
			if (lane == NULL)
				continue;
			if (sy_ring_ready(&lane->in))
				return true;
			cpu = sy_ring_writer_cpu(&lane->in);
		}
		if (cpu == UINT32_MAX)
			return false;
		sy_spin_pause(cpu);
	} while (sy_clock_now_ns() < end_ns);
	return false;
}

/* True: it has work, as it wrote or made room before it could see that. */
static bool let_go(struct sy_daemon *daemon, uint32_t place)
{
	struct sy_lane *lane = lane_at(daemon, place);
	if (lane == NULL)
		return false;
	sy_ring_attend(&lane->in, false);
	bool work = has_work(lane);
	if (work)
		sy_peers_add_work(&daemon->peers, daemon->attended[place]);
	daemon->attended[place] = 0;
	return work;
}

bool sy_daemon_spin(struct sy_daemon *daemon)
{
	bool any = false, work = false;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(daemon, i);
		if (lane != NULL && lane->first != NULL)
			work |= let_go(daemon, i);
		else
			any |= lane != NULL;
	}
	if (work || !any)
		return work;
	if (sy_spin_may(&daemon->spin)) {
		bool hit = watch_lanes(daemon);
		sy_spin_end(&daemon->spin, hit);
		if (hit)
			return true;
	}
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++)
		work |= let_go(daemon, i);
	return work;
}
