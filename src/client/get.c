/* Getting keys and columns: resolve, then copy out of the slab or keep the pins as views. */
#include <stdlib.h>
#include <string.h>

#include "client_inner.h"
#include "clock.h"
#include "fail.h"
#include "result.h"

/* Pinned values of one part as ranges of the slab, joined where both sides run on; inline
 * values are copied out of the reply at once. */
static size_t gather(const struct sy_lookup_part *part, const struct sy_items *items,
                     const struct sy_result *result, struct sy_range *ranges)
{
	const struct sy_reply *reply = &part->call.op.reply;
	size_t count = 0;

	for (size_t i = part->first, k = 0; i < part->last; i++) {
		k = sy_lookup_key(part, i, k);
		const struct sy_result_item *item = &result->items[items->items[i].source];
		uint8_t *to = (uint8_t *)(uintptr_t)item->data;
		uint64_t offset = reply->resolved.offset[k];

		if (item->found == SY_FOUND_INLINE)
			memcpy(to, reply->inline_bytes.data + offset, item->nbytes);
		if (item->found != SY_FOUND_PINNED || item->nbytes == 0)
			continue;
		struct sy_range *last = count > 0 ? &ranges[count - 1] : NULL;
		if (last != NULL && last->offset + last->nbytes == offset &&
		    (uint8_t *)last->to + last->nbytes == to)
			last->nbytes += item->nbytes;
		else
			ranges[count++] =
				(struct sy_range){.offset = offset, .nbytes = item->nbytes, .to = to};
	}
	return count;
}

/* What a READ that failed with err comes to: the other host may be gone with its unit. */
static sy_status judge_failed(struct sy_hub *hub, const struct sy_call *call,
                              uint64_t deadline_ns, sy_error *err)
{
	bool late = sy_clock_now_ns() >= deadline_ns;
	bool dead = !late && sy_hub_ask(hub, call->unit_id, call->remote->incarnation,
	                                deadline_ns) == SY_DIRECTORY_DEAD;
	sy_status status = dead ? SY_E_LOST : late ? SY_E_TIMEOUT : SY_E_TRANSFER_FAILED;

	if (dead)
		sy_fail(err, status, "get", "unit %u: the unit is dead, and its rows are lost",
		        call->unit_id);
	if (err != NULL)
		err->status = status; /* else the words stay */
	if (err != NULL && dead)
		err->reason = "dead";
	return status;
}

