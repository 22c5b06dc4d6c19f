/* Connections of a lane: made, answered, closed. Callbacks of UCX only note what came. */
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "clock.h"
#include "fail.h"
#include "mover_state.h"

enum { LOOK_MS = 100 };

/* Also called for a connection that could not be made, when its conn has gone: so it is found by
 * its endpoint, or is the one that is just being made. */
static void on_error(void *argument, ucp_ep_h ep, ucs_status_t status)
{
	struct sy_mover_lane *lane = argument;
	struct sy_mover_conn *conn = lane->conns;

	while (conn != NULL && conn->ep != ep)
		conn = conn->next;
	if (conn == NULL)
		conn = lane->connecting;
	if (conn == NULL)
		return;
	conn->broken = true;
	conn->error = status;
}

ucs_status_t sy_mover_on_answer(void *argument, const void *header, size_t header_bytes,
                                void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_mover_lane *lane = argument;
	const struct sy_ucx_lib *lib = lane->mover->context.lib;
	struct sy_mover_conn *conn = lane->conns;
	struct sy_join_answer said;
	/* Aligned, and with room behind it: the key tells its own length, and is not ours. */
	_Alignas(16) uint8_t key[SY_JOIN_KEY_MAX_BYTES] = {0};

	(void)header;
	(void)header_bytes;
	if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0 || bytes < sizeof said ||
	    bytes - sizeof said > sizeof key)
		return UCS_OK;
	memcpy(&said, data, sizeof said);
	memcpy(key, (const uint8_t *)data + sizeof said, bytes - sizeof said);
	while (conn != NULL &&
	       (conn->state != SY_MOVER_CONN_ASKED || conn->ask.session != said.session ||
	        conn->ask.number != said.number || conn->ask.lane != said.lane))
		conn = conn->next;
	if (conn == NULL || said.magic != SY_JOIN_MAGIC)
		return UCS_OK;
	conn->state = SY_MOVER_CONN_READY;
	conn->base = said.base;
	conn->by_message = said.by_message != 0;
	if (bytes == sizeof said || said.incarnation != conn->peer->incarnation ||
	    said.slab_bytes != conn->peer->slab_bytes ||
	    lib->ucp_ep_rkey_unpack(conn->ep, key, &conn->key) != UCS_OK) {
		conn->key = NULL;
		conn->broken = true;
		conn->error = UCS_ERR_REJECTED;
	}
	return UCS_OK;
}

static sy_status connect_conn(struct sy_mover_conn *conn, sy_error *err)
{
	const struct sy_ucx_mover *mover = conn->lane->mover;
	const struct sy_ucx_context *context = &mover->context;
	struct sockaddr_storage at;
	socklen_t at_bytes;

	if (!sy_address_from_text(conn->peer->address, &at, &at_bytes))
		return sy_fail(err, SY_E_PROTOCOL, __func__, "ucx: the unit's address %s is none",
		               conn->peer->address);
	if (mover->config.allow_tcp && mover->config.inet6 != (at.ss_family == AF_INET6))
		return sy_fail(err, SY_E_SYS, __func__,
		               "ucx: this client has begun with units of IPv%d, and %s is of the other: "
		               "units are reached by one of both", mover->config.inet6 ? 6 : 4,
		               conn->peer->address);
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
		              UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
		.sockaddr = {.addr = (const struct sockaddr *)&at, .addrlen = at_bytes},
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = on_error, .arg = conn->lane},
	};
	ucs_status_t status = context->lib->ucp_ep_create(conn->lane->worker, &params, &conn->ep);
	if (status != UCS_OK)
		return sy_ucx_fail(context, status, __func__, "cannot connect", err);
	const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_EAGER};
	conn->ask = (struct sy_join_ask){.magic = SY_JOIN_MAGIC, .session = conn->peer->session,
	                                 .lane = conn->lane->index, .number = conn->number};
	conn->asking = context->lib->ucp_am_send_nbx(conn->ep, SY_JOIN_ASK_ID, &conn->ask,
	                                             sizeof conn->ask, NULL, 0, &eager);
	return SY_OK;
}

