/* Bytes that grow: what commands put together before it is printed or stored. */
#ifndef SY_TEXT_H
#define SY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts as all zeros. After a failed allocation `failed` stays set and nothing more is added,
 * so that a caller asks once, at the end. */
struct sy_text {
	char *data; /* not NUL-terminated; NULL while empty */
	size_t bytes, capacity;
	bool failed;
};

void sy_text_add(struct sy_text *text, const void *data, size_t bytes);
void sy_text_add_char(struct sy_text *text, char character);
/* A string that ends in a NUL. */
void sy_text_add_word(struct sy_text *text, const char *word);
/* Room for so many more bytes, uninitialised and counted as added; NULL after a failure. */
void *sy_text_extend(struct sy_text *text, size_t bytes);
/* Back to an earlier length. */
void sy_text_cut(struct sy_text *text, size_t bytes);
/* Frees the memory; the text is empty again and may be used. */
void sy_text_done(struct sy_text *text);

#endif
