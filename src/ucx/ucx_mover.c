#include "mover_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "address.h"
#include "bytes.h"
#include "clock.h"
#include "fail.h"
#include "guard.h"

static const uint64_t BUFFER_BYTES = 1u << 20;
static const uint64_t LARGE_MAX_BYTES = 8u << 20;
static const uint64_t POOL_MAX_BYTES = 64u << 20;
static const uint64_t GRAVEYARD_BYTES = 4ull << 30;
/* Below it a copy, which joins ranges that follow each other, costs less than an operation. */
static const uint64_t DIRECT_MIN_BYTES = 64u << 10;
/* What goes straight of one transfer at a time: two of them. A transfer that is given up must
 * leave room in the graveyard for more like it. */
static const uint64_t DIRECT_MAX_BYTES = 32u << 20;
enum { DIRECT_SHARES = 16 };
static const uint64_t CLOSE_NS = 300 * 1000 * 1000;

static void set(uint64_t *value, uint64_t without)
{
	if (*value == 0)
		*value = without;
}

sy_status sy_ucx_mover_open(const struct sy_ucx_mover_config *config,
                            struct sy_ucx_mover **ret_mover, sy_error *err)
{
	struct sy_ucx_mover *mover = calloc(1, sizeof *mover);
	struct sy_ucx_memories *memories = config->memories != NULL
		? sy_ucx_memories_ref(config->memories) : sy_ucx_memories_new();
	pthread_condattr_t monotonic;

