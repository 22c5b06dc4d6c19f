/* The formatter behind every message: what fail.h names of printf, and nothing of libc. */
#include "fail.h"
#include "guard.h"

#include <string.h>

struct sy_text {
	char *out;
	size_t size;
	size_t length; /* what all would have had; may pass size */
};

/* One conversion, as "%-08llx" says it. */
struct sy_spec {
	bool left;
	bool zero;
	size_t width;
	size_t precision; /* SIZE_MAX: none */
	char length;      /* 'i' int, 'l', 'L' for ll, 'z' */
	char verb;
};

static void put_char(struct sy_text *text, char c)
{
	if (text->length + 1 < text->size)
		text->out[text->length] = c;
	text->length++;
}

static void put_fill(struct sy_text *text, char c, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put_char(text, c);
}

static void put_padded(struct sy_text *text, const struct sy_spec *spec, const char *data,
                       size_t bytes)
{
	size_t fill = spec->width > bytes ? spec->width - bytes : 0;
	if (!spec->left)
		put_fill(text, ' ', fill);
	for (size_t i = 0; i < bytes; i++)
		put_char(text, data[i]);
	if (spec->left)
		put_fill(text, ' ', fill);
}

static void put_number(struct sy_text *text, const struct sy_spec *spec, uint64_t value,
                       bool negative)
{
	unsigned base = spec->verb == 'x' ? 16 : 10;
	char digits[24]; /* 20 decimal digits and a sign */
	size_t at = sizeof digits;
	do {
		digits[--at] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value != 0);
	if (spec->zero && !spec->left) {
		size_t bytes = sizeof digits - at + negative;
		if (negative)
			put_char(text, '-');
		put_fill(text, '0', spec->width > bytes ? spec->width - bytes : 0);
		for (size_t i = at; i < sizeof digits; i++)
			put_char(text, digits[i]);
		return;
	}
	if (negative)
		digits[--at] = '-';
	put_padded(text, spec, digits + at, sizeof digits - at);
}

static uint64_t next_unsigned(const struct sy_spec *spec, va_list *args)
{
	switch (spec->length) {
	case 'l':
		return va_arg(*args, unsigned long);
	case 'L':
		return va_arg(*args, unsigned long long);
	case 'z':
		return va_arg(*args, size_t);
	default:
		return va_arg(*args, unsigned);
	}
}

static int64_t next_signed(const struct sy_spec *spec, va_list *args)
{
	switch (spec->length) {
	case 'l':
		return va_arg(*args, long);
	case 'L':
		return va_arg(*args, long long);
	case 'z':
		return va_arg(*args, ptrdiff_t);
	default:
		return va_arg(*args, int);
	}
}

static size_t read_count(const char **at)
{
	size_t count = 0;
	for (int i = 0; i < 4 && **at >= '0' && **at <= '9'; i++)
		count = count * 10 + (size_t)(*(*at)++ - '0');
	return count;
}

static size_t read_star(va_list *args)
{
	int count = va_arg(*args, int);
	return count < 0 ? SIZE_MAX : (size_t)count;
}

/* Reads what follows a '%'; returns what follows the conversion. */
static const char *read_spec(const char *at, struct sy_spec *spec, va_list *args)
{
	*spec = (struct sy_spec){.precision = SIZE_MAX, .length = 'i'};
	for (; *at == '-' || *at == '0'; at++)
		*(*at == '-' ? &spec->left : &spec->zero) = true;
	spec->width = read_count(&at);
	if (*at == '.') {
		at++;
		if (*at == '*') {
			at++;
			spec->precision = read_star(args);
		} else {
			spec->precision = read_count(&at);
		}
	}
	if (at[0] == 'l' && at[1] == 'l') {
		spec->length = 'L';
		at += 2;
	} else if (*at == 'l' || *at == 'z') {
		spec->length = *at++;
	}
	spec->verb = *at;
	return *at == '\0' ? at : at + 1;
}

static void put_string(struct sy_text *text, const struct sy_spec *spec, const char *string)
{
	if (string == NULL)
		string = "(null)";
	/* Not strlen: with a precision the string need not end in a NUL. */
	size_t bytes = 0;
	while (bytes < spec->precision && string[bytes] != '\0')
		bytes++;
	put_padded(text, spec, string, bytes);
}

/* False for a conversion that fail.h does not name. */
static bool put_conversion(struct sy_text *text, const struct sy_spec *spec, va_list *args)
{
	switch (spec->verb) {
	case '%':
		put_char(text, '%');
		return true;
	case 'c': {
		char c = (char)va_arg(*args, int);
		put_padded(text, spec, &c, 1);
		return true;
	}
	case 's':
		put_string(text, spec, va_arg(*args, const char *));
		return true;
	case 'd': {
		int64_t value = next_signed(spec, args);
		put_number(text, spec, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
		return true;
	}
	case 'u':
	case 'x':
		put_number(text, spec, next_unsigned(spec, args), false);
		return true;
	default:
		return false;
	}
}

size_t sy_format_list(char *out, size_t size, const char *format, va_list args)
{
	struct sy_text text = {.out = out, .size = size};
	va_list rest; /* a va_list parameter may be an array: only a local one has a true address */
	va_copy(rest, args);
	for (const char *at = format; *at != '\0';) {
		if (*at != '%') {
			put_char(&text, *at++);
			continue;
		}
		struct sy_spec spec;
		at = read_spec(at + 1, &spec, &rest);
		bool known = put_conversion(&text, &spec, &rest);
		SY_ASSERT(known);
		if (!known)
			break; /* the arguments after it cannot be told apart */
	}
	va_end(rest);
	if (size > 0)
		out[text.length < size ? text.length : size - 1] = '\0';
	return text.length;
}

size_t sy_format(char *out, size_t size, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	size_t length = sy_format_list(out, size, format, args);
	va_end(args);
	return length;
}
