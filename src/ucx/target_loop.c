/* The thread of a target: accepts, answers joins, fences.
 *
 * Callbacks of UCX only note what came; what follows is done after them, since a connection may
 * not be closed from within. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "target_state.h"

enum {
	CONNS_MAX = 65536,
	CONNS_STRANGE_MAX = 256, /* that have not said who they are, or were refused */
	SLEEP_MS = 1000,
	CLOSING_SLEEP_MS = 2,
};

/* Over TCP a client that is stopped takes none of what it asked for, and a flush waits for it; but
 * there a closed connection writes nothing more anyway. */
static const uint64_t TCP_FLUSH_NS = 1000 * 1000 * 1000;
static const uint64_t REFUSED_NS = 5ull * 1000 * 1000 * 1000;
static const uint64_t END_NS = 300 * 1000 * 1000;

void sy_target_on_request(ucp_conn_request_h request, void *argument)
{
	struct sy_ucx_target *target = argument;

	if (target->request_count < SY_TARGET_REQUESTS_MAX && !target->ending)
		target->requests[target->request_count++] = request;
	else
		(void)target->context.lib->ucp_listener_reject(target->listener, request);
}

struct sy_target_conn *sy_target_conn_of(struct sy_ucx_target *target,
                                         const ucp_am_recv_param_t *param)
{
	struct sy_target_conn *conn = target->conns;

	while (conn != NULL && ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0 ||
	                        conn->ep != param->reply_ep))
		conn = conn->next;
	return conn;
}

ucs_status_t sy_target_on_ask(void *argument, const void *header, size_t header_bytes, void *data,
                              size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_target_conn *conn = sy_target_conn_of(argument, param);

	(void)data;
	(void)bytes;
	if (conn == NULL)
		return UCS_OK;
	/* Nonsense, or a second word: who sends that is cut off. */
	if (header_bytes != sizeof conn->ask || conn->asked) {
		conn->broken = true;
		return UCS_OK;
	}
	memcpy(&conn->ask, header, sizeof conn->ask);
	conn->asked = true;
	return UCS_OK;
}

/* Also called for a connection that could not be made, when its conn has gone: so it is found by
 * its endpoint, or is the one that is just being made. */
static void on_error(void *argument, ucp_ep_h ep, ucs_status_t status)
{
	struct sy_ucx_target *target = argument;
	struct sy_target_conn *conn = target->conns;

	(void)status;
	while (conn != NULL && conn->ep != ep)
		conn = conn->next;
	if (conn == NULL)
		conn = target->accepting;
	if (conn != NULL)
		conn->broken = true;
}

static void accept_one(struct sy_ucx_target *target, ucp_conn_request_h request)
{
	uint32_t strange = 0;

	for (const struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next)
		strange += conn->state == SY_TARGET_NEW || conn->state == SY_TARGET_REFUSED;
	struct sy_target_conn *conn =
		strange < CONNS_STRANGE_MAX && target->conn_count < CONNS_MAX
			? calloc(1, sizeof *conn) : NULL;
	if (conn == NULL) {
		(void)target->context.lib->ucp_listener_reject(target->listener, request);
		return;
	}
	conn->target = target;
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
		              UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
		.conn_request = request,
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = on_error, .arg = target},
	};
	target->accepting = conn;
	ucs_status_t status =
		target->context.lib->ucp_ep_create(target->worker, &params, &conn->ep);
	target->accepting = NULL;
	if (status != UCS_OK) {
		free(conn);
		return;
	}
	conn->next = target->conns;
	target->conns = conn;
	target->conn_count++;
}

/* Not while its answer is on the way: it may be half made, and closed by force it would take the
 * process with it. Whoever wants it closed asks again each turn. */
static void close_conn(struct sy_target_conn *conn)
{
	const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_EP_CLOSE_FLAG_FORCE};

	if (conn->state == SY_TARGET_CLOSING || (conn->answer != NULL && !conn->broken))
		return;
	conn->state = SY_TARGET_CLOSING;
	conn->closing = conn->target->context.lib->ucp_ep_close_nbx(conn->ep, &force);
}

