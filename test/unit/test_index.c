/* The blob's index: what layout makes decodes to the same, and any byte changed is refused or
 * still keeps every promise. */
#include "index_fixture.h"

#include "prng.h"

static const char *const field_pool[] = {"a", "advantages", "b", "ids", "ids.x", "ids@y", "zz",
                                         "\xc3\xa9", "\xf0\x9f\x90\x8e"};

static void random_type(struct sy_prng *prng, sy_column *column)
{
	if (sy_prng_chance(prng, 40)) {
		column->kind = (sy_kind)(2 + sy_prng_below(prng, 6));
		column->dtype = SY_DTYPE_NONE;
		return;
	}
	column->kind = SY_KIND_TENSOR;
	column->dtype = (sy_dtype)(1 + sy_prng_below(prng, 19));
	column->shape.rank = (uint32_t)sy_prng_below(prng, 9);
	for (uint32_t i = 0; i + 1 < column->shape.rank; i++)
		column->shape.tail[i] = sy_prng_chance(prng, 8) ? 0 : 1 + sy_prng_below(prng, 4);
}

static uint64_t random_extent(struct sy_prng *prng, const sy_column *column)
{
	static const uint64_t lengths[] = {0, 1, 63, 64, 65, 4096, 5000000000u, (uint64_t)1 << 40};
	uint64_t unit = 1;
	if (column->kind == SY_KIND_JSON_NULL)
		return 0;
	if (column->kind != SY_KIND_TENSOR)
		return lengths[sy_prng_below(prng, COUNT_OF(lengths))];
	assert_true(sy_shape_unit_bytes(column->dtype, &column->shape, &unit));
	if (column->shape.rank == 0)
		return unit;
	uint64_t dim0 = sy_prng_chance(prng, 20) ? 0 : sy_prng_below(prng, 1000);
	return unit == 0 ? dim0 : dim0 * unit;
}

/* Columns of one field over disjoint rows: each row goes to one of `parts`, or to none. */
static void random_field(struct sy_prng *prng, struct fixture *f, const char *field)
{
	uint32_t parts = 1 + (uint32_t)sy_prng_below(prng, 3);
	bool dense = parts == 1 && sy_prng_chance(prng, 50);
	uint8_t part_of[ROWS_MAX];
	for (uint32_t r = 0; r < f->index.row_count; r++)
		part_of[r] = dense ? 0 : (uint8_t)sy_prng_below(prng, parts + 1);
	for (uint32_t p = 0; p < parts; p++) {
		uint32_t c = f->index.column_count;
		column_set(f, field, strlen(field), SY_DTYPE_NONE, SY_KIND_BYTES);
		sy_column *column = &f->columns[c];
		random_type(prng, column);
		column->row_count = 0;
		for (uint32_t r = 0; r < f->index.row_count; r++) {
			if (part_of[r] == p)
				f->ordinals[c][column->row_count++] = r;
		}
		if (column->row_count == 0) {
			f->index.column_count--;
			continue;
		}
		if (!dense || sy_prng_chance(prng, 20))
			column->ordinals = f->ordinals[c];
		column->extent = random_extent(prng, column);
		if (sy_prng_chance(prng, 50))
			column->extents = f->extents[c];
		for (uint32_t k = 0; k < column->row_count; k++)
			f->extents[c][k] = random_extent(prng, column);
	}
}

static struct fixture *random_index(struct sy_prng *prng)
{
	static struct fixture f;
	memset(&f, 0, sizeof f);
	f.index.rows = f.rows;
	f.index.columns = f.columns;
	f.index.row_count = 1 + (uint32_t)sy_prng_below(prng, ROWS_MAX);
	uint64_t row = sy_prng_chance(prng, 50) ? 0 : sy_prng_next(prng) >> 1;
	for (uint32_t r = 0; r < f.index.row_count; r++) {
		f.rows[r] = row;
		row += 1 + sy_prng_below(prng, 1000);
	}
	if (sy_prng_chance(prng, 20))
		f.rows[f.index.row_count - 1] = UINT64_MAX;
	column_set(&f, "A", 1, SY_DTYPE_NONE, SY_KIND_JSON_NULL); /* so that every row has an entry */
	for (size_t i = 0; i < COUNT_OF(field_pool); i++) {
		if (sy_prng_chance(prng, 50))
			random_field(prng, &f, field_pool[i]);
	}
	for (size_t i = 0; i < sizeof f.index.blob_id.bytes; i++)
		f.index.blob_id.bytes[i] = (uint8_t)sy_prng_next(prng);
	return &f;
}

