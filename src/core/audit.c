/* The audit of the tables: counts everything again (I6). Nothing is marked and nothing allocated:
 * an item of a pool is either free, all zero and in the free list, or in use and in exactly one
 * owner's list, which it names; so where the lengths add up no item is in two places or none. */
#include "audit.h"

#include "entry.h"
#include "hash.h"
#include "intern.h"
#include "layout.h"
#include "record.h"
#include "region.h"

#include <string.h>

/* What the blobs say, to be compared with what the tables say. */
struct totals {
	uint64_t bytes[SY_BLOB_STATE_COUNT], disk_bytes[SY_BLOB_STATE_COUNT];
	uint64_t rounding_bytes;
	uint32_t blobs, by_id, regions, runs, entries, live;
};

static bool is_zero(const uint8_t *at, size_t bytes)
{
	return bytes == 0 || (at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0);
}

const char *sy_audit_pool(struct sy_core *core, const struct sy_pool *pool)
{
	uint32_t count = 0;
	if (pool->used > pool->touched || pool->touched > pool->capacity)
		return "a pool has more in use than it ever gave";
	for (uint32_t i = pool->free_head; i != 0; count++) {
		const uint8_t *item = sy_pool_at(core, pool, i);
		if (i > pool->touched || count >= pool->touched - pool->used)
			return "a free list is longer than what is free, or leaves its pool";
		if (!is_zero(item + sizeof(uint32_t), pool->item_bytes - sizeof(uint32_t)))
			return "a free item is not zero";
		i = sy_load_u32(item);
	}
	return count == pool->touched - pool->used ? NULL : "a pool lost a free item";
}

static const char *pools_fault(struct sy_core *core)
{
	const struct sy_tables *tables = &core->tables;
	const struct sy_pool *pools[] = {
		&tables->blobs, &tables->entries, &tables->regions, &tables->fields.pool,
		&tables->namespaces.pool, &tables->shapes.pool,
	};
	const char *fault = NULL;
	for (size_t i = 0; i < sizeof pools / sizeof pools[0] && fault == NULL; i++)
		fault = sy_audit_pool(core, pools[i]);
	return fault;
}

static const char *entries_of_fault(struct sy_core *core, uint32_t index, struct totals *totals)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	uint32_t count = 0, live = 0;
	for (uint32_t i = blob->entry_head; i != 0; count++) {
		const struct sy_entry *entry = sy_entry_at(core, i);
		if (i > core->tables.entries.touched || count >= blob->entry_count)
			return "a blob's list of entries is too long";
		if (entry->blob != index || entry->ns != blob->ns)
			return "an entry stands in the list of another blob";
		if (entry->field == 0 || entry->field > core->tables.fields.pool.touched
		    || entry->shape > core->tables.shapes.pool.touched)
			return "an entry has no field, or a field or shape that was never taken";
		bool is_live = (entry->flags & SY_ENTRY_LIVE) != 0;
		bool pending = (entry->flags & SY_ENTRY_PENDING) != 0;
		if (pending != (is_live && blob->state == SY_BLOB_COMMITTING))
			return "an entry is pending and its blob is not committing, or the other way";
		if (!is_live && (entry->key_next != 0 || entry->row_next != 0 || entry->row_prev != 0))
			return "a dead entry has links";
		live += is_live;
		i = entry->blob_next;
	}
	bool has_entries = blob->state != SY_BLOB_ALLOCATED && blob->state != SY_BLOB_RETIRED
		&& blob->state != SY_BLOB_LOADING;
	if (count != (has_entries ? blob->entry_count : 0))
		return "a blob has not as many entries as it was allocated for";
	if (live != blob->live_count)
		return "a blob's count of live entries is wrong";
	if (live > 0 && (blob->state == SY_BLOB_RELEASED || blob->state == SY_BLOB_QUARANTINED))
		return "a released blob has a live entry";
	if (live == 0 && (blob->state == SY_BLOB_PUBLISHED || blob->state == SY_BLOB_ON_SSD))
		return "a published blob has no live entry";
	totals->entries += count;
	totals->live += live;
	return NULL;
}

