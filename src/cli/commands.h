/* The subcommands: the one table that main.c, its help and its guesses are made from. Each has a
 * file of its own, <name>.c, with the function sy_command_<name>. */
#ifndef SY_COMMANDS_H
#define SY_COMMANDS_H

/* X(name, what it does in one line) */
#define SY_COMMAND_LIST(X) \
	X(up, "make a cluster of units on this host and keep it running") \
	X(down, "stop a cluster and remove what it left") \
	X(directory, "run the directory of a cluster whose units others start") \
	X(unit, "run one unit of a cluster") \
	X(status, "show units, their states and where their bytes are") \
	X(drain, "let a unit take no new rows") \
	X(load, "put the lines of a JSON-lines file as rows") \
	X(dump, "print rows as JSON lines") \
	X(put, "put one value out of a file") \
	X(get, "write the bytes of one value") \
	X(rm, "remove rows, or fields of them") \
	X(ls, "list what the cluster holds") \
	X(keygen, "make keys for a cluster that other hosts reach") \
	X(doctor, "check this host, and show the lines that mend it") \
	X(demo, "do the work of a training job, and check every byte")

struct sy_cli;

/* argv[0] is the subcommand's name. Returns the exit status. */
#define SY_COMMAND_DECLARE(name, summary) \
	int sy_command_##name(struct sy_cli *cli, int argc, char **argv);
SY_COMMAND_LIST(SY_COMMAND_DECLARE)
#undef SY_COMMAND_DECLARE

#endif
