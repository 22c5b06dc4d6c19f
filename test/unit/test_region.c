/* The slab's allocator against a naive one: a sorted list of taken runs, searched in full. */
#include "core_tables.h"

struct run {
	uint64_t offset, bytes;
	uint32_t region;
};

struct model {
	struct run *runs; /* sorted by offset */
	uint32_t count;
	uint64_t slab_bytes;
};

struct holes {
	uint64_t best_offset, free_bytes, largest;
	uint32_t count;
	bool found;
};

/* Looks at every hole; `need` is what a run takes. */
static struct holes model_holes(const struct model *model, uint64_t need)
{
	struct holes holes = {0};
	uint64_t best = UINT64_MAX, at = 0;
	for (uint32_t i = 0; i <= model->count; i++) {
		uint64_t end = i < model->count ? model->runs[i].offset : model->slab_bytes;
		uint64_t bytes = end - at;
		holes.count += bytes > 0;
		holes.free_bytes += bytes;
		holes.largest = sy_max_u64(holes.largest, bytes);
		if (bytes >= need && bytes < best) {
			best = bytes;
			holes.best_offset = at;
			holes.found = true;
		}
		if (i < model->count)
			at = model->runs[i].offset + model->runs[i].bytes;
	}
	return holes;
}

static void model_add(struct model *model, struct run run)
{
	uint32_t i = model->count++;
	for (; i > 0 && model->runs[i - 1].offset > run.offset; i--)
		model->runs[i] = model->runs[i - 1];
	model->runs[i] = run;
}

static struct run model_drop(struct model *model, uint32_t i)
{
	struct run run = model->runs[i];
	model->count--;
	memmove(&model->runs[i], &model->runs[i + 1], (model->count - i) * sizeof run);
	return run;
}

static struct sy_region *region_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.regions, index);
}

static void check_same(struct sy_core *core, const struct model *model)
{
	struct holes holes = model_holes(model, 1);
	assert_int_equal(sy_region_free_bytes(core, SY_SPACE_SLAB), holes.free_bytes);
	assert_int_equal(sy_region_largest_hole(core, SY_SPACE_SLAB), holes.largest);
	assert_int_equal(sy_region_hole_count(core, SY_SPACE_SLAB), holes.count);
}

static void step_take(struct sy_core *core, struct model *model, uint64_t bytes)
{
	uint64_t need = sy_align_up(bytes, 64);
	struct holes holes = model_holes(model, need);
	uint32_t region = sy_region_take(core, SY_SPACE_SLAB, bytes);
	assert_int_equal(region != 0, holes.found);
	if (region == 0) {
		assert_true(sy_region_largest_hole(core, SY_SPACE_SLAB) < need);
		return;
	}
	assert_int_equal(region_at(core, region)->offset, holes.best_offset);
	assert_int_equal(region_at(core, region)->bytes, need);
	model_add(model, (struct run){ holes.best_offset, need, region });
}

/* The front of one that is taken stays. */
static void step_trim(struct sy_core *core, struct model *model, struct sy_prng *prng)
{
	struct run run = model_drop(model, (uint32_t)sy_prng_below(prng, model->count));
	uint64_t bytes = 1 + sy_prng_below(prng, run.bytes);
	sy_region_trim(core, run.region, bytes);
	assert_int_equal(region_at(core, run.region)->offset, run.offset);
	run.bytes = sy_align_up(bytes, 64);
	assert_int_equal(region_at(core, run.region)->bytes, run.bytes);
	model_add(model, run);
}

/* Sizes of one of four tastes, so that slabs end up in quite different fragments. */
static uint64_t random_bytes(struct sy_prng *prng, uint64_t slab_bytes, uint32_t taste)
{
	switch (taste) {
	case 0:
		return 1 + sy_prng_below(prng, 64);
	case 1:
		return 64 * (1 + sy_prng_below(prng, 8));
	case 2:
		return (uint64_t)1 << sy_prng_below(prng, 16);
	default:
		return 1 + sy_prng_below(prng, sy_prng_chance(prng, 5) ? 2 * slab_bytes : slab_bytes / 64);
	}
}

