/* What the encoders and decoders of messages share. */
#ifndef SY_WIRE_PARTS_H
#define SY_WIRE_PARTS_H

#include "entry_fault.h"
#include "message.h"
#include "mp_reader.h"
#include "mp_writer.h"

enum {
	SY_NOTICE_BYTES = 22, /* kind u8, in_flight u8, name */
	SY_HELLO_ARGS_COUNT = 9,
	SY_HELLO_RESULT_COUNT = 16,
	SY_RESOLVED_COUNT = 10,   /* bins of a resolve's result */
	SY_SCAN_ENTRY_COUNT = 7,  /* parts of an entry of a scan */
	SY_SHAPE_MAX_BYTES = 1 + 8 * SY_TAIL_MAX,
};

/* Scratch for count items, or NULL and a fault. */
void *sy_wire_take(struct sy_mp_reader *reader, struct sy_scratch *scratch, size_t count,
                   size_t item_bytes);

/* A request id where one belongs. */
struct sy_request_id sy_wire_read_id(struct sy_mp_reader *reader);

/* Appends a shape at `out`, which has SY_SHAPE_MAX_BYTES; returns its bytes. */
size_t sy_shape_store(uint8_t *out, const sy_shape *shape);
/* Takes a shape off the front of *at; false if it is cut off or its rank over the limit. */
bool sy_shape_load(struct sy_span *at, sy_shape *ret_shape);

/* NULL if length and dim0 are those of an entry of this type, else a static phrase. */
const char *sy_entry_fault(uint8_t dtype, uint8_t kind, const sy_shape *shape, uint64_t nbytes,
                           uint64_t dim0);

/* The part of it that no two entries of a type share; unit and dim0_max as of sy_shape_fault. */
static inline const char *sy_size_fault(uint8_t kind, const sy_shape *shape, uint64_t unit,
                                        uint64_t dim0_max, uint64_t nbytes, uint64_t dim0)
{
	if (kind != SY_KIND_TENSOR || shape->rank == 0) {
		if (dim0 != 0)
			return "holds an entry with a length along no dimension";
		return sy_extent_fault((sy_kind)kind, shape, unit, dim0_max, nbytes);
	}
	/* By a product and not a division, for thousands of keys: it leaves sy_extent_fault only the
	 * limit to check. */
	uint64_t product;
	if (__builtin_mul_overflow(dim0, unit, &product) || product != nbytes)
		return "holds an entry whose shape does not match its length";
	if (unit == 0 ? dim0 > dim0_max : nbytes > SY_LENGTH_MAX_BYTES)
		return "holds an entry that is too large";
	return NULL;
}

/* The result of a resolve_keys. */
void sy_resolved_write(struct sy_buf *buf, const struct sy_reply *reply);
void sy_resolved_read(struct sy_mp_reader *reader, struct sy_scratch *scratch, uint32_t key_count,
                      struct sy_reply *reply);

#endif
