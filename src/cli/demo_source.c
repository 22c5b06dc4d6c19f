#include "demo_source.h"
#include "bytes.h"
#include "demo_file.h"
#include "fail.h"

#include <stdio.h>

enum { GROUP_ROWS = 16, FILE_BATCH_ROWS = 16, LAYERS = 4, EXPERTS = 2, VOCABULARY = 151936 };

/* The columns of a seeded row. */
enum {
	INPUT_IDS,
	INPUT_LENGTHS,
	GENERATION_LOGPROBS,
	TOKEN_MASK,
	SAMPLE_MASK,
	ROUTED_EXPERTS,
	MESSAGE_LOG,
	COLUMN_COUNT,
	WRITTEN_BACK, /* for its random numbers alone */
	REWARD,
	PROMPT_LENGTH,
	RESPONSE_LENGTH,
};

static const char *const column_names[COLUMN_COUNT] = {
	[INPUT_IDS] = "input_ids",
	[INPUT_LENGTHS] = "input_lengths",
	[GENERATION_LOGPROBS] = "generation_logprobs",
	[TOKEN_MASK] = "token_mask",
	[SAMPLE_MASK] = "sample_mask",
	[ROUTED_EXPERTS] = "routed_experts",
	[MESSAGE_LOG] = "message_log",
};

static const char written_back[] = "advantages";

void sy_demo_source_init(struct sy_demo_source *source, uint64_t seed, uint32_t rows,
                         uint32_t steps)
{
	*source = (struct sy_demo_source){
		.seed = seed, .rows = rows, .steps = steps, .column_count = COLUMN_COUNT,
		.columns = column_names, .written_back = written_back,
	};
}

sy_status sy_demo_source_open(const char *path, uint64_t seed, uint32_t rows, uint32_t steps,
                              struct sy_demo_source *ret_source, sy_error *err)
{
	struct sy_demo_source source = {.seed = seed, .rows = rows, .written_back = written_back};
	sy_status status = sy_demo_file_open(path, rows, &source.file, err);
	if (status != SY_OK)
		return status;
	if (sy_demo_file_has_column(source.file, source.written_back))
		source.written_back = "advantages_of_the_demo";
	source.column_count = sy_demo_file_columns(source.file, &source.columns);
	source.steps = steps != 0 ? steps : sy_demo_file_steps(source.file);
	*ret_source = source;
	return SY_OK;
}

void sy_demo_source_done(struct sy_demo_source *source)
{
	sy_demo_file_close(source->file);
	source->file = NULL;
}

uint64_t sy_demo_source_random(const struct sy_demo_source *source, uint32_t what, uint32_t step,
                               uint64_t index)
{
	uint64_t place = sy_mix64(source->seed + 1) ^ ((uint64_t)what << 32 | step);
	return sy_mix64(sy_mix64(place) ^ index);
}

uint32_t sy_demo_source_rows(const struct sy_demo_source *source, uint32_t step)
{
	uint32_t first;
	return source->file != NULL ? sy_demo_file_step(source->file, step, &first) : source->rows;
}

/* The rows of a row's group, as rows of the step. */
static void group_of(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                     uint32_t *ret_first, uint32_t *ret_end)
{
	if (source->file == NULL) {
		uint32_t first = row - row % GROUP_ROWS;
		*ret_first = first;
		*ret_end = first + GROUP_ROWS < source->rows ? first + GROUP_ROWS : source->rows;
		return;
	}
	uint32_t step_first;
	sy_demo_file_step(source->file, step, &step_first);
	sy_demo_file_group(source->file, step_first + row, ret_first, ret_end);
	*ret_first -= step_first;
	*ret_end -= step_first;
}

uint32_t sy_demo_source_batch_end(const struct sy_demo_source *source, uint32_t step,
                                  uint32_t row)
{
	uint32_t first, end = row, count = sy_demo_source_rows(source, step);
	while (end < count && end - row < FILE_BATCH_ROWS)
		group_of(source, step, end, &first, &end);
	return end;
}

static bool reward_of(const struct sy_demo_source *source, uint32_t step, uint32_t row)
{
	uint32_t first;
	if (source->file == NULL)
		return (sy_demo_source_random(source, REWARD, step, row) & 1) != 0;
	sy_demo_file_step(source->file, step, &first);
	return sy_demo_file_verdict(source->file, first + row);
}

static uint32_t prompt_tokens(const struct sy_demo_source *source, uint32_t step, uint32_t row)
{
	return 16 + (uint32_t)(sy_demo_source_random(source, PROMPT_LENGTH, step, row / GROUP_ROWS) %
	                       240);
}

/* Jagged: between 17 and 1,023 tokens a row. */
static uint32_t all_tokens(const struct sy_demo_source *source, uint32_t step, uint32_t row)
{
	return prompt_tokens(source, step, row) + 1 +
	       (uint32_t)(sy_demo_source_random(source, RESPONSE_LENGTH, step, row) % 768);
}

/* Of a row of a file: about a token for four bytes of what it holds. */
static uint32_t file_tokens(const struct sy_demo_source *source, uint32_t file_row)
{
	uint64_t bytes = 0;
	for (uint32_t c = 0; c < source->column_count; c++) {
		sy_value value;
		if (sy_demo_file_value(source->file, file_row, c, &value))
			bytes += value.nbytes;
	}
	return (uint32_t)sy_min_u64(bytes / 4 + 1, 4096);
}

/* How much better than its group: as GRPO has it, without the division by the deviation. */
static float advantage_of(const struct sy_demo_source *source, uint32_t step, uint32_t row)
{
	uint32_t first, end, right = 0;
	group_of(source, step, row, &first, &end);
	for (uint32_t r = first; r < end; r++)
		right += reward_of(source, step, r);
	float mean = (float)right / (float)(end - first);
	return (reward_of(source, step, row) ? 1.0f : 0.0f) - mean;
}

