/* The store, line by line of the documented one, against a real cluster. */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cluster.h"
#include "store_blob.h"

enum { UNITS = 2, SLAB_BYTES = 4 << 20, BIG = 20000 };

static struct cluster cluster;
static sy_store *store;
static uint8_t data[BIG];

static int start(void **state)
{
	sy_error err = {0};
	sy_store_options options = {.run_dir = cluster.run_dir, .timeout_ns = 60000000000u};

	(void)state;
	for (int i = 0; i < BIG; i++)
		data[i] = (uint8_t)(i * 31);
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	if (sy_store_open(&options, &store, &err) != SY_OK) {
		print_error("%s\n", err.message);
		return -1;
	}
	return 0;
}

static int stop(void **state)
{
	(void)state;
	sy_store_close(store);
	cluster_stop(&cluster);
	return 0;
}

static void put(uint32_t unit_id, uint64_t row, const char *field, const void *bytes, uint64_t n)
{
	struct store_blob made;
	sy_error err = {0};

	store_blob_make(&made, unit_id, row, field, bytes, n);
	if (sy_store_put_segments(store, &made.blob, 0, &err) != SY_OK)
		fail_msg("%s", err.message);
	cluster.put_bytes += unit_id == 0 ? n : 0; /* unit 1 is replaced */
}

static void test_put_resolve_read_release(void **state)
{
	sy_key keys[] = {{7, "a", 1}, {7, "b", 1}, {8, "a", 1}};
	sy_unit_keys units[] = {{0, keys, 3}, {1, keys, 1}};
	uint64_t rows[] = {7, 8};
	sy_unit_rows both[] = {{0, rows, 2}, {1, rows, 2}};
	sy_resolved_keys *resolved;
	sy_located at[2];
	uint8_t got[2][BIG];
	sy_error err = {0};

	(void)state;
	put(0, 7, "a", data, BIG);
	put(1, 7, "a", data + 1, BIG - 1);
	assert_int_equal(sy_store_resolve_keys(store, units, 2, 0, &resolved, &err), SY_OK);
	assert_true(sy_resolved_at(resolved, 0, 0, &at[0]));
	assert_false(sy_resolved_at(resolved, 0, 1, &at[1]));
	assert_false(sy_resolved_at(resolved, 0, 2, &at[1]));
	assert_false(sy_resolved_at(resolved, 5, 0, &at[1]));
	assert_true(sy_resolved_at(resolved, 1, 0, &at[1]));
	assert_int_equal(at[0].nbytes, BIG);
	assert_int_equal(at[1].nbytes, BIG - 1);
	assert_true(sy_resolved_incarnation(resolved, 0) != sy_resolved_incarnation(resolved, 1));

	sy_read reads[] = {{0, at[0].slab_offset, BIG, got[0]},
	                   {1, at[1].slab_offset, BIG - 1, got[1]}};
	assert_int_equal(sy_store_read_entries(store, reads, 2, 0, &err), SY_OK);
	assert_memory_equal(got[0], data, BIG);
	assert_memory_equal(got[1], data + 1, BIG - 1);
	cluster.got_bytes += BIG;

	/* Pinned: a release does not take the bytes away from who holds them. */
	assert_int_equal(sy_store_release_rows(store, both, 2, 0, &err), SY_OK);
	memset(got[0], 0, BIG);
	assert_int_equal(sy_store_read_entries(store, reads, 1, 0, &err), SY_OK);
	assert_memory_equal(got[0], data, BIG);
	sy_resolved_keys_free(resolved);
	assert_int_equal(sy_store_read_entries(store, reads, 1, 0, &err), SY_E_STALE_READ);
	assert_int_equal(sy_store_release_rows(store, both, 2, 0, &err), SY_OK); /* idempotent */
}

