#include "blob.h"

#include "entry.h"
#include "guard.h"
#include "hash.h"
#include "intern.h"
#include "layout.h"
#include "record.h"
#include "region.h"
#include "tier_list.h"

static struct sy_region *region_of(struct sy_core *core, const struct sy_blob *blob)
{
	return sy_pool_at(core, &core->tables.regions, blob->region);
}

static uint32_t *id_bucket(struct sy_core *core, uint32_t ns, const sy_blob_id *id)
{
	uint32_t hash = sy_hash_bytes(core, ns, id->bytes, sizeof id->bytes);
	return sy_bucket_at(core, core->tables.id_buckets_at,
	                    sy_range32(hash, core->tables.id_bucket_count));
}

static void link_id(struct sy_core *core, uint32_t index)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	uint32_t *bucket = id_bucket(core, blob->ns, &blob->id);
	blob->id_next = *bucket;
	blob->by_id = 1;
	*bucket = index;
}

static void unlink_id(struct sy_core *core, uint32_t index)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	uint32_t *link = id_bucket(core, blob->ns, &blob->id);
	while (*link != 0 && *link != index)
		link = &sy_blob_at(core, *link)->id_next;
	SY_ASSERT(*link == index);
	if (*link == index)
		*link = blob->id_next;
	blob->id_next = 0;
	blob->by_id = 0;
}

uint32_t sy_blob_find(struct sy_core *core, uint32_t ns, sy_blob_id id)
{
	uint32_t index = *id_bucket(core, ns, &id);
	while (index != 0) {
		const struct sy_blob *blob = sy_blob_at(core, index);
		if (blob->ns == ns && memcmp(blob->id.bytes, id.bytes, sizeof id.bytes) == 0)
			break;
		index = blob->id_next;
	}
	return index;
}

/* What a blob weighs in the account of a state: its bytes in the slab, or for ON_SSD on disk. */
static uint64_t weight(const struct sy_blob *blob, uint8_t state)
{
	return state == SY_BLOB_ON_SSD || blob->region != 0 ? blob->nbytes : 0;
}

static void region_open(struct sy_core *core, uint32_t index, uint32_t region)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	blob->region = region;
	region_of(core, blob)->blob = index;
	blob->offset = region_of(core, blob)->offset;
	if (!SY_MUTANT(16))
		core->tables.rounding_bytes += region_of(core, blob)->bytes - blob->nbytes;
}

static void region_close(struct sy_core *core, struct sy_blob *blob)
{
	core->tables.rounding_bytes -= region_of(core, blob)->bytes - blob->nbytes;
	uint32_t region = blob->region;
	blob->region = 0;
	core->volatiles.tier.rooms++;
	sy_region_give(core, region);
}

bool sy_blob_open_run(struct sy_core *core, uint32_t index)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	SY_ASSERT(blob->disk_region == 0);
	uint32_t run = sy_region_take(core, SY_SPACE_DISK, sy_record_bytes(blob->nbytes));
	if (run == 0)
		return false;
	struct sy_region *region = sy_pool_at(core, &core->tables.regions, run);
	region->blob = index;
	blob->disk_region = run;
	blob->disk_at = region->offset;
	core->tables.disk_bytes[blob->state] += region->bytes * (SY_MUTANT(36) ? 2 : 1);
	return true;
}

void sy_blob_close_run(struct sy_core *core, uint32_t index)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	uint32_t run = blob->disk_region;
	if (run == 0)
		return;
	const struct sy_region *region = sy_pool_at(core, &core->tables.regions, run);
	core->tables.disk_bytes[blob->state] -= region->bytes;
	blob->disk_region = 0;
	blob->disk_at = 0;
	sy_region_give(core, run);
	core->volatiles.tier.unfit_left = core->volatiles.tier.lists[SY_TIER_UNFIT].count;
}

