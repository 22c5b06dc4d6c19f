/* Bad calls and hostile sizes: each gets its typed error, nothing is lost, the units serve on. */
#include "harness.h"

#include <slabyard/slabyard.h>
#include <string.h>
#include <sys/mman.h>

#include "cluster.h"

enum { UNITS = 2, SLAB_BYTES = 8 << 20 };

static struct cluster cluster;
static sy_client *client;

static int start(void **state)
{
	sy_error err = {0};
	sy_client_options options = {.run_dir = cluster.run_dir, .timeout_ns = 20000000000u};

	(void)state;
	cluster_start(&cluster, UNITS, SLAB_BYTES, false);
	if (sy_client_open(&options, &client, &err) == SY_OK)
		return 0;
	print_error("%s\n", err.message);
	return -1;
}

static int stop(void **state)
{
	(void)state;
	sy_client_close(client);
	cluster_stop(&cluster);
	return 0;
}

static uint64_t number(const sy_stat *stats, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(stats[i].name, name) == 0)
			return stats[i].value;
	}
	fail_msg("no number %s", name);
	return 0;
}

/* After every test: both units answer, and nothing is left on them. */
static int clean(void **state)
{
	sy_unit_report reports[UNITS];

	(void)state;
	assert_int_equal(sy_client_reports(client, 0, reports, NULL), SY_OK);
	for (int u = 0; u < UNITS; u++) {
		const sy_unit_report *report = &reports[u];

		assert_true(report->answered);
		assert_int_equal(number(report->bytes, report->byte_count, "free"), SLAB_BYTES);
		assert_int_equal(number(report->counts, report->count_count, "entries"), 0);
		assert_int_equal(number(report->counts, report->count_count, "pins"), 0);
		assert_int_equal(number(report->counts, report->count_count, "reservations"), 0);
	}
	return 0;
}

static sy_status put_one(uint64_t row, const char *field, const sy_value *value)
{
	sy_key key = {row, field, strlen(field)};
	sy_error err = {0};

	return sy_client_put(client, &key, value, 1, 0, &err);
}

static void clear_row(uint64_t row)
{
	assert_int_equal(sy_client_clear(client, &row, 1, NULL, 0, 0, NULL, NULL), SY_OK);
}

static void test_key_texts(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
	} BAD[] = {
		{"", 0}, {"17", 2}, {"@a", 2}, {"17@", 3}, {"017@a", 5}, {"00@a", 4}, {"+1@a", 4},
		{"-1@a", 4}, {" 1@a", 4}, {"1 @a", 4}, {"1x@a", 4}, {"18446744073709551616@a", 22},
		{"99999999999999999999@a", 22}, {"1@a\0b", 5}, {"1\0@a", 4}, {"1@\xff", 3},
		{"1@\xc0\x80", 4}, {"1@\xed\xa0\x80", 5}, {"1@\xe2\x82", 4},
	};
	char longest[4 + 4096];
	sy_key key = {.row = 77};
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(BAD); i++) {
		assert_int_equal(sy_key_from_text(BAD[i].text, BAD[i].bytes, &key, &err), SY_E_INVALID);
		assert_int_equal(key.row, 77); /* untouched on failure */
	}
	memset(longest, 'f', sizeof longest);
	memcpy(longest, "9@", 2);
	assert_int_equal(sy_key_from_text(longest, 2 + 4096, &key, &err), SY_E_INVALID);
	assert_int_equal(sy_key_from_text(longest, 2 + 1025, &key, &err), SY_E_INVALID);
	assert_int_equal(sy_key_from_text(longest, 2 + 1024, &key, &err), SY_OK);
	assert_int_equal(key.field_bytes, 1024);
	assert_int_equal(sy_key_from_text("0@a@b@", 6, &key, &err), SY_OK);
	assert_int_equal(key.row, 0);
	assert_int_equal(key.field_bytes, 4);
	assert_memory_equal(key.field, "a@b@", 4);
	assert_int_equal(sy_key_from_text("18446744073709551615@a", 22, &key, &err), SY_OK);
	assert_true(key.row == UINT64_MAX);
}

