/* Keeps the shadow true: what each message, step and reply of a unit means for what is seen. */
#include "sim_shadow.h"

#include <stdlib.h>

#include "blob.h"
#include "sim.h"
#include "sim_check.h"
#include "session.h"
#include "tier_list.h"

struct sim_shadow *sim_shadow_new(const struct sim_life *life)
{
	struct sim_shadow *shadow = calloc(1, sizeof *shadow);
	if (shadow == NULL)
		abort();
	shadow->line_count = life->sim->config.params.slab_bytes / SY_ENTRY_ALIGN_BYTES;
	shadow->line_generation = calloc(shadow->line_count, sizeof *shadow->line_generation);
	if (shadow->line_generation == NULL)
		abort();
	shadow->accept_seq_seen = sy_serve_core(life->serve)->tables.next_accept_seq;
	shadow->generation_seen = sy_serve_core(life->serve)->tables.next_generation;
	return shadow;
}

void sim_shadow_free(struct sim_shadow *shadow)
{
	for (size_t i = 0; i < sizeof shadow->requests / sizeof shadow->requests[0]; i++) {
		for (struct sim_request *r = shadow->requests[i], *next; r != NULL; r = next) {
			next = r->next;
			free(r->bytes);
			free(r->seen);
			free(r);
		}
	}
	for (struct sim_release *r = shadow->releases, *next; r != NULL; r = next) {
		next = r->next;
		free(r);
	}
	free(shadow->line_generation);
	free(shadow->grants);
	free(shadow->open);
	free(shadow->sessions);
	free(shadow);
}

struct sim_session *sim_shadow_session(struct sim_life *life, uint64_t number)
{
	struct sim_shadow *shadow = life->shadow;
	for (size_t i = shadow->session_count; i > 0; i--) {
		if (shadow->sessions[i - 1].number == number)
			return &shadow->sessions[i - 1];
	}
	return NULL;
}

static void add_session(struct sim_life *life, uint64_t number, uint64_t route)
{
	struct sim_shadow *shadow = life->shadow;
	const struct sim_connection *connection = &life->sim->connections[route - 1];
	if (sim_shadow_session(life, number) != NULL)
		return;
	if (shadow->session_count == shadow->session_capacity) {
		shadow->session_capacity = 8 + shadow->session_capacity * 2;
		shadow->sessions = realloc(shadow->sessions,
		                           shadow->session_capacity * sizeof *shadow->sessions);
		if (shadow->sessions == NULL)
			abort();
	}
	shadow->sessions[shadow->session_count++] = (struct sim_session){
		.number = number, .client = connection->client,
		.client_life = connection->client_life, .space = connection->space,
		.local = connection->local};
}

static struct sim_request **bucket(struct sim_shadow *shadow, struct sy_request_id id)
{
	uint64_t hash = sy_mix64(id.session ^ sy_mix64(id.seq << 8 | id.slot));
	return &shadow->requests[hash % (sizeof shadow->requests / sizeof shadow->requests[0])];
}

struct sim_request *sim_shadow_request(struct sim_shadow *shadow, struct sy_request_id id)
{
	struct sim_request *r = *bucket(shadow, id);
	while (r != NULL && !sy_request_id_equal(r->id, id))
		r = r->next;
	return r;
}

/* What a request asks; its message is kept where the reply is judged by it. */
static struct sim_request *note_request(struct sim_life *life, const void *bytes, size_t count)
{
	struct sim_shadow *shadow = life->shadow;
	const struct sy_request *wire = &shadow->wire;
	struct sim_request *r = sim_shadow_request(shadow, wire->id);
	if (r != NULL)
		return r;
	r = calloc(1, sizeof *r);
	if (r == NULL)
		abort();
	*r = (struct sim_request){.id = wire->id, .op = wire->op};
	if (wire->op == SY_OP_RESOLVE_KEYS || wire->op == SY_OP_SCAN) {
		r->bytes = malloc(count);
		if (r->bytes == NULL)
			abort();
		memcpy(r->bytes, bytes, count);
		r->bytes_count = count;
	}
	if (wire->op == SY_OP_RESOLVE_KEYS)
		r->key_count = wire->resolve.field_of != NULL
		                       ? wire->resolve.row_count
		                       : (uint64_t)wire->resolve.row_count * wire->resolve.field_count;
	else if (wire->op == SY_OP_SCAN)
		r->key_count = wire->scan.limit;
	else if (wire->op == SY_OP_PIN_CHECK)
		r->key_count = wire->pin_check.count;
	else if (wire->op == SY_OP_PUT_INLINE)
		r->put = sim_put_find(life->sim, &wire->put_inline.blob_id);
	else if (wire->op == SY_OP_ALLOC)
		r->put = sim_put_find(life->sim, &wire->alloc.blob_id);
	r->next = *bucket(shadow, wire->id);
	*bucket(shadow, wire->id) = r;
	return r;
}

