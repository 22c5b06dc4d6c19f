#include "put_plan.h"

#include <slabyard/store.h>
#include <stdlib.h>
#include <string.h>

#include "entry_fault.h"
#include "fail.h"
#include "guard.h"
#include "proto.h"

/* A blob grows to this many bytes before a row starts another, so that a large batch finds room
 * in a slab whose holes are smaller than the batch. */
static const uint64_t BLOB_BYTES = 256u << 20;

/* What is wrong with it, or NULL. */
static const char *value_fault(const sy_value *value, sy_shape *ret_shape, uint64_t *ret_extent)
{
	sy_shape shape = {.rank = value->rank};
	uint64_t unit, dim0_max;

	if (value->nbytes > 0 && value->data == NULL)
		return "has bytes but no data";
	if (value->rank > SY_RANK_MAX)
		return "has a rank over 8";
	for (uint32_t i = 1; i < value->rank; i++)
		shape.tail[i - 1] = value->dims[i];
	const char *fault = sy_shape_fault(value->dtype, value->kind, &shape, &unit, &dim0_max);
	if (fault != NULL)
		return fault;
	/* Not to be left to the index: it says nothing of bytes where a shape has none, and they
	 * would be written past the blob's end. */
	uint64_t lead = value->rank == 0 ? 1 : value->dims[0];
	if (value->kind == SY_KIND_TENSOR &&
	    (unit == 0 ? value->nbytes != 0
	               : value->nbytes % unit != 0 || value->nbytes / unit != lead))
		return "does not have as many bytes as its shape";
	*ret_shape = shape;
	*ret_extent = unit == 0 ? lead : value->nbytes;
	return sy_extent_fault(value->kind, &shape, unit, dim0_max, *ret_extent);
}

sy_status sy_put_value_from(const sy_value *value, struct sy_put_value *ret_value, sy_error *err)
{
	struct sy_put_value made = {
		.data = value->data, .nbytes = value->nbytes, .dtype = value->dtype, .kind = value->kind,
	};
	const char *fault = value_fault(value, &made.shape, &made.extent);

	if (fault != NULL)
		return sy_fail(err, SY_E_INVALID, "put", "a value of %llu bytes %s",
		               (unsigned long long)value->nbytes, fault);
	*ret_value = made;
	return SY_OK;
}

sy_status sy_plan_cut(const struct sy_items *items, size_t first,
                      const struct sy_put_source *source, size_t *ret_last, sy_error *err)
{
	uint64_t unit = items->items[first].row % items->unit_count, bytes = 0;
	size_t last = first, row_start = first;

	for (; last < items->count && items->items[last].row % items->unit_count == unit; last++) {
		struct sy_put_value value;
		sy_status status = source->value(source->context, items->items[last].source, &value, err);

		if (status != SY_OK) {
			sy_items_blame_one(items, last, err);
			return status;
		}
		if (items->items[last].row != items->items[row_start].row) {
			row_start = last;
			if (bytes >= BLOB_BYTES)
				break;
		}
		bytes += value.nbytes;
		if (last - first < SY_ENTRIES_PER_BLOB_MAX)
			continue;
		if (row_start == first)
			return sy_fail(err, SY_E_INVALID, "put", "row %llu has more than %d fields",
			               (unsigned long long)items->items[first].row,
			               SY_ENTRIES_PER_BLOB_MAX);
		last = row_start;
		break;
	}
	*ret_last = last;
	return SY_OK;
}

/* An entry of the blob while it is planned. */
struct planned {
	struct sy_put_value value;
	uint32_t ordinal;
	uint32_t next; /* in its field, by ordinal; UINT32_MAX: the last */
};

/* All that one blob's plan needs while it is made, and what it keeps. */
struct draft {
	struct planned *entries; /* in the order of the items */
	uint32_t *field_head, *field_tail;
	uint64_t *rows;
	uint32_t *ordinals;
	uint64_t *extents;
	sy_column *columns;
	const struct planned **order; /* entries in the order of the columns */
	uint32_t entry_count, row_count, column_count;
};