/* The names that a key's text would not let through do not get in by the other doors either. */
static void test_field_names(void **state)
{
	static char longest[1026];
	const struct {
		const char *text;
		size_t bytes;
	} BAD[] = {{"", 0}, {"a\0b", 3}, {"\xff", 1}, {"\xed\xa0\x80", 3}, {longest, 1025}};
	sy_value value = {.data = "v", .nbytes = 1, .kind = SY_KIND_BYTES};
	uint64_t row = 4;
	sy_result *result = NULL;
	sy_error err = {0};

	(void)state;
	memset(longest, 'n', 1025);
	for (size_t i = 0; i < COUNT_OF(BAD); i++) {
		sy_key key = {row, BAD[i].text, BAD[i].bytes};
		sy_put_column column = {.field = key.field, .field_bytes = key.field_bytes,
		                        .kind = SY_KIND_BYTES, .data = "v", .row_bytes = 1};

		assert_int_equal(sy_client_put(client, &key, &value, 1, 0, &err), SY_E_INVALID);
		assert_int_equal(sy_client_get(client, &key, 1, 0, 0, &result, &err), SY_E_INVALID);
		assert_int_equal(sy_client_put_columns(client, &row, 1, &column, 1, 0, &err),
		                 SY_E_INVALID);
		if (strlen(BAD[i].text) != BAD[i].bytes)
			continue;
		const char *field = BAD[i].text;
		assert_int_equal(sy_client_get_columns(client, &row, 1, &field, 1, 0, 0, &result, &err),
		                 SY_E_INVALID);
		assert_int_equal(sy_client_clear(client, &row, 1, &field, 1, 0, NULL, &err),
		                 SY_E_INVALID);
	}
	assert_null(result);
	longest[1024] = '\0';
	assert_int_equal(put_one(UINT64_MAX, longest, &value), SY_OK);
	sy_key key = {UINT64_MAX, longest, 1024};
	sy_value got;
	assert_int_equal(sy_client_get(client, &key, 1, 0, 0, &result, &err), SY_OK);
	assert_true(sy_result_value(result, 0, &got));
	assert_memory_equal(got.data, "v", 1);
	sy_result_free(result);
	clear_row(UINT64_MAX);
}

/* A shape that holds no element holds no byte: bytes that come with it would be written outside
 * the blob that is laid out for it. */
static void test_bytes_of_an_empty_shape(void **state)
{
	static uint8_t bytes[100000];
	sy_value value = {.data = bytes, .nbytes = 5000, .kind = SY_KIND_TENSOR,
	                  .dtype = SY_DTYPE_F32, .rank = 2, .dims = {7, 0}};
	uint64_t rows[] = {2, 3}, offsets[] = {0, 4000, 8000};
	sy_put_column column = {.field = "e", .field_bytes = 1, .dtype = SY_DTYPE_F32,
	                        .kind = SY_KIND_TENSOR, .shape = {.rank = 2, .tail = {0}},
	                        .data = bytes, .offsets = offsets};
	sy_error err = {0};

	(void)state;
	assert_int_equal(put_one(2, "e", &value), SY_E_INVALID);
	value.nbytes = sizeof bytes;
	assert_int_equal(put_one(2, "e", &value), SY_E_INVALID);
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_E_INVALID);
	column.offsets = NULL;
	column.row_bytes = column.stride_bytes = 4000;
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_E_INVALID);

	/* With no byte it is a value like any other, and its shape comes back. */
	value.nbytes = 0;
	assert_int_equal(put_one(2, "e", &value), SY_OK);
	sy_key key = {2, "e", 1};
	sy_result *result;
	sy_value got;
	assert_int_equal(sy_client_get(client, &key, 1, 0, 0, &result, NULL), SY_OK);
	assert_true(sy_result_value(result, 0, &got));
	assert_int_equal(got.nbytes, 0);
	assert_int_equal(got.rank, 2);
	assert_int_equal(got.dims[0], 7);
	assert_int_equal(got.dims[1], 0);
	sy_result_free(result);
	clear_row(2);
}

