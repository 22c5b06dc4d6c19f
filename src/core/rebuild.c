/* Everything derived, made anew from blobs and their entries.
 *
 * A unit killed at any instant leaves any table half written but these: the states of blobs,
 * stored singly, and behind a state that promises entries the entries themselves with their live
 * bits and names. So pools, chains, counts and accounts are not read, only written:
 *
 *   1. which blobs stay            by state
 *   2. key, row hash, live counts  blobs in the order they were accepted, newer keys kill older
 *   3. which entries stay          those in the lists of blobs that still have a live one
 *   4. names and shapes            by counting the references of what stays
 *   5. holes, accounts, ids        blobs from the last address down, each carved out
 *
 * Lists of blobs are threaded through id_next, which is made anew in the end. */
#include "blob.h"
#include "entry.h"
#include "guard.h"
#include "intern.h"
#include "layout.h"
#include "park.h"
#include "record.h"
#include "region.h"
#include "tier.h"

/* A flag of entries that stays inside this file. */
enum { ENTRY_KEPT = 128 };

typedef bool in_use_fn(struct sy_core *core, const void *item);

/* Frees every item that is not in use; low ones are used again first. */
static void remake_pool(struct sy_core *core, struct sy_pool *pool, in_use_fn *in_use)
{
	pool->free_head = 0;
	pool->used = pool->touched;
	for (uint32_t i = pool->touched; i > 0; i--) {
		if (!in_use(core, sy_pool_at(core, pool, i)))
			sy_pool_give(core, pool, i);
	}
}

static void empty_pool(struct sy_core *core, struct sy_pool *pool)
{
	for (uint32_t i = 1; i <= pool->touched; i++)
		memset(sy_pool_at(core, pool, i), 0, pool->item_bytes);
	pool->free_head = pool->touched = pool->used = 0;
}

static void empty_buckets(struct sy_core *core, uint64_t buckets_at, uint32_t count)
{
	memset(sy_bucket_at(core, buckets_at, 0), 0, (size_t)count * sizeof(uint32_t));
}

static bool accepted_earlier(const struct sy_blob *a, const struct sy_blob *b)
{
	return a->accept_seq < b->accept_seq;
}

static bool lies_higher(const struct sy_blob *a, const struct sy_blob *b)
{
	return a->offset > b->offset;
}

static bool lies_higher_on_disk(const struct sy_blob *a, const struct sy_blob *b)
{
	return a->disk_at > b->disk_at;
}

typedef bool order_fn(const struct sy_blob *a, const struct sy_blob *b);

static uint32_t merge(struct sy_core *core, uint32_t a, uint32_t b, order_fn *before)
{
	uint32_t head = 0, *tail = &head;
	while (a != 0 && b != 0) {
		uint32_t *first = before(sy_blob_at(core, b), sy_blob_at(core, a)) ? &b : &a;
		*tail = *first;
		tail = &sy_blob_at(core, *first)->id_next;
		*first = *tail;
	}
	*tail = a != 0 ? a : b;
	return head;
}

/* Merge sort: runs[i] is sorted and 2^i long, or 0. */
static uint32_t sort(struct sy_core *core, uint32_t list, order_fn *before)
{
	enum { RUNS = 32 };
	uint32_t runs[RUNS] = {0};
	while (list != 0) {
		uint32_t one = list;
		list = sy_blob_at(core, one)->id_next;
		sy_blob_at(core, one)->id_next = 0;
		uint32_t i = 0;
		for (; i < RUNS - 1 && runs[i] != 0; i++) {
			one = merge(core, runs[i], one, before);
			runs[i] = 0;
		}
		runs[i] = one;
	}
	uint32_t all = 0;
	for (uint32_t i = 0; i < RUNS; i++)
		all = merge(core, runs[i], all, before);
	return all;
}

static void forget_volatiles(struct sy_core *core)
{
	struct sy_volatile *volatiles = &core->volatiles;
	empty_pool(core, &volatiles->sessions);
	empty_pool(core, &volatiles->pins);
	empty_pool(core, &volatiles->pin_refs);
	empty_pool(core, &volatiles->parked);
	empty_pool(core, &volatiles->jobs);
	empty_buckets(core, volatiles->number_buckets_at, volatiles->session_bucket_count);
	empty_buckets(core, volatiles->identity_buckets_at, volatiles->session_bucket_count);
	empty_buckets(core, volatiles->token_buckets_at, volatiles->session_bucket_count);
	empty_buckets(core, volatiles->pin_name_buckets_at, volatiles->pin_bucket_count);
	empty_buckets(core, volatiles->blob_name_buckets_at, volatiles->blob_name_bucket_count);
	struct sy_chain *chains[] = {
		&volatiles->remote_sessions, &volatiles->ending_sessions, &volatiles->expiring_pins,
		&volatiles->loose_pins, &volatiles->graced_blobs, &volatiles->quarantined_blobs,
		&volatiles->running_jobs,
	};
	for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++)
		*chains[i] = (struct sy_chain){0};
	sy_park_reset(core);
	volatiles->reservation_count = 0;
	volatiles->granted_bytes = 0;
	sy_tier_reset(core);
}

