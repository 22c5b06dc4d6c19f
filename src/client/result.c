#include "result.h"

#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "fail.h"
#include "guard.h"

static sy_status new_result(const struct sy_items *items, size_t shape_count,
                            size_t column_count, struct sy_result **ret_result, sy_error *err)
{
	struct sy_result *result = calloc(1, sizeof *result);

	if (result != NULL) {
		result->items = calloc(items->source_count + 1, sizeof *result->items);
		result->shapes = calloc(shape_count + 1, sizeof *result->shapes);
	}
	if (result == NULL || result->items == NULL || result->shapes == NULL) {
		sy_result_free(result);
		return sy_fail(err, SY_E_SYS, "sy_result_new", "out of memory");
	}
	result->count = items->source_count;
	result->shape_count = (uint32_t)shape_count;
	result->column_count = column_count;
	result->row_count = column_count == 0 ? 0 : items->source_count / column_count;
	*ret_result = result;
	return SY_OK;
}

sy_status sy_result_new(const struct sy_items *items, const struct sy_lookup *lookup,
                        size_t column_count, struct sy_result **ret_result, sy_error *err)
{
	struct sy_result *result = NULL;
	size_t shape_count = 0;

	for (size_t p = 0; p < lookup->part_count; p++)
		shape_count += lookup->parts[p].call.op.reply.resolved.shape_count;
	sy_status status = new_result(items, shape_count, column_count, &result, err);
	if (status != SY_OK)
		return status;

	uint32_t shapes_before = 0;
	for (size_t p = 0; p < lookup->part_count; p++) {
		const struct sy_lookup_part *part = &lookup->parts[p];
		const struct sy_resolved *in = &part->call.op.reply.resolved;

		memcpy(result->shapes + shapes_before, in->shapes, in->shape_count * sizeof *in->shapes);
		for (size_t i = part->first, k = 0; i < part->last; i++) {
			k = sy_lookup_key(part, i, k);
			struct sy_result_item *item = &result->items[items->items[i].source];

			item->found = in->found[k];
			if (item->found == SY_FOUND_ABSENT)
				continue;
			item->nbytes = in->nbytes[k];
			item->dim0 = in->dim0[k];
			item->dtype = in->dtype[k];
			item->kind = in->kind[k];
			item->shape = shapes_before + in->tail[k];
		}
		shapes_before += in->shape_count;
	}
	*ret_result = result;
	return SY_OK;
}

/* What one half answered goes into the result of both. */
static void take_half(struct sy_result *result, const struct sy_result *half,
                      const struct sy_items *items, uint32_t shapes_before)
{
	memcpy(result->shapes + shapes_before, half->shapes,
	       half->shape_count * sizeof *half->shapes);
	for (size_t i = 0; i < items->count; i++) {
		size_t source = items->items[i].source;

		result->items[source] = half->items[source];
		result->items[source].shape += shapes_before;
	}
}

static void copy_half(const struct sy_result *result, const struct sy_result *half,
                      const struct sy_items *items)
{
	for (size_t i = 0; i < items->count; i++) {
		const struct sy_result_item *from = &half->items[items->items[i].source];
		uint8_t *to = (uint8_t *)(uintptr_t)result->items[items->items[i].source].data;

		if (from->nbytes > 0)
			memcpy(to, from->data, from->nbytes);
	}
}

sy_status sy_result_join(struct sy_result *const halves[2], const struct sy_items items[2],
                         size_t column_count, struct sy_result **ret_result, sy_error *err)
{
	uint32_t first_shapes = halves[0]->shape_count;
	struct sy_result *result = NULL;
	sy_status status = new_result(&items[0], first_shapes + halves[1]->shape_count, column_count,
	                              &result, err);

	if (status != SY_OK)
		return status;
	take_half(result, halves[0], &items[0], 0);
	take_half(result, halves[1], &items[1], first_shapes);
	status = sy_result_layout(result, err);
	for (int i = 0; status == SY_OK && i < 2; i++)
		copy_half(result, halves[i], &items[i]);
	if (status != SY_OK)
		sy_result_free(result);
	else
		*ret_result = result;
	return status;
}

