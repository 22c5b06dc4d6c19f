/* resolve_keys, pins and their end, pin_check, scan. */
#include "core_driver.h"

static struct test_index t;

enum { TOKEN = 9, SLAB = 1 << 22 };

static struct driver *open_default(void)
{
	struct sy_core_params params = driver_params(SLAB);
	return driver_open(&params);
}

static void test_places(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	index_of(&t, 1, 10, 3, 2, 200);
	t.columns[1].kind = SY_KIND_TENSOR;
	t.columns[1].dtype = SY_DTYPE_F32;
	t.columns[1].shape = (sy_shape){.rank = 2, .tail = {10}};
	struct sy_outcome region = put(d, &c, 0, 1, 1, &t.index);
	/* Row-major product with a row and a field that there is not, and one key twice. */
	struct sy_span fields[] = {span("a01"), span("nothing"), span("a00"), span("a01")};
	struct sy_event e = resolve_event(d, &c, 1, 1, 11, 3, fields, 4, 0);
	step(d, &e);
	assert_ok(d);
	static const uint8_t found[] = {1, 0, 1, 1, 1, 0, 1, 1, 0, 0, 0, 0};
	assert_memory_equal(d->out.found, found, sizeof found);
	assert_int_equal(d->out.offset[0], region.offset + t.columns[1].base + 256);
	assert_int_equal(d->out.offset[4], region.offset + t.columns[1].base + 512);
	assert_int_equal(d->out.offset[6], region.offset + t.columns[0].base + 512);
	assert_int_equal(d->out.offset[7], d->out.offset[4]);
	assert_int_equal(d->out.nbytes[0], 200);
	assert_int_equal(d->out.generation[0], region.generation);
	assert_int_equal(d->out.dtype[0], SY_DTYPE_F32);
	assert_int_equal(d->out.kind[0], SY_KIND_TENSOR);
	assert_int_equal(d->out.dim0[0], 5);
	assert_int_equal(d->out.shapes[d->out.tail[0]].rank, 2);
	assert_int_equal(d->out.shapes[d->out.tail[0]].tail[0], 10);
	assert_int_equal(d->out.kind[2], SY_KIND_BYTES);
	assert_int_equal(d->out.shapes[d->out.tail[2]].rank, 0);
	assert_int_equal(d->out.shape_count, 2);
	assert_int_equal(stats(d).resolved, 6);
	/* A field a key. */
	static const uint16_t field_of[] = {2, 0, 1};
	e = resolve_event(d, &c, 1, 2, 10, 3, fields, 4, 0);
	e.request.resolve.field_of = field_of;
	e.request.resolve.key_count = 3;
	step(d, &e);
	assert_ok(d);
	assert_int_equal(d->out.offset[0], region.offset + t.columns[0].base);
	assert_int_equal(d->out.offset[1], region.offset + t.columns[1].base + 256);
	assert_int_equal(d->out.found[2], SY_FOUND_ABSENT);
	driver_close(d);
}

static void test_refused(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct sy_span fields[] = {span("a00"), span("a01")};
	struct sy_event e = resolve_event(d, &c, 1, 1, 0, 2, fields, 2, 0);
	e.request.resolve.key_count = 3;
	step(d, &e);
	assert_protocol(d, SY_WHY_MALFORMED);
	static const uint16_t field_of[] = {0, 2};
	e = resolve_event(d, &c, 1, 2, 0, 2, fields, 2, 0);
	e.request.resolve.field_of = field_of;
	e.request.resolve.key_count = 2;
	step(d, &e);
	assert_protocol(d, SY_WHY_MALFORMED);
	e.request.id.seq = 3;
	e.request.resolve.key_count = 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_MALFORMED);
	e = resolve_event(d, &c, 1, 4, 0, SY_KEYS_PER_RESOLVE_MAX, fields, 2, 0);
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_MANY);
	/* Rows times fields that overflow 32 bits. */
	e = resolve_event(d, &c, 1, 5, 0, 1, fields, 2, 0);
	e.request.resolve.row_count = 1u << 31;
	e.request.resolve.key_count = 0;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_MANY);
	/* No keys at all are no error. */
	e = resolve_event(d, &c, 1, 6, 0, 0, fields, 0, 0);
	step(d, &e);
	assert_ok(d);
	assert_int_equal(stats(d).pins, 0);
	driver_close(d);
}

