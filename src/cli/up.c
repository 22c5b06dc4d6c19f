/* slabyard up: makes a cluster on this host and keeps it running, here or in the background. */
#include "cli.h"
#include "commands.h"
#include "supervisor.h"
#include "unit_options.h"
#include "units.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REPORT_BYTES = 1024 };

/* What the supervisor in the background tells the one who started it: one letter, one line. */
enum { REPORT_READY = 'R', REPORT_FAILED = 'F' };

struct up {
	struct sy_cli *cli;
	uint64_t unit_count;
	bool detach, restart;
	struct sy_unit_options unit;
	struct sy_unit_words words;
	int report_fd; /* -1: in the foreground, or told already */
};

static const char details[] =
	"Makes the run directory DIR (mode 0700) if it is not there, starts a directory and N units\n"
	"as processes, and prints one line when all are ready. Without --detach it then stays and\n"
	"stops the cluster at SIGTERM or Ctrl-C; with it, it returns, `slabyard down` stops the\n"
	"cluster, and DIR/slabyard.log has what the units say. What a killed cluster left in DIR is\n"
	"removed. If a unit fails to start, everything stops and the cause is told.\n"
	"\n"
	"Row g lives on unit g mod N; N is fixed for the cluster's life. A unit that dies later\n"
	"takes its rows with it and the others serve on. With --restart it comes back without them\n"
	"as a new incarnation: after 0.1 s, then later and later up to 5 s, until it has lived for a\n"
	"minute or has died 8 times in a row. `slabyard status` shows how often, and as which\n"
	"incarnation.\n"
	"\n"
	"If DIR was not there before, it goes with the cluster once it is empty.\n";

/* False: nobody listens any more. */
static bool report(struct up *up, char letter, const char *line)
{
	char message[REPORT_BYTES];
	int bytes = snprintf(message, sizeof message, "%c%s", letter, line);
	size_t length = (size_t)bytes < sizeof message ? (size_t)bytes : sizeof message - 1;
	bool ok = write(up->report_fd, message, length) == (ssize_t)length;
	close(up->report_fd);
	up->report_fd = -1;
	return ok;
}

static bool on_ready(void *context, const char *run_dir, uint64_t total_bytes)
{
	struct up *up = context;
	char size[16], line[REPORT_BYTES], rounded[96] = "";
	uint64_t asked_bytes = up->unit.slab_bytes, odd_bytes = asked_bytes % SY_UNIT_PAGE_BYTES;
	sy_format_bytes(total_bytes, size);
	if (odd_bytes != 0)
		snprintf(rounded, sizeof rounded, " (%llu bytes each: %llu in whole pages)",
		         (unsigned long long)(asked_bytes - odd_bytes), (unsigned long long)asked_bytes);
	snprintf(line, sizeof line, "%llu unit%s up, %s in all%s, run dir %s",
	         (unsigned long long)up->unit_count, up->unit_count == 1 ? "" : "s", size, rounded,
	         run_dir);
	if (!up->detach)
		return puts(line) >= 0 && fflush(stdout) == 0;
	return report(up, REPORT_READY, line);
}

static int supervise(struct up *up)
{
	const struct sy_supervisor_config config = {
		.run_dir = up->cli->run_dir,
		.to_log = up->detach,
		.restart = up->restart,
		.unit_count = (uint32_t)up->unit_count,
		.unit_words = up->words.list,
		.unit_word_count = up->words.count,
		/* Memory is populated at start: a slow host fills 256 MiB a second. */
		.start_timeout_ns =
			(60 + ((up->unit.slab_bytes >> 28) * up->unit_count)) * 1000000000u,
		.ready = on_ready,
		.context = up,
	};
	sy_error err = {0};
	if (sy_supervisor_run(&config, &err) == SY_OK)
		return SY_EXIT_DONE;
	if (up->report_fd >= 0)
		report(up, REPORT_FAILED, err.message);
	else
		sy_cli_fail(up->cli, "%s", err.message);
	return SY_EXIT_FAILED;
}

