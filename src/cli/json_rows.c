#include "json_rows.h"
#include "bytes.h"
#include "fail.h"
#include "json_text.h"
#include "key.h"
#include "name_set.h"
#include "units.h"

#include <math.h>
#include <stdlib.h>

enum { FLAT_SCOPE = 0, NESTED_MAX = 64, SHOWN_MAX_BYTES = 60 };

/* One line on its way into the batch. */
struct line {
	struct sy_row_batch *batch;
	struct sy_json json;
	uint64_t row;
	struct sy_text path; /* "a." in front of the members of a */
	uint32_t object_count;
	sy_error *err;
};

static sy_status no_memory(struct line *line)
{
	return sy_fail(line->err, SY_E_SYS, "json", "out of memory");
}

static int shown(size_t bytes)
{
	return (int)sy_min_u64(bytes, SHOWN_MAX_BYTES);
}

static sy_status cell_add(struct line *line, const struct sy_cell *cell)
{
	struct sy_row_batch *batch = line->batch;
	if (batch->cell_count == batch->cell_capacity) {
		size_t capacity = batch->cell_capacity > 0 ? batch->cell_capacity * 2 : 256;
		struct sy_cell *grown = realloc(batch->cells, capacity * sizeof *grown);
		if (grown == NULL)
			return no_memory(line);
		batch->cells = grown;
		batch->cell_capacity = capacity;
	}
	batch->cells[batch->cell_count++] = *cell;
	return SY_OK;
}

/* A number as eight bytes, and of which type. */
struct number {
	uint64_t bits;
	bool is_integer;
	bool is_large;    /* an integer of 2^63 or more */
	bool is_negative;
	bool is_beyond;   /* of no type of ours */
};

static sy_status number_read(struct line *line, struct number *ret_number)
{
	struct sy_json *json = &line->json;
	const char *text = json->text + json->at;
	struct number number = {.is_negative = text[0] == '-'};
	size_t bytes;
	sy_status status = sy_json_number(json, &bytes, &number.is_integer, line->err);
	if (status != SY_OK)
		return status;
	if (number.is_integer) {
		size_t sign = number.is_negative ? 1 : 0;
		uint64_t limit = number.is_negative ? (uint64_t)1 << 63 : UINT64_MAX;
		uint64_t size = 0;
		number.is_beyond =
			sy_parse_u64(text + sign, bytes - sign, &size, NULL) != SY_OK || size > limit;
		number.is_large = !number.is_negative && size > INT64_MAX;
		number.bits = number.is_negative ? 0 - size : size;
	} else {
		/* Its grammar is checked, so it ends where strtod ends: at what no number holds. */
		double real = strtod(text, NULL);
		number.is_beyond = isinf(real) != 0;
		memcpy(&number.bits, &real, sizeof real);
	}
	*ret_number = number;
	return SY_OK;
}

static sy_status number_beyond(struct line *line, size_t first)
{
	const struct sy_json *json = &line->json;
	size_t bytes = json->at - first;
	return sy_fail(line->err, SY_E_INVALID, "json",
	               "the number %.*s at column %zu is out of range: integers go from -2^63 to "
	               "2^64 - 1, others to 1.8e308",
	               shown(bytes), json->text + first, first + 1);
}

static sy_status scalar_read(struct line *line, enum sy_json_kind kind, struct sy_cell *cell)
{
	struct sy_text *bytes = &line->batch->bytes;
	size_t first = line->json.at;
	cell->kind = SY_KIND_TENSOR;
	if (kind != SY_JSON_NUMBER) {
		uint8_t truth = kind == SY_JSON_TRUE;
		cell->dtype = SY_DTYPE_BOOL;
		sy_text_add(bytes, &truth, 1);
		sy_json_literal(&line->json, kind);
		return SY_OK;
	}
	struct number number;
	sy_status status = number_read(line, &number);
	if (status == SY_OK && number.is_beyond)
		status = number_beyond(line, first);
	if (status != SY_OK)
		return status;
	cell->dtype = !number.is_integer ? SY_DTYPE_F64
	              : number.is_large  ? SY_DTYPE_U64
	                                 : SY_DTYPE_I64;
	sy_text_add(bytes, &number.bits, sizeof number.bits);
	return SY_OK;
}