static const char *region_of_fault(struct sy_core *core, uint32_t index, struct totals *totals)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	if (blob->state == SY_BLOB_ON_SSD || blob->region == 0) {
		if (blob->region != 0
		    || (blob->state != SY_BLOB_ON_SSD && blob->state != SY_BLOB_RELEASED))
			return "a blob has a region where it should not, or none where it should";
		totals->bytes[blob->state] += blob->state == SY_BLOB_ON_SSD ? blob->nbytes : 0;
		return NULL;
	}
	if (blob->region > core->tables.regions.touched)
		return "a blob's region is out of range";
	const struct sy_region *region = sy_pool_at(core, &core->tables.regions, blob->region);
	if (region->is_hole || region->blob != index || region->offset != blob->offset
	    || region->space == SY_SPACE_DISK
	    || region->bytes != sy_align_up(blob->nbytes, SY_ENTRY_ALIGN_BYTES))
		return "a blob and its region do not agree";
	totals->regions++;
	totals->bytes[blob->state] += blob->nbytes;
	totals->rounding_bytes += region->bytes - blob->nbytes;
	return NULL;
}

/* A record on disk is there where the state says so, and nowhere else. */
static const char *run_of_fault(struct sy_core *core, uint32_t index, struct totals *totals)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	bool needs = blob->state == SY_BLOB_ON_SSD || blob->state == SY_BLOB_DEMOTING
		|| blob->state == SY_BLOB_COMMITTING;
	if (blob->disk_region == 0)
		return needs ? "a blob has no record on disk" : NULL;
	if (!needs && blob->state != SY_BLOB_RELEASED && blob->state != SY_BLOB_QUARANTINED)
		return "a blob has a record on disk that it does not need";
	if (blob->disk_region > core->tables.regions.touched)
		return "a blob's record is out of range";
	const struct sy_region *run = sy_pool_at(core, &core->tables.regions, blob->disk_region);
	if (run->is_hole || run->blob != index || run->offset != blob->disk_at
	    || run->space != SY_SPACE_DISK || run->bytes != sy_record_bytes(blob->nbytes))
		return "a blob and its record do not agree";
	totals->runs++;
	totals->disk_bytes[blob->state] += run->bytes;
	return NULL;
}

static const char *blobs_fault(struct sy_core *core, struct totals *totals)
{
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state == SY_BLOB_FREE)
			continue;
		if (blob->state >= SY_BLOB_STATE_COUNT)
			return "a blob is in no state";
		if (blob->ns == 0 || blob->ns > core->tables.namespaces.pool.touched)
			return "a blob has no namespace, or one that was never taken";
		totals->blobs++;
		totals->by_id += blob->by_id;
		bool gone = blob->state == SY_BLOB_RETIRED || blob->state == SY_BLOB_QUARANTINED
			|| blob->entry_count == 0; /* a copy or a grant */
		if (blob->by_id == gone)
			return "a blob that is gone is found by its id, or one that is not is not";
		if (blob->generation == 0 || blob->generation >= core->tables.next_generation
		    || blob->accept_seq >= core->tables.next_accept_seq)
			return "a blob has a generation or place that was not given yet";
		const char *fault = region_of_fault(core, i, totals);
		if (fault == NULL)
			fault = run_of_fault(core, i, totals);
		if (fault == NULL)
			fault = entries_of_fault(core, i, totals);
		if (fault != NULL)
			return fault;
	}
	return NULL;
}

