/* JSON lines as rows: each line an object, each value an entry of the row.
 *
 *   {"a": {"b": 1}, "s": "x"}    fields a.b and s
 *
 *   string                       utf8
 *   integer                      tensor i64, scalar; u64 from 2^63 on
 *   other number                 tensor f64, scalar
 *   true, false                  tensor bool, scalar
 *   null                         json-null, empty
 *   array of integers alone      tensor i64 of rank 1 (u64 if it has to be, and can)
 *   array of other numbers alone tensor f64 of rank 1
 *   array of booleans alone      tensor bool of rank 1
 *   any other array, {}          json: its text, numbers as they stand, no white space
 */
#ifndef SY_JSON_ROWS_H
#define SY_JSON_ROWS_H

#include <slabyard/client.h>

#include "text.h"

/* One entry; its name and data lie in the batch's bytes. */
struct sy_cell {
	uint64_t row;
	size_t name_at, name_bytes;
	size_t data_at;
	uint64_t data_bytes, dim0;
	sy_dtype dtype;
	sy_kind kind;
	uint32_t rank;
};

/* Rows on their way into the store. Starts as all zeros. */
struct sy_row_batch {
	struct sy_text bytes;
	struct sy_cell *cells;
	size_t cell_count, cell_capacity;
	size_t row_count;
	struct sy_name_set *names; /* of the line being read */
	sy_key *keys;              /* by sy_row_batch_seal */
	sy_value *values;
	size_t sealed_capacity;
};

/* Adds one line as one row. line[line_bytes] is a NUL. On failure the batch is as it was before.
 * SY_E_INVALID: no JSON, no object, an object without members, a number out of range, a name
 * that no field may have, a key that stands twice, two values whose flat names are one;
 * SY_E_SYS: out of memory. */
sy_status sy_row_batch_add(struct sy_row_batch *batch, uint64_t row, const char *line,
                           size_t line_bytes, sy_error *err);

/* Fills keys and values, cell_count each, which point into the batch until the next add.
 * SY_E_SYS. */
sy_status sy_row_batch_seal(struct sy_row_batch *batch, sy_error *err);

/* Empty again, its memory kept. */
void sy_row_batch_clear(struct sy_row_batch *batch);
void sy_row_batch_done(struct sy_row_batch *batch);

#endif
