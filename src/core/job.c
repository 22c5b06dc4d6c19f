#include "job.h"
#include "blob.h"
#include "entry.h"
#include "guard.h"
#include "handle.h"
#include "intern.h"

#include <stddef.h>

static const uint32_t link_at = offsetof(struct sy_job, link);

static uint64_t *rows_of(struct sy_core *core, uint32_t job)
{
	uint64_t at = core->volatiles.job_rows_at +
	              (uint64_t)job * SY_ROWS_PER_RELEASE_MAX * sizeof(uint64_t);
	return (uint64_t *)(void *)((char *)core + at);
}

static uint16_t *fields_of(struct sy_core *core, uint32_t job)
{
	uint64_t at = core->volatiles.job_fields_at +
	              (uint64_t)job * SY_FIELDS_PER_REQUEST_MAX * sizeof(uint16_t);
	return (uint16_t *)(void *)((char *)core + at);
}

/* The fields that are known, each once; of others there is no entry. */
static uint32_t copy_fields(struct sy_core *core, uint32_t job,
                            const struct sy_event_request *request)
{
	struct sy_intern *names = &core->tables.fields;
	struct sy_field_set *seen = &core->volatiles.field_set;
	uint16_t *fields = fields_of(core, job);
	uint32_t count = 0;
	memset(seen, 0, sizeof *seen);
	for (uint32_t i = 0; i < request->release.field_count; i++) {
		uint32_t field = sy_name_find(core, names, request->release.fields[i]);
		if (field == 0 || sy_field_set_has(seen, field))
			continue;
		sy_field_set_add(seen, field);
		sy_name_hold(core, names, field, 1);
		fields[count++] = (uint16_t)field;
	}
	return count;
}

uint32_t sy_job_new(struct sy_core *core, uint32_t session, const struct sy_event_request *request)
{
	struct sy_volatile *v = &core->volatiles;
	uint32_t job = sy_pool_take(core, &v->jobs);
	if (job == 0)
		return 0;
	struct sy_job *j = sy_job_at(core, job);
	j->session = session;
	j->slot = request->id.slot;
	j->seq = request->id.seq;
	j->ns = sy_session_at(core, session)->ns;
	sy_name_hold(core, &core->tables.namespaces, j->ns, 1);
	j->accept_seq = core->tables.next_accept_seq++;
	j->row_count = request->release.row_count;
	if (j->row_count > 0)
		memcpy(rows_of(core, job), request->release.rows, j->row_count * sizeof(uint64_t));
	if (!request->release.all_fields) {
		j->field_count = copy_fields(core, job, request);
		if (j->field_count == 0)
			j->row_count = 0;
	}
	sy_chain_append(core, &v->jobs, link_at, &v->running_jobs, job);
	return job;
}

void sy_job_free(struct sy_core *core, uint32_t job)
{
	struct sy_volatile *v = &core->volatiles;
	const struct sy_job *j = sy_job_at(core, job);
	for (uint32_t i = 0; i < j->field_count; i++)
		sy_name_give(core, &core->tables.fields, fields_of(core, job)[i], 1);
	sy_name_give(core, &core->tables.namespaces, j->ns, 1);
	sy_chain_remove(core, &v->jobs, link_at, &v->running_jobs, job);
	sy_pool_give(core, &v->jobs, job);
}

void sy_job_detach(struct sy_core *core, uint32_t job)
{
	sy_job_at(core, job)->session = 0;
}

static bool is_cleared(struct sy_core *core, const struct sy_job *j, uint32_t entry)
{
	const struct sy_entry *e = sy_entry_at(core, entry);
	if (j->field_count > 0 && !sy_field_set_has(&core->volatiles.field_set, e->field))
		return false;
	uint64_t late = SY_MUTANT(22) ? 1 : 0;
	return sy_blob_at(core, e->blob)->accept_seq + late < j->accept_seq;
}

/* Is the row short enough for this try? Between steps entries come and go, so that no place in
 * the row would stay good: each try counts from its first entry, and may go twice as far as the
 * one before. */
static bool is_within(struct sy_core *core, struct sy_job *j, uint64_t row, uint32_t *looks)
{
	uint64_t limit = (uint64_t)*looks << j->tries;
	uint32_t at = sy_entry_row_first(core, j->ns, row);
	for (; at != 0 && limit > 0; limit--, at = sy_entry_row_next(core, at))
		*looks -= *looks > 0;
	return at == 0;
}

/* Clears the job's current row, all of it in this step, so that a resolve finds no half of it
 * (I2). False: it has more entries than this try may look at, and nothing was cleared. */
static bool clear_row(struct sy_core *core, struct sy_job *j, uint64_t row, uint64_t now_ns,
                      uint32_t *looks)
{
	uint32_t next = 0;
	if (!is_within(core, j, row, looks)) {
		j->tries += j->tries < 16;
		*looks = 0;
		return false;
	}
	for (uint32_t at = sy_entry_row_first(core, j->ns, row); at != 0; at = next) {
		next = sy_entry_row_next(core, at);
		if (is_cleared(core, j, at)) {
			sy_entry_kill(core, at, now_ns);
			j->cleared++;
		}
	}
	return true;
}

bool sy_job_run(struct sy_core *core, uint32_t job, uint64_t now_ns, uint32_t *looks)
{
	struct sy_job *j = sy_job_at(core, job);
	struct sy_field_set *set = &core->volatiles.field_set;
	const uint64_t *rows = rows_of(core, job);
	if (j->field_count > 0)
		memset(set, 0, sizeof *set);
	for (uint32_t i = 0; i < j->field_count; i++)
		sy_field_set_add(set, fields_of(core, job)[i]);
	for (; j->row_at < j->row_count; j->row_at++, j->tries = 0) {
		if (*looks == 0)
			return false;
		uint32_t used = core->tables.entries.used;
		if (!clear_row(core, j, rows[j->row_at], now_ns, looks))
			return false;
		/* Giving back a blob's entries is cheap, but not nothing. */
		uint32_t cost = 1 + (used - core->tables.entries.used) / 8;
		*looks -= cost < *looks ? cost : *looks;
	}
	return true;
}

static void answer(struct sy_step *step, const struct sy_job *j)
{
	struct sy_outcome outcome = {.op = SY_OP_RELEASE_ROWS, .count = j->cleared};
	if (j->session != 0)
		sy_slot_answer(step, j->session, j->slot, &outcome);
}

void sy_jobs_run(struct sy_step *step)
{
	struct sy_core *core = step->core;
	struct sy_volatile *v = &core->volatiles;
	uint32_t looks = SY_JOB_LOOKS;
	while (v->running_jobs.head != 0 && looks > 0 && sy_step_room(step) > 0) {
		uint32_t job = v->running_jobs.head;
		if (!sy_job_run(core, job, step->now_ns, &looks))
			break;
		v->cleared += sy_job_at(core, job)->cleared;
		answer(step, sy_job_at(core, job));
		sy_job_free(core, job);
	}
}
