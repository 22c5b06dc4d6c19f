#include "ucx_context.h"

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "fail.h"
#include "ucx_policy.h"

enum { PROGRESS_MAX = 1024 }; /* between two looks at anything else */

/* UCX warns of a missing device and goes on without. */
static bool has_rdma_device(void)
{
	DIR *devices = opendir("/sys/class/infiniband");
	bool any = false;

	for (const struct dirent *entry; devices != NULL && !any;) {
		entry = readdir(devices);
		if (entry == NULL)
			break;
		any = entry->d_name[0] != '.';
	}
	if (devices != NULL)
		closedir(devices);
	return any;
}

static sy_status check_policy(bool allow_tcp, sy_error *err)
{
	if (allow_tcp)
		return SY_OK;
	sy_status status =
		sy_ucx_policy_check(getenv("UCX_TLS"), getenv("UCX_NET_DEVICES"), err);
	if (status == SY_OK && !has_rdma_device())
		status = sy_fail(err, SY_E_POLICY, __func__,
		                 "UCX_TLS=%.60s asks for RDMA, and this host has no RDMA device (nothing "
		                 "is in /sys/class/infiniband)", getenv("UCX_TLS"));
	return status;
}

sy_status sy_ucx_fail(const struct sy_ucx_context *context, ucs_status_t status, const char *where,
                      const char *what, sy_error *err)
{
	const char *complaint = sy_ucx_lib_complaint();

	return sy_fail(err, SY_E_SYS, where, "ucx: %s: %s%s%.100s", what,
	               context->lib->ucs_status_string(status), complaint[0] != '\0' ? ", " : "",
	               complaint);
}

/* Threads that UCX makes take no signal of the program's. */
static void block_signals(sigset_t *ret_before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, ret_before);
}

static ucs_status_t init(struct sy_ucx_context *context, bool allow_tcp, bool inet6)
{
	const ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
		.features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
		.mt_workers_shared = 1,
	};
	ucp_config_t *config = NULL;
	ucs_status_t status = context->lib->ucp_config_read(NULL, NULL, &config);

	if (status != UCS_OK)
		return status;
	/* By the name that 1.13 takes it by, and by that of 1.18: what a version does not know it
	 * passes over. */
	for (size_t i = 0; allow_tcp && status == UCS_OK && i < 2; i++)
		status = context->lib->ucp_config_modify(config, i == 0 ? "AF_PRIO" : "TCP_AF_PRIO",
		                                         inet6 ? "inet6" : "inet");
	if (status == UCS_OK)
		status = context->lib->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config,
		                                        &context->ucp);
	context->lib->ucp_config_release(config);
	return status;
}

sy_status sy_ucx_context_open(bool allow_tcp, bool inet6, struct sy_ucx_context *ret_context,
                              sy_error *err)
{
	struct sy_ucx_context context = {0};
	sigset_t before;
	sy_status status = check_policy(allow_tcp, err);

	if (status == SY_OK)
		status = sy_ucx_lib_get(&context.lib, err);
	if (status != SY_OK)
		return status;
	block_signals(&before);
	ucs_status_t made = init(&context, allow_tcp, inet6);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	/* What it looked for in vain while it loaded its parts is no failure; asked twice, the words
	 * are freed. */
	(void)dlerror();
	(void)dlerror();
	if (made != UCS_OK)
		return sy_ucx_fail(&context, made, __func__, "cannot start", err);
	*ret_context = context;
	return SY_OK;
}

void sy_ucx_context_close(struct sy_ucx_context *context)
{
	if (context->ucp != NULL)
		context->lib->ucp_cleanup(context->ucp);
	*context = (struct sy_ucx_context){0};
}

sy_status sy_ucx_worker_new(const struct sy_ucx_context *context, ucp_worker_h *ret_worker,
                            int *ret_fd, sy_error *err)
{
	const ucp_worker_params_t params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SERIALIZED,
	};
	ucp_worker_h worker = NULL;
	sigset_t before;

	block_signals(&before);
	ucs_status_t status = context->lib->ucp_worker_create(context->ucp, &params, &worker);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (status != UCS_OK)
		return sy_ucx_fail(context, status, __func__, "cannot make a worker", err);
	status = context->lib->ucp_worker_get_efd(worker, ret_fd);
	if (status != UCS_OK) {
		context->lib->ucp_worker_destroy(worker);
		return sy_ucx_fail(context, status, __func__, "a worker cannot be waited for", err);
	}
	*ret_worker = worker;
	return SY_OK;
}

void sy_ucx_worker_handle(const struct sy_ucx_context *context, ucp_worker_h worker, unsigned id,
                          ucp_am_recv_callback_t handler, void *argument)
{
	const ucp_am_handler_param_t param = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
		              UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = id, .cb = handler, .arg = argument,
	};

	(void)context->lib->ucp_worker_set_am_recv_handler(worker, &param);
}

bool sy_ucx_worker_progress(const struct sy_ucx_context *context, ucp_worker_h worker)
{
	unsigned count = 0;

	while (count < PROGRESS_MAX && context->lib->ucp_worker_progress(worker) != 0)
		count++;
	return count > 0;
}

void sy_ucx_worker_sleep(const struct sy_ucx_context *context, ucp_worker_h worker, int worker_fd,
                         int other_fd, int wait_ms)
{
	struct pollfd fds[] = {{.fd = worker_fd, .events = POLLIN},
	                       {.fd = other_fd, .events = POLLIN}};

	/* Refused: something came since the last progress. */
	if (wait_ms > 0 && context->lib->ucp_worker_arm(worker) == UCS_OK)
		(void)poll(fds, 2, wait_ms);
}

ucs_status_t sy_ucx_request_take(const struct sy_ucx_context *context, void **request)
{
	void *taken = *request;

	if (taken == NULL)
		return UCS_OK;
	if (UCS_PTR_IS_ERR(taken)) {
		*request = NULL;
		return UCS_PTR_STATUS(taken);
	}
	ucs_status_t status = context->lib->ucp_request_check_status(taken);
	if (status == UCS_INPROGRESS)
		return status;
	context->lib->ucp_request_free(taken);
	*request = NULL;
	return status;
}
