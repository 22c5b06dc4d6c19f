#include "units.h"
#include "decimal.h"
#include "fail.h"

#include <string.h>

/* What a number may count, for one parser and its messages. */
struct sy_quantity {
	const char *where;
	const char *noun;
	const char *unit;
	const char *example;
	bool (*scale)(struct sy_decimal *number, const char *suffix);
};

static char to_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* `lower` is in small letters. */
static bool is_word(const char *text, const char *lower)
{
	size_t i = 0;
	while (text[i] != '\0' && to_lower(text[i]) == lower[i])
		i++;
	return text[i] == '\0' && lower[i] == '\0';
}

static bool bytes_scale(struct sy_decimal *number, const char *suffix)
{
	static const char letters[] = "kmgt";
	if (is_word(suffix, "") || is_word(suffix, "b"))
		return true;
	const char *letter = strchr(letters, to_lower(suffix[0]));
	if (letter == NULL)
		return false;
	const char *rest = suffix + 1;
	bool bare_large = *rest == '\0' && suffix[0] != *letter;
	bool binary = bare_large || is_word(rest, "ib");
	if (!binary && !is_word(rest, "") && !is_word(rest, "b"))
		return false;
	for (const char *step = letters; step <= letter; step++) {
		if (binary)
			sy_decimal_multiply(number, 1024);
		else
			number->point += 3;
	}
	return true;
}

static bool duration_scale(struct sy_decimal *number, const char *suffix)
{
	static const struct {
		const char *word;
		uint32_t factor;
		int64_t power;
	} units[] = {
		{"", 1, 9},   {"s", 1, 9},  {"ms", 1, 6},   {"us", 1, 3},
		{"ns", 1, 0}, {"m", 60, 9}, {"h", 3600, 9},
	};
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if (!is_word(suffix, units[i].word))
			continue;
		sy_decimal_multiply(number, units[i].factor);
		number->point += units[i].power;
		return true;
	}
	return false;
}

static sy_status quantity_fail(const struct sy_quantity *quantity, const char *text,
                               const char *fault, sy_error *err)
{
	return sy_fail(err, SY_E_INVALID, quantity->where, "%s \"%.60s\" %s; write one such as %s",
	               quantity->noun, text, fault, quantity->example);
}

static sy_status quantity_parse(const struct sy_quantity *quantity, const char *text,
                                uint64_t *ret_value, sy_error *err)
{
	struct sy_decimal number;
	if (text == NULL || text[0] == '\0')
		return quantity_fail(quantity, "", "is empty", err);
	if (text[0] == '-')
		return quantity_fail(quantity, text, "is negative", err);
	const char *suffix = sy_decimal_read(text, &number);
	if (suffix == NULL)
		return quantity_fail(quantity, text, "is not a number", err);
	if (suffix[0] == ' ' && suffix[1] != '\0')
		suffix++;
	if (!quantity->scale(&number, suffix))
		return quantity_fail(quantity, text, "has an unknown unit", err);
	switch (sy_decimal_to_u64(&number, INT64_MAX, ret_value)) {
	case SY_DECIMAL_OVER:
		return quantity_fail(quantity, text, "is over 2^63 - 1", err);
	case SY_DECIMAL_NOT_WHOLE:
		return quantity_fail(quantity, text, quantity->unit, err);
	case SY_DECIMAL_OK:
		break;
	}
	return SY_OK;
}

sy_status sy_parse_bytes(const char *text, uint64_t *ret_bytes, sy_error *err)
{
	static const struct sy_quantity size = {
		.where = "sy_parse_bytes",
		.noun = "size",
		.unit = "is not a whole number of bytes",
		.example = "64MiB or 1.5GiB",
		.scale = bytes_scale,
	};
	return quantity_parse(&size, text, ret_bytes, err);
}

sy_status sy_parse_duration(const char *text, uint64_t *ret_ns, sy_error *err)
{
	static const struct sy_quantity duration = {
		.where = "sy_parse_duration",
		.noun = "duration",
		.unit = "is not a whole number of nanoseconds",
		.example = "2s or 500ms",
		.scale = duration_scale,
	};
	return quantity_parse(&duration, text, ret_ns, err);
}

sy_status sy_parse_u64(const char *text, size_t text_bytes, uint64_t *ret_value, sy_error *err)
{
	uint64_t value = 0;
	const char *fault = NULL;
	if (text_bytes == 0)
		fault = "is empty";
	else if (text_bytes > 1 && text[0] == '0')
		fault = "has a leading zero";
	for (size_t i = 0; i < text_bytes && fault == NULL; i++) {
		if (text[i] < '0' || text[i] > '9')
			fault = "is not a whole decimal number";
		else if (__builtin_mul_overflow(value, 10u, &value) ||
		         __builtin_add_overflow(value, (uint64_t)(text[i] - '0'), &value))
			fault = "is over 18446744073709551615";
	}
	if (fault != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "number \"%.*s\" %s; write one such as 42",
		               text_bytes > 60 ? 60 : (int)text_bytes, text_bytes == 0 ? "" : text, fault);
	*ret_value = value;
	return SY_OK;
}

void sy_format_bytes(uint64_t bytes, char out[16])
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	uint32_t step = 0;
	while (step < 6 && bytes >> (10 * (step + 1)) != 0)
		step++;
	uint64_t unit = (uint64_t)1 << (10 * step);
	uint64_t whole = bytes / unit;
	if (bytes % unit == 0) {
		sy_format(out, 16, "%llu %s", (unsigned long long)whole, names[step]);
		return;
	}
	/* Rounded to tenths; the remainder is below 2^60, so ten of it fit. */
	uint64_t tenths = whole * 10 + (bytes % unit * 10 + unit / 2) / unit;
	if (tenths == 10240 && step < 6) {
		tenths = 10;
		step++;
	}
	sy_format(out, 16, "%llu.%llu %s", (unsigned long long)(tenths / 10),
	          (unsigned long long)(tenths % 10), names[step]);
}

void sy_format_duration(uint64_t ns, char out[SY_DURATION_TEXT_BYTES])
{
	static const char *const names[] = {"ns", "us", "ms", "s"};
	uint32_t step = 0;
	while (step < 3 && ns % 1000 == 0 && ns != 0) {
		ns /= 1000;
		step++;
	}
	sy_format(out, SY_DURATION_TEXT_BYTES, "%llu%s", (unsigned long long)ns,
	          ns == 0 ? "s" : names[step]);
}
