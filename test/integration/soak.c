/* Many client processes against a few units for a bounded time, with clients killed and stopped,
 * units stopped, killed and replaced: every byte read is right, every call is back in time, no
 * process grows, and at the end nothing is left. Prints what the calls took.
 *
 * soak [--seconds N] [--clients N] [--units N] [--seed N] */
#include "soak.h"

#include <dirent.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "cluster.h"
#include "prng.h"
#include "process_kib.h"

enum { SLAB_MIB = 64, LATE_MS = 100 };

/* What a process may grow by in the second half. A unit touches its arena, allocated once, as its
 * tables come round; a client its buffers. */
enum { OF_UNITS, OF_DIRECTORY, OF_CLIENTS, KINDS };
static const char *const kind_names[KINDS] = {"units", "directory", "clients"};
static const long growth_kib[KINDS] = {32768, 4096, 4096};
static const uint64_t SECOND_NS = 1000000000u;
static const char *const call_names[SOAK_CALLS] = {"put", "put large", "get", "view", "clear"};

static struct cluster cluster;
static struct soak *soak;
static struct sy_prng prng;
static uint32_t lives[SOAK_CLIENTS_MAX], kills, unit_kills, stops, faults;

static void complain(const char *what, long long number)
{
	printf("FAULT: ");
	printf(what, number);
	printf("\n");
	faults++;
}

/* A line of numbers in /proc/<pid>/status; -1: the process is gone. */
static int descriptors_of(pid_t pid)
{
	char path[48];
	int count = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	while (dir != NULL && readdir(dir) != NULL)
		count++;
	if (dir != NULL)
		closedir(dir);
	return count;
}

static void start_client(uint32_t number)
{
	fflush(stdout);
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		soak_client_run(soak, number, lives[number]);
	}
	if (pid < 0) {
		perror("soak: fork");
		exit(1);
	}
	lives[number]++;
	soak->clients[number].pid = pid;
}

/* Waits for a client; false: it did not end by itself with 0. */
static bool reap(uint32_t number)
{
	int status = 0;

	waitpid(soak->clients[number].pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void pause_ms(uint64_t ms)
{
	struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&time, NULL);
}

static void replace_unit(uint32_t unit)
{
	__atomic_fetch_add(&soak->epochs[unit], 1, __ATOMIC_ACQ_REL);
	cluster_kill(&cluster, unit, SIGKILL);
	cluster_restart(&cluster, unit);
	unit_kills++;
}

/* Said before it goes on: a call that it stood still in is that much later. */
static void stop_client(uint32_t number)
{
	struct soak_client *client = &soak->clients[number];
	uint64_t start_ns = sy_clock_now_ns();

	kill(client->pid, SIGSTOP);
	pause_ms(sy_prng_below(&prng, 300));
	__atomic_fetch_add(&client->stopped_ns, sy_clock_now_ns() - start_ns, __ATOMIC_ACQ_REL);
	kill(client->pid, SIGCONT);
	stops++;
}

static void disturb(bool units_too)
{
	uint32_t client = (uint32_t)sy_prng_below(&prng, soak->client_count);
	uint32_t unit = (uint32_t)sy_prng_below(&prng, soak->unit_count);

	switch (sy_prng_below(&prng, 4)) {
	case 0:
	case 1:
		kill(soak->clients[client].pid, SIGKILL);
		reap(client);
		start_client(client);
		kills++;
		break;
	case 2:
		stop_client(client);
		break;
	default:
		kill(cluster.units[unit], SIGSTOP);
		pause_ms(sy_prng_below(&prng, 300));
		kill(cluster.units[unit], SIGCONT);
		stops++;
		break;
	}
	if (units_too && sy_prng_below(&prng, 20) == 0)
		replace_unit(unit);
}

static void disturb_for(uint64_t ns, bool units_too)
{
	uint64_t end_ns = sy_clock_now_ns() + ns;

	while (sy_clock_now_ns() < end_ns) {
		pause_ms(50 + sy_prng_below(&prng, 200));
		disturb(units_too);
	}
}

/* Each process's own memory: a slab and its mappings are not in it. */
struct sample {
	pid_t pid;
	int kind;
	long kib;
};

static uint32_t take_samples(struct sample *samples)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < soak->unit_count; i++)
		samples[count++] = (struct sample){.pid = cluster.units[i], .kind = OF_UNITS};
	samples[count++] = (struct sample){.pid = cluster.server, .kind = OF_DIRECTORY};
	for (uint32_t i = 0; i < soak->client_count; i++)
		samples[count++] = (struct sample){.pid = soak->clients[i].pid, .kind = OF_CLIENTS};
	for (uint32_t i = 0; i < count; i++)
		samples[i].kib = process_kib(samples[i].pid, "RssAnon:");
	return count;
}

