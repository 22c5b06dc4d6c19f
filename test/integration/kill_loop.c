/* At every failpoint, on the client's side and on the unit's, whoever comes there is killed,
 * stopped or held. After each: every row that lives and was acknowledged is right, the accounts
 * are what they were, nothing is left of anybody, and no call was late.
 *
 * kill_loop [--rounds N] [--jobs N] [--seed N] [--only POINT[:ACTION]] [--list] */
#include "kill.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "failpoints.h"
#include "kill_check.h"
#include "prng.h"
#include "proto.h"

enum { ACTIONS = 3, POINTS_MAX = 256, JOBS_MAX = 16, TRIES = 6, LIMIT_MS = 60000 };

static const char *const action_names[ACTIONS + 1] = {"", "kill", "stop", "delay"};
static const uint64_t MILLISECOND_NS = 1000000;

static uint32_t points[POINTS_MAX];
static size_t point_count;

/* Shared by the jobs. */
static struct tally {
	uint32_t done[POINTS_MAX][ACTIONS + 1];
	uint32_t faults, calls, errors;
	int64_t worst_late_ns;
} *tally;

/* Of this job. */
static struct cluster cluster;
static struct sy_failpoint_control *control;
static struct kill_log *journal;
static char control_path[64], journal_path[64];
static struct sy_prng prng;

/* What cannot happen here: on one host nobody needs a check of a pin that stands until its reader
 * is gone, and a copy by the caller's thread is over when it returns; these units have no disk. */
