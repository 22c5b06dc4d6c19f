/* Regions granted for the next put: who gets one, what the commit of what was written to it is
 * told, and what becomes of one that is not used. */
#include "core_driver.h"

static struct test_index t, t2;

enum { TOKEN = 9, SLAB = 1 << 20, GRANT = 8192 };

static struct driver *open_granting(uint64_t total_bytes)
{
	struct sy_core_params params = driver_params(SLAB);
	params.grant_max_bytes = total_bytes < GRANT ? total_bytes : GRANT;
	params.grant_total_bytes = total_bytes;
	return driver_open(&params);
}

/* A put of one row whose commit asks for a grant; what it is answered. The commit's name is
 * (slot, seq + 1). */
static struct sy_outcome put_asking(struct driver *d, const struct client *c, uint32_t slot,
                                    uint64_t seq, uint64_t blob, uint64_t next_bytes)
{
	const sy_index *index = index_of(&t, blob, blob, 1, 1, 100);
	struct sy_outcome region = alloc(d, c, slot, seq, blob, index->blob_bytes, 1);
	assert_int_equal(region.answer, SY_ANSWER_REGION);
	struct sy_event e = commit_event(c, slot, seq + 1, blob, region.generation, index);
	e.request.commit.next_bytes = next_bytes;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	return answer(d);
}

static struct sy_event claim_event(const struct client *c, uint32_t slot, uint64_t seq,
                                   uint64_t blob, uint64_t generation, const sy_index *index,
                                   struct sy_request_id grant)
{
	struct sy_event e = commit_event(c, slot, seq, blob, generation, index);
	e.request.commit.grant = grant;
	e.request.commit.nbytes = index->blob_bytes;
	e.request.commit.entry_count = index->entry_count;
	return e;
}

static void test_a_put_without_an_alloc(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	struct sy_outcome grant = put_asking(d, &c, 0, 1, 1, GRANT);
	assert_int_not_equal(grant.generation, 0);
	assert_int_equal(stats(d).reservations, 1);
	assert_int_equal(stats(d).bytes.allocated, GRANT);
	/* A resend is told the same, and grants no second. */
	struct sy_event again = commit_event(&c, 0, 2, 1, 1, NULL);
	again.request.commit.next_bytes = GRANT;
	step(d, &again);
	assert_int_equal(answer(d).generation, grant.generation);
	assert_int_equal(answer(d).offset, grant.offset);
	assert_int_equal(stats(d).reservations, 1);

	const sy_index *index = index_of(&t, 2, 2, 2, 1, 1000);
	struct sy_event e = claim_event(&c, 1, 1, 2, grant.generation, index, name_of(&c, 0, 2));
	uint64_t offset = 0, nbytes = 0;
	assert_true(sy_core_commit_region(d->core, &e.request, &offset, &nbytes));
	assert_int_equal(offset, grant.offset);
	assert_int_equal(nbytes, index->blob_bytes);
	step(d, &e);
	assert_ok(d);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(answer(d).generation, 0); /* it did not ask */
	/* What it did not need of the region is free again. */
	assert_int_equal(stats(d).bytes.allocated, 0);
	assert_int_equal(stats(d).reservations, 0);
	assert_int_equal(stats(d).granted_puts, 1);
	assert_int_equal(stats(d).holes, 1);
	resolve(d, &c, 2, 1, 2, 2);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	assert_true(d->out.offset[0] >= grant.offset && d->out.offset[0] < grant.offset + GRANT);
	assert_int_equal(alloc(d, &c, 2, 2, 2, index->blob_bytes, index->entry_count).answer,
	                 SY_ANSWER_PUBLISHED);
	/* Once: a late copy under another seq finds the blob, another blob finds nothing. */
	e.request.id.seq = 2;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(stats(d).puts, 2);
	e = claim_event(&c, 1, 3, 3, grant.generation, index_of(&t2, 3, 3, 1, 1, 10),
	                name_of(&c, 0, 2));
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	driver_close(d);
}

