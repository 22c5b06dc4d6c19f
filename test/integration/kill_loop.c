/* At every failpoint, of client, unit and directory, whoever comes there is killed, stopped or
 * held; and at those of clients a unit is killed or stopped while its client stands there. After
 * each: every row that lives and was acknowledged is right, the accounts are what they were,
 * nothing is left of anybody, and no call was late.
 *
 * kill_loop [--rounds N] [--jobs N] [--seed N] [--only POINT[:ACTION]] [--list] */
#include "kill_attempt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "clock.h"
#include "cluster.h"
#include "failpoints.h"
#include "prng.h"

enum { ACTIONS = 5, POINTS_MAX = 256, JOBS_MAX = 16, TRIES = 6, LATE_TRIES = 3 };

static const struct {
	const char *name;
	enum sy_failpoint_action action;
	enum kill_strike strike;
} actions[ACTIONS] = {
	{"kill", SY_FAILPOINT_KILL, KILL_STRIKE_NONE},
	{"stop", SY_FAILPOINT_STOP, KILL_STRIKE_NONE},
	{"delay", SY_FAILPOINT_DELAY, KILL_STRIKE_NONE},
	{"unit-kill", SY_FAILPOINT_WAIT, KILL_STRIKE_KILL},
	{"unit-stop", SY_FAILPOINT_WAIT, KILL_STRIKE_STOP},
};
static const uint64_t MILLISECOND_NS = 1000000;

static uint32_t points[POINTS_MAX];
static size_t point_count;

/* Shared by the jobs. */
static struct tally {
	uint32_t done[POINTS_MAX][ACTIONS];
	uint32_t faults, calls, errors;
	int64_t worst_late_ns;
} *tally;

static struct sy_prng prng; /* of this job */

/* What cannot happen here: on one host nobody needs a check of a pin that stands until its reader
 * is gone, and a copy by the caller's thread is over when it returns. */
static bool is_reachable(uint32_t point)
{
	static const char *const not_here[] = {".pin_check", ".drained"};
	const char *name = sy_failpoint_name(point);

	for (size_t i = 0; name != NULL && i < sizeof not_here / sizeof not_here[0]; i++) {
		if (strstr(name, not_here[i]) != NULL)
			return false;
	}
	return name != NULL;
}

static void list_points(void)
{
	for (uint32_t point = 1; point < SY_FAILPOINT_END; point++) {
		if (is_reachable(point) && point_count < POINTS_MAX)
			points[point_count++] = point;
	}
}

static void tell(const char *word, const struct kill_attempt *attempt, int action, uint32_t nth,
                 const char *what)
{
	printf("%-7s %s:%s (hit %u, timeout %llu ms): %s\n", word,
	       sy_failpoint_name(attempt->point), actions[action].name, nth,
	       (unsigned long long)(attempt->orders.timeout_ns / MILLISECOND_NS), what);
	fflush(stdout);
}

static void count(const struct kill_log *log)
{
	__atomic_add_fetch(&tally->calls, (uint32_t)log->calls, __ATOMIC_RELAXED);
	__atomic_add_fetch(&tally->errors, (uint32_t)log->errors, __ATOMIC_RELAXED);
	if (log->worst_late_ns > tally->worst_late_ns)
		tally->worst_late_ns = log->worst_late_ns;
}

/* What never comes to an nth hit comes to a first one. A host that stands still for a moment makes
 * any call late once; a call that waits for what it should not is late each time. */
static void torment(size_t p, int action, uint32_t round)
{
	bool once = round == 0 || kill_is_of_a_start(points[p]); /* a unit starts once */
	uint32_t nth = once ? 1 : 1 + (uint32_t)sy_prng_below(&prng, 4), lates = 0;
	bool patient = sy_prng_below(&prng, 2) == 0, hit = false, again = true;

	for (int i = 0; i < TRIES && again; i++) {
		struct kill_attempt attempt = {
			.point = points[p], .action = actions[action].action, .patient = patient,
			.strike = actions[action].strike, .struck_unit = (p + round) % KILL_UNITS,
			.seed = sy_prng_next(&prng) >> 8};
		bool hit_now = kill_attempt(&attempt, nth);
		bool late = attempt.log->late[0] != 0;

		count(attempt.log);
		lates += late;
		if (lates == LATE_TRIES)
			kill_attempt_fault(&attempt, "late each time", attempt.log->late);
		if (attempt.fault[0] != 0) {
			tell("FAILED", &attempt, action, nth, attempt.fault);
			__atomic_add_fetch(&tally->faults, 1, __ATOMIC_RELAXED);
		} else if (late) {
			tell("late", &attempt, action, nth, attempt.log->late);
		}
		hit = hit || hit_now;
		again = attempt.fault[0] == 0 ? late || !hit_now : !hit;
		nth = hit_now ? nth : 1;
	}
	if (hit)
		__atomic_add_fetch(&tally->done[p][action], 1, __ATOMIC_RELAXED);
}

struct options {
	uint32_t rounds, jobs;
	uint64_t seed;
	const char *only;
};