/* Processes that stood at both times. */
static void compare_samples(const struct sample *before, const struct sample *after,
                            uint32_t count)
{
	long most_kib[KINDS] = {0};
	uint32_t compared[KINDS] = {0};

	for (uint32_t i = 0; i < count; i++) {
		int who = before[i].kind;
		long grown_kib = after[i].kib - before[i].kib;

		if (before[i].pid != after[i].pid || before[i].kib < 0 || after[i].kib < 0)
			continue;
		compared[who]++;
		most_kib[who] = grown_kib > most_kib[who] ? grown_kib : most_kib[who];
	}
	printf("memory in the second half grew by at most");
	for (int who = 0; who < KINDS; who++) {
		printf("%s %ld KiB (%s, %u)", who > 0 ? "," : "", most_kib[who], kind_names[who],
		       compared[who]);
		if (most_kib[who] > growth_kib[who])
			complain("a process grew by %lld KiB", most_kib[who]);
	}
	printf("\n");
}

static double percentile_ms(const uint64_t *buckets, uint64_t total, double share)
{
	uint64_t seen = 0;
	uint32_t bucket = 0;

	for (; bucket < SOAK_BUCKETS - 1; bucket++) {
		seen += buckets[bucket];
		if ((double)seen >= share * (double)total)
			break;
	}
	return (double)soak_bucket_end_ns(bucket) / 1e6;
}

static void print_calls(double seconds)
{
	const struct soak_client *latest = &soak->clients[0];
	uint64_t errors = 0, lost = 0;

	printf("%-10s %9s %9s %9s %9s %9s\n", "call", "count", "per s", "p50 ms", "p99 ms", "p999 ms");
	for (int call = 0; call < SOAK_CALLS; call++) {
		uint64_t took[SOAK_BUCKETS] = {0}, total = 0;

		for (uint32_t i = 0; i < soak->client_count; i++) {
			total += soak->clients[i].calls[call];
			for (uint32_t bucket = 0; bucket < SOAK_BUCKETS; bucket++)
				took[bucket] += soak->clients[i].took[call][bucket];
		}
		printf("%-10s %9llu %9.0f %9.2f %9.2f %9.2f\n", call_names[call],
		       (unsigned long long)total, (double)total / seconds,
		       percentile_ms(took, total, 0.5), percentile_ms(took, total, 0.99),
		       percentile_ms(took, total, 0.999));
		if (total == 0)
			complain("no call of kind %lld was made", call);
	}
	for (uint32_t i = 0; i < soak->client_count; i++) {
		const struct soak_client *client = &soak->clients[i];

		errors += client->errors;
		lost += client->lost;
		if (client->worst_late_ns > latest->worst_late_ns)
			latest = client;
		if (client->fault[0] != 0) {
			printf("FAULT: client %u, %s\n", i, client->fault);
			faults++;
		}
	}
	printf("%llu calls ended in a typed error, %llu in lost rows; %u clients killed, %u processes "
	       "stopped, %u units killed\n",
	       (unsigned long long)errors, (unsigned long long)lost, kills, stops, unit_kills);
	if (latest->worst_late_ns > LATE_MS * 1000000) {
		printf("a %s that ended with %s:\n", call_names[latest->worst_call],
		       sy_status_name((sy_status)latest->worst_status));
		complain("a call was back %lld ms after its deadline", latest->worst_late_ns / 1000000);
	}
}