struct sy_mover_conn *sy_mover_conn_get(struct sy_mover_lane *lane, struct sy_ucx_peer *peer,
                                        sy_error *err)
{
	struct sy_mover_conn *conn = lane->conns;

	while (conn != NULL && conn->peer != peer)
		conn = conn->next;
	if (conn != NULL)
		return conn;
	conn = calloc(1, sizeof *conn);
	if (conn == NULL) {
		sy_fail(err, SY_E_SYS, __func__, "out of memory");
		return NULL;
	}
	conn->lane = lane;
	conn->peer = peer;
	conn->state = SY_MOVER_CONN_ASKED;
	pthread_mutex_lock(&lane->mover->lock);
	conn->number = ++peer->next_number[lane->index];
	peer->refs++;
	pthread_mutex_unlock(&lane->mover->lock);
	lane->connecting = conn;
	sy_status status = connect_conn(conn, err);
	lane->connecting = NULL;
	if (status != SY_OK) {
		pthread_mutex_lock(&lane->mover->lock);
		sy_mover_peer_unref(peer);
		pthread_mutex_unlock(&lane->mover->lock);
		free(conn);
		return NULL;
	}
	conn->next = lane->conns;
	lane->conns = conn;
	return conn;
}

void sy_mover_conn_close(struct sy_mover_conn *conn)
{
	const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_EP_CLOSE_FLAG_FORCE};

	if (conn->state == SY_MOVER_CONN_CLOSING)
		return;
	conn->state = SY_MOVER_CONN_CLOSING;
	conn->closing = conn->lane->mover->context.lib->ucp_ep_close_nbx(conn->ep, &force);
}

/* True: nothing of it is left, neither here nor in a queue of the device's. */
static bool is_finished(struct sy_mover_conn *conn)
{
	struct sy_ucx_mover *mover = conn->lane->mover;
	const ucp_request_param_t none = {0};

	if (sy_ucx_request_take(&mover->context, &conn->closing) == UCS_INPROGRESS)
		return false;
	if (conn->flush_began_ns == 0) {
		conn->flushing = mover->context.lib->ucp_worker_flush_nbx(conn->lane->worker, &none);
		conn->flush_began_ns = sy_clock_now_ns();
	}
	/* Over TCP this process alone writes what came, and a unit that is stopped, of another
	 * connection, must not hold this up. */
	if (sy_ucx_request_take(&mover->context, &conn->flushing) == UCS_INPROGRESS) {
		if (!mover->config.allow_tcp ||
		    sy_clock_now_ns() - conn->flush_began_ns < SY_MOVER_TCP_FLUSH_NS)
			return false;
		mover->context.lib->ucp_request_free(conn->flushing);
		conn->flushing = NULL;
	}
	return conn->asking == NULL;
}

static void drop(struct sy_mover_conn **at)
{
	struct sy_mover_conn *conn = *at;
	struct sy_ucx_mover *mover = conn->lane->mover;

	*at = conn->next;
	if (conn->key != NULL)
		mover->context.lib->ucp_rkey_destroy(conn->key);
	pthread_mutex_lock(&mover->lock);
	sy_mover_peer_unref(conn->peer);
	pthread_mutex_unlock(&mover->lock);
	free(conn);
}

void sy_mover_conns_step(struct sy_mover_lane *lane)
{
	struct sy_ucx_mover *mover = lane->mover;

	for (struct sy_mover_conn **at = &lane->conns; *at != NULL;) {
		struct sy_mover_conn *conn = *at;

		(void)sy_ucx_request_take(&mover->context, &conn->asking);
		pthread_mutex_lock(&mover->lock);
		bool gone = conn->peer->gone || mover->closed;
		pthread_mutex_unlock(&mover->lock);
		if (conn->broken || (gone && conn->state == SY_MOVER_CONN_READY))
			sy_mover_conn_close(conn);
		/* Operations of a transfer use its key until they have ended. */
		if (conn->state == SY_MOVER_CONN_CLOSING && is_finished(conn) && conn != lane->conn)
			drop(at);
		else
			at = &conn->next;
	}
}

void sy_mover_lane_wait(struct sy_mover_lane *lane, uint64_t until_ns)
{
	const struct sy_ucx_context *context = &lane->mover->context;
	int wait_ms = sy_clock_poll_ms(sy_clock_now_ns(), until_ns);

	if (!sy_ucx_worker_progress(context, lane->worker))
		sy_ucx_worker_sleep(context, lane->worker, lane->fd, -1,
		                    wait_ms < LOOK_MS ? wait_ms : LOOK_MS);
}
