/* Resolving the keys of one call: requests a unit, all units at once. */
#ifndef SY_LOOKUP_H
#define SY_LOOKUP_H

#include "hub.h"
#include "items.h"

/* One resolve_keys on its way: items[first..last), whole rows of one unit. A key that several
 * items name is asked for once. */
struct sy_lookup_part {
	struct sy_call call;
	const struct sy_items *items; /* borrowed */
	size_t first, last;
	bool distinct; /* no two of its items have one key */
	uint64_t *rows;
	uint16_t *field_of;
	struct sy_span *fields;
	bool some_lost; /* call.status is SY_E_LOST, of the keys that its answer says so of */
};

/* All of them. sy_lookup_done frees the memory; pins are the owner's to give back. */
struct sy_lookup {
	struct sy_lookup_part *parts;
	size_t part_count;
};

/* Resolves the items of all sets; all keys of one row of a set travel in one request. Every
 * request is sent before any reply is waited for. On success every part holds an
 * answer, its pin (call.op.name, if call.op.reply says any key is pinned) and its slab
 * (call.remote), in which all that is pinned lies. On failure everything is unpinned and freed,
 * and err->indexes name the keys of the parts that failed, of values that a unit's disk lost those
 * alone: SY_E_LOST before SY_E_TIMEOUT before SY_E_TRANSFER_FAILED.
 * inline_max_bytes 0: every value is pinned. Else a unit that must load what one of several
 * requests is about makes it SY_E_BUSY: the caller asks for fewer rows at once, since it must not
 * wait with pins in its hands for room that they take. */
sy_status sy_lookup_run(struct sy_hub *hub, const struct sy_items *sets, size_t set_count,
                        uint32_t inline_max_bytes, uint64_t deadline_ns,
                        struct sy_lookup *ret_lookup, sy_error *err);
void sy_lookup_done(struct sy_lookup *lookup);
/* Gives back all its pins. */
void sy_lookup_unpin(struct sy_hub *hub, const struct sy_lookup *lookup);

/* The number of items[i]'s key in the part's answer, given that of the item before (0 for the
 * first). */
static inline size_t sy_lookup_key(const struct sy_lookup_part *part, size_t i, size_t before)
{
	if (part->distinct)
		return i - part->first;
	return i > part->first && !sy_items_again(part->items, i) ? before + 1 : before;
}

/* Whether the part's answer pinned anything. */
static inline bool sy_lookup_part_pinned(const struct sy_lookup_part *part)
{
	return part->call.op.reply.resolved.sum.pinned_count > 0;
}

#endif
