/* slabyard unit: a unit, or several, as a process, run by `up`, or by hand for a cluster of
 * several hosts. */
#include "cli.h"
#include "commands.h"
#include "fail.h"
#include "unit_options.h"

#include <slabyard/client.h>
#include <slabyard/directory.h>
#include <stdlib.h>
#include <sys/prctl.h>

static const uint64_t ANSWER_NS = 10000000000u;

static const char details[] =
	"Makes the run directory DIR if it is not there, registers at the directory as the unit of\n"
	"that id, and serves until SIGTERM. It renews its lease there, and while it cannot for long\n"
	"it answers nobody; declared dead, it ends. Clients of this host reach its rows; those of\n"
	"other hosts where --listen names an address that they reach and --policy lets UCX move\n"
	"values: over RDMA (rdma: UCX_TLS must say so), or over TCP, too (allow-tcp, for\n"
	"development). A unit that died is started again by the same command: what it left is\n"
	"removed, and it comes back empty.\n"
	"\n"
	"With --count one thread serves several units in turns: a host with more units than\n"
	"processors spends less on them so. They end together.\n";

/* How many units the cluster of this directory has. */
static sy_status units_count(const char *address, const char *keys, uint64_t *ret_count,
                             sy_error *err)
{
	const sy_directory_options options = {.address = address, .keys = keys};
	sy_unit_entry *units = calloc(SY_DIRECTORY_UNITS_MAX, sizeof *units);
	sy_directory *directory = NULL;
	size_t listed = 0;
	uint32_t slots = 0;
	sy_status status =
		units != NULL ? SY_OK : sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		status = sy_directory_open(&options, &directory, err);
	if (status == SY_OK)
		status = sy_directory_units(directory, 0, sy_deadline_after(ANSWER_NS), units,
		                            SY_DIRECTORY_UNITS_MAX, &listed, &slots, NULL, err);
	sy_directory_close(directory);
	free(units);
	if (status == SY_OK)
		*ret_count = slots;
	return status;
}

int sy_command_unit(struct sy_cli *cli, int argc, char **argv)
{
	uint64_t unit_id = 0, unit_count = 0, here_count = 1;
	const char *directory = NULL;
	bool end_with_stdin = false, check = false;
	struct sy_unit_options unit;
	sy_unit_options_init(&unit);
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		{.name = "id", .value = "K", .kind = SY_OPTION_COUNT, .target = &unit_id,
		 .max = UINT32_MAX, .help = "its number, from 0; default: 0"},
		{.name = "count", .value = "C", .kind = SY_OPTION_COUNT, .target = &here_count, .min = 1,
		 .max = SY_UNITS_MAX,
		 .help = "run units K to K + C - 1, each with a slab of its own; default: 1"},
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &unit_count, .min = 1,
		 .max = SY_UNITS_MAX,
		 .help = "units of the cluster; default: as the directory says, or 1"},
		{.name = "directory", .value = "ADDRESS", .kind = SY_OPTION_TEXT, .target = &directory,
		 .help = "the directory to register at; default: none"},
		SY_CLI_END_WITH_STDIN_OPTION(&end_with_stdin),
		SY_UNIT_OPTION_ROWS(&unit),
		{.name = "check", .kind = SY_OPTION_FLAG, .target = &check,
		 .help = "start nothing: end at once, and say what is wrong with the options"},
	};
	const struct sy_usage usage = {
		.name = "unit",
		.arguments = "",
		.summary = "Run a unit in this process until SIGTERM. `slabyard up` runs these itself.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (!sy_cli_needs_run_dir(cli))
		return SY_EXIT_USAGE;
	if (unit.slab_bytes == 0)
		return sy_cli_misused(cli, "how much memory shall it have? give --slab-bytes SIZE");
	sy_error err = {0};
	if (unit_count == 0 && directory == NULL)
		unit_count = 1;
	if (unit_count == 0 && units_count(directory, unit.keys, &unit_count, &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	struct sy_unit_config config;
	sy_unit_options_config(&unit, (uint32_t)unit_id, (uint32_t)unit_count, cli->run_dir, &config);
	config.directory = directory;
	if (check && sy_unit_config_check(&config, &err) != SY_OK)
		return sy_cli_misused(cli, "%s", err.message);
	if (here_count > 1 && unit_id + here_count > unit_count)
		return sy_cli_misused(cli, "--id %llu and --count %llu: the cluster's units are 0 to %llu",
		                      (unsigned long long)unit_id, (unsigned long long)here_count,
		                      (unsigned long long)(unit_count - 1));
	if (check)
		return SY_EXIT_DONE;
	if (end_with_stdin && !sy_cli_end_with_stdin(cli))
		return SY_EXIT_USAGE;
	prctl(PR_SET_NAME, "slabyard-unit");
	return sy_unit_run(&config, (uint32_t)here_count);
}
