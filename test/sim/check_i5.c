/* I5: a stale actor changes nothing: another session, incarnation or generation is refused. */
#include "sim_check.h"
#include "pin.h"
#include "reserve.h"

static struct sim_task *task_of(struct sim_client *client, uint32_t slot,
                                struct sy_request_id id)
{
	for (uint32_t i = 0; i < client->sim->config.tasks; i++) {
		struct sim_task *task = &client->tasks[i];
		if (task->state == SIM_TASK_RUNNING && task->slot == slot &&
		    task->op.stage == SY_OP_STAGE_SENT && task->op.slot == id.slot &&
		    task->op.seq == id.seq)
			return task;
	}
	return NULL;
}

static bool changes_unit(enum sy_op op)
{
	return op == SY_OP_ALLOC || op == SY_OP_COMMIT || op == SY_OP_PUT_INLINE ||
	       op == SY_OP_RELEASE_ROWS;
}

/* What a client's machine sends: no resolve twice (I4), no mutation under another session. */
void check_sent(struct sim_client *client, uint32_t slot, const void *bytes, size_t count)
{
	struct sim *sim = client->sim;
	struct sim_link *link = &client->links[slot];
	struct sy_request wire;
	struct sy_request_id id;
	sim->peek_scratch.used = 0;
	if (sy_request_decode(bytes, count, &sim->peek_scratch, &wire, &id, NULL) != SY_OK) {
		sim_fail(sim, -1, "c%u/u%u sent what cannot be read", client->index, slot);
		return;
	}
	sim_log(sim, "c%u/u%u sends %s %016lx/%u/%lu", client->index, slot,
	        sy_op_name((uint8_t)wire.op), id.session, id.slot, id.seq);
	if (wire.op == SY_OP_RESOLVE_KEYS) {
		if (link->resolve_session == id.session && link->resolve_seq[id.slot] >= id.seq)
			sim_fail(sim, 4, "c%u/u%u sent resolve %u/%lu again", client->index, slot, id.slot,
			         id.seq);
		if (link->resolve_session != id.session)
			memset(link->resolve_seq, 0, sizeof link->resolve_seq);
		link->resolve_session = id.session;
		link->resolve_seq[id.slot] = id.seq;
	}
	struct sim_task *task = changes_unit(wire.op) ? task_of(client, slot, id) : NULL;
	if (task == NULL)
		return;
	if (task->mutating_session != 0 && task->mutating_session != id.session)
		sim_fail(sim, 5, "c%u/u%u carried %s of op %lu over into another session", client->index,
		         slot, sy_op_name((uint8_t)wire.op), task->number);
	task->mutating_session = id.session;
}

/* A held thing named by somebody who does not own it. */
static bool is_held(struct sy_core *core, struct sy_request_id name)
{
	uint32_t pin = sy_pin_find(core, name);
	return (pin != 0 && !sy_pin_at(core, pin)->loose) || sy_reserve_find(core, name) != 0;
}

static bool owner_lives(struct sy_core *core, struct sy_request_id name)
{
	uint32_t at = sy_session_find(core, name.session);
	return at != 0 && sy_session_at(core, at)->state == SY_SESSION_LIVE;
}

void check_i5_before(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	const struct sy_request *wire = &shadow->wire;
	const struct sim_session *s = sim_shadow_session(life, wire->id.session);
	for (uint32_t i = 0; i < wire->notice_count; i++) {
		struct sy_request_id name = wire->notices[i].name;
		const struct sim_session *owner = sim_shadow_session(life, name.session);
		bool strange = owner != NULL && (owner->client != s->client ||
		                                 owner->client_life != s->client_life);
		if (strange && owner_lives(core, name) && is_held(core, name))
			shadow->strange[shadow->strange_count++] = name;
	}
}

void check_i5_after(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	for (size_t i = 0; i < shadow->strange_count; i++) {
		struct sy_request_id name = shadow->strange[i];
		if (owner_lives(core, name) && !is_held(core, name))
			sim_fail(life->sim, 5, "u%u let a stranger give back %016lx/%u/%lu", life->slot,
			         name.session, name.slot, name.seq);
	}
}

void check_i5_ran(struct sim_life *life, const struct sim_request *request)
{
	if (request == life->shadow->current && !life->shadow->session_lived)
		sim_fail(life->sim, 5, "u%u ran %s of session %016lx, which had ended", life->slot,
		         sy_op_name((uint8_t)request->op), request->id.session);
}

void check_i5_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation)
{
	const struct sim_shadow *shadow = life->shadow;
	const struct sim_request *r = shadow->current;
	const struct sim_grant *grant = &shadow->grants[generation];
	bool inlined = grant->name.session == 0;
	if (r == NULL || (r->op != SY_OP_COMMIT && r->put != put) ||
	    (r->op == SY_OP_COMMIT && inlined))
		return; /* a parked put_inline whose turn came */
	check_i5_ran(life, r);
	if (r->op != SY_OP_COMMIT)
		return;
	if (shadow->wire.commit.generation != generation)
		sim_fail(life->sim, 5, "u%u committed put %lu of generation %lu for generation %lu",
		         life->slot, put->number, generation, shadow->wire.commit.generation);
	if (grant->name.session != r->id.session)
		sim_fail(life->sim, 5, "u%u committed put %lu for a session that did not allocate it",
		         life->slot, put->number);
}
