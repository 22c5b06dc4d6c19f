#include "core.h"
#include "region.h"

void sy_core_stats(struct sy_core *core, struct sy_unit_stats *ret_stats)
{
	const struct sy_tables *t = &core->tables;
	const struct sy_volatile *v = &core->volatiles;
	*ret_stats = (struct sy_unit_stats){
		.capacity_bytes = core->params.slab_bytes,
		.state = (enum sy_unit_state)core->unit_state,
		.bytes = {
			.free = t->bytes[SY_BLOB_FREE],
			.allocated = t->bytes[SY_BLOB_ALLOCATED],
			.committing = t->bytes[SY_BLOB_COMMITTING],
			.published = t->bytes[SY_BLOB_PUBLISHED],
			.demoting = t->bytes[SY_BLOB_DEMOTING],
			.released = t->bytes[SY_BLOB_RELEASED],
			.retired = t->bytes[SY_BLOB_RETIRED],
			.quarantined = t->bytes[SY_BLOB_QUARANTINED],
			.rounding = t->rounding_bytes,
		},
		.rows = t->row_count,
		.entries = t->entries.used,
		.entries_capacity = t->entries.capacity,
		.blobs = t->blobs.used,
		.sessions = v->sessions.used,
		.pins = v->pins.used,
		.parked = v->parked_requests.count,
		.reservations = v->reservation_count,
		.fields = t->fields.pool.used,
		.shapes = t->shapes.pool.used,
		.namespaces = t->namespaces.pool.used,
		.holes = t->hole_count,
		.largest_hole = sy_region_largest_hole(core),
		.requests = v->requests,
		.dropped = v->dropped,
		.puts = v->puts,
		.overwritten = v->overwritten,
		.resolved = v->resolved,
		.cleared = v->cleared,
		.protocol_errors = v->protocol_errors,
	};
}
