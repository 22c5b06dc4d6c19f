/* The index at the head of every blob: which entries it holds and where.
 *
 * A blob, all offsets from its start, all numbers little-endian:
 *
 *   0        header, 64 bytes: magic, version, sizes, blob id, crc32c of the index after it
 *   64       row numbers, u64 each, strictly ascending
 *   ...      columns, each: name, dtype, kind, rank, trailing shape, ordinals or "all rows",
 *            one extent or an extent a row, the offset of its first entry; each padded to 8
 *   64-byte aligned: the entries, a column's rows side by side, each aligned to 64 bytes
 *
 * Columns are sorted by field name (bytewise); a field may stand in several columns (other
 * dtype or shape for other rows), a key (row, field) once. Entries of a column follow each
 * other at base, base + align64(bytes of the first), ...; columns' ranges ascend in the order
 * of the columns and do not overlap. */
#ifndef SLABYARD_INDEX_H
#define SLABYARD_INDEX_H

#include <slabyard/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, element bytes, printed name) */
#define SY_DTYPE_LIST(X) \
	X(SY_DTYPE_NONE, 0, 1, "none") \
	X(SY_DTYPE_BOOL, 1, 1, "bool") \
	X(SY_DTYPE_U8, 2, 1, "u8") \
	X(SY_DTYPE_U16, 3, 2, "u16") \
	X(SY_DTYPE_U32, 4, 4, "u32") \
	X(SY_DTYPE_U64, 5, 8, "u64") \
	X(SY_DTYPE_I8, 6, 1, "i8") \
	X(SY_DTYPE_I16, 7, 2, "i16") \
	X(SY_DTYPE_I32, 8, 4, "i32") \
	X(SY_DTYPE_I64, 9, 8, "i64") \
	X(SY_DTYPE_F16, 10, 2, "f16") \
	X(SY_DTYPE_BF16, 11, 2, "bf16") \
	X(SY_DTYPE_F32, 12, 4, "f32") \
	X(SY_DTYPE_F64, 13, 8, "f64") \
	X(SY_DTYPE_F8_E4M3FN, 14, 1, "f8_e4m3fn") \
	X(SY_DTYPE_F8_E5M2, 15, 1, "f8_e5m2") \
	X(SY_DTYPE_F8_E4M3FNUZ, 16, 1, "f8_e4m3fnuz") \
	X(SY_DTYPE_F8_E5M2FNUZ, 17, 1, "f8_e5m2fnuz") \
	X(SY_DTYPE_C64, 18, 8, "c64") \
	X(SY_DTYPE_C128, 19, 16, "c128")

typedef enum sy_dtype {
#define SY_DTYPE_ENUM(name, value, bytes, text) name = value,
	SY_DTYPE_LIST(SY_DTYPE_ENUM)
#undef SY_DTYPE_ENUM
} sy_dtype;

/* X(name, value, printed name). Only a tensor has a dtype other than NONE and a shape. */
#define SY_KIND_LIST(X) \
	X(SY_KIND_TENSOR, 1, "tensor") \
	X(SY_KIND_BYTES, 2, "bytes") \
	X(SY_KIND_UTF8, 3, "utf8") \
	X(SY_KIND_MSGPACK, 4, "msgpack") \
	X(SY_KIND_PICKLE, 5, "pickle") \
	X(SY_KIND_JSON_NULL, 6, "json-null") \
	X(SY_KIND_JSON, 7, "json")

typedef enum sy_kind {
#define SY_KIND_ENUM(name, value, text) name = value,
	SY_KIND_LIST(SY_KIND_ENUM)
#undef SY_KIND_ENUM
} sy_kind;

enum {
	SY_RANK_MAX = 8,
	SY_TAIL_MAX = SY_RANK_MAX - 1,
	SY_FIELD_MAX_BYTES = 1024,
	SY_ENTRY_ALIGN_BYTES = 64,
	SY_INDEX_HEADER_BYTES = 64,
};

/* The trailing shape of tensors: a tensor of rank 0 is a scalar; of rank r its shape is
 * (dim0, tail[0], ..., tail[r - 2]). For other kinds rank is 0. */
