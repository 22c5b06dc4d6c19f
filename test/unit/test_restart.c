#include "harness.h"

#include "restart.h"

static const uint64_t MS = 1000000u, S = 1000000000u;

static void test_later_and_later_and_not_for_ever(void **state)
{
	(void)state;
	static const uint64_t waits_ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000};
	struct sy_restart restart = {0};
	uint64_t now_ns = 1000 * S;
	sy_restart_begun(&restart, now_ns);
	for (size_t i = 0; i < COUNT_OF(waits_ms); i++) {
		now_ns += 59 * S;
		assert_true(sy_restart_ended(&restart, now_ns));
		assert_int_equal(restart.due_ns, now_ns + waits_ms[i] * MS);
		now_ns = restart.due_ns;
		sy_restart_begun(&restart, now_ns);
		assert_int_equal(restart.due_ns, 0);
	}
	assert_false(sy_restart_ended(&restart, now_ns + 59 * S));
	assert_int_equal(restart.due_ns, 0);
}

static void test_what_lasted_begins_anew(void **state)
{
	(void)state;
	struct sy_restart restart = {0};
	uint64_t now_ns = 1000 * S;
	for (int i = 0; i < 5; i++) {
		sy_restart_begun(&restart, now_ns);
		assert_true(sy_restart_ended(&restart, now_ns));
	}
	sy_restart_begun(&restart, now_ns);
	assert_true(sy_restart_ended(&restart, now_ns + 60 * S));
	assert_int_equal(restart.due_ns, now_ns + 60 * S + 100 * MS);
}

/* One that cannot even be started has no other beginning than that of the one before. */
static void test_a_start_that_fails_counts(void **state)
{
	(void)state;
	struct sy_restart restart = {0};
	uint32_t tries = 0;
	sy_restart_begun(&restart, S);
	for (uint64_t now_ns = S; sy_restart_ended(&restart, now_ns); now_ns = restart.due_ns)
		tries++;
	assert_int_equal(tries, SY_RESTARTS_IN_A_ROW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_later_and_later_and_not_for_ever),
		cmocka_unit_test(test_what_lasted_begins_anew),
		cmocka_unit_test(test_a_start_that_fails_counts),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
