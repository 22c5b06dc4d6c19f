/* Puts: blobs with an index, and bytes that say which key and which put they belong to. */
#include <stdlib.h>

#include "sim.h"

/* Sorted bytewise, as columns are. */
static const char *const field_names[SIM_FIELDS_MAX] = {
	"@", "a", "a@b", "advantages", "attention_mask", "b",
	"f00", "f01", "f02", "f03", "f04", "f05", "f06", "f07", "f08", "f09", "f10", "f11",
	"f12", "f13", "f14", "f15", "f16", "f17", "f18", "f19", "f20", "f21", "f22", "f23",
	"group", "input_ids", "input_lengths",
	"kl", "loss_mask", "meta.source", "old_logprobs", "prompt", "prompt_ids", "ref_logprobs",
	"response", "response_ids", "reward", "step", "token_mask", "values", "\xc3\xa4hnlich",
	"\xe6\xb8\xac\xe8\xa9\xa6"};

struct sy_span sim_field(uint32_t field)
{
	const char *name = field_names[field];
	return (struct sy_span){(const uint8_t *)name, strlen(name)};
}

uint32_t sim_field_at(struct sy_span name)
{
	uint32_t field = 0;
	while (field < SIM_FIELDS_MAX && !sy_span_equal(sim_field(field), name))
		field++;
	return field;
}

struct sy_span sim_space(uint32_t space)
{
	static const char *const names[SIM_SPACES] = {"train", "eval"};
	return (struct sy_span){(const uint8_t *)names[space], strlen(names[space])};
}

/* A unit has the rows that leave its slot as rest; the last one is as far out as a row can be. */
uint64_t sim_row(const struct sim *sim, uint32_t slot, uint32_t row)
{
	uint64_t units = sim->config.units;
	if (row + 1 == SIM_ROWS_MAX)
		return UINT64_MAX / units * units - units + slot;
	return (uint64_t)row * units + slot;
}

uint32_t sim_row_at(const struct sim *sim, uint32_t slot, uint64_t row)
{
	uint64_t units = sim->config.units;
	if (row == sim_row(sim, slot, SIM_ROWS_MAX - 1))
		return SIM_ROWS_MAX - 1;
	if (row % units != slot || row / units >= SIM_ROWS_MAX)
		return UINT32_MAX;
	return (uint32_t)(row / units);
}

/* A column being made up, and the room it draws from. */
struct draft {
	sy_column columns[2 * SIM_FIELDS_MAX];
	uint32_t fields[2 * SIM_FIELDS_MAX];
	uint32_t ordinals[2 * SIM_FIELDS_MAX][SIM_ROWS_MAX];
	uint64_t extents[2 * SIM_FIELDS_MAX][SIM_ROWS_MAX];
	uint64_t rows[SIM_ROWS_MAX];
	uint32_t positions[SIM_ROWS_MAX];
	sy_index index;
};

static void draw_type(struct sim *sim, sy_column *column)
{
	static const sy_shape shapes[] = {
		{.rank = 0}, {.rank = 1}, {.rank = 2, .tail = {3}}, {.rank = 3, .tail = {2, 5}},
		{.rank = 2, .tail = {0}}, {.rank = 8, .tail = {1, 1, 2, 1, 1, 1, 1}}};
	uint64_t roll = sim_draw(sim, 10);
	column->kind = roll < 6 ? SY_KIND_TENSOR : roll < 8 ? SY_KIND_BYTES
	               : roll < 9                           ? SY_KIND_JSON
	                                                    : SY_KIND_JSON_NULL;
	column->dtype = SY_DTYPE_NONE;
	column->shape = (sy_shape){0};
	if (column->kind == SY_KIND_TENSOR) {
		column->dtype = (sy_dtype)(1 + sim_draw(sim, SY_DTYPE_C128));
		column->shape = shapes[sim_draw(sim, sim_draw(sim, 3) == 0 ? 6 : 2)];
	}
}

