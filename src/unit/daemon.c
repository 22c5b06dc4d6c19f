#include "daemon_state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "entropy.h"
#include "fail.h"
#include "failpoints.h"
#include "guard.h"
#include "process.h"

/* ZeroMQ's own of a context, and the watch's. */
enum { DIRECTORY_FDS = 7 };

static const uint64_t register_ns = 60000000000u, exited_ns = 500000000u;

/* One call of write a line, so that the lines of several units do not mix. */
void sy_daemon_say(const struct sy_daemon *daemon, const char *format, ...)
{
	char line[512];
	va_list args;
	size_t head = sy_format(line, sizeof line - 1, "slabyard unit %u: ", daemon->config.unit_id);
	va_start(args, format);
	size_t bytes = head + sy_format_list(line + head, sizeof line - 1 - head, format, args);
	va_end(args);
	if (bytes > sizeof line - 2)
		bytes = sizeof line - 2;
	line[bytes++] = '\n';
	ssize_t unused = write(STDERR_FILENO, line, bytes);
	(void)unused;
}

static void on_assertion(const char *file, int line, const char *expression)
{
	fprintf(stderr, "slabyard unit: %s:%d: broken invariant: %s\n", file, line, expression);
}

/* Signals come through a descriptor; descriptors may be as many as the system grants; files and
 * sockets are for our own user. */
static sy_status open_process(struct sy_daemon_loop *loop, sy_error *err)
{
	sigset_t taken;
	sigemptyset(&taken);
	sigaddset(&taken, SIGTERM);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGHUP);
	umask(0077);
	sy_assert_hook = on_assertion;
	signal(SIGPIPE, SIG_IGN);
	sy_process_allow_descriptors();
	if (sigprocmask(SIG_BLOCK, &taken, NULL) == 0)
		loop->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->signal_fd < 0 || loop->epoll_fd < 0)
		return sy_fail(err, SY_E_SYS, __func__, "no descriptors: %s", strerror(errno));
	if (!sy_daemon_watch(&loop->daemons[0], loop->signal_fd, SY_DAEMON_SIGNAL, 0))
		return sy_fail(err, SY_E_SYS, __func__, "cannot watch signals: %s", strerror(errno));
	return SY_OK;
}

/* Somebody wants us to stop while we start. */
static bool stop_is_pending(void)
{
	sigset_t pending;
	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
	        sigismember(&pending, SIGHUP) == 1);
}

/* The lock first, and the slab's name in it before the slab: whatever instant we die at, the
 * next unit of this id finds what to remove. */
static sy_status open_slab(struct sy_daemon *daemon, sy_error *err)
{
	const struct sy_unit_config *config = &daemon->config;
	char name[SY_SLAB_NAME_BYTES], path[SY_SLAB_PATH_BYTES];
	sy_status status = sy_run_dir_open(config->run_dir, true, &daemon->run_dir, err);
	if (status == SY_OK)
		status = sy_run_unit_init(&daemon->run_dir, config->unit_id, &daemon->run_unit, err);
	if (status != SY_OK)
		return status;
	daemon->incarnation.value = sy_entropy_u64();
	sy_slab_name(config->unit_id, daemon->incarnation, name);
	sy_format(path, sizeof path, SY_SLAB_DIR "/%s", name);
	status = sy_run_unit_record(&daemon->run_unit, path, config->ssd_dir, daemon->incarnation,
	                            err);
	SY_FAILPOINT(UNIT_SLAB_NAMED);
	if (status == SY_OK)
		status = sy_slab_create(SY_SLAB_DIR, name, config->slab_bytes, config->unit_id,
		                        stop_is_pending, &daemon->slab, err);
	SY_FAILPOINT(UNIT_SLAB_MADE);
	if (status == SY_OK)
		status = sy_slab_guard(&daemon->slab, err);
	return status;
}

static void say_line(void *context, const char *line)
{
	sy_daemon_say(context, "%s", line);
}

static sy_status open_disk(struct sy_daemon *daemon, sy_error *err)
{
	const struct sy_unit_config *config = &daemon->config;
	const struct sy_disk_config disk = {
		.dir = config->ssd_dir,
		.bytes = config->ssd_bytes - config->ssd_bytes % SY_UNIT_PAGE_BYTES,
		.unit_id = config->unit_id,
		.incarnation = daemon->incarnation.value,
		.slab = daemon->slab.data,
		.say = say_line,
		.context = daemon,
	};
	return config->ssd_bytes != 0 ? sy_disk_open(&disk, &daemon->disk, err) : SY_OK;
}

