/* The client that is killed, stopped or held: one run over every operation, which notes what it
 * was told, and what of a call that is late cannot be laid to the library. */
#include "kill.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "failpoints.h"
#include "store_blob.h"

enum { GRACE_NS = 100000000, OPEN_TRIES = 20, PARK_TRIES = 40,
       TIER_TRIES = 20 };

static const struct kill_orders *orders;
static struct kill_log *journal;
static sy_client *client;
static sy_store *store;
static uint64_t next_version = 1;

static void fault(const char *what, const char *why)
{
	if (journal->fault[0] == 0)
		snprintf(journal->fault, sizeof journal->fault, "%s: %s", what, why);
}

/* --- Time that the process was not given: stopped (seen by a thread that wakes every 2 ms), or
 * ready and waiting for a processor, any thread of it. --- */

static uint64_t stopped_ns; /* atomic */

static void *watch_time(void *unused)
{
	const uint64_t nap_ns = 2000000, usual_ns = 5000000;
	uint64_t last_ns = sy_clock_now_ns();

	(void)unused;
	for (;;) {
		struct timespec nap = {0, (long)nap_ns};

		nanosleep(&nap, NULL);
		uint64_t now_ns = sy_clock_now_ns();
		if (now_ns - last_ns > usual_ns)
			__atomic_add_fetch(&stopped_ns, now_ns - last_ns, __ATOMIC_RELAXED);
		last_ns = now_ns;
	}
	return NULL;
}

static uint64_t waited_ns(void)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t sum = 0;

	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		char path[64 + sizeof entry->d_name];
		unsigned long long ran, waited;

		snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", entry->d_name);
		FILE *file = fopen(path, "r");
		if (file != NULL && fscanf(file, "%llu %llu", &ran, &waited) == 2)
			sum += waited;
		if (file != NULL)
			fclose(file);
	}
	if (dir != NULL)
		closedir(dir);
	return sum;
}

struct watch {
	const char *what;
	uint64_t begin_ns, stopped_ns, waited_ns, held_ns;
};

static struct watch begin(const char *what)
{
	snprintf(journal->doing, sizeof journal->doing, "%s", what);
	return (struct watch){what, sy_clock_now_ns(),
	                      __atomic_load_n(&stopped_ns, __ATOMIC_RELAXED), waited_ns(),
	                      sy_failpoint_held_ns()};
}

/* Notes how a call ended: its kind of error, and when. */
static void end(const struct watch *watch, sy_status status, const sy_error *err)
{
	uint64_t took_ns = sy_clock_now_ns() - watch->begin_ns;
	uint64_t excused_ns = __atomic_load_n(&stopped_ns, __ATOMIC_RELAXED) - watch->stopped_ns +
	                      sy_failpoint_held_ns() - watch->held_ns;
	uint64_t now_waited_ns = waited_ns();
	bool expected = status == SY_OK ||
	                (!orders->strict &&
	                 (status == SY_E_TIMEOUT || status == SY_E_TRANSFER_FAILED)) ||
	                (orders->may_lose && status == SY_E_LOST) ||
	                (orders->parks && status == SY_E_UNIT_FULL);
	char why[SY_ERROR_MESSAGE_BYTES + 64];

	/* The thread that sees stops may not have had its turn since. */
	if (took_ns > orders->timeout_ns + GRACE_NS + excused_ns) {
		const struct timespec pause = {0, 20000000};

		nanosleep(&pause, NULL);
		excused_ns = __atomic_load_n(&stopped_ns, __ATOMIC_RELAXED) - watch->stopped_ns +
		             sy_failpoint_held_ns() - watch->held_ns;
	}
	/* A thread that has ended takes its waits with it. */
	if (now_waited_ns > watch->waited_ns)
		excused_ns += now_waited_ns - watch->waited_ns;
	int64_t late_ns = (int64_t)took_ns - (int64_t)(orders->timeout_ns + excused_ns);
	journal->calls++;
	journal->errors += status != SY_OK;
	if (late_ns > journal->worst_late_ns)
		journal->worst_late_ns = late_ns;
	if (late_ns > GRACE_NS && journal->late[0] == 0)
		snprintf(journal->late, sizeof journal->late, "%s: %lld ms past its deadline",
		         watch->what, (long long)(late_ns / 1000000));
	if (!expected) {
		snprintf(why, sizeof why, "%s: %s", sy_status_name(status), err->message);
		fault(watch->what, why);
	}
}