static void test_reads_need_a_cover(void **state)
{
	sy_key key = {5, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 5;
	sy_unit_rows rows[] = {{0, &row, 1}};
	sy_resolved_keys *resolved;
	sy_located at;
	uint8_t got[BIG + 64];
	uint32_t index = 99;
	sy_error err = {.indexes = &index, .index_capacity = 1};

	(void)state;
	put(0, 5, "x", data, BIG);
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, NULL), SY_OK);
	assert_true(sy_resolved_at(resolved, 0, 0, &at));
	sy_read inside = {0, at.slab_offset + 100, 50, got};
	sy_read beyond[] = {inside, {0, at.slab_offset + 1, BIG, got}};
	sy_read before = {0, at.slab_offset - 1, 2, got};
	sy_read elsewhere = {1, at.slab_offset, 1, got};

	assert_int_equal(sy_store_read_entries(store, &inside, 1, 0, NULL), SY_OK);
	assert_memory_equal(got, data + 100, 50);
	assert_int_equal(sy_store_read_entries(store, beyond, 2, 0, &err), SY_E_STALE_READ);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(index, 1);
	assert_int_equal(sy_store_read_entries(store, &before, 1, 0, NULL), SY_E_STALE_READ);
	assert_int_equal(sy_store_read_entries(store, &elsewhere, 1, 0, NULL), SY_E_STALE_READ);
	sy_resolved_keys_free(resolved);
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, NULL), SY_OK);
}

/* A value whose bytes lie in registered memory, put from there and read back to there, beside a
 * part of it that goes elsewhere. */
static void test_registered_memory(void **state)
{
	enum { BYTES = 1 << 20, PART = 100 << 10 };
	sy_key key = {9, "r", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 9;
	sy_unit_rows rows[] = {{0, &row, 1}};
	sy_endpoint *endpoint;
	sy_store *other;
	sy_resolved_keys *resolved;
	sy_located at;
	struct store_blob made;
	uint8_t *memory = malloc(BYTES), *elsewhere = malloc(PART);
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_endpoint_open(&endpoint, &err), SY_OK);
	assert_int_equal(sy_endpoint_register(endpoint, memory, BYTES, &err), SY_OK);
	sy_store_options options = {.run_dir = cluster.run_dir, .timeout_ns = 60000000000u,
	                            .endpoint = endpoint};
	assert_int_equal(sy_store_open(&options, &other, &err), SY_OK);
	for (uint32_t turn = 0; turn < 4; turn++) {
		for (uint32_t i = 0; i < BYTES; i++)
			memory[i] = (uint8_t)(i * 7 + (i >> 12) + turn);
		store_blob_make(&made, 0, row, "r", memory, BYTES);
		if (sy_store_put_segments(other, &made.blob, 0, &err) != SY_OK)
			fail_msg("%s", err.message);
		assert_int_equal(sy_store_resolve_keys(other, units, 1, 0, &resolved, &err), SY_OK);
		assert_true(sy_resolved_at(resolved, 0, 0, &at));
		sy_read reads[] = {{0, at.slab_offset, BYTES, memory},
		                   {0, at.slab_offset + 5, PART, elsewhere}};
		memset(memory, 0, BYTES);
		if (sy_store_read_entries(other, reads, 2, 0, &err) != SY_OK)
			fail_msg("%s", err.message);
		for (uint32_t i = 0; i < BYTES; i++)
			assert_int_equal(memory[i], (uint8_t)(i * 7 + (i >> 12) + turn));
		assert_memory_equal(elsewhere, memory + 5, PART);
		sy_resolved_keys_free(resolved);
		assert_int_equal(sy_store_release_rows(other, rows, 1, 0, &err), SY_OK);
	}
	assert_int_equal(sy_endpoint_deregister(endpoint, memory, PART, &err), SY_E_INVALID);
	assert_int_equal(sy_endpoint_deregister(endpoint, memory, BYTES, &err), SY_OK);
	assert_int_equal(sy_endpoint_deregister(endpoint, memory, BYTES, &err), SY_E_INVALID);
	assert_int_equal(sy_endpoint_register(endpoint, NULL, BYTES, &err), SY_E_INVALID);
	sy_store_close(other);
	sy_endpoint_close(endpoint);
	free(memory);
	free(elsewhere);
}

