#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "run.h"

static const double GIB = 1073741824.0;

static double of_round(const struct run *run, const struct run_case *of, size_t peer,
                       uint32_t round, double *scratch)
{
	size_t count = 0;

	for (uint32_t w = 0; w < run_workers(run); w++, count += of->ops)
		memcpy(scratch + count, run_latencies(run, peer, round, w), of->ops * sizeof *scratch);
	return measure_quantile(scratch, count, 0.5);
}

/* The median over the rounds of what ours took, measured by theirs, in the same round. */
static double ratio(const struct run *run, const struct run_case *of, size_t peer, double *scratch)
{
	double *ratios = calloc(run->rounds, sizeof *ratios);

	if (ratios == NULL)
		return 0;
	for (uint32_t round = 1; round <= run->rounds; round++) {
		double ours = of_round(run, of, 0, round, scratch);
		double theirs = of_round(run, of, peer, round, scratch);

		ratios[round - 1] = theirs > 0 ? ours / theirs : 0;
	}
	double median = measure_quantile(ratios, run->rounds, 0.5);
	free(ratios);
	return median;
}

/* Every latency of the case; workers run at once, so that their bytes a second add up. */
static size_t pool(const struct run *run, const struct run_case *of, size_t peer, double *pooled,
                   double *ret_bytes_per_ns)
{
	size_t count = 0;
	double all_ns = 0;

	for (uint32_t round = 1; round <= run->rounds; round++) {
		for (uint32_t w = 0; w < run_workers(run); w++) {
			const double *latency_ns = run_latencies(run, peer, round, w);

			for (uint32_t i = 0; i < of->ops; i++, count++) {
				pooled[count] = latency_ns[i];
				all_ns += latency_ns[i];
			}
		}
	}
	*ret_bytes_per_ns =
		all_ns > 0 ? (double)run->tallies[peer].bytes * run_workers(run) / all_ns : 0;
	return count;
}

static void print_error(const struct run_case *of, const struct peer *peer, const char *error)
{
	printf("{\"case\": \"%s\", \"who\": \"%s\", \"error\": \"", of->name, peer->name);
	for (const char *at = error; *at != '\0'; at++)
		putchar(*at == '"' || *at == '\\' || (unsigned char)*at < ' ' ? '\'' : *at);
	printf("\"}\n");
}

static void print_number(const char *name, double value, bool known)
{
	if (known)
		printf(", \"%s\": %.6g", name, value);
	else
		printf(", \"%s\": null", name);
}

void run_report(struct run *run, const struct run_case *of)
{
	size_t samples = (size_t)(run->rounds + 1) * run_workers(run) * of->ops;
	double *pooled = calloc(samples, sizeof *pooled), bytes_per_ns;

	if (pooled == NULL)
		return;
	for (size_t p = 0; p < run->peer_count; p++) {
		const struct run_tally *tally = &run->tallies[p];
		const struct peer *peer = &run->peers[p];
		double gib = (double)tally->bytes / GIB, ops = (double)tally->op_count;
		bool counted = peer->kind->burst == NULL, served = peer->server_count > 0;

		if (!run_takes_part(run, of, p))
			continue;
		if (tally->failed != 0) {
			print_error(of, peer, tally->error);
			continue;
		}
		size_t count = pool(run, of, p, pooled, &bytes_per_ns);
		printf("{\"case\": \"%s\", \"who\": \"%s\"", of->name, peer->name);
		print_number("p50_us", measure_quantile(pooled, count, 0.5) / 1e3, true);
		print_number("p99_us", measure_quantile(pooled, count, 0.99) / 1e3, true);
		print_number("gb_s", bytes_per_ns, gib > 0);
		print_number("client_cpu_s_per_gib", (double)tally->client_cpu_ns / 1e9 / gib, gib > 0);
		print_number("server_cpu_s_per_gib", (double)tally->server_cpu_ns / 1e9 / gib,
		             gib > 0 && (served || !counted));
		printf(", \"runs\": %u, \"ops\": %zu, \"rows\": %u, \"workers\": %u", run->rounds, count,
		       of->rows, run_workers(run));
		print_number("client_cpu_us_per_op", (double)tally->client_cpu_ns / 1e3 / ops, true);
		print_number("server_cpu_us_per_op", (double)tally->server_cpu_ns / 1e3 / ops,
		             served || !counted);
		print_number("messages_per_op", (double)tally->messages / ops,
		             peer->kind->messages != NULL);
		print_number("client_wakeups_per_op", (double)tally->client_wakeups / ops, counted);
		print_number("server_wakeups_per_op", (double)tally->server_wakeups / ops, served);
		print_number("ours_over_theirs", ratio(run, of, p, pooled), run->tallies[0].failed == 0);
		printf("}\n");
	}
	free(pooled);
	fflush(stdout);
}
