/* The client by columns, against a real cluster: dense, jagged, mixed, subsets, write-backs. */
#include "harness.h"

#include <slabyard/slabyard.h>
#include <string.h>

#include "cluster.h"
#include "prng.h"

enum { UNITS = 3, SLAB_BYTES = 32 << 20, ROWS = 512 };

static struct cluster cluster;
static sy_client *client;

static int start(void **state)
{
	sy_error err = {0};
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u};

	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	return sy_client_open(&options, &client, &err) == SY_OK ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

/* A batch as RL jobs put it: rows in any order, jagged token columns, dense scalars, text. */
struct batch {
	uint64_t rows[ROWS];
	uint64_t offsets[ROWS + 1], text_offsets[ROWS + 1];
	int64_t *ids;
	float *logprobs;
	int64_t lengths[ROWS];
	float image[ROWS][3][16]; /* dense, shape (3, 16) a row: 192 bytes, so rows run together */
	char *text;
};

static void batch_make(struct batch *batch, struct sy_prng *prng)
{
	uint64_t tokens = 0, chars = 0;

	for (size_t i = 0; i < ROWS; i++)
		batch->rows[i] = i * 5 + 3;
	for (size_t i = ROWS - 1; i > 0; i--) {
		size_t other = (size_t)sy_prng_below(prng, i + 1);
		uint64_t row = batch->rows[i];

		batch->rows[i] = batch->rows[other];
		batch->rows[other] = row;
	}
	for (size_t i = 0; i < ROWS; i++) {
		batch->lengths[i] = (int64_t)sy_prng_below(prng, 300);
		batch->offsets[i] = tokens * 8;
		batch->text_offsets[i] = chars;
		tokens += (uint64_t)batch->lengths[i];
		chars += sy_prng_below(prng, 200);
	}
	batch->offsets[ROWS] = tokens * 8;
	batch->text_offsets[ROWS] = chars;
	batch->ids = malloc(tokens * 8 + 8);
	batch->logprobs = malloc(tokens * 4 + 4);
	batch->text = malloc(chars + 1);
	for (uint64_t t = 0; t < tokens; t++) {
		batch->ids[t] = (int64_t)sy_prng_next(prng);
		batch->logprobs[t] = (float)sy_prng_below(prng, 1000000) * -1e-5f;
	}
	for (uint64_t c = 0; c < chars; c++)
		batch->text[c] = (char)('a' + sy_prng_below(prng, 26));
	for (size_t i = 0; i < sizeof batch->image / sizeof(float); i++)
		((float *)batch->image)[i] = (float)sy_prng_below(prng, 1000);
}

static void batch_done(struct batch *batch)
{
	free(batch->ids);
	free(batch->logprobs);
	free(batch->text);
}

static void batch_put(const struct batch *batch)
{
	uint64_t half[ROWS + 1];
	sy_put_column columns[] = {
		{.field = "input_ids", .field_bytes = 9, .dtype = SY_DTYPE_I64, .kind = SY_KIND_TENSOR,
		 .shape = {.rank = 1}, .data = batch->ids, .offsets = batch->offsets},
		{.field = "logprobs", .field_bytes = 8, .dtype = SY_DTYPE_F32, .kind = SY_KIND_TENSOR,
		 .shape = {.rank = 1}, .data = batch->logprobs, .offsets = half},
		{.field = "length", .field_bytes = 6, .dtype = SY_DTYPE_I64, .kind = SY_KIND_TENSOR,
		 .data = batch->lengths, .row_bytes = 8, .stride_bytes = 8},
		{.field = "image", .field_bytes = 5, .dtype = SY_DTYPE_F32, .kind = SY_KIND_TENSOR,
		 .shape = {.rank = 2, .tail = {16}}, .data = batch->image, .row_bytes = 192,
		 .stride_bytes = 192},
		{.field = "text", .field_bytes = 4, .kind = SY_KIND_UTF8, .data = batch->text,
		 .offsets = batch->text_offsets},
	};
	sy_error err = {0};

	for (size_t i = 0; i <= ROWS; i++)
		half[i] = batch->offsets[i] / 2;
	if (sy_client_put_columns(client, batch->rows, ROWS, columns, COUNT_OF(columns), 0, &err) !=
	    SY_OK)
		fail_msg("%s", err.message);
	cluster.put_bytes += batch->offsets[ROWS] + half[ROWS] + sizeof batch->lengths +
	                     sizeof batch->image + batch->text_offsets[ROWS];
}

static void expect_bytes(const sy_got_column *column, size_t k, const void *data, uint64_t nbytes)
{
	assert_true(column->found[k]);
	assert_int_equal(column->offsets[k + 1] - column->offsets[k], nbytes);
	if (nbytes > 0)
		assert_memory_equal((const char *)column->data + column->offsets[k], data, nbytes);
}

