/* Requests as a unit receives them: what decodes is encoded again and decodes to the same. */
#include "fuzz.h"

#include "message_fixture.h"

static _Alignas(16) uint8_t first_bytes[SY_SCRATCH_BYTES], second_bytes[SY_SCRATCH_BYTES];
static struct sy_scratch first = {.data = first_bytes, .bytes = sizeof first_bytes};
static struct sy_scratch second = {.data = second_bytes, .bytes = sizeof second_bytes};

/* What stood there before is of no matter. */
static void scratch_soil(struct sy_scratch *scratch)
{
	memset(scratch->data, 0xa5, scratch->used);
	scratch->used = 0;
}

static void check_again(const struct sy_request *request)
{
	static struct sy_buf buf;
	struct sy_request again;
	struct sy_request_id id;
	sy_error err = {0};
	sy_buf_reset(&buf);
	sy_request_encode(request, &buf);
	FUZZ_CHECK(!buf.failed && buf.bytes <= sy_request_bytes(request));
	uint8_t *message = fuzz_copy(buf.data, buf.bytes);
	scratch_soil(&second);
	if (sy_request_decode(message, buf.bytes, &second, &again, &id, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	assert_ids_equal(id, request->id);
	assert_requests_equal(request, &again);
	free(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sy_request request;
	struct sy_request_id id;
	sy_error err = {.status = SY_OK};
	uint8_t *message = fuzz_copy(data, bytes);
	scratch_soil(&first);
	sy_status status = sy_request_decode(message, bytes, &first, &request, &id, &err);
	if (status == SY_OK) {
		assert_ids_equal(id, request.id);
		check_again(&request);
	} else {
		FUZZ_CHECK(status == SY_E_PROTOCOL && err.status == status);
		FUZZ_CHECK(strnlen(err.message, sizeof err.message) < sizeof err.message);
	}
	free(message);
	return 0;
}

void fuzz_corpus(void)
{
	enum { EACH = 2 };
	struct sy_prng prng;
	struct sy_buf buf = {0};
	sy_prng_seed(&prng, 1);
	for (uint8_t op = SY_OP_HELLO; op <= SY_OP_STATS; op++) {
		for (uint32_t i = 0; i < EACH; i++) {
			struct sy_request request = request_draw(&prng, (enum sy_op)op);
			sy_buf_reset(&buf);
			sy_request_encode(&request, &buf);
			FUZZ_CHECK(!buf.failed);
			fuzz_seed(sy_op_name(op), i, buf.data, buf.bytes);
		}
	}
	sy_buf_free(&buf);
}
