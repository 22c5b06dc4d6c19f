/* The disk of a unit: the shipped records over memory, in pieces, each operation at its own pace.
 * It may be slow, fail, be full, lose or spoil what it said it wrote, and lose whole files. */
#include <stdlib.h>

#include "blob.h"
#include "sim.h"
#include "sim_check.h"
#include "tier_list.h"

enum { BLOCK = SY_RECORD_BLOCK_BYTES, PIECE_BLOCKS = 4 };

static uint64_t record_end(const struct sy_disk_job *job)
{
	return job->disk_at + sy_record_bytes(job->record_nbytes);
}

static struct sim_disk_op *free_op(struct sim_life *life)
{
	for (uint32_t i = 0; i < SIM_DISK_OPS_MAX; i++) {
		if (!life->disk_ops[i].used)
			return &life->disk_ops[i];
	}
	return NULL;
}

static void later(struct sim_life *life, const struct sim_disk_op *op, uint64_t delay_ns)
{
	struct sim_event event = {.kind = SIM_DISK, .who = life->slot, .life = life->number,
	                          .number = (uint64_t)(op - life->disk_ops), .extra = op->number};
	/* However slow, it ends before the run does. */
	sim_at(life->sim, sy_min_u64(delay_ns, life->sim->winding_down ? 100 * SIM_MS : 10 * SIM_S),
	       event);
}

void sim_disk_run(void *context, const struct sy_disk_job *job)
{
	struct sim_life *life = context;
	struct sim *sim = life->sim;
	struct sim_disk_op *op = free_op(life);
	if (op == NULL) {
		sim_fail(sim, -1, "u%u has more disk operations under way than it may", life->slot);
		return;
	}
	*op = (struct sim_disk_op){.used = true, .number = ++sim->op_count, .job = *job};
	sy_record_span(job, &op->first, &op->count);
	check_i1_disk(life, op);
	op->fails = sim_strikes(sim, job->reads ? SIM_FAULT_DISK_READ : SIM_FAULT_DISK_WRITE);
	op->full = !job->reads && sim_strikes(sim, SIM_FAULT_DISK_FULL);
	op->torn = !job->reads && sim_strikes(sim, SIM_FAULT_DISK_TORN);
	sim_log(sim, "u%u %s put of grant %lu at disk %lu, blocks %lu+%lu", life->slot,
	        job->reads ? "reads" : "writes", job->grant, job->disk_at, op->first, op->count);
	uint64_t delay_ns = sim_wait(sim, sim->config.disk_ns);
	if (sim_strikes(sim, SIM_FAULT_DISK_SLOW))
		delay_ns += sim_draw(sim, 5 * SIM_S);
	later(life, op, delay_ns);
}

/* One piece goes over. What is written is what the slab holds at that instant. */
static void transfer(struct sim_life *life, struct sim_disk_op *op, uint64_t count)
{
	const struct sy_disk_job *job = &op->job;
	uint64_t first = op->first + op->done;
	uint8_t *blocks = life->disk + job->disk_at + first * BLOCK;
	bool skip = op->torn && sim_draw(life->sim, 2) == 0;
	if (job->reads) {
		op->bad |= !sy_record_unpack(job, blocks, first, count, life->slab + job->offset);
	} else if (!skip) {
		sy_record_pack(job, life->slab + job->offset, first, count, blocks);
	} else {
		op->left_out = true;
	}
	op->done += count;
}

/* Damage to what is written already, now and then. */
static void spoil(struct sim_life *life, const struct sim_disk_op *op)
{
	struct sim *sim = life->sim;
	const struct sy_disk_job *job = &op->job;
	uint64_t bytes = record_end(job) - job->disk_at;
	if (sim_strikes(sim, SIM_FAULT_DISK_FLIP)) {
		life->disk[job->disk_at + sim_draw(sim, bytes)] ^= (uint8_t)(1 << sim_draw(sim, 8));
		sim_disk_hurt(life, job->disk_at, bytes);
	}
	if (sim_strikes(sim, SIM_FAULT_DISK_LOST)) {
		uint64_t half = sim->config.params.disk_bytes / 2;
		uint64_t from = job->disk_at < half ? 0 : half;
		memset(life->disk + from, 0, half);
		sim_disk_hurt(life, from, half);
	}
}

