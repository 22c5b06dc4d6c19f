/* A shell around one client machine, and the unit's side of its messages in the test's hand: what
 * the machine sends is decoded and kept, and the test answers when and how it likes. */
#ifndef SY_MACHINE_RIG_H
#define SY_MACHINE_RIG_H

#include "harness.h"
#include "machine.h"

enum { RIG_SENT_MAX = 8192, RIG_ENDED_MAX = 1024, RIG_SCRATCH_BYTES = 1 << 20 };

#define RIG_MS UINT64_C(1000000)
#define RIG_S UINT64_C(1000000000)
#define RIG_CONTROL_NS (30 * RIG_S)
#define RIG_BEAT_NS (2 * RIG_S)
#define RIG_START_NS (1000 * RIG_S)

/* What the machine sent, as far as the tests look. */
struct rig_sent {
	enum sy_op op;
	struct sy_request_id id;
	uint64_t at_ns, until_ns, generation, connection_count, token, first_notice;
	uint64_t next_bytes, nbytes;
	struct sy_request_id grant;
	uint32_t notice_count, version, slot_count, row_count;
	struct sy_notice notice, last_notice; /* the first and the last of them */
};

struct rig {
	struct sy_machine *machine;
	uint64_t now_ns;
	uint64_t unit_ahead_ns; /* the unit's clock against ours, wrapping */
	uint64_t notices_done;  /* what replies say */
	uint32_t transports;
	uint64_t grant_max_bytes;
	struct rig_sent sent[RIG_SENT_MAX];
	uint32_t sent_count;
	struct sy_machine_op *ended[RIG_ENDED_MAX];
	uint32_t ended_count;
	struct sy_machine_op *writing[RIG_ENDED_MAX];
	uint32_t writing_count;
	uint32_t connects;
	struct sy_buf reply;
	struct sy_scratch scratch;
};

static inline struct rig *rig_new_trusting(uint64_t trust_ns)
{
	struct rig *rig = calloc(1, sizeof *rig);
	static const uint8_t ns[] = "train";
	struct sy_machine_config config = {
		.unit_id = 3,
		.slot_count = 4,
		.identity = {.start_time = 5, .random = 77, .pid = 9},
		.ns = {ns, 5},
		.control_timeout_ns = RIG_CONTROL_NS,
		.trust_ns = trust_ns,
	};
	assert_non_null(rig);
	rig->machine = sy_machine_new(&config);
	assert_non_null(rig->machine);
	rig->now_ns = RIG_START_NS;
	rig->transports = SY_TRANSPORT_SHM;
	rig->scratch.data = aligned_alloc(16, RIG_SCRATCH_BYTES);
	rig->scratch.bytes = RIG_SCRATCH_BYTES;
	assert_non_null(rig->scratch.data);
	return rig;
}

static inline struct rig *rig_new(void)
{
	return rig_new_trusting(0);
}

static inline void rig_free(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->ended_count; i++)
		sy_buf_free(&rig->ended[i]->result);
	sy_machine_free(rig->machine);
	sy_buf_free(&rig->reply);
	free(rig->scratch.data);
	free(rig);
}

