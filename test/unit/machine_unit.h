/* A small model of a unit for the random test of the client machine: sessions with slots and
 * notices, reservations, pins, published blobs. Answers as PROTOCOL says, and at times Busy,
 * fenced or pending. */
#ifndef SY_MACHINE_UNIT_H
#define SY_MACHINE_UNIT_H

#include "harness.h"
#include "message.h"
#include "prng.h"

enum { UNIT_SESSIONS_MAX = 512, UNIT_HELD_MAX = 4096, UNIT_BLOBS_MAX = 4096 };

enum unit_held_kind { UNIT_RESERVED = 1, UNIT_RETIRED, UNIT_COMMITTING, UNIT_PINNED };

struct unit_slot {
	uint64_t seq;
	bool answered; /* outcome may be sent again */
	struct sy_outcome outcome;
};

struct unit_session {
	uint64_t number, done;
	bool live;
	struct unit_slot slots[SY_SLOT_COUNT];
};

struct unit_held {
	enum unit_held_kind kind;
	struct sy_request_id name;
	uint64_t blob, generation;
};

struct unit {
	struct sy_prng *prng;
	uint64_t incarnation, now_ns, generation, hello_count;
	uint32_t busy_percent, session_count, held_count, granted;
	struct unit_session sessions[UNIT_SESSIONS_MAX];
	struct unit_held held[UNIT_HELD_MAX];
	uint8_t published[UNIT_BLOBS_MAX];     /* times, over all incarnations */
	uint64_t published_ns[UNIT_BLOBS_MAX]; /* on the unit's clock */
};

static inline void unit_restart(struct unit *unit)
{
	unit->incarnation++;
	unit->session_count = 0;
	unit->held_count = 0;
}

static inline struct unit_session *unit_session(struct unit *unit, uint64_t number)
{
	for (uint32_t i = 0; i < unit->session_count; i++) {
		if (unit->sessions[i].number == number)
			return &unit->sessions[i];
	}
	return NULL;
}

/* What a session held stays held: reservations of it can no longer commit. */
static inline void unit_end_session(struct unit *unit)
{
	for (uint32_t i = 0; i < unit->session_count; i++)
		unit->sessions[i].live = false;
	for (uint32_t i = 0; i < unit->held_count; i++) {
		if (unit->held[i].kind == UNIT_RESERVED)
			unit->held[i].kind = UNIT_RETIRED;
	}
}

static inline struct unit_held *unit_find(struct unit *unit, struct sy_request_id name)
{
	for (uint32_t i = 0; i < unit->held_count; i++) {
		if (sy_request_id_equal(unit->held[i].name, name))
			return &unit->held[i];
	}
	return NULL;
}

static inline void unit_drop(struct unit *unit, struct unit_held *held)
{
	if (held != NULL)
		*held = unit->held[--unit->held_count];
}

static inline struct unit_held *unit_hold(struct unit *unit, enum unit_held_kind kind,
                                          struct sy_request_id name, uint64_t blob)
{
	assert_true(unit->held_count < UNIT_HELD_MAX);
	struct unit_held *held = &unit->held[unit->held_count++];
	*held = (struct unit_held){
		.kind = kind, .name = name, .blob = blob, .generation = ++unit->generation};
	return held;
}

static inline void unit_publish(struct unit *unit, uint64_t blob)
{
	unit->published[blob]++;
	unit->published_ns[blob] = unit->now_ns;
}

static inline void unit_notice(struct unit *unit, const struct sy_notice *notice)
{
	struct unit_session *session = unit_session(unit, notice->name.session);
	struct unit_held *held = unit_find(unit, notice->name);
	if (session == NULL)
		return;
	if (notice->kind == SY_NOTICE_DRAINED) {
		if (held != NULL && held->kind == UNIT_RETIRED)
			unit_drop(unit, held);
		return;
	}
	struct unit_slot *slot = &session->slots[notice->name.slot];
	if (notice->name.seq > slot->seq)
		*slot = (struct unit_slot){.seq = notice->name.seq};
	if (held == NULL)
		return;
	assert_int_equal(held->kind == UNIT_PINNED, notice->kind == SY_NOTICE_UNPIN);
	if (notice->kind == SY_NOTICE_ABORT && notice->in_flight)
		held->kind = UNIT_RETIRED;
	else
		unit_drop(unit, held);
}

