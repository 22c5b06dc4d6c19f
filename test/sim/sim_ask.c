/* Makes up operations: which keys, which values, again or anew. */
#include "sim.h"

static bool wide(struct sim *sim)
{
	return sim_draw(sim, 100) < sim->config.wide_percent;
}

static uint32_t some(struct sim *sim, uint32_t at_most)
{
	return 1 + (uint32_t)sim_draw(sim, at_most);
}

/* Distinct rows of the unit: a run of positions, then thinned out. */
static uint32_t draw_rows(struct sim *sim, struct sim_task *task, uint32_t at_most)
{
	uint32_t rows = sim->config.rows, count = 0;
	bool all = wide(sim);
	uint32_t want = all ? rows : some(sim, at_most < rows ? at_most : rows);
	uint32_t first = (uint32_t)sim_draw(sim, rows);
	for (uint32_t i = 0; i < rows && count < want; i++) {
		if (all || sim_draw(sim, 4) != 0)
			task->rows[count++] = sim_row(sim, task->slot, (first + i) % rows);
	}
	return count;
}

static uint32_t draw_fields(struct sim *sim, struct sim_task *task)
{
	uint32_t count = wide(sim) ? sim->config.fields : some(sim, sim->config.fields);
	uint32_t first = (uint32_t)sim_draw(sim, sim->config.fields);
	for (uint32_t i = 0; i < count; i++)
		task->fields[i] = sim_field((first + i) % sim->config.fields);
	return count;
}

static bool ask_put(struct sim_client *client, struct sim_task *task, bool small)
{
	struct sim *sim = client->sim;
	struct sy_machine_op *op = &task->op;
	task->put = sim_put_new(sim, client->index, task->slot, small);
	if (task->put == NULL)
		return false;
	bool eager = small && task->put->nbytes <= sim->config.params.eager_max_bytes + 64;
	if (!eager && sim_strikes(sim, SIM_FAULT_SCRIBBLE)) {
		task->put->scribbled = true;
		task->put->miscounted = sim_draw(sim, 4) == 0;
		if (!task->put->miscounted) /* the blob's id, or anything of the index */
			task->put->image[sim_draw(sim, 4) == 0 ? 50 : sim_draw(sim, 100)] ^= 0x40;
	}
	op->kind = eager ? SY_OP_KIND_PUT_INLINE : SY_OP_KIND_PUT;
	task->put->ssd = sim->config.params.disk_bytes > 0 && sim_draw(sim, 5) != 0;
	return true;
}

/* The arguments of a put's two forms, from the put itself. */
static void fill_put(struct sim_task *task)
{
	struct sy_machine_op *op = &task->op;
	const struct sim_put *put = task->put;
	if (op->kind == SY_OP_KIND_PUT) {
		op->put = (struct sy_alloc_args){
			.blob_id = put->id, .nbytes = put->asked_bytes,
			.entry_count = put->value_count + put->miscounted, .ssd = put->ssd};
	} else {
		op->put_inline = (struct sy_put_inline_args){
			.blob_id = put->id, .blob = {put->image, put->nbytes}, .ssd = put->ssd};
	}
}

/* A put that failed is tried once more under its id; one whose end is not known is asked about. */
static bool ask_again(struct sim_client *client, struct sim_task *task)
{
	const struct sim_put *put = task->put;
	struct sy_machine_op *op = &task->op;
	if (put == NULL || put->slot != task->slot)
		return false;
	if (put->told == SIM_TOLD_FAILED && !put->scribbled)
		return true;
	if (put->told == SIM_TOLD_UNKNOWN && !put->scribbled && op->kind == SY_OP_KIND_PUT &&
	    sim_draw(client->sim, 3) == 0)
		return true; /* a caller of the store may do so: in another call, knowing nothing */
	if (put->told != SIM_TOLD_UNKNOWN || op->kind == SY_OP_KIND_PUT_INLINE ||
	    put->generation == 0)
		return false;
	op->kind = SY_OP_KIND_COMMIT;
	op->commit.blob_id = put->id;
	op->commit.generation = put->generation;
	op->commit.incarnation = put->incarnation;
	return true;
}

/* A client that has lost its way: it commits what another task is just writing, under a generation
 * that was another's. */
static bool ask_stale(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	const struct sim_task *other = &client->tasks[0];
	for (uint32_t i = 1; i < sim->config.tasks && other->state != SIM_TASK_WRITING; i++)
		other = &client->tasks[i];
	if (other->state != SIM_TASK_WRITING || other->slot != task->slot || other == task ||
	    !sim_strikes(sim, SIM_FAULT_STALE))
		return false;
	task->put = NULL;
	task->op.kind = SY_OP_KIND_COMMIT;
	task->op.commit.blob_id = other->put->id;
	task->op.commit.generation = other->op.outcome.generation - 1 - sim_draw(sim, 3);
	task->op.commit.incarnation = other->op.incarnation;
	return true;
}

/* In every fourth seed a client often gets what was put last as it was put, as most clients do.
 * Nothing is drawn for it, and none of seeds.txt is such a seed. */
enum { IN_ORDER_EACH = 4, PUTS_BACK = 32 };

static const struct sim_put *last_put(const struct sim_client *client, uint32_t slot)
{
	const struct sim *sim = client->sim;
	for (uint64_t i = 0; i < PUTS_BACK && i < sim->put_count; i++) {
		const struct sim_put *put = sim->puts.items[sim->put_count - 1 - i];
		if (put->slot == slot && put->space == client->space && put->told == SIM_TOLD_OK &&
		    put->value_count > 0)
			return put;
	}
	return NULL;
}

