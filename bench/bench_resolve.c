/* Resolve in the unit's step alone: the core is linked, no process or socket is between.
 *
 *   bench_resolve [--rounds N] [--steps N] KEYS...
 *
 * Fills a core with so many keys, in blobs of 1,024 rows; then resolves batches of 1,024 keys,
 * each key at random, that are pinned by the step and given back by the notice of the next one.
 * Prints a line of JSON a number of keys, as scripts/bench reads it: p50_us and p99_us are of one
 * step, ns_per_row is the median over the rounds, bytes_per_key is of the pages in use. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"
#include "measure.h"
#include "prng.h"

enum { BATCH_KEYS = 1024, BLOB_ROWS = 1024, ROUNDS_MAX = 100, ENTRY_BYTES = 64 };

struct bench {
	struct sy_core_params params;
	struct sy_core *core;
	uint64_t arena_bytes, now_ns, session, seq, notice;
	struct sy_effects effects;
	struct sy_resolved out;
	uint64_t rows[BATCH_KEYS];
};

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "bench_resolve: %s\n", what);
	exit(1);
}

static void *memory(size_t bytes)
{
	void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (block == MAP_FAILED)
		die("no memory");
	return block;
}

/* One step, whose reply must be no fault. */
static struct sy_outcome step(struct bench *bench, struct sy_event *event)
{
	event->kind = SY_EVENT_REQUEST;
	event->request.id = (struct sy_request_id){.session = bench->session, .seq = ++bench->seq};
	event->request.message = 1;
	sy_core_step(bench->core, event, bench->now_ns, &bench->effects);
	if (bench->effects.count != 1 || bench->effects.again ||
	    bench->effects.items[0].kind != SY_EFFECT_REPLY ||
	    bench->effects.items[0].outcome.fault != SY_FAULT_NONE)
		die("a step did not go as planned");
	return bench->effects.items[0].outcome;
}

static void put(struct bench *bench, uint64_t first_row, uint32_t count)
{
	struct sy_event event = {0};
	uint64_t rows[BLOB_ROWS];
	sy_column column = {.field = "v", .field_bytes = 1, .kind = SY_KIND_BYTES,
	                    .row_count = count, .extent = ENTRY_BYTES};
	sy_index index = {.rows = rows, .row_count = count, .columns = &column, .column_count = 1,
	                  .entry_count = count};

	for (uint32_t i = 0; i < count; i++)
		rows[i] = first_row + i;
	index.index_bytes = SY_INDEX_HEADER_BYTES + 8u * count + 64;
	column.base = sy_align_up(index.index_bytes, SY_ENTRY_ALIGN_BYTES);
	index.blob_bytes = column.base + (uint64_t)count * ENTRY_BYTES;
	memcpy(index.blob_id.bytes, &first_row, sizeof first_row);
	event.request.op = SY_OP_ALLOC;
	event.request.alloc.blob_id = index.blob_id;
	event.request.alloc.nbytes = index.blob_bytes;
	event.request.alloc.entry_count = count;
	event.request.alloc.until_ns = UINT64_MAX;
	struct sy_outcome region = step(bench, &event);

	event = (struct sy_event){0};
	event.request.op = SY_OP_COMMIT;
	event.request.commit.blob_id = index.blob_id;
	event.request.commit.generation = region.generation;
	event.request.commit.until_ns = UINT64_MAX;
	event.request.commit.index = &index;
	step(bench, &event);
}

static void resolved_new(struct sy_resolved *out)
{
	*out = (struct sy_resolved){
		.found = memory(BATCH_KEYS),
		.dtype = memory(BATCH_KEYS),
		.kind = memory(BATCH_KEYS),
		.offset = memory(BATCH_KEYS * sizeof *out->offset),
		.nbytes = memory(BATCH_KEYS * sizeof *out->nbytes),
		.generation = memory(BATCH_KEYS * sizeof *out->generation),
		.dim0 = memory(BATCH_KEYS * sizeof *out->dim0),
		.tail = memory(BATCH_KEYS * sizeof *out->tail),
		.shapes = memory(BATCH_KEYS * sizeof *out->shapes),
	};
}

/* What does not grow with the keys is small, so that the arena is the keys'. */
static void open_core(struct bench *bench, uint32_t keys)
{
	const uint64_t second_ns = 1000000000u;
	struct sy_event event = {0};

	memset(bench, 0, sizeof *bench);
	bench->params = (struct sy_core_params){
		.slab_bytes = sy_align_up((uint64_t)keys * 96 + (64u << 20), 64), .incarnation = 7,
		.seed = 5, .slot_count = 1, .max_entries = keys, .max_sessions = 16, .max_pins = 64,
		.max_fields = 16, .max_namespaces = 4, .max_shapes = 16, .max_parked = 16, .max_jobs = 1,
		.eager_max_bytes = 8192, .inline_max_bytes = 8192, .inline_total_bytes = 1 << 20,
		.read_pin_ns = 60 * second_ns, .heartbeat_ns = 2 * second_ns,
		.session_expire_ns = 20 * second_ns, .retire_grace_ns = 120 * second_ns,
		.park_max_ns = second_ns,
	};
	bench->now_ns = 1000 * second_ns;
	bench->arena_bytes = sy_core_arena_bytes(&bench->params);
	if (bench->arena_bytes == 0)
		die("so many keys a unit cannot have");
	void *arena = memory(bench->arena_bytes);
	madvise(arena, bench->arena_bytes, MADV_HUGEPAGE); /* as the daemon does */
	bench->core = sy_core_init(arena, &bench->params);
	resolved_new(&bench->out);
	event.request.op = SY_OP_HELLO;
	event.request.hello.version = SY_PROTOCOL_VERSION;
	event.request.hello.slot_count = 1;
	event.request.hello.ns = (struct sy_span){(const uint8_t *)"bench", 5};
	event.request.hello.identity.random = 1;
	event.request.hello.connection_count = 1;
	event.request.hello.token = 1;
	bench->session = step(bench, &event).count;
	bench->seq = 0;
	for (uint64_t row = 0; row < keys; row += BLOB_ROWS)
		put(bench, row, (uint32_t)sy_min_u64(BLOB_ROWS, keys - row));
}

