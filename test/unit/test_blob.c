/* Blobs: every move and no other, the accounts of each state, settling, ids, and what runs out. */
#include "core_tables.h"

#include "guard.h"
#include "states.h"

static struct sy_core *open_one(uint32_t max_entries, uint64_t slab_bytes)
{
	struct sy_core_params params = tables_params(max_entries, slab_bytes);
	struct sy_core *core = tables_open(&params);
	for (uint32_t i = 0; i < 2; i++) {
		struct sy_session *session = sy_pool_at(core, &core->volatiles.sessions,
		                                        sy_pool_take(core, &core->volatiles.sessions));
		session->state = SY_SESSION_LIVE;
		session->ns = (uint16_t)sy_name_take(core, &core->tables.namespaces,
		                                     span_of(i == 0 ? "one" : "two"));
	}
	return core;
}

static sy_blob_id id_of(uint64_t number)
{
	sy_blob_id id = {{0}};
	memcpy(id.bytes, &number, sizeof number);
	return id;
}

static uint32_t commit_one(struct sy_core *core, uint64_t id, uint64_t row, bool pending)
{
	struct draft draft;
	draft_grid(&draft, &row, 1, 1, 10);
	draft_finish(&draft);
	return draft_commit(core, &draft, 1, id, pending, NULL);
}

static jmp_buf trapped;

static void trap_hook(const char *file, int line, const char *expression)
{
	(void)file;
	(void)line;
	(void)expression;
	longjmp(trapped, 1);
}

/* True if the move fails its assertion, before it changed anything. */
static bool move_refused(struct sy_core *core, uint32_t blob, enum sy_blob_state to)
{
	volatile bool refused = true;
	sy_assert_hook = trap_hook;
	if (setjmp(trapped) == 0) {
		sy_blob_move(core, blob, to);
		refused = false;
	}
	sy_assert_hook = NULL;
	return refused;
}

/* The arrows as they are drawn in the design, written out once more by hand. */
static void test_arrows(void **state)
{
	(void)state;
	static const char *const drawn[SY_BLOB_STATE_COUNT] = {
		[SY_BLOB_FREE] = "19", [SY_BLOB_ALLOCATED] = "0237", [SY_BLOB_COMMITTING] = "05",
		[SY_BLOB_PUBLISHED] = "46", [SY_BLOB_DEMOTING] = "356", [SY_BLOB_ON_SSD] = "36",
		[SY_BLOB_RELEASED] = "08", [SY_BLOB_RETIRED] = "0", [SY_BLOB_QUARANTINED] = "0",
		[SY_BLOB_LOADING] = "6",
	};
	for (uint8_t from = 0; from < SY_BLOB_STATE_COUNT; from++) {
		for (uint8_t to = 0; to < SY_BLOB_STATE_COUNT; to++) {
			bool arrow = strchr(drawn[from], '0' + to) != NULL;
			assert_int_equal(sy_blob_arrow_exists(from, to), arrow);
			bool disk = arrow && (from == SY_BLOB_COMMITTING || from == SY_BLOB_DEMOTING
				|| from == SY_BLOB_ON_SSD || to == SY_BLOB_COMMITTING
				|| to == SY_BLOB_DEMOTING || to == SY_BLOB_ON_SSD
				|| from == SY_BLOB_LOADING || to == SY_BLOB_LOADING);
			assert_int_equal(sy_blob_arrow_needs_disk(from, to), disk);
		}
	}
	assert_false(sy_blob_arrow_exists(SY_BLOB_STATE_COUNT, 0));
	assert_false(sy_blob_arrow_exists(0, 255));
	assert_string_equal(sy_blob_state_name(SY_BLOB_ON_SSD), "on-ssd");
	assert_string_equal(sy_blob_state_name(SY_BLOB_STATE_COUNT), "unknown");
	assert_true(sy_blob_state_has_region(SY_BLOB_RETIRED));
	assert_false(sy_blob_state_has_region(SY_BLOB_ON_SSD));
	assert_false(sy_blob_state_has_region(200));
}

