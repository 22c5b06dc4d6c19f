/* alloc, commit and put_inline: how blobs come to be. */
#include "blob.h"
#include "entry.h"
#include "grant.h"
#include "guard.h"
#include "handle.h"
#include "park.h"
#include "region.h"
#include "reserve.h"
#include "tier.h"

static bool too_late(const struct sy_call *call, uint64_t until_ns)
{
	return call->step->now_ns >= until_ns && !SY_MUTANT(23);
}

/* A blob of this id is there already: the answer to one who puts it again. */
static enum sy_run answer_existing(struct sy_call *call, uint32_t blob, uint64_t nbytes,
                                   uint32_t entry_count)
{
	const struct sy_blob *b = sy_blob_at(call->step->core, blob);
	bool same = b->client == call->session->identity.random && b->nbytes == nbytes &&
	            b->entry_count == entry_count;
	if (b->state == SY_BLOB_ALLOCATED || !same)
		return sy_refuse(call, SY_WHY_BLOB_STATE);
	call->outcome->answer =
		b->state == SY_BLOB_COMMITTING ? SY_ANSWER_PENDING : SY_ANSWER_PUBLISHED;
	return SY_RUN_ANSWER;
}

/* A new blob of the call's client, or 0 and what becomes of the call. */
static uint32_t new_blob(struct sy_call *call, sy_blob_id id, uint64_t nbytes,
                         uint32_t entry_count, uint64_t until_ns, bool ssd, enum sy_run *ret_run)
{
	struct sy_core *core = call->step->core;
	const struct sy_space *spaces = core->tables.spaces;
	enum sy_resource resource = SY_RESOURCE_NONE;
	ssd = ssd && sy_tier_is_on(core);
	bool fits = nbytes <= spaces[SY_SPACE_SLAB].bytes ||
	            (ssd && nbytes <= spaces[SY_SPACE_STAGING].bytes);
	if (!fits || nbytes > SY_BLOB_MAX_BYTES) {
		*ret_run = sy_refuse_bytes(call, nbytes);
		return 0;
	}
	if (!call->request->redo && !sy_park_pass(core, nbytes)) {
		*ret_run = sy_park_hold(call, nbytes, until_ns, ssd);
		return 0;
	}
	uint32_t ns = call->session->ns;
	uint32_t blob = sy_blob_alloc(core, ns, id, SY_SPACE_SLAB, nbytes, entry_count, &resource);
	if (blob == 0 && resource == SY_RESOURCE_BYTES && ssd && sy_tier_must_stage(core, nbytes))
		blob = sy_blob_alloc(core, ns, id, SY_SPACE_STAGING, nbytes, entry_count, &resource);
	if (blob != 0) {
		sy_blob_at(core, blob)->client = call->session->identity.random;
	} else if (resource != SY_RESOURCE_BYTES) {
		*ret_run = sy_refuse_full(call, resource, 1, 0);
	} else if (nbytes > sy_region_largest_hole(core, SY_SPACE_SLAB) &&
	           sy_park_hopeful(core, ssd)) {
		*ret_run = sy_park_hold(call, nbytes, until_ns, ssd);
	} else {
		*ret_run = sy_refuse_bytes(call, nbytes);
	}
	return blob;
}

enum sy_run sy_handle_alloc(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	enum sy_run run = SY_RUN_ANSWER;
	if (!call->session->local && !core->params.remote_write)
		return sy_refuse(call, SY_WHY_NO_PATH);
	if (r->alloc.nbytes == 0 || r->alloc.entry_count == 0 ||
	    r->alloc.entry_count > SY_ENTRIES_PER_BLOB_MAX)
		return sy_refuse(call, SY_WHY_SIZE);
	uint32_t blob = sy_blob_find(core, call->session->ns, r->alloc.blob_id);
	if (blob != 0)
		return answer_existing(call, blob, r->alloc.nbytes, r->alloc.entry_count);
	if (too_late(call, r->alloc.until_ns))
		return sy_refuse(call, SY_WHY_TOO_LATE);
	if (core->unit_state == SY_UNIT_DRAINING)
		return sy_refuse_busy(call, SY_BUSY_DRAINING);
	blob = new_blob(call, r->alloc.blob_id, r->alloc.nbytes, r->alloc.entry_count,
	                r->alloc.until_ns, r->alloc.ssd, &run);
	if (blob == 0)
		return run;
	sy_reserve_add(core, blob, call->session_index, r->id);
	call->outcome->answer = SY_ANSWER_REGION;
	call->outcome->offset = sy_blob_at(core, blob)->offset;
	call->outcome->generation = sy_blob_at(core, blob)->generation;
	return SY_RUN_ANSWER;
}