/* Parts that lie in one slab: one READ, for which other threads are called once. */
static sy_status copy_parts(struct sy_hub *hub, const struct sy_lookup_part *parts, size_t count,
                            const struct sy_items *items, struct sy_result *result,
                            uint64_t deadline_ns, sy_error *err)
{
	size_t most = parts[count - 1].last - parts[0].first, range_count = 0;
	struct sy_range *ranges = malloc(most * sizeof *ranges);
	const struct sy_call **calls = malloc(count * sizeof *calls);
	sy_status status = SY_OK;

	if (ranges == NULL || calls == NULL) {
		free(ranges);
		free(calls);
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	for (size_t p = 0; p < count; p++) {
		calls[p] = &parts[p].call;
		range_count += gather(&parts[p], items, result, ranges + range_count);
	}
	if (range_count > 0)
		status = sy_hub_read(hub, calls, count, ranges, range_count, deadline_ns, err);
	free(ranges);
	free(calls);
	return status == SY_E_TRANSFER ? judge_failed(hub, &parts->call, deadline_ns, err) : status;
}

static sy_status copy_all(struct sy_hub *hub, const struct sy_items *items,
                          const struct sy_lookup *lookup, struct sy_result *result,
                          uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_result_layout(result, err);

	for (size_t first = 0, last; status == SY_OK && first < lookup->part_count; first = last) {
		const struct sy_lookup_part *parts = &lookup->parts[first];

		last = first + 1;
		while (last < lookup->part_count &&
		       lookup->parts[last].call.remote == parts->call.remote)
			last++;
		status = copy_parts(hub, parts, last - first, items, result, deadline_ns, err);
		if (status != SY_OK)
			sy_items_blame(items, parts->first, lookup->parts[last - 1].last, err);
	}
	return status;
}

/* Points every value into its slab and hands the pins over to the result. */
static sy_status view_all(struct sy_hub *hub, const struct sy_items *items,
                          struct sy_lookup *lookup, struct sy_result *result, sy_error *err)
{
	result->holds = calloc(lookup->part_count + 1, sizeof *result->holds);
	if (result->holds == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t p = 0; p < lookup->part_count; p++) {
		struct sy_lookup_part *part = &lookup->parts[p];
		const struct sy_resolved *in = &part->call.op.reply.resolved;
		const struct sy_remote *remote = part->call.remote;

		if (!sy_lookup_part_pinned(part))
			continue;
		for (size_t i = part->first, k = 0; i < part->last; i++) {
			k = sy_lookup_key(part, i, k);
			struct sy_result_item *item = &result->items[items->items[i].source];

			if (item->found == SY_FOUND_PINNED)
				item->data = remote->view_base + in->offset[k];
		}
	}
	/* Nothing fails from here on: the pins change hands. */
	for (size_t p = 0; p < lookup->part_count; p++) {
		struct sy_call *call = &lookup->parts[p].call;

		if (!sy_lookup_part_pinned(&lookup->parts[p]))
			continue;
		result->holds[result->hold_count++] = (struct sy_result_hold){
			.unit_id = call->unit_id, .name = call->op.name, .remote = call->remote,
		};
		call->remote = NULL;
	}
	if (result->hold_count > 0)
		result->hub = sy_hub_ref(hub);
	return SY_OK;
}

/* Every slab that is pinned for it can be looked into. */
static bool can_view(const struct sy_lookup *lookup)
{
	for (size_t p = 0; p < lookup->part_count; p++) {
		if (sy_lookup_part_pinned(&lookup->parts[p]) &&
		    lookup->parts[p].call.remote->view_base == NULL)
			return false;
	}
	return true;
}

/* The copies begin once it is known where they go. */
static void expect(const struct sy_lookup *lookup)
{
	struct sy_remote *remote = lookup->part_count > 0 ? lookup->parts->call.remote : NULL;
	uint64_t nbytes = 0;

	for (size_t p = 0; p < lookup->part_count; p++) {
		if (lookup->parts[p].call.remote == remote)
			nbytes += lookup->parts[p].call.op.reply.resolved.sum.pinned_bytes;
	}
	if (nbytes > 0 && remote->transport->expect != NULL)
		remote->transport->expect(remote, nbytes);
}

static sy_status resolve_and_take(struct sy_hub *hub, const struct sy_items *items,
                                  size_t column_count, bool view, uint64_t deadline_ns,
                                  sy_result **ret_result, sy_error *err)
{
	struct sy_lookup lookup;
	sy_result *result = NULL;
	sy_status status =
		sy_lookup_run(hub, items, 1, view ? 0 : UINT32_MAX, deadline_ns, &lookup, err);

	if (status != SY_OK)
		return status;
	view = view && can_view(&lookup);
	if (!view)
		expect(&lookup);
	status = sy_result_new(items, &lookup, column_count, &result, err);
	if (status == SY_OK)
		status = view ? view_all(hub, items, &lookup, result, err)
		              : copy_all(hub, items, &lookup, result, deadline_ns, err);
	if (!view || status != SY_OK)
		sy_lookup_unpin(hub, &lookup);
	sy_lookup_done(&lookup);
	if (status != SY_OK)
		sy_result_free(result);
	else
		*ret_result = result;
	return status;
}

/* What outlived its pins is resolved anew, once: its rows may be others by now, or gone. Who is as
 * slow again is told, for the unit still has them. */
static sy_status get_at_once(struct sy_hub *hub, const struct sy_items *items,
                             size_t column_count, bool view, uint64_t deadline_ns,
                             sy_result **ret_result, sy_error *err)
{
	sy_status status = SY_E_STALE_READ;

	for (int tries = 0; status == SY_E_STALE_READ && tries < 2; tries++) {
		if (err != NULL)
			err->index_count = 0; /* of the try before */
		status = resolve_and_take(hub, items, column_count, view, deadline_ns, ret_result, err);
	}
	if (status != SY_E_STALE_READ)
		return status;
	if (err != NULL)
		err->status = SY_E_TRANSFER_FAILED; /* the words stay */
	return SY_E_TRANSFER_FAILED;
}

/* All of them as copies. What a unit cannot hold at once, for it lies on its disk and is more than
 * its slab, or may have no room for beside what is pinned for us, is got one half after the other:
 * a row has one state all the same. */
static sy_status get_copies(struct sy_hub *hub, const struct sy_items *items, size_t column_count,
                            uint64_t deadline_ns, sy_result **ret_result, sy_error *err)
{
	struct sy_items halves[2];
	sy_result *results[2] = {NULL, NULL};
	sy_error first = err != NULL ? *err : (sy_error){0}; /* with the array it was lent */
	sy_status status =
		get_at_once(hub, items, column_count, false, deadline_ns, ret_result, &first);

	bool in_parts = status == SY_E_UNIT_FULL || status == SY_E_BUSY;
	if (!in_parts || !sy_items_halve(items, halves)) {
		if (status != SY_OK && err != NULL)
			*err = first;
		return status;
	}
	status = get_copies(hub, &halves[0], 0, deadline_ns, &results[0], err);
	if (status == SY_OK)
		status = get_copies(hub, &halves[1], 0, deadline_ns, &results[1], err);
	if (status == SY_OK)
		status = sy_result_join(results, halves, column_count, ret_result, err);
	sy_result_free(results[0]);
	sy_result_free(results[1]);
	return status;
}

static sy_status get_items(struct sy_hub *hub, const struct sy_items *items, size_t column_count,
                           int flags, uint64_t deadline_ns, sy_result **ret_result, sy_error *err)
{
	sy_result *result = NULL;

	if ((flags & ~SY_GET_VIEW) != 0)
		return sy_fail(err, SY_E_INVALID, "get", "flags %d: SY_GET_COPY and SY_GET_VIEW are known",
		               flags);
	sy_status status =
		(flags & SY_GET_VIEW) != 0
			? get_at_once(hub, items, column_count, true, deadline_ns, &result, err)
			: get_copies(hub, items, column_count, deadline_ns, &result, err);

	if (status == SY_OK)
		*ret_result = result;
	return status;
}

static sy_status get_keys(sy_client *client, const sy_key *keys, size_t count, int flags,
                          uint64_t deadline_ns, sy_result **ret_result, sy_error *err)
{
	struct sy_items items;
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);
	sy_hub_announce(client->hub, count);
	sy_status status =
		sy_items_from_keys(keys, count, sy_hub_unit_count(client->hub), false, &items, err);

	if (status != SY_OK)
		return status;
	status = get_items(client->hub, &items, 0, flags, end_ns, ret_result, err);
	sy_items_done(&items);
	return status;
}

