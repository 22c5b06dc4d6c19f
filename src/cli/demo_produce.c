/* A producer of the demo: puts groups of rows as columns. */
#include "demo_hand.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* One batch on its way. Columns that all rows have in one form go as columns; whatever is odd
 * goes by keys. */
struct batch {
	struct sy_demo_hand *hand;
	uint32_t step, first, count; /* rows first .. first + count - 1 */
	uint64_t *rows;
	sy_put_column *columns;
	size_t column_count;
	uint64_t *offsets; /* count + 1 a column */
	struct sy_text bytes;
	sy_key *keys;
	sy_value *values;
	size_t *starts; /* of the values, in bytes, which moves as it grows */
	size_t key_count;
};

static bool shape_equal(const sy_value *a, const sy_value *b)
{
	if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank)
		return false;
	for (uint32_t i = 1; i < a->rank; i++) {
		if (a->dims[i] != b->dims[i])
			return false;
	}
	return true;
}

/* Adds the values of a column one behind the other; true if they are a column. */
static bool column_gather(struct batch *batch, uint32_t column, sy_value *ret_form,
                          uint64_t *offsets)
{
	struct sy_demo_hand *hand = batch->hand;
	offsets[0] = 0;
	for (uint32_t k = 0; k < batch->count; k++) {
		sy_value value;
		if (!sy_demo_source_value(hand->source, batch->step, batch->first + k, column,
		                          &hand->scratch, &value))
			return false;
		if (k > 0 && !shape_equal(ret_form, &value))
			return false;
		*ret_form = value;
		sy_text_add(&batch->bytes, value.data, value.nbytes);
		offsets[k + 1] = offsets[k] + value.nbytes;
	}
	return true;
}

static void cells_add(struct batch *batch, uint32_t column)
{
	struct sy_demo_hand *hand = batch->hand;
	const char *name = sy_demo_hand_column(hand, column);
	for (uint32_t k = 0; k < batch->count; k++) {
		sy_value value;
		if (!sy_demo_source_value(hand->source, batch->step, batch->first + k, column,
		                          &hand->scratch, &value))
			continue;
		batch->keys[batch->key_count] = (sy_key){batch->first + k, name, strlen(name)};
		batch->values[batch->key_count] = value;
		batch->starts[batch->key_count++] = batch->bytes.bytes;
		sy_text_add(&batch->bytes, value.data, value.nbytes);
	}
}

static void column_add(struct batch *batch, uint32_t column)
{
	const char *name = sy_demo_hand_column(batch->hand, column);
	size_t start = batch->bytes.bytes;
	uint64_t *offsets = batch->offsets + batch->column_count * (batch->count + 1);
	sy_value form = {0};
	if (!column_gather(batch, column, &form, offsets)) {
		sy_text_cut(&batch->bytes, start);
		cells_add(batch, column);
		return;
	}
	sy_put_column *added = &batch->columns[batch->column_count++];
	*added = (sy_put_column){.field = name, .field_bytes = strlen(name), .dtype = form.dtype,
	                         .kind = form.kind, .shape = {.rank = form.rank}};
	for (uint32_t i = 1; i < form.rank; i++)
		added->shape.tail[i - 1] = form.dims[i];
	/* Rows of one length go as a dense column, others as a jagged one. */
	bool is_dense = true;
	for (uint32_t k = 1; k < batch->count; k++)
		is_dense = is_dense && offsets[k + 1] - offsets[k] == offsets[1];
	added->offsets = is_dense ? NULL : offsets;
	added->row_bytes = is_dense ? offsets[1] : 0;
	added->stride_bytes = added->row_bytes;
	added->data = (const void *)(uintptr_t)start; /* made an address once nothing moves */
}

