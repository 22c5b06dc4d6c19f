#include "json_text.h"
#include "fail.h"
#include "utf8.h"

#include <string.h>

__attribute__((format(printf, 4, 5))) static sy_status wrong(const struct sy_json *json,
                                                             size_t at, sy_error *err,
                                                             const char *format, ...)
{
	char what[160];
	va_list args;
	va_start(args, format);
	sy_format_list(what, sizeof what, format, args);
	va_end(args);
	if (at >= json->bytes)
		return sy_fail(err, SY_E_INVALID, "json", "%s, at the end", what);
	return sy_fail(err, SY_E_INVALID, "json", "%s, at column %zu", what, at + 1);
}

static void blanks_skip(struct sy_json *json)
{
	while (json->at < json->bytes && strchr(" \t\r\n", json->text[json->at]) != NULL &&
	       json->text[json->at] != '\0')
		json->at++;
}

static char here(const struct sy_json *json)
{
	return json->at < json->bytes ? json->text[json->at] : '\0';
}

static bool is_digit(char character)
{
	return character >= '0' && character <= '9';
}

bool sy_json_accept(struct sy_json *json, char mark)
{
	blanks_skip(json);
	if (json->at == json->bytes || json->text[json->at] != mark)
		return false;
	json->at++;
	return true;
}

sy_status sy_json_expect(struct sy_json *json, char mark, sy_error *err)
{
	if (!sy_json_accept(json, mark))
		return wrong(json, json->at, err, "no JSON: \"%c\" is missing", mark);
	return SY_OK;
}

sy_status sy_json_end(struct sy_json *json, sy_error *err)
{
	blanks_skip(json);
	if (json->at < json->bytes)
		return wrong(json, json->at, err, "something follows the end of the JSON value");
	return SY_OK;
}

/* What people write in place of a value, told as what it is. */
static sy_status no_value(const struct sy_json *json, sy_error *err)
{
	static const char *const known[] = {"NaN", "Infinity", "-Infinity", "None", "True", "False",
	                                    "nan", "inf", "-inf", "undefined"};
	const char *text = json->text + json->at;
	size_t left = json->bytes - json->at;
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		size_t length = strlen(known[i]);
		if (left >= length && memcmp(text, known[i], length) == 0)
			return wrong(json, json->at, err, "%s is no JSON value", known[i]);
	}
	if (left > 0 && text[0] == '\'')
		return wrong(json, json->at, err, "no JSON: strings stand in double quotes");
	return wrong(json, json->at, err, "no JSON: a value is missing");
}

static sy_status literal_check(const struct sy_json *json, const char *word, sy_error *err)
{
	size_t length = strlen(word);
	if (json->bytes - json->at < length || memcmp(json->text + json->at, word, length) != 0)
		return no_value(json, err);
	return SY_OK;
}

sy_status sy_json_kind_next(struct sy_json *json, enum sy_json_kind *ret_kind, sy_error *err)
{
	blanks_skip(json);
	char first = here(json);
	switch (first) {
	case '{':
		*ret_kind = SY_JSON_OBJECT;
		return SY_OK;
	case '[':
		*ret_kind = SY_JSON_ARRAY;
		return SY_OK;
	case '"':
		*ret_kind = SY_JSON_STRING;
		return SY_OK;
	case 't':
		*ret_kind = SY_JSON_TRUE;
		return literal_check(json, "true", err);
	case 'f':
		*ret_kind = SY_JSON_FALSE;
		return literal_check(json, "false", err);
	case 'n':
		*ret_kind = SY_JSON_NULL;
		return literal_check(json, "null", err);
	default:
		break;
	}
	if (!is_digit(first) && !(first == '-' && is_digit(json->text[json->at + 1])))
		return no_value(json, err);
	*ret_kind = SY_JSON_NUMBER;
	return SY_OK;
}

void sy_json_literal(struct sy_json *json, enum sy_json_kind kind)
{
	json->at += kind == SY_JSON_FALSE ? 5 : 4;
}

static size_t digits_skip(struct sy_json *json)
{
	size_t first = json->at;
	while (is_digit(here(json)))
		json->at++;
	return json->at - first;
}

