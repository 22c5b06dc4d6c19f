/* The directory as programs see it: the client of its protocol, with an address found for it. */
#include <slabyard/directory.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "dir_client.h"
#include "fail.h"
#include "open_hub.h"

struct sy_directory {
	struct sy_dir_client *client;
	uint64_t timeout_ns;
	char address[SY_OPEN_ADDRESS_BYTES];
};

_Static_assert((int)SY_DIRECTORY_TEXT_BYTES >= (int)SY_UNIT_ADDRESS_BYTES, "texts fit");
_Static_assert((int)SY_DIRECTORY_UNITS_MAX >= (int)SY_UNITS_MAX, "units fit");

sy_status sy_directory_open(const sy_directory_options *options, sy_directory **ret_directory,
                            sy_error *err)
{
	sy_directory *directory = calloc(1, sizeof *directory);

	if (directory == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	directory->timeout_ns = options->timeout_ns == 0 ? SY_OPEN_TIMEOUT_NS : options->timeout_ns;
	sy_status status =
		sy_open_address(options->run_dir, options->address, directory->address, err);
	if (status == SY_OK)
		status = sy_dir_client_open(directory->address, &directory->client, err);
	if (status == SY_OK)
		status = sy_dir_client_use_keys(directory->client, options->keys, err);
	if (status != SY_OK) {
		sy_directory_close(directory);
		return status;
	}
	sy_dir_client_set_interrupt(directory->client, options->interrupted,
	                            options->interrupted_context);
	*ret_directory = directory;
	return SY_OK;
}

void sy_directory_close(sy_directory *directory)
{
	if (directory == NULL)
		return;
	sy_dir_client_close(directory->client);
	free(directory);
}

const char *sy_directory_address(const sy_directory *directory)
{
	return directory->address;
}

static void fill(const struct sy_unit_info *info, sy_unit_entry *entry)
{
	*entry = (sy_unit_entry){
		.unit_id = info->unit_id, .incarnation = info->incarnation, .epoch = info->epoch,
		.slab_bytes = info->slab_bytes, .pid = info->pid,
	};
	sy_format(entry->state, sizeof entry->state, "%s", sy_unit_state_name((uint8_t)info->state));
	memcpy(entry->control_address, info->ipc_address, sizeof info->ipc_address);
	memcpy(entry->remote_address, info->tcp_address, sizeof info->tcp_address);
	memcpy(entry->local_path, info->local_path, sizeof info->local_path);
}

sy_status sy_directory_units(sy_directory *directory, uint64_t min_epoch, uint64_t deadline_ns,
                             sy_unit_entry *units, size_t capacity, size_t *ret_count,
                             uint32_t *ret_slot_count, uint64_t *ret_epoch, sy_error *err)
{
	struct sy_unit_list list = {0};
	uint64_t end_ns = sy_clock_deadline(deadline_ns, directory->timeout_ns);
	sy_status status = sy_dir_client_units(directory->client, min_epoch, end_ns, &list, err);

	if (status != SY_OK)
		return status;
	if (list.count > capacity) {
		status = sy_fail(err, SY_E_INVALID, __func__, "%u units do not fit into room for %zu",
		                 list.count, capacity);
		sy_unit_list_done(&list);
		return status;
	}
	for (uint32_t i = 0; i < list.count; i++)
		fill(&list.units[i], &units[i]);
	*ret_count = list.count;
	if (ret_slot_count != NULL)
		*ret_slot_count = list.slot_count;
	if (ret_epoch != NULL)
		*ret_epoch = list.epoch;
	sy_unit_list_done(&list);
	return SY_OK;
}

sy_status sy_directory_is_dead(sy_directory *directory, uint32_t unit_id, uint64_t incarnation,
                               uint64_t deadline_ns, bool *ret_dead, sy_error *err)
{
	uint64_t end_ns = sy_clock_deadline(deadline_ns, directory->timeout_ns);

	return sy_dir_client_is_dead(directory->client, unit_id, incarnation, end_ns, ret_dead, err);
}

sy_status sy_directory_exited(sy_directory *directory, uint32_t unit_id, uint64_t incarnation,
                              uint64_t deadline_ns, sy_error *err)
{
	uint64_t end_ns = sy_clock_deadline(deadline_ns, directory->timeout_ns);

	if (incarnation == 0)
		return sy_fail(err, SY_E_INVALID, __func__, "incarnation 0 is no unit's");
	return sy_dir_client_exited(directory->client, unit_id, incarnation, end_ns, err);
}

sy_status sy_directory_drain(sy_directory *directory, uint32_t unit_id, bool drain,
                             uint64_t deadline_ns, sy_error *err)
{
	struct sy_unit_list list = {0};
	uint64_t end_ns = sy_clock_deadline(deadline_ns, directory->timeout_ns);
	sy_status status = sy_dir_client_units(directory->client, 0, end_ns, &list, err);

	if (status != SY_OK)
		return status;
	struct sy_unit_info unit = {0};
	if (unit_id < list.count && list.units[unit_id].unit_id == unit_id)
		unit = list.units[unit_id];
	sy_unit_list_done(&list);
	if (unit.state == SY_UNIT_NONE)
		return sy_fail(err, SY_E_INVALID, __func__, "no unit %u was ever registered", unit_id);
	/* The incarnation that was seen: one that took its place meanwhile is not meant. */
	status = sy_dir_client_set_state(directory->client, unit_id, unit.incarnation,
	                                 drain ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE, end_ns, err);
	return status != SY_E_FATAL
		? status
		: sy_fail(err, SY_E_LOST, __func__, "unit %u is dead", unit_id);
}
