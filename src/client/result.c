#include "result.h"

#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "fail.h"

enum { SHAPES_FIRST = 16 };

static bool same_shape(const sy_shape *a, const sy_shape *b)
{
	return a->rank == b->rank && memcmp(a->tail, b->tail, sizeof a->tail) == 0;
}

/* Shapes as the result numbers them, good until the next call. Those of a batch are few and the
 * same in each answer, so they are looked for, among the first. */
static const uint32_t *take_shapes(struct sy_result *result, const sy_shape *shapes,
                                   uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t n = 0, known = (uint32_t)sy_min_u64(result->shape_count, SHAPES_FIRST);

		while (n < known && !same_shape(&result->shapes[n], &shapes[i]))
			n++;
		if (n == known)
			n = result->shape_count;
		if (n == result->shape_count)
			result->shapes[result->shape_count++] = shapes[i];
		result->shape_numbers[i] = n;
	}
	return result->shape_numbers;
}

/* shapes_max: as many as will be taken. */
static sy_status new_result(const struct sy_items *items, size_t shapes_max,
                            size_t column_count, struct sy_result **ret_result, sy_error *err)
{
	struct sy_result *result = calloc(1, sizeof *result);

	if (result != NULL) {
		result->items = calloc(items->source_count + 1, sizeof *result->items);
		result->shapes = calloc(shapes_max + 1, sizeof *result->shapes);
		result->shape_numbers = calloc(shapes_max + 1, sizeof *result->shape_numbers);
	}
	if (result == NULL || result->items == NULL || result->shapes == NULL ||
	    result->shape_numbers == NULL) {
		sy_result_free(result);
		return sy_fail(err, SY_E_SYS, "sy_result_new", "out of memory");
	}
	result->count = items->source_count;
	result->column_count = column_count;
	result->row_count = column_count == 0 ? 0 : items->source_count / column_count;
	*ret_result = result;
	return SY_OK;
}

/* A sum that would wrap around becomes one that no block is as large as. */
static size_t plus(size_t at, uint64_t nbytes)
{
	const size_t limit = SIZE_MAX / 4;

	return at > limit || nbytes > limit - at ? SIZE_MAX / 2 + 1 : at + nbytes;
}

static bool same_form(const struct sy_result *result, const struct sy_result_item *a,
                      const struct sy_result_item *b)
{
	return a->dtype == b->dtype && a->kind == b->kind &&
	       (a->shape == b->shape ||
	        same_shape(&result->shapes[a->shape], &result->shapes[b->shape]));
}

/* Items lie row by row. Of forms that are not the lead's `other` is the last one met: few differ,
 * and mostly in the number of their shape alone. */
static void summarize(const struct sy_result *result, size_t c, uint64_t *offsets, uint64_t *dim0,
                      uint8_t *found)
{
	size_t rows = result->row_count, columns = result->column_count;
	const struct sy_result_item *item = &result->items[c], *lead = NULL, *other = NULL;
	sy_got_column *column = &result->columns[c];
	size_t found_count = 0, at = 0;
	bool dense = true, mixed = false;

	offsets[0] = 0;
	for (size_t r = 0; r < rows; r++, item += columns) {
		found[r] = item->found != SY_FOUND_ABSENT;
		dim0[r] = item->dim0;
		at = plus(at, item->nbytes);
		offsets[r + 1] = at;
		if (item->found == SY_FOUND_ABSENT)
			continue;
		if (lead == NULL)
			lead = other = item;
		found_count++;
		if (item->shape != other->shape || item->dtype != other->dtype ||
		    item->kind != other->kind) {
			mixed |= !same_form(result, lead, item);
			other = item;
		}
		dense &= item->nbytes == lead->nbytes && item->dim0 == lead->dim0;
	}
	*column = (sy_got_column){
		.offsets = offsets, .found = found, .dim0 = dim0, .found_count = found_count,
		.mixed = mixed, .dense = dense && !mixed && found_count == rows,
	};
	if (lead == NULL)
		return;
	column->dtype = (sy_dtype)lead->dtype;
	column->kind = (sy_kind)lead->kind;
	column->shape = result->shapes[lead->shape];
}

