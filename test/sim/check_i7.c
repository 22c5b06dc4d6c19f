/* I7: a session's end leaks nothing; a live session holds nothing that its client does not know
 * of for longer than two heartbeats. */
#include "blob.h"
#include "pin.h"
#include "session.h"
#include "sim_check.h"

static bool knows(const struct sim_client *client, uint32_t slot, struct sy_request_id name)
{
	struct sim *sim = client->sim;
	if (sy_machine_has_grant(client->links[slot].machine, name))
		return true;
	for (uint32_t i = 0; i < sim->config.tasks; i++) {
		const struct sim_task *task = &client->tasks[i];
		const struct sy_machine_op *op = &task->op;
		if (task->state == SIM_TASK_IDLE)
			continue;
		/* The request is out, or what it made is in use. */
		if (task->state == SIM_TASK_RUNNING && op->stage == SY_OP_STAGE_SENT &&
		    op->slot == name.slot && op->seq == name.seq)
			return true;
		if ((op->reserved || task->pinned) && sy_request_id_equal(op->name, name))
			return true;
	}
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		const struct sim_stray *stray = &sim->strays[i];
		if (stray->used && stray->put != NULL && sy_request_id_equal(stray->name, name))
			return true;
	}
	return false;
}

static struct sim_orphan *orphan_of(struct sim_shadow *shadow, struct sy_request_id name,
                                    uint64_t now_ns)
{
	for (size_t i = 0; i < shadow->orphan_count; i++) {
		if (sy_request_id_equal(shadow->orphans[i].name, name))
			return &shadow->orphans[i];
	}
	if (shadow->orphan_count == sizeof shadow->orphans / sizeof shadow->orphans[0])
		return NULL;
	struct sim_orphan *orphan = &shadow->orphans[shadow->orphan_count++];
	*orphan = (struct sim_orphan){.name = name, .since_ns = now_ns};
	return orphan;
}

/* Since when nothing stood between this client and the unit. */
static uint64_t quiet_since_ns(const struct sim_life *life, const struct sim_client *client)
{
	const struct sim *sim = life->sim;
	const struct sim_link *link = &client->links[life->slot];
	uint64_t since_ns = sy_max_u64(link->disturbed_ns, link->cut_until_ns);
	since_ns = sy_max_u64(since_ns, client->running_since_ns);
	since_ns = sy_max_u64(since_ns, life->disturbed_ns);
	since_ns = sy_max_u64(since_ns, sim->smooth_since_ns);
	if (client->stopped || sy_machine_state(link->machine) != SY_MACHINE_READY ||
	    sy_machine_incarnation(link->machine) != life->incarnation)
		since_ns = sim->true_ns;
	return since_ns;
}

static void look_living(struct sim_life *life, const struct sim_client *client,
                        struct sy_request_id name, const char *what)
{
	struct sim *sim = life->sim;
	struct sim_shadow *shadow = life->shadow;
	if (knows(client, life->slot, name))
		return;
	struct sim_orphan *orphan = orphan_of(shadow, name, sim->true_ns);
	if (orphan == NULL)
		return;
	orphan->seen = shadow->looks;
	orphan->since_ns = sy_max_u64(orphan->since_ns, quiet_since_ns(life, client));
	uint64_t held_ns = sim->true_ns > orphan->since_ns ? sim->true_ns - orphan->since_ns : 0;
	if (held_ns > 2 * sim->config.params.heartbeat_ns + 100 * sim->config.latency_ns)
		sim_fail(sim, 7, "u%u holds %s %016lx/%u/%lu that c%u does not know of for %.3f s",
		         life->slot, what, name.session, name.slot, name.seq, client->index,
		         (double)held_ns / 1e9);
}

/* Its client is gone: at once on this host, by leases on another. */
static void look_gone(struct sim_life *life, struct sim_session *session,
                      struct sy_request_id name, const char *what)
{
	struct sim *sim = life->sim;
	const struct sy_core_params *params = &sim->config.params;
	uint64_t limit_ns = 2 * params->heartbeat_ns + SIM_S;
	if (session->gone_ns == 0)
		session->gone_ns = sim->true_ns;
	if (!session->local)
		limit_ns += params->session_expire_ns + params->read_pin_ns + params->retire_grace_ns +
		            sim->config.fence_late_ns + 5 * SIM_S;
	uint64_t since_ns = sy_max_u64(session->gone_ns, life->disturbed_ns);
	since_ns = sy_max_u64(since_ns, sim->smooth_since_ns);
	if (!session->local) /* what it sent before it went may come long after */
		since_ns = sy_max_u64(since_ns, session->heard_ns);
	if (sim->true_ns > since_ns + limit_ns)
		sim_fail(sim, 7, "u%u holds %s %016lx/%u/%lu of a client gone %.3f s ago", life->slot,
		         what, name.session, name.slot, name.seq,
		         (double)(sim->true_ns - session->gone_ns) / 1e9);
}