sy_status sy_json_number(struct sy_json *json, size_t *ret_bytes, bool *ret_integer,
                         sy_error *err)
{
	size_t first = json->at;
	bool is_integer = true;
	if (here(json) == '-')
		json->at++;
	bool leads_with_zero = here(json) == '0';
	size_t whole = digits_skip(json);
	if (whole == 0 || (leads_with_zero && whole > 1))
		return wrong(json, first, err, "no JSON number: %s",
		             whole == 0 ? "it has no digits" : "it begins with a zero");
	if (here(json) == '.') {
		json->at++;
		is_integer = false;
		if (digits_skip(json) == 0)
			return wrong(json, json->at, err, "no JSON number: no digit follows its point");
	}
	if (here(json) == 'e' || here(json) == 'E') {
		json->at++;
		is_integer = false;
		if (here(json) == '+' || here(json) == '-')
			json->at++;
		if (digits_skip(json) == 0)
			return wrong(json, json->at, err, "no JSON number: its exponent has no digit");
	}
	*ret_bytes = json->at - first;
	*ret_integer = is_integer;
	return SY_OK;
}

static bool hex_read(const struct sy_json *json, size_t at, uint32_t *ret_value)
{
	uint32_t value = 0;
	if (json->bytes - at < 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		char digit = json->text[at + i];
		uint32_t worth;
		if (is_digit(digit))
			worth = (uint32_t)(digit - '0');
		else if ((digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F'))
			worth = (uint32_t)((digit | 0x20) - 'a') + 10;
		else
			return false;
		value = value * 16 + worth;
	}
	*ret_value = value;
	return true;
}

static void point_add(struct sy_text *out, uint32_t point)
{
	unsigned char bytes[4];
	size_t count;
	if (point < 0x80) {
		bytes[0] = (unsigned char)point;
		count = 1;
	} else if (point < 0x800) {
		bytes[0] = (unsigned char)(0xc0 | point >> 6);
		bytes[1] = (unsigned char)(0x80 | (point & 0x3f));
		count = 2;
	} else if (point < 0x10000) {
		bytes[0] = (unsigned char)(0xe0 | point >> 12);
		bytes[1] = (unsigned char)(0x80 | (point >> 6 & 0x3f));
		bytes[2] = (unsigned char)(0x80 | (point & 0x3f));
		count = 3;
	} else {
		bytes[0] = (unsigned char)(0xf0 | point >> 18);
		bytes[1] = (unsigned char)(0x80 | (point >> 12 & 0x3f));
		bytes[2] = (unsigned char)(0x80 | (point >> 6 & 0x3f));
		bytes[3] = (unsigned char)(0x80 | (point & 0x3f));
		count = 4;
	}
	sy_text_add(out, bytes, count);
}

/* \uXXXX, or a pair of them; `at` is after the u. */
static sy_status point_read(struct sy_json *json, struct sy_text *out, sy_error *err)
{
	uint32_t point, low;
	size_t first = json->at - 2;
	if (!hex_read(json, json->at, &point))
		return wrong(json, first, err, "no JSON: four hex digits follow \\u");
	json->at += 4;
	if (point >= 0xd800 && point < 0xe000) {
		bool is_pair = point < 0xdc00 && json->bytes - json->at >= 6 &&
		               memcmp(json->text + json->at, "\\u", 2) == 0 &&
		               hex_read(json, json->at + 2, &low) && low >= 0xdc00 && low < 0xe000;
		if (!is_pair)
			return wrong(json, first, err, "half of a surrogate pair is no character");
		json->at += 6;
		point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
	}
	if (out != NULL)
		point_add(out, point);
	return SY_OK;
}

static sy_status escape_read(struct sy_json *json, struct sy_text *out, sy_error *err)
{
	static const char names[] = "\"\\/bfnrt";
	static const char stand_for[] = "\"\\/\b\f\n\r\t";
	json->at++;
	char name = here(json);
	if (name == 'u') {
		json->at++;
		return point_read(json, out, err);
	}
	const char *found = name != '\0' ? strchr(names, name) : NULL;
	if (found == NULL)
		return wrong(json, json->at - 1, err, "no JSON: there is no such escape");
	json->at++;
	if (out != NULL)
		sy_text_add_char(out, stand_for[found - names]);
	return SY_OK;
}

sy_status sy_json_string(struct sy_json *json, struct sy_text *out, sy_error *err)
{
	sy_status status = sy_json_expect(json, '"', err);
	if (status != SY_OK)
		return status;
	size_t plain = json->at; /* where what is not yet added begins */
	while (json->at < json->bytes && status == SY_OK) {
		unsigned char first = (unsigned char)json->text[json->at];
		if (first == '"' || first == '\\') {
			if (out != NULL)
				sy_text_add(out, json->text + plain, json->at - plain);
			if (first == '"') {
				json->at++;
				return SY_OK;
			}
			status = escape_read(json, out, err);
			plain = json->at;
			continue;
		}
		if (first < 0x20)
			return wrong(json, json->at, err, "no JSON: a control character in a string");
		size_t bytes = sy_utf8_bytes(json->text + json->at, json->bytes - json->at);
		if (bytes == 0)
			return wrong(json, json->at, err, "this is not UTF-8");
		json->at += bytes;
	}
	return status != SY_OK ? status : wrong(json, json->at, err, "no JSON: a string has no end");
}

static sy_status compact(struct sy_json *json, struct sy_text *out, uint32_t depth,
                         sy_error *err);

/* A string as it stands, quotes and escapes included. */
static sy_status string_compact(struct sy_json *json, struct sy_text *out, sy_error *err)
{
	blanks_skip(json);
	size_t first = json->at;
	sy_status status = sy_json_string(json, NULL, err);
	if (status == SY_OK && out != NULL)
		sy_text_add(out, json->text + first, json->at - first);
	return status;
}

static void mark_add(struct sy_text *out, char mark)
{
	if (out != NULL)
		sy_text_add_char(out, mark);
}

static sy_status members_compact(struct sy_json *json, struct sy_text *out, bool is_object,
                                 uint32_t depth, sy_error *err)
{
	char last = is_object ? '}' : ']';
	sy_status status = SY_OK;
	mark_add(out, is_object ? '{' : '[');
	json->at++;
	if (!sy_json_accept(json, last)) {
		bool more = true;
		while (more && status == SY_OK) {
			if (is_object) {
				status = string_compact(json, out, err);
				if (status == SY_OK)
					status = sy_json_expect(json, ':', err);
				mark_add(out, ':');
			}
			if (status == SY_OK)
				status = compact(json, out, depth + 1, err);
			if (status == SY_OK) {
				more = sy_json_accept(json, ',');
				if (more)
					mark_add(out, ',');
			}
		}
		if (status == SY_OK)
			status = sy_json_expect(json, last, err);
	}
	mark_add(out, last);
	return status;
}

static sy_status compact(struct sy_json *json, struct sy_text *out, uint32_t depth, sy_error *err)
{
	enum sy_json_kind kind;
	sy_status status = sy_json_kind_next(json, &kind, err);
	if (status != SY_OK)
		return status;
	if (kind == SY_JSON_OBJECT || kind == SY_JSON_ARRAY) {
		if (depth > SY_JSON_DEPTH_MAX)
			return wrong(json, json->at, err, "nested deeper than %d levels", SY_JSON_DEPTH_MAX);
		return members_compact(json, out, kind == SY_JSON_OBJECT, depth, err);
	}
	if (kind == SY_JSON_STRING)
		return string_compact(json, out, err);
	size_t first = json->at, bytes;
	bool is_integer;
	if (kind == SY_JSON_NUMBER)
		status = sy_json_number(json, &bytes, &is_integer, err);
	else
		sy_json_literal(json, kind);
	if (status == SY_OK && out != NULL)
		sy_text_add(out, json->text + first, json->at - first);
	return status;
}

sy_status sy_json_compact(struct sy_json *json, struct sy_text *out, sy_error *err)
{
	return compact(json, out, 1, err);
}
