/* Clearing rows: one request a unit and 16,384 rows, all at once. */
#include <stdlib.h>

#include "clear.h"
#include "client_inner.h"
#include "fail.h"
#include "items.h"

/* One request on its way. */
struct part {
	struct sy_call call;
	size_t first;
};

static sy_status run_parts(struct sy_hub *hub, struct part *parts, size_t count,
                           const struct sy_release *release, uint64_t *ret_entries, sy_error *err)
{
	struct sy_call **calls = calloc(count + 1, sizeof *calls);
	const struct sy_call *failed = NULL;
	uint64_t entries = 0;

	if (calls == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t i = 0; i < count; i++)
		calls[i] = &parts[i].call;
	sy_hub_run(hub, calls, count);
	free(calls);
	for (size_t i = 0; i < count; i++) {
		const struct sy_call *call = &parts[i].call;

		if (call->status == SY_OK)
			entries += call->op.end == SY_OP_END_OK ? call->op.outcome.count : 0;
		else if (failed == NULL || call->status == SY_E_TIMEOUT)
			failed = call;
	}
	if (failed != NULL) {
		sy_error_copy(err, &failed->error);
		for (size_t i = 0; err != NULL && i < count; i++) {
			uint32_t rows = parts[i].call.op.release.row_count;

			for (uint32_t k = 0; parts[i].call.status != SY_OK && k < rows; k++) {
				if (err->index_count < err->index_capacity)
					err->indexes[err->index_count] = release->sources[parts[i].first + k];
				err->index_count++;
			}
		}
	} else if (ret_entries != NULL) {
		*ret_entries = entries;
	}
	sy_status status = failed == NULL ? SY_OK : failed->status;
	for (size_t i = 0; i < count; i++)
		sy_call_done(&parts[i].call);
	return status;
}

sy_status sy_release_run(struct sy_hub *hub, const struct sy_release *release,
                         uint64_t deadline_ns, uint64_t *ret_entries, sy_error *err)
{
	size_t capacity = release->row_count / SY_ROWS_PER_RELEASE_MAX + release->group_count, n = 0;
	struct part *parts = calloc(capacity + 1, sizeof *parts);

	if (parts == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t g = 0, at = 0; g < release->group_count; g++) {
		size_t end = at + release->groups[g].row_count;

		for (; at < end; n++) {
			size_t take = end - at < SY_ROWS_PER_RELEASE_MAX ? end - at : SY_ROWS_PER_RELEASE_MAX;
			struct sy_call *call = &parts[n].call;

			parts[n].first = at;
			call->unit_id = release->groups[g].unit_id;
			call->op.kind = SY_OP_KIND_RELEASE;
			call->op.deadline_ns = deadline_ns;
			call->op.release = (struct sy_release_args){
				.rows = release->rows + at, .row_count = (uint32_t)take,
				.fields = release->fields, .field_count = release->field_count,
				.all_fields = release->field_count == 0,
			};
			at += take;
		}
	}
	sy_status status = run_parts(hub, parts, n, release, ret_entries, err);
	free(parts);
	return status;
}

/* Rows of each unit side by side, in the caller's order within a unit (a counting sort). */
static bool group(const uint64_t *rows, size_t row_count, uint32_t unit_count,
                  struct sy_release *release)
{
	size_t *at = calloc((size_t)unit_count + 1, sizeof *at);

	release->groups = calloc(unit_count, sizeof *release->groups);
	release->rows = malloc((row_count + 1) * sizeof *release->rows);
	release->sources = malloc((row_count + 1) * sizeof *release->sources);
	if (at == NULL || release->groups == NULL || release->rows == NULL ||
	    release->sources == NULL) {
		free(at);
		return false;
	}
	for (size_t i = 0; i < row_count; i++)
		at[rows[i] % unit_count + 1]++;
	for (uint32_t u = 0; u < unit_count; u++) {
		release->groups[u] = (struct sy_release_group){u, at[u + 1]};
		at[u + 1] += at[u];
	}
	for (size_t i = 0; i < row_count; i++) {
		size_t place = at[rows[i] % unit_count]++;

		release->rows[place] = rows[i];
		release->sources[place] = (uint32_t)i;
	}
	release->row_count = row_count;
	release->group_count = unit_count;
	free(at);
	return true;
}

static sy_status clear(sy_client *client, const uint64_t *rows, size_t row_count,
                       const char *const *fields, size_t field_count, uint64_t deadline_ns,
                       uint64_t *ret_entries, sy_error *err)
{
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);
	struct sy_release release = {.field_count = (uint32_t)field_count};
	struct sy_span *names = NULL;
	sy_status status;

	if (row_count >= UINT32_MAX || field_count > SY_FIELDS_PER_REQUEST_MAX)
		return sy_fail(err, SY_E_INVALID, "clear", "%zu rows, %zu fields are too many", row_count,
		               field_count);
	if (row_count > 0 && rows == NULL)
		return sy_fail(err, SY_E_INVALID, "clear", "%zu rows, and none are given", row_count);
	status = sy_items_names(fields, field_count, &names, err);
	if (status == SY_OK && !group(rows, row_count, sy_hub_unit_count(client->hub), &release))
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	release.fields = names;
	if (status == SY_OK)
		status = sy_release_run(client->hub, &release, end_ns, ret_entries, err);
	free(release.groups);
	free(release.rows);
	free(release.sources);
	free(names);
	return status;
}

sy_status sy_client_clear(sy_client *client, const uint64_t *rows, size_t row_count,
                          const char *const *fields, size_t field_count, uint64_t deadline_ns,
                          uint64_t *ret_entries, sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = clear(client, rows, row_count, fields, field_count, deadline_ns, ret_entries, err);
	sy_hub_leave(client->hub);
	return status;
}
