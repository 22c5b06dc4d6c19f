#include "demo_file.h"
#include "bytes.h"
#include "fail.h"
#include "json_rows.h"
#include "lines.h"

#include <stdlib.h>

enum { ROWS_MAX = 100000000 };

/* A value of a row of the file. */
struct cell {
	uint32_t column;
	size_t source; /* among the cells of the batch that was read */
	size_t text_at; /* of the column that names the rollout: SIZE_MAX for others */
	size_t text_bytes;
};

struct row {
	size_t first, end; /* its cells */
	uint32_t group;
};

struct sy_demo_file {
	struct sy_row_batch batch; /* all lines, sealed */
	struct cell *cells;
	size_t cell_count, cell_capacity;
	struct row *rows;
	size_t row_count, row_capacity;
	uint32_t *groups; /* the first row of each, and row_count behind the last */
	size_t group_count, group_capacity;
	uint32_t *steps;  /* the first group of each, and group_count behind the last */
	size_t step_count, step_capacity;
	char *columns[SY_DEMO_COLUMNS_MAX];
	uint32_t column_count;
};

static const char rollout_column[] = "rollout";

static bool room_make(void **items, size_t *capacity, size_t count, size_t item_bytes)
{
	if (count < *capacity)
		return true;
	size_t wanted = *capacity > 0 ? *capacity * 2 : 64;
	void *grown = reallocarray(*items, wanted, item_bytes);
	if (grown == NULL)
		return false;
	*items = grown;
	*capacity = wanted;
	return true;
}

static sy_status no_memory(sy_error *err)
{
	return sy_fail(err, SY_E_SYS, "demo", "out of memory");
}

/* A group's name: the part before the first point; empty for a value of the whole line. */
static struct sy_span prefix_of(const sy_key *key)
{
	const char *point = memchr(key->field, '.', key->field_bytes);
	return (struct sy_span){(const uint8_t *)key->field,
	                        point != NULL ? (size_t)(point - key->field) : 0};
}

static sy_status column_of(struct sy_demo_file *file, const char *name, size_t bytes,
                           uint32_t *ret_column, sy_error *err)
{
	for (uint32_t i = 0; i < file->column_count; i++) {
		if (strlen(file->columns[i]) == bytes && memcmp(file->columns[i], name, bytes) == 0) {
			*ret_column = i;
			return SY_OK;
		}
	}
	if (file->column_count == SY_DEMO_COLUMNS_MAX)
		return sy_fail(err, SY_E_INVALID, "demo", "the rollouts have more than %d fields",
		               SY_DEMO_COLUMNS_MAX);
	char *copy = strndup(name, bytes);
	if (copy == NULL)
		return no_memory(err);
	file->columns[file->column_count] = copy;
	*ret_column = file->column_count++;
	return SY_OK;
}

static sy_status cell_add(struct sy_demo_file *file, const char *name, size_t name_bytes,
                          struct cell cell, sy_error *err)
{
	sy_status status = column_of(file, name, name_bytes, &cell.column, err);
	if (status != SY_OK)
		return status;
	/* A member of the rollout hides a value of the line that has its name. */
	for (size_t i = file->rows[file->row_count].first; i < file->cell_count; i++) {
		if (file->cells[i].column == cell.column)
			return SY_OK;
	}
	if (!room_make((void **)&file->cells, &file->cell_capacity, file->cell_count,
	               sizeof *file->cells))
		return no_memory(err);
	file->cells[file->cell_count++] = cell;
	return SY_OK;
}

