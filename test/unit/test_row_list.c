#include "harness.h"

#include <string.h>

#include "row_list.h"

static void assert_list(const char *text, const struct sy_row_range *wanted, size_t count)
{
	struct sy_row_list list;
	sy_error err = {0};
	if (sy_row_list_parse(text, &list, &err) != SY_OK)
		fail_msg("%s: %s", text, err.message);
	assert_int_equal(list.count, count);
	assert_memory_equal(list.ranges, wanted, count * sizeof *wanted);
	sy_row_list_done(&list);
}

#define LIST(text, ...) \
	assert_list(text, (const struct sy_row_range[]){__VA_ARGS__}, \
	            COUNT_OF(((const struct sy_row_range[]){__VA_ARGS__})))

static void test_lists(void **state)
{
	(void)state;
	LIST("7", {7, 7});
	LIST("0-1318", {0, 1318});
	LIST("1,5,7-9", {1, 1}, {5, 5}, {7, 9});
	LIST("7-9,5,1", {1, 1}, {5, 5}, {7, 9});
	LIST("1,2,3", {1, 3});
	LIST("0-10,5,3-12,14", {0, 12}, {14, 14});
	LIST("5-5", {5, 5});
	LIST("0-18446744073709551615,3", {0, UINT64_MAX});
	LIST("18446744073709551615", {UINT64_MAX, UINT64_MAX});
}

static void test_refused(void **state)
{
	static const char *const bad[] = {"", ",", "1,", ",1", "-", "-1", "1-", "a", "1-b", "01",
	                                  "0x1", "1 ", " 1", "1--2", "1-2-3", "+1", "1;2",
	                                  "18446744073709551616", "0-18446744073709551616", "9-1"};
	(void)state;
	for (size_t i = 0; i < COUNT_OF(bad); i++) {
		struct sy_row_list list;
		sy_error err = {0};
		if (sy_row_list_parse(bad[i], &list, &err) != SY_E_INVALID)
			fail_msg("\"%s\" was taken", bad[i]);
		assert_true(strncmp(err.message, "rows \"", 6) == 0);
	}
}

static void test_membership_and_size(void **state)
{
	struct sy_row_list list;
	(void)state;
	assert_int_equal(sy_row_list_parse("3,5-9,20-30", &list, NULL), SY_OK);
	for (uint64_t row = 0; row < 40; row++)
		assert_int_equal(sy_row_list_has(&list, row),
		                 row == 3 || (row >= 5 && row <= 9) || (row >= 20 && row <= 30));
	assert_int_equal(sy_row_list_rows(&list), 17);
	sy_row_list_done(&list);
	assert_int_equal(sy_row_list_all(&list, NULL), SY_OK);
	assert_true(sy_row_list_has(&list, 0));
	assert_true(sy_row_list_has(&list, UINT64_MAX));
	assert_true(sy_row_list_rows(&list) == UINT64_MAX);
	sy_row_list_done(&list);
	assert_int_equal(sy_row_list_parse("1-18446744073709551614", &list, NULL), SY_OK);
	assert_true(sy_row_list_rows(&list) == UINT64_MAX - 1);
	sy_row_list_done(&list);
}

static void test_too_many(void **state)
{
	size_t count = SY_ROW_RANGES_MAX;
	char *text = malloc(2 * count + 2);
	struct sy_row_list list;
	(void)state;
	for (size_t i = 0; i < count; i++)
		memcpy(text + 2 * i, "1,", 2);
	text[2 * count - 1] = '\0';
	assert_int_equal(sy_row_list_parse(text, &list, NULL), SY_OK);
	assert_int_equal(list.count, 1);
	sy_row_list_done(&list);
	memcpy(text + 2 * count - 1, ",1", 3);
	assert_int_equal(sy_row_list_parse(text, &list, NULL), SY_E_INVALID);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_membership_and_size),
		cmocka_unit_test(test_too_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