/* Notices that come now are executed in order and once; what they name never runs again. */
static void note_notices(struct sim_life *life, struct sim_session *session)
{
	struct sim_shadow *shadow = life->shadow;
	const struct sy_request *wire = &shadow->wire;
	for (uint32_t i = 0; i < wire->notice_count; i++) {
		const struct sy_notice *notice = &wire->notices[i];
		if (wire->first_notice + i != session->notices_done + 1)
			continue;
		session->notices_done++;
		struct sim_session *owner = sim_shadow_session(life, notice->name.session);
		bool mine = owner != NULL && owner->client == session->client &&
		            owner->client_life == session->client_life;
		if (!mine || notice->kind == SY_NOTICE_DRAINED || notice->name.slot >= SY_SLOT_COUNT)
			continue;
		uint64_t *highest = &owner->highest_seq[notice->name.slot];
		*highest = sy_max_u64(*highest, notice->name.seq);
		struct sim_request *given_up = sim_shadow_request(shadow, notice->name);
		if (given_up != NULL)
			given_up->given_up = true;
	}
}

void sim_shadow_before(struct sim_life *life, uint64_t route, const void *bytes, size_t count)
{
	struct sim *sim = life->sim;
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	struct sy_request_id id;
	sim->peek_scratch.used = 0;
	(void)route;
	if (sy_request_decode(bytes, count, &sim->peek_scratch, &shadow->wire, &id, NULL) != SY_OK) {
		sim_log(sim, "u%u cannot read %zu bytes", life->slot, count);
		return;
	}
	const struct sy_request *wire = &shadow->wire;
	sim->counts.requests[wire->op]++;
	sim_log(sim, "u%u gets %s %016lx/%u/%lu notices %lu+%u", life->slot,
	        sy_op_name((uint8_t)wire->op), wire->id.session, wire->id.slot, wire->id.seq,
	        wire->first_notice, wire->notice_count);
	if (wire->op == SY_OP_HELLO)
		return;
	uint32_t at = sy_session_find(core, wire->id.session);
	struct sim_session *session = sim_shadow_session(life, wire->id.session);
	shadow->current = note_request(life, bytes, count);
	shadow->session_lived = at != 0 && sy_session_at(core, at)->state == SY_SESSION_LIVE;
	if (at == 0 || session == NULL)
		return;
	check_i5_before(life);
	note_notices(life, session);
	if (shadow->session_lived)
		session->heard_ns = sim->true_ns;
	if (shadow->session_lived && wire->id.slot < SY_SLOT_COUNT)
		session->highest_seq[wire->id.slot] =
			sy_max_u64(session->highest_seq[wire->id.slot], wire->id.seq);
}

static void mark_lines(struct sim_shadow *shadow, const struct sim_grant *grant,
                       uint64_t generation)
{
	uint64_t first = grant->offset / SY_ENTRY_ALIGN_BYTES;
	uint64_t last = (grant->offset + grant->nbytes - 1) / SY_ENTRY_ALIGN_BYTES;
	for (uint64_t i = first; i <= last && i < shadow->line_count; i++)
		shadow->line_generation[i] = generation;
}

static void open_grant(struct sim_shadow *shadow, uint64_t generation)
{
	if (shadow->open_count == shadow->open_capacity) {
		shadow->open_capacity = shadow->open_capacity == 0 ? 16 : shadow->open_capacity * 2;
		shadow->open = realloc(shadow->open, shadow->open_capacity * sizeof *shadow->open);
		if (shadow->open == NULL)
			abort();
	}
	shadow->open[shadow->open_count++] = generation;
}

