/* Keys and rows against the naive model of core_world.h, and what the model does not reach. */
#include "core_world.h"

static void walk(uint64_t seed, uint32_t max_entries, uint32_t buckets, int steps)
{
	static struct world world;
	struct sy_core_params params = tables_params(max_entries, 256 * 1024);
	params.max_fields = 5; /* one field fewer than there are, so that fields run out */
	params.max_shapes = 3;
	world_open(&world, &params, seed);
	if (buckets != 0)
		world.core->tables.entry_bucket_count = buckets;
	for (int i = 0; i < steps; i++) {
		world_step(&world);
		if (sy_prng_chance(&world.prng, 2) || i + 1 == steps) {
			world_check(&world);
			tables_check(world.core);
		}
		if (i % 1000 == 999)
			world.core = tables_move(world.core);
	}
	world_close(&world);
}

static void test_random(void **state)
{
	(void)state;
	uint64_t seed = harness_seed();
	walk(seed, 1000, 0, 20000);
	walk(seed + 1, 60, 0, 10000); /* entries run out */
	walk(seed + 2, 4000, 0, 10000);
}

/* An adversary's best: every key and every row in one bucket, or in two. */
static void test_one_bucket(void **state)
{
	(void)state;
	uint64_t seed = harness_seed();
	walk(seed, 300, 1, 6000);
	walk(seed + 1, 300, 2, 6000);
}

static uint32_t find(struct sy_core *core, uint64_t row, const char *field)
{
	uint32_t index = sy_name_find(core, &core->tables.fields, span_of(field));
	return index == 0 ? 0 : sy_entry_find(core, 1, row, index);
}

static struct sy_core *open_one(const struct sy_core_params *params)
{
	struct sy_core *core = tables_open(params);
	struct sy_session *session = sy_pool_at(core, &core->volatiles.sessions,
	                                        sy_pool_take(core, &core->volatiles.sessions));
	session->state = SY_SESSION_LIVE;
	session->ns = (uint16_t)sy_name_take(core, &core->tables.namespaces, span_of("one"));
	assert_int_equal(session->ns, 1);
	return core;
}

/* The order of commits, one case a line of the picture in entry.h. */
static void test_order(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(64, 65536);
	struct sy_core *core = open_one(&params);
	struct draft draft;
	const uint64_t row = 7;
	draft_grid(&draft, &row, 1, 1, 10);
	draft_finish(&draft);
	uint32_t first = draft_commit(core, &draft, 1, 1, false, NULL);
	uint32_t early = draft_commit(core, &draft, 1, 2, true, NULL);
	uint32_t late = draft_commit(core, &draft, 1, 3, true, NULL);
	assert_int_equal(sy_entry_at(core, find(core, row, "a"))->blob, first);
	tables_check(core);
	/* The later one is written first: the earlier pending one is overwritten already. */
	sy_blob_move(core, late, SY_BLOB_ON_SSD);
	sy_entry_show_all(core, late, 1);
	assert_int_equal(sy_entry_at(core, find(core, row, "a"))->blob, late);
	assert_int_equal(sy_blob_at(core, early)->live_count, 0);
	assert_int_equal(sy_blob_at(core, early)->state, SY_BLOB_COMMITTING);
	assert_int_equal(sy_blob_at(core, first)->state, SY_BLOB_FREE);
	tables_check(core);
	sy_blob_move(core, early, SY_BLOB_FREE);
	/* The earlier one is written first: the later one stays pending and overwrites it then. */
	early = draft_commit(core, &draft, 1, 4, true, NULL);
	uint32_t later = draft_commit(core, &draft, 1, 5, true, NULL);
	sy_blob_move(core, early, SY_BLOB_ON_SSD);
	sy_entry_show_all(core, early, 1);
	assert_int_equal(sy_entry_at(core, find(core, row, "a"))->blob, early);
	assert_int_equal(sy_blob_at(core, late)->state, SY_BLOB_FREE);
	assert_int_equal(sy_blob_at(core, later)->live_count, 1);
	tables_check(core);
	/* Its write fails: what it would have replaced stays. */
	sy_blob_move(core, later, SY_BLOB_FREE);
	assert_int_equal(sy_entry_at(core, find(core, row, "a"))->blob, early);
	/* A commit published at once kills what is pending. */
	later = draft_commit(core, &draft, 1, 6, true, NULL);
	uint64_t overwritten = 99;
	uint32_t now = draft_commit(core, &draft, 1, 7, false, &overwritten);
	assert_int_equal(overwritten, 1);
	assert_int_equal(sy_blob_at(core, later)->live_count, 0);
	assert_int_equal(sy_entry_at(core, find(core, row, "a"))->blob, now);
	assert_int_equal(core->tables.row_count, 1);
	tables_check(core);
	tables_close(core);
}

