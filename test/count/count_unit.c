/* Fixed work of a unit's step, for callgrind: messages in, messages out, around the shipped core.
 * Each case is a function of its own; what is between them is not counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "serve.h"

enum { ROWS = 512, FIELDS = 5, VALUE_BYTES = 1000, SLAB_BYTES = 64 << 20, KEYS = ROWS * FIELDS };

static const uint64_t SECOND_NS = 1000000000u;

struct work {
	struct sy_serve *serve;
	uint8_t *slab;
	uint64_t session, seq, notice;
	uint64_t rows[ROWS];
	struct sy_span fields[FIELDS];
	struct sy_buf message, reply;
	struct sy_scratch scratch;
};

_Noreturn static void die(const char *what)
{
	fprintf(stderr, "count_unit: %s\n", what);
	exit(1);
}

static void take_reply(void *context, uint64_t route, const void *message, size_t bytes)
{
	struct work *work = context;

	(void)route;
	sy_buf_reset(&work->reply);
	sy_buf_append(&work->reply, message, bytes);
}

static bool token_lives(void *context, uint64_t token)
{
	(void)context;
	return token == 1;
}

static void peer_done(void *context, uint64_t token)
{
	(void)context;
	(void)token;
}

static void encode(struct work *work, struct sy_request *request)
{
	request->id = (struct sy_request_id){.session = work->session, .seq = ++work->seq};
	sy_buf_reset(&work->message);
	sy_request_encode(request, &work->message);
}

static struct sy_reply decode(struct work *work, enum sy_op op, uint32_t key_count)
{
	struct sy_reply reply;
	sy_error err = {0};

	work->scratch.used = 0;
	if (sy_reply_decode(work->reply.data, work->reply.bytes, op, key_count, &work->scratch, &reply,
	                    &err) != SY_OK)
		die(err.message);
	if (reply.outcome.fault != SY_FAULT_NONE)
		die(sy_fault_name(reply.outcome.fault));
	return reply;
}

static void step(struct work *work)
{
	sy_serve_message(work->serve, 1, work->message.data, work->message.bytes, SECOND_NS);
	while (sy_serve_pending(work->serve)) /* each goes on with what is left of a release */
		sy_serve_continue(work->serve, SECOND_NS);
}