/* A blob keeps the generation of its alloc, whatever region it has moved to. */
static bool is_generation(const struct sy_blob *b, const struct sy_event_request *request)
{
	return b->generation == request->commit.generation || SY_MUTANT(13);
}

/* The blob that this commit would publish: ALLOCATED, this session's, of this generation; or 0. */
static uint32_t committable(struct sy_core *core, const struct sy_session *session,
                            const struct sy_event_request *request)
{
	bool granted = sy_commit_is_granted(request);
	uint32_t blob = granted ? sy_grant_find(core, request)
	                        : sy_blob_find(core, session->ns, request->commit.blob_id);
	if (blob == 0)
		return 0;
	const struct sy_blob *b = sy_blob_at(core, blob);
	bool mine = b->state == SY_BLOB_ALLOCATED && b->name.session == session->number &&
	            is_generation(b, request);
	return mine ? blob : 0;
}

/* Everything of a put but its bytes: entries, names, shapes. False: the answer is UnitFull. */
static bool has_room(struct sy_call *call, const sy_index *index)
{
	uint64_t need = 0, free = 0;
	enum sy_resource resource = sy_entry_room(call->step->core, index, &need, &free);
	if (resource == SY_RESOURCE_NONE)
		return true;
	sy_refuse_full(call, resource, need, free);
	return false;
}

static void publish(struct sy_call *call, uint32_t blob, const sy_index *index)
{
	struct sy_core *core = call->step->core;
	uint64_t overwritten = sy_entry_add_all(core, blob, index, false, call->step->now_ns);
	core->volatiles.overwritten += overwritten;
	core->volatiles.puts++;
	call->outcome->answer = SY_ANSWER_PUBLISHED;
}

static void count_written(struct sy_call *call, const sy_index *index)
{
	struct sy_volatile *v = &call->step->core->volatiles;
	*(call->session->local ? &v->shm_put_bytes : &v->ucx_put_bytes) += index->blob_bytes;
}

/* What lies in staging goes to disk before it is seen. */
static enum sy_run spill(struct sy_call *call, uint32_t blob, const sy_index *index)
{
	struct sy_core *core = call->step->core;
	if (!sy_blob_open_run(core, blob)) {
		core->volatiles.tier.full_count++;
		return sy_refuse_full(call, SY_RESOURCE_BYTES, sy_blob_at(core, blob)->nbytes,
		                      sy_region_free_bytes(core, SY_SPACE_DISK));
	}
	sy_entry_add_all(core, blob, index, true, call->step->now_ns);
	sy_tier_spill(core, blob, call->request->commit.until_ns);
	call->outcome->answer = SY_ANSWER_PENDING;
	count_written(call, index);
	return SY_RUN_ANSWER;
}

/* A put into a grant is its alloc as well: what an alloc would be told, it is told. False: the
 * outcome is the answer, or *ret_run. */
static bool may_claim(struct sy_call *call, uint32_t grant, enum sy_run *ret_run)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	uint32_t known = sy_blob_find(core, call->session->ns, r->commit.blob_id);
	*ret_run = SY_RUN_ANSWER;
	if (!sy_grant_holds(sy_blob_at(core, grant), r->commit.nbytes) || r->commit.entry_count == 0 ||
	    r->commit.entry_count > SY_ENTRIES_PER_BLOB_MAX) {
		*ret_run = sy_refuse(call, SY_WHY_SIZE);
	} else if (known != 0) {
		*ret_run = answer_existing(call, known, r->commit.nbytes, r->commit.entry_count);
		if (call->outcome->answer == SY_ANSWER_PUBLISHED)
			sy_reserve_free(core, grant); /* its client takes it for used */
	} else if (core->unit_state == SY_UNIT_DRAINING) {
		*ret_run = sy_refuse_busy(call, SY_BUSY_DRAINING);
	} else {
		return true;
	}
	return false;
}

