#include "layout.h"

#include "record.h"
#include "region.h"

/* Ranges. Times stay far below 2^64, so that adding them to a clock cannot overflow. */
static const uint64_t slab_max_bytes = (uint64_t)1 << 50;
static const uint64_t time_max_ns = (uint64_t)1 << 60;

enum {
	ENTRIES_MIN_DEFAULT = 65536,
	ENTRIES_MAX = 10 * 1000 * 1000,
	SESSIONS_MAX = 65535,
	PARKED_MAX = 65535,
	JOBS_MAX = 4096, /* a job copies its rows and fields: 160 KiB each */
	TABLE_ALIGN_BYTES = 64,
	/* Blobs of a bucket if there are as many as entries, and reservations if every blob is one.
	 * Blobs hold many entries as a rule and are reserved for a moment, so that these buckets,
	 * which are touched all over, would take memory for nothing. */
	ID_CHAIN = 4,
	NAME_CHAIN = 16,
};

uint32_t sy_core_default_entries(uint64_t slab_bytes)
{
	uint64_t entries = slab_bytes / 1024;
	entries = sy_max_u64(entries, ENTRIES_MIN_DEFAULT);
	return (uint32_t)sy_min_u64(entries, ENTRIES_MAX);
}

static bool in_range(uint64_t value, uint64_t low, uint64_t high)
{
	return value >= low && value <= high;
}

static bool params_valid(const struct sy_core_params *params)
{
	return in_range(params->slab_bytes, SY_ENTRY_ALIGN_BYTES, slab_max_bytes)
		&& params->slab_bytes % SY_ENTRY_ALIGN_BYTES == 0
		&& params->staging_bytes % SY_ENTRY_ALIGN_BYTES == 0
		&& params->staging_bytes < params->slab_bytes
		&& in_range(params->disk_bytes, 0, slab_max_bytes)
		&& params->disk_bytes % SY_RECORD_BLOCK_BYTES == 0
		&& (params->disk_bytes > 0 || params->staging_bytes == 0)
		&& params->incarnation != 0
		&& params->unit_id < params->slot_count
		&& in_range(params->max_entries, 1, ENTRIES_MAX)
		&& in_range(params->max_sessions, 1, SESSIONS_MAX)
		&& in_range(params->max_pins, 1, ENTRIES_MAX)
		&& in_range(params->max_fields, 1, UINT16_MAX)
		&& in_range(params->max_namespaces, 1, UINT16_MAX)
		&& in_range(params->max_shapes, 1, ENTRIES_MAX)
		&& in_range(params->max_parked, 0, PARKED_MAX)
		&& in_range(params->max_jobs, 1, JOBS_MAX)
		&& params->read_pin_ns <= time_max_ns
		&& params->heartbeat_ns <= time_max_ns
		&& params->session_expire_ns <= time_max_ns
		&& params->retire_grace_ns <= time_max_ns
		&& params->park_max_ns <= time_max_ns;
}

/* Grows as tables are placed one after the other. */
struct layout {
	uint64_t end;
	bool overflow;
};

static uint64_t place(struct layout *layout, uint64_t count, uint64_t item_bytes)
{
	uint64_t at = sy_align_up(layout->end, TABLE_ALIGN_BYTES), bytes, end;
	if (__builtin_mul_overflow(count, item_bytes, &bytes)
	    || __builtin_add_overflow(at, bytes, &end) || end > (uint64_t)1 << 62)
		layout->overflow = true;
	else
		layout->end = end;
	return at;
}

/* Item 0 is none and takes room all the same: it keeps an index an index. */
static void place_pool(struct layout *layout, struct sy_pool *pool, uint32_t item_bytes,
                       uint32_t capacity)
{
	*pool = (struct sy_pool){ .item_bytes = item_bytes, .capacity = capacity };
	pool->at = place(layout, (uint64_t)capacity + 1, item_bytes);
}

static uint64_t place_buckets(struct layout *layout, uint32_t count)
{
	return place(layout, count, sizeof(uint32_t));
}

static void place_park_heap(struct layout *layout, struct sy_park_heap *heap, uint32_t capacity,
                            bool by_time)
{
	*heap = (struct sy_park_heap){ .by_time = by_time };
	heap->at = place(layout, capacity, sizeof(uint32_t));
}

static void place_intern(struct layout *layout, struct sy_intern *intern, uint32_t item_bytes,
                         uint32_t capacity)
{
	place_pool(layout, &intern->pool, item_bytes, capacity);
	intern->bucket_count = capacity;
	intern->buckets_at = place_buckets(layout, capacity);
}