/* Bytes of the arena that were ever touched. */
static uint64_t resident_bytes(struct bench *bench)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t pages = (bench->arena_bytes + page_bytes - 1) / page_bytes;
	unsigned char *there = memory(pages);
	uint64_t count = 0;

	if (mincore(bench->core, bench->arena_bytes, there) != 0)
		die("mincore");
	for (size_t i = 0; i < pages; i++)
		count += there[i] & 1;
	munmap(there, pages);
	return count * page_bytes;
}

static double resolve(struct bench *bench, uint32_t keys, struct sy_prng *prng)
{
	struct sy_span field = {(const uint8_t *)"v", 1};
	struct sy_notice unpin = {.kind = SY_NOTICE_UNPIN,
	                          .name = {.session = bench->session, .seq = bench->seq}};
	struct sy_event event = {0};

	for (uint32_t i = 0; i < BATCH_KEYS; i++)
		bench->rows[i] = sy_prng_below(prng, keys);
	event.request.op = SY_OP_RESOLVE_KEYS;
	event.request.resolve.rows = bench->rows;
	event.request.resolve.fields = &field;
	event.request.resolve.row_count = event.request.resolve.key_count = BATCH_KEYS;
	event.request.resolve.field_count = 1;
	event.request.resolve.out = &bench->out;
	event.request.first_notice = ++bench->notice;
	event.request.notice_count = 1;
	event.request.notices = &unpin;
	uint64_t start_ns = measure_now_ns();
	step(bench, &event);
	double ns = (double)(measure_now_ns() - start_ns);
	for (uint32_t i = 0; i < BATCH_KEYS; i++) {
		if (bench->out.found[i] != SY_FOUND_PINNED || bench->out.nbytes[i] != ENTRY_BYTES)
			die("a key was not found");
	}
	return ns;
}

static void run(uint32_t keys, uint32_t rounds, uint32_t steps)
{
	struct bench *bench = memory(sizeof *bench);
	double *ns = memory((size_t)(rounds + 1) * steps * sizeof *ns);
	double medians[ROUNDS_MAX];
	char name[32];
	struct sy_prng prng;

	sy_prng_seed(&prng, keys);
	open_core(bench, keys);
	for (uint32_t round = 0; round <= rounds; round++) {
		double *of = ns + (size_t)(round == 0 ? rounds : round - 1) * steps; /* 0: the warm-up */

		for (uint32_t i = 0; i < steps; i++)
			of[i] = resolve(bench, keys, &prng);
	}
	for (uint32_t round = 0; round < rounds; round++)
		medians[round] = measure_quantile(ns + (size_t)round * steps, steps, 0.5);
	double median = measure_quantile(medians, rounds, 0.5);
	size_t count = (size_t)rounds * steps;
	snprintf(name, sizeof name, keys >= 1000000 ? "%uM" : "%uK",
	         keys >= 1000000 ? keys / 1000000 : keys / 1000);
	printf("{\"case\": \"resolve-%s\", \"who\": \"slabyard\", \"p50_us\": %.6g, "
	       "\"p99_us\": %.6g, \"gb_s\": null, \"client_cpu_s_per_gib\": null, "
	       "\"server_cpu_s_per_gib\": null, \"runs\": %u, \"ops\": %zu, \"rows\": %d, "
	       "\"ns_per_row\": %.6g, \"bytes_per_key\": %.6g, \"arena_bytes_per_key\": %.6g}\n",
	       name, measure_quantile(ns, count, 0.5) / 1e3, measure_quantile(ns, count, 0.99) / 1e3,
	       rounds, count, BATCH_KEYS, median / BATCH_KEYS,
	       (double)resident_bytes(bench) / keys, (double)bench->arena_bytes / keys);
	fflush(stdout);
	munmap(bench->core, bench->arena_bytes);
}

static uint32_t number(const char *text, uint32_t max)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || value == 0 || value > max)
		die("a number is out of range");
	return (uint32_t)value;
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {{"rounds", required_argument, NULL, 'r'},
	                                      {"steps", required_argument, NULL, 's'},
	                                      {0}};
	uint32_t rounds = 5, steps = 200;

	for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
		if (c == 'r')
			rounds = number(optarg, ROUNDS_MAX);
		else if (c == 's')
			steps = number(optarg, 1000000);
		else
			return 2;
	}
	for (int i = optind; i < argc; i++)
		run(number(argv[i], 10000000), rounds, steps);
	return 0;
}
