#include "registry.h"

#include <stdlib.h>

#include "guard.h"

struct slot {
	struct sy_unit_info info;
	uint64_t heard_ns; /* its lease counts from here; not stored */
};

struct sy_registry {
	uint64_t epoch;
	struct sy_dir_times times;
	uint32_t slot_count;
	struct slot slots[];
};

static bool is_possible(uint32_t slot_count, const struct sy_dir_times *times)
{
	return slot_count > 0 && slot_count <= SY_UNITS_MAX && sy_dir_times_fault(times) == NULL;
}

struct sy_registry *sy_registry_new(uint32_t slot_count, const struct sy_dir_times *times)
{
	if (!is_possible(slot_count, times))
		return NULL;
	struct sy_registry *registry =
		calloc(1, sizeof *registry + slot_count * sizeof registry->slots[0]);
	if (registry == NULL)
		return NULL;
	registry->epoch = 1;
	registry->times = *times;
	registry->slot_count = slot_count;
	for (uint32_t i = 0; i < slot_count; i++) {
		registry->slots[i].info.unit_id = i;
		registry->slots[i].info.epoch = registry->epoch;
	}
	return registry;
}

void sy_registry_free(struct sy_registry *registry)
{
	free(registry);
}

uint64_t sy_registry_epoch(const struct sy_registry *registry)
{
	return registry->epoch;
}

uint32_t sy_registry_slot_count(const struct sy_registry *registry)
{
	return registry->slot_count;
}

const struct sy_dir_times *sy_registry_times(const struct sy_registry *registry)
{
	return &registry->times;
}

const struct sy_unit_info *sy_registry_slot(const struct sy_registry *registry, uint32_t unit_id)
{
	return unit_id < registry->slot_count ? &registry->slots[unit_id].info : NULL;
}

static void state_change(struct sy_registry *registry, struct sy_unit_info *info,
                         enum sy_unit_state state)
{
	if (info->state == state)
		return;
	info->state = state;
	registry->epoch++;
	info->epoch = registry->epoch;
}

static void slot_bury(struct sy_registry *registry, struct sy_unit_info *info)
{
	info->turn++;
	state_change(registry, info, SY_UNIT_DEAD);
}

/* What a unit that is heard of is. */
static enum sy_unit_state heard_state(const struct sy_unit_info *info)
{
	return info->draining ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE;
}

static void lease_renew(struct sy_registry *registry, struct slot *slot, uint64_t now_ns)
{
	slot->heard_ns = now_ns;
	state_change(registry, &slot->info, heard_state(&slot->info));
}

