/* A unit's process, as its supervisor sees it: started, listened to, watched, ended. */
#ifndef SY_CHILD_H
#define SY_CHILD_H

#include <slabyard/status.h>
#include <sys/types.h>

enum { SY_CHILD_LINE_BYTES = 240 };

struct sy_child {
	pid_t pid;
	int pidfd;   /* readable at its end; -1 after sy_child_done */
	int said_fd; /* what it writes to stdout and stderr; -1: it closed them */
	bool ended;  /* reaped: the pid means nothing any more */
	int wait_status;
	char line[SY_CHILD_LINE_BYTES]; /* begun and not ended yet */
	size_t line_bytes;
	char held[SY_CHILD_LINE_BYTES]; /* the last whole line; "" if none */
};

/* Runs this very program anew with `argv` (argv[0] is its name; ended by NULL). The process gets
 * SIGTERM when the calling thread ends, has a process group of its own (what is typed at the
 * terminal does not reach it), an empty stdin and no descriptors but the standard ones.
 * SY_E_SYS. */
sy_status sy_child_start(char *const *argv, struct sy_child *ret_child, sy_error *err);

/* Reads what has been said, up to a bound. For each whole line that is followed by another, and
 * so no longer the last: tell(context, line). The last one stays in child->held. */
void sy_child_read(struct sy_child *child, void (*tell)(void *context, const char *line),
                   void *context);

/* True, once: it has ended, but is not reaped yet, so its pid is still its own. */
bool sy_child_is_over(const struct sy_child *child);
void sy_child_reap(struct sy_child *child);
/* "ended with status 1", "was killed by signal 9 (Killed)"; of a reaped child. */
void sy_child_end_text(const struct sy_child *child, char *out, size_t size);

/* A no-op on a child that has ended. */
void sy_child_signal(const struct sy_child *child, int signal);
/* Only if it is stopped: a SIGCONT takes back a stop that is on its way, and who looks through an
 * ending process, as a leak sanitizer does, would wait for that stop for ever. */
void sy_child_go_on(const struct sy_child *child);
/* Closes what the struct holds. The process, if it lives, lives on. */
void sy_child_done(struct sy_child *child);

#endif
