/* The disk tier: which blobs go to disk and come back, and when.
 *
 *   above the high watermark   the blobs read longest ago are written, down to the low one
 *   a put finds no hole        more are, as long as it waits; or it goes through staging, and is
 *                              COMMITTING until its record is written
 *   a resolve finds ON_SSD     what it asks for is read into a LOADING copy, shared by all who
 *                              ask for it, pinned by them, and dropped some seconds after the last
 *   a blob is read again       its whole copy becomes the blob's region: PUBLISHED
 *   a write fails              the blob stays where it is, and the tier pauses
 *   a read fails twice         the blob is lost: resolves are told so and why, until its keys are
 *                              put anew or cleared
 *
 * Each of its disk operations holds io_count of the blobs whose region or record it touches. */
#ifndef SY_TIER_H
#define SY_TIER_H

#include "handle.h"
#include "tier_list.h"

enum {
	SY_TIER_HIGH_PERCENT = 85,
	SY_TIER_LOW_PERCENT = 75,
	SY_TIER_RUNNING_MAX = 16,  /* writes, and as many reads, with the shell at once */
	SY_TIER_QUEUED_MAX = 256,  /* reads that wait; past that Busy(loading) for others */
	SY_TIER_COPIES_MAX = 4,    /* of parts of one blob; the next one is of the whole */
};

/* After each event: writes what is to go, begins operations that wait. False: there was no room
 * for more effects. */
bool sy_tier_run(struct sy_step *step);
/* SY_EVENT_DISK. One that is not under way any more is left aside. */
void sy_tier_done(struct sy_step *step, const struct sy_event *event);
/* With the other timers: copies that nobody came for go. */
void sy_tier_expire(struct sy_step *step);
uint64_t sy_tier_deadline(const struct sy_core *core);

/* An accepted commit of a blob in staging, with entries pending: its write is queued. */
void sy_tier_spill(struct sy_core *core, uint32_t blob, uint64_t until_ns);
/* Its client gave the put up before the record was written: it is not published. */
void sy_tier_abort(struct sy_core *core, uint32_t blob, uint64_t now_ns);
/* Does it write, or could it: does room come of it? */
bool sy_tier_writes(const struct sy_core *core);
/* Could what lacks bytes have them soon, as far as the tier goes? */
bool sy_tier_makes_room(const struct sy_core *core);
/* Must a blob of so many bytes go through staging, because the tier cannot make a hole for it? */
bool sy_tier_must_stage(struct sy_core *core, uint64_t nbytes);

/* What blobs have of the slab, and keep: copies of what is on disk go when they must. */
uint64_t sy_tier_kept_bytes(const struct sy_core *core);

/* tier_load.c. One resolve: begin, ask for each value that is on disk, then start. */
void sy_load_begin(struct sy_core *core);
/* The ready copy that has this range of the blob, or 0: it is noted as asked for. */
uint32_t sy_load_find(struct sy_core *core, uint32_t blob, uint64_t from, uint64_t to,
                      uint64_t now_ns);

enum sy_load_start {
	SY_LOAD_NONE,    /* nothing was asked for */
	SY_LOAD_WAIT,    /* wait for *ret_copy, or, if that is 0, for a hole of *ret_need */
	SY_LOAD_FULL,    /* as much as *ret_need cannot be had at once */
	SY_LOAD_TOO_MANY /* the queue is full, of others' reads */
};
/* Begins the reads that were asked for and are not under way, unless they are more than `limit`
 * bytes. It may take the room of copies that somebody has had; first: also of those that others
 * have not come for yet. */
enum sy_load_start sy_load_start(struct sy_core *core, uint64_t now_ns, uint64_t limit,
                                 bool first, uint32_t *ret_copy, uint64_t *ret_need);
/* Slab and disk are full: room for a read of so many bytes comes from copies alone, if at all. */
bool sy_load_is_stuck(const struct sy_core *core, uint64_t need);
/* Nor can it come from them: for the resolve that lacks it, now. */
bool sy_load_is_hopeless(const struct sy_core *core, uint64_t need);
/* A read ended (enum sy_disk_result); a first failure is tried again. */
void sy_load_done(struct sy_core *core, uint32_t copy, uint8_t result, uint64_t now_ns);
/* The idle copy that goes first, if any, is dropped; none that this resolve asked for (0: any),
 * and if `taken` only one that somebody has had. */
bool sy_load_evict(struct sy_core *core, uint64_t spare, bool taken, uint64_t now_ns);

void sy_tier_reset(struct sy_core *core); /* for rebuild.c: forgets everything */
const char *sy_tier_fault(struct sy_core *core); /* for the audit */

#endif
