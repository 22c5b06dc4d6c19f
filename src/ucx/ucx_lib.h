/* libucp, loaded at its first use and kept out of its host program's way.
 *
 * It is not linked: its constructors install signal handlers, libucs puts functions of its own in
 * the place of signal and sigaction, and its log goes to stdout. Loaded late and privately, after
 * which the program's handlers are put back, it disturbs nobody, and who does not use it does not
 * need it. Never unloaded: it has a thread. */
#ifndef SY_UCX_LIB_H
#define SY_UCX_LIB_H

#include <slabyard/status.h>
#include <ucp/api/ucp.h>

/* Of libucp, and of libucs, which it brings. */
#define SY_UCX_FUNCTIONS(X) \
	X(ucp_config_read) \
	X(ucp_config_modify) \
	X(ucp_config_release) \
	X(ucp_init_version) \
	X(ucp_cleanup) \
	X(ucp_worker_create) \
	X(ucp_worker_destroy) \
	X(ucp_worker_progress) \
	X(ucp_worker_get_efd) \
	X(ucp_worker_arm) \
	X(ucp_worker_flush_nbx) \
	X(ucp_worker_set_am_recv_handler) \
	X(ucp_listener_create) \
	X(ucp_listener_query) \
	X(ucp_listener_reject) \
	X(ucp_listener_destroy) \
	X(ucp_ep_create) \
	X(ucp_ep_close_nbx) \
	X(ucp_ep_flush_nbx) \
	X(ucp_ep_rkey_unpack) \
	X(ucp_rkey_destroy) \
	X(ucp_rkey_pack) \
	X(ucp_rkey_buffer_release) \
	X(ucp_mem_map) \
	X(ucp_mem_unmap) \
	X(ucp_put_nbx) \
	X(ucp_get_nbx) \
	X(ucp_am_send_nbx) \
	X(ucp_request_check_status) \
	X(ucp_request_free) \
	X(ucs_status_string)

struct sy_ucx_lib {
#define SY_UCX_MEMBER(name) __typeof__(name) *name;
	SY_UCX_FUNCTIONS(SY_UCX_MEMBER)
#undef SY_UCX_MEMBER
};

/* SY_E_SYS: it is not installed, or is none of ours. Thread-safe. */
sy_status sy_ucx_lib_get(const struct sy_ucx_lib **ret_lib, sy_error *err);

/* What UCX last complained of in this thread, "" if of nothing. */
const char *sy_ucx_lib_complaint(void);

#endif