static void test_inline(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 8, 1, 1000));
	put(d, &c, 0, 3, 2, index_of(&t, 2, 30, 1, 1, 1025));
	put(d, &c, 0, 5, 3, index_of(&t, 3, 40, 1, 1, 0));
	struct sy_span field = span("a00");
	/* Four of 1,000 bytes fit into 4,096, eight do not: then all are pinned. */
	struct sy_event e = resolve_event(d, &c, 1, 1, 10, 8, &field, 1, 5000);
	step(d, &e);
	assert_memory_equal(d->out.found, "\1\1\1\1\1\1\1\1", 8);
	assert_int_equal(stats(d).pins, 1);
	/* The unit's own limit a value; a small one beside it is pinned, too. */
	e = resolve_event(d, &c, 1, 2, 30, 1, &field, 1, 5000);
	step(d, &e);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	e = resolve_event(d, &c, 1, 6, 0, 2, &field, 1, 5000);
	static const uint64_t mixed_rows[] = {30, 10};
	e.request.resolve.rows = mixed_rows;
	step(d, &e);
	assert_memory_equal(d->out.found, "\1\1", 2);
	e = resolve_event(d, &c, 1, 7, 10, 4, &field, 1, 5000);
	step(d, &e);
	assert_memory_equal(d->out.found, "\2\2\2\2", 4);
	/* The asker's. */
	e = resolve_event(d, &c, 1, 8, 10, 1, &field, 1, 999);
	step(d, &e);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	/* Nothing pinned: no pin. An empty value is found. */
	uint64_t pins = stats(d).pins;
	e = resolve_event(d, &c, 1, 9, 10, 1, &field, 1, 1000);
	step(d, &e);
	assert_int_equal(d->out.found[0], SY_FOUND_INLINE);
	e = resolve_event(d, &c, 1, 10, 40, 1, &field, 1, 0);
	step(d, &e);
	assert_int_equal(d->out.found[0], SY_FOUND_INLINE);
	assert_int_equal(d->out.nbytes[0], 0);
	assert_int_equal(stats(d).pins, pins);
	driver_close(d);
}

/* Batches of a client of this host go inline up to 32 KiB, whatever a message may hold. */
static void test_inline_while_it_pays(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.inline_total_bytes = 1 << 20;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 0, 33, 1, 1024));
	struct sy_span field = span("a00");
	struct sy_event e = resolve_event(d, &c, 1, 1, 0, 32, &field, 1, 5000);
	step(d, &e);
	assert_int_equal(d->out.found[0], SY_FOUND_INLINE);
	assert_int_equal(d->out.found[31], SY_FOUND_INLINE);
	e = resolve_event(d, &c, 1, 2, 0, 33, &field, 1, 5000);
	step(d, &e);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	assert_int_equal(d->out.found[32], SY_FOUND_PINNED);
	driver_close(d);
}

/* A client that no transport takes to the slab gets inline as much as goes into the message. */
static void test_inline_is_the_only_way(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.remote_write = false;
	struct driver *d = driver_open(&params);
	struct client local = client_new(d, 1, TOKEN), far = client_new(d, 2, 0);
	put(d, &local, 0, 1, 1, index_of(&t, 1, 10, 8, 1, 1000));
	struct sy_span field = span("a00");
	struct sy_event e = resolve_event(d, &far, 1, 1, 10, 8, &field, 1, 5000);
	step(d, &e);
	assert_memory_equal(d->out.found, "\2\2\2\2\1\1\1\1", 8);
	driver_close(d);
}

static void test_pinned_until_unpinned(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct client other = client_new(d, 2, TOKEN + 1);
	const sy_index *index = index_of(&t, 1, 10, 4, 1, 2000);
	put(d, &c, 0, 1, 1, index);
	resolve(d, &c, 1, 1, 10, 4);
	assert_int_equal(d->core->volatiles.pin_refs.used, 1); /* one blob, held once */
	resolve(d, &c, 2, 1, 10, 1);
	resolve(d, &other, 1, 1, 10, 4);
	release(d, &c, 3, 1, 10, 4);
	assert_int_equal(answer(d).count, 4);
	assert_int_equal(stats(d).bytes.released, index->blob_bytes);
	advance(d, 1000000ull * SEC); /* same host: no time limit */
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	notify_one(d, &other, SY_NOTICE_UNPIN, name_of(&other, 1, 1), false);
	assert_int_equal(stats(d).bytes.released, index->blob_bytes);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 2, 1), false);
	assert_int_equal(stats(d).bytes.free, SLAB);
	assert_int_equal(stats(d).pins, 0);
	driver_close(d);
}

/* The mark that keeps a pin from taking a blob twice is the pin's index, which is used again. */
static void test_mark_of_an_older_pin(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 4, 1, 2000));
	for (uint64_t i = 1; i <= 3; i++) {
		resolve(d, &c, 1, i, 10, 4);
		if (i < 3)
			notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, i), false);
	}
	release(d, &c, 3, 1, 10, 4);
	assert_int_not_equal(stats(d).bytes.released, 0);
	driver_close(d);
}

