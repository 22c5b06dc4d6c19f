#include "tier.h"

#include "entry.h"
#include "guard.h"
#include "intern.h"
#include "park.h"
#include "record.h"
#include "region.h"
#include "reserve.h"

#include <stddef.h>

/* Looks at blobs in one step, and a pause after a failed write. */
enum { LOOKS = 64 };
static const uint64_t pause_ns = 1000000000u;

static const struct sy_space *slab_space(const struct sy_core *core)
{
	return &core->tables.spaces[SY_SPACE_SLAB];
}

static uint64_t percent(uint64_t bytes, uint64_t share)
{
	return bytes / 100 * share + bytes % 100 * share / 100;
}

/* How many may go to disk, as far as is known. */
static uint64_t candidates(const struct sy_core *core)
{
	const struct sy_tier *tier = &core->volatiles.tier;
	uint64_t count = (uint64_t)tier->lists[SY_TIER_COLD].count + tier->lists[SY_TIER_STAGED].count;
	return count + sy_min_u64(tier->unfit_left, tier->lists[SY_TIER_UNFIT].count);
}

/* Is there a demotion that may begin? */
static bool can_demote(const struct sy_core *core)
{
	return candidates(core) > 0 && core->volatiles.tier.pause_until_ns == 0;
}

bool sy_tier_writes(const struct sy_core *core)
{
	const struct sy_tier *tier = &core->volatiles.tier;
	return tier->writes_running > 0 || tier->lists[SY_TIER_WRITES].count > 0 || can_demote(core);
}

bool sy_tier_makes_room(const struct sy_core *core)
{
	return sy_tier_is_on(core) &&
	       (core->volatiles.tier.lists[SY_TIER_IDLE].count > 0 || sy_tier_writes(core));
}

bool sy_tier_must_stage(struct sy_core *core, uint64_t nbytes)
{
	const uint64_t *bytes = core->tables.bytes;
	uint64_t freeable = slab_space(core)->free_bytes + bytes[SY_BLOB_PUBLISHED] +
	                    bytes[SY_BLOB_DEMOTING] + bytes[SY_BLOB_LOADING];
	/* What could not be written would only fail later. */
	bool writes = core->volatiles.tier.pause_until_ns == 0 &&
	              sy_record_bytes(nbytes) <= sy_region_largest_hole(core, SY_SPACE_DISK);
	return writes && nbytes <= sy_region_largest_hole(core, SY_SPACE_STAGING) &&
	       (nbytes > freeable || !sy_tier_makes_room(core));
}

/* What the first of those that wait lacks: bytes in one piece. 0: nobody waits for the tier. */
static uint64_t lacking(struct sy_core *core, enum sy_park_queue queue)
{
	uint32_t at = core->volatiles.parked_queues[queue].head;
	uint64_t bytes = at != 0 ? sy_parked_at(core, at)->need_bytes : 0;
	return bytes > sy_region_largest_hole(core, SY_SPACE_SLAB) ? bytes : 0;
}

static uint64_t wanted_bytes(struct sy_core *core)
{
	return sy_max_u64(lacking(core, SY_PARK_TIER), lacking(core, SY_PARK_ROOM));
}

static void emit(struct sy_step *step, uint32_t index, enum sy_effect_kind kind)
{
	struct sy_core *core = step->core;
	struct sy_tiered *t = sy_tiered_at(core, index);
	const struct sy_blob *blob = sy_blob_at(core, index);
	bool reads = kind == SY_EFFECT_DISK_READ;
	const struct sy_blob *record = reads ? sy_blob_at(core, t->source) : blob;
	struct sy_effect *effect = sy_step_emit(step, kind);
	effect->blob = index;
	effect->grant = blob->grant;
	effect->offset = blob->offset;
	effect->nbytes = blob->nbytes;
	effect->skip = t->source_at;
	effect->disk_at = record->disk_at;
	effect->generation = record->generation;
	effect->record_nbytes = record->nbytes;
	effect->blob_id = record->id;
	effect->ns = sy_name_text(core, &core->tables.namespaces, record->ns);
	t->running = true;
	sy_blob_at(core, index)->io_count++;
	if (reads) {
		sy_blob_at(core, t->source)->io_count++;
		core->volatiles.tier.reads_running++;
	} else {
		core->volatiles.tier.writes_running++;
	}
}