/* --- What may be under a row. --- */

static void may_become(uint64_t row, uint64_t version)
{
	struct kill_row *known = &journal->rows[row - KILL_FIRST_ROW];

	if (known->count == KILL_MAYBE) {
		fault("the test", "too many versions of a row");
		return;
	}
	known->maybe[known->count] = version;
	__atomic_store_n(&known->count, known->count + 1, __ATOMIC_RELEASE);
}

/* The newest is it. Its place first, so that the list is true at every instant. */
static void became(uint64_t row)
{
	struct kill_row *known = &journal->rows[row - KILL_FIRST_ROW];

	known->maybe[0] = known->maybe[known->count - 1];
	__atomic_store_n(&known->count, 1, __ATOMIC_RELEASE);
}

const char *kill_judge_row(const sy_result *result, size_t i, uint64_t row,
                           const struct kill_row *known, bool may_be_absent)
{
	sy_value a, b;
	bool has_a = sy_result_value(result, 2 * i, &a);
	bool has_b = sy_result_value(result, 2 * i + 1, &b);
	uint64_t version = 0;

	if (has_a != has_b)
		return "one field of two that were put together";
	if (has_a) {
		version = kill_version(&a, row, 'a');
		if (version == UINT64_MAX || kill_version(&b, row, 'b') != version)
			return "bytes that nobody put";
	}
	if (!has_a && may_be_absent)
		return NULL;
	for (uint32_t k = 0; k < known->count; k++) {
		if (known->maybe[k] == version)
			return NULL;
	}
	return has_a ? "a version that was cleared or overwritten" : "a row that was put is absent";
}

static void keys_of(const uint64_t *rows, size_t count, sy_key *ret_keys)
{
	for (size_t i = 0; i < count; i++) {
		ret_keys[2 * i] = (sy_key){rows[i], "a", 1};
		ret_keys[2 * i + 1] = (sy_key){rows[i], "b", 1};
	}
}

static void put(const char *what, const uint64_t *rows, size_t count, size_t nbytes)
{
	static uint8_t bytes[2 * KILL_ROWS][KILL_LARGE];
	sy_key keys[2 * KILL_ROWS];
	sy_value values[2 * KILL_ROWS];
	uint64_t version = next_version++;
	sy_error err = {0};

	keys_of(rows, count, keys);
	for (size_t i = 0; i < 2 * count; i++) {
		size_t n = i % 2 == 0 ? KILL_SMALL : nbytes;

		kill_fill(bytes[i], n, rows[i / 2], i % 2 == 0 ? 'a' : 'b', version);
		values[i] = (sy_value){.data = bytes[i], .nbytes = n, .kind = SY_KIND_BYTES};
	}
	for (size_t i = 0; i < count; i++)
		may_become(rows[i], version);
	struct watch watch = begin(what);
	sy_status status = sy_client_put(client, keys, values, 2 * count, 0, &err);
	end(&watch, status, &err);
	for (size_t i = 0; status == SY_OK && i < count; i++)
		became(rows[i]);
}

static void clear(const uint64_t *rows, size_t count)
{
	sy_error err = {0};

	for (size_t i = 0; i < count; i++)
		may_become(rows[i], 0);
	struct watch watch = begin("clear");
	sy_status status = sy_client_clear(client, rows, count, NULL, 0, 0, NULL, &err);
	end(&watch, status, &err);
	for (size_t i = 0; status == SY_OK && i < count; i++)
		became(rows[i]);
}

static void judge(const char *what, const sy_result *result, const uint64_t *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const char *why = kill_judge_row(result, i, rows[i],
		                                 &journal->rows[rows[i] - KILL_FIRST_ROW],
		                                 orders->may_lose);
		if (why != NULL)
			fault(what, why);
	}
}