/* A sum that would wrap around becomes one that no block is as large as. */
static size_t plus(size_t at, uint64_t nbytes)
{
	const size_t limit = SIZE_MAX / 4;

	return at > limit || nbytes > limit - at ? SIZE_MAX / 2 + 1 : at + nbytes;
}

/* Columns packed, each from a cache line on: `at` becomes where each begins. Walks go over items
 * as they lie, row by row. */
static size_t lay_columns(struct sy_result *result, size_t *at)
{
	size_t columns = result->column_count, end = 0;

	memset(at, 0, columns * sizeof *at);
	for (size_t i = 0; i < result->count; i += columns) {
		for (size_t c = 0; c < columns; c++)
			at[c] = plus(at[c], result->items[i + c].nbytes);
	}
	for (size_t c = 0; c < columns; c++) {
		size_t start = sy_align_up(end, SY_ENTRY_ALIGN_BYTES);

		end = plus(start, at[c]);
		at[c] = start;
	}
	return end;
}

static void point_columns(struct sy_result *result, size_t *at)
{
	size_t columns = result->column_count;

	for (size_t i = 0; i < result->count; i += columns) {
		for (size_t c = 0; c < columns; c++) {
			result->items[i + c].data = result->memory + at[c];
			at[c] += result->items[i + c].nbytes;
		}
	}
}

/* Keys one after the other, each at a cache line. */
static size_t lay_keys(const struct sy_result *result)
{
	size_t at = 0;

	for (size_t i = 0; i < result->count; i++)
		at = plus(at, sy_align_up(result->items[i].nbytes, SY_ENTRY_ALIGN_BYTES));
	return at;
}

static void point_keys(struct sy_result *result)
{
	size_t at = 0;

	for (size_t i = 0; i < result->count; i++) {
		result->items[i].data = result->memory + at;
		at += sy_align_up(result->items[i].nbytes, SY_ENTRY_ALIGN_BYTES);
	}
}

sy_status sy_result_layout(struct sy_result *result, sy_error *err)
{
	size_t columns = result->column_count;
	size_t *at = malloc((columns + 1) * sizeof *at);
	size_t end = 0;

	if (at != NULL) {
		end = columns > 0 ? lay_columns(result, at) : lay_keys(result);
		result->memory = sy_block_new(end);
		result->memory_bytes = end;
	}
	if (result->memory == NULL) {
		free(at);
		return sy_fail(err, SY_E_SYS, __func__, "no memory for a result of %zu bytes", end);
	}
	if (columns > 0)
		point_columns(result, at);
	else
		point_keys(result);
	free(at);
	return SY_OK;
}

static bool same_form(const struct sy_result *result, const struct sy_result_item *a,
                      const struct sy_result_item *b)
{
	const sy_shape *x = &result->shapes[a->shape], *y = &result->shapes[b->shape];

	return a->dtype == b->dtype && a->kind == b->kind &&
	       (a->shape == b->shape ||
	        (x->rank == y->rank && memcmp(x->tail, y->tail, sizeof x->tail) == 0));
}

/* One walk over the items, which lie row by row: `leads` holds the first there of each column. */
static void summarize(struct sy_result *result, const struct sy_result_item **leads)
{
	size_t rows = result->row_count, columns = result->column_count;
	const struct sy_result_item *item = result->items;

	for (size_t r = 0; r < rows; r++) {
		for (size_t c = 0; c < columns; c++, item++) {
			sy_got_column *column = &result->columns[c];
			uint64_t *offset = &result->offsets[c * (rows + 1) + r];
			bool found = item->found != SY_FOUND_ABSENT;

			result->found[c * rows + r] = found;
			result->dim0[c * rows + r] = item->dim0;
			offset[1] = offset[0] + item->nbytes;
			if (!found)
				continue;
			if (leads[c] == NULL)
				leads[c] = item;
			column->found_count++;
			column->mixed |= !same_form(result, leads[c], item);
			column->dense &= item->nbytes == leads[c]->nbytes && item->dim0 == leads[c]->dim0;
		}
	}
}