static void test_remote_pin_expires_into_quarantine(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	struct client local = client_new(d, 2, TOKEN);
	const sy_index *index = index_of(&t, 1, 10, 4, 1, 2000);
	put(d, &local, 0, 1, 1, index);
	resolve(d, &c, 1, 1, 10, 4);
	uint64_t resolved_ns = d->now_ns;
	release(d, &local, 3, 1, 10, 4);
	d->now_ns = resolved_ns + 59ull * SEC;
	struct sy_event e = request(&c, SY_OP_HEARTBEAT, 0, 1);
	step(d, &e);
	step_kind(d, SY_EVENT_TICK);
	assert_int_equal(stats(d).pins, 1);
	assert_int_equal(sy_core_deadline(d->core), resolved_ns + 60ull * SEC);
	advance(d, 1ull * SEC);
	assert_int_equal(stats(d).pins, 0);
	assert_int_equal(stats(d).bytes.quarantined, index->blob_bytes);
	/* That it is given back too late changes nothing. */
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	assert_int_equal(stats(d).bytes.quarantined, index->blob_bytes);
	advance(d, 59ull * SEC);
	assert_int_equal(stats(d).bytes.quarantined, index->blob_bytes);
	advance(d, 1ull * SEC);
	settle(d);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

static void test_quarantine_though_another_pin_is_given_back(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	struct client local = client_new(d, 2, TOKEN);
	const sy_index *index = index_of(&t, 1, 10, 4, 1, 2000);
	put(d, &local, 0, 1, 1, index);
	resolve(d, &c, 1, 1, 10, 4);
	resolve(d, &local, 1, 1, 10, 4);
	advance(d, 60ull * SEC);
	settle(d);
	release(d, &local, 3, 1, 10, 4);
	d->now_ns += 10ull * SEC;
	notify_one(d, &local, SY_NOTICE_UNPIN, name_of(&local, 1, 1), false);
	assert_int_equal(stats(d).bytes.quarantined, index->blob_bytes);
	advance(d, 50ull * SEC);
	settle(d);
	assert_int_equal(stats(d).bytes.quarantined, 0);
	/* One that was given back in time leaves no quarantine. */
	put(d, &local, 0, 3, 2, index_of(&t, 2, 10, 4, 1, 2000));
	hello(d, &c);
	resolve(d, &c, 1, 1, 10, 4);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	release(d, &local, 3, 2, 10, 4);
	assert_int_equal(stats(d).bytes.free, SLAB);
	driver_close(d);
}

/* More is due at once than a step does. */
static void test_many_expire(void **state)
{
	(void)state;
	enum { MANY = 200 };
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	struct client local = client_new(d, 2, TOKEN);
	for (uint64_t i = 0; i < MANY; i++)
		put(d, &local, 0, 2 * i + 1, i + 1, index_of(&t, i + 1, i, 1, 1, 2000));
	resolve(d, &c, 1, 1, 0, MANY);
	release(d, &local, 1, 1, 0, MANY);
	advance(d, 60ull * SEC);
	settle(d);
	assert_int_equal(stats(d).blobs, MANY);
	assert_int_equal(stats(d).pins, 0);
	advance(d, 60ull * SEC);
	assert_true(d->fx.again);
	settle(d);
	assert_int_equal(stats(d).blobs, 0);
	driver_close(d);
}

static void test_pins_full(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.max_pins = 2;
	params.max_entries = 4;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	for (uint64_t i = 0; i < 4; i++)
		put(d, &c, 0, 2 * i + 1, i + 1, index_of(&t, i + 1, 10 + i, 1, 1, 2000));
	struct sy_span field = span("a00");
	resolve(d, &c, 1, 1, 10, 3);
	/* References: four, of which one is left. Nothing is pinned then. */
	struct sy_event e = resolve_event(d, &c, 2, 1, 10, 4, &field, 1, 0);
	step(d, &e);
	assert_full(d, SY_RESOURCE_PINS);
	assert_int_equal(answer(d).need, 2);
	assert_int_equal(answer(d).free, 1);
	assert_int_equal(stats(d).pins, 1);
	resolve(d, &c, 2, 2, 10, 1);
	/* Pins: two. */
	e = resolve_event(d, &c, 3, 1, 10, 1, &field, 1, 0);
	step(d, &e);
	assert_full(d, SY_RESOURCE_PINS);
	/* What needs none is served. */
	e = resolve_event(d, &c, 3, 2, 99, 1, &field, 1, 0);
	step(d, &e);
	assert_ok(d);
	driver_close(d);
}

static void test_pin_check(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	struct client local = client_new(d, 2, TOKEN);
	put(d, &local, 0, 1, 1, index_of(&t, 1, 10, 4, 1, 2000));
	resolve(d, &c, 1, 1, 10, 1);
	resolve(d, &local, 1, 1, 10, 1);
	struct sy_request_id names[] = {name_of(&c, 1, 1), name_of(&c, 1, 2), name_of(&local, 1, 1)};
	uint8_t held[3];
	struct sy_event e = request(&c, SY_OP_PIN_CHECK, 2, 1);
	e.request.pin_check.names = names;
	e.request.pin_check.count = 3;
	e.request.pin_check.held = held;
	step(d, &e);
	assert_ok(d);
	static const uint8_t own[] = {1, 0, 0};
	assert_memory_equal(held, own, sizeof own);
	/* Its time is over, though no timer ran yet. */
	d->now_ns += 60ull * SEC;
	step(d, &e);
	assert_int_equal(held[0], 0);
	e.request.id = name_of(&local, 2, 1);
	step(d, &e);
	assert_int_equal(held[2], 1);
	/* Of an ended session: not held, though the pin stands. */
	struct client old = local;
	hello(d, &local);
	names[0] = name_of(&old, 1, 1);
	e.request.id = name_of(&local, 2, 1);
	step(d, &e);
	assert_int_equal(held[0], 0);
	assert_int_equal(stats(d).pins, 2);
	e.request.id.seq = 2;
	e.request.pin_check.count = SY_NAMES_PER_PIN_CHECK_MAX + 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_MANY);
	driver_close(d);
}

