#include "value_print.h"
#include "bytes.h"
#include "float_read.h"
#include "json_text.h"
#include "utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What may stand in a string as it is: the length of that run of bytes. */
static size_t plain_bytes(const char *text, size_t bytes)
{
	size_t at = 0;
	while (at < bytes) {
		unsigned char first = (unsigned char)text[at];
		if (first < 0x20 || first == '"' || first == '\\' || first == 0x7f)
			break;
		size_t step = sy_utf8_bytes(text + at, bytes - at);
		if (step == 0)
			break;
		at += step;
	}
	return at;
}

static void escape_add(struct sy_text *out, unsigned char character)
{
	static const char names[] = "\"\\bfnrt";
	static const char stand_for[] = "\"\\\b\f\n\r\t";
	char escape[8];
	if (character >= 0x80) {
		sy_text_add_word(out, "\xef\xbf\xbd");
		return;
	}
	for (size_t i = 0; names[i] != '\0'; i++) {
		if ((unsigned char)stand_for[i] == character) {
			sy_text_add_char(out, '\\');
			sy_text_add_char(out, names[i]);
			return;
		}
	}
	snprintf(escape, sizeof escape, "\\u%04x", character);
	sy_text_add_word(out, escape);
}

void sy_string_print(struct sy_text *out, const char *text, size_t bytes)
{
	sy_text_add_char(out, '"');
	for (size_t at = 0; at < bytes;) {
		size_t plain = plain_bytes(text + at, bytes - at);
		sy_text_add(out, text + at, plain);
		at += plain;
		if (at < bytes)
			escape_add(out, (unsigned char)text[at++]);
	}
	sy_text_add_char(out, '"');
}

static void base64_add(struct sy_text *out, const uint8_t *data, size_t bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t at = 0; at < bytes; at += 3) {
		size_t left = bytes - at;
		uint32_t three = (uint32_t)data[at] << 16;
		three |= left > 1 ? (uint32_t)data[at + 1] << 8 : 0;
		three |= left > 2 ? data[at + 2] : 0;
		sy_text_add_char(out, digits[three >> 18]);
		sy_text_add_char(out, digits[three >> 12 & 63]);
		sy_text_add_char(out, left > 1 ? digits[three >> 6 & 63] : '=');
		sy_text_add_char(out, left > 2 ? digits[three & 63] : '=');
	}
}

static void opaque_print(struct sy_text *out, const char *name, const sy_value *value)
{
	sy_text_add_word(out, "{\"$");
	sy_text_add_word(out, name);
	sy_text_add_word(out, "\":\"");
	base64_add(out, value->data, value->nbytes);
	sy_text_add_word(out, "\"}");
}

static void float_add(struct sy_text *out, double number)
{
	char text[40];
	if (isnan(number) || isinf(number)) {
		sy_text_add_word(out, "{\"$float\":\"");
		sy_text_add_word(out, isnan(number) ? "nan" : number < 0 ? "-inf" : "inf");
		sy_text_add_word(out, "\"}");
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, number);
		if (strtod(text, NULL) == number)
			break;
	}
	sy_text_add_word(out, text);
	if (strpbrk(text, ".e") == NULL)
		sy_text_add_word(out, ".0");
}

static int64_t signed_read(sy_dtype dtype, const uint8_t *element)
{
	uint32_t bytes = sy_dtype_bytes(dtype);
	int64_t number = 0;
	memcpy(&number, element, bytes);
	uint32_t unused_bits = 64 - 8 * bytes;
	return (int64_t)((uint64_t)number << unused_bits) >> unused_bits;
}

