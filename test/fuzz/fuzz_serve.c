/* The unit's pure part against clients that send anything: raw bytes, well-formed requests with
 * any contents and any names, bytes that change on the way, ends of processes, ticks, and writes
 * all over the slab. After each step the audit holds and every reply decodes as the answer to
 * its request; when all clients are gone nothing of theirs is left.
 *
 * An input is a mode byte (1: writers on other hosts) and steps, one after the other. */
#include "fuzz.h"

#include "blob.h"
#include "fuzz_blob.h"
#include "serve.h"
#include "serve_state.h"

enum {
	SLAB_BYTES = 32 << 10, STEPS_MAX = 128, CLIENTS = 4, SLOTS = 4, NAMES = 16, BLOBS = 16,
	FENCES_MAX = 256, SESSIONS = 8, LONG_ROWS = 2048,
};

static const uint64_t second_ns = 1000000000u;

/* A message that was sent: its number is the route that its reply comes by. */
struct sent {
	bool is_readable;
	enum sy_op op;
	uint32_t key_count;
	uint32_t blob; /* of an alloc, its number */
	struct sy_request_id id;
};

static struct {
	struct sy_serve *serve;
	void *arena;
} units[2];

static struct sy_core_params params;
static _Alignas(64) uint8_t slab[SLAB_BYTES];
static _Alignas(16) uint8_t scratch_bytes[SY_SCRATCH_BYTES];
static uint64_t long_rows[LONG_ROWS];

/* What stands during one input. */
static struct {
	struct sy_serve *serve;
	uint64_t now_ns;
	struct sent sent[STEPS_MAX + 1];
	uint32_t sent_count;
	uint64_t sessions[SESSIONS]; /* of hellos, the newest over the oldest */
	uint64_t seqs[SESSIONS][SLOTS], notices[SESSIONS];
	uint32_t session_count;
	uint64_t tokens[CLIENTS], next_token, connections[CLIENTS];
	uint64_t ended[STEPS_MAX]; /* tokens whose socket is gone and whose process is not */
	uint32_t ended_count;
	struct sy_request_id names[NAMES]; /* that notices may name */
	uint32_t name_count;
	struct {
		uint64_t offset, generation;
	} grants[BLOBS]; /* of each blob's last alloc */
	struct sy_reply early; /* the last that granted a region for a put still to come */
	uint64_t fences[FENCES_MAX];
	uint32_t fence_count;
} run;

static void got_session(uint64_t session)
{
	for (uint32_t i = 0; i < SESSIONS; i++) {
		if (run.sessions[i] == session)
			return;
	}
	uint32_t at = run.session_count++ % SESSIONS;
	run.sessions[at] = session;
	run.notices[at] = 0;
	memset(run.seqs[at], 0, sizeof run.seqs[at]);
}

static void check_region(uint64_t offset, uint64_t nbytes)
{
	FUZZ_CHECK(offset <= SLAB_BYTES && nbytes <= SLAB_BYTES - offset);
}