/* Every byte and every session goes back. */
static void check_rest(const int *descriptors)
{
	sy_client_options options = {.run_dir = cluster.run_dir};
	sy_unit_report reports[SOAK_UNITS_MAX];
	uint64_t end_ns = sy_clock_now_ns() + 60 * SECOND_NS;
	sy_client *client = NULL;
	bool clean = false;

	if (sy_client_open(&options, &client, NULL) != SY_OK) {
		complain("no client can be opened any more (%lld)", 0);
		return;
	}
	while (!clean && sy_clock_now_ns() < end_ns) {
		clean = sy_client_reports(client, 0, reports, NULL) == SY_OK;
		for (uint32_t u = 0; clean && u < soak->unit_count; u++) {
			clean = reports[u].answered &&
			        reports[u].bytes[0].value == reports[u].capacity_bytes;
			for (size_t i = 0; clean && i < reports[u].count_count; i++)
				if (strcmp(reports[u].counts[i].name, "pins") == 0 ||
				    strcmp(reports[u].counts[i].name, "entries") == 0)
					clean = reports[u].counts[i].value == 0;
		}
	}
	sy_client_close(client);
	if (!clean)
		complain("bytes, entries or pins are left after %lld s", 60);
	for (uint32_t u = 0; u < soak->unit_count; u++) {
		int now = descriptors_of(cluster.units[u]);

		for (; now > descriptors[u] + 4 && sy_clock_now_ns() < end_ns; pause_ms(20))
			now = descriptors_of(cluster.units[u]);
		if (now > descriptors[u] + 4)
			complain("a unit has %lld descriptors more than at first", now - descriptors[u]);
	}
}

static uint64_t number_of(const char *option, const char *word, uint64_t most)
{
	char *end = NULL;
	uint64_t number = word == NULL ? 0 : strtoull(word, &end, 10);

	if (word == NULL || *word == 0 || *end != 0 || number == 0 || number > most) {
		fprintf(stderr, "soak: %s takes a number from 1 to %llu\n", option,
		        (unsigned long long)most);
		exit(2);
	}
	return number;
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	struct timespec now;
	uint64_t seconds = 15;

	soak = mmap(NULL, sizeof *soak, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (soak == MAP_FAILED)
		return 1;
	clock_gettime(CLOCK_REALTIME, &now);
	*soak = (struct soak){.seed = (uint64_t)now.tv_nsec + 1, .unit_count = 4, .client_count = 64};
	for (int i = 1; i < argc; i += 2) {
		const char *word = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(argv[i], "--seconds") == 0)
			seconds = number_of(argv[i], word, 86400);
		else if (strcmp(argv[i], "--clients") == 0)
			soak->client_count = (uint32_t)number_of(argv[i], word, SOAK_CLIENTS_MAX);
		else if (strcmp(argv[i], "--units") == 0)
			soak->unit_count = (uint32_t)number_of(argv[i], word, SOAK_UNITS_MAX);
		else if (strcmp(argv[i], "--seed") == 0)
			soak->seed = number_of(argv[i], word, UINT64_MAX);
		else {
			fprintf(stderr, "usage: soak [--seconds N] [--clients N] [--units N] [--seed N]\n");
			return 2;
		}
	}
	printf("seed %llu: %u clients, %u units, %llu s\n", (unsigned long long)soak->seed,
	       soak->client_count, soak->unit_count, (unsigned long long)seconds);
	sy_prng_seed(&prng, soak->seed);
	cluster_start(&cluster, soak->unit_count, (uint64_t)SLAB_MIB << 20, false);
	memcpy(soak->run_dir, cluster.run_dir, sizeof soak->run_dir);

	static struct sample before[SOAK_UNITS_MAX + 1 + SOAK_CLIENTS_MAX];
	static struct sample after[SOAK_UNITS_MAX + 1 + SOAK_CLIENTS_MAX];
	int descriptors[SOAK_UNITS_MAX];
	for (uint32_t u = 0; u < soak->unit_count; u++)
		descriptors[u] = descriptors_of(cluster.units[u]);
	uint64_t start_ns = sy_clock_now_ns();
	for (uint32_t i = 0; i < soak->client_count; i++)
		start_client(i);
	/* Units die in the first half alone: in the second their memory is compared. */
	disturb_for(seconds * SECOND_NS / 4, true);
	replace_unit((uint32_t)sy_prng_below(&prng, soak->unit_count));
	disturb_for(seconds * SECOND_NS / 4, true);
	uint32_t count = take_samples(before);
	disturb_for(seconds * SECOND_NS / 2, false);
	take_samples(after);
	__atomic_store_n(&soak->stopping, true, __ATOMIC_RELEASE);
	double took_s = (double)(sy_clock_now_ns() - start_ns) / 1e9;
	for (uint32_t i = 0; i < soak->client_count; i++)
		if (!reap(i))
			complain("client %lld did not end by itself", i);
	print_calls(took_s);
	compare_samples(before, after, count);
	check_rest(descriptors);
	cluster_stop(&cluster);
	printf("%d passed, %u failed\n", faults == 0, faults);
	return faults == 0 ? 0 : 1;
}
