/* What was posted and not proved finished: lanes whose operations are not done, and WRITEs whose
 * region may still be written. */
#include <stdlib.h>

#include "clock.h"
#include "mover_state.h"

enum { PROVE_MAX = 16 }; /* peers at a time */

/* A caller whose deadline has come waits so long for the end of what it gave up. */
static const uint64_t BURY_NS = 20 * 1000 * 1000;
static const uint64_t PROVE_NS = 5 * 1000 * 1000;

/* Every operation has ended and the connection is finished, so nothing touches the buffer. */
static bool is_settled(struct sy_mover_lane *lane)
{
	const struct sy_ucx_context *context = &lane->mover->context;
	bool done = sy_ucx_request_take(context, &lane->flush) != UCS_INPROGRESS;

	for (uint32_t h = 0; h < 2; h++) {
		struct sy_mover_half *half = &lane->halves[h];

		for (uint32_t i = 0; i < half->op_count; i++)
			done = sy_ucx_request_take(context, &half->ops[i].request) != UCS_INPROGRESS && done;
	}
	if (done)
		lane->conn = NULL; /* its key is not used any more */
	return done;
}

static bool has_closing(const struct sy_mover_lane *lane)
{
	for (const struct sy_mover_conn *conn = lane->conns; conn != NULL; conn = conn->next) {
		if (conn->state == SY_MOVER_CONN_CLOSING)
			return true;
	}
	return false;
}

bool sy_mover_settle(struct sy_mover_lane *lane, uint64_t until_ns)
{
	do {
		sy_mover_conns_step(lane);
		if (is_settled(lane) && !has_closing(lane))
			return true;
		sy_mover_lane_wait(lane, until_ns);
	} while (sy_clock_now_ns() < until_ns);
	return false;
}

bool sy_mover_bury(struct sy_mover_lane *lane)
{
	sy_mover_conn_close(lane->conn);
	return sy_mover_settle(lane, sy_clock_now_ns() + BURY_NS);
}

void sy_mover_grave_add(struct sy_mover_lane *lane, struct sy_ucx_peer *peer,
                        struct sy_mover_grave *grave)
{
	struct sy_ucx_mover *mover = lane->mover;

	if (grave != NULL) {
		grave->peer = peer;
		peer->refs++;
		grave->next = mover->graves;
		mover->graves = grave;
		mover->account.grave_bytes += grave->nbytes;
	} else {
		lane->buried = true;
		mover->account.grave_bytes += mover->config.buffer_bytes;
	}
	mover->account.grave_count++;
	if (mover->account.grave_bytes > mover->config.graveyard_max_bytes)
		mover->account.poisoned = true;
}

/* Lock held. */
static void remove_grave(struct sy_ucx_mover *mover, struct sy_mover_grave **at)
{
	struct sy_mover_grave *grave = *at;

	*at = grave->next;
	mover->account.grave_bytes -= grave->nbytes;
	mover->account.grave_count--;
	sy_mover_peer_unref(grave->peer);
	free(grave);
}

/* Graves of this lane and connection before `number` are finished; without a number, those of a
 * session that has ended are forgotten: its unit takes their regions back. Lock held. */
static void open_graves(struct sy_mover_lane *lane, const struct sy_ucx_peer *peer,
                        uint32_t number)
{
	struct sy_ucx_mover *mover = lane->mover;

	for (struct sy_mover_grave **at = &mover->graves; *at != NULL;) {
		struct sy_mover_grave *grave = *at;
		bool mine = grave->lane == lane->index && grave->peer == peer;

		if (!mine || (!peer->gone && grave->number >= number)) {
			at = &grave->next;
			continue;
		}
		struct sy_mover_drained *drained = peer->gone ? NULL : calloc(1, sizeof *drained);
		if (drained != NULL) {
			drained->name = grave->name;
			drained->next = mover->drained;
			mover->drained = drained;
		}
		remove_grave(mover, at);
	}
}

