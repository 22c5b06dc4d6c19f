/* Walking all entries, asking all units for their numbers, and which one is waited for. */
#include <stdlib.h>
#include <string.h>

#include "client_inner.h"
#include "clock.h"
#include "fail.h"

/* The numbers of a unit are asked for with this much patience at most, so that one that stands
 * still does not hold up the others' report. */
static const uint64_t REPORT_NS = 2u * 1000000000ull;

static bool visit_all(const struct sy_reply *reply,
                      bool (*visit)(void *context, const sy_scan_info *info), void *context)
{
	for (uint32_t i = 0; i < reply->scan_count; i++) {
		const struct sy_scan_entry *entry = &reply->scan[i];
		sy_scan_info info = {
			.row = entry->row, .nbytes = entry->nbytes, .dim0 = entry->dim0,
			.field = (const char *)entry->field.data, .field_bytes = entry->field.bytes,
			.dtype = (sy_dtype)entry->dtype, .kind = (sy_kind)entry->kind, .shape = entry->shape,
		};

		if (!visit(context, &info))
			return false;
	}
	return true;
}

/* *ret_more is set to false when the visitor has seen enough. */
static sy_status scan_unit(sy_client *client, uint32_t unit_id, struct sy_scan_args args,
                           bool (*visit)(void *context, const sy_scan_info *info), void *context,
                           uint64_t deadline_ns, bool *ret_more, sy_error *err)
{
	sy_status status;

	/* Each turn moves the unit's cursor on, and the deadline bounds the turns. */
	do {
		struct sy_call call = {.unit_id = unit_id};
		struct sy_call *calls[] = {&call};

		call.op.kind = SY_OP_KIND_SCAN;
		call.op.deadline_ns = deadline_ns;
		call.op.scan = args;
		sy_hub_run(client->hub, calls, 1);
		status = call.status;
		if (status == SY_OK) {
			*ret_more = visit_all(&call.op.reply, visit, context);
			args.cursor = call.op.reply.scan_cursor;
		} else {
			sy_error_copy(err, &call.error);
		}
		sy_call_done(&call);
	} while (status == SY_OK && *ret_more && args.cursor != 0);
	return status;
}

static sy_status scan(sy_client *client, uint64_t first_row, uint64_t last_row,
                      bool (*visit)(void *context, const sy_scan_info *info), void *context,
                      uint64_t deadline_ns, sy_error *err)
{
	struct sy_scan_args args = {
		.first_row = first_row, .last_row = last_row, .limit = SY_SCAN_LIMIT_MAX,
	};
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);
	sy_status status = SY_OK;
	bool more = true;

	for (uint32_t u = 0; status == SY_OK && more && u < sy_hub_unit_count(client->hub); u++)
		status = scan_unit(client, u, args, visit, context, end_ns, &more, err);
	return status;
}

sy_status sy_client_scan(sy_client *client, uint64_t first_row, uint64_t last_row,
                         bool (*visit)(void *context, const sy_scan_info *info), void *context,
                         uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = scan(client, first_row, last_row, visit, context, deadline_ns, err);
	sy_hub_leave(client->hub);
	return status;
}

bool sy_client_awaits(sy_client *client, uint32_t *ret_unit_id, uint64_t *ret_wait_ns)
{
	if (sy_hub_enter(client->hub, NULL) != SY_OK)
		return false;
	bool awaits = sy_hub_awaits(client->hub, ret_unit_id, ret_wait_ns);
	sy_hub_leave(client->hub);
	return awaits;
}

static void add(sy_stat *stats, size_t *count, const char *name, uint64_t value)
{
	stats[(*count)++] = (sy_stat){name, value};
}

static void fill_numbers(const struct sy_unit_stats *stats, sy_unit_report *report)
{
	report->capacity_bytes = stats->capacity_bytes;
#define SY_ADD_BYTES(field, text) \
	add(report->bytes, &report->byte_count, text, stats->bytes.field);
	SY_BYTES_LIST(SY_ADD_BYTES)
#undef SY_ADD_BYTES
#define SY_ADD_COUNT(field, text) add(report->counts, &report->count_count, text, stats->field);
	SY_COUNTS_LIST(SY_ADD_COUNT)
#undef SY_ADD_COUNT
}

static sy_status ask_all(sy_client *client, uint64_t deadline_ns, sy_unit_report *reports,
                         sy_error *err)
{
	uint32_t unit_count = sy_hub_unit_count(client->hub);
	struct sy_call *calls = calloc(unit_count, sizeof *calls);
	struct sy_call **asked = calloc(unit_count, sizeof *asked);
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);
	sy_status status = SY_OK;
	size_t count = 0;

	if (calls == NULL || asked == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if (status == SY_OK)
		status = sy_hub_refresh(client->hub, end_ns, err);
	if (deadline_ns == 0)
		end_ns = sy_min_u64(end_ns, sy_clock_now_ns() + REPORT_NS);
	for (uint32_t u = 0; status == SY_OK && u < unit_count; u++) {
		struct sy_unit_info info;

		sy_hub_unit_info(client->hub, u, &info);
		reports[u] = (sy_unit_report){.unit_id = u, .starts = info.starts,
		                              .incarnation = info.incarnation,
		                              .pid = info.pid, .capacity_bytes = info.slab_bytes};
		sy_format(reports[u].state, sizeof reports[u].state, "%s",
		          sy_unit_state_name((uint8_t)info.state));
		if (!sy_unit_lives(info.state))
			continue;
		calls[u].unit_id = u;
		calls[u].op.kind = SY_OP_KIND_STATS;
		calls[u].op.deadline_ns = end_ns;
		asked[count++] = &calls[u];
	}
	if (status == SY_OK)
		sy_hub_run(client->hub, asked, count);
	for (size_t i = 0; status == SY_OK && i < count; i++) {
		sy_unit_report *report = &reports[asked[i]->unit_id];

		report->answered = asked[i]->status == SY_OK;
		if (report->answered)
			fill_numbers(&asked[i]->op.reply.stats, report);
		else
			sy_format(report->message, sizeof report->message, "%s", asked[i]->error.message);
		sy_call_done(asked[i]);
	}
	free(asked);
	free(calls);
	return status;
}

sy_status sy_client_reports(sy_client *client, uint64_t deadline_ns, sy_unit_report *reports,
                            sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = ask_all(client, deadline_ns, reports, err);
	sy_hub_leave(client->hub);
	return status;
}