/* What the elements of an array have been so far. */
struct elements {
	size_t count;
	sy_dtype dtype; /* NONE: nothing seen; I64 stands for any integer */
	bool is_plain;  /* all of that one type */
	bool has_large, has_negative;
	size_t beyond_at; /* where a number out of range stood; SIZE_MAX: nowhere */
};

static sy_status element_read(struct line *line, struct elements *elements)
{
	enum sy_json_kind kind;
	struct sy_text *bytes = &line->batch->bytes;
	sy_status status = sy_json_kind_next(&line->json, &kind, line->err);
	if (status != SY_OK)
		return status;
	sy_dtype dtype = SY_DTYPE_NONE;
	if (kind == SY_JSON_NUMBER) {
		size_t first = line->json.at;
		struct number number;
		status = number_read(line, &number);
		if (status != SY_OK)
			return status;
		dtype = number.is_integer ? SY_DTYPE_I64 : SY_DTYPE_F64;
		elements->has_large = elements->has_large || number.is_large;
		elements->has_negative = elements->has_negative || number.is_negative;
		if (number.is_beyond && elements->beyond_at == SIZE_MAX)
			elements->beyond_at = first;
		sy_text_add(bytes, &number.bits, sizeof number.bits);
	} else if (kind == SY_JSON_TRUE || kind == SY_JSON_FALSE) {
		uint8_t truth = kind == SY_JSON_TRUE;
		dtype = SY_DTYPE_BOOL;
		sy_text_add(bytes, &truth, 1);
		sy_json_literal(&line->json, kind);
	}
	bool fits = dtype != SY_DTYPE_NONE &&
	            (elements->dtype == SY_DTYPE_NONE || elements->dtype == dtype);
	elements->is_plain = elements->is_plain && fits;
	elements->dtype = dtype;
	elements->count++;
	return status;
}

/* Reads elements as long as they are all of one type. Stops in the middle where they are not. */
static sy_status elements_read(struct line *line, struct elements *elements)
{
	line->json.at++;
	if (sy_json_accept(&line->json, ']'))
		return SY_OK;
	bool more = true;
	sy_status status = SY_OK;
	while (more && status == SY_OK && elements->is_plain) {
		status = element_read(line, elements);
		more = status == SY_OK && elements->is_plain && sy_json_accept(&line->json, ',');
	}
	if (status == SY_OK && elements->is_plain)
		status = sy_json_expect(&line->json, ']', line->err);
	return status;
}

static sy_status text_keep(struct line *line, size_t first, struct sy_cell *cell)
{
	line->json.at = first;
	sy_text_cut(&line->batch->bytes, cell->data_at);
	cell->kind = SY_KIND_JSON;
	cell->dtype = SY_DTYPE_NONE;
	return sy_json_compact(&line->json, &line->batch->bytes, line->err);
}

static sy_status array_read(struct line *line, struct sy_cell *cell)
{
	size_t first = line->json.at;
	struct elements elements = {.is_plain = true, .beyond_at = SIZE_MAX};
	sy_status status = elements_read(line, &elements);
	if (status != SY_OK)
		return status;
	bool is_mixed = elements.count == 0 || !elements.is_plain ||
	                (elements.has_large && elements.has_negative);
	if (elements.is_plain && elements.beyond_at != SIZE_MAX) {
		struct number number;
		line->json.at = elements.beyond_at;
		status = number_read(line, &number);
		return status != SY_OK ? status : number_beyond(line, elements.beyond_at);
	}
	if (is_mixed)
		return text_keep(line, first, cell);
	cell->kind = SY_KIND_TENSOR;
	cell->dtype = elements.has_large ? SY_DTYPE_U64 : elements.dtype;
	cell->rank = 1;
	cell->dim0 = elements.count;
	return SY_OK;
}

