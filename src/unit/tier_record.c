#include "tier_record.h"

#include "copy.h"
#include "crc32c.h"
#include "guard.h"

/* "slabrec1" */
static const uint64_t magic = UINT64_C(0x3163657262616c73);
enum { NAME_AT = 64 };

void sy_disk_job_from(struct sy_disk_job *ret_job, const struct sy_effect *effect,
                      uint64_t incarnation)
{
	struct sy_disk_job *job = ret_job;
	SY_ASSERT(effect->ns.bytes <= sizeof job->ns);
	*job = (struct sy_disk_job){
		.blob = effect->blob, .reads = effect->kind == SY_EFFECT_DISK_READ,
		.grant = effect->grant, .generation = effect->generation, .incarnation = incarnation,
		.disk_at = effect->disk_at, .offset = effect->offset, .nbytes = effect->nbytes,
		.skip = effect->skip, .record_nbytes = effect->record_nbytes,
		.blob_id = effect->blob_id, .ns_bytes = (uint32_t)effect->ns.bytes,
	};
	memcpy(job->ns, effect->ns.data, effect->ns.bytes);
}

/* Little-endian: magic u64, version u32, namespace bytes u32, incarnation u64, generation u64,
 * blob bytes u64, blob id 16 B, and at 64 the namespace. The blob's index is the head of its own
 * bytes, which follow. */
static void make_head(const struct sy_disk_job *job, uint8_t *head)
{
	memset(head, 0, SY_RECORD_HEAD_BYTES);
	sy_store_u64(head, magic);
	sy_store_u32(head + 8, 1);
	sy_store_u32(head + 12, job->ns_bytes);
	sy_store_u64(head + 16, job->incarnation);
	sy_store_u64(head + 24, job->generation);
	sy_store_u64(head + 32, job->record_nbytes);
	memcpy(head + 40, job->blob_id.bytes, sizeof job->blob_id.bytes);
	memcpy(head + NAME_AT, job->ns, job->ns_bytes);
}

/* Blocks whose checksums are made side by side. */
enum { SIDE_BY_SIDE = 3 };

static void checksums(const struct sy_disk_job *job, const uint8_t *blocks, uint64_t count,
                      uint32_t *ret_sums)
{
	uint64_t seed = sy_mix64(job->incarnation + sy_mix64(job->generation));
	sy_crc32c_runs((uint32_t)seed, blocks, SY_RECORD_BLOCK_BYTES,
	               SY_RECORD_PAYLOAD_BYTES + sizeof(uint32_t), (size_t)count, ret_sums);
}

void sy_record_span(const struct sy_disk_job *job, uint64_t *ret_first, uint64_t *ret_count)
{
	uint64_t from = job->reads ? SY_RECORD_HEAD_BYTES + job->skip : 0;
	uint64_t to = SY_RECORD_HEAD_BYTES + job->skip + job->nbytes;
	*ret_first = from / SY_RECORD_PAYLOAD_BYTES;
	*ret_count = (to - 1) / SY_RECORD_PAYLOAD_BYTES - *ret_first + 1;
}

/* The part of a block's payload that is the blob's: [*ret_at, +*ret_bytes) of the payload are
 * from *ret_from on in the blob. */
static void blob_part(uint64_t number, uint64_t skip, uint64_t nbytes, uint64_t *ret_at,
                      uint64_t *ret_bytes, uint64_t *ret_from)
{
	uint64_t start = number * SY_RECORD_PAYLOAD_BYTES, end = start + SY_RECORD_PAYLOAD_BYTES;
	uint64_t first = sy_max_u64(start, SY_RECORD_HEAD_BYTES + skip);
	uint64_t last = sy_min_u64(end, SY_RECORD_HEAD_BYTES + skip + nbytes);
	*ret_at = first - start;
	*ret_bytes = last > first ? last - first : 0;
	*ret_from = first - SY_RECORD_HEAD_BYTES;
}

static void fill_block(const struct sy_disk_job *job, const uint8_t *blob, uint64_t number,
                       uint8_t *block)
{
	uint64_t at, bytes, from;
	blob_part(number, 0, job->record_nbytes, &at, &bytes, &from);
	if (bytes < SY_RECORD_PAYLOAD_BYTES)
		memset(block, 0, SY_RECORD_PAYLOAD_BYTES);
	if (number == 0)
		make_head(job, block);
	if (bytes > 0)
		memcpy(block + at, blob + from, (size_t)bytes);
	sy_store_u32(block + SY_RECORD_PAYLOAD_BYTES, (uint32_t)number);
}

void sy_record_pack(const struct sy_disk_job *job, const uint8_t *blob, uint64_t first,
                    uint64_t count, uint8_t *ret_blocks)
{
	uint32_t sums[SIDE_BY_SIDE];
	for (uint64_t done = 0; done < count;) {
		uint8_t *blocks = ret_blocks + done * SY_RECORD_BLOCK_BYTES;
		uint64_t some = sy_min_u64(count - done, SIDE_BY_SIDE);
		for (uint64_t i = 0; i < some; i++)
			fill_block(job, blob, first + done + i, blocks + i * SY_RECORD_BLOCK_BYTES);
		checksums(job, blocks, some, sums);
		for (uint64_t i = 0; i < some; i++)
			sy_store_u32(blocks + (i + 1) * SY_RECORD_BLOCK_BYTES - 4, sums[i]);
		done += some;
	}
}

static bool take_block(const struct sy_disk_job *job, const uint8_t *block, uint64_t number,
                       uint32_t sum, uint8_t *part)
{
	uint64_t at, bytes, from;
	if (sy_load_u32(block + SY_RECORD_PAYLOAD_BYTES) != (uint32_t)number ||
	    sy_load_u32(block + SY_RECORD_PAYLOAD_BYTES + 4) != sum)
		return false;
	blob_part(number, job->skip, job->nbytes, &at, &bytes, &from);
	if (bytes > 0)
		memcpy(part + (from - job->skip), block + at, (size_t)bytes);
	return true;
}

bool sy_record_unpack(const struct sy_disk_job *job, const uint8_t *blocks, uint64_t first,
                      uint64_t count, uint8_t *part)
{
	uint32_t sums[SIDE_BY_SIDE];
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *block = blocks + i * SY_RECORD_BLOCK_BYTES;
		if (i % SIDE_BY_SIDE == 0)
			checksums(job, block, sy_min_u64(count - i, SIDE_BY_SIDE), sums);
		if (!take_block(job, block, first + i, sums[i % SIDE_BY_SIDE], part))
			return false;
	}
	return true;
}
