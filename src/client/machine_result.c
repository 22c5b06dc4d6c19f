/* Replies point into a message and a scratch that go away; an op keeps its own copy. */
#include "machine_impl.h"

uint32_t sy_machine_result_count(const struct sy_machine_op *op)
{
	const struct sy_resolve_args *resolve = &op->resolve;
	switch (op->kind) {
	case SY_OP_KIND_RESOLVE:
		return resolve->field_of != NULL ? resolve->row_count
		                                 : resolve->row_count * resolve->field_count;
	case SY_OP_KIND_PIN_CHECK:
		return op->pin_check.count;
	case SY_OP_KIND_SCAN:
		return op->scan.limit;
	case SY_OP_KIND_PUT:
	case SY_OP_KIND_PUT_INLINE:
	case SY_OP_KIND_COMMIT:
	case SY_OP_KIND_RELEASE:
	case SY_OP_KIND_INFO:
	case SY_OP_KIND_STATS:
	default:
		return 0;
	}
}

/* Copies `bytes` to *at, moves it on, and returns the copy. */
static void *put(uint8_t **at, const void *data, size_t bytes)
{
	uint8_t *copy = *at;
	if (bytes > 0)
		memcpy(copy, data, bytes);
	*at += bytes;
	return copy;
}

/* Widest first, so that all are aligned: u64 arrays, shapes, tails, bytes. */
static bool copy_resolved(struct sy_buf *result, struct sy_reply *reply)
{
	struct sy_resolved *resolved = &reply->resolved;
	size_t keys = reply->key_count;
	size_t shapes_bytes = resolved->shape_count * sizeof *resolved->shapes;
	uint8_t *at = sy_buf_extend(result, keys * (4 * 8 + 4 + 3) + shapes_bytes +
	                                    reply->inline_bytes.bytes);
	if (at == NULL)
		return false;
	resolved->offset = put(&at, resolved->offset, 8 * keys);
	resolved->nbytes = put(&at, resolved->nbytes, 8 * keys);
	resolved->generation = put(&at, resolved->generation, 8 * keys);
	resolved->dim0 = put(&at, resolved->dim0, 8 * keys);
	resolved->shapes = put(&at, resolved->shapes, shapes_bytes);
	resolved->tail = put(&at, resolved->tail, 4 * keys);
	resolved->found = put(&at, resolved->found, keys);
	resolved->dtype = put(&at, resolved->dtype, keys);
	resolved->kind = put(&at, resolved->kind, keys);
	reply->inline_bytes.data = put(&at, reply->inline_bytes.data, reply->inline_bytes.bytes);
	return true;
}

static bool copy_scan(struct sy_buf *result, struct sy_reply *reply)
{
	size_t entries_bytes = reply->scan_count * sizeof *reply->scan;
	size_t bytes = entries_bytes;
	for (uint32_t i = 0; i < reply->scan_count; i++)
		bytes += reply->scan[i].field.bytes;
	uint8_t *at = sy_buf_extend(result, bytes);
	if (at == NULL)
		return false;
	struct sy_scan_entry *entries = put(&at, reply->scan, entries_bytes);
	for (uint32_t i = 0; i < reply->scan_count; i++)
		entries[i].field.data = put(&at, entries[i].field.data, entries[i].field.bytes);
	reply->scan = entries;
	return true;
}

static bool copy_held(struct sy_buf *result, struct sy_reply *reply)
{
	uint8_t *at = sy_buf_extend(result, reply->held_count);
	if (at == NULL)
		return false;
	reply->held = put(&at, reply->held, reply->held_count);
	return true;
}

/* The mutant of two answers: every other key keeps the place it had in the former one. */
static void mix(const struct sy_resolved *former, struct sy_resolved *resolved, uint32_t keys)
{
	for (uint32_t k = 0; k < keys; k += 2) {
		if (former->found[k] != SY_FOUND_PINNED || resolved->found[k] != SY_FOUND_PINNED ||
		    former->kind[k] != resolved->kind[k] || former->dtype[k] != resolved->dtype[k])
			continue;
		resolved->offset[k] = former->offset[k];
		resolved->nbytes[k] = former->nbytes[k];
		resolved->generation[k] = former->generation[k];
		resolved->dim0[k] = former->dim0[k];
	}
}

bool sy_machine_result_copy(struct sy_machine_op *op, const struct sy_reply *reply)
{
	struct sy_reply copy = *reply;
	bool ok = true;
	if (SY_MUTANT(6) && op->reply.key_count == reply->key_count)
		mix(&op->reply.resolved, &copy.resolved, reply->key_count);
	sy_buf_reset(&op->result);
	if (reply->outcome.fault == SY_FAULT_NONE) {
		if (op->kind == SY_OP_KIND_RESOLVE)
			ok = copy_resolved(&op->result, &copy);
		else if (op->kind == SY_OP_KIND_SCAN)
			ok = copy_scan(&op->result, &copy);
		else if (op->kind == SY_OP_KIND_PIN_CHECK)
			ok = copy_held(&op->result, &copy);
	}
	if (ok)
		op->reply = copy;
	return ok;
}