static inline uint64_t unit_blob(const sy_blob_id *id)
{
	uint64_t blob = sy_load_u64(id->bytes);
	assert_true(blob < UNIT_BLOBS_MAX);
	return blob;
}

/* A grant's put says which blob it is, unless that is there already. */
static inline void unit_claim(struct unit *unit, const struct sy_request *request, uint64_t blob)
{
	struct unit_held *grant = unit_find(unit, request->commit.grant);
	if (grant == NULL || grant->kind != UNIT_RESERVED || grant->blob != UNIT_BLOBS_MAX)
		return;
	assert_int_equal(grant->generation, request->commit.generation);
	assert_true(request->commit.nbytes > 0 && request->commit.entry_count > 0);
	unit->granted++;
	grant->blob = blob;
}

static inline void unit_commit(struct unit *unit, const struct sy_request *request,
                               struct sy_outcome *outcome)
{
	uint64_t blob = unit_blob(&request->commit.blob_id);
	struct unit_held *held = NULL;
	if (request->commit.grant.session != 0)
		unit_claim(unit, request, blob);
	for (uint32_t i = 0; i < unit->held_count; i++) {
		if (unit->held[i].blob == blob && unit->held[i].kind != UNIT_PINNED &&
		    unit->held[i].generation == request->commit.generation)
			held = &unit->held[i];
	}
	if (held == NULL || held->kind == UNIT_RETIRED ||
	    (held->kind == UNIT_RESERVED && held->name.session != request->id.session)) {
		outcome->fault = unit->published[blob] > 0 ? SY_FAULT_NONE : SY_FAULT_MISSING;
		outcome->answer = unit->published[blob] > 0 ? SY_ANSWER_PUBLISHED : 0;
	} else if (held->kind == UNIT_RESERVED && sy_prng_chance(unit->prng, 20)) {
		held->kind = UNIT_COMMITTING;
		outcome->answer = SY_ANSWER_PENDING;
	} else {
		unit_publish(unit, blob);
		unit_drop(unit, held);
		outcome->answer = SY_ANSWER_PUBLISHED;
		if (request->commit.next_bytes > 0 && sy_prng_chance(unit->prng, 80))
			outcome->generation =
				unit_hold(unit, UNIT_RESERVED, request->id, UNIT_BLOBS_MAX)->generation;
	}
}

static inline void unit_put_inline(struct unit *unit, const struct sy_request *request,
                                   struct sy_outcome *outcome)
{
	uint64_t blob = unit_blob(&request->put_inline.blob_id);
	if (unit->published[blob] == 0)
		unit_publish(unit, blob);
	outcome->answer = SY_ANSWER_PUBLISHED;
}

static inline uint64_t unit_until(const struct sy_request *request)
{
	switch (request->op) {
	case SY_OP_ALLOC:
		return request->alloc.until_ns;
	case SY_OP_COMMIT:
		return request->commit.until_ns;
	case SY_OP_PUT_INLINE:
		return request->put_inline.until_ns;
	case SY_OP_HELLO:
	case SY_OP_RESOLVE_KEYS:
	case SY_OP_RELEASE_ROWS:
	case SY_OP_PIN_CHECK:
	case SY_OP_HEARTBEAT:
	case SY_OP_SCAN:
	case SY_OP_INFO:
	case SY_OP_STATS:
		break;
	}
	return UINT64_MAX;
}

/* Runs a request that is new in its slot. found: of the resolve's one key. */
static inline void unit_run(struct unit *unit, const struct sy_request *request,
                            struct sy_outcome *outcome, uint8_t *found)
{
	if (unit_until(request) <= unit->now_ns) {
		outcome->fault = SY_FAULT_PROTOCOL;
		outcome->why = SY_WHY_TOO_LATE;
	} else if (request->op != SY_OP_HEARTBEAT && request->op != SY_OP_COMMIT &&
	           sy_prng_chance(unit->prng, unit->busy_percent)) {
		outcome->fault = SY_FAULT_BUSY;
		outcome->busy = SY_BUSY_QUEUE_FULL;
	} else if (request->op == SY_OP_ALLOC) {
		uint64_t blob = unit_blob(&request->alloc.blob_id);
		outcome->answer = SY_ANSWER_REGION;
		outcome->generation = unit_hold(unit, UNIT_RESERVED, request->id, blob)->generation;
	} else if (request->op == SY_OP_COMMIT) {
		unit_commit(unit, request, outcome);
	} else if (request->op == SY_OP_PUT_INLINE) {
		unit_put_inline(unit, request, outcome);
	} else if (request->op == SY_OP_RESOLVE_KEYS) {
		*found = sy_prng_chance(unit->prng, 75) ? SY_FOUND_PINNED : SY_FOUND_ABSENT;
		if (*found == SY_FOUND_PINNED)
			unit_hold(unit, UNIT_PINNED, request->id, UNIT_BLOBS_MAX);
	}
}

