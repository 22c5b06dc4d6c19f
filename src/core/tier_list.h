/* The tier's lists of blobs, and what becomes of a blob that goes: the part that blob.c and pin.c
 * call. All of it is a no-op in a unit without a disk tier. */
#ifndef SY_TIER_LIST_H
#define SY_TIER_LIST_H

#include "blob.h"

static inline bool sy_tier_is_on(const struct sy_core *core)
{
	return core->params.disk_bytes > 0;
}

static inline struct sy_tiered *sy_tiered_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.tier.blobs, index);
}

/* Puts the blob into the list that its state and pins call for. One that stands in it stays. */
void sy_tier_place(struct sy_core *core, uint32_t blob);
/* It was read: the cold one goes to the end of its list. */
void sy_tier_touch(struct sy_core *core, uint32_t blob);
/* Puts it into this list, at the end, out of the one it is in. */
void sy_tier_move(struct sy_core *core, uint32_t blob, enum sy_tier_list list);
/* For a blob that becomes FREE: out of all lists. */
void sy_tier_forget(struct sy_core *core, uint32_t blob);

/* PUBLISHED, DEMOTING or ON_SSD with no live entry: RELEASED, its copies with it. */
void sy_tier_released(struct sy_core *core, uint32_t blob, uint64_t now_ns);
/* COMMITTING with no live entry: FREE, unless its write has begun. */
void sy_tier_dropped(struct sy_core *core, uint32_t blob);
/* A copy that nobody may find any more: RELEASED, and FREE once nothing holds it. */
void sy_tier_drop_copy(struct sy_core *core, uint32_t copy, uint64_t now_ns);
void sy_tier_drop_copies(struct sy_core *core, uint32_t source, uint64_t now_ns);

#endif
