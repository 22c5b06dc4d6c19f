/* Clients that are answered without a wake-up of the unit.
 *
 * An attended client wakes nobody, neither when it has written nor when it has made room. So its
 * lane is looked at for both, and not left until both were looked at after its ring has said that
 * it is attended no more. Whose replies wait for room is attended no longer than to the next
 * sleep: it may take its time. */
#include "daemon_state.h"

#include "clock.h"

/* The lane of an attended peer, NULL if it has gone: its place is given up then. */
static struct sy_lane *lane_at(struct sy_daemon_loop *loop, uint32_t place)
{
	uint32_t index = loop->attended[place].index;
	struct sy_peers *peers = &loop->daemons[loop->attended[place].unit].peers;
	struct sy_peer *peer = index != 0 ? sy_peers_at(peers, index) : NULL;
	if (peer != NULL && peer->lane.shared != NULL && !peer->lane.broken)
		return &peer->lane;
	loop->attended[place].index = 0;
	return NULL;
}

bool sy_daemon_attend(struct sy_daemon *daemon, uint32_t index)
{
	struct sy_daemon_loop *loop = daemon->loop;
	uint32_t place = SY_DAEMON_ATTENDED_MAX;
	if (loop->spin.off)
		return false;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(loop, i);
		if (lane != NULL && loop->attended[i].unit == daemon->number &&
		    loop->attended[i].index == index)
			return true;
		if (lane == NULL)
			place = i;
	}
	if (place == SY_DAEMON_ATTENDED_MAX)
		return false;
	loop->attended[place].unit = daemon->number;
	loop->attended[place].index = index;
	sy_ring_attend(&lane_at(loop, place)->in, true);
	return true;
}

static bool has_work(const struct sy_lane *lane)
{
	return sy_ring_ready(&lane->in) || lane->first != NULL;
}

void sy_daemon_look(struct sy_daemon_loop *loop)
{
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(loop, i);
		if (lane == NULL || !has_work(lane))
			continue;
		struct sy_daemon *daemon = &loop->daemons[loop->attended[i].unit];
		sy_daemon_touch(daemon, sy_clock_now_ns());
		sy_daemon_serve_lane(daemon, loop->attended[i].index);
	}
}

/* Who is attended alone has the unit beside it, not in turns with it. */
static void part_from_client(struct sy_daemon_loop *loop)
{
	const struct sy_lane *only = NULL;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(loop, i);
		if (lane != NULL && only != NULL)
			return;
		if (lane != NULL)
			only = lane;
	}
	if (only != NULL)
		sy_spin_part(&loop->spin, sy_ring_writer_cpu(&only->in));
}

/* True: one of them has written. */
static bool watch_lanes(struct sy_daemon_loop *loop)
{
	uint64_t end_ns = sy_clock_now_ns() + SY_SPIN_NS;
	do {
		uint32_t cpu = UINT32_MAX;
		for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
			const struct sy_lane *lane = lane_at(loop, i);
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
static bool let_go(struct sy_daemon_loop *loop, uint32_t place)
{
	struct sy_lane *lane = lane_at(loop, place);
	if (lane == NULL)
		return false;
	sy_ring_attend(&lane->in, false);
	bool work = has_work(lane);
	if (work) {
		uint32_t unit = loop->attended[place].unit;
		sy_peers_add_work(&loop->daemons[unit].peers, loop->attended[place].index);
		loop->wakes_ns[unit] = 0;
	}
	loop->attended[place].index = 0;
	return work;
}

bool sy_daemon_spin(struct sy_daemon_loop *loop)
{
	struct sy_spin *spin = loop->expects ? &loop->announced : &loop->spin;
	bool any = false, work = false;
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++) {
		const struct sy_lane *lane = lane_at(loop, i);
		if (lane != NULL && lane->first != NULL)
			work |= let_go(loop, i);
		else
			any |= lane != NULL;
	}
	if (work || !any)
		return work;
	part_from_client(loop);
	if (sy_spin_may(spin)) {
		bool hit = watch_lanes(loop);
		sy_spin_end(spin, hit);
		if (hit)
			return true;
	}
	for (uint32_t i = 0; i < SY_DAEMON_ATTENDED_MAX; i++)
		work |= let_go(loop, i);
	return work;
}
