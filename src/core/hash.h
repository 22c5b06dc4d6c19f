/* Hashes of the tables, seeded by a secret, so that no client can aim at one bucket. */
#ifndef SY_HASH_H
#define SY_HASH_H

#include "arena.h"

static inline uint32_t sy_hash_row(const struct sy_core *core, uint32_t ns, uint64_t row)
{
	uint64_t h = sy_mix64(row ^ core->tables.hash_secret);
	return (uint32_t)(sy_mix64(h + ns) >> 32);
}

static inline uint32_t sy_hash_key(const struct sy_core *core, uint32_t ns, uint64_t row,
                                   uint32_t field)
{
	uint64_t h = sy_mix64(row ^ core->tables.hash_secret);
	uint64_t names = (uint64_t)(ns + 1) << 32 | field;
	return (uint32_t)(sy_mix64(h + names * 0x9e3779b97f4a7c15u) >> 32);
}

/* Any bytes, eight at a time; what is left over is padded with zeros, so `seed` holds what tells
 * lengths apart. */
static inline uint32_t sy_hash_bytes(const struct sy_core *core, uint64_t seed, const void *data,
                                     size_t bytes)
{
	const uint8_t *at = data;
	uint64_t h = sy_mix64(core->tables.hash_secret + seed);
	for (; bytes >= 8; at += 8, bytes -= 8)
		h = sy_mix64(h ^ sy_load_u64(at)) + core->tables.hash_secret;
	if (bytes > 0) {
		uint64_t last = 0;
		memcpy(&last, at, bytes);
		h = sy_mix64(h ^ last) + core->tables.hash_secret;
	}
	return (uint32_t)(sy_mix64(h) >> 32);
}

#endif