static sy_status decode_back(const sy_index *index, const uint8_t *bytes, sy_index *ret_index,
                             sy_error *err)
{
	return decode(bytes, index->index_bytes, index->blob_bytes, ret_index, err);
}

/* --- tests -------------------------------------------------------------------------------- */

static void test_what_layout_makes_decodes_to_the_same(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 3000; i++) {
		struct fixture *f = random_index(&prng);
		sy_error err = {0};
		err.message[0] = '\0';
		if (sy_index_layout(&f->index, &err) != SY_OK)
			fail_msg("%s", err.message);
		uint8_t *bytes = encode(&f->index);
		uint64_t peeked = 0;
		assert_int_equal(sy_index_peek(bytes, f->index.blob_bytes, &peeked, &err), SY_OK);
		assert_int_equal(peeked, f->index.index_bytes);
		sy_blob_id id;
		assert_int_equal(sy_index_peek_id(bytes, f->index.blob_bytes, &id, &err), SY_OK);
		assert_memory_equal(&id, &f->index.blob_id, sizeof id);
		assert_int_equal(sy_index_peek_id(bytes, f->index.blob_bytes + 1, &id, &err),
		                 SY_E_PROTOCOL);
		sy_index got;
		if (decode(bytes, f->index.index_bytes, f->index.blob_bytes, &got, &err) != SY_OK)
			fail_msg("%s", err.message);
		assert_same(&f->index, &got);
		check_promises(&got, bytes, f->index.blob_bytes);
		free(bytes);
	}
}

/* The form in bytes: other builds, and other languages, read it. */
static void test_the_form_is_as_written_down(void **state)
{
	(void)state;
	static const uint8_t columns[] = {
		/* "a": u16, tensor, rank 0, all rows, one extent */
		1, 0, 3, 1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 0, 0, 0, 0, 0, 0,
		2, 0, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0, 0, 0, 0, 0,
		/* "b": bytes, ordinals 0 and 2, extents 65 and 0 */
		1, 0, 0, 2, 0, 3, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0,
		65, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0,
		'b', 0, 0, 0, 0, 0, 0, 0,
		/* "b": f32 [?, 2], ordinal 1 */
		1, 0, 12, 1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0, 0, 0, 0,
		2, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 'b', 0, 0, 0,
		/* "b\xc3\xa9": i64 [9, 0, 7], all rows, nothing stored */
		3, 0, 9, 1, 3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0xc0, 2, 0, 0, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
		'b', 0xc3, 0xa9, 0, 0, 0, 0, 0,
	};
	struct fixture *f = sample();
	sy_error err = {0};
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	assert_int_equal(f->index.index_bytes, 64 + 24 + sizeof columns);
	assert_int_equal(f->index.entry_count, 9);
	assert_int_equal(f->index.blob_bytes, 0x2c0);
	uint8_t *bytes = encode(&f->index);
	uint8_t header[64] = "slabyard";
	header[8] = 1;
	sy_store_u64(header + 16, f->index.index_bytes);
	sy_store_u64(header + 24, 0x2c0);
	sy_store_u32(header + 32, 9);
	sy_store_u32(header + 36, 3);
	sy_store_u32(header + 40, 4);
	sy_store_u32(header + 44, sy_crc32c_by_table(0, bytes + 64, f->index.index_bytes - 64));
	for (size_t i = 0; i < 16; i++)
		header[48 + i] = (uint8_t)(0xe0 + i);
	assert_memory_equal(bytes, header, sizeof header);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(sy_load_u64(bytes + 64 + 8 * i), f->rows[i]);
	assert_memory_equal(bytes + 64 + 24, columns, sizeof columns);
	free(bytes);
}