static void test_values_that_fit_no_shape(void **state)
{
	const sy_value BAD[] = {
		{.data = NULL, .nbytes = 1, .kind = SY_KIND_BYTES},
		{.data = "abc", .nbytes = 3, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_F32, .rank = 1,
		 .dims = {1}},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_F32, .rank = 1,
		 .dims = {2}},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_NONE},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = (sy_dtype)200},
		{.data = "abcd", .nbytes = 4, .kind = (sy_kind)99},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_BYTES, .dtype = SY_DTYPE_F32},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_UTF8, .rank = 1},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_U8, .rank = 9},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_U8, .rank = 3,
		 .dims = {4, UINT64_MAX, UINT64_MAX}},
		{.data = "abcd", .nbytes = 4, .kind = SY_KIND_TENSOR, .dtype = SY_DTYPE_U8, .rank = 3,
		 .dims = {4, 1ull << 32, 1ull << 32}},
	};
	uint32_t index = 99;
	sy_error err = {.indexes = &index, .index_capacity = 1};
	sy_key keys[] = {{0, "a", 1}, {1, "a", 1}};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(BAD); i++) {
		sy_value values[] = {{.data = "v", .nbytes = 1, .kind = SY_KIND_BYTES}, BAD[i]};

		index = 99;
		if (sy_client_put(client, keys, values, 2, 0, &err) != SY_E_INVALID)
			fail_msg("value %zu was taken", i);
		assert_int_equal(err.index_count, 1); /* the key that is at fault is named */
		assert_int_equal(index, 1);
	}
}

static void test_columns_without_memory(void **state)
{
	uint64_t rows[] = {0, 1}, offsets[] = {8, 16, 24}, backwards[] = {8, 0, 8};
	sy_put_column column = {.field = "c", .field_bytes = 1, .kind = SY_KIND_BYTES,
	                        .row_bytes = 8, .stride_bytes = 8};
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_E_INVALID);
	column.offsets = offsets;
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_E_INVALID);
	column.data = "0123456789abcdef01234567";
	column.offsets = backwards;
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_E_INVALID);
	/* Rows without bytes need no memory. */
	column = (sy_put_column){.field = "c", .field_bytes = 1, .kind = SY_KIND_BYTES,
	                         .stride_bytes = 8};
	assert_int_equal(sy_client_put_columns(client, rows, 2, &column, 1, 0, &err), SY_OK);
	clear_row(0);
	clear_row(1);
}

/* Counts that no memory holds are refused before they are used for anything. */
static void test_counts_beyond_all_memory(void **state)
{
	uint64_t row = 0;
	sy_key key = {0, "a", 1};
	sy_value value = {.data = "v", .nbytes = 1, .kind = SY_KIND_BYTES};
	sy_put_column column = {.field = "a", .field_bytes = 1, .kind = SY_KIND_BYTES};
	const char *field = "a";
	sy_result *result = NULL;
	static const size_t COUNTS[] = {UINT32_MAX, (size_t)1 << 61, SIZE_MAX / 8, SIZE_MAX};
	sy_error err = {0};

	(void)state;
	for (size_t i = 0; i < COUNT_OF(COUNTS); i++) {
		size_t n = COUNTS[i];

		assert_int_equal(sy_client_put(client, &key, &value, n, 0, &err), SY_E_INVALID);
		assert_int_equal(sy_client_get(client, &key, n, 0, 0, &result, &err), SY_E_INVALID);
		assert_int_equal(sy_client_clear(client, &row, n, NULL, 0, 0, NULL, &err), SY_E_INVALID);
		assert_int_equal(sy_client_clear(client, &row, 1, &field, n, 0, NULL, &err),
		                 SY_E_INVALID);
		assert_int_equal(sy_client_put_columns(client, &row, n, &column, 1, 0, &err),
		                 SY_E_INVALID);
		assert_int_equal(sy_client_put_columns(client, &row, 1, &column, n, 0, &err),
		                 SY_E_INVALID);
		assert_int_equal(sy_client_get_columns(client, &row, n, &field, 1, 0, 0, &result, &err),
		                 SY_E_INVALID);
		assert_int_equal(sy_client_get_columns(client, &row, 1, &field, n, 0, 0, &result, &err),
		                 SY_E_INVALID);
	}
	assert_null(result);
}

