/* The keys of one call, sorted for the units: what put, get and clear start from. */
#ifndef SY_ITEMS_H
#define SY_ITEMS_H

#include <slabyard/client.h>

#include "bytes.h"

/* One key. `source` is its place in the caller's arrays: the key's index, or for columns
 * row index * column count + column. `field` indexes sy_items.fields. */
struct sy_item {
	uint64_t row;
	uint32_t field;
	uint32_t source;
};

/* All keys of a call, ascending by (row % N, row, field). Fields are the distinct names in
 * bytewise order. Owned by the call: sy_items_done. */
struct sy_items {
	struct sy_item *items;
	size_t count;
	size_t source_count; /* of the call; more than count in a part of its items */
	struct sy_span *fields;
	uint32_t field_count;
	uint32_t unit_count; /* row % unit_count + unit_base is the unit */
	uint32_t unit_base;  /* 0, or with unit_count 1 the unit the caller named */
	uint32_t sources_per_index; /* what an index of the caller's array is worth: column count */
	uint32_t index_base; /* the caller's index of source 0 */
};

static inline uint32_t sy_items_unit(const struct sy_items *items, size_t i)
{
	return items->unit_base + (uint32_t)(items->items[i].row % items->unit_count);
}

/* From keys. unique: a key that comes twice is SY_E_INVALID. Names are checked. SY_E_INVALID,
 * SY_E_SYS. */
sy_status sy_items_from_keys(const sy_key *keys, size_t count, uint32_t unit_count, bool unique,
                             struct sy_items *ret_items, sy_error *err);
/* Names of fields as spans over the same bytes, all valid: freed by the caller. SY_E_INVALID. */
sy_status sy_items_names(const char *const *fields, size_t count, struct sy_span **ret_names,
                         sy_error *err);
/* More than a call may have? To be asked before anything is made of them. SY_E_INVALID. */
sy_status sy_items_check_counts(size_t row_count, size_t field_count, sy_error *err);
/* Every row times every field, of counts that were checked; unique: neither a row nor a field
 * comes twice. */
sy_status sy_items_from_columns(const uint64_t *rows, size_t row_count,
                                const struct sy_span *fields, size_t field_count,
                                uint32_t unit_count, bool unique, struct sy_items *ret_items,
                                sy_error *err);
void sy_items_done(struct sy_items *items);
/* Two parts of it, whole rows each, which borrow what it owns. False: it has one row. */
bool sy_items_halve(const struct sy_items *items, struct sy_items ret_halves[2]);
/* Sorts items, by (unit, row, field); equal keys stay in the order they have. For items.c; false:
 * memory is short. */
bool sy_items_sort(struct sy_items *items);

/* Is it the key of the item before it? Equal keys stand side by side. */
static inline bool sy_items_again(const struct sy_items *items, size_t i)
{
	return i > 0 && items->items[i].row == items->items[i - 1].row &&
	       items->items[i].field == items->items[i - 1].field;
}

/* Puts the caller's indexes of items[first..last), whole rows, into the error's lent array, each
 * once. */
void sy_items_blame(const struct sy_items *items, size_t first, size_t last, sy_error *err);
void sy_items_blame_one(const struct sy_items *items, size_t i, sy_error *err);

#endif
