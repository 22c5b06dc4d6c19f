/* What happened, a line an event: its hash is the run's fingerprint, its end is shown when an
 * invariant broke. */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include <stdarg.h>
#include <stdint.h>

enum { SIM_HISTORY_LINES = 60, SIM_HISTORY_COLUMNS = 200 };

enum sim_trace { SIM_TRACE_NONE = 0, SIM_TRACE_ALL };

struct sim_history {
	enum sim_trace trace;
	uint64_t hash, count;
	char (*lines)[SIM_HISTORY_COLUMNS]; /* the last ones, in a ring */
};

void sim_history_init(struct sim_history *history, enum sim_trace trace);
void sim_history_done(struct sim_history *history);
void sim_history_add(struct sim_history *history, uint64_t now_ns, const char *format,
                     va_list args);
/* The last lines, oldest first, to stdout; nothing if all were printed already. */
void sim_history_print(const struct sim_history *history);

#endif
