/* The whole table: lost is said only where the incarnation is dead. */
#include "harness.h"
#include "machine.h"

static const enum sy_op_kind kinds[] = {
	SY_OP_KIND_PUT,       SY_OP_KIND_PUT_INLINE, SY_OP_KIND_COMMIT,
	SY_OP_KIND_RESOLVE,   SY_OP_KIND_RELEASE,    SY_OP_KIND_PIN_CHECK,
	SY_OP_KIND_SCAN,      SY_OP_KIND_INFO,       SY_OP_KIND_STATS,
};

static const enum sy_op_end failures[] = {
	SY_OP_END_TIMEOUT, SY_OP_END_MISSING, SY_OP_END_PROTOCOL,
	SY_OP_END_SESSION, SY_OP_END_WRITE,   SY_OP_END_NO_PATH,
};

static void test_success_and_what_the_unit_itself_said_stand(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT_OF(kinds); k++) {
		for (int says = SY_DIRECTORY_SILENT; says <= SY_DIRECTORY_DEAD; says++) {
			enum sy_directory_says s = (enum sy_directory_says)says;
			assert_int_equal(sy_verdict(kinds[k], SY_OP_END_OK, s), SY_OK);
			assert_int_equal(sy_verdict(kinds[k], SY_OP_END_FULL, s), SY_E_UNIT_FULL);
			assert_int_equal(sy_verdict(kinds[k], SY_OP_END_BUSY, s), SY_E_BUSY);
			assert_int_equal(sy_verdict(kinds[k], SY_OP_END_CLOSED, s), SY_E_INVALID);
		}
	}
	/* A late answer stands if the directory says that the unit lives. */
	assert_int_equal(sy_verdict(SY_OP_KIND_RESOLVE, SY_OP_END_LATE, SY_DIRECTORY_ALIVE), SY_OK);
	assert_int_equal(sy_verdict(SY_OP_KIND_RESOLVE, SY_OP_END_LATE, SY_DIRECTORY_SILENT),
	                 SY_E_TRANSFER_FAILED);
	assert_int_equal(sy_verdict(SY_OP_KIND_RESOLVE, SY_OP_END_LATE, SY_DIRECTORY_DEAD),
	                 SY_E_LOST);
}

static void test_a_dead_incarnation(void **state)
{
	(void)state;
	static const sy_status expected[COUNT_OF(kinds)] = {
		SY_E_TRANSFER_FAILED, SY_E_TRANSFER_FAILED, SY_E_TRANSFER_FAILED,
		SY_E_LOST,            SY_OK,                SY_E_LOST,
		SY_E_LOST,            SY_E_TRANSFER_FAILED, SY_E_TRANSFER_FAILED,
	};
	for (size_t k = 0; k < COUNT_OF(kinds); k++) {
		for (size_t f = 0; f < COUNT_OF(failures); f++)
			assert_int_equal(sy_verdict(kinds[k], failures[f], SY_DIRECTORY_DEAD), expected[k]);
	}
}

static void test_never_lost_and_never_done_without_the_directorys_word(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT_OF(kinds); k++) {
		bool put = kinds[k] == SY_OP_KIND_PUT || kinds[k] == SY_OP_KIND_PUT_INLINE ||
		           kinds[k] == SY_OP_KIND_COMMIT;
		for (int says = SY_DIRECTORY_SILENT; says <= SY_DIRECTORY_ALIVE; says++) {
			for (size_t f = 0; f < COUNT_OF(failures); f++) {
				sy_status status =
					sy_verdict(kinds[k], failures[f], (enum sy_directory_says)says);
				if (failures[f] == SY_OP_END_TIMEOUT)
					assert_int_equal(status, SY_E_TIMEOUT);
				else if (failures[f] == SY_OP_END_PROTOCOL && !put)
					assert_int_equal(status, SY_E_PROTOCOL);
				else
					assert_int_equal(status, SY_E_TRANSFER_FAILED);
			}
		}
	}
}

static void test_a_read_is_believed_for_half_its_pins_time(void **state)
{
	(void)state;
	const struct sy_machine_op resolve = {.sent_ns = 1000, .pin_ns = 600};
	assert_int_equal(sy_read_verdict(&resolve, 1000), SY_READ_GOOD);
	assert_int_equal(sy_read_verdict(&resolve, 1300), SY_READ_GOOD);
	assert_int_equal(sy_read_verdict(&resolve, 1301), SY_READ_ASK);
	assert_int_equal(sy_read_verdict(&resolve, 1000 + 600), SY_READ_ASK);
	const struct sy_machine_op local = {.sent_ns = 1000, .pin_ns = UINT64_MAX};
	assert_int_equal(sy_read_verdict(&local, UINT64_MAX / 2), SY_READ_GOOD);
}

static void test_a_pin_that_was_asked_for_stood_only_if_its_unit_says_so(void **state)
{
	(void)state;
	uint8_t held = 1;
	const struct sy_machine_op resolve = {.incarnation = 7};
	struct sy_machine_op check = {.end = SY_OP_END_OK, .incarnation = 7,
	                              .reply = {.held_count = 1, .held = &held}};
	assert_true(sy_read_stood(&resolve, &check));
	held = 0;
	assert_false(sy_read_stood(&resolve, &check));
	held = 1;
	check.incarnation = 8; /* another unit: it knows nothing of the pin */
	assert_false(sy_read_stood(&resolve, &check));
	check.incarnation = 7;
	check.end = SY_OP_END_TIMEOUT;
	assert_false(sy_read_stood(&resolve, &check));
}

static void test_what_names_nothing_of_the_dead_starts_anew(void **state)
{
	(void)state;
	for (size_t k = 0; k < COUNT_OF(kinds); k++) {
		struct sy_machine_op op = {.kind = kinds[k]};
		bool names = kinds[k] == SY_OP_KIND_COMMIT || kinds[k] == SY_OP_KIND_PIN_CHECK;
		assert_int_equal(sy_op_outlives_unit(&op), !names);
		op.in_flight = true;
		assert_false(sy_op_outlives_unit(&op));
	}
	struct sy_machine_op scan = {.kind = SY_OP_KIND_SCAN, .scan.cursor = 1};
	assert_false(sy_op_outlives_unit(&scan)); /* half of one unit's keys, half of another's */
}

static void test_a_remote_reaches_its_own_incarnation_alone(void **state)
{
	(void)state;
	const struct sy_machine_op op = {.incarnation = 7}, none = {.incarnation = 0};
	assert_true(sy_op_reaches(&op, 7));
	assert_false(sy_op_reaches(&op, 8));
	assert_false(sy_op_reaches(&op, 0));
	assert_false(sy_op_reaches(&none, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success_and_what_the_unit_itself_said_stand),
		cmocka_unit_test(test_a_dead_incarnation),
		cmocka_unit_test(test_never_lost_and_never_done_without_the_directorys_word),
		cmocka_unit_test(test_a_read_is_believed_for_half_its_pins_time),
		cmocka_unit_test(test_a_pin_that_was_asked_for_stood_only_if_its_unit_says_so),
		cmocka_unit_test(test_what_names_nothing_of_the_dead_starts_anew),
		cmocka_unit_test(test_a_remote_reaches_its_own_incarnation_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
