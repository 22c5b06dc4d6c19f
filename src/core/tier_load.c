/* Loads: what resolves ask for of blobs that are on disk. */
#include "tier.h"

#include "entry.h"
#include "guard.h"
#include "park.h"
#include "region.h"

#include <stddef.h>

static const uint32_t copy_link_at = offsetof(struct sy_tiered, copy_link);
enum { LOOKS = 64, TRIES = 2 };
/* How long a copy waits for somebody to come for it, after Busy(loading) at the latest. */
static const uint64_t idle_ns = 5000000000u;

void sy_load_begin(struct sy_core *core)
{
	core->volatiles.tier.resolves++;
	core->volatiles.tier.asked_head = 0;
	core->volatiles.tier.own_count = 0;
}

static void ask(struct sy_core *core, uint32_t blob, uint64_t from, uint64_t to)
{
	struct sy_tier *tier = &core->volatiles.tier;
	struct sy_tiered *t = sy_tiered_at(core, blob);
	if (t->asked != tier->resolves) {
		t->asked = tier->resolves;
		t->from = from;
		t->to = to;
		t->asked_next = tier->asked_head;
		tier->asked_head = blob;
	}
	t->from = sy_min_u64(t->from, from);
	t->to = sy_max_u64(t->to, to);
}

static bool covers(struct sy_core *core, uint32_t copy, uint64_t from, uint64_t to)
{
	const struct sy_tiered *t = sy_tiered_at(core, copy);
	return t->source_at <= from && to <= t->source_at + sy_blob_at(core, copy)->nbytes;
}

/* Copies of one blob are few: sy_load_start sees to that. */
static uint32_t find_copy(struct sy_core *core, uint32_t blob, uint64_t from, uint64_t to,
                          bool ready)
{
	uint32_t at = sy_tiered_at(core, blob)->copies.head;
	for (; at != 0; at = sy_tiered_at(core, at)->copy_link.next) {
		if (sy_tiered_at(core, at)->ready == ready && covers(core, at, from, to))
			return at;
	}
	return 0;
}

/* Somebody still wants it: it waits as long again, at the end of the line. */
static void keep(struct sy_core *core, uint32_t copy, uint64_t now_ns)
{
	struct sy_tiered *t = sy_tiered_at(core, copy);
	core->volatiles.tier.own_count += t->asked != core->volatiles.tier.resolves;
	t->asked = core->volatiles.tier.resolves;
	t->idle_until_ns = sy_max_u64(t->idle_until_ns, now_ns + core->params.park_max_ns + idle_ns);
	if (t->list == SY_TIER_IDLE)
		sy_tier_move(core, copy, SY_TIER_IDLE);
}

uint32_t sy_load_find(struct sy_core *core, uint32_t blob, uint64_t from, uint64_t to,
                      uint64_t now_ns)
{
	uint32_t copy = find_copy(core, blob, from, to, true);
	if (copy != 0)
		keep(core, copy, now_ns);
	else
		ask(core, blob, from, to);
	return copy;
}

bool sy_load_evict(struct sy_core *core, uint64_t spare, bool taken, uint64_t now_ns)
{
	const struct sy_chain *idle = &core->volatiles.tier.lists[SY_TIER_IDLE];
	uint32_t at = idle->head;
	for (uint32_t i = 0; i < LOOKS && at != 0; i++) {
		const struct sy_tiered *t = sy_tiered_at(core, at);
		if ((spare == 0 || t->asked != spare) && (t->taken || !taken)) {
			sy_tier_drop_copy(core, at, now_ns);
			return true;
		}
		at = t->link.next;
	}
	return false;
}

/* What one read takes: what was asked for, or the whole blob where that is small, or has been
 * read piecemeal by many. */
static void widen(struct sy_core *core, uint32_t blob, uint64_t *from, uint64_t *to)
{
	const struct sy_blob *b = sy_blob_at(core, blob);
	const struct sy_tiered *t = sy_tiered_at(core, blob);
	*from = t->from / SY_ENTRY_ALIGN_BYTES * SY_ENTRY_ALIGN_BYTES;
	*to = sy_min_u64(sy_align_up(t->to, SY_ENTRY_ALIGN_BYTES), b->nbytes);
	if (b->nbytes <= core->params.load_whole_bytes || t->copies.count >= SY_TIER_COPIES_MAX) {
		*from = 0;
		*to = b->nbytes;
	}
}

