/* slabyard demo: the work of a training job, done by processes, every byte checked. */
#include "cluster_client.h"
#include "commands.h"
#include "demo_run.h"
#include "unit_config.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROWS = 512, STEPS = 4, UNITS = 3 };
enum { ROWS_MAX = 10000000, STEPS_MAX = 1000000, WORKERS_MAX = 256 };

static const char details[] =
	"In each step producers put the first columns of every group of rollouts; trainers read\n"
	"shuffled parts of rows and columns and compare every byte with the source, write a column\n"
	"back, and read what another trainer wrote; then the step is cleared, and the next one uses\n"
	"the same rows. All of them are processes of their own. What they compare with comes from\n"
	"the file or the seed and never passed through the store.\n"
	"\n"
	"FILE is JSON lines: a line is a group, each object in it a rollout, the rest is common to\n"
	"them. Without FILE rows are made up from the seed as GRPO has them: token ids, log-\n"
	"probabilities, masks, experts, a message; groups of 16, 17 to 1,023 tokens.\n"
	"\n"
	"Without --run-dir or --directory it starts a cluster and removes it. With one the demo\n"
	"works in a namespace of its own in the cluster there, and other rows are safe; memory that\n"
	"others take or give back meanwhile it cannot tell from a leak.\n"
	"\n"
	"--producers-by and --trainers-by put workers on other hosts, by a command in front of\n"
	"this one, as in --trainers-by \"ssh 10.0.0.7\"; it lies at the same path there, and so do\n"
	"FILE and keys. They need --directory.\n"
	"\n"
	"Rates count the time inside the client's calls, of the slowest worker; making rows and\n"
	"comparing them is not in it. Exit status 1: a byte differed, a byte leaked, or a process\n"
	"died; one line says which.\n";

/* What the options say. */
struct wanted {
	const char *path, *worker;
	uint64_t rows, steps, seed;
	bool json;
	/* Of --worker, "trainer:0:2:NAMESPACE": */
	char role[16], name_space[48];
	unsigned number, count;
};

static int summary_print(const struct sy_cli *cli, const struct sy_demo *demo, bool json)
{
	if (json && !sy_demo_print_json(&demo->summary))
		return sy_cli_fail(cli, "out of memory");
	if (demo->summary.problem != NULL) {
		fflush(stdout);
		return sy_cli_fail(cli, "%s", demo->summary.problem);
	}
	if (!json)
		sy_demo_print_table(&demo->summary);
	return sy_cli_finish(cli);
}

/* One of the workers of a demo elsewhere. */
static int worker_run(const struct wanted *wanted, struct sy_demo *demo)
{
	const struct sy_demo_crew_config config = {
		.source = &demo->source, .where = demo->where, .name_space = wanted->name_space,
		.producer_count = wanted->count, .trainer_count = wanted->count,
	};
	bool heard = sy_demo_crew_work(&config, wanted->role[0] == 'p', wanted->number, STDIN_FILENO,
	                               STDOUT_FILENO);
	return heard ? SY_EXIT_DONE : SY_EXIT_FAILED;
}

static int demo_run(const struct sy_cli *cli, const struct wanted *wanted, struct sy_demo *demo)
{
	sy_error err = {0};
	char seed[32];
	snprintf(seed, sizeof seed, "seed %llu", (unsigned long long)wanted->seed);
	demo->summary.source = wanted->path != NULL ? wanted->path : seed;
	if (wanted->path == NULL)
		sy_demo_source_init(&demo->source, wanted->seed, (uint32_t)wanted->rows,
		                    wanted->steps != 0 ? (uint32_t)wanted->steps : STEPS);
	else if (sy_demo_source_open(wanted->path, wanted->seed, (uint32_t)wanted->rows,
	                             (uint32_t)wanted->steps, &demo->source, &err) != SY_OK)
		return sy_cli_fail(cli, "%s", err.message);
	int exit_status;
	if (wanted->worker != NULL) {
		exit_status = worker_run(wanted, demo);
	} else {
		sy_demo_run(demo);
		exit_status = summary_print(cli, demo, wanted->json);
	}
	sy_demo_source_done(&demo->source);
	return exit_status;
}

/* The environment names the cluster one works with, and that is no place to try things out: a
 * cluster that runs is taken only where the command line names it. */
static int cluster_choose(const struct sy_cli *cli, struct sy_demo *demo)
{
	bool here = cli->run_dir != NULL && cli->run_dir != getenv("SLABYARD_RUN_DIR");
	if (!here && cli->directory == NULL) {
		demo->units = demo->units != 0 ? demo->units : UNITS;
		return SY_EXIT_DONE;
	}
	if (demo->units != 0 || demo->slab_bytes != 0)
		return sy_cli_misused(cli, "--units and --slab-bytes are of a cluster of its own: leave "
		                      "them or --run-dir and --directory out");
	return sy_cluster_options(cli, &demo->where);
}

/* The words after "demo" of those that are on other hosts. */
struct words {
	const char *list[SY_DEMO_WORDS_MAX];
	char program[PATH_MAX], numbers[3][24];
};

static void words_add(struct words *words, size_t *count, const char *name, const char *value)
{
	if (value == NULL)
		return;
	words->list[(*count)++] = name;
	words->list[(*count)++] = value;
}

