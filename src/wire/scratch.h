/* Memory that a decoder hands out of in order and its owner resets a message later. */
#ifndef SY_SCRATCH_H
#define SY_SCRATCH_H

#include "bytes.h"

struct sy_scratch {
	uint8_t *data; /* 16-aligned; owned by whoever declared it */
	size_t bytes, used;
};

/* 16-aligned, or NULL if too little is left. */
void *sy_scratch_take(struct sy_scratch *scratch, size_t bytes);

/* What the decoding of the largest allowed message takes. */
enum { SY_SCRATCH_BYTES = 2 << 20 };

#endif
