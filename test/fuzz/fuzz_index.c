/* The index of a blob, out of a slab that a client writes: whatever decodes keeps every promise
 * of index.h, is laid out again, and encodes to the very bytes it came from.
 *
 *   mode u8 | blob bytes u64 | index
 *
 * mode  1  as it stands; otherwise magic, version, sizes and checksum are made right first, so
 *          that the checks behind them are reached
 *       2  few columns and rows are lent: high four bits
 *       4  the blob is as long as its index says and 64 KiB more */
#include "fuzz.h"

#include "index_check.h"
#include "index_fixture.h"
#include "prng.h"

enum { MODE_RAW = 1, MODE_FEW = 2, MODE_LONG = 4, HEAD_BYTES = 9, LENT_MAX = 1024 };

static void patch(uint8_t *bytes, size_t index_bytes, uint64_t blob_bytes)
{
	memcpy(bytes, SY_INDEX_MAGIC, 8);
	sy_store_u32(bytes + SY_INDEX_AT_VERSION, SY_INDEX_VERSION);
	sy_store_u32(bytes + SY_INDEX_AT_FLAGS, 0);
	sy_store_u64(bytes + SY_INDEX_AT_INDEX_BYTES, index_bytes);
	sy_store_u64(bytes + SY_INDEX_AT_BLOB_BYTES, blob_bytes);
	crc_store(bytes, index_bytes);
}

