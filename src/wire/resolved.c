/* The result of resolve_keys: ten runs of bytes, one item a key in each of the first eight.
 * A reply is copied four times on its way, so numbers take four bytes each where all of a run fit,
 * and what the rows of a batch have in common is written once: where the types of all keys repeat
 * those of the first few, a row's, then found, dtype, kind and tail hold those few alone, and so
 * does generation if that repeats as well. */
#include "wire_parts.h"

enum { TAIL_BYTES = 3 };

static bool all_found(const struct sy_reply *reply)
{
	bool all = true;
	for (uint32_t k = 0; k < reply->key_count; k++)
		all &= sy_found_is_value(reply->resolved.found[k]);
	return all;
}

/* Whether all items are those of the first `few` over and over; more than twice, so that a run of
 * few numbers is of no length that one of all can have. */
static bool repeats(const void *items, size_t item_bytes, size_t count, size_t few)
{
	size_t bytes = count * item_bytes, few_bytes = few * item_bytes;
	return few > 0 && count > 2 * few && count % few == 0 &&
	       memcmp(items, (const uint8_t *)items + few_bytes, bytes - few_bytes) == 0;
}

/* How many keys' types are written. */
static uint32_t count_types(const struct sy_reply *reply, bool all)
{
	const struct sy_resolved *resolved = &reply->resolved;
	uint32_t count = reply->key_count, few = reply->row_keys;
	bool repeat = all && repeats(resolved->found, 1, count, few) &&
	              repeats(resolved->dtype, 1, count, few) &&
	              repeats(resolved->kind, 1, count, few) &&
	              repeats(resolved->tail, sizeof *resolved->tail, count, few);
	return repeat ? few : count;
}

/* The other fields of a key without a value are of no matter and travel as zeros. */
static void write_u8(struct sy_buf *buf, const struct sy_reply *reply, bool all, uint32_t count,
                     const uint8_t *values)
{
	if (all) {
		sy_mp_write_bin(buf, values, count);
		return;
	}
	uint8_t *room = sy_mp_write_bin_room(buf, count);
	for (uint32_t k = 0; room != NULL && k < count; k++)
		room[k] = sy_found_is_value(reply->resolved.found[k]) ? values[k] : 0;
}

/* Zero for a key without a value. */
static uint64_t used_value(const struct sy_reply *reply, const uint64_t *values, uint32_t k)
{
	return sy_found_is_value(reply->resolved.found[k]) ? values[k] : 0;
}

/* The common case by itself, without a look at each key: its loops become vector code. */
static void write_all_numbers(struct sy_buf *buf, size_t count, const uint64_t *values)
{
	uint64_t bits = 0;
	for (size_t k = 0; k < count; k++)
		bits |= values[k];
	if (bits > UINT32_MAX) {
		sy_mp_write_bin(buf, values, 8 * count);
		return;
	}
	uint8_t *room = sy_mp_write_bin_room(buf, 4 * count);
	for (size_t k = 0; room != NULL && k < count; k++)
		sy_store_u32(room + 4 * k, (uint32_t)values[k]);
}

static void write_numbers(struct sy_buf *buf, const struct sy_reply *reply, bool all,
                          const uint64_t *values)
{
	size_t count = reply->key_count;
	uint64_t bits = 0;
	if (all) {
		write_all_numbers(buf, count, values);
		return;
	}
	for (uint32_t k = 0; k < count; k++)
		bits |= used_value(reply, values, k);
	size_t width = bits > UINT32_MAX ? 8 : 4;
	uint8_t *room = sy_mp_write_bin_room(buf, width * count);
	for (uint32_t k = 0; room != NULL && k < count; k++, room += width) {
		uint64_t value = used_value(reply, values, k);
		if (width == 8)
			sy_store_u64(room, value);
		else
			sy_store_u32(room, (uint32_t)value);
	}
}

