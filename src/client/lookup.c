#include "lookup.h"

#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "guard.h"

/* Field names of one request; what is more goes into another. */
static const size_t NAME_BYTES_MAX = 2u << 20;
/* From more keys on a unit is asked twice. */
enum { HALVE_KEYS = 2048 };

/* Where the unit's items end that begin with `first`. */
static size_t unit_end(const struct sy_items *items, size_t first)
{
	uint32_t unit = sy_items_unit(items, first);
	size_t last = first + 1;

	if (items->unit_count == 1)
		return items->count;
	while (last < items->count && (items->items[last].row == items->items[last - 1].row ||
	                               sy_items_unit(items, last) == unit))
		last++;
	return last;
}

/* Where the next request ends: whole rows before `end`, no more than `max` items; `first`: one row
 * has more. */
static size_t cut_rows(const struct sy_items *items, size_t first, size_t end, size_t max)
{
	size_t last = end - first <= max ? end : first + max;

	while (last < end && last > first && items->items[last].row == items->items[last - 1].row)
		last--;
	return last;
}

/* The same within all limits of a message, where many or long names or a row asked for many times
 * may reach them. */
static sy_status cut(const struct sy_items *items, size_t first, size_t end, uint32_t *seen,
                     uint32_t stamp, size_t *ret_last, sy_error *err)
{
	size_t row_start = first, last = first, keys = 0, name_bytes = 0;

	for (; last < end; last++) {
		const struct sy_item *item = &items->items[last];

		if (item->row != items->items[row_start].row)
			row_start = last;
		keys += !sy_items_again(items, last);
		if (seen[item->field] != stamp) {
			seen[item->field] = stamp;
			name_bytes += items->fields[item->field].bytes + 8;
		}
		if (keys <= SY_KEYS_PER_RESOLVE_MAX && name_bytes <= NAME_BYTES_MAX)
			continue;
		if (row_start == first)
			return sy_fail(err, SY_E_INVALID, "get",
			               "more keys of row %llu than one request holds",
			               (unsigned long long)item->row);
		last = row_start;
		break;
	}
	*ret_last = last;
	return SY_OK;
}

/* How many fields each row has, if all of them have the same, each once; else 0. */
static size_t common_fields(const struct sy_item *items, size_t count)
{
	size_t width = 1;

	while (width < count && items[width].row == items[0].row)
		width++;
	if (count % width != 0)
		return 0;
	for (size_t first = 0; first < count; first += width) {
		const struct sy_item *row = &items[first];

		if (first > 0 && row[0].row == row[-1].row)
			return 0;
		for (size_t f = 0; f < width; f++) {
			if (row[f].row != row[0].row || row[f].field != items[f].field ||
			    (f > 0 && row[f].field == row[f - 1].field))
				return 0;
		}
	}
	return width;
}

/* Every row times every field: a fifth of the bytes for five columns. */
static void fill_product(struct sy_lookup_part *part, const struct sy_items *items, size_t width)
{
	uint32_t row_count = 0;

	for (size_t f = 0; f < width; f++)
		part->fields[f] = items->fields[items->items[part->first + f].field];
	for (size_t i = part->first; i < part->last; i += width)
		part->rows[row_count++] = items->items[i].row;
	part->call.op.resolve = (struct sy_resolve_args){
		.rows = part->rows, .fields = part->fields, .row_count = row_count,
		.field_count = (uint32_t)width,
	};
}

static bool fill(struct sy_lookup_part *part, const struct sy_items *items, uint32_t *place,
                 uint32_t *seen, uint32_t stamp)
{
	size_t count = part->last - part->first;
	size_t width = common_fields(items->items + part->first, count);
	uint32_t field_count = 0, key_count = 0;

	part->rows = malloc(count * sizeof *part->rows);
	part->fields = malloc((count < items->field_count ? count : items->field_count) *
	                      sizeof *part->fields);
	if (width == 0)
		part->field_of = malloc(count * sizeof *part->field_of);
	if (part->rows == NULL || part->fields == NULL || (width == 0 && part->field_of == NULL))
		return false;
	if (width > 0) {
		fill_product(part, items, width);
		part->distinct = true;
		return true;
	}
	for (size_t i = part->first; i < part->last; i++) {
		const struct sy_item *item = &items->items[i];

		if (sy_items_again(items, i))
			continue;
		if (seen[item->field] != stamp) {
			seen[item->field] = stamp;
			place[item->field] = field_count;
			part->fields[field_count++] = items->fields[item->field];
		}
		part->rows[key_count] = item->row;
		part->field_of[key_count++] = (uint16_t)place[item->field];
	}
	part->distinct = key_count == count;
	part->call.op.resolve = (struct sy_resolve_args){
		.rows = part->rows, .fields = part->fields, .field_of = part->field_of,
		.row_count = key_count, .field_count = field_count,
	};
	return true;
}

