#include "supervisor.h"
#include "child.h"
#include "clock.h"
#include "dir_server.h"
#include "fail.h"
#include "leftovers.h"
#include "process.h"
#include "restart.h"
#include "run_lock.h"
#include "tell.h"
#include "units.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t LEFTOVERS_NS = 5000000000u; /* a unit's clean end takes no longer */
static const uint64_t TERM_GRACE_NS = 10000000000u;
static const uint64_t KILL_GRACE_NS = 5000000000u;

enum { WORDS_BEFORE = 11, WAITS_BEFORE = 2, NUMBER_BYTES = 16 };

enum phase {
	PHASE_STARTING,
	PHASE_SERVING,
	PHASE_TERMINATING, /* units were told to end */
	PHASE_KILLING,     /* ... and did not */
};

struct supervisor {
	const struct sy_supervisor_config *config;
	struct sy_run_dir dir;
	struct sy_run_lock lock;
	struct sy_dir_server *directory;
	char endpoint[SY_RUN_PATH_BYTES + 8];
	int signal_fd;
	struct sy_child *children; /* one a slot */
	struct sy_restart *restarts; /* the same */
	const char **words;        /* of a unit's command line, for the one being started */
	struct pollfd *waits;      /* signals, directory, then two a child: its end, its words */
	enum phase phase;
	uint64_t phase_end_ns;
	sy_status status; /* why it ends; SY_OK: it was asked to */
	sy_error *err;
	bool had_incident; /* the log is worth keeping */
};

/* What a unit says is passed on, a line late, so that its last words before a failed start are
 * told once, as the failure. */
static void unit_tell(void *context, const char *line)
{
	const uint32_t *unit_id = context;
	sy_tell("unit %u: %s", *unit_id, line);
}

static void held_tell(struct sy_child *child, uint32_t unit_id)
{
	if (child->held[0] != '\0')
		unit_tell(&unit_id, child->held);
	child->held[0] = '\0';
}

static sy_status signals_open(struct supervisor *supervisor)
{
	sigset_t taken;
	sigemptyset(&taken);
	sigaddset(&taken, SIGTERM);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &taken, NULL) == 0)
		supervisor->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (supervisor->signal_fd < 0)
		return sy_fail(supervisor->err, SY_E_SYS, __func__, "cannot watch for signals: %s",
		               strerror(errno));
	return SY_OK;
}

/* Goes on from the state that a killed supervisor left. Its units are gone (leftovers_await saw
 * to it), so each that still stands there as alive has ended. */
static sy_status directory_open(struct supervisor *supervisor)
{
	const struct sy_supervisor_config *config = supervisor->config;
	char state[SY_RUN_PATH_BYTES], socket[SY_RUN_PATH_BYTES];
	const struct sy_run_dir *dir = &supervisor->dir;
	sy_status status = sy_run_dir_file(dir, "directory.state", state, supervisor->err);
	if (status == SY_OK)
		status = sy_run_dir_file(dir, "directory.ipc", socket, supervisor->err);
	if (status != SY_OK)
		return status;
	sy_format(supervisor->endpoint, sizeof supervisor->endpoint, "ipc://%s", socket);
	const char *const endpoints[] = {supervisor->endpoint};
	sy_error inner;
	status = sy_dir_server_open(state, config->unit_count, &config->times, endpoints, 1, NULL,
	                            &supervisor->directory, &inner);
	if (status == SY_E_INVALID || status == SY_E_PROTOCOL)
		return sy_fail(supervisor->err, status, __func__,
		               "what a killed cluster left in %s does not fit: %s; `slabyard down "
		               "--run-dir %s` removes it", dir->path, inner.message, dir->path);
	if (status != SY_OK)
		return sy_fail(supervisor->err, status, __func__, "%s", inner.message);
	for (uint32_t i = 0; i < config->unit_count; i++) {
		const struct sy_unit_info *slot =
			sy_registry_slot(sy_dir_server_registry(supervisor->directory), i);
		if (sy_unit_lives(slot->state))
			sy_dir_server_exited(supervisor->directory, i, slot->incarnation);
	}
	return SY_OK;
}