/* What waits to be given back is as many dead entries as counted, that nothing links. */
static const char *reaped_fault(struct sy_core *core)
{
	const struct sy_tables *tables = &core->tables;
	uint32_t count = 0, list = tables->reap_head;
	while (list != 0) {
		uint32_t next = list <= tables->entries.touched ? sy_entry_at(core, list)->row_next : 0;
		for (uint32_t i = list; i != 0; count++) {
			if (i > tables->entries.touched || count >= tables->reap_count)
				return "the list of entries to give back is too long";
			const struct sy_entry *entry = sy_entry_at(core, i);
			if (entry->flags != 0 || entry->field == 0 || entry->key_next != 0
			    || entry->row_prev != 0 || (i == list ? entry->blob : entry->row_next) != 0)
				return "an entry that waits to be given back is alive or linked";
			i = entry->blob_next;
		}
		list = next;
	}
	return count == tables->reap_count ? NULL : "the count of entries to give back is wrong";
}

static const char *accounts_fault(struct sy_core *core, const struct totals *totals)
{
	const struct sy_tables *tables = &core->tables;
	const struct sy_space *spaces = tables->spaces;
	uint64_t sum = spaces[SY_SPACE_SLAB].free_bytes + spaces[SY_SPACE_STAGING].free_bytes
		+ tables->rounding_bytes;
	uint64_t disk_sum = spaces[SY_SPACE_DISK].free_bytes;
	uint32_t holes = 0;
	const char *reaped = reaped_fault(core);
	for (uint32_t id = 0; id < SY_SPACE_COUNT; id++)
		holes += spaces[id].hole_count;
	if (reaped != NULL)
		return reaped;
	if (totals->blobs != tables->blobs.used
	    || totals->entries + tables->reap_count != tables->entries.used)
		return "blobs or entries in use are not as many as the pools say";
	if (totals->regions + totals->runs + holes != tables->regions.used)
		return "a region is neither a hole nor a blob's";
	if (totals->rounding_bytes != tables->rounding_bytes)
		return "the account of rounding is wrong";
	for (uint32_t state = SY_BLOB_FREE + 1; state < SY_BLOB_STATE_COUNT; state++) {
		if (totals->bytes[state] != tables->bytes[state])
			return "the account of a state is wrong";
		if (totals->disk_bytes[state] != tables->disk_bytes[state])
			return "the account of the disk of a state is wrong";
		disk_sum += totals->disk_bytes[state];
		sum += state != SY_BLOB_ON_SSD ? tables->bytes[state] : 0;
	}
	if (disk_sum != core->params.disk_bytes)
		return "the accounts of the disk do not sum to its size";
	return sum == core->params.slab_bytes ? NULL : "the accounts do not sum to the capacity";
}

static const char *id_hash_fault(struct sy_core *core, const struct totals *totals)
{
	uint32_t count = 0;
	for (uint32_t k = 0; k < core->tables.id_bucket_count; k++) {
		uint32_t i = *sy_bucket_at(core, core->tables.id_buckets_at, k);
		for (; i != 0; i = sy_blob_at(core, i)->id_next) {
			if (i > core->tables.blobs.touched || ++count > totals->by_id
			    || !sy_blob_at(core, i)->by_id)
				return "the id hash has a blob that is not found by its id";
		}
	}
	if (count != totals->by_id)
		return "the id hash lacks a blob";
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->by_id && sy_blob_find(core, blob->ns, blob->id) != i)
			return "a blob is not found by its id, or two have the same";
	}
	return NULL;
}

/* Is this one older than another of its key in front of it, and that one still pending? */
static bool key_order_right(struct sy_core *core, uint32_t head, uint32_t index)
{
	const struct sy_entry *entry = sy_entry_at(core, index);
	for (uint32_t i = head; i != index; i = sy_entry_at(core, i)->key_next) {
		const struct sy_entry *other = sy_entry_at(core, i);
		if (other->row != entry->row || other->field != entry->field || other->ns != entry->ns)
			continue;
		if ((other->flags & SY_ENTRY_PENDING) == 0 || sy_blob_at(core, other->blob)->accept_seq
		    <= sy_blob_at(core, entry->blob)->accept_seq)
			return false;
	}
	return true;
}

