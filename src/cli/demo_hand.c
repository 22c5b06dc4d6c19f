#include "demo_hand.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

uint64_t sy_demo_now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool sy_demo_hand_fail(struct sy_demo_hand *hand, const char *format, ...)
{
	struct sy_demo_answer *answer = hand->answer;
	if (!answer->ok)
		return false;
	answer->ok = false;
	int head = snprintf(answer->message, sizeof answer->message, "%s %" PRIu32 ": ", hand->role,
	                    hand->number);
	va_list args;
	va_start(args, format);
	vsnprintf(answer->message + head, sizeof answer->message - (size_t)head, format, args);
	va_end(args);
	return false;
}

bool sy_demo_hand_no_memory(struct sy_demo_hand *hand)
{
	return sy_demo_hand_fail(hand, "out of memory");
}

const char *sy_demo_hand_column(const struct sy_demo_hand *hand, uint32_t column)
{
	const struct sy_demo_source *source = hand->source;
	return column < source->column_count ? source->columns[column] : source->written_back;
}

static bool form_equal(const sy_value *a, const sy_value *b)
{
	if (a->kind != b->kind || a->dtype != b->dtype || a->rank != b->rank)
		return false;
	for (uint32_t i = 0; i < a->rank; i++) {
		if (a->dims[i] != b->dims[i])
			return false;
	}
	return true;
}

bool sy_demo_hand_check(struct sy_demo_hand *hand, uint32_t step, uint32_t row, uint32_t column,
                        const sy_value *got)
{
	sy_value put;
	bool is_put = sy_demo_source_value(hand->source, step, row, column, &hand->scratch, &put);
	char place[128];
	if (hand->scratch.failed)
		return sy_demo_hand_no_memory(hand);
	snprintf(place, sizeof place, "step %" PRIu32 ", row %" PRIu32 ", field %.80s", step + 1, row,
	         sy_demo_hand_column(hand, column));
	if (!is_put || got == NULL)
		return is_put == (got != NULL) ||
		       sy_demo_hand_fail(hand, "%s: %s", place,
		                         is_put ? "was put and is not there" : "is there and was not put");
	if (!form_equal(&put, got) || put.nbytes != got->nbytes)
		return sy_demo_hand_fail(
			hand, "%s: was put as %s %s with %" PRIu64 " bytes, came as %s %s with %" PRIu64,
			place, sy_kind_name(put.kind), sy_dtype_name(put.dtype), put.nbytes,
			sy_kind_name(got->kind), sy_dtype_name(got->dtype), got->nbytes);
	hand->answer->tally.checked_bytes += put.nbytes;
	if (put.nbytes == 0 || memcmp(put.data, got->data, put.nbytes) == 0)
		return true;
	/* A view's bytes may change under our hands, so each is read once. */
	const uint8_t *a = put.data;
	const volatile uint8_t *b = got->data;
	for (uint64_t at = 0; at < put.nbytes; at++) {
		uint8_t now = b[at];
		if (now != a[at])
			return sy_demo_hand_fail(
				hand, "%s: byte %" PRIu64 " of %" PRIu64 " was put as 0x%02x and came as 0x%02x",
				place, at, put.nbytes, a[at], now);
	}
	return sy_demo_hand_fail(hand, "%s: its bytes changed while they were read", place);
}
