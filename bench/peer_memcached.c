/* memcached through libmemcached: set and get; batches as sets without replies, pipelined, and
 * one question at their end that is answered when all are done; gets of many keys in one. */
#include <libmemcached/memcached.h>

#include <stdlib.h>
#include <string.h>

#include "peer.h"

struct connection {
	struct peer *peer;
	memcached_st *one;  /* asks and waits */
	memcached_st *many; /* buffers, and wants no replies */
	const char **keys;
	size_t *lengths;
	memcached_result_st **results; /* of each key of the last get; NULL: absent */
	size_t result_count;
	char *single; /* the value of a get of one key */
	size_t single_bytes;
};

static bool memcached_peer_open(struct peer *peer)
{
	(void)peer;
	return true;
}

static void memcached_peer_close(struct peer *peer)
{
	(void)peer;
}

static void memcached_disconnect(void *connection)
{
	struct connection *c = connection;

	memcached_free(c->one);
	memcached_free(c->many);
	free(c->keys);
	free(c->lengths);
	free(c->results);
	free(c);
}

static memcached_st *dial(const char *address)
{
	memcached_st *handle = memcached_create(NULL);
	const char *port = strrchr(address, ':');
	memcached_return_t done = MEMCACHED_FAILURE;
	char host[64];

	if (handle == NULL)
		return NULL;
	if (strncmp(address, "unix:", 5) == 0) {
		done = memcached_server_add_unix_socket(handle, address + 5);
	} else if (port != NULL && (size_t)(port - address) < sizeof host) {
		memcpy(host, address, (size_t)(port - address));
		host[port - address] = '\0';
		done = memcached_server_add(handle, host, (in_port_t)strtoul(port + 1, NULL, 10));
	}
	memcached_behavior_set(handle, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
	if (done == MEMCACHED_SUCCESS)
		return handle;
	memcached_free(handle);
	return NULL;
}

static void *memcached_connect(struct peer *peer, uint32_t batch_max, bool fresh)
{
	struct connection *c = calloc(1, sizeof *c);
	size_t count = (size_t)batch_max * peer->payload->column_count;

	(void)fresh;
	if (c == NULL)
		return NULL;
	c->peer = peer;
	c->one = dial(peer->address);
	c->many = dial(peer->address);
	c->keys = calloc(count, sizeof *c->keys);
	c->lengths = calloc(count, sizeof *c->lengths);
	c->results = calloc(count, sizeof *c->results);
	if (c->one == NULL || c->many == NULL || c->keys == NULL || c->lengths == NULL ||
	    c->results == NULL) {
		peer_fail(peer, "cannot connect");
		memcached_disconnect(c);
		return NULL;
	}
	memcached_behavior_set(c->many, MEMCACHED_BEHAVIOR_NOREPLY, 1);
	memcached_behavior_set(c->many, MEMCACHED_BEHAVIOR_BUFFER_REQUESTS, 1);
	return c;
}

static bool failed(struct connection *c, memcached_st *handle, memcached_return_t done)
{
	const char *more = memcached_last_error_message(handle);

	return peer_fail(c->peer, "%s", more != NULL ? more : memcached_strerror(handle, done));
}

static bool is_done(memcached_return_t done)
{
	return done == MEMCACHED_SUCCESS || done == MEMCACHED_BUFFERED || done == MEMCACHED_STORED;
}

/* Its answer comes after everything that was sent before it. */
static bool await_all(struct connection *c)
{
	static const char nothing[] = "nothing";
	memcached_return_t done;
	size_t bytes;
	uint32_t flags;

	free(memcached_get(c->many, nothing, sizeof nothing - 1, &bytes, &flags, &done));
	return done == MEMCACHED_NOTFOUND || failed(c, c->many, done);
}

static bool memcached_put(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	const struct payload *payload = batch->payload;
	bool single = batch->count == 1 && payload->column_count == 1;
	memcached_st *handle = single ? c->one : c->many;

	(void)way;
	for (uint32_t i = 0; i < batch->count; i++) {
		for (uint32_t f = 0; f < payload->column_count; f++) {
			const char *key = payload_key(payload, batch->positions[i], f);
			size_t bytes;
			const void *value = payload_value(payload, batch->slot + i, f, &bytes);
			memcached_return_t done =
				memcached_set(handle, key, strlen(key), value, bytes, 0, 0);

			if (!is_done(done))
				return failed(c, handle, done);
		}
	}
	return single || await_all(c);
}

static size_t name_keys(struct connection *c, const struct batch *batch)
{
	const struct payload *payload = batch->payload;
	size_t count = 0;

	for (uint32_t i = 0; i < batch->count; i++) {
		for (uint32_t f = 0; f < payload->column_count; f++, count++) {
			c->keys[count] = payload_key(payload, batch->positions[i], f);
			c->lengths[count] = strlen(c->keys[count]);
		}
	}
	return count;
}

/* Answers come in the order of the keys; what is absent is left out. */
static bool get_many(struct connection *c, size_t count)
{
	memcached_return_t done = memcached_mget(c->one, c->keys, c->lengths, count);
	memcached_result_st *result;
	size_t at = 0;

	if (done != MEMCACHED_SUCCESS)
		return failed(c, c->one, done);
	while ((result = memcached_fetch_result(c->one, NULL, &done)) != NULL) {
		size_t bytes = memcached_result_key_length(result);

		while (at < count && (bytes != c->lengths[at] ||
		                      memcmp(memcached_result_key_value(result), c->keys[at], bytes) != 0))
			c->results[at++] = NULL;
		if (at == count) {
			memcached_result_free(result);
			return peer_fail(c->peer, "an answer to a key nobody asked for");
		}
		c->results[at++] = result;
	}
	while (at < count)
		c->results[at++] = NULL;
	return done == MEMCACHED_END || done == MEMCACHED_NOTFOUND || failed(c, c->one, done);
}

static bool memcached_peer_get(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	size_t count = name_keys(c, batch);
	memcached_return_t done;
	uint32_t flags;

	(void)way;
	c->result_count = count;
	if (count > 1)
		return get_many(c, count);
	c->single = memcached_get(c->one, c->keys[0], c->lengths[0], &c->single_bytes, &flags, &done);
	return done == MEMCACHED_SUCCESS || done == MEMCACHED_NOTFOUND || failed(c, c->one, done);
}

static bool memcached_value(void *connection, const struct batch *batch, uint32_t i,
                            uint32_t column, const void **ret_data, size_t *ret_bytes)
{
	struct connection *c = connection;

	if (c->result_count == 1) {
		*ret_data = c->single;
		*ret_bytes = c->single_bytes;
		return c->single != NULL;
	}
	const memcached_result_st *result =
		c->results[(size_t)i * batch->payload->column_count + column];
	if (result == NULL)
		return false;
	*ret_data = memcached_result_value(result);
	*ret_bytes = memcached_result_length(result);
	return true;
}

static void memcached_release(void *connection)
{
	struct connection *c = connection;

	free(c->single);
	c->single = NULL;
	for (size_t i = 0; c->result_count > 1 && i < c->result_count; i++) {
		if (c->results[i] != NULL)
			memcached_result_free(c->results[i]);
		c->results[i] = NULL;
	}
	c->result_count = 0;
}

static bool memcached_clear(void *connection, const struct batch *batch)
{
	struct connection *c = connection;
	size_t count = name_keys(c, batch);

	for (size_t i = 0; i < count; i++) {
		memcached_return_t done = memcached_delete(c->many, c->keys[i], c->lengths[i], 0);

		if (!is_done(done) && done != MEMCACHED_NOTFOUND)
			return failed(c, c->many, done);
	}
	return await_all(c);
}

const struct peer_kind peer_memcached = {
	.name = "memcached",
	.open = memcached_peer_open,
	.close = memcached_peer_close,
	.connect = memcached_connect,
	.disconnect = memcached_disconnect,
	.put = memcached_put,
	.get = memcached_peer_get,
	.value = memcached_value,
	.release = memcached_release,
	.clear = memcached_clear,
};
