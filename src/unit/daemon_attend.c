/* Clients that are answered without a wake-up of the unit. */
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

void sy_daemon_look(struct sy_daemon *daemon)
{
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(daemon, i);
		if (lane != NULL && sy_ring_ready(&lane->in))
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

bool sy_daemon_spin(struct sy_daemon *daemon)
{
	bool any = false;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++)
		any |= lane_at(daemon, i) != NULL;
	if (!any)
		return false;
	bool may = sy_spin_may(&daemon->spin), hit = may && watch_lanes(daemon);
	if (may)
		sy_spin_end(&daemon->spin, hit);
	if (hit)
		return true;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		struct sy_lane *lane = lane_at(daemon, i);
		if (lane == NULL)
			continue;
		sy_ring_attend(&lane->in, false);
		/* It wrote before it could see that. */
		if (sy_ring_ready(&lane->in)) {
			sy_peers_add_work(&daemon->peers, daemon->attended[i]);
			hit = true;
		}
		daemon->attended[i] = 0;
	}
	return hit;
}