static bool put_failed(struct batch *batch, const sy_error *err, uint32_t index)
{
	struct sy_demo_hand *hand = batch->hand;
	bool by_column = batch->column_count > 0;
	uint32_t row = batch->first;
	if (err->index_count > 0 && by_column)
		row += index < batch->count ? index : 0;
	else if (err->index_count > 0 && index < batch->key_count)
		row = (uint32_t)batch->keys[index].row;
	return sy_demo_hand_fail(hand, "step %" PRIu32 ", row %" PRIu32 ", field %.80s: not put: %s",
	                         batch->step + 1, row,
	                         by_column ? batch->columns[0].field : batch->keys[0].field,
	                         err->message);
}

static bool batch_put(struct batch *batch)
{
	struct sy_demo_hand *hand = batch->hand;
	uint32_t index = 0;
	sy_error err = {.indexes = &index, .index_capacity = 1};
	sy_status status = SY_OK;
	if (batch->bytes.failed || hand->scratch.failed)
		return sy_demo_hand_no_memory(hand);
	for (size_t c = 0; c < batch->column_count; c++)
		batch->columns[c].data = batch->bytes.data + (uintptr_t)batch->columns[c].data;
	for (size_t i = 0; i < batch->key_count; i++)
		batch->values[i].data = batch->bytes.data + batch->starts[i];
	for (uint32_t k = 0; k < batch->count; k++)
		batch->rows[k] = batch->first + k;
	uint64_t before = sy_demo_now_ns();
	if (batch->column_count > 0)
		status = sy_client_put_columns(hand->client, batch->rows, batch->count, batch->columns,
		                               batch->column_count, 0, &err);
	if (status == SY_OK && batch->key_count > 0) {
		status = sy_client_put(hand->client, batch->keys, batch->values, batch->key_count, 0,
		                       &err);
		batch->column_count = status == SY_OK ? batch->column_count : 0;
	}
	hand->answer->tally.call_ns += sy_demo_now_ns() - before;
	if (status != SY_OK)
		return put_failed(batch, &err, index);
	hand->answer->tally.rows += batch->count;
	hand->answer->tally.values += batch->column_count * batch->count + batch->key_count;
	hand->answer->tally.bytes += batch->bytes.bytes;
	return true;
}

static bool batch_make(struct sy_demo_hand *hand, uint32_t step, uint32_t first, uint32_t count)
{
	uint32_t columns = hand->source->column_count;
	size_t cells = (size_t)columns * count;
	struct batch batch = {.hand = hand, .step = step, .first = first, .count = count};
	batch.rows = calloc(count, sizeof *batch.rows);
	batch.columns = calloc(columns, sizeof *batch.columns);
	batch.offsets = calloc((size_t)columns * (count + 1), sizeof *batch.offsets);
	batch.keys = calloc(cells, sizeof *batch.keys);
	batch.values = calloc(cells, sizeof *batch.values);
	batch.starts = calloc(cells, sizeof *batch.starts);
	bool ok = batch.rows != NULL && batch.columns != NULL && batch.offsets != NULL &&
	          batch.keys != NULL && batch.values != NULL && batch.starts != NULL;
	sy_text_add_char(&batch.bytes, '.'); /* so that it has an address, if no value has bytes */
	sy_text_cut(&batch.bytes, 0);
	for (uint32_t c = 0; c < columns && ok; c++)
		column_add(&batch, c);
	ok = ok ? batch_put(&batch) : sy_demo_hand_no_memory(hand);
	free(batch.rows);
	free(batch.columns);
	free(batch.offsets);
	free(batch.keys);
	free(batch.values);
	free(batch.starts);
	sy_text_done(&batch.bytes);
	return ok;
}

/* Batches are dealt out to the producers one after the other. */
bool sy_demo_hand_produce(struct sy_demo_hand *hand, uint32_t step)
{
	uint32_t rows = sy_demo_source_rows(hand->source, step), batch = 0;
	bool ok = true;
	for (uint32_t first = 0, end; first < rows && ok; first = end) {
		end = sy_demo_source_batch_end(hand->source, step, first);
		if (batch++ % hand->count == hand->number)
			ok = batch_make(hand, step, first, end - first);
	}
	return ok;
}
