/* slabyard through its public interface. */
#include <slabyard/slabyard.h>

#include <stdlib.h>
#include <string.h>

#include "peer.h"

struct connection {
	struct peer *peer;
	sy_client *client;
	bool own; /* the client is this connection's alone */
	sy_key *keys;
	sy_value *values;
	sy_result *result;
	bool columns; /* the result is of columns */
	sy_unit_report *reports;
};

static bool failed(struct peer *peer, sy_status status, const sy_error *err)
{
	return peer_fail(peer, "%s: %s", sy_status_name(status), err->message);
}

static bool client_open(struct peer *peer, sy_client **ret_client)
{
	const sy_client_options options = {.run_dir = peer->address};
	sy_error err = {0};
	sy_status status = sy_client_open(&options, ret_client, &err);

	return status == SY_OK || failed(peer, status, &err);
}

static bool slabyard_open(struct peer *peer)
{
	sy_client *client = NULL;
	sy_error err = {0};

	if (!client_open(peer, &client))
		return false;
	peer->server_count = sy_client_unit_count(client);
	sy_unit_report *reports = calloc(peer->server_count, sizeof *reports);
	peer->servers = calloc(peer->server_count, sizeof *peer->servers);
	if (reports == NULL || peer->servers == NULL)
		return peer_fail(peer, "out of memory");
	sy_status status = sy_client_reports(client, 0, reports, &err);
	size_t units = peer->server_count;
	peer->server_count = 0;
	for (size_t u = 0; status == SY_OK && u < units; u++) { /* several may be one process */
		if (u == 0 || reports[u].pid != reports[u - 1].pid)
			peer->servers[peer->server_count++] = (pid_t)reports[u].pid;
	}
	free(reports);
	peer->shared = client;
	return status == SY_OK || failed(peer, status, &err);
}

static void slabyard_close(struct peer *peer)
{
	sy_client_close(peer->shared);
	free(peer->servers);
	peer->shared = NULL;
	peer->servers = NULL;
}

static void slabyard_disconnect(void *connection)
{
	struct connection *c = connection;

	if (c->own)
		sy_client_close(c->client);
	free(c->keys);
	free(c->values);
	free(c->reports);
	free(c);
}

static void *slabyard_connect(struct peer *peer, uint32_t batch_max, bool fresh)
{
	struct connection *c = calloc(1, sizeof *c);
	size_t count = (size_t)batch_max * peer->payload->column_count;

	if (c == NULL)
		return NULL;
	*c = (struct connection){.peer = peer, .client = peer->shared, .own = fresh};
	c->keys = calloc(count, sizeof *c->keys);
	c->values = calloc(count, sizeof *c->values);
	c->reports = calloc(sy_client_unit_count(c->client), sizeof *c->reports);
	if (fresh)
		c->client = NULL;
	if (c->keys != NULL && c->values != NULL && c->reports != NULL &&
	    (!fresh || client_open(peer, &c->client)))
		return c;
	slabyard_disconnect(c);
	return NULL;
}

static size_t name_keys(struct connection *c, const struct batch *batch)
{
	const struct payload *payload = batch->payload;
	size_t count = 0;

	for (uint32_t i = 0; i < batch->count; i++) {
		for (uint32_t f = 0; f < payload->column_count; f++) {
			const char *field = payload->columns[f].field;

			c->keys[count++] = (sy_key){.row = batch->rows[i], .field = field,
			                            .field_bytes = strlen(field)};
		}
	}
	return count;
}

static bool put_columns(struct connection *c, const struct batch *batch)
{
	sy_put_column columns[PAYLOAD_COLUMNS_MAX];
	const struct payload *payload = batch->payload;
	sy_error err = {0};

	for (uint32_t f = 0; f < payload->column_count; f++) {
		const struct payload_column *of = &payload->columns[f];

		columns[f] = (sy_put_column){
			.field = of->field, .field_bytes = strlen(of->field), .dtype = of->dtype,
			.kind = of->kind, .shape = {.rank = of->rank}, .data = of->data,
		};
		if (of->dense) {
			columns[f].data = of->data + of->offsets[batch->slot];
			columns[f].row_bytes = columns[f].stride_bytes = of->max_bytes;
		} else {
			columns[f].offsets = &of->offsets[batch->slot];
		}
	}
	sy_status status = sy_client_put_columns(c->client, batch->rows, batch->count, columns,
	                                         payload->column_count, 0, &err);
	return status == SY_OK || failed(c->peer, status, &err);
}

