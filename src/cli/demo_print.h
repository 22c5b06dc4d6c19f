/* What the demo tells at its end, for people or as JSON. */
#ifndef SY_DEMO_PRINT_H
#define SY_DEMO_PRINT_H

#include "demo_hand.h"

struct sy_demo_summary {
	const char *source; /* the file, or "seed 1" */
	uint32_t steps, steps_done, rows, units, producers, trainers;
	struct sy_demo_tally phases[SY_DEMO_PHASE_COUNT]; /* over all steps */
	uint64_t capacity_bytes;
	uint64_t peak_bytes;   /* in use before a clear, at most */
	uint64_t leaked_bytes; /* less free at the end than at the start */
	uint64_t checked_bytes;
	const char *problem;   /* NULL: all went well */
};

/* A table on stdout and what came of it. */
void sy_demo_print_table(const struct sy_demo_summary *summary);
/* One object on stdout. False: out of memory. */
bool sy_demo_print_json(const struct sy_demo_summary *summary);

#endif