/* Waits for what the supervisor reports and passes it on. */
static int report_await(const struct up *up, int fd, pid_t supervisor)
{
	char message[REPORT_BYTES];
	size_t bytes = 0;
	for (ssize_t got = 1; got != 0 && bytes < sizeof message - 1;) {
		got = read(fd, message + bytes, sizeof message - 1 - bytes);
		if (got > 0)
			bytes += (size_t)got;
		else if (got < 0 && errno != EINTR)
			break;
	}
	message[bytes] = '\0';
	if (bytes > 0 && message[0] == REPORT_READY) {
		puts(message + 1);
		return sy_cli_finish(up->cli);
	}
	/* What it removes is gone when we return. */
	waitpid(supervisor, NULL, 0);
	if (bytes > 0)
		return sy_cli_fail(up->cli, "%s", message + 1);
	return sy_cli_fail(up->cli, "the cluster ended before it was ready; see %s/slabyard.log",
	                   up->cli->run_dir);
}

static int detach(struct up *up)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return sy_cli_fail(up->cli, "cannot open a pipe: %s", strerror(errno));
	pid_t supervisor = fork();
	if (supervisor < 0)
		return sy_cli_fail(up->cli, "cannot start a process: %s", strerror(errno));
	if (supervisor == 0) {
		close(ends[0]);
		up->report_fd = ends[1];
		setsid();
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (null_fd >= 0)
			dup2(null_fd, STDIN_FILENO);
		_exit(supervise(up));
	}
	close(ends[1]);
	int exit_status = report_await(up, ends[0], supervisor);
	close(ends[0]);
	return exit_status;
}

/* Units start in another folder. False and errno: it is not there. A path that was not given stays
 * so. */
static bool make_absolute(const char **path, char ret_absolute[PATH_MAX])
{
	if (*path == NULL)
		return true;
	if (realpath(*path, ret_absolute) == NULL)
		return false;
	*path = ret_absolute;
	return true;
}

int sy_command_up(struct sy_cli *cli, int argc, char **argv)
{
	struct up up = {.cli = cli, .unit_count = 1, .report_fd = -1};
	sy_unit_options_init(&up.unit);
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(cli),
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &up.unit_count,
		 .min = 1, .max = SY_UNITS_MAX, .help = "how many units; default: 1"},
		SY_UNIT_OPTION_ROWS(&up.unit),
		{.name = "restart", .kind = SY_OPTION_FLAG, .target = &up.restart,
		 .help = "start a unit that died again, empty, up to 8 times in a row"},
		{.name = "detach", .kind = SY_OPTION_FLAG, .target = &up.detach, .letter = 'd',
		 .help = "return once the cluster is up; it stays in the background"},
	};
	const struct sy_usage usage = {
		.name = "up",
		.arguments = "",
		.summary = "Make a cluster of units on this host and keep it running.",
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
	if (up.unit.slab_bytes == 0)
		return sy_cli_misused(cli, "how much memory shall a unit have? give --slab-bytes SIZE");
	struct sy_unit_config config;
	sy_error err = {0};
	char keys[PATH_MAX], ssd_dir[PATH_MAX];
	if (!make_absolute(&up.unit.keys, keys))
		return sy_cli_fail(cli, "cannot open the keys in %s: %s", up.unit.keys, strerror(errno));
	if (!make_absolute(&up.unit.ssd_dir, ssd_dir))
		return sy_cli_fail(cli, "cannot open the directory --ssd-dir %s: %s", up.unit.ssd_dir,
		                   strerror(errno));
	sy_unit_options_config(&up.unit, 0, (uint32_t)up.unit_count, cli->run_dir, &config);
	if (sy_unit_config_check(&config, &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	sy_unit_options_words(&up.unit, &up.words);
	return up.detach ? detach(&up) : supervise(&up);
}