static sy_status open_core(struct sy_daemon *daemon, sy_error *err)
{
	const struct sy_core_params params = sy_unit_config_params(
		&daemon->config, daemon->incarnation.value, sy_entropy_u64());
	const struct sy_serve_io io = sy_daemon_io(daemon);
	daemon->arena_bytes = sy_core_arena_bytes(&params);
	/* Tables are touched as they fill: capacity that is not used costs nothing. */
	void *arena = mmap(NULL, (size_t)daemon->arena_bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		return sy_fail(err, SY_E_SYS, __func__, "no room for tables of %llu bytes: %s",
		               (unsigned long long)daemon->arena_bytes, strerror(errno));
	daemon->arena = arena;
	(void)madvise(arena, (size_t)daemon->arena_bytes, MADV_HUGEPAGE);
	daemon->serve = sy_serve_new(arena, &params, daemon->slab.data, daemon->loop->room, &io);
	if (daemon->serve == NULL || !sy_peers_init(&daemon->peers, daemon->loop->epoll_fd))
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	return SY_OK;
}

static sy_status open_sockets(struct sy_daemon *daemon, sy_error *err)
{
	char ipc[SY_RUN_PATH_BYTES + 8];
	sy_format(ipc, sizeof ipc, "ipc://%s", daemon->run_unit.ipc_path);
	const char *const endpoints[] = {ipc, daemon->config.listen};
	struct sy_control_keys keys;
	sy_status status = SY_OK;
	if (daemon->config.keys != NULL)
		status = sy_control_keys_server(daemon->config.keys, &keys, err);
	if (status == SY_OK)
		status = sy_local_server_open(daemon->run_unit.sock_path, daemon->config.group,
		                              &daemon->local, err);
	if (status == SY_OK)
		status = sy_control_server_open(endpoints, 2, daemon->config.keys != NULL ? &keys : NULL,
		                                &daemon->control, err);
	return status;
}

/* The host of "tcp://10.0.0.1:7000" or "tcp://[::1]:7000". */
static void host_of(const char *endpoint, char *out, size_t size)
{
	const char *host = endpoint + strlen("tcp://"), *colon = strrchr(host, ':');
	size_t bytes = colon != NULL ? (size_t)(colon - host) : strlen(host);
	bool bracketed = bytes >= 2 && host[0] == '[';
	sy_format(out, size, "%.*s", (int)(bytes - 2 * bracketed), host + bracketed);
}

/* Where control messages come from other hosts, UCX is reached, too. */
static sy_status open_ucx(struct sy_daemon *daemon, sy_error *err)
{
	const struct sy_unit_config *config = &daemon->config;
	char host[SY_UNIT_ADDRESS_BYTES];
	const struct sy_ucx_target_config target = {
		.slab = daemon->slab.data,
		.slab_bytes = config->slab_bytes,
		.incarnation = daemon->incarnation.value,
		.host = host,
		.allow_tcp = sy_unit_config_policy(config) == SY_POLICY_ALLOW_TCP,
	};
	if (sy_unit_config_policy(config) == SY_POLICY_SAME_HOST)
		return SY_OK;
	host_of(sy_control_server_endpoint(daemon->control, 1), host, sizeof host);
	sy_status status = sy_ucx_target_open(&target, &daemon->ucx, err);
	if (status == SY_OK && target.allow_tcp)
		sy_daemon_say(daemon, "policy allow-tcp, for development: values may leave this host over "
		                      "TCP, slowly and for everyone to read");
	return status;
}

static sy_status fill_info(const struct sy_daemon *daemon, struct sy_unit_info *ret_info,
                           sy_error *err)
{
	struct sy_identity self;
	const char *ipc = sy_control_server_endpoint(daemon->control, 0);
	const char *tcp = sy_control_server_endpoint(daemon->control, 1);
	sy_process_identity(&self);
	*ret_info = (struct sy_unit_info){
		.unit_id = daemon->config.unit_id,
		.state = SY_UNIT_ACTIVE,
		.incarnation = daemon->incarnation.value,
		.pid = self.pid,
		.start_time = self.start_time,
		.slab_bytes = daemon->config.slab_bytes,
	};
	memcpy(ret_info->boot_id, self.boot_id, sizeof ret_info->boot_id);
	if (sy_format(ret_info->ipc_address, SY_UNIT_ADDRESS_BYTES, "%s", ipc) >=
	            SY_UNIT_ADDRESS_BYTES ||
	    sy_format(ret_info->tcp_address, SY_UNIT_ADDRESS_BYTES, "%s", tcp) >=
	            SY_UNIT_ADDRESS_BYTES ||
	    sy_format(ret_info->local_path, SY_UNIT_ADDRESS_BYTES, "%s",
	              daemon->run_unit.sock_path) >= SY_UNIT_ADDRESS_BYTES)
		return sy_fail(err, SY_E_INVALID, __func__, "an address is longer than %d bytes: %s, %s",
		               SY_UNIT_ADDRESS_BYTES - 1, ipc, tcp);
	return SY_OK;
}

/* Renewals often enough that one may be lost before anybody suspects us. */
static uint64_t renew_interval_ns(const struct sy_daemon *daemon, const struct sy_dir_times *times)
{
	uint64_t heartbeat_ns = daemon->config.heartbeat_ns;
	return sy_dir_times_lease(times) ? sy_min_u64(heartbeat_ns, times->suspect_after_ns / 3)
	                                 : heartbeat_ns;
}

static sy_status take_slot(struct sy_daemon *daemon, const struct sy_unit_info *info,
                           sy_error *err)
{
	struct sy_dir_renewal first = {0};
	sy_status status = sy_dir_client_open(daemon->config.directory, &daemon->directory, err);
	if (status == SY_OK)
		status = sy_dir_client_use_keys(daemon->directory, daemon->config.keys, err);
	/* Its lock is ours, so it has ended; elsewhere nobody may have seen that. */
	if (status == SY_OK && daemon->run_unit.former != 0)
		status = sy_dir_client_exited(daemon->directory, info->unit_id, daemon->run_unit.former,
		                              sy_clock_now_ns() + register_ns, err);
	SY_FAILPOINT(UNIT_REGISTERING);
	if (status == SY_OK)
		status = sy_dir_client_register(daemon->directory, info, sy_clock_now_ns() + register_ns,
		                                &first, err);
	SY_FAILPOINT(UNIT_REGISTERED);
	if (status != SY_OK)
		return status;
	sy_lease_init(&daemon->lease, first.times.fence_after_ns, first.sent_ns, first.answered_ns);
	daemon->registered = true;
	if (sy_dir_times_lease(&first.times))
		sy_daemon_say(daemon, "up, registered at %s", daemon->config.directory);
	return sy_dir_watch_open(daemon->directory, &daemon->lease, info->unit_id, info->incarnation,
	                         renew_interval_ns(daemon, &first.times), &daemon->watch, err);
}

/* For its place in the directory, and a client of this unit and of those before it in the process:
 * one that lets nobody in would be waited for in vain. */
static uint32_t descriptors_needed(const struct sy_daemon *daemon)
{
	uint32_t place = daemon->config.directory != NULL ? DIRECTORY_FDS : 0;
	return place + SY_DAEMON_WELCOME_FDS + SY_DAEMON_PEER_FDS * daemon->number;
}

/* Messages wait in the sockets meanwhile: nobody is answered by an incarnation that the
 * directory does not know. Who says that it is ready has all that it needs. */
static sy_status enter_directory(struct sy_daemon *daemon, sy_error *err)
{
	const struct sy_unit_config *config = &daemon->config;
	struct sy_unit_info info;
	sy_status status = fill_info(daemon, &info, err);
	if (status == SY_OK)
		status = sy_process_need_descriptors(descriptors_needed(daemon), err);
	if (status == SY_OK && config->directory != NULL)
		status = take_slot(daemon, &info, err);
	if (status == SY_OK && !sy_daemon_watch_all(daemon))
		status = sy_fail(err, SY_E_SYS, __func__, "cannot watch the sockets: %s", strerror(errno));
	if (status == SY_OK && config->ready != NULL)
		config->ready(config->ready_context, &info);
	return status;
}

static sy_status open_unit(struct sy_daemon *daemon, sy_error *err)
{
	sy_status status = sy_unit_config_check(&daemon->config, err);
	if (status == SY_OK)
		status = open_slab(daemon, err);
	if (status == SY_OK)
		status = open_disk(daemon, err);
	if (status == SY_OK)
		status = open_core(daemon, err);
	if (status == SY_OK)
		status = open_sockets(daemon, err);
	if (status == SY_OK)
		status = open_ucx(daemon, err);
	return status == SY_OK ? enter_directory(daemon, err) : status;
}

/* Sockets go before the directory is told, so that a dead incarnation answers nobody. Told it is
 * because no supervisor may be there to do so. */
static void close_unit(struct sy_daemon *daemon, bool *directory_answers)
{
	sy_dir_watch_close(daemon->watch);
	sy_ucx_target_close(daemon->ucx);
	sy_control_server_close(daemon->control);
	sy_local_server_close(daemon->local);
	sy_peers_done(&daemon->peers);
	SY_FAILPOINT(UNIT_LEAVING);
	if (daemon->registered && *directory_answers)
		*directory_answers = sy_dir_client_exited(daemon->directory, daemon->config.unit_id,
		                                          daemon->incarnation.value,
		                                          sy_clock_now_ns() + exited_ns, NULL) == SY_OK;
	sy_dir_client_close(daemon->directory);
	sy_disk_close(daemon->disk); /* its threads use the slab */
	sy_serve_free(daemon->serve);
	if (daemon->arena != NULL)
		munmap(daemon->arena, (size_t)daemon->arena_bytes);
	sy_slab_destroy(&daemon->slab);
	sy_run_unit_done(&daemon->run_unit);
}

static void close_loop(struct sy_daemon_loop *loop)
{
	bool directory_answers = true; /* else it is waited for but once */
	for (uint32_t i = 0; i < loop->count; i++)
		close_unit(&loop->daemons[i], &directory_answers);
	if (loop->epoll_fd >= 0)
		close(loop->epoll_fd);
	if (loop->signal_fd >= 0)
		close(loop->signal_fd);
	sy_serve_room_free(loop->room);
	free(loop->wakes_ns);
	free(loop->daemons);
	free(loop);
}

static void init_unit(struct sy_daemon *daemon, struct sy_daemon_loop *loop, uint32_t number,
                      const struct sy_unit_config *first)
{
	*daemon = (struct sy_daemon){
		.loop = loop,
		.number = number,
		.config = *first,
		.run_unit = {.lock_fd = -1},
		.slab = {.fd = -1},
	};
	daemon->config.unit_id = first->unit_id + number;
}

int sy_unit_run(const struct sy_unit_config *first, uint32_t count)
{
	struct sy_daemon_loop *loop = aligned_alloc(64, sizeof *loop);
	struct sy_daemon *daemons = calloc(count, sizeof *daemons);
	uint64_t *wakes_ns = calloc(count, sizeof *wakes_ns);
	struct sy_serve_room *room = sy_serve_room_new();
	if (loop == NULL || daemons == NULL || wakes_ns == NULL || room == NULL) {
		fprintf(stderr, "slabyard unit %u: out of memory\n", first->unit_id);
		sy_serve_room_free(room);
		free(loop);
		free(wakes_ns);
		free(daemons);
		return 1;
	}
	*loop = (struct sy_daemon_loop){.daemons = daemons, .wakes_ns = wakes_ns, .room = room,
	                                .epoll_fd = -1, .signal_fd = -1};
	sy_error err = {0};
	for (uint32_t i = 0; i < count; i++)
		init_unit(&daemons[i], loop, i, first);
	sy_status status = open_process(loop, &err);
	while (status == SY_OK && loop->count < count)
		status = open_unit(&daemons[loop->count++], &err);
	if (status == SY_OK)
		status = sy_daemon_turn(loop, &err);
	if (status != SY_OK) {
		sy_daemon_say(&daemons[loop->count > 0 ? loop->count - 1 : 0], "%s", err.message);
		loop->status = 1;
	}
	int exit_status = loop->status;
	close_loop(loop);
	return exit_status;
}

sy_status sy_unit_has_ucx(sy_error *err)
{
	return sy_ucx_is_there(err);
}
