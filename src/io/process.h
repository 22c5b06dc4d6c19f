/* Who this process is. */
#ifndef SY_PROCESS_H
#define SY_PROCESS_H

#include <slabyard/status.h>
#include <sys/types.h>

#include "proto.h"

/* The host's boot id, this process's pid and start time, and a fresh random number. */
void sy_process_identity(struct sy_identity *ret_identity);
/* When a process of this host started, clock ticks since boot; 0: there is none of that pid. */
uint64_t sy_process_start_time(uint32_t pid);
/* It was killed, or is through, but for threads that the system has not taken down yet: they still
 * hold its locks and memory. */
bool sy_process_is_ending(pid_t pid);
/* Waits for the end of such a one. True: there is none of that pid any more; false: it lives, or
 * takes longer. */
bool sy_process_await_end(pid_t pid, int timeout_ms);

/* As many descriptors as the system lets this process have; fewer clients fit if it does not. */
void sy_process_allow_descriptors(void);
/* Are so many descriptors (64 at most) to be had at this instant? False: errno says why. */
bool sy_process_has_descriptors(uint32_t count);

/* SY_E_SYS: it could not open so many more, however they come to be open; the message says what it
 * must be allowed to let a client in, for which they are. To be asked once all else is open. */
sy_status sy_process_need_descriptors(uint32_t count, sy_error *err);

#endif
