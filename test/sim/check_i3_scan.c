/* I3 for scans: what is shown is there, and what stands during the whole scan is shown once. */
#include <stdlib.h>

#include "sim_check.h"

static bool wanted(const struct sy_scan_args *args, uint64_t row, struct sy_span field)
{
	bool is_field = args->field_count == 0;
	for (uint32_t i = 0; i < args->field_count; i++)
		is_field = is_field || sy_span_equal(args->fields[i], field);
	return is_field && row >= args->first_row && row <= args->last_row;
}

static void check_scan_entry(struct sim_life *life, uint32_t space,
                             const struct sy_scan_args *args, const struct sy_scan_entry *entry)
{
	struct sim *sim = life->sim;
	uint32_t row = sim_row_at(sim, life->slot, entry->row), field = sim_field_at(entry->field);
	const struct sim_key *key = row < SIM_ROWS_MAX && field < SIM_FIELDS_MAX
	                                    ? &life->shadow->keys[space][row][field] : NULL;
	const struct sim_put *put = key == NULL ? NULL
	                            : key->value != NULL ? key->value : key->leaving;
	const struct sim_value *value = put == NULL ? NULL : sim_put_value(put, row, field);
	if (value == NULL || !wanted(args, entry->row, entry->field))
		sim_fail(sim, 3, "u%u scans row %lu field %u, which is not there", life->slot, entry->row,
		         field);
	else if (entry->nbytes != value->nbytes || entry->dim0 != value->dim0 ||
	         entry->dtype != value->dtype || entry->kind != value->kind ||
	         !check_shape_equal(&entry->shape, &value->shape))
		sim_fail(sim, 3, "u%u scans row %lu field %u of put %lu wrongly", life->slot, entry->row,
		         field, put->number);
}

/* A scan in one piece shows every key that stands, once. */
void check_i3_scan(struct sim_life *life, struct sim_request *request,
                   const struct sy_reply *reply)
{
	struct sim *sim = life->sim;
	struct sy_request wire;
	uint32_t space = check_space_of(life, request), least = 0, most = 0;
	if (space >= SIM_SPACES || !check_asked(sim, request, &wire))
		return;
	if (request->first_order == 0)
		request->first_order = life->shadow->order + 1;
	for (uint32_t i = 0; i < reply->scan_count; i++)
		check_scan_entry(life, space, &wire.scan, &reply->scan[i]);
	for (uint32_t row = 0; row < SIM_ROWS_MAX; row++) {
		for (uint32_t field = 0; field < SIM_FIELDS_MAX; field++) {
			const struct sim_key *key = &life->shadow->keys[space][row][field];
			if (!wanted(&wire.scan, sim_row(sim, life->slot, row), sim_field(field)))
				continue;
			least += key->value != NULL;
			most += key->value != NULL || key->leaving != NULL;
		}
	}
	bool whole = wire.scan.cursor == 0 && reply->scan_cursor == 0;
	if (reply->scan_count > most || (whole && reply->scan_count < least))
		sim_fail(sim, 3, "u%u scans %u keys of %u to %u", life->slot, reply->scan_count, least,
		         most);
}

static void begin_scan(struct sim_task *task, const struct sim_life *life)
{
	const struct sim_request *r = sim_shadow_request(life->shadow, task->op.reply.id);
	if (task->scanned == NULL)
		task->scanned = calloc(SIM_ROWS_MAX, sizeof *task->scanned);
	if (task->scanned == NULL)
		abort();
	memset(task->scanned, 0, SIM_ROWS_MAX * sizeof *task->scanned);
	bool whole = task->op.scan.cursor == 0 && r != NULL;
	task->scan_order = whole ? r->first_order - 1 : 0;
	task->scan_life = life->number;
}

/* Keys that were there at the scan's first request and are still: each came once. */
static void check_whole(struct sim_client *client, const struct sim_task *task,
                        const struct sim_life *life)
{
	struct sim *sim = client->sim;
	for (uint32_t row = 0; row < SIM_ROWS_MAX; row++) {
		for (uint32_t field = 0; field < SIM_FIELDS_MAX; field++) {
			const struct sim_put *put = life->shadow->keys[client->space][row][field].value;
			if (put == NULL || put->shown_order > task->scan_order ||
			    !wanted(&task->op.scan, sim_row(sim, task->slot, row), sim_field(field)))
				continue;
			if (task->scanned[row][field] != 1)
				sim_fail(sim, 3, "c%u/u%u scanned row position %u field %u %u times",
				         client->index, task->slot, row, field, task->scanned[row][field]);
		}
	}
}

void check_i3_scanned(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	const struct sy_reply *reply = &task->op.reply;
	const struct sim_life *life = sim_life_of(sim, task->op.incarnation);
	if (life == NULL)
		return;
	if (task->scan_life != life->number && task->scan_life != 0)
		task->scan_order = 0; /* the rest of it is of another incarnation */
	if (task->scan_life == 0)
		begin_scan(task, life);
	for (uint32_t i = 0; i < reply->scan_count; i++) {
		uint32_t row = sim_row_at(sim, task->slot, reply->scan[i].row);
		uint32_t field = sim_field_at(reply->scan[i].field);
		if (row < SIM_ROWS_MAX && field < SIM_FIELDS_MAX)
			task->scanned[row][field]++;
	}
	if (reply->scan_cursor == 0 && task->scan_order > 0)
		check_whole(client, task, life);
}
