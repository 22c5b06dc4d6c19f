/* What the audit is worth: every kind of damage to the tables is seen, and a sound core is not
 * blamed. */
#include "core_world.h"

enum { COPIES = 6 };

struct spot {
	void *at;
	size_t bytes;
	const char *name;
};

/* Flips one bit after the other and both ends of the number; each must be seen, and undone. */
static void damage(struct sy_core *core, struct spot spot)
{
	uint64_t kept = 0, value;
	memcpy(&kept, spot.at, spot.bytes);
	const uint64_t values[COPIES] = { kept + 1, kept - 1, 0, UINT64_MAX, kept ^ 4, kept + 1000 };
	for (size_t i = 0; i < COPIES; i++) {
		value = values[i];
		if (memcmp(&value, &kept, spot.bytes) == 0)
			continue;
		memcpy(spot.at, &value, spot.bytes);
		if (sy_tables_audit(core) == NULL)
			fail_msg("%s: %llu instead of %llu is not seen", spot.name,
			         (unsigned long long)value, (unsigned long long)kept);
		memcpy(spot.at, &kept, spot.bytes);
	}
	tables_check(core);
}

#define SPOT(field) ((struct spot){ &(field), sizeof(field), #field })

static uint32_t blob_in(struct sy_core *core, enum sy_blob_state state)
{
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		if (sy_blob_at(core, i)->state == state && (state == SY_BLOB_ALLOCATED
		    || sy_blob_at(core, i)->entry_count > 1))
			return i;
	}
	fail_msg("no blob in state %s", sy_blob_state_name((uint8_t)state));
	return 0;
}

static void damage_blob(struct sy_core *core, enum sy_blob_state state)
{
	struct sy_blob *blob = sy_blob_at(core, blob_in(core, state));
	const struct spot spots[] = {
		SPOT(blob->state), SPOT(blob->ns), SPOT(blob->offset), SPOT(blob->nbytes),
		SPOT(blob->region), SPOT(blob->by_id), SPOT(blob->live_count),
		SPOT(blob->entry_head), SPOT(blob->id_next),
	};
	for (size_t i = 0; i < COUNT_OF(spots); i++)
		damage(core, spots[i]);
	if (state == SY_BLOB_PUBLISHED)
		damage(core, SPOT(blob->entry_count));
}

static void damage_entries(struct sy_core *core, uint32_t blob)
{
	for (uint32_t i = sy_blob_at(core, blob)->entry_head; i != 0;) {
		struct sy_entry *entry = sy_entry_at(core, i);
		const struct spot spots[] = {
			SPOT(entry->blob), SPOT(entry->blob_next), SPOT(entry->key_next),
			SPOT(entry->row_next), SPOT(entry->row_prev), SPOT(entry->shape),
			SPOT(entry->field), SPOT(entry->ns),
		};
		for (size_t k = 0; k < COUNT_OF(spots); k++)
			damage(core, spots[k]);
		if ((entry->flags & SY_ENTRY_LIVE) != 0)
			damage(core, SPOT(entry->row)); /* of a dead one nobody asks */
		entry->flags ^= SY_ENTRY_LIVE;
		assert_non_null(sy_tables_audit(core));
		entry->flags ^= SY_ENTRY_LIVE | SY_ENTRY_PENDING;
		assert_non_null(sy_tables_audit(core));
		entry->flags ^= SY_ENTRY_PENDING;
		i = entry->blob_next;
	}
}

static void damage_names(struct sy_core *core)
{
	struct sy_tables *tables = &core->tables;
	struct sy_name *field = NULL, *space = sy_pool_at(core, &tables->namespaces.pool, 1);
	struct sy_shape_item *shape = NULL;
	for (uint32_t i = 1; i <= tables->fields.pool.touched && (!field || field->refs == 0); i++)
		field = sy_pool_at(core, &tables->fields.pool, i);
	for (uint32_t i = 1; i <= tables->shapes.pool.touched && (!shape || shape->refs == 0); i++)
		shape = sy_pool_at(core, &tables->shapes.pool, i);
	assert_true(field->refs > 0 && space->refs > 0 && shape->refs > 0);
	const struct spot spots[] = {
		SPOT(field->refs), SPOT(field->next), SPOT(space->refs), SPOT(shape->refs),
	};
	for (size_t i = 0; i < COUNT_OF(spots); i++)
		damage(core, spots[i]);
}

