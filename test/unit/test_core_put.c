/* alloc, commit, put_inline: by the state of the blob, and every reason to refuse. */
#include "core_driver.h"

static struct test_index t, t2;

enum { TOKEN = 9, SLAB = 1 << 20 };

static struct driver *open_default(void)
{
	struct sy_core_params params = driver_params(SLAB);
	return driver_open(&params);
}

static struct sy_event inline_event(const struct client *c, uint32_t slot, uint64_t seq,
                                    const sy_index *index)
{
	struct sy_event e = request(c, SY_OP_PUT_INLINE, slot, seq);
	e.request.put_inline.index = index;
	e.request.put_inline.until_ns = UINT64_MAX;
	return e;
}

static void test_alloc_sizes(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct {
		uint64_t nbytes;
		uint32_t entries;
	} bad[] = {{0, 1}, {64, 0}, {64, SY_ENTRIES_PER_BLOB_MAX + 1}};
	for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
		struct sy_event e = alloc_event(&c, 0, i + 1, 1, bad[i].nbytes, bad[i].entries);
		step(d, &e);
		assert_protocol(d, SY_WHY_SIZE);
	}
	struct sy_event e = alloc_event(&c, 0, 9, 1, SLAB + 1, 1);
	step(d, &e);
	assert_full(d, SY_RESOURCE_BYTES);
	assert_int_equal(answer(d).need, SLAB + 1);
	assert_int_equal(answer(d).free, SLAB);
	assert_int_equal(answer(d).hole, SLAB);
	e = alloc_event(&c, 0, 10, 1, UINT64_MAX, 1);
	step(d, &e);
	assert_full(d, SY_RESOURCE_BYTES);
	assert_int_equal(alloc(d, &c, 0, 11, 1, SLAB, SY_ENTRIES_PER_BLOB_MAX).fault, SY_FAULT_NONE);
	e = alloc_event(&c, 1, 1, 2, 1, 1);
	step(d, &e);
	assert_full(d, SY_RESOURCE_BYTES);
	assert_int_equal(answer(d).free, 0);
	driver_close(d);
}

/* Kind: free space but no hole. */
static void test_alloc_full_of_fragments(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	for (uint64_t i = 1; i <= 16; i++)
		assert_int_equal(alloc(d, &c, 0, i, i, SLAB / 16, 1).fault, SY_FAULT_NONE);
	for (uint64_t i = 1; i <= 16; i += 2)
		notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, i), false);
	struct sy_event e = alloc_event(&c, 0, 17, 17, SLAB / 8, 1);
	step(d, &e);
	assert_full(d, SY_RESOURCE_BYTES);
	assert_int_equal(answer(d).need, SLAB / 8);
	assert_int_equal(answer(d).free, SLAB / 2);
	assert_int_equal(answer(d).hole, SLAB / 16);
	driver_close(d);
}

static void test_alloc_by_state(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct client other = client_new(d, 2, TOKEN + 1);
	const sy_index *index = index_of(&t, 1, 10, 2, 1, 2000);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, index->blob_bytes, 2);
	struct sy_event e = alloc_event(&c, 1, 1, 1, index->blob_bytes, 2);
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	commit(d, &c, 0, 2, 1, region.generation, index);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	/* Published: its client is told so and gets no region, others and other sizes are refused. */
	struct sy_outcome again = alloc(d, &c, 1, 2, 1, index->blob_bytes, 2);
	assert_int_equal(again.fault, SY_FAULT_NONE);
	assert_int_equal(again.answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(again.generation, 0);
	e = alloc_event(&c, 1, 3, 1, index->blob_bytes + 1, 2);
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	e = alloc_event(&c, 1, 4, 1, index->blob_bytes, 1);
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	e = alloc_event(&other, 1, 1, 1, index->blob_bytes, 2);
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	/* Released but pinned: still published. */
	resolve(d, &c, 2, 1, 10, 1);
	release(d, &c, 3, 1, 10, 2);
	assert_int_equal(stats(d).bytes.released, index->blob_bytes);
	assert_int_equal(alloc(d, &c, 1, 5, 1, index->blob_bytes, 2).answer, SY_ANSWER_PUBLISHED);
	commit(d, &c, 0, 3, 1, region.generation, index);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(stats(d).rows, 0);
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 2, 1), false);
	/* Gone: a new region, and the old grant is Missing. */
	commit(d, &c, 0, 4, 1, region.generation, index);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	again = alloc(d, &c, 1, 6, 1, index->blob_bytes, 2);
	assert_int_equal(again.answer, SY_ANSWER_REGION);
	assert_true(again.generation > region.generation);
	driver_close(d);
}

