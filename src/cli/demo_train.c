/* A trainer of the demo: reads shuffled parts of the step, checks each byte, writes a column back
 * and reads the next trainer's. */
#include "demo_hand.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_ROWS = 64, COLUMNS_AT_ONCE = 3, SHUFFLE_ROWS = 1, SHUFFLE_AGAIN, SHUFFLE_COLUMNS };

/* The rows of a step in an order of chance: the same for all trainers where `what` is. */
static void shuffle(const struct sy_demo_source *source, uint32_t what, uint32_t step,
                    uint32_t *items, uint32_t count)
{
	for (uint32_t left = count; left > 1; left--) {
		uint32_t chosen =
			(uint32_t)(sy_demo_source_random(source, 1000 + what, step, left) % left);
		uint32_t item = items[chosen];
		items[chosen] = items[left - 1];
		items[left - 1] = item;
	}
}

/* Which rows are whose: each row is one trainer's. */
static uint32_t *share_new(const struct sy_demo_hand *hand, uint32_t owner, uint32_t step,
                           uint32_t *ret_count)
{
	uint32_t rows = sy_demo_source_rows(hand->source, step);
	uint64_t first = (uint64_t)rows * owner / hand->count;
	uint64_t end = (uint64_t)rows * (owner + 1) / hand->count;
	uint32_t *items = calloc(rows, sizeof *items);
	if (items == NULL)
		return NULL;
	for (uint32_t i = 0; i < rows; i++)
		items[i] = i;
	shuffle(hand->source, SHUFFLE_ROWS, step, items, rows);
	memmove(items, items + first, (end - first) * sizeof *items);
	*ret_count = (uint32_t)(end - first);
	return items;
}

/* One get: some rows, some columns. */
struct part {
	struct sy_demo_hand *hand;
	uint32_t step;
	const uint32_t *rows, *columns;
	uint32_t row_count, column_count;
	int flags;
};

/* Of a copy the column's own arrays are used, of a view and of mixed columns each value. */
static bool part_value(const struct part *part, const sy_result *result,
                       const sy_got_column *column, uint32_t c, uint32_t k, sy_value *ret_value)
{
	if ((part->flags & SY_GET_VIEW) != 0 || column->mixed)
		return sy_result_value(result, (size_t)c * part->row_count + k, ret_value);
	if (column->found[k] == 0)
		return false;
	*ret_value = (sy_value){
		.data = (const uint8_t *)column->data + column->offsets[k],
		.nbytes = column->offsets[k + 1] - column->offsets[k],
		.dtype = column->dtype, .kind = column->kind, .rank = column->shape.rank,
		.dims = {column->dim0[k]},
	};
	for (uint32_t i = 1; i < column->shape.rank; i++)
		ret_value->dims[i] = column->shape.tail[i - 1];
	return true;
}

static bool part_check(const struct part *part, const sy_result *result)
{
	struct sy_demo_tally *tally = &part->hand->answer->tally;
	for (uint32_t c = 0; c < part->column_count; c++) {
		sy_got_column column;
		if (!sy_result_column(result, c, &column))
			return sy_demo_hand_fail(part->hand, "a column that was asked for is not there");
		for (uint32_t k = 0; k < part->row_count; k++) {
			sy_value value;
			bool found = part_value(part, result, &column, c, k, &value);
			if (!sy_demo_hand_check(part->hand, part->step, part->rows[k], part->columns[c],
			                        found ? &value : NULL))
				return false;
			tally->values += found;
			tally->bytes += found ? value.nbytes : 0;
		}
	}
	return true;
}

static bool part_read(const struct part *part)
{
	struct sy_demo_hand *hand = part->hand;
	uint64_t rows[BATCH_ROWS];
	const char *fields[COLUMNS_AT_ONCE];
	uint32_t index = 0;
	sy_error err = {.indexes = &index, .index_capacity = 1};
	sy_result *result = NULL;
	for (uint32_t k = 0; k < part->row_count; k++)
		rows[k] = part->rows[k];
	for (uint32_t c = 0; c < part->column_count; c++)
		fields[c] = sy_demo_hand_column(hand, part->columns[c]);
	uint64_t before = sy_demo_now_ns();
	sy_status status = sy_client_get_columns(hand->client, rows, part->row_count, fields,
	                                         part->column_count, part->flags, 0, &result, &err);
	hand->answer->tally.call_ns += sy_demo_now_ns() - before;
	if (status != SY_OK)
		return sy_demo_hand_fail(
			hand, "step %" PRIu32 ", row %" PRIu32 ", field %.80s: cannot be read: %s",
			part->step + 1, part->rows[index < part->row_count ? index : 0], fields[0],
			err.message);
	bool ok = part_check(part, result);
	sy_result_free(result);
	return ok;
}

/* Reads these columns of all the rows, batch by batch, copies and views in turn. */
static bool rows_read(struct sy_demo_hand *hand, uint32_t step, const uint32_t *rows,
                      uint32_t row_count, const uint32_t *columns, uint32_t column_count)
{
	bool ok = true;
	for (uint32_t at = 0; at < row_count && ok; at += BATCH_ROWS) {
		struct part part = {.hand = hand, .step = step, .rows = rows + at, .columns = columns,
		                    .column_count = column_count};
		part.row_count = row_count - at < BATCH_ROWS ? row_count - at : BATCH_ROWS;
		part.flags = at / BATCH_ROWS % 2 == 0 ? SY_GET_COPY : SY_GET_VIEW;
		ok = part_read(&part);
	}
	return ok;
}

