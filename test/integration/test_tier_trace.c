/* A real trace of a serving system against a unit with a disk tier: what a request asks for is
 * got, what is not there is put, and every byte that comes back is looked at. */
#include <time.h>

#include "sanitized.h"
#include "tier_fixture.h"

enum { BLOCK_BYTES = 64 << 10, IDS_MAX = 4096, BLOCKS_MAX = 1 << 20, CLEARED_MAX = 4096,
       SKIPPED = 77 };

/* Of a hundred requests so many write what they find anew. */
enum { OVERWRITE_PERCENT = 10 };

static const char *data_dir = "../shared/data";
static uint32_t request_count = SANITIZED ? 300 : 1000;

/* Of gets: those that the disk was not read for, and those that it was. */
enum where { MEMORY, DISK, WHERE_COUNT };

struct counts {
	uint64_t asked, put, overwritten, found[WHERE_COUNT];
	double get_s[WHERE_COUNT], put_s;
};

static uint64_t ids[IDS_MAX];
static uint32_t versions[BLOCKS_MAX]; /* of what was put last; 0: nothing was */

static void make_block(uint64_t id, uint32_t version, uint8_t *block)
{
	uint64_t seed = sy_mix64(id << 32 | version);
	for (size_t i = 0; i < BLOCK_BYTES; i += 8)
		sy_store_u64(block + i, sy_mix64(seed + i));
}

static FILE *open_trace(void)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/mooncake-trace/conversation_trace.jsonl", data_dir);
	return fopen(path, "r");
}

/* The distinct blocks of the next request; false: there is none. */
static bool next_request(FILE *trace, size_t *ret_count)
{
	static char line[1 << 18];
	size_t count = 0;
	if (fgets(line, sizeof line, trace) == NULL)
		return false;
	char *at = strstr(line, "\"hash_ids\": [");
	assert_non_null(at);
	at += strlen("\"hash_ids\": [");
	while (*at != ']' && count < IDS_MAX) {
		char *end = at;
		ids[count] = strtoull(at, &end, 10);
		assert_true(end != at && ids[count] < BLOCKS_MAX);
		count++;
		at = end + strspn(end, ", ");
	}
	*ret_count = count;
	return true;
}

static uint64_t footprint(void)
{
	FILE *trace = open_trace();
	uint64_t blocks = 0;
	size_t count = 0;
	for (uint32_t r = 0; r < request_count && next_request(trace, &count); r++) {
		for (size_t i = 0; i < count; i++) {
			blocks += versions[ids[i]] == 0;
			versions[ids[i]] = 1;
		}
	}
	fclose(trace);
	memset(versions, 0, sizeof versions);
	return blocks * BLOCK_BYTES;
}

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

enum { PART = 16 };

/* What a part of a request is to put: blocks that are not there, and new versions. */
struct batch {
	sy_key keys[PART];
	sy_value values[PART];
	uint8_t blocks[PART][BLOCK_BYTES];
	size_t count;
};

static void add_block(struct batch *batch, sy_key key)
{
	uint8_t *block = batch->blocks[batch->count];
	make_block(key.row, ++versions[key.row], block);
	batch->keys[batch->count] = key;
	batch->values[batch->count] =
		(sy_value){.data = block, .nbytes = BLOCK_BYTES, .kind = SY_KIND_BYTES};
	batch->count++;
}

static void put_batch(sy_client *client, const struct batch *batch, struct counts *counts)
{
	sy_error err = {0};
	double start_s = now_s();
	if (batch->count > 0 && sy_client_put(client, batch->keys, batch->values, batch->count, 0,
	                                      &err) != SY_OK)
		fail_msg("put: %s", err.message);
	counts->put_s += now_s() - start_s;
	counts->put += batch->count;
}

