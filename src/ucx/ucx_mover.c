#include "mover_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "address.h"
#include "clock.h"
#include "fail.h"

static const uint64_t BUFFER_BYTES = 8u << 20;
static const uint64_t GRAVEYARD_BYTES = 4ull << 30;
static const uint64_t CLOSE_NS = 300 * 1000 * 1000;

sy_status sy_ucx_mover_open(const struct sy_ucx_mover_config *config,
                            struct sy_ucx_mover **ret_mover, sy_error *err)
{
	struct sy_ucx_mover *mover = calloc(1, sizeof *mover);
	pthread_condattr_t monotonic;

	if (mover == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	mover->refs = 1;
	mover->config = *config;
	if (config->buffer_bytes == 0)
		mover->config.buffer_bytes = BUFFER_BYTES;
	if (config->graveyard_max_bytes == 0)
		mover->config.graveyard_max_bytes = GRAVEYARD_BYTES;
	sy_status status = sy_ucx_context_open(config->allow_tcp, &mover->context, err);
	if (status != SY_OK) {
		free(mover);
		return status;
	}
	pthread_mutex_init(&mover->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&mover->freed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++) {
		mover->lanes[i].mover = mover;
		mover->lanes[i].index = i;
	}
	*ret_mover = mover;
	return SY_OK;
}

static void buffer_free(const struct sy_ucx_mover *mover, struct sy_mover_buffer *buffer)
{
	if (buffer == NULL)
		return;
	if (buffer->memory != NULL)
		(void)mover->context.lib->ucp_mem_unmap(mover->context.ucp, buffer->memory);
	munmap(buffer->data, (size_t)mover->config.buffer_bytes);
	free(buffer);
}

/* Memory that no fork child shares: what a transfer writes there is read here. */
static sy_status buffer_new(const struct sy_ucx_mover *mover, struct sy_mover_buffer **ret_buffer,
                            sy_error *err)
{
	size_t bytes = (size_t)mover->config.buffer_bytes;
	struct sy_mover_buffer *buffer = calloc(1, sizeof *buffer);
	void *data = buffer == NULL ? MAP_FAILED
	                            : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (data == MAP_FAILED) {
		free(buffer);
		return sy_fail(err, SY_E_SYS, __func__, "no memory for a buffer of %zu bytes", bytes);
	}
	buffer->data = data;
	(void)madvise(data, bytes, MADV_DONTFORK);
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = data, .length = bytes,
	};
	ucs_status_t status =
		mover->context.lib->ucp_mem_map(mover->context.ucp, &params, &buffer->memory);
	if (status != UCS_OK) {
		buffer->memory = NULL;
		buffer_free(mover, buffer);
		return sy_ucx_fail(&mover->context, status, __func__,
		                   "cannot register a buffer (is `ulimit -l` large enough?)", err);
	}
	*ret_buffer = buffer;
	return SY_OK;
}

void sy_mover_buffer_give(struct sy_ucx_mover *mover, struct sy_mover_buffer *buffer)
{
	if (buffer == NULL)
		return;
	buffer->next = mover->buffers;
	mover->buffers = buffer;
}

sy_status sy_mover_lane_make(struct sy_mover_lane *lane, sy_error *err)
{
	struct sy_ucx_mover *mover = lane->mover;
	size_t half_bytes = (size_t)mover->config.buffer_bytes / 2;
	sy_status status = SY_OK;

	if (!lane->made) {
		status = sy_ucx_worker_new(&mover->context, &lane->worker, &lane->fd, err);
		if (status != SY_OK)
			return status;
		sy_mover_handle_messages(lane);
		lane->made = true;
	}
	pthread_mutex_lock(&mover->lock);
	lane->buffer = mover->buffers;
	if (lane->buffer != NULL)
		mover->buffers = lane->buffer->next;
	pthread_mutex_unlock(&mover->lock);
	if (lane->buffer == NULL)
		status = buffer_new(mover, &lane->buffer, err);
	if (status != SY_OK)
		return status;
	for (uint32_t i = 0; i < 2; i++) {
		lane->halves[i].data = lane->buffer->data + i * half_bytes;
		lane->halves[i].used = 0;
		lane->halves[i].op_count = 0;
	}
	return SY_OK;
}

static bool is_connected(const struct sy_mover_lane *lane, const struct sy_ucx_peer *peer)
{
	for (const struct sy_mover_conn *conn = lane->conns; conn != NULL; conn = conn->next) {
		if (conn->peer == peer)
			return conn->state == SY_MOVER_CONN_READY && !conn->broken;
	}
	return false;
}

/* Made lanes before others, connected ones before all. */
static struct sy_mover_lane *best_lane(struct sy_ucx_mover *mover, const struct sy_ucx_peer *peer)
{
	struct sy_mover_lane *best = NULL;
	int best_worth = -1;

	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++) {
		struct sy_mover_lane *lane = &mover->lanes[i];

		if (lane->busy)
			continue;
		int worth = is_connected(lane, peer) ? 2 : lane->made ? 1 : 0;
		if (worth > best_worth) {
			best = lane;
			best_worth = worth;
		}
	}
	return best;
}