static const char *key_hash_fault(struct sy_core *core, uint32_t live)
{
	const struct sy_tables *tables = &core->tables;
	uint32_t count = 0;
	for (uint32_t k = 0; k < tables->entry_bucket_count; k++) {
		uint32_t head = *sy_bucket_at(core, tables->key_buckets_at, k);
		for (uint32_t i = head; i != 0;) {
			if (i > tables->entries.touched)
				return "the key hash leaves its pool";
			const struct sy_entry *entry = sy_entry_at(core, i);
			uint32_t hash = sy_hash_key(core, entry->ns, entry->row, entry->field);
			if (++count > live || (entry->flags & SY_ENTRY_LIVE) == 0)
				return "the key hash has an entry that is not live";
			if (sy_range32(hash, tables->entry_bucket_count) != k)
				return "an entry stands in the wrong key bucket";
			if (!key_order_right(core, head, i))
				return "two entries of a key are both visible, or in the wrong order";
			i = entry->key_next;
		}
	}
	return count == live ? NULL : "the key hash lacks a live entry";
}

static bool same_row(const struct sy_entry *a, const struct sy_entry *b)
{
	return a->row == b->row && a->ns == b->ns;
}

/* The first of a row has none of that row in front of it. */
static bool row_starts(struct sy_core *core, uint32_t head, uint32_t index)
{
	for (uint32_t i = head; i != index; i = sy_entry_at(core, i)->row_next) {
		if (same_row(sy_entry_at(core, i), sy_entry_at(core, index)))
			return false;
	}
	return true;
}

static const char *row_hash_fault(struct sy_core *core, uint32_t live)
{
	const struct sy_tables *tables = &core->tables;
	uint32_t count = 0, rows = 0;
	for (uint32_t k = 0; k < tables->entry_bucket_count; k++) {
		uint32_t head = *sy_bucket_at(core, tables->row_buckets_at, k), prev = 0;
		for (uint32_t i = head; i != 0;) {
			if (i > tables->entries.touched)
				return "the row hash leaves its pool";
			const struct sy_entry *entry = sy_entry_at(core, i);
			uint32_t hash = sy_hash_row(core, entry->ns, entry->row);
			if (++count > live || (entry->flags & SY_ENTRY_LIVE) == 0)
				return "the row hash has an entry that is not live";
			if (entry->row_prev != prev || sy_range32(hash, tables->entry_bucket_count) != k)
				return "an entry stands in the wrong row bucket, or its links do not agree";
			if (prev == 0 || !same_row(sy_entry_at(core, prev), entry)) {
				rows++;
				if (!row_starts(core, head, i))
					return "entries of a row are not side by side";
			}
			prev = i;
			i = entry->row_next;
		}
	}
	if (count != live)
		return "the row hash lacks a live entry";
	return rows == tables->row_count ? NULL : "the count of rows is wrong";
}

/* References are audited by taking each off, looking that none is left, and putting all back. */
static void add_refs(struct sy_core *core, uint32_t amount)
{
	struct sy_tables *tables = &core->tables;
	struct sy_volatile *volatiles = &core->volatiles;
	struct sy_name *fields = sy_pool_at(core, &tables->fields.pool, 0);
	struct sy_name *spaces = sy_pool_at(core, &tables->namespaces.pool, 0);
	struct sy_shape_item *shapes = sy_pool_at(core, &tables->shapes.pool, 0);
	for (uint32_t i = 1; i <= tables->blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state != SY_BLOB_FREE)
			spaces[blob->ns].refs += amount;
	}
	for (uint32_t i = 1; i <= tables->entries.touched; i++) {
		const struct sy_entry *entry = sy_entry_at(core, i);
		fields[entry->field].refs += entry->field != 0 ? amount : 0;
		shapes[entry->shape].refs += entry->shape != 0 ? amount : 0;
	}
	for (uint32_t i = 1; i <= volatiles->sessions.touched; i++) {
		const struct sy_session *session = sy_pool_at(core, &volatiles->sessions, i);
		if (session->state != SY_SESSION_FREE)
			spaces[session->ns].refs += amount;
	}
	for (uint32_t i = volatiles->running_jobs.head; i != 0;) {
		const struct sy_job *job = sy_pool_at(core, &volatiles->jobs, i);
		spaces[job->ns].refs += amount;
		for (uint32_t k = 0; k < job->field_count; k++)
			fields[*sy_job_field_at(core, i, k)].refs += amount;
		i = job->link.next;
	}
}

