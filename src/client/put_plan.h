/* From sorted keys to blobs: which rows go into which blob, its index, and what is copied. */
#ifndef SY_PUT_PLAN_H
#define SY_PUT_PLAN_H

#include "items.h"
#include "transport.h"

/* One value as the index sees it. */
struct sy_put_value {
	const void *data;
	uint64_t nbytes, extent;
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
};

/* Where values come from: the caller's keys or columns. */
struct sy_put_source {
	const void *context;
	/* The value of a source (items.h); checked: kind, dtype, shape and length agree. */
	sy_status (*value)(const void *context, uint32_t source, struct sy_put_value *ret_value,
	                   sy_error *err);
};

sy_status sy_put_value_from(const sy_value *value, struct sy_put_value *ret_value, sy_error *err);

/* One blob to put. */
struct sy_blob_plan {
	uint32_t unit_id;
	uint32_t entry_count;
	size_t first, last; /* items it holds; for a store's blob its own index, first + 1 */
	sy_blob_id id;
	uint64_t nbytes;
	struct sy_range *ranges; /* offsets of the blob; the index first */
	size_t range_count;
	void *memory;            /* what the plan owns: index bytes and ranges */

	/* how it went (put_run.c) */
	sy_status status;
	sy_error error;
	uint64_t incarnation, generation; /* of the unit and the region, if it came to an alloc */
	bool published, unknown;
};

/* Where the next blob ends: whole rows of one unit, at most SY_ENTRIES_PER_BLOB_MAX entries, and
 * no further row once it has grown large. SY_E_INVALID: a row with more entries, a bad value. */
sy_status sy_plan_cut(const struct sy_items *items, size_t first,
                      const struct sy_put_source *source, size_t *ret_last, sy_error *err);

/* Plans items[first..last), which sy_plan_cut made. The plan borrows the values; its memory is
 * freed by sy_plan_done. */
sy_status sy_plan_make(const struct sy_items *items, size_t first, size_t last,
                       const struct sy_put_source *source, struct sy_blob_plan *ret_plan,
                       sy_error *err);
void sy_plan_done(struct sy_blob_plan *plan);

/* Writes a whole planned blob to out (nbytes long), gaps as zeros; for put_inline. */
void sy_plan_gather(const struct sy_blob_plan *plan, uint8_t *out);

#endif
