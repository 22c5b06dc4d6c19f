/* Ending a cluster from outside: its supervisor if it lives, else what it left. */
#ifndef SY_TAKEDOWN_H
#define SY_TAKEDOWN_H

#include <slabyard/status.h>
#include <sys/types.h>

enum sy_takedown {
	SY_TAKEDOWN_STOPPED = 1, /* a cluster ran and was ended */
	SY_TAKEDOWN_CLEANED,     /* none ran; what a killed one had left was removed */
	SY_TAKEDOWN_NOTHING,     /* none ran and nothing was left */
};

struct sy_takedown_config {
	const char *run_dir;
	/* Called about once a second while it waits; may be NULL. */
	void (*waiting)(void *context, uint32_t seconds);
	void *context;
};

/* Ends the cluster and sees to it that no process, socket, slab or lock of it is left. Takes at
 * most about 40 s. *ret_log_kept: the log tells of something and was left. SY_E_SYS, SY_E_AUTH: no
 * right to it; SY_E_PROTOCOL: another version's; SY_E_BUSY: something could not be ended or
 * removed. */
sy_status sy_takedown_run(const struct sy_takedown_config *config, enum sy_takedown *ret_what,
                          bool *ret_log_kept, sy_error *err);

/* True if a cluster runs in the directory: its supervisor's process lives. */
bool sy_takedown_is_running(const char *run_dir, pid_t *ret_pid);

#endif