static void forget_volatiles_of(struct sy_blob *blob)
{
	blob->name = (struct sy_request_id){0};
	blob->name_next = 0;
	blob->pin_count = 0;
	blob->pin_mark = 0;
	blob->session_link = (struct sy_link){0};
	blob->timer_link = (struct sy_link){0};
	blob->timer_ns = 0;
	blob->quarantine_until_ns = 0;
	blob->last_read_ns = 0;
	blob->io_count = 0;
}

/* The list of blobs that stay; the others become FREE. */
static uint32_t pick_blobs(struct sy_core *core, bool keep_volatile)
{
	uint32_t list = 0;
	for (uint32_t i = core->tables.blobs.touched; i > 0; i--) {
		struct sy_blob *blob = sy_blob_at(core, i);
		if (!keep_volatile) {
			forget_volatiles_of(blob);
			if (blob->state != SY_BLOB_ON_SSD)
				blob->disk_region = 0;
			if (blob->state == SY_BLOB_DEMOTING)
				blob->state = SY_BLOB_PUBLISHED;
			else if (blob->state != SY_BLOB_PUBLISHED && blob->state != SY_BLOB_ON_SSD)
				blob->state = SY_BLOB_FREE;
		}
		if (blob->state == SY_BLOB_FREE)
			continue;
		blob->id_next = list;
		list = i;
	}
	return list;
}

/* Both hashes and the live counts, from live bits. A newer key kills the older one: it had not
 * yet come to that where the unit was killed in the middle of a commit. */
static void remake_hashes(struct sy_core *core, uint32_t list)
{
	empty_buckets(core, core->tables.key_buckets_at, core->tables.entry_bucket_count);
	empty_buckets(core, core->tables.row_buckets_at, core->tables.entry_bucket_count);
	core->tables.row_count = 0;
	for (uint32_t i = 1; i <= core->tables.entries.touched; i++) {
		struct sy_entry *entry = sy_entry_at(core, i);
		entry->key_next = entry->row_next = entry->row_prev = 0;
		entry->flags &= SY_ENTRY_LIVE | SY_ENTRY_PENDING;
	}
	for (; list != 0; list = sy_blob_at(core, list)->id_next) {
		struct sy_blob *blob = sy_blob_at(core, list);
		blob->live_count = 0;
		for (uint32_t i = blob->entry_head; i != 0; i = sy_entry_at(core, i)->blob_next) {
			struct sy_entry *entry = sy_entry_at(core, i);
			if (blob->state != SY_BLOB_COMMITTING)
				entry->flags &= (uint8_t)~SY_ENTRY_PENDING;
			blob->live_count += (entry->flags & SY_ENTRY_LIVE) != 0;
		}
		sy_entry_link_all(core, list, false, 0);
	}
}

/* Takes those out of the list whose last live entry is gone, where nothing can hold them. */
static uint32_t drop_dead(struct sy_core *core, uint32_t list)
{
	uint32_t *link = &list;
	while (*link != 0) {
		struct sy_blob *blob = sy_blob_at(core, *link);
		if (blob->live_count == 0) {
			blob->state = SY_BLOB_FREE;
			*link = blob->id_next;
		} else {
			link = &blob->id_next;
		}
	}
	return list;
}

static bool blob_in_use(struct sy_core *core, const void *item)
{
	(void)core;
	return ((const struct sy_blob *)item)->state != SY_BLOB_FREE;
}

static bool entry_in_use(struct sy_core *core, const void *item)
{
	(void)core;
	return (((const struct sy_entry *)item)->flags & ENTRY_KEPT) != 0;
}

static bool name_in_use(struct sy_core *core, const void *item)
{
	(void)core;
	return ((const struct sy_name *)item)->refs > 0;
}

static bool shape_in_use(struct sy_core *core, const void *item)
{
	(void)core;
	return ((const struct sy_shape_item *)item)->refs > 0;
}

static struct sy_name *name_at(struct sy_core *core, struct sy_intern *table, uint32_t index)
{
	return sy_pool_at(core, &table->pool, index);
}

static struct sy_shape_item *shape_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.shapes.pool, index);
}

/* Marks the entries that stay and counts the references of blobs and entries. */
static void count_blobs(struct sy_core *core, uint32_t list)
{
	struct sy_tables *tables = &core->tables;
	for (; list != 0; list = sy_blob_at(core, list)->id_next) {
		const struct sy_blob *blob = sy_blob_at(core, list);
		name_at(core, &tables->namespaces, blob->ns)->refs++;
		for (uint32_t i = blob->entry_head; i != 0; i = sy_entry_at(core, i)->blob_next) {
			struct sy_entry *entry = sy_entry_at(core, i);
			entry->flags |= ENTRY_KEPT;
			name_at(core, &tables->fields, entry->field)->refs++;
			if (entry->shape != 0)
				shape_at(core, entry->shape)->refs++;
		}
	}
}