static void look_at(struct sim_life *life, struct sy_request_id name, const char *what)
{
	struct sim *sim = life->sim;
	struct sim_session *session = sim_shadow_session(life, name.session);
	if (session == NULL || session->client >= SIM_CLIENTS_MAX)
		return;
	const struct sim_client *client = &sim->clients[session->client];
	if (client->alive && client->life == session->client_life)
		look_living(life, client, name, what);
	else
		look_gone(life, session, name, what);
}

static void drop_settled(struct sim_shadow *shadow)
{
	size_t kept = 0;
	for (size_t i = 0; i < shadow->orphan_count; i++) {
		if (shadow->orphans[i].seen == shadow->looks)
			shadow->orphans[kept++] = shadow->orphans[i];
	}
	shadow->orphan_count = kept;
}

/* Connecting for ever takes no room: of a client that has a newer session an older one stands only
 * while it owns something, and a connection that ended is watched only for what is left of it. */
static void look_at_records(struct sim_life *life, struct sy_core *core)
{
	if (sy_serve_pending(life->serve))
		return; /* it is at it */
	for (uint32_t i = 1; i <= core->volatiles.sessions.touched; i++) {
		const struct sy_session *s = sy_session_at(core, i);
		if (s->number == 0 || sy_session_find(core, s->number) != i ||
		    s->state != SY_SESSION_ENDED || !s->local || s->pins.count > 0 ||
		    s->blobs.count > 0 || sy_session_newest(core, &s->identity) == i)
			continue;
		sim_fail(life->sim, 7, "u%u keeps the record of session %016lx, which owns nothing and "
		         "has a successor", life->slot, s->number);
	}
	for (size_t i = 0; i < life->peer_count; i++) {
		const struct sim_peer *peer = &life->peers[i];
		if (peer->watched && !peer->lives && sy_session_token_first(core, peer->token) == 0)
			sim_fail(life->sim, 7, "u%u watches peer %lu, of which nothing is left", life->slot,
			         peer->token);
	}
}

void check_i7_look(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	if (!life->alive || life->stopped)
		return;
	struct sy_core *core = sy_serve_core(life->serve);
	shadow->looks++;
	for (uint32_t i = 1; i <= core->volatiles.pins.touched; i++) {
		const struct sy_pin *pin = sy_pin_at(core, i);
		if (pin->session != 0)
			look_at(life, pin->name, "pin");
	}
	for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
		const struct sy_blob *blob = sy_blob_at(core, i);
		if (blob->state == SY_BLOB_ALLOCATED || blob->state == SY_BLOB_RETIRED)
			look_at(life, blob->name, "reservation");
	}
	drop_settled(shadow);
	look_at_records(life, core);
}

/* All clients are gone, all leases are over, all rows are released: nothing may be left. */
void check_i7_end(struct sim_life *life)
{
	struct sy_unit_stats stats;
	const struct sy_core *core = sy_serve_core(life->serve);
	sy_serve_stats(life->serve, &stats);
	uint64_t left = stats.blobs + stats.sessions + stats.pins + stats.parked +
	                stats.reservations + stats.entries + stats.fields + stats.shapes +
	                stats.namespaces + core->volatiles.jobs.used + core->volatiles.pin_refs.used;
	uint64_t free_bytes = stats.bytes.free + stats.bytes.staging;
	if (stats.ssd_free != stats.ssd_capacity)
		sim_fail(life->sim, 7, "u%u at the end: %lu of %lu on disk", life->slot,
		         stats.ssd_capacity - stats.ssd_free, stats.ssd_capacity);
	if (left != 0 || free_bytes != stats.capacity_bytes)
		sim_fail(life->sim, 7, "u%u at the end: free %lu of %lu, blobs %lu entries %lu sessions "
		         "%lu pins %lu parked %lu reservations %lu fields %lu shapes %lu namespaces %lu",
		         life->slot, free_bytes, stats.capacity_bytes, stats.blobs, stats.entries,
		         stats.sessions, stats.pins, stats.parked, stats.reservations, stats.fields,
		         stats.shapes, stats.namespaces);
}
