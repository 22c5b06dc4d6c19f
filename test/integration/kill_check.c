#include "kill_check.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum { RESIDENTS = 4, TEXT_BYTES = SY_ERROR_MESSAGE_BYTES + 128, SCRATCH_ROW = 50, LIMIT_S = 20 };

static const uint64_t SECOND_NS = 1000000000u;

static struct cluster *cluster;
static sy_client *client;
static char wrong[TEXT_BYTES], first_wrong[TEXT_BYTES];

/* How a unit is when nobody but this client is there. */
static struct usual {
	uint64_t rows, entries, blobs, sessions, free_bytes;
	size_t fds, threads;
} usual[KILL_UNITS];
static size_t usual_files;
static struct { size_t fds, threads; } usual_directory;
static const char *ssd_dir; /* NULL: no disk tier */

static const uint64_t residents[RESIDENTS] = {0, 1, 2, 3};
static const struct kill_row resident_row = {.maybe = {7}, .count = 1};

static const char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(wrong, sizeof wrong, format, args);
	va_end(args);
	return wrong;
}

static sy_status put_rows(const uint64_t *rows, size_t count, uint64_t version, uint64_t end_ns,
                          sy_error *err)
{
	static uint8_t bytes[2 * RESIDENTS][KILL_LARGE];
	sy_key keys[2 * RESIDENTS];
	sy_value values[2 * RESIDENTS];

	for (size_t i = 0; i < 2 * count; i++) {
		char field = i % 2 == 0 ? 'a' : 'b';
		size_t nbytes = field == 'a' ? KILL_SMALL : KILL_LARGE;

		kill_fill(bytes[i], nbytes, rows[i / 2], field, version);
		keys[i] = (sy_key){rows[i / 2], field == 'a' ? "a" : "b", 1};
		values[i] = (sy_value){.data = bytes[i], .nbytes = nbytes, .kind = SY_KIND_BYTES};
	}
	return sy_client_put(client, keys, values, 2 * count, end_ns, err);
}

static sy_status get_row(uint64_t row, uint64_t end_ns, sy_result **ret_result, sy_error *err)
{
	sy_key keys[] = {{row, "a", 1}, {row, "b", 1}};

	return sy_client_get(client, keys, 2, SY_GET_COPY, end_ns, ret_result, err);
}

/* Reads one row and says what is wrong with it. */
static const char *judge(uint64_t row, const struct kill_row *known, bool may_be_absent)
{
	sy_result *result = NULL;
	sy_error err = {0};
	sy_status status = get_row(row, 0, &result, &err);

	/* Once: of the incarnation that this client knew. Its successor has not the row. */
	if (status == SY_E_LOST && may_be_absent)
		status = get_row(row, 0, &result, &err);
	if (status != SY_OK)
		return say("get of row %llu: %s: %s", (unsigned long long)row, sy_status_name(status),
		           err.message);
	const char *why = kill_judge_row(result, 0, row, known, may_be_absent);
	sy_result_free(result);
	return why != NULL ? say("row %llu: %s", (unsigned long long)row, why) : NULL;
}

const char *kill_check_others(uint32_t ill, enum kill_ill how)
{
	const uint64_t moment_ns = 100000000;
	sy_error err = {0};

	for (uint64_t row = SCRATCH_ROW; row < SCRATCH_ROW + KILL_UNITS; row++) {
		struct kill_row known = {.maybe = {row}, .count = 1};

		if (row % KILL_UNITS == ill)
			continue;
		if (put_rows(&row, 1, row, 0, &err) != SY_OK)
			return say("put on unit %u: %s", (unsigned)(row % KILL_UNITS), err.message);
		const char *why = judge(row, &known, false);
		if (why != NULL)
			return why;
		if (sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, &err) != SY_OK)
			return say("clear on unit %u: %s", (unsigned)(row % KILL_UNITS), err.message);
	}
	if (ill == KILL_UNITS)
		return NULL;
	sy_result *result = NULL;
	sy_status status = get_row(ill, sy_deadline_after(moment_ns), &result, &err);
	sy_result_free(result);
	/* Not lost before the directory says so; and it may be too busy to say so in this time. */
	bool may_be = status == SY_E_TIMEOUT || status == SY_E_TRANSFER_FAILED ||
	              (status == SY_OK && how != KILL_ILL_DEAD) ||
	              (status == SY_E_LOST && how != KILL_ILL_LIVES);
	if (!may_be)
		return say("a get from the ill unit: %s: %s", sy_status_name(status), err.message);
	return NULL;
}

