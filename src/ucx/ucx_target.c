#include "target_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "address.h"
#include "fail.h"

sy_status sy_ucx_is_there(sy_error *err)
{
	const struct sy_ucx_lib *lib;

	return sy_ucx_lib_get(&lib, err);
}

static sy_status make_memory(struct sy_ucx_target *target, sy_error *err)
{
	const struct sy_ucx_lib *lib = target->context.lib;
	const ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
		.address = target->config.slab, .length = (size_t)target->config.slab_bytes,
	};
	ucs_status_t status = lib->ucp_mem_map(target->context.ucp, &params, &target->memory);

	if (status != UCS_OK)
		return sy_ucx_fail(&target->context, status, __func__,
		                   "cannot register the slab (is `ulimit -l` large enough?)", err);
	status = lib->ucp_rkey_pack(target->context.ucp, target->memory, &target->key,
	                            &target->key_bytes);
	if (status != UCS_OK)
		return sy_ucx_fail(&target->context, status, __func__, "cannot make the slab's key", err);
	if (target->key_bytes > SY_JOIN_KEY_MAX_BYTES)
		return sy_fail(err, SY_E_SYS, __func__, "ucx: the slab's key takes %zu bytes",
		               target->key_bytes);
	return SY_OK;
}

static sy_status make_listener(struct sy_ucx_target *target, sy_error *err)
{
	const struct sy_ucx_lib *lib = target->context.lib;
	struct sockaddr_storage at;
	socklen_t at_bytes;

	if (!sy_address_from_host(target->config.host, &at, &at_bytes))
		return sy_fail(err, SY_E_INVALID, __func__, "%.60s is no numeric address",
		               target->config.host);
	const ucp_listener_params_t params = {
		.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
		.sockaddr = {.addr = (const struct sockaddr *)&at, .addrlen = at_bytes},
		.conn_handler = {.cb = sy_target_on_request, .arg = target},
	};
	ucs_status_t status = lib->ucp_listener_create(target->worker, &params, &target->listener);
	if (status != UCS_OK)
		return sy_ucx_fail(&target->context, status, __func__, "cannot listen", err);
	ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
	status = lib->ucp_listener_query(target->listener, &attr);
	if (status != UCS_OK)
		return sy_ucx_fail(&target->context, status, __func__, "cannot tell the address", err);
	sy_address_text((const struct sockaddr *)&attr.sockaddr, target->address);
	sy_port_guard_open(&target->guard, (const struct sockaddr *)&attr.sockaddr);
	return SY_OK;
}

/* Signals are the daemon's. */
static sy_status make_thread(struct sy_ucx_target *target, sy_error *err)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = pthread_create(&target->thread, NULL, sy_target_run, target);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot start a thread: %s", strerror(error));
	target->running = true;
	return SY_OK;
}

sy_status sy_ucx_target_open(const struct sy_ucx_target_config *config,
                             struct sy_ucx_target **ret_target, sy_error *err)
{
	struct sy_ucx_target *target = calloc(1, sizeof *target);

