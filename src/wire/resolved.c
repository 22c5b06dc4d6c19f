/* The result of resolve_keys: ten runs of bytes, one item a key in each of the first eight.
 * Numbers take four bytes each where all of a run fit, and most do: a reply is copied four times
 * on its way. */
#include "wire_parts.h"

enum { TAIL_BYTES = 3 };

static bool all_found(const struct sy_reply *reply)
{
	bool all = true;
	for (uint32_t k = 0; k < reply->key_count; k++)
		all &= sy_found_is_value(reply->resolved.found[k]);
	return all;
}

/* The other fields of a key without a value are of no matter and travel as zeros. */
static void write_u8(struct sy_buf *buf, const struct sy_reply *reply, bool all,
                     const uint8_t *values)
{
	if (all) {
		sy_mp_write_bin(buf, values, reply->key_count);
		return;
	}
	uint8_t *room = sy_mp_write_bin_room(buf, reply->key_count);
	for (uint32_t k = 0; room != NULL && k < reply->key_count; k++)
		room[k] = sy_found_is_value(reply->resolved.found[k]) ? values[k] : 0;
}

/* Zero for a key without a value. */
static uint64_t used_value(const struct sy_reply *reply, const uint64_t *values, uint32_t k)
{
	return sy_found_is_value(reply->resolved.found[k]) ? values[k] : 0;
}

static void write_numbers(struct sy_buf *buf, const struct sy_reply *reply, bool all,
                          const uint64_t *values)
{
	size_t count = reply->key_count;
	uint64_t bits = 0;
	for (uint32_t k = 0; k < count; k++)
		bits |= all ? values[k] : used_value(reply, values, k);
	if (bits > UINT32_MAX && all) {
		sy_mp_write_bin(buf, values, 8 * count);
		return;
	}
	size_t width = bits > UINT32_MAX ? 8 : 4;
	uint8_t *room = sy_mp_write_bin_room(buf, width * count);
	for (uint32_t k = 0; room != NULL && k < count; k++, room += width) {
		uint64_t value = all ? values[k] : used_value(reply, values, k);
		if (width == 8)
			sy_store_u64(room, value);
		else
			sy_store_u32(room, (uint32_t)value);
	}
}

/* Only a tensor's tail is looked at, by readers too. */
static void write_tails(struct sy_buf *buf, const struct sy_reply *reply)
{
	const struct sy_resolved *resolved = &reply->resolved;
	uint8_t *room = sy_mp_write_bin_room(buf, TAIL_BYTES * (size_t)reply->key_count);
	for (uint32_t k = 0; room != NULL && k < reply->key_count; k++, room += TAIL_BYTES) {
		bool used = sy_found_is_value(resolved->found[k]) && resolved->kind[k] == SY_KIND_TENSOR;
		uint32_t tail = used ? resolved->tail[k] : 0;
		sy_store_u16(room, (uint16_t)tail);
		room[2] = (uint8_t)(tail >> 16);
	}
}

static void write_shapes(struct sy_buf *buf, const struct sy_resolved *resolved)
{
	uint8_t shape[SY_SHAPE_MAX_BYTES];
	size_t bytes = 0;
	for (uint32_t i = 0; i < resolved->shape_count; i++)
		bytes += sy_shape_store(shape, &resolved->shapes[i]);
	uint8_t *at = sy_mp_write_bin_room(buf, bytes);
	for (uint32_t i = 0; at != NULL && i < resolved->shape_count; i++)
		at += sy_shape_store(at, &resolved->shapes[i]);
}

void sy_resolved_write(struct sy_buf *buf, const struct sy_reply *reply)
{
	const struct sy_resolved *resolved = &reply->resolved;
	bool all = all_found(reply);
	sy_mp_write_array(buf, SY_RESOLVED_COUNT);
	sy_mp_write_bin(buf, resolved->found, reply->key_count);
	write_u8(buf, reply, all, resolved->dtype);
	write_u8(buf, reply, all, resolved->kind);
	write_numbers(buf, reply, all, resolved->offset);
	write_numbers(buf, reply, all, resolved->nbytes);
	write_numbers(buf, reply, all, resolved->generation);
	write_numbers(buf, reply, all, resolved->dim0);
	write_tails(buf, reply);
	write_shapes(buf, resolved);
	sy_mp_write_bin(buf, reply->inline_bytes.data, reply->inline_bytes.bytes);
}

