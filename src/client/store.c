/* The store's life and its puts, commits and releases. */
#include <stdlib.h>
#include <string.h>

#include "clear.h"
#include "clock.h"
#include "entropy.h"
#include "fail.h"
#include "local.h"
#include "open_hub.h"
#include "put_run.h"
#include "store_inner.h"

sy_status sy_store_open(const sy_store_options *options, sy_store **ret_store, sy_error *err)
{
	sy_store *store = calloc(1, sizeof *store);
	struct sy_open open = {
		.run_dir = options->run_dir, .directory = options->directory,
		.name_space = options->name_space,
		.hub = {.keys = options->keys,
		        .timeout_ns = options->timeout_ns,
		        .control_timeout_ns = options->control_timeout_ns,
		        .control = options->control, .path = options->path,
		        .policy = options->policy,
		        .graveyard_max_bytes = options->graveyard_max_bytes,
		        .memories = sy_endpoint_memories(options->endpoint),
		        .lock = options->lock, .unlock = options->unlock,
		        .lock_context = options->lock_context, .tick = sy_store_expire,
		        .tick_context = store, .interrupted = options->interrupted,
		        .interrupted_context = options->interrupted_context},
	};

	if (store == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	if ((options->lock == NULL) != (options->unlock == NULL)) {
		free(store);
		return sy_fail(err, SY_E_INVALID, __func__, "lock and unlock go together");
	}
	store->ssd = options->ssd;
	store->refs = 1;
	store->fork_count = sy_local_fork_count();
	pthread_mutex_init(&store->lock, NULL);
	sy_status status = sy_open_hub(&open, &store->hub, err);
	if (status != SY_OK) {
		pthread_mutex_destroy(&store->lock);
		free(store);
		return status;
	}
	*ret_store = store;
	return SY_OK;
}

void sy_store_close(sy_store *store)
{
	if (store == NULL || !sy_hub_shut(store->hub))
		return;
	/* Resolves that are still held cover no read any more: their pins go back now. */
	sy_store_let_all_go(store);
	sy_hub_unref(store->hub);
	sy_store_unref(store);
}

void sy_store_unref(struct sy_store *store)
{
	if (store == NULL || __atomic_sub_fetch(&store->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	pthread_mutex_destroy(&store->lock);
	free(store);
}

uint64_t sy_store_deadline(const struct sy_store *store, uint64_t deadline_ns)
{
	return sy_clock_deadline(deadline_ns, sy_hub_timeout_ns(store->hub));
}

uint32_t sy_store_unit_count(const sy_store *store)
{
	return sy_hub_unit_count(store->hub);
}

void sy_blob_id_new(sy_blob_id *ret_id)
{
	sy_entropy_fill(ret_id->bytes, sizeof ret_id->bytes);
}

static sy_status plan_of(const struct sy_store *store, const sy_store_blob *blob, size_t index,
                         struct sy_blob_plan *ret_plan, sy_error *err)
{
	struct sy_blob_plan plan = {
		.unit_id = blob->unit_id, .entry_count = blob->entry_count, .id = blob->blob_id,
		.nbytes = blob->nbytes, .first = index, .last = index + 1,
	};

	if (blob->unit_id >= sy_hub_unit_count(store->hub))
		return sy_fail(err, SY_E_INVALID, __func__, "blob %zu: there is no unit %u", index,
		               blob->unit_id);
	if (blob->nbytes < SY_INDEX_HEADER_BYTES || blob->entry_count == 0 ||
	    blob->entry_count > SY_ENTRIES_PER_BLOB_MAX)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "blob %zu: %llu bytes and %u entries make no blob", index,
		               (unsigned long long)blob->nbytes, blob->entry_count);
	plan.ranges = calloc(blob->segment_count + 1, sizeof *plan.ranges);
	plan.memory = plan.ranges;
	if (plan.ranges == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (size_t i = 0; i < blob->segment_count; i++) {
		const sy_segment *segment = &blob->segments[i];

		if (segment->blob_offset > blob->nbytes ||
		    segment->nbytes > blob->nbytes - segment->blob_offset) {
			sy_plan_done(&plan);
			return sy_fail(err, SY_E_INVALID, __func__,
			               "blob %zu: segment %zu lies outside the blob", index, i);
		}
		plan.ranges[i] = (struct sy_range){.offset = segment->blob_offset,
		                                   .nbytes = segment->nbytes, .from = segment->addr};
	}
	plan.range_count = blob->segment_count;
	*ret_plan = plan;
	return SY_OK;
}

/* Those that came to no answer last, so that the published ones of a large call push none out. */
static void remember(struct sy_store *store, const struct sy_blob_plan *plans, size_t count)
{
	pthread_mutex_lock(&store->lock);
	for (int published = 1; published >= 0; published--) {
		for (size_t i = 0; i < count; i++) {
			const struct sy_blob_plan *plan = &plans[i];

			if (published != 0 ? !plan->published : plan->published || !plan->unknown)
				continue;
			store->known[store->known_count++ % SY_STORE_PUTS_MAX] = (struct sy_store_known){
				.blob_id = plan->id, .unit_id = plan->unit_id, .published = plan->published,
				.generation = plan->generation, .incarnation = plan->incarnation,
			};
		}
	}
	pthread_mutex_unlock(&store->lock);
}

static sy_status put_many(sy_store *store, const sy_store_blob *blobs, size_t blob_count,
                          uint64_t deadline_ns, sy_error *err)
{
	struct sy_blob_plan *plans = calloc(blob_count + 1, sizeof *plans);
	uint64_t end_ns = sy_store_deadline(store, deadline_ns);
	sy_status status = SY_OK;
	size_t count = 0;

	if (plans == NULL)
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	for (; status == SY_OK && count < blob_count; count++) {
		status = plan_of(store, &blobs[count], count, &plans[count], err);
		if (status != SY_OK)
			break;
	}
	if (status == SY_OK) {
		/* Always by alloc and commit, so that sy_store_commit can ask what became of it. */
		struct sy_put_terms terms = {.deadline_ns = end_ns, .ssd = store->ssd};

		sy_puts_run(store->hub, plans, count, &terms);
		status = sy_puts_verdict(plans, count, err);
		remember(store, plans, count);
		for (size_t i = 0; i < count; i++) {
			if (plans[i].published || err == NULL || status == SY_OK)
				continue;
			if (err->index_count < err->index_capacity)
				err->indexes[err->index_count] = (uint32_t)i;
			err->index_count++;
		}
	}
	for (size_t i = 0; plans != NULL && i < count; i++)
		sy_plan_done(&plans[i]);
	free(plans);
	return status;
}

sy_status sy_store_put_many(sy_store *store, const sy_store_blob *blobs, size_t blob_count,
                            uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = put_many(store, blobs, blob_count, deadline_ns, err);
	sy_hub_leave(store->hub);
	return status;
}

sy_status sy_store_put_segments(sy_store *store, const sy_store_blob *blob, uint64_t deadline_ns,
                                sy_error *err)
{
	return sy_store_put_many(store, blob, 1, deadline_ns, err);
}

/* The blob's newest record; false: nothing is known of it. */
static bool recall(struct sy_store *store, uint32_t unit_id, sy_blob_id blob_id,
                   struct sy_store_known *ret_known)
{
	bool found = false;

	pthread_mutex_lock(&store->lock);
	for (size_t back = 1; back <= SY_STORE_PUTS_MAX && back <= store->known_count && !found;
	     back++) {
		const struct sy_store_known *known =
			&store->known[(store->known_count - back) % SY_STORE_PUTS_MAX];

		found = known->incarnation != 0 && known->unit_id == unit_id &&
		        memcmp(&known->blob_id, &blob_id, sizeof blob_id) == 0;
		if (found)
			*ret_known = *known;
	}
	pthread_mutex_unlock(&store->lock);
	return found;
}

/* It holds for the record that was asked about, and for no newer put of the blob. */
static void note_published(struct sy_store *store, const struct sy_store_known *known)
{
	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < SY_STORE_PUTS_MAX; i++) {
		struct sy_store_known *one = &store->known[i];

		if (one->incarnation == known->incarnation && one->generation == known->generation &&
		    one->unit_id == known->unit_id &&
		    memcmp(&one->blob_id, &known->blob_id, sizeof one->blob_id) == 0)
			one->published = true;
	}
	pthread_mutex_unlock(&store->lock);
}

static sy_status commit(sy_store *store, uint32_t unit_id, sy_blob_id blob_id,
                        uint64_t deadline_ns, bool *ret_published, sy_error *err)
{
	struct sy_store_known known = {0};
	struct sy_call call = {.unit_id = unit_id};
	struct sy_call *calls[] = {&call};

	if (!recall(store, unit_id, blob_id, &known))
		return sy_fail(err, SY_E_INVALID, __func__, "no put of this blob on unit %u is known",
		               unit_id);
	if (known.published && sy_hub_stands(store->hub, unit_id, known.incarnation)) {
		*ret_published = true;
		return SY_OK;
	}
	/* What was published is so in that incarnation of the unit: which one answers now? */
	call.op.kind = known.published ? SY_OP_KIND_INFO : SY_OP_KIND_COMMIT;
	call.op.deadline_ns = sy_store_deadline(store, deadline_ns);
	call.op.commit.blob_id = blob_id;
	call.op.commit.generation = known.generation;
	call.op.commit.incarnation = known.incarnation;
	sy_hub_run(store->hub, calls, 1);
	sy_status status = call.status;
	/* Gone with its unit, by the directory's word, is not published either. */
	bool missing = call.op.end == SY_OP_END_MISSING || call.found_dead ||
	               (status == SY_OK && call.op.incarnation != known.incarnation);
	if (status == SY_OK && !missing)
		note_published(store, &known);
	if (status == SY_OK || missing)
		*ret_published = !missing;
	else
		sy_error_copy(err, &call.error);
	sy_call_done(&call);
	return missing ? SY_OK : status;
}

sy_status sy_store_commit(sy_store *store, uint32_t unit_id, sy_blob_id blob_id,
                          uint64_t deadline_ns, bool *ret_published, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = commit(store, unit_id, blob_id, deadline_ns, ret_published, err);
	sy_hub_leave(store->hub);
	return status;
}

static sy_status release_rows(sy_store *store, const sy_unit_rows *units, size_t unit_count,
                              uint64_t deadline_ns, sy_error *err)
{
	struct sy_release release = {.group_count = unit_count};
	uint64_t end_ns = sy_store_deadline(store, deadline_ns);
	sy_status status = SY_OK;

	for (size_t u = 0; u < unit_count; u++) {
		release.row_count += units[u].row_count;
		if (status == SY_OK && units[u].unit_id >= sy_hub_unit_count(store->hub))
			status = sy_fail(err, SY_E_INVALID, __func__, "there is no unit %u", units[u].unit_id);
	}
	if (status != SY_OK)
		return status;
	release.groups = calloc(unit_count + 1, sizeof *release.groups);
	release.rows = malloc((release.row_count + 1) * sizeof *release.rows);
	release.sources = malloc((release.row_count + 1) * sizeof *release.sources);
	if (release.groups == NULL || release.rows == NULL || release.sources == NULL) {
		status = sy_fail(err, SY_E_SYS, __func__, "out of memory");
	} else {
		for (size_t u = 0, at = 0; u < unit_count; u++) {
			release.groups[u] = (struct sy_release_group){units[u].unit_id, units[u].row_count};
			for (size_t i = 0; i < units[u].row_count; i++, at++) {
				release.rows[at] = units[u].rows[i];
				release.sources[at] = (uint32_t)at;
			}
		}
		status = sy_release_run(store->hub, &release, end_ns, NULL, err);
	}
	free(release.groups);
	free(release.rows);
	free(release.sources);
	return status;
}

sy_status sy_store_release_rows(sy_store *store, const sy_unit_rows *units, size_t unit_count,
                                uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = release_rows(store, units, unit_count, deadline_ns, err);
	sy_hub_leave(store->hub);
	return status;
}

bool sy_store_unit_dead(sy_store *store, uint32_t unit_id, uint64_t deadline_ns)
{
	struct sy_unit_info info;
	bool dead = false;

	if (sy_hub_enter(store->hub, NULL) != SY_OK)
		return false;
	if (sy_hub_unit_info(store->hub, unit_id, &info)) {
		/* Of a unit that was never talked to, the one that the list shows. */
		uint64_t used = sy_hub_incarnation(store->hub, unit_id);

		dead = sy_hub_ask(store->hub, unit_id, used != 0 ? used : info.incarnation,
		                  sy_store_deadline(store, deadline_ns)) == SY_DIRECTORY_DEAD;
	}
	sy_hub_leave(store->hub);
	return dead;
}

static sy_status refresh_units(sy_store *store, uint64_t deadline_ns, sy_error *err)
{
	return sy_hub_refresh(store->hub, sy_store_deadline(store, deadline_ns), err);
}

sy_status sy_store_refresh_units(sy_store *store, uint64_t deadline_ns, sy_error *err)
{
	sy_status status = sy_hub_enter(store->hub, err);

	if (status != SY_OK)
		return status;
	status = refresh_units(store, deadline_ns, err);
	sy_hub_leave(store->hub);
	return status;
}