static sy_result *get(const uint64_t *rows, size_t count, int flags)
{
	const char *what = flags == SY_GET_VIEW ? "view" : "get";
	sy_key keys[2 * KILL_ROWS];
	sy_result *result = NULL;
	sy_error err = {0};

	keys_of(rows, count, keys);
	struct watch watch = begin(what);
	sy_status status = sy_client_get(client, keys, 2 * count, flags, 0, &result, &err);
	end(&watch, status, &err);
	if (status != SY_OK)
		return NULL;
	judge(what, result, rows, count);
	return result;
}

/* What a view shows stays, whatever becomes of its rows. */
static void hold_a_view(const uint64_t *rows)
{
	sy_result *view = get(rows, 4, SY_GET_VIEW);
	uint64_t before[4][2];

	for (size_t i = 0; view != NULL && i < 8; i++) {
		sy_value value;

		before[i / 2][i % 2] = sy_result_value(view, i, &value)
		                           ? kill_version(&value, rows[i / 2], i % 2 == 0 ? 'a' : 'b')
		                           : 0;
	}
	clear(rows, 2);
	put("put under a view", rows, 4, KILL_LARGE);
	for (size_t i = 0; view != NULL && i < 8; i++) {
		sy_value value;

		if (sy_result_value(view, i, &value) &&
		    kill_version(&value, rows[i / 2], i % 2 == 0 ? 'a' : 'b') != before[i / 2][i % 2])
			fault("view", "it changed");
	}
	sy_result_free(view);
}

static bool visit(void *context, const sy_scan_info *info)
{
	(void)context;
	(void)info;
	return true;
}

static void look_around(void)
{
	sy_unit_report reports[KILL_UNITS];
	sy_error err = {0};

	struct watch watch = begin("scan");
	sy_status status = sy_client_scan(client, 0, UINT64_MAX, visit, NULL, 0, &err);
	end(&watch, status, &err);
	watch = begin("reports");
	status = sy_client_reports(client, 0, reports, &err);
	end(&watch, status, &err);
	for (int u = 0; status == SY_OK && u < KILL_UNITS; u++) {
		uint64_t sum = 0;

		for (size_t i = 0; i < reports[u].byte_count; i++)
			sum += reports[u].bytes[i].value;
		if (reports[u].answered && sum != reports[u].capacity_bytes)
			fault("reports", "the bytes do not sum to the capacity");
	}
}

/* Blobs by hand: one that is right, and one whose index is not, which leads to an abort. */
static void use_the_store(void)
{
	static uint8_t bytes[KILL_LARGE], got[KILL_LARGE];
	struct store_blob good, bad;
	sy_key key = {KILL_HAND_ROW, "hand", 4};
	sy_unit_keys keys = {1, &key, 1};
	sy_unit_rows rows = {1, &(uint64_t){KILL_HAND_ROW}, 1};
	sy_resolved_keys *resolved = NULL;
	sy_located at;
	sy_error err = {0};

	store_blob_make(&good, 1, KILL_HAND_ROW, "hand", bytes, sizeof bytes);
	store_blob_make(&bad, 1, KILL_HAND_ROW + 2, "hand", bytes, sizeof bytes);
	bad.index[20] ^= 1;
	struct watch watch = begin("connect");
	end(&watch, sy_store_connect(store, 1, 0, &err), &err);
	watch = begin("put_segments");
	end(&watch, sy_store_put_segments(store, &good.blob, 0, &err), &err);
	watch = begin("put_segments of a bad index");
	sy_status status = sy_store_put_segments(store, &bad.blob, 0, &err);
	end(&watch, status == SY_E_TRANSFER_FAILED ? SY_OK : status, &err);
	if (status == SY_OK)
		fault("put_segments", "a bad index was taken");
	watch = begin("resolve_keys");
	status = sy_store_resolve_keys(store, &keys, 1, 0, &resolved, &err);
	end(&watch, status, &err);
	if (status == SY_OK && sy_resolved_at(resolved, 0, 0, &at) && at.found) {
		sy_read read = {1, at.slab_offset, at.nbytes, got};

		watch = begin("read_entries");
		status = sy_store_read_entries(store, &read, 1, 0, &err);
		/* The library itself gives back what is not read for a while. */
		end(&watch, status == SY_E_STALE_READ ? SY_OK : status, &err);
	}
	watch = begin("release_rows");
	end(&watch, sy_store_release_rows(store, &rows, 1, 0, &err), &err);
	if (!orders->abandon)
		sy_resolved_keys_free(resolved);
}