static inline void rig_keep(struct rig *rig, const void *message, size_t bytes)
{
	struct sy_request request;
	struct sy_request_id id;
	rig->scratch.used = 0;
	assert_int_equal(
		sy_request_decode(message, bytes, &rig->scratch, &request, &id, NULL), SY_OK);
	rig->scratch.used = 0;
	assert_true(rig->sent_count < RIG_SENT_MAX);
	struct rig_sent *sent = &rig->sent[rig->sent_count++];
	*sent = (struct rig_sent){.op = request.op,
	                          .id = request.id,
	                          .at_ns = rig->now_ns,
	                          .first_notice = request.first_notice,
	                          .notice_count = request.notice_count};
	if (request.notice_count > 0) {
		sent->notice = request.notices[0];
		sent->last_notice = request.notices[request.notice_count - 1];
	}
	if (request.op == SY_OP_HELLO) {
		sent->connection_count = request.hello.connection_count;
		sent->token = request.hello.token;
		sent->version = request.hello.version;
		sent->slot_count = request.hello.slot_count;
		assert_int_equal(request.hello.identity.random, 77);
		assert_int_equal(request.hello.ns.bytes, 5);
	} else if (request.op == SY_OP_ALLOC) {
		sent->until_ns = request.alloc.until_ns;
	} else if (request.op == SY_OP_COMMIT) {
		sent->until_ns = request.commit.until_ns;
		sent->generation = request.commit.generation;
		sent->next_bytes = request.commit.next_bytes;
		sent->nbytes = request.commit.nbytes;
		sent->grant = request.commit.grant;
	} else if (request.op == SY_OP_PUT_INLINE) {
		sent->until_ns = request.put_inline.until_ns;
	} else if (request.op == SY_OP_RELEASE_ROWS) {
		sent->row_count = request.release.row_count;
	} else if (request.op == SY_OP_RESOLVE_KEYS) {
		sent->row_count = request.resolve.row_count;
	}
}

/* Takes every effect. */
static inline void rig_pump(struct rig *rig)
{
	struct sy_machine_effect effect;
	while (sy_machine_next(rig->machine, &effect, rig->now_ns)) {
		switch (effect.kind) {
		case SY_MACHINE_SEND:
			rig_keep(rig, effect.message, effect.bytes);
			break;
		case SY_MACHINE_WRITE:
			assert_int_equal(effect.op->stage, SY_OP_STAGE_WRITING);
			rig->writing[rig->writing_count++] = effect.op;
			break;
		case SY_MACHINE_DONE:
			assert_int_equal(effect.op->stage, SY_OP_STAGE_IDLE);
			assert_int_not_equal(effect.op->end, SY_OP_END_NONE);
			rig->ended[rig->ended_count++] = effect.op;
			break;
		case SY_MACHINE_CONNECT:
			rig->connects++;
			break;
		}
	}
}

/* Lets time pass, waking the machine when it asks to be. */
static inline void rig_until(struct rig *rig, uint64_t at_ns)
{
	for (;;) {
		uint64_t due_ns = sy_machine_deadline(rig->machine);
		if (due_ns > at_ns)
			break;
		assert_true(due_ns >= rig->now_ns || due_ns == 0);
		rig->now_ns = sy_max_u64(rig->now_ns, due_ns);
		sy_machine_tick(rig->machine, rig->now_ns);
		rig_pump(rig);
		assert_true(sy_machine_deadline(rig->machine) > rig->now_ns);
	}
	rig->now_ns = at_ns;
}

static inline void rig_pass(struct rig *rig, uint64_t ns)
{
	rig_until(rig, rig->now_ns + ns);
}

static inline const struct rig_sent *rig_last(const struct rig *rig)
{
	assert_true(rig->sent_count > 0);
	return &rig->sent[rig->sent_count - 1];
}

/* A reply to `sent`, ok until the test changes it. */
static inline struct sy_reply rig_reply(const struct rig *rig, const struct rig_sent *sent)
{
	return (struct sy_reply){.id = sent->id,
	                         .notices_done = rig->notices_done,
	                         .unit_now_ns = rig->now_ns + rig->unit_ahead_ns};
}

static inline void rig_deliver(struct rig *rig, const struct sy_reply *reply, enum sy_op op)
{
	sy_buf_reset(&rig->reply);
	sy_reply_encode(reply, op, &rig->reply);
	assert_false(rig->reply.failed);
	rig->scratch.used = 16; /* the shell's own: must be left as it is */
	sy_machine_receive(rig->machine, rig->reply.data, rig->reply.bytes, &rig->scratch,
	                   rig->now_ns);
	assert_int_equal(rig->scratch.used, 16);
	rig_pump(rig);
}

