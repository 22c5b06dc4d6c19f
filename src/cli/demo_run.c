#include "demo_run.h"
#include "bytes.h"
#include "demo_crew.h"
#include "progress.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { CLEAR_ROWS = 16384 };

static const uint64_t CALL_NS = 60000000000u;
static const uint64_t SLAB_MIN_BYTES = 16 << 20; /* three of them fit a container's 64 MiB */
static const uint64_t ENTRIES_MIN = 65536;

static bool fail(struct sy_demo *demo, const char *message)
{
	snprintf(demo->problem, sizeof demo->problem, "%s", message);
	return false;
}

/* Ctrl-C and the like are read from a descriptor, so that everything is ended in order. */
static bool signals_take(struct sy_demo *demo)
{
	sigset_t taken;
	sigemptyset(&taken);
	sigaddset(&taken, SIGINT);
	sigaddset(&taken, SIGTERM);
	sigaddset(&taken, SIGHUP);
	sigprocmask(SIG_BLOCK, &taken, NULL);
	demo->stop_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	return demo->stop_fd >= 0 || fail(demo, "cannot watch for signals");
}

static uint64_t cell_bytes(const struct sy_demo *demo, uint32_t row, uint32_t column,
                           struct sy_text *scratch)
{
	sy_value value;
	if (!sy_demo_source_value(&demo->source, 0, row, column, scratch, &value))
		return 0;
	return sy_align_up(value.nbytes, SY_ENTRY_ALIGN_BYTES);
}

/* What the fullest unit has to hold: measured on the first step, with a fourth and 4 MiB to
 * spare for other steps and for what describes the rows. */
static void needs_measure(const struct sy_demo *demo, uint64_t *ret_bytes, uint64_t *ret_entries)
{
	const struct sy_demo_source *source = &demo->source;
	uint32_t rows = sy_demo_source_rows(source, 0);
	uint32_t units = (uint32_t)demo->units;
	uint64_t bytes = 0;
	struct sy_text scratch = {0};
	for (uint32_t row = 0; row < rows; row += units) {
		for (uint32_t c = 0; c <= source->column_count; c++)
			bytes += cell_bytes(demo, row, c, &scratch);
	}
	sy_text_done(&scratch);
	uint64_t entries = ((uint64_t)rows / units + 1) * (source->column_count + 1);
	/* A batch takes an index in each unit, of some hundred bytes a column and 8 a row. */
	uint64_t indexes = entries * 32 + ((uint64_t)rows + 16) / 4 * 128;
	bytes += bytes / 4 + indexes + (4 << 20);
	*ret_bytes = sy_max_u64(sy_align_up(bytes, 2 << 20), SLAB_MIN_BYTES);
	*ret_entries = sy_max_u64(entries + entries / 4, ENTRIES_MIN);
}

static bool cluster_open(struct sy_demo *demo)
{
	uint64_t bytes, entries;
	sy_error err = {0};
	if (demo->where.run_dir != NULL || demo->where.directory != NULL)
		return true;
	needs_measure(demo, &bytes, &entries);
	if (demo->slab_bytes != 0)
		bytes = demo->slab_bytes;
	if (sy_demo_cluster_start((uint32_t)demo->units, bytes, entries, demo->stop_fd, &demo->cluster,
	                          &err) != SY_OK)
		return fail(demo, err.message);
	demo->where.run_dir = demo->cluster.run_dir;
	return true;
}

static bool crew_open(struct sy_demo *demo)
{
	sy_error err = {0};
	snprintf(demo->name_space, sizeof demo->name_space, "demo-%ld", (long)getpid());
	const struct sy_demo_crew_config config = {
		.source = &demo->source, .where = demo->where, .name_space = demo->name_space,
		.producer_count = (uint32_t)demo->producers, .trainer_count = (uint32_t)demo->trainers,
		.by = {demo->by[0], demo->by[1]}, .words = demo->words, .word_count = demo->word_count,
		.stop_fd = demo->stop_fd, .cluster_fd = demo->cluster.pidfd,
	};
	return sy_demo_crew_start(&config, &demo->crew, &err) == SY_OK || fail(demo, err.message);
}

