/* What every unit test includes first: cmocka with the headers it wants, and the seed. */
#ifndef SY_HARNESS_H
#define SY_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* A new seed each run, printed so that a failure can be repeated with SY_TEST_SEED. */
static inline uint64_t harness_seed(void)
{
	const char *given = getenv("SY_TEST_SEED");
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t seed = given != NULL ? strtoull(given, NULL, 10)
	                              : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	printf("SY_TEST_SEED=%llu repeats this run\n", (unsigned long long)seed);
	fflush(stdout); /* a test that crashes must not take the seed with it */
	return seed;
}

#endif
