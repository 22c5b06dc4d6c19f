/* What the tests of the core's tables share: an arena with its tables, and small indexes. */
#ifndef SY_TEST_CORE_TABLES_H
#define SY_TEST_CORE_TABLES_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "blob.h"
#include "entry.h"
#include "intern.h"
#include "layout.h"
#include "prng.h"
#include "region.h"

static inline struct sy_core_params tables_params(uint32_t max_entries, uint64_t slab_bytes)
{
	return (struct sy_core_params){
		.slab_bytes = slab_bytes, .disk_bytes = 1 << 24, .incarnation = 77, .seed = 5,
		.slot_count = 1,
		.max_entries = max_entries, .max_sessions = 4, .max_pins = 16, .max_fields = 64,
		.max_namespaces = 8, .max_shapes = 64, .max_parked = 4, .max_jobs = 2,
		.read_pin_ns = 1000, .heartbeat_ns = 100, .session_expire_ns = 1000,
		.retire_grace_ns = 1000, .park_max_ns = 100,
	};
}

/* Memory of an arena: zero, and real only where it is touched. */
static inline void *arena_map(uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(at != MAP_FAILED);
	return at;
}

static inline struct sy_core *tables_open(const struct sy_core_params *params)
{
	uint64_t bytes = sy_core_arena_bytes(params);
	assert_int_not_equal(bytes, 0);
	struct sy_core *core = arena_map(bytes);
	assert_int_equal(sy_layout(params, core), bytes);
	sy_tables_init(core);
	return core;
}

static inline void tables_close(struct sy_core *core)
{
	assert_int_equal(munmap(core, core->arena_bytes), 0);
}

/* The same core at another address; the old memory is gone, so that nothing can point there. */
static inline struct sy_core *tables_move(struct sy_core *core)
{
	struct sy_core *copy = arena_map(core->arena_bytes);
	memcpy(copy, core, core->arena_bytes);
	tables_close(core);
	return copy;
}

static inline void tables_check(struct sy_core *core)
{
	const char *fault = sy_tables_audit(core);
	if (fault != NULL)
		fail_msg("%s", fault);
}

static inline struct sy_span span_of(const char *text)
{
	return (struct sy_span){ (const uint8_t *)text, strlen(text) };
}

/* An index of up to DRAFT_MAX rows and columns, filled in by a test. */
enum { DRAFT_MAX = 16 };

struct draft {
	sy_index index;
	uint64_t rows[DRAFT_MAX];
	sy_column columns[DRAFT_MAX];
	uint32_t ordinals[DRAFT_MAX][DRAFT_MAX];
	uint64_t extents[DRAFT_MAX][DRAFT_MAX];
};

/* A blob of rows by one-byte fields 'a', 'b', ...: bit k of fields is the column of 'a' + k. */
static inline void draft_grid(struct draft *draft, const uint64_t *rows, uint32_t row_count,
                              uint32_t fields, uint64_t extent)
{
	static const char letters[] = "abcdefghijklmnop";
	memset(draft, 0, sizeof *draft);
	memcpy(draft->rows, rows, row_count * sizeof rows[0]);
	draft->index = (sy_index){ .rows = draft->rows, .row_count = row_count,
	                           .columns = draft->columns };
	for (uint32_t k = 0; k < DRAFT_MAX; k++) {
		if ((fields >> k & 1) == 0)
			continue;
		draft->columns[draft->index.column_count++] = (sy_column){
			.field = &letters[k], .field_bytes = 1, .kind = SY_KIND_BYTES,
			.row_count = row_count, .extent = extent,
		};
	}
}

/* Sets bases and sums as a layout would. */
static inline void draft_finish(struct draft *draft)
{
	uint64_t end = SY_INDEX_HEADER_BYTES + sy_align_up(draft->index.row_count * 8, 64);
	uint32_t entries = 0;
	for (uint32_t i = 0; i < draft->index.column_count; i++) {
		sy_column *column = &draft->columns[i];
		column->base = end;
		for (uint32_t k = 0; k < column->row_count; k++) {
			uint64_t extent = sy_column_extent(column, k);
			end += sy_align_up(sy_column_entry_bytes(column, extent), 64);
		}
		entries += column->row_count;
	}
	draft->index.entry_count = entries;
	draft->index.blob_bytes = end;
}

/* A blob with these entries, or 0 if there is no room for it. */
static inline uint32_t draft_commit(struct sy_core *core, const struct draft *draft, uint32_t ns,
                                    uint64_t id, bool pending, uint64_t *ret_overwritten)
{
	enum sy_resource lack;
	uint64_t need, left, overwritten;
	sy_blob_id blob_id = {{0}};
	memcpy(blob_id.bytes, &id, sizeof id);
	if (sy_entry_room(core, &draft->index, &need, &left) != SY_RESOURCE_NONE)
		return 0;
	uint32_t blob = sy_blob_alloc(core, ns, blob_id, SY_SPACE_SLAB, draft->index.blob_bytes,
	                              draft->index.entry_count, &lack);
	if (blob == 0)
		return 0;
	if (pending)
		assert_true(sy_blob_open_run(core, blob));
	overwritten = sy_entry_add_all(core, blob, &draft->index, pending, 1);
	if (ret_overwritten != NULL)
		*ret_overwritten = overwritten;
	return blob;
}

#endif