/* Nothing of a refused one is changed, and it may be tried again. */
static void test_what_a_claim_is_refused_for(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	struct sy_outcome grant = put_asking(d, &c, 0, 1, 1, GRANT);
	struct sy_request_id name = name_of(&c, 0, 2);
	const sy_index *index = index_of(&t, 2, 2, 1, 1, 1000);
	struct sy_event good = claim_event(&c, 1, 1, 2, grant.generation, index, name), e = good;
	e.request.commit.nbytes = GRANT + 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e = good;
	e.request.id.seq = 2;
	e.request.commit.nbytes = 0;
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e = good;
	e.request.id.seq = 3;
	e.request.commit.entry_count = 0;
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e.request.id.seq = 4;
	e.request.commit.entry_count = SY_ENTRIES_PER_BLOB_MAX + 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_SIZE);
	e.request.id.seq = 5;
	e.request.commit.entry_count = 2;
	step(d, &e);
	assert_protocol(d, SY_WHY_ENTRY_COUNT);
	e = good;
	e.request.id.seq = 6;
	e.request.commit.nbytes = index->blob_bytes - 1;
	step(d, &e);
	assert_protocol(d, SY_WHY_INDEX);
	e = good;
	e.request.id.seq = 7;
	e.request.commit.blob_id = blob_id(3);
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_ID);
	e = good;
	e.request.id.seq = 8;
	e.request.commit.until_ns = d->now_ns;
	step(d, &e);
	assert_protocol(d, SY_WHY_TOO_LATE);
	step(d, &(struct sy_event){.kind = SY_EVENT_STATE, .unit = {.state = SY_UNIT_DRAINING}});
	e = good;
	e.request.id.seq = 9;
	step(d, &e);
	assert_busy(d, SY_BUSY_DRAINING);
	step(d, &(struct sy_event){.kind = SY_EVENT_STATE, .unit = {.state = SY_UNIT_ACTIVE}});
	e.request.id.seq = 10;
	e.request.commit.generation++;
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	assert_int_equal(stats(d).bytes.allocated, GRANT);
	e = good;
	e.request.id.seq = 11;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	driver_close(d);
}

/* As an alloc of it would be told. */
static void test_a_blob_that_is_there(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	struct sy_outcome grant = put_asking(d, &c, 0, 1, 1, GRANT);
	const sy_index *index = index_of(&t2, 7, 7, 1, 1, 500);
	alloc(d, &c, 2, 1, 7, index->blob_bytes, 1);
	struct sy_event e = claim_event(&c, 1, 1, 7, grant.generation, index, name_of(&c, 0, 2));
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 2, 1), false);
	put(d, &c, 2, 2, 7, index);
	e.request.id.seq = 2;
	e.request.commit.nbytes++;
	step(d, &e);
	assert_protocol(d, SY_WHY_BLOB_STATE);
	assert_int_equal(stats(d).bytes.allocated, GRANT);
	e.request.id.seq = 3;
	e.request.commit.nbytes--;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	/* Its client takes the grant for used. */
	assert_int_equal(stats(d).reservations, 0);
	assert_int_equal(stats(d).puts, 2);
	driver_close(d);
}

static void test_only_its_session_may_claim_it(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN), other = client_new(d, 2, TOKEN + 1);
	struct sy_outcome grant = put_asking(d, &c, 0, 1, 1, GRANT);
	struct sy_request_id name = name_of(&c, 0, 2);
	const sy_index *index = index_of(&t, 2, 2, 1, 1, 1000);
	struct sy_event e = claim_event(&other, 0, 1, 2, grant.generation, index, name);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	/* Its own client's next session neither; there it can be given back. */
	struct client again = c;
	hello(d, &again);
	settle(d);
	assert_int_equal(stats(d).bytes.retired, GRANT);
	e = claim_event(&again, 0, 1, 2, grant.generation, index, name);
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	notify_one(d, &again, SY_NOTICE_ABORT, name, false);
	assert_int_equal(stats(d).bytes.retired, 0);
	assert_int_equal(stats(d).reservations, 0);
	driver_close(d);
}

static void test_what_an_alloc_reserved_is_no_grant(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, GRANT, 1);
	const sy_index *index = index_of(&t, 2, 2, 1, 1, 1000);
	struct sy_event e = claim_event(&c, 1, 1, 2, region.generation, index, name_of(&c, 0, 1));
	step(d, &e);
	assert_int_equal(answer(d).fault, SY_FAULT_MISSING);
	assert_int_equal(stats(d).bytes.allocated, GRANT);
	driver_close(d);
}

static void test_an_unused_one_comes_back(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	put_asking(d, &c, 0, 1, 1, GRANT);
	put_asking(d, &c, 0, 3, 2, GRANT);
	put_asking(d, &c, 0, 5, 3, GRANT);
	assert_int_equal(stats(d).bytes.allocated, 3 * GRANT);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 2), false);
	assert_int_equal(stats(d).bytes.allocated, 2 * GRANT);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 4), true);
	assert_int_equal(stats(d).bytes.retired, GRANT);
	notify_one(d, &c, SY_NOTICE_DRAINED, name_of(&c, 0, 4), false);
	assert_int_equal(stats(d).bytes.retired, 0);
	step(d, &(struct sy_event){.kind = SY_EVENT_PEER_GONE, .peer = {.token = TOKEN}});
	settle(d);
	assert_int_equal(stats(d).bytes.allocated, 0);
	assert_int_equal(stats(d).reservations, 0);
	driver_close(d);
}

