/* The entries of a cluster as a sorted table: what dump, ls and rm go through. */
#ifndef SY_ENTRIES_H
#define SY_ENTRIES_H

#include <slabyard/client.h>

#include "row_list.h"
#include "text.h"

/* 32 bytes each, so that ten million of them fit into 320 MB. */
struct sy_entry_line {
	uint64_t row, nbytes, dim0;
	uint32_t field, form; /* indexes below */
};

struct sy_entry_field {
	size_t at, bytes; /* in names; a NUL follows */
};

struct sy_entry_form {
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
};

/* Ascending by row, then by field name bytewise; each key once. */
struct sy_entries {
	struct sy_entry_line *lines;
	size_t count, capacity;
	struct sy_entry_field *fields; /* bytewise ascending */
	size_t field_count, field_capacity;
	struct sy_text names;
	struct sy_entry_form *forms;
	size_t form_count, form_capacity;
};

/* Field names as given to --fields: "a,b". Ascending, each once; they point into the text that
 * was parsed. */
struct sy_field_list {
	struct sy_field_name {
		const char *name;
		size_t bytes;
	} *names; /* NULL: every field */
	size_t count;
};

/* SY_E_INVALID: a name that no field may have; SY_E_SYS. */
sy_status sy_field_list_parse(const char *text, struct sy_field_list *ret_list, sy_error *err);
void sy_field_list_done(struct sy_field_list *list);

/* Walks the cluster and keeps what is of these rows and fields. The errors of sy_client_scan and
 * SY_E_SYS. The caller frees it with sy_entries_done. */
sy_status sy_entries_scan(sy_client *client, const struct sy_row_list *rows,
                          const struct sy_field_list *fields, struct sy_entries *ret_entries,
                          sy_error *err);
void sy_entries_done(struct sy_entries *entries);

/* The name of a line's field; it ends in a NUL. */
const char *sy_entries_name(const struct sy_entries *entries, const struct sy_entry_line *line,
                            size_t *ret_bytes);

#endif