struct sy_mover_lane *sy_mover_lane_take(struct sy_ucx_mover *mover,
                                         const struct sy_ucx_peer *peer, uint64_t until_ns)
{
	struct sy_mover_lane *lane = best_lane(mover, peer);
	struct timespec end;
	uint64_t now_ns = sy_clock_now_ns();
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &end);
	uint64_t end_ns = (uint64_t)end.tv_nsec + (until_ns > now_ns ? until_ns - now_ns : 0);
	end.tv_sec += (time_t)(end_ns / 1000000000u);
	end.tv_nsec = (long)(end_ns % 1000000000u);
	while (lane == NULL && rc == 0) {
		rc = pthread_cond_timedwait(&mover->freed, &mover->lock, &end);
		lane = best_lane(mover, peer);
	}
	if (lane != NULL)
		lane->busy = true;
	return lane;
}

void sy_mover_lane_give(struct sy_mover_lane *lane)
{
	sy_mover_buffer_give(lane->mover, lane->buffer);
	lane->buffer = NULL;
	lane->conn = NULL;
	lane->busy = lane->buried = false;
	pthread_cond_signal(&lane->mover->freed);
}

struct sy_ucx_peer *sy_ucx_peer_new(struct sy_ucx_mover *mover, const char *address,
                                    uint64_t session, uint64_t incarnation, uint64_t slab_bytes)
{
	struct sy_ucx_peer *peer = calloc(1, sizeof *peer);

	if (peer == NULL)
		return NULL;
	*peer = (struct sy_ucx_peer){.mover = mover, .refs = 1, .session = session,
	                             .incarnation = incarnation, .slab_bytes = slab_bytes};
	sy_format(peer->address, sizeof peer->address, "%s", address);
	pthread_mutex_lock(&mover->lock);
	mover->refs++;
	pthread_mutex_unlock(&mover->lock);
	return peer;
}

void sy_mover_peer_unref(struct sy_ucx_peer *peer)
{
	if (--peer->refs == 0)
		free(peer);
}

/* The last one to go frees it: a peer may outlive its mover's close. */
static void unref(struct sy_ucx_mover *mover)
{
	pthread_mutex_lock(&mover->lock);
	bool last = --mover->refs == 0;
	pthread_mutex_unlock(&mover->lock);
	if (!last)
		return;
	pthread_cond_destroy(&mover->freed);
	pthread_mutex_destroy(&mover->lock);
	free(mover);
}

void sy_ucx_peer_free(struct sy_ucx_peer *peer)
{
	struct sy_ucx_mover *mover = peer->mover;

	pthread_mutex_lock(&mover->lock);
	peer->gone = true;
	sy_mover_peer_unref(peer);
	pthread_mutex_unlock(&mover->lock);
	unref(mover);
}

void sy_ucx_mover_account(struct sy_ucx_mover *mover, struct sy_ucx_account *ret_account)
{
	pthread_mutex_lock(&mover->lock);
	*ret_account = mover->account;
	pthread_mutex_unlock(&mover->lock);
}

/* The mover is closed, so every conn is as soon as it may be. False: one is half made, and
 * its unit says nothing; closed now it would take the process, or the unit, with it. */
static bool lane_end(struct sy_mover_lane *lane, uint64_t end_ns)
{
	while ((!sy_mover_settle(lane, sy_clock_now_ns()) || lane->conns != NULL) &&
	       sy_clock_now_ns() < end_ns)
		sy_mover_lane_wait(lane, end_ns);
	for (const struct sy_mover_conn *conn = lane->conns; conn != NULL; conn = conn->next) {
		if (conn->state == SY_MOVER_CONN_ASKED)
			return false;
	}
	lane->mover->context.lib->ucp_worker_destroy(lane->worker);
	return true;
}

static void conns_free(struct sy_mover_lane *lane)
{
	while (lane->conns != NULL) {
		struct sy_mover_conn *next = lane->conns->next;

		sy_mover_peer_unref(lane->conns->peer);
		free(lane->conns);
		lane->conns = next;
	}
}

void sy_ucx_mover_close(struct sy_ucx_mover *mover)
{
	uint64_t end_ns = sy_clock_now_ns() + CLOSE_NS;
	bool all = true;

	if (mover == NULL)
		return;
	pthread_mutex_lock(&mover->lock);
	mover->closed = true;
	pthread_mutex_unlock(&mover->lock);
	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++) {
		if (mover->lanes[i].made)
			all = lane_end(&mover->lanes[i], end_ns) && all;
	}
	/* A worker that stays uses all that hangs on it. */
	if (!all)
		return;
	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++) {
		conns_free(&mover->lanes[i]);
		buffer_free(mover, mover->lanes[i].buffer);
	}
	while (mover->buffers != NULL) {
		struct sy_mover_buffer *next = mover->buffers->next;

		buffer_free(mover, mover->buffers);
		mover->buffers = next;
	}
	while (mover->graves != NULL) {
		struct sy_mover_grave *next = mover->graves->next;

		sy_mover_peer_unref(mover->graves->peer);
		free(mover->graves);
		mover->graves = next;
	}
	while (mover->drained != NULL) {
		struct sy_mover_drained *next = mover->drained->next;

		free(mover->drained);
		mover->drained = next;
	}
	sy_ucx_context_close(&mover->context);
	unref(mover);
}
