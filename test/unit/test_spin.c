/* Who waits awake, for how long that goes on when it is in vain, and on which CPU; and that nobody
 * whose other side was awake is left asleep. */
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bell.h"
#include "lane.h"
#include "spin.h"

enum { MESSAGES = 20000, WAIT_MS = 20000 };

/* Waits until the next one that may spin. */
static int skipped(struct sy_spin *spin)
{
	int count = 0;
	while (!sy_spin_may(spin) && count < 1000)
		count++;
	return count;
}

static void test_in_vain_ever_more_rarely(void **state)
{
	struct sy_spin spin = {0};
	static const int SKIPS[] = {0, 1, 2, 4, 8, 16, 32, 64, 64, 64};
	(void)state;
	assert_int_equal(skipped(&spin), 0);
	for (size_t i = 0; i < COUNT_OF(SKIPS); i++) {
		sy_spin_end(&spin, false);
		assert_int_equal(skipped(&spin), SKIPS[i]);
	}
	sy_spin_end(&spin, true);
	assert_int_equal(skipped(&spin), 0);
	sy_spin_end(&spin, false);
	assert_int_equal(skipped(&spin), 0);
}

static void test_never_on_one_cpu(void **state)
{
	struct sy_spin spin;
	cpu_set_t all, one;
	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	sy_spin_init(&spin);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
	for (int i = 0; i < 200; i++)
		assert_false(sy_spin_may(&spin));
	sy_spin_init(&spin);
	assert_int_equal(sy_spin_may(&spin), CPU_COUNT(&all) > 1);
}

/* Two that take turns on one CPU part, and whoever may not use another stays. */
static void test_who_is_together_parts(void **state)
{
	struct sy_spin spin;
	cpu_set_t all, one, after;
	uint32_t here = UINT32_MAX, moves = 0;
	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
	CPU_ZERO(&one);
	sy_spin_init(&spin);
	/* The system may move anybody at any time, so that one try need not tell. */
	for (int tries = 0; tries < 100 && CPU_COUNT(&all) > 1 && moves == 0; tries++) {
		here = sy_spin_cpu();
		for (int turn = 1; turn < SY_SPIN_TURNS; turn++)
			sy_spin_part(&spin, here);
		bool stayed = sy_spin_cpu() == here;
		sy_spin_part(&spin, here);
		moves += stayed && sy_spin_cpu() != here;
		assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
		assert_true(CPU_EQUAL(&all, &after));
		sy_spin_part(&spin, UINT32_MAX); /* apart: it counts from the start again */
	}
	assert_true(moves > 0 || CPU_COUNT(&all) == 1);
	here = sy_spin_cpu();
	CPU_SET(here, &one);
	assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
	for (int turn = 0; turn < 10 * SY_SPIN_TURNS; turn++)
		sy_spin_part(&spin, here);
	assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
	assert_true(CPU_EQUAL(&one, &after));
	/* In vain it tries ever more rarely, until they were apart. */
	sy_spin_part(&spin, UINT32_MAX);
	for (int turn = 0; turn < SY_SPIN_TURNS; turn++)
		sy_spin_part(&spin, here);
	assert_int_equal(spin.turns, 0);
	assert_int_equal(spin.most, 2 * SY_SPIN_TURNS);
	sy_spin_part(&spin, UINT32_MAX);
	assert_int_equal(spin.most, SY_SPIN_TURNS);
	assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

static void test_a_bell_heard_awake(void **state)
{
	struct sy_bell *bell;
	int fd = -1;
	(void)state;
	assert_int_equal(sy_bell_make(&bell, &fd, NULL), SY_OK);
	uint32_t seen = sy_bell_look(bell);
	assert_false(sy_bell_spin(bell, seen));
	sy_bell_ring_for(bell, 0);
	assert_true(sy_bell_spin(bell, seen));
	sy_bell_unmap(bell);
	close(fd);
}

struct pair {
	struct sy_ring_budget budget;
	struct sy_lane client, unit;
	int door_fd;
};

/* Writes, and wakes only a reader that does not look by itself; now and then it waits, so that the
 * reader comes to all of its states. */
static void *write_all(void *argument)
{
	struct pair *pair = argument;
	const uint64_t one = 1;
	for (uint32_t i = 0; i < MESSAGES;) {
		bool sent = pair->client.first == NULL &&
		            sy_lane_send(&pair->client, &i, sizeof i);
		i += sent;
		if (!sent)
			(void)sy_lane_flush(&pair->client);
		if (!sy_ring_is_attended(&pair->client.out))
			assert_int_equal(write(pair->door_fd, &one, sizeof one), sizeof one);
		if (i % 64 == 0 || !sent)
			sched_yield();
		if (i % 1024 == 0)
			(void)poll(NULL, 0, 1);
	}
	assert_int_equal(write(pair->door_fd, &one, sizeof one), sizeof one);
	return NULL;
}

/* Takes what is there and checks its order. */
static uint32_t take(struct pair *pair, uint32_t next)
{
	static uint8_t copy[SY_RING_BYTES];
	const void *message;
	size_t bytes;
	while (sy_lane_receive(&pair->unit, copy, &message, &bytes)) {
		assert_int_equal(bytes, sizeof next);
		assert_memory_equal(message, &next, sizeof next);
		next++;
	}
	return next;
}

static void test_nobody_is_left_asleep(void **state)
{
	struct pair pair = {.budget.max_bytes = 1 << 20};
	struct pollfd door = {.events = POLLIN};
	uint32_t next = 0, slept = 0;
	pthread_t writer;
	int lane_fd = -1;
	(void)state;
	assert_int_equal(sy_lane_make(&pair.budget, &pair.client, &lane_fd, NULL), SY_OK);
	assert_true(sy_lane_map(lane_fd, &pair.budget, &pair.unit));
	close(lane_fd);
	door.fd = pair.door_fd = eventfd(0, EFD_NONBLOCK);
	assert_true(pair.door_fd >= 0);
	assert_int_equal(pthread_create(&writer, NULL, write_all, &pair), 0);
	while (next < MESSAGES) {
		uint64_t count;
		sy_ring_attend(&pair.unit.in, true);
		for (int look = 0; look < 3; look++)
			next = take(&pair, next);
		sy_ring_attend(&pair.unit.in, false);
		if (sy_ring_ready(&pair.unit.in) || next == MESSAGES)
			continue;
		if (poll(&door, 1, WAIT_MS) != 1)
			fail_msg("message %u woke nobody", next);
		(void)!read(pair.door_fd, &count, sizeof count);
		slept++;
	}
	pthread_join(writer, NULL);
	print_message("%u messages, %u sleeps\n", next, slept);
	sy_lane_done(&pair.client);
	sy_lane_done(&pair.unit);
	close(pair.door_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_vain_ever_more_rarely),
		cmocka_unit_test(test_never_on_one_cpu),
		cmocka_unit_test(test_who_is_together_parts),
		cmocka_unit_test(test_a_bell_heard_awake),
		cmocka_unit_test(test_nobody_is_left_asleep),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