	if (mover == NULL || memories == NULL) {
		sy_ucx_memories_unref(memories);
		free(mover);
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	mover->refs = 1;
	mover->config = *config;
	mover->config.memories = memories;
	set(&mover->config.buffer_bytes, BUFFER_BYTES);
	set(&mover->config.large_max_bytes, LARGE_MAX_BYTES);
	set(&mover->config.pool_max_bytes, POOL_MAX_BYTES);
	set(&mover->config.direct_min_bytes, DIRECT_MIN_BYTES);
	set(&mover->config.graveyard_max_bytes, GRAVEYARD_BYTES);
	mover->direct_max_bytes =
		sy_min_u64(DIRECT_MAX_BYTES, mover->config.graveyard_max_bytes / DIRECT_SHARES);
	if (mover->direct_max_bytes < mover->config.direct_min_bytes)
		mover->config.direct_min_bytes = UINT64_MAX; /* nothing goes straight */
	sy_buffers_init(&mover->pool, &(struct sy_buffers_config){
		.base_count = SY_JOIN_LANES_MAX, .base_bytes = mover->config.buffer_bytes,
		.pool_max_bytes = mover->config.pool_max_bytes,
		.graveyard_max_bytes = mover->config.graveyard_max_bytes});
	sy_status status = sy_ucx_context_open(config->allow_tcp, config->inet6, &mover->context, err);
	if (status != SY_OK) {
		sy_ucx_memories_unref(memories);
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

sy_status sy_mover_register(struct sy_ucx_mover *mover, void *data, size_t bytes,
                            ucp_mem_h *ret_memory, sy_error *err)
{
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = data, .length = bytes,
	};
	ucp_mem_h memory = NULL;

	__atomic_add_fetch(&mover->register_count, 1, __ATOMIC_RELAXED);
	ucs_status_t status = mover->context.lib->ucp_mem_map(mover->context.ucp, &params, &memory);
	if (status != UCS_OK)
		return sy_ucx_fail(&mover->context, status, __func__,
		                   "cannot register memory (is `ulimit -l` large enough?)", err);
	*ret_memory = memory;
	return SY_OK;
}

static void buffer_free(const struct sy_ucx_mover *mover, struct sy_mover_buffer *buffer)
{
	if (buffer == NULL)
		return;
	if (buffer->memory != NULL)
		(void)mover->context.lib->ucp_mem_unmap(mover->context.ucp, buffer->memory);
	munmap(buffer->data, buffer->bytes);
	free(buffer);
}

/* Memory that no fork child shares: what a transfer writes there is read here. */
static sy_status buffer_new(struct sy_ucx_mover *mover, uint64_t nbytes,
                            struct sy_mover_buffer **ret_buffer, sy_error *err)
{
	size_t bytes = (size_t)nbytes;
	struct sy_mover_buffer *buffer = calloc(1, sizeof *buffer);
	void *data = buffer == NULL ? MAP_FAILED
	                            : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (data == MAP_FAILED) {
		free(buffer);
		return sy_fail(err, SY_E_SYS, __func__, "no memory for a buffer of %zu bytes", bytes);
	}
	buffer->data = data;
	buffer->bytes = bytes;
	(void)madvise(data, bytes, MADV_DONTFORK);
	sy_status status = sy_mover_register(mover, data, bytes, &buffer->memory, err);
	if (status != SY_OK)
		buffer_free(mover, buffer);
	else
		*ret_buffer = buffer;
	return status;
}

static struct sy_mover_buffer *mover_buffer(struct sy_buffer *account)
{
	return (struct sy_mover_buffer *)(void *)account;
}

void sy_mover_buffers_drop(struct sy_ucx_mover *mover)
{
	struct sy_buffer *dropped;

	while ((dropped = sy_buffers_drop(&mover->pool)) != NULL)
		buffer_free(mover, mover_buffer(dropped));
}

sy_status sy_mover_fail_poisoned(sy_error *err)
{
	return sy_fail(err, SY_E_FATAL, "sy_ucx_move",
	               "transfers that never ended hold more memory than allowed: this process can "
	               "move no more data");
}

/* A free buffer of the pool, or another one is registered: lane->buffer. What the pool answers
 * instead of a buffer, if it has none, is in *ret_answer. */
static sy_status take_buffer(struct sy_mover_lane *lane, uint64_t wanted_bytes,
                             enum sy_buffers_answer *ret_answer, sy_error *err)
{
	struct sy_ucx_mover *mover = lane->mover;
	struct sy_mover_buffer *made = NULL;
	struct sy_buffer *got = NULL;
	uint64_t nbytes = 0;

	pthread_mutex_lock(&mover->lock);
	*ret_answer = sy_buffers_take(&mover->pool, wanted_bytes, &got, &nbytes);
	sy_mover_buffers_drop(mover); /* those that made room */
	pthread_mutex_unlock(&mover->lock);
	if (*ret_answer == SY_BUFFERS_READY)
		lane->buffer = mover_buffer(got);
	if (*ret_answer != SY_BUFFERS_MAKE)
		return *ret_answer == SY_BUFFERS_FATAL ? sy_mover_fail_poisoned(err) : SY_OK;
	sy_status status = buffer_new(mover, nbytes, &made, err);
	pthread_mutex_lock(&mover->lock);
	if (status == SY_OK)
		sy_buffers_made(&mover->pool, &made->account, nbytes);
	else
		*ret_answer = sy_buffers_failed(&mover->pool, nbytes);
	pthread_mutex_unlock(&mover->lock);
	lane->buffer = made;
	if (status == SY_OK || *ret_answer != SY_BUFFERS_FATAL)
		return status;
	if (err != NULL)
		err->status = SY_E_FATAL; /* the words stay */
	return SY_E_FATAL;
}

/* A large transfer goes by turns through a buffer as large as is of any use, or through a base one
 * where larger ones are all in use, or cannot be registered: there is one for each lane. */
static sy_status take_any_buffer(struct sy_mover_lane *lane, uint64_t copied_bytes, sy_error *err)
{
	const struct sy_ucx_mover_config *config = &lane->mover->config;
	uint64_t wanted_bytes = sy_min_u64(copied_bytes, config->large_max_bytes);
	enum sy_buffers_answer answer = SY_BUFFERS_WAIT;

	if (wanted_bytes > config->buffer_bytes &&
	    !__atomic_load_n(&lane->mover->no_large, __ATOMIC_RELAXED) &&
	    take_buffer(lane, wanted_bytes, &answer, NULL) == SY_E_SYS)
		__atomic_store_n(&lane->mover->no_large, true, __ATOMIC_RELAXED); /* tried once */
	if (lane->buffer != NULL)
		return SY_OK;
	if (answer == SY_BUFFERS_FATAL)
		return sy_mover_fail_poisoned(err);
	sy_status status = take_buffer(lane, config->buffer_bytes, &answer, err);
	SY_ASSERT(status != SY_OK || lane->buffer != NULL);
	return status;
}

sy_status sy_mover_lane_make(struct sy_mover_lane *lane, uint64_t copied_bytes, sy_error *err)
{
	struct sy_ucx_mover *mover = lane->mover;
	sy_status status = SY_OK;

	if (!lane->made) {
		status = sy_ucx_worker_new(&mover->context, &lane->worker, &lane->fd, err);
		if (status != SY_OK)
			return status;
		sy_mover_handle_messages(lane);
		lane->made = true;
	}
	if (copied_bytes > 0)
		status = take_any_buffer(lane, copied_bytes, err);
	if (status != SY_OK)
		return status;
	for (uint32_t i = 0; i < 2; i++) {
		struct sy_mover_half *half = &lane->halves[i];

		half->room = lane->buffer != NULL ? lane->buffer->bytes / 2 : 0;
		half->data = lane->buffer != NULL ? lane->buffer->data + i * half->room : NULL;
		half->used = 0;
		half->direct_bytes = 0;
		half->op_count = 0;
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
	if (lane->buffer != NULL)
		sy_buffers_give(&lane->mover->pool, &lane->buffer->account);
	sy_mover_buffers_drop(lane->mover);
	lane->buffer = NULL;
	lane->conn = NULL;
	lane->busy = false;
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
	*ret_account = (struct sy_ucx_account){
		.written_bytes = mover->written_bytes, .read_bytes = mover->read_bytes,
		.direct_bytes = mover->direct_bytes,
		.register_count = __atomic_load_n(&mover->register_count, __ATOMIC_RELAXED),
		.pool_bytes = mover->pool.base_count * mover->config.buffer_bytes +
		              mover->pool.large_bytes,
		.grave_bytes = mover->pool.buried_bytes, .grave_count = mover->pool.grave_count,
		.poisoned = mover->pool.poisoned,
	};
	pthread_mutex_unlock(&mover->lock);
}

/* The mover is closed, so every conn is as soon as it may be. False: one is half made, and
 * its unit says nothing; closed now it would take the process, or the unit, with it. Its caller's
 * memory is given back all the same where nothing touches it, for nobody looks later. */
static bool lane_end(struct sy_mover_lane *lane, uint64_t end_ns)
{
	bool settled = false, half_made = false;

	while ((!(settled = sy_mover_settle(lane, sy_clock_now_ns())) || lane->conns != NULL) &&
	       sy_clock_now_ns() < end_ns)
		sy_mover_lane_wait(lane, end_ns);
	for (const struct sy_mover_conn *conn = lane->conns; conn != NULL; conn = conn->next)
		half_made = half_made || conn->state == SY_MOVER_CONN_ASKED;
	if (!half_made)
		lane->mover->context.lib->ucp_worker_destroy(lane->worker);
	if (lane->grave != NULL && (settled || !half_made))
		sy_mover_direct_end(lane->mover, &lane->grave->account.holds);
	return !half_made;
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

static void buffers_free(const struct sy_ucx_mover *mover, const struct sy_buffer_list *list)
{
	for (struct sy_buffer *buffer = list->head, *next; buffer != NULL; buffer = next) {
		next = buffer->next;
		buffer_free(mover, mover_buffer(buffer));
	}
}

/* No worker is left that could touch what they hold. */
static void graves_free(struct sy_ucx_mover *mover)
{
	for (struct sy_grave *account = mover->pool.graves, *next; account != NULL; account = next) {
		struct sy_mover_grave *grave = (struct sy_mover_grave *)(void *)account;

		next = account->next;
		if (account->buffer != NULL)
			buffer_free(mover, mover_buffer(account->buffer));
		sy_mover_direct_end(mover, &account->holds);
		sy_mover_peer_unref(grave->peer);
		free(grave);
	}
	while (mover->ended != NULL) {
		struct sy_mover_grave *next = mover->ended->next;

		free(mover->ended);
		mover->ended = next;
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
	SY_ASSERT(sy_buffers_audit(&mover->pool) == NULL);
	for (uint32_t i = 0; i < SY_JOIN_LANES_MAX; i++)
		conns_free(&mover->lanes[i]);
	graves_free(mover);
	buffers_free(mover, &mover->pool.free);
	buffers_free(mover, &mover->pool.used);
	sy_ucx_memories_forget(mover->config.memories, mover);
	sy_ucx_context_close(&mover->context);
	sy_ucx_memories_unref(mover->config.memories);
	unref(mover);
}