/* From a state that a blob stands in, every move that has no arrow fails. */
static void test_moves_refused(void **state)
{
	(void)state;
#ifdef SY_NO_ASSERT
	print_message("skip: assertions are off here\n");
	skip();
#endif
	struct sy_core *core = open_one(16, 4096);
	enum sy_resource lack;
	uint32_t blob = sy_blob_alloc(core, 1, id_of(1), SY_SPACE_SLAB, 100, 1, &lack);
	const enum sy_blob_state path[] = { SY_BLOB_ALLOCATED, SY_BLOB_RETIRED };
	for (size_t i = 0; i < COUNT_OF(path); i++) {
		if (i > 0)
			sy_blob_move(core, blob, path[i]);
		for (uint8_t to = 0; to < SY_BLOB_STATE_COUNT; to++) {
			if (!sy_blob_arrow_exists((uint8_t)path[i], to))
				assert_true(move_refused(core, blob, (enum sy_blob_state)to));
		}
		assert_int_equal(sy_blob_at(core, blob)->state, path[i]);
		tables_check(core);
	}
	sy_blob_move(core, blob, SY_BLOB_FREE);
	tables_check(core);
	tables_close(core);
}

static void check_bytes(struct sy_core *core, enum sy_blob_state state, uint64_t nbytes)
{
	tables_check(core);
	for (uint32_t i = 1; i < SY_BLOB_STATE_COUNT; i++)
		assert_int_equal(core->tables.bytes[i], i == state ? nbytes : 0);
	bool in_slab = sy_blob_state_has_region((uint8_t)state);
	uint64_t taken = in_slab ? sy_align_up(nbytes, 64) : 0;
	assert_int_equal(core->tables.rounding_bytes, in_slab ? taken - nbytes : 0);
	assert_int_equal(sy_region_free_bytes(core, SY_SPACE_SLAB), core->params.slab_bytes - taken);
}

