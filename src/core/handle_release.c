/* release_rows: small ones are done within their step, others go on as jobs. */
#include "guard.h"
#include "handle.h"
#include "job.h"

enum sy_run sy_handle_release(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	uint32_t looks = SY_JOB_LOOKS;
	if (r->release.row_count > SY_ROWS_PER_RELEASE_MAX ||
	    r->release.field_count > SY_FIELDS_PER_REQUEST_MAX)
		return sy_refuse(call, SY_WHY_TOO_MANY);
	uint32_t job = sy_job_new(core, call->session_index, r);
	if (job == 0)
		return sy_refuse_busy(call, SY_BUSY_QUEUE_FULL);
	if (SY_MUTANT(21)) {
		sy_job_detach(core, job);
		return SY_RUN_ANSWER;
	}
	if (!sy_job_run(core, job, call->step->now_ns, &looks)) {
		struct sy_slot *slot = &call->session->slots[r->id.slot];
		slot->state = SY_SLOT_WAITING;
		slot->waiting = job;
		return SY_RUN_WAIT;
	}
	call->outcome->count = sy_job_at(core, job)->cleared;
	core->volatiles.cleared += call->outcome->count;
	sy_job_free(core, job);
	return SY_RUN_ANSWER;
}
