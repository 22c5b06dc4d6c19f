#include "serve_rig.h"

#include "blob.h"
#include "prng.h"
#include "serve_state.h"

static int open_rig(void **state)
{
	struct rig *rig = malloc(sizeof *rig);
	assert_non_null(rig);
	rig_open(rig);
	*state = rig;
	return 0;
}

static int close_rig(void **state)
{
	struct rig *rig = *state;
	const char *wrong = sy_core_audit(sy_serve_core(rig->serve));
	rig_close(rig);
	free(rig);
	if (wrong != NULL)
		print_error("audit: %s\n", wrong);
	return wrong != NULL;
}

static struct sy_request alloc_request(const struct rig *rig, uint32_t slot, uint64_t seq,
                                       uint8_t number, uint64_t nbytes, uint32_t entries)
{
	struct sy_request request = rig_request(rig, SY_OP_ALLOC, slot, seq);
	request.alloc = (struct sy_alloc_args){
		.blob_id = rig_blob_id(number), .nbytes = nbytes, .until_ns = UINT64_MAX / 2,
		.entry_count = entries};
	return request;
}

static struct sy_request commit_request(const struct rig *rig, uint32_t slot, uint64_t seq,
                                        uint8_t number, uint64_t generation)
{
	struct sy_request request = rig_request(rig, SY_OP_COMMIT, slot, seq);
	request.commit = (struct sy_commit_args){
		.blob_id = rig_blob_id(number), .generation = generation, .until_ns = UINT64_MAX / 2};
	return request;
}

static struct sy_request inline_request(const struct rig *rig, uint32_t slot, uint64_t seq,
                                        uint8_t number, const uint8_t *blob, uint64_t bytes)
{
	struct sy_request request = rig_request(rig, SY_OP_PUT_INLINE, slot, seq);
	request.put_inline = (struct sy_put_inline_args){
		.blob_id = rig_blob_id(number), .blob = {blob, (size_t)bytes},
		.until_ns = UINT64_MAX / 2};
	return request;
}

static const struct sy_reply *resolve(struct rig *rig, uint32_t slot, uint64_t seq,
                                      const uint64_t *rows, uint32_t count, uint32_t inline_max)
{
	struct sy_span field = rig_text("a");
	struct sy_request request = rig_request(rig, SY_OP_RESOLVE_KEYS, slot, seq);
	request.resolve = (struct sy_resolve_args){.rows = rows, .fields = &field, .row_count = count,
	                                           .field_count = 1, .inline_max_bytes = inline_max};
	return rig_ask(rig, &request, count);
}

/* alloc, write, commit; returns the region's offset. */
static uint64_t put(struct rig *rig, uint32_t slot, uint64_t seq, uint8_t number, uint64_t first,
                    uint32_t rows, uint64_t nbytes)
{
	uint64_t bytes = 0;
	uint8_t *blob = rig_blob(number, first, rows, nbytes, &bytes);
	struct sy_request alloc = alloc_request(rig, slot, seq, number, bytes, rows);
	const struct sy_reply *reply = rig_ask(rig, &alloc, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->outcome.answer, SY_ANSWER_REGION);
	uint64_t offset = reply->outcome.offset;
	memcpy(rig->slab + offset, blob, bytes);
	free(blob);
	struct sy_request commit = commit_request(rig, slot, seq + 1, number,
	                                          reply->outcome.generation);
	reply = rig_ask(rig, &commit, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->outcome.answer, SY_ANSWER_PUBLISHED);
	return offset;
}