/* One blob on every path there is; its bytes stand in the account of its state alone. */
static void test_accounts(void **state)
{
	(void)state;
	struct sy_core *core = open_one(16, 4096);
	enum sy_resource lack;
	uint32_t blob = sy_blob_alloc(core, 1, id_of(1), SY_SPACE_SLAB, 100, 1, &lack);
	check_bytes(core, SY_BLOB_ALLOCATED, 100);
	sy_blob_move(core, blob, SY_BLOB_RETIRED);
	check_bytes(core, SY_BLOB_RETIRED, 100);
	sy_blob_move(core, blob, SY_BLOB_FREE);
	check_bytes(core, SY_BLOB_FREE, 0);

	blob = commit_one(core, 2, 5, true);
	const uint64_t nbytes = sy_blob_at(core, blob)->nbytes;
	assert_true(nbytes % 64 == 0);
	check_bytes(core, SY_BLOB_COMMITTING, nbytes);
	sy_blob_move(core, blob, SY_BLOB_ON_SSD);
	sy_entry_show_all(core, blob, 1);
	assert_int_equal(sy_blob_at(core, blob)->region, 0);
	check_bytes(core, SY_BLOB_ON_SSD, nbytes);
	sy_entry_kill(core, sy_entry_row_first(core, 1, 5), 1); /* on disk only: goes at once */
	check_bytes(core, SY_BLOB_FREE, 0);

	/* The same while a reader still has what it loaded: released, and none of the slab. */
	blob = commit_one(core, 4, 5, true);
	sy_blob_move(core, blob, SY_BLOB_ON_SSD);
	sy_entry_show_all(core, blob, 1);
	sy_blob_at(core, blob)->pin_count = 1;
	sy_entry_kill(core, sy_entry_row_first(core, 1, 5), 1);
	assert_int_equal(sy_blob_at(core, blob)->state, SY_BLOB_RELEASED);
	check_bytes(core, SY_BLOB_FREE, 0);
	sy_core_rebuild(core, true);
	check_bytes(core, SY_BLOB_FREE, 0);
	sy_blob_at(core, blob)->pin_count = 0;
	sy_blob_settle(core, blob, 1);
	check_bytes(core, SY_BLOB_FREE, 0);

	blob = commit_one(core, 3, 5, false);
	check_bytes(core, SY_BLOB_PUBLISHED, nbytes);
	assert_true(sy_blob_open_run(core, blob));
	sy_blob_move(core, blob, SY_BLOB_DEMOTING);
	check_bytes(core, SY_BLOB_DEMOTING, nbytes);
	sy_blob_close_run(core, blob);
	sy_blob_move(core, blob, SY_BLOB_PUBLISHED);
	sy_blob_at(core, blob)->pin_count = 1;
	sy_entry_kill(core, sy_entry_row_first(core, 1, 5), 1);
	check_bytes(core, SY_BLOB_RELEASED, nbytes);
	sy_blob_settle(core, blob, 1);
	check_bytes(core, SY_BLOB_RELEASED, nbytes);
	sy_blob_at(core, blob)->pin_count = 0;
	sy_blob_at(core, blob)->quarantine_until_ns = 50;
	sy_blob_settle(core, blob, 49);
	check_bytes(core, SY_BLOB_QUARANTINED, nbytes);
	assert_int_equal(core->volatiles.quarantined_blobs.head, blob);
	sy_chain_remove(core, &core->tables.blobs, offsetof(struct sy_blob, timer_link),
	                &core->volatiles.quarantined_blobs, blob);
	sy_blob_move(core, blob, SY_BLOB_FREE);
	check_bytes(core, SY_BLOB_FREE, 0);
	assert_int_equal(core->tables.entries.used, core->tables.reap_count);
	sy_entry_reap(core, UINT32_MAX);
	assert_int_equal(core->tables.blobs.used + core->tables.entries.used, 0);
	assert_int_equal(core->tables.fields.pool.used, 0);
	tables_close(core);
}

/* A blob whose pin expired too long ago is free at once; those in quarantine stay sorted though
 * they come with earlier times. */
static void test_quarantine(void **state)
{
	(void)state;
	struct sy_core *core = open_one(16, 4096);
	const uint64_t untils[] = { 70, 100, 60, 80, 120, 51, 50 };
	uint64_t last_ns = 0;
	for (uint64_t i = 0; i < COUNT_OF(untils); i++) {
		uint32_t blob = commit_one(core, i + 1, i, false);
		sy_blob_at(core, blob)->quarantine_until_ns = untils[i];
		sy_entry_kill(core, sy_entry_row_first(core, 1, i), 50);
		tables_check(core);
		if (untils[i] == 50) {
			assert_int_equal(sy_blob_at(core, blob)->state, SY_BLOB_FREE);
			continue;
		}
		assert_int_equal(core->volatiles.quarantined_blobs.tail, blob);
		assert_true(sy_blob_at(core, blob)->timer_ns >= untils[i]);
		assert_true(sy_blob_at(core, blob)->timer_ns >= last_ns);
		assert_true(sy_blob_at(core, blob)->timer_ns <= 120);
		last_ns = sy_blob_at(core, blob)->timer_ns;
	}
	assert_int_equal(core->volatiles.quarantined_blobs.count, COUNT_OF(untils) - 1);
	tables_close(core);
}