static void element_add(struct sy_text *out, sy_dtype dtype, const uint8_t *element)
{
	char text[24];
	bool is_unsigned = dtype >= SY_DTYPE_U8 && dtype <= SY_DTYPE_U64;
	if (dtype == SY_DTYPE_BOOL) {
		sy_text_add_word(out, element[0] != 0 ? "true" : "false");
	} else if (sy_dtype_is_float(dtype)) {
		float_add(out, sy_float_read(dtype, element));
	} else if (dtype == SY_DTYPE_C64 || dtype == SY_DTYPE_C128) {
		sy_dtype part = dtype == SY_DTYPE_C64 ? SY_DTYPE_F32 : SY_DTYPE_F64;
		sy_text_add_char(out, '[');
		float_add(out, sy_float_read(part, element));
		sy_text_add_char(out, ',');
		float_add(out, sy_float_read(part, element + sy_dtype_bytes(part)));
		sy_text_add_char(out, ']');
	} else if (is_unsigned) {
		uint64_t number = 0;
		memcpy(&number, element, sy_dtype_bytes(dtype));
		snprintf(text, sizeof text, "%" PRIu64, number);
		sy_text_add_word(out, text);
	} else {
		snprintf(text, sizeof text, "%" PRId64, signed_read(dtype, element));
		sy_text_add_word(out, text);
	}
}

/* A walk over the elements in order; brackets open and close as the outer counters turn. */
static void tensor_print(struct sy_text *out, const sy_value *value)
{
	const uint8_t *element = value->data;
	uint64_t turn[SY_RANK_MAX] = {0};
	uint32_t rank = value->rank, depth = 0;
	uint32_t step = sy_dtype_bytes(value->dtype);
	if (rank == 0) {
		element_add(out, value->dtype, element);
		return;
	}
	sy_text_add_char(out, '[');
	for (;;) {
		if (turn[depth] == value->dims[depth]) {
			sy_text_add_char(out, ']');
			turn[depth] = 0;
			if (depth == 0)
				return;
			depth--;
			continue;
		}
		if (turn[depth]++ > 0)
			sy_text_add_char(out, ',');
		if (depth + 1 < rank) {
			depth++;
			sy_text_add_char(out, '[');
			continue;
		}
		element_add(out, value->dtype, element);
		element += step;
	}
}

/* The unit promises it; but what is printed comes from memory that others map, too. */
static bool tensor_fits(const sy_value *value)
{
	uint64_t bytes = sy_dtype_bytes(value->dtype);
	if (bytes == 0 || value->dtype == SY_DTYPE_NONE || value->rank > SY_RANK_MAX)
		return false;
	for (uint32_t i = 0; i < value->rank; i++) {
		if (__builtin_mul_overflow(bytes, value->dims[i], &bytes))
			return false;
	}
	return bytes == value->nbytes;
}

static bool is_utf8(const char *text, size_t bytes)
{
	size_t at = 0;
	while (at < bytes) {
		size_t step = sy_utf8_bytes(text + at, bytes - at);
		if (step == 0)
			return false;
		at += step;
	}
	return true;
}

/* In a copy that ends in a NUL, as the reader wants it. */
static bool json_print(struct sy_text *out, const sy_value *value)
{
	size_t before = out->bytes;
	struct sy_text copy = {0};
	sy_text_add(&copy, value->data, value->nbytes);
	sy_text_add_char(&copy, '\0');
	struct sy_json json = {.text = copy.data, .bytes = value->nbytes};
	bool ok = !copy.failed && sy_json_compact(&json, out, NULL) == SY_OK &&
	          sy_json_end(&json, NULL) == SY_OK;
	out->failed = out->failed || copy.failed;
	sy_text_done(&copy);
	if (!ok)
		sy_text_cut(out, before);
	return ok;
}

void sy_value_print(struct sy_text *out, const sy_value *value)
{
	switch (value->kind) {
	case SY_KIND_TENSOR:
		if (tensor_fits(value)) {
			tensor_print(out, value);
			return;
		}
		break;
	case SY_KIND_UTF8:
		if (is_utf8(value->data, value->nbytes)) {
			sy_string_print(out, value->data, value->nbytes);
			return;
		}
		break;
	case SY_KIND_JSON_NULL:
		sy_text_add_word(out, "null");
		return;
	case SY_KIND_JSON:
		if (json_print(out, value))
			return;
		break;
	case SY_KIND_MSGPACK:
		opaque_print(out, "msgpack", value);
		return;
	case SY_KIND_PICKLE:
		opaque_print(out, "pickle", value);
		return;
	case SY_KIND_BYTES:
		break;
	}
	opaque_print(out, "bytes", value);
}
