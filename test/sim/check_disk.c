/* I1 for the disk, and what may be taken for lost there (I9). */
#include "sim_check.h"

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
	return a < b + b_bytes && b < a + a_bytes;
}

/* A record is written where no operation under way is, and the slab's place is no other's. */
void check_i1_disk(struct sim_life *life, const struct sim_disk_op *op)
{
	const struct sy_disk_job *job = &op->job;
	uint64_t bytes = sy_record_bytes(job->record_nbytes);
	if (bytes > life->sim->config.params.disk_bytes ||
	    job->disk_at > life->sim->config.params.disk_bytes - bytes) {
		sim_fail(life->sim, 1, "u%u reaches beyond its disk", life->slot);
		return;
	}
	for (uint32_t i = 0; i < SIM_DISK_OPS_MAX; i++) {
		const struct sim_disk_op *other = &life->disk_ops[i];
		if (!other->used || other == op || (other->job.reads && job->reads))
			continue;
		if (overlap(job->disk_at, bytes, other->job.disk_at,
		            sy_record_bytes(other->job.record_nbytes)))
			sim_fail(life->sim, 1, "u%u %s the disk at %lu while another operation is there",
			         life->slot, job->reads ? "reads" : "writes", job->disk_at);
	}
}

/* A region was granted: no operation of an older grant may touch it any more. */
void check_i1_disk_grant(struct sim_life *life, uint64_t offset, uint64_t nbytes,
                         uint64_t generation)
{
	for (uint32_t i = 0; i < SIM_DISK_OPS_MAX; i++) {
		const struct sim_disk_op *op = &life->disk_ops[i];
		if (op->used && op->job.grant != generation &&
		    overlap(op->job.offset, op->job.nbytes, offset, nbytes))
			sim_fail(life->sim, 1, "u%u granted %lu+%lu (generation %lu) while the disk %s it",
			         life->slot, offset, nbytes, generation,
			         op->job.reads ? "reads into" : "writes from");
	}
}

void check_i9_record(struct sim_life *life, const struct sy_disk_job *job)
{
	sim_fail(life->sim, 9, "u%u reads generation %lu at disk %lu, where nothing spoilt it, and "
	         "finds another record", life->slot, job->generation, job->disk_at);
}