static sy_status value_read(struct line *line, enum sy_json_kind kind, struct sy_cell *cell)
{
	switch (kind) {
	case SY_JSON_STRING:
		cell->kind = SY_KIND_UTF8;
		return sy_json_string(&line->json, &line->batch->bytes, line->err);
	case SY_JSON_NULL:
		cell->kind = SY_KIND_JSON_NULL;
		sy_json_literal(&line->json, kind);
		return SY_OK;
	case SY_JSON_ARRAY:
		return array_read(line, cell);
	case SY_JSON_OBJECT: /* an empty one: others were taken apart */
		return text_keep(line, line->json.at, cell);
	case SY_JSON_TRUE:
	case SY_JSON_FALSE:
	case SY_JSON_NUMBER:
		break;
	}
	return scalar_read(line, kind, cell);
}

/* The path is the flat name now. */
static sy_status leaf_read(struct line *line, enum sy_json_kind kind)
{
	struct sy_text *bytes = &line->batch->bytes;
	const char *name = line->path.data;
	size_t name_bytes = line->path.bytes;
	const char *fault = sy_name_fault(name, name_bytes);
	if (fault != NULL)
		return sy_fail(line->err, SY_E_INVALID, "json", "the field name \"%.*s\" %s",
		               shown(name_bytes), name_bytes == 0 ? "" : name, fault);
	bool is_new;
	if (!sy_name_set_add(line->batch->names, FLAT_SCOPE, name, name_bytes, &is_new))
		return no_memory(line);
	if (!is_new)
		return sy_fail(line->err, SY_E_INVALID, "json",
		               "two values have the flat name \"%.*s\"", shown(name_bytes), name);
	struct sy_cell cell = {.row = line->row, .name_at = bytes->bytes, .name_bytes = name_bytes};
	sy_text_add(bytes, name, name_bytes);
	cell.data_at = bytes->bytes;
	sy_status status = value_read(line, kind, &cell);
	if (status != SY_OK)
		return status;
	if (bytes->failed)
		return no_memory(line);
	cell.data_bytes = bytes->bytes - cell.data_at;
	return cell_add(line, &cell);
}

static sy_status object_read(struct line *line, uint32_t depth);

/* Objects with members become their members; an empty one is a value. */
static sy_status member_value(struct line *line, uint32_t depth)
{
	enum sy_json_kind kind;
	sy_status status = sy_json_kind_next(&line->json, &kind, line->err);
	if (status != SY_OK)
		return status;
	if (kind == SY_JSON_OBJECT) {
		struct sy_json ahead = line->json;
		ahead.at++;
		if (!sy_json_accept(&ahead, '}')) {
			sy_text_add_char(&line->path, '.');
			return line->path.failed ? no_memory(line) : object_read(line, depth + 1);
		}
	}
	return leaf_read(line, kind);
}

static sy_status member_read(struct line *line, uint32_t scope, uint32_t depth)
{
	size_t before = line->path.bytes;
	bool is_new;
	enum sy_json_kind kind;
	sy_status status = sy_json_kind_next(&line->json, &kind, line->err);
	if (status != SY_OK)
		return status;
	status = sy_json_string(&line->json, &line->path, line->err);
	if (status != SY_OK)
		return status;
	const char *key = line->path.data + before;
	size_t key_bytes = line->path.bytes - before;
	if (line->path.failed ||
	    !sy_name_set_add(line->batch->names, scope, key, key_bytes, &is_new))
		return no_memory(line);
	if (!is_new)
		return sy_fail(line->err, SY_E_INVALID, "json", "the key \"%.*s\" stands twice",
		               shown(key_bytes), key);
	status = sy_json_expect(&line->json, ':', line->err);
	if (status == SY_OK)
		status = member_value(line, depth);
	sy_text_cut(&line->path, before);
	return status;
}

