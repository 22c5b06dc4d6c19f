#include "clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now); /* cannot fail: both clocks exist since Linux 2.6.39 */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t sy_clock_now_ns(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

uint64_t sy_clock_deadline(uint64_t monotonic_ns, uint64_t cap_ns)
{
	uint64_t left_ns = cap_ns;
	if (monotonic_ns != 0) {
		uint64_t now_ns = read_clock(CLOCK_MONOTONIC);
		uint64_t given_ns = monotonic_ns > now_ns ? monotonic_ns - now_ns : 0;
		left_ns = given_ns < cap_ns ? given_ns : cap_ns;
	}
	uint64_t now_ns = sy_clock_now_ns();
	return left_ns < UINT64_MAX - now_ns ? now_ns + left_ns : UINT64_MAX;
}

int sy_clock_poll_ms(uint64_t now_ns, uint64_t deadline_ns)
{
	const uint64_t cap_ms = 60000;
	if (deadline_ns <= now_ns)
		return 0;
	uint64_t left_ns = deadline_ns - now_ns;
	uint64_t left_ms = left_ns / 1000000u + (left_ns % 1000000u != 0);
	return (int)(left_ms < cap_ms ? left_ms : cap_ms);
}