static void test_hello(void **state)
{
	struct rig *rig = *state;
	struct sy_request hello = rig_hello_request(rig->live_token, 3);
	const struct sy_reply *reply = rig_ask(rig, &hello, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->hello.incarnation, 77);
	assert_int_equal(reply->hello.unit_id, 1);
	assert_int_equal(reply->hello.slot_count, 3);
	assert_int_equal(reply->hello.slab_bytes, RIG_SLAB_BYTES);
	assert_int_equal(reply->hello.heartbeat_ns, rig->params.heartbeat_ns);
	assert_int_equal(reply->hello.read_pin_ns, rig->params.read_pin_ns);
	assert_int_equal(reply->hello.session_expire_ns, rig->params.session_expire_ns);
	assert_int_equal(reply->hello.eager_max_bytes, rig->params.eager_max_bytes);
	assert_int_equal(reply->hello.inline_max_bytes, rig->params.inline_max_bytes);
	assert_int_equal(reply->hello.max_keys, SY_KEYS_PER_RESOLVE_MAX);
	assert_int_equal(reply->hello.max_entries, SY_ENTRIES_PER_BLOB_MAX);
	assert_int_equal(reply->hello.max_message_bytes, SY_MESSAGE_MAX_BYTES);
	assert_int_equal(reply->hello.transports, SY_TRANSPORT_SHM);

	/* A token of no live connection is refused, whatever else the hello says. */
	struct sy_request dead = rig_hello_request(rig->live_token + 1, 4);
	reply = rig_ask(rig, &dead, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_PROTOCOL);
	assert_int_equal(reply->outcome.why, SY_WHY_TOKEN);

	/* Without one it is another host's, which no transport reaches yet. */
	struct sy_request remote = rig_hello_request(0, 5);
	reply = rig_ask(rig, &remote, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->hello.transports, 0);
}

static void test_put_get_release(void **state)
{
	struct rig *rig = *state;
	const uint64_t rows[] = {12, 10, 99};
	rig_hello(rig, rig->live_token);
	uint64_t offset = put(rig, 0, 1, 1, 10, 5, 1000);

	const struct sy_reply *reply = resolve(rig, 0, 3, rows, 3, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->resolved.found[0], SY_FOUND_PINNED);
	assert_int_equal(reply->resolved.found[1], SY_FOUND_PINNED);
	assert_int_equal(reply->resolved.found[2], SY_FOUND_ABSENT);
	assert_int_equal(reply->resolved.nbytes[0], 1000);
	assert_true(reply->resolved.offset[0] > offset);
	assert_int_equal(rig->slab[reply->resolved.offset[0]], 12);
	assert_int_equal(rig->slab[reply->resolved.offset[1] + 999], 10);

	struct sy_request release = rig_request(rig, SY_OP_RELEASE_ROWS, 1, 1);
	const uint64_t gone[] = {10, 11, 12, 13, 14};
	release.release = (struct sy_release_args){.rows = gone, .row_count = 5, .all_fields = true};
	reply = rig_ask(rig, &release, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->outcome.count, 5);
	assert_int_equal(resolve(rig, 0, 4, rows, 3, 0)->resolved.found[0], SY_FOUND_ABSENT);

	/* The pin of the first resolve still holds the region; its unpin gives the last byte back. */
	assert_true(rig_stats(rig).bytes.free < RIG_SLAB_BYTES);
	const struct sy_notice unpin = {.kind = SY_NOTICE_UNPIN, .name = {rig->session, 3, 0}};
	struct sy_request beat = rig_request(rig, SY_OP_HEARTBEAT, 2, 1);
	beat.notices = &unpin;
	beat.notice_count = 1;
	reply = rig_ask(rig, &beat, 0);
	assert_int_equal(reply->notices_done, 1);
	assert_int_equal(reply->unit_state, SY_UNIT_ACTIVE);
	rig_settle(rig);
	assert_int_equal(rig_stats(rig).bytes.free, RIG_SLAB_BYTES);
	assert_int_equal(rig_stats(rig).entries, 0);
}

