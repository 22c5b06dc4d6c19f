/* A stranger: it overhears what is sent, has a session of its own, and tries what it likes with
 * the names and blobs of others, with garbage, and with numbers out of range. */
#include <stdlib.h>

#include "sim.h"

#define STRANGER_SEQ ((uint64_t)1 << 40)

static uint64_t connection_to(struct sim *sim, uint32_t slot)
{
	return sim_connect(sim, SIM_CLIENTS_MAX, slot);
}

static void post(struct sim *sim, uint32_t slot, const void *bytes, size_t count)
{
	struct sim_event event = {.kind = SIM_TO_UNIT, .who = slot, .bytes_count = count,
	                          .number = connection_to(sim, slot)};
	event.bytes = malloc(count + 1);
	if (event.bytes == NULL)
		abort();
	memcpy(event.bytes, bytes, count);
	sim_at(sim, 1 + sim_draw(sim, sim->config.latency_ns), event);
}

static void send(struct sim *sim, uint32_t slot, const struct sy_request *request)
{
	struct sy_buf buf = {0};
	sy_request_encode(request, &buf);
	if (!buf.failed) {
		if (sim_strikes(sim, SIM_FAULT_GARBAGE))
			buf.data[sim_draw(sim, buf.bytes)] ^= (uint8_t)(1 << sim_draw(sim, 8));
		post(sim, slot, buf.data, buf.bytes);
	}
	sy_buf_free(&buf);
}

void sim_stranger_heard(struct sim *sim, uint32_t slot, const void *bytes, size_t count)
{
	struct sim_event heard = {.who = slot, .bytes_count = count};
	if (sim->config.rate[SIM_FAULT_STRANGER] == 0 || sim_draw(sim, 4) != 0)
		return;
	heard.bytes = malloc(count + 1);
	if (heard.bytes == NULL)
		abort();
	memcpy(heard.bytes, bytes, count);
	if (sim->caught.count < SIM_CAUGHT_MAX) {
		sim_events_push(&sim->caught, &heard);
		return;
	}
	struct sim_event *old = &sim->caught.items[sim_draw(sim, SIM_CAUGHT_MAX)];
	free(old->bytes);
	*old = heard;
}

void sim_stranger_reply(struct sim *sim, struct sim_life *life, const void *bytes, size_t count)
{
	struct sy_request_id id;
	struct sy_reply reply;
	if (sy_reply_peek(bytes, count, &id, NULL) != SY_OK || id.session != 0 ||
	    id.seq < STRANGER_SEQ)
		return;
	size_t used = sim->scratch.used;
	if (sy_reply_decode(bytes, count, SY_OP_HELLO, 0, &sim->scratch, &reply, NULL) == SY_OK &&
	    reply.outcome.fault == SY_FAULT_NONE) {
		sim->stranger_session[life->slot] = reply.hello.session;
		sim->stranger_life[life->slot] = life->number;
	}
	sim->scratch.used = used;
}

/* A right hello, or one that is wrong in one way. */
static void say_hello(struct sim *sim, uint32_t slot)
{
	struct sy_request request = {
		.op = SY_OP_HELLO,
		.id = {.seq = STRANGER_SEQ + sim->stranger_seq++},
		.hello = {.version = SY_PROTOCOL_VERSION, .slot_count = sim->config.units,
		          .ns = sim_space(0), .connection_count = sim->stranger_seq,
		          .identity = {.random = 0x57a46e4, .pid = 7}},
	};
	switch (sim_draw(sim, 8)) {
	case 0:
		request.hello.version++;
		break;
	case 1:
		request.hello.slot_count++;
		break;
	case 2:
		request.hello.ns.bytes = 0;
		break;
	case 3:
		request.hello.token = 12345;
		break;
	default:
		break;
	}
	send(sim, slot, &request);
}

static struct sy_request of_own(struct sim *sim, uint32_t slot, enum sy_op op)
{
	return (struct sy_request){
		.op = op, .id = {.session = sim->stranger_session[slot],
		                 .slot = (uint32_t)sim_draw(sim, 3), .seq = ++sim->stranger_seq}};
}