static void look(const struct sent *sent, const struct sy_reply *reply)
{
	switch (sent->op) {
	case SY_OP_HELLO:
		got_session(reply->hello.session);
		break;
	case SY_OP_ALLOC:
		if (reply->outcome.answer != SY_ANSWER_REGION)
			break;
		FUZZ_CHECK(reply->outcome.offset % SY_ENTRY_ALIGN_BYTES == 0);
		check_region(reply->outcome.offset, 1);
		run.grants[sent->blob].offset = reply->outcome.offset;
		run.grants[sent->blob].generation = reply->outcome.generation;
		break;
	case SY_OP_RESOLVE_KEYS:
		for (uint32_t k = 0; k < reply->key_count; k++) {
			if (reply->resolved.found[k] == SY_FOUND_PINNED)
				check_region(reply->resolved.offset[k], reply->resolved.nbytes[k]);
		}
		break;
	case SY_OP_COMMIT:
		if (reply->outcome.generation != 0)
			run.early = *reply;
		break;
	case SY_OP_PUT_INLINE:
	case SY_OP_RELEASE_ROWS:
	case SY_OP_PIN_CHECK:
	case SY_OP_HEARTBEAT:
	case SY_OP_SCAN:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
}

static void on_send(void *context, uint64_t route, const void *message, size_t bytes)
{
	struct sy_scratch scratch = {.data = scratch_bytes, .bytes = sizeof scratch_bytes};
	struct sy_reply reply;
	sy_error err = {0};
	(void)context;
	FUZZ_CHECK(route >= 1 && route <= run.sent_count);
	const struct sent *sent = &run.sent[route];
	uint8_t *copy = fuzz_copy(message, bytes);
	if (sy_reply_decode(copy, bytes, sent->op, sent->key_count, &scratch, &reply, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	FUZZ_CHECK(sy_request_id_equal(reply.id, sent->id));
	FUZZ_CHECK(reply.unit_now_ns == run.now_ns);
	FUZZ_CHECK(sent->is_readable || reply.outcome.fault == SY_FAULT_PROTOCOL);
	if (reply.outcome.fault == SY_FAULT_NONE)
		look(sent, &reply);
	free(copy);
}

static bool on_token(void *context, uint64_t token)
{
	(void)context;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (run.tokens[i] == token)
			return true;
	}
	return false;
}

static void on_fence(void *context, uint64_t session)
{
	(void)context;
	FUZZ_CHECK(run.fence_count < FENCES_MAX);
	run.fences[run.fence_count++] = session;
}

static void on_peer_done(void *context, uint64_t token)
{
	(void)context;
	(void)token;
}

static void audit(void)
{
	const char *fault = sy_core_audit(sy_serve_core(run.serve));
	if (fault != NULL)
		fuzz_fail(__FILE__, __LINE__, fault);
}

static void give(const uint8_t *data, size_t bytes)
{
	struct sy_scratch scratch = {.data = scratch_bytes, .bytes = sizeof scratch_bytes};
	struct sent *sent = &run.sent[++run.sent_count];
	struct sy_request request;
	uint8_t *message = fuzz_copy(data, bytes);
	*sent = (struct sent){.op = SY_OP_INFO};
	sent->is_readable =
		sy_request_decode(message, bytes, &scratch, &request, &sent->id, NULL) == SY_OK;
	if (sent->is_readable) {
		sent->op = request.op;
		if (request.op == SY_OP_RESOLVE_KEYS)
			sent->key_count = request.resolve.row_count *
			                  (request.resolve.field_of != NULL ? 1 : request.resolve.field_count);
		else if (request.op == SY_OP_PIN_CHECK)
			sent->key_count = request.pin_check.count;
		else if (request.op == SY_OP_SCAN)
			sent->key_count = request.scan.limit;
		else if (request.op == SY_OP_ALLOC)
			sent->blob = request.alloc.blob_id.bytes[0] % BLOBS;
		run.names[run.name_count++ % NAMES] = request.id;
	}
	sy_serve_message(run.serve, run.sent_count, message, bytes, run.now_ns);
	free(message);
}

/* --- well-formed requests ------------------------------------------------------------------ */

static const uint64_t *draw_rows(struct fuzz_input *input, uint32_t *ret_count)
{
	static uint64_t rows[16];
	uint8_t count = fuzz_u8(input);
	if (count >= 128) { /* many, so that a release takes several steps */
		*ret_count = (count - 127u) * (LONG_ROWS / 128);
		return long_rows;
	}
	*ret_count = count % 16;
	for (uint32_t i = 0; i < *ret_count; i++)
		rows[i] = fuzz_blob_row(fuzz_u8(input));
	return rows;
}

static const struct sy_span *draw_fields(struct fuzz_input *input, uint32_t *ret_count)
{
	static struct sy_span fields[8];
	*ret_count = fuzz_below(input, 8);
	for (uint32_t i = 0; i < *ret_count; i++)
		fields[i] = fuzz_blob_field(fuzz_u8(input));
	return fields;
}

static uint64_t draw_until(struct fuzz_input *input)
{
	uint8_t left = fuzz_u8(input);
	return left == 0 ? 0 : left == 255 ? UINT64_MAX : run.now_ns + left * (second_ns / 16);
}

static void draw_hello(struct fuzz_input *input, struct sy_hello_args *hello)
{
	static const char *const spaces[] = {"run", "a", "\xc3\xa9", "", "b", "c"};
	uint32_t client = fuzz_below(input, CLIENTS);
	uint8_t how = fuzz_u8(input);
	const char *ns = spaces[how % COUNT_OF(spaces)];
	hello->version = SY_PROTOCOL_VERSION + (how == 255);
	hello->slot_count = how == 254 ? 2 : 3;
	hello->ns = (struct sy_span){(const uint8_t *)ns, strlen(ns)};
	hello->identity = (struct sy_identity){.random = 90 + client, .pid = client};
	run.connections[client] += how % 3 == 0;
	hello->connection_count = run.connections[client] - (how % 16 == 15);
	hello->token = run.tokens[client];
	if (how % 8 == 7)
		hello->token = 0;
	if (how == 253)
		hello->token = 99999;
}

static void draw_names(struct fuzz_input *input, struct sy_pin_check_args *args)
{
	static struct sy_request_id names[8];
	args->count = fuzz_below(input, 8);
	for (uint32_t i = 0; i < args->count; i++)
		names[i] = run.names[fuzz_below(input, NAMES)];
	args->names = names;
}

static void draw_put(struct fuzz_input *input, struct sy_request *request)
{
	uint8_t number = fuzz_u8(input) % BLOBS;
	static struct fuzz_blob made;
	struct fuzz_blob *blob = &made;
	fuzz_blob_make(blob, number);
	uint8_t how = fuzz_u8(input);
	if (request->op == SY_OP_ALLOC) {
		request->alloc = (struct sy_alloc_args){
			.blob_id = blob->index.blob_id, .nbytes = blob->index.blob_bytes,
			.entry_count = blob->index.entry_count, .until_ns = draw_until(input),
			.ssd = how == 1};
		if (how >= 192) /* much of the slab */
			request->alloc.nbytes = (uint64_t)(how - 191) * (SLAB_BYTES / 32);
		if (how == 191)
			request->alloc.nbytes = fuzz_number(input, 8);
		if (how == 190)
			request->alloc.entry_count = (uint32_t)fuzz_number(input, 4);
	} else if (request->op == SY_OP_COMMIT) {
		request->commit = (struct sy_commit_args){
			.blob_id = blob->index.blob_id, .generation = run.grants[number].generation,
			.until_ns = draw_until(input)};
		request->commit.generation += how == 255;
		uint64_t offset = run.grants[number].offset;
		if (how % 4 == 1)
			request->commit.next_bytes = blob->index.blob_bytes;
		if (how % 8 == 2) { /* what it wrote to a grant, or says it did */
			offset = run.early.outcome.offset;
			request->commit.grant = run.early.id;
			request->commit.generation = run.early.outcome.generation;
			request->commit.nbytes = how < 160 ? blob->index.blob_bytes : fuzz_number(input, 8);
			request->commit.entry_count = blob->index.entry_count;
		}
		/* What a client that plays by the rules did before. */
		if (how < 192 && offset + blob->index.blob_bytes <= SLAB_BYTES)
			memcpy(slab + offset, blob->bytes, blob->index.blob_bytes);
	} else {
		for (uint8_t i = 0; i < how % 4 && how >= 128; i++)
			blob->bytes[fuzz_number(input, 2) % blob->index.blob_bytes] ^= fuzz_u8(input);
		request->put_inline = (struct sy_put_inline_args){
			.blob_id = blob->index.blob_id, .until_ns = draw_until(input),
			.blob = {blob->bytes, blob->index.blob_bytes}};
	}
}

static void draw_args(struct fuzz_input *input, struct sy_request *request)
{
	switch (request->op) {
	case SY_OP_HELLO:
		draw_hello(input, &request->hello);
		break;
	case SY_OP_ALLOC:
	case SY_OP_COMMIT:
	case SY_OP_PUT_INLINE:
		draw_put(input, request);
		break;
	case SY_OP_RESOLVE_KEYS:
		request->resolve.rows = draw_rows(input, &request->resolve.row_count);
		request->resolve.fields = draw_fields(input, &request->resolve.field_count);
		request->resolve.inline_max_bytes = (uint32_t)fuzz_u8(input) * 4;
		break;
	case SY_OP_RELEASE_ROWS:
		request->release.rows = draw_rows(input, &request->release.row_count);
		request->release.fields = draw_fields(input, &request->release.field_count);
		request->release.all_fields = fuzz_below(input, 2) == 0;
		break;
	case SY_OP_PIN_CHECK:
		draw_names(input, &request->pin_check);
		break;
	case SY_OP_SCAN:
		request->scan.fields = draw_fields(input, &request->scan.field_count);
		request->scan.cursor = fuzz_u8(input);
		request->scan.first_row = fuzz_blob_row(fuzz_u8(input));
		request->scan.last_row = fuzz_blob_row(fuzz_u8(input));
		request->scan.limit = 1 + fuzz_below(input, 64);
		break;
	case SY_OP_HEARTBEAT:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
}

/* From which session, in which slot, under which seq, with which notices. */
static void draw_name(struct fuzz_input *input, struct sy_request *request)
{
	static struct sy_notice notices[4];
	uint8_t how = fuzz_u8(input);
	uint32_t session = how % SESSIONS, slot = how / SESSIONS % SLOTS;
	uint64_t *seq = &run.seqs[session][slot];
	request->id = (struct sy_request_id){.session = run.sessions[session], .slot = slot};
	how = fuzz_u8(input);
	*seq += how < 192;
	request->id.seq = *seq - (how >= 224 && *seq > 0);
	if (how == 255)
		request->id.slot = (uint32_t)fuzz_number(input, 4);
	request->notice_count = how % 8 < 4 ? 0 : how % 8 - 3u;
	for (uint32_t i = 0; i < request->notice_count && i < COUNT_OF(notices); i++) {
		uint8_t kind = fuzz_u8(input);
		notices[i].kind = (enum sy_notice_kind)(1 + kind % 3);
		notices[i].in_flight = kind / 3 % 2 != 0;
		notices[i].name = run.names[kind / 6 % NAMES];
	}
	request->notices = notices;
	uint64_t *last = &run.notices[session];
	request->first_notice = *last + 1 - (how % 16 == 15 && *last > 0);
	*last = request->first_notice - 1 + request->notice_count;
}

static void step_request(struct fuzz_input *input, bool soiled)
{
	static struct sy_buf buf;
	struct sy_request request;
	memset(&request, 0, sizeof request);
	request.op = (enum sy_op)(1 + fuzz_below(input, SY_OP_STATS));
	draw_name(input, &request);
	draw_args(input, &request);
	sy_buf_reset(&buf);
	sy_request_encode(&request, &buf);
	FUZZ_CHECK(!buf.failed);
	for (uint32_t i = 0; soiled && i < 3; i++)
		buf.data[fuzz_number(input, 2) % buf.bytes] = fuzz_u8(input);
	give(buf.data, buf.bytes);
}

/* --- everything else ----------------------------------------------------------------------- */

/* A process goes that has said bye, or whose socket ended. */
static void end_process(uint32_t at)
{
	if (run.ended_count == 0)
		return;
	at %= run.ended_count;
	uint64_t token = run.ended[at];
	run.ended[at] = run.ended[--run.ended_count];
	sy_serve_peer(run.serve, SY_EVENT_PEER_GONE, token, 0, run.now_ns);
}

/* The token of a connection that ended lives no longer; its client gets another one. */
static void step_peer(struct fuzz_input *input)
{
	static const enum sy_event_kind kinds[] = {SY_EVENT_PEER_BYE, SY_EVENT_PEER_EOF,
	                                           SY_EVENT_PEER_GONE};
	uint8_t how = fuzz_u8(input);
	uint32_t client = how % CLIENTS;
	uint64_t token = run.tokens[client];
	uint8_t kind = how / CLIENTS % (COUNT_OF(kinds) + 1);
	if (kind == COUNT_OF(kinds)) {
		end_process(how / 16);
		return;
	}
	if (token == 0)
		return;
	run.tokens[client] = ++run.next_token;
	if (kinds[kind] != SY_EVENT_PEER_GONE)
		run.ended[run.ended_count++] = token;
	sy_serve_peer(run.serve, kinds[kind], token, fuzz_u8(input), run.now_ns);
}

static void step_scribble(struct fuzz_input *input)
{
	uint64_t offset = fuzz_number(input, 2) % SLAB_BYTES;
	struct sy_span bytes = fuzz_take(input, fuzz_u8(input));
	if (bytes.bytes > 0)
		memcpy(slab + offset, bytes.data, sy_min_u64(bytes.bytes, SLAB_BYTES - offset));
}

static void answer_fence(uint32_t at)
{
	if (run.fence_count == 0)
		return;
	at %= run.fence_count;
	uint64_t session = run.fences[at];
	run.fences[at] = run.fences[--run.fence_count];
	sy_serve_fenced(run.serve, session, run.now_ns);
}

static void one_step(struct fuzz_input *input)
{
	uint8_t what = fuzz_u8(input);
	switch (what % 16) {
	case 0: {
		struct sy_span raw = fuzz_take(input, fuzz_u8(input));
		give(raw.data, raw.bytes);
		break;
	}
	case 1:
		step_request(input, true);
		break;
	case 2:
		step_peer(input);
		break;
	case 3:
		run.now_ns += (uint64_t)fuzz_u8(input) << fuzz_below(input, 32);
		sy_serve_tick(run.serve, run.now_ns);
		break;
	case 4:
		answer_fence(fuzz_u8(input));
		break;
	case 5:
		sy_serve_state(run.serve, what / 16 % 4 == 0 ? SY_UNIT_DRAINING : SY_UNIT_ACTIVE,
		               run.now_ns);
		break;
	case 6:
		run.now_ns += second_ns * fuzz_u8(input);
		sy_serve_stalled(run.serve, second_ns * fuzz_u8(input), run.now_ns);
		break;
	case 7:
		step_scribble(input);
		break;
	case 8:
		sy_serve_continue(run.serve, run.now_ns);
		break;
	default:
		step_request(input, false);
		break;
	}
	audit();
}

/* Everybody goes; what they held comes back within the times there are. */
static void end_run(void)
{
	struct sy_core *core = sy_serve_core(run.serve);
	struct sy_unit_stats stats;
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (run.tokens[i] != 0)
			sy_serve_peer(run.serve, SY_EVENT_PEER_GONE, run.tokens[i], 0, run.now_ns);
	}
	while (run.ended_count > 0)
		end_process(0);
	for (uint32_t i = 0; i < 4096; i++) {
		bool busy = sy_serve_pending(run.serve) || run.fence_count > 0;
		uint64_t due_ns = sy_serve_deadline(run.serve);
		answer_fence(0);
		if (sy_serve_pending(run.serve))
			sy_serve_continue(run.serve, run.now_ns);
		else if (due_ns != UINT64_MAX) {
			run.now_ns = sy_max_u64(run.now_ns, due_ns);
			sy_serve_tick(run.serve, run.now_ns);
		} else if (!busy)
			break;
	}
	audit();
	sy_serve_stats(run.serve, &stats);
	FUZZ_CHECK(!sy_serve_pending(run.serve) && sy_serve_deadline(run.serve) == UINT64_MAX);
	FUZZ_CHECK(stats.sessions == 0 && stats.pins == 0 && stats.reservations == 0);
	FUZZ_CHECK(stats.parked == 0 && run.serve->keep.bytes_total == 0);
	FUZZ_CHECK(core->volatiles.running_jobs.count == 0);
	FUZZ_CHECK(stats.bytes.free + stats.bytes.published + stats.bytes.rounding == SLAB_BYTES);
}

static void make_units(void)
{
	const struct sy_serve_io io = {.send = on_send, .token_lives = on_token, .fence = on_fence,
	                               .peer_done = on_peer_done};
	params = (struct sy_core_params){
		.slab_bytes = SLAB_BYTES, .incarnation = 77, .seed = 5, .unit_id = 1, .slot_count = 3,
		.max_entries = 64, .max_sessions = 8, .max_pins = 8, .max_fields = 6,
		.max_namespaces = 4, .max_shapes = 6, .max_parked = 3, .max_jobs = 2,
		.eager_max_bytes = 4096, .inline_max_bytes = 256, .inline_total_bytes = 1024,
		.grant_max_bytes = SLAB_BYTES / 8, .grant_total_bytes = SLAB_BYTES / 4,
		.read_pin_ns = 60 * second_ns, .heartbeat_ns = 2 * second_ns,
		.session_expire_ns = 20 * second_ns, .retire_grace_ns = 120 * second_ns,
		.park_max_ns = second_ns,
	};
	for (uint32_t i = 0; i < LONG_ROWS; i++)
		long_rows[i] = fuzz_blob_row((uint8_t)i);
	struct sy_serve_room *room = sy_serve_room_new(); /* of both, as in a process of two units */
	for (uint32_t mode = 0; mode < 2; mode++) {
		params.remote_write = mode == 1;
		units[mode].arena = aligned_alloc(64, (size_t)sy_core_arena_bytes(&params));
		FUZZ_CHECK(room != NULL && units[mode].arena != NULL);
		memset(units[mode].arena, 0, (size_t)sy_core_arena_bytes(&params));
		units[mode].serve = sy_serve_new(units[mode].arena, &params, slab, room, &io);
		FUZZ_CHECK(units[mode].serve != NULL);
	}
}

/* The shell is used again: after the last input it keeps no message. The core is a new one. */
static void begin_run(uint8_t mode)
{
	if (units[0].serve == NULL)
		make_units();
	memset(&run, 0, sizeof run);
	run.now_ns = 1000 * second_ns;
	run.serve = units[mode % 2].serve;
	params.remote_write = mode % 2 == 1;
	memset(units[mode % 2].arena, 0, (size_t)sy_core_arena_bytes(&params));
	FUZZ_CHECK(sy_core_init(units[mode % 2].arena, &params) == sy_serve_core(run.serve));
	memset(slab, 0xee, sizeof slab);
	for (uint32_t i = 0; i + 1 < CLIENTS; i++)
		run.tokens[i] = ++run.next_token;
	if (mode % 2 == 0)
		run.tokens[CLIENTS - 1] = ++run.next_token;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = {data, data + bytes};
	begin_run(fuzz_u8(&input));
	for (uint32_t i = 0; i < STEPS_MAX && fuzz_left(&input) > 0; i++)
		one_step(&input);
	end_run();
	return 0;
}

void fuzz_corpus(void)
{
	/* Bytes of a step: what, op, name, how, then its own. */
	static const uint8_t hello[] = {9, 0, 0, 0, 0, 0};
	static const uint8_t hello_remote[] = {9, 0, 0, 0, 3, 7};
	static const uint8_t alloc[] = {9, 1, 0, 0, 2, 0, 255};
	static const uint8_t alloc_large[] = {9, 1, 8, 0, 3, 215, 64};
	static const uint8_t commit[] = {9, 2, 0, 0, 2, 0, 255};
	static const uint8_t put[] = {9, 3, 0, 0, 5, 0, 255};
	static const uint8_t resolve[] = {9, 4, 16, 0, 3, 1, 2, 3, 2, 0, 1, 0};
	static const uint8_t resolve_inline[] = {9, 4, 16, 0, 3, 1, 2, 3, 2, 0, 1, 64};
	static const uint8_t release[] = {9, 5, 0, 0, 2, 1, 2, 0, 0};
	static const uint8_t release_long[] = {9, 5, 8, 0, 255, 0, 0};
	static const uint8_t pin_check[] = {9, 6, 0, 0, 2, 0, 1};
	static const uint8_t heartbeat[] = {9, 7, 24, 4, 6};
	static const uint8_t scan[] = {9, 8, 24, 0, 0, 0, 0, 15, 32};
	static const uint8_t stats[] = {9, 10, 24, 0};
	static const uint8_t tick[] = {3, 1, 30}, gone[] = {2, 8, 0}, bye[] = {2, 0, 1};
	static const uint8_t go_on[] = {8}, fenced[] = {4, 0}, drain[] = {5}, stalled[] = {6, 9, 9};
	static const uint8_t raw[] = {0, 5, 0x94, 7, 0xc4, 1, 0}, scribble[] = {7, 0, 0, 2, 1, 2};
#define STEP(step) {step, sizeof step}
	static const struct {
		const uint8_t *bytes;
		size_t count;
	} steps[][12] = {
		{STEP(hello), STEP(alloc), STEP(commit), STEP(resolve), STEP(heartbeat), STEP(release)},
		{STEP(hello), STEP(put), STEP(resolve_inline), STEP(scan), STEP(stats), STEP(bye)},
		{STEP(hello_remote), STEP(alloc), STEP(commit), STEP(resolve), STEP(tick), STEP(fenced)},
		{STEP(hello), STEP(alloc_large), STEP(alloc_large), STEP(release_long), STEP(alloc_large),
		 STEP(put), STEP(go_on), STEP(gone)},
		{STEP(hello), STEP(put), STEP(put), STEP(resolve), STEP(pin_check), STEP(release),
		 STEP(gone), STEP(hello), STEP(resolve)},
		{STEP(hello), STEP(raw), STEP(alloc), STEP(scribble), STEP(commit), STEP(drain), STEP(put),
		 STEP(stalled)},
	};
#undef STEP
	for (uint32_t i = 0; i < COUNT_OF(steps); i++) {
		uint8_t bytes[256] = {i == 2};
		size_t count = 1;
		for (uint32_t k = 0; k < COUNT_OF(steps[i]) && steps[i][k].bytes != NULL; k++) {
			memcpy(bytes + count, steps[i][k].bytes, steps[i][k].count);
			count += steps[i][k].count;
		}
		fuzz_seed("steps", i, bytes, count);
	}
}
