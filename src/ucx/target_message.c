/* Transfers by messages, at the unit: its thread copies what WRITEs bring and sends what READs ask
 * for. Only a connection that has joined, and is not closed, is listened to; so a fence is whole
 * at once. */
#include <stdlib.h>
#include <string.h>

#include "target_state.h"

/* The work of a connection that may ask for some, its head read; NULL: it is to be cut off. */
static struct sy_target_work *listen_to(struct sy_target_conn *conn, const void *header,
                                        size_t header_bytes, struct sy_message_head *ret_head)
{
	const struct sy_ucx_target *target = conn->target;
	uint64_t slab_bytes = target->config.slab_bytes;

	if (conn->state != SY_TARGET_JOINED || conn->broken || !target->config.allow_tcp ||
	    header_bytes != sizeof *ret_head)
		return NULL;
	memcpy(ret_head, header, sizeof *ret_head);
	if (ret_head->offset > slab_bytes || ret_head->nbytes > slab_bytes - ret_head->offset)
		return NULL;
	if (conn->work == NULL)
		conn->work = calloc(1, sizeof *conn->work);
	return conn->work;
}

static ucs_status_t on_write(void *argument, const void *header, size_t header_bytes, void *data,
                             size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_ucx_target *target = argument;
	struct sy_target_conn *conn = sy_target_conn_of(target, param);
	struct sy_message_head head;

	if (conn == NULL)
		return UCS_OK;
	struct sy_target_work *work = listen_to(conn, header, header_bytes, &head);
	if (work == NULL || head.nbytes != bytes ||
	    (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
		conn->broken = true;
		return UCS_OK;
	}
	memcpy((uint8_t *)target->config.slab + head.offset, data, bytes);
	work->written_bytes += bytes;
	return UCS_OK;
}

static ucs_status_t on_read(void *argument, const void *header, size_t header_bytes, void *data,
                            size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_target_conn *conn = sy_target_conn_of(argument, param);
	struct sy_message_head head;

	(void)data;
	(void)bytes;
	if (conn == NULL)
		return UCS_OK;
	struct sy_target_work *work = listen_to(conn, header, header_bytes, &head);
	if (work == NULL || head.nbytes > SY_MESSAGE_PIECE_BYTES ||
	    work->read_count == SY_MESSAGE_READS_MAX) {
		conn->broken = true;
		return UCS_OK;
	}
	work->reads[(work->read_first + work->read_count++) % SY_MESSAGE_READS_MAX] = head;
	return UCS_OK;
}

static ucs_status_t on_flush(void *argument, const void *header, size_t header_bytes, void *data,
                             size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_target_conn *conn = sy_target_conn_of(argument, param);
	struct sy_message_head head;

	(void)data;
	(void)bytes;
	if (conn == NULL || conn->state != SY_TARGET_JOINED)
		return UCS_OK;
	if (header_bytes != sizeof head || conn->work == NULL) {
		conn->broken = true;
		return UCS_OK;
	}
	memcpy(&conn->work->flush, header, sizeof head);
	conn->work->flush_due = true;
	return UCS_OK;
}

void sy_target_handle_messages(struct sy_ucx_target *target)
{
	const struct sy_ucx_context *context = &target->context;

	sy_ucx_worker_handle(context, target->worker, SY_JOIN_ASK_ID, sy_target_on_ask, target);
	sy_ucx_worker_handle(context, target->worker, SY_MESSAGE_WRITE_ID, on_write, target);
	sy_ucx_worker_handle(context, target->worker, SY_MESSAGE_READ_ID, on_read, target);
	sy_ucx_worker_handle(context, target->worker, SY_MESSAGE_FLUSH_ID, on_flush, target);
}

static void give(struct sy_target_conn *conn, struct sy_target_send *slot, unsigned id,
                 const void *bytes, size_t count)
{
	const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_AM_SEND_FLAG_EAGER};

	slot->request = conn->target->context.lib->ucp_am_send_nbx(
		conn->ep, id, &slot->head, sizeof slot->head, bytes, count, &eager);
}

bool sy_target_work_step(struct sy_target_conn *conn)
{
	struct sy_target_work *work = conn->work;
	bool any = false;

	for (uint32_t i = 0; work != NULL && i < SY_TARGET_SENDS_MAX; i++) {
		struct sy_target_send *slot = &work->sends[i];
		ucs_status_t status = sy_ucx_request_take(&conn->target->context, &slot->request);

		if (status == UCS_INPROGRESS)
			continue;
		conn->broken = conn->broken || status != UCS_OK;
		if (conn->broken || conn->state != SY_TARGET_JOINED)
			continue;
		if (work->flush_due && work->written_bytes >= work->flush.nbytes) {
			work->flush_due = false;
			slot->head = work->flush;
			give(conn, slot, SY_MESSAGE_FLUSHED_ID, NULL, 0);
			any = true;
		} else if (work->read_count > 0) {
			slot->head = work->reads[work->read_first];
			work->read_first = (work->read_first + 1) % SY_MESSAGE_READS_MAX;
			work->read_count--;
			give(conn, slot, SY_MESSAGE_DATA_ID,
			     (const uint8_t *)conn->target->config.slab + slot->head.offset,
			     (size_t)slot->head.nbytes);
			any = true;
		}
	}
	return any;
}

bool sy_target_work_is_idle(const struct sy_target_conn *conn)
{
	for (uint32_t i = 0; conn->work != NULL && i < SY_TARGET_SENDS_MAX; i++) {
		if (conn->work->sends[i].request != NULL)
			return false;
	}
	return true;
}