/* The columns, of a get of columns, once all items are there. */
static sy_status summarize_all(struct sy_result *result, sy_error *err)
{
	size_t columns = result->column_count, rows = result->row_count, cells = columns * rows;

	if (columns == 0)
		return SY_OK;
	result->columns = calloc(columns + 1, sizeof *result->columns);
	result->offsets = malloc((cells + columns + 1) * sizeof *result->offsets);
	result->found = malloc(cells + 1);
	result->dim0 = malloc((cells + 1) * sizeof *result->dim0);
	if (result->columns == NULL || result->offsets == NULL || result->found == NULL ||
	    result->dim0 == NULL)
		return sy_fail(err, SY_E_SYS, "sy_result_new", "out of memory");
	for (size_t c = 0; c < columns; c++)
		summarize(result, c, result->offsets + c * (rows + 1), result->dim0 + c * rows,
		          result->found + c * rows);
	return SY_OK;
}

sy_status sy_result_new(const struct sy_items *items, const struct sy_lookup *lookup,
                        size_t column_count, struct sy_result **ret_result, sy_error *err)
{
	struct sy_result *result = NULL;
	size_t shapes_max = 0;

	for (size_t p = 0; p < lookup->part_count; p++)
		shapes_max += lookup->parts[p].call.op.reply.resolved.shape_count;
	sy_status status = new_result(items, shapes_max, column_count, &result, err);
	if (status != SY_OK)
		return status;

	for (size_t p = 0; p < lookup->part_count; p++) {
		const struct sy_lookup_part *part = &lookup->parts[p];
		const struct sy_resolved *in = &part->call.op.reply.resolved;
		const uint32_t *shapes = take_shapes(result, in->shapes, in->shape_count);

		for (size_t i = part->first, k = 0; i < part->last; i++) {
			k = sy_lookup_key(part, i, k);
			struct sy_result_item *item = &result->items[items->items[i].source];

			if (in->found[k] == SY_FOUND_ABSENT)
				continue;
			*item = (struct sy_result_item){
				.nbytes = in->nbytes[k], .dim0 = in->dim0[k],
				.shape = shapes[in->tail[k]],
				.dtype = in->dtype[k], .kind = in->kind[k], .found = in->found[k],
			};
		}
	}
	status = summarize_all(result, err);
	if (status != SY_OK)
		sy_result_free(result);
	else
		*ret_result = result;
	return status;
}

/* What one half answered goes into the result of both. */
static void take_half(struct sy_result *result, const struct sy_result *half,
                      const struct sy_items *items)
{
	const uint32_t *shapes = take_shapes(result, half->shapes, half->shape_count);

	for (size_t i = 0; i < items->count; i++) {
		size_t source = items->items[i].source;

		result->items[source] = half->items[source];
		result->items[source].shape = shapes[half->items[source].shape];
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
	struct sy_result *result = NULL;
	size_t shapes_max = (size_t)halves[0]->shape_count + halves[1]->shape_count;
	sy_status status = new_result(&items[0], shapes_max, column_count, &result, err);

	if (status != SY_OK)
		return status;
	take_half(result, halves[0], &items[0]);
	take_half(result, halves[1], &items[1]);
	status = summarize_all(result, err);
	if (status == SY_OK)
		status = sy_result_layout(result, err);
	for (int i = 0; status == SY_OK && i < 2; i++)
		copy_half(result, halves[i], &items[i]);
	if (status != SY_OK)
		sy_result_free(result);
	else
		*ret_result = result;
	return status;
}

/* Columns packed, each from a cache line on; returns where the last one ends. */
static size_t lay_columns(const struct sy_result *result)
{
	size_t end = 0;

	for (size_t c = 0; c < result->column_count; c++)
		end = plus(sy_align_up(end, SY_ENTRY_ALIGN_BYTES),
		           result->columns[c].offsets[result->row_count]);
	return end;
}

static void point_columns(struct sy_result *result)
{
	size_t columns = result->column_count, rows = result->row_count, end = 0;

	for (size_t c = 0; c < columns; c++) {
		const uint64_t *offsets = result->columns[c].offsets;
		uint8_t *data = result->memory + sy_align_up(end, SY_ENTRY_ALIGN_BYTES);
		struct sy_result_item *item = &result->items[c];

		result->columns[c].data = rows > 0 ? data : NULL;
		for (size_t r = 0; r < rows; r++, item += columns)
			item->data = data + offsets[r];
		end = (size_t)(data - result->memory) + offsets[rows];
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
	size_t end = result->column_count > 0 ? lay_columns(result) : lay_keys(result);

	result->memory = sy_block_new(end);
	result->memory_bytes = end;
	if (result->memory == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "no memory for a result of %zu bytes", end);
	if (result->column_count > 0)
		point_columns(result);
	else
		point_keys(result);
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
	free(result->shape_numbers);
	free(result->columns);
	free(result->offsets);
	free(result->found);
	free(result->dim0);
	free(result);
}
