/* The audit of the tier's lists and of what its disk operations hold (I6). */
#include "record.h"
#include "region.h"
#include "tier.h"

#include <stddef.h>

static const char *list_fault(struct sy_core *core, enum sy_tier_list list, uint32_t *total)
{
	const struct sy_chain *chain = &core->volatiles.tier.lists[list];
	uint32_t count = 0, prev = 0;
	for (uint32_t at = chain->head; at != 0; at = sy_tiered_at(core, at)->link.next) {
		const struct sy_tiered *t = sy_tiered_at(core, at);
		if (++count > chain->count || t->list != list || t->link.prev != prev)
			return "the links of a list of the tier do not agree";
		prev = at;
	}
	*total += count;
	return count == chain->count && chain->tail == prev ? NULL
	                                                    : "a list of the tier lost a blob";
}

/* The list that a blob must stand in. */
static bool is_placed(struct sy_core *core, uint32_t index)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	const struct sy_tiered *t = sy_tiered_at(core, index);
	if (blob->state == SY_BLOB_PUBLISHED)
		return (t->list == SY_TIER_COLD || t->list == SY_TIER_STAGED ||
		        t->list == SY_TIER_UNFIT) == (blob->pin_count == 0);
	if (blob->state == SY_BLOB_LOADING && t->ready)
		return (t->list == SY_TIER_IDLE) == (blob->pin_count == 0);
	if (blob->state == SY_BLOB_LOADING)
		return (t->list == SY_TIER_READS) != t->running;
	if (blob->state == SY_BLOB_COMMITTING)
		return (t->list == SY_TIER_WRITES) != t->running;
	return t->list == SY_TIER_NONE;
}

static const char *blob_fault(struct sy_core *core, uint32_t index, uint32_t *io, uint32_t *listed)
{
	const struct sy_blob *blob = sy_blob_at(core, index);
	const struct sy_tiered *t = sy_tiered_at(core, index);
	uint32_t held = t->running;
	for (uint32_t at = t->copies.head; at != 0; at = sy_tiered_at(core, at)->copy_link.next) {
		if (sy_tiered_at(core, at)->source != index || !sy_blob_is_copy(sy_blob_at(core, at)))
			return "a copy stands with a blob that it is not of";
		held += sy_tiered_at(core, at)->running;
	}
	*io += t->running;
	*listed += t->list != SY_TIER_NONE;
	if (blob->io_count != held)
		return "a blob's count of disk operations is wrong";
	if (blob->state != SY_BLOB_FREE && !is_placed(core, index))
		return "a blob stands in the wrong list of the tier";
	if (t->list == SY_TIER_UNFIT && core->volatiles.tier.unfit_left == 0 &&
	    sy_record_bytes(blob->nbytes) <= sy_region_largest_hole(core, SY_SPACE_DISK))
		return "a blob that the disk has room for is taken for one that fits nowhere";
	return NULL;
}

const char *sy_tier_fault(struct sy_core *core)
{
	const struct sy_tier *tier = &core->volatiles.tier;
	uint32_t io = 0, listed = 0, total = 0, copies = 0;
	const char *fault = NULL;
	if (!sy_tier_is_on(core))
		return NULL;
	for (int list = SY_TIER_COLD; list < SY_TIER_LISTS && fault == NULL; list++)
		fault = list_fault(core, (enum sy_tier_list)list, &total);
	for (uint32_t i = 1; i <= core->tables.blobs.touched && fault == NULL; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		copies += blob->state != SY_BLOB_FREE && sy_blob_is_copy(blob);
		fault = blob_fault(core, i, &io, &listed);
	}
	if (fault == NULL && copies != tier->copy_count)
		fault = "the count of copies of what is on disk is wrong";
	if (fault == NULL && (io != tier->writes_running + tier->reads_running || listed != total))
		fault = "the disk operations under way, or the lists, do not add up";
	return fault;
}
