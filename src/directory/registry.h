/* Who is in which slot: the directory's rules, with no I/O.
 *
 *            register                       exited
 *   NONE ------------------> ACTIVE ------------------> DEAD
 *                              ^ |  set_state             |
 *                              | v                        | register of another incarnation,
 *                   DRAINING, SUSPECT                     | of the turn that the slot has now
 *                              ^                          |
 *                 ACTIVE <-----+--------------------------+
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
 * met, and that is not the slot's, is dead. */
#ifndef SY_REGISTRY_H
#define SY_REGISTRY_H

#include "dir_message.h"

struct sy_registry;

/* All slots NONE, epoch 1. slot_count is 1 .. SY_UNITS_MAX, else NULL; NULL too if memory is
 * short. Owned by the caller. free(NULL) is a no-op. Not thread-safe. */
struct sy_registry *sy_registry_new(uint32_t slot_count);
void sy_registry_free(struct sy_registry *registry);

uint64_t sy_registry_epoch(const struct sy_registry *registry);
uint32_t sy_registry_slot_count(const struct sy_registry *registry);
/* The slot as it is now; NULL if there is none of that number. Valid until the next change. */
const struct sy_unit_info *sy_registry_slot(const struct sy_registry *registry, uint32_t unit_id);

/* Registering twice under one incarnation is registering once. HELD, BURIED, TURN, NO_SLOT;
 * MALFORMED: incarnation 0, or an address at fault. state and epoch of `unit` are not read. */
enum sy_dir_fault sy_registry_register(struct sy_registry *registry,
                                       const struct sy_unit_info *unit);
/* BURIED unless the incarnation holds the slot and is not DEAD. */
enum sy_dir_fault sy_registry_renew(const struct sy_registry *registry, uint32_t unit_id,
                                    uint64_t incarnation);
/* To ACTIVE, SUSPECT or DRAINING (else STATE: only an exit makes DEAD). */
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

/* Copies the slots that changed at min_epoch or later to out, which holds slot_count; returns
 * how many. An epoch beyond the next one was learned of another cluster that was here before:
 * then all are new. */
uint32_t sy_registry_units(const struct sy_registry *registry, uint64_t min_epoch,
                           struct sy_unit_info *out);

/* Makes a registry of what was stored: `units` are all slots in order, as sy_registry_units gave
 * them. The epoch is one more than the stored one and every slot counts as changed in it, so
 * that nobody misses what was answered before and not stored. NULL: not such a list, or memory
 * is short. */
struct sy_registry *sy_registry_restore(uint64_t epoch, const struct sy_unit_info *units,
                                        uint32_t slot_count);

#endif