static bool has_row(const struct sim_task *task, uint32_t count, uint64_t row)
{
	for (uint32_t i = 0; i < count; i++) {
		if (task->rows[i] == row)
			return true;
	}
	return false;
}

/* Values come column by column. */
static void take_as_put(struct sim_client *client, struct sim_task *task, uint32_t *rows,
                        uint32_t *fields)
{
	struct sim *sim = client->sim;
	const struct sim_put *put = last_put(client, task->slot);
	if (put == NULL || sim->config.seed % IN_ORDER_EACH != 0 || *rows % 2 != 0)
		return;
	*rows = *fields = 0;
	for (uint32_t i = 0; i < put->value_count; i++) {
		const struct sim_value *value = &put->values[i];
		uint64_t row = sim_row(sim, task->slot, value->row);
		if (!has_row(task, *rows, row))
			task->rows[(*rows)++] = row;
		if (i == 0 || value->field != put->values[i - 1].field)
			task->fields[(*fields)++] = sim_field(value->field);
	}
}

static bool ask_resolve(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	struct sy_resolve_args *args = &task->op.resolve;
	uint32_t rows = draw_rows(sim, task, 12), fields = draw_fields(sim, task);
	static const uint32_t inline_max[] = {0, 0, 64, 1 << 20};
	take_as_put(client, task, &rows, &fields);
	*args = (struct sy_resolve_args){
		.rows = task->rows, .fields = task->fields, .row_count = rows, .field_count = fields,
		.inline_max_bytes = inline_max[sim_draw(sim, 4)]};
	task->op.kind = SY_OP_KIND_RESOLVE;
	task->op.gives_way = (rows + fields) % 2 == 0; /* no draw: seeds say what they said */
	if (rows == 0 || sim_draw(sim, 3) != 0)
		return rows > 0;
	/* The same as a list of keys, some of them twice. */
	uint64_t picked[SIM_ROWS_MAX];
	uint32_t keys = 0;
	memcpy(picked, task->rows, rows * sizeof picked[0]);
	for (uint32_t i = 0; i < rows; i++) {
		for (uint32_t k = 0; k < fields; k++) {
			if (sim_draw(sim, 4) == 0)
				continue;
			task->rows[keys] = picked[sim_draw(sim, 10) == 0 ? 0 : i];
			task->field_of[keys++] = (uint16_t)k;
		}
	}
	args->field_of = task->field_of;
	args->row_count = keys;
	return keys > 0;
}

static bool ask_release(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	bool all = sim_draw(sim, 2) == 0;
	uint32_t rows = draw_rows(sim, task, sim_draw(sim, 3) == 0 ? SIM_ROWS_MAX : 6);
	task->op.kind = SY_OP_KIND_RELEASE;
	task->op.release = (struct sy_release_args){
		.rows = task->rows, .fields = task->fields, .row_count = rows, .all_fields = all,
		.field_count = all ? 0 : draw_fields(sim, task)};
	return true;
}

void sim_ask_release_all(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	for (uint32_t i = 0; i < sim->config.rows; i++)
		task->rows[i] = sim_row(sim, task->slot, i);
	task->put = NULL;
	task->op.kind = SY_OP_KIND_RELEASE;
	task->op.release = (struct sy_release_args){
		.rows = task->rows, .row_count = sim->config.rows, .all_fields = true};
}

static bool ask_scan(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	bool all = sim_draw(sim, 2) == 0;
	task->op.kind = SY_OP_KIND_SCAN;
	task->op.scan = (struct sy_scan_args){
		.last_row = sim_draw(sim, 3) == 0 ? sim->config.rows : UINT64_MAX,
		.fields = task->fields,
		.field_count = all ? 0 : draw_fields(sim, task),
		.limit = sim_draw(sim, 2) == 0 ? 3 + (uint32_t)sim_draw(sim, 20) : SY_SCAN_LIMIT_MAX,
		.cursor = sim_draw(sim, 8) == 0 ? sim_draw(sim, 50) : 0};
	task->scan_life = 0;
	return true;
}

static bool ask_query(struct sim_client *client, struct sim_task *task)
{
	task->op.kind = sim_draw(client->sim, 2) == 0 ? SY_OP_KIND_INFO : SY_OP_KIND_STATS;
	return true;
}

bool sim_ask(struct sim_client *client, struct sim_task *task, uint32_t slot)
{
	struct sim *sim = client->sim;
	const struct sim_mix *mix = &sim->config.mix;
	const uint32_t weights[] = {mix->again, mix->put, mix->put_inline, mix->resolve,
	                            mix->release, mix->scan, mix->query};
	uint32_t total = 0, kind = 0;
	for (uint32_t i = 0; i < 7; i++)
		total += weights[i];
	uint32_t at = (uint32_t)sim_draw(sim, total);
	for (; at >= weights[kind]; kind++)
		at -= weights[kind];
	task->slot = slot;
	if (ask_stale(client, task))
		return true;
	bool asked;
	if (kind == 0) {
		if (!ask_again(client, task))
			return false;
		if (task->op.kind != SY_OP_KIND_COMMIT)
			fill_put(task);
		return true;
	}
	if (kind <= 2) {
		asked = ask_put(client, task, kind == 2);
		if (asked)
			fill_put(task);
		return asked;
	}
	task->put = NULL;
	switch (kind) {
	case 3:
		return ask_resolve(client, task);
	case 4:
		return ask_release(client, task);
	case 5:
		return ask_scan(client, task);
	default:
		return ask_query(client, task);
	}
}
