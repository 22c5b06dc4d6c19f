/* The order of a call's keys: a radix sort, and for a few an insertion sort. */
#include <stdlib.h>

#include "items.h"

/* Below this a run of comparisons is shorter than a pass of the radix sort. */
enum { INSERT_MAX = 24 };

static uint32_t unit_of(const struct sy_items *items, uint64_t row)
{
	return items->unit_count == 1 ? 0 : (uint32_t)(row % items->unit_count);
}

/* Not by source: whoever sorts keeps the order of equal keys. */
static bool comes_after(const struct sy_items *items, const struct sy_item *a,
                        const struct sy_item *b)
{
	if (a->row == b->row)
		return a->field > b->field;

	uint32_t x = unit_of(items, a->row), y = unit_of(items, b->row);
	return x != y ? x > y : a->row > b->row;
}

static void insert_sort(struct sy_items *items)
{
	for (size_t i = 1; i < items->count; i++) {
		struct sy_item item = items->items[i];
		size_t at = i;

		for (; at > 0 && comes_after(items, &items->items[at - 1], &item); at--)
			items->items[at] = items->items[at - 1];
		items->items[at] = item;
	}
}

enum part { PART_FIELD, PART_ROW, PART_UNIT };

static uint8_t digit(const struct sy_items *items, const struct sy_item *item, enum part part,
                     uint32_t shift)
{
	uint64_t value = part == PART_FIELD ? item->field
		: part == PART_ROW ? item->row : unit_of(items, item->row);

	return (uint8_t)(value >> shift);
}

/* One stable pass by a byte of the key, out of `from` into `to`. */
static void radix_pass(const struct sy_items *items, const struct sy_item *from,
                       struct sy_item *to, enum part part, uint32_t shift)
{
	uint32_t starts[256] = {0}, at = 0;

	for (size_t i = 0; i < items->count; i++)
		starts[digit(items, &from[i], part, shift)]++;
	for (uint32_t d = 0; d < 256; d++) {
		uint32_t count = starts[d];

		starts[d] = at;
		at += count;
	}
	for (size_t i = 0; i < items->count; i++)
		to[starts[digit(items, &from[i], part, shift)]++] = from[i];
}

static uint32_t bits_of(uint64_t value)
{
	return value == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(value);
}

/* The row's number becomes its unit before its place there: one number in the wanted order, with
 * fewer bytes to sort by than unit and row have. Returns the bits of a place; 0: nothing is
 * changed, as there is one unit, or row numbers are so large that both do not fit. */
static uint32_t pack_rows(struct sy_items *items)
{
	uint64_t units = items->unit_count, any = units;

	for (size_t i = 0; i < items->count; i++)
		any |= items->items[i].row;
	uint32_t place_bits = bits_of(any / units);

	if (units == 1 || place_bits + bits_of(units - 1) > 64)
		return 0;
	for (size_t i = 0; i < items->count; i++) {
		uint64_t row = items->items[i].row;

		items->items[i].row = (row % units) << place_bits | row / units;
	}
	return place_bits;
}

static void unpack_rows(struct sy_items *items, uint32_t place_bits)
{
	uint64_t units = items->unit_count, places = (UINT64_C(1) << place_bits) - 1;

	for (size_t i = 0; i < items->count; i++) {
		uint64_t row = items->items[i].row;

		items->items[i].row = (row & places) * units + (row >> place_bits);
	}
}

/* From the last byte of the key to the first, those left out that are the same in all. */
static bool radix_sort(struct sy_items *items)
{
	struct sy_item *from = items->items, *to = malloc(items->count * sizeof *to);
	uint64_t differ[PART_UNIT + 1] = {0};

	if (to == NULL)
		return false;
	uint32_t place_bits = pack_rows(items);

	for (size_t i = 1; i < items->count; i++) {
		differ[PART_FIELD] |= from[i].field ^ from[0].field;
		differ[PART_ROW] |= from[i].row ^ from[0].row;
		if (place_bits == 0)
			differ[PART_UNIT] |= unit_of(items, from[i].row) ^ unit_of(items, from[0].row);
	}
	for (uint32_t part = PART_FIELD; part <= PART_UNIT; part++) {
		for (uint32_t shift = 0; shift < 64 && differ[part] >> shift != 0; shift += 8) {
			if ((uint8_t)(differ[part] >> shift) == 0)
				continue;
			radix_pass(items, from, to, (enum part)part, shift);
			struct sy_item *swap = from;
			from = to;
			to = swap;
		}
	}
	items->items = from;
	free(to);
	if (place_bits != 0)
		unpack_rows(items, place_bits);
	return true;
}

bool sy_items_sort(struct sy_items *items)
{
	bool in_order = true;

	for (size_t i = 1; in_order && i < items->count; i++)
		in_order = !comes_after(items, &items->items[i - 1], &items->items[i]);
	if (in_order)
		return true;
	if (items->count > INSERT_MAX)
		return radix_sort(items);
	insert_sort(items);
	return true;
}
