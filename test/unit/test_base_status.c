#include "harness.h"

#include <ctype.h>
#include <string.h>

#include <slabyard/status.h>

struct status_row {
	const char *constant;
	sy_status status;
	const char *python;
	const char *meaning;
};

static const struct status_row rows[] = {
#define ROW(name, value, python, meaning) {#name, name, python, meaning},
	SY_STATUS_LIST(ROW)
#undef ROW
};

/* "SY_E_UNIT_FULL" to "UnitFull". */
static void name_of(const char *constant, char *out)
{
	const char *at = strncmp(constant, "SY_E_", 5) == 0 ? constant + 5 : constant + 3;
	bool upper = true;
	for (; *at != '\0'; at++) {
		if (*at != '_')
			*out++ = (char)(upper ? *at : tolower(*at));
		upper = *at == '_';
	}
	*out = '\0';
}

static void test_names_follow_the_constants(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		char expected[64];
		name_of(rows[i].constant, expected);
		assert_string_equal(sy_status_name(rows[i].status), expected);
	}
	assert_string_equal(sy_status_name(SY_E_UNIT_FULL), "UnitFull");
}

static void test_python_and_meaning_come_from_the_list(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT_OF(rows); i++) {
		assert_string_equal(sy_status_python(rows[i].status), rows[i].python);
		assert_string_equal(sy_status_meaning(rows[i].status), rows[i].meaning);
	}
}

/* Released values never change. */
static void test_values(void **state)
{
	(void)state;
	const int expected[] = {0,   101, 102, 103, 104, 105, 106, 201, 301, 401, 402, 403, 404, 405};
	assert_true(COUNT_OF(rows) >= COUNT_OF(expected));
	for (size_t i = 0; i < COUNT_OF(expected); i++)
		assert_int_equal(rows[i].status, expected[i]);
}

static void test_no_such_value(void **state)
{
	(void)state;
	const int values[] = {-1, 1, 100, 107, 500, 1 << 30};
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		assert_string_equal(sy_status_name((sy_status)values[i]), "Unknown");
		assert_non_null(sy_status_python((sy_status)values[i]));
		assert_non_null(sy_status_meaning((sy_status)values[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_follow_the_constants),
		cmocka_unit_test(test_python_and_meaning_come_from_the_list),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_no_such_value),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