static void demote(struct sy_step *step, uint32_t index)
{
	struct sy_core *core = step->core;
	struct sy_tier *tier = &core->volatiles.tier;
	const struct sy_blob *blob = sy_blob_at(core, index);
	if (sy_region_space_of(core, blob->offset) == SY_SPACE_SLAB)
		tier->demoting_bytes += blob->nbytes;
	sy_blob_move(core, index, SY_BLOB_DEMOTING);
	emit(step, index, SY_EFFECT_DISK_WRITE);
	if (SY_MUTANT(34)) {
		tier->demoting_bytes -= sy_min_u64(blob->nbytes, tier->demoting_bytes);
		sy_blob_move(core, index, SY_BLOB_ON_SSD);
	}
}

/* Gives the blob its room on the disk. One that fits no hole stands aside until there are others,
 * so that it keeps nobody from going. */
static bool fits(struct sy_core *core, uint32_t index)
{
	struct sy_tier *tier = &core->volatiles.tier;
	if (sy_blob_open_run(core, index))
		return true;
	sy_tier_move(core, index, SY_TIER_UNFIT);
	tier->full_count += !can_demote(core);
	return false;
}

/* The next one to go, with room for it on the disk: what stands in staging, then what was read
 * longest ago. One that a reader whose pin expired may still be reading is passed over. */
static uint32_t next_victim(struct sy_step *step, bool from_cold, uint32_t *looks)
{
	struct sy_core *core = step->core;
	struct sy_tier *tier = &core->volatiles.tier;
	static const enum sy_tier_list order[] = {SY_TIER_STAGED, SY_TIER_UNFIT, SY_TIER_COLD};
	for (int i = 0; i < (from_cold ? 3 : 1); i++) {
		enum sy_tier_list list = order[i];
		uint32_t count = tier->lists[list].count;
		if (list == SY_TIER_UNFIT)
			count = tier->unfit_left = tier->unfit_left < count ? tier->unfit_left : count;
		for (; count > 0 && *looks > 0; count--, --*looks) {
			uint32_t index = tier->lists[list].head;
			bool held = sy_blob_at(core, index)->quarantine_until_ns > step->now_ns;
			tier->unfit_left -= list == SY_TIER_UNFIT; /* never held: a pin takes it out */
			if (held)
				sy_tier_move(core, index, list);
			else if (fits(core, index))
				return index;
		}
	}
	return 0;
}

/* Copies that were had go first: that costs nothing. The others are of one who waits for more:
 * they go only for a put, where no write makes room. What is still lacking then, 0: nothing. */
static uint64_t drop_copies(struct sy_core *core, uint64_t wanted, uint64_t now_ns)
{
	for (int i = 0; i < LOOKS && wanted > 0; i++) {
		if (!sy_load_evict(core, 0, true, now_ns))
			break;
		wanted = wanted_bytes(core);
	}
	if (lacking(core, SY_PARK_TIER) > 0 &&
	    core->volatiles.tier.writes_running == 0 && !can_demote(core))
		(void)sy_load_evict(core, 0, false, now_ns);
	return wanted;
}

uint64_t sy_tier_kept_bytes(const struct sy_core *core)
{
	const struct sy_space *space = slab_space(core);
	uint64_t used = space->bytes - space->free_bytes - core->volatiles.tier.demoting_bytes;
	return used - sy_min_u64(used, core->tables.bytes[SY_BLOB_LOADING]);
}

