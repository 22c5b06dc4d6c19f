/* The slabyard command: finds the subcommand and runs it. */
#include "cli.h"
#include "commands.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct command {
	const char *name;
	const char *summary;
	int (*run)(struct sy_cli *cli, int argc, char **argv);
};

#define COMMAND_ROW(name, summary) {#name, summary, sy_command_##name},
static const struct command commands[] = {
	SY_COMMAND_LIST(COMMAND_ROW)
};
#undef COMMAND_ROW

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0], DETAILS_BYTES = 4096 };

static void details_write(char out[DETAILS_BYTES])
{
	int length = snprintf(out, DETAILS_BYTES, "Commands:\n");
	for (size_t i = 0; i < COMMAND_COUNT && length < DETAILS_BYTES; i++) {
		length += snprintf(out + length, (size_t)(DETAILS_BYTES - length), "  %-9s %s\n",
		                   commands[i].name, commands[i].summary);
	}
	if (length < DETAILS_BYTES)
		snprintf(out + length, (size_t)(DETAILS_BYTES - length),
		         "\n`slabyard COMMAND --help` tells more of each.\n"
		         "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static int command_unknown(const struct sy_cli *cli, const char *typed)
{
	const char *words[COMMAND_COUNT];
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		words[i] = commands[i].name;
	const char *nearest = sy_nearest_word(typed, words, COMMAND_COUNT);
	if (nearest != NULL)
		return sy_cli_misused(cli, "no command \"%.60s\"; did you mean %s?", typed, nearest);
	return sy_cli_misused(cli, "no command \"%.60s\"", typed);
}

int main(int argc, char **argv)
{
	/* A reader of ours that went away shows as a failed write, not as our death. */
	signal(SIGPIPE, SIG_IGN);
	const char *given = getenv("SLABYARD_RUN_DIR");
	struct sy_cli cli = {.run_dir = given != NULL && given[0] != '\0' ? given : NULL};
	bool version = false;
	char details[DETAILS_BYTES];
	details_write(details);
	const struct sy_option options[] = {
		SY_CLI_RUN_DIR_OPTION(&cli),
		{.name = "version", .help = "show the version and stop", .kind = SY_OPTION_FLAG,
		 .target = &version},
	};
	const struct sy_usage usage = {
		.name = "",
		.arguments = "COMMAND ...",
		.summary = "Storage for rows that one half of a training job writes and the other reads.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
		.argument_max = UINT32_MAX,
		.stop_at_argument = true,
	};
	struct sy_arguments arguments;
	int exit_status;
	if (!sy_cli_parse(&cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (version) {
		puts("slabyard " SLABYARD_VERSION);
		return sy_cli_finish(&cli);
	}
	if (arguments.count == 0)
		return sy_cli_misused(&cli, "name a command");
	char **rest = argv + 1; /* where the parser left the arguments */
	const struct command *command = command_find(rest[0]);
	if (command == NULL)
		return command_unknown(&cli, rest[0]);
	cli.command = command->name;
	return command->run(&cli, (int)arguments.count, rest);
}
