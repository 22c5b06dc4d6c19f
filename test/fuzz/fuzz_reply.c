/* Replies as a client receives them, to every op about any number of keys: what decodes is
 * encoded again and decodes to the same.
 *
 *   op u8 | keys u16 | message */
#include "fuzz.h"

#include "reply_fixture.h"

enum { OPS = SY_OP_STATS };

static _Alignas(16) uint8_t first_bytes[SY_SCRATCH_BYTES], second_bytes[SY_SCRATCH_BYTES];
static struct sy_scratch first = {.data = first_bytes, .bytes = sizeof first_bytes};
static struct sy_scratch second = {.data = second_bytes, .bytes = sizeof second_bytes};

static void scratch_soil(struct sy_scratch *scratch)
{
	memset(scratch->data, 0xa5, scratch->used);
	scratch->used = 0;
}

/* An error may come with parts that its kind has no use for; they are not encoded. */
static void keep_used(struct sy_outcome *outcome)
{
	if (outcome->fault != SY_FAULT_BUSY)
		outcome->busy = 0;
	if (outcome->fault != SY_FAULT_PROTOCOL)
		outcome->why = 0;
	if (outcome->fault != SY_FAULT_UNIT_FULL) {
		outcome->resource = 0;
		outcome->need = 0;
		outcome->free = 0;
		outcome->hole = 0;
	}
}

/* Everything a client relies on without looking. */
static void check_resolved(const struct sy_reply *reply, const uint8_t *message, size_t bytes)
{
	const struct sy_resolved *resolved = &reply->resolved;
	for (uint32_t k = 0; k < reply->key_count; k++) {
		FUZZ_CHECK(resolved->tail[k] < resolved->shape_count);
		if (resolved->found[k] == SY_FOUND_INLINE)
			FUZZ_CHECK(resolved->offset[k] + resolved->nbytes[k] <= reply->inline_bytes.bytes);
	}
	if (reply->inline_bytes.bytes > 0)
		FUZZ_CHECK(reply->inline_bytes.data > message &&
		           reply->inline_bytes.data + reply->inline_bytes.bytes <= message + bytes);
}

static void check_again(struct sy_reply *reply, enum sy_op op, uint32_t key_count)
{
	static struct sy_buf buf;
	struct sy_reply again;
	struct sy_resolved whole = reply->resolved;
	sy_error err = {0};
	keep_used(&reply->outcome);
	/* The last shape was added by the decoder. */
	if (op == SY_OP_RESOLVE_KEYS && reply->outcome.fault == SY_FAULT_NONE)
		reply->resolved.shape_count--;
	sy_buf_reset(&buf);
	sy_reply_encode(reply, op, &buf);
	FUZZ_CHECK(!buf.failed);
	reply->resolved = whole;
	uint8_t *message = fuzz_copy(buf.data, buf.bytes);
	scratch_soil(&second);
	if (sy_reply_decode(message, buf.bytes, op, key_count, &second, &again, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	assert_replies_equal(reply, &again);
	free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	enum sy_op op = (enum sy_op)(1 + fuzz_below(&input, OPS));
	uint32_t key_count = (uint32_t)fuzz_number(&input, 2) % (SY_KEYS_PER_RESOLVE_MAX + 1);
	size_t left = fuzz_left(&input);
	uint8_t *message = fuzz_copy(input.at, left);
	struct sy_request_id id;
	struct sy_reply reply;
	sy_error err = {.status = SY_OK};
	bool has_id = sy_reply_peek(message, left, &id, &err) == SY_OK;
	scratch_soil(&first);
	sy_status status = sy_reply_decode(message, left, op, key_count, &first, &reply, &err);
	if (status == SY_OK) {
		FUZZ_CHECK(has_id && reply.outcome.op == op);
		assert_ids_equal(id, reply.id);
		check_resolved(&reply, message, left);
		check_again(&reply, op, key_count);
	} else {
		FUZZ_CHECK(status == SY_E_PROTOCOL && err.status == status);
	}
	free(message);
	return 0;
}

static void seed(struct sy_prng *prng, enum sy_op op, bool ok, uint32_t number)
{
	struct sy_buf buf = {0};
	struct sy_reply reply = reply_draw(prng, op, ok);
	uint8_t head[3] = {(uint8_t)(op - 1)};
	sy_store_u16(head + 1, (uint16_t)asked_of(&reply, op));
	sy_buf_append(&buf, head, sizeof head);
	sy_reply_encode(&reply, op, &buf);
	FUZZ_CHECK(!buf.failed);
	fuzz_seed(sy_op_name((uint8_t)op), number, buf.data, buf.bytes);
	sy_buf_free(&buf);
}

void fuzz_corpus(void)
{
	struct sy_prng prng;
	sy_prng_seed(&prng, 1);
	for (uint8_t op = SY_OP_HELLO; op <= SY_OP_STATS; op++) {
		for (uint32_t i = 0; i < 2; i++)
			seed(&prng, (enum sy_op)op, i == 0, i);
	}
	for (uint32_t i = 2; i < 6; i++)
		seed(&prng, SY_OP_RESOLVE_KEYS, true, i);
}
