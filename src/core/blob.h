/* Blobs: the table, the moves between states, the accounts. */
#ifndef SY_BLOB_H
#define SY_BLOB_H

#include "arena.h"

static inline struct sy_blob *sy_blob_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.blobs, index);
}

/* A blob in state ALLOCATED with a new region and generation, found by its id. 0 and the
 * resource that is short (BLOBS or BYTES) if there is no room. */
uint32_t sy_blob_alloc(struct sy_core *core, uint32_t ns, sy_blob_id id, uint64_t nbytes,
                       uint32_t entry_count, enum sy_resource *ret_short);

/* The blob of this id in this namespace (never a RETIRED one), or 0. */
uint32_t sy_blob_find(struct sy_core *core, uint32_t ns, sy_blob_id id);

/* Moves to another state: asserts the arrow, moves the bytes between accounts, counts it.
 * A move to RETIRED takes the blob out of the id hash; a move to FREE gives back its region,
 * its entries, names and the record itself. Lists it stands in (session, timer, names) are the
 * caller's: it is in none of them when it becomes FREE. */
void sy_blob_move(struct sy_core *core, uint32_t blob, enum sy_blob_state to);

/* After a change of live_count or pin_count: PUBLISHED with no live entry becomes RELEASED; a
 * RELEASED one without pins becomes FREE, or QUARANTINED (and enters the timer list) while a
 * pin that expired may still be read. */
void sy_blob_settle(struct sy_core *core, uint32_t blob, uint64_t now_ns);

/* Rebuilds everything derived from blobs in authoritative states and their entries, dropping
 * what is volatile: ALLOCATED, RETIRED and QUARANTINED blobs become holes. For a start on what
 * a killed unit left, and for the simulator's comparison (which uses keep_volatile: regions of
 * those blobs are kept and only derived tables are made anew). Bounded by the tables' sizes. */
void sy_core_rebuild(struct sy_core *core, bool keep_volatile);

/* Recomputes every account, count, link and reference from the tables and asserts that all are
 * equal (I6); O(everything), for tests. Returns NULL, or what is wrong (static text), so that
 * it works where assertions are off. */
const char *sy_core_audit(struct sy_core *core);

#endif
