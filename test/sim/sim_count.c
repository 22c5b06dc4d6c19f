#include "sim_count.h"

#include <stdio.h>
#include <string.h>

#include "machine.h"

/* What no run can meet yet, and why. */
struct unreachable {
	const char *what, *name, *why;
};

static const struct unreachable unreachable[] = {
	{"busy", "", "no reason"},
	{"busy", "starting", "said by the daemon before it serves"},
	{"resource", "", "no resource"},
	{"why", "", "no reason"},
	{"why", "more keys, rows or names than the limit",
	 "the decoder refuses such a message first, as one that cannot be read"},
};

static const char *const end_names[SIM_COUNT_ENDS] = {
	[SY_OP_END_NONE] = "none", [SY_OP_END_OK] = "ok", [SY_OP_END_TIMEOUT] = "timeout",
	[SY_OP_END_FULL] = "full", [SY_OP_END_MISSING] = "missing",
	[SY_OP_END_PROTOCOL] = "protocol", [SY_OP_END_SESSION] = "session",
	[SY_OP_END_WRITE] = "write", [SY_OP_END_CLOSED] = "closed", [SY_OP_END_NO_PATH] = "no-path",
	[SY_OP_END_LATE] = "late", [SY_OP_END_BUSY] = "busy",
};

const char *sim_end_name(uint32_t end)
{
	return end < SIM_COUNT_ENDS && end_names[end] != NULL ? end_names[end] : "unknown";
}

void sim_counts_add(struct sim_counts *sum, const struct sim_counts *counts)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)counts;
	for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
		to[i] += from[i];
}

/* One count: printed, or counted as missing if it is zero and should not be. */
struct report {
	bool print;
	uint32_t missing;
};

static const char *excuse(const char *what, const char *name)
{
	for (size_t i = 0; i < sizeof unreachable / sizeof unreachable[0]; i++) {
		if (strcmp(unreachable[i].what, what) == 0 && strcmp(unreachable[i].name, name) == 0)
			return unreachable[i].why;
	}
	return NULL;
}

static void count(struct report *report, const char *what, const char *name, uint64_t value)
{
	const char *why = excuse(what, name);
	if (report->print && value > 0)
		printf("%-9s %-38s %12lu\n", what, name, value);
	if (value > 0 || why != NULL)
		return;
	report->missing++;
	if (!report->print)
		printf("never met: %s %s\n", what, name);
}

static void arrows(struct report *report, const struct sim_counts *counts)
{
	for (uint8_t from = 0; from < SY_BLOB_STATE_COUNT; from++) {
		for (uint8_t to = 0; to < SY_BLOB_STATE_COUNT; to++) {
			char name[64];
			if (!sy_blob_arrow_exists(from, to))
				continue;
			snprintf(name, sizeof name, "%s -> %s", sy_blob_state_name(from),
			         sy_blob_state_name(to));
			count(report, "arrow", name, counts->arrows[from][to]);
		}
	}
}

static void errors(struct report *report, const struct sim_counts *counts)
{
#define OP(name, value, text) count(report, "request", text, counts->requests[value]);
	SY_OP_LIST(OP)
#undef OP
#define FAULT(name, value, text) count(report, "reply", text, counts->faults[value]);
	SY_FAULT_LIST(FAULT)
#undef FAULT
#define BUSY(name, value, text) count(report, "busy", text, counts->busy[value]);
	SY_BUSY_LIST(BUSY)
#undef BUSY
#define RESOURCE(name, value, text) count(report, "resource", text, counts->resources[value]);
	SY_RESOURCE_LIST(RESOURCE)
#undef RESOURCE
#define WHY(name, value, text) count(report, "why", text, counts->whys[value]);
	SY_WHY_LIST(WHY)
#undef WHY
	count(report, "core", "put in a grant", counts->granted_puts);
	count(report, "core", "grant that was not used", counts->grants_unused);
	count(report, "core", "request parked", counts->parked);
	count(report, "core", "release of several steps", counts->long_releases);
	for (uint32_t i = SY_OP_END_OK; i < SIM_COUNT_ENDS; i++) {
		if (end_names[i] != NULL)
			count(report, "end", end_names[i], counts->ends[i]);
	}
}

static void walk(struct report *report, const struct sim_counts *counts)
{
	arrows(report, counts);
	for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
		count(report, "fault", sim_fault_name(i), counts->faults_made[i]);
	errors(report, counts);
}

void sim_counts_print(const struct sim_counts *counts)
{
	struct report report = {.print = true};
	uint32_t at = 0;
	walk(&report, counts);
#define VERDICT(name, value, python, meaning) \
	if (counts->verdicts[at++] > 0) \
		printf("%-9s %-38s %12lu\n", "verdict", #name, counts->verdicts[at - 1]);
	SY_STATUS_LIST(VERDICT)
#undef VERDICT
	printf("checked   %lu keys (%lu lost), %lu bytes, %lu reads (%lu stale), %lu audits, "
	       "%lu events\n",
	       counts->keys_checked, counts->keys_lost, counts->bytes_checked, counts->reads,
	       counts->stale_reads, counts->audits, counts->events);
}

uint32_t sim_counts_missing(const struct sim_counts *counts)
{
	struct report report = {0};
	walk(&report, counts);
	return report.missing;
}
