/* One transfer on one lane: its ranges go through the two halves of a buffer, of which one is
 * filled or emptied while the other travels; or straight, and then a half is a share of them. */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "clock.h"
#include "fail.h"
#include "mover_state.h"

/* A place in the caller's ranges. */
struct cursor {
	size_t range;
	uint64_t at;
};

struct moving {
	struct sy_mover_lane *lane;
	struct sy_mover_conn *conn;
	const struct sy_ucx_transfer *transfer;
	struct sy_mover_direct direct;
	struct cursor next;
	bool posted; /* anything at all */
};

/* Bytes of the range at the cursor, at most so many. */
static uint64_t run_at(const struct sy_ucx_transfer *transfer, const struct cursor *cursor,
                       uint64_t max)
{
	return sy_min_u64(transfer->ranges[cursor->range].nbytes - cursor->at, max);
}

static void advance(const struct sy_ucx_transfer *transfer, struct cursor *cursor, uint64_t bytes)
{
	cursor->at += bytes;
	if (cursor->at == transfer->ranges[cursor->range].nbytes)
		*cursor = (struct cursor){cursor->range + 1, 0};
}

/* The operation that takes bytes on from here: the last one, if they follow what it has both in
 * the slab and at this end, or another. NULL: there are as many as there may be. */
static struct sy_mover_op *op_for(struct sy_mover_half *half, uint64_t slab, uint8_t *local,
                                  ucp_mem_h memory, uint64_t bytes, uint64_t op_max)
{
	struct sy_mover_op *last = half->op_count > 0 ? &half->ops[half->op_count - 1] : NULL;

	if (last != NULL && last->memory == memory && last->slab_offset + last->nbytes == slab &&
	    last->local + last->nbytes == local && last->nbytes + bytes <= op_max)
		return last;
	if (half->op_count == SY_MOVER_OPS_MAX)
		return NULL;
	last = &half->ops[half->op_count++];
	*last = (struct sy_mover_op){.slab_offset = slab, .local = local, .memory = memory};
	return last;
}

/* The next share of the transfer: until the half is full, and of what goes straight as much as may
 * be under way. Ranges that run on in the slab travel as one operation. */
static void fill(struct moving *moving, struct sy_mover_half *half)
{
	const struct sy_ucx_transfer *transfer = moving->transfer;
	const struct sy_ucx_mover *mover = moving->lane->mover;
	uint64_t op_max = moving->conn->by_message ? SY_MESSAGE_PIECE_BYTES : UINT64_MAX;

	half->used = 0;
	half->direct_bytes = 0;
	half->op_count = 0;
	half->range = moving->next.range;
	half->range_at = moving->next.at;
	while (moving->next.range < transfer->count) {
		const struct sy_range *range = &transfer->ranges[moving->next.range];
		ucp_mem_h memory = sy_mover_direct_of(&moving->direct, mover, range);
		uint64_t room = memory != NULL ? mover->direct_max_bytes - half->direct_bytes
		                               : half->room - half->used;
		uint64_t bytes = run_at(transfer, &moving->next, sy_min_u64(room, op_max));

		if (bytes > 0) {
			uint8_t *at = (uint8_t *)range->to + moving->next.at;
			uint8_t *local = memory != NULL ? at : half->data + half->used;
			uint64_t slab = transfer->base_offset + range->offset + moving->next.at;
			struct sy_mover_op *op = op_for(
				half, slab, local, memory != NULL ? memory : moving->lane->buffer->memory, bytes,
				op_max);

			if (op == NULL)
				break;
			op->nbytes += bytes;
			if (memory == NULL && transfer->write)
				memcpy(local, at, (size_t)bytes);
			*(memory != NULL ? &half->direct_bytes : &half->used) += bytes;
		} else if (range->nbytes > 0) {
			break; /* no room */
		}
		advance(transfer, &moving->next, bytes);
	}
}

static void empty(const struct moving *moving, const struct sy_mover_half *half)
{
	struct cursor to = {half->range, half->range_at};

	for (size_t done = 0; done < half->used;) {
		const struct sy_range *range = &moving->transfer->ranges[to.range];
		uint64_t bytes = run_at(moving->transfer, &to, half->used - done);

		if (sy_mover_direct_of(&moving->direct, moving->lane->mover, range) != NULL) {
			to = (struct cursor){to.range + 1, 0}; /* it is there */
			continue;
		}
		if (bytes > 0)
			memcpy((uint8_t *)range->to + to.at, half->data + done, (size_t)bytes);
		done += (size_t)bytes;
		advance(moving->transfer, &to, bytes);
	}
}

