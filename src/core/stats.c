#include "core.h"
#include "region.h"

void sy_core_stats(struct sy_core *core, struct sy_unit_stats *ret_stats)
{
	const struct sy_tables *t = &core->tables;
	const struct sy_volatile *v = &core->volatiles;
	const struct sy_tier *tier = &v->tier;
	*ret_stats = (struct sy_unit_stats){
		.capacity_bytes = core->params.slab_bytes,
		.state = (enum sy_unit_state)core->unit_state,
		.bytes = {
			.free = t->spaces[SY_SPACE_SLAB].free_bytes,
			.allocated = t->bytes[SY_BLOB_ALLOCATED],
			.committing = t->bytes[SY_BLOB_COMMITTING],
			.published = t->bytes[SY_BLOB_PUBLISHED],
			.demoting = t->bytes[SY_BLOB_DEMOTING],
			.released = t->bytes[SY_BLOB_RELEASED],
			.retired = t->bytes[SY_BLOB_RETIRED],
			.quarantined = t->bytes[SY_BLOB_QUARANTINED],
			.loading = t->bytes[SY_BLOB_LOADING],
			.staging = t->spaces[SY_SPACE_STAGING].free_bytes,
			.rounding = t->rounding_bytes,
		},
		.rows = t->row_count,
		.entries = t->entries.used - t->reap_count,
		.entries_capacity = t->entries.capacity,
		.blobs = t->blobs.used,
		.sessions = v->sessions.used,
		.pins = v->pins.used,
		.parked = v->parked_requests.count + v->parked_loads.count,
		.reservations = v->reservation_count,
		.fields = t->fields.pool.used,
		.shapes = t->shapes.pool.used,
		.namespaces = t->namespaces.pool.used,
		.holes = t->spaces[SY_SPACE_SLAB].hole_count,
		.largest_hole = sy_region_largest_hole(core, SY_SPACE_SLAB),
		.requests = v->requests,
		.dropped = v->dropped,
		.puts = v->puts,
		.overwritten = v->overwritten,
		.resolved = v->resolved,
		.cleared = v->cleared,
		.protocol_errors = v->protocol_errors,
		.ssd_capacity = core->params.disk_bytes,
		.ssd_free = t->spaces[SY_SPACE_DISK].free_bytes,
		.ssd_on_disk = t->disk_bytes[SY_BLOB_ON_SSD],
		.ssd_writing = t->disk_bytes[SY_BLOB_DEMOTING] + t->disk_bytes[SY_BLOB_COMMITTING],
		.ssd_leaving = t->disk_bytes[SY_BLOB_RELEASED],
		.ssd_queued = tier->lists[SY_TIER_WRITES].count + tier->lists[SY_TIER_READS].count,
		.ssd_running = tier->writes_running + tier->reads_running,
		.ssd_demotions = tier->demotions,
		.ssd_promotions = tier->promotions,
		.ssd_loads = tier->loads,
		.ssd_spills = tier->spills,
		.ssd_written_bytes = tier->written_bytes,
		.ssd_read_bytes = tier->read_bytes,
		.ssd_write_errors = tier->write_errors,
		.ssd_read_errors = tier->read_errors,
		.ssd_full = tier->full_count,
		.ssd_lost_blobs = tier->lost_blobs,
	};
}