/* The empty words tell the functions apart, which are one to a compiler otherwise. */
#define CASE(name) \
	__attribute__((noinline)) static void count_##name(struct work *work) \
	{ \
		__asm__ volatile("# " #name); \
		step(work); \
	}

CASE(commit)
CASE(overwrite)
CASE(put_inline)
CASE(resolve)
CASE(unpin)
CASE(release)

static void open_unit(struct work *work)
{
	const struct sy_core_params params = {
		.slab_bytes = SLAB_BYTES, .incarnation = 7, .seed = 5, .slot_count = 1,
		.max_entries = 1 << 16, .max_sessions = 16, .max_pins = 64, .max_fields = 64,
		.max_namespaces = 4, .max_shapes = 64, .max_parked = 16, .max_jobs = 4,
		.eager_max_bytes = 8192, .inline_max_bytes = 8192, .inline_total_bytes = 1 << 20,
		.read_pin_ns = 60 * SECOND_NS, .heartbeat_ns = 2 * SECOND_NS,
		.session_expire_ns = 20 * SECOND_NS, .retire_grace_ns = 120 * SECOND_NS,
		.park_max_ns = SECOND_NS,
	};
	const struct sy_serve_io io = {.context = work, .send = take_reply,
	                               .token_lives = token_lives, .peer_done = peer_done};
	size_t arena_bytes = sy_align_up(sy_core_arena_bytes(&params), 64);
	void *arena = aligned_alloc(64, arena_bytes);

	work->slab = aligned_alloc(64, SLAB_BYTES);
	work->scratch = (struct sy_scratch){.data = malloc(SY_SCRATCH_BYTES),
	                                    .bytes = SY_SCRATCH_BYTES};
	if (arena == NULL || work->slab == NULL || work->scratch.data == NULL)
		die("out of memory");
	memset(arena, 0, arena_bytes);
	struct sy_serve_room *room = sy_serve_room_new();

	work->serve = room != NULL ? sy_serve_new(arena, &params, work->slab, room, &io) : NULL;
	if (work->serve == NULL)
		die("no unit");
	struct sy_request hello = {
		.op = SY_OP_HELLO,
		.hello = {.version = SY_PROTOCOL_VERSION, .slot_count = 1,
		          .ns = {(const uint8_t *)"count", 5}, .identity = {.random = 1, .pid = 1},
		          .connection_count = 1, .token = 1},
	};
	encode(work, &hello);
	step(work);
	work->session = decode(work, SY_OP_HELLO, 0).hello.session;
	work->seq = 0;
}

/* A blob of these rows and fields in the slab, allocated, its commit encoded and not yet sent. */
static void stage_commit(struct work *work, uint8_t number)
{
	sy_column columns[FIELDS];
	uint64_t extents[ROWS];
	sy_index index = {.blob_id = {{number}}, .rows = work->rows, .row_count = ROWS,
	                  .columns = columns, .column_count = FIELDS};
	sy_error err = {0};

	for (size_t r = 0; r < ROWS; r++)
		extents[r] = 4 * (64 + r * 31 % 448);
	for (size_t f = 0; f < FIELDS; f++)
		columns[f] = (sy_column){
			.field = (const char *)work->fields[f].data, .field_bytes = work->fields[f].bytes,
			.dtype = SY_DTYPE_F32, .kind = SY_KIND_TENSOR, .row_count = ROWS, .extent = 4,
			.shape = {.rank = f % 2 == 0 ? 1 : 0}, .extents = f % 2 == 0 ? extents : NULL,
		};
	if (sy_index_layout(&index, &err) != SY_OK)
		die(err.message);
	struct sy_request request = {
		.op = SY_OP_ALLOC,
		.alloc = {.blob_id = index.blob_id, .nbytes = index.blob_bytes, .until_ns = UINT64_MAX,
		          .entry_count = index.entry_count},
	};
	encode(work, &request);
	step(work);
	struct sy_reply reply = decode(work, SY_OP_ALLOC, 0);
	if (sy_index_encode(&index, work->slab + reply.outcome.offset, index.index_bytes, &err) !=
	    SY_OK)
		die(err.message);
	request = (struct sy_request){
		.op = SY_OP_COMMIT,
		.commit = {.blob_id = index.blob_id, .generation = reply.outcome.generation,
		           .until_ns = UINT64_MAX},
	};
	encode(work, &request);
}

static void stage_put_inline(struct work *work, uint8_t *blob)
{
	sy_column column = {.field = "v", .field_bytes = 1, .kind = SY_KIND_BYTES, .row_count = 1,
	                    .extent = VALUE_BYTES};
	const uint64_t row = 1u << 20;
	sy_index index = {.blob_id = {{9}}, .rows = &row, .row_count = 1, .columns = &column,
	                  .column_count = 1};
	sy_error err = {0};

	if (sy_index_layout(&index, &err) != SY_OK ||
	    sy_index_encode(&index, blob, index.index_bytes, &err) != SY_OK)
		die(err.message);
	struct sy_request request = {
		.op = SY_OP_PUT_INLINE,
		.put_inline = {.blob_id = index.blob_id, .blob = {blob, index.blob_bytes},
		               .until_ns = UINT64_MAX},
	};
	encode(work, &request);
}

int main(void)
{
	static const char *const names[FIELDS] = {"generation_logprobs", "input_ids",
	                                          "input_lengths", "sample_mask", "token_mask"};
	static struct work work;
	static uint8_t blob[2 * VALUE_BYTES + 1024];

	open_unit(&work);
	for (uint64_t r = 0; r < ROWS; r++)
		work.rows[r] = 100 + 191 * r;
	for (size_t f = 0; f < FIELDS; f++)
		work.fields[f] = (struct sy_span){(const uint8_t *)names[f], strlen(names[f])};
	stage_commit(&work, 1);
	count_commit(&work);
	decode(&work, SY_OP_COMMIT, 0);
	stage_commit(&work, 2);
	count_overwrite(&work);
	decode(&work, SY_OP_COMMIT, 0);
	stage_put_inline(&work, blob);
	count_put_inline(&work);
	decode(&work, SY_OP_PUT_INLINE, 0);

	struct sy_request request = {
		.op = SY_OP_RESOLVE_KEYS,
		.resolve = {.rows = work.rows, .fields = work.fields, .row_count = ROWS,
		            .field_count = FIELDS, .inline_max_bytes = UINT32_MAX},
	};
	encode(&work, &request);
	count_resolve(&work);
	struct sy_reply reply = decode(&work, SY_OP_RESOLVE_KEYS, KEYS);
	if (reply.resolved.found[0] != SY_FOUND_PINNED)
		die("the values are not pinned");
	const struct sy_notice unpin = {.kind = SY_NOTICE_UNPIN, .name = reply.id};
	request = (struct sy_request){.op = SY_OP_HEARTBEAT, .first_notice = 1, .notice_count = 1,
	                              .notices = &unpin};
	encode(&work, &request);
	count_unpin(&work);
	decode(&work, SY_OP_HEARTBEAT, 0);
	request = (struct sy_request){
		.op = SY_OP_RELEASE_ROWS,
		.release = {.rows = work.rows, .row_count = ROWS, .all_fields = true},
	};
	encode(&work, &request);
	count_release(&work);
	if (decode(&work, SY_OP_RELEASE_ROWS, 0).outcome.count != KEYS)
		die("not all was released");
	return 0;
}
