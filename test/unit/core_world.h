/* A naive model of keys, blobs and commits beside a real core, and random steps for both: shared
 * by the tests of entries and of the rebuild.
 *
 * The model keeps every linked entry in one array and searches it in full. */
#ifndef SY_TEST_CORE_WORLD_H
#define SY_TEST_CORE_WORLD_H

#include "core_tables.h"

enum {
	WORLD_SPACES = 2,
	WORLD_ROWS = 12,
	WORLD_FIELDS = 6,
	WORLD_ENTRIES_MAX = 4096,
	WORLD_BLOBS_MAX = 512,
};

struct world_entry {
	uint32_t ns; /* 1.. */
	uint64_t row;
	uint32_t field; /* 0..: 'a' + field */
	uint64_t id;    /* of its blob */
	uint64_t seq;
	uint64_t offset, extent;
	bool pending;
};

struct world_blob {
	uint64_t id;
	uint32_t index; /* in the core */
	uint32_t ns;
	bool pending;
	uint64_t nbytes;
};

struct world {
	struct sy_core *core;
	struct sy_prng prng;
	struct world_entry entries[WORLD_ENTRIES_MAX];
	struct world_blob blobs[WORLD_BLOBS_MAX];
	uint32_t entry_count, blob_count;
	uint64_t next_id, seq;
};

/* Row numbers far apart and side by side, up to the last one. */
static inline uint64_t world_row(uint32_t k)
{
	return k < 4 ? k : k < 8 ? UINT64_MAX - k : (uint64_t)k << 40;
}

static inline struct sy_span world_field(uint32_t k)
{
	static const char letters[] = "abcdefghijklmnop";
	return (struct sy_span){ (const uint8_t *)&letters[k], 1 };
}

/* Sessions that do nothing but hold the namespaces 1, 2, .... */
static inline void world_sessions(struct world *world)
{
	for (uint32_t i = 0; i < WORLD_SPACES; i++) {
		struct sy_session *session;
		uint32_t index = sy_pool_take(world->core, &world->core->volatiles.sessions);
		session = sy_pool_at(world->core, &world->core->volatiles.sessions, index);
		session->state = SY_SESSION_LIVE;
		char name[] = { 'n', (char)('0' + i), 0 };
		session->ns = (uint16_t)sy_name_take(world->core, &world->core->tables.namespaces,
		                                     span_of(name));
		assert_int_equal(session->ns, i + 1);
	}
}

static inline void world_open(struct world *world, const struct sy_core_params *params,
                              uint64_t seed)
{
	memset(world, 0, sizeof *world);
	world->core = tables_open(params);
	sy_prng_seed(&world->prng, seed);
	world_sessions(world);
}

static inline void world_close(struct world *world)
{
	tables_close(world->core);
}

