/* slabyard directory: the directory of a cluster as a process, for those who start and watch the
 * units by other means than `up`. */
#include "cli.h"
#include "commands.h"
#include "supervisor.h"
#include "unit_options.h"

#include <stdio.h>
#include <sys/prctl.h>

static const char details[] =
	"Makes the run directory DIR as `up` does, prints one line when units may register\n"
	"(`slabyard unit --directory ADDRESS`), and serves until SIGTERM. It starts and watches no\n"
	"unit: whoever does must report each end of one (sy_directory_exited), and end them before\n"
	"or with it.\n";

static bool on_ready(void *context, const char *run_dir, uint64_t total_bytes)
{
	(void)context;
	(void)total_bytes;
	return printf("directory up at ipc://%s/directory.ipc\n", run_dir) >= 0 && fflush(stdout) == 0;
}

int sy_command_directory(struct sy_cli *cli, int argc, char **argv)
{
	uint64_t unit_count = 1;
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &unit_count, .min = 1,
		 .max = SY_UNITS_MAX, .help = "units of the cluster; default: 1"},
	};
	const struct sy_usage usage = {
		.name = "directory",
		.arguments = "",
		.summary = "Run the directory of a cluster in this process until SIGTERM.",
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
	prctl(PR_SET_NAME, "slabyard-dir");
	const struct sy_supervisor_config config = {
		.run_dir = cli->run_dir,
		.unit_count = (uint32_t)unit_count,
		.directory_only = true,
		.start_timeout_ns = 60000000000u,
		.ready = on_ready,
	};
	sy_error err;
	if (sy_supervisor_run(&config, &err) == SY_OK)
		return SY_EXIT_DONE;
	return sy_cli_fail(cli, "%s", err.message);
}