static void end(struct sim_life *life, struct sim_disk_op *op)
{
	struct sim_event event = {.kind = SIM_UNIT_DISK, .who = life->slot, .life = life->number,
	                          .number = (uint64_t)(op - life->disk_ops), .extra = op->number};
	if (!op->job.reads && (op->fails || op->full))
		sim_disk_hurt(life, op->job.disk_at, record_end(&op->job) - op->job.disk_at);
	else if (!op->job.reads && op->left_out)
		sim_disk_hurt(life, op->job.disk_at, record_end(&op->job) - op->job.disk_at);
	else if (!op->job.reads)
		sim_disk_heal(life, op->job.disk_at, record_end(&op->job) - op->job.disk_at);
	op->over = true;
	sim_at(life->sim, sim_wait(life->sim, life->sim->config.latency_ns), event);
	if (!op->job.reads)
		spoil(life, op);
}

void sim_disk_event(struct sim *sim, const struct sim_event *event)
{
	struct sim_life *life = sim->units[event->who].life;
	struct sim_disk_op *op = &life->disk_ops[event->number];
	if (!life->alive || life->number != event->life || !op->used || op->number != event->extra)
		return;
	uint64_t left = op->count - op->done;
	if ((op->fails || op->full) && sim_draw(sim, 2) == 0)
		left = 0;
	if (left > 0) {
		uint64_t count = 1 + sim_draw(sim, PIECE_BLOCKS);
		transfer(life, op, count < left ? count : left);
		later(life, op, sim_wait(sim, sim->config.disk_ns / 4));
	} else {
		end(life, op);
	}
}

/* Its end reaches the unit. What the unit then takes for lost must have been. */
void sim_disk_ended(struct sim_life *life, const struct sim_event *event)
{
	struct sim *sim = life->sim;
	struct sim_disk_op *op = &life->disk_ops[event->number];
	if (!op->used || op->number != event->extra)
		return;
	enum sy_disk_result result = op->full    ? SY_DISK_FULL
	                             : op->fails ? SY_DISK_FAILED
	                             : op->bad   ? SY_DISK_DAMAGED
	                                         : SY_DISK_OK;
	bool ok = result == SY_DISK_OK;
	uint64_t generation = op->job.generation;
	bool reads = op->job.reads;
	if (reads && op->bad && !op->fails && !sim_disk_is_hurt(life, &op->job))
		check_i9_record(life, &op->job);
	sim_log(sim, "u%u %s of grant %lu ended: %s", life->slot, reads ? "read" : "write",
	        op->job.grant, ok ? "ok" : op->full ? "full" : "failed");
	op->used = false;
	life->disk_failed = !reads && !ok ? generation : 0;
	life->disk_read = reads && !ok ? generation : 0;
	sy_serve_disk(life->serve, op->job.blob, op->job.grant, (uint8_t)result, sim->shown_ns);
	sim_shadow_step(life);
	life->disk_failed = life->disk_read = 0;
}

void sim_disk_hurt(struct sim_life *life, uint64_t from, uint64_t bytes)
{
	memset(life->disk_hurt + from / BLOCK, 1, bytes / BLOCK);
	/* What is being written there may have been hit, too. */
	for (uint32_t i = 0; i < SIM_DISK_OPS_MAX; i++) {
		struct sim_disk_op *op = &life->disk_ops[i];
		if (op->used && op->job.disk_at < from + bytes && record_end(&op->job) > from)
			op->left_out = true;
	}
}

void sim_disk_heal(struct sim_life *life, uint64_t from, uint64_t bytes)
{
	memset(life->disk_hurt + from / BLOCK, 0, bytes / BLOCK);
}

bool sim_disk_is_hurt(const struct sim_life *life, const struct sy_disk_job *job)
{
	return memchr(life->disk_hurt + job->disk_at / BLOCK, 1,
	              sy_record_bytes(job->record_nbytes) / BLOCK) != NULL;
}
