/* A real cluster for tests and benches in C: the directory and each unit are this program run
 * again, around the shipped code, in a run directory of their own. Where the environment has
 * TEST_SSD_DIR and TEST_SSD_BYTES, units have such a disk tier; where it has TEST_LEASES, they
 * hold leases of the usual times. TEST_RUN_DIRS: where run directories are made, otherwise /tmp,
 * by one who removes what a program that is killed leaves there.
 *
 * SLABYARD_TEST_UNIT_HOST and SLABYARD_TEST_UNIT_LISTEN name hosts and addresses of units, dealt
 * out in turn; SLABYARD_TEST_UNIT_POLICY lets UCX reach them; with SLABYARD_TEST_NO_EAGER no
 * value travels with a message. */
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
	int server_socket;       /* closed: the directory ends */
	uint64_t put_bytes, got_bytes; /* of values that the test moved, to units that it kills not */
	bool (*look)(void);      /* NULL, or called some times a second while a call below waits */
};

/* Call it first in main: runs a unit or a directory and ends, where this program was started as
 * one. */
void cluster_main(int argc, char **argv);
/* Before that: UCX carries all values, as the environment says, or else by TCP over the
 * loopback. */
void cluster_choose_ucx(void);

/* Starts it and waits until every unit is registered. short_leases: what clients hold of the units
 * lasts a second: less, and a host that stands still for a moment ends sessions. Fails the process
 * with a message. */
void cluster_start(struct cluster *cluster, uint32_t unit_count, uint64_t slab_bytes,
                   bool short_leases);
/* Ends a unit with this signal and waits until it is gone and the directory knows. */
void cluster_kill(struct cluster *cluster, uint32_t unit_id, int signal);
/* Goes to the host, one of namespaces.py's, whose holder's process the environment names so (of
 * several, the one of this number, and from the first on again); stays where it does not. Of a
 * process with one thread. */
bool cluster_move_to(const char *variable, uint32_t number);
/* Starts a unit in the place of one that is gone. */
void cluster_restart(struct cluster *cluster, uint32_t unit_id);
/* The same in two steps: it may not get so far. Returns what to ask and to close. */
int cluster_spawn(struct cluster *cluster, uint32_t unit_id);
/* Waits until it serves or is gone. */
bool cluster_is_ready(const struct cluster *cluster, int asked_fd);
/* In the place of a directory that is gone, on the same state. Units that end are reported to the
 * one that is there; what its predecessor had not stored is reported again. */
void cluster_restart_directory(struct cluster *cluster);
/* Ends everything and removes the run directory; fails if a unit does not end cleanly, or if the
 * environment said ucx and values took another way. */
void cluster_stop(struct cluster *cluster);

#endif