/* The rollout of this name in the line whose keys are first..end; an empty name: of no object. */
static sy_status rollout_add(struct sy_demo_file *file, size_t first, size_t end,
                             struct sy_span rollout, sy_error *err)
{
	const sy_key *keys = file->batch.keys;
	sy_status status = SY_OK;
	if (file->row_count == ROWS_MAX)
		return sy_fail(err, SY_E_INVALID, "demo", "more than %d rollouts", ROWS_MAX);
	if (!room_make((void **)&file->rows, &file->row_capacity, file->row_count,
	               sizeof *file->rows))
		return no_memory(err);
	file->rows[file->row_count].first = file->cell_count;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = first; i < end && status == SY_OK; i++) {
			struct sy_span prefix = prefix_of(&keys[i]);
			struct cell cell = {.source = i, .text_at = SIZE_MAX};
			size_t skip = prefix.bytes > 0 ? prefix.bytes + 1 : 0;
			bool is_member = prefix.bytes > 0 && sy_span_equal(prefix, rollout);
			bool is_wanted = pass == 0 ? is_member : prefix.bytes == 0;
			if (is_wanted && keys[i].field_bytes > skip)
				status = cell_add(file, keys[i].field + skip, keys[i].field_bytes - skip, cell,
				                  err);
		}
	}
	if (status == SY_OK && rollout.bytes > 0) {
		struct cell cell = {.text_at = (size_t)((const char *)rollout.data -
		                                        file->batch.bytes.data),
		                    .text_bytes = rollout.bytes};
		status = cell_add(file, rollout_column, sizeof rollout_column - 1, cell, err);
	}
	file->rows[file->row_count].end = file->cell_count;
	file->rows[file->row_count].group = (uint32_t)file->group_count;
	file->row_count++;
	return status;
}

/* Each object of the line is a rollout, in the order in which they begin. */
static sy_status group_add(struct sy_demo_file *file, size_t first, size_t end, sy_error *err)
{
	const sy_key *keys = file->batch.keys;
	sy_status status = SY_OK;
	size_t before = file->row_count;
	if (!room_make((void **)&file->groups, &file->group_capacity, file->group_count + 1,
	               sizeof *file->groups))
		return no_memory(err);
	file->groups[file->group_count] = (uint32_t)before;
	for (size_t i = first; i < end && status == SY_OK; i++) {
		struct sy_span prefix = prefix_of(&keys[i]);
		bool is_new = prefix.bytes > 0;
		for (size_t k = first; k < i && is_new; k++)
			is_new = !sy_span_equal(prefix_of(&keys[k]), prefix);
		if (is_new)
			status = rollout_add(file, first, end, prefix, err);
	}
	if (status == SY_OK && file->row_count == before)
		status = rollout_add(file, first, end, (struct sy_span){0}, err);
	file->group_count++;
	file->groups[file->group_count] = (uint32_t)file->row_count;
	return status;
}

static sy_status lines_read(struct sy_demo_file *file, const char *path, sy_error *err)
{
	struct sy_lines lines;
	sy_error inner;
	sy_status status = sy_lines_open(path, &lines, err);
	if (status != SY_OK)
		return status;
	char *line = NULL;
	do {
		size_t bytes = 0;
		status = sy_lines_next(&lines, &line, &bytes, &inner);
		bool is_blank = line != NULL && strspn(line, " \t\r") == bytes;
		if (status == SY_OK && line != NULL && !is_blank)
			status = sy_row_batch_add(&file->batch, lines.line_number, line, bytes, &inner);
	} while (status == SY_OK && line != NULL);
	if (status == SY_OK && file->batch.row_count == 0)
		status = sy_fail(err, SY_E_INVALID, "demo", "%s has no line", path);
	else if (status != SY_OK)
		sy_fail(err, status, "demo", "%s, line %llu: %s", path,
		        (unsigned long long)lines.line_number, inner.message);
	sy_lines_close(&lines);
	return status;
}

static sy_status groups_make(struct sy_demo_file *file, sy_error *err)
{
	const struct sy_row_batch *batch = &file->batch;
	sy_status status = SY_OK;
	for (size_t first = 0, end; first < batch->cell_count && status == SY_OK; first = end) {
		for (end = first; end < batch->cell_count && batch->cells[end].row ==
		                                                 batch->cells[first].row;)
			end++;
		status = group_add(file, first, end, err);
	}
	return status;
}

