/* Memory that a caller registered for its transfers, which then use it directly: who holds it, and
 * what of it nobody may use. The accounts, as in buffers.h, of which a grave buries the holds of
 * its transfer.
 *
 * A hold is what one transfer may touch of one registration: from its beginning until its end is
 * proved, however long ago its caller was told that it failed. While there is one the registration
 * is not undone. Once it is buried, and its transfer is a READ, those bytes are in doubt: what it
 * still writes would come over what another transfer brings there, so none may use them.
 *
 * A lock of the shell's guards all of it. Memories and holds are linked in where they are, and
 * must stay there. */
#ifndef SY_MEMORIES_H
#define SY_MEMORIES_H

#include <stdbool.h>
#include <stdint.h>

struct sy_hold;

struct sy_memories {
	struct sy_memory *first;
	uint32_t doubt_count; /* buried holds of READs */
};

/* One registration. They may overlap, and one may be there twice. */
struct sy_memory {
	uint64_t addr, nbytes;
	struct sy_memories *of;
	struct sy_hold *holds;
	struct sy_memory *prev, *next;
};

struct sy_hold {
	struct sy_memory *memory;
	uint64_t from, to; /* addresses */
	bool lands;        /* of a READ, and not copied */
	bool buried;
	struct sy_hold *prev, *next;
};

enum { SY_HOLDS_MAX = 8 };

/* Of one transfer. All zero: none. */
struct sy_holds {
	struct sy_hold each[SY_HOLDS_MAX];
	uint32_t count;
};

/* nbytes is not 0, and the range does not wrap. */
void sy_memories_add(struct sy_memories *memories, struct sy_memory *memory, uint64_t addr,
                     uint64_t nbytes);

enum sy_memories_answer {
	SY_MEMORIES_REMOVED = 1, /* *ret_memory is the caller's, and no transfer touches it */
	SY_MEMORIES_UNKNOWN,     /* no such registration */
	SY_MEMORIES_HELD,        /* a transfer may touch it: it stays */
};

enum sy_memories_answer sy_memories_remove(struct sy_memories *memories, uint64_t addr,
                                           uint64_t nbytes, struct sy_memory **ret_memory);
/* One in which the range lies wholly; NULL: there is none. */
struct sy_memory *sy_memories_find(const struct sy_memories *memories, uint64_t addr,
                                   uint64_t nbytes);
/* May a READ that was given up still write to the range? */
bool sy_memories_doubt(const struct sy_memories *memories, uint64_t addr, uint64_t nbytes);

/* The transfer may touch this range, which lies in the registration. False: it holds as many as it
 * can, and not this one. */
bool sy_holds_take(struct sy_holds *holds, struct sy_memory *memory, uint64_t addr,
                   uint64_t nbytes, bool lands);
/* Before it is posted: what lies in this one of its holds is copied after all, by this process. */
void sy_holds_copied(struct sy_holds *holds, uint32_t index);
/* May the transfer itself still write what it holds? */
bool sy_holds_land(const struct sy_holds *holds);
/* The transfer was given up. */
void sy_holds_bury(struct sy_holds *holds);
/* Nothing of it touches memory any more. */
void sy_holds_end(struct sy_holds *holds);

#endif