static void note_grant(struct sim_life *life, uint32_t index)
{
	struct sim_shadow *shadow = life->shadow;
	const struct sy_blob *blob = sy_blob_at(sy_serve_core(life->serve), index);
	uint64_t generation = blob->generation;
	if (generation >= shadow->grant_capacity) {
		uint64_t capacity = sy_max_u64(64, generation * 2);
		shadow->grants = realloc(shadow->grants, capacity * sizeof *shadow->grants);
		if (shadow->grants == NULL)
			abort();
		memset(shadow->grants + shadow->grant_capacity, 0,
		       (capacity - shadow->grant_capacity) * sizeof *shadow->grants);
		shadow->grant_capacity = capacity;
	}
	struct sim_grant *grant = &shadow->grants[generation];
	*grant = (struct sim_grant){.put = sim_put_find(life->sim, &blob->id),
	                            .offset = blob->offset, .nbytes = blob->nbytes,
	                            .name = blob->name, .blob = index, .open = true};
	if (blob->state == SY_BLOB_LOADING)
		grant->at = sy_tiered_at(sy_serve_core(life->serve), index)->source_at;
	grant->open = blob->state != SY_BLOB_LOADING;
	check_i1_disk_grant(life, grant->offset, grant->nbytes, generation);
	sim_log(life->sim, "u%u grants %lu+%lu generation %lu to put %lu", life->slot, grant->offset,
	        grant->nbytes, generation, grant->put != NULL ? grant->put->number : 0);
	check_i1_grant(life, generation);
	if (blob->name.session != 0)
		check_i4_granted(life, blob->name, generation);
	mark_lines(shadow, grant, generation);
	if (grant->open)
		open_grant(shadow, generation);
}

/* Regions granted since the last look. One that was given back in the same step leaves no trace,
 * and none was to be seen. */
static void note_grants(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	uint64_t next = core->tables.next_generation;
	for (uint64_t g = shadow->generation_seen; g < next; g++) {
		for (uint32_t i = 1; i <= core->tables.blobs.touched; i++) {
			const struct sy_blob *blob = sy_blob_at(core, i);
			if (blob->state != SY_BLOB_FREE && blob->generation == g)
				note_grant(life, i);
		}
	}
	shadow->generation_seen = next;
	shadow->grant_count = next;
}

/* What becomes of a key of a put that is seen from now on, as to releases accepted after it.
 * False: one that is through has cleared it. */
static bool outlives(struct sim_life *life, const struct sim_put *put,
                     const struct sim_value *value, struct sim_release **ret_by)
{
	struct sim_release *r = life->shadow->releases; /* the newest first */
	*ret_by = NULL;
	for (; r != NULL && r->order > put->accepted_order; r = r->next) {
		if (r->space != put->space || (r->rows >> value->row & 1) == 0 ||
		    (r->fields >> value->field & 1) == 0)
			continue;
		if (r->acked || sy_serve_core(life->serve)->volatiles.running_jobs.count == 0)
			return false;
		*ret_by = r;
	}
	return true;
}

/* A put is seen: at once, or, if it was pending, as far as nothing accepted later forbids. */
static void show_put(struct sim_life *life, struct sim_put *put, uint64_t generation)
{
	struct sim_shadow *shadow = life->shadow;
	put->published_life = life->number;
	put->lost_life = 0;
	put->shown_order = shadow->order;
	for (uint32_t i = 0; i < put->value_count; i++) {
		const struct sim_value *value = &put->values[i];
		struct sim_key *key = &shadow->keys[put->space][value->row][value->field];
		struct sim_release *by = NULL;
		if (key->newest_order > put->accepted_order || !outlives(life, put, value, &by))
			continue;
		shadow->leaving_count -= key->leaving != NULL;
		key->newest_order = put->accepted_order;
		key->value = by == NULL ? put : NULL;
		key->leaving = by == NULL ? NULL : put;
		key->by = by;
		shadow->leaving_count += by != NULL;
	}
	check_i2_accepted(life, put, generation);
}

