/* glibc's memcpy on the very kind of pages the others use: a put copies from private memory into
 * the upper end of a slab, which no unit has given out; a get copies from there into a private
 * block that is kept from one get to the next. One thread, or tuned two, which take half of each
 * large copy, and of the slab the part below. */
#include <pthread.h>
#include <slabyard/status.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "local.h"
#include "clock.h"
#include "peer.h"

struct area {
	uint8_t *base;
	size_t bytes;
	size_t column_at[PAYLOAD_COLUMNS_MAX]; /* position p of a column lies p * max_bytes further */
};

/* The second thread: what it is to copy, and whether it has. */
struct helper {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	void *to;
	const void *from;
	size_t bytes; /* 0: nothing */
	bool ends;
};

struct connection {
	struct peer *peer;
	struct area *area;
	struct helper *helper; /* NULL: one thread */
	uint8_t *block;
	size_t block_bytes;
	size_t *block_at;  /* of each value of the last get, if knows_places */
	bool knows_places;
};

static size_t room(const struct payload *payload, struct area *area)
{
	size_t bytes = 0;

	for (uint32_t c = 0; c < payload->column_count; c++) {
		area->column_at[c] = bytes;
		bytes += (size_t)payload->columns[c].max_bytes * payload->row_count;
	}
	return (bytes + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
}

static void *help(void *context)
{
	struct helper *helper = context;

	pthread_mutex_lock(&helper->lock);
	while (!helper->ends) {
		if (helper->bytes > 0) {
			memcpy(helper->to, helper->from, helper->bytes);
			helper->bytes = 0;
			pthread_cond_signal(&helper->changed);
		}
		pthread_cond_wait(&helper->changed, &helper->lock);
	}
	pthread_mutex_unlock(&helper->lock);
	return NULL;
}

static struct helper *helper_new(void)
{
	struct helper *helper = calloc(1, sizeof *helper);

	if (helper == NULL)
		return NULL;
	pthread_mutex_init(&helper->lock, NULL);
	pthread_cond_init(&helper->changed, NULL);
	if (pthread_create(&helper->thread, NULL, help, helper) == 0)
		return helper;
	free(helper);
	return NULL;
}

static void helper_free(struct helper *helper)
{
	if (helper == NULL)
		return;
	pthread_mutex_lock(&helper->lock);
	helper->ends = true;
	pthread_cond_signal(&helper->changed);
	pthread_mutex_unlock(&helper->lock);
	pthread_join(helper->thread, NULL);
	free(helper);
}

/* The helper holds its lock while it copies, so that waiting for the lock is waiting for it. */
static void copy(struct connection *c, void *to, const void *from, size_t bytes)
{
	struct helper *helper = bytes >= 1u << 20 ? c->helper : NULL;
	size_t half = helper != NULL ? bytes / 128 * 64 : bytes;

	if (helper != NULL) {
		pthread_mutex_lock(&helper->lock);
		helper->to = (uint8_t *)to + half;
		helper->from = (const uint8_t *)from + half;
		helper->bytes = bytes - half;
		pthread_cond_signal(&helper->changed);
		pthread_mutex_unlock(&helper->lock);
	}
	memcpy(to, from, half);
	if (helper == NULL)
		return;
	pthread_mutex_lock(&helper->lock);
	while (helper->bytes > 0)
		pthread_cond_wait(&helper->changed, &helper->lock);
	pthread_mutex_unlock(&helper->lock);
}

static bool memcpy_open(struct peer *peer)
{
	struct area *area = calloc(1, sizeof *area);
	struct sy_local_welcome welcome;
	sy_error err = {0};
	int socket_fd, fd;

	if (area == NULL)
		return peer_fail(peer, "out of memory");
	peer->shared = area;
	area->bytes = room(peer->payload, area);
	if (sy_local_connect(peer->address, sy_clock_now_ns() + 5000000000u, &welcome, &socket_fd,
	                     &fd, &err) != SY_OK)
		return peer_fail(peer, "%s", err.message);
	size_t below = (peer->tuned ? 2 : 1) * area->bytes;
	if (welcome.slab_bytes >= below + area->bytes)
		area->base = mmap(NULL, area->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
		                  (off_t)(welcome.slab_bytes - below));
	close(fd);
	sy_local_close(socket_fd);
	if (area->base == NULL || area->base == MAP_FAILED) {
		area->base = NULL;
		return peer_fail(peer, "the slab has no room for memcpy's half");
	}
	return true;
}

static void memcpy_close(struct peer *peer)
{
	struct area *area = peer->shared;

	if (area != NULL && area->base != NULL)
		munmap(area->base, area->bytes);
	free(area);
	peer->shared = NULL;
}

static void memcpy_disconnect(void *connection)
{
	struct connection *c = connection;

	helper_free(c->helper);
	free(c->block);
	free(c->block_at);
	free(c);
}

static void *memcpy_connect(struct peer *peer, uint32_t batch_max, bool fresh)
{
	const struct payload *payload = peer->payload;
	const size_t huge = 2u << 20;
	struct connection *c = calloc(1, sizeof *c);
	size_t row_bytes = 0;

	(void)fresh;
	if (c == NULL)
		return NULL;
	*c = (struct connection){.peer = peer, .area = peer->shared};
	for (uint32_t f = 0; f < payload->column_count; f++)
		row_bytes += (size_t)payload->columns[f].max_bytes;
	c->block_bytes = (row_bytes * batch_max + huge - 1) & ~(huge - 1);
	c->block = aligned_alloc(huge, c->block_bytes);
	c->block_at = calloc((size_t)batch_max * payload->column_count, sizeof *c->block_at);
	if (peer->tuned)
		c->helper = helper_new();
	if (c->block == NULL || c->block_at == NULL || (peer->tuned && c->helper == NULL)) {
		memcpy_disconnect(c);
		return NULL;
	}
	madvise(c->block, c->block_bytes, MADV_HUGEPAGE);
	memset(c->block, 1, c->block_bytes);
	return c;
}

static uint8_t *place(const struct connection *c, const struct batch *batch, uint32_t i,
                      uint32_t column)
{
	return c->area->base + c->area->column_at[column] +
	       batch->positions[i] * (size_t)batch->payload->columns[column].max_bytes;
}

/* A column goes as one copy, as its rows lie side by side in both places; keys go one by one. A
 * jagged column is packed, so a batch's rows start where its first row would. */
static bool memcpy_put(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	const struct payload *payload = batch->payload;

	for (uint32_t f = 0; f < payload->column_count; f++) {
		const struct payload_column *of = &payload->columns[f];
		const uint8_t *from = of->data + of->offsets[batch->slot];

		if (way == PEER_COLUMNS) {
			copy(c, place(c, batch, 0, f), from,
			     of->offsets[batch->slot + batch->count] - of->offsets[batch->slot]);
			continue;
		}
		for (uint32_t i = 0; i < batch->count; i++)
			copy(c, place(c, batch, i, f), of->data + of->offsets[batch->slot + i],
			     of->offsets[batch->slot + i + 1] - of->offsets[batch->slot + i]);
	}
	return true;
}

static uint64_t held_bytes(const struct connection *c, const struct batch *batch, uint32_t i,
                           uint32_t column)
{
	const struct payload_column *of = &batch->payload->columns[column];
	uint32_t slot = c->peer->held[batch->positions[i]];

	return slot == PAYLOAD_EMPTY ? 0 : of->offsets[slot + 1] - of->offsets[slot];
}

/* What a column of a batch holds; its rows were put by one call, mostly, so that nothing needs to
 * be added up in the time that is measured. */
static size_t column_bytes(const struct connection *c, const struct batch *batch, uint32_t column)
{
	const struct payload_column *of = &batch->payload->columns[column];
	const uint32_t *held = c->peer->held, *positions = batch->positions;
	uint32_t first = held[positions[0]], last = held[positions[batch->count - 1]];
	size_t bytes = 0;

	if (first != PAYLOAD_EMPTY && last == first + batch->count - 1)
		return (size_t)(of->offsets[last + 1] - of->offsets[first]);
	for (uint32_t i = 0; i < batch->count; i++)
		bytes += (size_t)held_bytes(c, batch, i, column);
	return bytes;
}

static bool memcpy_get(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	size_t at = 0;

	c->knows_places = false;
	for (uint32_t f = 0; f < batch->payload->column_count; f++) {
		if (way == PEER_COLUMNS) {
			size_t bytes = column_bytes(c, batch, f);

			copy(c, c->block + at, place(c, batch, 0, f), bytes);
			at += bytes;
			continue;
		}
		for (uint32_t i = 0; i < batch->count; i++) {
			size_t bytes = (size_t)held_bytes(c, batch, i, f);

			copy(c, c->block + at, place(c, batch, i, f), bytes);
			at += bytes;
		}
	}
	return true;
}

/* Where each value went, for who checks. */
static void find_places(struct connection *c, const struct batch *batch)
{
	uint32_t columns = batch->payload->column_count;
	size_t at = 0;

	for (uint32_t f = 0; f < columns; f++) {
		for (uint32_t i = 0; i < batch->count; i++) {
			c->block_at[(size_t)i * columns + f] = at;
			at += (size_t)held_bytes(c, batch, i, f);
		}
	}
	c->knows_places = true;
}

static bool memcpy_value(void *connection, const struct batch *batch, uint32_t i, uint32_t column,
                         const void **ret_data, size_t *ret_bytes)
{
	struct connection *c = connection;

	if (c->peer->held[batch->positions[i]] == PAYLOAD_EMPTY)
		return false;
	if (!c->knows_places)
		find_places(c, batch);
	*ret_data = c->block + c->block_at[(size_t)i * batch->payload->column_count + column];
	*ret_bytes = (size_t)held_bytes(c, batch, i, column);
	return true;
}

static void memcpy_release(void *connection)
{
	(void)connection;
}

/* What is held says what is there. */
static bool memcpy_clear(void *connection, const struct batch *batch)
{
	(void)connection;
	(void)batch;
	return true;
}

const struct peer_kind peer_memcpy = {
	.name = "memcpy",
	.copies_only = true,
	.open = memcpy_open,
	.close = memcpy_close,
	.connect = memcpy_connect,
	.disconnect = memcpy_disconnect,
	.put = memcpy_put,
	.get = memcpy_get,
	.value = memcpy_value,
	.release = memcpy_release,
	.clear = memcpy_clear,
};