uint32_t sy_blob_copy(struct sy_core *core, uint32_t source, enum sy_space_id space,
                      uint64_t nbytes)
{
	uint32_t index = sy_pool_take(core, &core->tables.blobs);
	if (index == 0)
		return 0;
	uint32_t region = sy_region_take(core, space, nbytes);
	if (region == 0) {
		sy_pool_give(core, &core->tables.blobs, index);
		return 0;
	}
	struct sy_blob *blob = sy_blob_at(core, index);
	const struct sy_blob *from = sy_blob_at(core, source);
	core->volatiles.tier.copy_count++;
	blob->ns = from->ns;
	blob->id = from->id;
	blob->generation = blob->grant = core->tables.next_generation++;
	blob->nbytes = nbytes;
	sy_name_hold(core, &core->tables.namespaces, blob->ns, 1);
	region_open(core, index, region);
	sy_blob_move(core, index, SY_BLOB_LOADING);
	return index;
}

void sy_blob_adopt(struct sy_core *core, uint32_t index, uint32_t copy)
{
	struct sy_blob *blob = sy_blob_at(core, index), *from = sy_blob_at(core, copy);
	SY_ASSERT(blob->state == SY_BLOB_ON_SSD && blob->region == 0 && from->nbytes == blob->nbytes);
	sy_blob_move(core, copy, SY_BLOB_RELEASED);
	core->tables.bytes[SY_BLOB_RELEASED] -= from->nbytes;
	blob->region = from->region;
	blob->offset = from->offset;
	blob->grant = from->grant;
	from->region = 0;
	region_of(core, blob)->blob = index;
	sy_blob_close_run(core, index);
	core->tables.bytes[SY_BLOB_ON_SSD] -= blob->nbytes;
	core->tables.bytes[SY_BLOB_PUBLISHED] += blob->nbytes;
	core->tables.arrows[SY_BLOB_ON_SSD][SY_BLOB_PUBLISHED]++;
	__atomic_store_n(&blob->state, (uint8_t)SY_BLOB_PUBLISHED, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	sy_tier_place(core, index);
}

uint32_t sy_blob_alloc(struct sy_core *core, uint32_t ns, sy_blob_id id, enum sy_space_id space,
                       uint64_t nbytes, uint32_t entry_count, enum sy_resource *ret_short)
{
	SY_ASSERT(nbytes > 0 && nbytes <= SY_BLOB_MAX_BYTES);
	uint32_t count = core->tables.blobs.used - core->volatiles.tier.copy_count;
	uint32_t index =
		count < core->params.max_entries ? sy_pool_take(core, &core->tables.blobs) : 0;
	if (index == 0) {
		*ret_short = SY_RESOURCE_BLOBS;
		return 0;
	}
	uint32_t region = sy_region_take(core, space, nbytes);
	if (region == 0) {
		sy_pool_give(core, &core->tables.blobs, index);
		*ret_short = SY_RESOURCE_BYTES;
		return 0;
	}
	struct sy_blob *blob = sy_blob_at(core, index);
	blob->ns = (uint16_t)ns;
	blob->id = id;
	blob->generation = blob->grant = core->tables.next_generation++;
	blob->nbytes = nbytes;
	blob->entry_count = entry_count;
	sy_name_hold(core, &core->tables.namespaces, ns, 1);
	region_open(core, index, region);
	if (entry_count > 0)
		link_id(core, index);
	sy_blob_move(core, index, SY_BLOB_ALLOCATED);
	return index;
}

void sy_blob_claim(struct sy_core *core, uint32_t index, sy_blob_id id, uint64_t nbytes,
                   uint32_t entry_count)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	const struct sy_region *region = region_of(core, blob);
	SY_ASSERT(blob->state == SY_BLOB_ALLOCATED && sy_blob_is_grant(blob));
	SY_ASSERT(nbytes > 0 && nbytes <= blob->nbytes && entry_count > 0);
	core->tables.rounding_bytes -= region->bytes - blob->nbytes;
	core->tables.bytes[SY_BLOB_ALLOCATED] -= blob->nbytes - nbytes;
	sy_region_trim(core, blob->region, nbytes);
	core->tables.rounding_bytes += region->bytes - nbytes;
	blob->nbytes = nbytes;
	blob->id = id;
	blob->entry_count = entry_count;
	link_id(core, index);
}

