/* The store and single units: a connection made ahead of need, and transfers without a blob. */
#include <stdlib.h>

#include "clock.h"
#include "fail.h"
#include "hub_inner.h"
#include "store_inner.h"

static sy_status connect_unit(sy_store *store, uint32_t unit_id, uint64_t deadline_ns,
                              sy_error *err)
{
	struct sy_call call = {.unit_id = unit_id};
	struct sy_call *calls[] = {&call};

	if (unit_id >= sy_hub_unit_count(store->hub))
		return sy_fail(err, SY_E_LOST, __func__, "there is no unit %u", unit_id);
	call.op.kind = SY_OP_KIND_INFO;
	call.op.deadline_ns = sy_store_deadline(store, deadline_ns);
	sy_hub_run(store->hub, calls, 1);
	sy_status status = call.status;
	if (call.found_dead)
		status = sy_fail(err, SY_E_LOST, __func__, "unit %u is dead", unit_id);
	else if (status != SY_OK)
		sy_error_copy(err, &call.error);
	sy_call_done(&call);
	return status;
}

sy_status sy_store_connect(sy_store *store, uint32_t unit_id, uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = connect_unit(store, unit_id, deadline_ns, err);
	sy_hub_leave(store->hub);
	return status;
}

/* A reference to the slab of a unit that is connected, or NULL. */
static struct sy_remote *remote_of(struct sy_hub *hub, uint32_t unit_id)
{
	struct sy_remote *remote = NULL;

	if (unit_id >= hub->unit_count)
		return NULL;
	pthread_mutex_lock(&hub->lock);
	struct sy_link *link = hub->links[unit_id];
	if (link != NULL && link->remote != NULL)
		remote = sy_remote_ref(link->remote);
	pthread_mutex_unlock(&hub->lock);
	return remote;
}

static sy_status transfer(sy_store *store, uint32_t unit_id, bool write, const sy_segment *local,
                          size_t count, uint64_t deadline_ns, sy_error *err)
{
	uint64_t end_ns = sy_store_deadline(store, deadline_ns);
	struct sy_range *ranges = calloc(count + 1, sizeof *ranges);
	const struct sy_transfer moved = {.ranges = ranges, .count = count, .deadline_ns = end_ns};
	bool in_flight = false;
	sy_status status;

	if (ranges == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	struct sy_remote *remote = remote_of(store->hub, unit_id);
	if (remote == NULL) {
		free(ranges);
		return sy_fail(err, SY_E_TRANSFER, __func__, "unit %u is not connected", unit_id);
	}
	for (size_t i = 0; i < count; i++) {
		ranges[i].offset = local[i].blob_offset;
		ranges[i].nbytes = local[i].nbytes;
		if (write)
			ranges[i].from = local[i].addr;
		else
			ranges[i].to = (void *)(uintptr_t)local[i].addr;
	}
	status = write
		? remote->transport->write(remote, &moved, &in_flight, err)
		: remote->transport->read(remote, &moved, &in_flight, err);
	if (status != SY_OK && err != NULL)
		err->in_flight = in_flight;
	sy_remote_unref(remote);
	free(ranges);
	return status;
}

sy_status sy_store_transfer(sy_store *store, uint32_t unit_id, bool write, const sy_segment *local,
                            size_t count, uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = transfer(store, unit_id, write, local, count, deadline_ns, err);
	sy_hub_leave(store->hub);
	return status;
}
