/* Rows as people list them: "0-1318", "7", "1,5,7-9". */
#ifndef SY_ROW_LIST_H
#define SY_ROW_LIST_H

#include <slabyard/status.h>

enum { SY_ROW_RANGES_MAX = 65536 };

struct sy_row_range {
	uint64_t first, last; /* both included */
};

/* Ascending, without overlaps; ranges that touch are one. */
struct sy_row_list {
	struct sy_row_range *ranges;
	size_t count;
};

/* SY_E_INVALID: empty, no number, a range that runs backwards, too many ranges; SY_E_SYS. The
 * caller frees it with sy_row_list_done. */
sy_status sy_row_list_parse(const char *text, struct sy_row_list *ret_list, sy_error *err);
/* All rows there can be. SY_E_SYS. */
sy_status sy_row_list_all(struct sy_row_list *ret_list, sy_error *err);
void sy_row_list_done(struct sy_row_list *list);

bool sy_row_list_has(const struct sy_row_list *list, uint64_t row);
/* How many rows; UINT64_MAX also where they are one more. */
uint64_t sy_row_list_rows(const struct sy_row_list *list);

#endif
