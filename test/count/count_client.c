/* Fixed work of the client's batch path, for callgrind: each case is a function of its own,
 * against the unit of the run directory given. run_count.py starts that and reads the counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slabyard/slabyard.h>

enum { ROWS = 512, FIELDS = 5, TOKENS_MAX = 512, KEYS = 1024, KEY_BYTES = 4096 };

struct work {
	sy_client *client;
	uint64_t rows[ROWS];
	uint64_t offsets[ROWS + 1];
	sy_put_column columns[FIELDS];
	const char *fields[FIELDS];
	sy_key keys[KEYS];
	sy_value values[KEYS];
	uint8_t *bytes; /* what is put */
};

static void check(sy_status status, const sy_error *err)
{
	if (status == SY_OK)
		return;
	fprintf(stderr, "count_client: %s: %s\n", sy_status_name(status), err->message);
	exit(1);
}

/* Rows in no order, as trainers ask for them; no two alike. */
static uint64_t row_of(uint64_t i)
{
	return i * 7919 % 100003;
}

static void fill(struct work *work)
{
	static const char *const names[FIELDS] = {"generation_logprobs", "input_ids", "input_lengths",
	                                          "sample_mask", "token_mask"};
	static const sy_dtype dtypes[FIELDS] = {SY_DTYPE_F32, SY_DTYPE_I64, SY_DTYPE_I64,
	                                        SY_DTYPE_F32, SY_DTYPE_F32};
	work->bytes = calloc(8, (size_t)ROWS * TOKENS_MAX);
	if (work->bytes == NULL)
		exit(1);
	for (uint64_t r = 0; r < ROWS; r++) {
		work->rows[r] = row_of(r);
		work->offsets[r + 1] = work->offsets[r] + 8 * (64 + r * 31 % (TOKENS_MAX - 64));
	}
	for (size_t f = 0; f < FIELDS; f++) {
		bool dense = f == 2 || f == 3;

		work->fields[f] = names[f];
		work->columns[f] = (sy_put_column){
			.field = names[f], .field_bytes = strlen(names[f]), .dtype = dtypes[f],
			.kind = SY_KIND_TENSOR, .shape = {.rank = dense ? 0 : 1}, .data = work->bytes,
		};
		if (dense)
			work->columns[f].row_bytes = work->columns[f].stride_bytes = f == 2 ? 8 : 4;
		else
			work->columns[f].offsets = work->offsets;
	}
	for (size_t k = 0; k < KEYS; k++) {
		work->keys[k] = (sy_key){.row = row_of(k), .field = "v", .field_bytes = 1};
		work->values[k] = (sy_value){.data = work->bytes + k % 64 * KEY_BYTES,
		                             .nbytes = KEY_BYTES, .kind = SY_KIND_BYTES};
	}
}

__attribute__((noinline)) static void count_put_columns(struct work *work)
{
	sy_error err = {0};

	check(sy_client_put_columns(work->client, work->rows, ROWS, work->columns, FIELDS, 0, &err),
	      &err);
}

__attribute__((noinline)) static void count_get_columns(struct work *work)
{
	sy_result *result = NULL;
	sy_error err = {0};

	check(sy_client_get_columns(work->client, work->rows, ROWS, work->fields, FIELDS, SY_GET_COPY,
	                            0, &result, &err), &err);
	sy_result_free(result);
}

__attribute__((noinline)) static void count_put_keys(struct work *work)
{
	sy_error err = {0};

	check(sy_client_put(work->client, work->keys, work->values, KEYS, 0, &err), &err);
}

__attribute__((noinline)) static void count_get_keys(struct work *work)
{
	sy_result *result = NULL;
	sy_error err = {0};

	check(sy_client_get(work->client, work->keys, KEYS, SY_GET_COPY, 0, &result, &err), &err);
	sy_result_free(result);
}

__attribute__((noinline)) static void count_view_keys(struct work *work)
{
	sy_result *result = NULL;
	sy_error err = {0};

	check(sy_client_get(work->client, work->keys, KEYS, SY_GET_VIEW, 0, &result, &err), &err);
	sy_result_free(result);
}

__attribute__((noinline)) static void count_clear(struct work *work)
{
	sy_error err = {0};

	check(sy_client_clear(work->client, work->rows, ROWS, NULL, 0, 0, NULL, &err), &err);
}

int main(int argc, char **argv)
{
	static struct work work;
	sy_client_options options = {.run_dir = argc == 2 ? argv[1] : NULL};
	sy_error err = {0};

	check(sy_client_open(&options, &work.client, &err), &err);
	fill(&work);
	count_put_columns(&work);
	count_get_columns(&work);
	count_put_keys(&work);
	count_get_keys(&work);
	count_view_keys(&work);
	count_clear(&work);
	sy_client_close(work.client);
	free(work.bytes);
	return 0;
}
