/* Blobs: the table, the moves between states, the accounts. */
#ifndef SY_BLOB_H
#define SY_BLOB_H

#include "arena.h"

/* An entry's place in its blob is kept in 32 bits, in units of 64 bytes. */
#define SY_BLOB_MAX_BYTES ((uint64_t)1 << 38)

static inline struct sy_blob *sy_blob_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.blobs, index);
}

/* Of two kinds no id tells: a copy of what is on disk, which has no name either, and a grant, a
 * region whose put is still to come (grant.h). */
static inline bool sy_blob_is_copy(const struct sy_blob *blob)
{
	return blob->entry_count == 0 && blob->name.session == 0;
}

static inline bool sy_blob_is_grant(const struct sy_blob *blob)
{
	return blob->entry_count == 0 && blob->name.session != 0;
}

/* A blob in state ALLOCATED with a new region and generation, found by its id; it holds its own
 * reference to the namespace. 0 and the resource that is short (BLOBS or BYTES) if there is no
 * room in that space. nbytes is 1..SY_BLOB_MAX_BYTES, and no blob of this id is found by
 * sy_blob_find. entry_count 0: a grant, which has no id yet. */
uint32_t sy_blob_alloc(struct sy_core *core, uint32_t ns, sy_blob_id id, enum sy_space_id space,
                       uint64_t nbytes, uint32_t entry_count, enum sy_resource *ret_short);

/* A grant (below) becomes the blob of this id: nbytes of its region are kept, what is beyond goes
 * back. Entries are still to come; no blob of this id is found by sy_blob_find. */
void sy_blob_claim(struct sy_core *core, uint32_t blob, sy_blob_id id, uint64_t nbytes,
                   uint32_t entry_count);

/* A blob in state LOADING, a copy of nbytes of one that is ON_SSD, with a new region and
 * generation and no entries, not found by any id. 0: there is no room. */
uint32_t sy_blob_copy(struct sy_core *core, uint32_t source, enum sy_space_id space,
                      uint64_t nbytes);
/* A blob that is ON_SSD takes over the region of a whole copy and is PUBLISHED; its run of the
 * disk is given back. The copy is left RELEASED and without a region; nothing pins it. */
void sy_blob_adopt(struct sy_core *core, uint32_t blob, uint32_t copy);

/* Takes a run of the disk for the record of a blob that has none; false: there is no room. */
bool sy_blob_open_run(struct sy_core *core, uint32_t blob);
/* Gives it back; a no-op if there is none. */
void sy_blob_close_run(struct sy_core *core, uint32_t blob);

/* The blob of this id in this namespace (never a RETIRED or QUARANTINED one: those are gone and
 * only their regions remain), or 0. */
uint32_t sy_blob_find(struct sy_core *core, uint32_t ns, sy_blob_id id);

/* For rebuild.c: the blob, in the state it has, enters the accounts with this region and this run
 * of the disk (0: it has none) and, where it is found by its id, the id hash. */
void sy_blob_restore(struct sy_core *core, uint32_t blob, uint32_t region, uint32_t run);

/* Moves to another state: asserts the arrow, moves the bytes between accounts, counts it.
 * A move to RETIRED or QUARANTINED takes the blob out of the id hash; one to ON_SSD gives back
 * the region (and one back needs a new region first); a move to FREE gives back the region, the
 * entries (those of a COMMITTING blob unlinked first), names and the record itself, which then
 * reads as state FREE. Lists it stands in (session, timer, names) are the caller's: it is in
 * none of them when it becomes FREE. The store of the state is the one that a killed unit is
 * started again by: what it promises stands before it, what it takes back goes after it.
 * Commits go through sy_entry_add_all, which moves the blob itself. */
void sy_blob_move(struct sy_core *core, uint32_t blob, enum sy_blob_state to);

/* After a change of live_count, pin_count or io_count: PUBLISHED, DEMOTING or ON_SSD with no live
 * entry becomes RELEASED, and COMMITTING FREE once its write is over; a RELEASED one without pins
 * and disk operations becomes FREE, or, while a pin that expired may still be
 * read (quarantine_until_ns is later than now), QUARANTINED: it then enters
 * volatiles.quarantined_blobs with its timer_ns, which keeps that list sorted. */
void sy_blob_settle(struct sy_core *core, uint32_t blob, uint64_t now_ns);

/* Rebuilds everything derived from blobs in authoritative states and their entries, dropping
 * what is volatile: sessions, pins, jobs, parked requests, and blobs that are not PUBLISHED,
 * DEMOTING (back to PUBLISHED) or ON_SSD become holes. For a start on what a killed unit left,
 * and for the simulator's comparison (which uses keep_volatile: every blob and all that is
 * volatile stay, and only derived tables are made anew). Bounded by the tables' sizes. */
void sy_core_rebuild(struct sy_core *core, bool keep_volatile);

/* Recomputes every account, count, link and reference from the tables and asserts that all are
 * equal (I6); O(everything), for tests. Returns NULL, or what is wrong (static text), so that
 * it works where assertions are off. */
const char *sy_core_audit(struct sy_core *core);
/* The part of it that looks at tables.h alone, and not at who owns reservations and pins. */
const char *sy_tables_audit(struct sy_core *core);

#endif
