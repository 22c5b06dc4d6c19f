/* What was posted and not proved finished: lanes whose operations are not done, and WRITEs whose
 * region may still be written. What each end proves, buffers.h says. */
#include <stdlib.h>

#include "clock.h"
#include "mover_state.h"

enum { PROVE_MAX = 16 }; /* peers at a time */

/* A caller whose deadline has come waits so long for the end of what it gave up. */
static const uint64_t SETTLE_NS = 20 * 1000 * 1000;
/* Of one look at all lanes, and of one lane of it; a lane that comes after the end is moved on,
 * and not waited for. */
static const uint64_t POLL_NS = 20 * 1000 * 1000, PROVE_NS = 5 * 1000 * 1000;

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
	if (!done)
		return false;
	lane->conn = NULL; /* its key is not used any more */
	lane->halves[0].op_count = lane->halves[1].op_count = 0; /* nor is the buffer */
	return true;
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

static struct sy_mover_grave *first_grave(const struct sy_ucx_mover *mover)
{
	return (struct sy_mover_grave *)(void *)mover->pool.graves;
}

static struct sy_mover_grave *next_grave(const struct sy_mover_grave *grave)
{
	return (struct sy_mover_grave *)(void *)grave->account.next;
}

/* A WRITE that is out is told of, whatever became of it, as its reservation waits for that. Lock
 * held. */
static void ended(struct sy_ucx_mover *mover, struct sy_mover_grave *grave,
                  enum sy_transfer_end end)
{
	struct sy_ucx_memories *memories = mover->config.memories;

	pthread_mutex_lock(&memories->lock);
	bool out = sy_buffers_ended(&mover->pool, &grave->account, end, &grave->drained);
	pthread_mutex_unlock(&memories->lock);
	sy_mover_buffers_drop(mover);
	if (!out)
		return;
	sy_mover_peer_unref(grave->peer);
	grave->peer = NULL;
	if (!grave->account.write || grave->account.name.session == 0) {
		free(grave);
		return;
	}
	grave->next = mover->ended;
	mover->ended = grave;
}

/* What it has posted counts, and not the whole of its buffer: of a small one that failed little is
 * under way. Lock held. */
static void bury(struct sy_mover_lane *lane, struct sy_mover_grave *grave)
{
	struct sy_ucx_memories *memories = lane->mover->config.memories;

	grave->peer->refs++;
	for (uint32_t i = 0; i < 2; i++)
		grave->account.nbytes += lane->halves[i].used + lane->halves[i].direct_bytes;
	if (lane->buffer != NULL)
		grave->account.buffer = &lane->buffer->account;
	lane->buffer = NULL;
	pthread_mutex_lock(&memories->lock);
	(void)sy_buffers_bury(&lane->mover->pool, &grave->account);
	pthread_mutex_unlock(&memories->lock);
}

bool sy_mover_give_up(struct sy_mover_lane *lane, struct sy_mover_grave *grave)
{
	struct sy_ucx_mover *mover = lane->mover;
	bool in_flight = grave->account.write;

	pthread_mutex_lock(&mover->lock);
	bury(lane, grave);
	pthread_mutex_unlock(&mover->lock);
	sy_mover_conn_close(lane->conn);
	bool settled = sy_mover_settle(lane, sy_clock_now_ns() + SETTLE_NS);
	pthread_mutex_lock(&mover->lock);
	if (settled) {
		ended(mover, grave, SY_TRANSFER_FLUSHED);
		sy_mover_lane_give(lane);
	} else {
		in_flight = sy_buffers_in_flight(&grave->account);
		lane->grave = grave; /* the keeper's, from now on */
	}
	pthread_mutex_unlock(&mover->lock);
	return in_flight;
}

/* Graves of this lane and connection before `number` are fenced; those of a session that has ended
 * are left, for its unit takes their regions back. Lock held. */
static void open_graves(struct sy_mover_lane *lane, const struct sy_ucx_peer *peer,
                        uint32_t number)
{
	struct sy_ucx_mover *mover = lane->mover;
	struct sy_mover_grave *next;

	for (struct sy_mover_grave *grave = first_grave(mover); grave != NULL; grave = next) {
		next = next_grave(grave);
		if (grave->lane != lane->index || grave->peer != peer || !grave->account.flushed)
			continue;
		if (peer->gone)
			ended(mover, grave, SY_TRANSFER_LEFT);
		else if (grave->number < number)
			ended(mover, grave, SY_TRANSFER_FENCED);
	}
}

/* The peers that this lane has graves of, with a reference each. Lock held. */
static uint32_t peers_to_prove(struct sy_mover_lane *lane, struct sy_ucx_peer **ret_peers)
{
	uint32_t count = 0;

	for (struct sy_mover_grave *grave = first_grave(lane->mover); grave != NULL;
	     grave = next_grave(grave)) {
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

static void prove(struct sy_mover_lane *lane, uint64_t end_ns)
{
	struct sy_ucx_mover *mover = lane->mover;
	uint64_t until_ns = sy_min_u64(sy_clock_now_ns() + PROVE_NS, end_ns);
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
	const struct sy_mover_grave *grave = first_grave(lane->mover);

	while (grave != NULL && grave->lane != lane->index)
		grave = next_grave(grave);
	return grave != NULL;
}

static void poll_lane(struct sy_mover_lane *lane, uint64_t end_ns)
{
	struct sy_ucx_mover *mover = lane->mover;

	pthread_mutex_lock(&mover->lock);
	struct sy_mover_grave *grave = lane->grave;
	/* What a busy lane is made of is its user's, whom no lock keeps from it. */
	bool mine = grave != NULL || (!lane->busy && lane->made && has_grave(lane));
	if (mine)
		lane->busy = true;
	pthread_mutex_unlock(&mover->lock);
	if (!mine || (grave != NULL && !sy_mover_settle(lane, sy_clock_now_ns())))
		return;
	if (grave != NULL) {
		pthread_mutex_lock(&mover->lock);
		lane->grave = NULL;
		ended(mover, grave, SY_TRANSFER_FLUSHED);
		pthread_mutex_unlock(&mover->lock);
	}
	prove(lane, end_ns);
	pthread_mutex_lock(&mover->lock);
	sy_mover_lane_give(lane);
	pthread_mutex_unlock(&mover->lock);
}

void sy_ucx_mover_poll(struct sy_ucx_mover *mover)
{
	uint64_t end_ns = sy_clock_now_ns() + POLL_NS;
	uint32_t first = mover->first_polled++; /* each lane's units are waited for in turn */

	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++)
		poll_lane(&mover->lanes[(first + i) % SY_JOIN_LANES_MAX], end_ns);
}

bool sy_ucx_mover_ended(struct sy_ucx_mover *mover, struct sy_ucx_ended *ret_ended)
{
	pthread_mutex_lock(&mover->lock);
	struct sy_mover_grave *grave = mover->ended;
	if (grave != NULL) {
		*ret_ended = (struct sy_ucx_ended){.name = grave->account.name,
		                                   .incarnation = grave->account.incarnation,
		                                   .drained = grave->drained};
		mover->ended = grave->next;
	}
	pthread_mutex_unlock(&mover->lock);
	free(grave);
	return grave != NULL;
}
