/* slabyard down: ends a cluster and removes what it left. */
#include "cli.h"
#include "commands.h"
#include "takedown.h"

#include <stdio.h>
#include <unistd.h>

static const char details[] =
	"Tells the cluster in DIR to stop, waits until it has, and checks that no process, socket,\n"
	"memory, lock or file of its disk tier is left. All rows are gone then. If no cluster runs\n"
	"there but a killed one left processes or files, those go, and that is a success, too; if\n"
	"nothing was there at all, the exit status is 1. DIR/slabyard.log stays if it tells of a\n"
	"unit that died.\n"
	"\n"
	"A unit that has not ended after 10 s is killed. What cannot even be killed, as the system\n"
	"waits for a disk in it, is told after 25 s; then repeat this once the disk answers.\n";

struct waiting {
	bool is_terminal, was_shown;
};

static void on_waiting(void *context, uint32_t seconds)
{
	struct waiting *waiting = context;
	if (!waiting->is_terminal)
		return;
	fprintf(stderr, "\rwaiting for the units to end: %u s", seconds);
	fflush(stderr);
	waiting->was_shown = true;
}

int sy_command_down(struct sy_cli *cli, int argc, char **argv)
{
	const struct sy_option options[] = {SY_CLI_RUN_DIR_OPTION(cli)};
	const struct sy_usage usage = {
		.name = "down",
		.arguments = "",
		.summary = "Stop a cluster and remove what it left.",
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
	struct waiting waiting = {.is_terminal = isatty(STDERR_FILENO) == 1};
	const struct sy_takedown_config config = {
		.run_dir = cli->run_dir, .waiting = on_waiting, .context = &waiting};
	enum sy_takedown what = SY_TAKEDOWN_NOTHING;
	bool log_kept = false;
	sy_error err = {0};
	sy_status status = sy_takedown_run(&config, &what, &log_kept, &err);
	if (waiting.was_shown)
		fprintf(stderr, "\r\033[K");
	if (status != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	if (what == SY_TAKEDOWN_NOTHING)
		return sy_cli_fail(cli, "no cluster runs in %s and none left anything there",
		                   cli->run_dir);
	puts(what == SY_TAKEDOWN_STOPPED ? "the cluster is down"
	                                 : "no cluster ran; what a killed one had left is removed");
	if (log_kept)
		printf("%s/slabyard.log tells of what went wrong and is kept\n", cli->run_dir);
	return sy_cli_finish(cli);
}