static bool slabyard_put(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	const struct payload *payload = batch->payload;
	sy_error err = {0};
	size_t count, k = 0;

	if (way == PEER_COLUMNS)
		return put_columns(c, batch);
	count = name_keys(c, batch);
	for (uint32_t i = 0; i < batch->count; i++) {
		for (uint32_t f = 0; f < payload->column_count; f++, k++) {
			const struct payload_column *of = &payload->columns[f];
			size_t bytes;

			c->values[k] = (sy_value){.data = payload_value(payload, batch->slot + i, f, &bytes),
			                          .dtype = of->dtype, .kind = of->kind, .rank = of->rank};
			c->values[k].nbytes = bytes;
			if (of->rank > 0)
				c->values[k].dims[0] = bytes / sy_dtype_bytes(of->dtype);
		}
	}
	sy_status status = sy_client_put(c->client, c->keys, c->values, count, 0, &err);
	return status == SY_OK || failed(c->peer, status, &err);
}

static bool slabyard_get(void *connection, const struct batch *batch, enum peer_way way)
{
	struct connection *c = connection;
	const struct payload *payload = batch->payload;
	const char *fields[PAYLOAD_COLUMNS_MAX];
	sy_error err = {0};
	sy_status status;

	c->columns = way == PEER_COLUMNS;
	if (c->columns) {
		for (uint32_t f = 0; f < payload->column_count; f++)
			fields[f] = payload->columns[f].field;
		status = sy_client_get_columns(c->client, batch->rows, batch->count, fields,
		                               payload->column_count, SY_GET_COPY, 0, &c->result, &err);
	} else {
		status = sy_client_get(c->client, c->keys, name_keys(c, batch),
		                       way == PEER_VIEW ? SY_GET_VIEW : SY_GET_COPY, 0, &c->result, &err);
	}
	return status == SY_OK || failed(c->peer, status, &err);
}

static bool slabyard_value(void *connection, const struct batch *batch, uint32_t i,
                           uint32_t column, const void **ret_data, size_t *ret_bytes)
{
	struct connection *c = connection;
	sy_got_column got;
	sy_value value;

	if (c->columns) {
		if (!sy_result_column(c->result, column, &got) || got.found[i] == 0)
			return false;
		*ret_data = (const uint8_t *)got.data + got.offsets[i];
		*ret_bytes = (size_t)(got.offsets[i + 1] - got.offsets[i]);
		return true;
	}
	if (!sy_result_value(c->result, (size_t)i * batch->payload->column_count + column, &value))
		return false;
	*ret_data = value.data;
	*ret_bytes = (size_t)value.nbytes;
	return true;
}

static void slabyard_release(void *connection)
{
	struct connection *c = connection;

	sy_result_free(c->result);
	c->result = NULL;
}

static bool slabyard_clear(void *connection, const struct batch *batch)
{
	struct connection *c = connection;
	sy_error err = {0};
	uint64_t cleared;
	sy_status status = sy_client_clear(c->client, batch->rows, batch->count, NULL, 0, 0, &cleared,
	                                   &err);

	return status == SY_OK || failed(c->peer, status, &err);
}

/* A unit counts the requests it executed; each has one reply. */
static uint64_t slabyard_messages(void *connection)
{
	struct connection *c = connection;
	uint64_t count = 0;

	if (sy_client_reports(c->client, 0, c->reports, NULL) != SY_OK)
		return 0;
	for (uint32_t u = 0; u < sy_client_unit_count(c->client); u++) {
		for (size_t i = 0; i < c->reports[u].count_count; i++) {
			if (strcmp(c->reports[u].counts[i].name, "requests") == 0)
				count += 2 * c->reports[u].counts[i].value;
		}
	}
	return count;
}

const struct peer_kind peer_slabyard = {
	.name = "slabyard",
	.open = slabyard_open,
	.close = slabyard_close,
	.connect = slabyard_connect,
	.disconnect = slabyard_disconnect,
	.put = slabyard_put,
	.get = slabyard_get,
	.value = slabyard_value,
	.release = slabyard_release,
	.clear = slabyard_clear,
	.messages = slabyard_messages,
};
