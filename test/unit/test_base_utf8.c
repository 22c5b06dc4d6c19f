#include "harness.h"

#include <string.h>

#include "utf8.h"

/* As RFC 3629 draws the bits, with no regard to what is allowed. */
static size_t encode(uint32_t c, uint8_t out[4])
{
	if (c < 0x80) {
		out[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (uint8_t)(0xc0 | c >> 6);
		out[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (uint8_t)(0xe0 | c >> 12);
		out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		out[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (uint8_t)(0xf0 | c >> 18);
	out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	out[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}

static void test_every_character(void **state)
{
	(void)state;
	for (uint32_t c = 0; c < 0x200000; c++) {
		uint8_t text[5] = {0, 0, 0, 0, 0x80};
		size_t bytes = encode(c, text);
		bool allowed = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
		assert_int_equal(sy_utf8_bytes(text, 5), allowed ? bytes : 0);
		for (size_t cut = 0; cut < bytes; cut++)
			assert_int_equal(sy_utf8_bytes(text, cut), 0);
	}
}

/* Overlong forms and stray bytes too: each sequence accepted is one of the characters, so equal
 * counts mean that nothing else is. */
static void test_nothing_but_characters(void **state)
{
	(void)state;
	size_t counts[5] = {0};
	for (uint32_t i = 0; i < 1u << 24; i++) {
		const uint8_t text[3] = {(uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i};
		counts[sy_utf8_bytes(text, 3)]++;
	}
	assert_int_equal(counts[1], 0x80 << 16);
	assert_int_equal(counts[2], (0x800 - 0x80) << 8);
	assert_int_equal(counts[3], 0x10000 - 0x800 - 0x800);

	const uint8_t last[] = {0x7f, 0x80, 0xbf, 0xc0};
	size_t fours = 0;
	for (uint32_t i = 0; i < 1u << 20; i++) {
		for (size_t k = 0; k < COUNT_OF(last); k++) {
			const uint8_t text[4] = {
				(uint8_t)(0xf0 | i >> 16), (uint8_t)(i >> 8), (uint8_t)i, last[k],
			};
			fours += sy_utf8_bytes(text, 4) == 4;
		}
	}
	assert_int_equal(fours, (0x110000 - 0x10000) / 64 * 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_character),
		cmocka_unit_test(test_nothing_but_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
