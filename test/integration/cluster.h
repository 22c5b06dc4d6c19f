/* A real cluster for tests and benches in C: the directory is a forked process, each unit this
 * program run again, around the shipped code, in a run directory of their own. Where the
 * environment has TEST_SSD_DIR and TEST_SSD_BYTES, units have such a disk tier. */
#ifndef SY_TEST_CLUSTER_H
#define SY_TEST_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { CLUSTER_UNITS_MAX = 16 };

struct cluster {
	char run_dir[64];
	char directory[96];      /* its address */
	uint32_t unit_count;
	uint64_t slab_bytes;
	bool short_leases;
	pid_t server;            /* the directory, which also watches the units and reports exits */
	pid_t units[CLUSTER_UNITS_MAX];
	int server_pipe;         /* closed: the directory ends */
};

/* Call it first in main: runs a unit and ends, where this program was started as one. */
void cluster_main(int argc, char **argv);

/* Starts it and waits until every unit is registered. short_leases: every lease of the units
 * lasts a second: less, and a host that stands still for a moment ends sessions. Call it before
 * making threads. Fails the process with a message. */
void cluster_start(struct cluster *cluster, uint32_t unit_count, uint64_t slab_bytes,
                   bool short_leases);
/* Ends a unit with this signal and waits until it is gone and the directory knows. */
void cluster_kill(struct cluster *cluster, uint32_t unit_id, int signal);
/* Starts a unit in the place of one that is gone. */
void cluster_restart(struct cluster *cluster, uint32_t unit_id);
/* The same in two steps: it may not get so far. Returns what to ask and to close. */
int cluster_spawn(struct cluster *cluster, uint32_t unit_id);
bool cluster_is_ready(int asked_fd); /* waits until it serves or is gone */
/* Ends everything and removes the run directory; fails if a unit does not end cleanly. */
void cluster_stop(struct cluster *cluster);

#endif
