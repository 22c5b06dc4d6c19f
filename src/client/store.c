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

struct sy_endpoint {
	uint32_t unused; /* same host: nothing to keep; other transports keep lanes and memory here */
};

sy_status sy_endpoint_open(sy_endpoint **ret_endpoint, sy_error *err)
{
	sy_endpoint *endpoint = calloc(1, sizeof *endpoint);

	if (endpoint == NULL)
		return sy_fail(err, SY_E_SYS, __func__, "out of memory");
	*ret_endpoint = endpoint;
	return SY_OK;
}

void sy_endpoint_close(sy_endpoint *endpoint)
{
	free(endpoint);
}

sy_status sy_endpoint_register(sy_endpoint *endpoint, void *addr, size_t bytes, sy_error *err)
{
	if (endpoint == NULL || (addr == NULL && bytes > 0))
		return sy_fail(err, SY_E_INVALID, __func__, "no memory to register");
	return SY_OK;
}

sy_status sy_endpoint_deregister(sy_endpoint *endpoint, void *addr, size_t bytes, sy_error *err)
{
	return sy_endpoint_register(endpoint, addr, bytes, err);
}

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

static void remember(struct sy_store *store, const struct sy_blob_plan *plan)
{
	pthread_mutex_lock(&store->lock);
	store->unknown[store->unknown_next++ % SY_UNKNOWN_COMMITS_MAX] = (struct sy_unknown_commit){
		plan->id, plan->unit_id, plan->generation, plan->incarnation,
	};
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
		for (size_t i = 0; i < count; i++) {
			if (plans[i].unknown && !plans[i].published)
				remember(store, &plans[i]);
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

/* The blob's record; false: nothing is known of it. */
static bool recall(struct sy_store *store, uint32_t unit_id, sy_blob_id blob_id,
                   struct sy_unknown_commit *ret_commit)
{
	bool found = false;

	pthread_mutex_lock(&store->lock);
	for (size_t i = 0; i < SY_UNKNOWN_COMMITS_MAX && !found; i++) {
		struct sy_unknown_commit *commit = &store->unknown[i];

		found = commit->incarnation != 0 && commit->unit_id == unit_id &&
		        memcmp(&commit->blob_id, &blob_id, sizeof blob_id) == 0;
		if (found)
			*ret_commit = *commit;
	}
	pthread_mutex_unlock(&store->lock);
	return found;
}

static sy_status commit(sy_store *store, uint32_t unit_id, sy_blob_id blob_id,
                        uint64_t deadline_ns, bool *ret_published, sy_error *err)
{
	struct sy_unknown_commit commit = {0};
	struct sy_call call = {.unit_id = unit_id};
	struct sy_call *calls[] = {&call};

	if (!recall(store, unit_id, blob_id, &commit))
		return sy_fail(err, SY_E_INVALID, __func__, "no commit of this blob on unit %u is open",
		               unit_id);
	call.op.kind = SY_OP_KIND_COMMIT;
	call.op.deadline_ns = sy_store_deadline(store, deadline_ns);
	call.op.commit.blob_id = blob_id;
	call.op.commit.generation = commit.generation;
	call.op.commit.incarnation = commit.incarnation;
	sy_hub_run(store->hub, calls, 1);
	sy_status status = call.status;
	/* Gone with its unit, by the directory's word, is not published either. */
	bool missing = call.op.end == SY_OP_END_MISSING || call.found_dead;
	if (status == SY_OK || missing)
		*ret_published = status == SY_OK;
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
