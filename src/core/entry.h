/* Entries: keys to entries and rows to entries, over two hashes with one bucket an entry.
 * Several linked entries may share a key: at most one visible, and PENDING ones of blobs that
 * are still COMMITTING, newest first. */
#ifndef SY_ENTRY_H
#define SY_ENTRY_H

#include "arena.h"

/* Can these entries be added? SY_RESOURCE_NONE, or the resource that is short: ENTRIES,
 * FIELDS, SHAPES, with need and free. Counts exactly the names and shapes that are new. */
enum sy_resource sy_entry_room(struct sy_core *core, const sy_index *index, uint64_t *ret_need,
                               uint64_t *ret_free);

/* Makes an entry for each key of the index, live, linked into the blob and both hashes; an
 * older visible entry of the same key loses its live bit and its links, and its blob its count
 * (unless pending: then the older stays). sy_entry_room said NONE. A blob that lost its last
 * live entry is moved to RELEASED and, if nothing holds it, freed (sy_blob_settle).
 * Returns the number of entries overwritten. */
uint64_t sy_entry_add_all(struct sy_core *core, uint32_t blob, const sy_index *index, bool pending,
                          uint64_t now_ns);

/* The visible entry of a key, or 0. */
uint32_t sy_entry_find(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field);
/* First linked entry of a row, or 0; the next of the same row, or 0. */
uint32_t sy_entry_row_first(struct sy_core *core, uint32_t ns, uint64_t row);
uint32_t sy_entry_row_next(struct sy_core *core, uint32_t entry);
/* Prefetches what sy_entry_find of this key will touch first, for batches. */
void sy_entry_prefetch(struct sy_core *core, uint32_t ns, uint64_t row, uint32_t field);

/* Clears the live bit, unlinks from both hashes, counts down the blob, which is settled when
 * its last live entry goes. The item itself is freed with its blob. */
void sy_entry_kill(struct sy_core *core, uint32_t entry, uint64_t now_ns);
/* Makes the pending entries of a blob visible, each removing the older one of its key. */
void sy_entry_show_all(struct sy_core *core, uint32_t blob, uint64_t now_ns);

/* Bytes stored and dim0 of an entry (index.h). */
uint64_t sy_entry_bytes(struct sy_core *core, const struct sy_entry *entry);
uint64_t sy_entry_dim0(struct sy_core *core, const struct sy_entry *entry);

static inline struct sy_entry *sy_entry_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.entries, index);
}

#endif
