/* A unit's pure part with real core and wire, a slab of plain memory, and a client that makes
 * its messages with the shipped encoder. Bytes go in, bytes come out. */
#ifndef SY_SERVE_RIG_H
#define SY_SERVE_RIG_H

#include "harness.h"

#include <string.h>

#include "serve.h"

enum { RIG_SLAB_BYTES = 1 << 20, RIG_REPLIES = 256 };

struct rig_reply {
	uint64_t route;
	uint8_t *data;
	size_t bytes;
};

struct rig {
	struct sy_core_params params;
	void *arena;
	uint8_t *slab;
	struct sy_serve *serve;
	struct sy_serve_room *room;
	uint64_t now_ns;
	struct rig_reply replies[RIG_REPLIES];
	uint32_t reply_count;
	uint64_t live_token, done_token;
	bool fenced;
	uint64_t session;
	struct sy_scratch scratch;
	struct sy_buf out;
	struct sy_reply reply; /* the last one decoded; points into reply_data and scratch */
	uint8_t *reply_data;
};

static inline void rig_send(void *context, uint64_t route, const void *message, size_t bytes)
{
	struct rig *rig = context;
	assert_true(rig->reply_count < RIG_REPLIES);
	struct rig_reply *reply = &rig->replies[rig->reply_count++];
	reply->route = route;
	reply->bytes = bytes;
	reply->data = malloc(bytes > 0 ? bytes : 1);
	assert_non_null(reply->data);
	memcpy(reply->data, message, bytes);
}

static inline bool rig_token_lives(void *context, uint64_t token)
{
	return ((struct rig *)context)->live_token == token;
}

static inline bool rig_is_fenced(void *context)
{
	return ((struct rig *)context)->fenced;
}

static inline void rig_peer_done(void *context, uint64_t token)
{
	((struct rig *)context)->done_token = token;
}

static inline void rig_forget_replies(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->reply_count; i++)
		free(rig->replies[i].data);
	rig->reply_count = 0;
}

static inline void rig_open(struct rig *rig)
{
	const uint64_t second_ns = 1000000000u;
	*rig = (struct rig){.now_ns = second_ns, .live_token = 7};
	rig->params = (struct sy_core_params){
		.slab_bytes = RIG_SLAB_BYTES, .incarnation = 77, .seed = 5, .unit_id = 1,
		.slot_count = 3, .max_entries = 8192, .max_sessions = 8, .max_pins = 64,
		.max_fields = 64, .max_namespaces = 4, .max_shapes = 64, .max_parked = 4,
		.max_jobs = 4, .eager_max_bytes = 64 << 10, .inline_max_bytes = 256,
		.inline_total_bytes = 4096, .read_pin_ns = 60 * second_ns,
		.heartbeat_ns = 2 * second_ns, .session_expire_ns = 20 * second_ns,
		.retire_grace_ns = 120 * second_ns, .park_max_ns = second_ns,
	};
	size_t arena_bytes = (size_t)sy_align_up(sy_core_arena_bytes(&rig->params), 64);
	assert_int_not_equal(arena_bytes, 0);
	rig->arena = aligned_alloc(64, arena_bytes);
	rig->slab = aligned_alloc(64, RIG_SLAB_BYTES);
	rig->scratch.bytes = SY_SCRATCH_BYTES;
	rig->scratch.data = malloc(SY_SCRATCH_BYTES);
	assert_non_null(rig->arena);
	assert_non_null(rig->slab);
	assert_non_null(rig->scratch.data);
	memset(rig->arena, 0, arena_bytes);
	memset(rig->slab, 0xee, RIG_SLAB_BYTES);
	const struct sy_serve_io io = {.context = rig, .send = rig_send, .fenced = rig_is_fenced,
	                               .token_lives = rig_token_lives, .peer_done = rig_peer_done};
	rig->room = sy_serve_room_new();
	assert_non_null(rig->room);
	rig->serve = sy_serve_new(rig->arena, &rig->params, rig->slab, rig->room, &io);
	assert_non_null(rig->serve);
}

static inline void rig_close(struct rig *rig)
{
	rig_forget_replies(rig);
	sy_serve_free(rig->serve);
	sy_serve_room_free(rig->room);
	sy_buf_free(&rig->out);
	free(rig->reply_data);
	free(rig->scratch.data);
	free(rig->arena);
	free(rig->slab);
}

/* Gives in bytes just as they are, from memory of exactly that size. */
static inline void rig_give_bytes(struct rig *rig, const void *data, size_t bytes)
{
	uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
	assert_non_null(exact);
	memcpy(exact, data, bytes);
	sy_serve_message(rig->serve, 11, exact, bytes, rig->now_ns);
	free(exact);
}

