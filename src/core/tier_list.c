#include "tier_list.h"

#include "guard.h"
#include "park.h"
#include "region.h"
#include "reserve.h"

#include <stddef.h>

static const uint32_t link_at = offsetof(struct sy_tiered, link);
static const uint32_t copy_link_at = offsetof(struct sy_tiered, copy_link);

void sy_tier_move(struct sy_core *core, uint32_t index, enum sy_tier_list list)
{
	struct sy_tier *tier = &core->volatiles.tier;
	struct sy_tiered *t = sy_tiered_at(core, index);
	if (t->list != SY_TIER_NONE)
		sy_chain_remove(core, &tier->blobs, link_at, &tier->lists[t->list], index);
	t->list = (uint8_t)list;
	if (list != SY_TIER_NONE)
		sy_chain_append(core, &tier->blobs, link_at, &tier->lists[list], index);
}

void sy_tier_place(struct sy_core *core, uint32_t index)
{
	if (!sy_tier_is_on(core))
		return;
	const struct sy_blob *blob = sy_blob_at(core, index);
	struct sy_tiered *t = sy_tiered_at(core, index);
	enum sy_tier_list list = SY_TIER_NONE;
	t->taken = t->taken || (t->ready && blob->pin_count > 0);
	bool held = blob->pin_count > 0 && !SY_MUTANT(37);
	if (blob->state == SY_BLOB_PUBLISHED && !held)
		list = sy_region_space_of(core, blob->offset) == SY_SPACE_STAGING ? SY_TIER_STAGED
		                                                                  : SY_TIER_COLD;
	else if (blob->state == SY_BLOB_LOADING && t->ready && blob->pin_count == 0)
		list = SY_TIER_IDLE;
	else if (t->list == SY_TIER_WRITES || t->list == SY_TIER_READS)
		return; /* its operation has not begun: whoever begins or drops it takes it out */
	if (t->list == list)
		return;
	/* Sorted by time, whatever comes back into it. */
	const struct sy_chain *idle = &core->volatiles.tier.lists[SY_TIER_IDLE];
	if (list == SY_TIER_IDLE && idle->tail != 0)
		t->idle_until_ns = sy_max_u64(t->idle_until_ns,
		                              sy_tiered_at(core, idle->tail)->idle_until_ns);
	sy_tier_move(core, index, list);
}

void sy_tier_touch(struct sy_core *core, uint32_t index)
{
	if (!sy_tier_is_on(core))
		return;
	uint8_t list = sy_tiered_at(core, index)->list;
	if (list == SY_TIER_COLD || list == SY_TIER_UNFIT) {
		sy_tier_move(core, index, SY_TIER_NONE);
		sy_tier_place(core, index);
	}
}

static void leave_source(struct sy_core *core, uint32_t copy)
{
	struct sy_tier *tier = &core->volatiles.tier;
	struct sy_tiered *t = sy_tiered_at(core, copy);
	if (t->source == 0)
		return;
	sy_chain_remove(core, &tier->blobs, copy_link_at, &sy_tiered_at(core, t->source)->copies,
	                copy);
	t->source = 0;
}

void sy_tier_forget(struct sy_core *core, uint32_t index)
{
	if (!sy_tier_is_on(core))
		return;
	struct sy_tiered *t = sy_tiered_at(core, index);
	SY_ASSERT(!t->running && t->copies.count == 0 && t->waiting.count == 0);
	sy_tier_move(core, index, SY_TIER_NONE);
	leave_source(core, index);
	memset(t, 0, sizeof *t);
	core->volatiles.tier.changed = true;
}

void sy_tier_drop_copy(struct sy_core *core, uint32_t copy, uint64_t now_ns)
{
	const struct sy_tiered *t = sy_tiered_at(core, copy);
	if (t->running && t->source != 0) {
		if (!SY_MUTANT(35))
			return; /* a read that runs keeps its source, too: it is looked at when it ends */
		sy_blob_at(core, t->source)->io_count--;
	}
	sy_tier_move(core, copy, SY_TIER_NONE);
	leave_source(core, copy);
	sy_park_wake(core, copy);
	sy_blob_move(core, copy, SY_BLOB_RELEASED);
	sy_blob_settle(core, copy, now_ns);
	core->volatiles.tier.changed = true;
}

void sy_tier_drop_copies(struct sy_core *core, uint32_t source, uint64_t now_ns)
{
	uint32_t next = 0;
	for (uint32_t at = sy_tiered_at(core, source)->copies.head; at != 0; at = next) {
		next = sy_tiered_at(core, at)->copy_link.next;
		sy_tier_drop_copy(core, at, now_ns);
	}
}

void sy_tier_released(struct sy_core *core, uint32_t index, uint64_t now_ns)
{
	sy_blob_move(core, index, SY_BLOB_RELEASED);
	if (sy_tier_is_on(core))
		sy_tier_drop_copies(core, index, now_ns);
}

void sy_tier_dropped(struct sy_core *core, uint32_t index)
{
	if (!sy_tier_is_on(core))
		return;
	if (sy_tiered_at(core, index)->list == SY_TIER_WRITES || SY_MUTANT(31))
		sy_reserve_free(core, index);
}