static void mutate_every_byte(struct sy_prng *prng, const sy_index *index, uint32_t *ret_accepted)
{
	uint8_t *good = encode(index);
	for (size_t at = 0; at < index->index_bytes; at++) {
		const uint8_t flips[] = {1, 0x80, 0xff, (uint8_t)(1 + sy_prng_below(prng, 255))};
		for (size_t i = 0; i < COUNT_OF(flips); i++) {
			uint8_t *bytes = xmalloc(index->index_bytes);
			memcpy(bytes, good, index->index_bytes);
			bytes[at] ^= flips[i];
			sy_index got;
			sy_error err = {0};
			sy_status status =
				decode(bytes, index->index_bytes, index->blob_bytes, &got, &err);
			/* The blob id is the one part that neither checksum nor sizes pin down. */
			assert_int_equal(status, at >= 48 && at < 64 ? SY_OK : SY_E_PROTOCOL);
			if (decode_patched(bytes, index->index_bytes, index->blob_bytes, &err) == SY_OK)
				*ret_accepted += at >= 64;
			free(bytes);
		}
	}
	free(good);
}

static void test_any_byte_changed_is_refused_or_keeps_every_promise(void **state)
{
	(void)state;
	struct sy_prng prng;
	sy_error err = {0};
	uint32_t accepted = 0;
	sy_prng_seed(&prng, harness_seed());
	struct fixture *f = sample();
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	mutate_every_byte(&prng, &f->index, &accepted);
	for (int i = 0; i < 60; i++) {
		f = random_index(&prng);
		assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
		mutate_every_byte(&prng, &f->index, &accepted);
	}
	assert_true(accepted > 1000); /* so that what is accepted is tried as well */
}

/* Several bytes, and whole words, at once. */
static void test_scribbles_are_refused_or_keep_every_promise(void **state)
{
	(void)state;
	static const uint64_t words[] = {0, 1, 0xff, 0x400, UINT32_MAX, (uint64_t)1 << 62,
	                                 (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 63};
	struct sy_prng prng;
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 20000; i++) {
		struct fixture *f = i % 2 == 0 ? sample() : random_index(&prng);
		sy_error err = {0};
		assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
		size_t bytes_count = f->index.index_bytes;
		uint8_t *bytes = encode(&f->index);
		for (uint64_t n = 1 + sy_prng_below(&prng, 4); n > 0; n--) {
			size_t at = (size_t)sy_prng_below(&prng, bytes_count - 7);
			if (sy_prng_chance(&prng, 50))
				sy_store_u64(bytes + (at & ~(size_t)7),
				             words[sy_prng_below(&prng, COUNT_OF(words))]);
			else
				bytes[at] = (uint8_t)sy_prng_next(&prng);
		}
		decode_patched(bytes, bytes_count, f->index.blob_bytes, &err);
		free(bytes);
	}
}

static void test_every_truncation_is_refused(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	uint8_t *good = encode(&f->index);
	for (size_t cut = 0; cut < f->index.index_bytes; cut++) {
		uint8_t *bytes = xmalloc(cut);
		memcpy(bytes, good, cut);
		sy_index got;
		assert_int_equal(decode(bytes, cut, f->index.blob_bytes, &got, &err), SY_E_PROTOCOL);
		/* Also where the header says so much and no more. */
		if (cut >= 64) {
			sy_store_u64(bytes + 16, cut);
			assert_int_equal(decode_patched(bytes, cut, f->index.blob_bytes, &err), SY_E_PROTOCOL);
		}
		free(bytes);
	}
	free(good);
}

