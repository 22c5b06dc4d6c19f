/* Calls that must be back by their deadline, on a host that has other work, too. */
#ifndef SY_TEST_PUNCTUAL_H
#define SY_TEST_PUNCTUAL_H

#include "harness.h"

#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "clock.h"
#include "sanitized.h"

static const uint64_t MS_NS = 1000000u;

/* Times prove nothing under a sanitizer, nor where nothing is optimised: what takes 20 ms takes
 * 200 there. */
#ifdef __OPTIMIZE__
enum { TIMED = !SANITIZED };
#else
enum { TIMED = 0 };
#endif

/* How late a thread that only sleeps is woken on this host: its load is not the library's. */
static uint64_t host_late_ns; /* the worst, atomic */
static bool host_stop; /* atomic */
static pthread_t host_watcher;

static void *watch_host(void *argument)
{
	(void)argument;
	while (!__atomic_load_n(&host_stop, __ATOMIC_ACQUIRE)) {
		uint64_t start_ns = sy_clock_now_ns();

		usleep(2000);
		uint64_t late_ns = sy_clock_now_ns() - start_ns - 2 * MS_NS;
		if (late_ns > __atomic_load_n(&host_late_ns, __ATOMIC_RELAXED))
			__atomic_store_n(&host_late_ns, late_ns, __ATOMIC_RELAXED);
	}
	return NULL;
}

static int watch_host_start(void)
{
	return pthread_create(&host_watcher, NULL, watch_host, NULL);
}

static void watch_host_stop(void)
{
	__atomic_store_n(&host_stop, true, __ATOMIC_RELEASE);
	pthread_join(host_watcher, NULL);
}

/* Back by the deadline? Prints the worst. */
struct watch {
	const char *what;
	uint64_t late_ns;
};

static void back(struct watch *watch, uint64_t start_ns, uint64_t given_ns)
{
	uint64_t took_ns = sy_clock_now_ns() - start_ns;

	if (took_ns > given_ns && took_ns - given_ns > watch->late_ns)
		watch->late_ns = took_ns - given_ns;
}

/* A host that stands still for a moment makes any call late once; a call that waits for what it
 * should not is late each time. So what came late is done again, and fails if it never is not. */
enum { TRIES = 3 };
static bool was_late;

static void expect_punctual(const struct watch *watch)
{
	uint64_t host_ns = __atomic_exchange_n(&host_late_ns, 0, __ATOMIC_RELAXED);

	print_message("%s: at most %llu us late (a sleep of the host: %llu)\n", watch->what,
	              (unsigned long long)watch->late_ns / 1000, (unsigned long long)host_ns / 1000);
	if (TIMED) /* a few threads of each side take part in a call */
		was_late |= watch->late_ns >= 100 * MS_NS + 4 * host_ns;
}

struct punctual {
	CMUnitTestFunction test;
};

static void test_until_punctual(void **state)
{
	const struct punctual *punctual = *state;

	for (int i = 0; i < TRIES; i++) {
		was_late = false;
		punctual->test(NULL);
		if (!was_late)
			return;
	}
	fail_msg("late each of %d times", TRIES);
}

/* A test whose calls must be back in time. */
#define PUNCTUAL(name) \
	{#name, test_until_punctual, NULL, NULL, &(struct punctual){name}}

#endif
