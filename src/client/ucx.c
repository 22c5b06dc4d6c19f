/* The transport to other hosts: one-sided transfers over UCX, through the mover of the hub. */
#include <stdlib.h>

#include "fail.h"
#include "local.h"
#include "message.h"
#include "transport.h"
#include "ucx_mover.h"

struct ucx_remote {
	struct sy_remote remote;
	struct sy_ucx_peer *peer; /* NULL: this process cannot use UCX, as `fault` says */
	sy_error fault;
};

static sy_status move(struct sy_remote *remote, const struct sy_transfer *transfer, bool write,
                      bool *ret_in_flight, sy_error *err)
{
	struct ucx_remote *ucx = (struct ucx_remote *)remote;
	const struct sy_ucx_transfer moved = {
		.ranges = transfer->ranges, .count = transfer->count,
		.base_offset = transfer->base_offset, .deadline_ns = transfer->deadline_ns,
		.write = write, .name = transfer->name,
	};
	size_t outside = 0;

	*ret_in_flight = false;
	if (ucx->peer == NULL)
		return sy_fail(err, ucx->fault.status, __func__, "%s", ucx->fault.message);
	if (!sy_transfer_lies_in(remote, transfer, &outside))
		return sy_fail(err, SY_E_TRANSFER, __func__, "range %zu lies outside the slab", outside);
	return sy_ucx_move(ucx->peer, &moved, ret_in_flight, err);
}

static sy_status ucx_write(struct sy_remote *remote, const struct sy_transfer *transfer,
                           bool *ret_in_flight, sy_error *err)
{
	return move(remote, transfer, true, ret_in_flight, err);
}

static sy_status ucx_read(struct sy_remote *remote, const struct sy_transfer *transfer,
                          bool *ret_in_flight, sy_error *err)
{
	return move(remote, transfer, false, ret_in_flight, err);
}

static void ucx_detach(struct sy_remote *remote)
{
	struct ucx_remote *ucx = (struct ucx_remote *)remote;

	/* UCX is not used in a fork child. */
	if (ucx->peer != NULL && remote->fork_count == sy_local_fork_count())
		sy_ucx_peer_free(ucx->peer);
	free(ucx);
}

static const struct sy_transport UCX = {
	.name = "ucx",
	.bit = SY_TRANSPORT_UCX,
	.write = ucx_write,
	.read = ucx_read,
	.detach = ucx_detach,
};

struct sy_remote *sy_ucx_attach(struct sy_ucx_mover *mover, const sy_error *fault,
                                const struct sy_hello_result *hello)
{
	struct ucx_remote *ucx = calloc(1, sizeof *ucx);

	if (ucx == NULL)
		return NULL;
	ucx->remote = (struct sy_remote){.transport = &UCX, .incarnation = hello->incarnation,
	                                 .slab_bytes = hello->slab_bytes, .refs = 1,
	                                 .fork_count = sy_local_fork_count()};
	ucx->fault = *fault;
	if (mover == NULL)
		return &ucx->remote;
	ucx->peer = sy_ucx_peer_new(mover, hello->ucx_address, hello->session, hello->incarnation,
	                            hello->slab_bytes);
	if (ucx->peer == NULL)
		sy_fail(&ucx->fault, SY_E_SYS, __func__, "out of memory");
	return &ucx->remote;
}
