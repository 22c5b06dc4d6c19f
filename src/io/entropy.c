#include "entropy.h"

#include <sys/random.h>

#include "guard.h"

void sy_entropy_fill(void *out, size_t bytes)
{
	uint8_t *at = out;
	/* A short read happens only for more than 256 bytes, an interruption only while waiting. */
	for (uint32_t attempt = 0; attempt < 1000 && bytes > 0; attempt++) {
		ssize_t got = getrandom(at, bytes < 256 ? bytes : 256, 0);
		if (got > 0) {
			at += got;
			bytes -= (size_t)got;
			attempt = 0;
		}
	}
	/* Going on with a guessable number would be worse than ending. */
	SY_ASSERT(bytes == 0);
}

uint64_t sy_entropy_u64(void)
{
	uint64_t value = 0;
	for (uint32_t attempt = 0; attempt < 8 && value == 0; attempt++)
		sy_entropy_fill(&value, sizeof value);
	return value != 0 ? value : 1;
}
