/* Records on disk, as bytes: base/record.h has the form. Pure. */
#ifndef SY_TIER_RECORD_H
#define SY_TIER_RECORD_H

#include "core.h"
#include "record.h"

/* One disk operation, as the core asks for it. */
struct sy_disk_job {
	uint32_t blob;           /* with grant: names the operation in its end */
	bool reads;
	uint64_t grant, generation, incarnation;
	uint64_t disk_at;        /* of the record */
	uint64_t offset, nbytes; /* in the slab: the whole blob, or of a read the part asked for */
	uint64_t skip;           /* where that part begins in the blob */
	uint64_t record_nbytes;  /* of the whole blob */
	sy_blob_id blob_id;
	uint32_t ns_bytes;
	char ns[SY_FIELD_MAX_BYTES];
};

/* From the core's effect. */
void sy_disk_job_from(struct sy_disk_job *ret_job, const struct sy_effect *effect,
                      uint64_t incarnation);

/* The blocks that the operation covers: the first one and how many. */
void sy_record_span(const struct sy_disk_job *job, uint64_t *ret_first, uint64_t *ret_count);

/* Makes `count` blocks from number `first` on out of the blob's bytes at `blob`. */
void sy_record_pack(const struct sy_disk_job *job, const uint8_t *blob, uint64_t first,
                    uint64_t count, uint8_t *ret_blocks);

/* Checks blocks and puts what they hold of the job's part to its place in `part` (nbytes). False:
 * one of them is not of this record. */
bool sy_record_unpack(const struct sy_disk_job *job, const uint8_t *blocks, uint64_t first,
                      uint64_t count, uint8_t *part);

#endif
