/* A decimal number, exactly: what sizes and durations are computed in, since no binary fraction
 * holds 0.1. */
#ifndef SY_DECIMAL_H
#define SY_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/* Enough digits to be right always: a number below 2^63 has at most 19 before its point, and one
 * that 2^40 makes whole has at most 40 after it. What needs more is over the limit or not
 * whole. */
enum { SY_DECIMAL_READ_MAX = 64, SY_DECIMAL_DIGITS_MAX = SY_DECIMAL_READ_MAX + 24 };

/* 0.d0 d1 d2 ... times 10^point; neither end is a zero as read, so zero itself has no digits. */
struct sy_decimal {
	uint8_t digits[SY_DECIMAL_DIGITS_MAX];
	uint32_t count;
	int64_t point;
	bool cut; /* it had more digits than were read */
};

typedef enum sy_decimal_fault {
	SY_DECIMAL_OK,
	SY_DECIMAL_NOT_WHOLE,
	SY_DECIMAL_OVER,
} sy_decimal_fault;

/* Reads "12", "1.5", "2e9", "1.5E-3" from the start of text. Returns what follows it; NULL if no
 * digit stands there. */
const char *sy_decimal_read(const char *text, struct sy_decimal *ret_number);

/* Multiplies by a factor of 1..9999, at most six times a number. */
void sy_decimal_multiply(struct sy_decimal *number, uint32_t factor);

/* ret_value is written only if the number is whole and at most limit. */
sy_decimal_fault sy_decimal_to_u64(const struct sy_decimal *number, uint64_t limit,
                                   uint64_t *ret_value);

#endif
