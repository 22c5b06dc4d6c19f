#include "reserve.h"
#include "blob.h"
#include "guard.h"
#include "layout.h"

#include <stddef.h>

static const uint32_t session_link_at = offsetof(struct sy_blob, session_link);
static const uint32_t timer_link_at = offsetof(struct sy_blob, timer_link);

static uint32_t *name_bucket(struct sy_core *core, struct sy_request_id name)
{
	struct sy_volatile *v = &core->volatiles;
	uint64_t hash = sy_mix64(name.session + sy_mix64(name.seq ^ core->tables.hash_secret) +
	                         name.slot);
	return sy_bucket_at(core, v->blob_name_buckets_at,
	                    sy_range32((uint32_t)(hash >> 32), v->blob_name_bucket_count));
}

void sy_reserve_add(struct sy_core *core, uint32_t blob, uint32_t session,
                    struct sy_request_id name)
{
	struct sy_blob *b = sy_blob_at(core, blob);
	uint32_t *bucket = name_bucket(core, name);
	b->name = name;
	b->name_next = *bucket;
	*bucket = blob;
	sy_chain_append(core, &core->tables.blobs, session_link_at,
	                &sy_session_at(core, session)->blobs, blob);
	core->volatiles.reservation_count++;
	if (sy_blob_is_grant(b))
		core->volatiles.granted_bytes += b->nbytes;
}

uint32_t sy_reserve_find(struct sy_core *core, struct sy_request_id name)
{
	uint32_t at = *name_bucket(core, name);
	while (at != 0 && !sy_request_id_equal(sy_blob_at(core, at)->name, name))
		at = sy_blob_at(core, at)->name_next;
	return at;
}

void sy_reserve_remove(struct sy_core *core, uint32_t blob)
{
	struct sy_blob *b = sy_blob_at(core, blob);
	uint32_t session = sy_session_find(core, b->name.session);
	SY_ASSERT(session != 0);
	uint32_t *at = name_bucket(core, b->name);
	while (*at != blob) {
		SY_ASSERT(*at != 0);
		at = &sy_blob_at(core, *at)->name_next;
	}
	*at = b->name_next;
	b->name_next = 0;
	sy_chain_remove(core, &core->tables.blobs, session_link_at,
	                &sy_session_at(core, session)->blobs, blob);
	core->volatiles.reservation_count--;
	if (sy_blob_is_grant(b))
		core->volatiles.granted_bytes -= b->nbytes;
	if (b->timer_ns != 0) {
		sy_chain_remove(core, &core->tables.blobs, timer_link_at,
		                &core->volatiles.graced_blobs, blob);
		b->timer_ns = 0;
	}
	sy_session_settle(core, session);
}

void sy_reserve_retire(struct sy_core *core, uint32_t blob)
{
	if (sy_blob_at(core, blob)->state == SY_BLOB_ALLOCATED)
		sy_blob_move(core, blob, SY_BLOB_RETIRED);
}

void sy_reserve_free(struct sy_core *core, uint32_t blob)
{
	sy_reserve_remove(core, blob);
	sy_blob_move(core, blob, SY_BLOB_FREE);
}

void sy_reserve_grace(struct sy_core *core, uint32_t blob, uint64_t due_ns)
{
	struct sy_blob *b = sy_blob_at(core, blob);
	if (b->timer_ns != 0)
		return;
	b->timer_ns = due_ns;
	sy_chain_append(core, &core->tables.blobs, timer_link_at, &core->volatiles.graced_blobs,
	                blob);
}

void sy_reserve_expire(struct sy_core *core, uint64_t now_ns, uint32_t budget)
{
	const struct sy_chain *graced = &core->volatiles.graced_blobs;
	for (; budget > 0 && graced->head != 0; budget--) {
		if (sy_blob_at(core, graced->head)->timer_ns > now_ns)
			break;
		sy_reserve_free(core, graced->head);
	}
}
