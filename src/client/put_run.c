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

/* The plans that wait for their turn, a queue a unit in the caller's order, and the one of each
 * unit that is under way. */
struct queues {
	struct sy_hub *hub;
	const struct sy_put_terms *terms;
	struct sy_blob_plan *plans;
	uint32_t unit_count;
	size_t *head; /* a unit: plan + 1; 0: none waits */
	size_t *next; /* a plan: the one behind it, + 1 */
	struct put *puts;
	struct sy_call **calls;
};

static bool queues_init(struct queues *queues, size_t plan_count)
{
	queues->head = calloc(queues->unit_count, sizeof *queues->head);
	queues->next = calloc(plan_count + 1, sizeof *queues->next);
	queues->puts = calloc(queues->unit_count, sizeof *queues->puts);
	queues->calls = calloc(queues->unit_count, sizeof *queues->calls);
	return queues->head != NULL && queues->next != NULL && queues->puts != NULL &&
	       queues->calls != NULL;
}

static void queues_done(struct queues *queues)
{
	free(queues->head);
	free(queues->next);
	free(queues->puts);
	free(queues->calls);
}

/* From the last one on, so that the first comes to stand in front. */
static void queue(struct queues *queues, size_t i)
{
	size_t *head = &queues->head[queues->plans[i].unit_id];

	queues->next[i] = *head;
	*head = i + 1;
}

static struct sy_blob_plan *take(struct queues *queues, uint32_t unit_id)
{
	size_t first = queues->head[unit_id];

	if (first == 0)
		return NULL;
	queues->head[unit_id] = queues->next[first - 1];
	return &queues->plans[first - 1];
}

static bool prepare(const struct queues *queues, struct put *put, struct sy_blob_plan *plan)
{
	const struct sy_put_terms *terms = queues->terms;

	*put = (struct put){.plan = plan};
	put->call.unit_id = plan->unit_id;
	put->call.op.deadline_ns = terms->deadline_ns;
	if (terms->eager && sy_hub_puts_inline(queues->hub, plan->unit_id, plan->nbytes)) {
		put->eager = malloc(plan->nbytes);
		if (put->eager == NULL)
			return false;
		sy_plan_gather(plan, put->eager);
		put->call.op.kind = SY_OP_KIND_PUT_INLINE;
		put->call.op.put_inline = (struct sy_put_inline_args){
			.blob_id = plan->id, .blob = {put->eager, plan->nbytes}, .ssd = terms->ssd,
		};
		return true;
	}
	put->call.op.kind = SY_OP_KIND_PUT;
	put->call.op.put = (struct sy_alloc_args){
		.blob_id = plan->id, .nbytes = plan->nbytes, .entry_count = plan->entry_count,
		.ssd = terms->ssd,
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

static sy_status give_up(struct sy_blob_plan *plan, sy_status status, const char *why)
{
	plan->status = sy_fail(&plan->error, status, "put", "unit %u: %s", plan->unit_id, why);
	return status;
}

/* The unit's next plan; false: none is left. */
static bool follow(struct queues *queues, struct put *put, uint32_t unit_id)
{
	struct sy_blob_plan *plan;

	while ((plan = take(queues, unit_id)) != NULL) {
		if (sy_clock_now_ns() >= queues->terms->deadline_ns)
			give_up(plan, SY_E_TIMEOUT, "the deadline came before its turn");
		else if (!prepare(queues, put, plan))
			give_up(plan, SY_E_SYS, "out of memory");
		else
			return true;
	}
	return false;
}

static bool next_put(void *context, struct sy_call *call)
{
	struct put *put = (struct put *)call; /* of which it is the first member */

	conclude(put);
	return follow(context, put, call->unit_id);
}

/* All that is queued. A unit that does not answer holds up its own alone. */
static void run_queues(struct queues *queues)
{
	size_t ready = 0;

	for (uint32_t u = 0; u < queues->unit_count; u++) {
		if (follow(queues, &queues->puts[ready], u)) {
			queues->calls[ready] = &queues->puts[ready].call;
			ready++;
		}
	}
	sy_hub_run_each(queues->hub, queues->calls, ready, next_put, queues);
}

static bool worth_another_try(const struct sy_blob_plan *plan)
{
	return !plan->published && !plan->unknown && plan->status == SY_E_TRANSFER_FAILED &&
	       !plan->error.in_flight;
}

void sy_puts_run(struct sy_hub *hub, struct sy_blob_plan *plans, size_t count,
                 const struct sy_put_terms *terms)
{
	struct queues queues = {.hub = hub, .terms = terms, .plans = plans,
	                        .unit_count = sy_hub_unit_count(hub)};

	if (!queues_init(&queues, count)) {
		for (size_t i = 0; i < count; i++)
			give_up(&plans[i], SY_E_SYS, "out of memory");
		queues_done(&queues);
		return;
	}
	for (size_t i = count; i-- > 0;)
		queue(&queues, i);
	run_queues(&queues);
	for (size_t i = count; i-- > 0 && sy_clock_now_ns() < terms->deadline_ns;) {
		if (worth_another_try(&plans[i]))
			queue(&queues, i);
	}
	run_queues(&queues);
	queues_done(&queues);
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