static void test_put_many(void **state)
{
	enum { BLOBS = 9 };
	struct store_blob made[BLOBS];
	sy_store_blob blobs[BLOBS];
	uint64_t rows[BLOBS];
	sy_unit_rows all[] = {{0, rows, BLOBS}, {1, rows, BLOBS}};
	uint32_t failed[BLOBS];
	sy_error err = {.indexes = failed, .index_capacity = BLOBS};

	(void)state;
	for (uint32_t i = 0; i < BLOBS; i++) {
		rows[i] = 100 + i;
		store_blob_make(&made[i], i % 3 == 0 ? 0 : 1, rows[i], "m", data, BIG);
		blobs[i] = made[i].blob;
	}
	assert_int_equal(sy_store_put_many(store, blobs, BLOBS, 0, &err), SY_OK);
	/* The same again is the same: published already. */
	assert_int_equal(sy_store_put_many(store, blobs, BLOBS, 0, &err), SY_OK);

	/* One that cannot fit fails alone and is named. */
	store_blob_make(&made[4], 0, 104, "m", data, BIG);
	blobs[4] = made[4].blob;
	blobs[4].nbytes = SLAB_BYTES + 64;
	assert_int_equal(sy_store_put_many(store, blobs, BLOBS, 0, &err), SY_E_UNIT_FULL);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(failed[0], 4);
	assert_int_equal(sy_store_release_rows(store, all, 2, 0, NULL), SY_OK);
}

static void test_bad_index_is_refused(void **state)
{
	struct store_blob made;
	sy_key key = {60, "bad", 3};
	sy_unit_keys units[] = {{0, &key, 1}};
	sy_resolved_keys *resolved;
	sy_located at;
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < 64; i++) {
		store_blob_make(&made, 0, 60, "bad", data, BIG);
		made.index[i] ^= 0x5a;
		if (i >= 52) /* the header's last bytes are reserved and checked too */
			continue;
		sy_status status = sy_store_put_segments(store, &made.blob, 0, &err);
		assert_int_equal(status, SY_E_TRANSFER_FAILED);
	}
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, NULL), SY_OK);
	assert_false(sy_resolved_at(resolved, 0, 0, &at));
	sy_resolved_keys_free(resolved);
}

static void test_bad_calls(void **state)
{
	struct store_blob made;
	sy_key key = {1, "x", 1};
	sy_unit_keys units[] = {{UNITS, &key, 1}};
	sy_resolved_keys *resolved;
	bool published;
	sy_error err = {0};

	(void)state;
	store_blob_make(&made, UNITS, 1, "x", data, 10);
	assert_int_equal(sy_store_put_segments(store, &made.blob, 0, &err), SY_E_INVALID);
	store_blob_make(&made, 0, 1, "x", data, 10);
	made.segments[1].nbytes = 1000;
	assert_int_equal(sy_store_put_segments(store, &made.blob, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, &err), SY_E_LOST);
	assert_int_equal(sy_store_commit(store, 0, made.blob.blob_id, 0, &published, &err),
	                 SY_E_INVALID);
	assert_false(sy_store_unit_dead(store, 0, 0));
}

static void test_close_gives_pins_back(void **state)
{
	sy_store_options options = {.run_dir = cluster.run_dir};
	sy_client_options client_options = {.run_dir = cluster.run_dir};
	sy_key key = {77, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 77;
	sy_unit_rows rows[] = {{0, &row, 1}};
	sy_unit_report reports[UNITS];
	sy_resolved_keys *resolved;
	sy_store *other;
	sy_client *client;

	(void)state;
	put(0, 77, "x", data, BIG);
	assert_int_equal(sy_store_open(&options, &other, NULL), SY_OK);
	assert_int_equal(sy_store_resolve_keys(other, units, 1, 0, &resolved, NULL), SY_OK);
	sy_store_close(other);
	sy_resolved_keys_free(resolved);
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, NULL), SY_OK);
	assert_int_equal(sy_client_open(&client_options, &client, NULL), SY_OK);
	assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
	assert_int_equal(reports[0].bytes[0].value, reports[0].capacity_bytes);
	sy_client_close(client);
}

