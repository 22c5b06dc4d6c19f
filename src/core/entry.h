/* Entries: keys to entries and rows to entries, over two hashes with one bucket an entry.
 *
 * An entry is linked in both hashes exactly while it is live. Several linked entries may share a
 * key: at most one visible, and PENDING ones of blobs that are still COMMITTING; newest first,
 * and a visible one is older than all pending ones of its key:
 *
 *   commit accepted, published at once   all older ones of its keys die, pending ones too
 *   commit accepted, must spill          enters as pending; nothing dies
 *   its file is written (show_all)       each of its entries still live becomes visible, and all
 *                                        older ones of its key die; newer pending ones stay
 *   its file fails (the blob is freed)   its entries go, and what they would have replaced stays
 *   release accepted                     all linked ones of its rows accepted before it die */
#ifndef SY_ENTRY_H
#define SY_ENTRY_H

#include "arena.h"

/* Can these entries be added? SY_RESOURCE_NONE, or the resource that is short: ENTRIES,
 * FIELDS, SHAPES, with need and free (then need is larger than free; both written only then).
 * Counts the names and shapes that are new, each once; where shapes are short, need may count
 * one shape of several columns several times. */
enum sy_resource sy_entry_room(struct sy_core *core, const sy_index *index, uint64_t *ret_need,
                               uint64_t *ret_free);

/* The whole of an accepted commit. The blob is ALLOCATED, sy_entry_room said NONE, and the index
 * is a valid one with as many entries as the blob was allocated for. In this order:
 *   1. takes tables.next_accept_seq as the blob's place in the order of commits and releases;
 *   2. makes an entry for each key of the index, live, in the blob's list;
 *   3. moves the blob (sy_blob_move) to PUBLISHED, or to COMMITTING if pending;
 *   4. links the entries into both hashes; older ones of their keys die as pictured above, and a
 *      blob that so lost its last live entry is settled (sy_blob_settle).
 * A unit killed before 3 has no such commit and has lost nothing for it; killed after 3 it has
 * the whole commit, and the rebuild does what 4 had left. The caller does not move the blob.
 * Returns the number of visible entries that were overwritten. */
uint64_t sy_entry_add_all(struct sy_core *core, uint32_t blob, const sy_index *index, bool pending,
                          uint64_t now_ns);

/* The visible entry of a key, or 0. */
uint32_t sy_entry_find(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field);
/* First linked entry of a row, or 0; the next of the same row, or 0. */
uint32_t sy_entry_row_first(struct sy_core *core, uint32_t ns, uint64_t row);
uint32_t sy_entry_row_next(struct sy_core *core, uint32_t entry);
/* First linked entry of a key, visible or pending, or 0; the next older of the same key, or 0. */
uint32_t sy_entry_key_first(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field);
uint32_t sy_entry_key_next(struct sy_core *core, uint32_t entry);

enum { SY_FIND_MAX = 64 };
/* A key that is looked for among others; field 0 is a name no entry has. */
struct sy_key_ask {
	uint64_t row;
	uint32_t field;
	uint32_t entry; /* the answer, as of sy_entry_find */
};
/* Finds up to SY_FIND_MAX keys at once: their misses of the cache overlap. The blobs of those
 * found are on their way into the cache, too. */
void sy_entry_find_all(struct sy_core *core, uint32_t ns, struct sy_key_ask *asks, uint32_t count);

/* The visible entry of this key if it is the next in its blob behind `before`, a visible one; else
 * 0, and sy_entry_find may still find it. */
uint32_t sy_entry_find_after(struct sy_core *core, uint32_t ns, uint32_t before, uint64_t row,
                             uint32_t field);

/* Clears the live bit, unlinks from both hashes, counts down the blob, which is settled when
 * its last live entry goes. The item itself is freed with its blob. To walk a row or key and
 * kill, get the next entry first: being linked, it outlives the killing of this one. */
void sy_entry_kill(struct sy_core *core, uint32_t entry, uint64_t now_ns);
/* Makes the pending entries of a blob visible, each removing the older ones of its key. The blob
 * has been moved out of COMMITTING already, so that a unit killed in between has the commit. */
void sy_entry_show_all(struct sy_core *core, uint32_t blob, uint64_t now_ns);

/* For blob.c: unlinks what is live of a blob that becomes FREE; its entries wait for
 * sy_entry_reap. */
void sy_entry_drop_all(struct sy_core *core, uint32_t blob);
/* Gives back at most so many entries that wait for it (tables.reap_count). */
void sy_entry_reap(struct sy_core *core, uint32_t budget);
/* For entry_add.c and rebuild.c: links the live entries of a blob, none of which is linked yet;
 * the older ones of their keys die, and their blobs are settled or not. Called in the order of
 * accept_seq. Returns the number of visible entries that died. */
uint64_t sy_entry_link_all(struct sy_core *core, uint32_t blob, bool settle, uint64_t now_ns);

/* Bytes of one lead unit; false for what is no tensor, or a scalar. */
bool sy_entry_unit_bytes(struct sy_core *core, const struct sy_entry *entry, uint64_t *ret_bytes);
/* Bytes stored and dim0 of an entry (index.h). */
uint64_t sy_entry_bytes(struct sy_core *core, const struct sy_entry *entry);
uint64_t sy_entry_dim0(struct sy_core *core, const struct sy_entry *entry);

static inline struct sy_entry *sy_entry_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.entries, index);
}

#endif
