/* UCX in one process or in one hub of it: the policy, a context, and workers made of it.
 *
 * UCX is never used after a fork. */
#ifndef SY_UCX_CONTEXT_H
#define SY_UCX_CONTEXT_H

#include "ucx_lib.h"

struct sy_ucx_context {
	const struct sy_ucx_lib *lib;
	ucp_context_h ucp;
};

/* What it connects and listens with by TCP is of one family of addresses, that of the units'. UCX
 * would take one of each where a host has both, and 1.13 then writes past its endpoints' end.
 * SY_E_POLICY: bytes could leave the host over TCP although allow_tcp is not given, or there is no
 * RDMA device; SY_E_SYS. */
sy_status sy_ucx_context_open(bool allow_tcp, bool inet6, struct sy_ucx_context *ret_context,
                              sy_error *err);
void sy_ucx_context_close(struct sy_ucx_context *context); /* all zero is a no-op */

/* A worker for one thread at a time, and its descriptor. SY_E_SYS. */
sy_status sy_ucx_worker_new(const struct sy_ucx_context *context, ucp_worker_h *ret_worker,
                            int *ret_fd, sy_error *err);
void sy_ucx_worker_handle(const struct sy_ucx_context *context, ucp_worker_h worker, unsigned id,
                          ucp_am_recv_callback_t handler, void *argument);
/* Progresses until there is nothing to do at once. False: there was nothing. */
bool sy_ucx_worker_progress(const struct sy_ucx_context *context, ucp_worker_h worker);
/* Sleeps until there may be something to do, or other_fd (-1: none) is readable, or wait_ms. */
void sy_ucx_worker_sleep(const struct sy_ucx_context *context, ucp_worker_h worker, int worker_fd,
                         int other_fd, int wait_ms);

/* What a request came to, which is then freed: UCS_INPROGRESS leaves it. NULL is UCS_OK. */
ucs_status_t sy_ucx_request_take(const struct sy_ucx_context *context, void **request);

sy_status sy_ucx_fail(const struct sy_ucx_context *context, ucs_status_t status, const char *where,
                      const char *what, sy_error *err);

#endif
