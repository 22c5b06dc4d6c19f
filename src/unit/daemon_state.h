/* What daemon.c opens and daemon_loop.c turns around. */
#ifndef SY_DAEMON_STATE_H
#define SY_DAEMON_STATE_H

#include "control.h"
#include "daemon.h"
#include "dir_watch.h"
#include "disk.h"
#include "peers.h"
#include "runfiles.h"
#include "serve.h"

struct sy_daemon {
	const struct sy_unit_config *config;
	sy_incarnation incarnation;
	struct sy_run_dir run_dir;
	struct sy_run_unit run_unit;
	struct sy_slab slab;
	void *arena;
	uint64_t arena_bytes;
	struct sy_serve *serve;
	struct sy_disk *disk; /* NULL: none */
	struct sy_control_server *control;
	struct sy_local_server *local;
	struct sy_peers peers;
	struct sy_dir_client *directory; /* NULL: none */
	struct sy_dir_watch *watch;
	bool registered;
	struct sy_lease lease;       /* if registered */
	bool was_fenced;             /* as it was told */
	int epoll_fd, signal_fd;

	uint64_t turn_ns;     /* when the last turn of the loop began */
	uint32_t drain_left;  /* messages still to be heard before timers, after a stall */
	bool stop;
	int status;           /* to exit with */
};

/* One line on stderr. */
void sy_daemon_say(const struct sy_daemon *daemon, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* What the serve of this daemon calls; context is the daemon. */
struct sy_serve_io sy_daemon_io(struct sy_daemon *daemon);

/* Adds the sockets to the epoll set and turns until `stop`. SY_E_SYS. */
sy_status sy_daemon_loop(struct sy_daemon *daemon, sy_error *err);

#endif
