#include "items.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "key.h"

/* A field as it stands in the call, and the number it gets once all are sorted. */
struct name {
	struct sy_span text;
	uint32_t first; /* where it was met first */
	uint32_t rank;
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;
	size_t bytes = x->text.bytes < y->text.bytes ? x->text.bytes : y->text.bytes;
	int order = memcmp(x->text.data, y->text.data, bytes);

	if (order != 0)
		return order;
	return (x->text.bytes > y->text.bytes) - (x->text.bytes < y->text.bytes);
}

static sy_status check_name(struct sy_span name, size_t index, sy_error *err)
{
	const char *fault = name.data != NULL ? sy_name_fault(name.data, name.bytes) : "is missing";

	if (fault == NULL)
		return SY_OK;
	return sy_fail(err, SY_E_INVALID, "field", "field name %zu: %s", index, fault);
}

sy_status sy_items_names(const char *const *fields, size_t count, struct sy_span **ret_names,
                         sy_error *err)
{
	sy_status status = SY_OK;

	if (count > 0 && fields == NULL)
		return sy_fail(err, SY_E_INVALID, "field", "%zu fields, and none are given", count);
	struct sy_span *names = calloc(count + 1, sizeof *names);
	if (names == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t i = 0; status == SY_OK && i < count; i++) {
		names[i].data = (const uint8_t *)fields[i];
		names[i].bytes = fields[i] != NULL ? strlen(fields[i]) : 0;
		status = check_name(names[i], i, err);
	}
	if (status != SY_OK)
		free(names);
	else
		*ret_names = names;
	return status;
}

/* Distinct names, open addressing over power-of-two slots; ids in order of first sight. */
struct names {
	struct name *list;
	uint32_t count, capacity;
	uint32_t *slots; /* id + 1 */
	uint32_t slot_count;
};

static uint64_t hash_name(struct sy_span name)
{
	uint64_t hash = name.bytes;

	for (size_t i = 0; i < name.bytes; i++)
		hash = (hash ^ name.data[i]) * 0x100000001b3u;
	return sy_mix64(hash);
}

static bool names_grow(struct names *names)
{
	uint32_t slot_count = names->slot_count == 0 ? 64 : names->slot_count * 2;
	uint32_t *slots = calloc(slot_count, sizeof *slots);
	struct name *list = realloc(names->list, slot_count / 2 * sizeof *list);

	if (list != NULL)
		names->list = list;
	if (slots == NULL || list == NULL) {
		free(slots);
		return false;
	}
	for (uint32_t id = 0; id < names->count; id++) {
		uint32_t at = (uint32_t)hash_name(list[id].text) & (slot_count - 1);

		while (slots[at] != 0)
			at = (at + 1) & (slot_count - 1);
		slots[at] = id + 1;
	}
	free(names->slots);
	names->slots = slots;
	names->slot_count = slot_count;
	names->capacity = slot_count / 2;
	return true;
}

/* The id of a name, new or known; UINT32_MAX: out of memory. */
static uint32_t names_id(struct names *names, struct sy_span text, uint32_t first)
{
	if (names->count == names->capacity && !names_grow(names))
		return UINT32_MAX;

	uint32_t at = (uint32_t)hash_name(text) & (names->slot_count - 1);
	for (; names->slots[at] != 0; at = (at + 1) & (names->slot_count - 1)) {
		if (sy_span_equal(names->list[names->slots[at] - 1].text, text))
			return names->slots[at] - 1;
	}
	names->list[names->count] = (struct name){.text = text, .first = first};
	names->slots[at] = ++names->count;
	return names->count - 1;
}

/* Sorts the names into ret->fields; the result maps an id to its place there. */
static uint32_t *sort_names(struct names *names, struct sy_items *ret)
{
	uint32_t *place = calloc(names->count + 1, sizeof *place);

	ret->fields = calloc(names->count + 1, sizeof *ret->fields);
	if (place == NULL || ret->fields == NULL) {
		free(place);
		return NULL;
	}
	for (uint32_t id = 0; id < names->count; id++)
		names->list[id].rank = id;
	if (names->count > 0)
		qsort(names->list, names->count, sizeof *names->list, compare_names);
	for (uint32_t i = 0; i < names->count; i++) {
		place[names->list[i].rank] = i;
		ret->fields[i] = names->list[i].text;
	}
	ret->field_count = names->count;
	return place;
}