static size_t entries_of(const char *format, pid_t pid)
{
	char path[64];
	size_t count = 0;

	snprintf(path, sizeof path, format, (int)pid);
	DIR *dir = opendir(path);
	while (dir != NULL && readdir(dir) != NULL)
		count++;
	if (dir != NULL)
		closedir(dir);
	return count;
}

/* Its own: of io_uring the system may have some of its own in the process, for as long as it
 * likes. */
static size_t threads_of(pid_t pid)
{
	char path[64], name[32];
	size_t count = 0;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		char comm[sizeof path + sizeof entry->d_name + 8];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(comm, sizeof comm, "%s/%s/comm", path, entry->d_name);
		FILE *file = fopen(comm, "re");
		bool named = file != NULL && fgets(name, sizeof name, file) != NULL;
		if (file != NULL)
			fclose(file);
		count += named && strncmp(name, "iou-", 4) != 0;
	}
	if (dir != NULL)
		closedir(dir);
	return count;
}

static size_t run_files(void)
{
	DIR *dir = opendir(cluster->run_dir);
	size_t count = 0;

	while (dir != NULL && readdir(dir) != NULL)
		count++;
	if (dir != NULL)
		closedir(dir);
	return count;
}

/* Of a disk tier: a segment's descriptor stays open from its first use on. */
static size_t open_segments(pid_t pid)
{
	char path[64], target[512];
	size_t count = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		ssize_t length = readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1);

		target[length > 0 ? length : 0] = 0;
		count += strstr(target, ".seg") != NULL;
	}
	if (dir != NULL)
		closedir(dir);
	return count;
}

/* The file of the slab that this process maps; NULL: none. */
static const char *slab_of(pid_t pid, char *ret_path, size_t path_bytes)
{
	char path[64], line[512];
	const char *found = NULL;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	FILE *file = fopen(path, "r");
	while (file != NULL && found == NULL && fgets(line, sizeof line, file) != NULL) {
		char *name = strstr(line, "/dev/shm/slabyard-");

		if (name == NULL)
			continue;
		name[strcspn(name, "\n")] = 0;
		snprintf(ret_path, path_bytes, "%s", name);
		found = ret_path;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

static uint64_t number(const sy_stat *stats, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].value;
	}
	return UINT64_MAX;
}

static struct usual usual_of(const sy_unit_report *report)
{
	pid_t pid = cluster->units[report->unit_id];

	return (struct usual){
		.rows = number(report->counts, report->count_count, "rows"),
		.entries = number(report->counts, report->count_count, "entries"),
		.blobs = number(report->counts, report->count_count, "blobs"),
		.sessions = number(report->counts, report->count_count, "sessions"),
		.free_bytes = number(report->bytes, report->byte_count, "free"),
		.fds = entries_of("/proc/%d/fd", pid) - open_segments(pid),
		.threads = threads_of(pid),
	};
}

static const char *differs(const sy_unit_report *report)
{
	static const char *const none[] = {"pins", "reservations", "parked", "ssd_queued",
	                                   "ssd_running", "ssd_on_disk", "ssd_writing",
	                                   "ssd_leaving"};
	static const char *const no_bytes[] = {"allocated", "committing", "demoting", "released",
	                                       "retired", "quarantined", "loading"};
	const struct usual *was = &usual[report->unit_id];
	uint64_t sum = 0;

	if (!report->answered)
		return say("unit %u does not answer: %s", report->unit_id, report->message);
	for (size_t i = 0; i < report->byte_count; i++)
		sum += report->bytes[i].value;
	if (sum != report->capacity_bytes)
		return say("unit %u: the bytes do not sum to the capacity", report->unit_id);
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
		if (number(report->counts, report->count_count, none[i]) != 0)
			return say("unit %u: %s are left", report->unit_id, none[i]);
	}
	for (size_t i = 0; i < sizeof no_bytes / sizeof no_bytes[0]; i++) {
		if (number(report->bytes, report->byte_count, no_bytes[i]) != 0)
			return say("unit %u: bytes are left %s", report->unit_id, no_bytes[i]);
	}
	struct usual now = usual_of(report);
	if (now.rows != was->rows || now.entries != was->entries || now.blobs != was->blobs ||
	    now.free_bytes != was->free_bytes)
		return say("unit %u: %llu rows, %llu blobs; %llu and %llu before", report->unit_id,
		           (unsigned long long)now.rows, (unsigned long long)now.blobs,
		           (unsigned long long)was->rows, (unsigned long long)was->blobs);
	if (now.sessions != was->sessions)
		return say("unit %u: %llu sessions, %llu before", report->unit_id,
		           (unsigned long long)now.sessions, (unsigned long long)was->sessions);
	/* One that was just started may not have opened all it will. */
	if (now.fds > was->fds || now.threads > was->threads)
		return say("unit %u: %zu descriptors and %zu threads, %zu and %zu before",
		           report->unit_id, now.fds, now.threads, was->fds, was->threads);
	return NULL;
}