static void place_tables(struct layout *layout, const struct sy_core_params *params,
                         struct sy_tables *tables)
{
	uint32_t entries = params->max_entries;
	/* Copies of what is on disk are blobs, too: where all others are used it can still be read. */
	uint32_t blobs = params->disk_bytes > 0 ? 2 * entries : entries;
	place_pool(layout, &tables->blobs, sizeof(struct sy_blob), blobs);
	tables->id_bucket_count = entries / ID_CHAIN + 1;
	tables->id_buckets_at = place_buckets(layout, tables->id_bucket_count);
	/* Blobs, a hole before each, and one after the last of each space; on the disk there are
	 * none of copies. */
	uint32_t regions = params->disk_bytes > 0 ? 6 * entries + SY_SPACE_COUNT : 2 * entries + 1;
	place_pool(layout, &tables->regions, sizeof(struct sy_region), regions);
	place_pool(layout, &tables->entries, sizeof(struct sy_entry), entries);
	tables->entry_bucket_count = entries;
	tables->key_buckets_at = place_buckets(layout, entries);
	tables->row_buckets_at = place_buckets(layout, entries);
	place_intern(layout, &tables->fields, sizeof(struct sy_name), params->max_fields);
	place_intern(layout, &tables->namespaces, sizeof(struct sy_name), params->max_namespaces);
	place_intern(layout, &tables->shapes, sizeof(struct sy_shape_item), params->max_shapes);
}

static void place_volatiles(struct layout *layout, const struct sy_core_params *params,
                            struct sy_volatile *volatiles)
{
	uint32_t sessions = params->max_sessions, jobs = params->max_jobs;
	place_pool(layout, &volatiles->sessions, sizeof(struct sy_session), sessions);
	volatiles->session_bucket_count = sessions;
	volatiles->number_buckets_at = place_buckets(layout, sessions);
	volatiles->identity_buckets_at = place_buckets(layout, sessions);
	volatiles->token_buckets_at = place_buckets(layout, sessions);
	place_pool(layout, &volatiles->pins, sizeof(struct sy_pin), params->max_pins);
	volatiles->pin_bucket_count = params->max_pins;
	volatiles->pin_name_buckets_at = place_buckets(layout, params->max_pins);
	place_pool(layout, &volatiles->pin_refs, sizeof(struct sy_pin_ref), params->max_entries);
	volatiles->blob_name_bucket_count = params->max_entries / NAME_CHAIN + 1;
	volatiles->blob_name_buckets_at = place_buckets(layout, volatiles->blob_name_bucket_count);
	place_pool(layout, &volatiles->parked, sizeof(struct sy_parked), params->max_parked);
	place_park_heap(layout, &volatiles->parked_times, params->max_parked, true);
	for (int i = 0; i < SY_PARK_QUEUES; i++)
		place_park_heap(layout, &volatiles->parked_needs[i], params->max_parked, false);
	place_pool(layout, &volatiles->jobs, sizeof(struct sy_job), jobs);
	place_pool(layout, &volatiles->tier.blobs, sizeof(struct sy_tiered),
	           params->disk_bytes > 0 ? 2 * params->max_entries : 0);
	uint64_t rows = ((uint64_t)jobs + 1) * SY_ROWS_PER_RELEASE_MAX;
	uint64_t fields = ((uint64_t)jobs + 1) * SY_FIELDS_PER_REQUEST_MAX;
	volatiles->job_rows_at = place(layout, rows, sizeof(uint64_t));
	volatiles->job_fields_at = place(layout, fields, sizeof(uint16_t));
}

uint64_t sy_layout(const struct sy_core_params *params, struct sy_core *core)
{
	struct sy_core scratch = {0};
	struct sy_core *to = core != NULL ? core : &scratch;
	struct layout layout = { .end = sizeof(struct sy_core) };
	if (!params_valid(params))
		return 0;
	place_tables(&layout, params, &to->tables);
	place_volatiles(&layout, params, &to->volatiles);
	if (layout.overflow)
		return 0;
	to->params = *params;
	to->arena_bytes = sy_align_up(layout.end, TABLE_ALIGN_BYTES);
	return to->arena_bytes;
}

uint64_t sy_core_arena_bytes(const struct sy_core_params *params)
{
	return sy_layout(params, NULL);
}

void sy_tables_init(struct sy_core *core)
{
	core->tables.hash_secret = sy_mix64(core->params.seed ^ core->params.incarnation);
	core->tables.next_generation = 1;
	core->tables.next_accept_seq = 1;
	const struct sy_core_params *params = &core->params;
	uint64_t slab_bytes = params->slab_bytes - params->staging_bytes;
	core->tables.spaces[SY_SPACE_SLAB] = (struct sy_space){
		.bytes = slab_bytes, .align = SY_ENTRY_ALIGN_BYTES};
	core->tables.spaces[SY_SPACE_STAGING] = (struct sy_space){
		.start = slab_bytes, .bytes = params->staging_bytes, .align = SY_ENTRY_ALIGN_BYTES};
	core->tables.spaces[SY_SPACE_DISK] = (struct sy_space){
		.bytes = params->disk_bytes, .align = SY_RECORD_BLOCK_BYTES};
	sy_region_init(core);
}