/* Every column of every row of the share once, a few shuffled columns at a time, the rows in a
 * new order for each few. */
static bool share_read(struct sy_demo_hand *hand, uint32_t step, uint32_t *rows,
                       uint32_t row_count)
{
	uint32_t count = hand->source->column_count;
	uint32_t *columns = calloc(count, sizeof *columns);
	bool ok = columns != NULL;
	if (!ok)
		return sy_demo_hand_no_memory(hand);
	for (uint32_t i = 0; i < count; i++)
		columns[i] = i;
	shuffle(hand->source, SHUFFLE_COLUMNS + hand->number, step, columns, count);
	for (uint32_t at = 0; at < count && ok; at += COLUMNS_AT_ONCE) {
		uint32_t few = count - at < COLUMNS_AT_ONCE ? count - at : COLUMNS_AT_ONCE;
		shuffle(hand->source, SHUFFLE_AGAIN, step + at, rows, row_count);
		ok = rows_read(hand, step, rows, row_count, columns + at, few);
	}
	hand->answer->tally.rows += row_count;
	free(columns);
	return ok;
}

static bool rows_put(struct sy_demo_hand *hand, uint32_t step, const uint32_t *rows,
                     uint32_t count)
{
	uint64_t offsets[BATCH_ROWS + 1] = {0}, numbers[BATCH_ROWS];
	uint32_t written = hand->source->column_count, index = 0;
	const char *name = sy_demo_hand_column(hand, written);
	struct sy_text bytes = {0};
	sy_error err = {.indexes = &index, .index_capacity = 1};
	sy_status status = SY_OK;
	for (uint32_t k = 0; k < count; k++) {
		sy_value value = {0};
		sy_demo_source_value(hand->source, step, rows[k], written, &hand->scratch, &value);
		sy_text_add(&bytes, value.data, value.nbytes);
		numbers[k] = rows[k];
		offsets[k + 1] = bytes.bytes;
	}
	sy_put_column column = {.field = name, .field_bytes = strlen(name), .dtype = SY_DTYPE_F32,
	                        .kind = SY_KIND_TENSOR, .shape = {.rank = 1}, .data = bytes.data,
	                        .offsets = offsets};
	bool ok = !bytes.failed && !hand->scratch.failed;
	uint64_t before = sy_demo_now_ns();
	if (ok)
		status = sy_client_put_columns(hand->client, numbers, count, &column, 1, 0, &err);
	hand->answer->tally.call_ns += sy_demo_now_ns() - before;
	hand->answer->tally.rows += count;
	hand->answer->tally.values += count;
	hand->answer->tally.bytes += bytes.bytes;
	sy_text_done(&bytes);
	if (!ok)
		return sy_demo_hand_no_memory(hand);
	return status == SY_OK ||
	       sy_demo_hand_fail(hand, "step %" PRIu32 ", row %" PRIu32 ", field %s: not put: %s",
	                         step + 1, rows[index < count ? index : 0], name, err.message);
}

static bool share_put(struct sy_demo_hand *hand, uint32_t step, const uint32_t *rows,
                      uint32_t row_count)
{
	bool ok = true;
	for (uint32_t at = 0; at < row_count && ok; at += BATCH_ROWS)
		ok = rows_put(hand, step, rows + at,
		              row_count - at < BATCH_ROWS ? row_count - at : BATCH_ROWS);
	return ok;
}

/* What another wrote back, next to a column of the producers. */
static bool share_read_again(struct sy_demo_hand *hand, uint32_t step, const uint32_t *rows,
                             uint32_t row_count)
{
	const struct sy_demo_source *source = hand->source;
	uint64_t random = sy_demo_source_random(source, SHUFFLE_AGAIN, step, hand->number);
	const uint32_t columns[] = {source->column_count, (uint32_t)(random % source->column_count)};
	hand->answer->tally.rows += row_count;
	return rows_read(hand, step, rows, row_count, columns, 2);
}

/* What a client lets go of its units hear with its next message to them, at the latest with a
 * heartbeat. This is that message, so that the controller need not wait for its memory. */
static bool let_go(struct sy_demo_hand *hand)
{
	uint32_t units = sy_client_unit_count(hand->client);
	sy_unit_report *reports = calloc(units, sizeof *reports);
	sy_error err = {0};
	if (reports == NULL)
		return sy_demo_hand_no_memory(hand);
	sy_status status = sy_client_reports(hand->client, 0, reports, &err);
	free(reports);
	return status == SY_OK || sy_demo_hand_fail(hand, "%s", err.message);
}

bool sy_demo_hand_train(struct sy_demo_hand *hand, enum sy_demo_phase phase, uint32_t step)
{
	uint32_t row_count = 0;
	uint32_t owner = phase == SY_DEMO_READ_AGAIN ? (hand->number + 1) % hand->count : hand->number;
	uint32_t *rows = share_new(hand, owner, step, &row_count);
	bool ok;
	if (rows == NULL)
		return sy_demo_hand_no_memory(hand);
	if (phase == SY_DEMO_READ)
		ok = share_read(hand, step, rows, row_count);
	else if (phase == SY_DEMO_WRITE_BACK)
		ok = share_put(hand, step, rows, row_count);
	else
		ok = share_read_again(hand, step, rows, row_count);
	free(rows);
	return ok && let_go(hand);
}