typedef struct sy_shape {
	uint32_t rank;
	uint64_t tail[SY_TAIL_MAX];
} sy_shape;

/* One column. An extent is the entry's length in bytes; only where the tail holds a zero, so
 * that a lead unit has no bytes, it is dim0 itself and the entry is empty. */
typedef struct sy_column {
	const char *field; /* UTF-8, 1..1024 bytes, no NUL inside; not NUL-terminated */
	size_t field_bytes;
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
	const uint32_t *ordinals; /* positions in rows, strictly ascending; NULL: all rows */
	uint32_t row_count;       /* with NULL ordinals: the index's row_count */
	const uint64_t *extents;  /* one a row; NULL: every row has `extent` */
	uint64_t extent;
	uint64_t base;            /* blob offset of the first entry; set by sy_index_layout */
} sy_column;

typedef struct sy_index {
	sy_blob_id blob_id;
	const uint64_t *rows;
	uint32_t row_count;
	sy_column *columns;
	uint32_t column_count;
	uint32_t entry_count; /* sum of the columns' row_count; set by layout and decode */
	uint64_t index_bytes; /* header included; set by layout and decode */
	uint64_t blob_bytes;  /* the whole blob; set by layout and decode */
} sy_index;

/* Bytes of one element; 0 for no such dtype. */
SY_API uint32_t sy_dtype_bytes(sy_dtype dtype);
SY_API const char *sy_dtype_name(sy_dtype dtype); /* "unknown" for no such value */
SY_API const char *sy_kind_name(sy_kind kind);

/* Bytes one lead unit of this shape takes (element bytes times the tail; the element bytes for
 * a scalar); false if it overflows 2^62. */
SY_API bool sy_shape_unit_bytes(sy_dtype dtype, const sy_shape *shape, uint64_t *ret_bytes);
/* Bytes stored for an entry of this column with this extent (0 where a lead unit has none). */
SY_API uint64_t sy_column_entry_bytes(const sy_column *column, uint64_t extent);
/* dim0 of that entry; 0 for scalars and for kinds other than tensor. */
SY_API uint64_t sy_column_entry_dim0(const sy_column *column, uint64_t extent);
/* The extent of the column's k-th row. */
SY_API uint64_t sy_column_extent(const sy_column *column, uint32_t k);

/* Checks the index the caller filled in (rows and ordinals ascending, names, shapes, lengths,
 * sorted columns, no key twice) and sets every base, entry_count, index_bytes and blob_bytes.
 * Fails with SY_E_INVALID. Thread-safe for distinct indexes. */
SY_API sy_status sy_index_layout(sy_index *index, sy_error *err);

/* Writes the index_bytes of a laid out index to out. Fails with SY_E_INVALID if out_bytes is
 * too small. */
SY_API sy_status sy_index_encode(const sy_index *index, void *out, size_t out_bytes,
                                 sy_error *err);

/* Reads index_bytes out of the 64 header bytes, so that a caller knows how much to copy.
 * Fails with SY_E_PROTOCOL: no header of ours, or an index larger than blob_bytes or the limit. */
SY_API sy_status sy_index_peek(const void *header, uint64_t blob_bytes, uint64_t *ret_index_bytes,
                               sy_error *err);

/* The id of the blob out of the same bytes; fails as sy_index_peek does. */
SY_API sy_status sy_index_peek_id(const void *header, uint64_t blob_bytes, sy_blob_id *ret_id,
                                  sy_error *err);

/* Decodes and checks everything the file comment promises, trusting nothing. `bytes` is a
 * private copy, 8-aligned, of the whole index, and must outlive `ret_index`, which points into
 * it. `columns` and `marks` are lent: as many columns as the header says (at most
 * column_capacity), and one mark byte a row (mark_capacity at least the row count).
 * Fails with SY_E_PROTOCOL and says in err->message what is wrong. */
SY_API sy_status sy_index_decode(const void *bytes, size_t index_bytes, uint64_t blob_bytes,
                                 sy_column *columns, uint32_t column_capacity, uint8_t *marks,
                                 uint32_t mark_capacity, sy_index *ret_index, sy_error *err);

#ifdef __cplusplus
}
#endif
#endif
