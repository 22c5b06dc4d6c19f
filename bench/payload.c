#include "payload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bytes.h"
#include "prng.h"

enum { TOKENS_MIN = 64, TOKENS_MAX = 512 };

void *payload_memory(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (memory == MAP_FAILED) {
		fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	return memory;
}

/* More, so that all rows at once have other bytes the next time; of one large row no more. */
static uint32_t slots_for(uint32_t row_count)
{
	return row_count + (row_count < 1024 ? row_count / 16 : 64);
}

static size_t data_bytes(const struct payload *payload, const struct payload_column *column)
{
	return sy_align_up((size_t)column->offsets[payload->slot_count] + 1, 8);
}

static void fill(struct payload *payload, struct payload_column *column, struct sy_prng *prng)
{
	size_t bytes = data_bytes(payload, column);

	column->data = payload_memory(bytes);
	for (size_t at = 0; at < bytes; at += 8)
		sy_store_u64(column->data + at, sy_prng_next(prng));
}

static void shuffle(struct sy_prng *prng, uint32_t *items, uint32_t count)
{
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)sy_prng_below(prng, i), item = items[i - 1];

		items[i - 1] = items[j];
		items[j] = item;
	}
}

static void make_keys(struct payload *payload, struct sy_prng *prng)
{
	uint32_t count = payload->row_count;

	payload->rows = payload_memory(count * sizeof *payload->rows);
	payload->order = payload_memory(count * sizeof *payload->order);
	payload->keys = payload_memory((size_t)count * payload->column_count * PAYLOAD_KEY_BYTES);
	for (uint32_t i = 0; i < count; i++)
		payload->order[i] = i;
	shuffle(prng, payload->order, count);
	for (uint32_t i = 0; i < count; i++)
		payload->rows[i] = payload->order[i];
	shuffle(prng, payload->order, count);
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t c = 0; c < payload->column_count; c++)
			snprintf((char *)(uintptr_t)payload_key(payload, i, c), PAYLOAD_KEY_BYTES, "%llu@%s",
			         (unsigned long long)payload->rows[i], payload->columns[c].field);
	}
}

void payload_make(struct payload *payload, uint32_t row_count, uint64_t value_bytes)
{
	struct payload_column *column = &payload->columns[0];
	struct sy_prng prng;

	sy_prng_seed(&prng, value_bytes);
	*payload = (struct payload){.row_count = row_count, .slot_count = slots_for(row_count),
	                            .column_count = 1};
	*column = (struct payload_column){.field = "v", .kind = SY_KIND_BYTES, .dense = true,
	                                  .max_bytes = value_bytes};
	column->offsets = payload_memory((payload->slot_count + (size_t)1) * sizeof *column->offsets);
	for (uint32_t i = 0; i <= payload->slot_count; i++)
		column->offsets[i] = i * value_bytes;
	fill(payload, column, &prng);
	make_keys(payload, &prng);
}

void payload_make_grpo(struct payload *payload, uint32_t row_count)
{
	/* In the order of their names. */
	static const struct payload_column columns[] = {
		{.field = "generation_logprobs", .dtype = SY_DTYPE_F32, .rank = 1},
		{.field = "input_ids", .dtype = SY_DTYPE_I64, .rank = 1},
		{.field = "input_lengths", .dtype = SY_DTYPE_I64, .dense = true},
		{.field = "sample_mask", .dtype = SY_DTYPE_F32, .dense = true},
		{.field = "token_mask", .dtype = SY_DTYPE_F32, .rank = 1},
	};
	struct sy_prng prng;
	uint32_t slot_count = slots_for(row_count);
	uint32_t *tokens = payload_memory(slot_count * sizeof *tokens);

	sy_prng_seed(&prng, row_count);
	*payload = (struct payload){.row_count = row_count, .slot_count = slot_count,
	                            .column_count = sizeof columns / sizeof columns[0]};
	memcpy(payload->columns, columns, sizeof columns);
	for (uint32_t i = 0; i < slot_count; i++)
		tokens[i] = TOKENS_MIN + (uint32_t)sy_prng_below(&prng, TOKENS_MAX - TOKENS_MIN + 1);
	for (uint32_t c = 0; c < payload->column_count; c++) {
		struct payload_column *column = &payload->columns[c];
		uint64_t element_bytes = sy_dtype_bytes(column->dtype);

		column->kind = SY_KIND_TENSOR;
		column->max_bytes = element_bytes * (column->dense ? 1 : TOKENS_MAX);
		column->offsets = payload_memory((slot_count + (size_t)1) * sizeof *column->offsets);
		for (uint32_t i = 0; i < slot_count; i++)
			column->offsets[i + 1] =
				column->offsets[i] + element_bytes * (column->dense ? 1 : tokens[i]);
		fill(payload, column, &prng);
	}
	munmap(tokens, slot_count * sizeof *tokens);
	make_keys(payload, &prng);
}

void payload_done(struct payload *payload)
{
	uint32_t count = payload->row_count;

	for (uint32_t c = 0; c < payload->column_count; c++) {
		struct payload_column *column = &payload->columns[c];

		munmap(column->data, data_bytes(payload, column));
		munmap(column->offsets, (payload->slot_count + (size_t)1) * sizeof *column->offsets);
	}
	munmap(payload->rows, count * sizeof *payload->rows);
	munmap(payload->order, count * sizeof *payload->order);
	munmap(payload->keys, (size_t)count * payload->column_count * PAYLOAD_KEY_BYTES);
}

uint64_t payload_bytes(const struct payload *payload, uint32_t slot, uint32_t count)
{
	uint64_t bytes = 0;

	for (uint32_t c = 0; c < payload->column_count; c++)
		bytes += payload->columns[c].offsets[slot + count] - payload->columns[c].offsets[slot];
	return bytes;
}