static bool is_chosen(const struct options *options, size_t p, int action)
{
	char name[96];

	if (actions[action].strike != KILL_STRIKE_NONE &&
	    strncmp(sy_failpoint_name(points[p]), "client_", 7) != 0)
		return false;
	if (options->only == NULL)
		return true;
	snprintf(name, sizeof name, "%s:%s", sy_failpoint_name(points[p]), actions[action].name);
	return strncmp(name, options->only, strlen(options->only)) == 0;
}

/* Those of a disk tier are reached in a cluster that has one, and little memory. */
static bool is_of_tier(uint32_t point)
{
	return strstr(sy_failpoint_name(point), "_disk_") != NULL;
}

static bool is_any_chosen(const struct options *options, bool tier)
{
	for (size_t p = 0; p < point_count; p++) {
		for (int action = 0; action < ACTIONS; action++) {
			if (is_of_tier(points[p]) == tier && is_chosen(options, p, action))
				return true;
		}
	}
	return false;
}

static void run_cluster(const struct options *options, uint32_t job, bool tier)
{
	uint32_t turn = 0;

	kill_attempt_start(tier);
	for (uint32_t round = 0; round < options->rounds; round++) {
		for (size_t p = 0; p < point_count; p++) {
			for (int action = 0; action < ACTIONS; action++) {
				if (is_of_tier(points[p]) == tier && is_chosen(options, p, action) &&
				    turn++ % options->jobs == job)
					torment(p, action, round);
			}
		}
	}
	kill_attempt_stop();
}

static int run_job(const struct options *options, uint32_t job)
{
	sy_prng_seed(&prng, options->seed + job);
	if (is_any_chosen(options, false))
		run_cluster(options, job, false);
	if (is_any_chosen(options, true))
		run_cluster(options, job, true);
	return 0;
}

static int report(const struct options *options)
{
	uint32_t passed = 0, failed = tally->faults;

	printf("%-32s", "point");
	for (int action = 0; action < ACTIONS; action++)
		printf(" %9s", actions[action].name);
	printf("\n");
	for (size_t p = 0; p < point_count; p++) {
		const uint32_t *done = tally->done[p];
		uint32_t chosen = 0;

		for (int action = 0; action < ACTIONS; action++)
			chosen += is_chosen(options, p, action);
		if (chosen == 0)
			continue;
		printf("%-32s", sy_failpoint_name(points[p]));
		for (int action = 0; action < ACTIONS; action++) {
			if (is_chosen(options, p, action))
				printf(" %9u", done[action]);
			else
				printf(" %9s", "");
		}
		printf("\n");
		for (int action = 0; action < ACTIONS; action++) {
			bool enough = done[action] >= options->rounds;

			if (!is_chosen(options, p, action))
				continue;
			passed += enough;
			failed += !enough;
			if (!enough)
				printf("FAILED  %s:%s: %u of %u times\n", sy_failpoint_name(points[p]),
				       actions[action].name, done[action], options->rounds);
		}
	}
	printf("seed %llu, %u calls, %u typed errors, the latest %lld ms past its deadline\n",
	       (unsigned long long)options->seed, tally->calls, tally->errors,
	       (long long)(tally->worst_late_ns / (int64_t)MILLISECOND_NS));
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0 || passed == 0; /* nothing was chosen */
}

static bool read_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--list") == 0) {
			for (size_t p = 0; p < point_count; p++)
				printf("%s\n", sy_failpoint_name(points[p]));
			exit(0);
		}
		if (strcmp(argv[i], "--rounds") == 0)
			options->rounds = (uint32_t)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--effort") == 0)
			options->rounds = strtoul(value, NULL, 10) < 10000 ? 1 : 3;
		else if (strcmp(argv[i], "--jobs") == 0)
			options->jobs = (uint32_t)strtoul(value, NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0)
			options->seed = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--only") == 0)
			options->only = value;
		else
			return false;
		i++;
	}
	return options->rounds > 0 && options->jobs > 0 && options->jobs <= JOBS_MAX;
}

int main(int argc, char **argv)
{
	struct options options = {.rounds = 1, .jobs = 1, .seed = sy_clock_now_ns()};
	pid_t jobs[JOBS_MAX];
	int status, broken = 0;

	cluster_main(argc, argv);
	kill_attempt_main(argc, argv);
	list_points();
	if (!read_options(argc, argv, &options)) {
		fprintf(stderr, "usage: kill_loop [--rounds N | --effort SEEDS] [--jobs N] [--seed N] "
		                "[--only POINT[:ACTION]] [--list]\n");
		return 2;
	}
	printf("--seed %llu --jobs %u repeats this run\n", (unsigned long long)options.seed,
	       options.jobs);
	fflush(stdout);
	tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tally == MAP_FAILED)
		return 1;
	for (uint32_t job = 0; job < options.jobs; job++) {
		jobs[job] = fork();
		if (jobs[job] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGTERM);
			exit(run_job(&options, job));
		}
	}
	for (uint32_t job = 0; job < options.jobs; job++) {
		waitpid(jobs[job], &status, 0);
		broken += status != 0;
	}
	if (broken != 0)
		printf("FAILED  %d of the jobs did not come to their end\n", broken);
	return report(&options) != 0 || broken != 0;
}
