/* slabyard get: writes the bytes of one value. */
#include "cluster_client.h"
#include "commands.h"
#include "out_file.h"

#include <inttypes.h>
#include <stdio.h>

static const char details[] =
	"Writes the bytes of field FIELD of row GIDX as they are: text without a line end, numbers\n"
	"little-endian. `slabyard ls --rows GIDX` shows their type and shape, `slabyard dump --rows\n"
	"GIDX` shows them as JSON. If there is no such value, the exit status is 1.\n"
	"\n"
	"With -o they go to FILE, which holds all of them or is as it was before.\n";

static int value_write(const struct sy_cli *cli, const sy_value *value, const char *path)
{
	sy_error err = {0};
	if (path == NULL) {
		fwrite(value->data, 1, value->nbytes, stdout);
		return sy_cli_finish(cli);
	}
	if (sy_out_file_write(path, value->data, value->nbytes, &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	return SY_EXIT_DONE;
}

int sy_command_get(struct sy_cli *cli, int argc, char **argv)
{
	const char *path = NULL;
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_TIMEOUT_OPTION(cli),
		SY_CLI_PATH_OPTIONS(cli),
		{.name = "output", .value = "FILE", .kind = SY_OPTION_TEXT, .target = &path,
		 .letter = 'o', .help = "where the bytes go; default: stdout"},
	};
	const struct sy_usage usage = {
		.name = "get",
		.arguments = "GIDX FIELD",
		.summary = "Write the bytes of one value.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
		.argument_min = 2,
		.argument_max = 2,
	};
	struct sy_arguments arguments;
	int exit_status;
	sy_key key;
	sy_value value;
	sy_client *client = NULL;
	sy_result *result = NULL;
	sy_error err = {0};
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (sy_cluster_key_parse(arguments.list, &key, &err) != SY_OK)
		return sy_cli_misused(cli, "%s", err.message);
	exit_status = sy_cluster_client_open(cli, &client);
	if (exit_status != SY_EXIT_DONE)
		return exit_status;
	if (sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err) != SY_OK)
		exit_status = sy_cluster_client_fail(cli, &err);
	else if (!sy_result_value(result, 0, &value))
		exit_status = sy_cli_fail(cli, "row %" PRIu64 " has no field \"%s\": `slabyard ls --rows "
		                          "%" PRIu64 "` lists those it has", key.row, key.field, key.row);
	else
		exit_status = value_write(cli, &value, path);
	sy_result_free(result);
	sy_client_close(client);
	return exit_status;
}
