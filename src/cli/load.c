/* slabyard load: puts the lines of a JSON-lines file as rows. */
#include "cluster_client.h"
#include "commands.h"
#include "fail.h"
#include "json_rows.h"
#include "lines.h"
#include "progress.h"
#include "units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A batch is put when it has either. */
enum { BATCH_ROWS = 1024, BATCH_BYTES = 16 << 20 };

static const char details[] =
	"Each line of FILE (- is stdin) is a JSON object and becomes a row, its values become\n"
	"fields. Line 1 becomes row G, line 2 row G + 1, and so on; blank lines are skipped, but\n"
	"counted, so that a row's number always tells its line. Fields of nested objects are named\n"
	"a.b.\n"
	"\n"
	"Strings, integers (i64, or u64 from 2^63 on), floats (f64), booleans and null keep their\n"
	"kind; arrays of integers, of floats or of booleans alone become tensors of rank 1; other\n"
	"arrays and {} are kept as JSON. `slabyard dump` gives all of it back.\n"
	"\n"
	"A field that the row has already is overwritten; fields that the line lacks stay. At the\n"
	"first line that cannot be loaded it stops, tells why, and what was loaded before.\n";

struct load {
	const struct sy_cli *cli;
	const char *path;
	uint64_t first_row;
	sy_client *client;
	struct sy_lines lines;
	struct sy_row_batch batch;
	uint64_t batch_line; /* the line of the batch's first row */
	uint64_t row_count, entry_count, value_bytes; /* loaded */
	uint64_t lowest_row, highest_row;
	struct sy_progress progress;
};

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void progress_show(struct load *load)
{
	char note[64], size[16];
	sy_format_bytes(load->lines.taken_bytes, size);
	snprintf(note, sizeof note, "%" PRIu64 " rows, %s", load->row_count, size);
	sy_progress_show(&load->progress, load->lines.taken_bytes, load->lines.file_bytes, note);
}

static sy_status batch_put(struct load *load, sy_error *err)
{
	struct sy_row_batch *batch = &load->batch;
	if (batch->cell_count == 0)
		return SY_OK;
	sy_status status = sy_row_batch_seal(batch, err);
	if (status == SY_OK)
		status = sy_client_put(load->client, batch->keys, batch->values, batch->cell_count, 0,
		                       err);
	if (status != SY_OK)
		return status;
	for (size_t i = 0; i < batch->cell_count; i++)
		load->value_bytes += batch->cells[i].data_bytes;
	load->lowest_row = load->row_count == 0 ? batch->cells[0].row : load->lowest_row;
	load->highest_row = batch->cells[batch->cell_count - 1].row;
	load->row_count += batch->row_count;
	load->entry_count += batch->cell_count;
	sy_row_batch_clear(batch);
	progress_show(load);
	return SY_OK;
}

/* "; 12 rows before it were loaded". Some of the rows of a failed put may be there, too. */
static int fail(struct load *load, uint64_t first_line, uint64_t last_line, const sy_error *err)
{
	char lines[64];
	const char *file = strcmp(load->path, "-") == 0 ? "stdin" : load->path;
	if (last_line > first_line)
		snprintf(lines, sizeof lines, "lines %" PRIu64 "-%" PRIu64, first_line, last_line);
	else
		snprintf(lines, sizeof lines, "line %" PRIu64, first_line);
	sy_progress_done(&load->progress);
	return sy_cli_fail(load->cli, "%s, %s: %s%s; %" PRIu64 " row%s before %s loaded", file, lines,
	                   err->message, sy_cluster_advice(err), load->row_count,
	                   plural(load->row_count), load->row_count == 1 ? "was" : "were");
}

static int put_or_fail(struct load *load, uint64_t last_line, bool *ret_go_on)
{
	sy_error err = {0};
	if (batch_put(load, &err) == SY_OK)
		return SY_EXIT_DONE;
	*ret_go_on = false;
	return fail(load, load->batch_line, last_line, &err);
}

