/* Interned names and shapes against counts kept by hand. */
#include "core_tables.h"

enum { POOL_MAX = 64 };

/* Different texts of many lengths, some of them the same but for their last byte or their end. */
static struct sy_span text_of(uint32_t number, char *out)
{
	size_t bytes = 2 + number % 40;
	if (number % 7 == 0)
		bytes = SY_FIELD_MAX_BYTES - number % 3;
	memset(out, 'x', bytes);
	for (size_t i = 0; i < 4 && i < bytes; i++)
		out[bytes - 1 - i] = (char)('a' + (number >> (4 * i)) % 16);
	return (struct sy_span){ (const uint8_t *)out, bytes };
}

static sy_shape shape_of(uint32_t number)
{
	sy_shape shape = { .rank = number % (SY_RANK_MAX + 1) };
	/* What is beyond the rank is noise and must not count. */
	for (uint32_t i = 0; i < SY_TAIL_MAX; i++)
		shape.tail[i] = i + 1 < shape.rank ? (number / 9 >> i) % 3 : number + i;
	return shape;
}

static void check_hashes(struct sy_core *core)
{
	assert_null(sy_region_fault(core));
	/* The audit counts references of entries; here they are the test's. */
	const char *fault = sy_tables_audit(core);
	if (fault != NULL)
		assert_string_equal(fault, "the references of a name or shape are not those that exist");
}

static void walk_names(struct sy_core *core, struct sy_intern *table, uint64_t seed, int steps)
{
	enum { NUMBERS = 200 };
	uint32_t refs[NUMBERS] = {0}, index_of[NUMBERS] = {0}, used = 0;
	char text[SY_FIELD_MAX_BYTES], other[SY_FIELD_MAX_BYTES];
	struct sy_prng prng;
	sy_prng_seed(&prng, seed);
	for (int i = 0; i < steps; i++) {
		uint32_t n = (uint32_t)sy_prng_below(&prng, NUMBERS);
		struct sy_span name = text_of(n, text);
		assert_int_equal(sy_name_find(core, table, name), index_of[n]);
		if (sy_prng_chance(&prng, 50)) {
			uint32_t index = sy_name_take(core, table, name);
			assert_int_equal(index != 0, refs[n] > 0 || used < table->pool.capacity);
			used += refs[n] == 0 && index != 0;
			refs[n] += index != 0;
			assert_true(index_of[n] == 0 || index_of[n] == index);
			index_of[n] = index;
		} else if (refs[n] > 0) {
			uint32_t some = 1 + (uint32_t)sy_prng_below(&prng, refs[n]);
			if (sy_prng_chance(&prng, 20)) {
				sy_name_hold(core, table, index_of[n], 3);
				refs[n] += 3;
			}
			sy_name_give(core, table, index_of[n], some);
			refs[n] -= some;
			if (refs[n] == 0) {
				used--;
				index_of[n] = 0;
			}
		}
		if (index_of[n] != 0)
			assert_true(sy_span_equal(sy_name_text(core, table, index_of[n]),
			                          text_of(n, other)));
		assert_int_equal(table->pool.used, used);
		if (i % 200 == 0)
			check_hashes(core);
	}
	for (uint32_t n = 0; n < NUMBERS; n++) {
		if (refs[n] > 0)
			sy_name_give(core, table, index_of[n], refs[n]);
	}
	tables_check(core);
}

static void test_names(void **state)
{
	(void)state;
	uint64_t seed = harness_seed();
	struct sy_core_params params = tables_params(16, 4096);
	struct sy_core *core = tables_open(&params);
	walk_names(core, &core->tables.fields, seed, 30000);
	walk_names(core, &core->tables.namespaces, seed + 1, 10000);
	/* All names in one chain. */
	core->tables.fields.bucket_count = 1;
	walk_names(core, &core->tables.fields, seed + 2, 10000);
	tables_close(core);
}

static void test_shapes(void **state)
{
	(void)state;
	enum { NUMBERS = 300 };
	struct sy_core_params params = tables_params(16, 4096);
	struct sy_core *core = tables_open(&params);
	struct sy_prng prng;
	sy_shape kept[POOL_MAX + 1];
	uint32_t refs[POOL_MAX + 1] = {0};
	sy_prng_seed(&prng, harness_seed());
	for (int i = 0; i < 20000; i++) {
		sy_shape shape = shape_of((uint32_t)sy_prng_below(&prng, NUMBERS));
		uint32_t index = 12345, found = 12345;
		bool there = sy_shape_find(core, &shape, &found);
		bool full = core->tables.shapes.pool.used == core->tables.shapes.pool.capacity;
		bool taken = sy_shape_take(core, &shape, &index);
		assert_int_equal(taken, there || !full);
		if (!taken) {
			assert_int_equal(index, 12345);
		} else if (shape.rank == 0) {
			assert_int_equal(index, 0);
			assert_int_equal(sy_shape_at(core, 0)->rank, 0);
		} else {
			assert_true(index >= 1 && index <= POOL_MAX);
			assert_true(!there || found == index);
			assert_int_equal(refs[index] > 0, there);
			if (there) {
				assert_int_equal(kept[index].rank, shape.rank);
				assert_memory_equal(kept[index].tail, shape.tail, (shape.rank - 1) * 8);
			}
			kept[index] = shape;
			refs[index]++;
			assert_int_equal(sy_shape_at(core, index)->rank, shape.rank);
			assert_memory_equal(sy_shape_at(core, index)->tail, shape.tail,
			                    (shape.rank - 1) * 8);
		}
		uint32_t victim = 1 + (uint32_t)sy_prng_below(&prng, POOL_MAX);
		if (refs[victim] > 0 && sy_prng_chance(&prng, 80)) {
			uint32_t some = 1 + (uint32_t)sy_prng_below(&prng, refs[victim]);
			sy_shape_give(core, victim, some);
			refs[victim] -= some;
		}
		if (i % 200 == 0)
			check_hashes(core);
	}
	for (uint32_t i = 1; i <= POOL_MAX; i++) {
		if (refs[i] > 0)
			sy_shape_give(core, i, refs[i]);
	}
	sy_shape_give(core, 0, 5);
	sy_shape_hold(core, 0, 5);
	tables_check(core);
	tables_close(core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_shapes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
