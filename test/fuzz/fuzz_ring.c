/* A ring between a writer and a reader while a third hand writes into the memory: nobody leaves
 * it, every call ends, and as long as nothing was scribbled messages come whole and in order.
 *
 * An input is steps: send a message of so many bytes, flush, receive, scribble. */
#include "fuzz.h"

#include "lane.h"

enum { STEPS_MAX = 200, MESSAGE_BYTES_MAX = 200000, SENT_MAX = STEPS_MAX };

static struct sy_lane_shared shared;
static uint8_t copy[SY_RING_BYTES], message[MESSAGE_BYTES_MAX];

static struct sy_lane end_of(struct sy_ring_shared *out, struct sy_ring_shared *in,
                             struct sy_ring_budget *budget)
{
	return (struct sy_lane){
		.budget = budget, .out = {.shared = out},
		.in = {.shared = in, .message_max = MESSAGE_BYTES_MAX, .budget = budget}};
}

static void done(struct sy_lane *lane)
{
	sy_ring_reader_done(&lane->in);
	sy_lane_done(lane); /* it maps nothing: only what is queued goes */
}

static void scribble(struct fuzz_input *input)
{
	uint32_t where = (uint32_t)fuzz_number(input, 3) % sizeof shared;
	struct sy_span bytes = fuzz_take(input, fuzz_below(input, 16));
	memcpy((uint8_t *)&shared + where, bytes.data,
	       sy_min_u64(bytes.bytes, sizeof shared - where));
}

/* Most are short: as many of any power of two as of another. */
static size_t length(struct fuzz_input *input)
{
	uint64_t number = fuzz_number(input, 3);
	return 1 + (number >> 4 >> (number & 15)) % MESSAGE_BYTES_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	struct sy_ring_budget budget = {.max_bytes = 1 << 20}, enough = {.max_bytes = 1 << 20};
	struct sy_lane a = end_of(&shared.requests, &shared.replies, &budget);
	struct sy_lane b = end_of(&shared.replies, &shared.requests, &enough);
	size_t lengths[SENT_MAX], sent = 0, received = 0;
	bool clean = true;
	memset(&shared, 0, sizeof shared);
	for (int step = 0; step < STEPS_MAX && fuzz_left(&input) > 0; step++) {
		const void *got;
		size_t got_bytes;
		switch (fuzz_below(&input, 4)) {
		case 0:
			lengths[sent] = length(&input);
			memset(message, (int)sent, lengths[sent]);
			if (sy_lane_send(&a, message, lengths[sent]))
				sent++;
			break;
		case 1:
			(void)sy_lane_flush(&a);
			break;
		case 2:
			if (!sy_lane_receive(&b, copy, &got, &got_bytes))
				break;
			FUZZ_CHECK(got_bytes <= MESSAGE_BYTES_MAX);
			memcpy(message, got, got_bytes); /* all of it can be read */
			if (clean) {
				FUZZ_CHECK(received < sent && got_bytes == lengths[received]);
				FUZZ_CHECK(message[0] == (uint8_t)received &&
				           message[got_bytes - 1] == (uint8_t)received);
			}
			received++;
			break;
		default:
			scribble(&input);
			clean = false;
			break;
		}
		FUZZ_CHECK(!clean || !b.broken);
		FUZZ_CHECK(budget.used_bytes <= budget.max_bytes);
	}
	done(&a);
	done(&b);
	FUZZ_CHECK(budget.used_bytes == 0 && enough.used_bytes == 0);
	return 0;
}

void fuzz_corpus(void)
{
	static const uint8_t turns[] = {0, 0x40, 6, 0, 2, 0, 0, 0, 0x10, 2, 1, 2, 2, 0, 0x80, 0, 0, 2};
	static const uint8_t large[] = {0, 0xf0, 0xff, 0x1f, 2, 1, 2, 1, 2, 1, 2};
	static const uint8_t hostile[] = {0, 0x20, 3, 0, 3, 0, 0, 0, 8, 16, 0, 0, 0, 0, 0, 0, 0, 2,
	                                  3, 128, 0, 0, 8, 8, 0, 0, 64, 8, 0, 0, 0, 2};
	fuzz_seed("turns", 0, turns, sizeof turns);
	fuzz_seed("large", 1, large, sizeof large);
	fuzz_seed("hostile", 2, hostile, sizeof hostile);
}