/* What somebody else asked, asked again by the stranger, or turned against what it made. */
static void meddle(struct sim *sim, uint32_t slot, const struct sy_request *heard)
{
	struct sy_notice notice = {.kind = (enum sy_notice_kind)(1 + sim_draw(sim, 3)),
	                           .in_flight = sim_draw(sim, 2) == 0, .name = heard->id};
	struct sy_request request = of_own(sim, slot, SY_OP_INFO);
	if (heard->op == SY_OP_COMMIT && sim_draw(sim, 2) == 0) {
		request = *heard;
		request.id = of_own(sim, slot, SY_OP_COMMIT).id;
	} else if (heard->op == SY_OP_ALLOC && sim_draw(sim, 3) == 0) {
		request = *heard;
		request.id = of_own(sim, slot, SY_OP_ALLOC).id;
		if (sim_draw(sim, 3) != 0)
			request.alloc.nbytes = 0;
	} else {
		request.notices = &notice;
		request.notice_count = 1;
		request.first_notice = sim_draw(sim, 3) == 0 ? sim_draw(sim, 100)
		                                             : ++sim->stranger_notice;
	}
	if (request.op != SY_OP_INFO) {
		request.notice_count = 0;
		request.notices = NULL;
		request.first_notice = 0;
	}
	send(sim, slot, &request);
}

static void out_of_range(struct sim *sim, uint32_t slot)
{
	static const uint64_t rows[SY_KEYS_PER_RESOLVE_MAX];
	struct sy_span fields[2] = {sim_field(0), sim_field(1)};
	struct sy_request request = of_own(sim, slot, SY_OP_INFO);
	if (sim_draw(sim, 2) == 0) {
		request.id.slot = SY_SLOT_COUNT + (uint32_t)sim_draw(sim, 3);
	} else {
		request.op = SY_OP_RESOLVE_KEYS;
		request.resolve = (struct sy_resolve_args){.rows = rows, .fields = fields,
		                                           .row_count = SY_KEYS_PER_RESOLVE_MAX,
		                                           .field_count = 2};
	}
	send(sim, slot, &request);
}

static void garbage(struct sim *sim, uint32_t slot, const struct sim_event *heard)
{
	uint8_t bytes[64];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)sim_draw(sim, 256);
	if (sim_draw(sim, 2) == 0)
		post(sim, slot, bytes, sim_draw(sim, sizeof bytes));
	else
		post(sim, slot, heard->bytes, sim_draw(sim, heard->bytes_count));
}

static void act(struct sim *sim)
{
	const struct sim_event *heard = &sim->caught.items[sim_draw(sim, sim->caught.count)];
	uint32_t slot = heard->who;
	struct sy_request wire;
	struct sy_request_id id;
	if (sim_strikes(sim, SIM_FAULT_GARBAGE)) {
		garbage(sim, slot, heard);
		return;
	}
	if (!sim_strikes(sim, SIM_FAULT_STRANGER))
		return;
	sim->peek_scratch.used = 0;
	if (sim->stranger_life[slot] != sim->units[slot].life->number || sim_draw(sim, 10) == 0)
		say_hello(sim, slot);
	else if (sim_draw(sim, 10) == 0)
		out_of_range(sim, slot);
	else if (sy_request_decode(heard->bytes, heard->bytes_count, &sim->peek_scratch, &wire, &id,
	                           NULL) == SY_OK && wire.op != SY_OP_HELLO)
		meddle(sim, slot, &wire);
}

void sim_stranger_turn(struct sim *sim)
{
	if (sim->winding_down || sim->config.rate[SIM_FAULT_STRANGER] == 0)
		return;
	if (sim->caught.count > 0)
		act(sim);
	sim_at(sim, 1 + sim_draw(sim, 10 * SIM_MS), (struct sim_event){.kind = SIM_STRANGER});
}
