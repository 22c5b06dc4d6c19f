/* A cluster for the demo alone, or one that runs already. */
#ifndef SY_DEMO_CLUSTER_H
#define SY_DEMO_CLUSTER_H

#include <slabyard/status.h>
#include <sys/types.h>

enum { SY_DEMO_PATH_BYTES = 96 };

struct sy_demo_cluster {
	char run_dir[SY_DEMO_PATH_BYTES];
	pid_t supervisor; /* 0: it runs already and is not ours */
	int pidfd;        /* readable once our supervisor has ended; -1 */
	int said_fd;      /* what it tells of its units; -1 */
};

/* Starts a cluster in a new run directory under $TMPDIR or /tmp, as a process that ends with
 * this one, and waits until it is ready. Call it before there are threads. `stop_fd` readable
 * ends the waiting (SY_E_BUSY). Signals that are blocked here are so in the new process. */
sy_status sy_demo_cluster_start(uint32_t unit_count, uint64_t slab_bytes, uint64_t max_entries,
                                int stop_fd, struct sy_demo_cluster *ret_cluster, sy_error *err);

/* Appends what the cluster told so far to a message that ends in a NUL, cut to its size. */
void sy_demo_cluster_told(const struct sy_demo_cluster *cluster, char *message, size_t size);

/* Ends it and waits until nothing of it is left; a no-op on one that is not ours. SY_E_SYS: it
 * did not end cleanly. */
sy_status sy_demo_cluster_stop(struct sy_demo_cluster *cluster, sy_error *err);

#endif
