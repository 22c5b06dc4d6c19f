/* What a get returns: values and columns, and the pins of views. */
#ifndef SY_RESULT_H
#define SY_RESULT_H

#include <slabyard/client.h>

#include "lookup.h"

/* One key of the answer. */
struct sy_result_item {
	const uint8_t *data;
	uint64_t nbytes, dim0;
	uint32_t shape; /* index into shapes */
	uint8_t dtype, kind, found;
};

/* What keeps a view's bytes: a pin and the mapping they lie in. */
struct sy_result_hold {
	uint32_t unit_id;
	struct sy_request_id name;
	struct sy_remote *remote;
};

struct sy_result {
	struct sy_hub *hub; /* one reference while it holds pins; else NULL */
	size_t count;       /* keys */
	struct sy_result_item *items; /* by source: row * column_count + column for columns */
	sy_shape *shapes;
	uint32_t shape_count;
	uint32_t *shape_numbers; /* of the answer that is taken */
	uint8_t *memory; /* copied bytes (block.h) */
	size_t memory_bytes;
	struct sy_result_hold *holds;
	size_t hold_count;

	size_t column_count, row_count; /* of a get of columns */
	sy_got_column *columns; /* their arrays are parts of those that follow */
	uint64_t *offsets; /* column_count times row_count + 1 */
	uint8_t *found;
	uint64_t *dim0;
};

/* Fills items, shapes and columns from the answers of a lookup; column_count 0: a get of keys.
 * Items and columns have no data yet. SY_E_SYS. */
sy_status sy_result_new(const struct sy_items *items, const struct sy_lookup *lookup,
                        size_t column_count, struct sy_result **ret_result, sy_error *err);

/* One of copies out of those of the halves of its items (sy_items_halve), which were got as keys
 * and stay the caller's. SY_E_SYS. */
sy_status sy_result_join(struct sy_result *const halves[2], const struct sy_items items[2],
                         size_t column_count, struct sy_result **ret_result, sy_error *err);

/* Lays out memory for every value and makes items point into it; columns side by side. */
sy_status sy_result_layout(struct sy_result *result, sy_error *err);

#endif
