/* Releases of rows on many units at once, for the client and the store. */
#ifndef SY_CLEAR_H
#define SY_CLEAR_H

#include "hub.h"

struct sy_release_group {
	uint32_t unit_id;
	size_t row_count;
};

/* Rows, those of one unit side by side, in the order of the groups. */
struct sy_release {
	struct sy_release_group *groups;
	size_t group_count;
	uint64_t *rows;
	uint32_t *sources; /* where each row stands in the caller's arrays */
	size_t row_count;
	const struct sy_span *fields;
	uint32_t field_count; /* 0: whole rows */
};

/* ret_entries may be NULL. SY_E_TRANSFER_FAILED, SY_E_TIMEOUT with err->indexes by sources. */
sy_status sy_release_run(struct sy_hub *hub, const struct sy_release *release,
                         uint64_t deadline_ns, uint64_t *ret_entries, sy_error *err);

#endif