/* A laid out copy of what was decoded is no longer than it: its entries stand without gaps. */
static void check_encodes(sy_index *index, const uint8_t *bytes, size_t index_bytes)
{
	sy_error err = {0};
	uint8_t *again = xmalloc(index_bytes);
	uint64_t blob_bytes = index->blob_bytes;
	if (sy_index_encode(index, again, index_bytes, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	assert_memory_equal(again, bytes, index_bytes);
	if (sy_index_layout(index, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	FUZZ_CHECK(index->index_bytes == index_bytes);
	FUZZ_CHECK(index->blob_bytes <= sy_align_up(blob_bytes, SY_ENTRY_ALIGN_BYTES));
	free(again);
}

static void try_decode(const uint8_t *bytes, size_t index_bytes, uint64_t blob_bytes,
                       uint32_t lent)
{
	sy_index index;
	uint64_t said_bytes = 0;
	sy_error err = {.status = SY_OK};
	sy_column *columns = malloc(lent * sizeof *columns);
	uint8_t *marks = xmalloc(lent);
	FUZZ_CHECK(columns != NULL);
	memset(marks, 0xa5, lent);
	sy_status peeked = index_bytes < SY_INDEX_HEADER_BYTES
	                       ? SY_E_PROTOCOL
	                       : sy_index_peek(bytes, blob_bytes, &said_bytes, &err);
	sy_status status = sy_index_decode(bytes, index_bytes, blob_bytes, columns, lent, marks, lent,
	                                   &index, &err);
	FUZZ_CHECK(status == SY_OK || (status == SY_E_PROTOCOL && err.status == status));
	FUZZ_CHECK(strnlen(err.message, sizeof err.message) < sizeof err.message);
	if (status == SY_OK) {
		FUZZ_CHECK(peeked == SY_OK && said_bytes == index_bytes);
		check_promises(&index, bytes, blob_bytes);
		check_encodes(&index, bytes, index_bytes);
	}
	free(columns);
	free(marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	uint8_t mode = fuzz_u8(&input);
	uint64_t blob_bytes = fuzz_number(&input, 8);
	size_t index_bytes = fuzz_left(&input);
	if ((mode & MODE_RAW) == 0)
		index_bytes &= ~(size_t)7;
	if ((mode & MODE_LONG) != 0)
		blob_bytes = index_bytes + (64 << 10);
	uint8_t *index = fuzz_copy(input.at, index_bytes);
	if ((mode & MODE_RAW) == 0 && index_bytes >= SY_INDEX_HEADER_BYTES)
		patch(index, index_bytes, blob_bytes);
	try_decode(index, index_bytes, blob_bytes,
	           (mode & MODE_FEW) != 0 ? 1 + (uint32_t)(mode >> 4) : LENT_MAX);
	free(index);
	return 0;
}

/* Numbers at which checks turn. */
static uint64_t edge_draw(struct sy_prng *prng, size_t bytes)
{
	static const uint64_t edges[] = {
		0, 1, 2, 3, 7, 8, 63, 64, 65, 255, 256, 1023, 1024, 1025, 16383, 16384, 16385,
		INT32_MAX, UINT32_MAX, (uint64_t)1 << 61, (uint64_t)1 << 62, INT64_MAX, UINT64_MAX,
	};
	uint64_t edge = edges[sy_prng_below(prng, COUNT_OF(edges))] + sy_prng_below(prng, 3) - 1;
	return sy_prng_chance(prng, 50) ? sy_prng_below(prng, 1u << bytes) : edge;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned seed);

/* Half the time sets one whole number of the index, aligned as its own are. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes, unsigned seed)
{
	struct sy_prng prng;
	sy_prng_seed(&prng, seed);
	size_t width = (size_t)1 << sy_prng_below(&prng, 4);
	if (sy_prng_chance(&prng, 50) || bytes < HEAD_BYTES + width)
		return LLVMFuzzerMutate(data, bytes, max_bytes);
	uint64_t place = sy_prng_below(&prng, (bytes - HEAD_BYTES) / width) * width;
	uint8_t *at = data + HEAD_BYTES + place;
	uint64_t number = 0;
	memcpy(&number, at, width);
	if (sy_prng_chance(&prng, 40))
		number += sy_prng_chance(&prng, 50) ? 1 : UINT64_MAX;
	else
		number = edge_draw(&prng, width);
	memcpy(at, &number, width);
	return bytes;
}

static void seed_index(const sy_index *index, uint8_t mode, uint32_t number)
{
	uint8_t *bytes = xmalloc(HEAD_BYTES + index->index_bytes);
	uint8_t *encoded = encode(index);
	bytes[0] = mode;
	sy_store_u64(bytes + 1, index->blob_bytes);
	memcpy(bytes + HEAD_BYTES, encoded, index->index_bytes);
	fuzz_seed("index", number, bytes, HEAD_BYTES + index->index_bytes);
	free(encoded);
	free(bytes);
}

static void layout(sy_index *index)
{
	sy_error err = {0};
	if (sy_index_layout(index, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
}

/* Columns of every dtype and kind, one a field. */
static void seed_types(uint32_t number)
{
	static const uint8_t kinds[] = {SY_KIND_BYTES, SY_KIND_UTF8, SY_KIND_MSGPACK, SY_KIND_PICKLE,
	                                SY_KIND_JSON_NULL, SY_KIND_JSON};
	struct fixture *f = sample();
	f->index.column_count = 0;
	char name[] = "a";
	for (uint8_t dtype = SY_DTYPE_BOOL; dtype <= SY_DTYPE_C128; dtype++, name[0]++) {
		sy_column *column = &f->columns[f->index.column_count];
		column_set(f, name, 1, (sy_dtype)dtype, SY_KIND_TENSOR);
		column->shape.rank = dtype % (SY_RANK_MAX + 1);
		for (uint32_t i = 0; i + 1 < column->shape.rank; i++)
			column->shape.tail[i] = 1 + i % 3;
		uint64_t unit = 0;
		FUZZ_CHECK(sy_shape_unit_bytes((sy_dtype)dtype, &column->shape, &unit));
		column->extent = unit;
	}
	for (size_t i = 0; i < sizeof kinds; i++, name[0]++) {
		column_set(f, name, 1, SY_DTYPE_NONE, (sy_kind)kinds[i]);
		f->columns[f->index.column_count - 1].extent = kinds[i] == SY_KIND_JSON_NULL ? 0 : i;
	}
	layout(&f->index);
	seed_index(&f->index, 0, number);
}

void fuzz_corpus(void)
{
	struct fixture *f = sample();
	layout(&f->index);
	for (uint8_t mode = 0; mode < 8; mode++)
		seed_index(&f->index, (uint8_t)(mode | 0x30), mode);
	f->index.column_count = 1; /* "a" alone */
	layout(&f->index);
	seed_index(&f->index, 0, 8);
	f = sample();
	f->columns[0].extents = f->extents[0];
	for (uint32_t k = 0; k < 3; k++)
		f->extents[0][k] = 2;
	layout(&f->index);
	seed_index(&f->index, 0, 9);
	seed_types(10);
}
