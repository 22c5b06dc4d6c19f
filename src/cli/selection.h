/* Which rows and fields a subcommand goes through: --rows and --fields. */
#ifndef SY_SELECTION_H
#define SY_SELECTION_H

#include "cluster_client.h"
#include "entries.h"

struct sy_selection {
	const char *rows_text, *fields_text; /* of the options; NULL: all */
	struct sy_row_list rows;
	struct sy_field_list fields;
};

/* Rows for a table of struct sy_option. */
#define SY_SELECTION_ROWS_OPTION(selection) \
	{ \
		.name = "rows", .value = "A-B", .kind = SY_OPTION_TEXT, \
		.target = &(selection)->rows_text, \
		.help = "only these rows, as in 0-99 or 1,5,7-9; default: all" \
	}
#define SY_SELECTION_FIELDS_OPTION(selection) \
	{ \
		.name = "fields", .value = "a,b", .kind = SY_OPTION_TEXT, \
		.target = &(selection)->fields_text, .help = "only these fields; default: all" \
	}

/* Reads both texts. SY_EXIT_DONE, or an exit status after telling why. */
int sy_selection_open(const struct sy_cli *cli, struct sy_selection *selection);
void sy_selection_close(struct sy_selection *selection);

/* Opens a client and lists what the cluster has of the selection; the caller closes both.
 * SY_EXIT_DONE, or an exit status after telling why; nothing is open then. */
int sy_selection_scan(const struct sy_cli *cli, const struct sy_selection *selection,
                      sy_client **ret_client, struct sy_entries *ret_entries);

#endif
