/* The entries of blobs that are gone are given back a bounded number a step, and are never a
 * reason to refuse. */
#include "core_driver.h"

static struct test_index t;

enum { TOKEN = 9, SLAB = 1 << 24, BLOBS = 4, ROWS = 5000, BUDGET = 1024 };

/* Large blobs of which one row each is left, and a commit that takes away all of these at once. */
static void test_one_commit_ends_many(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	params.max_entries = BLOBS * ROWS + BLOBS;
	struct driver *d = driver_open(&params);
	struct client c = client_new(d, 1, TOKEN);
	uint64_t seq = 0;
	for (uint64_t b = 0; b < BLOBS; b++) {
		put(d, &c, 0, 2 * b + 1, b + 1, index_of(&t, b + 1, b * ROWS, ROWS, 1, 1));
		release(d, &c, 1, ++seq, b * ROWS, ROWS - 1);
		settle(d);
	}
	assert_int_equal(stats(d).blobs, BLOBS);
	assert_int_equal(d->core->tables.reap_count, 0);
	const sy_index *index = index_of(&t, 99, 0, BLOBS, 1, 1);
	for (uint64_t b = 0; b < BLOBS; b++)
		t.rows[b] = (b + 1) * ROWS - 1;
	put(d, &c, 0, 2 * BLOBS + 1, 99, index);
	assert_int_equal(stats(d).blobs, 1);
	assert_int_equal(stats(d).entries, BLOBS);
	uint32_t left = BLOBS * ROWS - BUDGET;
	assert_int_equal(d->core->tables.reap_count, left);
	assert_true(d->fx.again);
	/* Others are served in between. */
	resolve(d, &c, 2, 1, ROWS - 1, 1);
	assert_int_equal(d->out.found[0], SY_FOUND_PINNED);
	for (left -= BUDGET; left > 0; left -= left < BUDGET ? left : BUDGET) {
		assert_int_equal(d->core->tables.reap_count, left);
		assert_true(d->fx.again);
		step_kind(d, SY_EVENT_CONTINUE);
	}
	assert_int_equal(d->core->tables.reap_count, 0);
	assert_false(d->fx.again);
	assert_int_equal(d->core->tables.entries.used, BLOBS);
	driver_close(d);
}

/* A blob of `rows` that is gone, most of its entries not yet given back. */
static struct driver *open_with_gone(struct sy_core_params *params, struct client *c,
                                     uint32_t rows)
{
	params->reap_budget = 1;
	struct driver *d = driver_open(params);
	*c = client_new(d, 1, TOKEN);
	put(d, c, 0, 1, 1, index_of(&t, 1, 0, rows, 1, 1));
	struct sy_event e = release_event(d, c, 1, 1, 0, rows);
	step(d, &e);
	for (int i = 0; i < ROWS && stats(d).blobs > 0; i++)
		step_kind(d, SY_EVENT_CONTINUE);
	assert_int_equal(stats(d).blobs, 0);
	assert_true(d->core->tables.reap_count > rows - 10);
	return d;
}

static void test_entries_are_there_when_needed(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	struct client c;
	params.max_entries = ROWS;
	struct driver *d = open_with_gone(&params, &c, ROWS);
	put(d, &c, 0, 3, 2, index_of(&t, 2, 0, ROWS, 1, 1));
	assert_int_equal(stats(d).entries, ROWS);
	assert_int_equal(d->core->tables.reap_count, 0);
	driver_close(d);
}

static void test_names_are_there_when_needed(void **state)
{
	(void)state;
	struct sy_core_params params = driver_params(SLAB);
	struct client c;
	params.max_fields = 1;
	params.max_entries = 2 * ROWS;
	struct driver *d = open_with_gone(&params, &c, ROWS);
	const sy_index *index = index_of(&t, 2, 0, 1, 1, 1);
	t.names[0][0] = 'z';
	put(d, &c, 0, 3, 2, index);
	assert_int_equal(stats(d).fields, 1);
	assert_int_equal(stats(d).entries, 1);
	driver_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_commit_ends_many),
		cmocka_unit_test(test_entries_are_there_when_needed),
		cmocka_unit_test(test_names_are_there_when_needed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