/* Who has answered and stored anything still knows it, and nothing is left of those that asked. */
static const char *directory_differs(const sy_unit_report *reports)
{
	size_t fds = entries_of("/proc/%d/fd", cluster->server), threads = threads_of(cluster->server);

	for (uint32_t u = 0; u < KILL_UNITS; u++) {
		if (strcmp(reports[u].state, "active") != 0 ||
		    reports[u].pid != (uint64_t)cluster->units[u])
			return say("the directory has unit %u as process %llu, %s", u,
			           (unsigned long long)reports[u].pid, reports[u].state);
	}
	if (fds > usual_directory.fds || threads > usual_directory.threads)
		return say("the directory: %zu descriptors and %zu threads, %zu and %zu before", fds,
		           threads, usual_directory.fds, usual_directory.threads);
	return NULL;
}

/* What was given back may still travel: asked until it is as usual, for a while. */
static const char *settle(void)
{
	const struct timespec pause = {0, 2000000};
	uint64_t end_ns = sy_clock_now_ns() + LIMIT_S * SECOND_NS;
	sy_unit_report reports[KILL_UNITS];
	const char *why = "";
	sy_error err = {0};

	while (why != NULL && sy_clock_now_ns() < end_ns) {
		if (sy_client_reports(client, 0, reports, &err) != SY_OK)
			return say("reports: %s", err.message);
		why = NULL;
		for (uint32_t u = 0; u < KILL_UNITS && why == NULL; u++)
			why = differs(&reports[u]);
		if (why == NULL)
			why = directory_differs(reports);
		if (why == NULL && run_files() != usual_files)
			why = say("%zu files in the run directory, %zu before", run_files(), usual_files);
		if (why != NULL)
			nanosleep(&pause, NULL);
	}
	return why;
}

/* Of a disk tier: what a unit that died left there its successor removes. One segment each. */
static const char *check_segments(void)
{
	DIR *dir = opendir(ssd_dir);
	uint32_t counts[KILL_UNITS] = {0};

	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		unsigned unit = KILL_UNITS;

		if (strstr(entry->d_name, ".seg") != NULL &&
		    sscanf(entry->d_name, "slabyard-%u-", &unit) == 1 && unit < KILL_UNITS)
			counts[unit]++;
	}
	if (dir != NULL)
		closedir(dir);
	for (uint32_t u = 0; u < KILL_UNITS; u++) {
		if (counts[u] > 1)
			return say("unit %u has %u segments on disk", u, counts[u]);
	}
	return NULL;
}

/* A unit that died left its slab to its successor. */
static char slabs[KILL_UNITS][128];

static const char *check_slabs(const bool *died)
{
	for (uint32_t u = 0; u < KILL_UNITS; u++) {
		char now[128];

		if (slab_of(cluster->units[u], now, sizeof now) == NULL)
			return say("unit %u maps no slab", u);
		if (died[u] && access(slabs[u], F_OK) == 0)
			return say("unit %u left %s", u, slabs[u]);
		if (died[u] == (strcmp(now, slabs[u]) == 0))
			return say("unit %u has another slab than it should", u);
		memcpy(slabs[u], now, sizeof now);
	}
	return NULL;
}

/* The rows of this client on a unit that is another now are gone, and are put anew. */
static const char *put_residents(void)
{
	sy_error err = {0};

	if (put_rows(residents, RESIDENTS, resident_row.maybe[0], 0, &err) != SY_OK)
		return say("put after a death: %s", err.message);
	return NULL;
}

/* What the victim put under numbers of its own, too: by hand, and in want of room. With a disk
 * tier also this client's rows: they may be there, and what is usual is told of memory alone. */