/* A region that was granted before its put: the commit says whose it is. */
static void note_claim(struct sim_life *life, struct sim_grant *grant)
{
	const struct sy_blob *blob = sy_blob_at(sy_serve_core(life->serve), grant->blob);
	if (grant->put != NULL)
		return;
	if (blob->nbytes > grant->nbytes)
		sim_fail(life->sim, 1, "u%u took %lu bytes for written to a grant of %lu", life->slot,
		         blob->nbytes, grant->nbytes);
	grant->put = sim_put_find(life->sim, &blob->id);
	grant->nbytes = blob->nbytes;
	life->sim->counts.granted_puts++;
}

static void accept_put(struct sim_life *life, uint64_t generation)
{
	struct sim *sim = life->sim;
	struct sim_shadow *shadow = life->shadow;
	const struct sim_grant *grant = &shadow->grants[generation];
	struct sim_put *put = grant->put;
	if (put == NULL || put->values == NULL) {
		sim_fail(sim, 5, "u%u published a blob that no client made", life->slot);
		return;
	}
	check_i4_accepted(life, put, generation);
	check_i5_accepted(life, put, generation);
	check_i8_accepted(life, put);
	put->accepted_count = put->accepted_life == life->number ? put->accepted_count + 1 : 1;
	put->accepted_order = ++shadow->order;
	put->accepted_life = life->number;
	put->accepted_generation = generation;
	sim_log(sim, "u%u accepts put %lu (%u keys)", life->slot, put->number, put->value_count);
	check_i3_accepted(life, put, generation);
	if (sy_blob_at(sy_serve_core(life->serve), grant->blob)->state == SY_BLOB_COMMITTING) {
		if (shadow->pending_count == sizeof shadow->pending / sizeof shadow->pending[0])
			sim_fail(sim, -1, "u%u has too many puts pending for the shadow", life->slot);
		else
			shadow->pending[shadow->pending_count++] = generation;
		return;
	}
	show_put(life, put, generation);
}

/* Puts that waited for their record: seen now, or gone for good. */
static void note_shown(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	for (size_t i = 0; i < shadow->pending_count;) {
		uint64_t generation = shadow->pending[i];
		const struct sim_grant *grant = &shadow->grants[generation];
		const struct sy_blob *blob = sy_blob_at(core, grant->blob);
		bool there = blob->state != SY_BLOB_FREE && blob->generation == generation;
		if (there && blob->state == SY_BLOB_COMMITTING) {
			i++;
			continue;
		}
		shadow->pending[i] = shadow->pending[--shadow->pending_count];
		if (!there)
			continue;
		const struct sim_request *alloc = sim_shadow_request(shadow, grant->name);
		if (alloc != NULL && alloc->given_up)
			sim_fail(life->sim, 4, "u%u published put %lu, which its client had given up",
			         life->slot, grant->put->number);
		if (life->disk_failed == generation)
			sim_fail(life->sim, 3, "u%u published put %lu, whose record could not be written",
			         life->slot, grant->put->number);
		check_i8_accepted(life, grant->put);
		shadow->order++;
		show_put(life, grant->put, generation);
	}
}

/* The disk lost the blob of a read that failed: its keys are there, their bytes are not. */
static void note_lost(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	uint64_t lost = sy_serve_core(life->serve)->volatiles.tier.lost_blobs;
	if (lost == life->lost_blobs)
		return;
	life->lost_blobs = lost;
	struct sim_put *put = shadow->grants[life->disk_read].put;
	if (life->disk_read == 0 || put == NULL) {
		sim_fail(life->sim, 9, "u%u took a blob for lost that no read failed for", life->slot);
		return;
	}
	sim_log(life->sim, "u%u has lost put %lu", life->slot, put->number);
	put->lost_life = life->number;
}