static sy_status check_unique(const struct sy_items *items, sy_error *err)
{
	for (size_t i = 1; i < items->count; i++) {
		const struct sy_item *item = &items->items[i];

		if (sy_items_again(items, i))
			return sy_fail(err, SY_E_INVALID, "put", "key %llu@%.*s comes twice",
			               (unsigned long long)item->row, (int)items->fields[item->field].bytes,
			               (const char *)items->fields[item->field].data);
	}
	return SY_OK;
}

void sy_items_done(struct sy_items *items)
{
	free(items->items);
	free(items->fields);
	*items = (struct sy_items){0};
}

static sy_status number_keys(const sy_key *keys, size_t count, struct names *names,
                             struct sy_items *items, sy_error *err)
{
	struct sy_span last = {0};
	uint32_t last_id = UINT32_MAX;

	for (size_t i = 0; i < count; i++) {
		struct sy_span text = {(const uint8_t *)keys[i].field, keys[i].field_bytes};

		/* Callers hand over one field for many rows: most names are the one before. */
		if (last_id == UINT32_MAX || text.data != last.data || text.bytes != last.bytes) {
			sy_status status = check_name(text, i, err);

			if (status != SY_OK)
				return status;
			last_id = names_id(names, text, (uint32_t)i);
			last = text;
			if (last_id == UINT32_MAX)
				return sy_fail(err, SY_E_SYS, __func__, "out of memory");
		}
		items->items[i] = (struct sy_item){keys[i].row, last_id, (uint32_t)i};
	}
	return SY_OK;
}

sy_status sy_items_from_keys(const sy_key *keys, size_t count, uint32_t unit_count, bool unique,
                             struct sy_items *ret_items, sy_error *err)
{
	struct sy_items items = {.count = count, .source_count = count, .unit_count = unit_count,
	                         .sources_per_index = 1};
	struct names names = {0};
	uint32_t *place = NULL;

	if (count >= UINT32_MAX)
		return sy_fail(err, SY_E_INVALID, __func__, "%zu keys in one call are too many", count);
	if (count > 0 && keys == NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "%zu keys, and none are given", count);
	items.items = malloc((count + 1) * sizeof *items.items);
	sy_status status = items.items != NULL
		? number_keys(keys, count, &names, &items, err)
		: sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK) {
		place = sort_names(&names, &items);
		if (place == NULL)
			status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	free(names.list);
	free(names.slots);
	if (status != SY_OK) {
		sy_items_done(&items);
		return status;
	}
	for (size_t i = 0; i < count; i++)
		items.items[i].field = place[items.items[i].field];
	free(place);
	if (!sy_items_sort(&items))
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK && unique)
		status = check_unique(&items, err);
	if (status != SY_OK)
		sy_items_done(&items);
	else
		*ret_items = items;
	return status;
}

static sy_status number_fields(const struct sy_span *fields, size_t field_count, bool unique,
                               uint32_t *ids, struct names *names, sy_error *err)
{
	for (size_t i = 0; i < field_count; i++) {
		sy_status status = check_name(fields[i], i, err);

		if (status != SY_OK)
			return status;
		ids[i] = names_id(names, fields[i], (uint32_t)i);
		if (ids[i] == UINT32_MAX)
			return sy_fail(err, SY_E_SYS, __func__, "out of memory");
		if (unique && names->list[ids[i]].first != i)
			return sy_fail(err, SY_E_INVALID, __func__, "field %.*s comes twice",
			               (int)fields[i].bytes, (const char *)fields[i].data);
	}
	return SY_OK;
}

sy_status sy_items_check_counts(size_t row_count, size_t field_count, sy_error *err)
{
	if (field_count <= UINT16_MAX && row_count < UINT32_MAX / (field_count + 1))
		return SY_OK;
	return sy_fail(err, SY_E_INVALID, __func__, "%zu rows by %zu fields are too many", row_count,
	               field_count);
}

/* Every field of rows[first..last), one row asked for that many times, from items[at] on. Equal
 * fields stand side by side in `order`, and equal keys come in the order of their sources. */