static uint8_t *read_bytes(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                           uint32_t key_count)
{
	struct sy_span run = sy_mp_read_bin(reader, key_count);
	if (run.bytes != key_count)
		sy_mp_fail(reader, "answers another number of keys than asked");
	uint8_t *room = sy_wire_take(reader, scratch, key_count, 1);
	if (room != NULL)
		memcpy(room, run.data, key_count);
	return room;
}

static uint64_t *read_numbers(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                              uint32_t key_count)
{
	size_t count = key_count;
	struct sy_span run = sy_mp_read_bin(reader, 8 * count);
	if (run.bytes != 8 * count && run.bytes != 4 * count)
		sy_mp_fail(reader, "answers another number of keys than asked");
	uint64_t *room = sy_wire_take(reader, scratch, key_count, sizeof *room);
	if (room == NULL)
		return NULL;
	if (run.bytes == 4 * count) {
		for (size_t k = 0; k < count; k++)
			room[k] = sy_load_u32(run.data + 4 * k);
	} else {
		for (size_t k = 0; k < count; k++)
			room[k] = sy_load_u64(run.data + 8 * k);
	}
	return room;
}

static uint32_t *read_tails(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                            uint32_t key_count)
{
	uint32_t count;
	const uint8_t *items = sy_mp_read_items(reader, TAIL_BYTES, key_count, &count);
	if (count != key_count)
		sy_mp_fail(reader, "answers another number of keys than asked");
	uint32_t *tails = sy_wire_take(reader, scratch, key_count, sizeof *tails);
	for (uint32_t k = 0; tails != NULL && k < key_count; k++, items += TAIL_BYTES)
		tails[k] = sy_load_u16(items) | (uint32_t)items[2] << 16;
	return tails;
}

/* At most as many shapes as keys, and after them one of rank 0 for keys that have none. The
 * first walk counts, so that no more memory is taken. */
static sy_shape *read_shapes(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                             uint32_t key_count, uint32_t *ret_count)
{
	struct sy_span run = sy_mp_read_bin(reader, SY_SHAPE_MAX_BYTES * (size_t)key_count);
	struct sy_span rest = run;
	sy_shape shape;
	uint32_t count = 0;
	while (rest.bytes > 0 && count < key_count && sy_shape_load(&rest, &shape))
		count++;
	if (rest.bytes > 0)
		sy_mp_fail(reader, "holds a shape that cannot be read");
	sy_shape *shapes = sy_wire_take(reader, scratch, (size_t)count + 1, sizeof *shapes);
	for (uint32_t i = 0; shapes != NULL && i < count; i++)
		sy_shape_load(&run, &shapes[i]);
	if (shapes != NULL)
		memset(&shapes[count], 0, sizeof shapes[count]);
	*ret_count = count + 1;
	return shapes;
}

enum { FORMS_SEEN = 16 };

/* Types of entries that were checked lately: the keys of a batch have few. */
struct forms {
	struct form {
		bool known;
		uint8_t dtype, kind;
		uint32_t tail;
		uint64_t unit, dim0_max;
	} seen[FORMS_SEEN];
};

static const char *form_fault(struct forms *forms, const struct sy_resolved *resolved, uint32_t k,
                              const struct form **ret_form)
{
	uint8_t dtype = resolved->dtype[k], kind = resolved->kind[k];
	uint32_t tail = resolved->tail[k];
	struct form *form = &forms->seen[(dtype + 5u * kind + 7u * tail) % FORMS_SEEN];
	*ret_form = form;
	if (form->known && form->dtype == dtype && form->kind == kind && form->tail == tail)
		return NULL;
	*form = (struct form){.dtype = dtype, .kind = kind, .tail = tail};
	const char *fault = sy_shape_fault((sy_dtype)dtype, (sy_kind)kind, &resolved->shapes[tail],
	                                   &form->unit, &form->dim0_max);
	form->known = fault == NULL;
	return fault;
}