/* An earlier connection of this lane that is not fenced yet. */
static struct sy_target_conn *before(const struct sy_target_conn *conn)
{
	struct sy_target_conn *other = conn->target->conns;

	while (other != NULL &&
	       (other == conn || other->state == SY_TARGET_NEW || other->refused_ns != 0 ||
	        other->ask.session != conn->ask.session || other->ask.lane != conn->ask.lane ||
	        other->ask.number >= conn->ask.number))
		other = other->next;
	return other;
}

/* Who is refused is told so, and closes: a connection that is closed straight after its accept
 * upsets the next one. */
static void answer(struct sy_target_conn *conn, bool refused)
{
	struct sy_ucx_target *target = conn->target;
	size_t key_bytes = refused ? 0 : target->key_bytes;
	struct sy_join_answer said = {
		.magic = SY_JOIN_MAGIC, .session = conn->ask.session, .lane = conn->ask.lane,
		.number = conn->ask.number,
	};
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_AM_SEND_FLAG_EAGER};

	if (!refused) {
		said.base = (uint64_t)(uintptr_t)target->config.slab;
		said.slab_bytes = target->config.slab_bytes;
		said.incarnation = target->config.incarnation;
		said.by_message = target->config.allow_tcp;
	}
	conn->answer_bytes = malloc(sizeof said + key_bytes);
	if (conn->answer_bytes == NULL) {
		close_conn(conn);
		return;
	}
	memcpy(conn->answer_bytes, &said, sizeof said);
	memcpy((char *)conn->answer_bytes + sizeof said, target->key, key_bytes);
	conn->state = refused ? SY_TARGET_REFUSED : SY_TARGET_JOINED;
	conn->refused_ns = refused ? sy_clock_now_ns() : 0;
	conn->answer = target->context.lib->ucp_am_send_nbx(conn->ep, SY_JOIN_ANSWER_ID, NULL, 0,
	                                                    conn->answer_bytes,
	                                                    sizeof said + key_bytes, &param);
}

/* False: this connection is none of a session that lives, or an old one that came late. */
static bool may_join(struct sy_target_conn *conn)
{
	struct sy_ucx_target *target = conn->target;

	if (conn->ask.magic != SY_JOIN_MAGIC || conn->ask.lane >= SY_JOIN_LANES_MAX)
		return false;
	pthread_mutex_lock(&target->lock);
	struct sy_target_session *session = sy_target_session_find(target, conn->ask.session);
	bool may = session != NULL && !session->ending &&
	           conn->ask.number > session->highest[conn->ask.lane];
	if (may)
		session->highest[conn->ask.lane] = conn->ask.number;
	pthread_mutex_unlock(&target->lock);
	return may;
}

/* Each connection moves on as far as it can. True: something was done. */
static bool step_conn(struct sy_target_conn *conn)
{
	struct sy_target_conn *earlier;
	bool any = sy_target_work_step(conn);

	if (conn->answer != NULL &&
	    sy_ucx_request_take(&conn->target->context, &conn->answer) != UCS_INPROGRESS) {
		free(conn->answer_bytes);
		conn->answer_bytes = NULL;
	}
	if (conn->broken || (conn->state == SY_TARGET_REFUSED &&
	                     sy_clock_now_ns() - conn->refused_ns > REFUSED_NS))
		close_conn(conn);
	if (conn->state == SY_TARGET_NEW && conn->asked) {
		conn->state = SY_TARGET_ASKED;
		if (conn->target->ending || !may_join(conn))
			answer(conn, true);
	}
	if (conn->state != SY_TARGET_ASKED)
		return any;
	earlier = before(conn);
	if (earlier == NULL)
		answer(conn, false);
	else
		close_conn(earlier);
	return any || earlier == NULL;
}

static void drop(struct sy_ucx_target *target, struct sy_target_conn **at)
{
	struct sy_target_conn *conn = *at;

	*at = conn->next;
	target->conn_count--;
	free(conn->answer_bytes);
	free(conn->work);
	free(conn);
}

