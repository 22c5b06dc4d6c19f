/* What the tests of the disk tier share: a unit with one, rows of two fields whose values say what
 * they are, and what became of them. */
#ifndef SY_TEST_TIER_FIXTURE_H
#define SY_TEST_TIER_FIXTURE_H

#include "harness.h"

#include <dirent.h>
#include <slabyard/slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "cluster.h"
#include "crc32c.h"
#include "number_of.h"
#include "prng.h"

enum { TIER_HEAD_BYTES = 24, TIER_FIELDS = 2, TIER_VALUE_MAX = 2 << 20 };

/* What a row was found to be, if not its version (1 and up). */
static const uint64_t tier_absent = 0, tier_lost = UINT64_MAX - 1, tier_wrong = UINT64_MAX;
static const char *const tier_fields[TIER_FIELDS] = {"response", "mask"};

struct tier {
	struct cluster cluster;
	char dir[64];
	sy_client *client;
};

/* A directory for the units that are started from here on. */
static inline bool tier_make_dir(struct tier *tier, uint64_t disk_bytes)
{
	char bytes[32];
	snprintf(tier->dir, sizeof tier->dir, "/tmp/slabyard-test-tier-XXXXXX");
	snprintf(bytes, sizeof bytes, "%llu", (unsigned long long)disk_bytes);
	return mkdtemp(tier->dir) != NULL && setenv("TEST_SSD_DIR", tier->dir, 1) == 0 &&
	       setenv("TEST_SSD_BYTES", bytes, 1) == 0;
}

static inline int tier_segment_count(const struct tier *tier)
{
	DIR *dir = opendir(tier->dir);
	int count = 0;
	if (dir == NULL)
		return 0;
	for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
		count += strstr(entry->d_name, ".seg") != NULL;
	closedir(dir);
	return count;
}

/* False: units that are gone left files. */
static inline bool tier_remove_dir(const struct tier *tier)
{
	char command[128];
	int left = tier_segment_count(tier);
	snprintf(command, sizeof command, "rm -rf %s", tier->dir);
	return system(command) == 0 && left == 0;
}

static inline sy_client *tier_open(const struct tier *tier, uint64_t timeout_s)
{
	sy_error err = {0};
	sy_client *client = NULL;
	sy_client_options options = {.run_dir = tier->cluster.run_dir, .ssd = true,
	                             .timeout_ns = timeout_s * 1000000000u};
	if (sy_client_open(&options, &client, &err) != SY_OK)
		fail_msg("%s", err.message);
	return client;
}

/* row u64, version u64, checksums of the field's name and of the rest, u32 each, and a run of
 * numbers of all three. */
static inline void tier_make_value(uint64_t row, const char *field, uint64_t version,
                                   uint8_t *value, size_t nbytes)
{
	struct sy_prng prng;
	uint32_t name = sy_crc32c(0, field, strlen(field));
	sy_prng_seed(&prng, sy_mix64(row * 1000 + version) + name);
	for (size_t i = TIER_HEAD_BYTES; i < nbytes; i += 8)
		sy_store_u64(value + i, sy_prng_next(&prng));
	sy_store_u64(value, row);
	sy_store_u64(value + 8, version);
	sy_store_u32(value + 16, name);
	sy_store_u32(value + 20, sy_crc32c(0, value + TIER_HEAD_BYTES, nbytes - TIER_HEAD_BYTES));
}

/* The version it says it is of, if it is whole and of this row and field. */
static inline uint64_t tier_version_of(uint64_t row, const char *field, const sy_value *value,
                                       size_t nbytes)
{
	const uint8_t *bytes = value->data;
	if (value->nbytes != nbytes || sy_load_u64(bytes) != row ||
	    sy_load_u32(bytes + 16) != sy_crc32c(0, field, strlen(field)) ||
	    sy_load_u32(bytes + 20) !=
	            sy_crc32c(0, bytes + TIER_HEAD_BYTES, nbytes - TIER_HEAD_BYTES))
		return tier_wrong;
	return sy_load_u64(bytes + 8);
}