/* The next of its blob, if it is what is asked for and is to be seen. */
static void test_find_after(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(64, 65536);
	struct sy_core *core = open_one(&params);
	struct draft draft;
	const uint64_t rows[] = {3, 5, 8};
	draft_grid(&draft, rows, 3, 1, 10);
	draft_finish(&draft);
	uint32_t first = draft_commit(core, &draft, 1, 1, false, NULL);
	uint32_t field = sy_name_find(core, &core->tables.fields, span_of("a"));
	uint32_t three = sy_entry_find(core, 1, 3, field), five = sy_entry_find(core, 1, 5, field);
	uint32_t eight = sy_entry_find(core, 1, 8, field);
	assert_int_equal(sy_entry_find_after(core, 1, three, 5, field), five);
	assert_int_equal(sy_entry_find_after(core, 1, five, 8, field), eight);
	assert_int_equal(sy_entry_find_after(core, 1, three, 8, field), 0);
	assert_int_equal(sy_entry_find_after(core, 1, five, 3, field), 0);
	assert_int_equal(sy_entry_find_after(core, 1, eight, 3, field), 0);
	assert_int_equal(sy_entry_find_after(core, 1, three, 5, field + 1), 0);
	assert_int_equal(sy_entry_find_after(core, 1, three, 5, 0), 0);
	assert_int_equal(sy_entry_find_after(core, 2, three, 5, field), 0);
	/* The old entry of a row that was put anew stays in its blob, and is not found there. */
	draft_grid(&draft, &rows[1], 1, 1, 10);
	draft_finish(&draft);
	draft_commit(core, &draft, 1, 2, false, NULL);
	assert_int_equal(sy_blob_at(core, first)->live_count, 2);
	assert_int_equal(sy_entry_find_after(core, 1, three, 5, field), 0);
	assert_int_not_equal(sy_entry_find(core, 1, 5, field), 0);
	/* Nor one that is not to be seen yet. */
	draft_grid(&draft, rows, 3, 1, 10);
	draft_finish(&draft);
	uint32_t pending = draft_commit(core, &draft, 1, 3, true, NULL);
	uint32_t head = sy_blob_at(core, pending)->entry_head;
	assert_int_equal(sy_entry_find_after(core, 1, head, 5, field), 0);
	sy_blob_move(core, pending, SY_BLOB_FREE);
	tables_close(core);
}