/* Only a tensor's tail is looked at, by readers too. */
static void write_tails(struct sy_buf *buf, const struct sy_resolved *resolved, uint32_t count)
{
	uint8_t *room = sy_mp_write_bin_room(buf, TAIL_BYTES * (size_t)count);
	for (uint32_t k = 0; room != NULL && k < count; k++, room += TAIL_BYTES) {
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
	uint32_t types = count_types(reply, all);
	sy_mp_write_array(buf, SY_RESOLVED_COUNT);
	sy_mp_write_bin(buf, resolved->found, types);
	write_u8(buf, reply, all, types, resolved->dtype);
	write_u8(buf, reply, all, types, resolved->kind);
	write_numbers(buf, reply, all, resolved->offset);
	write_numbers(buf, reply, all, resolved->nbytes);
	if (types < reply->key_count && repeats(resolved->generation, sizeof *resolved->generation,
	                                        reply->key_count, types))
		sy_mp_write_bin(buf, resolved->generation, types * sizeof *resolved->generation);
	else
		write_numbers(buf, reply, all, resolved->generation);
	write_numbers(buf, reply, all, resolved->dim0);
	write_tails(buf, resolved, types);
	write_shapes(buf, resolved);
	sy_mp_write_bin(buf, reply->inline_bytes.data, reply->inline_bytes.bytes);
}

/* Fills the rest of an array with its first items over and over. */
static void repeat(void *items, size_t few_bytes, size_t bytes)
{
	uint8_t *to = items;
	for (size_t done = few_bytes, more; done < bytes; done += more) {
		more = sy_min_u64(done, bytes - done);
		memcpy(to + done, to, more);
	}
}

/* The first run says of how many keys the types are told. */
static uint32_t read_type_count(struct sy_mp_reader *reader, uint32_t key_count,
                                struct sy_span *ret_found)
{
	*ret_found = sy_mp_read_bin(reader, key_count);
	uint32_t types = (uint32_t)ret_found->bytes;
	if (types == key_count)
		return types;
	if (types == 0 || key_count % types != 0)
		sy_mp_fail(reader, "answers another number of keys than asked");
	return types;
}

static uint8_t *spread_bytes(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                             struct sy_span run, uint32_t types, uint32_t key_count)
{
	if (run.bytes != types)
		sy_mp_fail(reader, "answers another number of keys than asked");
	uint8_t *room = sy_wire_take(reader, scratch, key_count, 1);
	if (room == NULL)
		return NULL;
	memcpy(room, run.data, types);
	repeat(room, types, key_count);
	return room;
}

static uint8_t *read_bytes(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                           uint32_t types, uint32_t key_count)
{
	struct sy_span run = sy_mp_read_bin(reader, key_count);
	return spread_bytes(reader, scratch, run, types, key_count);
}

static uint64_t *read_numbers(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                              uint32_t types, uint32_t key_count)
{
	size_t count = key_count;
	struct sy_span run = sy_mp_read_bin(reader, 8 * count);
	size_t width = run.bytes == 4 * count ? 4 : 8;
	size_t told = run.bytes / width;
	if (run.bytes != width * count && run.bytes != width * types)
		sy_mp_fail(reader, "answers another number of keys than asked");
	uint64_t *room = sy_wire_take(reader, scratch, key_count, sizeof *room);
	if (room == NULL)
		return NULL;
	if (width == 4) {
		for (size_t k = 0; k < count; k++)
			room[k] = sy_load_u32(run.data + 4 * k);
	} else {
		for (size_t k = 0; k < told; k++)
			room[k] = sy_load_u64(run.data + 8 * k);
		repeat(room, told * sizeof *room, count * sizeof *room);
	}
	return room;
}

static uint32_t *read_tails(struct sy_mp_reader *reader, struct sy_scratch *scratch,
                            uint32_t types, uint32_t key_count)
{
	uint32_t count;
	const uint8_t *items = sy_mp_read_items(reader, TAIL_BYTES, key_count, &count);
	if (count != types)
		sy_mp_fail(reader, "answers another number of keys than asked");
	uint32_t *tails = sy_wire_take(reader, scratch, key_count, sizeof *tails);
	if (tails == NULL)
		return NULL;
	for (uint32_t k = 0; k < types; k++, items += TAIL_BYTES)
		tails[k] = sy_load_u16(items) | (uint32_t)items[2] << 16;
	repeat(tails, types * sizeof *tails, key_count * sizeof *tails);
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

enum { FORMS_SEEN_BITS = 4, FORMS_SEEN = 1 << FORMS_SEEN_BITS };

/* What the keys of a batch have in common: they are of few types. `word` holds all that the answer
 * tells of one but where its value lies and how long it is. */
struct form {
	bool known;
	uint64_t word;
	uint32_t shape;
	uint64_t unit, dim0_max;
};

/* A tail on the wire names one of the shapes there and is 0 for what is no tensor; that is made
 * the last shape, of rank 0, so that every tail can be looked up. */
static const char *form_fault(const struct sy_resolved *resolved, uint32_t k, struct form *form)
{
	uint32_t no_shape = resolved->shape_count - 1, tail = resolved->tail[k];
	uint8_t dtype = resolved->dtype[k], kind = resolved->kind[k], found = resolved->found[k];
	form->shape = kind == SY_KIND_TENSOR ? tail : no_shape;
	if (found == SY_FOUND_ABSENT || sy_found_is_lost(found))
		return (dtype | kind | tail) != 0 ? "tells more of a key without a value" : NULL;
	if (!sy_found_is_value(found))
		return "holds a state of a key that is not known";
	if (kind == SY_KIND_TENSOR && tail >= no_shape)
		return "names a shape it does not hold";
	if (kind != SY_KIND_TENSOR && tail != 0)
		return "names a shape for what is no tensor";
	return sy_shape_fault((sy_dtype)dtype, (sy_kind)kind, &resolved->shapes[form->shape],
	                      &form->unit, &form->dim0_max);
}

static const char *place_fault(struct sy_resolved *resolved, uint32_t k, size_t inline_bytes)
{
	struct sy_resolved_sum *sum = &resolved->sum;
	uint64_t offset = resolved->offset[k], nbytes = resolved->nbytes[k];
	switch (resolved->found[k]) {
	case SY_FOUND_PINNED:
		if (nbytes > UINT64_MAX - offset)
			return "places a value outside any slab";
		sum->pinned_count++;
		sum->pinned_bytes += nbytes;
		sum->pinned_end = sy_max_u64(sum->pinned_end, offset + nbytes);
		return NULL;
	case SY_FOUND_INLINE:
		if (offset > inline_bytes || nbytes > inline_bytes - offset)
			return "places a value outside the inline bytes";
		sum->inline_largest = sy_max_u64(sum->inline_largest, nbytes);
		return NULL;
	default:
		*(resolved->found[k] == SY_FOUND_ABSENT ? &sum->absent_count : &sum->lost_count) += 1;
		return (offset | nbytes | resolved->generation[k] | resolved->dim0[k]) != 0
			? "tells more of a key without a value" : NULL;
	}
}

/* The types of a few keys, which are those of all, are checked each in its own place; of more a
 * hash finds those that were met before. */
static const char *find_form(const struct sy_resolved *resolved, uint32_t k, uint32_t types,
                             struct form *seen, struct form **ret_form)
{
	uint64_t word = resolved->found[k] | (uint64_t)resolved->dtype[k] << 8 |
		(uint64_t)resolved->kind[k] << 16 | (uint64_t)resolved->tail[k] << 24;
	uint64_t slot = types <= FORMS_SEEN
		? k : word * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FORMS_SEEN_BITS);
	struct form *form = &seen[slot];
	*ret_form = form;
	if (form->known && form->word == word)
		return NULL;
	*form = (struct form){.word = word};
	const char *fault = form_fault(resolved, k, form);
	form->known = fault == NULL;
	return fault;
}

static const char *key_fault(struct sy_resolved *resolved, uint32_t k, size_t inline_bytes,
                             const struct form *form)
{
	const char *fault = place_fault(resolved, k, inline_bytes);
	resolved->tail[k] = form->shape;
	if (fault != NULL || !sy_found_is_value(resolved->found[k]))
		return fault;
	return sy_size_fault(resolved->kind[k], &resolved->shapes[form->shape], form->unit,
	                     form->dim0_max, resolved->nbytes[k], resolved->dim0[k]);
}

static void check_keys(struct sy_mp_reader *reader, struct sy_reply *reply, uint32_t types)
{
	struct sy_resolved *resolved = &reply->resolved;
	struct form seen[FORMS_SEEN] = {0}, *form;
	uint32_t place = 0; /* k % types, without a division a key */
	resolved->sum = (struct sy_resolved_sum){0};
	for (uint32_t k = 0; reader->fault == NULL && k < reply->key_count; k++) {
		const char *fault = NULL;
		if (types <= FORMS_SEEN && k >= types)
			form = &seen[place];
		else
			fault = find_form(resolved, k, types, seen, &form);
		place = place + 1 == types ? 0 : place + 1;
		if (fault == NULL)
			fault = key_fault(resolved, k, reply->inline_bytes.bytes, form);
		if (fault != NULL)
			sy_mp_fail(reader, fault);
	}
}

void sy_resolved_read(struct sy_mp_reader *reader, struct sy_scratch *scratch, uint32_t key_count,
                      struct sy_reply *reply)
{
	struct sy_resolved *resolved = &reply->resolved;
	struct sy_span found;
	sy_mp_expect_array(reader, SY_RESOLVED_COUNT);
	uint32_t types = read_type_count(reader, key_count, &found);
	resolved->found = spread_bytes(reader, scratch, found, types, key_count);
	resolved->dtype = read_bytes(reader, scratch, types, key_count);
	resolved->kind = read_bytes(reader, scratch, types, key_count);
	resolved->offset = read_numbers(reader, scratch, key_count, key_count);
	resolved->nbytes = read_numbers(reader, scratch, key_count, key_count);
	resolved->generation = read_numbers(reader, scratch, types, key_count);
	resolved->dim0 = read_numbers(reader, scratch, key_count, key_count);
	resolved->tail = read_tails(reader, scratch, types, key_count);
	resolved->shapes = read_shapes(reader, scratch, key_count, &resolved->shape_count);
	reply->inline_bytes = sy_mp_read_bin(reader, SY_MESSAGE_INLINE_TOTAL_BYTES);
	reply->key_count = key_count;
	check_keys(reader, reply, types);
}
