#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 256 };

void *sy_text_extend(struct sy_text *text, size_t bytes)
{
	if (text->failed)
		return NULL;
	if (bytes > text->capacity - text->bytes) {
		size_t capacity = text->capacity > 0 ? text->capacity : FIRST_BYTES;
		while (capacity - text->bytes < bytes && capacity <= SIZE_MAX / 2)
			capacity *= 2;
		char *grown = capacity - text->bytes < bytes ? NULL : realloc(text->data, capacity);
		if (grown == NULL) {
			text->failed = true;
			return NULL;
		}
		text->data = grown;
		text->capacity = capacity;
	}
	void *room = text->data + text->bytes;
	text->bytes += bytes;
	return room;
}

void sy_text_add(struct sy_text *text, const void *data, size_t bytes)
{
	if (bytes == 0)
		return;
	void *room = sy_text_extend(text, bytes);
	if (room != NULL)
		memcpy(room, data, bytes);
}

void sy_text_add_char(struct sy_text *text, char character)
{
	sy_text_add(text, &character, 1);
}

void sy_text_add_word(struct sy_text *text, const char *word)
{
	sy_text_add(text, word, strlen(word));
}

void sy_text_cut(struct sy_text *text, size_t bytes)
{
	text->bytes = bytes;
}

void sy_text_done(struct sy_text *text)
{
	free(text->data);
	*text = (struct sy_text){0};
}