static bool is_over(void *context)
{
	const struct sy_demo *demo = context;
	return sy_demo_crew_is_over(&demo->crew);
}

/* A call of this process's own client failed: by the cluster's end or a signal, if they came. */
static bool fail_call(struct sy_demo *demo, const sy_error *err)
{
	return !sy_demo_crew_stopped(&demo->crew, demo->problem) && fail(demo, err->message);
}

/* After the crew: a client has threads, and what has threads does not fork. */
static bool client_open(struct sy_demo *demo)
{
	sy_error err = {0};
	sy_client_options options = demo->where;
	options.name_space = demo->name_space;
	options.timeout_ns = CALL_NS;
	options.interrupted = is_over;
	options.interrupted_context = demo;
	if (sy_client_open(&options, &demo->client, &err) != SY_OK ||
	    sy_demo_memory_read(demo->client, &demo->before, &err) != SY_OK)
		return fail_call(demo, &err);
	demo->summary.units = sy_client_unit_count(demo->client);
	demo->summary.capacity_bytes = demo->before.capacity_bytes;
	return true;
}

static bool rows_clear(struct sy_demo *demo, uint32_t step)
{
	struct sy_demo_tally *tally = &demo->summary.phases[SY_DEMO_CLEAR];
	uint32_t count = sy_demo_source_rows(&demo->source, step);
	uint64_t *rows = calloc(CLEAR_ROWS, sizeof *rows);
	sy_status status = SY_OK;
	sy_error err = {0};
	if (rows == NULL)
		return fail(demo, "out of memory");
	for (uint32_t first = 0; first < count && status == SY_OK; first += CLEAR_ROWS) {
		uint32_t few = count - first < CLEAR_ROWS ? count - first : CLEAR_ROWS;
		uint64_t entries = 0, before = sy_demo_now_ns();
		for (uint32_t i = 0; i < few; i++)
			rows[i] = first + i;
		status = sy_client_clear(demo->client, rows, few, NULL, 0, 0, &entries, &err);
		tally->call_ns += sy_demo_now_ns() - before;
		tally->rows += few;
		tally->values += entries;
	}
	free(rows);
	return status == SY_OK || fail_call(demo, &err);
}

/* What was in use comes back whole, and every value that was put was there to be removed. */
static bool step_clear(struct sy_demo *demo, uint32_t step)
{
	struct sy_demo_summary *summary = &demo->summary;
	struct sy_demo_memory full, after;
	const char *leak = NULL;
	sy_error err = {0};
	if (sy_demo_memory_read(demo->client, &full, &err) != SY_OK)
		return fail_call(demo, &err);
	uint64_t used = demo->before.free_sum - sy_min_u64(full.free_sum, demo->before.free_sum);
	sy_demo_memory_done(&full);
	summary->peak_bytes = sy_max_u64(summary->peak_bytes, used);
	if (!rows_clear(demo, step))
		return false;
	if (sy_demo_memory_await(demo->client, &demo->before, &after, &leak, &err) != SY_OK)
		return fail_call(demo, &err);
	summary->leaked_bytes = demo->before.free_sum - sy_min_u64(after.free_sum,
	                                                           demo->before.free_sum);
	sy_demo_memory_done(&after);
	summary->phases[SY_DEMO_CLEAR].bytes += used;
	if (leak != NULL) {
		snprintf(demo->problem, sizeof demo->problem, "after the clear of step %" PRIu32 " %s",
		         step + 1, leak);
		return false;
	}
	uint64_t removed = summary->phases[SY_DEMO_CLEAR].values;
	uint64_t put = summary->phases[SY_DEMO_PUT].values +
	               summary->phases[SY_DEMO_WRITE_BACK].values;
	if (removed != put) {
		snprintf(demo->problem, sizeof demo->problem,
		         "%" PRIu64 " values were put and %" PRIu64 " removed up to step %" PRIu32, put,
		         removed, step + 1);
		return false;
	}
	return true;
}

