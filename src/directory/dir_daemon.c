#include "dir_daemon.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "dir_server.h"
#include "fail.h"
#include "listen.h"
#include "process.h"
#include "run_lock.h"
#include "tell.h"

struct daemon {
	const struct sy_dir_daemon_config *config;
	struct sy_run_dir dir;
	struct sy_run_lock lock;
	struct sy_dir_server *server;
	struct sy_control_keys keys;
	struct sy_unit_info *told; /* each slot as it was told of last */
	int signal_fd;
};

static sy_status signals_open(struct daemon *daemon, sy_error *err)
{
	sigset_t taken;
	sigemptyset(&taken);
	sigaddset(&taken, SIGTERM);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &taken, NULL) == 0)
		daemon->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (daemon->signal_fd < 0)
		return sy_fail(err, SY_E_SYS, __func__, "cannot watch for signals: %s", strerror(errno));
	return SY_OK;
}

static sy_status server_open(struct daemon *daemon, sy_error *err)
{
	const struct sy_dir_daemon_config *config = daemon->config;
	char state[SY_RUN_PATH_BYTES], socket[SY_RUN_PATH_BYTES], ipc[SY_RUN_PATH_BYTES + 8];
	sy_status status = sy_run_dir_file(&daemon->dir, "directory.state", state, err);
	if (status == SY_OK)
		status = sy_run_dir_file(&daemon->dir, "directory.ipc", socket, err);
	if (status != SY_OK)
		return status;
	sy_format(ipc, sizeof ipc, "ipc://%s", socket);
	const char *const endpoints[] = {ipc, config->listen};
	sy_error inner;
	status = sy_dir_server_open(state, config->slot_count, &config->times, endpoints, 2,
	                            config->keys != NULL ? &daemon->keys : NULL, &daemon->server,
	                            &inner);
	if (status == SY_E_INVALID || status == SY_E_PROTOCOL)
		return sy_fail(err, status, __func__,
		               "%s: what %s holds is of another cluster; `slabyard down --run-dir %s` "
		               "removes it", inner.message, daemon->dir.path, daemon->dir.path);
	if (status != SY_OK)
		return sy_fail(err, status, __func__, "%s", inner.message);
	return SY_OK;
}

/* What changed since it was told last, a line a unit. */
static void tell_changes(struct daemon *daemon)
{
	const struct sy_registry *registry = sy_dir_server_registry(daemon->server);
	for (uint32_t i = 0; i < daemon->config->slot_count; i++) {
		const struct sy_unit_info *now = sy_registry_slot(registry, i);
		struct sy_unit_info *told = &daemon->told[i];
		if (now->state != told->state || now->incarnation != told->incarnation)
			sy_tell("unit %u (process %u, %s) is %s", i, now->pid, now->tcp_address,
			        sy_unit_state_name((uint8_t)now->state));
		*told = *now;
	}
}

static bool signal_came(const struct daemon *daemon)
{
	struct signalfd_siginfo info;
	return read(daemon->signal_fd, &info, sizeof info) == (ssize_t)sizeof info;
}

static void run(struct daemon *daemon)
{
	struct pollfd waits[] = {{.fd = daemon->signal_fd, .events = POLLIN},
	                         {.fd = sy_dir_server_fd(daemon->server), .events = POLLIN}};
	while (!signal_came(daemon)) { /* until it is told to end */
		bool more = sy_dir_server_step(daemon->server);
		tell_changes(daemon);
		int wait_ms = sy_clock_poll_ms(sy_clock_now_ns(), sy_dir_server_deadline(daemon->server));
		poll(waits, 2, more ? 0 : wait_ms);
	}
}

static sy_status start(struct daemon *daemon, sy_error *err)
{
	const struct sy_dir_daemon_config *config = daemon->config;
	struct sy_control_keys *keys = &daemon->keys;
	sy_status status =
		sy_listen_check(config->listen, config->keys != NULL || config->insecure, err);
	if (status == SY_OK && config->keys != NULL)
		status = sy_control_keys_server(config->keys, keys, err);
	const char *fault = sy_dir_times_lease(&config->times) ? sy_dir_times_fault(&config->times)
	                                                       : "the times of leases must be over 0";
	if (status == SY_OK && fault != NULL)
		status = sy_fail(err, SY_E_INVALID, __func__, "%s", fault);
	if (status == SY_OK)
		status = sy_run_lock_open(config->run_dir, &daemon->dir, &daemon->lock, err);
	if (status == SY_OK)
		status = signals_open(daemon, err);
	if (status == SY_OK)
		status = server_open(daemon, err);
	if (status != SY_OK)
		return status;
	daemon->told = calloc(config->slot_count, sizeof *daemon->told);
	if (daemon->told == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	return sy_process_need_descriptors(SY_DIR_CLIENT_FDS, err);
}

sy_status sy_dir_daemon_run(const struct sy_dir_daemon_config *config, sy_error *err)
{
	struct daemon daemon = {.config = config, .lock = {.fd = -1}, .signal_fd = -1};
	umask(0077); /* what it makes is for its own user */
	sy_process_allow_descriptors();
	sy_status status = start(&daemon, err);
	if (status == SY_OK) {
		tell_changes(&daemon);
		if (config->ready(config->context, daemon.dir.path,
		                  sy_dir_server_endpoint(daemon.server, 1)))
			run(&daemon);
	}
	sy_dir_server_close(daemon.server);
	sy_run_lock_done(&daemon.lock);
	if (daemon.signal_fd >= 0)
		close(daemon.signal_fd);
	free(daemon.told);
	return status;
}