static void test_what_is_lent_bounds_decode(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	sy_index got = {.row_count = 77};
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	uint8_t *bytes = encode(&f->index);
	uint64_t blob = f->index.blob_bytes;
	size_t n = f->index.index_bytes;
	sy_column *columns = decoded_columns;
	uint8_t *marks = decoded_marks;
	assert_int_equal(sy_index_decode(bytes, n, blob, columns, 4, marks, 3, &got, &err), SY_OK);
	got = (sy_index){.row_count = 77};
	assert_int_equal(sy_index_decode(bytes, n, blob, columns, 3, marks, 3, &got, &err),
	                 SY_E_PROTOCOL);
	assert_int_equal(sy_index_decode(bytes, n, blob, columns, 4, marks, 2, &got, &err),
	                 SY_E_PROTOCOL);
	assert_int_equal(got.row_count, 77); /* written only on success */
	/* A blob of another size than the index says, in either direction. */
	assert_int_equal(decode(bytes, n, blob + 64, &got, &err), SY_E_PROTOCOL);
	assert_int_equal(decode(bytes, n, blob - 64, &got, &err), SY_E_PROTOCOL);
	/* The checksum itself. */
	bytes[AT_CRC] ^= 1;
	assert_int_equal(decode(bytes, n, blob, &got, &err), SY_E_PROTOCOL);
	assert_non_null(strstr(err.message, "checksum"));
	bytes[AT_CRC] ^= 1;
	/* An odd address is a bug of the caller. */
	uint8_t *odd = xmalloc(n + 1);
	memcpy(odd + 1, bytes, n);
	assert_int_equal(decode(odd + 1, n, blob, &got, &err), SY_E_INVALID);
	free(odd);
	free(bytes);
}

static void test_peek(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	uint64_t got = 77;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	uint8_t *bytes = encode(&f->index);
	uint64_t blob = f->index.blob_bytes;
	assert_int_equal(sy_index_peek(bytes, blob - 1, &got, &err), SY_E_PROTOCOL);
	assert_int_equal(sy_index_peek(bytes, 63, &got, &err), SY_E_PROTOCOL);
	assert_int_equal(sy_index_peek(bytes, 0, &got, &err), SY_E_PROTOCOL);
	assert_int_equal(sy_index_peek(bytes, UINT64_MAX, &got, &err), SY_E_PROTOCOL);
	/* Over the limit of 32 MiB though the blob would hold it. */
	sy_store_u64(bytes + 24, (uint64_t)1 << 40);
	sy_store_u64(bytes + 16, (32 << 20) + 8);
	assert_int_equal(sy_index_peek(bytes, (uint64_t)1 << 40, &got, &err), SY_E_PROTOCOL);
	assert_int_equal(got, 77);
	sy_store_u64(bytes + 16, 32 << 20);
	assert_int_equal(sy_index_peek(bytes, (uint64_t)1 << 40, &got, &err), SY_OK);
	assert_int_equal(got, 32 << 20);
	/* Blobs of sizes with which sums would overflow, and the largest. */
	sy_store_u64(bytes + 24, UINT64_MAX - 63);
	assert_int_equal(sy_index_peek(bytes, UINT64_MAX - 63, &got, &err), SY_E_PROTOCOL);
	sy_store_u64(bytes + 24, ((uint64_t)1 << 62) + 1);
	assert_int_equal(sy_index_peek(bytes, ((uint64_t)1 << 62) + 1, &got, &err), SY_E_PROTOCOL);
	sy_store_u64(bytes + 24, (uint64_t)1 << 62);
	assert_int_equal(sy_index_peek(bytes, (uint64_t)1 << 62, &got, &err), SY_OK);
	/* No index is longer than the blob it is in. */
	sy_store_u64(bytes + 24, 296);
	sy_store_u64(bytes + 16, 304);
	assert_int_equal(sy_index_peek(bytes, 296, &got, &err), SY_E_PROTOCOL);
	sy_store_u64(bytes + 16, 296);
	assert_int_equal(sy_index_peek(bytes, 296, &got, &err), SY_OK);
	memset(bytes, 0, 64);
	assert_int_equal(sy_index_peek(bytes, blob, &got, &err), SY_E_PROTOCOL);
	free(bytes);
	bytes = xmalloc(32); /* a blob too short for a header is not looked into */
	memset(bytes, 0, 32);
	assert_int_equal(sy_index_peek(bytes, 32, &got, &err), SY_E_PROTOCOL);
	free(bytes);
}

static void test_encode_wants_room_and_a_layout(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	uint8_t *bytes = xmalloc(f->index.index_bytes);
	size_t short_bytes = f->index.index_bytes - 1;
	assert_int_equal(sy_index_encode(&f->index, bytes, short_bytes, &err), SY_E_INVALID);
	f->index.column_count = 3;
	assert_int_equal(sy_index_encode(&f->index, bytes, f->index.index_bytes, &err), SY_E_INVALID);
	f = sample(); /* not laid out */
	assert_int_equal(sy_index_encode(&f->index, bytes, 64, &err), SY_E_INVALID);
	free(bytes);
}

