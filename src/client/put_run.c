#include "put_run.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "fail.h"

/* One plan on its way. */
struct put {
	struct sy_call call;
	struct sy_blob_plan *plan;
	uint8_t *eager; /* the gathered blob of a put_inline */
};

static bool prepare(struct sy_hub *hub, struct put *put, struct sy_blob_plan *plan, bool ssd,
                    uint64_t deadline_ns)
{
	*put = (struct put){.plan = plan};
	put->call.unit_id = plan->unit_id;
	put->call.op.deadline_ns = deadline_ns;
	if (plan->nbytes <= sy_hub_eager_max_bytes(hub, plan->unit_id)) {
		put->eager = malloc(plan->nbytes);
		if (put->eager == NULL)
			return false;
		sy_plan_gather(plan, put->eager);
		put->call.op.kind = SY_OP_KIND_PUT_INLINE;
		put->call.op.put_inline = (struct sy_put_inline_args){
			.blob_id = plan->id, .blob = {put->eager, plan->nbytes}, .ssd = ssd,
		};
		return true;
	}
	put->call.op.kind = SY_OP_KIND_PUT;
	put->call.op.put = (struct sy_alloc_args){
		.blob_id = plan->id, .nbytes = plan->nbytes, .entry_count = plan->entry_count, .ssd = ssd,
	};
	put->call.ranges = plan->ranges;
	put->call.range_count = plan->range_count;
	return true;
}

static void conclude(struct put *put)
{
	struct sy_blob_plan *plan = put->plan;

	plan->status = put->call.status;
	plan->published = put->call.status == SY_OK;
	plan->unknown = put->call.op.unknown;
	plan->incarnation = put->call.op.incarnation;
	plan->generation = put->call.op.outcome.generation;
	sy_error_copy(&plan->error, &put->call.error);
	sy_call_done(&put->call);
	free(put->eager);
}

static void run(struct sy_hub *hub, struct sy_blob_plan **chosen, size_t count, bool ssd,
                uint64_t deadline_ns)
{
	struct put *puts = calloc(count + 1, sizeof *puts);
	struct sy_call **calls = calloc(count + 1, sizeof *calls);
	size_t ready = 0;

	for (size_t i = 0; puts != NULL && calls != NULL && i < count; i++) {
		if (!prepare(hub, &puts[ready], chosen[i], ssd, deadline_ns))
			continue;
		calls[ready] = &puts[ready].call;
		ready++;
	}
	for (size_t i = 0; i < count; i++) {
		chosen[i]->tried = true;
		chosen[i]->status = sy_fail(&chosen[i]->error, SY_E_SYS, "put", "out of memory");
	}
	if (ready > 0)
		sy_hub_run(hub, calls, ready);
	for (size_t i = 0; i < ready; i++)
		conclude(&puts[i]);
	free(calls);
	free(puts);
}

/* The first plan of each unit that was not tried yet. Plans of a unit stand side by side, or the
 * caller's order is kept: marks tell which units have one in this round. */
static size_t choose(struct sy_blob_plan *plans, size_t count, uint8_t *marks,
                     uint32_t unit_count, struct sy_blob_plan **ret_chosen)
{
	size_t chosen = 0;

	memset(marks, 0, unit_count);
	for (size_t i = 0; i < count && chosen < unit_count; i++) {
		if (plans[i].tried || plans[i].published || marks[plans[i].unit_id])
			continue;
		marks[plans[i].unit_id] = 1;
		ret_chosen[chosen++] = &plans[i];
	}
	return chosen;
}

static void run_rounds(struct sy_hub *hub, struct sy_blob_plan *plans, size_t count, bool ssd,
                       uint64_t deadline_ns)
{
	uint32_t unit_count = sy_hub_unit_count(hub);
	uint8_t *marks = malloc(unit_count);
	struct sy_blob_plan **chosen = calloc(unit_count, sizeof *chosen);
	size_t n = 1;

	/* Each round tries at least one more plan. */
	while (marks != NULL && chosen != NULL && n > 0) {
		n = choose(plans, count, marks, unit_count, chosen);
		if (n > 0)
			run(hub, chosen, n, ssd, deadline_ns);
	}
	free(chosen);
	free(marks);
}

static bool worth_another_try(const struct sy_blob_plan *plan)
{
	return !plan->published && !plan->unknown && plan->status == SY_E_TRANSFER_FAILED &&
	       !plan->error.in_flight;
}

void sy_puts_run(struct sy_hub *hub, struct sy_blob_plan *plans, size_t count, bool ssd,
                 uint64_t deadline_ns)
{
	bool again = false;

	for (size_t i = 0; i < count; i++)
		plans[i].status = sy_fail(&plans[i].error, SY_E_SYS, "put", "out of memory");
	run_rounds(hub, plans, count, ssd, deadline_ns);
	for (size_t i = 0; i < count; i++) {
		if (worth_another_try(&plans[i])) {
			plans[i].tried = false;
			again = true;
		}
	}
	if (again && sy_clock_now_ns() < deadline_ns)
		run_rounds(hub, plans, count, ssd, deadline_ns);
}

sy_status sy_puts_verdict(const struct sy_blob_plan *plans, size_t count, sy_error *err)
{
	const struct sy_blob_plan *first = NULL;

	for (size_t i = 0; i < count; i++) {
		if (!plans[i].published &&
		    (first == NULL ||
		     sy_status_severity(plans[i].status) < sy_status_severity(first->status)))
			first = &plans[i];
	}
	if (first == NULL)
		return SY_OK;
	sy_error_copy(err, &first->error);
	if (sy_status_severity(first->status) < sy_status_severity(SY_OK))
		return first->status;
	/* Protocol, Auth and Sys: the unit may still take it another time. */
	if (err != NULL)
		err->status = SY_E_TRANSFER_FAILED;
	return SY_E_TRANSFER_FAILED;
}
