#include "harness.h"

#include <string.h>

#include "fail.h"
#include "utf8.h"

static sy_error dirty_error(uint32_t *indexes)
{
	sy_error err;
	memset(&err, 0x5a, sizeof err);
	err.in_flight = true;
	err.indexes = indexes;
	err.index_capacity = 4;
	err.index_count = 3;
	return err;
}

static void test_sets_all_and_keeps_the_lent_array(void **state)
{
	(void)state;
	uint32_t indexes[4] = {9, 8, 7, 6};
	sy_error err = dirty_error(indexes);
	assert_int_equal(sy_fail(&err, SY_E_TIMEOUT, "here", "unit %u after %llu ms", 3u, 250ull),
	                 SY_E_TIMEOUT);
	assert_int_equal(err.status, SY_E_TIMEOUT);
	assert_string_equal(err.where, "here");
	assert_string_equal(err.message, "unit 3 after 250 ms");
	assert_false(err.in_flight);
	assert_null(err.reason);
	assert_int_equal(err.need, 0);
	assert_int_equal(err.free, 0);
	assert_int_equal(err.largest_hole, 0);
	assert_int_equal(err.index_count, 0);
	assert_ptr_equal(err.indexes, indexes);
	assert_int_equal(err.index_capacity, 4);
	assert_int_equal(indexes[0], 9);
}

static void test_no_error_record_is_fine(void **state)
{
	(void)state;
	assert_int_equal(sy_fail(NULL, SY_E_INVALID, "here", "%s", "x"), SY_E_INVALID);
	assert_int_equal(sy_fail_full(NULL, "here", "bytes", 1, 2, 3), SY_E_UNIT_FULL);
}

static void test_an_error_may_wrap_its_own_message(void **state)
{
	(void)state;
	sy_error err = {0};
	sy_fail(&err, SY_E_SYS, "inner", "no space left");
	sy_fail(&err, SY_E_TRANSFER, "outer", "unit 2: %s (%s)", err.message, err.where);
	assert_string_equal(err.message, "unit 2: no space left (inner)");
}

static void test_full_names_the_numbers(void **state)
{
	(void)state;
	uint32_t indexes[4];
	sy_error err = dirty_error(indexes);
	assert_int_equal(sy_fail_full(&err, "alloc", "bytes", 4096, 8192, 1024), SY_E_UNIT_FULL);
	assert_int_equal(err.status, SY_E_UNIT_FULL);
	assert_string_equal(err.reason, "bytes");
	assert_int_equal(err.need, 4096);
	assert_int_equal(err.free, 8192);
	assert_int_equal(err.largest_hole, 1024);
	assert_int_equal(err.index_count, 0);
	assert_non_null(strstr(err.message, "4096 bytes"));
	assert_non_null(strstr(err.message, "8192 free"));
	assert_non_null(strstr(err.message, "1024"));

	sy_fail_full(&err, "alloc", "pins", 2, 1, 0);
	assert_string_equal(err.reason, "pins");
	assert_int_equal(err.need, 2);
	assert_int_equal(err.free, 1);
	assert_non_null(strstr(err.message, "2 more pins"));
	assert_non_null(strstr(err.message, "1 free"));
}

static void assert_one_line_of_utf8(const char *message)
{
	size_t bytes = strlen(message);
	assert_true(bytes < SY_ERROR_MESSAGE_BYTES);
	for (size_t at = 0; at < bytes;) {
		size_t step = sy_utf8_bytes(message + at, bytes - at);
		assert_true(step > 0);
		assert_true(step > 1 || ((uint8_t)message[at] >= 0x20 && message[at] != 0x7f));
		at += step;
	}
}

/* Names and peers are hostile: no second line, no terminal command, no broken UTF-8. */
static void test_message_is_one_clean_line(void **state)
{
	(void)state;
	sy_error err = {0};
	sy_fail(&err, SY_E_INVALID, "x", "a\nb\tc\x1b[31m\x7f|\xc2\x9b|\xc3\xa4|\xff|\xe2\x82|%s",
	        "\xf0\x9f\x98\x80");
	assert_string_equal(err.message, "a?b?c?[31m?|?|\xc3\xa4|?|??|\xf0\x9f\x98\x80");
	assert_one_line_of_utf8(err.message);
}

static void test_long_message_is_cut_at_a_character(void **state)
{
	(void)state;
	char fits[SY_ERROR_MESSAGE_BYTES];
	memset(fits, 'a', sizeof fits - 1);
	fits[sizeof fits - 1] = '\0';
	sy_error err = {0};
	sy_fail(&err, SY_E_INVALID, "x", "%s", fits);
	assert_string_equal(err.message, fits);
	sy_fail(&err, SY_E_INVALID, "x", "%sb", fits);
	assert_int_equal(strlen(err.message), SY_ERROR_MESSAGE_BYTES - 1);
	assert_string_equal(err.message + SY_ERROR_MESSAGE_BYTES - 5, "a...");

	/* The cut falls on every byte of the four-byte characters in turn. */
	for (size_t lead = 0; lead < 8; lead++) {
		char text[SY_ERROR_MESSAGE_BYTES * 2] = "12345678";
		size_t at = lead;
		for (; at + 5 < sizeof text; at += 4)
			memcpy(text + at, "\xf0\x9f\x98\x80", 5);
		sy_fail(&err, SY_E_INVALID, "x", "%s", text);
		assert_one_line_of_utf8(err.message);
		size_t length = strlen(err.message);
		assert_true(length >= SY_ERROR_MESSAGE_BYTES - 4);
		assert_string_equal(err.message + length - 3, "...");
		assert_null(strchr(err.message, '?'));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets_all_and_keeps_the_lent_array),
		cmocka_unit_test(test_no_error_record_is_fine),
		cmocka_unit_test(test_an_error_may_wrap_its_own_message),
		cmocka_unit_test(test_full_names_the_numbers),
		cmocka_unit_test(test_message_is_one_clean_line),
		cmocka_unit_test(test_long_message_is_cut_at_a_character),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
