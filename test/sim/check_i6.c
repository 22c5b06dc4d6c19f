/* I6: the bytes over all states sum to the capacity, recomputed from the tables; the same for
 * entries, blobs, pins and the rest, which the core's own audit counts. */
#include "blob.h"
#include "sim_check.h"

void check_i6(struct sim_life *life)
{
	struct sy_core *core = sy_serve_core(life->serve);
	struct sy_unit_stats stats;
	const char *fault = sy_core_audit(core);
	uint64_t sum = 0;
	life->sim->counts.audits++;
	if (fault != NULL) {
		sim_fail(life->sim, 6, "u%u: %s", life->slot, fault);
		return;
	}
	sy_serve_stats(life->serve, &stats);
#define ADD(field, text) sum += stats.bytes.field;
	SY_BYTES_LIST(ADD)
#undef ADD
	if (sum != stats.capacity_bytes)
		sim_fail(life->sim, 6, "u%u: its bytes sum to %lu of %lu", life->slot, sum,
		         stats.capacity_bytes);
}

void check_i6_buffers(struct sim_client *client)
{
	const char *fault = sy_buffers_audit(&client->buffers);
	client->sim->counts.audits++;
	if (fault != NULL)
		sim_fail(client->sim, 6, "c%u: %s", client->index, fault);
	check_i6_memories(client);
}

void check_counts(struct sim_life *life)
{
	const struct sy_core *core = sy_serve_core(life->serve);
	check_i6(life);
	for (uint32_t from = 0; from < SY_BLOB_STATE_COUNT; from++) {
		for (uint32_t to = 0; to < SY_BLOB_STATE_COUNT; to++)
			life->sim->counts.arrows[from][to] += core->tables.arrows[from][to];
	}
}