	if (target == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	target->config = *config;
	pthread_mutex_init(&target->lock, NULL);
	target->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	target->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sy_status status = target->wake_fd >= 0 && target->done_fd >= 0
		? SY_OK : sy_fail(err, SY_E_SYS, __func__, "no descriptors: %s", strerror(errno));
	if (status == SY_OK)
		status = sy_ucx_context_open(config->allow_tcp, strchr(config->host, ':') != NULL,
		                             &target->context, err);
	if (status == SY_OK)
		status = sy_ucx_worker_new(&target->context, &target->worker, &target->worker_fd, err);
	if (status == SY_OK)
		sy_target_handle_messages(target);
	if (status == SY_OK)
		status = make_memory(target, err);
	if (status == SY_OK)
		status = make_listener(target, err);
	if (status == SY_OK)
		status = make_thread(target, err);
	if (status != SY_OK) {
		sy_ucx_target_close(target);
		return status;
	}
	*ret_target = target;
	return SY_OK;
}

static void wake(const struct sy_ucx_target *target)
{
	uint64_t one = 1;

	(void)!write(target->wake_fd, &one, sizeof one);
}

static void free_sessions(struct sy_ucx_target *target)
{
	while (target->sessions != NULL) {
		struct sy_target_session *next = target->sessions->next;

		free(target->sessions);
		target->sessions = next;
	}
}

static bool has_half_made(const struct sy_ucx_target *target)
{
	for (const struct sy_target_conn *conn = target->conns; conn != NULL; conn = conn->next) {
		if (conn->state == SY_TARGET_NEW || conn->state == SY_TARGET_ASKED ||
		    conn->answer != NULL)
			return true;
	}
	return false;
}

/* UCX's own thread calls the listener of a connection once its first words are all there, even if
 * that listener is gone by then: so no connection may still be at its first words. */
static void close_listener(const struct sy_ucx_target *target)
{
	const struct sy_ucx_lib *lib = target->context.lib;
	ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
	const ucp_ep_params_t nowhere = {0};
	ucp_ep_h none;

	if (lib->ucp_listener_query(target->listener, &attr) == UCS_OK) {
		sy_port_guard_shut((const struct sockaddr *)&attr.sockaddr);
		/* It refuses, as soon as that thread is done with the connection that it may be taking
		 * in just now, which has its descriptor then. */
		(void)lib->ucp_ep_create(target->worker, &nowhere, &none);
		sy_port_guard_cut((const struct sockaddr *)&attr.sockaddr);
	}
	lib->ucp_listener_destroy(target->listener); /* which waits in the same way first */
}

void sy_ucx_target_close(struct sy_ucx_target *target)
{
	if (target == NULL)
		return;
	const struct sy_ucx_lib *lib = target->context.lib;

	if (target->running) {
		pthread_mutex_lock(&target->lock);
		target->stop = true;
		pthread_mutex_unlock(&target->lock);
		wake(target);
		pthread_join(target->thread, NULL);
	}
	/* A worker whose connections are half made ends the process that destroys it. It stays, with
	 * all that hangs on it, and ends with the process. */
	if (has_half_made(target))
		return;
	if (target->listener != NULL)
		close_listener(target);
	if (target->worker != NULL) /* and with it what connections are left */
		lib->ucp_worker_destroy(target->worker);
	while (target->conns != NULL) {
		struct sy_target_conn *next = target->conns->next;

		free(target->conns->answer_bytes);
		free(target->conns->work);
		free(target->conns);
		target->conns = next;
	}
	if (target->key != NULL)
		lib->ucp_rkey_buffer_release(target->key);
	if (target->memory != NULL)
		(void)lib->ucp_mem_unmap(target->context.ucp, target->memory);
	sy_ucx_context_close(&target->context);
	if (target->wake_fd >= 0)
		close(target->wake_fd);
	if (target->done_fd >= 0)
		close(target->done_fd);
	free_sessions(target);
	sy_port_guard_close(&target->guard);
	free(target->fenced);
	pthread_mutex_destroy(&target->lock);
	free(target);
}

const char *sy_ucx_target_address(const struct sy_ucx_target *target)
{
	return target->address;
}

struct sy_target_session *sy_target_session_find(struct sy_ucx_target *target, uint64_t number)
{
	struct sy_target_session *session = target->sessions;

	while (session != NULL && session->number != number)
		session = session->next;
	return session;
}

/* Room for the end of each session is made when it begins: an end must not fail. */
static bool make_room(struct sy_ucx_target *target)
{
	size_t needed = target->fenced_count + 1;

	for (const struct sy_target_session *s = target->sessions; s != NULL; s = s->next)
		needed++;
	if (needed <= target->fenced_capacity)
		return true;
	uint64_t *fenced = realloc(target->fenced, 2 * needed * sizeof *fenced);
	if (fenced == NULL)
		return false;
	target->fenced = fenced;
	target->fenced_capacity = 2 * needed;
	return true;
}

bool sy_ucx_target_admit(struct sy_ucx_target *target, uint64_t number, const char *host)
{
	struct sy_target_session *session;

	sy_port_guard_admit(&target->guard, host);
	pthread_mutex_lock(&target->lock);
	bool known = sy_target_session_find(target, number) != NULL;
	session = known || !make_room(target) ? NULL : calloc(1, sizeof *session);
	if (session != NULL) {
		session->number = number;
		session->next = target->sessions;
		target->sessions = session;
	}
	pthread_mutex_unlock(&target->lock);
	return known || session != NULL;
}

void sy_target_session_done(struct sy_ucx_target *target, struct sy_target_session *session)
{
	struct sy_target_session **at = &target->sessions;
	uint64_t one = 1;

	while (*at != session)
		at = &(*at)->next;
	*at = session->next;
	target->fenced[target->fenced_count++] = session->number;
	free(session);
	(void)!write(target->done_fd, &one, sizeof one);
}

void sy_ucx_target_fence(struct sy_ucx_target *target, uint64_t number)
{
	pthread_mutex_lock(&target->lock);
	struct sy_target_session *session = sy_target_session_find(target, number);
	if (session != NULL)
		session->ending = true;
	pthread_mutex_unlock(&target->lock);
	wake(target);
}

int sy_ucx_target_fd(const struct sy_ucx_target *target)
{
	return target->done_fd;
}

bool sy_ucx_target_next(struct sy_ucx_target *target, uint64_t *ret_session)
{
	uint64_t drained;

	pthread_mutex_lock(&target->lock);
	bool any = target->fenced_count > 0;
	if (any) {
		*ret_session = target->fenced[0];
		target->fenced_count--;
		memmove(target->fenced, target->fenced + 1,
		        target->fenced_count * sizeof *target->fenced);
	} else {
		(void)!read(target->done_fd, &drained, sizeof drained);
	}
	pthread_mutex_unlock(&target->lock);
	return any;
}
