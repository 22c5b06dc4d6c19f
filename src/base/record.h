/* How a blob lies on disk: a record of 4 KiB blocks, each with its own checksum.
 *
 *   block   4,088 bytes of payload | number u32 | checksum u32
 *
 * The payload of all blocks in order is a header (SY_RECORD_HEAD_BYTES, its form is the shell's)
 * and then the blob's bytes. The checksum covers payload and number and starts from the record's
 * generation, so that a block of another record, an older one at the same place, or one that was
 * never written does not pass; and any range of a blob can be read and checked by itself. */
#ifndef SY_RECORD_H
#define SY_RECORD_H

#include "bytes.h"

enum {
	SY_RECORD_BLOCK_BYTES = 4096,
	SY_RECORD_PAYLOAD_BYTES = 4088,
	SY_RECORD_HEAD_BYTES = 1152, /* a namespace of up to 1,024 bytes among it */
};

/* What the record of a blob takes on disk. */
static inline uint64_t sy_record_bytes(uint64_t blob_bytes)
{
	uint64_t payload = blob_bytes + SY_RECORD_HEAD_BYTES;
	return (payload + SY_RECORD_PAYLOAD_BYTES - 1) / SY_RECORD_PAYLOAD_BYTES *
	       SY_RECORD_BLOCK_BYTES;
}

#endif
