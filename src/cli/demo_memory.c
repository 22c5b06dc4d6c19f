#include "demo_memory.h"
#include "fail.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A client tells its units within two heartbeats, of 2 s by default, that it has let go. */
enum { TRIES = 1000, PAUSE_NS = 10000000 };
/* A unit is given 2 s to answer, in which a busy host may not even have connected to it. */
enum { ANSWER_TRIES = 15 };

static sy_status reports_read(const sy_unit_report *reports, struct sy_demo_memory *memory,
                              sy_error *err)
{
	memory->capacity_bytes = memory->free_sum = 0;
	for (uint32_t u = 0; u < memory->unit_count; u++) {
		const sy_unit_report *report = &reports[u];
		if (!report->answered)
			return sy_fail(err, SY_E_TIMEOUT, __func__, "unit %u is %s and tells no numbers: %s",
			               u, report->state, report->message);
		for (size_t i = 0; i < report->byte_count; i++) {
			if (strcmp(report->bytes[i].name, "free") == 0)
				memory->free_bytes[u] = report->bytes[i].value;
		}
		memory->capacity_bytes += report->capacity_bytes;
		memory->free_sum += memory->free_bytes[u];
	}
	return SY_OK;
}

sy_status sy_demo_memory_read(sy_client *client, struct sy_demo_memory *ret_memory, sy_error *err)
{
	struct sy_demo_memory memory = {.unit_count = sy_client_unit_count(client)};
	sy_unit_report *reports = calloc(memory.unit_count, sizeof *reports);
	memory.free_bytes = calloc(memory.unit_count, sizeof *memory.free_bytes);
	sy_status status = SY_OK;
	if (reports == NULL || memory.free_bytes == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	bool again = status == SY_OK;
	for (uint32_t tries = 0; tries < ANSWER_TRIES && again; tries++) {
		again = false;
		status = sy_client_reports(client, 0, reports, err);
		if (status == SY_OK) {
			status = reports_read(reports, &memory, err);
			again = status != SY_OK;
		}
	}
	free(reports);
	if (status == SY_OK)
		*ret_memory = memory;
	else
		sy_demo_memory_done(&memory);
	return status;
}

void sy_demo_memory_done(struct sy_demo_memory *memory)
{
	free(memory->free_bytes);
	memory->free_bytes = NULL;
}

static bool is_as_before(const struct sy_demo_memory *before, const struct sy_demo_memory *after,
                         const char **ret_leak)
{
	static char leak[160];
	*ret_leak = NULL;
	for (uint32_t u = 0; u < before->unit_count && *ret_leak == NULL; u++) {
		uint64_t was = before->free_bytes[u], is = after->free_bytes[u];
		if (was == is)
			continue;
		sy_format(leak, sizeof leak, "unit %u has %llu bytes %s free than before the first put",
		          u, (unsigned long long)(was > is ? was - is : is - was),
		          was > is ? "less" : "more");
		*ret_leak = leak;
	}
	return *ret_leak == NULL;
}

sy_status sy_demo_memory_await(sy_client *client, const struct sy_demo_memory *before,
                               struct sy_demo_memory *ret_after, const char **ret_leak,
                               sy_error *err)
{
	for (uint32_t tries = 0;; tries++) {
		struct sy_demo_memory after;
		sy_status status = sy_demo_memory_read(client, &after, err);
		if (status != SY_OK)
			return status;
		if (is_as_before(before, &after, ret_leak) || tries == TRIES) {
			*ret_after = after;
			return SY_OK;
		}
		sy_demo_memory_done(&after);
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
}
