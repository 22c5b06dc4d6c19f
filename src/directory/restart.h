/* When a unit that ended is started again: soon at first, later and later, at last not at all.
 * Pure: time comes in as an argument. */
#ifndef SY_RESTART_H
#define SY_RESTART_H

#include <stdbool.h>
#include <stdint.h>

enum {
	SY_RESTARTS_IN_A_ROW = 8,
	SY_RESTART_FIRST_MS = 100, /* doubles up to */
	SY_RESTART_LONGEST_MS = 5000,
	SY_RESTART_LASTING_S = 60, /* one that lived so long begins a new row */
};

/* All zero: not started yet. */
struct sy_restart {
	uint64_t began_ns; /* its last start */
	uint64_t due_ns;   /* its next one; 0: none is due */
	uint32_t in_a_row; /* starts in a row of which none lasted, the first one not counted */
};

/* A process was started. */
void sy_restart_begun(struct sy_restart *restart, uint64_t now_ns);
/* It ended, or could not be started. False: too often in a row, it is to stay dead. */
bool sy_restart_ended(struct sy_restart *restart, uint64_t now_ns);

#endif
