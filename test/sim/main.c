/* The simulator's command: seeds, what is fixed, what is printed. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"
#include "mutants.h"
#include "sim.h"
#include "sim_shrink.h"

enum { EXIT_VIOLATED = 1, EXIT_USAGE = 2, JOBS_MAX = 64, ALSO_MAX = 256,
       SEEDS_ENOUGH = 500 }; /* fewer need not meet every state, fault and error */

struct options {
	uint64_t first, last;
	struct sim_wanted wanted;
	uint32_t jobs;
	bool trace, shrink, coverage, few;
	uint64_t also[ALSO_MAX]; /* seeds run besides the range */
	uint32_t also_count;
	bool many;     /* a range of seeds was asked for */
};

static const char usage[] =
	"usage: sim --seed N | --seeds A-B [options]\n"
	"Runs seeded histories of clients and units against each other and checks I1 to I10.\n"
	"\n"
	"  --seed N        one seed, the same history every time\n"
	"  --seeds A-B     a range of them; 500 and more fail if a state, fault or error is\n"
	"                  never met\n"
	"  --steps M       events before the run winds down (otherwise drawn from the seed)\n"
	"  --clients C     1 to 8 clients           (otherwise drawn)\n"
	"  --units U       1 to 4 units             (otherwise drawn)\n"
	"  --off A,B       faults that do not happen; --off list names them\n"
	"  --only N        only the checker of invariant N may fire\n"
	"  --also FILE     seeds that once found something, one a line, before the range\n"
	"  --few           what is never met is only told\n"
	"  --jobs J        processes for a range of seeds (1)\n"
	"  --trace         print the whole history\n"
	"  --shrink        look for a shorter history that breaks the same invariant\n"
	"  --coverage      print the counts for one seed, too\n"
	"  --mutant NAME   plant a fault (builds with -Dmutants=true only); --mutant list\n"
	"  --help          this text\n"
	"\n"
	"Exit status: 0 no violation, 1 a violation or something never met, 2 wrong usage.\n";

static int wrong(const char *what, const char *value)
{
	fprintf(stderr, "sim: %s: %s (see sim --help)\n", what, value);
	return EXIT_USAGE;
}

static bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *ret_number)
{
	char *end = NULL;
	errno = 0;
	unsigned long long number = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != 0 || text[0] == '-' || number < low || number > high)
		return false;
	*ret_number = number;
	return true;
}

static bool parse_range(const char *text, struct options *options)
{
	char first[32] = {0};
	const char *dash = strchr(text, '-');
	if (dash == NULL || dash == text || (size_t)(dash - text) >= sizeof first)
		return false;
	memcpy(first, text, (size_t)(dash - text));
	options->many = true;
	return parse_number(first, 0, UINT64_MAX, &options->first) &&
	       parse_number(dash + 1, options->first, UINT64_MAX, &options->last);
}

static bool parse_off(const char *text, uint64_t *ret_off)
{
	char name[64];
	while (*text != 0) {
		size_t bytes = strcspn(text, ",");
		if (bytes >= sizeof name)
			return false;
		memcpy(name, text, bytes);
		name[bytes] = 0;
		uint32_t fault = sim_fault_named(name);
		if (fault == SIM_FAULT_COUNT)
			return false;
		*ret_off |= UINT64_C(1) << fault;
		text += bytes + (text[bytes] == ',');
	}
	return true;
}