static void draft_done(struct draft *draft)
{
	free(draft->entries);
	free(draft->field_head);
	free(draft->rows);
	free(draft->ordinals);
	free(draft->extents);
	free(draft->columns);
	free(draft->order);
}

static bool draft_init(struct draft *draft, uint32_t entry_count, uint32_t field_count)
{
	draft->entry_count = entry_count;
	draft->entries = malloc(entry_count * sizeof *draft->entries);
	draft->field_head = malloc(2 * (size_t)field_count * sizeof *draft->field_head);
	draft->rows = malloc(entry_count * sizeof *draft->rows);
	draft->ordinals = malloc(entry_count * sizeof *draft->ordinals);
	draft->extents = malloc(entry_count * sizeof *draft->extents);
	draft->columns = calloc(entry_count, sizeof *draft->columns);
	draft->order = malloc(entry_count * sizeof *draft->order);
	if (draft->entries == NULL || draft->field_head == NULL || draft->rows == NULL ||
	    draft->ordinals == NULL || draft->extents == NULL || draft->columns == NULL ||
	    draft->order == NULL)
		return false;
	memset(draft->field_head, 0xff, 2 * (size_t)field_count * sizeof *draft->field_head);
	draft->field_tail = draft->field_head + field_count;
	return true;
}

/* Items come by row, then field: numbers the rows and threads each field's entries. */
static sy_status draft_collect(struct draft *draft, const struct sy_items *items, size_t first,
                               const struct sy_put_source *source, sy_error *err)
{
	for (uint32_t i = 0; i < draft->entry_count; i++) {
		const struct sy_item *item = &items->items[first + i];
		struct planned *entry = &draft->entries[i];
		/* sy_plan_cut has looked at every value already. */
		sy_status status = source->value(source->context, item->source, &entry->value, err);

		if (status != SY_OK)
			return status;
		if (draft->row_count == 0 || draft->rows[draft->row_count - 1] != item->row)
			draft->rows[draft->row_count++] = item->row;
		entry->ordinal = draft->row_count - 1;
		entry->next = UINT32_MAX;
		if (draft->field_head[item->field] == UINT32_MAX)
			draft->field_head[item->field] = i;
		else
			draft->entries[draft->field_tail[item->field]].next = i;
		draft->field_tail[item->field] = i;
	}
	return SY_OK;
}

static bool same_column(const struct sy_put_value *a, const struct sy_put_value *b)
{
	return a->dtype == b->dtype && a->kind == b->kind && a->shape.rank == b->shape.rank &&
	       memcmp(a->shape.tail, b->shape.tail, sizeof a->shape.tail) == 0;
}

/* One column of the entries of a field that agree with its first; those that do not are left
 * threaded for the next. */
static void draft_column(struct draft *draft, struct sy_span field, uint32_t *head, uint32_t *at)
{
	const struct sy_put_value *lead = &draft->entries[*head].value;
	sy_column *column = &draft->columns[draft->column_count++];
	uint32_t start = *at, *link = head;
	bool uniform = true;

	*column = (sy_column){
		.field = (const char *)field.data, .field_bytes = field.bytes, .dtype = lead->dtype,
		.kind = lead->kind, .shape = lead->shape, .extent = lead->extent,
	};
	for (uint32_t i = *head; i != UINT32_MAX;) {
		struct planned *entry = &draft->entries[i];
		uint32_t next = entry->next;

		if (same_column(lead, &entry->value)) {
			draft->ordinals[*at] = entry->ordinal;
			draft->extents[*at] = entry->value.extent;
			draft->order[*at] = entry;
			uniform = uniform && entry->value.extent == lead->extent;
			(*at)++;
		} else {
			*link = i;
			link = &entry->next;
		}
		i = next;
	}
	*link = UINT32_MAX;
	column->row_count = *at - start;
	column->ordinals = column->row_count == draft->row_count ? NULL : draft->ordinals + start;
	column->extents = uniform ? NULL : draft->extents + start;
}