static const char *clear_all(const uint64_t *rows)
{
	static uint64_t many[KILL_MANY];
	const char *by_hand = "hand", *room = "room";
	uint64_t hand[] = {KILL_HAND_ROW, KILL_HAND_ROW + 2};
	uint64_t wide[] = {KILL_WIDE_ROW, KILL_WIDE_ROW + 2};
	sy_error err = {0};

	for (uint64_t i = 0; i < KILL_MANY; i++)
		many[i] = KILL_MANY_ROW + 2 * i;
	if (sy_client_clear(client, rows, KILL_ROWS, NULL, 0, 0, NULL, &err) != SY_OK ||
	    sy_client_clear(client, hand, 2, &by_hand, 1, 0, NULL, &err) != SY_OK ||
	    sy_client_clear(client, wide, 2, &room, 1, 0, NULL, &err) != SY_OK ||
	    sy_client_clear(client, many, KILL_MANY, NULL, 0, 0, NULL, &err) != SY_OK ||
	    (ssd_dir != NULL &&
	     sy_client_clear(client, residents, RESIDENTS, NULL, 0, 0, NULL, &err) != SY_OK))
		return say("clear: %s", err.message);
	return NULL;
}

const char *kill_check_after(const struct kill_log *log, const bool *died)
{
	uint64_t rows[KILL_ROWS];
	const char *why = NULL;

	for (uint64_t i = 0; i < KILL_ROWS; i++)
		rows[i] = KILL_FIRST_ROW + i;
	for (uint64_t i = 0; i < KILL_ROWS && why == NULL; i++)
		why = judge(rows[i], &log->rows[i], died[rows[i] % KILL_UNITS]);
	for (size_t i = 0; i < RESIDENTS && why == NULL; i++)
		why = judge(residents[i], &resident_row, died[residents[i] % KILL_UNITS]);
	if (why == NULL)
		why = check_slabs(died);
	if (why == NULL && ssd_dir != NULL)
		why = check_segments();
	snprintf(first_wrong, sizeof first_wrong, "%s", why != NULL ? why : "");
	/* The next fault begins with all in order, whatever this one left. */
	const char *also = clear_all(rows);
	if (also == NULL && ssd_dir == NULL && (why != NULL || died[0] || died[1]))
		also = put_residents();
	if (also == NULL)
		also = settle();
	if (ssd_dir != NULL) {
		const char *put_anew = put_residents();

		also = also != NULL ? also : put_anew;
	}
	return why != NULL ? first_wrong : also;
}

/* A connection of its start may still be open: the fewest of several looks. */
static size_t usual_fds(pid_t pid)
{
	const struct timespec pause = {0, 10000000};
	size_t least = SIZE_MAX;

	for (int i = 0; i < 50; i++) {
		size_t fds = entries_of("/proc/%d/fd", pid) - open_segments(pid);

		least = fds < least ? fds : least;
		nanosleep(&pause, NULL);
	}
	return least;
}

void kill_check_start(struct cluster *given, const char *given_ssd_dir)
{
	sy_client_options options = {.run_dir = given->run_dir, .timeout_ns = 30 * SECOND_NS,
	                             .ssd = true, .control_timeout_ns = SECOND_NS / 10};
	sy_unit_report reports[KILL_UNITS];
	sy_error err = {0};

	cluster = given;
	ssd_dir = given_ssd_dir;
	if (sy_client_open(&options, &client, &err) != SY_OK ||
	    (ssd_dir == NULL &&
	     put_rows(residents, RESIDENTS, resident_row.maybe[0], 0, &err) != SY_OK) ||
	    sy_client_reports(client, 0, reports, &err) != SY_OK) {
		fprintf(stderr, "kill_check: %s\n", err.message);
		exit(1);
	}
	for (uint32_t u = 0; u < KILL_UNITS; u++) {
		usual[u] = usual_of(&reports[u]);
		usual[u].fds = usual_fds(cluster->units[u]);
		slab_of(cluster->units[u], slabs[u], sizeof slabs[u]);
	}
	usual_directory.fds = usual_fds(cluster->server);
	usual_directory.threads = threads_of(cluster->server);
	usual_files = run_files();
	if (ssd_dir != NULL && put_residents() != NULL) {
		fprintf(stderr, "kill_check: %s\n", wrong);
		exit(1);
	}
}

void kill_check_stop(void)
{
	sy_client_close(client);
}
