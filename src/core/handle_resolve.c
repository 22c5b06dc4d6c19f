/* resolve_keys: where values lie, all keys at one instant. */
#include "blob.h"
#include "entry.h"
#include "handle.h"
#include "intern.h"
#include "park.h"
#include "pin.h"
#include "tier.h"

enum {
	SHAPES_SEEN = 8,
	FORMS_SEEN = 16,
	/* Up to so many bytes of values go inline where the client reaches the slab: each is copied
	 * four times on its way through the messages, which beyond this costs more than a pin. */
	INLINE_PAYS_BYTES = 32 << 10,
};

/* A type and shape that was met lately: the keys of a batch have few. */
struct form {
	bool known;
	bool counts;         /* a tensor of rank 1 or more: it has a dim0 */
	uint8_t dtype;
	uint8_t shift;       /* of unit_bytes, if that is a power of two; else 64 */
	uint32_t shape;
	uint32_t number;     /* of the shape in the answer */
	uint64_t unit_bytes; /* what dim0 counts; 0: nothing has bytes */
};

/* One resolve under way. */
struct lookup {
	struct sy_call *call;
	uint32_t pin;           /* 0: nothing had to be pinned yet */
	uint64_t inline_max, inline_left;
	uint64_t found;
	uint64_t sum_bytes, largest_bytes; /* of the values found */
	bool waits;             /* for the disk: what it found so far is not kept */
	uint32_t seen[SHAPES_SEEN]; /* interned shapes used last, by number in the answer */
	struct form forms[FORMS_SEEN];
	uint64_t pinned_bytes; /* of values that the client copies itself */
	uint32_t last;         /* the blob in the slab that was held last, and where it lies */
	uint64_t last_offset, last_grant;
	uint32_t recent[SY_FIND_MAX]; /* entries of the last keys or 0, of key k at k % SY_FIND_MAX */
};

static enum sy_why fault_of(const struct sy_event_request *r)
{
	uint64_t keys = r->resolve.key_count;
	if (keys > SY_KEYS_PER_RESOLVE_MAX || r->resolve.row_count > SY_KEYS_PER_RESOLVE_MAX ||
	    r->resolve.field_count > SY_FIELDS_PER_REQUEST_MAX)
		return SY_WHY_TOO_MANY;
	if (r->resolve.field_of == NULL)
		return keys == (uint64_t)r->resolve.row_count * r->resolve.field_count
		               ? SY_WHY_NONE
		               : SY_WHY_MALFORMED;
	if (keys != r->resolve.row_count)
		return SY_WHY_MALFORMED;
	for (uint32_t k = 0; k < r->resolve.key_count; k++) {
		if (r->resolve.field_of[k] >= r->resolve.field_count)
			return SY_WHY_MALFORMED;
	}
	return SY_WHY_NONE;
}

/* Asks for `count` keys from number `first` on. */
static void fill_asks(const struct lookup *l, uint32_t first, uint32_t count,
                      struct sy_key_ask *asks)
{
	const struct sy_event_request *r = l->call->request;
	const uint16_t *ids = l->call->step->core->volatiles.field_ids;
	const uint64_t *rows = r->resolve.rows;
	uint32_t field_count = r->resolve.field_count;
	for (uint32_t i = 0; r->resolve.field_of != NULL && i < count; i++)
		asks[i] = (struct sy_key_ask){.row = rows[first + i],
		                              .field = ids[r->resolve.field_of[first + i]]};
	if (r->resolve.field_of != NULL)
		return;
	for (uint32_t i = 0, row = first / field_count, field = first % field_count; i < count; i++) {
		asks[i] = (struct sy_key_ask){.row = rows[row], .field = ids[field]};
		if (++field == field_count) {
			field = 0;
			row++;
		}
	}
}

/* The number of a trailing shape in the answer. Only the last few are looked through: the table
 * has room for one a key. */
static uint32_t shape_number(struct lookup *l, uint32_t shape)
{
	struct sy_resolved *out = l->call->request->resolve.out;
	uint32_t count = out->shape_count;
	uint32_t first = count > SHAPES_SEEN ? count - SHAPES_SEEN : 0;
	for (uint32_t i = count; i > first; i--) {
		if (l->seen[(i - 1) % SHAPES_SEEN] == shape)
			return i - 1;
	}
	l->seen[count % SHAPES_SEEN] = shape;
	out->shapes[count] = *sy_shape_at(l->call->step->core, shape);
	out->shape_count++;
	return count;
}

