/* The order of a call's keys against a plain sort of them. */
#include "harness.h"

#include <string.h>

#include "items.h"
#include "prng.h"

enum { KEYS_MAX = 600, FIELDS_MAX = 6 };

struct plain {
	uint64_t unit, row, source;
	const char *field;
};

static int compare(const void *a, const void *b)
{
	const struct plain *x = a, *y = b;
	int names = strcmp(x->field, y->field);

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (names != 0)
		return names;
	return (x->source > y->source) - (x->source < y->source);
}

/* Rows that differ in few of their bits, or in all; some come twice. */
static uint64_t draw_row(struct sy_prng *prng, uint32_t spread)
{
	static const uint64_t masks[] = {3, 0xff, 0xff00ff, 0xffffffff, UINT64_MAX,
	                                 0xff00000000000000};

	return sy_prng_next(prng) & masks[spread];
}

/* Both halves hold something, and no row lies in both; only one row cannot be halved. */
static void check_halves(const struct sy_items *items)
{
	struct sy_items halves[2];
	const struct sy_item *all = items->items;

	if (!sy_items_halve(items, halves)) {
		for (size_t i = 1; i < items->count; i++)
			assert_true(all[i].row == all[0].row);
		return;
	}
	size_t middle = halves[0].count;
	assert_true(middle > 0 && middle < items->count);
	assert_ptr_equal(halves[0].items, all);
	assert_ptr_equal(halves[1].items, all + middle);
	assert_int_equal(halves[1].count, items->count - middle);
	assert_true(all[middle].row != all[middle - 1].row);
	assert_int_equal(halves[0].source_count, items->source_count);
}

static void check(const struct sy_items *items, struct plain *expected, size_t count)
{
	assert_int_equal(items->count, count);
	qsort(expected, count, sizeof *expected, compare);
	for (size_t i = 0; i < count; i++) {
		const struct sy_item *item = &items->items[i];
		struct sy_span name = items->fields[item->field];

		assert_int_equal(item->row, expected[i].row);
		assert_int_equal(item->source, expected[i].source);
		assert_int_equal(name.bytes, strlen(expected[i].field));
		assert_memory_equal(name.data, expected[i].field, name.bytes);
	}
	assert_int_equal(items->source_count, count);
	check_halves(items);
}

static const char *const names[FIELDS_MAX] = {"c", "a", "bb", "b", "ab", "d"};
static const uint32_t unit_counts[] = {1, 2, 3, 256, 257, 65537};

static void test_keys(void **state)
{
	(void)state;
	static struct plain expected[KEYS_MAX];
	static sy_key keys[KEYS_MAX];
	struct sy_prng prng;

	sy_prng_seed(&prng, harness_seed());
	for (int turn = 0; turn < 400; turn++) {
		size_t count = sy_prng_below(&prng, turn % 2 == 0 ? 40 : KEYS_MAX + 1);
		uint32_t units = unit_counts[sy_prng_below(&prng, 6)], spread = (uint32_t)turn % 6;
		struct sy_items items;

		for (size_t i = 0; i < count; i++) {
			const char *name = names[sy_prng_below(&prng, FIELDS_MAX)];

			keys[i] = (sy_key){.row = draw_row(&prng, spread), .field = name,
			                   .field_bytes = strlen(name)};
			expected[i] = (struct plain){.unit = keys[i].row % units, .row = keys[i].row,
			                             .source = i, .field = name};
		}
		assert_int_equal(sy_items_from_keys(keys, count, units, false, &items, NULL), SY_OK);
		check(&items, expected, count);
		sy_items_done(&items);
	}
}

static void test_columns(void **state)
{
	(void)state;
	static struct plain expected[KEYS_MAX];
	static uint64_t rows[KEYS_MAX];
	struct sy_span fields[FIELDS_MAX];
	struct sy_prng prng;

	sy_prng_seed(&prng, harness_seed());
	for (int turn = 0; turn < 400; turn++) {
		size_t row_count = sy_prng_below(&prng, 101), at = 0;
		size_t field_count = 1 + sy_prng_below(&prng, FIELDS_MAX);
		uint32_t units = unit_counts[sy_prng_below(&prng, 6)], spread = (uint32_t)turn % 6;
		struct sy_items items;

		for (size_t f = 0; f < field_count; f++) { /* the same field may be asked for twice */
			const char *name = names[sy_prng_below(&prng, FIELDS_MAX)];

			fields[f] = (struct sy_span){(const uint8_t *)name, strlen(name)};
		}
		for (size_t r = 0; r < row_count; r++) {
			rows[r] = draw_row(&prng, spread);
			for (size_t f = 0; f < field_count; f++, at++) {
				expected[at] = (struct plain){.unit = rows[r] % units, .row = rows[r],
				                              .source = at,
				                              .field = (const char *)fields[f].data};
			}
		}
		assert_int_equal(sy_items_from_columns(rows, row_count, fields, field_count, units, false,
		                                       &items, NULL), SY_OK);
		check(&items, expected, at);
		sy_items_done(&items);
	}
}

static void test_twice(void **state)
{
	(void)state;
	const sy_key keys[] = {{.row = 5, .field = "a", .field_bytes = 1},
	                       {.row = 4, .field = "a", .field_bytes = 1},
	                       {.row = 5, .field = "a", .field_bytes = 1}};
	const uint64_t rows[] = {9, 2, 9};
	const struct sy_span fields[] = {{(const uint8_t *)"a", 1}, {(const uint8_t *)"a", 1}};
	struct sy_items items;
	sy_error err = {0};

	assert_int_equal(sy_items_from_keys(keys, 3, 1, true, &items, &err), SY_E_INVALID);
	assert_string_equal(err.message, "key 5@a comes twice");
	assert_int_equal(sy_items_from_columns(rows, 3, fields, 1, 1, true, &items, &err),
	                 SY_E_INVALID);
	assert_string_equal(err.message, "key 9@a comes twice");
	assert_int_equal(sy_items_from_columns(rows, 2, fields, 2, 1, true, &items, &err),
	                 SY_E_INVALID);
	assert_string_equal(err.message, "field a comes twice");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_twice),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