sy_status sy_client_get(sy_client *client, const sy_key *keys, size_t count, int flags,
                        uint64_t deadline_ns, sy_result **ret_result, sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = get_keys(client, keys, count, flags, deadline_ns, ret_result, err);
	sy_hub_leave(client->hub);
	return status;
}

static sy_status get_columns(sy_client *client, const uint64_t *rows, size_t row_count,
                             const char *const *fields, size_t field_count, int flags,
                             uint64_t deadline_ns, sy_result **ret_result, sy_error *err)
{
	struct sy_items items;
	uint64_t end_ns = sy_client_deadline(client, deadline_ns);
	struct sy_span *names = NULL;
	sy_status status = sy_items_check_counts(row_count, field_count, err);

	if (status == SY_OK && field_count == 0)
		status = sy_fail(err, SY_E_INVALID, __func__, "name at least one field");
	if (status == SY_OK)
		sy_hub_announce(client->hub, row_count * field_count);
	if (status == SY_OK)
		status = sy_items_names(fields, field_count, &names, err);
	if (status == SY_OK)
		status = sy_items_from_columns(rows, row_count, names, field_count,
		                               sy_hub_unit_count(client->hub), false, &items, err);
	free(names);
	if (status != SY_OK)
		return status;
	status = get_items(client->hub, &items, field_count, flags, end_ns, ret_result, err);
	sy_items_done(&items);
	return status;
}

sy_status sy_client_get_columns(sy_client *client, const uint64_t *rows, size_t row_count,
                                const char *const *fields, size_t field_count, int flags,
                                uint64_t deadline_ns, sy_result **ret_result, sy_error *err)
{
	sy_status status = sy_hub_enter(client->hub, err);

	if (status != SY_OK)
		return status;
	status = get_columns(client, rows, row_count, fields, field_count, flags, deadline_ns,
	                     ret_result, err);
	sy_hub_leave(client->hub);
	return status;
}
