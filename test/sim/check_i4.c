/* I4: a request may arrive twice, late and out of order, and has its effect once or never. */
#include "sim_check.h"
#include "session.h"

/* May a request of this name have an effect now, as far as its slot goes? */
static void check_slot(struct sim_life *life, const struct sim_request *r, const char *what)
{
	const struct sim_session *s = sim_shadow_session(life, r->id.session);
	if (r->given_up)
		sim_fail(life->sim, 4, "u%u ran %s %016lx/%u/%lu after it was given up", life->slot, what,
		         r->id.session, r->id.slot, r->id.seq);
	else if (s != NULL && r->id.slot < SY_SLOT_COUNT && r->id.seq < s->highest_seq[r->id.slot])
		sim_fail(life->sim, 4, "u%u ran %s %016lx/%u/%lu after a later one of its slot",
		         life->slot, what, r->id.session, r->id.slot, r->id.seq);
}

void check_i4_granted(struct sim_life *life, struct sy_request_id name, uint64_t generation)
{
	struct sim_request *r = sim_shadow_request(life->shadow, name);
	if (r == NULL || (r->op != SY_OP_ALLOC && r->op != SY_OP_COMMIT)) {
		sim_fail(life->sim, 4, "u%u granted a region to no alloc and no commit", life->slot);
		return;
	}
	const char *what = sy_op_name((uint8_t)r->op);
	if (r->generation != 0)
		sim_fail(life->sim, 4, "u%u ran %s %016lx/%u/%lu twice", life->slot, what, name.session,
		         name.slot, name.seq);
	check_slot(life, r, what);
	check_i5_ran(life, r);
	r->generation = generation;
}

void check_i4_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation)
{
	const struct sim_request *r = life->shadow->current;
	if (put->accepted_life == life->number && put->accepted_count >= put->tries)
		sim_fail(life->sim, 4, "u%u accepted put %lu %u times, asked for %u times: generations "
		         "%lu and %lu", life->slot, put->number, put->accepted_count + 1, put->tries,
		         put->accepted_generation, generation);
	if (r != NULL && (r->op == SY_OP_COMMIT || r->put == put))
		check_slot(life, r, sy_op_name((uint8_t)r->op));
}

void check_i4_ran(struct sim_life *life, struct sim_request *request)
{
	if (request->ran)
		sim_fail(life->sim, 4, "u%u ran %s %016lx/%u/%lu twice", life->slot,
		         sy_op_name((uint8_t)request->op), request->id.session, request->id.slot,
		         request->id.seq);
	check_slot(life, request, sy_op_name((uint8_t)request->op));
	request->ran = true;
}

/* Notices run in order, each once. */
void check_i4_notices(struct sim_life *life)
{
	struct sy_core *core = sy_serve_core(life->serve);
	const struct sim_request *r = life->shadow->current;
	if (r == NULL)
		return;
	const struct sim_session *s = sim_shadow_session(life, r->id.session);
	uint32_t at = sy_session_find(core, r->id.session);
	if (s != NULL && at != 0 && sy_session_at(core, at)->notices_done != s->notices_done)
		sim_fail(life->sim, 4, "u%u executed notices of %016lx up to %lu, in order it is %lu",
		         life->slot, s->number, sy_session_at(core, at)->notices_done, s->notices_done);
}
