#include "options.h"

#include <string.h>

enum { WORD_MAX = 40 };

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t least = a < b ? a : b;
	return least < c ? least : c;
}

/* Letters to add, take away, change or swap with their neighbour to make a into b. Three rows
 * of the usual table: the one before the last is for the swaps. */
static uint32_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	uint32_t rows[3][WORD_MAX + 1];
	uint32_t *before = rows[0], *last = rows[1], *now = rows[2];
	for (size_t j = 0; j <= b_len; j++) {
		last[j] = (uint32_t)j;
		before[j] = 0;
	}
	for (size_t i = 1; i <= a_len; i++) {
		now[0] = (uint32_t)i;
		for (size_t j = 1; j <= b_len; j++) {
			uint32_t change = last[j - 1] + (a[i - 1] != b[j - 1]);
			now[j] = min3(change, last[j] + 1, now[j - 1] + 1);
			bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
			if (swapped && before[j - 2] + 1 < now[j])
				now[j] = before[j - 2] + 1;
		}
		uint32_t *spare = before;
		before = last;
		last = now;
		now = spare;
	}
	return last[b_len];
}

/* The only word that begins with `typed`; NULL if there is none or more than one. */
static const char *completion(const char *typed, size_t typed_len, const char *const *words,
                              size_t word_count)
{
	const char *found = NULL;
	for (size_t i = 0; i < word_count; i++) {
		if (strncmp(words[i], typed, typed_len) != 0)
			continue;
		if (found != NULL)
			return NULL;
		found = words[i];
	}
	return found;
}

const char *sy_nearest_word(const char *typed, const char *const *words, size_t word_count)
{
	size_t typed_len = strnlen(typed, WORD_MAX + 1);
	if (typed_len == 0 || typed_len > WORD_MAX)
		return NULL;
	const char *nearest = typed_len > 1 ? completion(typed, typed_len, words, word_count) : NULL;
	if (nearest != NULL)
		return nearest;
	uint32_t least = (uint32_t)(typed_len + 2) / 3 + 1;
	for (size_t i = 0; i < word_count; i++) {
		size_t word_len = strnlen(words[i], WORD_MAX + 1);
		if (word_len > WORD_MAX)
			continue;
		uint32_t wrong = distance(typed, typed_len, words[i], word_len);
		if (wrong < least) {
			least = wrong;
			nearest = words[i];
		}
	}
	return nearest;
}
