/* The demo from start to end: cluster, workers, steps, and what is left. */
#ifndef SY_DEMO_RUN_H
#define SY_DEMO_RUN_H

#include "demo_cluster.h"
#include "demo_crew.h"
#include "demo_memory.h"
#include "demo_print.h"
#include "progress.h"

/* The caller fills what is asked for, the rest being zero. */
struct sy_demo {
	sy_client_options where; /* no run_dir and no directory: a cluster of its own */
	uint64_t producers, trainers, units;
	uint64_t slab_bytes; /* 0: what the rows need */
	const char *by[SY_DEMO_ROLES]; /* as in demo_crew.h */
	const char *const *words;
	size_t word_count;
	struct sy_demo_source source;

	/* what came of it */
	struct sy_demo_summary summary; /* its problem points below */
	char problem[SY_DEMO_MESSAGE_BYTES];

	/* while it runs */
	struct sy_demo_cluster cluster;
	char name_space[48];
	int stop_fd;
	struct sy_demo_crew crew;
	sy_client *client; /* the controller's */
	struct sy_demo_memory before;
	struct sy_progress progress;
};

/* Runs it and removes what it started, also after a failure, SIGINT, SIGTERM or SIGHUP, which
 * stay blocked. False: summary.problem says what went wrong. Call it before there are threads. */
bool sy_demo_run(struct sy_demo *demo);

#endif