/* Nothing of a closed connection lands once a flush that began after its close is done. */
static void step_flush(struct sy_ucx_target *target)
{
	const ucp_request_param_t none = {0};
	bool wanted = false;

	if (target->flush_runs) {
		ucs_status_t status = sy_ucx_request_take(&target->context, &target->flush);
		bool late = target->config.allow_tcp &&
		            sy_clock_now_ns() - target->flush_began_ns > TCP_FLUSH_NS;

		if (status == UCS_INPROGRESS && !late)
			return;
		if (target->flush != NULL) {
			target->context.lib->ucp_request_free(target->flush);
			target->flush = NULL;
		}
		target->flush_runs = false;
		for (struct sy_target_conn **at = &target->conns; *at != NULL;) {
			if ((*at)->flushing && (*at)->answer == NULL && sy_target_work_is_idle(*at))
				drop(target, at);
			else
				at = &(*at)->next;
		}
	}
	for (struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next) {
		if (conn->state != SY_TARGET_CLOSING ||
		    sy_ucx_request_take(&target->context, &conn->closing) == UCS_INPROGRESS)
			continue;
		conn->flushing = true;
		wanted = true;
	}
	if (!wanted)
		return;
	target->flush = target->context.lib->ucp_worker_flush_nbx(target->worker, &none);
	target->flush_runs = true;
	target->flush_began_ns = sy_clock_now_ns();
}

/* Closes what is left of sessions that end; those of which nothing is left are fenced. */
static void step_sessions(struct sy_ucx_target *target)
{
	struct sy_target_session *next;

	pthread_mutex_lock(&target->lock);
	for (struct sy_target_session *session = target->sessions; session != NULL; session = next) {
		bool left = false;

		next = session->next;
		if (!session->ending)
			continue;
		for (struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next) {
			if (conn->state == SY_TARGET_NEW || conn->state == SY_TARGET_REFUSED ||
			    conn->ask.session != session->number)
				continue;
			left = true;
			close_conn(conn);
		}
		if (!left)
			sy_target_session_done(target, session);
	}
	pthread_mutex_unlock(&target->lock);
}

/* Something will be over without a descriptor telling of it. */
static bool is_closing(const struct sy_ucx_target *target)
{
	if (target->ending)
		return true;
	for (const struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next) {
		if (conn->state == SY_TARGET_CLOSING || conn->answer != NULL)
			return true;
	}
	return target->flush_runs;
}

static void turn(struct sy_ucx_target *target)
{
	uint64_t drained;
	bool any = sy_ucx_worker_progress(&target->context, target->worker);

	for (uint32_t i = 0; i < target->request_count; i++)
		accept_one(target, target->requests[i]);
	any = any || target->request_count > 0;
	target->request_count = 0;
	for (struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next)
		any = step_conn(conn) || any;
	step_flush(target);
	step_sessions(target);
	if (!any)
		sy_ucx_worker_sleep(&target->context, target->worker, target->worker_fd,
		                    target->wake_fd,
		                    is_closing(target) ? CLOSING_SLEEP_MS : SLEEP_MS);
	(void)!read(target->wake_fd, &drained, sizeof drained);
}

/* Closes what is whole. What is left afterwards is half made, of a client that stands still. */
static void end(struct sy_ucx_target *target)
{
	uint64_t end_ns = sy_clock_now_ns() + END_NS;

	target->ending = true;
	while (target->conns != NULL && sy_clock_now_ns() < end_ns) {
		for (struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next) {
			if (conn->state != SY_TARGET_NEW && conn->state != SY_TARGET_ASKED)
				close_conn(conn);
		}
		turn(target);
	}
}

void *sy_target_run(void *argument)
{
	struct sy_ucx_target *target = argument;
	bool stop = false;

	while (!stop) {
		turn(target);
		pthread_mutex_lock(&target->lock);
		stop = target->stop;
		pthread_mutex_unlock(&target->lock);
	}
	end(target);
	return NULL;
}