/* More than 4 GiB: planned and asked for in 64 bits; nothing of it is ever touched. */
static void test_put_of_many_gigabytes(void **state)
{
	const uint64_t bytes = (5ull << 30) + 12345;
	void *data = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	sy_value values[] = {{.data = data, .nbytes = bytes, .kind = SY_KIND_BYTES},
	                     {.data = "small", .nbytes = 5, .kind = SY_KIND_BYTES}};
	sy_key keys[] = {{0, "large", 5}, {1, "small", 5}};
	uint32_t indexes[2] = {9, 9};
	sy_error err = {.indexes = indexes, .index_capacity = 2};

	(void)state;
	assert_ptr_not_equal(data, MAP_FAILED);
	assert_int_equal(sy_client_put(client, keys, values, 2, 0, &err), SY_E_UNIT_FULL);
	assert_true(err.need > bytes && err.need < bytes + 1024);
	assert_int_equal(err.free, SLAB_BYTES);
	assert_int_equal(err.largest_hole, SLAB_BYTES);
	assert_int_equal(err.index_count, 1); /* the other unit's blob was published */
	assert_int_equal(indexes[0], 0);
	for (int i = 0; i < 2; i++) {
		values[0].nbytes = i == 0 ? UINT64_MAX : 1ull << 63;
		assert_int_not_equal(sy_client_put(client, keys, values, 1, 0, &err), SY_OK);
	}
	munmap(data, bytes);
	clear_row(1);
}

/* A slab of which half is free, in holes that are all too small: the numbers say so. */
static void test_fragments(void **state)
{
	enum { PIECE = 60000 };
	static uint8_t bytes[3 * PIECE];
	uint64_t rows[1000];
	size_t count = 0, kept = 0;
	sy_value value = {.data = bytes, .nbytes = PIECE, .kind = SY_KIND_BYTES};
	sy_error err = {0};
	sy_key key = {0, "p", 1};

	(void)state;
	for (; count < 1000 && put_one(2 * count, "p", &value) == SY_OK; count++)
		rows[count] = 2 * count;
	assert_true(count > 50 && count < 1000);
	for (size_t i = 0; i < count; i += 2)
		clear_row(rows[i]);
	value.nbytes = sizeof bytes;
	key.row = 2 * count + 2;
	assert_int_equal(sy_client_put(client, &key, &value, 1, 0, &err), SY_E_UNIT_FULL);
	assert_string_equal(err.reason, "bytes");
	assert_true(err.need > sizeof bytes);
	assert_true(err.free > err.need);
	assert_true(err.largest_hole < err.need && err.largest_hole >= PIECE);
	value.nbytes = PIECE;
	assert_int_equal(put_one(0, "p", &value), SY_OK); /* what fits a hole still goes in */
	for (size_t i = 0; i < count; i++)
		rows[kept++] = 2 * i;
	assert_int_equal(sy_client_clear(client, rows, kept, NULL, 0, 0, NULL, NULL), SY_OK);
}

static void make_names(char (*names)[24], const char **fields, sy_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		snprintf(names[i], sizeof names[i], "f%zu", i);
		fields[i] = names[i];
		keys[i] = (sy_key){6, names[i], strlen(names[i])};
	}
}

