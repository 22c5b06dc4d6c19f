#include "fail.h"
#include "utf8.h"

#include <string.h>

/* Control characters: those of ASCII, and U+0080..U+009F, which some terminals obey too. */
static bool is_control(const char *at, size_t bytes)
{
	uint8_t first = (uint8_t)at[0];
	if (bytes == 1)
		return first < 0x20 || first == 0x7f;
	return bytes == 2 && first == 0xc2 && (uint8_t)at[1] < 0xa0;
}

/* Copies text so that the result is one line of valid UTF-8 whatever names and peers put into
 * it: what is not becomes '?', what does not fit ends in "...". `whole` false: text itself was
 * cut, perhaps inside a character. */
static void message_set(char out[SY_ERROR_MESSAGE_BYTES], const char *text, size_t bytes,
                        bool whole)
{
	static const char dots[] = "...";
	const size_t room = SY_ERROR_MESSAGE_BYTES - sizeof dots;
	size_t end = 0;
	size_t at = 0;
	while (at < bytes) {
		size_t step = sy_utf8_bytes(text + at, bytes - at);
		bool shown = step > 0 && !is_control(text + at, step);
		size_t take = shown ? step : 1;
		if (!whole && end + take > room)
			break;
		if (shown)
			memcpy(out + end, text + at, step);
		else
			out[end] = '?';
		end += take;
		at += step > 0 ? step : 1;
	}
	if (!whole) {
		memcpy(out + end, dots, sizeof dots - 1);
		end += sizeof dots - 1;
	}
	out[end] = '\0';
}

static void error_set(sy_error *err, sy_status status, const char *where, const char *format,
                      va_list args)
{
	/* Formatted aside: an argument may be the message that stands in err. */
	char text[SY_ERROR_MESSAGE_BYTES];
	size_t length = sy_format_list(text, sizeof text, format, args);
	bool whole = length < sizeof text;
	message_set(err->message, text, whole ? length : sizeof text - 1, whole);
	err->status = status;
	err->in_flight = false;
	err->where = where;
	err->reason = NULL;
	err->need = 0;
	err->free = 0;
	err->largest_hole = 0;
	err->index_count = 0;
}

sy_status sy_fail(sy_error *err, sy_status status, const char *where, const char *format, ...)
{
	if (err == NULL)
		return status;
	va_list args;
	va_start(args, format);
	error_set(err, status, where, format, args);
	va_end(args);
	return status;
}

sy_status sy_fail_full(sy_error *err, const char *where, const char *resource, uint64_t need,
                       uint64_t free, uint64_t largest_hole)
{
	if (err == NULL)
		return SY_E_UNIT_FULL;
	if (strcmp(resource, "bytes") == 0)
		sy_fail(err, SY_E_UNIT_FULL, where,
		        "no room for %llu bytes: %llu free, the largest hole has %llu",
		        (unsigned long long)need, (unsigned long long)free,
		        (unsigned long long)largest_hole);
	else
		sy_fail(err, SY_E_UNIT_FULL, where, "no room: %llu more %s needed, %llu free",
		        (unsigned long long)need, resource, (unsigned long long)free);
	err->reason = resource;
	err->need = need;
	err->free = free;
	err->largest_hole = largest_hole;
	return SY_E_UNIT_FULL;
}