static uint32_t place(struct sy_core *core, uint32_t blob, uint64_t nbytes)
{
	uint32_t copy = sy_blob_copy(core, blob, SY_SPACE_SLAB, nbytes);
	return copy != 0 ? copy : sy_blob_copy(core, blob, SY_SPACE_STAGING, nbytes);
}

/* Begins the read of a range. 0: there is no room for it. */
static uint32_t begin(struct sy_core *core, uint32_t blob, uint64_t from, uint64_t to, bool first,
                      uint64_t now_ns)
{
	struct sy_tier *tier = &core->volatiles.tier;
	uint32_t copy = place(core, blob, to - from);
	for (uint32_t i = 0; i < LOOKS && copy == 0; i++) {
		if (!sy_load_evict(core, tier->resolves, !first, now_ns))
			break;
		copy = place(core, blob, to - from);
	}
	if (copy == 0)
		return 0;
	struct sy_tiered *t = sy_tiered_at(core, copy);
	t->source = blob;
	t->source_at = from;
	sy_chain_append(core, &tier->blobs, copy_link_at, &sy_tiered_at(core, blob)->copies, copy);
	sy_tiered_at(core, blob)->reads++;
	sy_tier_move(core, copy, SY_TIER_READS);
	return copy;
}

static uint64_t asked_bytes(struct sy_core *core)
{
	uint64_t total = 0, from, to;
	uint32_t blob = core->volatiles.tier.asked_head;
	for (; blob != 0; blob = sy_tiered_at(core, blob)->asked_next) {
		widen(core, blob, &from, &to);
		total += to - from;
	}
	return total;
}

enum sy_load_start sy_load_start(struct sy_core *core, uint64_t now_ns, uint64_t limit,
                                 bool first, uint32_t *ret_copy, uint64_t *ret_need)
{
	struct sy_tier *tier = &core->volatiles.tier;
	uint32_t wait = 0;
	uint64_t need = 0;
	uint32_t blob = tier->asked_head;
	*ret_need = asked_bytes(core);
	if (*ret_need > limit)
		return SY_LOAD_FULL;
	for (; blob != 0; blob = sy_tiered_at(core, blob)->asked_next) {
		uint64_t from, to;
		widen(core, blob, &from, &to);
		uint32_t copy = find_copy(core, blob, from, to, false);
		if (copy == 0 && tier->lists[SY_TIER_READS].count >= SY_TIER_QUEUED_MAX) {
			/* With some of its own among them it goes on when those are read. */
			if (wait == 0 && need == 0)
				return SY_LOAD_TOO_MANY;
			break;
		}
		if (copy == 0)
			copy = begin(core, blob, from, to, first, now_ns);
		if (copy == 0)
			need = sy_max_u64(need, to - from);
		else
			wait = copy;
	}
	if (tier->asked_head == 0)
		return SY_LOAD_NONE;
	*ret_copy = need == 0 ? wait : 0;
	*ret_need = need;
	return SY_LOAD_WAIT;
}

/* All that the slab could have free without a write, and what the disk could still take. */
static uint64_t freeable(const struct sy_core *core)
{
	const uint64_t *bytes = core->tables.bytes;
	return sy_region_free_bytes(core, SY_SPACE_SLAB) + bytes[SY_BLOB_LOADING] +
	       bytes[SY_BLOB_ALLOCATED] + bytes[SY_BLOB_RELEASED] + bytes[SY_BLOB_RETIRED] +
	       bytes[SY_BLOB_QUARANTINED] +
	       sy_min_u64(bytes[SY_BLOB_PUBLISHED], sy_region_free_bytes(core, SY_SPACE_DISK));
}

bool sy_load_is_stuck(const struct sy_core *core, uint64_t need)
{
	const struct sy_tier *tier = &core->volatiles.tier;
	bool full = tier->lists[SY_TIER_UNFIT].count > 0 || tier->pause_until_ns != 0 ||
	            sy_region_free_bytes(core, SY_SPACE_DISK) < need;
	return full && !sy_tier_writes(core);
}

