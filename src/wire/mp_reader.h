/* Reads msgpack out of a byte run that nobody has checked. Never allocates, never reads past the
 * end, never trusts a count: an array that claims more items than bytes are left is a fault.
 * The first fault sticks: what is read after it is 0, empty or false, so that a decoder reads
 * on and asks once. */
#ifndef SY_MP_READER_H
#define SY_MP_READER_H

#include "bytes.h"

enum { SY_MP_DEPTH_MAX = 8 }; /* of values that are skipped */

struct sy_mp_reader {
	const uint8_t *at, *end;
	const char *fault; /* static phrase; NULL: none */
};

struct sy_mp_reader sy_mp_reader_init(const void *data, size_t bytes);
void sy_mp_fail(struct sy_mp_reader *reader, const char *fault); /* unless one stands */

/* An integer in any of its encodings, 0..max; signed forms count if they are not negative. */
uint64_t sy_mp_read_uint(struct sy_mp_reader *reader, uint64_t max);
static inline uint64_t sy_mp_read_u64(struct sy_mp_reader *reader)
{
	return sy_mp_read_uint(reader, UINT64_MAX);
}
static inline uint32_t sy_mp_read_u32(struct sy_mp_reader *reader)
{
	return (uint32_t)sy_mp_read_uint(reader, UINT32_MAX);
}
static inline uint8_t sy_mp_read_u8(struct sy_mp_reader *reader)
{
	return (uint8_t)sy_mp_read_uint(reader, UINT8_MAX);
}
bool sy_mp_read_bool(struct sy_mp_reader *reader);
/* Runs of the message; a fault if longer than max_bytes. A str is not checked for UTF-8. */
struct sy_span sy_mp_read_bin(struct sy_mp_reader *reader, size_t max_bytes);
struct sy_span sy_mp_read_str(struct sy_mp_reader *reader, size_t max_bytes);
/* A bin of whole items, at most max_items of item_bytes each; *ret_count is their number. */
const uint8_t *sy_mp_read_items(struct sy_mp_reader *reader, size_t item_bytes, uint32_t max_items,
                                uint32_t *ret_count);
/* Items of an array, pairs of a map: at most max, and no more than the bytes left can hold. */
uint32_t sy_mp_read_array(struct sy_mp_reader *reader, uint32_t max);
uint32_t sy_mp_read_map(struct sy_mp_reader *reader, uint32_t max);
/* An array of exactly `count` items. */
void sy_mp_expect_array(struct sy_mp_reader *reader, uint32_t count);
/* True, and reads it, if the next value is nil. */
bool sy_mp_read_nil(struct sy_mp_reader *reader);
/* One value of any type, at most SY_MP_DEPTH_MAX deep. */
void sy_mp_skip(struct sy_mp_reader *reader);
/* A fault if anything is left. */
void sy_mp_expect_end(struct sy_mp_reader *reader);

#endif
