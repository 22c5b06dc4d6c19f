#include "wire_parts.h"

void *sy_wire_take(struct sy_mp_reader *reader, struct sy_scratch *scratch, size_t count,
                   size_t item_bytes)
{
	if (reader->fault != NULL)
		return NULL;
	void *room = sy_scratch_take(scratch, count * item_bytes);
	if (room == NULL)
		sy_mp_fail(reader, "needs more memory than its reader has");
	return room;
}

struct sy_request_id sy_wire_read_id(struct sy_mp_reader *reader)
{
	struct sy_span bytes = sy_mp_read_bin(reader, SY_REQUEST_ID_BYTES);
	if (bytes.bytes != SY_REQUEST_ID_BYTES) {
		sy_mp_fail(reader, "holds no request id where one belongs");
		return (struct sy_request_id){0};
	}
	return sy_request_id_load(bytes.data);
}

size_t sy_shape_store(uint8_t *out, const sy_shape *shape)
{
	size_t tail_bytes = 8 * (size_t)sy_shape_tail_count(shape->rank);
	out[0] = (uint8_t)shape->rank;
	memcpy(out + 1, shape->tail, tail_bytes);
	return 1 + tail_bytes;
}

bool sy_shape_load(struct sy_span *at, sy_shape *ret_shape)
{
	if (at->bytes == 0 || at->data[0] > SY_RANK_MAX)
		return false;
	sy_shape shape;
	memset(&shape, 0, sizeof shape);
	shape.rank = at->data[0];
	size_t tail_bytes = 8 * (size_t)sy_shape_tail_count(shape.rank);
	if (tail_bytes > at->bytes - 1)
		return false;
	memcpy(shape.tail, at->data + 1, tail_bytes);
	at->data += 1 + tail_bytes;
	at->bytes -= 1 + tail_bytes;
	*ret_shape = shape;
	return true;
}

const char *sy_entry_fault(uint8_t dtype, uint8_t kind, const sy_shape *shape, uint64_t nbytes,
                           uint64_t dim0)
{
	uint64_t unit;
	uint64_t dim0_max;
	const char *fault =
		sy_shape_fault((sy_dtype)dtype, (sy_kind)kind, shape, &unit, &dim0_max);
	return fault != NULL ? fault : sy_size_fault(kind, shape, unit, dim0_max, nbytes, dim0);
}