static void scan(struct driver *d, const struct client *c, uint64_t seq, uint64_t first,
                 uint64_t last, const struct sy_span *fields, uint32_t field_count,
                 uint32_t limit)
{
	struct sy_event e = request(c, SY_OP_SCAN, 9, seq);
	e.request.scan.cursor = d->cursor;
	e.request.scan.first_row = first;
	e.request.scan.last_row = last;
	e.request.scan.fields = fields;
	e.request.scan.field_count = field_count;
	e.request.scan.limit = limit;
	e.request.scan.out = d->items;
	e.request.scan.ret_count = &d->item_count;
	e.request.scan.ret_cursor = &d->cursor;
	step(d, &e);
}

static void test_scan(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 10, 2, 100));
	put(d, &c, 0, 3, 2, index_of(&t, 2, 100, 10, 1, 200));
	put(d, &c, 0, 5, 3, index_of(&t, 3, 12, 1, 1, 300)); /* overwrites 12@a00 */
	uint32_t seen[200] = {0}, total = 0;
	uint64_t seq = 1;
	do {
		scan(d, &c, seq++, 0, UINT64_MAX, NULL, 0, 7);
		assert_ok(d);
		assert_true(d->item_count <= 7);
		for (uint32_t i = 0; i < d->item_count; i++)
			seen[d->items[i].row]++;
		total += d->item_count;
		/* Entries come and go in between; those that stand come once. */
		release(d, &c, 1, seq, 200 + seq, 1);
		put(d, &c, 2, 2 * seq, 1000 + seq, index_of(&t, 1000 + seq, 150 + seq, 1, 1, 1));
	} while (d->cursor != 0);
	for (uint32_t row = 0; row < 150; row++)
		assert_int_equal(seen[row], row >= 10 && row < 20 ? 2 : row >= 100 && row < 110 ? 1 : 0);
	assert_true(total >= 30);
	struct sy_span field = span("a00");
	scan(d, &c, 100, 12, 13, &field, 1, 64);
	assert_int_equal(d->cursor, 0);
	assert_int_equal(d->item_count, 2);
	uint64_t sum = d->items[0].nbytes + d->items[1].nbytes;
	assert_int_equal(sum, 400);
	assert_int_equal(d->items[0].field.bytes, 3);
	assert_memory_equal(d->items[0].field.data, "a00", 3);
	field = span("unknown");
	scan(d, &c, 101, 0, UINT64_MAX, &field, 1, 64);
	assert_int_equal(d->item_count, 0);
	d->cursor = UINT64_MAX; /* nonsense is the end */
	scan(d, &c, 102, 0, UINT64_MAX, NULL, 0, 64);
	assert_int_equal(d->item_count, 0);
	assert_int_equal(d->cursor, 0);
	scan(d, &c, 103, 0, 1, NULL, 0, SY_SCAN_LIMIT_MAX + 1);
	assert_protocol(d, SY_WHY_TOO_MANY);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_inline_while_it_pays),
		cmocka_unit_test(test_inline_is_the_only_way),
		cmocka_unit_test(test_pinned_until_unpinned),
		cmocka_unit_test(test_mark_of_an_older_pin),
		cmocka_unit_test(test_remote_pin_expires_into_quarantine),
		cmocka_unit_test(test_quarantine_though_another_pin_is_given_back),
		cmocka_unit_test(test_many_expire),
		cmocka_unit_test(test_pins_full),
		cmocka_unit_test(test_pin_check),
		cmocka_unit_test(test_scan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