enum sy_dir_fault sy_registry_register(struct sy_registry *registry,
                                       const struct sy_unit_info *unit, uint64_t now_ns)
{
	if (unit->unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	if (unit->incarnation == 0 || sy_unit_address_fault(unit->ipc_address) != NULL ||
	    sy_unit_address_fault(unit->tcp_address) != NULL ||
	    sy_unit_address_fault(unit->local_path) != NULL)
		return SY_DIR_FAULT_MALFORMED;
	struct slot *slot = &registry->slots[unit->unit_id];
	if (slot->info.incarnation == unit->incarnation) {
		if (!sy_unit_lives(slot->info.state))
			return SY_DIR_FAULT_BURIED;
		lease_renew(registry, slot, now_ns);
		return SY_DIR_FAULT_NONE;
	}
	if (sy_unit_lives(slot->info.state))
		return SY_DIR_FAULT_HELD;
	if (slot->info.turn != unit->turn)
		return SY_DIR_FAULT_TURN;
	uint32_t starts = slot->info.starts;
	slot->info = *unit;
	slot->info.starts = starts + (starts < UINT32_MAX);
	slot->info.state = SY_UNIT_NONE;
	slot->info.draining = false;
	slot->info.turn++;
	lease_renew(registry, slot, now_ns);
	return SY_DIR_FAULT_NONE;
}

/* The slot that this incarnation holds; NULL and why: it holds none. */
static struct slot *slot_held(struct sy_registry *registry, uint32_t unit_id,
                              uint64_t incarnation, enum sy_dir_fault *ret_fault)
{
	if (unit_id >= registry->slot_count) {
		*ret_fault = SY_DIR_FAULT_NO_SLOT;
		return NULL;
	}
	struct slot *slot = &registry->slots[unit_id];
	bool came_back = SY_MUTANT(44) && slot->info.state == SY_UNIT_DEAD;
	if (slot->info.incarnation == incarnation && (sy_unit_lives(slot->info.state) || came_back))
		return slot;
	*ret_fault = slot->info.state == SY_UNIT_NONE ? SY_DIR_FAULT_EMPTY : SY_DIR_FAULT_BURIED;
	return NULL;
}

enum sy_dir_fault sy_registry_renew(struct sy_registry *registry, uint32_t unit_id,
                                    uint64_t incarnation, uint64_t now_ns)
{
	enum sy_dir_fault fault = SY_DIR_FAULT_NONE;
	struct slot *slot = slot_held(registry, unit_id, incarnation, &fault);
	if (slot != NULL)
		lease_renew(registry, slot, now_ns);
	return fault;
}

enum sy_dir_fault sy_registry_set_state(struct sy_registry *registry, uint32_t unit_id,
                                        uint64_t incarnation, enum sy_unit_state state)
{
	enum sy_dir_fault fault = SY_DIR_FAULT_NONE;
	struct slot *slot = slot_held(registry, unit_id, incarnation, &fault);
	if (slot == NULL)
		return fault;
	if (state != SY_UNIT_ACTIVE && state != SY_UNIT_DRAINING)
		return SY_DIR_FAULT_STATE;
	struct sy_unit_info *info = &slot->info;
	if (info->draining == (state == SY_UNIT_DRAINING))
		return SY_DIR_FAULT_NONE;
	info->draining = state == SY_UNIT_DRAINING;
	if (info->state == SY_UNIT_SUSPECT)
		info->epoch = ++registry->epoch; /* that it shall drain is a change, too */
	else
		state_change(registry, info, state);
	return SY_DIR_FAULT_NONE;
}

enum sy_dir_fault sy_registry_exited(struct sy_registry *registry, uint32_t unit_id,
                                     uint64_t incarnation)
{
	if (unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	if (incarnation == 0)
		return SY_DIR_FAULT_MALFORMED;
	struct sy_unit_info *info = &registry->slots[unit_id].info;
	if (info->incarnation != incarnation)
		info->turn++; /* buried long ago, or not registered yet and now never to be */
	else if (sy_unit_lives(info->state))
		slot_bury(registry, info);
	return SY_DIR_FAULT_NONE;
}

enum sy_dir_fault sy_registry_process_exited(struct sy_registry *registry, uint32_t unit_id,
                                             uint32_t pid)
{
	if (unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	struct sy_unit_info *info = &registry->slots[unit_id].info;
	if (sy_unit_lives(info->state) && info->pid == pid)
		slot_bury(registry, info);
	else
		info->turn++;
	return SY_DIR_FAULT_NONE;
}

static uint64_t after(uint64_t from_ns, uint64_t length_ns)
{
	return length_ns > UINT64_MAX - from_ns ? UINT64_MAX : from_ns + length_ns;
}

static uint64_t dead_at(const struct sy_registry *registry, const struct slot *slot)
{
	uint64_t length_ns =
		SY_MUTANT(46) ? registry->times.suspect_after_ns : registry->times.dead_after_ns;
	return after(slot->heard_ns, length_ns);
}

struct sy_registry_ticked sy_registry_tick(struct sy_registry *registry, uint64_t now_ns)
{
	struct sy_registry_ticked ticked = {0};
	if (!sy_dir_times_lease(&registry->times))
		return ticked;
	for (uint32_t i = 0; i < registry->slot_count; i++) {
		struct slot *slot = &registry->slots[i];
		if (!sy_unit_lives(slot->info.state))
			continue;
		if (now_ns >= dead_at(registry, slot)) {
			slot_bury(registry, &slot->info);
			ticked.deaths++;
		} else if (now_ns >= after(slot->heard_ns, registry->times.suspect_after_ns)) {
			ticked.suspects += slot->info.state != SY_UNIT_SUSPECT;
			state_change(registry, &slot->info, SY_UNIT_SUSPECT);
		}
	}
	return ticked;
}

uint64_t sy_registry_deadline(const struct sy_registry *registry)
{
	uint64_t at_ns = UINT64_MAX;
	if (!sy_dir_times_lease(&registry->times))
		return at_ns;
	for (uint32_t i = 0; i < registry->slot_count; i++) {
		const struct slot *slot = &registry->slots[i];
		if (!sy_unit_lives(slot->info.state))
			continue;
		uint64_t due_ns = slot->info.state == SY_UNIT_SUSPECT
		                          ? dead_at(registry, slot)
		                          : after(slot->heard_ns, registry->times.suspect_after_ns);
		at_ns = due_ns < at_ns ? due_ns : at_ns;
	}
	return at_ns;
}

void sy_registry_deaf(struct sy_registry *registry, uint64_t now_ns)
{
	for (uint32_t i = 0; i < registry->slot_count; i++)
		registry->slots[i].heard_ns = now_ns;
}

uint32_t sy_registry_units(const struct sy_registry *registry, uint64_t min_epoch,
                           struct sy_unit_info *out)
{
	bool is_other_life = min_epoch > registry->epoch && min_epoch - registry->epoch > 1;
	uint32_t count = 0;
	for (uint32_t i = 0; i < registry->slot_count; i++) {
		if (registry->slots[i].info.epoch >= min_epoch || is_other_life)
			out[count++] = registry->slots[i].info;
	}
	return count;
}

static bool stored_slot_is_whole(const struct sy_unit_info *slot, uint32_t unit_id,
                                 uint64_t epoch)
{
	if (slot->unit_id != unit_id || slot->epoch > epoch)
		return false;
	return (slot->state == SY_UNIT_NONE) == (slot->incarnation == 0);
}

sy_status sy_registry_restore(uint64_t epoch, const struct sy_dir_times *times,
                              const struct sy_unit_info *units, uint32_t slot_count,
                              uint64_t now_ns, struct sy_registry **ret_registry)
{
	if (!is_possible(slot_count, times))
		return SY_E_PROTOCOL;
	struct sy_registry *registry = sy_registry_new(slot_count, times);
	if (registry == NULL)
		return SY_E_SYS;
	registry->epoch = epoch + 1;
	for (uint32_t i = 0; i < slot_count; i++) {
		if (!stored_slot_is_whole(&units[i], i, epoch)) {
			sy_registry_free(registry);
			return SY_E_PROTOCOL;
		}
		registry->slots[i].info = units[i];
		registry->slots[i].info.epoch = registry->epoch;
	}
	sy_registry_deaf(registry, SY_MUTANT(43) ? 0 : now_ns);
	*ret_registry = registry;
	return SY_OK;
}
