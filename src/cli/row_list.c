#include "row_list.h"
#include "fail.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>

static sy_status range_parse(const char *text, size_t bytes, struct sy_row_range *ret_range,
                             sy_error *err)
{
	sy_error inner;
	struct sy_row_range range;
	const char *dash = bytes == 0 ? NULL : memchr(text, '-', bytes);
	size_t head = dash != NULL ? (size_t)(dash - text) : bytes;
	sy_status status = sy_parse_u64(text, head, &range.first, &inner);
	range.last = range.first;
	if (status == SY_OK && dash != NULL)
		status = sy_parse_u64(dash + 1, bytes - head - 1, &range.last, &inner);
	int shown = bytes > 60 ? 60 : (int)bytes;
	if (status != SY_OK)
		return sy_fail(err, status, __func__,
		               "rows \"%.*s\": %s; rows are listed as in 0-99 or 1,5,7-9", shown,
		               bytes == 0 ? "" : text, inner.message);
	if (range.last < range.first)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "rows \"%.*s\" run backwards: the smaller number stands first", shown,
		               text);
	*ret_range = range;
	return SY_OK;
}

static int by_first(const void *a, const void *b)
{
	const struct sy_row_range *x = a, *y = b;
	return x->first < y->first ? -1 : x->first > y->first;
}

static void join(struct sy_row_list *list)
{
	qsort(list->ranges, list->count, sizeof *list->ranges, by_first);
	size_t kept = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct sy_row_range *one = &list->ranges[i];
		struct sy_row_range *before = kept > 0 ? &list->ranges[kept - 1] : NULL;
		bool touches = before != NULL &&
		               (before->last == UINT64_MAX || one->first <= before->last + 1);
		if (!touches)
			list->ranges[kept++] = *one;
		else if (one->last > before->last)
			before->last = one->last;
	}
	list->count = kept;
}

sy_status sy_row_list_parse(const char *text, struct sy_row_list *ret_list, sy_error *err)
{
	size_t count = 1;
	for (const char *at = text; *at != '\0'; at++)
		count += *at == ',';
	if (count > SY_ROW_RANGES_MAX)
		return sy_fail(err, SY_E_INVALID, __func__, "more than %d ranges of rows",
		               SY_ROW_RANGES_MAX);
	struct sy_row_list list = {.ranges = calloc(count, sizeof *list.ranges)};
	if (list.ranges == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	const char *at = text;
	for (; list.count < count; list.count++) {
		size_t bytes = strcspn(at, ",");
		sy_status status = range_parse(at, bytes, &list.ranges[list.count], err);
		if (status != SY_OK) {
			free(list.ranges);
			return status;
		}
		at += bytes + 1;
	}
	join(&list);
	*ret_list = list;
	return SY_OK;
}

sy_status sy_row_list_all(struct sy_row_list *ret_list, sy_error *err)
{
	struct sy_row_range *range = malloc(sizeof *range);
	if (range == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	*range = (struct sy_row_range){0, UINT64_MAX};
	*ret_list = (struct sy_row_list){range, 1};
	return SY_OK;
}

void sy_row_list_done(struct sy_row_list *list)
{
	free(list->ranges);
	*list = (struct sy_row_list){0};
}

bool sy_row_list_has(const struct sy_row_list *list, uint64_t row)
{
	size_t low = 0, high = list->count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (list->ranges[middle].last < row)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->count && list->ranges[low].first <= row;
}

uint64_t sy_row_list_rows(const struct sy_row_list *list)
{
	uint64_t rows = 0;
	for (size_t i = 0; i < list->count; i++) {
		uint64_t span = list->ranges[i].last - list->ranges[i].first;
		if (span >= UINT64_MAX - 1 - rows)
			return UINT64_MAX;
		rows += span + 1;
	}
	return rows;
}
