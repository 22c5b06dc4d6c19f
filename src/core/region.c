#include "region.h"

#include "guard.h"
#include "hole.h"

/* Cuts what is beyond `bytes` off a region that is in no tree, as a new one behind it. */
static void cut(struct sy_core *core, uint32_t index, uint64_t bytes)
{
	uint32_t rest_index = sy_pool_take(core, &core->tables.regions);
	struct sy_region *region = sy_region_at(core, index), *rest = sy_region_at(core, rest_index);
	rest->offset = region->offset + bytes;
	rest->bytes = region->bytes - bytes;
	rest->prev = index;
	rest->next = region->next;
	if (rest->next != 0)
		sy_region_at(core, rest->next)->prev = rest_index;
	region->next = rest_index;
	region->bytes = bytes;
}

/* Joins a region that is in no tree with the one behind it, which is in none either. */
static void join_next(struct sy_core *core, uint32_t index)
{
	struct sy_region *region = sy_region_at(core, index);
	uint32_t next_index = region->next;
	const struct sy_region *next = sy_region_at(core, next_index);
	region->bytes += next->bytes;
	region->next = next->next;
	if (region->next != 0)
		sy_region_at(core, region->next)->prev = index;
	sy_pool_give(core, &core->tables.regions, next_index);
}

static bool descriptors_left(const struct sy_core *core, uint32_t count)
{
	return core->tables.regions.capacity - core->tables.regions.used >= count;
}

/* False if bytes can be in no slab; otherwise what they take. */
static bool rounded(const struct sy_core *core, uint64_t bytes, uint64_t *ret_bytes)
{
	if (bytes > core->params.slab_bytes)
		return false;
	*ret_bytes = sy_align_up(sy_max_u64(bytes, 1), SY_ENTRY_ALIGN_BYTES);
	return true;
}

void sy_region_init(struct sy_core *core)
{
	uint32_t index = sy_pool_take(core, &core->tables.regions);
	SY_ASSERT(index != 0);
	sy_region_at(core, index)->bytes = core->params.slab_bytes;
	core->tables.region_first = index;
	sy_hole_enter(core, index);
}

uint32_t sy_region_take(struct sy_core *core, uint64_t bytes)
{
	uint64_t need;
	if (!rounded(core, bytes, &need))
		return 0;
	uint32_t index = sy_hole_fit(core, need);
	if (index == 0)
		return 0;
	bool whole = sy_region_at(core, index)->bytes == need;
	if (!whole && !descriptors_left(core, 1))
		return 0;
	sy_hole_leave(core, index);
	if (!whole) {
		cut(core, index, need);
		sy_hole_enter(core, sy_region_at(core, index)->next);
	}
	return index;
}

void sy_region_give(struct sy_core *core, uint32_t index)
{
	struct sy_region *region = sy_region_at(core, index);
	SY_ASSERT(index != 0 && !region->is_hole && region->bytes > 0);
	if (region->next != 0 && sy_region_at(core, region->next)->is_hole) {
		sy_hole_leave(core, region->next);
		join_next(core, index);
	}
	if (region->prev != 0 && sy_region_at(core, region->prev)->is_hole) {
		index = region->prev;
		sy_hole_leave(core, index);
		join_next(core, index);
	}
	sy_hole_enter(core, index);
}

uint32_t sy_region_carve(struct sy_core *core, uint64_t offset, uint64_t bytes)
{
	uint64_t need;
	uint32_t index = core->tables.region_first;
	if (!rounded(core, bytes, &need) || offset % SY_ENTRY_ALIGN_BYTES != 0)
		return 0;
	for (uint32_t i = 0; i < core->tables.regions.used && index != 0; i++) {
		const struct sy_region *at = sy_region_at(core, index);
		if (at->offset <= offset && offset - at->offset < at->bytes)
			break;
		index = at->next;
	}
	if (index == 0)
		return 0;
	const struct sy_region *hole = sy_region_at(core, index);
	uint64_t before = offset - hole->offset;
	if (!hole->is_hole || need > hole->bytes - before || !descriptors_left(core, 2))
		return 0;
	sy_hole_leave(core, index);
	if (before > 0) {
		cut(core, index, before);
		uint32_t front = index;
		index = hole->next;
		sy_hole_enter(core, front);
	}
	if (sy_region_at(core, index)->bytes > need) {
		cut(core, index, need);
		sy_hole_enter(core, sy_region_at(core, index)->next);
	}
	return index;
}

uint64_t sy_region_free_bytes(const struct sy_core *core)
{
	return core->tables.bytes[SY_BLOB_FREE];
}

uint32_t sy_region_hole_count(const struct sy_core *core)
{
	return core->tables.hole_count;
}

const char *sy_region_fault(struct sy_core *core)
{
	uint64_t end = 0, free_bytes = 0;
	uint32_t index = core->tables.region_first, prev = 0, holes = 0, count = 0;
	bool after_hole = false;
	for (; index != 0; count++) {
		const struct sy_region *region = sy_region_at(core, index);
		if (count >= core->tables.regions.used || index > core->tables.regions.touched)
			return "more regions are linked than used, or others";
		if (region->prev != prev || region->offset != end || region->bytes == 0
		    || region->bytes % SY_ENTRY_ALIGN_BYTES != 0)
			return "regions do not follow each other";
		if (region->is_hole && (after_hole || region->blob != 0))
			return "two holes side by side, or a hole with a blob";
		if (region->is_hole) {
			holes++;
			free_bytes += region->bytes;
		}
		after_hole = region->is_hole;
		end = region->offset + region->bytes;
		prev = index;
		index = region->next;
	}
	if (count != core->tables.regions.used || end != core->params.slab_bytes)
		return "regions do not cover the slab";
	if (holes != core->tables.hole_count || free_bytes != core->tables.bytes[SY_BLOB_FREE])
		return "the number or bytes of holes is wrong";
	return sy_hole_fault(core);
}

void sy_region_validate(struct sy_core *core)
{
	SY_ASSERT(sy_region_fault(core) == NULL);
}
