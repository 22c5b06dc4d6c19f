#include "harness.h"

#include <string.h>

#include "prng.h"
#include "units.h"

typedef sy_status parse_fn(const char *text, uint64_t *ret_value, sy_error *err);

static void assert_value(parse_fn *parse, const char *text, uint64_t expected)
{
	uint64_t value = 77;
	sy_error err = {0};
	if (parse(text, &value, &err) != SY_OK)
		fail_msg("\"%s\": %s", text, err.message);
	assert_int_equal(err.status, 0);
	if (value != expected)
		fail_msg("\"%s\" gave %llu", text, (unsigned long long)value);
}

/* Every message names the text, the fault and a good example. */
static void assert_refused(parse_fn *parse, const char *text, const char *fault)
{
	uint64_t value = 77;
	sy_error err = {0};
	char named[64];
	if (parse(text, &value, &err) != SY_E_INVALID)
		fail_msg("\"%s\" was taken for %llu", text, (unsigned long long)value);
	assert_int_equal(err.status, SY_E_INVALID);
	assert_int_equal(value, 77);
	snprintf(named, sizeof named, "\"%.30s", text);
	if (strstr(err.message, fault) == NULL || strstr(err.message, named) == NULL ||
	    strstr(err.message, "write one such as ") == NULL)
		fail_msg("\"%s\": %s", text, err.message);
	assert_int_equal(parse(text, &value, NULL), SY_E_INVALID);
}

static void test_bytes(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0}, {"4096", 4096}, {"007", 7}, {"1B", 1}, {"12b", 12}, {"1e9", 1000000000},
		{"1E+3", 1000}, {"2500e-2", 25}, {"0e99999999999", 0}, {"0.000", 0}, {"5.0", 5},
		{"2k", 2000}, {"2kB", 2000}, {"2KB", 2000}, {"2kb", 2000}, {"2K", 2048}, {"2KiB", 2048},
		{"2kib", 2048}, {"512mb", 512000000}, {"64MiB", 67108864}, {"64MIB", 67108864},
		{"64M", 67108864}, {"64m", 64000000}, {"1.5GiB", 1610612736}, {"1.5 GiB", 1610612736},
		{"1.5GB", 1500000000}, {"1G", 1073741824}, {"1g", 1000000000}, {"1TiB", (uint64_t)1 << 40},
		{"1T", (uint64_t)1 << 40}, {"1tb", 1000000000000}, {"1e3k", 1000000}, {"0.5KiB", 512},
		{"0.0009765625KiB", 1}, {"1.1k", 1100}, {"0.1k", 100},
		{"1.50000000000000000000000000000000000000000000000000000000000000000000000000000k", 1500},
		{"000000000000000000000000000000000000000000000000000000000000000000000000000000009", 9},
		{"9223372036854775807", INT64_MAX}, {"9223372036854775807.000", INT64_MAX},
		{"9223372.036854775807TB", INT64_MAX}, {"8388607.9999990463256835937500TiB",
		(((uint64_t)8388608 << 20) - 1) << 20},
		{"0.0000000000009094947017729282379150390625TiB", 1},
	};
	for (size_t i = 0; i < COUNT_OF(good); i++)
		assert_value(sy_parse_bytes, good[i].text, good[i].bytes);
}

static void test_bad_bytes(void **state)
{
	(void)state;
	assert_refused(sy_parse_bytes, "", "is empty");
	uint64_t value;
	assert_int_equal(sy_parse_bytes(NULL, &value, NULL), SY_E_INVALID);
	const char *const negative[] = {"-1", "-", "-0", "-1GiB"};
	for (size_t i = 0; i < COUNT_OF(negative); i++)
		assert_refused(sy_parse_bytes, negative[i], "is negative");
	const char *const no_number[] = {"abc", "+1", " 1", ".5", "GiB", "nan", "inf", "e9"};
	for (size_t i = 0; i < COUNT_OF(no_number); i++)
		assert_refused(sy_parse_bytes, no_number[i], "is not a number");
	const char *const unit[] = {
		"1x", "1 ", "1  k", "1kk", "1Ki", "1iB", "1e", "1e+", "1.", "1..5", "1,5", "0x10", "1_0",
		"1 0", "1bb", "1kBs", "1P", "1k ", "1.5.2", "1GiBB", "1e9e9",
	};
	for (size_t i = 0; i < COUNT_OF(unit); i++)
		assert_refused(sy_parse_bytes, unit[i], "has an unknown unit");
}

static void test_bytes_out_of_range(void **state)
{
	(void)state;
	const char *const over[] = {
		"99999999999999999999", "9223372036854775808", "18446744073709551616", "8388608TiB",
		"1e19", "1e999999999999999999999", "9999999999G", "99999999999999999999.5",
		"1111111111111111111111111111111111111111111111111111111111111111111111",
	};
	for (size_t i = 0; i < COUNT_OF(over); i++)
		assert_refused(sy_parse_bytes, over[i], "is over 2^63 - 1");
	const char *const part[] = {
		"0.1", "1.5", "1.5B", "0.1KiB", "1e-1", "0.0001k", "1.1GiB", "0.1e-99999999999",
		"9223372036854775806.5", "0.0000000000009094947017729282379150390626TiB",
		"0.00000000000000000000000000000000000000000000000000000000000000000001T",
		"3.00000000000000000000000000000000000000000000000000000000000000000001T",
		"0.11111111111111111111111111111111111111111111111111111111111111111111T",
	};
	for (size_t i = 0; i < COUNT_OF(part); i++)
		assert_refused(sy_parse_bytes, part[i], "is not a whole number of bytes");
}

