#include "entry.h"

#include "blob.h"
#include "guard.h"
#include "hash.h"
#include "intern.h"
#include "layout.h"

/* How many entries ahead of the one being linked its buckets are fetched, and of the one being
 * followed the entries themselves. */
enum { LINK_AHEAD = 8, AFTER_AHEAD = 8 };

static uint32_t *key_bucket(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field)
{
	uint32_t hash = sy_hash_key(core, ns, row, field);
	return sy_bucket_at(core, core->tables.key_buckets_at,
	                    sy_range32(hash, core->tables.entry_bucket_count));
}

static uint32_t *row_bucket(struct sy_core *core, uint32_t ns, uint64_t row)
{
	uint32_t hash = sy_hash_row(core, ns, row);
	return sy_bucket_at(core, core->tables.row_buckets_at,
	                    sy_range32(hash, core->tables.entry_bucket_count));
}

static bool is_of_row(const struct sy_entry *entry, uint32_t ns, uint64_t row)
{
	return entry->row == row && entry->ns == ns;
}

static bool is_of_key(const struct sy_entry *entry, uint32_t ns, uint64_t row, uint32_t field)
{
	return entry->row == row && entry->field == field && entry->ns == ns;
}

static bool is_visible(const struct sy_entry *entry)
{
	return (entry->flags & SY_ENTRY_LIVE) != 0 && (entry->flags & SY_ENTRY_PENDING) == 0;
}

/* Puts an entry before the others of its row, or at the head of the chain. */
static void link_row(struct sy_core *core, uint32_t index)
{
	struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t *bucket = row_bucket(core, entry->ns, entry->row);
	uint32_t next = *bucket;
	while (next != 0 && !is_of_row(sy_entry_at(core, next), entry->ns, entry->row))
		next = sy_entry_at(core, next)->row_next;
	if (next == 0) {
		next = *bucket;
		core->tables.row_count++;
	}
	entry->row_next = next;
	entry->row_prev = next != 0 ? sy_entry_at(core, next)->row_prev : 0;
	if (next != 0)
		sy_entry_at(core, next)->row_prev = index;
	if (entry->row_prev != 0)
		sy_entry_at(core, entry->row_prev)->row_next = index;
	else
		*bucket = index;
}

static void unlink_row(struct sy_core *core, uint32_t index)
{
	struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t prev = entry->row_prev, next = entry->row_next;
	bool last = (prev == 0 || !is_of_row(sy_entry_at(core, prev), entry->ns, entry->row))
		&& (next == 0 || !is_of_row(sy_entry_at(core, next), entry->ns, entry->row));
	if (prev != 0) {
		sy_entry_at(core, prev)->row_next = next;
	} else {
		uint32_t *bucket = row_bucket(core, entry->ns, entry->row);
		SY_ASSERT(*bucket == index);
		*bucket = next;
	}
	if (next != 0)
		sy_entry_at(core, next)->row_prev = prev;
	entry->row_prev = entry->row_next = 0;
	if (last)
		core->tables.row_count--;
}

static void link_key(struct sy_core *core, uint32_t index)
{
	struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t *bucket = key_bucket(core, entry->ns, entry->row, entry->field);
	entry->key_next = *bucket;
	*bucket = index;
}

static void unlink_key(struct sy_core *core, uint32_t index)
{
	struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t *link = key_bucket(core, entry->ns, entry->row, entry->field);
	while (*link != 0 && *link != index)
		link = &sy_entry_at(core, *link)->key_next;
	SY_ASSERT(*link == index);
	if (*link == index)
		*link = entry->key_next;
	entry->key_next = 0;
}

/* The live bit goes first: it is what a killed unit is started again by. */
static void clear_live(struct sy_core *core, struct sy_entry *entry)
{
	SY_ASSERT((entry->flags & SY_ENTRY_LIVE) != 0);
	entry->flags = 0;
	struct sy_blob *blob = sy_blob_at(core, entry->blob);
	SY_ASSERT(blob->live_count > 0);
	blob->live_count--;
}

/* Kills the entries of this one's key that are older, which are those behind it. Returns how many
 * of them were visible. */
static uint32_t kill_older(struct sy_core *core, uint32_t index, bool settle, uint64_t now_ns)
{
	const struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t next = entry->key_next, visible = 0;
	if (SY_MUTANT(30) && next != 0 && sy_blob_at(core, entry->blob)->live_count > 1
	    && sy_entry_key_next(core, index) != 0) {
		sy_entry_kill(core, index, now_ns);
		return 0;
	}
	while (next != 0) {
		uint32_t older_index = next;
		struct sy_entry *older = sy_entry_at(core, older_index);
		next = older->key_next;
		if (!is_of_key(older, entry->ns, entry->row, entry->field))
			continue;
		uint32_t blob = older->blob;
		visible += (older->flags & SY_ENTRY_PENDING) == 0;
		clear_live(core, older);
		unlink_key(core, older_index);
		unlink_row(core, older_index);
		if (settle && !SY_MUTANT(17))
			sy_blob_settle(core, blob, now_ns);
	}
	return visible;
}