/* False: it is not through with those that fit nowhere, and is to go on at once. */
static bool make_room(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_tier *tier = &core->volatiles.tier;
	const struct sy_space *space = slab_space(core);
	uint64_t wanted = drop_copies(core, wanted_bytes(core), step->now_ns);
	uint64_t before = candidates(core);
	uint32_t looks = LOOKS;
	while (looks > 0 && tier->writes_running < SY_TIER_RUNNING_MAX && sy_step_room(step) > 1 &&
	       can_demote(core)) {
		uint64_t used = sy_tier_kept_bytes(core);
		if (used > percent(space->bytes, SY_TIER_HIGH_PERCENT))
			tier->draining = true;
		else if (used <= percent(space->bytes, SY_TIER_LOW_PERCENT))
			tier->draining = false;
		bool asked = wanted > 0 && tier->demoting_bytes < 2 * wanted;
		uint32_t victim = next_victim(step, tier->draining || asked, &looks);
		if (victim == 0)
			break;
		demote(step, victim);
	}
	return looks > 0 || candidates(core) == before;
}

void sy_tier_spill(struct sy_core *core, uint32_t index, uint64_t until_ns)
{
	sy_blob_at(core, index)->until_ns = until_ns;
	sy_tier_move(core, index, SY_TIER_WRITES);
}

static void begin_waiting(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_tier *tier = &core->volatiles.tier;
	const struct sy_chain *reads = &tier->lists[SY_TIER_READS];
	const struct sy_chain *writes = &tier->lists[SY_TIER_WRITES];
	while (reads->head != 0 && tier->reads_running < SY_TIER_RUNNING_MAX &&
	       sy_step_room(step) > 1) {
		uint32_t copy = reads->head;
		sy_tier_move(core, copy, SY_TIER_NONE);
		emit(step, copy, SY_EFFECT_DISK_READ);
	}
	while (writes->head != 0 && tier->writes_running < SY_TIER_RUNNING_MAX &&
	       sy_step_room(step) > 1) {
		uint32_t blob = writes->head;
		sy_tier_move(core, blob, SY_TIER_NONE);
		emit(step, blob, SY_EFFECT_DISK_WRITE);
	}
}

bool sy_tier_run(struct sy_step *step)
{
	if (!sy_tier_is_on(step->core))
		return true;
	begin_waiting(step);
	return make_room(step) && sy_step_room(step) > 1;
}

/* All entries of a blob go, and with the last of them what the blob is for. */
static void kill_all(struct sy_core *core, uint32_t index, uint64_t now_ns)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	uint32_t left = blob->live_count, next = 0;
	for (uint32_t at = blob->entry_head; at != 0 && left > 0; at = next) {
		next = sy_entry_at(core, at)->blob_next;
		if ((sy_entry_at(core, at)->flags & SY_ENTRY_LIVE) == 0)
			continue;
		left--;
		sy_entry_kill(core, at, now_ns);
	}
}

void sy_tier_abort(struct sy_core *core, uint32_t index, uint64_t now_ns)
{
	if (!SY_MUTANT(39))
		kill_all(core, index, now_ns);
}

static void fail_write(struct sy_core *core, const struct sy_event *event, uint64_t now_ns)
{
	struct sy_tier *tier = &core->volatiles.tier;
	tier->write_errors++;
	tier->full_count += event->disk.result == SY_DISK_FULL;
	tier->pause_until_ns = now_ns + pause_ns;
}

/* A put that waited for its record. Its caller may have been told Timeout meanwhile. */
static void commit_done(struct sy_core *core, uint32_t index, bool ok, uint64_t now_ns)
{
	struct sy_tier *tier = &core->volatiles.tier;
	bool in_time = now_ns < sy_blob_at(core, index)->until_ns || SY_MUTANT(38);
	if (sy_blob_at(core, index)->live_count == 0) {
		sy_reserve_free(core, index);
	} else if ((ok || SY_MUTANT(32)) && in_time) {
		sy_reserve_remove(core, index);
		tier->spills++;
		core->volatiles.puts++;
		sy_blob_move(core, index, SY_BLOB_ON_SSD);
		sy_entry_show_all(core, index, now_ns);
	} else if (SY_MUTANT(33)) {
		sy_reserve_remove(core, index);
		sy_blob_move(core, index, SY_BLOB_ON_SSD);
		sy_entry_show_all(core, index, now_ns);
		kill_all(core, index, now_ns);
	} else {
		sy_reserve_free(core, index);
	}
}