static sy_status unit_start(struct supervisor *supervisor, uint32_t unit_id, sy_error *err)
{
	const struct sy_supervisor_config *config = supervisor->config;
	const char **words = supervisor->words;
	char id[NUMBER_BYTES], count[NUMBER_BYTES];
	sy_format(id, sizeof id, "%u", unit_id);
	sy_format(count, sizeof count, "%u", config->unit_count);
	const char *const before[] = {
		"slabyard", "unit",         "--run-dir",          supervisor->dir.path, "--id", id,
		"--units",  count,          "--directory",        supervisor->endpoint};
	_Static_assert(sizeof before / sizeof before[0] + 1 == WORDS_BEFORE, "room and a NULL");
	memcpy(words, before, sizeof before);
	memcpy(words + WORDS_BEFORE - 1, config->unit_words,
	       config->unit_word_count * sizeof words[0]);
	words[WORDS_BEFORE - 1 + config->unit_word_count] = NULL;
	/* exec's words are not const by history only. */
	sy_restart_begun(&supervisor->restarts[unit_id], sy_clock_now_ns());
	return sy_child_start((char *const *)(uintptr_t)words, &supervisor->children[unit_id], err);
}

static sy_status units_start(struct supervisor *supervisor)
{
	sy_status status = SY_OK;
	for (uint32_t i = 0; i < supervisor->config->unit_count && status == SY_OK; i++)
		status = unit_start(supervisor, i, supervisor->err);
	return status;
}

static uint32_t living_count(const struct supervisor *supervisor)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < supervisor->config->unit_count; i++)
		count += supervisor->children[i].pid > 0 && !supervisor->children[i].ended;
	return count;
}

static void units_signal(struct supervisor *supervisor, int signal)
{
	for (uint32_t i = 0; i < supervisor->config->unit_count; i++) {
		sy_child_signal(&supervisor->children[i], signal);
		/* A stopped one ends only once it goes on. */
		sy_child_go_on(&supervisor->children[i]);
	}
}

static void phase_set(struct supervisor *supervisor, enum phase phase, uint64_t lasts_ns)
{
	supervisor->phase = phase;
	supervisor->phase_end_ns = sy_clock_now_ns() + lasts_ns;
	if (phase == PHASE_TERMINATING)
		units_signal(supervisor, SIGTERM);
	if (phase == PHASE_KILLING)
		units_signal(supervisor, SIGKILL);
}

/* Begins the end; status and err say why, unless an earlier reason stands. */
static void end_begin(struct supervisor *supervisor, sy_status status)
{
	if (supervisor->phase < PHASE_TERMINATING) {
		supervisor->status = status;
		phase_set(supervisor, PHASE_TERMINATING, TERM_GRACE_NS);
	}
}

/* A unit ended though nobody told it to, or could not be started: what, in words. */
static void incident_tell(struct supervisor *supervisor, uint32_t unit_id, const char *what)
{
	struct sy_restart *restart = &supervisor->restarts[unit_id];
	uint64_t now_ns = sy_clock_now_ns();
	char wait[SY_DURATION_TEXT_BYTES];
	supervisor->had_incident = true;
	if (!supervisor->config->restart) {
		sy_tell("unit %u %s: what it held is gone, the others serve on", unit_id, what);
	} else if (!sy_restart_ended(restart, now_ns)) {
		sy_tell("unit %u %s: it was restarted %d times in a row and now stays dead", unit_id, what,
		        SY_RESTARTS_IN_A_ROW);
	} else {
		sy_format_duration(restart->due_ns - now_ns, wait);
		sy_tell("unit %u %s: what it held is gone, it is restarted in %s", unit_id, what, wait);
	}
}