/* Fetches the buckets of entries to come: a put of new rows misses the cache in each of them. */
uint64_t sy_entry_link_all(struct sy_core *core, uint32_t blob, bool settle, uint64_t now_ns)
{
	uint32_t ahead = sy_blob_at(core, blob)->entry_head, lead = 0;
	uint64_t overwritten = 0;
	for (uint32_t i = sy_blob_at(core, blob)->entry_head; i != 0;) {
		for (; ahead != 0 && lead < LINK_AHEAD; lead++) {
			const struct sy_entry *coming = sy_entry_at(core, ahead);
			__builtin_prefetch(key_bucket(core, coming->ns, coming->row, coming->field), 1);
			__builtin_prefetch(row_bucket(core, coming->ns, coming->row), 1);
			ahead = coming->blob_next;
		}
		lead--;
		const struct sy_entry *entry = sy_entry_at(core, i);
		if ((entry->flags & SY_ENTRY_LIVE) != 0) {
			link_key(core, i);
			link_row(core, i);
			if ((entry->flags & SY_ENTRY_PENDING) == 0)
				overwritten += kill_older(core, i, settle, now_ns);
		}
		i = entry->blob_next;
	}
	return overwritten;
}

uint32_t sy_entry_key_first(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field)
{
	uint32_t index = *key_bucket(core, ns, row, field);
	while (index != 0 && !is_of_key(sy_entry_at(core, index), ns, row, field))
		index = sy_entry_at(core, index)->key_next;
	return index;
}

uint32_t sy_entry_key_next(struct sy_core *core, uint32_t index)
{
	const struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t next = entry->key_next;
	while (next != 0 && !is_of_key(sy_entry_at(core, next), entry->ns, entry->row, entry->field))
		next = sy_entry_at(core, next)->key_next;
	return next;
}

/* What the mutant of a lookup that forgets the field finds. */
static uint32_t any_of_row(struct sy_core *core, uint32_t ns, uint64_t row)
{
	uint32_t any = sy_entry_row_first(core, ns, row);
	while (any != 0 && (sy_entry_at(core, any)->flags & SY_ENTRY_PENDING) != 0)
		any = sy_entry_row_next(core, any);
	return any;
}

static void fetch_entry(struct sy_core *core, uint32_t index)
{
	const char *entry = (const char *)sy_entry_at(core, index);
	__builtin_prefetch(entry);
	__builtin_prefetch(entry + SY_ENTRY_LOOKUP_BYTES - 1); /* most often another line */
}

static void fetch_blob(struct sy_core *core, uint32_t index)
{
	__builtin_prefetch(&sy_blob_at(core, index)->offset, 1);
}

/* Moves each ask that is not answered on to the next entry of its chain, and returns how many are
 * still not. Those stand in `open`, by their number. */
static uint32_t look_once(struct sy_core *core, uint32_t ns, struct sy_key_ask *asks,
                          uint8_t *open, uint32_t count)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct sy_key_ask *ask = &asks[open[i]];
		const struct sy_entry *entry = sy_entry_at(core, ask->entry);
		if (is_of_key(entry, ns, ask->row, ask->field) &&
		    (entry->flags & SY_ENTRY_PENDING) == 0) {
			fetch_blob(core, entry->blob);
			continue;
		}
		ask->entry = entry->key_next;
		if (ask->entry == 0)
			continue;
		fetch_entry(core, ask->entry);
		open[left++] = open[i];
	}
	return left;
}

void sy_entry_find_all(struct sy_core *core, uint32_t ns, struct sy_key_ask *asks, uint32_t count)
{
	const uint32_t *buckets[SY_FIND_MAX];
	uint8_t open[SY_FIND_MAX];
	uint32_t left = 0;
	SY_ASSERT(count <= SY_FIND_MAX);
	for (uint32_t i = 0; i < count; i++) {
		buckets[i] = key_bucket(core, ns, asks[i].row, asks[i].field);
		__builtin_prefetch(buckets[i]);
	}
	for (uint32_t i = 0; i < count; i++) {
		asks[i].entry = asks[i].field == 0 ? 0 : *buckets[i];
		if (SY_MUTANT(8) && asks[i].field != 0)
			asks[i].entry = any_of_row(core, ns, asks[i].row);
		else if (asks[i].entry != 0)
			open[left++] = (uint8_t)i;
		if (asks[i].entry != 0)
			fetch_entry(core, asks[i].entry);
	}
	/* Each turn goes one entry further in every chain. */
	while (left > 0)
		left = look_once(core, ns, asks, open, left);
}