static void summarize_column(struct sy_result *result, size_t c,
                             const struct sy_result_item *lead)
{
	sy_got_column *column = &result->columns[c];

	column->dense = column->dense && !column->mixed && column->found_count == result->row_count;
	if (lead != NULL) {
		column->dtype = (sy_dtype)lead->dtype;
		column->kind = (sy_kind)lead->kind;
		column->shape = result->shapes[lead->shape];
	}
	if (result->row_count > 0 && result->memory != NULL)
		column->data = result->items[c].data;
}

sy_status sy_result_summarize(struct sy_result *result, sy_error *err)
{
	size_t columns = result->column_count, rows = result->row_count, cells = columns * rows;
	const struct sy_result_item **leads = calloc(columns + 1, sizeof(void *));

	result->columns = calloc(columns + 1, sizeof *result->columns);
	result->offsets = malloc((cells + columns + 1) * sizeof *result->offsets);
	result->found = malloc(cells + 1);
	result->dim0 = malloc((cells + 1) * sizeof *result->dim0);
	if (leads == NULL || result->columns == NULL || result->offsets == NULL ||
	    result->found == NULL || result->dim0 == NULL) {
		free(leads);
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	for (size_t c = 0; c < columns; c++) {
		uint64_t *offsets = result->offsets + c * (rows + 1);

		offsets[0] = 0;
		result->columns[c] = (sy_got_column){
			.offsets = offsets, .found = result->found + c * rows,
			.dim0 = result->dim0 + c * rows, .dense = true,
		};
	}
	summarize(result, leads);
	for (size_t c = 0; c < columns; c++)
		summarize_column(result, c, leads[c]);
	free(leads);
	return SY_OK;
}

size_t sy_result_count(const sy_result *result)
{
	return result->count;
}

bool sy_result_value(const sy_result *result, size_t i, sy_value *ret_value)
{
	if (i >= result->count)
		return false;
	if (result->column_count > 0) /* column by column for the caller, row by row here */
		i = i % result->row_count * result->column_count + i / result->row_count;

	const struct sy_result_item *item = &result->items[i];
	if (item->found == SY_FOUND_ABSENT)
		return false;
	const sy_shape *shape = &result->shapes[item->shape];
	*ret_value = (sy_value){
		.data = item->data, .nbytes = item->nbytes, .dtype = (sy_dtype)item->dtype,
		.kind = (sy_kind)item->kind, .rank = shape->rank,
	};
	for (uint32_t d = 0; d < shape->rank; d++)
		ret_value->dims[d] = d == 0 ? item->dim0 : shape->tail[d - 1];
	return true;
}

bool sy_result_column(const sy_result *result, size_t column, sy_got_column *ret_column)
{
	if (column >= result->column_count || result->columns == NULL)
		return false;
	*ret_column = result->columns[column];
	return true;
}

void sy_result_free(sy_result *result)
{
	if (result == NULL)
		return;
	for (size_t i = 0; i < result->hold_count; i++) {
		struct sy_result_hold *hold = &result->holds[i];

		sy_hub_unpin(result->hub, hold->unit_id, hold->remote->incarnation, hold->name);
		sy_remote_unref(hold->remote);
	}
	sy_hub_unref(result->hub);
	sy_block_free(result->memory, result->memory_bytes);
	free(result->holds);
	free(result->items);
	free(result->shapes);
	free(result->columns);
	free(result->offsets);
	free(result->found);
	free(result->dim0);
	free(result);
}