static bool is_blank(const char *line, size_t bytes)
{
	size_t at = 0;
	while (at < bytes && strchr(" \t\r", line[at]) != NULL && line[at] != '\0')
		at++;
	return at == bytes;
}

static sy_status line_take(struct load *load, const char *line, size_t bytes, sy_error *err)
{
	static const char mark[] = "\xef\xbb\xbf"; /* which some editors write in front */
	uint64_t number = load->lines.line_number, row;
	if (number == 1 && bytes >= 3 && memcmp(line, mark, 3) == 0) {
		line += 3;
		bytes -= 3;
	}
	if (is_blank(line, bytes))
		return SY_OK;
	if (__builtin_add_overflow(load->first_row, number - 1, &row))
		return sy_fail(err, SY_E_INVALID, __func__,
		               "its row would be over 2^64 - 1: give a smaller --first-row");
	if (load->batch.cell_count == 0)
		load->batch_line = number;
	return sy_row_batch_add(&load->batch, row, line, bytes, err);
}

/* What stands before a bad line is put before it is told. */
static int load_all(struct load *load)
{
	bool go_on = true;
	int exit_status = SY_EXIT_DONE;
	while (go_on && exit_status == SY_EXIT_DONE) {
		char *line = NULL;
		size_t bytes = 0;
		sy_error err = {0};
		uint64_t before = load->lines.line_number;
		sy_status status = sy_lines_next(&load->lines, &line, &bytes, &err);
		go_on = status == SY_OK && line != NULL;
		if (go_on) {
			status = line_take(load, line, bytes, &err);
			go_on = status == SY_OK;
			progress_show(load);
		}
		bool is_full = load->batch.row_count >= BATCH_ROWS ||
		               load->batch.bytes.bytes >= BATCH_BYTES;
		if (!go_on || is_full)
			exit_status = put_or_fail(load, go_on ? before + 1 : before, &go_on);
		if (status != SY_OK && exit_status == SY_EXIT_DONE)
			exit_status = fail(load, load->lines.line_number, 0, &err);
	}
	return exit_status;
}

static int summary_print(struct load *load)
{
	char size[16];
	sy_progress_done(&load->progress);
	sy_format_bytes(load->value_bytes, size);
	if (load->row_count == 0)
		puts("loaded 0 rows: there was no line");
	else if (load->row_count == 1)
		printf("loaded 1 row (%" PRIu64 "), %" PRIu64 " value%s, %s\n", load->lowest_row,
		       load->entry_count, plural(load->entry_count), size);
	else
		printf("loaded %" PRIu64 " rows (%" PRIu64 "-%" PRIu64 "), %" PRIu64 " values, %s\n",
		       load->row_count, load->lowest_row, load->highest_row, load->entry_count, size);
	return sy_cli_finish(load->cli);
}

static int load_run(struct load *load)
{
	sy_error err = {0};
	if (sy_lines_open(load->path, &load->lines, &err) != SY_OK)
		return sy_cli_fail(load->cli, "%s", err.message);
	int exit_status = sy_cluster_client_open(load->cli, &load->client);
	if (exit_status == SY_EXIT_DONE) {
		sy_progress_init(&load->progress, "load");
		exit_status = load_all(load);
		sy_progress_done(&load->progress);
		sy_client_close(load->client);
	}
	if (exit_status == SY_EXIT_DONE)
		exit_status = summary_print(load);
	sy_row_batch_done(&load->batch);
	sy_lines_close(&load->lines);
	return exit_status;
}

int sy_command_load(struct sy_cli *cli, int argc, char **argv)
{
	struct load load = {.cli = cli};
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_TIMEOUT_OPTION(cli),
		SY_CLI_PATH_OPTIONS(cli),
		{.name = "first-row", .value = "G", .kind = SY_OPTION_COUNT, .target = &load.first_row,
		 .help = "the row that line 1 becomes; default: 0"},
	};
	const struct sy_usage usage = {
		.name = "load",
		.arguments = "FILE.jsonl",
		.summary = "Put the lines of a JSON-lines file as rows.",
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
	load.path = arguments.list[0];
	return load_run(&load);
}
