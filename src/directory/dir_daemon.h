/* A directory as a process of its own, for units on several hosts, which hold leases. */
#ifndef SY_DIR_DAEMON_H
#define SY_DIR_DAEMON_H

#include "dir_message.h"

struct sy_dir_daemon_config {
	const char *run_dir;   /* made if it is absent; its state stays there for the next start */
	uint32_t slot_count;   /* N */
	struct sy_dir_times times;
	const char *listen;    /* besides ipc in the run directory */
	const char *keys;      /* the directory of keys that tcp asks for; NULL: none */
	bool insecure;         /* listen may leave this host although nothing checks who connects */
	/* Called once it answers, with the absolute run directory and the address as bound. False:
	 * nobody wants it any more. */
	bool (*ready)(void *context, const char *run_dir, const char *address);
	void *context;
};

/* Runs until SIGTERM, SIGINT or SIGHUP, then SY_OK. What becomes of units is told on stderr, a
 * line each. SY_E_BUSY: a cluster runs in the run directory; SY_E_INVALID: its state is of another
 * number of units or other times, or listen is no address for it; SY_E_PROTOCOL: the state is
 * damaged; SY_E_SYS. Call it once a process; those signals stay blocked in this thread. */
sy_status sy_dir_daemon_run(const struct sy_dir_daemon_config *config, sy_error *err);

#endif
