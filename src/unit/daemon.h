/* A storage unit as a process: one loop around serve.h that owns the slab and the sockets. */
#ifndef SY_DAEMON_H
#define SY_DAEMON_H

#include "unit_config.h"

/* Runs a unit in this thread until SIGTERM, SIGINT or SIGHUP, which it takes over for the whole
 * process, as SIGPIPE, SIGBUS and the umask. Returns the exit status: 0 after a clean stop, when
 * nothing of it is left; 1 after one line on stderr that says what went wrong. Call it once a
 * process, before other threads are made. */
int sy_unit_run(const struct sy_unit_config *config);

#endif
