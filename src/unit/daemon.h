/* Storage units as a process: one loop around serve.h that owns their slabs and sockets. */
#ifndef SY_DAEMON_H
#define SY_DAEMON_H

#include "unit_config.h"

/* Runs `count` units (at least 1) in this thread, from first->unit_id on and otherwise alike,
 * until SIGTERM, SIGINT or SIGHUP, which it takes over for the whole process, as SIGPIPE, SIGBUS
 * and the umask. Where one cannot go on all end. Returns the exit status: 0 after a clean stop,
 * when nothing of them is left; 1 after one line on stderr that says what went wrong. Call it
 * once a process, before other threads are made. */
int sy_unit_run(const struct sy_unit_config *first, uint32_t count);

/* SY_E_SYS: no unit of this program can offer its values to other hosts, and why. */
sy_status sy_unit_has_ucx(sy_error *err);

#endif