/* --- Requests that wait for room: a clear of many rows takes several steps, and while it runs
 * what does not fit waits for its end. --- */

struct one_put {
	pthread_t thread;
	uint64_t row, nbytes;
};

static uint64_t park_rows[KILL_MANY];

static void *clear_many(void *unused)
{
	sy_error err = {0};

	(void)unused;
	(void)sy_client_clear(client, park_rows, KILL_MANY, NULL, 0, 0, NULL, &err);
	return NULL;
}

static void *put_one(void *argument)
{
	static uint8_t bytes[KILL_SLAB_BYTES];
	const struct one_put *mine = argument;
	sy_key key = {mine->row, "room", 4};
	sy_value value = {.data = bytes, .nbytes = mine->nbytes, .kind = SY_KIND_BYTES};
	sy_error err = {0};

	(void)sy_client_put(client, &key, &value, 1, 0, &err);
	return NULL;
}

/* While the unit stands still all three requests come to its door, and are found together. */
static void want_room(void)
{
	static uint8_t cells[KILL_MANY * 100];
	sy_put_column column = {.field = "many", .field_bytes = 4, .kind = SY_KIND_BYTES,
	                        .data = cells, .row_bytes = 100, .stride_bytes = 100};
	struct one_put fits = {.row = KILL_WIDE_ROW, .nbytes = KILL_SLAB_BYTES * 3 / 4};
	struct one_put never = {.row = KILL_WIDE_ROW + 2, .nbytes = KILL_SLAB_BYTES - 8192};
	const struct timespec pause = {0, 4000000};
	const uint64_t big_rows[] = {fits.row, never.row};
	pthread_t clearing;
	sy_error err = {0};

	snprintf(journal->doing, sizeof journal->doing, "want room");
	for (size_t i = 0; i < KILL_MANY; i++)
		park_rows[i] = KILL_MANY_ROW + 2 * i;
	for (int i = 0; i < PARK_TRIES && sy_failpoint_waits(); i++) {
		(void)sy_client_put_columns(client, park_rows, KILL_MANY, &column, 1, 0, &err);
		kill(orders->units[0], SIGSTOP);
		pthread_create(&clearing, NULL, clear_many, NULL);
		nanosleep(&pause, NULL);
		pthread_create(&fits.thread, NULL, put_one, &fits);
		nanosleep(&pause, NULL);
		pthread_create(&never.thread, NULL, put_one, &never);
		nanosleep(&pause, NULL);
		kill(orders->units[0], SIGCONT);
		pthread_join(clearing, NULL);
		pthread_join(fits.thread, NULL);
		pthread_join(never.thread, NULL);
		struct watch watch = begin("clear");
		end(&watch, sy_client_clear(client, big_rows, 2, NULL, 0, 0, NULL, &err), &err);
	}
	(void)sy_client_clear(client, park_rows, KILL_MANY, NULL, 0, 0, NULL, &err);
}

/* Rows that stand on the units all the time; if they are right is not this client's to say. */
static void read_others(void)
{
	const uint64_t rows[] = {0, 1, 2, 3};
	sy_key keys[8];
	sy_result *result = NULL;
	sy_error err = {0};

	keys_of(rows, 4, keys);
	struct watch watch = begin("get of others' rows");
	end(&watch, sy_client_get(client, keys, 8, SY_GET_COPY, 0, &result, &err), &err);
	sy_result_free(result);
}