/* A row has at most so many fields in one put, and a get at most so many keys of one row. */
static void test_fields_of_one_row(void **state)
{
	enum { LIMIT = 16384, MANY = 17000, KEPT = 4000 };
	static char names[MANY][24];
	static const char *fields[MANY];
	static sy_key keys[MANY];
	static sy_value values[MANY];
	sy_result *result = NULL;
	uint64_t row = 6, entries;
	sy_got_column column;
	sy_value got;
	sy_error err = {0};

	(void)state;
	make_names(names, fields, keys, MANY);
	for (size_t i = 0; i < MANY; i++)
		values[i] = (sy_value){.data = &names[i][i % 2], .nbytes = 2, .kind = SY_KIND_BYTES};
	assert_int_equal(sy_client_put(client, keys, values, MANY, 0, &err), SY_E_INVALID);
	assert_int_equal(sy_client_put(client, keys, values, LIMIT + 1, 0, &err), SY_E_INVALID);
	/* So many may be put, but the unit keeps no more than so many names. */
	assert_int_equal(sy_client_put(client, keys, values, LIMIT, 0, &err), SY_E_UNIT_FULL);
	assert_string_equal(err.reason, "fields");
	assert_true(err.need > err.free && err.free >= KEPT);
	if (sy_client_put(client, keys, values, KEPT, 0, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(sy_client_get(client, keys, MANY, 0, 0, &result, &err), SY_E_INVALID);
	assert_int_equal(sy_client_get_columns(client, &row, 1, fields, MANY, 0, 0, &result, &err),
	                 SY_E_INVALID);
	assert_null(result);
	assert_int_equal(sy_client_get(client, keys, LIMIT, 0, 0, &result, &err), SY_OK);
	for (size_t i = 0; i < LIMIT; i += 101) {
		assert_int_equal(sy_result_value(result, i, &got), i < KEPT);
		if (i < KEPT)
			assert_memory_equal(got.data, &names[i][i % 2], 2);
	}
	sy_result_free(result);
	assert_int_equal(sy_client_get_columns(client, &row, 1, fields, LIMIT, 0, 0, &result, &err),
	                 SY_OK);
	assert_true(sy_result_column(result, KEPT - 1, &column));
	assert_memory_equal(column.data, &names[KEPT - 1][1], 2);
	assert_true(sy_result_column(result, LIMIT - 1, &column));
	assert_int_equal(column.found_count, 0);
	sy_result_free(result);
	assert_int_equal(sy_client_clear(client, &row, 1, fields, LIMIT, 0, &entries, &err), SY_OK);
	assert_int_equal(entries, KEPT);
	assert_int_equal(sy_client_clear(client, &row, 1, fields, LIMIT + 1, 0, &entries, &err),
	                 SY_E_INVALID);
}

/* A key asked for again and again is one key to the unit, and answered each time. */
static void test_one_key_many_times(void **state)
{
	enum { MANY = 40000 };
	sy_key *keys = malloc(MANY * sizeof *keys);
	uint64_t *rows = malloc(MANY * sizeof *rows);
	const char *fields[] = {"d", "none", "d"};
	sy_value value = {.data = "again", .nbytes = 5, .kind = SY_KIND_BYTES}, got;
	sy_result *result;
	sy_got_column columns[3];
	sy_error err = {0};

	(void)state;
	assert_int_equal(put_one(8, "d", &value), SY_OK);
	for (size_t i = 0; i < MANY; i++) {
		keys[i] = (sy_key){8, i % 3 == 1 ? "none" : "d", i % 3 == 1 ? 4 : 1};
		rows[i] = i % 1000 == 7 ? 9 : 8;
	}
	for (int flags = SY_GET_COPY; flags <= SY_GET_VIEW; flags++) {
		if (sy_client_get(client, keys, MANY, flags, 0, &result, &err) != SY_OK)
			fail_msg("%s", err.message);
		assert_int_equal(sy_result_count(result), MANY);
		for (size_t i = 0; i < MANY; i++) {
			assert_int_equal(sy_result_value(result, i, &got), i % 3 != 1);
			assert_true(i % 3 == 1 || (got.nbytes == 5 && memcmp(got.data, "again", 5) == 0));
		}
		sy_result_free(result);
	}
	if (sy_client_get_columns(client, rows, MANY, fields, 3, 0, 0, &result, &err) != SY_OK)
		fail_msg("%s", err.message);
	for (size_t c = 0; c < 3; c++)
		assert_true(sy_result_column(result, c, &columns[c]));
	assert_int_equal(columns[0].found_count, MANY - MANY / 1000);
	assert_int_equal(columns[1].found_count, 0);
	assert_int_equal(columns[2].found_count, MANY - MANY / 1000);
	assert_memory_equal((const char *)columns[2].data + columns[2].offsets[MANY - 1], "again", 5);
	assert_false(columns[0].found[7]);
	sy_result_free(result);
	clear_row(8);
	free(keys);
	free(rows);
}

/* An index of the caller's rows is named once, however many columns and doubles it has. */
static void test_indexes_come_once(void **state)
{
	uint64_t rows[] = {5, 5, 4, 5, 4};
	const char *fields[] = {"a", "b", "c"};
	uint32_t indexes[32];
	bool seen[5] = {false};
	sy_result *result = NULL;
	sy_error err = {.indexes = indexes, .index_capacity = 32};

	(void)state;
	assert_int_equal(sy_client_get_columns(client, rows, 5, fields, 3, 0, 1, &result, &err),
	                 SY_E_TIMEOUT);
	assert_int_equal(err.index_count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_true(indexes[i] < 5);
		assert_false(seen[indexes[i]]);
		seen[indexes[i]] = true;
	}
	assert_null(result);
}

static void test_options(void **state)
{
	sy_client_options forever = {.run_dir = cluster.run_dir, .timeout_ns = UINT64_MAX,
	                             .control_timeout_ns = UINT64_MAX};
	sy_client_options nowhere = {.run_dir = "/nowhere/at/all"};
	sy_client_options both = {.run_dir = cluster.run_dir, .directory = cluster.directory};
	sy_client_options neither = {0};
	sy_client_options other = {.directory = "udp://127.0.0.1:1"};
	sy_client_options name = {.run_dir = cluster.run_dir, .name_space = ""};
	sy_client *mine = NULL;
	uint64_t row = 3;
	sy_error err = {0};

	(void)state;
	assert_int_equal(sy_client_open(&nowhere, &mine, &err), SY_E_SYS);
	assert_int_equal(sy_client_open(&both, &mine, &err), SY_E_INVALID);
	assert_int_equal(sy_client_open(&neither, &mine, &err), SY_E_INVALID);
	assert_int_equal(sy_client_open(&other, &mine, &err), SY_E_INVALID);
	assert_int_equal(sy_client_open(&name, &mine, &err), SY_E_INVALID);
	assert_null(mine);
	/* As long as it takes: no deadline wraps around. */
	if (sy_client_open(&forever, &mine, &err) != SY_OK)
		fail_msg("%s", err.message);
	assert_int_equal(sy_client_clear(mine, &row, 1, NULL, 0, 0, NULL, &err), SY_OK);
	assert_int_equal(sy_client_clear(mine, &row, 1, NULL, 0, UINT64_MAX, NULL, &err), SY_OK);
	sy_client_close(mine);
}

int main(int argc, char **argv)
{
	cluster_main(argc, argv);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_key_texts, clean),
		cmocka_unit_test_teardown(test_field_names, clean),
		cmocka_unit_test_teardown(test_bytes_of_an_empty_shape, clean),
		cmocka_unit_test_teardown(test_values_that_fit_no_shape, clean),
		cmocka_unit_test_teardown(test_columns_without_memory, clean),
		cmocka_unit_test_teardown(test_counts_beyond_all_memory, clean),
		cmocka_unit_test_teardown(test_put_of_many_gigabytes, clean),
		cmocka_unit_test_teardown(test_fragments, clean),
		cmocka_unit_test_teardown(test_fields_of_one_row, clean),
		cmocka_unit_test_teardown(test_one_key_many_times, clean),
		cmocka_unit_test_teardown(test_indexes_come_once, clean),
		cmocka_unit_test_teardown(test_options, clean),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
