/* One fault of the kill loop, from the order to the state it left. */
#include "kill_attempt.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "dir_client.h"
#include "kill_check.h"

enum {
	LIMIT_MS = 60000,
	REPLACED = 0, /* the unit that is replaced */
	DRAINING = 1, /* the one that is asked to drain */
	ASK_ROUNDS = 2,
	NEWS_MS = 100,
	STANDING_MS = 5, /* a client that stands at a point sends no news */
	LOOKS = 600,
};

static const uint64_t MILLISECOND_NS = 1000000;

static struct cluster cluster;
static struct sy_failpoint_control *control;
static struct kill_log *journal;
static char control_path[64], journal_path[64], ssd_dir[64];

static bool is_of(uint32_t point, const char *who)
{
	return strncmp(sy_failpoint_name(point), who, strlen(who)) == 0;
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

void kill_attempt_fault(struct kill_attempt *attempt, const char *what, const char *why)
{
	if (attempt->fault[0] == 0)
		snprintf(attempt->fault, sizeof attempt->fault, "%s: %s", what, why);
}

static void arm(const struct kill_attempt *attempt, uint32_t nth)
{
	__atomic_store_n(&control->armed, 0, __ATOMIC_RELEASE);
	control->point = attempt->point;
	control->nth = nth;
	control->action = attempt->action;
	control->delay_ns = attempt->hold_ns;
	__atomic_store_n(&control->go, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->hits, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->pid, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&control->armed, 1, __ATOMIC_RELEASE);
}

static bool was_hit_by(pid_t pid)
{
	return __atomic_load_n(&control->pid, __ATOMIC_ACQUIRE) == (uint32_t)pid;
}

/* From here on nobody is killed, stopped or held who is not by now. True: somebody is. */
static bool disarm(void)
{
	uint32_t nobody = 0;

	__atomic_store_n(&control->armed, 0, __ATOMIC_RELEASE);
	__atomic_compare_exchange_n(&control->pid, &nobody, SY_FAILPOINT_NOBODY, false,
	                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return !was_hit_by((pid_t)SY_FAILPOINT_NOBODY);
}

static void start_victim(struct kill_attempt *attempt)
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

void kill_attempt_main(int argc, char **argv)
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
static void wait_for_news(uint32_t longest_ms)
{
	const struct timespec longest = {0, (long)(longest_ms * MILLISECOND_NS)};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	(void)sigtimedwait(&child, NULL, &longest);
}

static void hold(const struct kill_attempt *attempt)
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
static void see_unit(struct kill_attempt *attempt, uint32_t unit)
{
	pid_t pid = cluster.units[unit];
	enum seen seen = look_at(pid);
	const char *why;

	if (seen == SEEN_NOTHING || (seen == SEEN_STOPPED && !was_hit_by(pid)))
		return;
	attempt->seen = true;
	if (seen == SEEN_STOPPED) {
		why = kill_check_others(unit, KILL_ILL_LIVES);
		hold(attempt);
		go_on(pid);
	} else if (was_hit_by(pid) && attempt->action == SY_FAILPOINT_KILL) {
		attempt->died[unit] = true;
		cluster_kill(&cluster, unit, SIGKILL);
		why = kill_check_others(unit, KILL_ILL_DEAD);
		cluster_restart(&cluster, unit);
	} else {
		why = "it ended by itself";
		cluster_kill(&cluster, unit, SIGKILL);
		cluster_restart(&cluster, unit);
		attempt->died[unit] = true;
	}
	if (why != NULL)
		kill_attempt_fault(attempt, "unit", why);
}

/* Its client stands at the point, and goes on before or after another unit is in the place. */
static void strike(struct kill_attempt *attempt)
{
	uint32_t unit = attempt->struck_unit;
	bool goes_first = attempt->seed % 2 == 0;
	const char *why;

	if (attempt->strike == KILL_STRIKE_NONE || attempt->struck || !was_hit_by(attempt->victim))
		return;
	attempt->struck = true;
	if (attempt->strike == KILL_STRIKE_KILL) {
		attempt->died[unit] = true;
		cluster_kill(&cluster, unit, SIGKILL);
		why = kill_check_others(unit, KILL_ILL_DEAD);
		__atomic_store_n(&control->go, goes_first, __ATOMIC_RELEASE);
		cluster_restart(&cluster, unit);
	} else {
		kill(cluster.units[unit], SIGSTOP);
		for (int i = 0; i < LOOKS && look_at(cluster.units[unit]) == SEEN_NOTHING; i++)
			wait_for_news(NEWS_MS);
		why = kill_check_others(unit, KILL_ILL_LIVES);
		__atomic_store_n(&control->go, goes_first, __ATOMIC_RELEASE);
		hold(attempt);
		go_on(cluster.units[unit]);
	}
	__atomic_store_n(&control->go, 1, __ATOMIC_RELEASE);
	if (why != NULL)
		kill_attempt_fault(attempt, "while its client stands", why);
}

/* Is it the directory's, where it deals with this op? */
static bool is_about(uint32_t point, enum sy_dir_op op)
{
	return point == SY_FAILPOINT_DIRECTORY_GOT + op ||
	       point == SY_FAILPOINT_DIRECTORY_EXECUTED + op ||
	       point == SY_FAILPOINT_DIRECTORY_STORED + op;
}

/* Only this process asks for it. */
static bool is_of_asking(uint32_t point)
{
	return is_about(point, SY_DIR_OP_SET_STATE) || is_about(point, SY_DIR_OP_EPOCH) ||
	       is_about(point, SY_DIR_OP_STATS);
}

static struct kill_attempt *under_way;

/* Nobody who knows the units misses the directory. Also called while something waits for it. */
static bool see_directory(void)
{
	static bool sees; /* a directory that ends is waited for, too */
	struct kill_attempt *attempt = under_way;
	pid_t pid = cluster.server;
	enum seen seen = look_at(pid);
	uint32_t ill = kill_is_of_a_start(attempt->point) ? REPLACED : KILL_UNITS;
	const char *why;

	if (sees || seen == SEEN_NOTHING || (seen == SEEN_STOPPED && !was_hit_by(pid)))
		return false;
	sees = attempt->seen = true;
	if (is_of_asking(attempt->point))
		ill = DRAINING;
	if (seen == SEEN_GONE && !(was_hit_by(pid) && attempt->action == SY_FAILPOINT_KILL))
		kill_attempt_fault(attempt, "directory", "it ended by itself");
	why = kill_check_others(ill, KILL_ILL_EITHER);
	if (seen == SEEN_STOPPED) {
		hold(attempt);
		go_on(pid);
	} else {
		cluster_restart_directory(&cluster);
	}
	if (why != NULL)
		kill_attempt_fault(attempt, "without a directory", why);
	sees = false;
	return false;
}

static void see_victim(struct kill_attempt *attempt)
{
	switch (look_at(attempt->victim)) {
	case SEEN_NOTHING:
		return;
	case SEEN_STOPPED: {
		const char *why = kill_check_others(KILL_UNITS, KILL_ILL_LIVES);

		if (why != NULL)
			kill_attempt_fault(attempt, "beside a stopped client", why);
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

/* A unit may come to the point when its client is gone, or be just there; so may the directory. */
static void watch_others(struct kill_attempt *attempt)
{
	bool late = attempt->point == SY_FAILPOINT_UNIT_EOF ||
	            attempt->point == SY_FAILPOINT_UNIT_GONE ||
	            attempt->point == SY_FAILPOINT_UNIT_BYE ||
	            attempt->point == SY_FAILPOINT_UNIT_EFFECT_PEER_DONE;
	const struct timespec pause = {0, 1000000};
	bool by_other;

	for (int i = 0; i < 2000 && late && was_hit_by(0); i++)
		nanosleep(&pause, NULL);
	by_other = disarm() && !was_hit_by(attempt->victim) && attempt->action != SY_FAILPOINT_DELAY;
	for (int i = 0; i < 200 && by_other && !attempt->seen; i++) {
		for (uint32_t u = 0; u < KILL_UNITS; u++)
			see_unit(attempt, u);
		see_directory();
		if (!attempt->seen)
			wait_for_news(NEWS_MS);
	}
}

static void watch_victim(struct kill_attempt *attempt)
{
	uint64_t end_ns = sy_clock_now_ns() + LIMIT_MS * MILLISECOND_NS;

	start_victim(attempt);
	while (!attempt->victim_gone) {
		bool may_stand = attempt->strike != KILL_STRIKE_NONE && !attempt->struck;

		wait_for_news(may_stand ? STANDING_MS : NEWS_MS);
		for (uint32_t u = 0; u < KILL_UNITS; u++)
			see_unit(attempt, u);
		see_directory();
		strike(attempt);
		see_victim(attempt);
		if (!attempt->victim_gone && sy_clock_now_ns() > end_ns) {
			kill_attempt_fault(attempt, "client: it does not end; it does", journal->doing);
			kill(attempt->victim, SIGKILL);
			waitpid(attempt->victim, &attempt->victim_status, 0);
			kill(cluster.units[0], SIGCONT); /* it may have stopped it: want_room */
			return;
		}
	}
	watch_others(attempt);
	bool killed = WIFSIGNALED(attempt->victim_status) &&
	              WTERMSIG(attempt->victim_status) == SIGKILL;
	bool wanted = attempt->action == SY_FAILPOINT_KILL && was_hit_by(attempt->victim);
	if (journal->fault[0] != 0)
		kill_attempt_fault(attempt, "client", journal->fault);
	else if (killed != wanted || (!killed && attempt->victim_status != 0))
		kill_attempt_fault(attempt, "client", "it did not end as it should");
}

/* Points that a unit passes at its end and its start. */
static void replace_unit(struct kill_attempt *attempt)
{
	pid_t pid = cluster.units[0];
	int ready_fd;
	bool ready;

	kill(pid, SIGTERM);
	for (int i = 0; i < LOOKS && look_at(pid) != SEEN_GONE; i++) {
		wait_for_news(NEWS_MS);
		see_directory();
		if (look_at(pid) != SEEN_STOPPED)
			continue;
		hold(attempt);
		go_on(pid);
	}
	cluster_kill(&cluster, 0, SIGKILL);
	attempt->died[0] = true;
	ready_fd = cluster_spawn(&cluster, 0);
	pid = cluster.units[0];
	if (is_of(attempt->point, "unit") && was_hit_by(0) && attempt->action == SY_FAILPOINT_STOP) {
		for (int i = 0; i < LOOKS && look_at(pid) != SEEN_STOPPED; i++)
			wait_for_news(NEWS_MS);
		const char *why = kill_check_others(0, KILL_ILL_DEAD);
		if (why != NULL)
			kill_attempt_fault(attempt, "beside a unit that was stopped at its start", why);
		hold(attempt);
		go_on(pid);
	}
	ready = cluster_is_ready(&cluster, ready_fd);
	close(ready_fd);
	if (!ready && was_hit_by(pid) && attempt->action == SY_FAILPOINT_KILL) {
		cluster_kill(&cluster, 0, SIGKILL);
		cluster_restart(&cluster, 0);
	} else if (!ready) {
		kill_attempt_fault(attempt, "unit", "it did not start");
		cluster_kill(&cluster, 0, SIGKILL);
		cluster_restart(&cluster, 0);
	}
}

/* --- Points of the directory that neither a client nor a unit comes to. --- */

static uint64_t incarnation_of(const struct sy_unit_list *list, enum sy_unit_state *ret_state)
{
	*ret_state = DRAINING < list->count ? list->units[DRAINING].state : SY_UNIT_NONE;
	return DRAINING < list->count ? list->units[DRAINING].incarnation : 0;
}

/* What it has answered stays so, whatever becomes of it. */
static const char *ask_directory(struct sy_dir_client *client, uint64_t *epoch, sy_error *err)
{
	const uint64_t end_ns = sy_clock_now_ns() + LIMIT_MS * MILLISECOND_NS;
	const enum sy_unit_state wanted[] = {SY_UNIT_DRAINING, SY_UNIT_ACTIVE};
	struct sy_unit_list list = {0};
	struct sy_dir_stats stats;
	enum sy_unit_state state;
	uint64_t now;

	if (sy_dir_client_epoch(client, end_ns, &now, err) != SY_OK ||
	    sy_dir_client_stats(client, end_ns, &stats, err) != SY_OK)
		return err->message;
	if (now < *epoch || stats.requests == 0)
		return "its epoch fell, or it counts nothing";
	*epoch = now;
	for (int i = 0; i < 2; i++) {
		if (sy_dir_client_units(client, 0, end_ns, &list, err) != SY_OK)
			return err->message;
		uint64_t incarnation = incarnation_of(&list, &state);
		sy_unit_list_done(&list);
		if (sy_dir_client_set_state(client, DRAINING, incarnation, wanted[i], end_ns, err) !=
		            SY_OK ||
		    sy_dir_client_units(client, 0, end_ns, &list, err) != SY_OK)
			return err->message;
		(void)incarnation_of(&list, &state);
		sy_unit_list_done(&list);
		if (state != wanted[i])
			return "a state that it had answered for is another one";
	}
	return NULL;
}

static bool look_at_directory(void *unused)
{
	(void)unused;
	return see_directory();
}

static void ask_it(struct kill_attempt *attempt)
{
	struct sy_dir_client *client;
	const char *why = NULL;
	uint64_t epoch = 0;
	sy_error err = {0};

	if (sy_dir_client_open(cluster.directory, &client, &err) != SY_OK) {
		kill_attempt_fault(attempt, "directory", err.message);
		return;
	}
	sy_dir_client_set_interrupt(client, look_at_directory, NULL);
	for (int i = 0; i < ASK_ROUNDS && why == NULL; i++)
		why = ask_directory(client, &epoch, &err);
	if (why == NULL) /* and the unit has heard that it does not drain any more */
		why = kill_check_others(KILL_UNITS, KILL_ILL_LIVES);
	if (why != NULL)
		kill_attempt_fault(attempt, "directory", why);
	sy_dir_client_close(client);
}

bool kill_is_of_a_start(uint32_t point)
{
	const uint32_t points[] = {
		SY_FAILPOINT_UNIT_SLAB_NAMED, SY_FAILPOINT_UNIT_SLAB_MADE, SY_FAILPOINT_UNIT_REGISTERING,
		SY_FAILPOINT_UNIT_REGISTERED, SY_FAILPOINT_UNIT_LEAVING, SY_FAILPOINT_DIRECTORY_DEATH_TOLD,
		SY_FAILPOINT_DIRECTORY_DEATH_KNOWN, SY_FAILPOINT_DIRECTORY_DEATH_STORED,
		SY_FAILPOINT_DIRECTORY_STATE_WRITTEN, SY_FAILPOINT_DIRECTORY_STATE_MOVED};

	for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
		if (points[i] == point)
			return true;
	}
	return is_about(point, SY_DIR_OP_REGISTER) || is_about(point, SY_DIR_OP_EXITED);
}

static void give_orders(struct kill_attempt *attempt)
{
	uint32_t point = attempt->point;
	bool kills_unit = attempt->strike == KILL_STRIKE_KILL ||
	                  (is_of(point, "unit") && attempt->action == SY_FAILPOINT_KILL);
	struct kill_orders *orders = &attempt->orders;

	attempt->hold_ns = (attempt->patient ? 20 + attempt->seed % 60 : 400) * MILLISECOND_NS;
	orders->timeout_ns = (attempt->patient ? 20000 : 250) * MILLISECOND_NS;
	orders->seed = attempt->seed;
	orders->strict = attempt->patient && !kills_unit;
	orders->may_lose = kills_unit;
	orders->abandon = point == SY_FAILPOINT_UNIT_EOF || point == SY_FAILPOINT_UNIT_GONE;
	orders->parks = point == SY_FAILPOINT_UNIT_EFFECT_KEEP ||
	                point == SY_FAILPOINT_UNIT_EFFECT_REDO ||
	                point == SY_FAILPOINT_UNIT_EFFECT_DROP;
	orders->tier = ssd_dir[0] != 0;
	snprintf(orders->run_dir, sizeof orders->run_dir, "%s", cluster.run_dir);
	for (uint32_t u = 0; u < KILL_UNITS; u++)
		orders->units[u] = cluster.units[u];
}

bool kill_attempt(struct kill_attempt *attempt, uint32_t nth)
{
	const char *why;
	bool hit;

	memset(journal, 0, sizeof *journal);
	for (int i = 0; i < KILL_ROWS; i++)
		journal->rows[i].count = 1; /* absent */
	attempt->log = journal;
	under_way = attempt;
	give_orders(attempt);
	arm(attempt, nth);
	if (kill_is_of_a_start(attempt->point))
		replace_unit(attempt);
	else if (is_of_asking(attempt->point))
		ask_it(attempt);
	else
		watch_victim(attempt);
	hit = disarm();
	why = kill_check_after(journal, attempt->died);
	if (why != NULL)
		kill_attempt_fault(attempt, "afterwards", why);
	return hit;
}

void kill_attempt_start(bool tier)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	snprintf(control_path, sizeof control_path, "/tmp/slabyard-kill-%d.control", getpid());
	snprintf(journal_path, sizeof journal_path, "/tmp/slabyard-kill-%d.log", getpid());
	control = map_file(control_path, sizeof *control);
	journal = map_file(journal_path, sizeof *journal);
	setenv("SLABYARD_FAILPOINTS", control_path, 1); /* for the units; this process hits nothing */
	if (tier) {
		snprintf(ssd_dir, sizeof ssd_dir, "/tmp/slabyard-kill-%d.ssd", getpid());
		if (mkdir(ssd_dir, 0700) != 0) {
			perror("kill_loop: the folder of the disk tier");
			exit(1);
		}
		setenv("TEST_SSD_DIR", ssd_dir, 1);
		setenv("TEST_SSD_BYTES", "16777216", 1); /* one segment */
	}
	setenv("TEST_LEASES", "1", 1);
	cluster_start(&cluster, KILL_UNITS, tier ? KILL_TIER_SLAB_BYTES : KILL_SLAB_BYTES, true);
	kill_check_start(&cluster, tier ? ssd_dir : NULL);
	cluster.look = see_directory;
}

/* The units' lock files stay in it. */
static void remove_ssd_dir(void)
{
	DIR *dir = opendir(ssd_dir);

	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(ssd_dir);
}

void kill_attempt_stop(void)
{
	kill_check_stop();
	cluster.look = NULL;
	cluster_stop(&cluster);
	unlink(control_path);
	unlink(journal_path);
	munmap(control, sizeof *control);
	munmap(journal, sizeof *journal);
	if (ssd_dir[0] != 0)
		remove_ssd_dir();
}