/* One number a token: the row's advantage, fading, so that no two bytes' places are alike. */
static void advantages_make(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                            struct sy_text *scratch, sy_value *value)
{
	uint32_t first = 0;
	if (source->file != NULL)
		sy_demo_file_step(source->file, step, &first);
	uint32_t count = source->file != NULL ? file_tokens(source, first + row)
	                                      : all_tokens(source, step, row);
	float advantage = advantage_of(source, step, row);
	float *numbers = sy_text_extend(scratch, count * sizeof *numbers);
	for (uint32_t i = 0; numbers != NULL && i < count; i++)
		numbers[i] = advantage + (float)(step + 1) / (float)(i + 1);
	*value = (sy_value){.kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_F32, .rank = 1, .dims = {count}};
}

static uint64_t element_random(const struct sy_demo_source *source, uint32_t what, uint32_t step,
                               uint32_t row, uint32_t index)
{
	return sy_demo_source_random(source, what, step, (uint64_t)row << 32 | index);
}

static void input_ids_make(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                           uint32_t count, int64_t *ids)
{
	uint32_t prompt = prompt_tokens(source, step, row);
	for (uint32_t i = 0; i < count; i++) {
		/* The prompt is the same in all rows of the group. */
		uint32_t owner = i < prompt ? row - row % GROUP_ROWS : row;
		ids[i] = (int64_t)(element_random(source, INPUT_IDS, step, owner, i) % VOCABULARY);
	}
}

/* Every second step brings them as bf16, so that a row is reused with another type. */
static void logprobs_make(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                          uint32_t count, uint8_t *bytes)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t random = element_random(source, GENERATION_LOGPROBS, step, row, i);
		float logprob = -(float)(random & 0xffffff) / (float)0x200000;
		uint32_t bits;
		memcpy(&bits, &logprob, sizeof bits);
		if (step % 2 == 0)
			memcpy(bytes + i * sizeof bits, &bits, sizeof bits);
		else
			sy_store_u16(bytes + i * sizeof(uint16_t), (uint16_t)(bits >> 16));
	}
}

static void experts_make(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                         uint32_t count, int16_t *experts)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t random = element_random(source, ROUTED_EXPERTS, step, row, i);
		for (uint32_t k = 0; k < LAYERS * EXPERTS; k++)
			experts[i * LAYERS * EXPERTS + k] = (int16_t)(random >> (8 * k) & 0x7f);
	}
}

static void message_make(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                         struct sy_text *scratch)
{
	char text[160];
	const char *reward = reward_of(source, step, row) ? "1.0" : "0.0";
	snprintf(text, sizeof text,
	         "{\"step\":%u,\"prompt\":%u,\"generation\":%u,\"reward\":%s,\"truncated\":false}",
	         step, row / GROUP_ROWS, row % GROUP_ROWS, reward);
	sy_text_add_word(scratch, text);
}

static void seeded_make(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                        uint32_t column, struct sy_text *scratch, sy_value *value)
{
	uint32_t count = all_tokens(source, step, row);
	int64_t length = count;
	float one = 1.0f;
	uint32_t logprob_bytes = step % 2 == 0 ? 4 : 2;
	void *room;
	*value = (sy_value){.kind = SY_KIND_TENSOR, .rank = 1, .dims = {count}};
	switch (column) {
	case INPUT_IDS:
		value->dtype = SY_DTYPE_I64;
		room = sy_text_extend(scratch, (size_t)count * 8);
		if (room != NULL)
			input_ids_make(source, step, row, count, room);
		return;
	case GENERATION_LOGPROBS:
		value->dtype = step % 2 == 0 ? SY_DTYPE_F32 : SY_DTYPE_BF16;
		room = sy_text_extend(scratch, (size_t)count * logprob_bytes);
		if (room != NULL)
			logprobs_make(source, step, row, count, room);
		return;
	case TOKEN_MASK:
		value->dtype = SY_DTYPE_BOOL;
		room = sy_text_extend(scratch, count);
		if (room != NULL) {
			memset(room, 1, count);
			memset(room, 0, prompt_tokens(source, step, row));
		}
		return;
	case ROUTED_EXPERTS:
		*value = (sy_value){.kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_I16, .rank = 3,
		                    .dims = {count, LAYERS, EXPERTS}};
		room = sy_text_extend(scratch, (size_t)count * LAYERS * EXPERTS * 2);
		if (room != NULL)
			experts_make(source, step, row, count, room);
		return;
	case MESSAGE_LOG:
		*value = (sy_value){.kind = SY_KIND_JSON};
		message_make(source, step, row, scratch);
		return;
	case INPUT_LENGTHS:
		*value = (sy_value){.kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_I64};
		sy_text_add(scratch, &length, sizeof length);
		return;
	default: /* SAMPLE_MASK */
		*value = (sy_value){.kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_F32};
		sy_text_add(scratch, &one, sizeof one);
		return;
	}
}

bool sy_demo_source_value(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                          uint32_t column, struct sy_text *scratch, sy_value *ret_value)
{
	uint32_t first;
	sy_text_cut(scratch, 0);
	if (column < source->column_count && source->file != NULL) {
		sy_demo_file_step(source->file, step, &first);
		return sy_demo_file_value(source->file, first + row, column, ret_value);
	}
	if (column == source->column_count)
		advantages_make(source, step, row, scratch, ret_value);
	else
		seeded_make(source, step, row, column, scratch, ret_value);
	ret_value->data = scratch->data;
	ret_value->nbytes = scratch->bytes;
	return !scratch->failed;
}