/* Stands at the brace of an object that has members. */
static sy_status object_read(struct line *line, uint32_t depth)
{
	uint32_t scope = ++line->object_count;
	bool more = true;
	sy_status status = SY_OK;
	if (depth > NESTED_MAX)
		return sy_fail(line->err, SY_E_INVALID, "json", "objects are nested deeper than %d levels",
		               NESTED_MAX);
	line->json.at++;
	while (more && status == SY_OK) {
		status = member_read(line, scope, depth);
		more = status == SY_OK && sy_json_accept(&line->json, ',');
	}
	return status != SY_OK ? status : sy_json_expect(&line->json, '}', line->err);
}

static sy_status line_read(struct line *line)
{
	enum sy_json_kind kind;
	sy_status status = sy_json_kind_next(&line->json, &kind, line->err);
	if (status != SY_OK)
		return status;
	if (kind != SY_JSON_OBJECT)
		return sy_fail(line->err, SY_E_INVALID, "json", "a line holds one JSON object, not %s",
		               kind == SY_JSON_ARRAY    ? "an array"
		               : kind == SY_JSON_STRING ? "a string"
		                                        : "a bare value");
	struct sy_json ahead = line->json;
	ahead.at++;
	if (sy_json_accept(&ahead, '}'))
		return sy_fail(line->err, SY_E_INVALID, "json",
		               "an empty object is no row: a row has at least one field");
	status = object_read(line, 1);
	return status != SY_OK ? status : sy_json_end(&line->json, line->err);
}

sy_status sy_row_batch_add(struct sy_row_batch *batch, uint64_t row, const char *line,
                           size_t line_bytes, sy_error *err)
{
	struct line reading = {.batch = batch, .json = {.text = line, .bytes = line_bytes},
	                       .row = row, .err = err};
	size_t bytes_before = batch->bytes.bytes, cells_before = batch->cell_count;
	/* An empty path, too, has memory, so that an empty name is an address. */
	sy_text_add_char(&reading.path, '.');
	sy_text_cut(&reading.path, 0);
	if (batch->names == NULL)
		batch->names = sy_name_set_new();
	if (batch->names != NULL)
		sy_name_set_clear(batch->names);
	bool can_begin = batch->names != NULL && !reading.path.failed;
	sy_status status = can_begin ? line_read(&reading) : no_memory(&reading);
	sy_text_done(&reading.path);
	if (status == SY_OK) {
		batch->row_count++;
		return SY_OK;
	}
	sy_text_cut(&batch->bytes, bytes_before);
	batch->cell_count = cells_before;
	return status;
}

sy_status sy_row_batch_seal(struct sy_row_batch *batch, sy_error *err)
{
	if (batch->cell_count > batch->sealed_capacity) {
		free(batch->keys);
		free(batch->values);
		batch->sealed_capacity = batch->cell_count;
		batch->keys = calloc(batch->cell_count, sizeof *batch->keys);
		batch->values = calloc(batch->cell_count, sizeof *batch->values);
		if (batch->keys == NULL || batch->values == NULL) {
			batch->sealed_capacity = 0;
			return sy_fail(err, SY_E_SYS, "json", "out of memory");
		}
	}
	for (size_t i = 0; i < batch->cell_count; i++) {
		const struct sy_cell *cell = &batch->cells[i];
		batch->keys[i] = (sy_key){
			.row = cell->row, .field = batch->bytes.data + cell->name_at,
			.field_bytes = cell->name_bytes,
		};
		batch->values[i] = (sy_value){
			.data = batch->bytes.data + cell->data_at, .nbytes = cell->data_bytes,
			.dtype = cell->dtype, .kind = cell->kind, .rank = cell->rank, .dims = {cell->dim0},
		};
	}
	return SY_OK;
}

void sy_row_batch_clear(struct sy_row_batch *batch)
{
	sy_text_cut(&batch->bytes, 0);
	batch->cell_count = 0;
	batch->row_count = 0;
}

void sy_row_batch_done(struct sy_row_batch *batch)
{
	sy_text_done(&batch->bytes);
	sy_name_set_free(batch->names);
	free(batch->cells);
	free(batch->keys);
	free(batch->values);
	*batch = (struct sy_row_batch){0};
}