static void post(struct moving *moving, struct sy_mover_half *half)
{
	const struct sy_ucx_lib *lib = moving->lane->mover->context.lib;
	const struct sy_mover_conn *conn = moving->conn;
	/* Otherwise a newer UCX may take its time to say that one is done. */
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMH,
		.flags = UCP_OP_ATTR_FLAG_FAST_CMPL,
	};

	for (uint32_t i = 0; i < half->op_count; i++) {
		struct sy_mover_op *op = &half->ops[i];
		uint64_t remote = conn->base + op->slab_offset;

		moving->posted = true;
		if (conn->by_message) {
			sy_mover_message_post(moving->conn, op, moving->transfer->write);
			continue;
		}
		param.memh = op->memory;
		op->request = moving->transfer->write
			? lib->ucp_put_nbx(conn->ep, op->local, (size_t)op->nbytes, remote, conn->key, &param)
			: lib->ucp_get_nbx(conn->ep, op->local, (size_t)op->nbytes, remote, conn->key, &param);
	}
}

static sy_status fail(const struct moving *moving, const char *why, sy_error *err)
{
	return sy_fail(err, SY_E_TRANSFER, "sy_ucx_move", "ucx to %s: %s",
	               moving->conn->peer->address, why);
}

static sy_status fail_ucx(const struct moving *moving, ucs_status_t status, sy_error *err)
{
	return fail(moving, moving->lane->mover->context.lib->ucs_status_string(status), err);
}

/* Until this request is done, well or not, and what it asked for (by messages) has become what is
 * wanted. An error of the connection is one of its operations, whatever they say themselves. */
static sy_status wait_request(struct moving *moving, void **request, const uint64_t *asked,
                              uint64_t wanted, sy_error *err)
{
	struct sy_mover_lane *lane = moving->lane;

	for (;;) {
		ucs_status_t status = sy_ucx_request_take(&lane->mover->context, request);

		if (status == UCS_OK && *asked != wanted)
			status = UCS_INPROGRESS;

		if (moving->conn->broken)
			return fail_ucx(moving, moving->conn->error, err);
		if (status == UCS_OK)
			return SY_OK;
		if (status != UCS_INPROGRESS)
			return fail_ucx(moving, status, err);
		if (sy_clock_now_ns() >= moving->transfer->deadline_ns)
			return fail(moving, "the deadline came during the transfer", err);
		sy_mover_lane_wait(lane, moving->transfer->deadline_ns);
	}
}

static sy_status wait_half(struct moving *moving, struct sy_mover_half *half, sy_error *err)
{
	sy_status status = SY_OK;

	for (uint32_t i = 0; status == SY_OK && i < half->op_count; i++)
		status = wait_request(moving, &half->ops[i].request, &half->ops[i].left, 0, err);
	if (status == SY_OK && !moving->transfer->write)
		empty(moving, half);
	return status;
}

/* Every operation's own status, then for a WRITE a flush: done here is not yet done there. A get
 * that is done has come. */
static sy_status run(struct moving *moving, sy_error *err)
{
	struct sy_mover_lane *lane = moving->lane;
	const ucp_request_param_t none = {0};
	sy_status status = SY_OK;
	uint32_t turn = 0;

	for (uint32_t i = 0; i < 2; i++) {
		fill(moving, &lane->halves[i]);
		post(moving, &lane->halves[i]);
	}
	for (; status == SY_OK && lane->halves[turn].op_count > 0; turn ^= 1) {
		status = wait_half(moving, &lane->halves[turn], err);
		if (status != SY_OK)
			break;
		fill(moving, &lane->halves[turn]);
		post(moving, &lane->halves[turn]);
	}
	if (status != SY_OK || !moving->transfer->write)
		return status;
	if (moving->posted && moving->conn->by_message) {
		sy_mover_message_flush(moving->conn);
		return wait_request(moving, &lane->flush, &lane->flushed_tag, lane->flush_head.tag, err);
	}
	const uint64_t nothing = 0;
	lane->flush = lane->mover->context.lib->ucp_ep_flush_nbx(moving->conn->ep, &none);
	return wait_request(moving, &lane->flush, &nothing, 0, err);
}

/* Until the lane is connected to the peer. What is only half made at the deadline is left so, for
 * the next transfer of this lane. */