static inline void rig_give(struct rig *rig, const struct sy_request *request)
{
	sy_buf_reset(&rig->out);
	sy_request_encode(request, &rig->out);
	assert_false(rig->out.failed);
	rig_give_bytes(rig, rig->out.data, rig->out.bytes);
}

/* Decodes the oldest reply as one to `op`. */
static inline const struct sy_reply *rig_take(struct rig *rig, enum sy_op op, uint32_t key_count)
{
	sy_error err = {0};
	assert_true(rig->reply_count > 0);
	free(rig->reply_data);
	rig->reply_data = rig->replies[0].data;
	size_t bytes = rig->replies[0].bytes;
	assert_int_equal(rig->replies[0].route, 11);
	rig->reply_count--;
	memmove(rig->replies, rig->replies + 1, rig->reply_count * sizeof rig->replies[0]);
	rig->scratch.used = 0;
	if (sy_reply_decode(rig->reply_data, bytes, op, key_count, &rig->scratch, &rig->reply, &err) !=
	    SY_OK)
		fail_msg("%s", err.message);
	return &rig->reply;
}

/* One request, one reply. */
static inline const struct sy_reply *rig_ask(struct rig *rig, const struct sy_request *request,
                                             uint32_t key_count)
{
	assert_int_equal(rig->reply_count, 0);
	rig_give(rig, request);
	for (int i = 0; i < 1000 && rig->reply_count == 0 && sy_serve_pending(rig->serve); i++)
		sy_serve_continue(rig->serve, rig->now_ns);
	const struct sy_reply *reply = rig_take(rig, request->op, key_count);
	assert_int_equal(rig->reply_count, 0);
	assert_true(sy_request_id_equal(reply->id, request->id));
	assert_int_equal(reply->unit_now_ns, rig->now_ns);
	return reply;
}

static inline void rig_settle(struct rig *rig)
{
	for (int i = 0; i < 1000 && sy_serve_pending(rig->serve); i++)
		sy_serve_continue(rig->serve, rig->now_ns);
	assert_false(sy_serve_pending(rig->serve));
}

static inline struct sy_span rig_text(const char *text)
{
	return (struct sy_span){(const uint8_t *)text, strlen(text)};
}

static inline struct sy_request rig_hello_request(uint64_t token, uint64_t count)
{
	return (struct sy_request){
		.op = SY_OP_HELLO, .id = {.seq = count},
		.hello = {.version = SY_PROTOCOL_VERSION, .slot_count = 3, .ns = rig_text("run"),
		          .identity = {.random = 99, .pid = 5}, .connection_count = count,
		          .token = token}};
}

static inline void rig_hello(struct rig *rig, uint64_t token)
{
	struct sy_request hello = rig_hello_request(token, 1);
	const struct sy_reply *reply = rig_ask(rig, &hello, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_not_equal(reply->hello.session, 0);
	rig->session = reply->hello.session;
}

static inline struct sy_request rig_request(const struct rig *rig, enum sy_op op, uint32_t slot,
                                            uint64_t seq)
{
	return (struct sy_request){.op = op, .id = {rig->session, seq, slot}, .first_notice = 1};
}

static inline sy_blob_id rig_blob_id(uint8_t number)
{
	sy_blob_id id = {{0}};
	id.bytes[0] = number;
	id.bytes[15] = 1;
	return id;
}

/* A blob of `rows` rows from `first` on, in field "a" with `nbytes` bytes each; every byte of a
 * row is the row's number. The caller frees it. */
static inline uint8_t *rig_blob(uint8_t number, uint64_t first, uint32_t rows, uint64_t nbytes,
                                uint64_t *ret_bytes)
{
	static uint64_t row_numbers[SY_ENTRIES_PER_BLOB_MAX];
	sy_error err = {0};
	for (uint32_t i = 0; i < rows; i++)
		row_numbers[i] = first + i;
	sy_column column = {.field = "a", .field_bytes = 1, .kind = SY_KIND_BYTES,
	                    .row_count = rows, .extent = nbytes};
	sy_index index = {.blob_id = rig_blob_id(number), .rows = row_numbers, .row_count = rows,
	                  .columns = &column, .column_count = 1};
	if (sy_index_layout(&index, &err) != SY_OK)
		fail_msg("%s", err.message);
	uint8_t *blob = calloc(1, index.blob_bytes);
	assert_non_null(blob);
	assert_int_equal(sy_index_encode(&index, blob, index.blob_bytes, &err), SY_OK);
	uint64_t at = column.base;
	for (uint32_t i = 0; i < rows; i++, at += sy_align_up(nbytes, SY_ENTRY_ALIGN_BYTES))
		memset(blob + at, (int)(first + i), nbytes);
	*ret_bytes = index.blob_bytes;
	return blob;
}

static inline struct sy_unit_stats rig_stats(struct rig *rig)
{
	struct sy_unit_stats stats = {0};
	sy_serve_stats(rig->serve, &stats);
	return stats;
}

#endif
