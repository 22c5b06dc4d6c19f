/* Memory for the results of gets. Large blocks are kept for the next get, since the first touch
 * of fresh memory costs more than the copy into it. One cache a process, thread-safe. */
#ifndef SY_BLOCK_H
#define SY_BLOCK_H

#include <stddef.h>

/* 64-aligned; NULL: out of memory. bytes 0 gives a valid block. */
void *sy_block_new(size_t bytes);
/* The same bytes as asked for. NULL is a no-op. */
void sy_block_free(void *block, size_t bytes);

#endif