static void damage_sums(struct sy_core *core)
{
	struct sy_tables *tables = &core->tables;
	const struct spot spots[] = {
		SPOT(tables->row_count), SPOT(tables->rounding_bytes),
		SPOT(tables->spaces[SY_SPACE_SLAB].hole_count),
		SPOT(tables->disk_bytes[SY_BLOB_ON_SSD]), SPOT(tables->reap_head),
		SPOT(tables->reap_count),
		SPOT(tables->spaces[SY_SPACE_DISK].free_bytes),
		SPOT(tables->spaces[SY_SPACE_SLAB].free_bytes), SPOT(tables->bytes[SY_BLOB_PUBLISHED]),
		SPOT(tables->bytes[SY_BLOB_ON_SSD]), SPOT(tables->bytes[SY_BLOB_QUARANTINED]),
		SPOT(tables->blobs.used), SPOT(tables->entries.used), SPOT(tables->regions.used),
		SPOT(tables->fields.pool.used), SPOT(tables->shapes.pool.used),
		SPOT(tables->blobs.free_head), SPOT(tables->entries.free_head),
		SPOT(tables->spaces[SY_SPACE_SLAB].hole_root), SPOT(tables->spaces[SY_SPACE_SLAB].first),
	};
	for (size_t i = 0; i < COUNT_OF(spots); i++)
		damage(core, spots[i]);
	/* A free item that is not zero. */
	assert_int_not_equal(tables->entries.free_head, 0);
	damage(core, SPOT(sy_entry_at(core, tables->entries.free_head)->pad));
}

static void test_damage_seen(void **state)
{
	(void)state;
	static struct world world;
	enum sy_resource lack;
	struct sy_core_params params = tables_params(400, 256 * 1024);
	world_open(&world, &params, harness_seed());
	/* Enough of each: blobs in several states, freed items, shapes, rows of several entries. */
	bool ready = false;
	for (int i = 0; i < 2000 && !ready; i++) {
		world_step(&world);
		uint32_t states[SY_BLOB_STATE_COUNT] = {0};
		for (uint32_t k = 1; k <= world.core->tables.blobs.touched; k++) {
			const struct sy_blob *blob = sy_blob_at(world.core, k);
			states[blob->state] += blob->entry_count > 1;
		}
		ready = i > 100 && states[SY_BLOB_COMMITTING] > 0 && states[SY_BLOB_PUBLISHED] > 1
			&& states[SY_BLOB_ON_SSD] > 0 && world.core->tables.shapes.pool.used > 1
			&& world.core->tables.entries.free_head != 0;
	}
	assert_true(ready);
	sy_blob_alloc(world.core, 1, (sy_blob_id){{ 0xff }}, SY_SPACE_SLAB, 100, 1, &lack);
	tables_check(world.core);
	damage_blob(world.core, SY_BLOB_PUBLISHED);
	damage_blob(world.core, SY_BLOB_COMMITTING);
	damage_blob(world.core, SY_BLOB_ALLOCATED);
	damage_entries(world.core, blob_in(world.core, SY_BLOB_PUBLISHED));
	damage_entries(world.core, blob_in(world.core, SY_BLOB_COMMITTING));
	damage_names(world.core);
	damage_sums(world.core);
	/* Bit by bit, each list's next one is its first. */
	while (world.core->tables.reap_count > 0) {
		sy_entry_reap(world.core, 1);
		tables_check(world.core);
	}
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_damage_seen) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