/* n / 2^40 has at most 40 digits after its point: written out in full it must come back as n,
 * and with one digit more as no whole number. */
static void test_exact_fractions(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int round = 0; round < 20000; round++) {
		uint64_t n = sy_prng_next(&prng) >> (1 + sy_prng_below(&prng, 62));
		uint64_t rest = n & (((uint64_t)1 << 40) - 1);
		char text[96];
		int at = snprintf(text, sizeof text, "%llu.", (unsigned long long)(n >> 40));
		for (int i = 0; i < 40; i++, rest &= ((uint64_t)1 << 40) - 1) {
			rest *= 10;
			text[at++] = (char)('0' + (rest >> 40));
		}
		memcpy(text + at, "tib", 4);
		assert_value(sy_parse_bytes, text, n);
		memcpy(text + at, "1TiB", 5);
		assert_refused(sy_parse_bytes, text, "is not a whole number of bytes");
	}
}

static void test_durations(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"2", 2000000000}, {"2s", 2000000000}, {"2 s", 2000000000}, {"2S", 2000000000},
		{"500ms", 500000000}, {"250us", 250000}, {"10ns", 10}, {"1.5m", 90000000000},
		{"1h", 3600000000000}, {"0.001", 1000000}, {"0", 0}, {"1e-9", 1},
		{"0.000000000125h", 450}, {"9223372036.854775807", INT64_MAX},
	};
	for (size_t i = 0; i < COUNT_OF(good); i++)
		assert_value(sy_parse_duration, good[i].text, good[i].ns);
	assert_refused(sy_parse_duration, "", "is empty");
	assert_refused(sy_parse_duration, "-1s", "is negative");
	assert_refused(sy_parse_duration, "soon", "is not a number");
	assert_refused(sy_parse_duration, "2 days", "has an unknown unit");
	assert_refused(sy_parse_duration, "1sec", "has an unknown unit");
	assert_refused(sy_parse_duration, "1e-10", "is not a whole number of nanoseconds");
	assert_refused(sy_parse_duration, "0.5ns", "is not a whole number of nanoseconds");
	assert_refused(sy_parse_duration, "9223372036.854775808", "is over 2^63 - 1");
	assert_refused(sy_parse_duration, "9999999h", "is over 2^63 - 1");
}

static sy_status parse_u64(const char *text, uint64_t *ret_value, sy_error *err)
{
	return sy_parse_u64(text, strlen(text), ret_value, err);
}

static void test_u64(void **state)
{
	(void)state;
	assert_value(parse_u64, "0", 0);
	assert_value(parse_u64, "42", 42);
	assert_value(parse_u64, "18446744073709551615", UINT64_MAX);
	assert_refused(parse_u64, "", "is empty");
	assert_refused(parse_u64, "00", "has a leading zero");
	assert_refused(parse_u64, "042", "has a leading zero");
	const char *const no_number[] = {"-1", "+1", " 1", "1 ", "1.0", "1e3", "x", "1/", "1:"};
	for (size_t i = 0; i < COUNT_OF(no_number); i++)
		assert_refused(parse_u64, no_number[i], "is not a whole decimal number");
	assert_refused(parse_u64, "18446744073709551616", "is over");
	assert_refused(parse_u64, "99999999999999999999", "is over");
	assert_refused(parse_u64, "123456789012345678901234567890", "is over");
	uint64_t value;
	assert_int_equal(sy_parse_u64("1234", 2, &value, NULL), SY_OK);
	assert_int_equal(value, 12);
	assert_int_equal(sy_parse_u64(NULL, 0, &value, NULL), SY_E_INVALID);
}

static void assert_shown(uint64_t bytes, const char *expected)
{
	char out[16];
	sy_format_bytes(bytes, out);
	assert_string_equal(out, expected);
}

static void test_format_bytes(void **state)
{
	(void)state;
	assert_shown(0, "0 B");
	assert_shown(320, "320 B");
	assert_shown(1023, "1023 B");
	assert_shown(1024, "1 KiB");
	assert_shown(1536, "1.5 KiB");
	assert_shown(67108864, "64 MiB");
	assert_shown(1610612736, "1.5 GiB");
	assert_shown(1048575, "1.0 MiB"); /* not "1024.0 KiB" */
	assert_shown(1048524, "1023.9 KiB");
	assert_shown(1048525, "1.0 MiB");
	assert_shown(1024 + 51, "1.0 KiB");
	assert_shown(1024 + 52, "1.1 KiB");
	assert_shown((uint64_t)1 << 60, "1 EiB");
	assert_shown(UINT64_MAX, "16.0 EiB");
}

static void test_format_duration(void **state)
{
	(void)state;
	static const uint64_t values[] = {0, 1, 999, 1000, 1500000, 20000000, 60000000000,
	                                  INT64_MAX, 1001000000};
	static const char *const texts[] = {"0s", "1ns", "999ns", "1us", "1500us", "20ms", "60s",
	                                    "9223372036854775807ns", "1001ms"};
	for (size_t i = 0; i < COUNT_OF(values); i++) {
		char out[SY_DURATION_TEXT_BYTES];
		sy_format_duration(values[i], out);
		assert_string_equal(out, texts[i]);
		assert_value(sy_parse_duration, out, values[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_bad_bytes),
		cmocka_unit_test(test_bytes_out_of_range),
		cmocka_unit_test(test_exact_fractions),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_u64),
		cmocka_unit_test(test_format_bytes),
		cmocka_unit_test(test_format_duration),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
