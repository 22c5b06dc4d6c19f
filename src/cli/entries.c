#include "entries.h"
#include "fail.h"
#include "key.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more item; false: out of memory. */
static bool room_make(void **items, size_t *capacity, size_t count, size_t item_bytes)
{
	if (count < *capacity)
		return true;
	size_t wanted = *capacity > 0 ? *capacity * 2 : 64;
	void *grown = reallocarray(*items, wanted, item_bytes);
	if (grown == NULL)
		return false;
	*items = grown;
	*capacity = wanted;
	return true;
}

static int name_compare(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
	size_t common = a_bytes < b_bytes ? a_bytes : b_bytes;
	int order = common > 0 ? memcmp(a, b, common) : 0;
	return order != 0 ? order : a_bytes < b_bytes ? -1 : a_bytes > b_bytes;
}

static int by_name(const void *a, const void *b)
{
	const struct sy_field_name *x = a, *y = b;
	return name_compare(x->name, x->bytes, y->name, y->bytes);
}

sy_status sy_field_list_parse(const char *text, struct sy_field_list *ret_list, sy_error *err)
{
	size_t count = 1;
	for (const char *at = text; *at != '\0'; at++)
		count += *at == ',';
	struct sy_field_list list = {.names = calloc(count, sizeof *list.names)};
	if (list.names == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (const char *at = text; list.count < count; list.count++) {
		size_t bytes = strcspn(at, ",");
		const char *fault = sy_name_fault(at, bytes);
		if (fault != NULL) {
			free(list.names);
			return sy_fail(err, SY_E_INVALID, __func__,
			               "a name in --fields %s; fields are listed as in a,b", fault);
		}
		list.names[list.count] = (struct sy_field_name){at, bytes};
		at += bytes + 1;
	}
	qsort(list.names, list.count, sizeof *list.names, by_name);
	size_t kept = 1;
	for (size_t i = 1; i < list.count; i++) {
		if (by_name(&list.names[i], &list.names[kept - 1]) != 0)
			list.names[kept++] = list.names[i];
	}
	list.count = kept;
	*ret_list = list;
	return SY_OK;
}

void sy_field_list_done(struct sy_field_list *list)
{
	free(list->names);
	*list = (struct sy_field_list){0};
}

static bool is_wanted(const struct sy_field_list *fields, const sy_scan_info *info)
{
	const struct sy_field_name name = {info->field, info->field_bytes};
	return fields->names == NULL ||
	       bsearch(&name, fields->names, fields->count, sizeof name, by_name) != NULL;
}

/* While it is filled, `order` holds the fields' numbers by their names. */
struct scan {
	struct sy_entries *entries;
	const struct sy_row_list *rows;
	const struct sy_field_list *fields;
	uint32_t *order;
	size_t order_capacity;
	uint32_t last_form;
	bool failed;
};

static const char *field_name(const struct sy_entries *entries, uint32_t field, size_t *ret_bytes)
{
	*ret_bytes = entries->fields[field].bytes;
	return entries->names.data + entries->fields[field].at;
}

const char *sy_entries_name(const struct sy_entries *entries, const struct sy_entry_line *line,
                            size_t *ret_bytes)
{
	return field_name(entries, line->field, ret_bytes);
}

/* Where the name stands in the order, or would. */
static size_t order_find(const struct scan *scan, const sy_scan_info *info, bool *ret_is_there)
{
	size_t low = 0, high = scan->entries->field_count;
	*ret_is_there = false;
	while (low < high) {
		size_t middle = low + (high - low) / 2, bytes;
		const char *name = field_name(scan->entries, scan->order[middle], &bytes);
		int order = name_compare(name, bytes, info->field, info->field_bytes);
		if (order == 0) {
			*ret_is_there = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool field_intern(struct scan *scan, const sy_scan_info *info, uint32_t *ret_field)
{
	struct sy_entries *entries = scan->entries;
	bool is_there;
	size_t at = order_find(scan, info, &is_there);
	if (is_there) {
		*ret_field = scan->order[at];
		return true;
	}
	if (!room_make((void **)&entries->fields, &entries->field_capacity, entries->field_count,
	               sizeof *entries->fields) ||
	    !room_make((void **)&scan->order, &scan->order_capacity, entries->field_count,
	               sizeof *scan->order))
		return false;
	entries->fields[entries->field_count] =
		(struct sy_entry_field){entries->names.bytes, info->field_bytes};
	sy_text_add(&entries->names, info->field, info->field_bytes);
	sy_text_add_char(&entries->names, '\0');
	memmove(scan->order + at + 1, scan->order + at,
	        (entries->field_count - at) * sizeof *scan->order);
	*ret_field = scan->order[at] = (uint32_t)entries->field_count++;
	return !entries->names.failed;
}

static bool form_equal(const struct sy_entry_form *form, const sy_scan_info *info)
{
	if (form->dtype != info->dtype || form->kind != info->kind ||
	    form->shape.rank != info->shape.rank)
		return false;
	for (uint32_t i = 1; i < info->shape.rank; i++) {
		if (form->shape.tail[i - 1] != info->shape.tail[i - 1])
			return false;
	}
	return true;
}

/* Forms are few, and the same one comes many times in a row. */
static bool form_intern(struct scan *scan, const sy_scan_info *info, uint32_t *ret_form)
{
	struct sy_entries *entries = scan->entries;
	if (scan->last_form < entries->form_count &&
	    form_equal(&entries->forms[scan->last_form], info)) {
		*ret_form = scan->last_form;
		return true;
	}
	size_t at = 0;
	while (at < entries->form_count && !form_equal(&entries->forms[at], info))
		at++;
	if (at == entries->form_count) {
		if (!room_make((void **)&entries->forms, &entries->form_capacity, entries->form_count,
		               sizeof *entries->forms))
			return false;
		entries->forms[entries->form_count++] =
			(struct sy_entry_form){info->dtype, info->kind, info->shape};
	}
	*ret_form = scan->last_form = (uint32_t)at;
	return true;
}

static bool visit(void *context, const sy_scan_info *info)
{
	struct scan *scan = context;
	struct sy_entries *entries = scan->entries;
	struct sy_entry_line line = {.row = info->row, .nbytes = info->nbytes, .dim0 = info->dim0};
	if (!sy_row_list_has(scan->rows, info->row) || !is_wanted(scan->fields, info))
		return true;
	bool ok = field_intern(scan, info, &line.field) && form_intern(scan, info, &line.form) &&
	          room_make((void **)&entries->lines, &entries->capacity, entries->count,
	                    sizeof *entries->lines);
	scan->failed = !ok;
	if (ok)
		entries->lines[entries->count++] = line;
	return ok;
}

static int by_row(const void *a, const void *b)
{
	const struct sy_entry_line *x = a, *y = b;
	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	return x->field < y->field ? -1 : x->field > y->field;
}

/* Renumbers the fields by their names, so that lines sort by numbers alone. */
static bool fields_sort(struct scan *scan)
{
	struct sy_entries *entries = scan->entries;
	size_t count = entries->field_count;
	if (count == 0)
		return true;
	uint32_t *place = calloc(count, sizeof *place);
	struct sy_entry_field *sorted = calloc(count, sizeof *sorted);
	bool ok = place != NULL && sorted != NULL;
	for (size_t i = 0; ok && i < count; i++) {
		place[scan->order[i]] = (uint32_t)i;
		sorted[i] = entries->fields[scan->order[i]];
	}
	for (size_t i = 0; ok && i < entries->count; i++)
		entries->lines[i].field = place[entries->lines[i].field];
	if (ok) {
		free(entries->fields);
		entries->fields = sorted;
		entries->field_capacity = count;
	} else {
		free(sorted);
	}
	free(place);
	return ok;
}

/* An entry that was put again during the walk may have come twice. */
static void lines_unite(struct sy_entries *entries)
{
	size_t kept = 0;
	for (size_t i = 0; i < entries->count; i++) {
		if (kept > 0 && by_row(&entries->lines[kept - 1], &entries->lines[i]) == 0)
			kept--;
		entries->lines[kept++] = entries->lines[i];
	}
	entries->count = kept;
}

sy_status sy_entries_scan(sy_client *client, const struct sy_row_list *rows,
                          const struct sy_field_list *fields, struct sy_entries *ret_entries,
                          sy_error *err)
{
	struct sy_entries entries = {0};
	struct scan scan = {.entries = &entries, .rows = rows, .fields = fields};
	sy_status status = sy_client_scan(client, rows->ranges[0].first,
	                                  rows->ranges[rows->count - 1].last, visit, &scan, 0, err);
	if (status == SY_OK && (scan.failed || !fields_sort(&scan)))
		status = sy_fail(err, SY_E_SYS, __func__, "no memory for a list of %zu entries",
		                 entries.count);
	free(scan.order);
	if (status != SY_OK) {
		sy_entries_done(&entries);
		return status;
	}
	if (entries.count > 0)
		qsort(entries.lines, entries.count, sizeof *entries.lines, by_row);
	lines_unite(&entries);
	*ret_entries = entries;
	return SY_OK;
}

void sy_entries_done(struct sy_entries *entries)
{
	free(entries->lines);
	free(entries->fields);
	free(entries->forms);
	sy_text_done(&entries->names);
	*entries = (struct sy_entries){0};
}
