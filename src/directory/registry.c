#include "registry.h"

#include <stdlib.h>

struct sy_registry {
	uint64_t epoch;
	uint32_t slot_count;
	struct sy_unit_info slots[];
};

struct sy_registry *sy_registry_new(uint32_t slot_count)
{
	if (slot_count == 0 || slot_count > SY_UNITS_MAX)
		return NULL;
	struct sy_registry *registry =
		calloc(1, sizeof *registry + slot_count * sizeof registry->slots[0]);
	if (registry == NULL)
		return NULL;
	registry->epoch = 1;
	registry->slot_count = slot_count;
	for (uint32_t i = 0; i < slot_count; i++) {
		registry->slots[i].unit_id = i;
		registry->slots[i].epoch = registry->epoch;
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

const struct sy_unit_info *sy_registry_slot(const struct sy_registry *registry, uint32_t unit_id)
{
	return unit_id < registry->slot_count ? &registry->slots[unit_id] : NULL;
}

static bool is_held(const struct sy_unit_info *slot)
{
	return slot->state != SY_UNIT_NONE && slot->state != SY_UNIT_DEAD;
}

static void slot_changed(struct sy_registry *registry, struct sy_unit_info *slot)
{
	registry->epoch++;
	slot->epoch = registry->epoch;
}

static void slot_bury(struct sy_registry *registry, struct sy_unit_info *slot)
{
	slot->state = SY_UNIT_DEAD;
	slot->turn++;
	slot_changed(registry, slot);
}

enum sy_dir_fault sy_registry_register(struct sy_registry *registry,
                                       const struct sy_unit_info *unit)
{
	if (unit->unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	if (unit->incarnation == 0 || sy_unit_address_fault(unit->ipc_address) != NULL ||
	    sy_unit_address_fault(unit->tcp_address) != NULL ||
	    sy_unit_address_fault(unit->local_path) != NULL)
		return SY_DIR_FAULT_MALFORMED;
	struct sy_unit_info *slot = &registry->slots[unit->unit_id];
	if (slot->incarnation == unit->incarnation)
		return is_held(slot) ? SY_DIR_FAULT_NONE : SY_DIR_FAULT_BURIED;
	if (is_held(slot))
		return SY_DIR_FAULT_HELD;
	if (slot->turn != unit->turn)
		return SY_DIR_FAULT_TURN;
	*slot = *unit;
	slot->state = SY_UNIT_ACTIVE;
	slot->turn++;
	slot_changed(registry, slot);
	return SY_DIR_FAULT_NONE;
}

enum sy_dir_fault sy_registry_renew(const struct sy_registry *registry, uint32_t unit_id,
                                    uint64_t incarnation)
{
	if (unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	const struct sy_unit_info *slot = &registry->slots[unit_id];
	bool holds = slot->incarnation == incarnation && is_held(slot);
	return holds ? SY_DIR_FAULT_NONE : SY_DIR_FAULT_BURIED;
}

enum sy_dir_fault sy_registry_set_state(struct sy_registry *registry, uint32_t unit_id,
                                        uint64_t incarnation, enum sy_unit_state state)
{
	enum sy_dir_fault fault = sy_registry_renew(registry, unit_id, incarnation);
	if (fault != SY_DIR_FAULT_NONE)
		return fault;
	if (state != SY_UNIT_ACTIVE && state != SY_UNIT_SUSPECT && state != SY_UNIT_DRAINING)
		return SY_DIR_FAULT_STATE;
	struct sy_unit_info *slot = &registry->slots[unit_id];
	if (slot->state != state) {
		slot->state = state;
		slot_changed(registry, slot);
	}
	return SY_DIR_FAULT_NONE;
}

enum sy_dir_fault sy_registry_exited(struct sy_registry *registry, uint32_t unit_id,
                                     uint64_t incarnation)
{
	if (unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	if (incarnation == 0)
		return SY_DIR_FAULT_MALFORMED;
	struct sy_unit_info *slot = &registry->slots[unit_id];
	if (slot->incarnation != incarnation)
		slot->turn++; /* buried long ago, or not registered yet and now never to be */
	else if (is_held(slot))
		slot_bury(registry, slot);
	return SY_DIR_FAULT_NONE;
}

enum sy_dir_fault sy_registry_process_exited(struct sy_registry *registry, uint32_t unit_id,
                                             uint32_t pid)
{
	if (unit_id >= registry->slot_count)
		return SY_DIR_FAULT_NO_SLOT;
	struct sy_unit_info *slot = &registry->slots[unit_id];
	if (is_held(slot) && slot->pid == pid)
		slot_bury(registry, slot);
	else
		slot->turn++;
	return SY_DIR_FAULT_NONE;
}

uint32_t sy_registry_units(const struct sy_registry *registry, uint64_t min_epoch,
                           struct sy_unit_info *out)
{
	bool is_other_life = min_epoch > registry->epoch && min_epoch - registry->epoch > 1;
	uint32_t count = 0;
	for (uint32_t i = 0; i < registry->slot_count; i++) {
		if (registry->slots[i].epoch >= min_epoch || is_other_life)
			out[count++] = registry->slots[i];
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

struct sy_registry *sy_registry_restore(uint64_t epoch, const struct sy_unit_info *units,
                                        uint32_t slot_count)
{
	struct sy_registry *registry = sy_registry_new(slot_count);
	if (registry == NULL)
		return NULL;
	registry->epoch = epoch + 1;
	for (uint32_t i = 0; i < slot_count; i++) {
		if (!stored_slot_is_whole(&units[i], i, epoch)) {
			sy_registry_free(registry);
			return NULL;
		}
		registry->slots[i] = units[i];
		registry->slots[i].epoch = registry->epoch;
	}
	return registry;
}
