/* What all subcommands share: exit statuses, errors on stderr, options, the run directory. */
#ifndef SY_CLI_H
#define SY_CLI_H

#include "options.h"

enum {
	SY_EXIT_DONE = 0,
	SY_EXIT_FAILED = 1,
	SY_EXIT_USAGE = 2,
};

struct sy_cli {
	const char *command; /* the subcommand's name, for messages */
	const char *run_dir; /* of --run-dir before or after the subcommand, else of the environment;
	                      * NULL: neither */
	uint64_t timeout_ns; /* of --timeout; 0: the client's own, 120 s */
	const char *transport, *policy; /* NULL: the client's own */
	const char *directory, *keys; /* in place of a run directory; NULL: that is it */
};

/* The option that every subcommand on a cluster has: put it in the table of options. */
#define SY_CLI_RUN_DIR_OPTION(cli) \
	{ \
		.name = "run-dir", .value = "DIR", .kind = SY_OPTION_TEXT, .target = &(cli)->run_dir, \
		.help = "where the cluster lives; default: $SLABYARD_RUN_DIR" \
	}

/* The option of those that talk to units. */
#define SY_CLI_TIMEOUT_OPTION(cli) \
	{ \
		.name = "timeout", .value = "TIME", .kind = SY_OPTION_DURATION, .min = 1000000, \
		.target = &(cli)->timeout_ns, \
		.help = "how long to wait for an answer, as in 5s; default: 120s" \
	}

/* Of those that move values: of a cluster elsewhere, and by what way. */
#define SY_CLI_PATH_OPTIONS(cli) \
	SY_CLI_DIRECTORY_OPTION(&(cli)->directory), \
	SY_CLI_KEYS_OPTION(&(cli)->keys), \
	{ \
		.name = "transport", .value = "WORD", .kind = SY_OPTION_TEXT, \
		.target = &(cli)->transport, \
		.help = "auto, shm or ucx: what carries values ($SLABYARD_TRANSPORT, auto)" \
	}, \
	{ \
		.name = "policy", .value = "WORD", .kind = SY_OPTION_TEXT, .target = &(cli)->policy, \
		.help = "same-host, rdma or allow-tcp: what ucx may use ($SLABYARD_POLICY, rdma)" \
	}

/* Of those that need no cluster on this host: the address instead. Goes before the run directory,
 * which the environment may name. */
#define SY_CLI_DIRECTORY_OPTION(address) \
	{ \
		.name = "directory", .value = "ADDRESS", .kind = SY_OPTION_TEXT, .target = (address), \
		.help = "of the cluster's directory, in place of --run-dir" \
	}
#define SY_CLI_KEYS_OPTION(keys_dir) \
	{ \
		.name = "keys", .value = "DIR", .kind = SY_OPTION_TEXT, .target = (keys_dir), \
		.help = "where client.key lies, if that directory asks for keys" \
	}

/* Parses; if the subcommand is not to go on (help was printed, or the usage is wrong and was
 * told), returns false and its exit status in *ret_exit. */
bool sy_cli_parse(struct sy_cli *cli, const struct sy_usage *usage, int argc, char **argv,
                  struct sy_arguments *ret_arguments, int *ret_exit);

/* False, after telling it: no run directory was given; exit with SY_EXIT_USAGE. */
bool sy_cli_needs_run_dir(const struct sy_cli *cli);

/* For processes that other programs run: */
#define SY_CLI_END_WITH_STDIN_OPTION(flag) \
	{ \
		.name = "end-with-stdin", .kind = SY_OPTION_FLAG, .target = (flag), \
		.help = "end, as at SIGTERM, when the pipe on stdin is closed" \
	}
/* From now on this process gets SIGTERM when the last writer of the pipe on stdin is gone, however
 * it went. False, after telling it: stdin is no pipe; exit with SY_EXIT_USAGE. */
bool sy_cli_end_with_stdin(const struct sy_cli *cli);

/* One line on stderr: "slabyard put: <message>". Returns SY_EXIT_FAILED, so that a subcommand
 * writes `return sy_cli_fail(cli, "cannot read %s", path);`. */
int sy_cli_fail(const struct sy_cli *cli, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same, ending in SY_EXIT_USAGE and with a word about --help. */
int sy_cli_misused(const struct sy_cli *cli, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Flushes stdout; SY_EXIT_FAILED, and a line, if what was printed did not get out (a full disk);
 * a reader that went away is no failure of ours. */
int sy_cli_finish(const struct sy_cli *cli);

#endif
