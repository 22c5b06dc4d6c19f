/* The formatter must say what snprintf says, for every conversion that fail.h names. */
#include "harness.h"

#include <limits.h>
#include <string.h>

#include "fail.h"
#include "guard.h"

enum { OUT_BYTES = 96 };

/* Both at every size: equal text, equal length, nothing written before or behind it. */
#define SAME(...) \
	do { \
		for (size_t size = 0; size <= OUT_BYTES; size++) { \
			char ours[OUT_BYTES + 2]; \
			char theirs[OUT_BYTES + 2]; \
			memset(ours, '~', sizeof ours); \
			memset(theirs, '~', sizeof theirs); \
			size_t our_length = sy_format(ours + 1, size, __VA_ARGS__); \
			int their_length = snprintf(theirs + 1, size, __VA_ARGS__); \
			assert_int_equal(our_length, their_length); \
			assert_memory_equal(ours, theirs, sizeof ours); \
		} \
	} while (0)

static void test_text(void **state)
{
	(void)state;
	const char unterminated[3] = {'a', 'b', 'c'};
	SAME("%s", "");
	SAME("plain");
	SAME("100%% of %s", "it");
	SAME("<%s|%8s|%-8s|%2s>", "abc", "abc", "abc", "abc");
	SAME("<%.*s|%.*s>", 2, "abc", 9, "abc");
	SAME("<%.*s>", 3, unterminated);
	SAME("<%.0s|%.2s|%8.2s|%.60s>", "abc", "abc", "abc", "abc");
	SAME("<%.*s>", -1, "abc");
	SAME("%c%c%3c%-3c.", 'x', '\n', 'y', 'z');
	SAME("%s is longer than what is there, and says so by its length alone", "this");
}

static void test_null_string_is_named(void **state)
{
	(void)state;
	char out[16];
	const char *volatile none = NULL; /* hidden from the compiler, which would warn */
	assert_int_equal(sy_format(out, sizeof out, "%s", none), 6);
	assert_string_equal(out, "(null)");
}

static void test_integers_of_every_length(void **state)
{
	(void)state;
	const long long signed_values[] = {0,       1,       -1,        9,        10, -10,
	                                   INT_MAX, INT_MIN, LLONG_MAX, LLONG_MIN};
	for (size_t i = 0; i < COUNT_OF(signed_values); i++) {
		long long v = signed_values[i];
		SAME("%d %5d %05d %-5d|", (int)v, (int)v, (int)v, (int)v);
		SAME("%ld %lld %zd %24lld %024lld|", (long)v, v, (ptrdiff_t)v, v, v);
	}
	const unsigned long long values[] = {0, 1, 9, 10, 15, 16, 255, 256, UINT_MAX, ULLONG_MAX};
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		unsigned long long v = values[i];
		unsigned u = (unsigned)v;
		SAME("%u %x %02x %3u %-3u|", u, u, u, u, u);
		SAME("%lu %llu %zu|", (unsigned long)v, v, (size_t)v);
		SAME("%lx %llx %zx %016llx %-18llx|", (unsigned long)v, v, (size_t)v, v, v);
	}
}

static void test_arguments_keep_their_order(void **state)
{
	(void)state;
	SAME("%s %llu %.*s %u %c %zu %d %s", "a", 1ull << 40, 2, "bcd", 7u, 'e', (size_t)9, -3, "f");
}

#ifndef SY_NO_ASSERT
static jmp_buf back;

static void jump_back(const char *file, int line, const char *expression)
{
	(void)file;
	(void)line;
	(void)expression;
	longjmp(back, 1);
}

static bool is_let_through(const char *volatile format)
{
	char out[16];
	if (setjmp(back) != 0)
		return false;
	sy_assert_hook = jump_back;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-security"
	sy_format(out, sizeof out, format);
#pragma GCC diagnostic pop
	return true;
}

/* A bug of ours, so an assertion, and not a message that lies. */
static void test_unknown_conversion_is_an_assertion(void **state)
{
	(void)state;
	static const char *const formats[] = {"%f", "%", "%5", "%p", "%hd", "%ll"};
	for (size_t i = 0; i < COUNT_OF(formats); i++) {
		if (is_let_through(formats[i]))
			fail_msg("%s was let through", formats[i]);
	}
	sy_assert_hook = NULL;
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_null_string_is_named),
		cmocka_unit_test(test_integers_of_every_length),
		cmocka_unit_test(test_arguments_keep_their_order),
#ifndef SY_NO_ASSERT
		cmocka_unit_test(test_unknown_conversion_is_an_assertion),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
