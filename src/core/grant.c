#include "grant.h"
#include "blob.h"
#include "region.h"
#include "reserve.h"

/* Of the slab, grants leave so much free; of the blobs there may be, they take none beyond. */
enum { FREE_SHARE = 4, BLOBS_SHARE = 2 };

bool sy_commit_is_granted(const struct sy_event_request *request)
{
	return request->commit.grant.session != 0;
}

uint32_t sy_grant_find(struct sy_core *core, const struct sy_event_request *request)
{
	uint32_t blob = sy_reserve_find(core, request->commit.grant);
	return blob != 0 && sy_blob_is_grant(sy_blob_at(core, blob)) ? blob : 0;
}

bool sy_grant_holds(const struct sy_blob *grant, uint64_t nbytes)
{
	return nbytes > 0 && nbytes <= grant->nbytes;
}

/* Nobody else is to miss what lies idle in grants: there are few of them, none where room is
 * short, and their clients give them back soon. */
static bool is_plenty(const struct sy_core *core, uint64_t nbytes)
{
	const struct sy_volatile *v = &core->volatiles;
	const struct sy_tables *t = &core->tables;
	uint64_t kept_bytes = t->spaces[SY_SPACE_SLAB].bytes / FREE_SHARE;
	uint64_t free_bytes = sy_region_free_bytes(core, SY_SPACE_SLAB);
	uint64_t total_bytes = core->params.grant_total_bytes;
	return core->unit_state == SY_UNIT_ACTIVE && v->parked_requests.count == 0 &&
	       v->parked_loads.count == 0 && nbytes <= core->params.grant_max_bytes &&
	       v->granted_bytes <= total_bytes && nbytes <= total_bytes - v->granted_bytes &&
	       free_bytes >= kept_bytes && nbytes <= free_bytes - kept_bytes &&
	       t->blobs.used < core->params.max_entries / BLOBS_SHARE;
}

void sy_grant_next(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	uint64_t nbytes = call->request->commit.next_bytes;
	enum sy_resource resource = SY_RESOURCE_NONE;
	if (nbytes == 0 || !is_plenty(core, nbytes))
		return;
	uint32_t blob = sy_blob_alloc(core, call->session->ns, (sy_blob_id){0}, SY_SPACE_SLAB, nbytes,
	                              0, &resource);
	if (blob == 0)
		return;
	struct sy_blob *b = sy_blob_at(core, blob);
	b->client = call->session->identity.random;
	sy_reserve_add(core, blob, call->session_index, call->request->id);
	call->outcome->offset = b->offset;
	call->outcome->generation = b->generation;
}
