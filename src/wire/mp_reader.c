#include "mp_reader.h"

/* What a value's head says. */
enum head_kind {
	HEAD_NONE, /* cut off, or the one code that is never used */
	HEAD_NIL,
	HEAD_BOOL,     /* number: 0 or 1 */
	HEAD_UINT,     /* number */
	HEAD_NEGATIVE, /* an integer below 0 */
	HEAD_STR,      /* number: bytes that follow */
	HEAD_BIN,
	HEAD_OTHER, /* floats and extensions; number: bytes that follow */
	HEAD_ARRAY, /* number: items that follow */
	HEAD_MAP,   /* number: pairs that follow */
};

struct head {
	enum head_kind kind;
	uint64_t number;
};

/* Codes 0xc0..0xdf: what the value is, bytes of the number after the code, and what to add to
 * that number (for a fixed length: the length itself, with no number). */
static const struct {
	uint8_t kind, bytes, add;
	bool is_signed;
} codes[32] = {
	[0x00] = {HEAD_NIL, 0, 0, false},
	[0x02] = {HEAD_BOOL, 0, 0, false},
	[0x03] = {HEAD_BOOL, 0, 1, false},
	[0x04] = {HEAD_BIN, 1, 0, false},
	[0x05] = {HEAD_BIN, 2, 0, false},
	[0x06] = {HEAD_BIN, 4, 0, false},
	[0x07] = {HEAD_OTHER, 1, 1, false}, /* ext: its type byte counts as one of its bytes */
	[0x08] = {HEAD_OTHER, 2, 1, false},
	[0x09] = {HEAD_OTHER, 4, 1, false},
	[0x0a] = {HEAD_OTHER, 0, 4, false}, /* float */
	[0x0b] = {HEAD_OTHER, 0, 8, false},
	[0x0c] = {HEAD_UINT, 1, 0, false},
	[0x0d] = {HEAD_UINT, 2, 0, false},
	[0x0e] = {HEAD_UINT, 4, 0, false},
	[0x0f] = {HEAD_UINT, 8, 0, false},
	[0x10] = {HEAD_UINT, 1, 0, true},
	[0x11] = {HEAD_UINT, 2, 0, true},
	[0x12] = {HEAD_UINT, 4, 0, true},
	[0x13] = {HEAD_UINT, 8, 0, true},
	[0x14] = {HEAD_OTHER, 0, 2, false}, /* fixext 1, 2, 4, 8, 16 */
	[0x15] = {HEAD_OTHER, 0, 3, false},
	[0x16] = {HEAD_OTHER, 0, 5, false},
	[0x17] = {HEAD_OTHER, 0, 9, false},
	[0x18] = {HEAD_OTHER, 0, 17, false},
	[0x19] = {HEAD_STR, 1, 0, false},
	[0x1a] = {HEAD_STR, 2, 0, false},
	[0x1b] = {HEAD_STR, 4, 0, false},
	[0x1c] = {HEAD_ARRAY, 2, 0, false},
	[0x1d] = {HEAD_ARRAY, 4, 0, false},
	[0x1e] = {HEAD_MAP, 2, 0, false},
	[0x1f] = {HEAD_MAP, 4, 0, false},
};

struct sy_mp_reader sy_mp_reader_init(const void *data, size_t bytes)
{
	static const uint8_t nothing[1];
	const uint8_t *at = bytes == 0 ? nothing : data;
	return (struct sy_mp_reader){at, at + bytes, NULL};
}

/* After a fault nothing is left to read, so every loop over what follows ends at once. */
void sy_mp_fail(struct sy_mp_reader *reader, const char *fault)
{
	if (reader->fault != NULL)
		return;
	reader->fault = fault;
	reader->at = reader->end;
}

static size_t left(const struct sy_mp_reader *reader)
{
	return (size_t)(reader->end - reader->at);
}

static struct head read_head(struct sy_mp_reader *reader)
{
	static const struct head none = {HEAD_NONE, 0};
	if (left(reader) == 0) {
		sy_mp_fail(reader, "is cut off");
		return none;
	}
	uint8_t code = *reader->at++;
	if (code < 0x80)
		return (struct head){HEAD_UINT, code};
	if (code < 0x90)
		return (struct head){HEAD_MAP, code & 0x0fu};
	if (code < 0xa0)
		return (struct head){HEAD_ARRAY, code & 0x0fu};
	if (code < 0xc0)
		return (struct head){HEAD_STR, code & 0x1fu};
	if (code >= 0xe0)
		return (struct head){HEAD_NEGATIVE, 0};
	unsigned at = code - 0xc0u;
	uint64_t number = 0;
	if (codes[at].kind == HEAD_NONE) {
		sy_mp_fail(reader, "holds a code that msgpack never uses");
		return none;
	}
	if (codes[at].bytes > left(reader)) {
		sy_mp_fail(reader, "is cut off");
		return none;
	}
	for (unsigned i = 0; i < codes[at].bytes; i++) /* big-endian */
		number = number << 8 | *reader->at++;
	if (codes[at].is_signed && (number >> (8 * codes[at].bytes - 1)) != 0)
		return (struct head){HEAD_NEGATIVE, 0};
	return (struct head){(enum head_kind)codes[at].kind, number + codes[at].add};
}