static size_t expand_row(struct sy_items *items, const struct sy_item *rows, size_t first,
                         size_t last, const struct sy_item *order, size_t at)
{
	uint32_t field_count = items->sources_per_index;

	for (uint32_t f = 0; last - first == 1 && f < field_count; f++)
		items->items[at++] = (struct sy_item){rows[first].row, order[f].field,
		                                      rows[first].source * field_count + order[f].source};
	for (uint32_t f = 0, next; last - first > 1 && f < field_count; f = next) {
		for (next = f + 1; next < field_count && order[next].field == order[f].field;)
			next++;
		for (size_t r = first; r < last; r++) {
			for (uint32_t k = f; k < next; k++)
				items->items[at++] = (struct sy_item){
					rows[r].row, order[k].field, rows[r].source * field_count + order[k].source};
		}
	}
	return at;
}

/* Rows are sorted alone, and fields alone: the product is in order then. */
static bool expand(struct sy_items *items, const uint64_t *rows, size_t row_count,
                   const uint32_t *place)
{
	size_t field_count = items->sources_per_index, at = 0;
	struct sy_items by_row = {.count = row_count, .unit_count = items->unit_count};
	struct sy_items by_field = {.count = field_count, .unit_count = 1};

	by_row.items = malloc((row_count + 1) * sizeof *by_row.items);
	by_field.items = malloc((field_count + 1) * sizeof *by_field.items);
	bool ok = by_row.items != NULL && by_field.items != NULL;
	for (size_t r = 0; ok && r < row_count; r++)
		by_row.items[r] = (struct sy_item){rows[r], 0, (uint32_t)r};
	for (size_t f = 0; ok && f < field_count; f++)
		by_field.items[f] = (struct sy_item){0, place[f], (uint32_t)f};
	ok = ok && sy_items_sort(&by_row) && sy_items_sort(&by_field);
	for (size_t r = 0, next; ok && r < row_count; r = next) {
		for (next = r + 1; next < row_count && by_row.items[next].row == by_row.items[r].row;)
			next++;
		at = expand_row(items, by_row.items, r, next, by_field.items, at);
	}
	free(by_row.items);
	free(by_field.items);
	return ok;
}

sy_status sy_items_from_columns(const uint64_t *rows, size_t row_count,
                                const struct sy_span *fields, size_t field_count,
                                uint32_t unit_count, bool unique, struct sy_items *ret_items,
                                sy_error *err)
{
	struct sy_items items = {.unit_count = unit_count,
	                         .sources_per_index = (uint32_t)field_count};
	struct names names = {0};
	uint32_t *place = NULL;

	if (row_count > 0 && rows == NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "%zu rows, and none are given", row_count);
	items.count = items.source_count = row_count * field_count;
	items.items = malloc((items.count + 1) * sizeof *items.items);
	uint32_t *ids = calloc(field_count + 1, sizeof *ids);
	sy_status status = items.items != NULL && ids != NULL
		? number_fields(fields, field_count, unique, ids, &names, err)
		: sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		place = sort_names(&names, &items);
	for (size_t f = 0; place != NULL && f < field_count; f++)
		ids[f] = place[ids[f]];
	if (status == SY_OK && (place == NULL || !expand(&items, rows, row_count, ids)))
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	free(place);
	free(ids);
	free(names.list);
	free(names.slots);
	if (status == SY_OK && unique)
		status = check_unique(&items, err);
	if (status != SY_OK)
		sy_items_done(&items);
	else
		*ret_items = items;
	return status;
}

bool sy_items_halve(const struct sy_items *items, struct sy_items ret_halves[2])
{
	size_t middle = items->count / 2;

	while (middle > 0 && items->items[middle].row == items->items[middle - 1].row)
		middle--;
	if (middle == 0) {
		for (middle = items->count / 2;
		     middle < items->count && items->items[middle].row == items->items[0].row; middle++)
			;
	}
	if (middle == 0 || middle >= items->count)
		return false;
	ret_halves[0] = ret_halves[1] = *items;
	ret_halves[0].count = middle;
	ret_halves[1].items += middle;
	ret_halves[1].count -= middle;
	return true;
}

void sy_items_blame_one(const struct sy_items *items, size_t i, sy_error *err)
{
	if (err == NULL)
		return;
	if (err->index_count < err->index_capacity)
		err->indexes[err->index_count] =
			items->index_base + items->items[i].source / items->sources_per_index;
	err->index_count++;
}

/* A row that was asked for twice has its columns in between each other: each index is taken from
 * its first column alone. */
void sy_items_blame(const struct sy_items *items, size_t first, size_t last, sy_error *err)
{
	for (size_t i = first; i < last; i++) {
		if (items->items[i].source % items->sources_per_index == 0)
			sy_items_blame_one(items, i, err);
	}
}