static const struct form *form_of(struct lookup *l, const struct sy_entry *e)
{
	struct form *form = &l->forms[(e->dtype + 5 * e->shape) % FORMS_SEEN];
	if (form->known && form->shape == e->shape && form->dtype == e->dtype)
		return form;
	uint64_t unit_bytes = 0;
	bool counts = sy_entry_unit_bytes(l->call->step->core, e, &unit_bytes);
	bool power = unit_bytes != 0 && (unit_bytes & (unit_bytes - 1)) == 0;
	*form = (struct form){
		.known = true, .counts = counts, .dtype = e->dtype, .shape = e->shape,
		.unit_bytes = unit_bytes, .number = shape_number(l, e->shape),
		.shift = (uint8_t)(power ? __builtin_ctzll(unit_bytes) : 64),
	};
	return form;
}

/* What the answer says of an entry wherever its value lies. */
static void describe(struct lookup *l, uint32_t k, const struct sy_entry *e)
{
	const struct sy_resolved *out = l->call->request->resolve.out;
	const struct form *form = form_of(l, e);
	uint64_t nbytes = form->counts && form->unit_bytes == 0 ? 0 : e->extent;
	out->dtype[k] = e->dtype;
	out->kind[k] = e->kind;
	out->nbytes[k] = nbytes;
	out->dim0[k] = !form->counts           ? 0
	               : form->shift < 64      ? e->extent >> form->shift
	               : form->unit_bytes == 0 ? e->extent
	                                       : e->extent / form->unit_bytes;
	out->tail[k] = form->number;
	l->sum_bytes += nbytes;
	l->largest_bytes = sy_max_u64(l->largest_bytes, nbytes);
}

static bool hold(struct lookup *l, uint32_t blob)
{
	struct sy_core *core = l->call->step->core;
	if (l->pin == 0)
		l->pin = sy_pin_new(core, l->call->session_index, l->call->request->id,
		                    l->call->step->now_ns);
	return l->pin != 0 && sy_pin_take(core, l->pin, blob);
}

static void write_none(const struct sy_resolved *out, uint32_t k, uint8_t found)
{
	out->found[k] = found;
	out->dtype[k] = 0;
	out->kind[k] = 0;
	out->offset[k] = 0;
	out->nbytes[k] = 0;
	out->generation[k] = 0;
	out->dim0[k] = 0;
	out->tail[k] = 0;
}

/* The blob whose region holds the value, its own or a copy, and where its blob would begin there;
 * 0: it is on disk, and was asked for. What has no bytes lies nowhere. */
static uint32_t lies_in(struct lookup *l, const struct sy_entry *e, uint64_t nbytes,
                        uint64_t *ret_base)
{
	struct sy_core *core = l->call->step->core;
	const struct sy_blob *b = sy_blob_at(core, e->blob);
	uint64_t at = (uint64_t)e->offset64 * SY_ENTRY_ALIGN_BYTES;
	*ret_base = b->offset;
	if (b->state != SY_BLOB_ON_SSD)
		return e->blob;
	if (nbytes == 0) {
		*ret_base = UINT64_C(0) - at;
		return e->blob;
	}
	uint32_t copy = sy_load_find(core, e->blob, at, at + nbytes, l->call->step->now_ns);
	if (copy != 0)
		*ret_base = sy_blob_at(core, copy)->offset - sy_tiered_at(core, copy)->source_at;
	return copy;
}

/* An enum sy_found of a loss, or 0. What has no bytes cannot be lost. */
static uint8_t loss_of(struct sy_core *core, uint32_t blob, uint64_t nbytes)
{
	return sy_tier_is_on(core) && nbytes > 0 ? sy_tiered_at(core, blob)->lost : 0;
}

/* Where the value of a described entry lies. False: it would have to be pinned, and pins are
 * short. */