static void accept_release(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	const struct sy_release_args *args = &shadow->wire.release;
	const struct sim_session *session = sim_shadow_session(life, shadow->wire.id.session);
	struct sim_release *release = calloc(1, sizeof *release);
	if (release == NULL)
		abort();
	release->order = ++shadow->order;
	release->id = shadow->wire.id;
	release->space = session->space;
	for (uint32_t i = 0; i < args->row_count; i++) {
		uint32_t row = sim_row_at(life->sim, life->slot, args->rows[i]);
		release->rows |= row < SIM_ROWS_MAX ? UINT64_C(1) << row : 0;
	}
	release->fields = args->all_fields ? UINT64_MAX : 0;
	for (uint32_t i = 0; i < args->field_count; i++)
		release->fields |= UINT64_C(1) << sim_field_at(args->fields[i]);
	release->next = shadow->releases;
	shadow->releases = release;
	shadow->current->release = release;
	sim_log(life->sim, "u%u accepts release %016lx/%u/%lu", life->slot, release->id.session,
	        release->id.slot, release->id.seq);
	for (uint32_t row = 0; row < SIM_ROWS_MAX; row++) {
		for (uint32_t field = 0; field < SIM_FIELDS_MAX; field++) {
			struct sim_key *key = &shadow->keys[release->space][row][field];
			if ((release->rows >> row & 1) == 0 || (release->fields >> field & 1) == 0 ||
			    key->value == NULL)
				continue;
			key->leaving = key->value;
			key->by = release;
			key->value = NULL;
			shadow->leaving_count++;
		}
	}
}

/* Accepted is what took a place in the unit's order: puts are found by their blob, what is left
 * was the release at hand. */
static void note_accepted(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	uint64_t places = core->tables.next_accept_seq - shadow->accept_seq_seen;
	shadow->accept_seq_seen = core->tables.next_accept_seq;
	for (size_t i = 0; i < shadow->open_count;) {
		uint64_t generation = shadow->open[i];
		const struct sy_blob *blob = sy_blob_at(core, shadow->grants[generation].blob);
		bool there = blob->state != SY_BLOB_FREE && blob->generation == generation;
		bool accepted = there && blob->state != SY_BLOB_ALLOCATED &&
		                blob->state != SY_BLOB_RETIRED;
		if (there && !accepted) {
			i++;
			continue;
		}
		shadow->open[i] = shadow->open[--shadow->open_count];
		shadow->grants[generation].open = false;
		life->sim->counts.grants_unused += shadow->grants[generation].put == NULL && !accepted;
		if (accepted) {
			places -= places > 0;
			note_claim(life, &shadow->grants[generation]);
			accept_put(life, generation);
		}
	}
	if (places == 0)
		return;
	struct sim_request *r = shadow->current;
	if (r == NULL || r->op != SY_OP_RELEASE_ROWS) {
		sim_fail(life->sim, -1, "u%u accepted something that nobody asked for", life->slot);
		return;
	}
	check_i4_ran(life, r);
	check_i5_ran(life, r);
	accept_release(life);
}

void sim_shadow_step(struct sim_life *life)
{
	note_lost(life);
	note_grants(life);
	note_accepted(life);
	note_shown(life);
}

static void settle_leaving(struct sim_life *life, const struct sim_release *release)
{
	struct sim_shadow *shadow = life->shadow;
	for (uint32_t space = 0; space < SIM_SPACES && shadow->leaving_count > 0; space++) {
		for (uint32_t k = 0; k < SIM_ROWS_MAX * SIM_FIELDS_MAX; k++) {
			struct sim_key *key = &shadow->keys[space][k / SIM_FIELDS_MAX][k % SIM_FIELDS_MAX];
			bool covered = release != NULL && release->space == space &&
			               (release->rows >> k / SIM_FIELDS_MAX & 1) != 0 &&
			               (release->fields >> k % SIM_FIELDS_MAX & 1) != 0;
			if (key->leaving == NULL || (release != NULL && !covered))
				continue;
			if (release != NULL && key->leaving->accepted_order > release->order)
				continue;
			key->leaving = NULL;
			shadow->leaving_count--;
		}
	}
}

static void release_acked(struct sim_life *life, struct sim_request *r)
{
	struct sim_release *release = r->release;
	if (release == NULL) {
		sim_fail(life->sim, 8, "u%u acknowledged a release that it never accepted", life->slot);
		return;
	}
	if (release->acked)
		return;
	release->acked = true;
	settle_leaving(life, release);
	for (uint32_t k = 0; k < SIM_ROWS_MAX * SIM_FIELDS_MAX; k++) {
		struct sim_key *key =
			&life->shadow->keys[release->space][k / SIM_FIELDS_MAX][k % SIM_FIELDS_MAX];
		if ((release->rows >> k / SIM_FIELDS_MAX & 1) != 0 &&
		    (release->fields >> k % SIM_FIELDS_MAX & 1) != 0)
			key->acked_order = sy_max_u64(key->acked_order, release->order);
	}
}

