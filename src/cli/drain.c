/* slabyard drain: a unit takes no new rows, and serves those it has until they are cleared. */
#include "cli.h"
#include "commands.h"
#include "units.h"

#include <inttypes.h>
#include <slabyard/client.h>
#include <slabyard/directory.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ANSWER_NS = 10000000000u;

static const char details[] =
	"A unit that drains refuses puts (they wait, and fail at their deadline) and answers gets\n"
	"and clears as before; `slabyard status` shows what it still holds. --undo takes it back. A\n"
	"unit hears of it within a heartbeat; of a suspect one it shows when it is heard of again.\n";

static int drain(const struct sy_cli *cli, const char *address, const char *keys,
                 uint32_t unit_id, bool undo)
{
	const sy_directory_options options = {
		.run_dir = address == NULL ? cli->run_dir : NULL, .address = address,
		.keys = keys};
	sy_directory *directory = NULL;
	sy_error err = {0};
	if (sy_directory_open(&options, &directory, &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	sy_status status =
		sy_directory_drain(directory, unit_id, !undo, sy_deadline_after(ANSWER_NS), &err);
	sy_directory_close(directory);
	if (status != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	printf(undo ? "unit %" PRIu32 " takes rows again\n" : "unit %" PRIu32 " drains\n", unit_id);
	return sy_cli_finish(cli);
}

int sy_command_drain(struct sy_cli *cli, int argc, char **argv)
{
	const char *address = NULL, *keys = NULL;
	bool undo = false;
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		SY_CLI_DIRECTORY_OPTION(&address),
		SY_CLI_KEYS_OPTION(&keys),
		{.name = "undo", .kind = SY_OPTION_FLAG, .target = &undo,
		 .help = "let it take rows again"},
	};
	const struct sy_usage usage = {
		.name = "drain",
		.arguments = "UNIT",
		.summary = "Let a unit take no new rows, and serve those it has.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
		.argument_min = 1,
		.argument_max = 1,
	};
	struct sy_arguments arguments;
	int exit_status;
	uint64_t unit_id = 0;
	sy_error err = {0};
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (address == NULL && !sy_cli_needs_run_dir(cli))
		return SY_EXIT_USAGE;
	const char *text = arguments.list[0];
	if (sy_parse_u64(text, strlen(text), &unit_id, &err) != SY_OK || unit_id > UINT32_MAX)
		return sy_cli_misused(cli, "\"%.40s\" is no unit's number", text);
	return drain(cli, address, keys, (uint32_t)unit_id, undo);
}
