/* I2: a commit publishes all its rows or none; the fields of a row come from one of its states. */
#include "blob.h"
#include "entry.h"
#include "intern.h"
#include "sim_check.h"

void check_i2_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation)
{
	struct sy_core *core = sy_serve_core(life->serve);
	uint32_t ns = sy_name_find(core, &core->tables.namespaces, sim_space(put->space));
	uint32_t there = 0, due = 0;
	for (uint32_t i = 0; i < put->value_count; i++) {
		const struct sim_value *value = &put->values[i];
		if (life->shadow->keys[put->space][value->row][value->field].value != put)
			continue; /* one accepted later was seen before */
		due++;
		uint64_t row = sim_row(life->sim, life->slot, value->row);
		uint32_t field = sy_name_find(core, &core->tables.fields, sim_field(value->field));
		uint32_t entry = field == 0 ? 0 : sy_entry_find(core, ns, row, field);
		if (entry != 0 &&
		    sy_blob_at(core, sy_entry_at(core, entry)->blob)->generation == generation)
			there++;
	}
	if (there < due)
		sim_fail(life->sim, 2, "u%u accepted put %lu and shows %u of its %u keys", life->slot,
		         put->number, there, due);
}

/* Is this key being cleared by one release alone? Two may overlap and clear a row in turn. */
static bool by_one(const struct sim_shadow *shadow, const struct sim_key *key, uint32_t space,
                   uint32_t row, uint32_t field)
{
	uint32_t count = 0;
	const struct sim_release *r = shadow->releases; /* the newest first */
	for (; r != NULL && r->order > key->leaving->accepted_order; r = r->next)
		count += r->space == space && !r->acked && (r->rows >> row & 1) != 0 &&
		         (r->fields >> field & 1) != 0;
	return count == 1;
}

/* What a release under way clears of a row goes at once: a resolve sees all of it or none. */
void check_i2_rows(struct sim_life *life, const struct sim_request *request,
                   const struct sy_request *wire, uint32_t space)
{
	struct {
		const struct sim_release *by;
		bool seen, gone;
	} rows[SIM_ROWS_MAX] = {0};
	const struct sy_resolve_args *args = &wire->resolve;
	for (uint64_t k = 0; k < request->key_count; k++) {
		uint64_t at = args->field_of != NULL ? k : k / args->field_count;
		uint64_t column = args->field_of != NULL ? args->field_of[k] : k % args->field_count;
		uint32_t row = sim_row_at(life->sim, life->slot, args->rows[at]);
		uint32_t field = sim_field_at(args->fields[column]);
		if (row >= SIM_ROWS_MAX || field >= SIM_FIELDS_MAX)
			continue;
		const struct sim_key *key = &life->shadow->keys[space][row][field];
		if (key->leaving == NULL || (rows[row].by != NULL && rows[row].by != key->by) ||
		    !by_one(life->shadow, key, space, row, field))
			continue;
		rows[row].by = key->by;
		if (request->seen[k].put != NULL || request->seen[k].lost)
			rows[row].seen = true;
		else
			rows[row].gone = true;
		if (rows[row].seen && rows[row].gone) {
			sim_fail(life->sim, 2, "u%u shows row %lu half cleared", life->slot, args->rows[at]);
			return;
		}
	}
}

/* A client's answer, row by row: each key as the unit gave it in the one resolve, or all of them
 * otherwise. Keys of a row are told apart by the generation of what was found. */
void check_i2_answer(struct sim_client *client, const struct sim_task *task,
                     const struct sim_request *request)
{
	const struct sy_resolve_args *args = &task->op.resolve;
	const struct sy_resolved *resolved = &task->op.reply.resolved;
	bool same[SIM_ROWS_MAX] = {0}, other[SIM_ROWS_MAX] = {0};
	for (uint64_t k = 0; k < request->key_count; k++) {
		uint64_t at = args->field_of != NULL ? k : k / args->field_count;
		uint32_t row = sim_row_at(client->sim, task->slot, args->rows[at]);
		if (row >= SIM_ROWS_MAX || !sy_found_is_value(resolved->found[k]))
			continue;
		if (resolved->generation[k] == request->seen[k].generation)
			same[row] = true;
		else
			other[row] = true;
	}
	for (uint32_t row = 0; row < SIM_ROWS_MAX; row++) {
		if (same[row] && other[row])
			sim_fail(client->sim, 2, "c%u/u%u answers row position %u from two of its states",
			         client->index, task->slot, row);
	}
}
