#include "scratch.h"

#include "guard.h"

enum { ALIGN_BYTES = 16 };

void *sy_scratch_take(struct sy_scratch *scratch, size_t bytes)
{
	SY_ASSERT(scratch->used <= scratch->bytes);
	SY_ASSERT(((uintptr_t)scratch->data & (ALIGN_BYTES - 1)) == 0);
	if (scratch->data == NULL)
		return NULL;
	size_t start = (size_t)sy_align_up(scratch->used, ALIGN_BYTES);
	if (start > scratch->bytes || bytes > scratch->bytes - start)
		return NULL;
	scratch->used = start + bytes;
	return scratch->data + start;
}
