/* slabyard unit: one unit as a process. Run by `up`; by hand for a cluster one wants to watch. */
#include "cli.h"
#include "commands.h"
#include "unit_options.h"

#include <sys/prctl.h>

int sy_command_unit(struct sy_cli *cli, int argc, char **argv)
{
	uint64_t unit_id = 0, unit_count = 1;
	const char *directory = NULL;
	struct sy_unit_options unit;
	sy_unit_options_init(&unit);
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		{.name = "unit-id", .value = "K", .kind = SY_OPTION_COUNT, .target = &unit_id,
		 .max = UINT32_MAX, .help = "its number, from 0; default: 0"},
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &unit_count, .min = 1,
		 .max = SY_UNITS_MAX, .help = "units of the cluster; default: 1"},
		{.name = "directory", .value = "ADDRESS", .kind = SY_OPTION_TEXT, .target = &directory,
		 .help = "the directory to register at; default: none"},
		SY_UNIT_OPTION_ROWS(&unit),
	};
	const struct sy_usage usage = {
		.name = "unit",
		.arguments = "",
		.summary = "Run one unit in this process until SIGTERM. `slabyard up` runs these.",
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (!sy_cli_needs_run_dir(cli))
		return SY_EXIT_USAGE;
	prctl(PR_SET_NAME, "slabyard-unit");
	struct sy_unit_config config;
	sy_unit_options_config(&unit, (uint32_t)unit_id, (uint32_t)unit_count, cli->run_dir, &config);
	config.directory = directory;
	return sy_unit_run(&config);
}
