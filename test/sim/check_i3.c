/* I3: a get returns exactly the bytes last committed under that key, or a typed error. */
#include <stdlib.h>

#include "sim_check.h"

static bool bytes_right(struct sim *sim, const struct sim_put *put, const struct sim_value *value,
                        const uint8_t *bytes)
{
	sim->counts.bytes_checked += value->nbytes;
	return value->nbytes == 0 ||
	       memcmp(put->image + value->offset, bytes, value->nbytes) == 0;
}

/* Published is what its client wrote, whole. */
void check_i3_accepted(struct sim_life *life, const struct sim_put *put, uint64_t generation)
{
	const struct sim_grant *grant = &life->shadow->grants[generation];
	if (put->scribbled)
		return; /* its client spoilt it before, and it may have been in a part nobody reads */
	if (grant->nbytes < put->nbytes ||
	    memcmp(life->slab + grant->offset, put->image, put->nbytes) != 0)
		sim_fail(life->sim, 3, "u%u published put %lu before its bytes were there", life->slot,
		         put->number);
}

bool check_shape_equal(const sy_shape *a, const sy_shape *b)
{
	uint32_t tail = a->rank == 0 ? 0 : a->rank - 1;
	return a->rank == b->rank && memcmp(a->tail, b->tail, tail * sizeof a->tail[0]) == 0;
}

/* Does the answer describe this value of this put? */
static bool described_right(const struct sy_resolved *resolved, uint32_t k,
                            const struct sim_value *value)
{
	return resolved->nbytes[k] == value->nbytes && resolved->dim0[k] == value->dim0 &&
	       resolved->dtype[k] == value->dtype && resolved->kind[k] == value->kind &&
	       check_shape_equal(&resolved->shapes[resolved->tail[k]], &value->shape);
}

static bool is_lost(const struct sim_life *life, const struct sim_put *put)
{
	return put != NULL && put->lost_life == life->number;
}

/* A found key: of which put, and is that the right one? NULL after a word to the contrary. */
static const struct sim_put *found_put(struct sim_life *life, const struct sim_key *key,
                                       uint32_t row, uint32_t field, uint64_t generation)
{
	struct sim *sim = life->sim;
	const struct sim_shadow *shadow = life->shadow;
	const struct sim_put *put = generation < shadow->grant_count
	                                    ? shadow->grants[generation].put : NULL;
	if (put == NULL) {
		sim_fail(sim, 3, "u%u answers row %u field %u by a region never granted", life->slot, row,
		         field);
		return NULL;
	}
	if (sim_put_value(put, row, field) == NULL) {
		sim_fail(sim, 3, "u%u answers row %u field %u by put %lu, which has no such key",
		         life->slot, row, field, put->number);
		return NULL;
	}
	if (is_lost(life, put) && sim_put_value(put, row, field)->nbytes > 0) {
		sim_fail(sim, 9, "u%u answers row %u field %u by put %lu, which its disk had lost",
		         life->slot, row, field, put->number);
		return NULL;
	}
	if (put == key->value || put == key->leaving)
		return put;
	if (check_i8_found(life, key, put))
		return NULL;
	sim_fail(sim, 3, "u%u answers row %u field %u by put %lu, but put %lu is the last accepted",
	         life->slot, row, field, put->number, key->value != NULL ? key->value->number : 0);
	return NULL;
}