/* Gives back all that a blob whose state is FREE already still has. */
static void give_back(struct sy_core *core, uint32_t index)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	bool is_copy = sy_tier_is_on(core) && sy_blob_is_copy(blob);
	if (blob->by_id)
		unlink_id(core, index);
	sy_entry_drop_all(core, index);
	if (blob->region != 0)
		region_close(core, blob);
	sy_blob_close_run(core, index);
	sy_tier_forget(core, index);
	core->volatiles.tier.copy_count -= is_copy;
	sy_name_give(core, &core->tables.namespaces, blob->ns, 1);
	sy_pool_give(core, &core->tables.blobs, index);
}

void sy_blob_move(struct sy_core *core, uint32_t index, enum sy_blob_state to)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	uint8_t from = blob->state;
	SY_ASSERT(index != 0 && sy_blob_arrow_exists(from, (uint8_t)to));
	core->tables.arrows[from][to]++;
	if (from != SY_BLOB_FREE)
		core->tables.bytes[from] -= weight(blob, from);
	if (to != SY_BLOB_FREE)
		core->tables.bytes[to] += weight(blob, (uint8_t)to);
	if (blob->disk_region != 0) {
		const struct sy_region *run = sy_pool_at(core, &core->tables.regions, blob->disk_region);
		core->tables.disk_bytes[from] -= run->bytes;
		core->tables.disk_bytes[to] += run->bytes;
	}
	/* What was written before stands when a killed unit's state is read, and nothing of what
	 * follows does: the same machine reads it, so the compiler alone must keep the order. */
	__atomic_store_n(&blob->state, (uint8_t)to, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (to == SY_BLOB_FREE)
		give_back(core, index);
	else if (to == SY_BLOB_ON_SSD && blob->region != 0)
		region_close(core, blob);
	else if ((to == SY_BLOB_RETIRED || to == SY_BLOB_QUARANTINED) && blob->by_id)
		unlink_id(core, index);
	if (to != SY_BLOB_FREE)
		sy_tier_place(core, index);
}

void sy_blob_restore(struct sy_core *core, uint32_t index, uint32_t region, uint32_t run)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	blob->region = 0;
	if (region != 0)
		region_open(core, index, region);
	core->tables.bytes[blob->state] += weight(blob, blob->state);
	blob->disk_region = run;
	if (run != 0) {
		struct sy_region *at = sy_pool_at(core, &core->tables.regions, run);
		at->blob = index;
		core->tables.disk_bytes[blob->state] += at->bytes;
	}
	blob->id_next = 0;
	blob->by_id = 0;
	/* Copies and grants have no entries and are found by no id. */
	if (blob->state != SY_BLOB_RETIRED && blob->state != SY_BLOB_QUARANTINED
	    && blob->entry_count > 0)
		link_id(core, index);
}

/* An expired pin's time counts from its end, not from here: a blob may come with less time than
 * the last of the list has, and then waits as long as that one, which keeps the list sorted. */
static void quarantine(struct sy_core *core, uint32_t index)
{
	struct sy_blob *blob = sy_blob_at(core, index);
	struct sy_chain *chain = &core->volatiles.quarantined_blobs;
	blob->timer_ns = blob->quarantine_until_ns;
	if (chain->tail != 0)
		blob->timer_ns = sy_max_u64(blob->timer_ns, sy_blob_at(core, chain->tail)->timer_ns);
	sy_blob_move(core, index, SY_BLOB_QUARANTINED);
	sy_chain_append(core, &core->tables.blobs, offsetof(struct sy_blob, timer_link), chain, index);
}

void sy_blob_settle(struct sy_core *core, uint32_t index, uint64_t now_ns)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	if ((blob->state == SY_BLOB_PUBLISHED || blob->state == SY_BLOB_ON_SSD
	     || blob->state == SY_BLOB_DEMOTING) && blob->live_count == 0)
		sy_tier_released(core, index, now_ns);
	if (blob->state == SY_BLOB_COMMITTING && blob->live_count == 0)
		sy_tier_dropped(core, index);
	if (blob->state != SY_BLOB_RELEASED || blob->pin_count > 0)
		return;
	if (blob->io_count > 0 && !SY_MUTANT(31))
		return;
	if (blob->quarantine_until_ns > now_ns && !SY_MUTANT(3))
		quarantine(core, index);
	else
		sy_blob_move(core, index, SY_BLOB_FREE);
}