static bool names_counted(struct sy_core *core, const struct sy_intern *table)
{
	for (uint32_t i = 1; i <= table->pool.touched; i++) {
		if (((const struct sy_name *)sy_pool_at(core, &table->pool, i))->refs != 0)
			return false;
	}
	return true;
}

static bool shapes_counted(struct sy_core *core)
{
	const struct sy_pool *pool = &core->tables.shapes.pool;
	for (uint32_t i = 1; i <= pool->touched; i++) {
		if (((const struct sy_shape_item *)sy_pool_at(core, pool, i))->refs != 0)
			return false;
	}
	return true;
}

/* Every item in use is in the hash, once. An item, a name's or a shape's, begins with its link. */
static bool chains_right(struct sy_core *core, const struct sy_intern *table)
{
	uint32_t count = 0;
	for (uint32_t k = 0; k < table->bucket_count; k++) {
		uint32_t i = *sy_bucket_at(core, table->buckets_at, k);
		for (; i != 0; i = sy_load_u32(sy_pool_at(core, &table->pool, i))) {
			if (i > table->pool.touched || ++count > table->pool.used)
				return false;
		}
	}
	return count == table->pool.used;
}

static bool names_found(struct sy_core *core, const struct sy_intern *table)
{
	for (uint32_t i = 1; i <= table->pool.touched; i++) {
		const struct sy_name *name = sy_pool_at(core, &table->pool, i);
		if (name->refs > 0 && sy_name_find(core, table, sy_name_text(core, table, i)) != i)
			return false;
	}
	return true;
}

static bool shapes_found(struct sy_core *core)
{
	for (uint32_t i = 1; i <= core->tables.shapes.pool.touched; i++) {
		const struct sy_shape_item *item = sy_pool_at(core, &core->tables.shapes.pool, i);
		uint32_t found;
		if (item->refs > 0 && (!sy_shape_find(core, &item->shape, &found) || found != i))
			return false;
	}
	return true;
}

static const char *names_fault(struct sy_core *core)
{
	const struct sy_tables *tables = &core->tables;
	if (!chains_right(core, &tables->fields) || !chains_right(core, &tables->namespaces)
	    || !chains_right(core, &tables->shapes))
		return "a hash of names or shapes does not have all of them once";
	if (!names_found(core, &tables->fields) || !names_found(core, &tables->namespaces)
	    || !shapes_found(core))
		return "a name or shape is not found, or stands twice";
	add_refs(core, UINT32_MAX);
	bool counted = names_counted(core, &tables->fields)
		&& names_counted(core, &tables->namespaces) && shapes_counted(core);
	add_refs(core, 1);
	return counted ? NULL : "the references of a name or shape are not those that exist";
}

const char *sy_tables_audit(struct sy_core *core)
{
	struct totals totals = {0};
	const char *fault = pools_fault(core);
	if (fault == NULL)
		fault = sy_region_fault(core);
	if (fault == NULL)
		fault = blobs_fault(core, &totals);
	if (fault == NULL)
		fault = accounts_fault(core, &totals);
	if (fault == NULL)
		fault = id_hash_fault(core, &totals);
	if (fault == NULL)
		fault = key_hash_fault(core, totals.live);
	if (fault == NULL)
		fault = row_hash_fault(core, totals.live);
	return fault == NULL ? names_fault(core) : fault;
}