static void count_reply(struct sim *sim, const struct sy_reply *reply)
{
	sim->counts.faults[reply->outcome.fault]++;
	if (reply->outcome.fault == SY_FAULT_BUSY)
		sim->counts.busy[reply->outcome.busy]++;
	else if (reply->outcome.fault == SY_FAULT_UNIT_FULL)
		sim->counts.resources[reply->outcome.resource]++;
	else if (reply->outcome.fault == SY_FAULT_PROTOCOL)
		sim->counts.whys[reply->outcome.why]++;
}

static void hello_reply(struct sim_life *life, uint64_t route, const struct sy_reply *reply)
{
	if (reply->outcome.fault == SY_FAULT_NONE)
		add_session(life, reply->hello.session, route);
}

void sim_shadow_reply(struct sim_life *life, uint64_t route, const void *bytes, size_t count)
{
	struct sim *sim = life->sim;
	struct sy_request_id id;
	struct sy_reply reply;
	sy_error err = {0};
	sim_shadow_step(life);
	if (sy_reply_peek(bytes, count, &id, &err) != SY_OK) {
		sim_fail(sim, -1, "u%u sent what cannot be read: %s", life->slot, err.message);
		return;
	}
	struct sim_request *r = id.session == 0 ? NULL : sim_shadow_request(life->shadow, id);
	bool hello = id.session == 0 || (life->shadow->wire.op == SY_OP_HELLO &&
	                                 sy_request_id_equal(id, life->shadow->wire.id));
	enum sy_op op = hello ? SY_OP_HELLO : r != NULL ? r->op : SY_OP_INFO;
	uint32_t keys = r != NULL ? (uint32_t)r->key_count : 0;
	size_t used = sim->peek_scratch.used;
	if (sy_reply_decode(bytes, count, op, keys, &sim->peek_scratch, &reply, &err) != SY_OK) {
		/* One to a message that could not be read has only its id. */
		sim_fail(sim, -1, "u%u sent a %s reply that cannot be read: %s", life->slot,
		         sy_op_name((uint8_t)op), err.message);
		return;
	}
	count_reply(sim, &reply);
	check_i9_reply(life, &reply);
	sim_log(sim, "u%u replies %s %016lx/%u/%lu: %s %s, notices %lu", life->slot,
	        sy_op_name((uint8_t)op), id.session, id.slot, id.seq,
	        sy_fault_name(reply.outcome.fault), sy_why_text(reply.outcome.why),
	        reply.notices_done);
	if (op == SY_OP_HELLO)
		hello_reply(life, route, &reply);
	else if (r != NULL && reply.outcome.fault == SY_FAULT_NONE && op == SY_OP_RESOLVE_KEYS)
		check_resolve(life, r, &reply);
	else if (r != NULL && reply.outcome.fault == SY_FAULT_NONE && op == SY_OP_SCAN)
		check_i3_scan(life, r, &reply);
	else if (r != NULL && reply.outcome.fault == SY_FAULT_NONE && op == SY_OP_RELEASE_ROWS)
		release_acked(life, r);
	sim->peek_scratch.used = used;
}

void sim_shadow_after(struct sim_life *life)
{
	struct sim_shadow *shadow = life->shadow;
	struct sy_core *core = sy_serve_core(life->serve);
	sim_shadow_step(life);
	uint32_t parked = core->volatiles.parked.touched;
	life->sim->counts.parked += parked - shadow->parked_seen;
	shadow->parked_seen = parked;
	if (shadow->leaving_count > 0 && core->volatiles.running_jobs.count == 0)
		settle_leaving(life, NULL);
	bool released = shadow->current != NULL && shadow->current->release != NULL;
	life->sim->counts.long_releases += released && core->volatiles.running_jobs.count > 0;
	check_i4_notices(life);
	check_i5_after(life);
	if (life->steps % life->sim->config.audit_every == 0)
		check_i6(life);
	shadow->current = NULL;
	shadow->strange_count = 0;
}