static void test_namespaces_are_apart(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client a = client_new(d, 1, TOKEN);
	struct client b = {.identity = {.random = 2}, .token = TOKEN + 1, .count = 1};
	struct sy_event e = hello_event(&b);
	e.request.hello.ns = span("other");
	step(d, &e);
	b.session = answer(d).count;
	put(d, &a, 0, 1, 1, index_of(&t, 1, 10, 1, 1, 2000));
	put(d, &b, 0, 1, 1, index_of(&t, 1, 10, 1, 1, 3000));
	resolve(d, &a, 1, 1, 10, 1);
	assert_int_equal(d->out.nbytes[0], 2000);
	resolve(d, &b, 1, 1, 10, 1);
	assert_int_equal(d->out.nbytes[0], 3000);
	release(d, &b, 2, 1, 10, 1);
	assert_int_equal(answer(d).count, 1);
	resolve(d, &a, 1, 2, 10, 1);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	driver_close(d);
}

static void test_commit_refused(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	struct client other = client_new(d, 2, TOKEN + 1);
	const sy_index *index = index_of(&t, 1, 10, 2, 1, 100);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, index->blob_bytes, 2);
	uint64_t offset = 0, nbytes = 0;
	struct sy_event e = commit_event(&c, 0, 2, 1, region.generation, NULL);
	assert_true(sy_core_commit_region(d->core, &e.request, &offset, &nbytes));
	assert_int_equal(offset, region.offset);
	assert_int_equal(nbytes, index->blob_bytes);
	step(d, &e);
	assert_protocol(d, SY_WHY_INDEX);
	assert_false(sy_core_commit_region(d->core, &e.request, &offset, &nbytes));
	commit(d, &c, 0, 3, 1, region.generation, index_of(&t2, 2, 10, 2, 1, 100));
	assert_protocol(d, SY_WHY_BLOB_ID);
	commit(d, &c, 0, 4, 1, region.generation, index_of(&t2, 1, 10, 1, 1, 100));
	assert_protocol(d, SY_WHY_ENTRY_COUNT);
	commit(d, &c, 0, 5, 1, region.generation, index_of(&t2, 1, 10, 2, 1, 10000));
	assert_protocol(d, SY_WHY_INDEX);
	e = commit_event(&c, 0, 6, 1, region.generation + 1, index);
	assert_false(sy_core_commit_region(d->core, &e.request, &offset, &nbytes));
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	e = commit_event(&other, 0, 1, 1, region.generation, index);
	assert_false(sy_core_commit_region(d->core, &e.request, &offset, &nbytes));
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	e = commit_event(&c, 0, 7, 99, region.generation, index);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	e = commit_event(&c, 0, 8, 1, region.generation, index);
	e.request.commit.until_ns = d->now_ns;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_LATE);
	/* After all that it is still there to be committed, just before its time is over. */
	assert_int_equal(stats(d).entries, 0);
	e = commit_event(&c, 0, 9, 1, region.generation, index);
	e.request.commit.until_ns = d->now_ns + 1;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	/* A published one is published, however late it is asked, and for whatever index. */
	e = commit_event(&c, 0, 10, 1, region.generation, NULL);
	e.request.commit.until_ns = 0;
	assert_false(sy_core_commit_region(d->core, &e.request, &offset, &nbytes));
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(stats(d).puts, 1);
	driver_close(d);
}