static void check_key(struct sim_life *life, uint32_t space, uint32_t row, uint32_t field,
                      const struct sy_reply *reply, uint32_t k, struct sim_range_seen *seen)
{
	struct sim *sim = life->sim;
	const struct sy_resolved *resolved = &reply->resolved;
	const struct sim_key *key = &life->shadow->keys[space][row][field];
	uint64_t generation = resolved->generation[k];
	sim->counts.keys_checked++;
	if (resolved->found[k] == SY_FOUND_ABSENT) {
		if (key->value != NULL)
			sim_fail(sim, 3, "u%u says row %u field %u is absent, but put %lu is there",
			         life->slot, row, field, key->value->number);
		return;
	}
	if (sy_found_is_lost(resolved->found[k])) {
		sim->counts.keys_lost++;
		seen->lost = true;
		if (!is_lost(life, key->value) && !is_lost(life, key->leaving))
			sim_fail(sim, 9, "u%u says row %u field %u is lost, which its disk did not lose",
			         life->slot, row, field);
		return;
	}
	const struct sim_put *put = found_put(life, key, row, field, generation);
	if (put == NULL)
		return;
	const struct sim_value *value = sim_put_value(put, row, field);
	const struct sim_grant *grant = &life->shadow->grants[generation];
	*seen = (struct sim_range_seen){.put = put, .value = value, .generation = generation,
	                                .inlined = resolved->found[k] == SY_FOUND_INLINE};
	const uint8_t *bytes = reply->inline_bytes.data + resolved->offset[k];
	if (!seen->inlined)
		bytes = life->slab + resolved->offset[k];
	if (!described_right(resolved, k, value) ||
	    (!seen->inlined &&
	     resolved->offset[k] != grant->offset + value->offset - grant->at))
		sim_fail(sim, 3, "u%u describes row %u field %u of put %lu wrongly", life->slot, row,
		         field, put->number);
	else if (!check_i1_same(life, grant->offset + value->offset - grant->at, value->nbytes,
	                        generation))
		sim_fail(sim, 1, "u%u answers row %u field %u by a region that was granted anew",
		         life->slot, row, field);
	else if (!put->scribbled && !bytes_right(sim, put, value, bytes))
		sim_fail(sim, 3, "u%u has wrong bytes for row %u field %u of put %lu", life->slot, row,
		         field, put->number);
}

bool check_asked(struct sim *sim, const struct sim_request *request, struct sy_request *ret_wire)
{
	struct sy_request_id id;
	return request->bytes != NULL &&
	       sy_request_decode(request->bytes, request->bytes_count, &sim->peek_scratch, ret_wire,
	                         &id, NULL) == SY_OK;
}

uint32_t check_space_of(struct sim_life *life, const struct sim_request *request)
{
	const struct sim_session *s = sim_shadow_session(life, request->id.session);
	if (s == NULL || s->client >= SIM_CLIENTS_MAX)
		return SIM_SPACES;
	return s->space;
}

void check_resolve(struct sim_life *life, struct sim_request *request,
                   const struct sy_reply *reply)
{
	struct sim *sim = life->sim;
	struct sy_request wire;
	uint32_t space = check_space_of(life, request);
	check_i4_ran(life, request);
	check_i5_ran(life, request);
	request->ran_ns = sim->shown_ns;
	if (space >= SIM_SPACES || request->seen != NULL || !check_asked(sim, request, &wire))
		return;
	request->seen = calloc(request->key_count + 1, sizeof *request->seen);
	if (request->seen == NULL)
		abort();
	const struct sy_resolve_args *args = &wire.resolve;
	for (uint32_t k = 0; k < request->key_count; k++) {
		uint32_t at = args->field_of != NULL ? k : k / args->field_count;
		uint32_t column = args->field_of != NULL ? args->field_of[k] : k % args->field_count;
		uint32_t row = sim_row_at(sim, life->slot, args->rows[at]);
		uint32_t field = sim_field_at(args->fields[column]);
		if (row < SIM_ROWS_MAX && field < SIM_FIELDS_MAX)
			check_key(life, space, row, field, reply, k, &request->seen[k]);
	}
	check_i2_rows(life, request, &wire, space);
}

static void add_range(struct sim_task *task, const struct sim_range_seen *seen, uint64_t offset)
{
	if (seen->value->nbytes > 0)
		task->ranges[task->range_count++] = (struct sim_range){
			.offset = offset, .nbytes = seen->value->nbytes, .generation = seen->generation,
			.put = seen->put, .value = seen->value};
}

/* What a client got is what its unit said, no older than the question. */
void check_resolved(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	struct sim_life *life = task->life;
	const struct sy_reply *reply = &task->op.reply;
	const struct sim_request *r = life == NULL ? NULL
	                              : sim_shadow_request(life->shadow, reply->id);
	if (r == NULL || !r->ran || r->seen == NULL || r->key_count != reply->key_count) {
		sim_fail(sim, 9, "c%u has an answer that no unit gave", client->index);
		return;
	}
	if (r->ran_ns < task->begun_ns)
		sim_fail(sim, 4, "c%u took an answer older than its question", client->index);
	check_i2_answer(client, task, r);
	for (uint32_t k = 0; k < r->key_count; k++) {
		const struct sim_range_seen *seen = &r->seen[k];
		const struct sy_resolved *resolved = &reply->resolved;
		bool found = sy_found_is_value(resolved->found[k]);
		if (found != (seen->put != NULL) || sy_found_is_lost(resolved->found[k]) != seen->lost) {
			sim_fail(sim, 9, "c%u sees a key as absent or lost that its unit found",
			         client->index);
			return;
		}
		if (!found)
			continue;
		if (!described_right(resolved, k, seen->value) ||
		    resolved->generation[k] != seen->generation)
			sim_fail(sim, 3, "c%u got put %lu wrongly described", client->index,
			         seen->put->number);
		else if (!seen->inlined)
			add_range(task, seen, resolved->offset[k]);
		else if (!seen->put->scribbled &&
		         !bytes_right(sim, seen->put, seen->value,
		                      reply->inline_bytes.data + resolved->offset[k]))
			sim_fail(sim, 3, "c%u got wrong bytes of put %lu inline", client->index,
			         seen->put->number);
	}
}

