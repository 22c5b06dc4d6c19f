/* Rings and lanes: order and content over any lengths, what waits is bounded, and the other end
 * may write anything into the memory. */
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bell.h"
#include "lane.h"
#include "message.h"
#include "prng.h"

enum { ROUNDS = 3000, WAITING_MAX = 64, BIG_BYTES = 300000 };

struct pair {
	struct sy_ring_budget budget;
	struct sy_lane client, unit;
	uint8_t copy[SY_RING_BYTES];
};

static int open_pair(void **state)
{
	struct pair *pair = calloc(1, sizeof *pair);
	int fd = -1;
	assert_non_null(pair);
	pair->budget.max_bytes = 64u << 20;
	assert_int_equal(sy_lane_make(&pair->budget, &pair->client, &fd, NULL), SY_OK);
	assert_true(sy_lane_map(fd, &pair->budget, &pair->unit));
	close(fd);
	*state = pair;
	return 0;
}

static int close_pair(void **state)
{
	struct pair *pair = *state;
	sy_lane_done(&pair->client);
	sy_lane_done(&pair->unit);
	int left = pair->budget.used_bytes != 0; /* every byte was given back */
	free(pair);
	return left;
}

static uint8_t byte_at(uint64_t number, size_t at)
{
	return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static uint8_t *make(uint64_t number, size_t bytes)
{
	uint8_t *message = malloc(bytes);
	assert_non_null(message);
	for (size_t i = 0; i < bytes; i++)
		message[i] = byte_at(number, i);
	return message;
}

static void check(const uint8_t *message, size_t bytes, uint64_t number, size_t expected)
{
	assert_int_equal(bytes, expected);
	for (size_t i = 0; i < bytes; i++) {
		if (message[i] != byte_at(number, i))
			fail_msg("message %llu is wrong at byte %zu", (unsigned long long)number, i);
	}
}

static size_t any_length(struct sy_prng *prng)
{
	static const size_t most[] = {20, 200, 5000, SY_RING_BYTES - 8, SY_RING_BYTES + 100,
	                              BIG_BYTES};
	return 1 + (size_t)sy_prng_below(prng, most[sy_prng_below(prng, COUNT_OF(most))]);
}

/* Both ends take turns in any order; every message comes once, whole and in order. */
static void test_order_and_content(void **state)
{
	struct pair *pair = *state;
	struct sy_prng prng;
	size_t lengths[ROUNDS];
	uint64_t sent = 0, received = 0;
	sy_prng_seed(&prng, harness_seed());
	while (received < ROUNDS) {
		const void *message = NULL;
		size_t bytes = 0;
		if (sent < ROUNDS && sent - received < WAITING_MAX && sy_prng_chance(&prng, 50)) {
			lengths[sent] = any_length(&prng);
			uint8_t *made = make(sent, lengths[sent]);
			assert_true(sy_lane_send(&pair->client, made, lengths[sent]));
			free(made);
			sent++;
		} else if (sy_prng_chance(&prng, 30)) {
			assert_true(sy_lane_flush(&pair->client));
		} else if (sy_lane_receive(&pair->unit, pair->copy, &message, &bytes)) {
			check(message, bytes, received, lengths[received]);
			received++;
		}
		assert_false(pair->unit.broken || pair->client.broken);
	}
	assert_int_equal(pair->client.queued_bytes, 0);
}

/* A writer without room is told once there is some; so it needs no timer. */
static void test_a_stalled_writer_is_woken(void **state)
{
	struct pair *pair = *state;
	const void *message;
	size_t bytes;
	uint8_t *made = make(1, BIG_BYTES);
	assert_true(sy_lane_send(&pair->client, made, BIG_BYTES));
	assert_true(pair->client.due);
	assert_non_null(pair->client.first);
	free(made);
	for (int turn = 0; turn < 100 && pair->client.first != NULL; turn++) {
		pair->unit.due = false;
		assert_false(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
		assert_true(pair->unit.due);
		pair->client.due = false;
		assert_true(sy_lane_flush(&pair->client));
		assert_true(pair->client.due);
	}
	pair->unit.due = false;
	assert_true(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	check(message, bytes, 1, BIG_BYTES);
	/* With room for all nobody waits, and nobody is told. */
	assert_true(sy_lane_send(&pair->client, "abc", 3));
	assert_true(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	assert_false(pair->unit.due);
}

/* Who does not read is held up, and costs a bounded amount of memory. */
static void test_what_waits_is_bounded(void **state)
{
	struct pair *pair = *state;
	const size_t large = SY_MESSAGE_MAX_BYTES;
	uint8_t *made = make(0, large);
	int taken = 0;
	while (taken < 100 && sy_lane_send(&pair->unit, made, large))
		taken++;
	assert_in_range(taken, 1, 3);
	assert_true(pair->unit.broken);
	assert_true(pair->unit.queued_bytes <= 9u << 20);
	assert_false(sy_lane_send(&pair->unit, made, 1));
	free(made);
}

static void test_the_budget_is_for_all(void **state)
{
	struct pair *pair = *state;
	const void *message;
	size_t bytes;
	uint8_t *made = make(0, BIG_BYTES);
	assert_true(sy_lane_send(&pair->client, made, BIG_BYTES));
	pair->budget.max_bytes = pair->budget.used_bytes + SY_RING_BYTES;
	for (int turn = 0; turn < 10 && !pair->unit.broken; turn++) {
		assert_false(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
		(void)sy_lane_flush(&pair->client);
	}
	assert_true(pair->unit.broken);
	free(made);
}

/* A writer that dies in a message leaves nothing to be seen of its last part. */
static void test_half_a_message_is_never_seen(void **state)
{
	struct pair *pair = *state;
	const void *message;
	size_t bytes;
	struct sy_ring_shared *ring = &pair->client.shared->requests;
	assert_true(sy_lane_send(&pair->client, "whole", 5));
	memset(ring->bytes + 16, 0xff, 1000); /* being written, `head` not moved yet */
	assert_true(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	assert_int_equal(bytes, 5);
	assert_false(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	assert_false(pair->unit.broken);
}

/* What lay there by its end is read, and nothing that is written afterwards. */
static void test_what_comes_after_the_end_is_not_read(void **state)
{
	struct pair *pair = *state;
	const void *message;
	size_t bytes;
	assert_true(sy_lane_send(&pair->client, "before", 6));
	assert_true(sy_lane_send(&pair->client, "too", 3));
	sy_ring_end(&pair->unit.in);
	assert_true(sy_lane_send(&pair->client, "after", 5));
	assert_true(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	assert_int_equal(bytes, 6);
	assert_true(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	assert_int_equal(bytes, 3);
	assert_false(sy_lane_receive(&pair->unit, pair->copy, &message, &bytes));
	assert_false(pair->unit.broken);
}

struct nonsense {
	uint32_t head, part, total;
};

/* One part at the ring's start, as a hostile writer would put it. */
static void test_nonsense_breaks_a_lane(void **state)
{
	struct pair *pair = *state;
	const uint32_t last = 1u << 30;
	const struct nonsense cases[] = {
		{SY_RING_BYTES + 8, 8 | last, 8}, /* more than the ring holds */
		{UINT32_MAX - 7, 8 | last, 8},    /* behind the reader */
		{8, 8 | last, 8},                 /* a head and nothing behind it */
		{12, 4 | last, 4},                /* not a multiple of 8 */
		{16, 0 | last, 0},                /* an empty part */
		{16, 9 | last, 9},                /* reaches past what is there */
		{16, 8, 8},                       /* all of it, and not the last */
		{16, 8 | last, 9},                /* the last, and not all of it */
		{16, 8, 100},                     /* a small part that goes on */
		{16, 8 | last, 7},                /* more than the whole */
		{16, UINT32_MAX, UINT32_MAX},
		{SY_RING_BYTES, SY_RING_BYTES - 8, SY_MESSAGE_MAX_BYTES * 2}, /* too long */
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		const void *message;
		size_t bytes;
		struct sy_ring_shared *ring = &pair->client.shared->requests;
		memcpy(ring->bytes, &cases[i].part, 4);
		memcpy(ring->bytes + 4, &cases[i].total, 4);
		__atomic_store_n(&ring->head, cases[i].head, __ATOMIC_RELEASE);
		if (sy_lane_receive(&pair->unit, pair->copy, &message, &bytes) || !pair->unit.broken)
			fail_msg("case %zu was taken", i);
		pair->unit.broken = false;
	}
}

static void test_a_mad_reader_breaks_a_lane(void **state)
{
	struct pair *pair = *state;
	struct sy_ring_shared *ring = &pair->client.shared->requests;
	__atomic_store_n(&ring->tail, 8, __ATOMIC_RELEASE); /* ahead of the writer */
	assert_false(sy_lane_send(&pair->client, "abc", 3));
	assert_true(pair->client.broken);
}

/* Whatever lies in the memory, an end stays within it and returns. */
static void test_scribbled_memory(void **state)
{
	struct pair *pair = *state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t *memory = (uint8_t *)pair->client.shared;
		const void *message;
		size_t bytes = 0;
		for (int i = 0; i < 8; i++)
			memory[sy_prng_below(&prng, i < 4 ? 256 : sizeof *pair->client.shared)] =
				(uint8_t)sy_prng_next(&prng);
		uint32_t head = pair->unit.in.tail + (uint32_t)sy_prng_below(&prng, 40) * 8;
		__atomic_store_n(&pair->client.shared->requests.head, head, __ATOMIC_RELEASE);
		if (sy_lane_receive(&pair->unit, pair->copy, &message, &bytes))
			assert_true(bytes <= SY_RING_BYTES);
		(void)sy_lane_send(&pair->unit, "reply", 5);
		(void)sy_lane_flush(&pair->unit);
		pair->unit.broken = false;
	}
}

/* Memory that its sender could cut off under the unit is not mapped. */
static void test_only_sealed_memory_is_mapped(void **state)
{
	struct pair *pair = *state;
	struct sy_lane lane;
	int small = sy_shared_make("small", 4096), loose = memfd_create("loose", MFD_ALLOW_SEALING);
	int file = open("/dev/null", O_RDWR | O_CLOEXEC);
	int huge = memfd_create("huge", MFD_ALLOW_SEALING | MFD_HUGETLB); /* -1: none here */
	assert_true(huge < 0 || (ftruncate(huge, 1 << 30) == 0 &&
	                         fcntl(huge, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0));
	assert_false(sy_shared_check(huge, sizeof *lane.shared));
	assert_int_equal(ftruncate(loose, 1 << 20), 0);
	assert_false(sy_lane_map(small, &pair->budget, &lane));
	assert_false(sy_lane_map(loose, &pair->budget, &lane));
	assert_null(sy_bell_map(loose));
	assert_false(sy_lane_map(file, &pair->budget, &lane));
	assert_null(sy_bell_map(file));
	assert_null(sy_bell_map(-1));
	if (huge >= 0)
		close(huge);
	close(small);
	close(loose);
	close(file);
}

static void test_bell_wakes_and_names_units(void **state)
{
	struct sy_bell *bell = NULL;
	int fd = -1;
	(void)state;
	assert_int_equal(sy_bell_make(&bell, &fd, NULL), SY_OK);
	struct sy_bell *theirs = sy_bell_map(fd);
	assert_non_null(theirs);
	uint32_t seen = sy_bell_look(bell);
	sy_bell_ring_for(theirs, 70);
	sy_bell_ring_for(theirs, 64);
	sy_bell_ring_for(theirs, UINT32_MAX); /* no unit of that number: a wake-up and no more */
	sy_bell_wait(bell, seen, UINT64_MAX); /* it rang since: no sleep */
	assert_int_not_equal(sy_bell_look(bell), seen);
	assert_int_equal(sy_bell_take(bell, 0), 0);
	assert_int_equal(sy_bell_take(bell, 1), 1u << 6 | 1u);
	assert_int_equal(sy_bell_take(bell, 1), 0);
	sy_bell_wait(bell, sy_bell_look(bell), 1); /* an instant long past */
	sy_bell_unmap(theirs);
	sy_bell_unmap(bell);
	close(fd);
}

static void *sleep_on_bell(void *bell)
{
	sy_bell_wait(bell, sy_bell_look(bell), UINT64_MAX);
	return NULL;
}

static void wait_for_sleeper(const struct sy_bell *bell)
{
	for (int i = 0; i < 60000 && __atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST) == 0; i++)
		usleep(1000);
	assert_int_equal(__atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST), 1);
}

/* A unit that is killed while it rings takes no other's wake-up with it. */
static void test_a_bell_outlives_who_rings(void **state)
{
	struct sy_bell *bell = NULL;
	pthread_t sleeper;
	int fd = -1;
	(void)state;
	assert_int_equal(sy_bell_make(&bell, &fd, NULL), SY_OK);
	__atomic_store_n(&bell->sleeping, 1, __ATOMIC_SEQ_CST);
	sy_bell_ring_for(bell, 0);
	assert_int_equal(__atomic_load_n(&bell->sleeping, __ATOMIC_SEQ_CST), 1);
	__atomic_store_n(&bell->sleeping, 0, __ATOMIC_SEQ_CST);

	/* Killed before it woke anybody: the next unit wakes. */
	assert_int_equal(pthread_create(&sleeper, NULL, sleep_on_bell, bell), 0);
	wait_for_sleeper(bell);
	__atomic_add_fetch(&bell->word, 1, __ATOMIC_SEQ_CST);
	sy_bell_ring_for(bell, 1);
	pthread_join(sleeper, NULL);

	/* Whatever units wrote there, this process wakes its own. */
	assert_int_equal(pthread_create(&sleeper, NULL, sleep_on_bell, bell), 0);
	wait_for_sleeper(bell);
	__atomic_store_n(&bell->sleeping, 0, __ATOMIC_SEQ_CST);
	sy_bell_ring(bell);
	pthread_join(sleeper, NULL);
	sy_bell_unmap(bell);
	close(fd);
}

int main(void)
{
#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, open_pair, close_pair)
	const struct CMUnitTest tests[] = {
		WITH_PAIR(test_order_and_content),
		WITH_PAIR(test_a_stalled_writer_is_woken),
		WITH_PAIR(test_what_waits_is_bounded),
		WITH_PAIR(test_the_budget_is_for_all),
		WITH_PAIR(test_half_a_message_is_never_seen),
		WITH_PAIR(test_what_comes_after_the_end_is_not_read),
		WITH_PAIR(test_nonsense_breaks_a_lane),
		WITH_PAIR(test_a_mad_reader_breaks_a_lane),
		WITH_PAIR(test_scribbled_memory),
		WITH_PAIR(test_only_sealed_memory_is_mapped),
		cmocka_unit_test(test_bell_wakes_and_names_units),
		cmocka_unit_test(test_a_bell_outlives_who_rings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