/* And those of sessions and running jobs. */
static void count_volatiles(struct sy_core *core)
{
	struct sy_volatile *volatiles = &core->volatiles;
	for (uint32_t i = 1; i <= volatiles->sessions.touched; i++) {
		const struct sy_session *session = sy_pool_at(core, &volatiles->sessions, i);
		if (session->state != SY_SESSION_FREE)
			name_at(core, &core->tables.namespaces, session->ns)->refs++;
	}
	for (uint32_t i = volatiles->running_jobs.head; i != 0;) {
		const struct sy_job *job = sy_pool_at(core, &volatiles->jobs, i);
		name_at(core, &core->tables.namespaces, job->ns)->refs++;
		for (uint32_t k = 0; k < job->field_count; k++)
			name_at(core, &core->tables.fields, *sy_job_field_at(core, i, k))->refs++;
		i = job->link.next;
	}
}

static void remake_names(struct sy_core *core, struct sy_intern *table)
{
	remake_pool(core, &table->pool, name_in_use);
	empty_buckets(core, table->buckets_at, table->bucket_count);
	for (uint32_t i = 1; i <= table->pool.touched; i++) {
		if (name_at(core, table, i)->refs > 0)
			sy_name_link(core, table, i);
	}
}

static void remake_pools(struct sy_core *core, uint32_t list)
{
	struct sy_tables *tables = &core->tables;
	for (uint32_t i = 1; i <= tables->fields.pool.touched; i++)
		name_at(core, &tables->fields, i)->refs = 0;
	for (uint32_t i = 1; i <= tables->namespaces.pool.touched; i++)
		name_at(core, &tables->namespaces, i)->refs = 0;
	for (uint32_t i = 1; i <= tables->shapes.pool.touched; i++)
		shape_at(core, i)->refs = 0;
	count_blobs(core, list);
	count_volatiles(core);
	tables->reap_head = tables->reap_count = 0;
	remake_pool(core, &tables->blobs, blob_in_use);
	remake_pool(core, &tables->entries, entry_in_use);
	for (uint32_t i = 1; i <= tables->entries.touched; i++)
		sy_entry_at(core, i)->flags &= (uint8_t)~ENTRY_KEPT;
	remake_names(core, &tables->fields);
	remake_names(core, &tables->namespaces);
	remake_pool(core, &tables->shapes.pool, shape_in_use);
	empty_buckets(core, tables->shapes.buckets_at, tables->shapes.bucket_count);
	for (uint32_t i = 1; i <= tables->shapes.pool.touched; i++) {
		if (shape_at(core, i)->refs > 0)
			sy_shape_link(core, i);
	}
}

/* Runs of the disk, each carved out anew. */
static uint32_t remake_runs(struct sy_core *core, uint32_t list)
{
	list = sort(core, list, lies_higher_on_disk);
	for (uint32_t i = list; i != 0; i = sy_blob_at(core, i)->id_next) {
		struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->disk_region == 0)
			continue;
		blob->disk_region = sy_region_carve(core, SY_SPACE_DISK, blob->disk_at,
		                                    sy_record_bytes(blob->nbytes));
		SY_ASSERT(blob->disk_region != 0);
	}
	return list;
}

/* Regions, accounts, the id hash and the counters, from the blobs alone. */
static void remake_accounts(struct sy_core *core, uint32_t list)
{
	struct sy_tables *tables = &core->tables;
	empty_pool(core, &tables->regions);
	memset(tables->bytes, 0, sizeof tables->bytes);
	memset(tables->disk_bytes, 0, sizeof tables->disk_bytes);
	tables->rounding_bytes = 0;
	empty_buckets(core, tables->id_buckets_at, tables->id_bucket_count);
	sy_region_init(core);
	list = remake_runs(core, list);
	list = sort(core, list, lies_higher);
	while (list != 0) {
		uint32_t index = list, region = 0;
		struct sy_blob *blob = sy_blob_at(core, index);
		list = blob->id_next;
		/* What was RELEASED from disk has no region. */
		if (blob->state != SY_BLOB_ON_SSD
		    && (blob->state != SY_BLOB_RELEASED || blob->region != 0)) {
			region = sy_region_carve(core, sy_region_space_of(core, blob->offset),
			                         blob->offset, blob->nbytes);
			SY_ASSERT(region != 0);
		}
		sy_blob_restore(core, index, region, blob->disk_region);
		tables->next_generation = sy_max_u64(tables->next_generation, blob->grant + 1);
		tables->next_generation = sy_max_u64(tables->next_generation, blob->generation + 1);
		tables->next_accept_seq = sy_max_u64(tables->next_accept_seq, blob->accept_seq + 1);
	}
}

void sy_core_rebuild(struct sy_core *core, bool keep_volatile)
{
	if (!keep_volatile)
		forget_volatiles(core);
	uint32_t list = sort(core, pick_blobs(core, keep_volatile), accepted_earlier);
	remake_hashes(core, list);
	if (!keep_volatile)
		list = drop_dead(core, list);
	remake_pools(core, list);
	remake_accounts(core, list);
	for (uint32_t i = 1; i <= core->tables.blobs.touched && !keep_volatile; i++) {
		if (sy_blob_at(core, i)->state != SY_BLOB_FREE)
			sy_tier_place(core, i);
	}
}