/* Ids: one a namespace; what is gone is not found and does not stand in the way. */
static void test_ids(void **state)
{
	(void)state;
	struct sy_core *core = open_one(16, 4096);
	enum sy_resource lack;
	core->tables.id_bucket_count = 1;
	uint32_t one = sy_blob_alloc(core, 1, id_of(1), SY_SPACE_SLAB, 64, 1, &lack);
	uint32_t two = sy_blob_alloc(core, 2, id_of(1), SY_SPACE_SLAB, 64, 1, &lack);
	uint32_t three = sy_blob_alloc(core, 1, id_of(3), SY_SPACE_SLAB, 64, 1, &lack);
	assert_int_equal(sy_blob_find(core, 1, id_of(1)), one);
	assert_int_equal(sy_blob_find(core, 2, id_of(1)), two);
	assert_int_equal(sy_blob_find(core, 1, id_of(3)), three);
	assert_int_equal(sy_blob_find(core, 2, id_of(3)), 0);
	assert_int_equal(sy_blob_find(core, 3, id_of(1)), 0);
	assert_int_equal(sy_blob_at(core, one)->generation, 1);
	sy_blob_move(core, one, SY_BLOB_RETIRED);
	assert_int_equal(sy_blob_find(core, 1, id_of(1)), 0);
	tables_check(core);
	uint32_t again = sy_blob_alloc(core, 1, id_of(1), SY_SPACE_SLAB, 64, 1, &lack);
	assert_int_equal(sy_blob_find(core, 1, id_of(1)), again);
	assert_int_equal(sy_blob_at(core, again)->generation, 4);
	sy_blob_move(core, one, SY_BLOB_FREE);
	assert_int_equal(sy_blob_find(core, 1, id_of(1)), again);
	tables_check(core);
	tables_close(core);
}

static void test_exhaustion(void **state)
{
	(void)state;
	struct sy_core *core = open_one(4, 64 * 8);
	enum sy_resource lack = SY_RESOURCE_NONE;
	uint32_t blobs[4];
	assert_int_equal(sy_blob_alloc(core, 1, id_of(9), SY_SPACE_SLAB, 64 * 8 + 1, 1, &lack), 0);
	assert_int_equal(lack, SY_RESOURCE_BYTES);
	assert_int_equal(
		sy_blob_alloc(core, 1, id_of(9), SY_SPACE_SLAB, SY_BLOB_MAX_BYTES, 1, &lack), 0);
	assert_int_equal(lack, SY_RESOURCE_BYTES);
	for (uint64_t i = 0; i < 4; i++)
		blobs[i] = sy_blob_alloc(core, 1, id_of(i), SY_SPACE_SLAB, 64, 1, &lack);
	lack = SY_RESOURCE_NONE;
	assert_int_equal(sy_blob_alloc(core, 1, id_of(9), SY_SPACE_SLAB, 64, 1, &lack), 0);
	assert_int_equal(lack, SY_RESOURCE_BLOBS);
	tables_check(core);
	/* 64 * 6 bytes free, the longest run 64 * 4: what does not fit is short of bytes. */
	sy_blob_move(core, blobs[0], SY_BLOB_FREE);
	sy_blob_move(core, blobs[2], SY_BLOB_FREE);
	assert_int_equal(sy_region_free_bytes(core, SY_SPACE_SLAB), 64 * 6);
	assert_int_equal(sy_blob_alloc(core, 1, id_of(9), SY_SPACE_SLAB, 64 * 4 + 1, 1, &lack), 0);
	assert_int_equal(lack, SY_RESOURCE_BYTES);
	assert_int_not_equal(sy_blob_alloc(core, 1, id_of(9), SY_SPACE_SLAB, 64 * 3 + 1, 1, &lack), 0);
	tables_check(core);
	tables_close(core);
}

