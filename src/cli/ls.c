/* slabyard ls: lists what the cluster holds, an entry a line. */
#include "commands.h"
#include "selection.h"
#include "units.h"
#include "value_print.h"

#include <inttypes.h>
#include <stdio.h>

enum { FLUSH_BYTES = 1 << 16 };

static const char details[] =
	"Lists row, field, type, shape and bytes of every value, in the order of rows and fields,\n"
	"and their sum at the end. The type is that of a tensor's elements, or the kind of any other\n"
	"value: bytes, utf8, msgpack, pickle, json-null, json. Nothing of the values is read.\n"
	"\n"
	"--json prints an array of objects with row, field, kind, dtype (null where it is no\n"
	"tensor), shape and bytes, an object a line.\n";

struct ls {
	const struct sy_cli *cli;
	const struct sy_entries *entries;
	struct sy_text out;
};

/* "[3, 4]"; of a scalar "[]". */
static void shape_add(struct sy_text *out, const struct sy_entry_form *form, uint64_t dim0)
{
	char number[24];
	sy_text_add_char(out, '[');
	for (uint32_t i = 0; i < form->shape.rank; i++) {
		uint64_t size = i == 0 ? dim0 : form->shape.tail[i - 1];
		snprintf(number, sizeof number, "%s%" PRIu64, i == 0 ? "" : ", ", size);
		sy_text_add_word(out, number);
	}
	sy_text_add_char(out, ']');
}

static void json_line_add(struct ls *ls, const struct sy_entry_line *line, bool is_last)
{
	const struct sy_entry_form *form = &ls->entries->forms[line->form];
	bool is_tensor = form->kind == SY_KIND_TENSOR;
	size_t name_bytes;
	const char *name = sy_entries_name(ls->entries, line, &name_bytes);
	char text[96];
	snprintf(text, sizeof text, "{\"row\": %" PRIu64 ", \"field\": ", line->row);
	sy_text_add_word(&ls->out, text);
	sy_string_print(&ls->out, name, name_bytes);
	snprintf(text, sizeof text, ", \"kind\": \"%s\", \"dtype\": %s%s%s, \"shape\": ",
	         sy_kind_name(form->kind), is_tensor ? "\"" : "",
	         is_tensor ? sy_dtype_name(form->dtype) : "null", is_tensor ? "\"" : "");
	sy_text_add_word(&ls->out, text);
	shape_add(&ls->out, form, line->dim0);
	snprintf(text, sizeof text, ", \"bytes\": %" PRIu64 "}%s\n", line->nbytes, is_last ? "" : ",");
	sy_text_add_word(&ls->out, text);
}

static void table_line_add(struct ls *ls, const struct sy_entry_line *line, int name_width)
{
	const struct sy_entry_form *form = &ls->entries->forms[line->form];
	bool is_tensor = form->kind == SY_KIND_TENSOR;
	size_t name_bytes;
	const char *name = sy_entries_name(ls->entries, line, &name_bytes);
	struct sy_text shape = {0}, shown = {0};
	char text[64];
	if (is_tensor)
		shape_add(&shape, form, line->dim0);
	sy_text_add_char(&shape, '\0');
	/* As JSON writes it, lest a name that holds a line break or an escape plays tricks. */
	sy_string_print(&shown, name, name_bytes);
	snprintf(text, sizeof text, "%10" PRIu64 "  ", line->row);
	sy_text_add_word(&ls->out, text);
	size_t width = shown.bytes >= 2 ? shown.bytes - 2 : 0;
	sy_text_add(&ls->out, shown.data != NULL ? shown.data + 1 : "", width);
	for (size_t i = width; i < (size_t)name_width; i++)
		sy_text_add_char(&ls->out, ' ');
	snprintf(text, sizeof text, "  %-10s  ",
	         is_tensor ? sy_dtype_name(form->dtype) : sy_kind_name(form->kind));
	sy_text_add_word(&ls->out, text);
	sy_text_add_word(&ls->out, shape.failed ? "" : shape.data);
	for (size_t i = shape.bytes; i < 13; i++)
		sy_text_add_char(&ls->out, ' ');
	snprintf(text, sizeof text, "%12" PRIu64 "\n", line->nbytes);
	sy_text_add_word(&ls->out, text);
	ls->out.failed = ls->out.failed || shape.failed || shown.failed;
	sy_text_done(&shape);
	sy_text_done(&shown);
}

static void flush(struct ls *ls, size_t above)
{
	if (ls->out.bytes > above) {
		fwrite(ls->out.data, 1, ls->out.bytes, stdout);
		sy_text_cut(&ls->out, 0);
	}
}

static void json_print(struct ls *ls)
{
	sy_text_add_word(&ls->out, "[\n");
	for (size_t i = 0; i < ls->entries->count && !ferror(stdout); i++) {
		json_line_add(ls, &ls->entries->lines[i], i + 1 == ls->entries->count);
		flush(ls, FLUSH_BYTES);
	}
	sy_text_add_word(&ls->out, "]\n");
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void table_print(struct ls *ls)
{
	const struct sy_entries *entries = ls->entries;
	int name_width = 5;
	uint64_t rows = 0, bytes = 0;
	char text[128], size[16];
	for (size_t i = 0; i < entries->field_count; i++) {
		size_t width = entries->fields[i].bytes > 40 ? 40 : entries->fields[i].bytes;
		name_width = (int)width > name_width ? (int)width : name_width;
	}
	snprintf(text, sizeof text, "%10s  %-*s  %-10s  %-13s%12s\n", "row", name_width, "field",
	         "type", "shape", "bytes");
	if (entries->count > 0)
		sy_text_add_word(&ls->out, text);
	for (size_t i = 0; i < entries->count && !ferror(stdout); i++) {
		const struct sy_entry_line *line = &entries->lines[i];
		rows += i == 0 || line->row != entries->lines[i - 1].row;
		bytes += line->nbytes;
		table_line_add(ls, line, name_width);
		flush(ls, FLUSH_BYTES);
	}
	sy_format_bytes(bytes, size);
	snprintf(text, sizeof text, "%" PRIu64 " row%s, %zu value%s, %s\n", rows, plural(rows),
	         entries->count, plural(entries->count), size);
	sy_text_add_word(&ls->out, text);
}

static int ls_print(struct ls *ls, bool json)
{
	if (json)
		json_print(ls);
	else
		table_print(ls);
	bool failed = ls->out.failed;
	flush(ls, 0);
	sy_text_done(&ls->out);
	return failed ? sy_cli_fail(ls->cli, "out of memory") : sy_cli_finish(ls->cli);
}

int sy_command_ls(struct sy_cli *cli, int argc, char **argv)
{
	struct sy_selection selection = {0};
	bool json = false;
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_TIMEOUT_OPTION(cli),
		SY_CLI_PATH_OPTIONS(cli),
		SY_SELECTION_ROWS_OPTION(&selection),
		SY_SELECTION_FIELDS_OPTION(&selection),
		{.name = "json", .kind = SY_OPTION_FLAG, .target = &json, .help = "print JSON"},
	};
	const struct sy_usage usage = {
		.name = "ls",
		.arguments = "",
		.summary = "List what the cluster holds, a value a line.",
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
	sy_client *client = NULL;
	struct sy_entries entries;
	exit_status = sy_selection_scan(cli, &selection, &client, &entries);
	if (exit_status == SY_EXIT_DONE) {
		struct ls ls = {.cli = cli, .entries = &entries};
		exit_status = ls_print(&ls, json);
		sy_entries_done(&entries);
		sy_client_close(client);
	}
	sy_selection_close(&selection);
	return exit_status;
}