static void random_walk(uint64_t seed, uint32_t max_entries, uint64_t slab_bytes, int steps)
{
	struct sy_core_params params = tables_params(max_entries, slab_bytes);
	params.disk_bytes = 0;
	struct sy_core *core = tables_open(&params);
	struct model model = { calloc(max_entries, sizeof(struct run)), 0, slab_bytes };
	struct sy_prng prng;
	assert_non_null(model.runs);
	sy_prng_seed(&prng, seed);
	uint32_t taste = 0, takes = 50;
	for (int i = 0; i < steps; i++) {
		if (i % 500 == 0) {
			taste = (uint32_t)sy_prng_below(&prng, 4);
			takes = 30 + (uint32_t)sy_prng_below(&prng, 45);
		}
		if (sy_prng_chance(&prng, takes) && model.count < max_entries) {
			step_take(core, &model, random_bytes(&prng, slab_bytes, taste));
		} else if (model.count > 0 && sy_prng_chance(&prng, 10)) {
			step_trim(core, &model, &prng);
		} else if (model.count > 0) {
			struct run run = model_drop(&model, (uint32_t)sy_prng_below(&prng, model.count));
			sy_region_give(core, run.region);
		}
		check_same(core, &model);
		if (sy_prng_chance(&prng, 3))
			sy_region_validate(core);
		if (i % 5000 == 4999)
			core = tables_move(core);
	}
	while (model.count > 0)
		sy_region_give(core, model_drop(&model, model.count - 1).region);
	assert_int_equal(sy_region_largest_hole(core, SY_SPACE_SLAB), slab_bytes);
	assert_int_equal(core->tables.regions.used, 1);
	sy_region_validate(core);
	free(model.runs);
	tables_close(core);
}

static void test_random(void **state)
{
	(void)state;
	uint64_t seed = harness_seed();
	random_walk(seed, 400, 64 * 1024, 30000);
	random_walk(seed + 1, 50, 1 << 20, 20000);
	random_walk(seed + 2, 3, 640, 5000);
	random_walk(seed + 3, 2000, (uint64_t)1 << 40, 20000);
}

/* As many blobs as there may be, a hole at each side of each: descriptors suffice. */
static void test_all_descriptors(void **state)
{
	(void)state;
	enum { COUNT = 1000 };
	struct sy_core_params params = tables_params(COUNT, 64 * (2 * COUNT + 1));
	params.disk_bytes = 0;
	struct sy_core *core = tables_open(&params);
	for (uint64_t i = 0; i < COUNT; i++)
		assert_int_not_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 + 128 * i, 1), 0);
	assert_int_equal(sy_region_hole_count(core, SY_SPACE_SLAB), COUNT + 1);
	assert_int_equal(core->tables.regions.used, core->tables.regions.capacity);
	sy_region_validate(core);
	assert_int_equal(sy_region_free_bytes(core, SY_SPACE_SLAB), 64 * (COUNT + 1));
	assert_int_equal(sy_region_largest_hole(core, SY_SPACE_SLAB), 64);
	assert_int_equal(sy_region_take(core, SY_SPACE_SLAB, 65), 0);
	assert_int_not_equal(sy_region_take(core, SY_SPACE_SLAB, 64), 0);
	sy_region_validate(core);
	tables_close(core);
}

/* Without a descriptor for the rest a hole is not cut, and nothing changes. */
static void test_no_descriptor(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(1, 64 * 16);
	params.disk_bytes = 0;
	struct sy_core *core = tables_open(&params);
	assert_int_not_equal(sy_region_take(core, SY_SPACE_SLAB, 64), 0);
	assert_int_not_equal(sy_region_take(core, SY_SPACE_SLAB, 64), 0);
	assert_int_equal(sy_region_take(core, SY_SPACE_SLAB, 64), 0);
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 4, 64), 0);
	sy_region_validate(core);
	assert_int_not_equal(sy_region_take(core, SY_SPACE_SLAB, 64 * 14), 0);
	assert_int_equal(sy_region_hole_count(core, SY_SPACE_SLAB), 0);
	assert_int_equal(sy_region_largest_hole(core, SY_SPACE_SLAB), 0);
	sy_region_validate(core);
	tables_close(core);
}