/* Every parameter has a range, and the arena of what is within is addressed without overflow. */
static void test_params(void **state)
{
	(void)state;
	struct sy_core_params good = tables_params(64, 4096), bad;
	assert_int_not_equal(sy_core_arena_bytes(&good), 0);
	assert_int_equal(sy_core_arena_bytes(&good) % 64, 0);
#define REFUSED(field, value) \
	do { \
		bad = good; \
		bad.field = (value); \
		assert_int_equal(sy_core_arena_bytes(&bad), 0); \
	} while (0)
	REFUSED(slab_bytes, 0);
	REFUSED(slab_bytes, 4097);
	REFUSED(slab_bytes, UINT64_MAX - 63);
	REFUSED(incarnation, 0);
	REFUSED(slot_count, 0);
	REFUSED(unit_id, 1);
	REFUSED(max_entries, 0);
	REFUSED(max_entries, 10 * 1000 * 1000 + 1);
	REFUSED(max_entries, UINT32_MAX);
	REFUSED(max_sessions, 0);
	REFUSED(max_sessions, UINT32_MAX);
	REFUSED(max_pins, 0);
	REFUSED(max_fields, 0);
	REFUSED(max_fields, 65536);
	REFUSED(max_namespaces, 0);
	REFUSED(max_namespaces, 65536);
	REFUSED(max_shapes, 0);
	REFUSED(max_shapes, UINT32_MAX);
	REFUSED(max_parked, UINT32_MAX);
	REFUSED(max_jobs, 0);
	REFUSED(max_jobs, UINT32_MAX);
	REFUSED(read_pin_ns, UINT64_MAX);
	REFUSED(heartbeat_ns, UINT64_MAX);
	REFUSED(session_expire_ns, UINT64_MAX);
	REFUSED(retire_grace_ns, UINT64_MAX);
	REFUSED(park_max_ns, UINT64_MAX);
#undef REFUSED
	assert_int_equal(sy_core_default_entries(0), 65536);
	assert_int_equal(sy_core_default_entries((uint64_t)1 << 30), 1 << 20);
	assert_int_equal(sy_core_default_entries(UINT64_MAX), 10 * 1000 * 1000);
}

/* An entry costs 60 bytes: itself and its two buckets. */
static void test_entry_cost(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(1000, 4096);
	struct sy_core *core = tables_open(&params);
	assert_int_equal(core->tables.entries.item_bytes + 2 * sizeof(uint32_t), 60);
	assert_int_equal(core->tables.entry_bucket_count, 1000);
	/* Tables stand one behind the other, none inside another. */
	const uint64_t starts[] = {
		sizeof *core - 1, core->tables.blobs.at, core->tables.id_buckets_at,
		core->tables.regions.at, core->tables.entries.at, core->tables.key_buckets_at,
		core->tables.row_buckets_at, core->tables.fields.pool.at, core->tables.fields.buckets_at,
		core->tables.namespaces.pool.at, core->tables.shapes.pool.at,
		core->volatiles.sessions.at, core->volatiles.pins.at, core->volatiles.pin_refs.at,
		core->volatiles.parked.at, core->volatiles.parked_times.at,
		core->volatiles.parked_needs[SY_PARK_BYTES].at,
		core->volatiles.parked_needs[SY_PARK_TIER].at,
		core->volatiles.parked_needs[SY_PARK_ROOM].at, core->volatiles.jobs.at,
		core->volatiles.job_rows_at,
		core->volatiles.job_fields_at, core->arena_bytes,
	};
	for (size_t i = 1; i < COUNT_OF(starts); i++)
		assert_true(starts[i - 1] < starts[i]);
	assert_true(core->arena_bytes - core->volatiles.job_fields_at
	            >= (params.max_jobs + 1) * SY_FIELDS_PER_REQUEST_MAX * 2);
	/* The last byte of every table is inside the arena: the sanitizer and the map watch. */
	memset(sy_pool_at(core, &core->volatiles.jobs, params.max_jobs), 0, sizeof(struct sy_job));
	*sy_job_field_at(core, params.max_jobs, SY_FIELDS_PER_REQUEST_MAX - 1) = 0;
	*sy_job_row_at(core, params.max_jobs, SY_ROWS_PER_RELEASE_MAX - 1) = 0;
	tables_close(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrows),     cmocka_unit_test(test_moves_refused),
		cmocka_unit_test(test_accounts),   cmocka_unit_test(test_quarantine),
		cmocka_unit_test(test_ids),        cmocka_unit_test(test_exhaustion),
		cmocka_unit_test(test_params),     cmocka_unit_test(test_entry_cost),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
