#include "demo_cluster.h"
#include "fail.h"
#include "supervisor.h"
#include "takedown.h"
#include "unit_options.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

/* The supervisor has its own limits, which are shorter. */
enum { READY_MS = 600000, END_MS = 60000 };

static bool on_ready(void *context, const char *run_dir, uint64_t total_bytes)
{
	const int *fd = context;
	(void)run_dir;
	(void)total_bytes;
	return write(*fd, "R", 1) == 1;
}

/* The new process. */
_Noreturn static void supervise(const char *run_dir, const struct sy_unit_options *unit,
                                uint32_t unit_count, pid_t parent, int fd)
{
	struct sy_unit_words words;
	sy_error err = {0};
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	setpgid(0, 0); /* what is typed at the terminal is the demo's */
	/* What it has to tell becomes part of the demo's one line. */
	fcntl(fd, F_SETFL, O_NONBLOCK);
	dup2(fd, STDERR_FILENO);
	sy_unit_options_words(unit, &words);
	const struct sy_supervisor_config config = {
		.run_dir = run_dir,
		.unit_count = unit_count,
		.unit_words = words.list,
		.unit_word_count = words.count,
		.start_timeout_ns = (60 + ((unit->slab_bytes >> 28) * unit_count)) * 1000000000u,
		.ready = on_ready,
		.context = &fd,
	};
	if (sy_supervisor_run(&config, &err) == SY_OK)
		_exit(0);
	ssize_t unused = write(fd, err.message, strlen(err.message));
	(void)unused;
	_exit(1);
}

static sy_status run_dir_choose(struct sy_demo_cluster *cluster, sy_error *err)
{
	const char *top = getenv("TMPDIR");
	uint64_t random;
	if (top == NULL || top[0] == '\0')
		top = "/tmp";
	if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
		return sy_fail(err, SY_E_SYS, __func__, "no random numbers: %s", strerror(errno));
	/* Sockets lie in it, whose paths may have 107 bytes. */
	size_t length = sy_format(cluster->run_dir, sizeof cluster->run_dir, "%s/slabyard-demo-%llx",
	                          top, (unsigned long long)random);
	if (length > 80)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "$TMPDIR is too long for sockets: set it to a shorter path");
	return SY_OK;
}

/* Waits for one letter R; anything else is why it failed. */
static sy_status ready_await(int fd, int stop_fd, sy_error *err)
{
	char said[SY_ERROR_MESSAGE_BYTES];
	size_t bytes = 0;
	for (;;) {
		struct pollfd waits[] = {{.fd = fd, .events = POLLIN}, {.fd = stop_fd, .events = POLLIN}};
		int ready = poll(waits, 2, READY_MS);
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready == 0)
			return sy_fail(err, SY_E_TIMEOUT, __func__, "the cluster does not get ready");
		if (waits[1].revents != 0)
			return sy_fail(err, SY_E_BUSY, __func__, "stopped");
		ssize_t got = read(fd, said + bytes, sizeof said - 1 - bytes);
		if (got > 0 && bytes == 0 && said[0] == 'R')
			return SY_OK;
		if (got <= 0)
			break;
		bytes += (size_t)got;
	}
	said[bytes] = '\0';
	return sy_fail(err, SY_E_SYS, __func__, "%s",
	               bytes > 0 ? said : "the cluster ended before it was ready");
}

sy_status sy_demo_cluster_start(uint32_t unit_count, uint64_t slab_bytes, uint64_t max_entries,
                                int stop_fd, struct sy_demo_cluster *ret_cluster, sy_error *err)
{
	struct sy_demo_cluster cluster = {.pidfd = -1, .said_fd = -1};
	struct sy_unit_options unit;
	int ends[2];
	sy_unit_options_init(&unit);
	unit.slab_bytes = slab_bytes;
	unit.max_entries = max_entries;
	sy_status status = run_dir_choose(&cluster, err);
	if (status != SY_OK)
		return status;
	if (pipe2(ends, O_CLOEXEC) != 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot open a pipe: %s", strerror(errno));
	pid_t parent = getpid();
	fflush(NULL);
	cluster.supervisor = fork();
	if (cluster.supervisor == 0) {
		close(ends[0]);
		supervise(cluster.run_dir, &unit, unit_count, parent, ends[1]);
	}
	int why = errno;
	close(ends[1]);
	if (cluster.supervisor > 0) {
		cluster.pidfd = pidfd_open(cluster.supervisor, 0);
		why = errno;
	}
	if (cluster.pidfd < 0)
		status = sy_fail(err, SY_E_SYS, __func__, "cannot start a process: %s", strerror(why));
	else
		status = ready_await(ends[0], stop_fd, err);
	cluster.said_fd = ends[0];
	if (status == SY_OK)
		*ret_cluster = cluster;
	else
		sy_demo_cluster_stop(&cluster, NULL);
	return status;
}

void sy_demo_cluster_told(const struct sy_demo_cluster *cluster, char *message, size_t size)
{
	struct pollfd wait = {.fd = cluster->said_fd, .events = POLLIN};
	char said[1024];
	if (cluster->said_fd < 0 || poll(&wait, 1, 0) <= 0)
		return;
	ssize_t got = read(cluster->said_fd, said, sizeof said - 1);
	said[got > 0 ? got : 0] = '\0';
	char *rest = NULL;
	for (char *line = strtok_r(said, "\n", &rest); line != NULL;
	     line = strtok_r(NULL, "\n", &rest)) {
		/* "2026-01-31 23:59:59Z unit 1 ...": the time is of no use here. */
		const char *words = strstr(line, "Z ");
		size_t length = strlen(message);
		snprintf(message + length, size - length, "; %s", words != NULL ? words + 2 : line);
	}
}

static bool end_await(int pidfd, int limit_ms)
{
	struct pollfd wait = {.fd = pidfd, .events = POLLIN};
	int ready;
	do
		ready = poll(&wait, 1, limit_ms);
	while (ready < 0 && errno == EINTR);
	return ready > 0;
}

sy_status sy_demo_cluster_stop(struct sy_demo_cluster *cluster, sy_error *err)
{
	int wait_status = 0;
	if (cluster->said_fd >= 0)
		close(cluster->said_fd);
	cluster->said_fd = -1;
	if (cluster->supervisor <= 0)
		return SY_OK;
	if (cluster->pidfd < 0 || !end_await(cluster->pidfd, 0))
		kill(cluster->supervisor, SIGTERM);
	if (cluster->pidfd >= 0 && !end_await(cluster->pidfd, END_MS))
		kill(cluster->supervisor, SIGKILL);
	while (waitpid(cluster->supervisor, &wait_status, 0) < 0 && errno == EINTR)
		;
	if (cluster->pidfd >= 0)
		close(cluster->pidfd);
	cluster->supervisor = 0;
	cluster->pidfd = -1;
	if (wait_status == 0)
		return SY_OK;
	/* It was killed: what it could not remove is ours to remove. */
	const struct sy_takedown_config config = {.run_dir = cluster->run_dir};
	enum sy_takedown what;
	bool log_kept;
	sy_takedown_run(&config, &what, &log_kept, NULL);
	return sy_fail(err, SY_E_SYS, __func__, "the demo's cluster did not end cleanly");
}
