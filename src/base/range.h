/* One range of a transfer between memory of this process and a slab. */
#ifndef SY_RANGE_H
#define SY_RANGE_H

#include <stdint.h>

/* Its offset counts from the base given to the transfer. */
struct sy_range {
	uint64_t offset;
	uint64_t nbytes;
	union {
		const void *from; /* WRITE */
		void *to;         /* READ */
	};
};

#endif