/* Starts those whose time has come. *ret_next_ns: when the next one comes; UINT64_MAX: none. */
static void restarts_run(struct supervisor *supervisor, uint64_t *ret_next_ns)
{
	uint64_t next_ns = UINT64_MAX;
	for (uint32_t i = 0; i < supervisor->config->unit_count; i++) {
		struct sy_restart *restart = &supervisor->restarts[i];
		sy_error err = {0};
		if (restart->due_ns != 0 && restart->due_ns <= sy_clock_now_ns()) {
			sy_child_done(&supervisor->children[i]);
			if (unit_start(supervisor, i, &err) == SY_OK)
				sy_tell("unit %u is restarted as process %d", i, (int)supervisor->children[i].pid);
			else
				incident_tell(supervisor, i, err.message);
		}
		if (restart->due_ns != 0 && restart->due_ns < next_ns)
			next_ns = restart->due_ns;
	}
	*ret_next_ns = next_ns;
}

static void unit_over(struct supervisor *supervisor, uint32_t unit_id)
{
	struct sy_child *child = &supervisor->children[unit_id];
	char end[96];
	/* Before the reaping: until then the pid is nobody else's. */
	sy_dir_server_process_exited(supervisor->directory, unit_id, (uint32_t)child->pid);
	sy_child_read(child, unit_tell, &unit_id);
	sy_child_reap(child);
	sy_child_end_text(child, end, sizeof end);
	if (supervisor->phase == PHASE_STARTING) {
		if (child->held[0] != '\0')
			sy_fail(supervisor->err, SY_E_SYS, __func__, "unit %u: %s", unit_id, child->held);
		else
			sy_fail(supervisor->err, SY_E_SYS, __func__, "unit %u %s before it was ready", unit_id,
			        end);
		end_begin(supervisor, SY_E_SYS);
	} else if (supervisor->phase == PHASE_SERVING) {
		char what[128];
		held_tell(child, unit_id);
		sy_format(what, sizeof what, "(process %d) %s", (int)child->pid, end);
		incident_tell(supervisor, unit_id, what);
	} else if (supervisor->status == SY_OK) {
		held_tell(child, unit_id);
		bool is_clean = WIFEXITED(child->wait_status) && WEXITSTATUS(child->wait_status) == 0;
		/* Who hurries us has it killed; one that was late is told of as that. */
		bool is_hurried = supervisor->phase == PHASE_KILLING &&
		                  WIFSIGNALED(child->wait_status) &&
		                  WTERMSIG(child->wait_status) == SIGKILL;
		if (!is_clean) {
			supervisor->had_incident = supervisor->had_incident || !is_hurried;
			sy_tell("unit %u (process %d) %s when told to end", unit_id, (int)child->pid, end);
		}
	}
}

/* Once every slot is held the cluster is up. */
static void readiness_check(struct supervisor *supervisor)
{
	uint64_t total_bytes = 0;
	for (uint32_t i = 0; i < supervisor->config->unit_count; i++) {
		const struct sy_unit_info *slot =
			sy_registry_slot(sy_dir_server_registry(supervisor->directory), i);
		if (slot->state != SY_UNIT_ACTIVE && !supervisor->config->directory_only)
			return;
		total_bytes += slot->slab_bytes;
	}
	sy_status status = sy_process_need_descriptors(SY_DIR_CLIENT_FDS, supervisor->err);
	if (status != SY_OK) {
		end_begin(supervisor, status);
		return;
	}
	supervisor->phase = PHASE_SERVING;
	if (!supervisor->config->ready(supervisor->config->context, supervisor->dir.path, total_bytes))
		end_begin(supervisor, sy_fail(supervisor->err, SY_E_SYS, __func__,
		                              "whoever asked for the cluster is gone"));
}