/* A random index: some rows, some columns, a field perhaps in two columns of different kinds. */
static inline void world_draft(struct world *world, struct draft *draft)
{
	struct sy_prng *prng = &world->prng;
	memset(draft, 0, sizeof *draft);
	draft->index = (sy_index){ .rows = draft->rows, .columns = draft->columns };
	uint32_t count = 0;
	uint64_t sorted[WORLD_ROWS];
	for (uint32_t k = 0; k < WORLD_ROWS; k++)
		sorted[k] = k < 4 ? world_row(k) : k < 8 ? world_row(k + 4) : world_row(15 - k);
	for (uint32_t k = 0; k < WORLD_ROWS; k++) {
		if (sy_prng_chance(prng, 25))
			draft->rows[count++] = sorted[k];
	}
	if (count == 0)
		draft->rows[count++] = sorted[sy_prng_below(prng, WORLD_ROWS)];
	draft->index.row_count = count;
	for (uint32_t field = 0; field < WORLD_FIELDS; field++) {
		uint32_t parts = sy_prng_chance(prng, 40) ? 1 + sy_prng_chance(prng, 30) : 0;
		if (field + 1 == WORLD_FIELDS && draft->index.column_count == 0)
			parts = 1;
		for (uint32_t part = 0; part < parts; part++) {
			uint32_t c = draft->index.column_count;
			sy_column *column = &draft->columns[c];
			*column = (sy_column){ .field = (const char *)world_field(field).data,
			                       .field_bytes = 1, .kind = SY_KIND_BYTES,
			                       .extent = sy_prng_below(prng, 200) };
			if (sy_prng_chance(prng, 40)) {
				column->kind = SY_KIND_TENSOR;
				column->dtype = SY_DTYPE_F32;
				column->shape = (sy_shape){ .rank = 2, .tail = { 1 + sy_prng_below(prng, 4) } };
				column->extent = 4 * column->shape.tail[0] * sy_prng_below(prng, 20);
			}
			for (uint32_t k = 0; k < count; k++) {
				if (parts == 2 && k % 2 != part)
					continue;
				draft->ordinals[c][column->row_count] = k;
				uint64_t unit = column->kind == SY_KIND_TENSOR ? 4 * column->shape.tail[0] : 1;
				draft->extents[c][column->row_count] = unit * sy_prng_below(prng, 30);
				column->row_count++;
			}
			if (parts == 2 || sy_prng_chance(prng, 30))
				column->ordinals = draft->ordinals[c];
			if (sy_prng_chance(prng, 30))
				column->extents = draft->extents[c];
			draft->index.column_count += column->row_count > 0;
		}
	}
	draft_finish(draft);
}

/* Removes entries of a key accepted before seq; returns how many of them were visible. */
static inline uint32_t world_kill(struct world *world, uint32_t ns, uint64_t row, uint32_t field,
                                  uint64_t seq)
{
	uint32_t visible = 0;
	for (uint32_t i = 0; i < world->entry_count;) {
		const struct world_entry *entry = &world->entries[i];
		if (entry->ns != ns || entry->row != row || entry->field != field || entry->seq >= seq) {
			i++;
			continue;
		}
		visible += !entry->pending;
		world->entries[i] = world->entries[--world->entry_count];
	}
	return visible;
}

static inline uint32_t world_live(const struct world *world, uint64_t id)
{
	uint32_t live = 0;
	for (uint32_t i = 0; i < world->entry_count; i++)
		live += world->entries[i].id == id;
	return live;
}

/* Published blobs with no live entry are gone. */
static inline void world_drop_dead(struct world *world)
{
	for (uint32_t i = 0; i < world->blob_count;) {
		if (world->blobs[i].pending || world_live(world, world->blobs[i].id) > 0)
			i++;
		else
			world->blobs[i] = world->blobs[--world->blob_count];
	}
}

/* Puts a draft into the model as the commit number seq. */
static inline uint32_t world_apply(struct world *world, const struct draft *draft, uint32_t ns,
                                   uint64_t id, bool pending)
{
	uint32_t visible = 0;
	uint64_t seq = ++world->seq;
	for (uint32_t c = 0; c < draft->index.column_count; c++) {
		const sy_column *column = &draft->columns[c];
		uint64_t offset = column->base;
		for (uint32_t k = 0; k < column->row_count; k++) {
			uint64_t row = draft->rows[column->ordinals != NULL ? column->ordinals[k] : k];
			uint32_t field = (uint32_t)(column->field[0] - 'a');
			if (!pending)
				visible += world_kill(world, ns, row, field, seq);
			assert_true(world->entry_count < WORLD_ENTRIES_MAX);
			world->entries[world->entry_count++] = (struct world_entry){
				.ns = ns, .row = row, .field = field, .id = id, .seq = seq, .offset = offset,
				.extent = sy_column_extent(column, k), .pending = pending };
			offset += sy_align_up(sy_column_extent(column, k), 64);
		}
	}
	assert_true(world->blob_count < WORLD_BLOBS_MAX);
	world->blobs[world->blob_count++] = (struct world_blob){
		.id = id, .ns = ns, .pending = pending, .nbytes = draft->index.blob_bytes };
	world_drop_dead(world);
	return visible;
}

