/* slabyard directory: the directory of a cluster as a process, for units that are started by other
 * means than `up`: by another program on this host, or on several hosts. */
#include "cli.h"
#include "commands.h"
#include "dir_daemon.h"
#include "fail.h"
#include "supervisor.h"

#include <stdio.h>
#include <sys/prctl.h>

static const char details[] =
	"Makes the run directory DIR as `up` does, prints one line when units may register\n"
	"(`slabyard unit --directory ADDRESS`), and serves until SIGTERM. It starts no unit.\n"
	"\n"
	"Without --listen the cluster is of this host alone: whoever starts its units must report\n"
	"each end of one (sy_directory_exited), and end them before or with it. What may fail to be\n"
	"reported wants --leases.\n"
	"\n"
	"With --listen units may be on any host. Each renews a lease, as with --leases: one that is\n"
	"silent is suspect, of itself answers nobody after --fence-after, and is dead, for ever,\n"
	"after --dead-after; only then are its rows lost. N and the times are fixed when the cluster\n"
	"is made. What the directory knows stays in DIR, so that it may end and start again: an\n"
	"absence shorter than --fence-after stops nothing, a longer one makes units pause.\n"
	"`slabyard down` ends it and what else runs in DIR, and removes it.\n";

static bool tell_ready(void *context, const char *run_dir, const char *address)
{
	(void)context;
	(void)run_dir;
	return printf("directory up at %s\n", address) >= 0 && fflush(stdout) == 0;
}

static bool tell_ready_here(void *context, const char *run_dir, uint64_t total_bytes)
{
	(void)context;
	(void)total_bytes;
	return printf("directory up at ipc://%s/directory.ipc\n", run_dir) >= 0 && fflush(stdout) == 0;
}

static sy_status run_here(const struct sy_dir_daemon_config *asked, bool leases, sy_error *err)
{
	struct sy_supervisor_config config = {
		.run_dir = asked->run_dir,
		.unit_count = asked->slot_count,
		.directory_only = true,
		.start_timeout_ns = 60000000000u,
		.ready = tell_ready_here,
	};
	if (leases) {
		const char *fault = sy_dir_times_lease(&asked->times)
		                            ? sy_dir_times_fault(&asked->times)
		                            : "the times of leases must be over 0";
		if (fault != NULL)
			return sy_fail(err, SY_E_INVALID, __func__, "%s", fault);
		config.times = asked->times;
	}
	return sy_supervisor_run(&config, err);
}

int sy_command_directory(struct sy_cli *cli, int argc, char **argv)
{
	const uint64_t second_ns = 1000000000u;
	uint64_t unit_count = 1;
	struct sy_dir_daemon_config config = {
		.times = {5 * second_ns, 45 * second_ns, 60 * second_ns}, .ready = tell_ready};
	struct sy_dir_times *times = &config.times;
	bool end_with_stdin = false, leases = false;
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &unit_count, .min = 1,
		 .max = SY_UNITS_MAX, .help = "units of the cluster; default: 1"},
		{.name = "listen", .value = "ADDRESS", .kind = SY_OPTION_TEXT, .target = &config.listen,
		 .help = "where units of other hosts find it, as in tcp://10.0.0.5:7400"},
		{.name = "keys", .value = "DIR", .kind = SY_OPTION_TEXT, .target = &config.keys,
		 .help = "hear over --listen only who has the keys in DIR, which `keygen` makes"},
		{.name = "insecure", .kind = SY_OPTION_FLAG, .target = &config.insecure,
		 .help = "let --listen name an address that other hosts reach, unchecked"},
		{.name = "leases", .kind = SY_OPTION_FLAG, .target = &leases,
		 .help = "units renew leases also without --listen"},
		{.name = "suspect-after", .value = "TIME", .kind = SY_OPTION_DURATION,
		 .target = &times->suspect_after_ns,
		 .help = "a unit silent so long is suspect; default: 5s"},
		{.name = "fence-after", .value = "TIME", .kind = SY_OPTION_DURATION,
		 .target = &times->fence_after_ns,
		 .help = "a unit unanswered so long answers nobody; default: 45s"},
		{.name = "dead-after", .value = "TIME", .kind = SY_OPTION_DURATION,
		 .target = &times->dead_after_ns, .help = "a unit silent so long is dead; default: 60s"},
		SY_CLI_END_WITH_STDIN_OPTION(&end_with_stdin),
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
	if (end_with_stdin && !sy_cli_end_with_stdin(cli))
		return SY_EXIT_USAGE;
	prctl(PR_SET_NAME, "slabyard-dir");
	config.run_dir = cli->run_dir;
	config.slot_count = (uint32_t)unit_count;
	sy_error err = {0};
	sy_status status = config.listen != NULL ? sy_dir_daemon_run(&config, &err)
	                                         : run_here(&config, leases, &err);
	if (status != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	return SY_EXIT_DONE;
}
