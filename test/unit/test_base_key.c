#include "harness.h"

#include <string.h>

#include "key.h"

static void assert_key(const char *key, uint64_t gidx, const char *field)
{
	uint64_t got;
	const char *got_field;
	size_t got_bytes;
	assert_int_equal(sy_key_parse(key, strlen(key), &got, &got_field, &got_bytes, NULL), SY_OK);
	assert_int_equal(got, gidx);
	assert_int_equal(got_bytes, strlen(field));
	assert_memory_equal(got_field, field, got_bytes);
	assert_ptr_equal(got_field + got_bytes, key + strlen(key));
}

static void test_good_keys(void **state)
{
	(void)state;
	assert_key("0@a", 0, "a");
	assert_key("17@input_ids", 17, "input_ids");
	assert_key("18446744073709551615@x", UINT64_MAX, "x");
	assert_key("5@a@b@", 5, "a@b@");
	assert_key("5@@", 5, "@");
	assert_key("1@with space\tand\nline", 1, "with space\tand\nline");
	assert_key("1@\xc3\xa4\xe2\x82\xac", 1, "\xc3\xa4\xe2\x82\xac");
	assert_key("1@\xf0\x9f\x98\x80", 1, "\xf0\x9f\x98\x80");
}

/* A part of the message each, so that the right fault is named. */
static void assert_refused_bytes(const char *key, size_t bytes, const char *part)
{
	sy_error err = {0};
	uint64_t gidx = 1234;
	const char *field = "untouched";
	size_t field_bytes = 99;
	assert_int_equal(sy_key_parse(key, bytes, &gidx, &field, &field_bytes, &err), SY_E_INVALID);
	assert_int_equal(err.status, SY_E_INVALID);
	if (strstr(err.message, part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.message, part);
	assert_int_equal(gidx, 1234);
	assert_string_equal(field, "untouched");
	assert_int_equal(field_bytes, 99);
}

static void assert_refused(const char *key, const char *part)
{
	assert_refused_bytes(key, strlen(key), part);
}

static void test_bad_keys(void **state)
{
	(void)state;
	assert_refused("", "has no '@'");
	assert_refused_bytes(NULL, 0, "has no '@'");
	assert_refused("17", "key \"17\" has no '@'");
	const char *const bad_rows[] = {"@a",    "00@a",  "01@a",  "-1@a", "+1@a", " 1@a", "1 @a",
	                                "0x1@a", "1.0@a", "1e3@a", "x@a",  "1_0@a",
	                                "18446744073709551616@a", "99999999999999999999@a",
	                                "340282366920938463463374607431768211456@a"};
	for (size_t i = 0; i < COUNT_OF(bad_rows); i++)
		assert_refused(bad_rows[i], "row number");
	assert_refused_bytes("1\0002@a", 5, "row number");
	assert_refused("5@", "is empty");
	assert_refused_bytes("5@a\0b", 5, "NUL");
	assert_refused("5@\xff", "UTF-8");
}

/* The '@' may be missing from the part that the caller gave, though it follows. */
static void test_key_ends_where_it_is_said_to(void **state)
{
	(void)state;
	assert_refused_bytes("17@a", 2, "has no '@'");
	uint64_t gidx;
	const char *field;
	size_t field_bytes;
	assert_int_equal(sy_key_parse("17@abc", 4, &gidx, &field, &field_bytes, NULL), SY_OK);
	assert_int_equal(field_bytes, 1);
}

static void test_huge_key_gives_a_short_message(void **state)
{
	(void)state;
	static char key[5000];
	memset(key, 'a', sizeof key);
	assert_refused_bytes(key, sizeof key, "has no '@'");
	memcpy(key, "7@", 2);
	assert_refused_bytes(key, 2 + 1025, "longer than 1024");
	uint64_t gidx;
	const char *field;
	size_t field_bytes;
	assert_int_equal(sy_key_parse(key, 2 + 1024, &gidx, &field, &field_bytes, NULL), SY_OK);
	assert_int_equal(field_bytes, 1024);
}

static void test_name_faults(void **state)
{
	(void)state;
	static char name[2000];
	memset(name, 'n', sizeof name);
	assert_null(sy_name_fault(name, 1));
	assert_null(sy_name_fault(name, 1024));
	assert_string_equal(sy_name_fault(name, 1025), "is longer than 1024 bytes");
	assert_string_equal(sy_name_fault(name, 0), "is empty");
	assert_string_equal(sy_name_fault(NULL, 0), "is empty");
	for (size_t at = 0; at < 40; at++) { /* in every place of the eight that are read at once */
		name[at] = '\0';
		assert_string_equal(sy_name_fault(name, 40), "holds a NUL byte");
		name[at] = (char)0x80;
		assert_string_equal(sy_name_fault(name, 40), "is not valid UTF-8");
		name[at] = 'n';
	}
}

/* A character may straddle the eight bytes, or be cut by the end of the name. */
static void test_name_with_long_characters(void **state)
{
	(void)state;
	static const char *const characters[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
	for (size_t c = 0; c < COUNT_OF(characters); c++) {
		size_t bytes = strlen(characters[c]);
		for (size_t at = 0; at < 20; at++) {
			char name[32];
			memset(name, 'n', sizeof name);
			memcpy(name + at, characters[c], bytes);
			assert_null(sy_name_fault(name, at + bytes));
			assert_null(sy_name_fault(name, sizeof name));
			assert_string_equal(sy_name_fault(name, at + bytes - 1), "is not valid UTF-8");
		}
	}
	assert_string_equal(sy_name_fault("\xc0\x80", 2), "is not valid UTF-8");
	assert_string_equal(sy_name_fault("\xed\xa0\x80", 3), "is not valid UTF-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_keys),
		cmocka_unit_test(test_bad_keys),
		cmocka_unit_test(test_key_ends_where_it_is_said_to),
		cmocka_unit_test(test_huge_key_gives_a_short_message),
		cmocka_unit_test(test_name_faults),
		cmocka_unit_test(test_name_with_long_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