/* More than memory holds: what is read lies on disk, and other blobs go there for it. */
static void use_the_tier(const uint64_t *rows)
{
	for (size_t i = 0; i < KILL_ROWS; i += 4)
		put("put", rows + i, 4, KILL_LARGE);
	for (int i = 0; i < TIER_TRIES && sy_failpoint_waits(); i++) {
		for (size_t k = 0; k < KILL_ROWS; k += 4)
			sy_result_free(get(rows + k, 4, SY_GET_COPY));
		read_others();
	}
}

/* --- From open to close. --- */

static size_t entries_of(const char *path)
{
	DIR *dir = opendir(path);
	size_t count = 0;

	while (dir != NULL && readdir(dir) != NULL)
		count++;
	if (dir != NULL)
		closedir(dir);
	return count;
}

static bool maps_a_slab(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	while (file != NULL && fgets(line, sizeof line, file) != NULL)
		found = found || strstr(line, "/dev/shm/slabyard-") != NULL;
	if (file != NULL)
		fclose(file);
	return found;
}

static bool open_both(void)
{
	const uint64_t control_ns = 100000000;
	sy_client_options options = {.run_dir = orders->run_dir, .timeout_ns = orders->timeout_ns,
	                             .ssd = true, .control_timeout_ns = control_ns};
	sy_store_options store_options = {.run_dir = orders->run_dir, .ssd = true,
	                                  .timeout_ns = orders->timeout_ns,
	                                  .control_timeout_ns = control_ns};
	sy_error err = {0};

	for (int i = 0; i < OPEN_TRIES && client == NULL; i++) {
		struct watch watch = begin("open");
		end(&watch, sy_client_open(&options, &client, &err), &err);
	}
	for (int i = 0; i < OPEN_TRIES && store == NULL; i++) {
		struct watch watch = begin("open a store");
		end(&watch, sy_store_open(&store_options, &store, &err), &err);
	}
	return client != NULL && store != NULL;
}

static void use_the_client(void)
{
	uint64_t rows[KILL_ROWS];

	for (uint64_t i = 0; i < KILL_ROWS; i++)
		rows[i] = KILL_FIRST_ROW + i;
	sy_result_free(get(rows, KILL_ROWS, SY_GET_COPY)); /* the units tell what goes inline */
	put("put of small values", rows, 4, KILL_SMALL);
	put("put", rows + 4, 4, KILL_LARGE);
	put("overwrite", rows + 2, 4, KILL_LARGE);
	sy_result_free(get(rows, KILL_ROWS, SY_GET_COPY));
	clear(rows + 7, 1);
	put("put again", rows + 6, 2, KILL_LARGE);
	hold_a_view(rows + 4);
	look_around();
	put("put of small values", rows + 8, 4, KILL_SMALL);
	use_the_store();
	if (orders->parks)
		want_room();
	if (orders->tier)
		use_the_tier(rows);
	sy_result *view = get(rows, KILL_ROWS, SY_GET_VIEW);
	if (!orders->abandon)
		sy_result_free(view);
}

/* One that was joined may stand in /proc for a moment longer. */
static bool has_threads(size_t wanted)
{
	for (int i = 0; i < 1000000 && entries_of("/proc/self/task") != wanted; i++)
		sched_yield();
	return entries_of("/proc/self/task") == wanted;
}

int kill_victim(const struct kill_orders *given, struct kill_log *log)
{
	const uint64_t patience_ns = 4000000000u; /* a close waits for last notices, and lingers */
	pthread_t watcher;

	orders = given;
	journal = log;
	next_version = given->seed | 1;
	pthread_create(&watcher, NULL, watch_time, NULL);
	size_t fds = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
	if (!open_both())
		fault("open", "it never came to it");
	else
		use_the_client();
	if (orders->abandon)
		_exit(journal->fault[0] != 0);
	struct watch watch = begin("close");
	watch.held_ns -= patience_ns;
	sy_client_close(client);
	sy_store_close(store);
	end(&watch, SY_OK, NULL);
	if (entries_of("/proc/self/fd") != fds)
		fault("close", "a descriptor is left");
	if (!has_threads(threads))
		fault("close", "a thread is left");
	if (maps_a_slab())
		fault("close", "a slab is still mapped");
	return journal->fault[0] != 0;
}