/* Kind: stale commit after the region went to another. */
static void test_commit_of_a_retired_one(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	const sy_index *index = index_of(&t, 1, 10, 1, 1, 100);
	struct sy_outcome first = alloc(d, &c, 0, 1, 1, index->blob_bytes, 1);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 1), true);
	commit(d, &c, 0, 2, 1, first.generation, index);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	struct sy_outcome second = alloc(d, &c, 0, 3, 1, index->blob_bytes, 1);
	commit(d, &c, 0, 4, 1, first.generation, index);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	commit(d, &c, 0, 5, 1, second.generation, index);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	commit(d, &c, 0, 6, 1, first.generation, index);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	driver_close(d);
}

static void test_overwrite(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	put(d, &c, 0, 1, 1, index_of(&t, 1, 10, 2, 1, 2000));
	put(d, &c, 0, 3, 2, index_of(&t, 2, 10, 1, 1, 3000));
	assert_int_equal(stats(d).overwritten, 1);
	resolve(d, &c, 1, 1, 10, 2);
	assert_int_equal(d->out.nbytes[0], 3000);
	assert_int_equal(d->out.nbytes[1], 2000);
	put(d, &c, 0, 5, 3, index_of(&t, 3, 10, 2, 1, 100));
	/* Both older ones are wholly overwritten; only the pin holds them. */
	notify_one(d, &c, SY_NOTICE_UNPIN, name_of(&c, 1, 1), false);
	assert_int_equal(stats(d).blobs, 1);
	assert_int_equal(stats(d).puts, 3);
	driver_close(d);
}

static void test_put_inline(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	const sy_index *index = index_of(&t, 1, 10, 3, 2, 100);
	struct sy_event e = inline_event(&c, 0, 1, index);
	assert_true(sy_core_wants_index(d->core, &e.request));
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	const struct sy_effect *store = effect_of(d, SY_EFFECT_STORE);
	assert_non_null(store);
	assert_int_equal(store->message, e.request.message);
	assert_int_equal(store->nbytes, index->blob_bytes);
	resolve(d, &c, 1, 1, 11, 1);
	assert_int_equal(d->out.offset[0], store->offset + t.columns[0].base + 128);
	/* Again: the slot's outcome; under a new seq: published, not stored again. */
	assert_false(sy_core_wants_index(d->core, &e.request));
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_null(effect_of(d, SY_EFFECT_STORE));
	e = inline_event(&c, 0, 2, index);
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_null(effect_of(d, SY_EFFECT_STORE));
	struct client other = client_new(d, 2, 0);
	e = inline_event(&other, 0, 1, index);
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	assert_int_equal(stats(d).entries, 6);
	assert_int_equal(stats(d).reservations, 0);
	driver_close(d);
}

static void test_put_inline_refused(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, 0);
	struct sy_event e = inline_event(&c, 0, 1, NULL);
	step(d, &e);
	assert_protocol(d, SY_WHY_INDEX);
	e = inline_event(&c, 0, 2, index_of(&t, 1, 10, 1, 1, 8192));
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e = inline_event(&c, 0, 3, index_of(&t, 1, 10, 0, 0, 0));
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e = inline_event(&c, 0, 4, index_of(&t, 1, 10, 1, 1, 100));
	e.request.put_inline.until_ns = d->now_ns;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_LATE);
	e = alloc_event(&c, 0, 5, 1, 64, 1);
	e.request.alloc.until_ns = d->now_ns;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_LATE);
	assert_int_equal(stats(d).blobs, 0);
	driver_close(d);
}

