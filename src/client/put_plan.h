/* From sorted keys to blobs: which rows go into which blob, its index, and what is copied. */
#ifndef SY_PUT_PLAN_H
#define SY_PUT_PLAN_H

#include "items.h"
#include "put_value.h"
#include "transport.h"

/* Where values come from: the caller's keys or columns. */
struct sy_put_source {
	void *context;
	struct sy_put_forms *forms; /* that the values' numbers are of */
	/* The value of a source (items.h), checked. */
	sy_status (*value)(void *context, uint32_t source, struct sy_put_value *ret_value,
	                   sy_error *err);
};

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

/* Plans the next blob, of the items from `first` on, and tells where it ends: whole rows of one
 * unit, at most SY_ENTRIES_PER_BLOB_MAX entries, and no further row once it has grown large. The
 * plan borrows the values; its memory is freed by sy_plan_done. SY_E_INVALID: a row with more
 * entries, a bad value. */
sy_status sy_plan_make(const struct sy_items *items, size_t first,
                       const struct sy_put_source *source, struct sy_blob_plan *ret_plan,
                       sy_error *err);
void sy_plan_done(struct sy_blob_plan *plan);

/* Writes a whole planned blob to out (nbytes long), gaps as zeros; for put_inline. */
void sy_plan_gather(const struct sy_blob_plan *plan, uint8_t *out);

#endif