/* nbytes: of the row, its fields together. timeout_s 0: the client's. */
static inline sy_status tier_put(sy_client *client, uint64_t row, uint64_t version, size_t nbytes,
                                 uint64_t timeout_s, sy_error *err)
{
	static _Thread_local uint8_t bytes[TIER_VALUE_MAX];
	size_t part = nbytes / TIER_FIELDS;
	sy_key keys[TIER_FIELDS];
	sy_value values[TIER_FIELDS];
	assert_true(nbytes <= sizeof bytes);
	for (int i = 0; i < TIER_FIELDS; i++) {
		keys[i] = (sy_key){row, tier_fields[i], (uint32_t)strlen(tier_fields[i])};
		values[i] = (sy_value){.data = bytes + (size_t)i * part, .nbytes = part,
		                       .kind = SY_KIND_BYTES};
		tier_make_value(row, tier_fields[i], version, bytes + (size_t)i * part, part);
	}
	uint64_t deadline_ns = timeout_s != 0 ? sy_deadline_after(timeout_s * 1000000000u) : 0;
	return sy_client_put(client, keys, values, TIER_FIELDS, deadline_ns, err);
}

/* Its version, which all its fields must agree on, or one of the three above; a failure other than
 * that it is lost is printed. */
static inline uint64_t tier_get_told(sy_client *client, uint64_t row, size_t nbytes,
                                     sy_error *err)
{
	sy_result *result = NULL;
	sy_value value;
	uint64_t versions[TIER_FIELDS] = {0};
	sy_key keys[TIER_FIELDS];
	for (int i = 0; i < TIER_FIELDS; i++)
		keys[i] = (sy_key){row, tier_fields[i], (uint32_t)strlen(tier_fields[i])};
	sy_status status = sy_client_get(client, keys, TIER_FIELDS, SY_GET_COPY, 0, &result, err);
	if (status == SY_E_LOST)
		return tier_lost;
	if (status != SY_OK) {
		print_error("get of row %lu: %s\n", row, err->message);
		return tier_wrong;
	}
	for (size_t i = 0; i < TIER_FIELDS; i++) {
		if (sy_result_value(result, i, &value))
			versions[i] = tier_version_of(row, tier_fields[i], &value, nbytes / TIER_FIELDS);
	}
	sy_result_free(result);
	return versions[0] == versions[1] ? versions[0] : tier_wrong;
}

static inline uint64_t tier_get(sy_client *client, uint64_t row, size_t nbytes)
{
	sy_error err = {0};
	return tier_get_told(client, row, nbytes, &err);
}

/* One of the counts of `status`, asked for again where a busy host did not answer in its time. */
static inline uint64_t tier_count(sy_client *client, const char *name)
{
	sy_unit_report report = {0};
	sy_error err = {0};
	for (int i = 0; i < 20 && !report.answered; i++) {
		if (sy_client_reports(client, 0, &report, &err) != SY_OK)
			fail_msg("%s", err.message);
	}
	uint64_t number = number_of(&report, name);
	if (number == UINT64_MAX)
		fail_msg("no count %s", name);
	return number;
}

/* Until the unit neither writes nor reads its files. */
static inline void tier_wait_idle(sy_client *client)
{
	for (int i = 0; i < 1000 && tier_count(client, "ssd_running") > 0; i++)
		usleep(10000);
	assert_int_equal(tier_count(client, "ssd_running"), 0);
}

/* What is still being written or read goes when that is done. */
static inline void tier_expect_empty(sy_client *client)
{
	tier_wait_idle(client);
	assert_int_equal(tier_count(client, "ssd_free"), tier_count(client, "ssd_capacity"));
	assert_int_equal(tier_count(client, "entries"), 0);
}

/* All rows from 0 on, and what the unit then holds is nothing. */
static inline void tier_clear(sy_client *client, uint64_t count)
{
	uint64_t rows[2048];
	assert_true(count <= sizeof rows / sizeof rows[0]);
	for (uint64_t i = 0; i < count; i++)
		rows[i] = i;
	assert_int_equal(sy_client_clear(client, rows, count, NULL, 0, 0, NULL, NULL), SY_OK);
	tier_expect_empty(client);
}

#endif
