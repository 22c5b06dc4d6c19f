/* Runs a cluster on this host: the directory, and its units as processes that it starts, watches
 * and ends. Or the directory alone, where others do that with the units. */
#ifndef SY_SUPERVISOR_H
#define SY_SUPERVISOR_H

#include <slabyard/status.h>

#include "dir_message.h"

struct sy_supervisor_config {
	const char *run_dir; /* made if it is absent, and then removed with the cluster */
	bool to_log;         /* stdout and stderr go to slabyard.log there, once the cluster is ours */
	uint32_t unit_count; /* N */
	bool directory_only; /* units come and go elsewhere; who watches them reports their ends */
	struct sy_dir_times times; /* of the units' leases; zero: none, and no silence kills */
	bool restart;        /* a unit that ends is started again, as restart.h has it */
	const char *const *unit_words; /* further words of the command line of every unit */
	size_t unit_word_count;
	uint64_t start_timeout_ns; /* by then all units are registered, or it has failed */
	/* Called once when all units are registered (directory_only: when units may register), with
	 * the absolute run directory and the bytes of all slabs. False: nobody wants the cluster any
	 * more. */
	bool (*ready)(void *context, const char *run_dir, uint64_t total_bytes);
	void *context;
};

/* Runs until SIGTERM, SIGINT or SIGHUP (a second one hurries), then ends its units (or waits a
 * moment for those of others to end) and removes what the cluster made; SY_OK. What happens
 * meanwhile is told on stderr, a line each. A unit that ends by itself is dead for the directory
 * at once; the others serve on, and with `restart` a new incarnation of it comes. The log is kept
 * if it tells of such a thing.
 *
 * A failure before all units are ready ends everything and is told in err alone. SY_E_BUSY: a
 * cluster runs there, or a unit of a former one does; SY_E_INVALID, SY_E_PROTOCOL: what is there
 * is another cluster's; SY_E_SYS: a unit or the system, in its words; SY_E_TIMEOUT.
 *
 * Call it once a process, in the thread that is to own the processes. Those signals stay blocked
 * in this thread. */
sy_status sy_supervisor_run(const struct sy_supervisor_config *config, sy_error *err);

#endif