/* "ids are the keys": also where there is no such unit. */
static void test_keys_of_no_unit_are_named(void **state)
{
	sy_key keys[] = {{1, "x", 1}, {2, "x", 1}, {3, "x", 1}};
	sy_unit_keys units[] = {{0, keys, 1}, {UNITS + 5, keys, 3}, {1, keys, 1}};
	sy_resolved_keys *resolved = NULL;
	uint32_t indexes[8];
	sy_error err = {.indexes = indexes, .index_capacity = 8};

	(void)state;
	assert_int_equal(sy_store_resolve_keys(store, units, 3, 0, &resolved, &err), SY_E_LOST);
	assert_null(resolved);
	assert_int_equal(err.index_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(indexes[i], 1 + i);
}

/* The lock is held around each transfer, once at a time, and not when a call has returned. */
static struct {
	pthread_mutex_t mutex;
	int times;
	bool held;
} guard = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void take_lock(void *context)
{
	(void)context;
	pthread_mutex_lock(&guard.mutex);
	assert_false(guard.held);
	guard.held = true;
	guard.times++;
}

static void leave_lock(void *context)
{
	(void)context;
	assert_true(guard.held);
	guard.held = false;
	pthread_mutex_unlock(&guard.mutex);
}

static void test_lock_is_held_around_transfers(void **state)
{
	sy_store_options options = {.run_dir = cluster.run_dir, .lock = take_lock,
	                            .unlock = leave_lock};
	sy_key key = {21, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}, {1, &key, 1}};
	uint64_t row = 21;
	sy_unit_rows rows[] = {{0, &row, 1}, {1, &row, 1}};
	struct store_blob made[UNITS];
	sy_store_blob blobs[UNITS];
	sy_resolved_keys *resolved;
	sy_read reads[UNITS];
	static uint8_t got[UNITS][BIG];
	sy_store *locked;

	(void)state;
	options.unlock = NULL;
	assert_int_equal(sy_store_open(&options, &locked, NULL), SY_E_INVALID);
	options.unlock = leave_lock;
	assert_int_equal(sy_store_open(&options, &locked, NULL), SY_OK);
	for (uint32_t u = 0; u < UNITS; u++) {
		store_blob_make(&made[u], u, 21, "x", data, BIG);
		blobs[u] = made[u].blob;
	}
	assert_int_equal(sy_store_put_many(locked, blobs, UNITS, 0, NULL), SY_OK);
	assert_int_equal(guard.times, 2);
	assert_int_equal(sy_store_resolve_keys(locked, units, 2, 0, &resolved, NULL), SY_OK);
	for (uint32_t u = 0; u < UNITS; u++) {
		sy_located at;

		assert_true(sy_resolved_at(resolved, u, 0, &at));
		reads[u] = (sy_read){u, at.slab_offset, at.nbytes, got[u]};
	}
	assert_int_equal(guard.times, 2);
	assert_int_equal(sy_store_read_entries(locked, reads, 2, 0, NULL), SY_OK);
	assert_int_equal(guard.times, 4);
	assert_false(guard.held);
	sy_resolved_keys_free(resolved);
	assert_int_equal(sy_store_release_rows(locked, rows, 2, 0, NULL), SY_OK);
	sy_store_close(locked);
}

