/* Memory for the results of gets. Large blocks are kept for the next get, since the first touch
 * of fresh memory costs more than the copy into it. One cache a process, thread-safe. */
#ifndef SY_BLOCK_H
#define SY_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 64-aligned; NULL: out of memory. bytes 0 gives a valid block. */
void *sy_block_new(size_t bytes);
/* The same bytes as asked for. NULL is a no-op. */
void sy_block_free(void *block, size_t bytes);
/* A client begins, or ends, to call sy_block_rest now and then. Without one the kernel may take
 * what is kept at once. */
void sy_block_tend(bool begins);
/* Large ones that nobody asked for in the last seconds may be taken by the kernel from here on.
 * True: it was told so of a part of them, and is to be told of the next. */
bool sy_block_rest(uint64_t now_ns);

#endif