/* A tail on the wire names one of the shapes there and is 0 for what is no tensor; that is made
 * the last shape, of rank 0, so that every tail can be looked up. */
static const char *tail_fault(struct sy_resolved *resolved, uint32_t k)
{
	uint32_t no_shape = resolved->shape_count - 1;
	if (resolved->kind[k] == SY_KIND_TENSOR)
		return resolved->tail[k] >= no_shape ? "names a shape it does not hold" : NULL;
	if (resolved->tail[k] != 0)
		return "names a shape for what is no tensor";
	resolved->tail[k] = no_shape;
	return NULL;
}

static const char *none_fault(struct sy_resolved *resolved, uint32_t k)
{
	if ((resolved->dtype[k] | resolved->kind[k] | resolved->tail[k]) != 0 ||
	    (resolved->offset[k] | resolved->nbytes[k] | resolved->generation[k] |
	     resolved->dim0[k]) != 0)
		return "tells more of a key without a value";
	resolved->tail[k] = resolved->shape_count - 1;
	return NULL;
}

static const char *key_fault(struct sy_resolved *resolved, uint32_t k, size_t inline_bytes,
                             struct forms *forms)
{
	uint64_t offset = resolved->offset[k];
	uint64_t nbytes = resolved->nbytes[k];
	switch (resolved->found[k]) {
	case SY_FOUND_ABSENT:
	case SY_FOUND_LOST_DAMAGED:
	case SY_FOUND_LOST_UNREADABLE:
	case SY_FOUND_LOST_CUT:
		return none_fault(resolved, k);
	case SY_FOUND_INLINE:
		if (offset > inline_bytes || nbytes > inline_bytes - offset)
			return "places a value outside the inline bytes";
		break;
	case SY_FOUND_PINNED:
		if (nbytes > UINT64_MAX - offset)
			return "places a value outside any slab";
		break;
	default:
		return "holds a state of a key that is not known";
	}
	const struct form *form;
	const char *fault = tail_fault(resolved, k);
	if (fault == NULL)
		fault = form_fault(forms, resolved, k, &form);
	return fault != NULL ? fault
	                     : sy_size_fault(resolved->kind[k], &resolved->shapes[resolved->tail[k]],
	                                     form->unit, form->dim0_max, nbytes, resolved->dim0[k]);
}

void sy_resolved_read(struct sy_mp_reader *reader, struct sy_scratch *scratch, uint32_t key_count,
                      struct sy_reply *reply)
{
	struct sy_resolved *resolved = &reply->resolved;
	struct forms forms = {0};
	sy_mp_expect_array(reader, SY_RESOLVED_COUNT);
	resolved->found = read_bytes(reader, scratch, key_count);
	resolved->dtype = read_bytes(reader, scratch, key_count);
	resolved->kind = read_bytes(reader, scratch, key_count);
	resolved->offset = read_numbers(reader, scratch, key_count);
	resolved->nbytes = read_numbers(reader, scratch, key_count);
	resolved->generation = read_numbers(reader, scratch, key_count);
	resolved->dim0 = read_numbers(reader, scratch, key_count);
	resolved->tail = read_tails(reader, scratch, key_count);
	resolved->shapes = read_shapes(reader, scratch, key_count, &resolved->shape_count);
	reply->inline_bytes = sy_mp_read_bin(reader, SY_MESSAGE_INLINE_TOTAL_BYTES);
	reply->key_count = key_count;
	for (uint32_t k = 0; reader->fault == NULL && k < key_count; k++) {
		const char *fault = key_fault(resolved, k, reply->inline_bytes.bytes, &forms);
		if (fault != NULL)
			sy_mp_fail(reader, fault);
	}
}