#ifdef SY_MUTANTS
static bool parse_mutant(const char *name)
{
#define MUTANT(number, text, invariant, where) \
	if (strcmp(name, #text) == 0) \
		sy_mutant_now = number;
	SY_MUTANT_LIST(MUTANT)
#undef MUTANT
	return sy_mutant_now != 0;
}
#else
static bool parse_mutant(const char *name)
{
	(void)name;
	return false;
}
#endif

static void list_faults(void)
{
	for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
		puts(sim_fault_name(i));
}

static void list_mutants(void)
{
#define MUTANT(number, text, invariant, where) printf("%s %d\n", #text, invariant);
	SY_MUTANT_LIST(MUTANT)
#undef MUTANT
}

enum option_number { SEED = 1, SEEDS, STEPS, CLIENTS, UNITS, OFF, ONLY, JOBS, TRACE,
                     SHRINK, ALSO, FEW, COVERAGE, MUTANT, HELP };

static const struct option long_options[] = {
	{"seed", required_argument, NULL, SEED},
	{"seeds", required_argument, NULL, SEEDS},
	{"steps", required_argument, NULL, STEPS},
	{"clients", required_argument, NULL, CLIENTS},
	{"units", required_argument, NULL, UNITS},
	{"off", required_argument, NULL, OFF},
	{"only", required_argument, NULL, ONLY},
	{"jobs", required_argument, NULL, JOBS},
	{"also", required_argument, NULL, ALSO},
	{"few", no_argument, NULL, FEW},
	{"trace", no_argument, NULL, TRACE},
	{"shrink", no_argument, NULL, SHRINK},
	{"coverage", no_argument, NULL, COVERAGE},
	{"mutant", required_argument, NULL, MUTANT},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

static bool parse_small(const char *text, uint64_t low, uint64_t high, uint32_t *ret_number)
{
	uint64_t number = 0;
	if (!parse_number(text, low, high, &number))
		return false;
	*ret_number = (uint32_t)number;
	return true;
}

/* The first word of each line is a seed, unless it begins with #. */
static bool read_also(const char *path, struct options *options)
{
	char line[512];
	bool right = true;
	FILE *file = fopen(path, "r");
	if (file == NULL)
		return false;
	while (right && fgets(line, sizeof line, file) != NULL) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		line[strcspn(line, " \t\n")] = 0;
		right = options->also_count < ALSO_MAX &&
		        parse_number(line, 0, UINT64_MAX, &options->also[options->also_count]);
		options->also_count += right;
	}
	fclose(file);
	return right;
}

/* One option. False: its value is wrong. */
static bool take(struct options *options, int option, const char *value)
{
	switch (option) {
	case SEED:
		options->last = 0;
		options->many = false;
		if (!parse_number(value, 0, UINT64_MAX, &options->first))
			return false;
		options->last = options->first;
		return true;
	case SEEDS:
		return parse_range(value, options);
	case STEPS:
		return parse_small(value, 1, 10000000, &options->wanted.steps);
	case CLIENTS:
		return parse_small(value, 1, SIM_CLIENTS_MAX, &options->wanted.clients);
	case UNITS:
		return parse_small(value, 1, SIM_UNITS_MAX, &options->wanted.units);
	case OFF:
		return parse_off(value, &options->wanted.off);
	case ONLY:
		return parse_small(value, 1, SIM_INVARIANTS, &options->wanted.only);
	case JOBS:
		return parse_small(value, 1, JOBS_MAX, &options->jobs);
	case ALSO:
		return read_also(value, options);
	case FEW:
		options->few = true;
		return true;
	case TRACE:
		options->trace = true;
		return true;
	case SHRINK:
		options->shrink = true;
		return true;
	case COVERAGE:
		options->coverage = true;
		return true;
	case MUTANT:
		options->wanted.mutant = value;
		return parse_mutant(value);
	default:
		return false;
	}
}

static uint64_t seed_now; /* for the line that a failed assertion prints */

static void on_assert(const char *file, int line, const char *expression)
{
	printf("seed %lu: assertion failed at %s:%d: %s\n", seed_now, file, line, expression);
	printf("replay: sim --seed %lu --trace\n", seed_now);
	fflush(stdout);
	_exit(EXIT_VIOLATED);
}

/* Runs one seed and says how it went. True: nothing broke. */
static bool run_seed(const struct options *options, uint64_t seed, struct sim_counts *sum)
{
	static struct sim sim;
	struct sim_config config;
	seed_now = seed;
	sim_config_draw(&config, seed, &options->wanted);
	sim_run(&sim, &config, options->trace ? SIM_TRACE_ALL : SIM_TRACE_NONE);
	bool right = sim.violated == 0;
	if (!right) {
		sim_history_print(&sim.history);
		if (sim.violated > 0)
			printf("I%d: %s\n", sim.violated, sim.violation);
		else
			printf("wrong: %s\n", sim.violation);
		printf("seed %lu, step %lu; ", seed, sim.steps);
		sim_shrink_print_command(seed, &options->wanted);
	}
	if (!options->many)
		printf("seed %lu: %lu events, history %016lx\n", seed, sim.steps, sim.history.hash);
	int violated = sim.violated;
	sim_counts_add(sum, &sim.counts);
	sim_done(&sim);
	if (!right && options->shrink)
		sim_shrink(seed, &options->wanted, violated);
	return right;
}

/* Every jobs-th seed; the counts go to the parent through a pipe. */
static void run_share(const struct options *options, uint32_t job, int to_parent)
{
	struct sim_counts sum = {0};
	uint64_t failed = 0;
	for (uint32_t i = job; i < options->also_count; i += options->jobs)
		failed += !run_seed(options, options->also[i], &sum);
	for (uint64_t seed = options->first + job; seed <= options->last; seed += options->jobs) {
		failed += !run_seed(options, seed, &sum);
		if (seed > UINT64_MAX - options->jobs)
			break;
	}
	fflush(stdout);
	bool sent = write(to_parent, &sum, sizeof sum) == (ssize_t)sizeof sum &&
	            write(to_parent, &failed, sizeof failed) == (ssize_t)sizeof failed;
	exit(sent ? 0 : EXIT_VIOLATED); /* not _exit: what counts lines, and leaks, does so then */
}

static uint64_t run_jobs(const struct options *options, struct sim_counts *sum)
{
	int pipes[JOBS_MAX][2];
	pid_t pids[JOBS_MAX];
	uint64_t failed = 0;
	fflush(stdout);
	for (uint32_t i = 0; i < options->jobs; i++) {
		if (pipe(pipes[i]) != 0 || (pids[i] = fork()) < 0) {
			perror("sim");
			exit(EXIT_VIOLATED);
		}
		if (pids[i] == 0)
			run_share(options, i, pipes[i][1]);
		close(pipes[i][1]);
	}
	for (uint32_t i = 0; i < options->jobs; i++) {
		struct sim_counts counts;
		uint64_t share = 0;
		int status = 0;
		bool whole = read(pipes[i][0], &counts, sizeof counts) == (ssize_t)sizeof counts &&
		             read(pipes[i][0], &share, sizeof share) == (ssize_t)sizeof share;
		waitpid(pids[i], &status, 0);
		close(pipes[i][0]);
		if (whole)
			sim_counts_add(sum, &counts);
		failed += whole ? share : 1;
	}
	return failed;
}

static int run_all(const struct options *options)
{
	struct sim_counts sum = {0};
	uint64_t seeds = options->last - options->first + 1 + options->also_count, failed = 0;
	if (options->many)
		failed = run_jobs(options, &sum);
	else
		failed = !run_seed(options, options->first, &sum);
	if (options->many || options->coverage)
		sim_counts_print(&sum);
	if (!options->many)
		return failed == 0 ? 0 : EXIT_VIOLATED;
	uint32_t missing = failed == 0 && options->wanted.only == 0 ? sim_counts_missing(&sum) : 0;
	if (options->few || seeds < SEEDS_ENOUGH)
		missing = 0;
	printf("%lu passed, %lu failed\n", seeds - failed, failed + (missing > 0));
	return failed == 0 && missing == 0 ? 0 : EXIT_VIOLATED;
}

int main(int argc, char **argv)
{
	struct options options = {.first = 1, .last = 0, .jobs = 1};
	int option;
	sy_assert_hook = on_assert;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (option == HELP) {
			fputs(usage, stdout);
			return 0;
		}
		if (option == '?')
			return EXIT_USAGE;
		if (optarg != NULL && strcmp(optarg, "list") == 0 && (option == OFF || option == MUTANT)) {
			if (option == OFF)
				list_faults();
			else
				list_mutants();
			return 0;
		}
		if (!take(&options, option, optarg))
			return wrong("a value that is none", optarg);
	}
	if (optind < argc)
		return wrong("not an option", argv[optind]);
	if (options.first > options.last)
		return wrong("nothing to do", "--seed or --seeds");
	return run_all(&options);
}