static void test_inline_values_are_copied_at_once(void **state)
{
	struct rig *rig = *state;
	uint64_t bytes = 0;
	const uint64_t rows[] = {3, 4, 9, 5};
	uint8_t *blob = rig_blob(1, 3, 3, 100, &bytes);
	rig_hello(rig, rig->live_token);
	struct sy_request request = inline_request(rig, 0, 1, 1, blob, bytes);
	const struct sy_reply *reply = rig_ask(rig, &request, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(reply->outcome.answer, SY_ANSWER_PUBLISHED);

	reply = resolve(rig, 0, 2, rows, 4, 100);
	const uint8_t expected_found[] = {SY_FOUND_INLINE, SY_FOUND_INLINE, SY_FOUND_ABSENT,
	                                  SY_FOUND_INLINE};
	assert_memory_equal(reply->resolved.found, expected_found, 4);
	memset(rig->slab, 0, RIG_SLAB_BYTES); /* the reply has its own copy */
	for (uint32_t k = 0; k < 4; k++) {
		if (k == 2)
			continue;
		assert_int_equal(reply->resolved.nbytes[k], 100);
		for (uint32_t i = 0; i < 100; i++)
			assert_int_equal(reply->inline_bytes.data[reply->resolved.offset[k] + i], rows[k]);
	}
	/* Nothing was pinned for them. */
	assert_int_equal(rig_stats(rig).pins, 0);

	/* Values that are more together than the limit of one reply are all pinned. */
	free(blob);
	blob = rig_blob(2, 100, 20, 250, &bytes);
	request = inline_request(rig, 0, 3, 2, blob, bytes);
	assert_int_equal(rig_ask(rig, &request, 0)->outcome.fault, SY_FAULT_NONE);
	uint64_t many[20];
	for (uint64_t i = 0; i < 20; i++)
		many[i] = 100 + i;
	reply = resolve(rig, 0, 4, many, 16, 250);
	assert_int_equal(reply->inline_bytes.bytes, 16 * 250);
	assert_int_equal(reply->resolved.found[15], SY_FOUND_INLINE);
	reply = resolve(rig, 0, 5, many, 17, 250);
	assert_int_equal(reply->inline_bytes.bytes, 0);
	assert_int_equal(reply->resolved.found[0], SY_FOUND_PINNED);
	assert_int_equal(reply->resolved.found[16], SY_FOUND_PINNED);
	free(blob);
}

static void test_put_inline_checks_its_blob(void **state)
{
	struct rig *rig = *state;
	uint64_t bytes = 0;
	uint8_t *blob = rig_blob(1, 3, 3, 100, &bytes);
	rig_hello(rig, rig->live_token);
	/* The message names another blob than the index in it. */
	struct sy_request request = inline_request(rig, 0, 1, 2, blob, bytes);
	const struct sy_reply *reply = rig_ask(rig, &request, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_PROTOCOL);
	assert_int_equal(reply->outcome.why, SY_WHY_INDEX);
	/* Cut off anywhere. */
	for (uint64_t cut = 0; cut < bytes; cut += 7) {
		request = inline_request(rig, 0, 2 + cut, 1, blob, cut);
		assert_int_equal(rig_ask(rig, &request, 0)->outcome.fault, SY_FAULT_PROTOCOL);
	}
	assert_int_equal(rig_stats(rig).bytes.free, RIG_SLAB_BYTES);
	free(blob);
}

/* A client scribbles over the index: before the commit it is refused, after it nothing is lost. */
static void test_scribbled_index(void **state)
{
	struct rig *rig = *state;
	struct sy_prng prng;
	uint64_t bytes = 0;
	uint8_t *blob = rig_blob(1, 10, 5, 64, &bytes);
	sy_prng_seed(&prng, harness_seed());
	rig_hello(rig, rig->live_token);
	struct sy_request alloc = alloc_request(rig, 0, 1, 1, bytes, 5);
	const struct sy_reply *reply = rig_ask(rig, &alloc, 0);
	uint64_t offset = reply->outcome.offset, generation = reply->outcome.generation;
	uint64_t index_bytes = 0, seq = 2;
	assert_int_equal(sy_index_peek(blob, bytes, &index_bytes, NULL), SY_OK);
	for (int i = 0; i < 2000; i++, seq++) {
		memcpy(rig->slab + offset, blob, bytes);
		uint64_t at = sy_prng_below(&prng, index_bytes);
		rig->slab[offset + at] ^= (uint8_t)(1 + sy_prng_below(&prng, 255));
		struct sy_request commit = commit_request(rig, 0, seq, 1, generation);
		reply = rig_ask(rig, &commit, 0);
		assert_int_equal(reply->outcome.fault, SY_FAULT_PROTOCOL);
		assert_true(reply->outcome.why == SY_WHY_INDEX || reply->outcome.why == SY_WHY_BLOB_ID);
	}
	assert_int_equal(rig_stats(rig).entries, 0);
	/* A whole, valid index of another number of entries. */
	uint64_t other_bytes = 0;
	uint8_t *other = rig_blob(1, 10, 4, 128, &other_bytes);
	struct sy_request commit = commit_request(rig, 0, seq++, 1, generation);
	if (other_bytes == bytes) {
		memcpy(rig->slab + offset, other, bytes);
		assert_int_equal(rig_ask(rig, &commit, 0)->outcome.why, SY_WHY_ENTRY_COUNT);
	}
	free(other);

	memcpy(rig->slab + offset, blob, bytes);
	commit = commit_request(rig, 0, seq++, 1, generation);
	assert_int_equal(rig_ask(rig, &commit, 0)->outcome.answer, SY_ANSWER_PUBLISHED);
	memset(rig->slab + offset, 0xff, index_bytes);
	const uint64_t rows[] = {10, 14};
	reply = resolve(rig, 0, seq, rows, 2, 64);
	assert_int_equal(reply->inline_bytes.data[reply->resolved.offset[0]], 10);
	assert_int_equal(reply->inline_bytes.data[reply->resolved.offset[1]], 14);
	free(blob);
}

static void test_a_resend_gets_the_same_answer(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	struct sy_request alloc = alloc_request(rig, 0, 1, 1, 4096, 5);
	struct sy_outcome first = rig_ask(rig, &alloc, 0)->outcome;
	struct sy_outcome second = rig_ask(rig, &alloc, 0)->outcome;
	assert_memory_equal(&first, &second, sizeof first);
	assert_int_equal(rig_stats(rig).reservations, 1);
}

/* Bytes that are no message, and messages with bytes changed: counted and refused, and the unit
 * serves on. */
static void test_hostile_bytes(void **state)
{
	struct rig *rig = *state;
	struct sy_prng prng;
	uint8_t noise[512];
	sy_prng_seed(&prng, harness_seed());
	rig_hello(rig, rig->live_token);
	put(rig, 0, 1, 1, 10, 5, 100);
	uint64_t before = rig_stats(rig).protocol_errors;
	rig_give_bytes(rig, noise, 0);
	assert_int_equal(rig_stats(rig).protocol_errors, before + 1);
	assert_int_equal(rig->reply_count, 0); /* no id to answer under */
	for (int i = 0; i < 3000; i++) {
		size_t bytes = (size_t)sy_prng_below(&prng, sizeof noise);
		for (size_t k = 0; k < bytes; k++)
			noise[k] = (uint8_t)sy_prng_next(&prng);
		rig_give_bytes(rig, noise, bytes);
		rig_forget_replies(rig);
	}
	uint64_t bytes = 0;
	uint8_t *blob = rig_blob(2, 3, 3, 10, &bytes);
	const uint64_t rows[] = {10, 11};
	struct sy_span field = rig_text("a");
	for (int i = 0; i < 6000; i++) {
		struct sy_request request;
		switch (i % 4) {
		case 0:
			request = inline_request(rig, 3, (uint64_t)i + 1, 2, blob, bytes);
			break;
		case 1:
			request = rig_hello_request(rig->live_token, 1);
			break;
		case 2:
			request = alloc_request(rig, 4, (uint64_t)i + 1, 3, 128, 1);
			break;
		default:
			request = rig_request(rig, SY_OP_RESOLVE_KEYS, 5, (uint64_t)i + 1);
			request.resolve = (struct sy_resolve_args){
				.rows = rows, .fields = &field, .row_count = 2, .field_count = 1,
				.inline_max_bytes = 100};
			break;
		}
		sy_buf_reset(&rig->out);
		sy_request_encode(&request, &rig->out);
		size_t cut = rig->out.bytes;
		if (sy_prng_chance(&prng, 30))
			cut = (size_t)sy_prng_below(&prng, cut);
		else
			rig->out.data[sy_prng_below(&prng, cut)] ^= (uint8_t)(1 + sy_prng_below(&prng, 255));
		rig_give_bytes(rig, rig->out.data, cut);
		rig_settle(rig);
		rig_forget_replies(rig);
	}
	free(blob);
	const char *wrong = sy_core_audit(sy_serve_core(rig->serve));
	if (wrong != NULL)
		fail_msg("%s", wrong);
	/* Its own session may have been ended by a changed hello; a new one finds the rows. */
	struct sy_request hello = rig_hello_request(rig->live_token, UINT64_MAX);
	const struct sy_reply *reply = rig_ask(rig, &hello, 0);
	if (reply->outcome.fault == SY_FAULT_UNIT_FULL)
		return; /* changed hellos made up clients until no session was left, as they may */
	assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
	rig->session = reply->hello.session;
	assert_int_equal(resolve(rig, 0, 1, rows, 2, 100)->resolved.found[0], SY_FOUND_INLINE);
}

static void test_unreadable_is_answered_where_its_id_is(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	struct sy_request request = rig_request(rig, SY_OP_HEARTBEAT, 6, 1);
	sy_buf_reset(&rig->out);
	sy_request_encode(&request, &rig->out);
	rig_give_bytes(rig, rig->out.data, rig->out.bytes - 1);
	const struct sy_reply *reply = rig_take(rig, SY_OP_HEARTBEAT, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_PROTOCOL);
	assert_int_equal(reply->outcome.why, SY_WHY_MALFORMED);
	assert_true(sy_request_id_equal(reply->id, request.id));
	/* It was not executed: the same id runs when it can be read. */
	assert_int_equal(rig_ask(rig, &request, 0)->outcome.fault, SY_FAULT_NONE);
}

/* Fills the slab and releases rows whose memory comes back in several steps, so that a put is
 * parked meanwhile. */
static void start_release(struct rig *rig, uint8_t number)
{
	/* Small rows, many of them: the release is a job of several steps. */
	static uint64_t rows[4096];
	uint64_t seq = 1;
	for (uint32_t i = 0; i < 4; i++) {
		put(rig, 10, seq, (uint8_t)(number + i), i * 1024, 1024, 64 * 3);
		seq += 2;
	}
	for (uint64_t i = 0; i < 4096; i++)
		rows[i] = i;
	struct sy_request rest = alloc_request(rig, 12, 1, (uint8_t)(number + 5),
	                                       rig_stats(rig).largest_hole, 1);
	assert_int_equal(rig_ask(rig, &rest, 0)->outcome.answer, SY_ANSWER_REGION);
	struct sy_request release = rig_request(rig, SY_OP_RELEASE_ROWS, 11, 1);
	release.release = (struct sy_release_args){.rows = rows, .row_count = 4096,
	                                           .all_fields = true};
	rig_give(rig, &release);
	assert_true(sy_serve_pending(rig->serve));
	assert_int_equal(rig->reply_count, 0);
}

static void test_parked_requests(void **state)
{
	struct rig *rig = *state;
	uint64_t bytes = 0;
	uint8_t *blob = rig_blob(50, 20000, 100, 400, &bytes);
	rig_hello(rig, rig->live_token);
	start_release(rig, 1);
	/* More than is left: kept, and answered once the release is through. */
	struct sy_request alloc = alloc_request(rig, 0, 1, 60, RIG_SLAB_BYTES / 2, 1);
	rig_give(rig, &alloc);
	struct sy_request eager = inline_request(rig, 1, 1, 50, blob, bytes);
	rig_give(rig, &eager);
	/* A resend attaches to the one that is kept. */
	rig_give(rig, &alloc);
	assert_true(rig_stats(rig).parked >= 1); /* the small one may have been let through */
	assert_true(rig->serve->keep.bytes_total > 0);
	rig_settle(rig);
	assert_int_equal(rig->reply_count, 3);
	bool released = false, allocated = false, stored = false;
	for (int i = 0; i < 3; i++) {
		struct sy_request_id id;
		assert_int_equal(sy_reply_peek(rig->replies[0].data, rig->replies[0].bytes, &id, NULL),
		                 SY_OK);
		enum sy_op op = id.slot == 11 ? SY_OP_RELEASE_ROWS
		                              : id.slot == 0 ? SY_OP_ALLOC : SY_OP_PUT_INLINE;
		const struct sy_reply *reply = rig_take(rig, op, 0);
		assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
		released |= id.slot == 11 && reply->outcome.count == 4096;
		allocated |= id.slot == 0 && reply->outcome.answer == SY_ANSWER_REGION;
		stored |= id.slot == 1 && reply->outcome.answer == SY_ANSWER_PUBLISHED;
	}
	assert_true(released && allocated && stored);
	assert_int_equal(rig->serve->keep.bytes_total, 0);
	/* The eager blob was stored from the kept copy. */
	const uint64_t row = 20005;
	const struct sy_reply *reply = resolve(rig, 1, 2, &row, 1, 0);
	assert_int_equal(reply->resolved.found[0], SY_FOUND_PINNED);
	assert_int_equal(rig->slab[reply->resolved.offset[0] + 399], (uint8_t)row);
	free(blob);
}

static void test_parked_requests_are_bounded(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	start_release(rig, 1);
	/* As many as the core's table takes. */
	for (uint32_t i = 0; i < 4; i++) {
		struct sy_request alloc = alloc_request(rig, i, 1, (uint8_t)(60 + i),
		                                        RIG_SLAB_BYTES / 2, 1);
		rig_give(rig, &alloc);
	}
	assert_int_equal(rig_stats(rig).parked, 4);
	assert_int_equal(rig->reply_count, 0);
	struct sy_request more = alloc_request(rig, 5, 1, 70, RIG_SLAB_BYTES / 2, 1);
	rig_give(rig, &more);
	const struct sy_reply *reply = rig_take(rig, SY_OP_ALLOC, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_BUSY);
	assert_int_equal(reply->outcome.busy, SY_BUSY_QUEUE_FULL);
	/* A slot that moves on frees its message. */
	struct sy_request beat = rig_request(rig, SY_OP_HEARTBEAT, 3, 2);
	rig_give(rig, &beat);
	assert_int_equal(rig_take(rig, SY_OP_HEARTBEAT, 0)->outcome.fault, SY_FAULT_NONE);
	assert_int_equal(rig_stats(rig).parked, 3);
	/* Over the bytes: the same answer, though the table has room. */
	rig->serve->keep.bytes_total += SY_KEEP_BYTES_MAX;
	more.id.seq++;
	rig_give(rig, &more);
	rig->serve->keep.bytes_total -= SY_KEEP_BYTES_MAX;
	reply = rig_take(rig, SY_OP_ALLOC, 0);
	assert_int_equal(reply->outcome.fault, SY_FAULT_BUSY);
	assert_int_equal(reply->outcome.busy, SY_BUSY_QUEUE_FULL);
	rig_settle(rig);
	assert_int_equal(rig->serve->keep.bytes_total, 0);
}

static void test_parked_requests_expire(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	start_release(rig, 1);
	struct sy_request alloc = alloc_request(rig, 0, 1, 60, RIG_SLAB_BYTES / 2, 1);
	rig_give(rig, &alloc);
	uint64_t due_ns = sy_serve_deadline(rig->serve);
	assert_int_equal(due_ns, rig->now_ns + rig->params.park_max_ns);
	rig->now_ns = due_ns;
	sy_serve_tick(rig->serve, rig->now_ns);
	const struct sy_reply *reply = rig_take(rig, SY_OP_ALLOC, 0);
	assert_true(reply->outcome.fault == SY_FAULT_BUSY || reply->outcome.fault == SY_FAULT_NONE);
	rig_settle(rig);
	assert_int_equal(rig->serve->keep.bytes_total, 0);
}

static void test_the_end_of_a_process_gives_all_back(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	struct sy_request alloc = alloc_request(rig, 0, 1, 1, 4096, 5);
	assert_int_equal(rig_ask(rig, &alloc, 0)->outcome.answer, SY_ANSWER_REGION);
	put(rig, 1, 1, 2, 10, 5, 1000);
	const uint64_t row = 10;
	assert_int_equal(resolve(rig, 2, 1, &row, 1, 0)->resolved.found[0], SY_FOUND_PINNED);
	assert_int_equal(rig_stats(rig).pins, 1);

	sy_serve_peer(rig->serve, SY_EVENT_PEER_EOF, rig->live_token, 0, rig->now_ns);
	rig_settle(rig);
	assert_int_equal(rig_stats(rig).pins, 1); /* its process may still read */
	assert_int_equal(rig_stats(rig).bytes.retired, 4096);
	assert_int_equal(rig->done_token, 0);
	sy_serve_peer(rig->serve, SY_EVENT_PEER_GONE, rig->live_token, 0, rig->now_ns);
	rig_settle(rig);
	assert_int_equal(rig_stats(rig).pins, 0);
	assert_int_equal(rig_stats(rig).bytes.retired, 0);
	assert_int_equal(rig_stats(rig).sessions, 0);
	assert_int_equal(rig->done_token, rig->live_token);
	alloc.id.seq++;
	assert_int_equal(rig_ask(rig, &alloc, 0)->outcome.fault, SY_FAULT_NO_SESSION);
}

static void test_scan_pages_and_stats(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	for (uint32_t i = 0; i < 4; i++)
		put(rig, 0, 1 + 2 * i, (uint8_t)(1 + i), i * 1024, 1024, 1);
	struct sy_request scan = rig_request(rig, SY_OP_SCAN, 1, 0);
	uint8_t seen[4096] = {0};
	uint32_t pages = 0;
	scan.scan = (struct sy_scan_args){.last_row = UINT64_MAX, .limit = SY_SCAN_LIMIT_MAX};
	do {
		scan.id.seq++;
		const struct sy_reply *reply = rig_ask(rig, &scan, SY_SCAN_LIMIT_MAX);
		assert_int_equal(reply->outcome.fault, SY_FAULT_NONE);
		assert_true(reply->scan_count <= SY_SCAN_LIMIT_MAX);
		for (uint32_t i = 0; i < reply->scan_count; i++) {
			assert_int_equal(reply->scan[i].nbytes, 1);
			assert_int_equal(reply->scan[i].field.bytes, 1);
			assert_int_equal(reply->scan[i].kind, SY_KIND_BYTES);
			assert_int_equal(seen[reply->scan[i].row]++, 0);
		}
		scan.scan.cursor = reply->scan_cursor;
		pages++;
	} while (scan.scan.cursor != 0 && pages < 10);
	assert_int_equal(pages, 2);
	for (uint32_t i = 0; i < 4096; i++)
		assert_int_equal(seen[i], 1);

	struct sy_request stats = rig_request(rig, SY_OP_STATS, 2, 1);
	const struct sy_reply *reply = rig_ask(rig, &stats, 0);
	struct sy_unit_stats own = rig_stats(rig);
	assert_int_equal(reply->stats.entries, 4096);
	assert_int_equal(reply->stats.capacity_bytes, RIG_SLAB_BYTES);
	assert_int_equal(reply->stats.bytes.free, own.bytes.free);
	assert_int_equal(reply->stats.state, SY_UNIT_ACTIVE);
	sy_serve_state(rig->serve, SY_UNIT_DRAINING, rig->now_ns);
	struct sy_request info = rig_request(rig, SY_OP_INFO, 2, 2);
	assert_int_equal(rig_ask(rig, &info, 0)->unit_state, SY_UNIT_DRAINING);
}

static void test_pin_check(void **state)
{
	struct rig *rig = *state;
	rig_hello(rig, rig->live_token);
	put(rig, 0, 1, 1, 10, 5, 1000);
	const uint64_t row = 10;
	(void)resolve(rig, 2, 9, &row, 1, 0);
	const struct sy_request_id names[] = {{rig->session, 9, 2}, {rig->session, 8, 2}};
	struct sy_request check = rig_request(rig, SY_OP_PIN_CHECK, 3, 1);
	check.pin_check = (struct sy_pin_check_args){.names = names, .count = 2};
	const struct sy_reply *reply = rig_ask(rig, &check, 2);
	assert_int_equal(reply->held_count, 2);
	assert_int_equal(reply->held[0], 1);
	assert_int_equal(reply->held[1], 0);
}

static void test_parameters_out_of_range(void **state)
{
	(void)state;
	struct sy_core_params params = {.slab_bytes = 63};
	const struct sy_serve_io io = {0};
	uint64_t arena[1024] = {0};
	assert_null(sy_serve_new(arena, &params, NULL, NULL, &io));
	sy_serve_free(NULL);
	sy_serve_room_free(NULL);
}

int main(void)
{
#define WITH_RIG(test) cmocka_unit_test_setup_teardown(test, open_rig, close_rig)
	const struct CMUnitTest tests[] = {
		WITH_RIG(test_hello),
		WITH_RIG(test_put_get_release),
		WITH_RIG(test_inline_values_are_copied_at_once),
		WITH_RIG(test_put_inline_checks_its_blob),
		WITH_RIG(test_scribbled_index),
		WITH_RIG(test_a_resend_gets_the_same_answer),
		WITH_RIG(test_hostile_bytes),
		WITH_RIG(test_unreadable_is_answered_where_its_id_is),
		WITH_RIG(test_parked_requests),
		WITH_RIG(test_parked_requests_are_bounded),
		WITH_RIG(test_parked_requests_expire),
		WITH_RIG(test_the_end_of_a_process_gives_all_back),
		WITH_RIG(test_scan_pages_and_stats),
		WITH_RIG(test_pin_check),
		cmocka_unit_test(test_parameters_out_of_range),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