static inline void world_commit(struct world *world)
{
	struct draft draft;
	world_draft(world, &draft);
	uint32_t ns = 1 + (uint32_t)sy_prng_below(&world->prng, WORLD_SPACES);
	bool pending = sy_prng_chance(&world->prng, 30);
	uint64_t id = ++world->next_id, overwritten = 0;
	uint32_t blob = draft_commit(world->core, &draft, ns, id, pending, &overwritten);
	if (blob == 0)
		return;
	assert_int_equal(overwritten, world_apply(world, &draft, ns, id, pending));
	for (uint32_t i = 0; i < world->blob_count; i++) {
		if (world->blobs[i].id == id)
			world->blobs[i].index = blob;
	}
}

/* A pending blob's file is written, or its write fails. */
static inline void world_finish(struct world *world, uint32_t at)
{
	struct world_blob blob = world->blobs[at];
	bool fails = world_live(world, blob.id) == 0 || sy_prng_chance(&world->prng, 30);
	sy_blob_move(world->core, blob.index, fails ? SY_BLOB_FREE : SY_BLOB_ON_SSD);
	if (!fails)
		sy_entry_show_all(world->core, blob.index, 1);
	world->blobs[at].pending = false;
	for (uint32_t i = 0; i < world->entry_count;) {
		struct world_entry *entry = &world->entries[i];
		if (entry->id != blob.id) {
			i++;
		} else if (fails) {
			*entry = world->entries[--world->entry_count];
		} else if (!entry->pending) {
			i++;
		} else {
			entry->pending = false;
			struct world_entry shown = *entry;
			world_kill(world, shown.ns, shown.row, shown.field, shown.seq);
			i = 0; /* the array has moved */
		}
	}
	world_drop_dead(world);
}

/* A release of some rows, all fields. */
static inline void world_release(struct world *world)
{
	uint32_t ns = 1 + (uint32_t)sy_prng_below(&world->prng, WORLD_SPACES);
	uint64_t row = world_row((uint32_t)sy_prng_below(&world->prng, WORLD_ROWS));
	uint32_t next;
	for (uint32_t i = sy_entry_row_first(world->core, ns, row); i != 0; i = next) {
		next = sy_entry_row_next(world->core, i);
		sy_entry_kill(world->core, i, 1);
	}
	for (uint32_t field = 0; field < WORLD_FIELDS; field++)
		world_kill(world, ns, row, field, UINT64_MAX);
	world_drop_dead(world);
}

/* A release of one key, by the chain of the key. */
static inline void world_release_key(struct world *world)
{
	uint32_t ns = 1 + (uint32_t)sy_prng_below(&world->prng, WORLD_SPACES);
	uint64_t row = world_row((uint32_t)sy_prng_below(&world->prng, WORLD_ROWS));
	uint32_t k = (uint32_t)sy_prng_below(&world->prng, WORLD_FIELDS), next;
	uint32_t field = sy_name_find(world->core, &world->core->tables.fields, world_field(k));
	if (field == 0)
		return;
	for (uint32_t i = sy_entry_key_first(world->core, ns, row, field); i != 0; i = next) {
		next = sy_entry_key_next(world->core, i);
		sy_entry_kill(world->core, i, 1);
	}
	world_kill(world, ns, row, k, UINT64_MAX);
	world_drop_dead(world);
}

static inline void world_step(struct world *world)
{
	uint32_t what = (uint32_t)sy_prng_below(&world->prng, 100);
	if (what < 50) {
		world_commit(world);
	} else if (what < 65) {
		world_release(world);
	} else if (what < 80) {
		world_release_key(world);
	} else if (world->blob_count > 0) {
		uint32_t at = (uint32_t)sy_prng_below(&world->prng, world->blob_count);
		if (world->blobs[at].pending)
			world_finish(world, at);
	}
}

static inline uint64_t blob_number(const struct sy_blob *blob)
{
	return sy_load_u64(blob->id.bytes);
}

