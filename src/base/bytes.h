/* Little-endian loads and stores at any alignment, and rounding. */
#ifndef SY_BYTES_H
#define SY_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "layouts are little-endian");

static inline uint16_t sy_load_u16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline uint32_t sy_load_u32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline uint64_t sy_load_u64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof v);
	return v;
}

static inline void sy_store_u16(void *p, uint16_t v)
{
	memcpy(p, &v, sizeof v);
}

static inline void sy_store_u32(void *p, uint32_t v)
{
	memcpy(p, &v, sizeof v);
}

static inline void sy_store_u64(void *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

/* Rounds up to a power of two `align`; the caller keeps n below 2^63. */
static inline uint64_t sy_align_up(uint64_t n, uint64_t align)
{
	return (n + align - 1) & ~(align - 1);
}

static inline uint64_t sy_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t sy_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A borrowed run of bytes; owns nothing. */
struct sy_span {
	const uint8_t *data;
	size_t bytes;
};

static inline bool sy_span_equal(struct sy_span a, struct sy_span b)
{
	return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}

/* Mixes 64 bits so that each bit of the result depends on all (the finaliser of splitmix64). */
static inline uint64_t sy_mix64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Maps a 32-bit hash onto 0..n-1 without a division. */
static inline uint32_t sy_range32(uint32_t hash, uint32_t n)
{
	return (uint32_t)(((uint64_t)hash * n) >> 32);
}

#endif
