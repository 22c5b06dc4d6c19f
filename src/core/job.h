/* Releases under way. One keeps a cursor over its rows, so that a clear of many rows stalls
 * nobody; entries of blobs accepted after it are spared. */
#ifndef SY_JOB_H
#define SY_JOB_H

#include "session.h"

static inline struct sy_job *sy_job_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->volatiles.jobs, index);
}

/* Entries looked at in one step. */
enum { SY_JOB_LOOKS = 512 };

/* A job of this release, accepted now, its rows and fields copied. 0: none is free. */
uint32_t sy_job_new(struct sy_core *core, uint32_t session,
                    const struct sy_event_request *request);
/* Works on it for about *looks entries and counts them off. True: all is cleared. */
bool sy_job_run(struct sy_core *core, uint32_t job, uint64_t now_ns, uint32_t *looks);
void sy_job_free(struct sy_core *core, uint32_t job);
/* Its client moved on: it goes on and answers nobody. */
void sy_job_detach(struct sy_core *core, uint32_t job);
/* Works on the running ones in their order and answers those that are done. */
void sy_jobs_run(struct sy_step *step);

#endif
