#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELP_BYTES = 16384 };

/* Written in one piece, so that lines of several processes on one terminal do not mix. */
static void error_print(const struct sy_cli *cli, const char *format, va_list args,
                        const char *end)
{
	char message[1024];
	vsnprintf(message, sizeof message, format, args);
	bool has_command = cli->command != NULL;
	fprintf(stderr, "slabyard%s%s: %s%s\n", has_command ? " " : "",
	        has_command ? cli->command : "", message, end);
}

int sy_cli_fail(const struct sy_cli *cli, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	error_print(cli, format, args, "");
	va_end(args);
	return SY_EXIT_FAILED;
}

int sy_cli_misused(const struct sy_cli *cli, const char *format, ...)
{
	char end[80];
	bool has_command = cli->command != NULL;
	snprintf(end, sizeof end, " (see slabyard %s%s--help)", has_command ? cli->command : "",
	         has_command ? " " : "");
	va_list args;
	va_start(args, format);
	error_print(cli, format, args, end);
	va_end(args);
	return SY_EXIT_USAGE;
}

bool sy_cli_parse(struct sy_cli *cli, const struct sy_usage *usage, int argc, char **argv,
                  struct sy_arguments *ret_arguments, int *ret_exit)
{
	sy_error err = {0};
	if (sy_options_parse(usage, argc, argv, ret_arguments, &err) != SY_OK) {
		*ret_exit = sy_cli_misused(cli, "%s", err.message);
		return false;
	}
	if (!ret_arguments->help)
		return true;
	char help[HELP_BYTES];
	sy_options_help(usage, help, sizeof help);
	fputs(help, stdout);
	*ret_exit = sy_cli_finish(cli);
	return false;
}

bool sy_cli_needs_run_dir(const struct sy_cli *cli)
{
	if (cli->run_dir != NULL)
		return true;
	sy_cli_misused(cli, "no cluster was named: give --run-dir DIR or set SLABYARD_RUN_DIR");
	return false;
}

bool sy_cli_end_with_stdin(const struct sy_cli *cli)
{
	struct stat about;
	struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
	/* The system sends the signal, so no loop has to watch for it. */
	bool ok = fstat(STDIN_FILENO, &about) == 0 && S_ISFIFO(about.st_mode) &&
	          fcntl(STDIN_FILENO, F_SETOWN, getpid()) == 0 &&
	          fcntl(STDIN_FILENO, F_SETSIG, SIGTERM) == 0 &&
	          fcntl(STDIN_FILENO, F_SETFL, O_ASYNC) == 0;
	if (!ok) {
		sy_cli_misused(cli, "--end-with-stdin: stdin is no pipe");
		return false;
	}
	if (poll(&wait, 1, 0) > 0) /* closed before we listened */
		raise(SIGTERM);
	return true;
}

int sy_cli_finish(const struct sy_cli *cli)
{
	bool had_failed = ferror(stdout) != 0;
	if (fflush(stdout) == 0 && !had_failed)
		return SY_EXIT_DONE;
	if (errno == EPIPE)
		return SY_EXIT_DONE;
	return sy_cli_fail(cli, "cannot write the output: %s", strerror(errno));
}