static sy_status add_part(struct sy_lookup *lookup, size_t *capacity,
                          const struct sy_items *items, size_t first, size_t last, sy_error *err)
{
	if (lookup->part_count == *capacity) {
		size_t grown = *capacity == 0 ? 8 : *capacity * 2;
		struct sy_lookup_part *parts = realloc(lookup->parts, grown * sizeof *parts);

		if (parts == NULL)
			return sy_fail(err, SY_E_SYS, __func__, "out of memory");
		lookup->parts = parts;
		*capacity = grown;
	}
	lookup->parts[lookup->part_count++] =
		(struct sy_lookup_part){.items = items, .first = first, .last = last};
	return SY_OK;
}

/* Of a large batch one half is looked up while the answer to the other is read. No more parts
 * than two: each may have a quarter of the slab loaded from the unit's disk, and all at once. */
static size_t request_max(size_t count)
{
	return count > HALVE_KEYS && count <= 2 * SY_KEYS_PER_RESOLVE_MAX ? (count + 1) / 2
	                                                                 : SY_KEYS_PER_RESOLVE_MAX;
}

static sy_status split(struct sy_lookup *lookup, size_t *capacity, const struct sy_items *items,
                       sy_error *err)
{
	uint32_t *seen = calloc(items->field_count + 1, sizeof *seen);
	uint32_t *place = calloc(items->field_count + 1, sizeof *place);
	uint32_t stamp = 0;
	size_t end = 0, max = 0, name_bytes = 0;
	sy_status status = seen != NULL && place != NULL
		? SY_OK : sy_fail(err, SY_E_SYS, __func__, "out of memory");

	for (uint32_t f = 0; f < items->field_count; f++)
		name_bytes += items->fields[f].bytes + 8;
	for (size_t first = 0, last = 0; status == SY_OK && first < items->count; first = last) {
		if (first == end) {
			end = unit_end(items, first);
			max = request_max(end - first);
		}
		last = name_bytes <= NAME_BYTES_MAX ? cut_rows(items, first, end, max) : first;
		if (last == first)
			status = cut(items, first, end, seen, ++stamp, &last, err);
		if (status == SY_OK)
			status = add_part(lookup, capacity, items, first, last, err);
		if (status == SY_OK &&
		    !fill(&lookup->parts[lookup->part_count - 1], items, place, seen, ++stamp))
			status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	}
	free(seen);
	free(place);
	return status;
}

void sy_lookup_done(struct sy_lookup *lookup)
{
	for (size_t i = 0; i < lookup->part_count; i++) {
		struct sy_lookup_part *part = &lookup->parts[i];

		sy_call_done(&part->call);
		free(part->rows);
		free(part->field_of);
		free(part->fields);
	}
	free(lookup->parts);
	*lookup = (struct sy_lookup){0};
}

void sy_lookup_unpin(struct sy_hub *hub, const struct sy_lookup *lookup)
{
	for (size_t i = 0; i < lookup->part_count; i++) {
		const struct sy_call *call = &lookup->parts[i].call;

		if (call->status == SY_OK && sy_lookup_part_pinned(&lookup->parts[i]))
			sy_hub_unpin(hub, call->unit_id, call->op.incarnation, call->op.name);
	}
}

/* What a unit tells of its slab is not believed before it was looked at: a value is copied, viewed
 * or read later only where all of it lies in what this process has mapped. */