/* A few blocks at a time, so that no request needs all of the slab. */
static void run_part(sy_client *client, const uint64_t *part, size_t count, bool overwrites,
                     struct counts *counts)
{
	static struct batch batch;
	static uint8_t right[BLOCK_BYTES];
	sy_key keys[PART];
	sy_value value;
	sy_result *result = NULL;
	sy_error err = {0};
	batch.count = 0;
	for (size_t i = 0; i < count; i++)
		keys[i] = (sy_key){part[i], "kv", 2};
	uint64_t loads = tier_count(client, "ssd_loads"), found_count = 0;
	double start_s = now_s();
	if (sy_client_get(client, keys, count, SY_GET_COPY, 0, &result, &err) != SY_OK)
		fail_msg("get: %s", err.message);
	double took_s = now_s() - start_s;
	loads = tier_count(client, "ssd_loads") - loads;
	for (size_t i = 0; i < count; i++) {
		bool found = sy_result_value(result, i, &value);
		assert_int_equal(found, versions[part[i]] > 0);
		if (found) {
			make_block(part[i], versions[part[i]], right);
			assert_int_equal(value.nbytes, BLOCK_BYTES);
			assert_memory_equal(value.data, right, BLOCK_BYTES);
		}
		found_count += found;
		counts->overwritten += found && overwrites;
	}
	sy_result_free(result);
	for (size_t i = 0; i < count; i++) {
		if (overwrites || versions[part[i]] == 0)
			add_block(&batch, keys[i]);
	}
	enum where where = loads > 0 ? DISK : MEMORY;
	counts->get_s[where] += took_s;
	counts->found[where] += found_count;
	counts->asked += count;
	put_batch(client, &batch, counts);
}

static void print_counts(sy_client *client, const struct counts *counts)
{
	static const char *const names[WHERE_COUNT] = {"gets without the disk", "gets that read it"};
	for (int i = 0; i < WHERE_COUNT; i++)
		print_message("%s: %.1f %% of %lu blocks, at %.2f GB/s\n", names[i],
		              100.0 * (double)counts->found[i] / (double)counts->asked, counts->asked,
		              (double)counts->found[i] * BLOCK_BYTES / 1e9 / counts->get_s[i]);
	print_message("%lu of them overwritten\n", counts->overwritten);
	print_message("put: %.1f %%, at %.2f GB/s; the disk read %.2f GB and wrote %.2f GB\n",
	              100.0 * (double)counts->put / (double)counts->asked,
	              (double)counts->put * BLOCK_BYTES / 1e9 / counts->put_s,
	              (double)tier_count(client, "ssd_read_bytes") / 1e9,
	              (double)tier_count(client, "ssd_written_bytes") / 1e9);
}

/* Nothing of what was put is left, in memory or on disk. */
static void clear_all(sy_client *client)
{
	static uint64_t rows[CLEARED_MAX];
	size_t count = 0;
	for (uint64_t id = 0; id < BLOCKS_MAX; id++) {
		if (versions[id] > 0)
			rows[count++] = id;
		if (count < CLEARED_MAX && id + 1 < BLOCKS_MAX)
			continue;
		assert_int_equal(sy_client_clear(client, rows, count, NULL, 0, 0, NULL, NULL), SY_OK);
		count = 0;
	}
	tier_expect_empty(client);
}

static void test_replay(void **state)
{
	const struct tier *tier = *state;
	sy_client *client = tier_open(tier, 100);
	struct counts counts = {0};
	size_t count = 0;
	FILE *trace = open_trace();
	for (uint32_t r = 0; r < request_count && next_request(trace, &count); r++) {
		bool overwrites = sy_mix64(r) % 100 < OVERWRITE_PERCENT;
		for (size_t at = 0; at < count; at += PART)
			run_part(client, ids + at, count - at < PART ? count - at : PART, overwrites,
			         &counts);
	}
	fclose(trace);
	print_counts(client, &counts);
	assert_true(counts.found[DISK] > 0);
	assert_true(counts.overwritten > 0);
	assert_int_equal(tier_count(client, "ssd_lost_blobs"), 0);
	clear_all(client);
	sy_client_close(client);
}

int main(int argc, char **argv)
{
	static struct tier tier;
	cluster_main(argc, argv);
	if (argc > 1)
		data_dir = argv[1];
	if (getenv("SLABYARD_DATA") != NULL)
		data_dir = getenv("SLABYARD_DATA");
	if (getenv("TEST_REQUESTS") != NULL)
		request_count = (uint32_t)strtoul(getenv("TEST_REQUESTS"), NULL, 10);
	FILE *trace = open_trace();
	if (trace == NULL) {
		puts("no shared data");
		return SKIPPED;
	}
	fclose(trace);
	uint64_t footprint_bytes = footprint();
	if (!tier_make_dir(&tier, footprint_bytes * 5 / 4))
		return 1;
	cluster_start(&tier.cluster, 1, footprint_bytes / 10 / 4096 * 4096, false);
	const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_replay, &tier)};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	cluster_stop(&tier.cluster);
	return tier_remove_dir(&tier) ? failed : 1;
}
