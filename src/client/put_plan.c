#include "put_plan.h"

#include <slabyard/store.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "guard.h"
#include "proto.h"

/* A blob grows to this many bytes before a row starts another, so that a large batch finds room
 * in a slab whose holes are smaller than the batch. */
static const uint64_t BLOB_BYTES = 256u << 20;

/* An entry of the blob while it is planned. */
struct planned {
	struct sy_put_value value;
	uint32_t ordinal;
	uint32_t next; /* in its field, by ordinal; NONE: the last */
};

static const uint32_t NONE = UINT32_MAX;

/* All that one blob's plan needs while it is made, and what it keeps. */
struct draft {
	const struct sy_put_forms *forms;
	struct planned *entries; /* in the order of the items */
	uint32_t *field_head, *field_tail;
	uint64_t *rows;
	uint32_t *ordinals;
	uint64_t *extents;
	const struct planned **order; /* entries in the order of the columns */
	sy_column *columns;
	uint32_t entry_count, row_count, column_count, column_capacity;
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

static bool draft_init(struct draft *draft, size_t entries_max, uint32_t field_count)
{
	draft->entries = malloc(entries_max * sizeof *draft->entries);
	draft->field_head = malloc(2 * (size_t)field_count * sizeof *draft->field_head);
	draft->rows = malloc(entries_max * sizeof *draft->rows);
	draft->ordinals = malloc(entries_max * sizeof *draft->ordinals);
	draft->extents = malloc(entries_max * sizeof *draft->extents);
	draft->order = malloc(entries_max * sizeof *draft->order);
	if (draft->entries == NULL || draft->field_head == NULL || draft->rows == NULL ||
	    draft->ordinals == NULL || draft->extents == NULL || draft->order == NULL)
		return false;
	memset(draft->field_head, 0xff, 2 * (size_t)field_count * sizeof *draft->field_head);
	draft->field_tail = draft->field_head + field_count;
	return true;
}

/* How many items of the same unit a blob may have at most: of many units each has a few. */
static size_t entries_at_most(const struct sy_items *items, size_t first)
{
	size_t limit = sy_min_u64(items->count - first, SY_ENTRIES_PER_BLOB_MAX), count = 0;

	if (items->unit_count == 1)
		return limit;
	while (count < limit && sy_items_unit(items, first + count) == sy_items_unit(items, first))
		count++;
	return count;
}

/* The values of the blob's entries, and where it ends. */
static sy_status draft_collect(struct draft *draft, const struct sy_items *items, size_t first,
                               size_t entries_max, const struct sy_put_source *source,
                               sy_error *err)
{
	uint32_t unit_id = sy_items_unit(items, first);
	uint64_t row = items->items[first].row, bytes = 0;
	size_t row_start = 0, i = 0;

	for (; i < entries_max; i++) {
		const struct sy_item *item = &items->items[first + i];

		if (item->row != row) {
			row = item->row;
			row_start = i;
			if (bytes >= BLOB_BYTES || sy_items_unit(items, first + i) != unit_id)
				break;
		}
		sy_status status =
			source->value(source->context, item->source, &draft->entries[i].value, err);
		if (status != SY_OK) {
			sy_items_blame_one(items, first + i, err);
			return status;
		}
		bytes += draft->entries[i].value.nbytes;
	}
	bool cut = i == entries_max && first + i < items->count && items->items[first + i].row == row;
	if (cut && row_start == 0)
		return sy_fail(err, SY_E_INVALID, "put", "row %llu has more than %d fields",
		               (unsigned long long)row, SY_ENTRIES_PER_BLOB_MAX);
	draft->entry_count = (uint32_t)(cut ? row_start : i);
	return SY_OK;
}

/* Items come by row, then field: numbers the rows and threads each field's entries. */
static void draft_thread(struct draft *draft, const struct sy_items *items, size_t first)
{
	for (uint32_t i = 0; i < draft->entry_count; i++) {
		const struct sy_item *item = &items->items[first + i];
		struct planned *entry = &draft->entries[i];

		if (draft->row_count == 0 || draft->rows[draft->row_count - 1] != item->row)
			draft->rows[draft->row_count++] = item->row;
		entry->ordinal = draft->row_count - 1;
		entry->next = NONE;
		if (draft->field_head[item->field] == NONE)
			draft->field_head[item->field] = i;
		else
			draft->entries[draft->field_tail[item->field]].next = i;
		draft->field_tail[item->field] = i;
	}
}

/* One column of the entries of a field that agree with its first; those that do not are left
 * threaded for the next. */
static void draft_column(struct draft *draft, sy_column *column, uint32_t *head, uint32_t *at)
{
	const struct sy_put_value *lead = &draft->entries[*head].value;
	uint32_t start = *at, *link = head;
	bool uniform = true;

	for (uint32_t i = *head; i != NONE;) {
		struct planned *entry = &draft->entries[i];
		uint32_t next = entry->next;

		if (sy_put_forms_equal(draft->forms, lead->form, entry->value.form)) {
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
	*link = NONE;
	column->row_count = *at - start;
	column->ordinals = column->row_count == draft->row_count ? NULL : draft->ordinals + start;
	column->extents = uniform ? NULL : draft->extents + start;
}

static bool draft_room(struct draft *draft)
{
	if (draft->column_count < draft->column_capacity)
		return true;
	uint32_t capacity = draft->column_capacity == 0 ? 16 : 2 * draft->column_capacity;
	sy_column *columns = realloc(draft->columns, capacity * sizeof *columns);
	if (columns == NULL)
		return false;
	draft->columns = columns;
	draft->column_capacity = capacity;
	return true;
}

static bool draft_columns(struct draft *draft, const struct sy_items *items)
{
	uint32_t at = 0;

	for (uint32_t f = 0; f < items->field_count; f++) {
		while (draft->field_head[f] != NONE) {
			if (!draft_room(draft))
				return false;
			const struct sy_put_value *lead = &draft->entries[draft->field_head[f]].value;
			const struct sy_put_form *form = &draft->forms->list[lead->form];
			sy_column *column = &draft->columns[draft->column_count++];

			*column = (sy_column){
				.field = (const char *)items->fields[f].data,
				.field_bytes = items->fields[f].bytes, .dtype = form->dtype,
				.kind = form->kind, .shape = form->shape, .extent = lead->extent,
			};
			draft_column(draft, column, &draft->field_head[f], &at);
		}
	}
	SY_ASSERT(at == draft->entry_count);
	return true;
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

sy_status sy_plan_make(const struct sy_items *items, size_t first,
                       const struct sy_put_source *source, struct sy_blob_plan *ret_plan,
                       sy_error *err)
{
	struct sy_blob_plan plan = {.unit_id = sy_items_unit(items, first), .first = first};
	struct draft draft = {.forms = source->forms};
	size_t entries_max = entries_at_most(items, first);
	sy_status status = SY_OK;

	sy_blob_id_new(&plan.id);
	if (!draft_init(&draft, entries_max, items->field_count))
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		status = draft_collect(&draft, items, first, entries_max, source, err);
	if (status == SY_OK) {
		plan.last = first + draft.entry_count;
		draft_thread(&draft, items, first);
		status = draft_columns(&draft, items)
			? draft_finish(&draft, &plan, err)
			: sy_fail(err, SY_E_SYS, __func__, "out of memory");
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
	uint64_t at = 0;

	for (size_t i = 0; i < plan->range_count; i++) {
		const struct sy_range *range = &plan->ranges[i];

		memset(out + at, 0, range->offset - at); /* ranges ascend */
		memcpy(out + range->offset, range->from, range->nbytes);
		at = range->offset + range->nbytes;
	}
	memset(out + at, 0, plan->nbytes - at);
}
