/* What the benchmarks store: rows of one or more columns, random bytes, keys in random order.
 *
 * A row is known by its *position*, 0 .. row_count - 1. Its number is rows[position], a random
 * permutation. Batches take positions side by side, so that a batch is replaced as a whole and
 * yet has rows from everywhere; single rows are taken in the order of order[], another one.
 *
 * The bytes lie in *slots*, some more than rows, side by side column by column. A put writes rows
 * from slots that follow each other, another range each time; held[position] remembers which slot
 * a contender has the bytes of: so a get that returns older bytes, or another row's, is seen. */
#ifndef SY_BENCH_PAYLOAD_H
#define SY_BENCH_PAYLOAD_H

#include <slabyard/client.h>

enum { PAYLOAD_COLUMNS_MAX = 5, PAYLOAD_KEY_BYTES = 40 };

#define PAYLOAD_EMPTY UINT32_MAX /* in held: the row is absent */

struct payload_column {
	const char *field;
	sy_dtype dtype;
	sy_kind kind;
	uint32_t rank;     /* of a tensor */
	uint64_t max_bytes; /* of the longest row */
	bool dense;        /* all rows are max_bytes long */
	uint8_t *data;     /* slot s: data + offsets[s] .. data + offsets[s + 1] */
	uint64_t *offsets;
};

struct payload {
	uint32_t row_count, slot_count, column_count;
	struct payload_column columns[PAYLOAD_COLUMNS_MAX];
	uint64_t *rows;   /* the row number of each position */
	uint32_t *order;  /* positions in random order */
	char *keys;       /* "row@field", PAYLOAD_KEY_BYTES each, column_count a position */
};

/* Rows of one value of so many bytes. Ends the program where there is no memory. */
void payload_make(struct payload *payload, uint32_t row_count, uint64_t value_bytes);
/* Rows of a GRPO step: input_ids, log-probs and masks of 64 to 512 tokens, two scalars. */
void payload_make_grpo(struct payload *payload, uint32_t row_count);
void payload_done(struct payload *payload);

/* Rows that one operation is about. */
struct batch {
	const struct payload *payload;
	const uint32_t *positions;
	const uint64_t *rows; /* their numbers */
	uint32_t count;
	uint32_t slot; /* of the first row's bytes; the others follow */
};

static inline const char *payload_key(const struct payload *payload, uint32_t position,
                                      uint32_t column)
{
	return payload->keys +
	       ((size_t)position * payload->column_count + column) * PAYLOAD_KEY_BYTES;
}

static inline const uint8_t *payload_value(const struct payload *payload, uint32_t slot,
                                           uint32_t column, size_t *ret_bytes)
{
	const struct payload_column *of = &payload->columns[column];

	*ret_bytes = (size_t)(of->offsets[slot + 1] - of->offsets[slot]);
	return of->data + of->offsets[slot];
}

/* Bytes of so many slots, all columns. */
uint64_t payload_bytes(const struct payload *payload, uint32_t slot, uint32_t count);

/* Private memory, its pages there. Ends the program where there is none. */
void *payload_memory(size_t bytes);

#endif
