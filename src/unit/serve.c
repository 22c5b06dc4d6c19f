#include "serve_state.h"

#include <stdlib.h>

#include "copy.h"
#include "failpoints.h"
#include "guard.h"

struct sy_serve_room *sy_serve_room_new(void)
{
	const size_t keys = SY_KEYS_PER_RESOLVE_MAX, entries = SY_ENTRIES_PER_BLOB_MAX;
	struct sy_serve_room *room = calloc(1, sizeof *room);
	if (room == NULL)
		return NULL;
	struct sy_resolved *resolved = &room->resolved;
	room->scratch.data = malloc(SY_SCRATCH_BYTES);
	room->scratch.bytes = SY_SCRATCH_BYTES;
	room->columns = calloc(entries, sizeof *room->columns);
	room->marks = calloc(entries, 1);
	room->held = calloc(SY_NAMES_PER_PIN_CHECK_MAX, 1);
	room->scan_items = calloc(SY_SCAN_LIMIT_MAX, sizeof *room->scan_items);
	room->scan_entries = calloc(SY_SCAN_LIMIT_MAX, sizeof *room->scan_entries);
	resolved->found = calloc(keys, 1);
	resolved->dtype = calloc(keys, 1);
	resolved->kind = calloc(keys, 1);
	resolved->offset = calloc(keys, sizeof *resolved->offset);
	resolved->nbytes = calloc(keys, sizeof *resolved->nbytes);
	resolved->generation = calloc(keys, sizeof *resolved->generation);
	resolved->dim0 = calloc(keys, sizeof *resolved->dim0);
	resolved->tail = calloc(keys, sizeof *resolved->tail);
	resolved->shapes = calloc(keys, sizeof *resolved->shapes);
	if (room->scratch.data != NULL && room->columns != NULL && room->marks != NULL &&
	    room->held != NULL && room->scan_items != NULL && room->scan_entries != NULL &&
	    resolved->found != NULL && resolved->dtype != NULL && resolved->kind != NULL &&
	    resolved->offset != NULL && resolved->nbytes != NULL && resolved->generation != NULL &&
	    resolved->dim0 != NULL && resolved->tail != NULL && resolved->shapes != NULL)
		return room;
	sy_serve_room_free(room);
	return NULL;
}

void sy_serve_room_free(struct sy_serve_room *room)
{
	if (room == NULL)
		return;
	struct sy_resolved *resolved = &room->resolved;
	sy_buf_free(&room->reply);
	sy_buf_free(&room->inline_bytes);
	free(room->scratch.data);
	free(room->index_copy);
	free(room->columns);
	free(room->marks);
	free(room->held);
	free(room->scan_items);
	free(room->scan_entries);
	free(resolved->found);
	free(resolved->dtype);
	free(resolved->kind);
	free(resolved->offset);
	free(resolved->nbytes);
	free(resolved->generation);
	free(resolved->dim0);
	free(resolved->tail);
	free(resolved->shapes);
	free(room);
}

struct sy_serve *sy_serve_new(void *arena, const struct sy_core_params *params, void *slab,
                              struct sy_serve_room *room, const struct sy_serve_io *io)
{
	struct sy_core *core = sy_core_init(arena, params);
	struct sy_serve *serve = core != NULL ? calloc(1, sizeof *serve) : NULL;
	if (serve == NULL)
		return NULL;
	serve->core = core;
	serve->params = *params;
	serve->slab = slab;
	serve->room = room;
	serve->io = *io;
	if (!sy_keep_init(&serve->keep, params->max_parked)) {
		sy_serve_free(serve);
		return NULL;
	}
	return serve;
}

void sy_serve_free(struct sy_serve *serve)
{
	if (serve == NULL)
		return;
	sy_keep_done(&serve->keep);
	free(serve);
}

/* The blob of the put_inline at hand goes to its region before anything else runs: a reply or a
 * resolve that follows may already show it. */
static void store(struct sy_serve *serve, const struct sy_effect *effect)
{
	const struct sy_span *blob = &serve->room->request.wire.put_inline.blob;
	SY_ASSERT(serve->room->request.wire.op == SY_OP_PUT_INLINE && effect->nbytes <= blob->bytes);
	SY_ASSERT(effect->offset <= serve->params.slab_bytes &&
	          effect->nbytes <= serve->params.slab_bytes - effect->offset);
	sy_copy(serve->slab + effect->offset, blob->data, (size_t)effect->nbytes,
	        (size_t)effect->nbytes);
	sy_copy_fence();
}

static bool is_current(const struct sy_event *event, const struct sy_effect *effect)
{
	return event->kind == SY_EVENT_REQUEST &&
	       sy_request_id_equal(event->request.id, effect->id);
}

