/* The only clock: CLOCK_BOOTTIME, never wall-clock time. */
#ifndef SY_CLOCK_H
#define SY_CLOCK_H

#include <stdint.h>

uint64_t sy_clock_now_ns(void);

/* A public deadline (CLOCK_MONOTONIC, 0: none given) as an instant of sy_clock_now_ns, at most
 * cap_ns from now. */
uint64_t sy_clock_deadline(uint64_t monotonic_ns, uint64_t cap_ns);

/* Milliseconds for poll until `deadline_ns`, rounded up, 0 if past, at most 60,000. */
int sy_clock_poll_ms(uint64_t now_ns, uint64_t deadline_ns);

#endif