/* The key is found exactly where the model has it. */
static inline void world_check_key(struct world *world, uint32_t ns, uint64_t row, uint32_t k)
{
	struct sy_core *core = world->core;
	const struct world_entry *visible = NULL;
	uint32_t linked = 0;
	for (uint32_t i = 0; i < world->entry_count; i++) {
		const struct world_entry *entry = &world->entries[i];
		if (entry->ns != ns || entry->row != row || entry->field != k)
			continue;
		linked++;
		if (!entry->pending)
			visible = entry;
	}
	uint32_t field = sy_name_find(core, &core->tables.fields, world_field(k));
	if (field == 0) {
		assert_int_equal(linked, 0);
		return;
	}
	uint32_t found = sy_entry_find(core, ns, row, field);
	assert_int_equal(found != 0, visible != NULL);
	if (visible != NULL) {
		const struct sy_entry *entry = sy_entry_at(core, found);
		assert_int_equal(blob_number(sy_blob_at(core, entry->blob)), visible->id);
		assert_int_equal((uint64_t)entry->offset64 * 64, visible->offset);
		assert_int_equal(sy_entry_bytes(core, entry), visible->extent);
	}
	for (uint32_t i = sy_entry_key_first(core, ns, row, field); i != 0;
	     i = sy_entry_key_next(core, i))
		linked--;
	assert_int_equal(linked, 0);
}

/* Blobs that the model does not know: reserved ones, and what is held after its last entry. */
static inline uint32_t world_extra(struct sy_core *core)
{
	uint32_t count = 0;
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		uint8_t state = sy_blob_at(core, i)->state;
		count += state == SY_BLOB_ALLOCATED || state == SY_BLOB_RETIRED
			|| state == SY_BLOB_RELEASED || state == SY_BLOB_QUARANTINED;
	}
	return count;
}

/* Many keys at once, some of them twice and some with a field that no entry has, are answered as
 * each would be alone. */
static inline void world_check_batch(struct world *world, uint32_t ns)
{
	struct sy_core *core = world->core;
	struct sy_key_ask asks[SY_FIND_MAX];
	uint32_t count = (uint32_t)sy_prng_below(&world->prng, SY_FIND_MAX + 1);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t k = (uint32_t)sy_prng_below(&world->prng, WORLD_FIELDS);
		asks[i].row = world_row((uint32_t)sy_prng_below(&world->prng, WORLD_ROWS));
		asks[i].field = sy_name_find(core, &core->tables.fields, world_field(k));
	}
	sy_entry_find_all(core, ns, asks, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t field = asks[i].field;
		assert_int_equal(asks[i].entry,
		                 field == 0 ? 0 : sy_entry_find(core, ns, asks[i].row, field));
	}
}

static inline void world_check(struct world *world)
{
	struct sy_core *core = world->core;
	uint32_t rows = 0;
	for (uint32_t ns = 1; ns <= WORLD_SPACES; ns++)
		world_check_batch(world, ns);
	for (uint32_t ns = 1; ns <= WORLD_SPACES; ns++) {
		for (uint32_t r = 0; r < WORLD_ROWS; r++) {
			uint32_t linked = 0;
			for (uint32_t i = 0; i < world->entry_count; i++)
				linked += world->entries[i].ns == ns && world->entries[i].row == world_row(r);
			rows += linked > 0;
			for (uint32_t i = sy_entry_row_first(core, ns, world_row(r)); i != 0;
			     i = sy_entry_row_next(core, i))
				linked--;
			assert_int_equal(linked, 0);
			for (uint32_t k = 0; k < WORLD_FIELDS; k++)
				world_check_key(world, ns, world_row(r), k);
		}
	}
	assert_int_equal(core->tables.row_count, rows);
	for (uint32_t i = 0; i < world->blob_count; i++) {
		sy_blob_id id = {{0}};
		memcpy(id.bytes, &world->blobs[i].id, 8);
		uint32_t blob = sy_blob_find(core, world->blobs[i].ns, id);
		assert_int_not_equal(blob, 0);
		const struct sy_blob *found = sy_blob_at(core, blob);
		assert_int_equal(found->live_count, world_live(world, world->blobs[i].id));
		assert_int_equal(found->nbytes, world->blobs[i].nbytes);
	}
	assert_int_equal(core->tables.blobs.used - world_extra(core), world->blob_count);
}

#endif
