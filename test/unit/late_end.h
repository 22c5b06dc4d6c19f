/* A process that was killed, and has yet to come to it. */
#ifndef SY_LATE_END_H
#define SY_LATE_END_H

#include "harness.h"

#include <sched.h>
#include <signal.h>

/* Kills a child that waits. It ends once this thread waits, too: it may use this thread's CPU
 * alone, and that only while nobody else wants it. *ret_cpus: this thread's before, to be given
 * back. */
static inline void late_end_kill(pid_t child, cpu_set_t *ret_cpus)
{
	const struct sched_param none = {0};
	cpu_set_t one;

	CPU_ZERO(&one);
	assert_int_equal(sched_getaffinity(0, sizeof *ret_cpus, ret_cpus), 0);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	assert_int_equal(sched_setaffinity(child, sizeof one, &one), 0);
	assert_int_equal(sched_setscheduler(child, SCHED_IDLE, &none), 0);
	assert_int_equal(kill(child, SIGKILL), 0);
}

#endif