/* As many whole groups a step as stay within step_rows, at least one. */
static sy_status steps_make(struct sy_demo_file *file, uint32_t step_rows, sy_error *err)
{
	for (size_t first = 0; first < file->group_count;) {
		size_t end = first + 1;
		while (end < file->group_count &&
		       file->groups[end + 1] - file->groups[first] <= step_rows)
			end++;
		if (!room_make((void **)&file->steps, &file->step_capacity, file->step_count + 1,
		               sizeof *file->steps))
			return no_memory(err);
		file->steps[file->step_count++] = (uint32_t)first;
		file->steps[file->step_count] = (uint32_t)end;
		first = end;
	}
	return SY_OK;
}

sy_status sy_demo_file_open(const char *path, uint32_t step_rows, struct sy_demo_file **ret_file,
                            sy_error *err)
{
	struct sy_demo_file *file = calloc(1, sizeof *file);
	if (file == NULL)
		return no_memory(err);
	sy_status status = lines_read(file, path, err);
	if (status == SY_OK)
		status = sy_row_batch_seal(&file->batch, err);
	if (status == SY_OK)
		status = groups_make(file, err);
	if (status == SY_OK)
		status = steps_make(file, step_rows, err);
	if (status != SY_OK) {
		sy_demo_file_close(file);
		return status;
	}
	*ret_file = file;
	return SY_OK;
}

void sy_demo_file_close(struct sy_demo_file *file)
{
	if (file == NULL)
		return;
	sy_row_batch_done(&file->batch);
	for (uint32_t i = 0; i < file->column_count; i++)
		free(file->columns[i]);
	free(file->cells);
	free(file->rows);
	free(file->groups);
	free(file->steps);
	free(file);
}

uint32_t sy_demo_file_columns(const struct sy_demo_file *file, const char *const **ret_columns)
{
	*ret_columns = (const char *const *)file->columns;
	return file->column_count;
}

bool sy_demo_file_has_column(const struct sy_demo_file *file, const char *name)
{
	for (uint32_t i = 0; i < file->column_count; i++) {
		if (strcmp(file->columns[i], name) == 0)
			return true;
	}
	return false;
}

uint32_t sy_demo_file_steps(const struct sy_demo_file *file)
{
	return (uint32_t)file->step_count;
}

uint32_t sy_demo_file_step(const struct sy_demo_file *file, uint32_t step, uint32_t *ret_first)
{
	size_t at = step % file->step_count;
	uint32_t first = file->groups[file->steps[at]];
	*ret_first = first;
	return file->groups[file->steps[at + 1]] - first;
}

void sy_demo_file_group(const struct sy_demo_file *file, uint32_t row, uint32_t *ret_first,
                        uint32_t *ret_end)
{
	uint32_t group = file->rows[row].group;
	*ret_first = file->groups[group];
	*ret_end = file->groups[group + 1];
}

bool sy_demo_file_value(const struct sy_demo_file *file, uint32_t row, uint32_t column,
                        sy_value *ret_value)
{
	for (size_t i = file->rows[row].first; i < file->rows[row].end; i++) {
		const struct cell *cell = &file->cells[i];
		if (cell->column != column)
			continue;
		if (cell->text_at == SIZE_MAX)
			*ret_value = file->batch.values[cell->source];
		else
			*ret_value = (sy_value){.data = file->batch.bytes.data + cell->text_at,
			                        .nbytes = cell->text_bytes, .kind = SY_KIND_UTF8};
		return true;
	}
	return false;
}

bool sy_demo_file_verdict(const struct sy_demo_file *file, uint32_t row)
{
	for (size_t i = file->rows[row].first; i < file->rows[row].end; i++) {
		if (file->cells[i].text_at != SIZE_MAX)
			continue;
		const sy_value *value = &file->batch.values[file->cells[i].source];
		if (value->dtype == SY_DTYPE_BOOL && value->rank == 0)
			return *(const uint8_t *)value->data != 0;
	}
	return false;
}