void check_read_piece(struct sim_client *client, struct sim_task *task,
                      const struct sim_range *range, uint64_t from, uint64_t bytes)
{
	struct sim *sim = client->sim;
	const struct sim_life *life = task->life;
	const uint8_t *right = range->put->image + range->value->offset + from;
	bool same = check_i1_same(life, range->offset + from, bytes, range->generation);
	sim->counts.bytes_checked += bytes;
	if (!same && client->local)
		sim_fail(sim, 1, "c%u/u%u reads put %lu under its pin where the region was granted anew",
		         client->index, task->slot, range->put->number);
	if (!same)
		task->stable = false; /* another host's: it finds out by asking for its pin */
	else if (!range->put->scribbled &&
	         memcmp(life->slab + range->offset + from, right, bytes) != 0)
		sim_fail(sim, 3, "c%u/u%u reads wrong bytes of put %lu", client->index, task->slot,
		         range->put->number);
}

/* In its buffer lies what was read, and nothing that came later. */
static void check_buffer(struct sim_client *client, const struct sim_task *task)
{
	const uint8_t *at = task->buffer->bytes;
	for (size_t i = 0; i < task->range_count; i++) {
		const struct sim_range *range = &task->ranges[i];
		if (!range->put->scribbled && !bytes_right(client->sim, range->put, range->value, at))
			sim_fail(client->sim, 3, "c%u/u%u has other bytes in its buffer than it read of put "
			         "%lu", client->index, task->slot, range->put->number);
		at += range->nbytes;
	}
}

/* It is held until the end is proved, so its program could not have it back; and of a read it
 * neither thinks that nothing comes any more, nor lets another transfer use it. */
static void check_memory(struct sim *sim, const struct sim_stray *stray)
{
	const struct sim_memory *memory = stray->memory;
	if (!memory->registered || memory->times != stray->memory_times)
		sim_fail(sim, 3, "a transfer that c%u left in flight uses memory that was deregistered",
		         stray->client);
	else if (stray->put == NULL && memory->kept)
		sim_fail(sim, 3, "a read that c%u left in flight comes to memory that another used since",
		         stray->client);
	else if (stray->put == NULL && !stray->told)
		sim_fail(sim, 3, "a read that c%u was told is over comes to its memory", stray->client);
}

void check_i3_landing(struct sim *sim, const struct sim_stray *stray)
{
	const struct sim_client *client = &sim->clients[stray->client];
	if (!client->alive || client->life != stray->client_life || stray->grave.flushed)
		return; /* what moves yet has left its memory */
	if (stray->memory != NULL)
		check_memory(sim, stray);
	else if (stray->put == NULL && stray->buffer->account.state != SY_BUFFER_BURIED)
		sim_fail(sim, 3, "a read that c%u left in flight comes to a buffer that is not retired",
		         stray->client);
}

void check_i3_read(struct sim_client *client, struct sim_task *task)
{
	if (!task->stable)
		sim_fail(client->sim, 3, "c%u/u%u believes a read that its pin did not cover",
		         client->index, task->slot);
	else if (task->buffer != NULL)
		check_buffer(client, task);
}

/* A put that its client was told of. */
void check_put_told(struct sim_client *client, struct sim_task *task)
{
	const struct sim_put *put = task->put;
	const struct sim_life *life = sim_life_of(client->sim, task->op.incarnation);
	bool accepted = life != NULL && put->published_life == life->number;
	if (put->told == SIM_TOLD_OK && !accepted)
		sim_fail(client->sim, 3, "c%u was told put %lu is published; it never was",
		         client->index, put->number);
	if (put->told == SIM_TOLD_FAILED && accepted)
		sim_fail(client->sim, 4, "c%u was told put %lu is not published; it is", client->index,
		         put->number);
}
