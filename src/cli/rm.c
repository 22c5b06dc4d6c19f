/* slabyard rm: removes rows, or fields of them. */
#include "commands.h"
#include "selection.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Up to NAMED_ROWS rows are named to the units one by one, so that after it none of them is
 * found, whatever others put meanwhile. Of larger ranges, such as 0-18446744073709551615, those
 * rows are removed that a walk finds. */
enum { BATCH_ROWS = 16384, NAMED_ROWS = 4 << 20 };

static const char details[] =
	"Removes the ROWS whole, or with --fields only these fields of them, and tells how many\n"
	"values went. ROWS is as in 0-1318 or 1,5,7-9. Rows that are not there are no failure.\n";

struct rm {
	const struct sy_cli *cli;
	sy_client *client;
	const char **fields; /* strings that end in a NUL */
	size_t field_count;
	uint64_t *rows; /* the batch */
	size_t row_count;
	uint64_t removed_count;
};

static sy_status batch_clear(struct rm *rm, sy_error *err)
{
	uint64_t count;
	if (rm->row_count == 0)
		return SY_OK;
	sy_status status = sy_client_clear(rm->client, rm->rows, rm->row_count, rm->fields,
	                                   rm->field_count, 0, &count, err);
	if (status == SY_OK) {
		rm->removed_count += count;
		rm->row_count = 0;
	}
	return status;
}

static sy_status row_take(struct rm *rm, uint64_t row, sy_error *err)
{
	rm->rows[rm->row_count++] = row;
	return rm->row_count == BATCH_ROWS ? batch_clear(rm, err) : SY_OK;
}

static sy_status named_clear(struct rm *rm, const struct sy_row_list *list, sy_error *err)
{
	sy_status status = SY_OK;
	for (size_t i = 0; i < list->count; i++) {
		const struct sy_row_range *range = &list->ranges[i];
		uint64_t span = range->last - range->first;
		for (uint64_t k = 0; k <= span && status == SY_OK; k++)
			status = row_take(rm, range->first + k, err);
	}
	return status != SY_OK ? status : batch_clear(rm, err);
}

static sy_status found_clear(struct rm *rm, const struct sy_selection *selection, sy_error *err)
{
	struct sy_entries entries;
	sy_status status =
		sy_entries_scan(rm->client, &selection->rows, &selection->fields, &entries, err);
	if (status != SY_OK)
		return status;
	for (size_t i = 0; i < entries.count && status == SY_OK; i++) {
		if (i == 0 || entries.lines[i].row != entries.lines[i - 1].row)
			status = row_take(rm, entries.lines[i].row, err);
	}
	sy_entries_done(&entries);
	return status != SY_OK ? status : batch_clear(rm, err);
}

/* --fields "a,b" as strings of their own: the names' text is cut at its commas. */
static bool fields_copy(struct rm *rm, const struct sy_field_list *list, struct sy_text *text)
{
	rm->fields = calloc(list->count + 1, sizeof *rm->fields);
	size_t *starts = calloc(list->count + 1, sizeof *starts);
	bool ok = rm->fields != NULL && starts != NULL;
	for (size_t i = 0; ok && i < list->count; i++) {
		starts[i] = text->bytes;
		sy_text_add(text, list->names[i].name, list->names[i].bytes);
		sy_text_add_char(text, '\0');
	}
	ok = ok && !text->failed;
	for (size_t i = 0; ok && i < list->count; i++)
		rm->fields[i] = text->data + starts[i];
	rm->field_count = list->count;
	free(starts);
	return ok;
}

static int rm_run(struct rm *rm, const struct sy_selection *selection)
{
	struct sy_text names = {0};
	sy_error err = {0};
	rm->rows = calloc(BATCH_ROWS, sizeof *rm->rows);
	bool ok = fields_copy(rm, &selection->fields, &names) && rm->rows != NULL;
	int exit_status = ok ? sy_cluster_client_open(rm->cli, &rm->client)
	                     : sy_cli_fail(rm->cli, "out of memory");
	if (exit_status == SY_EXIT_DONE) {
		bool is_named = sy_row_list_rows(&selection->rows) <= NAMED_ROWS;
		sy_status status = is_named ? named_clear(rm, &selection->rows, &err)
		                            : found_clear(rm, selection, &err);
		sy_client_close(rm->client);
		if (status != SY_OK) {
			exit_status = sy_cli_fail(rm->cli, "%s%s; %" PRIu64 " values were removed before",
			                          err.message, sy_cluster_advice(&err), rm->removed_count);
		} else {
			printf("removed %" PRIu64 " value%s\n", rm->removed_count,
			       rm->removed_count == 1 ? "" : "s");
			exit_status = sy_cli_finish(rm->cli);
		}
	}
	free(rm->rows);
	free(rm->fields);
	sy_text_done(&names);
	return exit_status;
}

int sy_command_rm(struct sy_cli *cli, int argc, char **argv)
{
	struct sy_selection selection = {0};
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_TIMEOUT_OPTION(cli),
		SY_CLI_PATH_OPTIONS(cli),
		SY_SELECTION_FIELDS_OPTION(&selection),
	};
	const struct sy_usage usage = {
		.name = "rm",
		.arguments = "ROWS",
		.summary = "Remove rows, or fields of them.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
		.argument_min = 1,
		.argument_max = 1,
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	selection.rows_text = arguments.list[0];
	exit_status = sy_selection_open(cli, &selection);
	if (exit_status != SY_EXIT_DONE)
		return exit_status;
	struct rm rm = {.cli = cli};
	exit_status = rm_run(&rm, &selection);
	sy_selection_close(&selection);
	return exit_status;
}