static void draft_columns(struct draft *draft, const struct sy_items *items)
{
	uint32_t at = 0;

	for (uint32_t f = 0; f < items->field_count; f++) {
		while (draft->field_head[f] != UINT32_MAX)
			draft_column(draft, items->fields[f], &draft->field_head[f], &at);
	}
	SY_ASSERT(at == draft->entry_count);
}

/* The index as one range, then the entries, joined where both sides run on. */
static void fill_ranges(const struct draft *draft, const sy_index *index, const void *index_bytes,
                        struct sy_blob_plan *plan)
{
	uint32_t at = 0;

	plan->ranges[0] = (struct sy_range){.nbytes = index->index_bytes, .from = index_bytes};
	plan->range_count = 1;
	for (uint32_t c = 0; c < index->column_count; c++) {
		uint64_t offset = index->columns[c].base;

		for (uint32_t k = 0; k < index->columns[c].row_count; k++, at++) {
			const struct sy_put_value *value = &draft->order[at]->value;
			struct sy_range *last = &plan->ranges[plan->range_count - 1];
			uint64_t nbytes = value->nbytes;

			if (nbytes > 0 && plan->range_count > 1 && last->offset + last->nbytes == offset &&
			    (const uint8_t *)last->from + last->nbytes == (const uint8_t *)value->data)
				last->nbytes += nbytes;
			else if (nbytes > 0)
				plan->ranges[plan->range_count++] =
					(struct sy_range){.offset = offset, .nbytes = nbytes, .from = value->data};
			offset += sy_align_up(nbytes, SY_ENTRY_ALIGN_BYTES);
		}
	}
}

static sy_status draft_finish(const struct draft *draft, struct sy_blob_plan *plan, sy_error *err)
{
	sy_index index = {
		.blob_id = plan->id, .rows = draft->rows, .row_count = draft->row_count,
		.columns = draft->columns, .column_count = draft->column_count,
	};
	sy_status status = sy_index_layout(&index, err);

	if (status != SY_OK)
		return status;
	size_t range_bytes = (draft->entry_count + 1) * sizeof *plan->ranges;
	plan->memory = malloc(range_bytes + index.index_bytes);
	if (plan->memory == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	plan->ranges = plan->memory;
	uint8_t *index_bytes = (uint8_t *)plan->memory + range_bytes;
	status = sy_index_encode(&index, index_bytes, index.index_bytes, err);
	if (status != SY_OK) {
		sy_plan_done(plan);
		return status;
	}
	plan->nbytes = index.blob_bytes;
	plan->entry_count = draft->entry_count;
	fill_ranges(draft, &index, index_bytes, plan);
	return SY_OK;
}

sy_status sy_plan_make(const struct sy_items *items, size_t first, size_t last,
                       const struct sy_put_source *source, struct sy_blob_plan *ret_plan,
                       sy_error *err)
{
	struct sy_blob_plan plan = {
		.unit_id = sy_items_unit(items, first),
		.first = first, .last = last,
	};
	struct draft draft = {0};
	sy_status status = SY_OK;

	sy_blob_id_new(&plan.id);
	if (!draft_init(&draft, (uint32_t)(last - first), items->field_count))
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		status = draft_collect(&draft, items, first, source, err);
	if (status == SY_OK) {
		draft_columns(&draft, items);
		status = draft_finish(&draft, &plan, err);
	}
	draft_done(&draft);
	if (status == SY_OK)
		*ret_plan = plan;
	return status;
}

void sy_plan_done(struct sy_blob_plan *plan)
{
	free(plan->memory);
	plan->memory = NULL;
	plan->ranges = NULL;
}

void sy_plan_gather(const struct sy_blob_plan *plan, uint8_t *out)
{
	memset(out, 0, plan->nbytes);
	for (size_t i = 0; i < plan->range_count; i++)
		memcpy(out + plan->ranges[i].offset, plan->ranges[i].from, plan->ranges[i].nbytes);
}
