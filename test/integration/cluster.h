/* A real cluster for tests and benches in C: the directory and each unit are forked processes
 * around the shipped code, in a run directory of their own. */
#ifndef SY_TEST_CLUSTER_H
#define SY_TEST_CLUSTER_H

#include <sys/types.h>

#include "unit_config.h"

enum { CLUSTER_UNITS_MAX = 16 };

struct cluster {
	char run_dir[64];
	char directory[96];      /* its address */
	uint32_t unit_count;
	pid_t server;            /* the directory, which also watches the units and reports exits */
	pid_t units[CLUSTER_UNITS_MAX];
	int server_pipe;         /* closed: the directory ends */
};

/* Starts it and waits until every unit is registered. `adjust`, if given, changes each unit's
 * config before its start. Call it before making threads. Fails the process with a message. */
void cluster_start(struct cluster *cluster, uint32_t unit_count, uint64_t slab_bytes,
                   void (*adjust)(struct sy_unit_config *config));
/* Ends a unit with this signal and waits until it is gone and the directory knows. */
void cluster_kill(struct cluster *cluster, uint32_t unit_id, int signal);
/* Starts a unit in the place of one that is gone. */
void cluster_restart(struct cluster *cluster, uint32_t unit_id, uint64_t slab_bytes,
                     void (*adjust)(struct sy_unit_config *config));
/* Ends everything and removes the run directory; fails if a unit does not end cleanly. */
void cluster_stop(struct cluster *cluster);

#endif