static inline void rig_ok(struct rig *rig, const struct rig_sent *sent)
{
	struct sy_reply reply = rig_reply(rig, sent);
	rig_deliver(rig, &reply, sent->op);
}

static inline void rig_answer(struct rig *rig, const struct rig_sent *sent, enum sy_answer answer)
{
	struct sy_reply reply = rig_reply(rig, sent);
	reply.outcome.answer = (uint8_t)answer;
	if (answer == SY_ANSWER_REGION) {
		reply.outcome.offset = 4096;
		reply.outcome.generation = 31;
	}
	rig_deliver(rig, &reply, sent->op);
}

static inline void rig_fault(struct rig *rig, const struct rig_sent *sent, enum sy_fault fault,
                             uint8_t detail)
{
	struct sy_reply reply = rig_reply(rig, sent);
	reply.outcome.fault = (uint8_t)fault;
	if (fault == SY_FAULT_BUSY)
		reply.outcome.busy = detail;
	else if (fault == SY_FAULT_PROTOCOL)
		reply.outcome.why = detail;
	else if (fault == SY_FAULT_UNIT_FULL)
		reply.outcome.resource = detail;
	rig_deliver(rig, &reply, sent->op);
}

static inline struct sy_reply rig_hello_reply(const struct rig *rig, const struct rig_sent *sent,
                                              uint64_t session, uint64_t incarnation)
{
	struct sy_reply reply = rig_reply(rig, sent);
	reply.notices_done = 0;
	reply.hello = (struct sy_hello_result){
		.session = session,
		.incarnation = incarnation,
		.slab_bytes = 1 << 20,
		.unit_id = 3,
		.slot_count = SY_SLOT_COUNT,
		.read_pin_ns = 60 * RIG_S,
		.heartbeat_ns = RIG_BEAT_NS,
		.session_expire_ns = 20 * RIG_S,
		.eager_max_bytes = 8192,
		.inline_max_bytes = 4096,
		.max_keys = SY_KEYS_PER_RESOLVE_MAX,
		.max_entries = SY_ENTRIES_PER_BLOB_MAX,
		.max_message_bytes = SY_MESSAGE_MAX_BYTES,
		.transports = rig->transports,
		.grant_max_bytes = rig->grant_max_bytes,
	};
	return reply;
}

/* Answers the hello that is out. */
static inline void rig_greet(struct rig *rig, uint64_t session, uint64_t incarnation)
{
	const struct rig_sent *sent = rig_last(rig);
	assert_int_equal(sent->op, SY_OP_HELLO);
	rig->notices_done = 0;
	struct sy_reply reply = rig_hello_reply(rig, sent, session, incarnation);
	rig_deliver(rig, &reply, SY_OP_HELLO);
}

/* token 0: a session of another host. */
static inline void rig_connect(struct rig *rig, uint64_t token, uint64_t session,
                               uint64_t incarnation)
{
	sy_machine_connected(rig->machine, token, token != 0 ? incarnation : 0, rig->now_ns);
	rig_pump(rig);
	rig_greet(rig, session, incarnation);
}

/* One ready to go, on the same host: session 100 of incarnation 7. */
static inline struct rig *rig_new_ready(void)
{
	struct rig *rig = rig_new();
	rig_connect(rig, 55, 100, 7);
	return rig;
}

static inline struct sy_span rig_field(void)
{
	static const uint8_t name[] = "reward";
	return (struct sy_span){name, 6};
}

