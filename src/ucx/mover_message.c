/* Transfers by messages, at the client. What comes is of the transfer that runs on the lane, or of
 * none: each operation has a tag of its own. */
#include <string.h>

#include "mover_state.h"

static ucs_status_t on_data(void *argument, const void *header, size_t header_bytes, void *data,
                            size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_mover_lane *lane = argument;
	struct sy_message_head head;

	if (header_bytes != sizeof head || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
		return UCS_OK;
	memcpy(&head, header, sizeof head);
	for (uint32_t h = 0; h < 2; h++) {
		struct sy_mover_half *half = &lane->halves[h];

		for (uint32_t i = 0; i < half->op_count; i++) {
			struct sy_mover_op *op = &half->ops[i];

			if (op->head.tag != head.tag || op->left == 0 || bytes != op->nbytes)
				continue;
			memcpy(op->local, data, bytes);
			op->left = 0;
			return UCS_OK;
		}
	}
	return UCS_OK;
}

static ucs_status_t on_flushed(void *argument, const void *header, size_t header_bytes,
                               void *data, size_t bytes, const ucp_am_recv_param_t *param)
{
	struct sy_mover_lane *lane = argument;
	struct sy_message_head head;

	(void)data;
	(void)bytes;
	(void)param;
	if (header_bytes != sizeof head)
		return UCS_OK;
	memcpy(&head, header, sizeof head);
	lane->flushed_tag = head.tag;
	return UCS_OK;
}

void sy_mover_handle_messages(struct sy_mover_lane *lane)
{
	const struct sy_ucx_context *context = &lane->mover->context;

	sy_ucx_worker_handle(context, lane->worker, SY_JOIN_ANSWER_ID, sy_mover_on_answer, lane);
	sy_ucx_worker_handle(context, lane->worker, SY_MESSAGE_DATA_ID, on_data, lane);
	sy_ucx_worker_handle(context, lane->worker, SY_MESSAGE_FLUSHED_ID, on_flushed, lane);
}

static void *give(struct sy_mover_conn *conn, unsigned id, const struct sy_message_head *head,
                  const void *bytes, size_t count)
{
	const ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
	                                   .flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY};

	return conn->lane->mover->context.lib->ucp_am_send_nbx(conn->ep, id, head, sizeof *head,
	                                                       bytes, count, &eager);
}

void sy_mover_message_post(struct sy_mover_conn *conn, struct sy_mover_op *op, bool write)
{
	op->head = (struct sy_message_head){.tag = ++conn->lane->last_tag, .offset = op->slab_offset,
	                                    .nbytes = op->nbytes};
	op->left = write ? 0 : op->nbytes;
	if (write)
		conn->written_bytes += op->nbytes;
	op->request = give(conn, write ? SY_MESSAGE_WRITE_ID : SY_MESSAGE_READ_ID, &op->head,
	                   write ? op->local : NULL, write ? (size_t)op->nbytes : 0);
}

void sy_mover_message_flush(struct sy_mover_conn *conn)
{
	struct sy_mover_lane *lane = conn->lane;

	lane->flush_head = (struct sy_message_head){.tag = ++lane->last_tag,
	                                            .nbytes = conn->written_bytes};
	lane->flush = give(conn, SY_MESSAGE_FLUSH_ID, &lane->flush_head, NULL, 0);
}
