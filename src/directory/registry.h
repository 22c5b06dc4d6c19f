/* Who is in which slot: the directory's rules, with no I/O. Time comes in as an argument.
 *
 *            register             no renewal            no renewal
 *   NONE ------------------> ACTIVE --------> SUSPECT ------------> DEAD
 *                             ^ |  <---------    ^   (or exited)      |
 *                   set_state | v    renewal     |                    | register of another
 *                           DRAINING ------------+                    | incarnation, of the
 *                                                                     | turn that the slot
 *                           ACTIVE <----------------------------------+ has now
 *
 * An incarnation that left its slot must never come back, though messages of it may still be
 * under way and though nobody can remember every number that was ever used. Two rules do it:
 *
 *  - A slot's next incarnation registers only when the former is DEAD, so whatever registered
 *    once and is not in the slot now is dead.
 *  - Each slot has a turn, which grows whenever its holder changes: at a register, at a death,
 *    and when a process ends that had not registered yet. A register carries the turn that it
 *    read while its sender lived, and is refused under any other. So a register that is still
 *    under way when its sender dies comes to nothing, whenever it arrives.
 *
 * A unit answers no client before it is registered; therefore an incarnation that a client has
 * met, and that is not the slot's, is dead.
 *
 * Leases (where the times are not zero): a unit that is silent is SUSPECT, then DEAD. Before it is
 * DEAD it has fallen silent by itself (unit/lease.h): the lease here counts from when a renewal
 * came, its own from when that was sent, and dead_after is longer than fence_after. Where this
 * side did not listen (it was restarted, or stood still) all leases begin anew. Without times
 * no silence kills: death is then what sy_registry_exited says. */
#ifndef SY_REGISTRY_H
#define SY_REGISTRY_H

#include "dir_message.h"

struct sy_registry;

/* All slots NONE, epoch 1. slot_count is 1 .. SY_UNITS_MAX and the times without fault, else NULL;
 * NULL too if memory is short. Owned by the caller. free(NULL) is a no-op. Not thread-safe. */
struct sy_registry *sy_registry_new(uint32_t slot_count, const struct sy_dir_times *times);
void sy_registry_free(struct sy_registry *registry);

uint64_t sy_registry_epoch(const struct sy_registry *registry);
uint32_t sy_registry_slot_count(const struct sy_registry *registry);
const struct sy_dir_times *sy_registry_times(const struct sy_registry *registry);
/* The slot as it is now; NULL if there is none of that number. Valid until the next change. */
const struct sy_unit_info *sy_registry_slot(const struct sy_registry *registry, uint32_t unit_id);

/* Registering twice under one incarnation is registering once. HELD, BURIED, TURN, NO_SLOT;
 * MALFORMED: incarnation 0, or an address at fault. state, draining and epoch of `unit` are not
 * read. Begins its lease. */
enum sy_dir_fault sy_registry_register(struct sy_registry *registry,
                                       const struct sy_unit_info *unit, uint64_t now_ns);
/* Renews its lease; SUSPECT goes back to what it was. BURIED unless the incarnation holds the slot
 * and is not DEAD; EMPTY: nobody ever did. */
enum sy_dir_fault sy_registry_renew(struct sy_registry *registry, uint32_t unit_id,
                                    uint64_t incarnation, uint64_t now_ns);
/* To ACTIVE or DRAINING, else STATE: the rest is not for anyone to say. Of a SUSPECT one it shows
 * at its next renewal. */
enum sy_dir_fault sy_registry_set_state(struct sy_registry *registry, uint32_t unit_id,
                                        uint64_t incarnation, enum sy_unit_state state);
/* That incarnation's process has ended: for ever DEAD. Of one that has not registered yet: the
 * register it may have sent is refused when it comes. Done twice it is done once. */
enum sy_dir_fault sy_registry_exited(struct sy_registry *registry, uint32_t unit_id,
                                     uint64_t incarnation);
/* The same by the process that the supervisor of this host started for the slot: call it before
 * the pid is reaped, so that it names no other. */
enum sy_dir_fault sy_registry_process_exited(struct sy_registry *registry, uint32_t unit_id,
                                             uint32_t pid);

struct sy_registry_ticked {
	uint32_t suspects, deaths; /* units that became so */
};

/* Leases that ran out by now. To be called when the deadline is due, after all renewals that came
 * before were given in. */
struct sy_registry_ticked sy_registry_tick(struct sy_registry *registry, uint64_t now_ns);
/* When the next tick can change anything; UINT64_MAX: never. May be earlier. */
uint64_t sy_registry_deadline(const struct sy_registry *registry);
/* Nobody listened for renewals up to now: every lease begins anew. */
void sy_registry_deaf(struct sy_registry *registry, uint64_t now_ns);

/* Copies the slots that changed at min_epoch or later to out, which holds slot_count; returns
 * how many. An epoch beyond the next one was learned of another cluster that was here before:
 * then all are new. */
uint32_t sy_registry_units(const struct sy_registry *registry, uint64_t min_epoch,
                           struct sy_unit_info *out);

/* Makes a registry of what was stored: `units` are all slots in order, as sy_registry_units gave
 * them. The epoch is one more than the stored one and every slot counts as changed in it, so
 * that nobody misses what was answered before and not stored. Leases begin anew at now_ns.
 * SY_E_PROTOCOL: not such a list; SY_E_SYS: memory is short. */
sy_status sy_registry_restore(uint64_t epoch, const struct sy_dir_times *times,
                              const struct sy_unit_info *units, uint32_t slot_count,
                              uint64_t now_ns, struct sy_registry **ret_registry);

#endif
