/* slabyard keygen: makes the keys of a cluster that other hosts reach. */
#include "cli.h"
#include "commands.h"
#include "control_keys.h"

#include <stdio.h>

static const char details[] =
	"Makes DIR, if it is not there, and in it server.key for units and client.key for clients,\n"
	"readable by you alone. A unit with --keys DIR answers over tcp only who has the client.key\n"
	"that was made with its server.key; all is encrypted. Bring both to each host that runs\n"
	"units, and client.key alone to where only clients are, by a way that nobody reads. Clients\n"
	"of the unit's own host need none: the run directory lets them in.\n"
	"\n"
	"Keys that are there already are not touched: who has them would be locked out.\n";

int sy_command_keygen(struct sy_cli *cli, int argc, char **argv)
{
	const struct sy_usage usage = {
		.name = "keygen",
		.arguments = "DIR",
		.summary = "Make keys for a cluster that other hosts reach.",
		.details = details,
		.argument_min = 1,
		.argument_max = 1,
	};
	struct sy_arguments arguments;
	int exit_status;
	sy_error err = {0};
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	if (sy_control_keys_make(arguments.list[0], &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	printf("made server.key and client.key in %s\n", arguments.list[0]);
	return sy_cli_finish(cli);
}