/* The message at hand is kept: a new one by a copy, one that was given in again as it is. */
static void keep(struct sy_serve *serve, const struct sy_effect *effect)
{
	struct sy_serve_request *request = &serve->room->request;
	const struct sy_serve_input *input = request->input;
	SY_ASSERT(input != NULL && effect->message != 0 && effect->message == request->handle);
	if (request->offered)
		sy_keep_put(&serve->keep, request->handle, input->data, input->bytes, input->route);
	request->offered = false;
	request->kept = true;
}

static void drop(struct sy_serve *serve, const struct sy_effect *effect)
{
	struct sy_serve_request *request = &serve->room->request;
	const struct sy_serve_input *input = request->input;
	/* One that is being given in again is in use until the step is over. */
	if (input != NULL && input->redo && effect->message == request->handle)
		request->kept = false;
	else
		sy_keep_drop(&serve->keep, (uint32_t)effect->message);
}

static void run_disk(struct sy_serve *serve, const struct sy_effect *effect)
{
	SY_ASSERT(serve->io.disk != NULL);
	sy_disk_job_from(&serve->room->disk_job, effect, serve->params.incarnation);
	serve->io.disk(serve->io.context, &serve->room->disk_job);
}

/* Steps the core and runs its effects in order: one step may keep a message and ask for it or
 * drop it again. */
static void step(struct sy_serve *serve, const struct sy_event *event, uint64_t now_ns)
{
	struct sy_effects *effects = &serve->room->effects;
	effects->count = 0;
	effects->again = false;
	sy_core_step(serve->core, event, now_ns, effects);
	serve->again = effects->again;
	for (uint32_t i = 0; i < effects->count; i++) {
		const struct sy_effect *effect = &effects->items[i];
		switch (effect->kind) {
		case SY_EFFECT_REPLY:
			sy_serve_answer(serve, effect, is_current(event, effect), now_ns);
			break;
		case SY_EFFECT_STORE:
			SY_FAILPOINT(UNIT_EFFECT_STORE);
			store(serve, effect);
			SY_FAILPOINT(UNIT_STORED);
			break;
		case SY_EFFECT_KEEP:
			SY_FAILPOINT(UNIT_EFFECT_KEEP);
			keep(serve, effect);
			break;
		case SY_EFFECT_REDO:
			SY_FAILPOINT(UNIT_EFFECT_REDO);
			sy_keep_queue(&serve->keep, (uint32_t)effect->message);
			break;
		case SY_EFFECT_DROP:
			SY_FAILPOINT(UNIT_EFFECT_DROP);
			drop(serve, effect);
			break;
		case SY_EFFECT_FENCE:
			SY_ASSERT(serve->io.fence != NULL);
			serve->io.fence(serve->io.context, effect->session);
			break;
		case SY_EFFECT_PEER_DONE:
			SY_FAILPOINT(UNIT_EFFECT_PEER_DONE);
			serve->io.peer_done(serve->io.context, effect->token);
			break;
		case SY_EFFECT_DISK_WRITE:
			SY_FAILPOINT(UNIT_EFFECT_DISK_WRITE);
			run_disk(serve, effect);
			break;
		case SY_EFFECT_DISK_READ:
			SY_FAILPOINT(UNIT_EFFECT_DISK_READ);
			run_disk(serve, effect);
			break;
		}
	}
}

/* What the core may park; the rest needs no room. */
static bool may_park(enum sy_op op)
{
	return op == SY_OP_ALLOC || op == SY_OP_PUT_INLINE || op == SY_OP_RESOLVE_KEYS;
}

/* Gives a message to the core. True: one that was given in again stays kept. */
static bool give(struct sy_serve *serve, const struct sy_serve_input *input, uint64_t now_ns)
{
	struct sy_serve_request *request = &serve->room->request;
	struct sy_scratch *scratch = &serve->room->scratch;
	struct sy_event event = {.kind = SY_EVENT_REQUEST};
	struct sy_request_id id = {0};
	*request = (struct sy_serve_request){.input = input, .handle = input->handle};
	scratch->used = 0;
	if (sy_request_decode(input->data, input->bytes, scratch, &request->wire, &id, NULL) !=
	    SY_OK) {
		serve->unreadable_count++;
		if (id.session != 0 || id.seq != 0)
			sy_serve_refuse(serve, input->route, id, SY_OP_INFO, SY_WHY_MALFORMED, now_ns);
		request->input = NULL;
		return false;
	}
	SY_FAILPOINT_OP(UNIT_GOT, request->wire.op);
	SY_FAILPOINT_NOTICES(UNIT_NOTICE, request->wire.notices, request->wire.notice_count);
	if (!input->redo && may_park(request->wire.op))
		request->handle = sy_keep_offer(&serve->keep, input->bytes);
	request->offered = !input->redo && request->handle != 0;
	enum sy_why why = SY_WHY_NONE;
	event.request.route = input->route;
	event.request.redo = input->redo;
	event.request.message = request->handle;
	if (sy_serve_fill(serve, &event.request, &why))
		step(serve, &event, now_ns);
	else
		sy_serve_refuse(serve, input->route, request->wire.id, request->wire.op, why, now_ns);
	if (request->offered)
		sy_keep_withdraw(&serve->keep, request->handle);
	request->input = NULL;
	return request->kept;
}