static void demote_done(struct sy_core *core, uint32_t index, bool ok, uint64_t now_ns)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	bool held = (blob->pin_count > 0 && !SY_MUTANT(37)) || blob->quarantine_until_ns > now_ns;
	if (ok && !held) {
		core->volatiles.tier.demotions++;
		sy_blob_move(core, index, SY_BLOB_ON_SSD);
		return;
	}
	if (!SY_MUTANT(40) || !ok)
		sy_blob_close_run(core, index);
	sy_blob_move(core, index, SY_BLOB_PUBLISHED);
}

static void write_done(struct sy_core *core, uint32_t index, const struct sy_event *event,
                       uint64_t now_ns)
{
	struct sy_tier *tier = &core->volatiles.tier;
	struct sy_blob *blob = sy_blob_at(core, index);
	bool ok = event->disk.result == SY_DISK_OK;
	sy_tiered_at(core, index)->running = false;
	blob->io_count--;
	tier->writes_running--;
	if (ok)
		tier->written_bytes += blob->nbytes;
	else
		fail_write(core, event, now_ns);
	bool leaves = blob->state == SY_BLOB_DEMOTING || blob->state == SY_BLOB_RELEASED;
	if (leaves && sy_region_space_of(core, blob->offset) == SY_SPACE_SLAB)
		tier->demoting_bytes -= blob->nbytes;
	if (blob->state == SY_BLOB_DEMOTING)
		demote_done(core, index, ok, now_ns);
	else if (blob->state == SY_BLOB_COMMITTING)
		commit_done(core, index, ok, now_ns);
	else
		sy_blob_settle(core, index, now_ns);
}

void sy_tier_done(struct sy_step *step, const struct sy_event *event)
{
	struct sy_core *core = step->core;
	uint32_t index = event->disk.blob;
	if (!sy_tier_is_on(core) || index == 0 || index > core->tables.blobs.touched)
		return;
	const struct sy_blob *blob = sy_blob_at(core, index);
	if (blob->state == SY_BLOB_FREE || blob->grant != event->disk.grant ||
	    !sy_tiered_at(core, index)->running)
		return;
	/* A copy has no entries and no record of its own. */
	if (sy_blob_is_copy(blob))
		sy_load_done(core, index, event->disk.result, step->now_ns);
	else
		write_done(core, index, event, step->now_ns);
	core->volatiles.tier.changed = true;
}

void sy_tier_expire(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_tier *tier = &core->volatiles.tier;
	if (tier->pause_until_ns != 0 && tier->pause_until_ns <= step->now_ns)
		tier->pause_until_ns = 0;
	for (int i = 0; i < LOOKS && tier->lists[SY_TIER_IDLE].head != 0; i++) {
		uint32_t copy = tier->lists[SY_TIER_IDLE].head;
		if (sy_tiered_at(core, copy)->idle_until_ns > step->now_ns)
			break;
		sy_tier_drop_copy(core, copy, step->now_ns);
	}
}

uint64_t sy_tier_deadline(const struct sy_core *core)
{
	const struct sy_tier *tier = &core->volatiles.tier;
	uint64_t due_ns = tier->pause_until_ns != 0 ? tier->pause_until_ns : UINT64_MAX;
	uint32_t copy = tier->lists[SY_TIER_IDLE].head;
	if (copy != 0) {
		const struct sy_tiered *t = (const void *)((const char *)core + tier->blobs.at +
		                                           (uint64_t)copy * tier->blobs.item_bytes);
		due_ns = sy_min_u64(due_ns, t->idle_until_ns);
	}
	return due_ns;
}

void sy_tier_reset(struct sy_core *core)
{
	struct sy_tier *tier = &core->volatiles.tier;
	const struct sy_pool blobs = tier->blobs;
	*tier = (struct sy_tier){.blobs = blobs};
	for (uint32_t i = 1; i <= core->tables.blobs.touched && sy_tier_is_on(core); i++)
		memset(sy_tiered_at(core, i), 0, sizeof(struct sy_tiered));
}
