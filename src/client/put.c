/* Putting keys and columns: sorted, cut into blobs, run. */
#include <stdlib.h>
#include <string.h>

#include "client_inner.h"
#include "fail.h"
#include "put_run.h"

static sy_status plan_all(const struct sy_items *items, const struct sy_put_source *source,
                          struct sy_blob_plan **ret_plans, size_t *ret_count, sy_error *err)
{
	struct sy_blob_plan *plans = NULL;
	size_t count = 0, capacity = 0;
	sy_status status = SY_OK;

	for (size_t first = 0; status == SY_OK && first < items->count;) {
		if (count == capacity) {
			capacity = capacity == 0 ? 8 : capacity * 2;
			struct sy_blob_plan *grown = realloc(plans, capacity * sizeof *plans);

			if (grown == NULL) {
				status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
				break;
			}
			plans = grown;
		}
		status = sy_plan_make(items, first, source, &plans[count], err);
		if (status == SY_OK)
			first = plans[count++].last;
	}
	*ret_plans = plans;
	*ret_count = count;
	return status;
}

static sy_status put_items(sy_client *client, const struct sy_items *items,
                           const struct sy_put_source *source, uint64_t deadline_ns,
                           sy_error *err)
{
	struct sy_blob_plan *plans = NULL;
	size_t count = 0;
	sy_status status = plan_all(items, source, &plans, &count, err);

	if (status == SY_OK) {
		struct sy_put_terms terms = {.deadline_ns = deadline_ns, .ssd = client->ssd,
		                             .eager = true};

		sy_puts_run(client->hub, plans, count, &terms);
		status = sy_puts_verdict(plans, count, err);
		for (size_t i = 0; status != SY_OK && i < count; i++) {
			if (!plans[i].published)
				sy_items_blame(items, plans[i].first, plans[i].last, err);
		}
	}
	for (size_t i = 0; i < count; i++)
		sy_plan_done(&plans[i]);
	free(plans);
	return status;
}

struct keyed {
	const sy_value *values;
	struct sy_put_forms forms;
};

static sy_status value_of_key(void *context, uint32_t source, struct sy_put_value *ret_value,
                              sy_error *err)
{
	struct keyed *keyed = context;

	return sy_put_value_from(&keyed->forms, &keyed->values[source], ret_value, err);
}

static sy_status put_keys(sy_client *client, const sy_key *keys, const sy_value *values,
                          size_t count, uint64_t deadline_ns, sy_error *err)
{
	struct keyed keyed = {.values = values};
	struct sy_put_source source = {&keyed, &keyed.forms, value_of_key};
	struct sy_items items;
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);

	if (count > 0 && values == NULL)
		return sy_fail(err, SY_E_INVALID, "put", "%zu values, and none are given", count);
	sy_status status =
		sy_items_from_keys(keys, count, sy_hub_unit_count(client->hub), true, &items, err);
	if (status != SY_OK)
		return status;
	status = put_items(client, &items, &source, end_ns, err);
	sy_put_forms_done(&keyed.forms);
	sy_items_done(&items);
	return status;
}

sy_status sy_client_put(sy_client *client, const sy_key *keys, const sy_value *values,
                        size_t count, uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = put_keys(client, keys, values, count, deadline_ns, err);
	sy_hub_leave(client->hub);
	return status;
}

struct columns {
	const sy_put_column *columns;
	uint32_t count;
	struct sy_put_forms forms;
	struct sy_put_value *leads; /* a dense column's value in row 0, a jagged one's form */
};

/* What the rows of a column share is checked once. */
static sy_status columns_check(struct columns *batch, size_t row_count, sy_error *err)
{
	sy_status status = SY_OK;

	batch->leads = calloc(batch->count + (size_t)1, sizeof *batch->leads);
	if (batch->leads == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (uint32_t c = 0; status == SY_OK && row_count > 0 && c < batch->count; c++) {
		const sy_put_column *column = &batch->columns[c];
		struct sy_put_value *lead = &batch->leads[c];
		uint32_t form = 0;

		if (column->values != NULL)
			continue;
		status = sy_put_form(&batch->forms, column->dtype, column->kind, &column->shape, &form,
		                     err);
		lead->form = form;
		if (status == SY_OK && column->offsets == NULL)
			status = sy_put_value_of(&batch->forms, form, column->data, column->row_bytes, lead,
			                         err);
	}
	return status;
}

static void columns_done(struct columns *batch)
{
	sy_put_forms_done(&batch->forms);
	free(batch->leads);
}

/* The row's part of a column; lengths that do not fit the shape are the caller's mistake. */
static sy_status value_of_cell(void *context, uint32_t source, struct sy_put_value *ret_value,
                               sy_error *err)
{
	struct columns *batch = context;
	uint32_t c = source % batch->count, row = source / batch->count;
	const sy_put_column *column = &batch->columns[c];
	const struct sy_put_value *lead = &batch->leads[c];
	const uint8_t *data = column->data;

	if (column->values != NULL)
		return sy_put_value_from(&batch->forms, &column->values[row], ret_value, err);
	if (column->offsets == NULL) {
		*ret_value = *lead;
		if (lead->nbytes > 0)
			ret_value->data = data + (uint64_t)row * column->stride_bytes;
		return SY_OK;
	}
	uint64_t start = column->offsets[row], end = column->offsets[row + 1];
	if (end < start)
		return sy_fail(err, SY_E_INVALID, "put", "offsets of row %u run backwards", row);
	return sy_put_value_of(&batch->forms, lead->form, data != NULL ? data + start : NULL,
	                       end - start, ret_value, err);
}

static sy_status put_columns(sy_client *client, const uint64_t *rows, size_t row_count,
                             const sy_put_column *columns, size_t column_count,
                             uint64_t deadline_ns, sy_error *err)
{
	struct columns batch = {.columns = columns, .count = (uint32_t)column_count};
	struct sy_put_source source = {&batch, &batch.forms, value_of_cell};
	struct sy_items items = {0};
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);
	struct sy_span *names = NULL;
	sy_status status = sy_items_check_counts(row_count, column_count, err);

	if (status == SY_OK) {
		names = calloc(column_count + 1, sizeof *names);
		if (names == NULL)
			status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	if (status == SY_OK && column_count == 0 && row_count > 0)
		status = sy_fail(err, SY_E_INVALID, __func__, "a batch of rows without columns");
	if (status == SY_OK) {
		for (size_t c = 0; c < column_count; c++)
			names[c] = (struct sy_span){(const uint8_t *)columns[c].field, columns[c].field_bytes};
		status = sy_items_from_columns(rows, row_count, names, column_count,
		                               sy_hub_unit_count(client->hub), true, &items, err);
	}
	free(names);
	if (status == SY_OK)
		status = columns_check(&batch, row_count, err);
	if (status == SY_OK)
		status = put_items(client, &items, &source, end_ns, err);
	columns_done(&batch);
	sy_items_done(&items);
	return status;
}

sy_status sy_client_put_columns(sy_client *client, const uint64_t *rows, size_t row_count,
                                const sy_put_column *columns, size_t column_count,
                                uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = put_columns(client, rows, row_count, columns, column_count, deadline_ns, err);
	sy_hub_leave(client->hub);
	return status;
}
