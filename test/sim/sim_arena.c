/* A unit's arena holds no pointers and tells everything derived from it: at any step it may go
 * on at another address, and a rebuilt copy says the same as the original. */
#include <stdlib.h>

#include "blob.h"
#include "entry.h"
#include "region.h"
#include "serve_state.h"
#include "sim.h"

void sim_arena_move(struct sim_life *life)
{
	uint8_t *to = aligned_alloc(64, sy_align_up(life->arena_bytes, 64));
	if (to == NULL)
		abort();
	memcpy(to, life->arena, life->arena_bytes);
	memset(life->arena, 0xdd, life->arena_bytes);
	free(life->arena);
	life->arena = to;
	life->serve->core = (struct sy_core *)(void *)to;
	sim_count_fault(life->sim, SIM_FAULT_ARENA_MOVE);
	sim_log(life->sim, "u%u goes on at another address", life->slot);
}

/* Every visible entry is found in the copy as it was, and there are no others. */
static bool same_entries(struct sy_core *core, struct sy_core *copy)
{
	for (uint32_t i = 1; i <= core->tables.entries.touched; i++) {
		const struct sy_entry *e = sy_entry_at(core, i);
		uint8_t shown = e->flags & (SY_ENTRY_LIVE | SY_ENTRY_PENDING);
		if (shown != SY_ENTRY_LIVE)
			continue;
		if (sy_entry_find(copy, e->ns, e->row, e->field) != i)
			return false;
		const struct sy_entry *c = sy_entry_at(copy, i);
		if (c->extent != e->extent || c->blob != e->blob || c->offset64 != e->offset64 ||
		    sy_blob_at(copy, c->blob)->generation != sy_blob_at(core, e->blob)->generation)
			return false;
	}
	return true;
}

static const char *derived_fault(struct sy_core *core, struct sy_core *copy)
{
	const struct sy_tables *a = &core->tables, *b = &copy->tables;
	if (memcmp(a->bytes, b->bytes, sizeof a->bytes) != 0 ||
	    memcmp(a->disk_bytes, b->disk_bytes, sizeof a->disk_bytes) != 0 ||
	    a->rounding_bytes != b->rounding_bytes)
		return "its accounts";
	if (a->row_count != b->row_count || a->entries.used != b->entries.used ||
	    a->blobs.used != b->blobs.used)
		return "its counts of rows, entries and blobs";
	if (a->spaces[SY_SPACE_SLAB].hole_count != b->spaces[SY_SPACE_SLAB].hole_count ||
	    sy_region_largest_hole(core, SY_SPACE_SLAB) != sy_region_largest_hole(copy, SY_SPACE_SLAB))
		return "its holes";
	if (a->fields.pool.used != b->fields.pool.used || a->shapes.pool.used != b->shapes.pool.used ||
	    a->namespaces.pool.used != b->namespaces.pool.used)
		return "its names and shapes";
	return same_entries(core, copy) ? NULL : "its entries";
}

/* What a unit that was killed now would be started again with. */
static const char *restart_fault(struct sy_core *core, struct sy_core *copy)
{
	const struct sy_tables *a = &core->tables, *b = &copy->tables;
	uint64_t free_bytes = b->spaces[SY_SPACE_SLAB].free_bytes +
	                      b->spaces[SY_SPACE_STAGING].free_bytes;
	if (a->bytes[SY_BLOB_PUBLISHED] + a->bytes[SY_BLOB_DEMOTING] != b->bytes[SY_BLOB_PUBLISHED] ||
	    a->bytes[SY_BLOB_ON_SSD] != b->bytes[SY_BLOB_ON_SSD] ||
	    a->disk_bytes[SY_BLOB_ON_SSD] != b->disk_bytes[SY_BLOB_ON_SSD] ||
	    free_bytes + b->bytes[SY_BLOB_PUBLISHED] + b->rounding_bytes != core->params.slab_bytes)
		return "its accounts";
	/* Rows of puts that wait for their record are not among them. */
	if (a->bytes[SY_BLOB_COMMITTING] > 0 ? a->row_count < b->row_count
	                                     : a->row_count != b->row_count)
		return "its rows";
	return same_entries(core, copy) ? NULL : "its entries";
}

/* Memory for a copy that goes at once: to map and clear it each time takes a sanitizer longer than
 * all that is done with it. */
struct kept {
	uint8_t *data;
	uint64_t bytes;
};

/* At its end, so that a sanitizer sees who writes past it. */
static struct sy_core *copy_into(struct kept *kept, const struct sim_life *life)
{
	uint64_t bytes = sy_align_up(life->arena_bytes, 64);
	if (kept->bytes < bytes) {
		free(kept->data);
		*kept = (struct kept){aligned_alloc(64, bytes), bytes};
		if (kept->data == NULL)
			abort();
	}
	uint8_t *copy = kept->data + (kept->bytes - bytes);
	memcpy(copy, life->arena, life->arena_bytes);
	return (struct sy_core *)(void *)copy;
}

/* A rebuild gives back at once what the unit gives back bit by bit: this is a copy in which all of
 * it is. */
static struct sy_core *reap(struct sim_life *life)
{
	static struct kept kept;
	struct sy_core *reaped = copy_into(&kept, life);
	sy_entry_reap(reaped, UINT32_MAX);
	const char *fault = sy_core_audit(reaped);
	if (fault != NULL)
		sim_fail(life->sim, 6, "u%u all given back: %s", life->slot, fault);
	return reaped;
}

static void rebuild(struct sim_life *life, struct sy_core *reaped, bool keep_volatile)
{
	static struct kept kept;
	struct sy_core *copy = copy_into(&kept, life);
	sy_core_rebuild(copy, keep_volatile);
	const char *fault = sy_core_audit(copy);
	if (fault != NULL)
		sim_fail(life->sim, 6, "u%u rebuilt%s: %s", life->slot,
		         keep_volatile ? "" : " anew", fault);
	fault = keep_volatile ? derived_fault(reaped, copy)
	                      : restart_fault(sy_serve_core(life->serve), copy);
	if (fault != NULL)
		sim_fail(life->sim, 6, "u%u rebuilt%s has not %s", life->slot,
		         keep_volatile ? "" : " anew", fault);
}

void sim_arena_rebuild(struct sim_life *life)
{
	sim_count_fault(life->sim, SIM_FAULT_ARENA_REBUILD);
	struct sy_core *reaped = reap(life);
	rebuild(life, reaped, true);
	rebuild(life, reaped, false);
}