bool sy_load_is_hopeless(const struct sy_core *core, uint64_t need)
{
	const struct sy_tier *tier = &core->volatiles.tier;
	/* After a failed write the next one may do better. */
	if (!sy_load_is_stuck(core, need) || tier->pause_until_ns != 0)
		return false;
	bool never = need > core->tables.spaces[SY_SPACE_STAGING].bytes && need > freeable(core);
	return never || tier->copy_count == tier->own_count;
}

/* Its bytes are gone. Nothing of it is read again, also where a part of it could be. */
static void lose(struct sy_core *core, uint32_t blob, uint8_t result, uint64_t now_ns)
{
	struct sy_tiered *t = sy_tiered_at(core, blob);
	t->lost = SY_FOUND_LOST_UNREADABLE;
	if (result == SY_DISK_DAMAGED)
		t->lost = SY_FOUND_LOST_DAMAGED;
	else if (result == SY_DISK_CUT)
		t->lost = SY_FOUND_LOST_CUT;
	core->volatiles.tier.lost_blobs++;
	sy_tier_drop_copies(core, blob, now_ns);
}

/* One that is read again and again belongs into the slab, if that has room. */
static bool is_worth_keeping(struct sy_core *core, uint32_t blob, uint32_t copy)
{
	const struct sy_blob *b = sy_blob_at(core, blob), *c = sy_blob_at(core, copy);
	uint64_t kept = sy_tier_kept_bytes(core) + c->nbytes;
	uint64_t slab_bytes = core->tables.spaces[SY_SPACE_SLAB].bytes;
	return b->io_count == 0 && c->nbytes == b->nbytes && sy_tiered_at(core, blob)->reads >= 2 &&
	       kept <= slab_bytes / 100 * SY_TIER_HIGH_PERCENT &&
	       sy_region_space_of(core, c->offset) == SY_SPACE_SLAB;
}

static void ready(struct sy_core *core, uint32_t blob, uint32_t copy, uint64_t now_ns)
{
	struct sy_tier *tier = &core->volatiles.tier;
	struct sy_tiered *t = sy_tiered_at(core, copy);
	tier->loads++;
	tier->read_bytes += sy_blob_at(core, copy)->nbytes;
	t->ready = true;
	if (!SY_MUTANT(70))
		sy_park_wake(core, copy);
	t->idle_until_ns = now_ns + core->params.park_max_ns + idle_ns;
	if (!is_worth_keeping(core, blob, copy)) {
		sy_tier_place(core, copy);
		return;
	}
	tier->promotions++;
	sy_blob_adopt(core, blob, copy);
	sy_blob_settle(core, copy, now_ns);
	sy_tier_drop_copies(core, blob, now_ns);
	sy_tiered_at(core, blob)->reads = 0;
}

void sy_load_done(struct sy_core *core, uint32_t copy, uint8_t result, uint64_t now_ns)
{
	struct sy_tier *tier = &core->volatiles.tier;
	struct sy_tiered *t = sy_tiered_at(core, copy);
	uint32_t blob = t->source;
	t->running = false;
	tier->reads_running--;
	tier->read_errors += result != SY_DISK_OK;
	sy_blob_at(core, copy)->io_count--;
	if (blob == 0) {
		sy_blob_settle(core, copy, now_ns);
		return;
	}
	sy_blob_at(core, blob)->io_count--;
	if (sy_blob_at(core, blob)->state != SY_BLOB_ON_SSD || sy_tiered_at(core, blob)->lost != 0) {
		sy_tier_drop_copy(core, copy, now_ns);
		sy_blob_settle(core, blob, now_ns);
	} else if (result == SY_DISK_OK) {
		ready(core, blob, copy, now_ns);
	} else if (++t->tries < TRIES) {
		sy_tier_move(core, copy, SY_TIER_READS);
	} else {
		sy_tier_drop_copy(core, copy, now_ns);
		lose(core, blob, result, now_ns);
	}
}