uint32_t sy_entry_find_after(struct sy_core *core, uint32_t ns, uint32_t before, uint64_t row,
                             uint32_t field)
{
	const struct sy_entry *last = sy_entry_at(core, before);
	uint32_t index = last->blob_next;
	if (index == 0)
		return 0;
	const struct sy_entry *entry = sy_entry_at(core, index);
	/* Most lie side by side, up or down, as the pool gave them. Any address may be fetched. */
	uintptr_t step = (uintptr_t)entry - (uintptr_t)last;
	__builtin_prefetch((const void *)((uintptr_t)entry + AFTER_AHEAD * step));
	bool visible = is_visible(entry) || SY_MUTANT(72);
	return is_of_key(entry, ns, row, field) && visible ? index : 0;
}

uint32_t sy_entry_find(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field)
{
	struct sy_key_ask ask = {.row = row, .field = field};
	sy_entry_find_all(core, ns, &ask, 1);
	return ask.entry;
}

uint32_t sy_entry_row_first(struct sy_core *core, uint32_t ns, uint64_t row)
{
	uint32_t index = *row_bucket(core, ns, row);
	while (index != 0 && !is_of_row(sy_entry_at(core, index), ns, row))
		index = sy_entry_at(core, index)->row_next;
	return index;
}

uint32_t sy_entry_row_next(struct sy_core *core, uint32_t index)
{
	const struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t next = entry->row_next;
	return next != 0 && is_of_row(sy_entry_at(core, next), entry->ns, entry->row) ? next : 0;
}

void sy_entry_kill(struct sy_core *core, uint32_t index, uint64_t now_ns)
{
	struct sy_entry *entry = sy_entry_at(core, index);
	uint32_t blob = entry->blob;
	clear_live(core, entry);
	unlink_key(core, index);
	unlink_row(core, index);
	sy_blob_settle(core, blob, now_ns);
}

void sy_entry_show_all(struct sy_core *core, uint32_t blob, uint64_t now_ns)
{
	SY_ASSERT(sy_blob_at(core, blob)->state != SY_BLOB_COMMITTING);
	uint32_t next;
	for (uint32_t i = sy_blob_at(core, blob)->entry_head; i != 0; i = next) {
		struct sy_entry *entry = sy_entry_at(core, i);
		next = entry->blob_next;
		if ((entry->flags & SY_ENTRY_PENDING) == 0)
			continue;
		entry->flags = SY_ENTRY_LIVE;
		kill_older(core, i, true, now_ns);
	}
}

static void give_entry(struct sy_core *core, uint32_t index)
{
	const struct sy_entry *entry = sy_entry_at(core, index);
	sy_name_give(core, &core->tables.fields, entry->field, 1);
	sy_shape_give(core, entry->shape, 1);
	sy_pool_give(core, &core->tables.entries, index);
}

void sy_entry_drop_all(struct sy_core *core, uint32_t blob_index)
{
	struct sy_blob *blob = sy_blob_at(core, blob_index);
	uint32_t head = blob->entry_head;
	blob->entry_head = 0;
	for (uint32_t i = head; i != 0 && blob->live_count > 0; i = sy_entry_at(core, i)->blob_next) {
		struct sy_entry *entry = sy_entry_at(core, i);
		if ((entry->flags & SY_ENTRY_LIVE) == 0)
			continue;
		clear_live(core, entry);
		unlink_key(core, i);
		unlink_row(core, i);
	}
	if (head == 0)
		return;
	sy_entry_at(core, head)->blob = 0;
	sy_entry_at(core, head)->row_next = core->tables.reap_head;
	core->tables.reap_head = head;
	core->tables.reap_count += blob->entry_count;
}

void sy_entry_reap(struct sy_core *core, uint32_t budget)
{
	struct sy_tables *tables = &core->tables;
	for (; budget > 0 && tables->reap_head != 0; budget--) {
		uint32_t index = tables->reap_head;
		const struct sy_entry *entry = sy_entry_at(core, index);
		uint32_t rest = entry->blob_next, other = entry->row_next;
		if (rest != 0) {
			sy_entry_at(core, rest)->blob = 0;
			sy_entry_at(core, rest)->row_next = other;
		}
		tables->reap_head = rest != 0 ? rest : other;
		tables->reap_count--;
		give_entry(core, index);
	}
}

bool sy_entry_unit_bytes(struct sy_core *core, const struct sy_entry *entry, uint64_t *ret_bytes)
{
	return entry->shape != 0 && sy_shape_unit_bytes((sy_dtype)entry->dtype,
	                                                sy_shape_at(core, entry->shape), ret_bytes);
}

uint64_t sy_entry_bytes(struct sy_core *core, const struct sy_entry *entry)
{
	uint64_t unit_bytes;
	return sy_entry_unit_bytes(core, entry, &unit_bytes) && unit_bytes == 0 ? 0 : entry->extent;
}

uint64_t sy_entry_dim0(struct sy_core *core, const struct sy_entry *entry)
{
	uint64_t unit_bytes;
	if (!sy_entry_unit_bytes(core, entry, &unit_bytes))
		return 0;
	return unit_bytes == 0 ? entry->extent : entry->extent / unit_bytes;
}