static bool step_run(struct sy_demo *demo, uint32_t step)
{
	static const char *const doing[] = {"put", "read", "write back", "read again"};
	for (int phase = SY_DEMO_PUT; phase < SY_DEMO_CLEAR; phase++) {
		char note[64];
		struct sy_demo_tally *tally = &demo->summary.phases[phase];
		snprintf(note, sizeof note, "step %" PRIu32 " of %" PRIu32 ": %s", step + 1,
		         demo->source.steps, doing[phase]);
		sy_progress_show(&demo->progress, step * 4 + (uint32_t)phase,
		                 (uint64_t)demo->source.steps * 4, note);
		if (!sy_demo_crew_run(&demo->crew, (enum sy_demo_phase)phase, step, tally, demo->problem))
			return false;
	}
	if (!step_clear(demo, step) || sy_demo_crew_stopped(&demo->crew, demo->problem))
		return false;
	demo->summary.steps_done++;
	return true;
}

static bool steps_run(struct sy_demo *demo)
{
	sy_progress_init(&demo->progress, "demo");
	bool ok = true;
	for (uint32_t step = 0; step < demo->source.steps && ok; step++)
		ok = step_run(demo, step);
	sy_progress_done(&demo->progress);
	for (int phase = 0; phase < SY_DEMO_PHASE_COUNT; phase++)
		demo->summary.checked_bytes += demo->summary.phases[phase].checked_bytes;
	return ok;
}

/* In a cluster of others nothing of a demo that went wrong is to stay. */
static void rows_remove(struct sy_demo *demo)
{
	bool is_needed = demo->cluster.supervisor == 0 && demo->client != NULL;
	for (uint32_t step = 0; step < demo->source.steps && is_needed; step++) {
		if (sy_demo_source_rows(&demo->source, step) == demo->summary.rows) {
			rows_clear(demo, step);
			return;
		}
	}
}

/* After all clients of the demo but this one have gone, memory is as before, too. */
static bool crew_close(struct sy_demo *demo, bool ok)
{
	struct sy_demo_memory after;
	const char *leak = NULL;
	sy_error err = {0};
	char problem[SY_DEMO_MESSAGE_BYTES];
	bool ended = sy_demo_crew_end(&demo->crew, !ok, problem);
	if (!ok) {
		memcpy(problem, demo->problem, sizeof problem);
		rows_remove(demo);
		return fail(demo, problem);
	}
	if (!ended)
		return fail(demo, problem);
	if (sy_demo_memory_await(demo->client, &demo->before, &after, &leak, &err) != SY_OK)
		return fail_call(demo, &err);
	sy_demo_memory_done(&after);
	return leak == NULL || fail(demo, leak);
}

static void summary_begin(struct sy_demo *demo)
{
	struct sy_demo_summary *summary = &demo->summary;
	summary->steps = demo->source.steps;
	summary->producers = (uint32_t)demo->producers;
	summary->trainers = (uint32_t)demo->trainers;
	summary->units = (uint32_t)demo->units;
	for (uint32_t step = 0; step < summary->steps; step++) {
		uint32_t rows = sy_demo_source_rows(&demo->source, step);
		summary->rows = rows > summary->rows ? rows : summary->rows;
	}
}

bool sy_demo_run(struct sy_demo *demo)
{
	sy_error err = {0};
	demo->cluster = (struct sy_demo_cluster){.pidfd = -1, .said_fd = -1};
	summary_begin(demo);
	bool ok = signals_take(demo) && cluster_open(demo);
	if (ok) {
		ok = crew_open(demo) && client_open(demo) && steps_run(demo);
		ok = crew_close(demo, ok);
		if (!ok)
			sy_demo_cluster_told(&demo->cluster, demo->problem, sizeof demo->problem);
		sy_client_close(demo->client);
		sy_demo_memory_done(&demo->before);
		if (sy_demo_cluster_stop(&demo->cluster, &err) != SY_OK && ok)
			ok = fail(demo, err.message);
	}
	if (demo->stop_fd >= 0)
		close(demo->stop_fd);
	demo->summary.problem = ok ? NULL : demo->problem;
	return ok;
}
