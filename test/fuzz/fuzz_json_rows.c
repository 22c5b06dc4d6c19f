/* The import of JSON lines: a line that is a row is JSON to another reader too, and printed flat
 * it is read as the same row; a line that is none leaves the batch as it was. */
#include "fuzz.h"

#include <jansson.h>

#include "json_rows.h"
#include "key.h"
#include "value_print.h"

/* jansson holds no integer over 2^63, no number over 1.8e308 and no NUL in a key; apart from
 * these it must agree that the line is JSON. */
static void check_json(const char *line, size_t bytes)
{
	json_error_t fault;
	json_t *value = json_loadb(line, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &fault);
	if (value == NULL && json_error_code(&fault) != json_error_numeric_overflow &&
	    json_error_code(&fault) != json_error_null_byte_in_key)
		fuzz_fail(__FILE__, __LINE__, fault.text);
	json_decref(value);
}

static void check_value(const sy_value *value)
{
	uint64_t items = value->rank == 0 ? 1 : value->dims[0];
	FUZZ_CHECK(value->rank <= 1);
	if (value->kind == SY_KIND_TENSOR) {
		FUZZ_CHECK(value->dtype == SY_DTYPE_BOOL || value->dtype == SY_DTYPE_I64 ||
		           value->dtype == SY_DTYPE_U64 || value->dtype == SY_DTYPE_F64);
		FUZZ_CHECK(value->nbytes == items * sy_dtype_bytes(value->dtype));
		return;
	}
	FUZZ_CHECK(value->dtype == SY_DTYPE_NONE && value->rank == 0);
	FUZZ_CHECK(value->kind == SY_KIND_UTF8 || value->kind == SY_KIND_JSON ||
	           value->kind == SY_KIND_JSON_NULL);
	FUZZ_CHECK(value->kind != SY_KIND_JSON_NULL || value->nbytes == 0);
}

/* The row whose cells begin at `first`, as one flat object. */
static void print_row(const struct sy_row_batch *batch, size_t first, struct sy_text *out)
{
	for (size_t i = first; i < batch->cell_count; i++) {
		sy_text_add_char(out, i == first ? '{' : ',');
		sy_string_print(out, batch->keys[i].field, batch->keys[i].field_bytes);
		sy_text_add_char(out, ':');
		sy_value_print(out, &batch->values[i]);
	}
	sy_text_add_char(out, '}');
	sy_text_add_char(out, '\0');
	FUZZ_CHECK(!out->failed);
}

static void check_same(const struct sy_row_batch *a, size_t first, const struct sy_row_batch *b)
{
	FUZZ_CHECK(a->cell_count - first == b->cell_count);
	for (size_t i = 0; i < b->cell_count; i++) {
		const sy_key *x = &a->keys[first + i], *y = &b->keys[i];
		const sy_value *v = &a->values[first + i], *w = &b->values[i];
		FUZZ_CHECK(x->row == y->row && x->field_bytes == y->field_bytes);
		assert_memory_equal(x->field, y->field, x->field_bytes);
		FUZZ_CHECK(v->kind == w->kind && v->dtype == w->dtype && v->rank == w->rank);
		FUZZ_CHECK(v->dims[0] == w->dims[0] && v->nbytes == w->nbytes);
		if (v->nbytes > 0)
			assert_memory_equal(v->data, w->data, v->nbytes);
	}
}

/* Names differ from each other, so that no cell overwrites another. */
static void check_row(struct sy_row_batch *batch, size_t first, uint64_t row)
{
	sy_error err = {0};
	struct sy_text flat = {0};
	struct sy_row_batch again = {0};
	FUZZ_CHECK(batch->cell_count > first);
	FUZZ_CHECK(sy_row_batch_seal(batch, &err) == SY_OK);
	for (size_t i = first; i < batch->cell_count; i++) {
		FUZZ_CHECK(batch->keys[i].row == row);
		FUZZ_CHECK(sy_name_fault(batch->keys[i].field, batch->keys[i].field_bytes) == NULL);
		check_value(&batch->values[i]);
	}
	print_row(batch, first, &flat);
	if (sy_row_batch_add(&again, row, flat.data, flat.bytes - 1, &err) != SY_OK)
		fuzz_fail(__FILE__, __LINE__, err.message);
	FUZZ_CHECK(sy_row_batch_seal(&again, &err) == SY_OK);
	check_same(batch, first, &again);
	sy_row_batch_done(&again);
	sy_text_done(&flat);
}

static void try_line(struct sy_row_batch *batch, uint64_t row, const char *data, size_t bytes)
{
	sy_error err = {.status = SY_OK};
	size_t cells = batch->cell_count, rows = batch->row_count, used = batch->bytes.bytes;
	char *line = fuzz_text(data, bytes);
	sy_status status = sy_row_batch_add(batch, row, line, bytes, &err);
	if (status == SY_OK) {
		FUZZ_CHECK(batch->row_count == rows + 1);
		check_json(line, bytes);
		check_row(batch, cells, row);
	} else {
		FUZZ_CHECK(status == SY_E_INVALID && err.status == status);
		FUZZ_CHECK(strnlen(err.message, sizeof err.message) < sizeof err.message);
		FUZZ_CHECK(batch->cell_count == cells && batch->row_count == rows);
		FUZZ_CHECK(batch->bytes.bytes == used);
	}
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sy_row_batch batch = {0};
	const char *at = (const char *)data;
	for (uint64_t row = 0; bytes > 0; row++) {
		const char *end = memchr(at, '\n', bytes);
		size_t line_bytes = end != NULL ? (size_t)(end - at) : bytes;
		size_t taken = line_bytes + (end != NULL ? 1 : 0);
		try_line(&batch, row, at, line_bytes);
		at += taken;
		bytes -= taken;
	}
	sy_row_batch_done(&batch);
	return 0;
}

void fuzz_corpus(void)
{
	static const char *const lines[] = {
		"{\"ids\": [1, 2, 3], \"reward\": 0.5, \"done\": true, \"text\": \"a b\", \"n\": null}",
		"{\"a\": {\"b\": {\"c\": -7}, \"d\": []}, \"e\": {}, "
		"\"f\": [1, \"x\", null, {\"g\": 2.50}]}",
		"{\"max\": 18446744073709551615, \"min\": -9223372036854775808, \"z\": -0}",
		"{\"f\": [1.5, -2e-3, 1E+300], \"m\": [1, 2.5], \"b\": [true, false], \"e\": [[1], [2]]}",
		"{\"u\": \"\\u00e9\\ud83d\\ude00\\n\\\"\\\\\\/\\u0000\", "
		"\"\xc3\xa9\": \"\xf0\x9f\x98\x80\"}",
		"{\"large\": [1, 18446744073709551615], \"mixed\": [-1, 18446744073709551615]}",
		"{\"a.b\": 1, \"a\": {\"b\": 2}}",
		"{\"a\": 1, \"a\": 2}",
		"{\"deep\": [[[[[[[[[[{}]]]]]]]]]], \"tiny\": 4.9e-324, \"huge\": 1e999}",
		" { \"a\"\t:\r[ ] } ",
		"{\"x\": 1}\n[1]\n\n{\"x\": \"\\ud800\"}\n{\"y\": 01}\n{\"y\": 1.}\n{\"y\": 2}",
		"{\"@\": 1e5, \"1@x\": 100000000000000000000, \"w\": [1e5, 1]}",
	};
	for (uint32_t i = 0; i < COUNT_OF(lines); i++)
		fuzz_seed("line", i, lines[i], strlen(lines[i]));
}