static void test_draining(void **state)
{
	(void)state;
	struct driver *d = open_default();
	struct client c = client_new(d, 1, TOKEN);
	const sy_index *index = index_of(&t, 1, 10, 1, 1, 100);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, index->blob_bytes, 1);
	struct sy_event e = {.kind = SY_EVENT_STATE};
	e.unit.state = SY_UNIT_DRAINING;
	step(d, &e);
	e = alloc_event(&c, 1, 1, 2, 64, 1);
	step(d, &e);
	assert_busy(d, SY_BUSY_DRAINING);
	e = inline_event(&c, 1, 2, index_of(&t2, 2, 10, 1, 1, 100));
	step(d, &e);
	assert_busy(d, SY_BUSY_DRAINING);
	/* Everything else goes on. */
	e = request(&c, SY_OP_HEARTBEAT, 2, 1);
	step(d, &e);
	assert_int_equal(answer(d).count, SY_UNIT_DRAINING);
	commit(d, &c, 0, 2, 1, region.generation, index);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	resolve(d, &c, 3, 1, 10, 1);
	release(d, &c, 4, 1, 10, 1);
	assert_int_equal(answer(d).count, 1);
	assert_int_equal(stats(d).state, SY_UNIT_DRAINING);
	e = (struct sy_event){.kind = SY_EVENT_STATE};
	e.unit.state = SY_UNIT_ACTIVE;
	step(d, &e);
	/* Busy was the outcome of that seq; the retry is a new one. */
	e = alloc_event(&c, 1, 2, 2, 64, 1);
	step(d, &e);
	assert_silent(d);
	assert_int_equal(alloc(d, &c, 1, 3, 2, 64, 1).fault, SY_FAULT_NONE);
	driver_close(d);
}

static void test_full_tables(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.max_entries = 8;
	params.max_fields = 2;
	params.max_shapes = 1;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	/* Fields: three names. The blob stays allocated, its client aborts it. */
	const sy_index *index = index_of(&t, 1, 10, 1, 3, 100);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, index->blob_bytes, 3);
	commit(d, &c, 0, 2, 1, region.generation, index);
	assert_full(d, SY_RESOURCE_FIELDS);
	assert_true(answer(d).need > answer(d).free);
	assert_int_equal(stats(d).bytes.allocated, index->blob_bytes);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 1), false);
	/* Entries: nine of eight, by put_inline. */
	struct sy_event e = inline_event(&c, 0, 3, index_of(&t, 1, 10, 9, 1, 1));
	step(d, &e);
	assert_full(d, SY_RESOURCE_ENTRIES);
	assert_int_equal(answer(d).need, 9);
	assert_int_equal(answer(d).free, 8);
	assert_int_equal(stats(d).blobs, 0);
	/* Shapes: two. */
	index = index_of(&t, 1, 10, 1, 2, 64);
	for (uint32_t i = 0; i < 2; i++) {
		t.columns[i].kind = SY_KIND_TENSOR;
		t.columns[i].dtype = SY_DTYPE_U8;
		t.columns[i].shape = (sy_shape){.rank = 2, .tail = {i + 2}};
	}
	e = inline_event(&c, 0, 4, index);
	step(d, &e);
	assert_full(d, SY_RESOURCE_SHAPES);
	/* Blobs: as many as entries. */
	for (uint64_t i = 1; i <= 8; i++)
		assert_int_equal(alloc(d, &c, 1, i, i, 64, 1).fault, SY_FAULT_NONE);
	e = alloc_event(&c, 1, 9, 9, 64, 1);
	step(d, &e);
	assert_full(d, SY_RESOURCE_BLOBS);
	assert_int_equal(answer(d).need, 1);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alloc_sizes),
		cmocka_unit_test(test_alloc_full_of_fragments),
		cmocka_unit_test(test_alloc_by_state),
		cmocka_unit_test(test_namespaces_are_apart),
		cmocka_unit_test(test_commit_refused),
		cmocka_unit_test(test_commit_of_a_retired_one),
		cmocka_unit_test(test_overwrite),
		cmocka_unit_test(test_put_inline),
		cmocka_unit_test(test_put_inline_refused),
		cmocka_unit_test(test_draining),
		cmocka_unit_test(test_full_tables),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
