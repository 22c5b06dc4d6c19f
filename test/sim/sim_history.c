#include "sim_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"

void sim_history_init(struct sim_history *history, enum sim_trace trace)
{
	*history = (struct sim_history){.trace = trace};
	history->lines = calloc(SIM_HISTORY_LINES, sizeof *history->lines);
}

void sim_history_done(struct sim_history *history)
{
	free(history->lines);
	history->lines = NULL;
}

void sim_history_add(struct sim_history *history, uint64_t now_ns, const char *format,
                     va_list args)
{
	if (history->lines == NULL)
		return;
	char *line = history->lines[history->count++ % SIM_HISTORY_LINES];
	int at = snprintf(line, SIM_HISTORY_COLUMNS, "%10.6f  ", (double)now_ns / 1e9);
	vsnprintf(line + at, (size_t)(SIM_HISTORY_COLUMNS - at), format, args);
	size_t bytes = strlen(line);
	uint64_t hash = history->hash;
	for (size_t i = 0; i + 8 <= bytes; i += 8)
		hash = sy_mix64(hash ^ sy_load_u64(line + i));
	uint64_t last = 0;
	memcpy(&last, line + bytes / 8 * 8, bytes % 8);
	history->hash = sy_mix64(hash ^ last) + bytes;
	if (history->trace == SIM_TRACE_ALL)
		puts(line);
}

void sim_history_print(const struct sim_history *history)
{
	if (history->lines == NULL || history->trace == SIM_TRACE_ALL)
		return;
	uint64_t first = history->count > SIM_HISTORY_LINES ? history->count - SIM_HISTORY_LINES : 0;
	for (uint64_t i = first; i < history->count; i++)
		puts(history->lines[i % SIM_HISTORY_LINES]);
}