uint64_t sy_mp_read_uint(struct sy_mp_reader *reader, uint64_t max)
{
	struct head head = read_head(reader);
	if (head.kind != HEAD_UINT)
		sy_mp_fail(reader, "holds something else where a number belongs");
	else if (head.number > max)
		sy_mp_fail(reader, "holds a number out of range");
	return reader->fault == NULL ? head.number : 0;
}

bool sy_mp_read_bool(struct sy_mp_reader *reader)
{
	struct head head = read_head(reader);
	if (head.kind != HEAD_BOOL)
		sy_mp_fail(reader, "holds something else where true or false belongs");
	return reader->fault == NULL && head.number != 0;
}

static struct sy_span read_run(struct sy_mp_reader *reader, enum head_kind kind, size_t max_bytes,
                               const char *fault)
{
	struct head head = read_head(reader);
	if (head.kind != kind)
		sy_mp_fail(reader, fault);
	else if (head.number > max_bytes)
		sy_mp_fail(reader, "holds bytes over the limit");
#ifndef SY_FUZZ_CANARY /* left out where the fuzzers are to show that they find it missing */
	else if (head.number > left(reader))
		sy_mp_fail(reader, "is cut off");
#endif
	if (reader->fault != NULL)
		return (struct sy_span){NULL, 0};
	struct sy_span run = {reader->at, (size_t)head.number};
	reader->at += run.bytes;
	return run;
}

struct sy_span sy_mp_read_bin(struct sy_mp_reader *reader, size_t max_bytes)
{
	return read_run(reader, HEAD_BIN, max_bytes, "holds something else where bytes belong");
}

struct sy_span sy_mp_read_str(struct sy_mp_reader *reader, size_t max_bytes)
{
	return read_run(reader, HEAD_STR, max_bytes, "holds something else where text belongs");
}

const uint8_t *sy_mp_read_items(struct sy_mp_reader *reader, size_t item_bytes, uint32_t max_items,
                                uint32_t *ret_count)
{
	struct sy_span run = sy_mp_read_bin(reader, item_bytes * max_items);
	if (run.bytes % item_bytes != 0) {
		sy_mp_fail(reader, "holds a part of an item");
		run.bytes = 0;
	}
	*ret_count = (uint32_t)(run.bytes / item_bytes);
	return run.data;
}

static uint32_t read_count(struct sy_mp_reader *reader, enum head_kind kind, uint32_t max,
                           const char *fault)
{
	struct head head = read_head(reader);
	/* Every item takes a byte at least, a pair two. */
	uint64_t room = kind == HEAD_MAP ? left(reader) / 2 : left(reader);
	if (head.kind != kind)
		sy_mp_fail(reader, fault);
	else if (head.number > room)
		sy_mp_fail(reader, "is cut off");
	else if (head.number > max)
		sy_mp_fail(reader, "holds more items than allowed");
	return reader->fault == NULL ? (uint32_t)head.number : 0;
}

uint32_t sy_mp_read_array(struct sy_mp_reader *reader, uint32_t max)
{
	return read_count(reader, HEAD_ARRAY, max, "holds something else where an array belongs");
}

uint32_t sy_mp_read_map(struct sy_mp_reader *reader, uint32_t max)
{
	return read_count(reader, HEAD_MAP, max, "holds something else where a map belongs");
}

void sy_mp_expect_array(struct sy_mp_reader *reader, uint32_t count)
{
	if (sy_mp_read_array(reader, count) != count)
		sy_mp_fail(reader, "has fewer items than it must");
}

bool sy_mp_read_nil(struct sy_mp_reader *reader)
{
	if (left(reader) == 0 || *reader->at != 0xc0)
		return false;
	reader->at++;
	return true;
}

/* Values still to skip at each depth; every turn takes a byte, so bytes bound the loop. */
void sy_mp_skip(struct sy_mp_reader *reader)
{
	uint64_t open[SY_MP_DEPTH_MAX] = {1};
	unsigned depth = 0;
	while (reader->fault == NULL) {
		while (open[depth] == 0) {
			if (depth == 0)
				return;
			depth--;
		}
		open[depth]--;
		struct head head = read_head(reader);
		uint64_t items = head.kind == HEAD_ARRAY ? head.number
		                 : head.kind == HEAD_MAP ? 2 * head.number
		                                         : 0;
		bool run = head.kind == HEAD_STR || head.kind == HEAD_BIN || head.kind == HEAD_OTHER;
		uint64_t bytes = run ? head.number : 0;
		if (items > left(reader) || bytes > left(reader)) {
			sy_mp_fail(reader, "is cut off");
		} else if (items > 0 && ++depth == SY_MP_DEPTH_MAX) {
			sy_mp_fail(reader, "is nested too deep");
		} else if (items > 0) {
			open[depth] = items;
		} else {
			reader->at += bytes;
		}
	}
}

void sy_mp_expect_end(struct sy_mp_reader *reader)
{
	if (left(reader) != 0)
		sy_mp_fail(reader, "is followed by more bytes");
}