static inline bool unit_hello(struct unit *unit, const struct sy_request *request,
                              struct sy_reply *reply)
{
	if (request->hello.connection_count < unit->hello_count)
		return false;
	if (sy_prng_chance(unit->prng, unit->busy_percent)) {
		reply->outcome.fault = SY_FAULT_BUSY;
		reply->outcome.busy = SY_BUSY_STARTING;
		return true;
	}
	if (request->hello.connection_count > unit->hello_count || unit->session_count == 0) {
		unit_end_session(unit);
		assert_true(unit->session_count < UNIT_SESSIONS_MAX);
		unit->sessions[unit->session_count++] =
			(struct unit_session){.number = sy_prng_next(unit->prng) | 1, .live = true};
	}
	unit->hello_count = request->hello.connection_count;
	reply->hello = (struct sy_hello_result){
		.session = unit->sessions[unit->session_count - 1].number,
		.incarnation = unit->incarnation,
		.unit_id = 3,
		.slot_count = SY_SLOT_COUNT,
		.read_pin_ns = 1,
		.heartbeat_ns = 2000000000,
		.session_expire_ns = 1,
		.max_keys = 1,
		.max_entries = 1,
		.max_message_bytes = SY_MESSAGE_MAX_BYTES,
		.transports = SY_TRANSPORT_SHM,
		.grant_max_bytes = 1 << 20,
	};
	return true;
}

static inline void unit_run_notices(struct unit *unit, struct unit_session *session,
                                    const struct sy_request *request)
{
	for (uint32_t i = 0; i < request->notice_count; i++) {
		uint64_t number = request->first_notice + i;
		assert_true(number <= session->done + request->notice_count + SY_NOTICES_OPEN_MAX);
		if (number != session->done + 1)
			continue;
		unit_notice(unit, &request->notices[i]);
		session->done = number;
	}
}

/* True: *reply is to be sent. `found` (one byte) is lent for a resolve's answer. */
static inline bool unit_request(struct unit *unit, const struct sy_request *request,
                                struct sy_reply *reply, uint8_t *found)
{
	*reply = (struct sy_reply){.id = request->id, .unit_now_ns = unit->now_ns};
	reply->outcome.op = (uint8_t)request->op;
	if (request->op == SY_OP_HELLO)
		return unit_hello(unit, request, reply);
	struct unit_session *session = unit_session(unit, request->id.session);
	if (session != NULL)
		unit_run_notices(unit, session, request);
	if (session == NULL || !session->live) {
		reply->outcome.fault = SY_FAULT_NO_SESSION;
		return true;
	}
	reply->notices_done = session->done;
	struct unit_slot *slot = &session->slots[request->id.slot];
	if (request->id.seq < slot->seq || (request->id.seq == slot->seq && !slot->answered))
		return false;
	if (request->id.seq == slot->seq) {
		if (slot->outcome.op != request->op)
			return false;
		reply->outcome = slot->outcome;
		return true;
	}
	unit_run(unit, request, &reply->outcome, found);
	*slot = (struct unit_slot){.seq = request->id.seq,
	                           .answered = request->op != SY_OP_RESOLVE_KEYS,
	                           .outcome = reply->outcome};
	if (sy_prng_chance(unit->prng, unit->busy_percent / 4)) {
		reply->outcome = (struct sy_outcome){.fault = SY_FAULT_BUSY, .busy = SY_BUSY_FENCED};
		reply->outcome.op = (uint8_t)request->op;
	}
	return true;
}

#endif
