/* The index at the head of a blob, for those who make blobs themselves. */
#include <string.h>

#include "py_store.h"

PyObject *sypy_blob_id_text(const sy_blob_id *id)
{
	static const char DIGITS[] = "0123456789abcdef";
	char text[2 * sizeof id->bytes];

	for (size_t i = 0; i < sizeof id->bytes; i++) {
		text[2 * i] = DIGITS[id->bytes[i] >> 4];
		text[2 * i + 1] = DIGITS[id->bytes[i] & 15];
	}
	return PyUnicode_FromStringAndSize(text, sizeof text);
}

PyObject *sypy_new_blob_id(PyObject *module, PyObject *unused)
{
	sy_blob_id id;

	(void)module;
	(void)unused;
	sy_blob_id_new(&id);
	return sypy_blob_id_text(&id);
}

static bool take_tail(PyObject *tail, sy_shape *shape)
{
	if (PyTuple_GET_SIZE(tail) > SY_TAIL_MAX) {
		PyErr_SetString(PyExc_ValueError, "more than eight dimensions");
		return false;
	}
	for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(tail); d++) {
		shape->tail[d] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(tail, d));
		if (PyErr_Occurred())
			return false;
	}
	return true;
}

/* (field, dtype, kind, rank, tail, extents, ordinals or None); extents: one a row, in bytes, or
 * where a lead unit has no bytes the first dimension */
static bool take_column(struct sypy_arena *arena, PyObject *item, uint32_t row_count,
                        sy_column *column)
{
	PyObject *field, *tail, *extents_of, *ordinals_of;
	Py_ssize_t bytes;
	int dtype, kind;
	unsigned rank;
	size_t count = 0;

	if (!PyArg_ParseTuple(item, "UiiIO!OO", &field, &dtype, &kind, &rank, &PyTuple_Type, &tail,
	                      &extents_of, &ordinals_of))
		return false;
	column->field = PyUnicode_AsUTF8AndSize(field, &bytes);
	if (column->field == NULL || !take_tail(tail, &column->shape))
		return false;
	column->field_bytes = (size_t)bytes;
	column->dtype = (sy_dtype)dtype;
	column->kind = (sy_kind)kind;
	column->shape.rank = rank;
	column->row_count = row_count;
	if (ordinals_of != Py_None) {
		uint64_t *given = sypy_rows_from(ordinals_of, &count);
		uint32_t *ordinals =
			given == NULL ? NULL : sypy_arena_take(arena, (count + 1) * sizeof *ordinals);

		for (size_t i = 0; ordinals != NULL && i < count; i++)
			ordinals[i] = given[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)given[i];
		PyMem_Free(given);
		if (ordinals == NULL)
			return false;
		column->ordinals = ordinals;
		column->row_count = (uint32_t)count;
	}
	uint64_t *extents = sypy_rows_from(extents_of, &count);
	if (extents != NULL && count != column->row_count) {
		PyErr_Format(PyExc_ValueError, "%zu extents for %u rows", count,
		             (unsigned)column->row_count);
		PyMem_Free(extents);
		return false;
	}
	column->extents = extents;
	return extents != NULL;
}

/* (index, nbytes, n_entries, [base of each column]) */
static PyObject *encode(sy_index *index)
{
	sy_error err = {0};

	if (sy_index_layout(index, &err) != SY_OK) {
		sypy_raise(&err, NULL);
		return NULL;
	}
	PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)index->index_bytes);
	PyObject *bases = PyList_New((Py_ssize_t)index->column_count);
	for (uint32_t c = 0; bases != NULL && c < index->column_count; c++) {
		PyObject *base = PyLong_FromUnsignedLongLong(index->columns[c].base);

		if (base == NULL)
			Py_CLEAR(bases);
		else
			PyList_SET_ITEM(bases, (Py_ssize_t)c, base);
	}
	if (bytes != NULL && bases != NULL) {
		if (sy_index_encode(index, PyBytes_AS_STRING(bytes), index->index_bytes, &err) == SY_OK)
			return Py_BuildValue("(NKIN)", bytes, (unsigned long long)index->blob_bytes,
			                     (unsigned)index->entry_count, bases);
		sypy_raise(&err, NULL);
	}
	Py_XDECREF(bytes);
	Py_XDECREF(bases);
	return NULL;
}

/* encode_index(blob_id, rows, columns): rows ascending, columns sorted by field */
PyObject *sypy_encode_index(PyObject *module, PyObject *args)
{
	PyObject *id, *rows_given, *list, *done = NULL;
	struct sypy_arena arena = {0};
	sy_index index = {0};
	size_t row_count = 0;

	(void)module;
	if (!PyArg_ParseTuple(args, "OOO!", &id, &rows_given, &PyList_Type, &list) ||
	    !sypy_blob_id_from(id, &index.blob_id))
		return NULL;
	uint64_t *rows = sypy_rows_from(rows_given, &row_count);
	size_t column_count = (size_t)PyList_GET_SIZE(list);
	index.columns = PyMem_Calloc(column_count + 1, sizeof *index.columns);
	bool good = rows != NULL && index.columns != NULL && row_count <= UINT32_MAX &&
	            column_count <= UINT32_MAX;
	if (!good && !PyErr_Occurred())
		PyErr_NoMemory();
	index.rows = rows;
	index.row_count = (uint32_t)row_count;
	index.column_count = (uint32_t)column_count;
	for (size_t c = 0; good && c < column_count; c++)
		good = take_column(&arena, PyList_GET_ITEM(list, (Py_ssize_t)c), index.row_count,
		                   &index.columns[c]);
	if (good)
		done = encode(&index);
	for (size_t c = 0; index.columns != NULL && c < column_count; c++)
		PyMem_Free((void *)(uintptr_t)index.columns[c].extents);
	PyMem_Free(index.columns);
	PyMem_Free(rows);
	sypy_arena_done(&arena);
	return done;
}
