/* Put and get over UCX, one after the other, for ucx.py, which has ucx_perftest do the same in
 * turns.
 *
 *   bench_ucx     reads `put BYTES COUNT` or `get BYTES COUNT` a line, does that many with values
 *                 of that size, and prints the microseconds of one, on average
 *
 * The environment says what UCX may use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slabyard/slabyard.h>

#include "clock.h"
#include "cluster.h"

enum { SLAB_BYTES = 512 << 20, VALUE_MAX_BYTES = 64 << 20 };

static uint8_t *memory;
static sy_client *client;

static void check(sy_status status, const sy_error *err)
{
	if (status == SY_OK)
		return;
	fprintf(stderr, "bench_ucx: %s: %s\n", sy_status_name(status), err->message);
	exit(1);
}

static double time_one(bool put, size_t nbytes)
{
	sy_key key = {.row = 1, .field = "v", .field_bytes = 1};
	sy_value value = {.data = memory, .nbytes = nbytes, .kind = SY_KIND_BYTES};
	sy_result *result = NULL;
	uint64_t start_ns = sy_clock_now_ns();
	sy_error err = {0};

	if (put)
		check(sy_client_put(client, &key, &value, 1, 0, &err), &err);
	else
		check(sy_client_get(client, &key, 1, SY_GET_COPY, 0, &result, &err), &err);
	double us = (double)(sy_clock_now_ns() - start_ns) * 1e-3;
	if (!put && (!sy_result_value(result, 0, &value) || value.nbytes != nbytes ||
	             memcmp(value.data, memory, nbytes) != 0)) {
		fprintf(stderr, "bench_ucx: wrong bytes\n");
		exit(1);
	}
	sy_result_free(result);
	return us;
}

int main(int argc, char **argv)
{
	struct cluster cluster;
	sy_client_options options = {.run_dir = cluster.run_dir};
	char what[8];
	size_t nbytes, count;
	sy_error err = {0};

	setenv("SLABYARD_TEST_UNIT_POLICY", "allow-tcp", 1);
	setenv("SLABYARD_POLICY", "allow-tcp", 1);
	setenv("SLABYARD_TRANSPORT", "ucx", 1);
	cluster_main(argc, argv);
	memory = malloc(VALUE_MAX_BYTES);
	if (memory == NULL)
		return 1;
	for (size_t i = 0; i < VALUE_MAX_BYTES; i += 8)
		memcpy(memory + i, &(uint64_t){i * 0x9e3779b97f4a7c15u}, 8);
	cluster_start(&cluster, 1, SLAB_BYTES, false);
	check(sy_client_open(&options, &client, &err), &err);
	while (scanf("%7s %zu %zu", what, &nbytes, &count) == 3 && nbytes <= VALUE_MAX_BYTES &&
	       count > 0) {
		bool put = strcmp(what, "put") == 0;

		(void)time_one(true, nbytes); /* so that there is one to get */
		double us = 0;
		for (size_t i = 0; i < count; i++)
			us += time_one(put, nbytes);
		printf("%.3f\n", us / (double)count);
		fflush(stdout);
	}
	sy_client_close(client);
	cluster_stop(&cluster);
	free(memory);
	return 0;
}
