/* slabyard dump: prints rows as JSON lines. */
#include "commands.h"
#include "progress.h"
#include "selection.h"
#include "value_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What is asked for at once, in whole rows: as long as it stays below both. */
enum { BATCH_KEYS = 16384, BATCH_BYTES = 16 << 20 };

static const char details[] =
	"Prints one JSON object a line for each row that has any of the fields, in row order, with\n"
	"the fields by name and nothing added. What `slabyard load` put comes back as it was, with\n"
	"nested objects flat: {\"a\": {\"b\": 1}} as {\"a.b\":1}.\n"
	"\n"
	"Tensors of all types are printed as numbers, in arrays by shape; floats with digits that\n"
	"read back as the same double. What JSON has no form for is an object:\n"
	"{\"$bytes\": BASE64}, {\"$msgpack\": BASE64}, {\"$pickle\": BASE64}, {\"$float\": \"nan\"}.\n"
	"\n"
	"Rows that are put or removed meanwhile may be in it or not; a row is never torn.\n";

struct dump {
	const struct sy_cli *cli;
	sy_client *client;
	const struct sy_entries *entries;
	sy_key *keys; /* room for the largest batch */
	struct sy_text out;
	struct sy_progress progress;
};

/* The end of the batch that begins at `first`: whole rows, at least one. */
static size_t batch_end(const struct sy_entries *entries, size_t first)
{
	size_t end = first;
	uint64_t bytes = 0;
	while (end < entries->count) {
		size_t row_end = end;
		uint64_t row_bytes = 0;
		for (; row_end < entries->count && entries->lines[row_end].row == entries->lines[end].row;
		     row_end++)
			row_bytes += entries->lines[row_end].nbytes;
		if (end > first && (row_end - first > BATCH_KEYS || bytes + row_bytes > BATCH_BYTES))
			break;
		bytes += row_bytes;
		end = row_end;
	}
	return end;
}

static void batch_print(struct dump *dump, size_t first, size_t end, const sy_result *result)
{
	const struct sy_entry_line *lines = dump->entries->lines;
	bool is_begun = false;
	for (size_t i = first; i < end; i++) {
		sy_value value;
		if (sy_result_value(result, i - first, &value)) {
			size_t name_bytes;
			const char *name = sy_entries_name(dump->entries, &lines[i], &name_bytes);
			sy_text_add_char(&dump->out, is_begun ? ',' : '{');
			sy_string_print(&dump->out, name, name_bytes);
			sy_text_add_char(&dump->out, ':');
			sy_value_print(&dump->out, &value);
			is_begun = true;
		}
		bool is_row_end = i + 1 == end || lines[i + 1].row != lines[i].row;
		if (is_row_end && is_begun) {
			sy_text_add_word(&dump->out, "}\n");
			is_begun = false;
		}
	}
}

static int batch_dump(struct dump *dump, size_t first, size_t end)
{
	sy_result *result = NULL;
	sy_error err = {0};
	for (size_t i = first; i < end; i++) {
		sy_key *key = &dump->keys[i - first];
		key->row = dump->entries->lines[i].row;
		key->field = sy_entries_name(dump->entries, &dump->entries->lines[i], &key->field_bytes);
	}
	if (sy_client_get(dump->client, dump->keys, end - first, SY_GET_COPY, 0, &result, &err) !=
	    SY_OK)
		return sy_cluster_client_fail(dump->cli, &err);
	batch_print(dump, first, end, result);
	sy_result_free(result);
	if (dump->out.failed)
		return sy_cli_fail(dump->cli, "out of memory");
	fwrite(dump->out.data, 1, dump->out.bytes, stdout);
	sy_text_cut(&dump->out, 0);
	return SY_EXIT_DONE;
}

static int dump_all(struct dump *dump)
{
	const struct sy_entries *entries = dump->entries;
	size_t most = 0;
	for (size_t at = 0, end; at < entries->count; at = end) {
		end = batch_end(entries, at);
		most = end - at > most ? end - at : most;
	}
	dump->keys = calloc(most + 1, sizeof *dump->keys);
	if (dump->keys == NULL)
		return sy_cli_fail(dump->cli, "out of memory");
	int exit_status = SY_EXIT_DONE;
	/* Once nobody reads or the disk is full, the rest is in vain. */
	for (size_t at = 0, end; at < entries->count && exit_status == SY_EXIT_DONE && !ferror(stdout);
	     at = end) {
		char note[48];
		end = batch_end(entries, at);
		snprintf(note, sizeof note, "row %" PRIu64, entries->lines[at].row);
		sy_progress_show(&dump->progress, at, entries->count, note);
		exit_status = batch_dump(dump, at, end);
	}
	sy_progress_done(&dump->progress);
	free(dump->keys);
	sy_text_done(&dump->out);
	return exit_status == SY_EXIT_DONE ? sy_cli_finish(dump->cli) : exit_status;
}

int sy_command_dump(struct sy_cli *cli, int argc, char **argv)
{
	struct sy_selection selection = {0};
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_TIMEOUT_OPTION(cli),
		SY_CLI_PATH_OPTIONS(cli),
		SY_SELECTION_ROWS_OPTION(&selection),
		SY_SELECTION_FIELDS_OPTION(&selection),
	};
	const struct sy_usage usage = {
		.name = "dump",
		.arguments = "",
		.summary = "Print rows as JSON lines.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	exit_status = sy_selection_open(cli, &selection);
	if (exit_status != SY_EXIT_DONE)
		return exit_status;
	struct dump dump = {.cli = cli};
	struct sy_entries entries;
	exit_status = sy_selection_scan(cli, &selection, &dump.client, &entries);
	if (exit_status == SY_EXIT_DONE) {
		dump.entries = &entries;
		sy_progress_init(&dump.progress, "dump");
		exit_status = dump_all(&dump);
		sy_entries_done(&entries);
		sy_client_close(dump.client);
	}
	sy_selection_close(&selection);
	return exit_status;
}