/* Too late: every read that was not made is named. */
static void test_late_reads_are_named(void **state)
{
	sy_key key = {23, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 23;
	sy_unit_rows rows[] = {{0, &row, 1}};
	sy_resolved_keys *resolved;
	sy_located at;
	uint8_t got[10];
	uint32_t indexes[3] = {9, 9, 9};
	sy_error err = {.indexes = indexes, .index_capacity = 3};

	(void)state;
	put(0, 23, "x", data, BIG);
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, NULL), SY_OK);
	assert_true(sy_resolved_at(resolved, 0, 0, &at));
	sy_read one = {0, at.slab_offset, 10, got}, reads[] = {one, one, one};
	assert_int_equal(sy_store_read_entries(store, reads, 3, 1, &err), SY_E_TIMEOUT);
	assert_int_equal(err.status, SY_E_TIMEOUT);
	assert_int_equal(err.index_count, 3);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(indexes[i], i);
	sy_resolved_keys_free(resolved);
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, NULL), SY_OK);
}

static void *free_all(void *resolves)
{
	sy_resolved_keys **all = resolves;

	for (int i = 0; i < 8; i++)
		sy_resolved_keys_free(all[i]);
	return NULL;
}

/* Whoever frees its resolves need not know that another thread closes the store. */
static void test_close_beside_frees(void **state)
{
	sy_store_options options = {.run_dir = cluster.run_dir};
	sy_key key = {25, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 25;
	sy_unit_rows rows[] = {{0, &row, 1}};

	(void)state;
	put(0, 25, "x", data, BIG);
	for (int round = 0; round < 30; round++) {
		sy_resolved_keys *resolves[8];
		pthread_t thread;
		sy_store *mine;

		assert_int_equal(sy_store_open(&options, &mine, NULL), SY_OK);
		for (int i = 0; i < 8; i++)
			assert_int_equal(sy_store_resolve_keys(mine, units, 1, 0, &resolves[i], NULL), SY_OK);
		assert_int_equal(pthread_create(&thread, NULL, free_all, resolves), 0);
		sy_store_close(mine);
		pthread_join(thread, NULL);
	}
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, NULL), SY_OK);
}

/* A unit dies and another takes its place: what is said of each, and which bytes are read. */
static void test_a_unit_is_replaced(void **state)
{
	sy_key key = {31, "x", 1};
	sy_unit_keys units[] = {{1, &key, 1}};
	uint64_t row = 31;
	sy_unit_rows rows[] = {{1, &row, 1}};
	sy_resolved_keys *before, *after, *none = NULL;
	sy_located at;
	struct store_blob made;
	static uint8_t got[BIG];
	uint32_t index = 9;
	sy_error err = {.indexes = &index, .index_capacity = 1};

	(void)state;
	put(1, 31, "x", data, BIG);
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &before, NULL), SY_OK);
	assert_true(sy_resolved_at(before, 0, 0, &at));
	sy_read read = {1, at.slab_offset, at.nbytes, got};
	assert_false(sy_store_unit_dead(store, 1, 0));
	cluster_kill(&cluster, 1, SIGKILL);

	/* Dead: the mapping still has the pinned bytes, which belong to no row any more. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sy_store_read_entries(store, &read, 1, 0, &err), SY_E_LOST);
		assert_int_equal(err.index_count, 1);
		assert_int_equal(index, 0);
		assert_string_equal(err.reason, "dead");
	}
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &none, &err), SY_E_LOST);
	assert_int_equal(err.index_count, 1);
	assert_int_equal(index, 0);
	assert_true(sy_store_unit_dead(store, 1, 0));
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, &err), SY_OK);
	store_blob_make(&made, 1, 31, "x", data + 1, BIG - 1);
	assert_int_equal(sy_store_put_segments(store, &made.blob, 0, &err), SY_E_TRANSFER_FAILED);
	assert_int_equal(err.index_count, 1);

	/* Replaced, and nothing asked of the new one yet: the one this store used is dead. */
	cluster_restart(&cluster, 1);
	assert_int_equal(sy_store_read_entries(store, &read, 1, 0, &err), SY_E_STALE_READ);
	assert_int_equal(sy_store_refresh_units(store, 0, NULL), SY_OK);
	assert_true(sy_store_unit_dead(store, 1, 0));
	put(1, 31, "x", data + 1, BIG - 1);
	assert_false(sy_store_unit_dead(store, 1, 0));
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &after, &err), SY_OK);
	assert_true(sy_resolved_incarnation(before, 0) != sy_resolved_incarnation(after, 0));
	/* The place of before may hold other bytes now: it is refused, though after may cover it. */
	assert_true(sy_resolved_at(after, 0, 0, &at));
	read = (sy_read){1, at.slab_offset, at.nbytes, got};
	assert_int_equal(sy_store_read_entries(store, &read, 1, 0, &err), SY_OK);
	assert_memory_equal(got, data + 1, BIG - 1);
	sy_resolved_keys_free(after);
	assert_int_equal(sy_store_read_entries(store, &read, 1, 0, &err), SY_E_STALE_READ);
	sy_resolved_keys_free(before);
	assert_int_equal(sy_store_release_rows(store, rows, 1, 0, &err), SY_OK);
}