static uint64_t draw_extent(struct sim *sim, const sy_column *column, uint64_t max_bytes)
{
	uint64_t unit = 1, bytes = 0;
	if (column->kind == SY_KIND_JSON_NULL)
		return 0;
	if (column->kind == SY_KIND_TENSOR)
		sy_shape_unit_bytes(column->dtype, &column->shape, &unit);
	if (column->kind == SY_KIND_TENSOR && column->shape.rank == 0)
		return unit;
	static const uint32_t edges[] = {0, 1, 63, 64, 65};
	bytes = sim_draw(sim, 4) == 0 ? edges[sim_draw(sim, 5)] : sim_draw(sim, max_bytes + 1);
	return unit == 0 ? sim_draw(sim, 9) : bytes / unit * unit;
}

static uint32_t draft_rows(struct sim *sim, struct draft *draft, uint32_t slot, uint32_t want)
{
	uint32_t count = 0, rows = sim->config.rows;
	uint32_t first = (uint32_t)sim_draw(sim, rows);
	for (uint32_t i = first; i < rows && count < want; i++) {
		if (i == first || sim_draw(sim, 4) != 0)
			draft->positions[count++] = i;
	}
	for (uint32_t i = 0; i < count; i++)
		draft->rows[i] = sim_row(sim, slot, draft->positions[i]);
	return count;
}

/* One field over rows first, first + step, ...: all rows if step is 1. */
static void draft_column(struct sim *sim, struct draft *draft, uint32_t field, uint32_t first,
                         uint32_t step, uint64_t max_bytes)
{
	uint32_t at = draft->index.column_count, count = 0;
	sy_column *column = &draft->columns[at];
	struct sy_span name = sim_field(field);
	*column = (sy_column){.field = (const char *)name.data, .field_bytes = name.bytes};
	draw_type(sim, column);
	bool even = sim_draw(sim, 2) == 0;
	column->extent = draw_extent(sim, column, max_bytes);
	for (uint32_t k = first; k < draft->index.row_count; k += step) {
		draft->ordinals[at][count] = k;
		draft->extents[at][count++] =
			even ? column->extent : draw_extent(sim, column, max_bytes);
	}
	if (count == 0)
		return;
	column->row_count = count;
	column->ordinals = step == 1 && first == 0 ? NULL : draft->ordinals[at];
	column->extents = even ? NULL : draft->extents[at];
	draft->fields[at] = field;
	draft->index.column_count++;
}

/* A field stands in one column, or in two of different types for different rows. */
static void draft_columns(struct sim *sim, struct draft *draft, uint32_t want, uint64_t max_bytes)
{
	uint32_t fields = sim->config.fields;
	for (uint32_t i = 0, taken = 0; i < fields && taken < want; i++) {
		if (fields - i > want - taken && sim_draw(sim, fields) >= want)
			continue;
		taken++;
		if (sim_draw(sim, 6) == 0) {
			draft_column(sim, draft, i, 0, 2, max_bytes);
			draft_column(sim, draft, i, 1, 2, max_bytes);
		} else {
			draft_column(sim, draft, i, sim_draw(sim, 6) == 0, 1, max_bytes);
		}
	}
}

/* Bytes that no other key and no other put has. */
static void fill_value(const struct sim_put *put, const struct sim_value *value)
{
	uint8_t *to = put->image + value->offset;
	uint64_t word = sy_mix64(put->number << 20 ^ (uint64_t)value->row << 10 ^ value->field);
	for (uint64_t i = 0; i < value->nbytes; i++) {
		if (i % 8 == 0)
			word = sy_mix64(word + i + 1);
		to[i] = (uint8_t)(word >> i % 8 * 8);
	}
}

static void fill_values(struct sim_put *put, const struct draft *draft)
{
	struct sim_value *value = put->values;
	for (uint32_t i = 0; i < draft->index.column_count; i++) {
		const sy_column *column = &draft->columns[i];
		uint64_t offset = column->base;
		for (uint32_t k = 0; k < column->row_count; k++, value++) {
			uint64_t extent = sy_column_extent(column, k);
			uint32_t ordinal = column->ordinals != NULL ? column->ordinals[k] : k;
			value->row = draft->positions[ordinal];
			value->field = draft->fields[i];
			value->offset = offset;
			value->nbytes = sy_column_entry_bytes(column, extent);
			value->dim0 = sy_column_entry_dim0(column, extent);
			value->dtype = (uint8_t)column->dtype;
			value->kind = (uint8_t)column->kind;
			value->shape = column->shape;
			offset += sy_align_up(value->nbytes, SY_ENTRY_ALIGN_BYTES);
			fill_value(put, value);
		}
	}
}

