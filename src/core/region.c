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
	rest->space = region->space;
	rest->prev = index;
	rest->next = region->next;
	if (rest->next != 0)
		sy_region_at(core, rest->next)->prev = rest_index;
	region->next = rest_index;
	region->bytes = bytes;
	core->tables.spaces[region->space].region_count++;
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
	core->tables.spaces[region->space].region_count--;
	sy_pool_give(core, &core->tables.regions, next_index);
}

static bool descriptors_left(const struct sy_core *core, uint32_t count)
{
	return core->tables.regions.capacity - core->tables.regions.used >= count;
}

/* False if bytes can be in no such space; otherwise what they take. */
static bool rounded(const struct sy_space *space, uint64_t bytes, uint64_t *ret_bytes)
{
	if (bytes > space->bytes)
		return false;
	*ret_bytes = sy_align_up(sy_max_u64(bytes, 1), space->align);
	return true;
}

void sy_region_init(struct sy_core *core)
{
	for (uint8_t id = 0; id < SY_SPACE_COUNT; id++) {
		struct sy_space *space = &core->tables.spaces[id];
		space->hole_root = space->hole_count = space->first = space->region_count = 0;
		space->free_bytes = 0;
		if (space->bytes == 0)
			continue;
		uint32_t index = sy_pool_take(core, &core->tables.regions);
		SY_ASSERT(index != 0);
		sy_region_at(core, index)->offset = space->start;
		sy_region_at(core, index)->bytes = space->bytes;
		sy_region_at(core, index)->space = id;
		space->first = index;
		space->region_count = 1;
		sy_hole_enter(core, index);
	}
}

uint32_t sy_region_take(struct sy_core *core, enum sy_space_id space, uint64_t bytes)
{
	uint64_t need;
	if (!rounded(&core->tables.spaces[space], bytes, &need))
		return 0;
	uint32_t index = sy_hole_fit(core, space, need);
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

void sy_region_trim(struct sy_core *core, uint32_t index, uint64_t bytes)
{
	const struct sy_region *region = sy_region_at(core, index);
	uint64_t need = sy_align_up(bytes, core->tables.spaces[region->space].align);
	SY_ASSERT(!region->is_hole && bytes > 0 && need <= region->bytes);
	if (need >= region->bytes)
		return;
	if (region->next != 0 && sy_region_at(core, region->next)->is_hole) {
		sy_hole_leave(core, region->next);
		join_next(core, index);
	}
	/* There are as many descriptors as regions with a hole behind each. */
	SY_ASSERT(descriptors_left(core, 1));
	cut(core, index, need);
	sy_hole_enter(core, region->next);
}

uint32_t sy_region_carve(struct sy_core *core, enum sy_space_id id, uint64_t offset,
                         uint64_t bytes)
{
	const struct sy_space *space = &core->tables.spaces[id];
	uint64_t need;
	uint32_t index = space->first;
	if (!rounded(space, bytes, &need) || offset % space->align != 0)
		return 0;
	for (uint32_t i = 0; i < space->region_count && index != 0; i++) {
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

enum sy_space_id sy_region_space_of(const struct sy_core *core, uint64_t offset)
{
	const struct sy_space *staging = &core->tables.spaces[SY_SPACE_STAGING];
	return staging->bytes > 0 && offset >= staging->start ? SY_SPACE_STAGING : SY_SPACE_SLAB;
}

uint64_t sy_region_free_bytes(const struct sy_core *core, enum sy_space_id space)
{
	return core->tables.spaces[space].free_bytes;
}

uint32_t sy_region_hole_count(const struct sy_core *core, enum sy_space_id space)
{
	return core->tables.spaces[space].hole_count;
}

static const char *space_fault(struct sy_core *core, enum sy_space_id id)
{
	const struct sy_space *space = &core->tables.spaces[id];
	uint64_t end = space->start, free_bytes = 0;
	uint32_t index = space->first, prev = 0, holes = 0, count = 0;
	bool after_hole = false;
	for (; index != 0; count++) {
		const struct sy_region *region = sy_region_at(core, index);
		if (count >= space->region_count || index > core->tables.regions.touched)
			return "more regions are linked than used, or others";
		if (region->prev != prev || region->offset != end || region->bytes == 0
		    || region->bytes % space->align != 0 || region->space != id)
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
	if (count != space->region_count || end != space->start + space->bytes)
		return "regions do not cover their space";
	if (holes != space->hole_count || free_bytes != space->free_bytes)
		return "the number or bytes of holes is wrong";
	return sy_hole_fault(core, id);
}

const char *sy_region_fault(struct sy_core *core)
{
	const char *fault = NULL;
	uint32_t count = 0;
	for (uint8_t id = 0; id < SY_SPACE_COUNT && fault == NULL; id++) {
		if (core->tables.spaces[id].align != 0)
			fault = space_fault(core, (enum sy_space_id)id);
		count += core->tables.spaces[id].region_count;
	}
	if (fault == NULL && count != core->tables.regions.used)
		fault = "a region is in no space";
	return fault;
}

void sy_region_validate(struct sy_core *core)
{
	SY_ASSERT(sy_region_fault(core) == NULL);
}
