/* redis through hiredis: SET and GET, MSET and MGET for batches, DEL or UNLINK.
 * Tuned: a unix socket, a reader that keeps its buffer, UNLINK. */
#include <hiredis/hiredis.h>

#include <stdlib.h>
#include <string.h>

#include "peer.h"

struct connection {
	struct peer *peer;
	redisContext *redis;
	const char **words;
	size_t *lengths;
	redisReply *reply;
};

static bool redis_open(struct peer *peer)
{
	(void)peer;
	return true;
}

static void redis_close(struct peer *peer)
{
	(void)peer;
}

static void redis_disconnect(void *connection)
{
	struct connection *c = connection;

	if (c->redis != NULL)
		redisFree(c->redis);
	free(c->words);
	free(c->lengths);
	free(c);
}

static redisContext *dial(const char *address)
{
	const char *port = strrchr(address, ':');
	char host[64];

	if (strncmp(address, "unix:", 5) == 0)
		return redisConnectUnix(address + 5);
	if (port == NULL || (size_t)(port - address) >= sizeof host)
		return NULL;
	memcpy(host, address, (size_t)(port - address));
	host[port - address] = '\0';
	return redisConnect(host, (int)strtol(port + 1, NULL, 10));
}

static void *redis_connect(struct peer *peer, uint32_t batch_max, bool fresh)
{
	struct connection *c = calloc(1, sizeof *c);
	size_t count = 2 * (size_t)batch_max * peer->payload->column_count + 1;

	(void)fresh;
	if (c == NULL)
		return NULL;
	c->peer = peer;
	c->words = calloc(count, sizeof *c->words);
	c->lengths = calloc(count, sizeof *c->lengths);
	c->redis = dial(peer->address);
	if (c->redis != NULL && c->redis->err == 0 && c->words != NULL && c->lengths != NULL) {
		if (peer->tuned)
			c->redis->reader->maxbuf = 0;
		return c;
	}
	peer_fail(peer, "%s", c->redis != NULL ? c->redis->errstr : "cannot connect");
	redis_disconnect(c);
	return NULL;
}

static void word(struct connection *c, size_t at, const void *data, size_t bytes)
{
	c->words[at] = data;
	c->lengths[at] = bytes;
}

static bool command(struct connection *c, size_t count)
{
	c->reply = redisCommandArgv(c->redis, (int)count, c->words, c->lengths);
	if (c->reply == NULL)
		return peer_fail(c->peer, "%s", c->redis->errstr);
	if (c->reply->type == REDIS_REPLY_ERROR)
		return peer_fail(c->peer, "%s", c->reply->str);
	return true;
}

static void redis_release(void *connection)
{
	struct connection *c = connection;

	freeReplyObject(c->reply);
	c->reply = NULL;
}

static bool redis_put(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	const struct payload *payload = batch->payload;
	bool single = batch->count == 1 && payload->column_count == 1;
	size_t at = 0, bytes;

	(void)way;
	word(c, at++, single ? "SET" : "MSET", single ? 3 : 4);
	for (uint32_t i = 0; i < batch->count; i++) {
		for (uint32_t f = 0; f < payload->column_count; f++) {
			const char *key = payload_key(payload, batch->positions[i], f);
			const void *value = payload_value(payload, batch->slot + i, f, &bytes);

			word(c, at++, key, strlen(key));
			word(c, at++, value, bytes);
		}
	}
	bool ok = command(c, at);
	redis_release(c);
	return ok;
}

static size_t name_keys(struct connection *c, const struct batch *batch)
{
	const struct payload *payload = batch->payload;
	size_t at = 1;

	for (uint32_t i = 0; i < batch->count; i++) {
		for (uint32_t f = 0; f < payload->column_count; f++) {
			const char *key = payload_key(payload, batch->positions[i], f);

			word(c, at++, key, strlen(key));
		}
	}
	return at;
}

static bool redis_get(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	size_t count = name_keys(c, batch);

	(void)way;
	word(c, 0, count == 2 ? "GET" : "MGET", count == 2 ? 3 : 4);
	return command(c, count);
}

static bool redis_value(void *connection, const struct batch *batch, uint32_t i, uint32_t column,
                        const void **ret_data, size_t *ret_bytes)
{
	struct connection *c = connection;
	const redisReply *value = c->reply;

	if (value->type == REDIS_REPLY_ARRAY)
		value = value->element[(size_t)i * batch->payload->column_count + column];
	if (value->type != REDIS_REPLY_STRING)
		return false;
	*ret_data = value->str;
	*ret_bytes = value->len;
	return true;
}

static bool redis_clear(void *connection, const struct batch *batch)
{
	struct connection *c = connection;
	size_t count = name_keys(c, batch);

	word(c, 0, c->peer->tuned ? "UNLINK" : "DEL", c->peer->tuned ? 6 : 3);
	bool ok = command(c, count);
	redis_release(c);
	return ok;
}

const struct peer_kind peer_redis = {
	.name = "redis",
	.open = redis_open,
	.close = redis_close,
	.connect = redis_connect,
	.disconnect = redis_disconnect,
	.put = redis_put,
	.get = redis_get,
	.value = redis_value,
	.release = redis_release,
	.clear = redis_clear,
};
