/* Put and get of one large value against memcpy, in one run.
 *
 * One thread each, glibc's memcpy between the same kinds of memory, both sides populated, all
 * taking turns. A put copies from the caller's private memory into shared memory, both rotated
 * over at least 1 GiB; so does "memcpy in". A get copies from shared memory rotated over at
 * least 1 GiB into a private block that the library keeps from one get to the next, on huge pages
 * where the system gives them; so does "memcpy out". */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <slabyard/slabyard.h>

#include "clock.h"
#include "cluster.h"
#include "local.h"

enum { ROUNDS_MAX = 64 };

struct bench {
	size_t value_bytes, buffer_count;
	uint8_t *mine;  /* private: buffer_count values */
	uint8_t *other; /* the upper half of the slab itself, which no put reaches: memcpy's side */
	uint8_t *block; /* private, one value: where memcpy out goes */
	sy_client *client;
};

static void check(sy_status status, const sy_error *err)
{
	if (status == SY_OK)
		return;
	fprintf(stderr, "bench_copy: %s: %s\n", sy_status_name(status), err->message);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t count)
{
	qsort(values, count, sizeof *values, compare);
	return values[count / 2];
}

static double seconds_since(uint64_t start_ns)
{
	return (double)(sy_clock_now_ns() - start_ns) * 1e-9;
}

static double time_put(const struct bench *bench, size_t i)
{
	sy_error err = {0};
	sy_key key = {.row = i % bench->buffer_count, .field = "v", .field_bytes = 1};
	sy_value value = {.data = bench->mine + (i % bench->buffer_count) * bench->value_bytes,
	                  .nbytes = bench->value_bytes, .kind = SY_KIND_BYTES};
	uint64_t start_ns = sy_clock_now_ns();

	check(sy_client_put(bench->client, &key, &value, 1, 0, &err), &err);
	return seconds_since(start_ns);
}

static double time_get(const struct bench *bench, size_t i)
{
	sy_error err = {0};
	sy_key key = {.row = i % bench->buffer_count, .field = "v", .field_bytes = 1};
	sy_result *result;
	sy_value value;
	uint64_t start_ns = sy_clock_now_ns();

	check(sy_client_get(bench->client, &key, 1, SY_GET_COPY, 0, &result, &err), &err);
	double seconds = seconds_since(start_ns);
	if (!sy_result_value(result, 0, &value) || value.nbytes != bench->value_bytes ||
	    memcmp(value.data, bench->mine + (i % bench->buffer_count) * bench->value_bytes,
	           bench->value_bytes) != 0) {
		fprintf(stderr, "bench_copy: wrong bytes\n");
		exit(1);
	}
	sy_result_free(result);
	return seconds;
}

static double time_memcpy_out(const struct bench *bench, size_t i)
{
	size_t at = (i % bench->buffer_count) * bench->value_bytes;
	uint64_t start_ns = sy_clock_now_ns();

	memcpy(bench->block, bench->other + at, bench->value_bytes);
	return seconds_since(start_ns);
}

static double time_memcpy_in(const struct bench *bench, size_t i)
{
	size_t at = (i % bench->buffer_count) * bench->value_bytes;
	uint64_t start_ns = sy_clock_now_ns();

	memcpy(bench->other + at, bench->mine + at, bench->value_bytes);
	return seconds_since(start_ns);
}

/* memcpy gets pages of the very slab, so that nothing but the work differs. */
static void map_buffers(struct bench *bench, const struct cluster *cluster)
{
	size_t bytes = bench->value_bytes * bench->buffer_count;
	struct sy_local_welcome welcome;
	char path[128];
	int socket_fd, fd;
	sy_error err = {0};

	snprintf(path, sizeof path, "%s/unit-0.sock", cluster->run_dir);
	check(sy_local_connect(path, sy_clock_now_ns() + 1000000000u, &welcome, &socket_fd, &fd, &err),
	      &err);
	bench->mine = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	bench->other = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
	                    (off_t)(welcome.slab_bytes - bytes));
	close(fd);
	sy_local_close(socket_fd);
	const size_t huge = 2u << 20;
	bench->block = aligned_alloc(huge, (bench->value_bytes + huge - 1) & ~(huge - 1));
	if (bench->block == NULL) {
		perror("bench_copy: memory");
		exit(1);
	}
	madvise(bench->block, bench->value_bytes, MADV_HUGEPAGE);
	memset(bench->block, 1, bench->value_bytes);
	if (bench->mine == MAP_FAILED || bench->other == MAP_FAILED) {
		perror("bench_copy: mmap");
		exit(1);
	}
	for (size_t i = 0; i < bytes; i += 8)
		memcpy(bench->mine + i, &(uint64_t){i * 0x9e3779b97f4a7c15u}, 8);
	memset(bench->other, 1, bytes);
}

static void report(const char *what, double *seconds, double *memcpy_seconds, size_t bytes)
{
	double ours = median(seconds, ROUNDS_MAX), theirs = median(memcpy_seconds, ROUNDS_MAX);

	printf("%-4s %6.2f GB/s   memcpy %6.2f GB/s   ratio %.2f\n", what,
	       (double)bytes / ours * 1e-9, (double)bytes / theirs * 1e-9, theirs / ours);
}

int main(int argc, char **argv)
{
	struct bench bench = {.value_bytes = 16u << 20};
	double put[ROUNDS_MAX], get[ROUNDS_MAX], in[ROUNDS_MAX], out[ROUNDS_MAX];
	struct cluster cluster;
	sy_client_options options = {.run_dir = cluster.run_dir};
	sy_error err = {0};

	cluster_main(argc, argv);
	if (argc > 1)
		bench.value_bytes = (size_t)strtoull(argv[1], NULL, 10);
	bench.buffer_count = ((1u << 30) + bench.value_bytes - 1) / bench.value_bytes;
	/* Room for the rotation, for the value that an overwrite writes before the old one goes, and
	 * for memcpy's half. */
	cluster_start(&cluster, 1, 2 * (uint64_t)bench.buffer_count * bench.value_bytes +
	                           8 * (uint64_t)bench.value_bytes, false);
	check(sy_client_open(&options, &bench.client, &err), &err);
	map_buffers(&bench, &cluster);
	for (size_t i = 0; i < bench.buffer_count; i++) { /* warm-up: everything touched once */
		time_put(&bench, i);
		time_get(&bench, i);
		time_memcpy_in(&bench, i);
	}
	for (size_t i = 0; i < ROUNDS_MAX; i++) {
		put[i] = time_put(&bench, i);
		in[i] = time_memcpy_in(&bench, i + bench.buffer_count / 3);
		get[i] = time_get(&bench, i + bench.buffer_count / 2);
		out[i] = time_memcpy_out(&bench, i + bench.buffer_count / 4);
	}
	printf("values of %zu bytes over %zu buffers, %d rounds in turn, medians\n",
	       bench.value_bytes, bench.buffer_count, ROUNDS_MAX);
	report("put", put, in, bench.value_bytes);
	report("get", get, out, bench.value_bytes);
	sy_client_close(bench.client);
	cluster_stop(&cluster);
	return 0;
}