static enum sy_run commit_allocated(struct sy_call *call, uint32_t blob)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	const sy_index *index = r->commit.index;
	const struct sy_blob *b = sy_blob_at(core, blob);
	bool granted = sy_commit_is_granted(r);
	uint64_t nbytes = granted ? r->commit.nbytes : b->nbytes;
	uint32_t entry_count = granted ? r->commit.entry_count : b->entry_count;
	enum sy_run run = SY_RUN_ANSWER;
	if (too_late(call, r->commit.until_ns))
		return sy_refuse(call, SY_WHY_TOO_LATE);
	if (granted && !may_claim(call, blob, &run))
		return run;
	if (index == NULL || index->blob_bytes > nbytes)
		return sy_refuse(call, SY_WHY_INDEX);
	if (memcmp(&index->blob_id, &r->commit.blob_id, sizeof index->blob_id) != 0)
		return sy_refuse(call, SY_WHY_BLOB_ID);
	if (index->entry_count != entry_count)
		return sy_refuse(call, SY_WHY_ENTRY_COUNT);
	if (!has_room(call, index))
		return SY_RUN_ANSWER;
	if (sy_region_space_of(core, b->offset) == SY_SPACE_STAGING)
		return spill(call, blob, index);
	sy_reserve_remove(core, blob);
	if (granted) {
		sy_blob_claim(core, blob, r->commit.blob_id, nbytes, entry_count);
		core->volatiles.granted_puts++;
	}
	publish(call, blob, index);
	count_written(call, index);
	sy_grant_next(call);
	return SY_RUN_ANSWER;
}

enum sy_run sy_handle_commit(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	uint32_t blob = committable(core, call->session, r);
	if (blob != 0)
		return commit_allocated(call, blob);
	blob = sy_blob_find(core, call->session->ns, r->commit.blob_id);
	const struct sy_blob *b = blob == 0 ? NULL : sy_blob_at(core, blob);
	if (b != NULL && is_generation(b, r) && b->state != SY_BLOB_ALLOCATED) {
		call->outcome->answer =
			b->state == SY_BLOB_COMMITTING ? SY_ANSWER_PENDING : SY_ANSWER_PUBLISHED;
	} else {
		call->outcome->fault = SY_FAULT_MISSING;
	}
	return SY_RUN_ANSWER;
}

enum sy_run sy_handle_put_inline(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	const sy_index *index = r->put_inline.index;
	enum sy_run run = SY_RUN_ANSWER;
	if (index == NULL)
		return sy_refuse(call, SY_WHY_INDEX);
	if (index->entry_count == 0 || index->entry_count > SY_ENTRIES_PER_BLOB_MAX ||
	    index->blob_bytes == 0 || index->blob_bytes > core->params.eager_max_bytes)
		return sy_refuse(call, SY_WHY_SIZE);
	uint32_t blob = sy_blob_find(core, call->session->ns, index->blob_id);
	if (blob != 0)
		return answer_existing(call, blob, index->blob_bytes, index->entry_count);
	if (too_late(call, r->put_inline.until_ns))
		return sy_refuse(call, SY_WHY_TOO_LATE);
	if (core->unit_state == SY_UNIT_DRAINING)
		return sy_refuse_busy(call, SY_BUSY_DRAINING);
	if (!has_room(call, index))
		return SY_RUN_ANSWER;
	blob = new_blob(call, index->blob_id, index->blob_bytes, index->entry_count,
	                r->put_inline.until_ns, r->put_inline.ssd, &run);
	if (blob == 0)
		return run;
	if (!SY_MUTANT(7)) {
		struct sy_effect *store = sy_step_emit(call->step, SY_EFFECT_STORE);
		store->message = r->message;
		store->offset = sy_blob_at(core, blob)->offset;
		store->nbytes = index->blob_bytes;
	}
	publish(call, blob, index);
	return SY_RUN_ANSWER;
}

bool sy_core_commit_region(struct sy_core *core, const struct sy_event_request *request,
                           uint64_t *ret_offset, uint64_t *ret_nbytes)
{
	if (!sy_core_wants_index(core, request))
		return false;
	uint32_t session = sy_session_find(core, request->id.session);
	uint32_t blob = committable(core, sy_session_at(core, session), request);
	if (blob == 0)
		return false;
	*ret_offset = sy_blob_at(core, blob)->offset;
	*ret_nbytes = sy_blob_at(core, blob)->nbytes;
	if (sy_commit_is_granted(request))
		*ret_nbytes = sy_min_u64(*ret_nbytes, request->commit.nbytes);
	return true;
}

bool sy_core_wants_index(struct sy_core *core, const struct sy_event_request *request)
{
	uint32_t session = sy_session_find(core, request->id.session);
	if (session == 0 || request->id.slot >= SY_SLOT_COUNT)
		return false;
	const struct sy_session *s = sy_session_at(core, session);
	bool answers = s->state == SY_SESSION_LIVE || SY_MUTANT(14);
	return answers && sy_slot_judge(core, s, request) == SY_VERDICT_RUN;
}