/* A row with more fields than any bucket is long, among rows that share its bucket. */
static void test_wide_rows(void **state)
{
	(void)state;
	enum { ROWS = 8, FIELDS = 16 };
	struct sy_core_params params = tables_params(ROWS * FIELDS, 1 << 20);
	struct sy_core *core = open_one(&params);
	struct draft draft;
	core->tables.entry_bucket_count = 1;
	for (uint64_t field = 0; field < FIELDS; field++) {
		uint64_t rows[ROWS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
		draft_grid(&draft, rows, ROWS, 1u << field, 1);
		draft_finish(&draft);
		assert_int_not_equal(draft_commit(core, &draft, 1, field + 1, false, NULL), 0);
		assert_int_equal(core->tables.row_count, ROWS);
	}
	tables_check(core);
	for (uint64_t row = 0; row < ROWS; row++) {
		uint32_t next, count = 0;
		for (uint32_t i = sy_entry_row_first(core, 1, row); i != 0; i = next, count++) {
			next = sy_entry_row_next(core, i);
			sy_entry_kill(core, i, 1);
		}
		assert_int_equal(count, FIELDS);
		assert_int_equal(core->tables.row_count, ROWS - 1 - row);
	}
	assert_int_equal(core->tables.blobs.used, 0);
	assert_int_equal(sy_region_free_bytes(core, SY_SPACE_SLAB), params.slab_bytes);
	tables_check(core);
	tables_close(core);
}

/* Each table that can run out says so, with what was needed and what is left. */
static void test_room(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(10, 1 << 20);
	params.max_fields = 2;
	params.max_shapes = 2;
	struct sy_core *core = open_one(&params);
	struct draft draft;
	uint64_t need = 1, left = 1;
	const uint64_t rows[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
	draft_grid(&draft, rows, 11, 1, 1);
	draft_finish(&draft);
	assert_int_equal(sy_entry_room(core, &draft.index, &need, &left), SY_RESOURCE_ENTRIES);
	assert_int_equal(need, 11);
	assert_int_equal(left, 10);
	draft_grid(&draft, rows, 2, 7, 1);
	draft_finish(&draft);
	assert_int_equal(sy_entry_room(core, &draft.index, &need, &left), SY_RESOURCE_FIELDS);
	assert_int_equal(need, 3);
	assert_int_equal(left, 2);
	/* One field in several columns counts once; so does a shape, wherever it stands. */
	draft_grid(&draft, rows, 1, 15, 4);
	for (uint32_t c = 0; c < 4; c++) {
		draft.columns[c].field = c < 2 ? "a" : "b";
		draft.columns[c].kind = SY_KIND_TENSOR;
		draft.columns[c].dtype = SY_DTYPE_F32;
		draft.columns[c].shape = (sy_shape){ .rank = 2, .tail = { 1 + c % 2 } };
	}
	draft_finish(&draft);
	need = left = 77;
	assert_int_equal(sy_entry_room(core, &draft.index, &need, &left), SY_RESOURCE_NONE);
	assert_int_equal(need, 77);
	assert_int_equal(left, 77);
	draft.columns[3].shape.tail[0] = 3;
	assert_int_equal(sy_entry_room(core, &draft.index, &need, &left), SY_RESOURCE_SHAPES);
	assert_int_equal(need, 3);
	assert_int_equal(left, 2);
	/* A question changes nothing. */
	assert_int_equal(core->tables.shapes.pool.used, 0);
	assert_int_equal(core->tables.fields.pool.used, 0);
	tables_check(core);
	tables_close(core);
}

/* What an entry says of its size: scalars, empty units, dims, other kinds. */
static void test_sizes(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(64, 1 << 20);
	struct sy_core *core = open_one(&params);
	const struct {
		sy_kind kind;
		sy_dtype dtype;
		sy_shape shape;
		uint64_t extent, bytes, dim0;
	} cases[] = {
		{ SY_KIND_BYTES, SY_DTYPE_NONE, { 0 }, 0, 0, 0 },
		{ SY_KIND_UTF8, SY_DTYPE_NONE, { 0 }, 65, 65, 0 },
		{ SY_KIND_TENSOR, SY_DTYPE_F64, { 0 }, 8, 8, 0 },
		{ SY_KIND_TENSOR, SY_DTYPE_F32, { .rank = 1 }, 40, 40, 10 },
		{ SY_KIND_TENSOR, SY_DTYPE_BF16, { .rank = 3, .tail = { 3, 5 } }, 60, 60, 2 },
		{ SY_KIND_TENSOR, SY_DTYPE_I64, { .rank = 3, .tail = { 0, 5 } }, 12, 0, 12 },
		{ SY_KIND_TENSOR, SY_DTYPE_I64, { .rank = 2, .tail = { 0 } }, 0, 0, 0 },
		{ SY_KIND_TENSOR, SY_DTYPE_U8, { .rank = 1 }, 0, 0, 0 },
	};
	for (uint64_t i = 0; i < COUNT_OF(cases); i++) {
		struct draft draft;
		draft_grid(&draft, &i, 1, 1, cases[i].extent);
		draft.columns[0].kind = cases[i].kind;
		draft.columns[0].dtype = cases[i].dtype;
		draft.columns[0].shape = cases[i].shape;
		draft_finish(&draft);
		assert_int_not_equal(draft_commit(core, &draft, 1, i + 1, false, NULL), 0);
		const struct sy_entry *entry = sy_entry_at(core, find(core, i, "a"));
		assert_int_equal(sy_entry_bytes(core, entry), cases[i].bytes);
		assert_int_equal(sy_entry_dim0(core, entry), cases[i].dim0);
		assert_int_equal(entry->dtype, cases[i].dtype);
		assert_int_equal(entry->kind, cases[i].kind);
	}
	tables_check(core);
	tables_close(core);
}

/* Ten million entries: the arithmetic holds, memory comes only with use, and the last of a blob
 * of the largest size is addressed right. */
static void test_ten_million(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(10 * 1000 * 1000, (uint64_t)1 << 40);
	uint64_t bytes = sy_core_arena_bytes(&params);
	assert_true(bytes > (uint64_t)10 * 1000 * 1000 * 64);
	struct sy_core *core = open_one(&params);
	struct draft draft;
	const uint64_t row = 3;
	draft_grid(&draft, &row, 1, 3, SY_BLOB_MAX_BYTES - 256);
	draft.extents[1][0] = 60;
	draft.columns[1].extents = draft.extents[1];
	draft_finish(&draft);
	assert_int_equal(draft.index.blob_bytes, SY_BLOB_MAX_BYTES - 64);
	for (uint64_t i = 0; i < 3; i++)
		assert_int_not_equal(draft_commit(core, &draft, 1, i + 1, false, NULL), 0);
	const struct sy_entry *last = sy_entry_at(core, find(core, row, "b"));
	assert_int_equal((uint64_t)last->offset64 * 64, SY_BLOB_MAX_BYTES - 128);
	assert_int_equal(core->tables.entries.used - core->tables.reap_count, 2);
	assert_int_equal(core->tables.reap_count, 4);
	assert_int_equal(core->tables.entries.touched, 6);
	tables_close(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),    cmocka_unit_test(test_one_bucket),
		cmocka_unit_test(test_order),     cmocka_unit_test(test_wide_rows),
		cmocka_unit_test(test_find_after), cmocka_unit_test(test_room),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_ten_million),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
