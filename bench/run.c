#include "run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"
#include "worker.h"

void run_meet(const struct run *run)
{
	if (run->processes > 1)
		pthread_barrier_wait(run->barrier);
}

static bool is_out(const struct run *run, size_t peer)
{
	return __atomic_load_n(&run->tallies[peer].failed, __ATOMIC_ACQUIRE) != 0;
}

/* The first failure's words are kept. */
static void put_out(struct run *run, size_t peer)
{
	struct run_tally *tally = &run->tallies[peer];
	uint32_t fresh = 0;

	if (__atomic_compare_exchange_n(&tally->failed, &fresh, 1, false, __ATOMIC_ACQ_REL,
	                                __ATOMIC_RELAXED))
		snprintf(tally->error, sizeof tally->error, "%s", run->peers[peer].error);
}

bool run_join(struct run *run, size_t peer)
{
	struct peer *one = &run->peers[peer];
	bool ok = one->kind->open(one);

	for (uint32_t t = 0; ok && t < run->threads; t++) {
		one->connections[t] = one->kind->connect(one, run->batch_max, false);
		ok = one->connections[t] != NULL;
	}
	if (!ok)
		put_out(run, peer);
	return ok;
}

void run_part(struct run *run, size_t peer)
{
	struct peer *one = &run->peers[peer];

	for (uint32_t t = 0; t < run->threads; t++) {
		if (one->connections[t] != NULL)
			one->kind->disconnect(one->connections[t]);
		one->connections[t] = NULL;
	}
	one->kind->close(one);
}

/* Runs a phase in every thread of this process; false: in one of them it failed. */
static bool in_threads(struct worker *workers, uint32_t count, void *(*phase)(void *worker))
{
	pthread_t threads[PEER_THREADS_MAX];
	bool ok = true;

	if (count == 1) {
		phase(&workers[0]);
		return workers[0].ok;
	}
	for (uint32_t t = 0; t < count; t++) {
		if (pthread_create(&threads[t], NULL, phase, &workers[t]) != 0) {
			perror("bench: thread");
			exit(1);
		}
	}
	for (uint32_t t = 0; t < count; t++) {
		pthread_join(threads[t], NULL);
		ok = workers[t].ok && ok;
	}
	return ok;
}

/* What the servers used up to now. */
struct servers {
	uint64_t cpu_ns, wakeups, messages, asking;
};

static struct servers look(const struct peer *peer, bool before)
{
	struct servers seen = {0};
	uint64_t (*messages)(void *connection) = peer->kind->messages;

	if (messages != NULL && before) { /* asked twice, to learn what asking costs */
		seen.asking = messages(peer->connections[0]);
		seen.messages = messages(peer->connections[0]);
		seen.asking = seen.messages - seen.asking;
	}
	for (size_t i = 0; i < peer->server_count; i++) {
		seen.cpu_ns += measure_cpu_of(peer->servers[i]);
		seen.wakeups += measure_wakeups_of(peer->servers[i]);
	}
	if (messages != NULL && !before)
		seen.messages = messages(peer->connections[0]);
	return seen;
}

static void add(uint64_t *sum, uint64_t more)
{
	__atomic_add_fetch(sum, more, __ATOMIC_RELAXED);
}

static void timed(struct run *run, size_t peer, struct worker *workers, bool counts)
{
	struct run_tally *tally = &run->tallies[peer];
	struct servers before = {0}, after;
	bool leads = run->process == 0;

	if (leads)
		before = look(&run->peers[peer], true);
	run_meet(run);
	uint64_t cpu_ns = measure_process_cpu_ns(), wakeups = measure_wakeups();
	bool ok = in_threads(workers, run->threads, worker_time);
	cpu_ns = measure_process_cpu_ns() - cpu_ns;
	wakeups = measure_wakeups() - wakeups;
	if (!ok)
		put_out(run, peer);
	run_meet(run);
	if (leads && counts) {
		after = look(&run->peers[peer], false);
		tally->server_cpu_ns += after.cpu_ns - before.cpu_ns;
		tally->server_wakeups += after.wakeups - before.wakeups;
		tally->messages += after.messages - before.messages - before.asking;
	}
	for (uint32_t t = 0; counts && t < run->threads; t++) {
		cpu_ns -= workers[t].check_cpu_ns < cpu_ns ? workers[t].check_cpu_ns : cpu_ns;
		add(&tally->bytes, workers[t].bytes);
		add(&tally->op_count, workers[t].of->ops);
	}
	if (counts) {
		add(&tally->client_cpu_ns, cpu_ns);
		add(&tally->client_wakeups, wakeups);
	}
}

static void burst_elsewhere(struct run *run, const struct run_case *of, size_t peer,
                            uint32_t round)
{
	struct peer *one = &run->peers[peer];
	struct run_tally *tally = &run->tallies[peer];
	struct peer_burst burst = {.puts = of->op == RUN_PUT, .rows = of->rows, .ops = of->ops,
	                           .latency_ns = run_latencies(run, peer, round, 0)};

	if (!one->kind->burst(one->connections[0], &burst)) {
		put_out(run, peer);
		return;
	}
	if (round == 0)
		return;
	tally->client_cpu_ns += burst.client_cpu_ns;
	tally->server_cpu_ns += burst.server_cpu_ns;
	tally->bytes += payload_bytes(&run->payload, 0, 1) * of->rows * of->ops;
	tally->op_count += of->ops;
}

/* One contender's turn in one round. */
static void burst(struct run *run, const struct run_case *of, size_t peer, uint32_t round)
{
	struct worker workers[PEER_THREADS_MAX];

	for (uint32_t t = 0; t < run->threads; t++)
		worker_init(&workers[t], run, of, peer, round, t);
	if (!in_threads(workers, run->threads, worker_prepare))
		put_out(run, peer);
	run_meet(run);
	if (!is_out(run, peer))
		timed(run, peer, workers, round > 0);
	run_meet(run);
	if (!is_out(run, peer) && !in_threads(workers, run->threads, worker_check))
		put_out(run, peer);
	run_meet(run);
	for (uint32_t t = 0; t < run->threads; t++)
		worker_done(&workers[t]);
}

void run_case_all(struct run *run, const struct run_case *of)
{
	run_meet(run);
	for (uint32_t round = 0; round <= run->rounds; round++) {
		for (size_t i = 0; i < run->peer_count; i++) {
			size_t peer = (i + round) % run->peer_count;

			if (!run_takes_part(run, of, peer) || is_out(run, peer))
				continue;
			if (run->peers[peer].kind->burst != NULL)
				burst_elsewhere(run, of, peer, round);
			else
				burst(run, of, peer, round);
		}
	}
	run_meet(run);
}

void run_populate(struct run *run, size_t peer)
{
	struct worker worker;
	struct run_case put = {.op = RUN_PUT, .way = PEER_COLUMNS, .rows = run->populate_rows};

	if (run->peers[peer].kind->burst != NULL)
		return;
	worker_init(&worker, run, &put, peer, 0, 0);
	if (!worker_put_all(&worker))
		put_out(run, peer);
	worker_done(&worker);
}