static void test_lengths_at_the_edge_are_taken(void **state)
{
	(void)state;
	const struct {
		sy_dtype dtype;
		sy_kind kind;
		uint32_t rank;
		uint64_t tail[SY_TAIL_MAX], extent, bytes, dim0;
	} cases[] = {
		{SY_DTYPE_NONE, SY_KIND_BYTES, 0, {0}, 0, 0, 0},
		{SY_DTYPE_NONE, SY_KIND_JSON_NULL, 0, {0}, 0, 0, 0},
		{SY_DTYPE_NONE, SY_KIND_JSON, 0, {0}, 5000000000u, 5000000000u, 0},
		{SY_DTYPE_C128, SY_KIND_TENSOR, 0, {0}, 16, 16, 0},
		{SY_DTYPE_F32, SY_KIND_TENSOR, 1, {0}, 0, 0, 0},
		{SY_DTYPE_F32, SY_KIND_TENSOR, 2, {3}, 12000000000u, 12000000000u, 1000000000u},
		{SY_DTYPE_F32, SY_KIND_TENSOR, 8, {1, 2, 1, 2, 1, 2, 1}, 64, 64, 2},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 2, {0}, (uint64_t)1 << 62, 0, (uint64_t)1 << 62},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 3, {0, 4}, (uint64_t)1 << 60, 0, (uint64_t)1 << 60},
		{SY_DTYPE_U8, SY_KIND_TENSOR, 2, {(uint64_t)1 << 62}, 0, 0, 0},
	};
	for (size_t i = 0; i < COUNT_OF(cases); i++) {
		struct fixture *f = sample();
		sy_column *column = &f->columns[0];
		sy_error err = {0};
		f->index.column_count = 1;
		column->dtype = cases[i].dtype;
		column->kind = cases[i].kind;
		column->shape.rank = cases[i].rank;
		memcpy(column->shape.tail, cases[i].tail, sizeof column->shape.tail);
		column->extent = cases[i].extent;
		assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
		uint64_t start = sy_align_up(f->index.index_bytes, 64);
		assert_int_equal(f->index.blob_bytes, start + 3 * sy_align_up(cases[i].bytes, 64));
		uint8_t *bytes = encode(&f->index);
		sy_index got;
		assert_int_equal(decode_back(&f->index, bytes, &got, &err), SY_OK);
		assert_same(&f->index, &got);
		column = &got.columns[0];
		assert_int_equal(sy_column_entry_bytes(column, column->extent), cases[i].bytes);
		assert_int_equal(sy_column_entry_dim0(column, column->extent), cases[i].dim0);
		free(bytes);
	}
}

/* A decoder takes what others may lay out: gaps between columns, and a blob that ends with its
 * last byte or after it. */
static void test_gaps_are_allowed(void **state)
{
	(void)state;
	struct fixture *f = sample();
	sy_error err = {0};
	sy_index got;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	f->columns[1].base += 64;
	f->columns[2].base += 128;
	f->columns[3].base += 192;
	f->index.blob_bytes += 1000;
	uint8_t *bytes = encode(&f->index);
	assert_int_equal(decode_back(&f->index, bytes, &got, &err), SY_OK);
	assert_same(&f->index, &got);
	free(bytes);
	f = sample();
	f->index.column_count = 3;
	assert_int_equal(sy_index_layout(&f->index, &err), SY_OK);
	f->index.blob_bytes = f->columns[2].base + 16;
	bytes = encode(&f->index);
	assert_int_equal(decode_back(&f->index, bytes, &got, &err), SY_OK);
	f->index.blob_bytes--;
	free(bytes);
	bytes = encode(&f->index);
	assert_int_equal(decode_back(&f->index, bytes, &got, &err), SY_E_PROTOCOL);
	free(bytes);
}

/* --- the largest -------------------------------------------------------------------------- */

