#include "takedown.h"
#include "bytes.h"
#include "clock.h"
#include "fail.h"
#include "leftovers.h"
#include "run_lock.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

static const uint64_t SECOND_NS = 1000000000u;
static const uint64_t SUPERVISOR_NS = 20000000000u; /* longer than it gives its units */
static const uint64_t KILLED_NS = 5000000000u;
static const uint64_t UNIT_GRACE_NS = 5000000000u;

/* False: the process still lives after lasts_ns. */
static bool process_await(const struct sy_takedown_config *config, int pidfd, uint64_t lasts_ns)
{
	uint64_t began_ns = sy_clock_now_ns();
	for (uint64_t now_ns = began_ns; now_ns < began_ns + lasts_ns; now_ns = sy_clock_now_ns()) {
		uint64_t next_ns = now_ns + SECOND_NS;
		struct pollfd wait = {.fd = pidfd, .events = POLLIN};
		if (poll(&wait, 1, sy_clock_poll_ms(now_ns, sy_min_u64(next_ns, began_ns + lasts_ns))) > 0)
			return true;
		uint64_t seconds = (sy_clock_now_ns() - began_ns) / SECOND_NS;
		if (config->waiting != NULL && seconds > 0)
			config->waiting(config->context, (uint32_t)seconds);
	}
	return false;
}

/* One that was killed is only waited for. */
static sy_status supervisor_end(const struct sy_takedown_config *config,
                                const struct sy_run_lock_holder *holder, sy_error *err)
{
	int pidfd = holder->pidfd;
	if (pidfd_send_signal(pidfd, SIGTERM, NULL, 0) != 0 && errno != ESRCH)
		return sy_fail(err, SY_E_SYS, __func__, "cannot stop process %d: %s", (int)holder->pid,
		               strerror(errno));
	/* A stopped one hears it only once it goes on. */
	pidfd_send_signal(pidfd, SIGCONT, NULL, 0);
	if (process_await(config, pidfd, SUPERVISOR_NS))
		return SY_OK;
	pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	if (process_await(config, pidfd, KILLED_NS))
		return SY_OK;
	return sy_fail(err, SY_E_BUSY, __func__, "process %d cannot be ended", (int)holder->pid);
}

/* No supervisor lives. */
static sy_status leftovers_clear(const struct sy_run_dir *dir, bool *ret_found, sy_error *err)
{
	struct sy_run_lock lock;
	char name[SY_RUN_PATH_BYTES];
	if (access(dir->path, F_OK) != 0)
		return SY_OK; /* it went with its cluster */
	sy_status status = sy_run_lock_take(dir, &lock, err);
	if (status != SY_OK)
		return status;
	status = sy_leftovers_end(dir, UNIT_GRACE_NS, err);
	if (status == SY_OK) {
		*ret_found = sy_leftovers_remove(dir, false);
		if (sy_leftovers_find(dir, name))
			status = sy_fail(err, SY_E_BUSY, __func__, "cannot remove all of %s: left are %s",
			                 dir->path, name);
	}
	sy_run_lock_done(&lock);
	if (status == SY_OK)
		sy_run_dir_remove(dir);
	return status;
}

/* No cluster is there, nor what one left but, perhaps, that was killed as it began or ended. True
 * if there was any. */
static bool bare_clear(const char *path)
{
	struct sy_run_dir dir;
	if (sy_run_dir_open_first(path, false, &dir, NULL) != SY_OK)
		return false;
	bool found = sy_run_dir_tidy(&dir);
	found = sy_run_lock_tidy(&dir) || found;
	if (found)
		sy_run_dir_remove(&dir);
	return found;
}

sy_status sy_takedown_run(const struct sy_takedown_config *config, enum sy_takedown *ret_what,
                          bool *ret_log_kept, sy_error *err)
{
	struct sy_run_dir dir;
	char log[SY_RUN_PATH_BYTES];
	struct sy_run_lock_holder holder;
	bool ran = false, found = false;
	*ret_log_kept = false;
	if (sy_run_dir_is_bare(config->run_dir)) {
		*ret_what = bare_clear(config->run_dir) ? SY_TAKEDOWN_CLEANED : SY_TAKEDOWN_NOTHING;
		return SY_OK;
	}
	sy_status status = sy_run_dir_open(config->run_dir, false, &dir, err);
	if (status == SY_OK)
		status = sy_run_dir_file(&dir, "slabyard.log", log, err);
	if (status != SY_OK)
		return status;
	if (sy_run_lock_holder(&dir, &holder)) {
		ran = !holder.is_ending;
		status = supervisor_end(config, &holder, err);
		close(holder.pidfd);
	}
	if (status == SY_OK)
		status = leftovers_clear(&dir, &found, err);
	if (status != SY_OK)
		return status;
	*ret_what = ran     ? SY_TAKEDOWN_STOPPED
	            : found ? SY_TAKEDOWN_CLEANED
	                    : SY_TAKEDOWN_NOTHING;
	*ret_log_kept = access(log, F_OK) == 0;
	return SY_OK;
}

bool sy_takedown_is_running(const char *run_dir, pid_t *ret_pid)
{
	struct sy_run_dir dir;
	struct sy_run_lock_holder holder;
	if (sy_run_dir_open(run_dir, false, &dir, NULL) != SY_OK ||
	    !sy_run_lock_holder(&dir, &holder))
		return false;
	close(holder.pidfd);
	*ret_pid = holder.pid;
	return !holder.is_ending;
}