/* Reads a shuffled subset of rows by these fields and compares every byte. */
static void batch_check(const struct batch *batch, struct sy_prng *prng, size_t count)
{
	const char *fields[] = {"length", "input_ids", "text", "image"};
	uint64_t rows[ROWS];
	size_t from[ROWS];
	bool seen[ROWS] = {0}; /* a row that is asked twice travels once */
	sy_result *result;
	sy_got_column length, ids, text, image;
	sy_error err = {0};

	for (size_t i = 0; i < count; i++) {
		from[i] = (size_t)sy_prng_below(prng, ROWS);
		rows[i] = batch->rows[from[i]];
	}
	if (sy_client_get_columns(client, rows, count, fields, 4, 0, 0, &result, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_true(sy_result_column(result, 0, &length));
	assert_true(sy_result_column(result, 1, &ids));
	assert_true(sy_result_column(result, 2, &text));
	assert_true(sy_result_column(result, 3, &image));
	assert_true(length.dense && image.dense && !ids.mixed);
	assert_int_equal(ids.dtype, SY_DTYPE_I64);
	assert_int_equal(ids.shape.rank, 1);
	assert_int_equal(image.shape.rank, 2);
	assert_int_equal(image.shape.tail[0], 16);
	assert_int_equal(text.kind, SY_KIND_UTF8);
	for (size_t k = 0; k < count; k++) {
		size_t i = from[k];

		expect_bytes(&length, k, &batch->lengths[i], 8);
		expect_bytes(&ids, k, (const char *)batch->ids + batch->offsets[i],
		             batch->offsets[i + 1] - batch->offsets[i]);
		expect_bytes(&text, k, batch->text + batch->text_offsets[i],
		             batch->text_offsets[i + 1] - batch->text_offsets[i]);
		expect_bytes(&image, k, batch->image[i], 192);
		assert_int_equal(ids.dim0[k], batch->lengths[i]);
		if (!seen[i])
			cluster.got_bytes += 8 + ids.offsets[k + 1] - ids.offsets[k] +
			                     text.offsets[k + 1] - text.offsets[k] + 192;
		seen[i] = true;
	}
	sy_result_free(result);
}

static uint64_t free_bytes(void)
{
	sy_unit_report reports[UNITS];
	uint64_t sum = 0;

	assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
	for (int u = 0; u < UNITS; u++)
		sum += reports[u].bytes[0].value; /* the first of SY_BYTES_LIST is free */
	return sum;
}

static void test_batches(void **state)
{
	struct sy_prng prng;
	uint64_t before = free_bytes(), entries;

	(void)state;
	sy_prng_seed(&prng, harness_seed());
	for (int step = 0; step < 3; step++) {
		struct batch batch;

		batch_make(&batch, &prng);
		batch_put(&batch);
		batch_check(&batch, &prng, ROWS);
		batch_check(&batch, &prng, 1);
		batch_check(&batch, &prng, 100);
		assert_int_equal(sy_client_clear(client, batch.rows, ROWS, NULL, 0, 0, &entries, NULL),
		                 SY_OK);
		assert_int_equal(entries, ROWS * 5);
		assert_int_equal(free_bytes(), before);
		batch_done(&batch);
	}
}

static void test_absent_and_mixed(void **state)
{
	const char *fields[] = {"a", "b"};
	uint64_t rows[] = {1, 2, 3};
	sy_key keys[] = {{1, "a", 1}, {2, "a", 1}, {3, "b", 1}};
	sy_value values[] = {
		{.data = "xy", .nbytes = 2, .kind = SY_KIND_BYTES},
		{.data = "wxyz", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_I32},
		{.data = "", .nbytes = 0, .kind = SY_KIND_UTF8},
	};
	sy_result *result;
	sy_got_column a, b;
	sy_value value;

	(void)state;
	assert_int_equal(sy_client_put(client, keys, values, 3, 0, NULL), SY_OK);
	assert_int_equal(sy_client_get_columns(client, rows, 3, fields, 2, 0, 0, &result, NULL),
	                 SY_OK);
	assert_true(sy_result_column(result, 0, &a) && sy_result_column(result, 1, &b));
	assert_true(a.mixed);
	assert_false(a.dense);
	assert_int_equal(a.found_count, 2);
	assert_int_equal(a.found[2], 0);
	assert_int_equal(b.found_count, 1);
	assert_int_equal(b.found[2], 1);
	assert_true(sy_result_value(result, 1, &value)); /* column 0, row 1 */
	assert_int_equal(value.dtype, SY_DTYPE_I32);
	assert_memory_equal(value.data, "wxyz", 4);
	assert_false(sy_result_value(result, 2, &value));
	assert_true(sy_result_value(result, 5, &value)); /* column 1, row 2 */
	assert_int_equal(value.nbytes, 0);
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, rows, 3, fields, 1, 0, NULL, NULL), SY_OK);
	assert_int_equal(sy_client_get_columns(client, rows, 3, fields, 2, SY_GET_VIEW, 0, &result,
	                                       NULL), SY_OK);
	assert_true(sy_result_column(result, 0, &a) && sy_result_column(result, 1, &b));
	assert_int_equal(a.found_count, 0);
	assert_int_equal(b.found_count, 1);
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, rows, 3, NULL, 0, 0, NULL, NULL), SY_OK);
}