static void check_places(struct sy_hub *hub, struct sy_lookup_part *part)
{
	struct sy_call *call = &part->call;
	const struct sy_resolved_sum *sum = &call->op.reply.resolved.sum;
	bool large = sum->inline_largest > call->op.resolve.inline_max_bytes;
	bool unreached = sum->pinned_count > 0 && call->remote == NULL;
	bool outside = sum->pinned_count > 0 && !unreached &&
	               sum->pinned_end > call->remote->slab_bytes;

	if (!large && !unreached && !outside)
		return;
	sy_hub_unpin(hub, call->unit_id, call->op.incarnation, call->op.name);
	if (large)
		call->status = sy_fail(&call->error, SY_E_PROTOCOL, "get",
		                       "unit %u sent a value that was to stay in its slab", call->unit_id);
	else if (unreached)
		call->status = sy_fail(&call->error, SY_E_TRANSFER_FAILED, "get",
		                       "unit %u: %s", call->unit_id, SY_HUB_NO_PATH);
	else
		call->status = sy_fail(&call->error, SY_E_PROTOCOL, "get",
		                       "unit %u named bytes outside its slab", call->unit_id);
}

static const char *why_lost(uint8_t found)
{
	static const char *const words[] = {
#define LOSS_WORDS(name, value, why) [value] = why,
		SY_LOSS_LIST(LOSS_WORDS)
#undef LOSS_WORDS
	};
	return words[found];
}

static uint64_t row_of(const struct sy_resolve_args *asked, uint32_t k)
{
	return asked->rows[asked->field_of != NULL ? k : k / asked->field_count];
}

/* By the unit itself; or its answer is of one that came for a dead one, whose keys it has not. */
static bool is_gone(const struct sy_lookup_part *part, size_t k)
{
	uint8_t found = part->call.op.reply.resolved.found[k];

	return sy_found_is_lost(found) || (part->call.outlived && found == SY_FOUND_ABSENT);
}

/* What a unit or its disk lost fails its part; the other keys can be asked for again. */
static void check_losses(struct sy_hub *hub, struct sy_lookup_part *part)
{
	struct sy_call *call = &part->call;
	const uint8_t *found = call->op.reply.resolved.found;
	const struct sy_resolved_sum *sum = &call->op.reply.resolved.sum;

	if (sum->lost_count == 0 && (sum->absent_count == 0 || !call->outlived))
		return;
	for (uint32_t k = 0; k < call->op.reply.key_count; k++) {
		if (!is_gone(part, k))
			continue;
		unsigned long long row = row_of(&call->op.resolve, k);

		if (sy_lookup_part_pinned(part))
			sy_hub_unpin(hub, call->unit_id, call->op.incarnation, call->op.name);
		bool died = found[k] == SY_FOUND_ABSENT;

		call->status = died
			? sy_fail(&call->error, SY_E_LOST, "get",
			          "unit %u died, and the value of row %llu with it", call->unit_id, row)
			: sy_fail(&call->error, SY_E_LOST, "get",
			          "the disk of unit %u lost the value of row %llu: %s", call->unit_id, row,
			          why_lost(found[k]));
		call->error.reason = died ? "dead" : "disk";
		part->some_lost = true;
		return;
	}
}

static bool is_lost(const struct sy_lookup_part *part, size_t k)
{
	return !part->some_lost || is_gone(part, k);
}

/* Blames the keys that are lost, of columns their rows: one row's items stand side by side. */
static void blame_losses(const struct sy_lookup_part *part, sy_error *err)
{
	const struct sy_items *items = part->items;

	for (size_t first = part->first, last = first, k = 0; first < part->last; first = last) {
		bool lost = false;

		for (; last < part->last; last++) {
			if (items->items[last].row != items->items[first].row)
				break;
			k = sy_lookup_key(part, last, k);
			lost = lost || is_lost(part, k);
			if (items->sources_per_index == 1 && is_lost(part, k))
				sy_items_blame_one(items, last, err);
		}
		if (lost && items->sources_per_index != 1)
			sy_items_blame(items, first, last, err);
	}
}

