/* A line on stderr that tells how far a command is, where stderr is a terminal; elsewhere
 * nothing is written. */
#ifndef SY_PROGRESS_H
#define SY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct sy_progress {
	const char *what; /* "load" */
	bool is_terminal, was_shown;
	uint64_t shown_ns; /* when it was last drawn */
};

void sy_progress_init(struct sy_progress *progress, const char *what);
/* Draws it, ten times a second at most. whole 0: not known, no bar. `note` follows the bar. */
void sy_progress_show(struct sy_progress *progress, uint64_t done, uint64_t whole,
                      const char *note);
/* Wipes it away. */
void sy_progress_done(struct sy_progress *progress);

#endif
