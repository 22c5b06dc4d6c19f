/* Operations that change nothing, and the outcomes of failure. */
#include "entry.h"
#include "handle.h"
#include "intern.h"
#include "pin.h"
#include "region.h"

enum sy_run sy_refuse(struct sy_call *call, enum sy_why why)
{
	call->outcome->fault = SY_FAULT_PROTOCOL;
	call->outcome->why = (uint8_t)why;
	return SY_RUN_ANSWER;
}

enum sy_run sy_refuse_busy(struct sy_call *call, enum sy_busy busy)
{
	call->outcome->fault = SY_FAULT_BUSY;
	call->outcome->busy = (uint8_t)busy;
	return SY_RUN_ANSWER;
}

enum sy_run sy_refuse_full(struct sy_call *call, enum sy_resource resource, uint64_t need,
                           uint64_t free)
{
	call->outcome->fault = SY_FAULT_UNIT_FULL;
	call->outcome->resource = (uint8_t)resource;
	call->outcome->need = need;
	call->outcome->free = free;
	return SY_RUN_ANSWER;
}

enum sy_run sy_refuse_bytes(struct sy_call *call, uint64_t need)
{
	struct sy_core *core = call->step->core;
	call->outcome->hole = sy_region_largest_hole(core, SY_SPACE_SLAB);
	return sy_refuse_full(call, SY_RESOURCE_BYTES, need,
	                      sy_region_free_bytes(core, SY_SPACE_SLAB));
}

enum sy_run sy_handle_heartbeat(struct sy_call *call)
{
	call->outcome->count = call->step->core->unit_state;
	return SY_RUN_ANSWER;
}

enum sy_run sy_handle_nothing(struct sy_call *call)
{
	(void)call;
	return SY_RUN_ANSWER;
}

/* A pin counts as held while its session lives and its time, if it has one, is not over. */
static bool is_held(struct sy_call *call, struct sy_request_id name)
{
	struct sy_core *core = call->step->core;
	uint32_t pin = sy_pin_find(core, name);
	if (pin == 0 || sy_pin_at(core, pin)->loose ||
	    sy_pin_at(core, pin)->session != call->session_index)
		return false;
	uint64_t expires_ns = sy_pin_at(core, pin)->expires_ns;
	return expires_ns == 0 || call->step->now_ns < expires_ns;
}

enum sy_run sy_handle_pin_check(struct sy_call *call)
{
	const struct sy_event_request *r = call->request;
	if (r->pin_check.count > SY_NAMES_PER_PIN_CHECK_MAX)
		return sy_refuse(call, SY_WHY_TOO_MANY);
	for (uint32_t i = 0; i < r->pin_check.count; i++)
		r->pin_check.held[i] = is_held(call, r->pin_check.names[i]);
	return SY_RUN_ANSWER;
}

/* Items of the entry table looked at by one scan: about half a millisecond. */
enum { SCAN_LOOKS = 32768 };

static bool scan_wants(const struct sy_call *call, const struct sy_entry *e)
{
	const struct sy_event_request *r = call->request;
	return (e->flags & SY_ENTRY_LIVE) != 0 && (e->flags & SY_ENTRY_PENDING) == 0 &&
	       e->ns == call->session->ns && e->row >= r->scan.first_row &&
	       e->row <= r->scan.last_row &&
	       (r->scan.field_count == 0 ||
	        sy_field_set_has(&call->step->core->volatiles.field_set, e->field));
}

static void scan_write(struct sy_core *core, const struct sy_entry *e, struct sy_scan_item *item)
{
	item->row = e->row;
	item->nbytes = sy_entry_bytes(core, e);
	item->dim0 = sy_entry_dim0(core, e);
	item->field = sy_name_text(core, &core->tables.fields, e->field);
	item->shape = sy_shape_at(core, e->shape);
	item->dtype = e->dtype;
	item->kind = e->kind;
}

/* The cursor is the index of the last entry looked at. An entry keeps its index for its life, so
 * that one that stands during the whole scan comes exactly once. */
enum sy_run sy_handle_scan(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	struct sy_field_set *set = &core->volatiles.field_set;
	uint32_t count = 0;
	if (r->scan.limit > SY_SCAN_LIMIT_MAX || r->scan.field_count > SY_FIELDS_PER_REQUEST_MAX)
		return sy_refuse(call, SY_WHY_TOO_MANY);
	if (r->scan.field_count > 0)
		memset(set, 0, sizeof *set);
	for (uint32_t i = 0; i < r->scan.field_count; i++)
		sy_field_set_add(set, sy_name_find(core, &core->tables.fields, r->scan.fields[i]));
	uint64_t last = core->tables.entries.touched;
	uint64_t at = sy_min_u64(r->scan.cursor, last);
	uint64_t stop = sy_min_u64(last, at + SCAN_LOOKS);
	while (at < stop && count < r->scan.limit) {
		const struct sy_entry *e = sy_entry_at(core, (uint32_t)++at);
		if (scan_wants(call, e))
			scan_write(core, e, &r->scan.out[count++]);
	}
	*r->scan.ret_count = count;
	*r->scan.ret_cursor = at < last ? at : 0;
	return SY_RUN_ANSWER;
}