/* A commit that was overtaken by its own abort publishes nothing and grants nothing. */
static void test_a_commit_given_up_grants_nothing(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	const sy_index *index = index_of(&t, 1, 1, 1, 1, 100);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, index->blob_bytes, 1);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 2), false);
	struct sy_event e = commit_event(&c, 0, 2, 1, region.generation, index);
	e.request.commit.next_bytes = GRANT;
	step(d, &e);
	assert_silent(d);
	assert_int_equal(stats(d).puts, 0);
	assert_int_equal(stats(d).reservations, 1);
	driver_close(d);
}

static void test_none_is_given_while_it_drains(void **state)
{
	(void)state;
	struct driver *d = open_granting(SLAB / 4);
	struct client c = client_new(d, 1, TOKEN);
	const sy_index *index = index_of(&t, 1, 1, 1, 1, 100);
	struct sy_outcome region = alloc(d, &c, 0, 1, 1, index->blob_bytes, 1);
	step(d, &(struct sy_event){.kind = SY_EVENT_STATE, .unit = {.state = SY_UNIT_DRAINING}});
	struct sy_event e = commit_event(&c, 0, 2, 1, region.generation, index);
	e.request.commit.next_bytes = GRANT;
	step(d, &e);
	assert_int_equal(answer(d).answer, SY_ANSWER_PUBLISHED);
	assert_int_equal(answer(d).generation, 0);
	driver_close(d);
}

static void test_none_is_given_where_blobs_are_short(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.max_entries = 64;
	params.grant_max_bytes = params.grant_total_bytes = GRANT;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	for (uint64_t blob = 1; blob <= 30; blob++)
		put_asking(d, &c, 0, 2 * blob - 1, blob, 0);
	assert_int_not_equal(put_asking(d, &c, 0, 61, 31, GRANT).generation, 0);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 62), false);
	assert_int_equal(put_asking(d, &c, 0, 63, 32, GRANT).generation, 0);
	driver_close(d);
}

static void test_none_is_given_where_room_is_short(void **state)
{
	(void)state;
	struct driver *d = open_granting(2 * GRANT);
	struct client c = client_new(d, 1, TOKEN);
	assert_int_equal(put_asking(d, &c, 0, 1, 1, GRANT + 1).generation, 0);
	assert_int_not_equal(put_asking(d, &c, 0, 3, 2, GRANT).generation, 0);
	assert_int_not_equal(put_asking(d, &c, 0, 5, 3, GRANT).generation, 0);
	assert_int_equal(put_asking(d, &c, 0, 7, 4, GRANT).generation, 0); /* two are out */
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 4), false);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 0, 6), false);
	/* Three quarters of the slab taken but for a little less than a grant. */
	uint64_t taken = SLAB - stats(d).bytes.free;
	alloc(d, &c, 1, 1, 100, SLAB / 4 * 3 - taken - GRANT, 1);
	assert_int_equal(put_asking(d, &c, 0, 9, 5, GRANT).generation, 0);
	notify_one(d, &c, SY_NOTICE_ABORT, name_of(&c, 1, 1), false);
	assert_int_not_equal(put_asking(d, &c, 0, 11, 6, GRANT).generation, 0);
	driver_close(d);

	d = open_granting(0);
	c = client_new(d, 1, TOKEN);
	assert_int_equal(put_asking(d, &c, 0, 1, 1, GRANT).generation, 0);
	assert_int_equal(put_asking(d, &c, 0, 3, 2, UINT64_MAX).generation, 0);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_put_without_an_alloc),
		cmocka_unit_test(test_what_a_claim_is_refused_for),
		cmocka_unit_test(test_a_blob_that_is_there),
		cmocka_unit_test(test_only_its_session_may_claim_it),
		cmocka_unit_test(test_what_an_alloc_reserved_is_no_grant),
		cmocka_unit_test(test_an_unused_one_comes_back),
		cmocka_unit_test(test_a_commit_given_up_grants_nothing),
		cmocka_unit_test(test_none_is_given_while_it_drains),
		cmocka_unit_test(test_none_is_given_where_blobs_are_short),
		cmocka_unit_test(test_none_is_given_where_room_is_short),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
