/* Records on disk: what was packed comes back whole and in parts, and nothing else passes. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#include "prng.h"
#include "tier_record.h"

enum { BLOB_MAX = 40000, BLOCK = SY_RECORD_BLOCK_BYTES };

static uint8_t blob[BLOB_MAX], part[BLOB_MAX], blocks[BLOB_MAX * 2];

static struct sy_disk_job job_of(uint64_t nbytes)
{
	struct sy_disk_job job = {.generation = 7, .incarnation = 9, .nbytes = nbytes,
	                          .record_nbytes = nbytes, .ns_bytes = 5, .ns = "train"};
	memset(job.blob_id.bytes, 3, sizeof job.blob_id.bytes);
	return job;
}

static uint64_t pack(const struct sy_disk_job *job)
{
	uint64_t first, count;
	sy_record_span(job, &first, &count);
	assert_int_equal(first, 0);
	assert_int_equal(count * BLOCK, sy_record_bytes(job->nbytes));
	/* In two parts, as it is written. */
	sy_record_pack(job, blob, 0, count / 2, blocks);
	sy_record_pack(job, blob, count / 2, count - count / 2, blocks + count / 2 * BLOCK);
	return count;
}

static bool unpack(const struct sy_disk_job *whole, uint64_t from, uint64_t nbytes)
{
	struct sy_disk_job job = *whole;
	uint64_t first, count;
	job.reads = true;
	job.skip = from;
	job.nbytes = nbytes;
	sy_record_span(&job, &first, &count);
	memset(part, 0xee, sizeof part);
	return sy_record_unpack(&job, blocks + first * BLOCK, first, count, part);
}

static void test_parts(void **state)
{
	struct sy_prng prng;
	(void)state;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 300; i++) {
		uint64_t nbytes = 1 + sy_prng_below(&prng, BLOB_MAX - 1);
		for (uint64_t k = 0; k < nbytes; k++)
			blob[k] = (uint8_t)sy_prng_below(&prng, 256);
		struct sy_disk_job job = job_of(nbytes);
		pack(&job);
		uint64_t from = sy_prng_below(&prng, nbytes);
		uint64_t some = 1 + sy_prng_below(&prng, nbytes - from);
		assert_true(unpack(&job, 0, nbytes));
		assert_memory_equal(part, blob, nbytes);
		assert_true(unpack(&job, from, some));
		assert_memory_equal(part, blob + from, some);
		assert_int_equal(part[some], 0xee);
	}
}

static void test_nothing_else_passes(void **state)
{
	struct sy_prng prng;
	(void)state;
	sy_prng_seed(&prng, harness_seed());
	struct sy_disk_job job = job_of(20000), other = job;
	uint64_t count = pack(&job);
	for (int i = 0; i < 2000; i++) {
		uint64_t at = sy_prng_below(&prng, count * BLOCK);
		uint8_t bit = (uint8_t)(1 << sy_prng_below(&prng, 8));
		blocks[at] ^= bit;
		assert_false(unpack(&job, 0, 20000));
		blocks[at] ^= bit;
	}
	assert_true(unpack(&job, 0, 20000));
	other.generation++;
	assert_false(unpack(&other, 0, 20000));
	other = job;
	other.incarnation++;
	assert_false(unpack(&other, 0, 20000));
	/* A block in another's place, and one never written. */
	memcpy(blocks + BLOCK, blocks, BLOCK);
	assert_false(unpack(&job, 0, 20000));
	memset(blocks + BLOCK, 0, BLOCK);
	assert_false(unpack(&job, 0, 20000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_nothing_else_passes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
