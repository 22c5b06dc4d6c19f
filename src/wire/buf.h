/* A growing byte buffer for messages on their way out. */
#ifndef SY_BUF_H
#define SY_BUF_H

#include "bytes.h"

/* A buffer never grows past this: twice the largest message. */
enum { SY_BUF_MAX_BYTES = 8 << 20 };

/* Zero it before first use. Owned by whoever declared it; sy_buf_free releases the memory. */
struct sy_buf {
	uint8_t *data;
	size_t bytes, capacity;
	bool failed; /* memory was short, or a limit passed; what was appended since is lost.
	              * Checked once at the end; sy_buf_reset clears it */
};

void sy_buf_reset(struct sy_buf *buf); /* empties, keeps the memory */
void sy_buf_free(struct sy_buf *buf);
void sy_buf_append(struct sy_buf *buf, const void *data, size_t bytes);
/* Room for `bytes` more at the end, counted as appended; NULL and failed if memory is short. */
void *sy_buf_extend(struct sy_buf *buf, size_t bytes);

#endif
