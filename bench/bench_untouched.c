/* What clients notice while another client and another unit die: calls a second of clients that
 * work with one unit, before and after a client of both units is killed in the middle of its work
 * and the other unit is killed and replaced.
 *
 * bench_untouched [--rounds N]: a line a round, and one of JSON: the calls of the mean second of
 * the 5 s before over those of the worst second after, in the median of the rounds. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <slabyard/slabyard.h>

#include "clock.h"
#include "cluster.h"
#include "measure.h"

enum { UNITS = 2, UNTOUCHED = 2, ROWS = 256, VALUE_BYTES = 4096, OTHERS_BYTES = 256 << 10,
       WARM_S = 1, BEFORE_S = 5, AFTER_S = 5, TICK_MS = 10, TICKS_S = 1000 / TICK_MS,
       TICKS = (WARM_S + BEFORE_S + AFTER_S + 1) * TICKS_S, ROUNDS_MAX = 64,
       SLAB_BYTES = 128 << 20 };

static const uint64_t MILLISECOND_NS = 1000000, SECOND_NS = 1000000000;

/* One anonymous mapping of all processes. */
static struct shared {
	char run_dir[64];
	uint64_t start_ns;
	bool stop; /* atomic */
	uint32_t ready; /* atomic */
	uint32_t calls[UNTOUCHED][TICKS];
} *shared;

static void check(const char *who, sy_status status, const sy_error *err)
{
	if (status == SY_OK)
		return;
	fprintf(stderr, "bench_untouched: %s: %s: %s\n", who, sy_status_name(status), err->message);
	exit(1);
}

static sy_client *open_client(void)
{
	sy_client_options options = {.run_dir = shared->run_dir};
	sy_client *client = NULL;
	sy_error err = {0};

	check("open", sy_client_open(&options, &client, &err), &err);
	return client;
}

static sy_status put(sy_client *client, uint64_t row, size_t nbytes, sy_error *err)
{
	static uint8_t bytes[OTHERS_BYTES];
	sy_key key = {.row = row, .field = "v", .field_bytes = 1};
	sy_value value = {.data = bytes, .nbytes = nbytes, .kind = SY_KIND_BYTES};

	memcpy(bytes, &row, sizeof row);
	return sy_client_put(client, &key, &value, 1, 0, err);
}

static sy_status get(sy_client *client, uint64_t row, int flags, sy_result **ret_result,
                     sy_error *err)
{
	sy_key key = {.row = row, .field = "v", .field_bytes = 1};

	return sy_client_get(client, &key, 1, flags, 0, ret_result, err);
}

/* Knows both units, works with unit 0: no call of it may fail. */
static _Noreturn void run_untouched(uint32_t number)
{
	sy_client *client = open_client();
	uint32_t *calls = shared->calls[number];
	sy_error err = {0};

	check("put", put(client, 1, VALUE_BYTES, &err), &err);
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_ACQ_REL);
	for (uint64_t i = 0; !__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE); i++) {
		uint64_t row = UNITS * (1 + i / 2 % ROWS + (uint64_t)number * ROWS);
		sy_result *result = NULL;
		sy_value value;

		if (i % 2 == 0) {
			check("put", put(client, row, VALUE_BYTES, &err), &err);
		} else {
			check("get", get(client, row, SY_GET_COPY, &result, &err), &err);
			if (!sy_result_value(result, 0, &value) || memcmp(value.data, &row, sizeof row) != 0) {
				fprintf(stderr, "bench_untouched: wrong bytes\n");
				exit(1);
			}
			sy_result_free(result);
		}
		uint64_t now_ns = sy_clock_now_ns();
		uint64_t tick = (now_ns - shared->start_ns) / MILLISECOND_NS / TICK_MS;
		if (now_ns >= shared->start_ns && tick < TICKS)
			calls[tick]++;
	}
	sy_client_close(client);
	exit(0);
}

/* Works with both units, and holds views: it dies with pins, and mostly in the middle of a put. */
static _Noreturn void run_other(void)
{
	enum { VIEWS = 8 };
	sy_client *client = open_client();
	sy_result *views[VIEWS] = {NULL};
	sy_error err = {0};

	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_ACQ_REL);
	for (uint64_t i = 0;; i++) {
		uint64_t row = UNITS * (uint64_t)UNTOUCHED * (ROWS + 1) + i % 64;

		check("put", put(client, row, OTHERS_BYTES, &err), &err);
		sy_result_free(views[i % VIEWS]);
		check("view", get(client, row, SY_GET_VIEW, &views[i % VIEWS], &err), &err);
	}
}