static bool is_reachable(uint32_t point)
{
	static const char *const not_here[] = {".pin_check", ".drained", "_disk_"};
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

static void *map_file(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *memory = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (memory == MAP_FAILED) {
		perror("kill_loop: a shared file");
		exit(1);
	}
	return memory;
}

/* One triple, one time. */
struct attempt {
	uint32_t point;
	enum sy_failpoint_action action;
	struct kill_orders orders;
	uint64_t hold_ns;
	pid_t victim;
	bool victim_gone, unit_seen, died[KILL_UNITS];
	int victim_status;
	char fault[SY_ERROR_MESSAGE_BYTES + 256];
};

static void fault(struct attempt *attempt, const char *what, const char *why)
{
	if (attempt->fault[0] == 0)
		snprintf(attempt->fault, sizeof attempt->fault, "%s: %s", what, why);
}

static void arm(const struct attempt *attempt, uint32_t nth)
{
	__atomic_store_n(&control->armed, 0, __ATOMIC_RELEASE);
	control->point = attempt->point;
	control->nth = nth;
	control->action = attempt->action;
	control->delay_ns = attempt->hold_ns;
	__atomic_store_n(&control->hits, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->pid, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->armed, 1, __ATOMIC_RELEASE);
}

static bool was_hit_by(pid_t pid)
{
	return __atomic_load_n(&control->pid, __ATOMIC_ACQUIRE) == (uint32_t)pid;
}

static void start_victim(struct attempt *attempt)
{
	pid_t parent = getpid();
	fflush(stdout);
	attempt->victim = fork();
	if (attempt->victim == 0) {
		char bytes[2 * sizeof attempt->orders + 1];
		char *argv[] = {"kill-victim", "kill-victim", bytes, journal_path, NULL};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		for (size_t i = 0; i < sizeof attempt->orders; i++)
			snprintf(bytes + 2 * i, 3, "%02x", ((uint8_t *)&attempt->orders)[i]);
		setenv("SLABYARD_FAILPOINTS", control_path, 1);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
}

static void victim_main(int argc, char **argv)
{
	struct kill_orders orders;

	if (argc != 4 || strcmp(argv[1], "kill-victim") != 0)
		return;
	for (size_t i = 0; i < sizeof orders; i++) {
		char byte[3] = {argv[2][2 * i], argv[2][2 * i + 1], 0};

		((uint8_t *)&orders)[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	exit(kill_victim(&orders, map_file(argv[3], sizeof(struct kill_log))));
}

enum seen { SEEN_NOTHING, SEEN_STOPPED, SEEN_GONE };

/* Leaves the process to be waited for. */
static enum seen look_at(pid_t pid)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
	    info.si_pid == 0)
		return SEEN_NOTHING;
	return info.si_code == CLD_STOPPED ? SEEN_STOPPED : SEEN_GONE;
}

/* Waits for news of a child. */
static void wait_for_news(void)
{
	const struct timespec longest = {0, 100000000};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	(void)sigtimedwait(&child, NULL, &longest);
}

static void hold(const struct attempt *attempt)
{
	struct timespec time = {(time_t)(attempt->hold_ns / 1000000000u),
	                        (long)(attempt->hold_ns % 1000000000u)};

	nanosleep(&time, NULL);
}

static void go_on(pid_t pid)
{
	siginfo_t info;

	kill(pid, SIGCONT);
	(void)waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOHANG);
}

/* A unit did something: by our order, or on its own, which is a fault. */
static void see_unit(struct attempt *attempt, uint32_t unit)
{
	pid_t pid = cluster.units[unit];
	enum seen seen = look_at(pid);
	const char *why;

	if (seen == SEEN_NOTHING || (seen == SEEN_STOPPED && !was_hit_by(pid)))
		return;
	attempt->unit_seen = true;
	if (seen == SEEN_STOPPED) {
		why = kill_check_others(unit, false);
		hold(attempt);
		go_on(pid);
	} else if (was_hit_by(pid) && attempt->action == SY_FAILPOINT_KILL) {
		__atomic_store_n(&control->armed, 0, __ATOMIC_RELEASE);
		attempt->died[unit] = true;
		cluster_kill(&cluster, unit, SIGKILL);
		why = kill_check_others(unit, true);
		cluster_restart(&cluster, unit);
	} else {
		why = "it ended by itself";
		cluster_kill(&cluster, unit, SIGKILL);
		cluster_restart(&cluster, unit);
		attempt->died[unit] = true;
	}
	if (why != NULL)
		fault(attempt, "unit", why);
}

static void see_victim(struct attempt *attempt)
{
	switch (look_at(attempt->victim)) {
	case SEEN_NOTHING:
		return;
	case SEEN_STOPPED: {
		const char *why = kill_check_others(KILL_UNITS, false);

		if (why != NULL)
			fault(attempt, "beside a stopped client", why);
		hold(attempt);
		go_on(attempt->victim);
		return;
	}
	case SEEN_GONE:
		waitpid(attempt->victim, &attempt->victim_status, 0);
		attempt->victim_gone = true;
		return;
	}
}

/* A unit may come to the point when its client is gone, or be just there. */
static void watch_units(struct attempt *attempt)
{
	bool late = attempt->point == SY_FAILPOINT_UNIT_EOF ||
	            attempt->point == SY_FAILPOINT_UNIT_GONE ||
	            attempt->point == SY_FAILPOINT_UNIT_BYE ||
	            attempt->point == SY_FAILPOINT_UNIT_EFFECT_PEER_DONE;
	const struct timespec pause = {0, 1000000};
	bool by_unit;

	for (int i = 0; i < 2000 && late && was_hit_by(0); i++)
		nanosleep(&pause, NULL);
	__atomic_store_n(&control->armed, 0, __ATOMIC_RELEASE);
	by_unit = !was_hit_by(0) && !was_hit_by(attempt->victim) &&
	          attempt->action != SY_FAILPOINT_DELAY;
	for (int i = 0; i < 200 && by_unit && !attempt->unit_seen; i++) {
		for (uint32_t u = 0; u < KILL_UNITS; u++)
			see_unit(attempt, u);
		if (!attempt->unit_seen)
			wait_for_news();
	}
}

static void watch_victim(struct attempt *attempt)
{
	uint64_t end_ns = sy_clock_now_ns() + LIMIT_MS * MILLISECOND_NS;

	start_victim(attempt);
	while (!attempt->victim_gone) {
		wait_for_news();
		for (uint32_t u = 0; u < KILL_UNITS; u++)
			see_unit(attempt, u);
		see_victim(attempt);
		if (!attempt->victim_gone && sy_clock_now_ns() > end_ns) {
			fault(attempt, "client", "it does not end, and is doing");
			fault(attempt, "client", journal->doing);
			kill(attempt->victim, SIGKILL);
			waitpid(attempt->victim, &attempt->victim_status, 0);
			return;
		}
	}
	watch_units(attempt);
	bool killed = WIFSIGNALED(attempt->victim_status) &&
	              WTERMSIG(attempt->victim_status) == SIGKILL;
	bool wanted = attempt->action == SY_FAILPOINT_KILL && was_hit_by(attempt->victim);
	if (journal->fault[0] != 0)
		fault(attempt, "client", journal->fault);
	else if (killed != wanted || (!killed && attempt->victim_status != 0))
		fault(attempt, "client", "it did not end as it should");
}

/* Points that a unit passes at its end and its start. */
static void replace_unit(struct attempt *attempt)
{
	pid_t pid = cluster.units[0];
	int ready_fd;
	bool ready;

	kill(pid, SIGTERM);
	for (int i = 0; i < 600 && look_at(pid) != SEEN_GONE; i++) {
		wait_for_news();
		if (look_at(pid) != SEEN_STOPPED)
			continue;
		hold(attempt);
		go_on(pid);
	}
	cluster_kill(&cluster, 0, SIGKILL);
	attempt->died[0] = true;
	ready_fd = cluster_spawn(&cluster, 0);
	pid = cluster.units[0];
	if (was_hit_by(0) && attempt->action == SY_FAILPOINT_STOP) {
		for (int i = 0; i < 600 && look_at(pid) != SEEN_STOPPED; i++)
			wait_for_news();
		const char *why = kill_check_others(0, true);
		if (why != NULL)
			fault(attempt, "beside a unit that was stopped at its start", why);
		hold(attempt);
		go_on(pid);
	}
	ready = cluster_is_ready(ready_fd);
	close(ready_fd);
	if (!ready && was_hit_by(pid) && attempt->action == SY_FAILPOINT_KILL) {
		cluster_kill(&cluster, 0, SIGKILL);
		cluster_restart(&cluster, 0);
	} else if (!ready) {
		fault(attempt, "unit", "it did not start");
		cluster_kill(&cluster, 0, SIGKILL);
		cluster_restart(&cluster, 0);
	}
}

static bool is_of_a_start(uint32_t point)
{
	return point == SY_FAILPOINT_UNIT_SLAB_NAMED || point == SY_FAILPOINT_UNIT_SLAB_MADE ||
	       point == SY_FAILPOINT_UNIT_REGISTERING || point == SY_FAILPOINT_UNIT_REGISTERED ||
	       point == SY_FAILPOINT_UNIT_LEAVING;
}

static void give_orders(struct attempt *attempt)
{
	uint32_t point = attempt->point;
	bool of_client = strncmp(sy_failpoint_name(point), "client", 6) == 0;
	bool kills_unit = !of_client && attempt->action == SY_FAILPOINT_KILL;
	/* Either every call can wait for the end of the fault, and must; or it lasts longer than
	 * they may take, and they must not. */
	bool patient = sy_prng_below(&prng, 2) == 0;
	struct kill_orders *orders = &attempt->orders;

	attempt->hold_ns = (patient ? 20 + sy_prng_below(&prng, 60) : 400) * MILLISECOND_NS;
	orders->timeout_ns = (patient ? 20000 : 250) * MILLISECOND_NS;
	orders->seed = sy_prng_next(&prng) >> 8;
	orders->strict = patient && !kills_unit;
	orders->may_lose = kills_unit;
	orders->abandon = point == SY_FAILPOINT_UNIT_EOF || point == SY_FAILPOINT_UNIT_GONE;
	orders->parks = point == SY_FAILPOINT_UNIT_EFFECT_KEEP ||
	                point == SY_FAILPOINT_UNIT_EFFECT_REDO ||
	                point == SY_FAILPOINT_UNIT_EFFECT_DROP;
	snprintf(orders->run_dir, sizeof orders->run_dir, "%s", cluster.run_dir);
	for (uint32_t u = 0; u < KILL_UNITS; u++)
		orders->units[u] = cluster.units[u];
}

/* True: the point was reached and its action taken. */
static bool try_once(struct attempt *attempt, uint32_t nth)
{
	const char *why;

	memset(journal, 0, sizeof *journal);
	for (int i = 0; i < KILL_ROWS; i++)
		journal->rows[i].count = 1; /* absent */
	give_orders(attempt);
	arm(attempt, nth);
	if (is_of_a_start(attempt->point))
		replace_unit(attempt);
	else
		watch_victim(attempt);
	__atomic_store_n(&control->armed, 0, __ATOMIC_RELEASE);
	why = kill_check_after(journal, attempt->died);
	if (why != NULL)
		fault(attempt, "afterwards", why);
	__atomic_add_fetch(&tally->calls, (uint32_t)journal->calls, __ATOMIC_RELAXED);
	__atomic_add_fetch(&tally->errors, (uint32_t)journal->errors, __ATOMIC_RELAXED);
	if (journal->worst_late_ns > tally->worst_late_ns)
		tally->worst_late_ns = journal->worst_late_ns;
	return __atomic_load_n(&control->pid, __ATOMIC_ACQUIRE) != 0;
}

/* What never comes to an nth hit comes to a first one. */
static void torment(size_t p, enum sy_failpoint_action action, uint32_t round)
{
	bool once = round == 0 || is_of_a_start(points[p]); /* a unit starts once */
	uint32_t nth = once ? 1 : 1 + (uint32_t)sy_prng_below(&prng, 4);
	bool hit = false;

	for (int i = 0; i < TRIES && !hit; i++) {
		struct attempt attempt = {.point = points[p], .action = action};

		hit = try_once(&attempt, nth);
		if (attempt.fault[0] != 0) {
			printf("FAILED  %s:%s (hit %u, timeout %llu ms): %s\n", sy_failpoint_name(points[p]),
			       action_names[action], nth,
			       (unsigned long long)(attempt.orders.timeout_ns / MILLISECOND_NS),
			       attempt.fault);
			fflush(stdout);
			__atomic_add_fetch(&tally->faults, 1, __ATOMIC_RELAXED);
		}
		nth = 1;
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

	if (options->only == NULL)
		return true;
	snprintf(name, sizeof name, "%s:%s", sy_failpoint_name(points[p]), action_names[action]);
	return strncmp(name, options->only, strlen(options->only)) == 0;
}

static int run_job(const struct options *options, uint32_t job)
{
	sigset_t child;
	uint32_t turn = 0;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	sy_prng_seed(&prng, options->seed + job);
	snprintf(control_path, sizeof control_path, "/tmp/slabyard-kill-%d.control", getpid());
	snprintf(journal_path, sizeof journal_path, "/tmp/slabyard-kill-%d.log", getpid());
	control = map_file(control_path, sizeof *control);
	journal = map_file(journal_path, sizeof *journal);
	setenv("SLABYARD_FAILPOINTS", control_path, 1); /* for the units; this process hits nothing */
	cluster_start(&cluster, KILL_UNITS, KILL_SLAB_BYTES, true);
	kill_check_start(&cluster);
	for (uint32_t round = 0; round < options->rounds; round++) {
		for (size_t p = 0; p < point_count; p++) {
			for (int action = 1; action <= ACTIONS; action++) {
				if (is_chosen(options, p, action) && turn++ % options->jobs == job)
					torment(p, (enum sy_failpoint_action)action, round);
			}
		}
	}
	kill_check_stop();
	cluster_stop(&cluster);
	unlink(control_path);
	unlink(journal_path);
	return 0;
}

static int report(const struct options *options)
{
	uint32_t passed = 0, failed = tally->faults;

	printf("%-32s %6s %6s %6s\n", "point", "kill", "stop", "delay");
	for (size_t p = 0; p < point_count; p++) {
		const uint32_t *done = tally->done[p];

		if (!is_chosen(options, p, 1) && !is_chosen(options, p, 2) && !is_chosen(options, p, 3))
			continue;
		printf("%-32s %6u %6u %6u\n", sy_failpoint_name(points[p]), done[1], done[2], done[3]);
		for (int action = 1; action <= ACTIONS; action++) {
			bool enough = done[action] >= options->rounds;

			if (!is_chosen(options, p, action))
				continue;
			passed += enough;
			failed += !enough;
			if (!enough)
				printf("FAILED  %s:%s: %u of %u times\n", sy_failpoint_name(points[p]),
				       action_names[action], done[action], options->rounds);
		}
	}
	printf("seed %llu, %u calls, %u typed errors, the latest %lld ms past its deadline\n",
	       (unsigned long long)options->seed, tally->calls, tally->errors,
	       (long long)(tally->worst_late_ns / (int64_t)MILLISECOND_NS));
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
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
	victim_main(argc, argv);
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
