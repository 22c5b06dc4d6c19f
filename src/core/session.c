#include "session.h"
#include "guard.h"
#include "intern.h"
#include "layout.h"
#include "park.h"
#include "prng.h"
#include "slot.h"

#include <stddef.h>

static uint32_t *number_bucket(struct sy_core *core, uint64_t number)
{
	struct sy_volatile *v = &core->volatiles;
	uint32_t hash = (uint32_t)(sy_mix64(number ^ core->tables.hash_secret) >> 32);
	return sy_bucket_at(core, v->number_buckets_at, sy_range32(hash, v->session_bucket_count));
}

static uint32_t *identity_bucket(struct sy_core *core, uint64_t random)
{
	struct sy_volatile *v = &core->volatiles;
	uint32_t hash = (uint32_t)(sy_mix64(random ^ core->tables.hash_secret) >> 32);
	return sy_bucket_at(core, v->identity_buckets_at, sy_range32(hash, v->session_bucket_count));
}

static uint32_t *token_bucket(struct sy_core *core, uint64_t token)
{
	struct sy_volatile *v = &core->volatiles;
	uint32_t hash = (uint32_t)(sy_mix64(token ^ core->tables.hash_secret) >> 32);
	return sy_bucket_at(core, v->token_buckets_at, sy_range32(hash, v->session_bucket_count));
}

uint32_t sy_session_find(struct sy_core *core, uint64_t number)
{
	if (number == 0)
		return 0;
	uint32_t at = *number_bucket(core, number);
	while (at != 0 && sy_session_at(core, at)->number != number)
		at = sy_session_at(core, at)->number_next;
	return at;
}

bool sy_identity_equal(const struct sy_identity *a, const struct sy_identity *b)
{
	return a->random == b->random && a->pid == b->pid &&
	       memcmp(a->boot_id, b->boot_id, sizeof a->boot_id) == 0;
}

/* Buckets are filled at their head, so that the newest comes first; and a count is never lower
 * than that of the session before. */
uint32_t sy_session_newest(struct sy_core *core, const struct sy_identity *identity)
{
	uint32_t at = *identity_bucket(core, identity->random);
	while (at != 0 && !sy_identity_equal(&sy_session_at(core, at)->identity, identity))
		at = sy_session_at(core, at)->identity_next;
	return at;
}

static uint32_t token_from(struct sy_core *core, uint32_t at, uint64_t token)
{
	while (at != 0 && sy_session_at(core, at)->token != token)
		at = sy_session_at(core, at)->token_next;
	return at;
}

uint32_t sy_session_token_first(struct sy_core *core, uint64_t token)
{
	return token == 0 ? 0 : token_from(core, *token_bucket(core, token), token);
}

uint32_t sy_session_token_next(struct sy_core *core, uint32_t session)
{
	const struct sy_session *s = sy_session_at(core, session);
	return token_from(core, s->token_next, s->token);
}

static uint64_t fresh_number(struct sy_core *core)
{
	struct sy_prng prng;
	uint64_t number = 0;
	memcpy(prng.s, core->volatiles.random, sizeof prng.s);
	/* Of 64-bit numbers one in 2^54 is taken; that all of these are does not happen. */
	for (int i = 0; i < 64 && (number == 0 || sy_session_find(core, number) != 0); i++)
		number = sy_prng_next(&prng);
	memcpy(core->volatiles.random, prng.s, sizeof prng.s);
	SY_ASSERT(number != 0);
	return number;
}

static void link_head(uint32_t *bucket, uint32_t *ret_next, uint32_t session)
{
	*ret_next = *bucket;
	*bucket = session;
}

uint32_t sy_session_new(struct sy_core *core, const struct sy_event_request *hello,
                        uint64_t now_ns, enum sy_resource *ret_short)
{
	struct sy_volatile *v = &core->volatiles;
	uint32_t ns = sy_name_take(core, &core->tables.namespaces, hello->hello.ns);
	if (ns == 0) {
		*ret_short = SY_RESOURCE_NAMESPACES;
		return 0;
	}
	uint32_t session = sy_pool_take(core, &v->sessions);
	if (session == 0) {
		sy_name_give(core, &core->tables.namespaces, ns, 1);
		*ret_short = SY_RESOURCE_SESSIONS;
		return 0;
	}
	struct sy_session *s = sy_session_at(core, session);
	s->state = SY_SESSION_LIVE;
	s->number = fresh_number(core);
	s->ns = (uint16_t)ns;
	s->token = hello->hello.token;
	s->local = s->token != 0;
	s->identity = hello->hello.identity;
	s->connection_count = hello->hello.connection_count;
	s->heard_ns = now_ns;
	link_head(number_bucket(core, s->number), &s->number_next, session);
	link_head(identity_bucket(core, s->identity.random), &s->identity_next, session);
	if (s->local)
		link_head(token_bucket(core, s->token), &s->token_next, session);
	else
		sy_chain_append(core, &v->sessions, offsetof(struct sy_session, order_link),
		                &v->remote_sessions, session);
	return session;
}

void sy_session_heard(struct sy_core *core, uint32_t session, uint64_t now_ns)
{
	struct sy_volatile *v = &core->volatiles;
	struct sy_session *s = sy_session_at(core, session);
	if (s->state != SY_SESSION_LIVE)
		return;
	s->heard_ns = now_ns;
	if (s->local || v->remote_sessions.tail == session)
		return;
	sy_chain_remove(core, &v->sessions, offsetof(struct sy_session, order_link),
	                &v->remote_sessions, session);
	sy_chain_append(core, &v->sessions, offsetof(struct sy_session, order_link),
	                &v->remote_sessions, session);
}

static void unlink_from(struct sy_core *core, uint32_t *head, uint32_t session, size_t next_at)
{
	uint32_t *at = head;
	while (*at != session) {
		SY_ASSERT(*at != 0);
		at = (uint32_t *)(void *)((char *)sy_session_at(core, *at) + next_at);
	}
	*at = *(uint32_t *)(void *)((char *)sy_session_at(core, session) + next_at);
}

void sy_session_free(struct sy_core *core, uint32_t session)
{
	struct sy_session *s = sy_session_at(core, session);
	SY_ASSERT(s->state == SY_SESSION_ENDED && s->blobs.count == 0 && s->pins.count == 0);
	unlink_from(core, number_bucket(core, s->number), session,
	            offsetof(struct sy_session, number_next));
	unlink_from(core, identity_bucket(core, s->identity.random), session,
	            offsetof(struct sy_session, identity_next));
	if (s->local)
		unlink_from(core, token_bucket(core, s->token), session,
		            offsetof(struct sy_session, token_next));
	sy_name_give(core, &core->tables.namespaces, s->ns, 1);
	sy_pool_give(core, &core->volatiles.sessions, session);
}