static pid_t start(uint32_t number)
{
	fflush(NULL);
	pid_t pid = fork();

	if (pid < 0) {
		perror("bench_untouched: fork");
		exit(1);
	}
	if (pid > 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (number < UNTOUCHED)
		run_untouched(number);
	run_other();
}

static void sleep_until(uint64_t then_ns)
{
	struct timespec then = {(time_t)(then_ns / SECOND_NS), (long)(then_ns % SECOND_NS)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

static uint32_t calls_between(uint64_t first_tick, uint64_t end_tick)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < UNTOUCHED; i++)
		for (uint64_t tick = first_tick; tick < end_tick && tick < TICKS; tick++)
			sum += shared->calls[i][tick];
	return sum;
}

/* The worst window of a second after the deaths, as a part of the mean second before. */
static double judge(uint32_t round, uint64_t death_ns)
{
	uint64_t death = (death_ns - shared->start_ns) / MILLISECOND_NS / TICK_MS, at = 0;
	double before = calls_between(death - BEFORE_S * TICKS_S, death) / (double)BEFORE_S;
	uint32_t worst = UINT32_MAX;

	for (uint64_t tick = death; tick + TICKS_S <= death + AFTER_S * TICKS_S; tick++) {
		uint32_t calls = calls_between(tick, tick + TICKS_S);

		at = calls < worst ? tick - death : at;
		worst = calls < worst ? calls : worst;
	}
	fprintf(stderr, "round %u: %8.0f calls/s before, worst second %8u, from %4llu ms on: ratio "
	        "%.2f\n", round + 1, before, worst, (unsigned long long)at * TICK_MS, worst / before);
	return worst / before;
}

static bool reap(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static double run_round(uint32_t round)
{
	struct cluster cluster;
	pid_t pids[UNTOUCHED + 1];
	bool ok = true;

	memset(shared, 0, sizeof *shared);
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	memcpy(shared->run_dir, cluster.run_dir, sizeof shared->run_dir);
	shared->start_ns = UINT64_MAX;
	for (uint32_t i = 0; i <= UNTOUCHED; i++)
		pids[i] = start(i);
	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) <= UNTOUCHED &&
	       waitpid(-1, NULL, WNOHANG) == 0)
		sleep_until(sy_clock_now_ns() + MILLISECOND_NS);
	shared->start_ns = sy_clock_now_ns();
	uint64_t death_ns = shared->start_ns + (WARM_S + BEFORE_S) * SECOND_NS;
	sleep_until(death_ns);
	kill(pids[UNTOUCHED], SIGKILL);
	cluster_kill(&cluster, 1, SIGKILL);
	cluster_restart(&cluster, 1);
	reap(pids[UNTOUCHED]);
	sleep_until(death_ns + AFTER_S * SECOND_NS);
	__atomic_store_n(&shared->stop, true, __ATOMIC_RELEASE);
	for (uint32_t i = 0; i < UNTOUCHED; i++)
		ok = reap(pids[i]) && ok;
	cluster_stop(&cluster);
	if (!ok) {
		fprintf(stderr, "bench_untouched: a client that nothing was done to failed\n");
		exit(1);
	}
	return judge(round, death_ns);
}

int main(int argc, char **argv)
{
	uint32_t rounds = 5;
	double ratios[ROUNDS_MAX];

	cluster_main(argc, argv);
	if (argc == 3 && strcmp(argv[1], "--rounds") == 0)
		rounds = (uint32_t)strtoul(argv[2], NULL, 10);
	if (rounds == 0 || rounds > ROUNDS_MAX || (argc != 1 && argc != 3)) {
		fprintf(stderr, "usage: bench_untouched [--rounds 1-%d]\n", ROUNDS_MAX);
		return 2;
	}
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	fprintf(stderr, "%d clients put and get %d bytes on one unit; a client of both units and the "
	        "other unit are killed\n", UNTOUCHED, VALUE_BYTES);
	for (uint32_t round = 0; round < rounds; round++)
		ratios[round] = run_round(round);
	double median = measure_quantile(ratios, rounds, 0.5);
	printf("{\"case\": \"untouched\", \"who\": \"slabyard\", \"runs\": %u, "
	       "\"mean_over_worst_second\": %.6g}\n", rounds, median > 0 ? 1 / median : 1e9);
	return 0;
}