static bool write_found(struct lookup *l, uint32_t k, uint32_t entry)
{
	struct sy_core *core = l->call->step->core;
	const struct sy_resolved *out = l->call->request->resolve.out;
	const struct sy_entry *e = sy_entry_at(core, entry);
	uint64_t nbytes = out->nbytes[k], base = 0;
	uint64_t at = (uint64_t)e->offset64 * SY_ENTRY_ALIGN_BYTES;
	bool is_inline = nbytes <= l->inline_max && nbytes <= l->inline_left;
	if (e->blob == l->last && !is_inline) { /* most keys: a batch is put as a blob */
		out->found[k] = SY_FOUND_PINNED;
		out->offset[k] = l->last_offset + at;
		out->generation[k] = l->last_grant;
		l->pinned_bytes += nbytes;
		l->found++;
		return true;
	}
	uint8_t loss = loss_of(core, e->blob, nbytes);
	if (loss != 0) {
		write_none(out, k, loss);
		return true;
	}
	uint32_t blob = lies_in(l, e, nbytes, &base);
	if (blob == 0) {
		l->waits = true;
		return true;
	}
	struct sy_blob *b = sy_blob_at(core, blob);
	if (is_inline)
		l->inline_left -= nbytes;
	else if (!l->waits && !hold(l, blob))
		return false;
	if (b->last_read_ns != l->call->step->now_ns)
		sy_tier_touch(core, blob);
	b->last_read_ns = l->call->step->now_ns;
	if (!is_inline && b->state != SY_BLOB_ON_SSD && blob == e->blob) {
		l->last = blob;
		l->last_offset = base;
		l->last_grant = b->grant;
	}
	if (!is_inline)
		l->pinned_bytes += nbytes;
	out->found[k] = is_inline ? SY_FOUND_INLINE : SY_FOUND_PINNED;
	out->offset[k] = base + at;
	out->generation[k] = b->grant;
	l->found++;
	return true;
}

/* How many keys are looked up next. Of rows times fields the first row goes alone, for the others
 * may follow it. */
static uint32_t next_count(const struct sy_event_request *r, uint32_t first)
{
	bool leads = first == 0 && r->resolve.field_of == NULL;
	uint32_t left = r->resolve.key_count - first;
	uint32_t most = leads && r->resolve.field_count < SY_FIND_MAX ? r->resolve.field_count
	                                                              : SY_FIND_MAX;
	return left < most ? left : most;
}

/* Rows that are got as they were put stand, field by field, one behind the other in their blob:
 * that spares the hash. Returns how many of the keys did; the first that does not ends it, as each
 * wrong guess may be a miss of the cache. */
static uint32_t find_following(struct lookup *l, uint32_t first, uint32_t count,
                               struct sy_key_ask *asks)
{
	const struct sy_event_request *r = l->call->request;
	uint32_t width = r->resolve.field_count, i = 0;
	if (r->resolve.field_of != NULL || width > SY_FIND_MAX || first < width)
		return 0;
	for (; i < count; i++) {
		uint32_t before = l->recent[(first + i - width) % SY_FIND_MAX];
		asks[i].entry = before == 0 ? 0
			: sy_entry_find_after(l->call->step->core, l->call->session->ns, before,
			                      asks[i].row, asks[i].field);
		if (asks[i].entry == 0)
			break;
		l->recent[(first + i) % SY_FIND_MAX] = asks[i].entry;
	}
	return i;
}

/* Finds and describes the entries of `count` keys from number `first` on; each stands in
 * out->offset until it is written where its value lies. */
static void find(struct lookup *l, uint32_t first, uint32_t count)
{
	struct sy_core *core = l->call->step->core;
	const struct sy_resolved *out = l->call->request->resolve.out;
	struct sy_key_ask asks[SY_FIND_MAX];
	fill_asks(l, first, count, asks);
	uint32_t done = find_following(l, first, count, asks);
	sy_entry_find_all(core, l->call->session->ns, asks + done, count - done);
	for (uint32_t i = 0; i < count; i++) {
		l->recent[(first + i) % SY_FIND_MAX] = asks[i].entry;
		out->offset[first + i] = asks[i].entry;
		if (asks[i].entry != 0)
			describe(l, first + i, sy_entry_at(core, asks[i].entry));
	}
}

/* A client that reaches the slab and must copy some of its values there copies all of them there:
 * the pin and its own copy cost it as much for one as for many. */
static void choose_inline(struct lookup *l)
{
	const struct sy_core *core = l->call->step->core;
	bool reaches = l->call->session->local || core->params.remote_write;
	uint64_t limit = sy_min_u64(l->inline_left, INLINE_PAYS_BYTES);
	if (reaches && (l->sum_bytes > limit || l->largest_bytes > l->inline_max))
		l->inline_max = 0;
}

/* Writes where the values of the keys [first, end) lie. False: pins are short. */
static bool place(struct lookup *l, uint32_t first, uint32_t end)
{
	const struct sy_resolved *out = l->call->request->resolve.out;
	for (uint32_t k = first; k < end; k++) {
		uint32_t entry = (uint32_t)out->offset[k];
		if (entry == 0)
			write_none(out, k, SY_FOUND_ABSENT);
		else if (!write_found(l, k, entry))
			return false;
	}
	return true;
}

