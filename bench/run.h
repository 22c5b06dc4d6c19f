/* Running cases: contenders take turns, each a burst of operations a round; the first round only
 * warms up. All processes of the crew run the same rounds side by side, in step by a barrier;
 * the first of them, the leader, counts and reports. */
#ifndef SY_BENCH_RUN_H
#define SY_BENCH_RUN_H

#include <pthread.h>
#include <stdbool.h>

#include "peer.h"

enum { RUN_PEERS_MAX = 16, RUN_CASES_MAX = 64, RUN_WORKERS_MAX = 64 };

enum run_op {
	RUN_PUT,       /* of rows that are absent */
	RUN_OVERWRITE, /* of rows that are there */
	RUN_GET,
	RUN_CYCLE,     /* a put of absent rows and a get of them */
	RUN_CLEAR,
	RUN_ATTACH,    /* a new client, and a get of one row by it */
};

struct run_case {
	char name[64];
	enum run_op op;
	enum peer_way way;
	uint32_t rows; /* of an operation */
	uint32_t ops;  /* of a burst, of each worker */
};

/* What one contender came to in one case; in memory that the processes share. */
struct run_tally {
	uint64_t client_cpu_ns, client_wakeups, bytes, op_count; /* atomic; all but the warm-up's */
	uint64_t server_cpu_ns, server_wakeups, messages;
	uint32_t failed; /* atomic */
	char error[PEER_ERROR_BYTES];
};

struct run {
	struct payload payload;
	struct peer peers[RUN_PEERS_MAX];
	struct run_case cases[RUN_CASES_MAX];
	size_t peer_count, case_count;
	uint32_t rounds; /* without the warm-up */
	uint32_t processes, threads;
	uint32_t process; /* which one this is; 0 leads */
	uint32_t batch_max, populate_rows;

	/* shared: */
	pthread_barrier_t *barrier;
	struct run_tally *tallies; /* one a contender */
	/* Of each contender, round, worker and operation. */
	double *latency_ns;
	uint32_t ops_max;
};

static inline uint32_t run_workers(const struct run *run)
{
	return run->processes * run->threads;
}

static inline double *run_latencies(const struct run *run, size_t peer, uint32_t round,
                                    uint32_t worker)
{
	size_t at = (peer * (run->rounds + 1) + round) * run_workers(run) + worker;

	return run->latency_ns + at * run->ops_max;
}

/* Does this contender take part in that case? */
static inline bool run_takes_part(const struct run *run, const struct run_case *of, size_t peer)
{
	const struct peer_kind *kind = run->peers[peer].kind;

	if (kind->burst != NULL)
		return run_workers(run) == 1 && of->way == PEER_KEYS &&
		       (of->op == RUN_PUT || of->op == RUN_GET);
	return !kind->copies_only || (of->op != RUN_CLEAR && of->op != RUN_ATTACH);
}

/* All processes meet here. */
void run_meet(const struct run *run);
/* Opens and connects a contender in this process; false, and its tally says why: it is out. */
bool run_join(struct run *run, size_t peer);
void run_part(struct run *run, size_t peer);
/* Puts all rows, by the leader alone; another program has put its own. */
void run_populate(struct run *run, size_t peer);
/* All rounds of a case, in every process. */
void run_case_all(struct run *run, const struct run_case *of);
/* Prints what came of it as JSON, a line a contender; the leader's. Ratios are ours over theirs,
 * the median over the rounds, where ours is the first contender. */
void run_report(struct run *run, const struct run_case *of);

#endif