/* Fills op with an operation of this kind that ends in `timeout_ns`, and starts it. */
static inline void rig_start(struct rig *rig, struct sy_machine_op *op, enum sy_op_kind kind,
                             uint64_t timeout_ns)
{
	static const uint64_t rows[4] = {1, 2, 3, 4};
	static const uint8_t blob[64] = {1};
	static struct sy_span field;
	static const struct sy_request_id names[2] = {{.session = 1, .seq = 2},
	                                              {.session = 1, .seq = 3}};
	field = rig_field();
	op->kind = kind;
	op->deadline_ns = rig->now_ns + timeout_ns;
	switch (kind) {
	case SY_OP_KIND_PUT:
		op->put = (struct sy_alloc_args){.blob_id = {{1}}, .nbytes = 640, .entry_count = 4};
		break;
	case SY_OP_KIND_PUT_INLINE:
		op->put_inline = (struct sy_put_inline_args){.blob_id = {{2}},
		                                             .blob = {blob, sizeof blob}};
		break;
	case SY_OP_KIND_COMMIT:
		op->commit.blob_id = (sy_blob_id){{1}};
		op->commit.generation = 31;
		op->commit.incarnation = 7;
		break;
	case SY_OP_KIND_RESOLVE:
		op->resolve = (struct sy_resolve_args){
			.rows = rows, .fields = &field, .row_count = 2, .field_count = 1};
		break;
	case SY_OP_KIND_RELEASE:
		op->release = (struct sy_release_args){.rows = rows, .row_count = 4, .all_fields = true};
		break;
	case SY_OP_KIND_PIN_CHECK:
		op->pin_check = (struct sy_pin_check_args){.names = names, .count = 2};
		break;
	case SY_OP_KIND_SCAN:
		op->scan = (struct sy_scan_args){.last_row = 9, .limit = 8};
		break;
	case SY_OP_KIND_INFO:
	case SY_OP_KIND_STATS:
		break;
	}
	sy_machine_start(rig->machine, op, rig->now_ns);
	rig_pump(rig);
}

/* A further message, for what rides on it. */
static inline const struct rig_sent *rig_next(struct rig *rig)
{
	static struct sy_machine_op asks[32];
	static size_t used;
	struct sy_machine_op *op = &asks[used++ % 32];
	*op = (struct sy_machine_op){0};
	rig_start(rig, op, SY_OP_KIND_INFO, RIG_S / 1000);
	return rig_last(rig);
}

/* Answers a resolve of two keys: the first found in the slab, the second absent. */
static inline struct sy_reply rig_resolved(const struct rig *rig, const struct rig_sent *sent)
{
	static uint8_t found[2] = {SY_FOUND_PINNED, SY_FOUND_ABSENT};
	static uint8_t dtype[2] = {SY_DTYPE_NONE, 0}, kind[2] = {SY_KIND_BYTES, 0};
	static uint64_t offset[2] = {8192, 0}, nbytes[2] = {10, 0}, generation[2] = {4, 0}, dim0[2];
	static uint32_t tail[2];
	struct sy_reply reply = rig_reply(rig, sent);
	reply.key_count = 2;
	reply.resolved = (struct sy_resolved){.found = found,
	                                      .dtype = dtype,
	                                      .kind = kind,
	                                      .offset = offset,
	                                      .nbytes = nbytes,
	                                      .generation = generation,
	                                      .dim0 = dim0,
	                                      .tail = tail};
	return reply;
}

static inline void rig_resolve_ok(struct rig *rig, const struct rig_sent *sent)
{
	struct sy_reply reply = rig_resolved(rig, sent);
	rig_deliver(rig, &reply, SY_OP_RESOLVE_KEYS);
}

static inline void rig_expect(const struct rig *rig, uint32_t ended,
                              const struct sy_machine_op *op, enum sy_op_end end)
{
	assert_int_equal(rig->ended_count, ended);
	assert_ptr_equal(rig->ended[ended - 1], op);
	assert_int_equal(op->end, end);
}

static inline void rig_expect_notice(const struct rig_sent *sent, enum sy_notice_kind kind,
                                     bool in_flight, struct sy_request_id name)
{
	assert_int_equal(sent->notice_count, 1);
	assert_int_equal(sent->notice.kind, kind);
	assert_int_equal(sent->notice.in_flight, in_flight);
	assert_true(sy_request_id_equal(sent->notice.name, name));
}

#endif