/* Keys are placed when it is known that none of them goes inline, or what all of them come to. */
static bool find_and_place(struct lookup *l)
{
	const struct sy_event_request *r = l->call->request;
	uint32_t placed = 0;
	for (uint32_t first = 0, count; first < r->resolve.key_count; first += count) {
		count = next_count(r, first);
		find(l, first, count);
		choose_inline(l);
		if (l->inline_max > 0)
			continue;
		if (!place(l, placed, first + count))
			return false;
		placed = first + count;
	}
	return place(l, placed, r->resolve.key_count);
}

static enum sy_run refuse_pins(struct lookup *l)
{
	struct sy_core *core = l->call->step->core;
	const struct sy_pool *refs = &core->volatiles.pin_refs;
	uint64_t need = 1;
	if (l->pin != 0) {
		need += sy_pin_at(core, l->pin)->ref_count;
		sy_pin_drop(core, l->pin, false, l->call->step->now_ns);
	}
	if (core->volatiles.loose_pins.count > 0) /* more are about to be free */
		return sy_refuse_busy(l->call, SY_BUSY_QUEUE_FULL);
	if (l->pin == 0)
		return sy_refuse_full(l->call, SY_RESOURCE_PINS, 1, 0);
	return sy_refuse_full(l->call, SY_RESOURCE_PINS, need, refs->capacity - refs->used);
}

/* Whoever takes values inline copies them, so it can ask for its rows in parts. */
static bool in_parts(const struct sy_event_request *r)
{
	return r->resolve.inline_max_bytes > 0 &&
	       r->resolve.rows[0] != r->resolve.rows[r->resolve.row_count - 1];
}

/* How much of the disk one resolve may have in the slab: in parts a quarter, which is what the low
 * watermark leaves room for, and more would have to wait until others' blobs are written. */
static uint64_t load_limit(const struct lookup *l)
{
	uint64_t slab_bytes = l->call->step->core->params.slab_bytes;
	return in_parts(l->call->request) ? slab_bytes / 4 : slab_bytes;
}

/* Something is on disk: what was pinned is given back, and all is looked up again in one step once
 * it has been read. */
static enum sy_run wait_for_disk(const struct lookup *l)
{
	struct sy_call *call = l->call;
	struct sy_core *core = call->step->core;
	const struct sy_chain *waiting = &core->volatiles.parked_loads;
	uint32_t parked = call->request->redo
	                          ? call->session->slots[call->request->id.slot].waiting : 0;
	uint32_t copy = 0;
	uint64_t need = 0;
	if (l->pin != 0)
		sy_pin_drop(core, l->pin, false, call->step->now_ns);
	switch (sy_load_start(core, call->step->now_ns, load_limit(l), waiting->head == parked, &copy,
	                      &need)) {
	case SY_LOAD_WAIT:
		/* Disk and slab are full: smaller parts have their turn in what room there is, and
		 * what never fits is refused. */
		if (copy == 0 && ((in_parts(call->request) && !sy_tier_writes(core)) ||
		                  sy_load_is_hopeless(core, need)))
			return sy_refuse_bytes(call, need);
		return sy_park_hold_load(call, copy, need);
	case SY_LOAD_FULL:
		return sy_refuse_bytes(call, need);
	case SY_LOAD_NONE:
	case SY_LOAD_TOO_MANY:
		break;
	}
	return sy_refuse_busy(call, SY_BUSY_LOADING);
}

enum sy_run sy_handle_resolve(struct sy_call *call)
{
	struct sy_core *core = call->step->core;
	const struct sy_event_request *r = call->request;
	enum sy_why why = fault_of(r);
	if (why != SY_WHY_NONE)
		return sy_refuse(call, why);
	struct lookup l = {
		.call = call,
		.inline_max = sy_min_u64(r->resolve.inline_max_bytes, core->params.inline_max_bytes),
		.inline_left = core->params.inline_total_bytes,
	};
	for (uint32_t i = 0; i < r->resolve.field_count; i++)
		core->volatiles.field_ids[i] = (uint16_t)sy_name_find(core, &core->tables.fields,
		                                                      r->resolve.fields[i]);
	r->resolve.out->shape_count = 0;
	sy_load_begin(core);
	if (!find_and_place(&l))
		return refuse_pins(&l);
	if (l.waits)
		return wait_for_disk(&l);
	core->volatiles.resolved += l.found;
	*(call->session->local ? &core->volatiles.shm_get_bytes
	                       : &core->volatiles.ucx_get_bytes) += l.pinned_bytes;
	return SY_RUN_ANSWER;
}