static sy_status connect_lane(struct moving *moving, struct sy_ucx_peer *peer, sy_error *err)
{
	uint64_t deadline_ns = moving->transfer->deadline_ns;

	for (;;) {
		sy_mover_conns_step(moving->lane);
		moving->conn = sy_mover_conn_get(moving->lane, peer, err);
		if (moving->conn == NULL)
			return SY_E_SYS;
		if (moving->conn->state == SY_MOVER_CONN_READY && !moving->conn->broken)
			return SY_OK;
		if (sy_clock_now_ns() >= deadline_ns)
			return fail(moving, "the deadline came while connecting", err);
		sy_mover_lane_wait(moving->lane, deadline_ns);
		if (!moving->conn->broken || moving->conn->state == SY_MOVER_CONN_CLOSING)
			continue;
		return moving->conn->error == UCS_ERR_REJECTED
			? fail(moving, "the unit does not let this session in any more", err)
			: fail_ucx(moving, moving->conn->error, err);
	}
}

/* And how many of them go straight. */
static uint64_t total_bytes(const struct moving *moving, const struct sy_ucx_mover *mover,
                            uint64_t *ret_direct)
{
	const struct sy_ucx_transfer *transfer = moving->transfer;
	uint64_t total = 0;

	*ret_direct = 0;
	for (size_t i = 0; i < transfer->count; i++) {
		const struct sy_range *range = &transfer->ranges[i];

		total += range->nbytes;
		if (sy_mover_direct_of(&moving->direct, mover, range) != NULL)
			*ret_direct += range->nbytes;
	}
	return total;
}

/* The lane goes back; a transfer that may not be over, to the graveyard. True: bytes of it may
 * land later. */
static bool conclude(const struct moving *moving, struct sy_ucx_peer *peer,
                     struct sy_mover_grave *grave, sy_status status)
{
	struct sy_ucx_mover *mover = moving->lane->mover;
	const struct sy_ucx_transfer *transfer = moving->transfer;
	uint64_t direct_bytes, bytes = total_bytes(moving, mover, &direct_bytes);

	if (status != SY_OK && moving->posted) {
		/* What it holds is linked in where it is. */
		grave->account.write = transfer->write;
		grave->account.name = transfer->name;
		grave->account.incarnation = peer->incarnation;
		grave->peer = peer;
		grave->lane = moving->lane->index;
		grave->number = moving->conn->number;
		return sy_mover_give_up(moving->lane, grave);
	}
	sy_mover_direct_end(mover, &grave->account.holds);
	free(grave);
	pthread_mutex_lock(&mover->lock);
	if (status == SY_OK) {
		*(transfer->write ? &mover->written_bytes : &mover->read_bytes) += bytes;
		mover->direct_bytes += direct_bytes;
	}
	sy_mover_lane_give(moving->lane);
	pthread_mutex_unlock(&mover->lock);
	return false;
}

/* A lane, until the deadline; NULL and the error. */
static struct sy_mover_lane *take_lane(struct sy_ucx_peer *peer, uint64_t deadline_ns,
                                       sy_error *err)
{
	struct sy_ucx_mover *mover = peer->mover;
	struct sy_mover_lane *lane = NULL;

	pthread_mutex_lock(&mover->lock);
	bool poisoned = mover->pool.poisoned;
	if (!poisoned)
		lane = sy_mover_lane_take(mover, peer, deadline_ns);
	pthread_mutex_unlock(&mover->lock);
	if (poisoned)
		sy_mover_fail_poisoned(err);
	else if (lane == NULL)
		sy_fail(err, SY_E_TRANSFER, "sy_ucx_move",
		        "ucx to %s: the deadline came while all lanes were in use", peer->address);
	return lane;
}

sy_status sy_ucx_move(struct sy_ucx_peer *peer, const struct sy_ucx_transfer *transfer,
                      bool *ret_in_flight, sy_error *err)
{
	struct moving moving = {.transfer = transfer};
	struct sy_mover_grave *grave = calloc(1, sizeof *grave);
	uint64_t direct_bytes;
	sy_error fault = {0};

	*ret_in_flight = false;
	if (grave == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	moving.lane = take_lane(peer, transfer->deadline_ns, &fault);
	if (moving.lane == NULL) {
		free(grave);
		return sy_fail(err, fault.status, __func__, "%s", fault.message);
	}
	sy_status status = sy_mover_direct_begin(peer->mover, transfer, &grave->account.holds,
	                                         &moving.direct, err);
	bool in_doubt = status != SY_OK; /* by an earlier one */
	if (status == SY_OK) {
		uint64_t bytes = total_bytes(&moving, peer->mover, &direct_bytes);

		status = sy_mover_lane_make(moving.lane, bytes - direct_bytes, err);
	}
	if (status == SY_OK)
		status = connect_lane(&moving, peer, err);
	if (status == SY_OK) {
		moving.lane->conn = moving.conn;
		status = run(&moving, err);
	}
	*ret_in_flight = conclude(&moving, peer, grave, status) || (in_doubt && !transfer->write);
	return status;
}
