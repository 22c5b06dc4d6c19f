#include "demo_print.h"
#include "units.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static const char *const phase_names[SY_DEMO_PHASE_COUNT] = {
	[SY_DEMO_PUT] = "put",
	[SY_DEMO_READ] = "read",
	[SY_DEMO_WRITE_BACK] = "write_back",
	[SY_DEMO_READ_AGAIN] = "read_again",
	[SY_DEMO_CLEAR] = "clear",
};

static const char *const phase_words[SY_DEMO_PHASE_COUNT] = {
	[SY_DEMO_PUT] = "put by producers",
	[SY_DEMO_READ] = "read by trainers",
	[SY_DEMO_WRITE_BACK] = "written back",
	[SY_DEMO_READ_AGAIN] = "read again",
	[SY_DEMO_CLEAR] = "cleared",
};

static double per_second(uint64_t count, uint64_t ns)
{
	return ns == 0 ? 0.0 : (double)count * 1e9 / (double)ns;
}

void sy_demo_print_table(const struct sy_demo_summary *summary)
{
	char size[16], whole[16];
	printf("%-17s %9s %10s %11s %10s %8s\n", "phase", "rows", "values", "data", "rows/s", "GB/s");
	for (int p = 0; p < SY_DEMO_PHASE_COUNT; p++) {
		const struct sy_demo_tally *tally = &summary->phases[p];
		sy_format_bytes(tally->bytes, size);
		printf("%-17s %9" PRIu64 " %10" PRIu64 " %11s %10.0f %8.3f\n", phase_words[p], tally->rows,
		       tally->values, size, per_second(tally->rows, tally->call_ns),
		       per_second(tally->bytes, tally->call_ns) / 1e9);
	}
	sy_format_bytes(summary->checked_bytes, size);
	printf("\nevery byte is right: %s compared with the source\n", size);
	sy_format_bytes(summary->peak_bytes, size);
	sy_format_bytes(summary->capacity_bytes, whole);
	printf("every byte came back: up to %s of %s in use, after each clear as much free as at "
	       "first\n", size, whole);
}

static json_t *phase_json(const struct sy_demo_tally *tally)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:f, s:f}", "rows", (json_int_t)tally->rows, "values",
	                 (json_int_t)tally->values, "bytes", (json_int_t)tally->bytes, "seconds",
	                 (double)tally->call_ns / 1e9, "rows_per_s",
	                 per_second(tally->rows, tally->call_ns), "gb_per_s",
	                 per_second(tally->bytes, tally->call_ns) / 1e9);
}

bool sy_demo_print_json(const struct sy_demo_summary *summary)
{
	json_t *phases = json_object();
	for (int p = 0; p < SY_DEMO_PHASE_COUNT; p++)
		json_object_set_new(phases, phase_names[p], phase_json(&summary->phases[p]));
	json_t *all = json_pack(
		"{s:b, s:s?, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I}", "ok",
		summary->problem == NULL, "problem", summary->problem, "source", summary->source, "steps",
		(json_int_t)summary->steps, "steps_done", (json_int_t)summary->steps_done, "rows",
		(json_int_t)summary->rows, "units", (json_int_t)summary->units, "producers",
		(json_int_t)summary->producers, "trainers", (json_int_t)summary->trainers, "phases",
		phases, "checked_bytes", (json_int_t)summary->checked_bytes, "capacity_bytes",
		(json_int_t)summary->capacity_bytes, "peak_bytes", (json_int_t)summary->peak_bytes,
		"leaked_bytes", (json_int_t)summary->leaked_bytes);
	size_t form = JSON_INDENT(2) | JSON_REAL_PRECISION(9);
	int written = all != NULL ? json_dumpf(all, stdout, form) : -1;
	json_decref(all);
	putchar('\n');
	return written == 0;
}