static size_t words_make(const struct sy_cli *cli, const struct wanted *wanted,
                         struct words *words)
{
	const uint64_t values[] = {wanted->rows, wanted->steps, wanted->seed};
	size_t count = 2;
	ssize_t bytes = readlink("/proc/self/exe", words->program, sizeof words->program - 1);
	words->program[bytes > 0 ? bytes : 0] = '\0';
	words->list[0] = words->program;
	words->list[1] = cli->command;
	for (size_t i = 0; i < 3; i++)
		snprintf(words->numbers[i], sizeof words->numbers[i], "%" PRIu64, values[i]);
	words_add(words, &count, "--directory", cli->directory);
	words_add(words, &count, "--keys", cli->keys);
	words_add(words, &count, "--transport", cli->transport);
	words_add(words, &count, "--policy", cli->policy);
	words_add(words, &count, "--rollouts", wanted->path);
	words_add(words, &count, "--rows", words->numbers[0]);
	words_add(words, &count, "--steps", wanted->steps != 0 ? words->numbers[1] : NULL);
	words_add(words, &count, "--seed", words->numbers[2]);
	return count;
}

static int crew_choose(const struct sy_cli *cli, struct wanted *wanted, struct words *words,
                       struct sy_demo *demo)
{
	if (wanted->worker != NULL &&
	    sscanf(wanted->worker, "%15[a-z]:%u:%u:%47s", wanted->role, &wanted->number,
	           &wanted->count, wanted->name_space) != 4)
		return sy_cli_misused(cli, "--worker is for the workers that a demo starts itself");
	bool elsewhere = demo->by[SY_DEMO_PRODUCERS] != NULL || demo->by[SY_DEMO_TRAINERS] != NULL;
	if (elsewhere && cli->directory == NULL)
		return sy_cli_misused(cli, "workers on other hosts need --directory: a run directory is "
		                      "of its own host");
	demo->word_count = words_make(cli, wanted, words);
	demo->words = words->list;
	return SY_EXIT_DONE;
}

int sy_command_demo(struct sy_cli *cli, int argc, char **argv)
{
	struct wanted wanted = {.rows = ROWS, .seed = 1};
	struct sy_demo demo = {.producers = 2, .trainers = 2, .stop_fd = -1};
	const struct sy_option options[] = {
		{.name = "run-dir", .value = "DIR", .kind = SY_OPTION_TEXT, .target = &cli->run_dir,
		 .help = "a cluster that runs already; default: one of its own"},
		SY_CLI_PATH_OPTIONS(cli),
		{.name = "rollouts", .value = "FILE", .kind = SY_OPTION_TEXT, .target = &wanted.path,
		 .help = "JSON lines with rollouts; default: made up from the seed"},
		{.name = "rows", .value = "N", .kind = SY_OPTION_COUNT, .target = &wanted.rows, .min = 1,
		 .max = ROWS_MAX, .help = "rows of a step, at most; default: 512"},
		{.name = "steps", .value = "N", .kind = SY_OPTION_COUNT, .target = &wanted.steps, .min = 1,
		 .max = STEPS_MAX, .help = "how many steps; default: once through FILE, or 4"},
		{.name = "producers", .value = "P", .kind = SY_OPTION_COUNT, .target = &demo.producers,
		 .min = 1, .max = WORKERS_MAX, .help = "processes that put; default: 2"},
		{.name = "trainers", .value = "T", .kind = SY_OPTION_COUNT, .target = &demo.trainers,
		 .min = 1, .max = WORKERS_MAX, .help = "processes that read; default: 2"},
		{.name = "producers-by", .value = "COMMAND", .kind = SY_OPTION_TEXT,
		 .target = &demo.by[SY_DEMO_PRODUCERS], .help = "what takes them to another host"},
		{.name = "trainers-by", .value = "COMMAND", .kind = SY_OPTION_TEXT,
		 .target = &demo.by[SY_DEMO_TRAINERS], .help = "the same of those that read"},
		{.name = "worker", .value = "WHICH", .kind = SY_OPTION_TEXT, .target = &wanted.worker,
		 .hidden = true},
		{.name = "units", .value = "N", .kind = SY_OPTION_COUNT, .target = &demo.units, .min = 1,
		 .max = SY_UNITS_MAX, .help = "units of its own cluster; default: 3"},
		{.name = "slab-bytes", .value = "SIZE", .kind = SY_OPTION_BYTES,
		 .min = SY_UNIT_SLAB_MIN_BYTES, .target = &demo.slab_bytes,
		 .help = "memory of each of them; default: what a step needs"},
		{.name = "seed", .value = "S", .kind = SY_OPTION_COUNT, .target = &wanted.seed,
		 .help = "of rows and of the order of reading; default: 1"},
		{.name = "json", .kind = SY_OPTION_FLAG, .target = &wanted.json, .help = "print JSON"},
	};
	const struct sy_usage usage = {
		.name = "demo",
		.arguments = "",
		.summary = "Do the work of a training job with processes, and check every byte.",
		.details = details,
		.options = options,
		.option_count = sizeof options / sizeof options[0],
	};
	struct sy_arguments arguments;
	struct words words;
	int exit_status;
	if (!sy_cli_parse(cli, &usage, argc, argv, &arguments, &exit_status))
		return exit_status;
	exit_status = crew_choose(cli, &wanted, &words, &demo);
	if (exit_status == SY_EXIT_DONE)
		exit_status = cluster_choose(cli, &demo);
	return exit_status != SY_EXIT_DONE ? exit_status : demo_run(cli, &wanted, &demo);
}