static void test_many_rows(void **state)
{
	enum { MANY = 100000 };
	uint64_t *rows = malloc(MANY * sizeof *rows), before = free_bytes(), entries;
	int64_t *data = malloc(MANY * sizeof *data);
	const char *fields[] = {"n"};
	sy_put_column column = {.field = "n", .field_bytes = 1, .dtype = SY_DTYPE_I64,
	                        .kind = SY_KIND_TENSOR, .data = data, .row_bytes = 8,
	                        .stride_bytes = 8};
	sy_result *result;
	sy_got_column got;
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < MANY; i++) {
		rows[i] = UINT64_MAX - i;
		data[i] = (int64_t)(i * i);
	}
	if (sy_client_put_columns(client, rows, MANY, &column, 1, 0, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(sy_client_get_columns(client, rows, MANY, fields, 1, 0, 0, &result, NULL),
	                 SY_OK);
	assert_true(sy_result_column(result, 0, &got));
	assert_true(got.dense);
	assert_memory_equal(got.data, data, MANY * sizeof *data);
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, rows, MANY, NULL, 0, 0, &entries, NULL), SY_OK);
	assert_int_equal(entries, MANY);
	assert_int_equal(free_bytes(), before);
	free(rows);
	free(data);
}

static void test_nothing(void **state)
{
	const char *fields[] = {"n"};
	sy_put_column column = {.field = "n", .field_bytes = 1, .kind = SY_KIND_BYTES};
	sy_result *result;
	sy_got_column got;

	(void)state;
	assert_int_equal(sy_client_put_columns(client, NULL, 0, &column, 1, 0, NULL), SY_OK);
	assert_int_equal(sy_client_get_columns(client, NULL, 0, fields, 1, 0, 0, &result, NULL),
	                 SY_OK);
	assert_true(sy_result_column(result, 0, &got));
	assert_int_equal(got.found_count, 0);
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, NULL, 0, NULL, 0, 0, NULL, NULL), SY_OK);
}

static void test_row_twice(void **state)
{
	uint64_t rows[] = {4, 4};
	sy_put_column column = {.field = "n", .field_bytes = 1, .kind = SY_KIND_BYTES, .data = "ab",
	                        .row_bytes = 1, .stride_bytes = 1};
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_E_INVALID);
}

/* Each row of a listed column has a kind and a shape of its own, and lies anywhere. */
static void test_listed(void **state)
{
	const uint64_t rows[] = {31, 33, 32};
	const float pair[] = {1.5f, -2.5f};
	const sy_value values[] = {
		{.data = "text", .nbytes = 4, .kind = SY_KIND_UTF8},
		{.data = pair, .nbytes = sizeof pair, .dtype = SY_DTYPE_F32, .kind = SY_KIND_TENSOR,
		 .rank = 1, .dims = {2}},
		{.kind = SY_KIND_BYTES},
	};
	const char *fields[] = {"listed"};
	sy_put_column column = {.field = "listed", .field_bytes = 6, .values = values};
	sy_value wrong[3];
	sy_result *result;
	sy_got_column got;
	sy_value value;
	sy_error err = {0};

	(void)state;
	if (sy_client_put_columns(client, rows, 3, &column, 1, 0, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(sy_client_get_columns(client, rows, 3, fields, 1, 0, 0, &result, NULL),
	                 SY_OK);
	assert_true(sy_result_column(result, 0, &got));
	assert_true(got.mixed);
	for (size_t k = 0; k < 3; k++) {
		assert_true(sy_result_value(result, k, &value));
		assert_int_equal(value.kind, values[k].kind);
		assert_int_equal(value.rank, values[k].rank);
		assert_int_equal(value.nbytes, values[k].nbytes);
		assert_memory_equal(value.data, values[k].data, values[k].nbytes);
	}
	sy_result_free(result);
	memcpy(wrong, values, sizeof wrong);
	wrong[1].dims[0] = 3;
	column.values = wrong;
	assert_int_equal(sy_client_put_columns(client, rows, 3, &column, 1, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_clear(client, rows, 3, NULL, 0, 0, NULL, NULL), SY_OK);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_batches),        cmocka_unit_test(test_absent_and_mixed),
		cmocka_unit_test(test_many_rows),      cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_row_twice),      cmocka_unit_test(test_listed),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
