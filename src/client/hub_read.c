/* A READ of what a resolve pinned, and whether what was read counts.
 *
 * A unit of another host takes a pin back after read_pin_s, whoever still reads under it, and
 * gives the region to another. So what came late is believed only when the unit, asked after the
 * READ, says that the pin stands (I3). */
#include "clock.h"
#include "fail.h"
#include "hub_inner.h"

/* What no answer of the unit means is judged like a READ that failed: it may be gone. */
static sy_status ask_unit(struct sy_hub *hub, const struct sy_call *resolved,
                          uint64_t deadline_ns, sy_error *err)
{
	struct sy_call check = {.unit_id = resolved->unit_id};
	struct sy_call *calls[] = {&check};

	check.op.kind = SY_OP_KIND_PIN_CHECK;
	check.op.deadline_ns = deadline_ns;
	check.op.pin_check.names = &resolved->op.name;
	check.op.pin_check.count = 1;
	sy_hub_run(hub, calls, 1);
	sy_status status = check.status;
	if (status != SY_OK)
		sy_error_copy(err, &check.error);
	else if (!sy_read_stood(&resolved->op, &check.op))
		status = sy_fail(err, SY_E_STALE_READ, "read",
		                 "unit %u: its pin did not last as long as the read: what came is of no "
		                 "worth", resolved->unit_id);
	sy_call_done(&check);
	return status == SY_E_LOST || status == SY_E_TRANSFER_FAILED ? SY_E_TRANSFER : status;
}

sy_status sy_hub_read(struct sy_hub *hub, const struct sy_call *const *resolved,
                      size_t resolved_count, const struct sy_range *ranges, size_t count,
                      uint64_t deadline_ns, sy_error *err)
{
	struct sy_remote *remote = resolved[0]->remote;
	const struct sy_transfer transfer = {.ranges = ranges, .count = count,
	                                     .deadline_ns = deadline_ns};
	bool in_flight = false;

	if (hub->config.lock != NULL)
		hub->config.lock(hub->config.lock_context);
	sy_status status = remote->transport->read(remote, &transfer, &in_flight, err);
	if (hub->config.unlock != NULL)
		hub->config.unlock(hub->config.lock_context);
	if (status != SY_OK && err != NULL)
		err->in_flight = in_flight;
	uint64_t ended_ns = sy_clock_now_ns();
	for (size_t i = 0; status == SY_OK && i < resolved_count; i++) {
		if (sy_read_verdict(&resolved[i]->op, ended_ns) != SY_READ_GOOD)
			status = ask_unit(hub, resolved[i], deadline_ns, err);
	}
	return status;
}
