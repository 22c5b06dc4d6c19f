#include "decimal.h"
#include "guard.h"

#include <stddef.h>
#include <string.h>

/* An exponent beyond this is as good as this: the result is over any limit, or not whole. */
static const int64_t exponent_max = 1000000000;

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Zeros are held back until another digit follows them, so that no number ends in one. */
static void digit_append(struct sy_decimal *number, char c, size_t *zeros)
{
	if (c == '0') {
		*zeros += number->count > 0;
		return;
	}
	if (number->cut || number->count + *zeros >= SY_DECIMAL_READ_MAX) {
		number->cut = true;
		return;
	}
	memset(number->digits + number->count, 0, *zeros);
	number->count += (uint32_t)*zeros;
	number->digits[number->count++] = (uint8_t)(c - '0');
	*zeros = 0;
}

/* Returns text itself if no exponent stands there: an 'e' may begin a unit. */
static const char *exponent_read(const char *text, struct sy_decimal *number)
{
	const char *at = text;
	if (*at != 'e' && *at != 'E')
		return text;
	at++;
	bool negative = *at == '-';
	if (*at == '-' || *at == '+')
		at++;
	if (!is_digit(*at))
		return text;
	int64_t exponent = 0;
	for (; is_digit(*at); at++) {
		if (exponent < exponent_max)
			exponent = exponent * 10 + (*at - '0');
	}
	number->point += negative ? -exponent : exponent;
	return at;
}

const char *sy_decimal_read(const char *text, struct sy_decimal *ret_number)
{
	struct sy_decimal number = {0};
	size_t zeros = 0;
	const char *at = text;
	if (!is_digit(*at))
		return NULL;
	for (; is_digit(*at); at++) {
		digit_append(&number, *at, &zeros);
		number.point += number.count > 0;
	}
	if (at[0] == '.' && is_digit(at[1])) {
		for (at++; is_digit(*at); at++) {
			number.point -= number.count == 0 && *at == '0';
			digit_append(&number, *at, &zeros);
		}
	}
	at = exponent_read(at, &number);
	*ret_number = number;
	return at;
}

void sy_decimal_multiply(struct sy_decimal *number, uint32_t factor)
{
	uint8_t head[4]; /* the carry of a factor below 10^4 */
	uint32_t head_count = 0;
	uint32_t carry = 0;
	for (uint32_t i = number->count; i > 0; i--) {
		carry += number->digits[i - 1] * factor;
		number->digits[i - 1] = (uint8_t)(carry % 10);
		carry /= 10;
	}
	for (; carry > 0; carry /= 10)
		head[head_count++] = (uint8_t)(carry % 10);
	SY_ASSERT(number->count + head_count <= SY_DECIMAL_DIGITS_MAX);
	memmove(number->digits + head_count, number->digits, number->count);
	for (uint32_t i = 0; i < head_count; i++)
		number->digits[i] = head[head_count - 1 - i];
	number->count += head_count;
	number->point += head_count;
}

sy_decimal_fault sy_decimal_to_u64(const struct sy_decimal *number, uint64_t limit,
                                   uint64_t *ret_value)
{
	uint64_t value = 0;
	if (number->count > 0 && number->point > 20)
		return SY_DECIMAL_OVER;
	for (int64_t i = 0; number->count > 0 && i < number->point; i++) {
		uint8_t digit = i < number->count ? number->digits[i] : 0;
		if (__builtin_mul_overflow(value, 10u, &value) ||
		    __builtin_add_overflow(value, digit, &value) || value > limit)
			return SY_DECIMAL_OVER;
	}
	for (uint32_t i = 0; i < number->count; i++) {
		if (i >= number->point && number->digits[i] != 0)
			return SY_DECIMAL_NOT_WHOLE;
	}
	if (number->cut)
		return SY_DECIMAL_NOT_WHOLE;
	*ret_value = value;
	return SY_DECIMAL_OK;
}