/* The failure to report, its keys blamed; the parts that did resolve are unpinned. */
static sy_status report(struct sy_hub *hub, struct sy_lookup *lookup, sy_error *err)
{
	const struct sy_lookup_part *worst = NULL;

	for (size_t i = 0; i < lookup->part_count; i++) {
		struct sy_lookup_part *part = &lookup->parts[i];

		if (part->call.status != SY_OK &&
		    (worst == NULL || sy_status_severity(part->call.status) <
		                          sy_status_severity(worst->call.status)))
			worst = part;
	}
	if (worst == NULL)
		return SY_OK;
	sy_lookup_unpin(hub, lookup);
	sy_error_copy(err, &worst->call.error);
	for (size_t i = 0; i < lookup->part_count; i++) {
		const struct sy_lookup_part *part = &lookup->parts[i];

		/* Where some are lost, those alone are named: the others can be asked again. */
		if (part->call.status == SY_E_LOST)
			blame_losses(part, err);
		else if (part->call.status != SY_OK && worst->call.status != SY_E_LOST)
			sy_items_blame(part->items, part->first, part->last, err);
	}
	return worst->call.status;
}

/* For its first request, or once more. */
static void prepare(struct sy_lookup_part *part, uint32_t inline_max_bytes, uint64_t deadline_ns)
{
	struct sy_resolve_args args = part->call.op.resolve;

	sy_call_done(&part->call);
	part->some_lost = false;
	part->call = (struct sy_call){.unit_id = sy_items_unit(part->items, part->first)};
	part->call.op.kind = SY_OP_KIND_RESOLVE;
	part->call.op.deadline_ns = deadline_ns;
	part->call.op.resolve = args;
	part->call.op.resolve.inline_max_bytes = inline_max_bytes;
}

static sy_status run(struct sy_hub *hub, struct sy_lookup *lookup, uint32_t inline_max_bytes,
                     uint64_t deadline_ns, sy_error *err)
{
	struct sy_call **calls = calloc(lookup->part_count + 1, sizeof *calls);

	if (calls == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t i = 0; i < lookup->part_count; i++) {
		struct sy_lookup_part *part = &lookup->parts[i];

		prepare(part, inline_max_bytes, deadline_ns);
		part->call.op.gives_way = lookup->part_count > 1;
		calls[i] = &part->call;
	}
	sy_hub_run(hub, calls, lookup->part_count);
	free(calls);
	for (size_t i = 0; i < lookup->part_count; i++) {
		if (lookup->parts[i].call.status == SY_OK)
			check_places(hub, &lookup->parts[i]);
		if (lookup->parts[i].call.status == SY_OK)
			check_losses(hub, &lookup->parts[i]);
	}
	return report(hub, lookup, err);
}

/* Waits for the unit to load what the first part that gave way is about, with nothing pinned. */
static sy_status wait_alone(struct sy_hub *hub, const struct sy_lookup *lookup,
                            uint64_t deadline_ns, sy_error *err)
{
	struct sy_lookup alone = {lookup->parts, 1};

	while (alone.parts->call.status != SY_E_BUSY)
		alone.parts++;
	sy_status status = run(hub, &alone, 0, deadline_ns, err);
	if (status == SY_OK)
		sy_lookup_unpin(hub, &alone);
	return status;
}

sy_status sy_lookup_run(struct sy_hub *hub, const struct sy_items *sets, size_t set_count,
                        uint32_t inline_max_bytes, uint64_t deadline_ns,
                        struct sy_lookup *ret_lookup, sy_error *err)
{
	struct sy_lookup lookup = {0};
	sy_error last = err != NULL ? *err : (sy_error){0}; /* with the array it was lent */
	size_t capacity = 0;
	sy_status status = SY_OK;

	for (size_t i = 0; status == SY_OK && i < set_count; i++)
		status = split(&lookup, &capacity, &sets[i], &last);
	if (status == SY_OK)
		status = run(hub, &lookup, inline_max_bytes, deadline_ns, &last);
	/* Each turn has the unit load something, and ends by the deadline. */
	while (status == SY_E_BUSY && inline_max_bytes == 0) {
		status = wait_alone(hub, &lookup, deadline_ns, &last);
		if (status == SY_OK)
			status = run(hub, &lookup, 0, deadline_ns, &last);
	}
	if (status != SY_OK)
		sy_lookup_done(&lookup);
	else
		*ret_lookup = lookup;
	if (status != SY_OK && err != NULL)
		*err = last;
	return status;
}