static void test_carve(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(16, 64 * 16);
	params.disk_bytes = 0;
	struct sy_core *core = tables_open(&params);
	uint32_t middle = sy_region_carve(core, SY_SPACE_SLAB, 64 * 4, 100);
	assert_int_not_equal(middle, 0);
	assert_int_equal(region_at(core, middle)->bytes, 128);
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 5, 64), 0);  /* taken */
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 3, 65), 0);  /* runs into it */
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 15, 65), 0); /* past the end */
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 16, 1), 0);
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 32, 1), 0);
	assert_int_equal(sy_region_carve(core, SY_SPACE_SLAB, 0, UINT64_MAX), 0);
	assert_int_not_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 3, 64), 0);
	assert_int_not_equal(sy_region_carve(core, SY_SPACE_SLAB, 0, 64 * 3), 0);
	assert_int_not_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * 6, 64 * 10), 0);
	assert_int_equal(sy_region_hole_count(core, SY_SPACE_SLAB), 0);
	sy_region_validate(core);
	sy_region_give(core, middle);
	assert_int_equal(sy_region_largest_hole(core, SY_SPACE_SLAB), 128);
	sy_region_validate(core);
	tables_close(core);
}

static void test_extreme_sizes(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(4, 640);
	params.disk_bytes = 0;
	struct sy_core *core = tables_open(&params);
	assert_int_equal(sy_region_take(core, SY_SPACE_SLAB, UINT64_MAX), 0);
	assert_int_equal(sy_region_take(core, SY_SPACE_SLAB, 641), 0);
	uint32_t all = sy_region_take(core, SY_SPACE_SLAB, 577);
	assert_int_not_equal(all, 0);
	assert_int_equal(region_at(core, all)->bytes, 640);
	sy_region_give(core, all);
	sy_region_validate(core);
	tables_close(core);
}

/* What the validation is worth: each kind of damage is seen. */
static void test_fault_seen(void **state)
{
	(void)state;
	struct sy_core_params params = tables_params(16, 64 * 64);
	params.disk_bytes = 0;
	struct sy_core *core = tables_open(&params);
	for (uint64_t i = 0; i < 8; i++)
		assert_int_not_equal(sy_region_carve(core, SY_SPACE_SLAB, 64 * (63 - 4 * i), 64), 0);
	assert_null(sy_region_fault(core));
	struct sy_region *root = region_at(core, core->tables.spaces[SY_SPACE_SLAB].hole_root);
	struct sy_space *space = &core->tables.spaces[SY_SPACE_SLAB];
	uint64_t *words[] = { &root->bytes, &root->offset, &space->free_bytes };
	for (size_t i = 0; i < COUNT_OF(words); i++) {
		*words[i] += 64;
		assert_non_null(sy_region_fault(core));
		*words[i] -= 64;
	}
	uint32_t *links[] = { &root->prev, &root->next, &root->left, &root->right,
	                      &space->hole_count, &space->first };
	for (size_t i = 0; i < COUNT_OF(links); i++) {
		uint32_t kept = *links[i];
		*links[i] = kept + 1;
		assert_non_null(sy_region_fault(core));
		*links[i] = 0;
		assert_non_null(sy_region_fault(core));
		*links[i] = kept;
	}
	root->height++;
	assert_non_null(sy_region_fault(core));
	root->height--;
	root->is_hole = 0;
	assert_non_null(sy_region_fault(core));
	root->is_hole = 1;
	assert_null(sy_region_fault(core));
	tables_close(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),       cmocka_unit_test(test_all_descriptors),
		cmocka_unit_test(test_no_descriptor), cmocka_unit_test(test_carve),
		cmocka_unit_test(test_extreme_sizes), cmocka_unit_test(test_fault_seen),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
