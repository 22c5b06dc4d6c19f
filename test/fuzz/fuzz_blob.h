/* Small blobs by their number, always the same ones, over few rows and fields: what clients put
 * in the fuzz targets that run sequences. */
#ifndef SY_FUZZ_BLOB_H
#define SY_FUZZ_BLOB_H

#include "fuzz.h"
#include "prng.h"

#include <slabyard/index.h>

enum {
	FUZZ_BLOB_ROWS = 16, FUZZ_BLOB_FIELDS = 5, FUZZ_BLOB_COLUMNS = 4, FUZZ_BLOB_BYTES = 4096
};

struct fuzz_blob {
	sy_index index;
	uint64_t rows[FUZZ_BLOB_COLUMNS];
	sy_column columns[FUZZ_BLOB_COLUMNS];
	uint8_t bytes[FUZZ_BLOB_BYTES]; /* index and entries */
};

/* Ascending in number, but that numbers are taken modulo FUZZ_BLOB_ROWS. */
static inline uint64_t fuzz_blob_row(uint8_t number)
{
	number %= FUZZ_BLOB_ROWS;
	if (number == FUZZ_BLOB_ROWS - 1)
		return UINT64_MAX;
	return number < 8 ? number : (uint64_t)number << 40;
}

static inline struct sy_span fuzz_blob_field(uint8_t number)
{
	static const char *const names[FUZZ_BLOB_FIELDS] = {"a", "b", "ids", "log@prob", "\xc3\xa9"};
	const char *name = names[number % FUZZ_BLOB_FIELDS];
	return (struct sy_span){(const uint8_t *)name, strlen(name)};
}

/* The type of a column, and an extent that goes with it. */
static inline void fuzz_blob_type(struct sy_prng *prng, sy_column *column)
{
	uint64_t length = sy_prng_chance(prng, 20) ? 0 : sy_prng_below(prng, 20);
	column->kind = (sy_kind)(1 + sy_prng_below(prng, 7));
	column->extent = column->kind == SY_KIND_JSON_NULL ? 0 : 16 * length;
	if (column->kind != SY_KIND_TENSOR)
		return;
	column->dtype = SY_DTYPE_F32;
	column->shape.rank = (uint32_t)sy_prng_below(prng, 3);
	column->shape.tail[0] = column->shape.rank == 2 ? sy_prng_below(prng, 4) : 0;
	uint64_t unit = column->shape.rank == 2 ? 4 * column->shape.tail[0] : 4;
	column->extent = column->shape.rank == 0 ? 4 : unit == 0 ? length : unit * length;
}

/* The blob of this number. Every byte of its id is the number. */
static inline void fuzz_blob_make(struct fuzz_blob *blob, uint8_t number)
{
	struct sy_prng prng;
	sy_error err = {0};
	sy_prng_seed(&prng, number);
	memset(blob, 0, sizeof *blob);
	blob->index = (sy_index){.rows = blob->rows, .columns = blob->columns};
	memset(blob->index.blob_id.bytes, number, sizeof blob->index.blob_id.bytes);
	uint8_t row = (uint8_t)sy_prng_below(&prng, 6);
	blob->index.row_count = 1 + (uint32_t)sy_prng_below(&prng, FUZZ_BLOB_COLUMNS);
	for (uint32_t i = 0; i < blob->index.row_count; i++, row += 1 + (uint8_t)(number % 3))
		blob->rows[i] = fuzz_blob_row(row);
	uint8_t field = (uint8_t)sy_prng_below(&prng, 3);
	blob->index.column_count = 1 + (uint32_t)sy_prng_below(&prng, FUZZ_BLOB_FIELDS - field);
	if (blob->index.column_count > FUZZ_BLOB_COLUMNS)
		blob->index.column_count = FUZZ_BLOB_COLUMNS;
	for (uint32_t c = 0; c < blob->index.column_count; c++, field++) {
		struct sy_span name = fuzz_blob_field(field);
		blob->columns[c].field = (const char *)name.data;
		blob->columns[c].field_bytes = name.bytes;
		blob->columns[c].row_count = blob->index.row_count;
		fuzz_blob_type(&prng, &blob->columns[c]);
	}
	if (sy_index_layout(&blob->index, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	memset(blob->bytes, number, sizeof blob->bytes);
	FUZZ_CHECK(blob->index.blob_bytes <= sizeof blob->bytes);
	FUZZ_CHECK(sy_index_encode(&blob->index, blob->bytes, sizeof blob->bytes, &err) == SY_OK);
}

#endif