static void keep_put(struct sim *sim, struct sim_put *put)
{
	struct sim_puts *puts = &sim->puts;
	put->number = ++sim->put_count;
	if (put->number > puts->capacity) {
		puts->capacity = puts->capacity == 0 ? 64 : puts->capacity * 2;
		puts->items = realloc(puts->items, puts->capacity * sizeof(struct sim_put *));
		if (puts->items == NULL)
			abort();
	}
	puts->items[put->number - 1] = put;
	sy_store_u64(put->id.bytes, put->number);
	sy_store_u64(put->id.bytes + 8, sy_mix64(sim->config.seed ^ put->number));
}

/* A put of some rows and fields. It may be larger than the slab: then the unit must say so. */
struct sim_put *sim_put_new(struct sim *sim, uint32_t client, uint32_t slot, bool small)
{
	struct draft *draft = calloc(1, sizeof *draft);
	struct sim_put *put = calloc(1, sizeof *put);
	if (draft == NULL || put == NULL)
		abort();
	bool wide = sim_draw(sim, 100) < sim->config.wide_percent;
	uint32_t entries = wide ? sim->config.entries_max
	                        : 1 + (uint32_t)sim_draw(sim, sim->config.entries_max);
	uint32_t fields = wide ? sim->config.fields
	                       : 1 + (uint32_t)sim_draw(sim, sim->config.fields);
	uint64_t max_bytes = sim->config.values_max_bytes;
	if (small && max_bytes > 200)
		max_bytes = 200;
	draft->index.rows = draft->rows;
	draft->index.columns = draft->columns;
	draft->index.row_count = draft_rows(sim, draft, slot, 1 + entries / fields);
	draft_columns(sim, draft, fields, max_bytes);
	put->slot = slot;
	put->client = client;
	put->client_life = sim->clients[client].life;
	put->space = sim->clients[client].space;
	keep_put(sim, put);
	draft->index.blob_id = put->id;
	if (draft->index.column_count == 0 || sy_index_layout(&draft->index, NULL) != SY_OK) {
		put->told = SIM_TOLD_OK; /* of no use; it stays only for its number */
		free(draft);
		return NULL;
	}
	put->nbytes = draft->index.blob_bytes;
	put->asked_bytes = put->nbytes + (sim_draw(sim, 2) == 0 ? 0 : sim_draw(sim, 64));
	put->value_count = draft->index.entry_count;
	put->image = calloc(1, put->nbytes);
	put->values = calloc(put->value_count, sizeof *put->values);
	if (put->image == NULL || put->values == NULL ||
	    sy_index_encode(&draft->index, put->image, put->nbytes, NULL) != SY_OK)
		abort();
	fill_values(put, draft);
	free(draft);
	return put;
}

struct sim_put *sim_put_find(struct sim *sim, const sy_blob_id *id)
{
	uint64_t number = sy_load_u64(id->bytes);
	if (number == 0 || number > sim->put_count)
		return NULL;
	struct sim_put *put = sim->puts.items[number - 1];
	return memcmp(&put->id, id, sizeof *id) == 0 ? put : NULL;
}

const struct sim_value *sim_put_value(const struct sim_put *put, uint32_t row, uint32_t field)
{
	for (uint32_t i = 0; i < put->value_count; i++) {
		if (put->values[i].row == row && put->values[i].field == field)
			return &put->values[i];
	}
	return NULL;
}

void sim_puts_free(struct sim_puts *puts, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		free(puts->items[i]->image);
		free(puts->items[i]->values);
		free(puts->items[i]);
	}
	free(puts->items);
	*puts = (struct sim_puts){0};
}