/* Gives queued messages in again. The core may park each anew and ask for further ones; a round
 * gives in no more than there were at most, the rest waits for the next call. */
static void redo(struct sy_serve *serve, uint64_t now_ns)
{
	for (uint32_t round = 0; round < serve->params.max_parked; round++) {
		uint32_t handle = sy_keep_next(&serve->keep);
		if (handle == 0)
			return;
		const struct sy_kept_message *kept = sy_keep_get(&serve->keep, handle);
		const struct sy_serve_input input = {
			.route = kept->route, .data = kept->data, .bytes = kept->bytes,
			.handle = handle, .redo = true,
		};
		if (!give(serve, &input, now_ns))
			sy_keep_drop(&serve->keep, handle);
	}
}

static void run(struct sy_serve *serve, const struct sy_event *event, uint64_t now_ns)
{
	step(serve, event, now_ns);
	redo(serve, now_ns);
}

void sy_serve_message(struct sy_serve *serve, uint64_t route, const void *message, size_t bytes,
                      uint64_t now_ns)
{
	const struct sy_serve_input input = {.route = route, .data = message, .bytes = bytes};
	(void)give(serve, &input, now_ns); /* a copy is kept where it had to be */
	redo(serve, now_ns);
}

void sy_serve_peer(struct sy_serve *serve, enum sy_event_kind kind, uint64_t token,
                   uint64_t last_notice, uint64_t now_ns)
{
	SY_ASSERT(kind == SY_EVENT_PEER_BYE || kind == SY_EVENT_PEER_EOF ||
	          kind == SY_EVENT_PEER_GONE);
	const struct sy_event event = {
		.kind = kind, .peer = {.token = token, .last_notice = last_notice}};
	run(serve, &event, now_ns);
}

void sy_serve_fenced(struct sy_serve *serve, uint64_t session, uint64_t now_ns)
{
	const struct sy_event event = {.kind = SY_EVENT_FENCED, .fenced = {.session = session}};
	run(serve, &event, now_ns);
}

void sy_serve_state(struct sy_serve *serve, enum sy_unit_state state, uint64_t now_ns)
{
	const struct sy_event event = {.kind = SY_EVENT_STATE, .unit = {.state = state}};
	run(serve, &event, now_ns);
}

void sy_serve_stalled(struct sy_serve *serve, uint64_t gap_ns, uint64_t now_ns)
{
	const struct sy_event event = {.kind = SY_EVENT_STALLED, .stalled = {.gap_ns = gap_ns}};
	run(serve, &event, now_ns);
}

void sy_serve_disk(struct sy_serve *serve, uint32_t blob, uint64_t grant, uint8_t result,
                   uint64_t now_ns)
{
	const struct sy_event event = {
		.kind = SY_EVENT_DISK,
		.disk = {.blob = blob, .grant = grant, .result = result}};
	SY_FAILPOINT(UNIT_DISK_DONE);
	run(serve, &event, now_ns);
}

void sy_serve_tick(struct sy_serve *serve, uint64_t now_ns)
{
	const struct sy_event event = {.kind = SY_EVENT_TICK};
	run(serve, &event, now_ns);
}

bool sy_serve_pending(const struct sy_serve *serve)
{
	return serve->again || serve->keep.queue_head != 0;
}

void sy_serve_continue(struct sy_serve *serve, uint64_t now_ns)
{
	const struct sy_event event = {.kind = SY_EVENT_CONTINUE};
	if (serve->keep.queue_head != 0)
		redo(serve, now_ns);
	else if (serve->again)
		run(serve, &event, now_ns);
}

uint64_t sy_serve_deadline(const struct sy_serve *serve)
{
	return sy_core_deadline(serve->core);
}

struct sy_core *sy_serve_core(struct sy_serve *serve)
{
	return serve->core;
}

void sy_serve_stats(struct sy_serve *serve, struct sy_unit_stats *ret_stats)
{
	sy_core_stats(serve->core, ret_stats);
	/* The core never saw these. */
	ret_stats->allow_tcp = serve->io.allow_tcp;
	ret_stats->requests += serve->unreadable_count;
	ret_stats->protocol_errors += serve->unreadable_count;
}