static void assert_large_round_trip(sy_index *index)
{
	sy_error err = {0};
	err.message[0] = '\0';
	sy_index got;
	if (sy_index_layout(index, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(index->entry_count, ENTRIES);
	assert_true(index->index_bytes <= 32 << 20);
	uint8_t *bytes = encode(index);
	if (decode(bytes, index->index_bytes, index->blob_bytes, &got, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_same(index, &got);
	free(bytes);
}

static void test_one_column_of_all_rows(void **state)
{
	(void)state;
	static uint64_t rows[ENTRIES + 1], extents[ENTRIES + 1];
	static sy_column columns[2];
	for (uint32_t i = 0; i <= ENTRIES; i++) {
		rows[i] = UINT64_MAX - ENTRIES + i;
		extents[i] = 5000000000u;
	}
	columns[0] = (sy_column){.field = "x", .field_bytes = 1, .kind = SY_KIND_BYTES,
	                         .row_count = ENTRIES, .extents = extents};
	sy_index index = {
		.rows = rows + 1, .row_count = ENTRIES, .columns = columns, .column_count = 1};
	assert_large_round_trip(&index);
	index.rows = rows;
	index.row_count = columns[0].row_count = ENTRIES + 1;
	assert_both_refuse(&index, "16385 rows");
}

/* 8,192 pairs of columns of one field, each pair over the same two rows of 16,384 entries; and
 * as many fields of 1,024 bytes as entries, the largest index there is. */
static void test_as_many_columns_as_entries(void **state)
{
	(void)state;
	static char names[ENTRIES + 1][SY_FIELD_MAX_BYTES];
	static sy_column columns[ENTRIES + 1];
	static const uint32_t ordinals[] = {0, 1};
	static const uint64_t rows[] = {3, 4};
	for (uint32_t i = 0; i <= ENTRIES; i++) {
		memset(names[i], 'n', sizeof names[i]);
		for (uint32_t d = 0; d < 5; d++)
			names[i][4 - d] = (char)('a' + (i >> (4 * d)) % 16);
		columns[i] = (sy_column){.field = names[i], .field_bytes = SY_FIELD_MAX_BYTES,
		                         .dtype = SY_DTYPE_U8, .kind = SY_KIND_TENSOR,
		                         .shape = {.rank = 8}, .ordinals = ordinals,
		                         .row_count = 1, .extent = 1};
		for (uint32_t d = 0; d < SY_TAIL_MAX; d++)
			columns[i].shape.tail[d] = 1;
	}
	sy_index index = {.rows = rows, .row_count = 1, .columns = columns, .column_count = ENTRIES};
	assert_large_round_trip(&index);
	index.column_count = ENTRIES + 1;
	sy_error err = {0};
	assert_int_equal(sy_index_layout(&index, &err), SY_E_INVALID);
	index.column_count = ENTRIES;
	index.row_count = 2;
	for (uint32_t i = 0; i < ENTRIES; i++) {
		columns[i].field = names[i / 2];
		columns[i].ordinals = ordinals + i % 2;
	}
	assert_large_round_trip(&index);
	columns[ENTRIES - 1].ordinals = ordinals;
	assert_both_refuse(&index, "twice");
	/* 2 rows a column: twice the entries allowed. */
	for (uint32_t i = 0; i < ENTRIES; i++) {
		columns[i].field = names[i];
		columns[i].ordinals = NULL;
		columns[i].row_count = 2;
	}
	assert_both_refuse(&index, "at most 16384");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_layout_makes_decodes_to_the_same),
		cmocka_unit_test(test_the_form_is_as_written_down),
		cmocka_unit_test(test_any_byte_changed_is_refused_or_keeps_every_promise),
		cmocka_unit_test(test_scribbles_are_refused_or_keep_every_promise),
		cmocka_unit_test(test_every_truncation_is_refused),
		cmocka_unit_test(test_what_is_lent_bounds_decode),
		cmocka_unit_test(test_peek),
		cmocka_unit_test(test_encode_wants_room_and_a_layout),
		cmocka_unit_test(test_lengths_at_the_edge_are_taken),
		cmocka_unit_test(test_gaps_are_allowed),
		cmocka_unit_test(test_one_column_of_all_rows),
		cmocka_unit_test(test_as_many_columns_as_entries),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
