#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BAR_CELLS = 24 };

static const uint64_t PAUSE_NS = 100000000u;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sy_progress_init(struct sy_progress *progress, const char *what)
{
	*progress = (struct sy_progress){.what = what, .is_terminal = isatty(STDERR_FILENO) == 1};
}

void sy_progress_show(struct sy_progress *progress, uint64_t done, uint64_t whole,
                      const char *note)
{
	char bar[BAR_CELLS + 1], share[16] = "";
	uint64_t now = progress->is_terminal ? now_ns() : 0;
	if (!progress->is_terminal || now - progress->shown_ns < PAUSE_NS)
		return;
	progress->shown_ns = now;
	progress->was_shown = true;
	if (whole == 0) {
		fprintf(stderr, "\r%s  %s\033[K", progress->what, note);
		fflush(stderr);
		return;
	}
	double part = done < whole ? (double)done / (double)whole : 1.0;
	for (int i = 0; i < BAR_CELLS; i++)
		bar[i] = i < (int)(part * (double)BAR_CELLS) ? '#' : '.';
	bar[BAR_CELLS] = '\0';
	snprintf(share, sizeof share, "%3d%%", (int)(part * 100));
	fprintf(stderr, "\r%s  [%s] %s  %s\033[K", progress->what, bar, share, note);
	fflush(stderr);
}

void sy_progress_done(struct sy_progress *progress)
{
	if (progress->was_shown)
		fprintf(stderr, "\r\033[K");
	progress->was_shown = false;
}