/* The peers that this lane has graves of, with a reference each. Lock held. */
static uint32_t peers_to_prove(struct sy_mover_lane *lane, struct sy_ucx_peer **ret_peers)
{
	uint32_t count = 0;

	for (struct sy_mover_grave *grave = lane->mover->graves; grave != NULL; grave = grave->next) {
		uint32_t i = 0;

		while (i < count && ret_peers[i] != grave->peer)
			i++;
		if (grave->lane == lane->index && i == count && count < PROVE_MAX) {
			ret_peers[count++] = grave->peer;
			grave->peer->refs++;
		}
	}
	return count;
}

/* Connects anew, for the answer to that is the proof. True: there is no more to be done. */
static bool prove_one(struct sy_mover_lane *lane, struct sy_ucx_peer *peer)
{
	struct sy_ucx_mover *mover = lane->mover;
	const struct sy_mover_conn *conn = NULL;

	pthread_mutex_lock(&mover->lock);
	bool gone = peer->gone;
	if (gone)
		open_graves(lane, peer, 0);
	pthread_mutex_unlock(&mover->lock);
	if (!gone)
		conn = sy_mover_conn_get(lane, peer, NULL);
	if (conn == NULL)
		return true;
	if (conn->state != SY_MOVER_CONN_READY || conn->broken)
		return false;
	pthread_mutex_lock(&mover->lock);
	open_graves(lane, peer, conn->number);
	pthread_mutex_unlock(&mover->lock);
	return true;
}

static void prove(struct sy_mover_lane *lane)
{
	struct sy_ucx_mover *mover = lane->mover;
	uint64_t until_ns = sy_clock_now_ns() + PROVE_NS;
	struct sy_ucx_peer *peers[PROVE_MAX];
	bool all;

	pthread_mutex_lock(&mover->lock);
	uint32_t count = peers_to_prove(lane, peers);
	pthread_mutex_unlock(&mover->lock);
	do {
		all = true;
		sy_mover_conns_step(lane);
		for (uint32_t i = 0; i < count; i++)
			all = prove_one(lane, peers[i]) && all;
		if (!all)
			sy_mover_lane_wait(lane, until_ns);
	} while (!all && sy_clock_now_ns() < until_ns);
	pthread_mutex_lock(&mover->lock);
	for (uint32_t i = 0; i < count; i++)
		sy_mover_peer_unref(peers[i]);
	pthread_mutex_unlock(&mover->lock);
}

/* Lock held. */
static bool has_grave(const struct sy_mover_lane *lane)
{
	const struct sy_mover_grave *grave = lane->mover->graves;

	while (grave != NULL && grave->lane != lane->index)
		grave = grave->next;
	return grave != NULL;
}

static void poll_lane(struct sy_mover_lane *lane)
{
	struct sy_ucx_mover *mover = lane->mover;

	pthread_mutex_lock(&mover->lock);
	bool buried = lane->buried;
	bool mine = buried || (lane->made && !lane->busy && has_grave(lane));
	if (mine)
		lane->busy = true;
	pthread_mutex_unlock(&mover->lock);
	if (!mine || (buried && !sy_mover_settle(lane, sy_clock_now_ns())))
		return;
	prove(lane);
	pthread_mutex_lock(&mover->lock);
	if (buried) {
		mover->account.grave_bytes -= mover->config.buffer_bytes;
		mover->account.grave_count--;
	}
	sy_mover_lane_give(lane);
	pthread_mutex_unlock(&mover->lock);
}

void sy_ucx_mover_poll(struct sy_ucx_mover *mover)
{
	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++)
		poll_lane(&mover->lanes[i]);
}

bool sy_ucx_mover_drained(struct sy_ucx_mover *mover, struct sy_request_id *ret_name)
{
	pthread_mutex_lock(&mover->lock);
	struct sy_mover_drained *drained = mover->drained;
	if (drained != NULL) {
		*ret_name = drained->name;
		mover->drained = drained->next;
	}
	pthread_mutex_unlock(&mover->lock);
	free(drained);
	return drained != NULL;
}