/* Ends this process's connection to a unit; the unit lives. */
static void cut_connection(const char *name)
{
	size_t cut = 0;

	for (int fd = 3; fd < 1024; fd++) {
		struct sockaddr_un peer = {0};
		socklen_t bytes = sizeof peer - 1;

		if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0 ||
		    peer.sun_family != AF_UNIX || strstr(peer.sun_path, name) == NULL)
			continue;
		assert_int_equal(shutdown(fd, SHUT_RDWR), 0);
		cut++;
	}
	assert_int_equal(cut, 1);
}

/* An ended connection is no death: the directory says that the unit lives, and the pins stand. */
static void test_a_connection_that_was_cut(void **state)
{
	sy_key key = {41, "x", 1};
	sy_unit_keys units[] = {{0, &key, 1}};
	uint64_t row = 41;
	sy_unit_rows rows[] = {{0, &row, 1}};
	sy_resolved_keys *resolved;
	sy_located at;
	static uint8_t got[BIG];
	sy_error err = {0};

	(void)state;
	if (getenv("SLABYARD_TRANSPORT") != NULL)
		return; /* one of another host has none */
	put(0, 41, "x", data, BIG);
	assert_int_equal(sy_store_resolve_keys(store, units, 1, 0, &resolved, NULL), SY_OK);
	assert_true(sy_resolved_at(resolved, 0, 0, &at));
	sy_read read = {0, at.slab_offset, at.nbytes, got};
	cut_connection("unit-0.sock");
	for (int i = 0; i < 2; i++) {
		memset(got, 0, BIG);
		assert_int_equal(sy_store_read_entries(store, &read, 1, 0, &err), SY_OK);
		assert_memory_equal(got, data, BIG);
		assert_int_equal(sy_store_release_rows(store, rows, 1, 0, &err), SY_OK);
		for (uint64_t other = 43; other < 63; other += 2) /* its room is not given out */
			put(0, other, "x", data + 1, BIG - 1);
	}
	sy_resolved_keys_free(resolved);
	assert_int_equal(sy_store_read_entries(store, &read, 1, 0, &err), SY_E_STALE_READ);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_resolve_read_release),
		cmocka_unit_test(test_reads_need_a_cover),
		cmocka_unit_test(test_registered_memory),
		cmocka_unit_test(test_put_many),
		cmocka_unit_test(test_bad_index_is_refused),
		cmocka_unit_test(test_bad_calls),
		cmocka_unit_test(test_close_gives_pins_back),
		cmocka_unit_test(test_keys_of_no_unit_are_named),
		cmocka_unit_test(test_lock_is_held_around_transfers),
		cmocka_unit_test(test_late_reads_are_named),
		cmocka_unit_test(test_close_beside_frees),
		cmocka_unit_test(test_a_connection_that_was_cut),
		cmocka_unit_test(test_a_unit_is_replaced),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