static void signals_read(struct supervisor *supervisor)
{
	struct signalfd_siginfo info;
	while (read(supervisor->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (supervisor->phase == PHASE_TERMINATING)
			phase_set(supervisor, PHASE_KILLING, KILL_GRACE_NS);
		else if (supervisor->phase == PHASE_STARTING)
			end_begin(supervisor, sy_fail(supervisor->err, SY_E_SYS, __func__,
			                              "stopped before its units were ready"));
		else
			end_begin(supervisor, SY_OK);
	}
}

/* True while the end goes on. */
static bool phase_check(struct supervisor *supervisor)
{
	bool is_late = sy_clock_now_ns() >= supervisor->phase_end_ns;
	switch (supervisor->phase) {
	case PHASE_STARTING:
		readiness_check(supervisor);
		if (supervisor->phase == PHASE_STARTING && is_late)
			end_begin(supervisor, sy_fail(supervisor->err, SY_E_TIMEOUT, __func__,
			                              "the units were not ready in time"));
		return true;
	case PHASE_SERVING:
		return true;
	case PHASE_TERMINATING:
		if (is_late && living_count(supervisor) > 0) {
			supervisor->had_incident = true;
			sy_tell("%u units did not end in time and are killed", living_count(supervisor));
			phase_set(supervisor, PHASE_KILLING, KILL_GRACE_NS);
		}
		return living_count(supervisor) > 0;
	case PHASE_KILLING:
		return living_count(supervisor) > 0 && !is_late;
	}
	return false;
}

static void waits_set(struct supervisor *supervisor)
{
	supervisor->waits[0] = (struct pollfd){.fd = supervisor->signal_fd, .events = POLLIN};
	supervisor->waits[1] =
		(struct pollfd){.fd = sy_dir_server_fd(supervisor->directory), .events = POLLIN};
	for (uint32_t i = 0; i < supervisor->config->unit_count; i++) {
		const struct sy_child *child = &supervisor->children[i];
		bool lives = child->pid > 0 && !child->ended;
		struct pollfd *pair = &supervisor->waits[WAITS_BEFORE + 2 * i];
		pair[0] = (struct pollfd){.fd = lives ? child->pidfd : -1, .events = POLLIN};
		pair[1] = (struct pollfd){.fd = child->said_fd, .events = POLLIN};
	}
}

/* While a failed start is undone nobody wants to hear more of it than its cause. */
static bool is_telling(const struct supervisor *supervisor)
{
	return supervisor->phase != PHASE_STARTING && supervisor->status == SY_OK;
}

static void units_look(struct supervisor *supervisor)
{
	for (uint32_t i = 0; i < supervisor->config->unit_count; i++) {
		struct sy_child *child = &supervisor->children[i];
		sy_child_read(child, unit_tell, &i);
		if (is_telling(supervisor))
			held_tell(child, i);
		if (sy_child_is_over(child))
			unit_over(supervisor, i);
	}
}

static void run(struct supervisor *supervisor)
{
	nfds_t wait_count = WAITS_BEFORE + 2 * (nfds_t)supervisor->config->unit_count;
	for (;;) { /* each phase but SERVING has an end */
		bool more = sy_dir_server_step(supervisor->directory);
		if (!phase_check(supervisor))
			return;
		uint64_t until_ns = supervisor->phase_end_ns;
		if (supervisor->phase == PHASE_SERVING)
			restarts_run(supervisor, &until_ns);
		until_ns = sy_min_u64(until_ns, sy_dir_server_deadline(supervisor->directory));
		waits_set(supervisor);
		poll(supervisor->waits, wait_count,
		     more ? 0 : sy_clock_poll_ms(sy_clock_now_ns(), until_ns));
		signals_read(supervisor);
		units_look(supervisor);
	}
}

static sy_status log_open(const struct supervisor *supervisor)
{
	char path[SY_RUN_PATH_BYTES];
	sy_status status = sy_run_dir_file(&supervisor->dir, "slabyard.log", path, supervisor->err);
	if (status != SY_OK)
		return status;
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	bool ok = fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0 &&
	          chdir("/") == 0; /* whoever wants to unmount our folder shall be able to */
	if (!ok)
		status = sy_fail(supervisor->err, SY_E_SYS, __func__, "cannot write %s: %s", path,
		                 strerror(errno));
	if (fd >= 0)
		close(fd);
	return status;
}

static sy_status supervisor_start(struct supervisor *supervisor)
{
	const struct sy_supervisor_config *config = supervisor->config;
	supervisor->children = calloc(config->unit_count, sizeof *supervisor->children);
	supervisor->restarts = calloc(config->unit_count, sizeof *supervisor->restarts);
	supervisor->words =
		calloc(WORDS_BEFORE + config->unit_word_count, sizeof *supervisor->words);
	supervisor->waits = calloc(WAITS_BEFORE + 2 * config->unit_count, sizeof *supervisor->waits);
	if (supervisor->children == NULL || supervisor->restarts == NULL ||
	    supervisor->words == NULL || supervisor->waits == NULL)
		return sy_fail(supervisor->err, SY_E_SYS, __func__, "out of memory");
	for (uint32_t i = 0; i < config->unit_count; i++)
		supervisor->children[i] = (struct sy_child){.pidfd = -1, .said_fd = -1};
	sy_status status = sy_leftovers_await(&supervisor->dir, sy_clock_now_ns() + LEFTOVERS_NS,
	                                      supervisor->err);
	if (status != SY_OK)
		return sy_fail(supervisor->err, status, __func__, "%s: `slabyard down` ends it",
		               supervisor->err->message);
	sy_process_allow_descriptors(); /* two a unit, and ZeroMQ's */
	if (status == SY_OK && config->to_log)
		status = log_open(supervisor);
	if (status == SY_OK)
		status = signals_open(supervisor);
	if (status == SY_OK)
		status = directory_open(supervisor);
	return status;
}

/* The directory is open. Returns how it all ended. */
static sy_status supervisor_serve(struct supervisor *supervisor)
{
	phase_set(supervisor, PHASE_STARTING, supervisor->config->start_timeout_ns);
	sy_status status = supervisor->config->directory_only ? SY_OK : units_start(supervisor);
	if (status != SY_OK)
		end_begin(supervisor, status);
	run(supervisor);
	/* Who ends us ends them, too, and they hold files in our run directory. What does not end
	 * in time keeps them, and the rest is removed. */
	if (supervisor->config->directory_only)
		(void)sy_leftovers_await(&supervisor->dir, sy_clock_now_ns() + TERM_GRACE_NS, NULL);
	uint32_t left = living_count(supervisor);
	if (left > 0 && supervisor->status == SY_OK)
		supervisor->status = sy_fail(supervisor->err, SY_E_BUSY, __func__,
		                             "%u units could not be ended", left);
	return supervisor->status;
}

/* Began: units may have been started. Otherwise what stood there before is not ours to remove. */
static void supervisor_done(struct supervisor *supervisor, bool began)
{
	bool is_ours = began || supervisor->lock.was_bare;
	sy_dir_server_close(supervisor->directory);
	if (began)
		sy_leftovers_remove(&supervisor->dir, !supervisor->had_incident);
	else if (is_ours)
		sy_leftovers_unmake(&supervisor->dir);
	sy_run_lock_done(&supervisor->lock);
	if (is_ours)
		sy_run_dir_remove(&supervisor->dir);
	for (uint32_t i = 0; supervisor->children != NULL && i < supervisor->config->unit_count; i++)
		sy_child_done(&supervisor->children[i]);
	if (supervisor->signal_fd >= 0)
		close(supervisor->signal_fd);
	free(supervisor->children);
	free(supervisor->restarts);
	free(supervisor->words);
	free(supervisor->waits);
}

sy_status sy_supervisor_run(const struct sy_supervisor_config *config, sy_error *err)
{
	struct supervisor supervisor = {.config = config, .signal_fd = -1, .err = err};
	umask(0077); /* what it makes is for its own user */
	sy_status status =
		sy_run_lock_open(config->run_dir, &supervisor.dir, &supervisor.lock, err);
	if (status != SY_OK)
		return status;
	status = supervisor_start(&supervisor);
	bool began = status == SY_OK;
	if (began)
		status = supervisor_serve(&supervisor);
	supervisor_done(&supervisor, began);
	return status;
}
