#include "buf.h"

#include <stdlib.h>

enum { FIRST_CAPACITY_BYTES = 512 };

void sy_buf_reset(struct sy_buf *buf)
{
	buf->bytes = 0;
	buf->failed = false;
}

void sy_buf_free(struct sy_buf *buf)
{
	if (buf == NULL)
		return;
	free(buf->data);
	*buf = (struct sy_buf){0};
}

static bool grow(struct sy_buf *buf, size_t need)
{
	size_t capacity = buf->capacity == 0 ? FIRST_CAPACITY_BYTES : buf->capacity;
	while (capacity < need)
		capacity *= 2;
	uint8_t *data = realloc(buf->data, capacity);
	if (data == NULL)
		return false;
	buf->data = data;
	buf->capacity = capacity;
	return true;
}

void *sy_buf_extend(struct sy_buf *buf, size_t bytes)
{
	if (buf->failed)
		return NULL;
	if (bytes > SY_BUF_MAX_BYTES - buf->bytes) {
		buf->failed = true;
		return NULL;
	}
	size_t need = buf->bytes + bytes;
	/* Also a first extension by nothing gets memory, so that NULL always means failure. */
	if ((buf->data == NULL || need > buf->capacity) && !grow(buf, need)) {
		buf->failed = true;
		return NULL;
	}
	void *at = buf->data + buf->bytes;
	buf->bytes = need;
	return at;
}

void sy_buf_append(struct sy_buf *buf, const void *data, size_t bytes)
{
	void *at = sy_buf_extend(buf, bytes);
	if (at != NULL && bytes > 0)
		memcpy(at, data, bytes);
}
