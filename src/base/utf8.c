#include "utf8.h"

#include <stdbool.h>
#include <stdint.h>

static bool is_continuation(uint8_t byte)
{
	return (byte & 0xc0) == 0x80;
}

/* The second byte alone tells overlong forms, surrogates and too large characters apart, so its
 * range depends on the first (Unicode, table 3-7). */
size_t sy_utf8_bytes(const void *text, size_t bytes)
{
	const uint8_t *p = text;
	if (bytes == 0)
		return 0;
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4 || bytes < 2)
		return 0;
	if (p[0] < 0xe0)
		return is_continuation(p[1]) ? 2 : 0;
	uint8_t low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	uint8_t high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
	if (p[1] < low || p[1] > high || bytes < 3 || !is_continuation(p[2]))
		return 0;
	if (p[0] < 0xf0)
		return 3;
	return bytes >= 4 && is_continuation(p[3]) ? 4 : 0;
}
