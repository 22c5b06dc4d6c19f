/* One thread's part of a burst: which rows, the timed operations, and the check of their bytes. */
#ifndef SY_BENCH_WORKER_H
#define SY_BENCH_WORKER_H

#include "run.h"

struct worker {
	const struct run *run;
	const struct run_case *of;
	struct peer *peer;
	void *connection;
	double *latency_ns; /* of each operation */
	uint32_t round, number; /* which worker of all */
	uint32_t *positions;
	uint64_t *rows;
	uint64_t bytes;        /* put or got */
	uint64_t check_cpu_ns; /* spent on checks during the timed phase */
	bool ok;               /* false: peer->error says why */
};

void worker_init(struct worker *worker, const struct run *run, const struct run_case *of,
                 size_t peer, uint32_t round, uint32_t thread);
void worker_done(struct worker *worker);

/* The phases of a burst; each takes a worker, sets its ok and returns NULL. */
void *worker_prepare(void *worker);
void *worker_time(void *worker);
void *worker_check(void *worker);

/* Puts every row of the payload. */
bool worker_put_all(struct worker *worker);

#endif
