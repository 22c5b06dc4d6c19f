/* put and put_columns: Python values to what the library takes, in one crossing. */
#include <string.h>

#include "py_core.h"

/* One column as Python hands it over: (field, value, dtype). value is a list of one object a
 * row, a buffer of shape (rows, ...), or a tuple (buffer of values, buffer of n + 1 offsets);
 * dtype is that of bits given as integers, or -1; of a list also a tuple of one a row. */
struct column_spec {
	PyObject *field, *value;
	int dtype;
	PyObject *dtypes; /* that tuple, or NULL */
};

/* A number for all values, or a tuple of one for each; -1 in *ret_dtype of a tuple. */
static bool take_dtypes(PyObject *given, size_t count, int *ret_dtype, PyObject **ret_dtypes)
{
	*ret_dtypes = PyTuple_CheckExact(given) ? given : NULL;
	*ret_dtype = *ret_dtypes == NULL ? (int)PyLong_AsLong(given) : -1;
	if (PyErr_Occurred())
		return false;
	if (*ret_dtypes == NULL || (size_t)PyTuple_GET_SIZE(given) == count)
		return true;
	PyErr_Format(PyExc_ValueError, "%zd dtypes for %zu values", PyTuple_GET_SIZE(given), count);
	return false;
}

/* Items of a tuple as values. */
static bool take_values(struct sypy_hold *hold, PyObject *items, int dtype, PyObject *dtypes,
                        sy_value *values)
{
	for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items); i++) {
		int own = dtypes == NULL ? dtype : (int)PyLong_AsLong(PyTuple_GET_ITEM(dtypes, i));

		if (PyErr_Occurred() ||
		    !sypy_value_from(hold, PyTuple_GET_ITEM(items, i), own, &values[i]))
			return false;
	}
	return true;
}

/* All that one put holds while it runs. */
struct batch {
	struct sypy_hold hold;
	sy_put_column *columns;
	size_t column_count;
	PyObject *fields; /* a tuple of str, in the order of columns */
	uint64_t *rows;
	size_t row_count;
};

static void batch_done(struct batch *batch)
{
	sypy_hold_done(&batch->hold);
	PyMem_Free(batch->columns);
	PyMem_Free(batch->rows);
	Py_CLEAR(batch->fields);
}

static bool listed(struct batch *batch, const struct column_spec *spec, sy_put_column *column)
{
	/* A copy: converting an item may run code that changes the list. */
	PyObject *items = PySequence_Tuple(spec->value);
	bool done = items != NULL && sypy_hold_object(&batch->hold, items);

	Py_XDECREF(items);
	if (!done)
		return false;
	if ((size_t)PyTuple_GET_SIZE(items) != batch->row_count) {
		PyErr_Format(PyExc_ValueError, "column %R has %zd values for %zu rows", spec->field,
		             PyTuple_GET_SIZE(items), batch->row_count);
		return false;
	}
	sy_value *values =
		sypy_arena_take(&batch->hold.arena, (batch->row_count + 1) * sizeof *values);
	if (values == NULL)
		return false;
	column->values = values;
	return take_values(&batch->hold, items, spec->dtype, spec->dtypes, values);
}

/* The rows' own dimensions lie close together, so that a row is one run of bytes. */
static bool rows_are_runs(const Py_buffer *view)
{
	Py_ssize_t run = view->itemsize;

	for (int d = view->ndim - 1; d > 0; d--) {
		if (view->shape[d] != 1 && view->strides[d] != run)
			return false;
		run *= view->shape[d];
	}
	return view->strides[0] >= 0;
}

static bool set_shape(const struct column_spec *spec, const Py_buffer *view, int first,
                      sy_put_column *column)
{
	int own = sypy_dtype_of(view);

	if (own < 0)
		return false;
	if (view->ndim - first > SY_TAIL_MAX) {
		PyErr_Format(PyExc_ValueError, "column %R: rows of more than %d dimensions", spec->field,
		             SY_RANK_MAX);
		return false;
	}
	column->dtype = (sy_dtype)(spec->dtype < 0 ? own : spec->dtype);
	column->kind = SY_KIND_TENSOR;
	for (int d = first; d < view->ndim; d++)
		column->shape.tail[d - first] = (uint64_t)view->shape[d];
	return true;
}

/* A column whose rows hold nothing, as of shape (rows, 3, 0): a length says nothing of it, so
 * each row says its shape itself. */
static bool hollow(struct batch *batch, const Py_buffer *view, sy_put_column *column)
{
	sy_value *values =
		sypy_arena_take(&batch->hold.arena, (batch->row_count + 1) * sizeof *values);

	if (values == NULL)
		return false;
	for (size_t i = 0; i < batch->row_count; i++) {
		values[i] = (sy_value){.dtype = column->dtype, .kind = SY_KIND_TENSOR,
		                       .rank = (uint32_t)view->ndim - 1};
		for (int d = 1; d < view->ndim; d++)
			values[i].dims[d - 1] = (uint64_t)view->shape[d];
	}
	column->values = values;
	return true;
}

static bool dense(struct batch *batch, const struct column_spec *spec, sy_put_column *column)
{
	const Py_buffer *view =
		sypy_hold_buffer(&batch->hold, spec->value, PyBUF_FORMAT | PyBUF_STRIDES);

	if (view == NULL)
		return false;
	if (view->ndim < 1) {
		PyErr_Format(PyExc_ValueError, "column %R is a single value, and not one for each row",
		             spec->field);
		return false;
	}
	if ((size_t)view->shape[0] != batch->row_count) {
		PyErr_Format(PyExc_ValueError, "column %R has %zd rows, the batch %zu", spec->field,
		             view->shape[0], batch->row_count);
		return false;
	}
	if (!set_shape(spec, view, view->ndim > 1 ? 2 : 1, column))
		return false;
	column->shape.rank = (uint32_t)view->ndim - 1;
	if (view->len == 0)
		return hollow(batch, view, column);
	column->row_bytes = (uint64_t)(view->len / view->shape[0]);
	if (rows_are_runs(view)) {
		column->data = view->buf;
		column->stride_bytes = (uint64_t)view->strides[0];
		return true;
	}
	void *copy = sypy_arena_take(&batch->hold.arena, (size_t)view->len);
	if (copy == NULL || PyBuffer_ToContiguous(copy, view, view->len, 'C') != 0)
		return false;
	column->data = copy;
	column->stride_bytes = column->row_bytes;
	return true;
}

/* Offsets of lead units, as Python has them, to bytes. */
static bool take_offsets(struct batch *batch, const struct column_spec *spec, PyObject *object,
                         uint64_t lead, uint64_t unit_bytes, sy_put_column *column)
{
	size_t count = 0;
	uint64_t *offsets = sypy_offsets_from(object, &count);
	uint64_t *bytes = NULL;

	if (offsets == NULL)
		return false;
	if (count != batch->row_count + 1)
		PyErr_Format(PyExc_ValueError,
		             "column %R has %zu offsets for %zu rows: one more than rows", spec->field,
		             count, batch->row_count);
	else
		bytes = sypy_arena_take(&batch->hold.arena, count * sizeof *bytes);
	for (size_t i = 0; bytes != NULL && i < count; i++) {
		bytes[i] = offsets[i] * unit_bytes;
		if (offsets[i] <= lead && (i == 0 || offsets[i] >= offsets[i - 1]))
			continue;
		PyErr_Format(PyExc_ValueError,
		             "column %R: offset %zu runs backwards or past the %llu values",
		             spec->field, i, (unsigned long long)lead);
		bytes = NULL;
	}
	PyMem_Free(offsets);
	column->offsets = bytes;
	return bytes != NULL;
}

/* Where a lead unit has no bytes, byte offsets say nothing: each row says its shape. */
static bool hollow_jagged(struct batch *batch, PyObject *object, sy_put_column *column)
{
	size_t count = 0;
	uint64_t *offsets = sypy_offsets_from(object, &count);
	sy_value *values = NULL;

	if (offsets != NULL && count != batch->row_count + 1)
		PyErr_SetString(PyExc_ValueError, "the offsets changed while they were read");
	else if (offsets != NULL)
		values = sypy_arena_take(&batch->hold.arena, count * sizeof *values);
	for (size_t i = 0; values != NULL && i + 1 < count; i++) {
		values[i] = (sy_value){.dtype = column->dtype, .kind = SY_KIND_TENSOR,
		                       .rank = column->shape.rank};
		values[i].dims[0] = offsets[i + 1] - offsets[i];
		for (uint32_t d = 1; d < column->shape.rank; d++)
			values[i].dims[d] = column->shape.tail[d - 1];
	}
	column->values = values;
	PyMem_Free(offsets);
	return offsets != NULL && values != NULL;
}

static bool jagged(struct batch *batch, const struct column_spec *spec, sy_put_column *column)
{
	PyObject *data = PyTuple_GET_ITEM(spec->value, 0), *offsets = PyTuple_GET_ITEM(spec->value, 1);
	const Py_buffer *view = sypy_hold_buffer(&batch->hold, data, PyBUF_FORMAT | PyBUF_STRIDES);

	if (view == NULL)
		return false;
	if (view->ndim < 1 || view->ndim > SY_RANK_MAX) {
		PyErr_Format(PyExc_ValueError, "column %R: jagged values have 1 to %d dimensions",
		             spec->field, SY_RANK_MAX);
		return false;
	}
	if (!set_shape(spec, view, 1, column))
		return false;
	column->shape.rank = (uint32_t)view->ndim;
	uint64_t lead = (uint64_t)view->shape[0], unit_bytes = (uint64_t)view->itemsize;
	for (int d = 1; d < view->ndim; d++)
		unit_bytes *= (uint64_t)view->shape[d];
	const void *values = view->buf;
	if (view->len > 0 && !PyBuffer_IsContiguous(view, 'C')) {
		void *copy = sypy_arena_take(&batch->hold.arena, (size_t)view->len);

		if (copy == NULL || PyBuffer_ToContiguous(copy, view, view->len, 'C') != 0)
			return false;
		values = copy;
	}
	column->data = values;
	if (!take_offsets(batch, spec, offsets, lead, unit_bytes, column))
		return false;
	return unit_bytes > 0 || hollow_jagged(batch, offsets, column);
}

static bool take_column(struct batch *batch, size_t c, PyObject *item)
{
	struct column_spec spec;
	sy_put_column *column = &batch->columns[c];
	PyObject *dtypes;
	Py_ssize_t bytes;

	if (!PyArg_ParseTuple(item, "UOO", &spec.field, &spec.value, &dtypes) ||
	    !take_dtypes(dtypes, batch->row_count, &spec.dtype, &spec.dtypes))
		return false;
	column->field = PyUnicode_AsUTF8AndSize(spec.field, &bytes);
	if (column->field == NULL)
		return false;
	column->field_bytes = (size_t)bytes;
	PyTuple_SET_ITEM(batch->fields, (Py_ssize_t)c, Py_NewRef(spec.field));
	if (PyTuple_CheckExact(spec.value) && PyTuple_GET_SIZE(spec.value) == 2)
		return jagged(batch, &spec, column);
	if (PyList_CheckExact(spec.value))
		return listed(batch, &spec, column);
	return dense(batch, &spec, column);
}

static bool take_columns(struct batch *batch, PyObject *specs)
{
	batch->column_count = (size_t)PyList_GET_SIZE(specs);
	batch->columns = PyMem_Calloc(batch->column_count + 1, sizeof *batch->columns);
	batch->fields = PyTuple_New((Py_ssize_t)batch->column_count);
	if (batch->columns == NULL)
		PyErr_NoMemory();
	for (size_t c = 0; c < batch->column_count && batch->columns != NULL && batch->fields != NULL;
	     c++) {
		if (!take_column(batch, c, PyList_GET_ITEM(specs, (Py_ssize_t)c)))
			return false;
	}
	return batch->columns != NULL && batch->fields != NULL;
}

static PyObject *run_columns(struct sypy_client *self, const struct batch *batch,
                             uint64_t deadline_ns)
{
	struct sypy_error error;
	sy_status status;
	sy_client *client;

	if (!sypy_error_init(&error, batch->row_count))
		return NULL;
	client = sypy_client_enter(self);
	if (client == NULL) {
		sypy_error_done(&error);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	status = sy_client_put_columns(client, batch->rows, batch->row_count, batch->columns,
	                               batch->column_count, deadline_ns, &error.err);
	Py_END_ALLOW_THREADS
	sypy_client_leave(self);
	if (status != SY_OK && !PyErr_Occurred()) {
		PyObject *keys =
			sypy_blamed_columns(&error.err, batch->rows, batch->row_count, batch->fields);

		if (keys != NULL)
			sypy_raise(&error.err, keys);
		Py_XDECREF(keys);
	}
	sypy_error_done(&error);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* put_columns(rows, [(field, value, dtype)], dumps or None, deadline) */
PyObject *sypy_client_put_columns(PyObject *self, PyObject *args)
{
	PyObject *rows, *specs, *dumps, *done = NULL;
	uint64_t deadline_ns;
	struct batch batch = {0};

	if (!PyArg_ParseTuple(args, "OO!OO&", &rows, &PyList_Type, &specs, &dumps, sypy_deadline,
	                      &deadline_ns))
		return NULL;
	batch.rows = sypy_rows_from(rows, &batch.row_count);
	if (batch.rows != NULL && sypy_hold_init(&batch.hold, dumps) &&
	    take_columns(&batch, specs))
		done = run_columns((struct sypy_client *)self, &batch, deadline_ns);
	batch_done(&batch);
	return done;
}

static PyObject *run_keys(struct sypy_client *self, const struct sypy_keys *keys,
                          const sy_value *values, uint64_t deadline_ns)
{
	struct sypy_error error;
	sy_status status;
	sy_client *client;

	if (!sypy_error_init(&error, keys->count))
		return NULL;
	client = sypy_client_enter(self);
	if (client == NULL) {
		sypy_error_done(&error);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	status = sy_client_put(client, keys->keys, values, keys->count, deadline_ns, &error.err);
	Py_END_ALLOW_THREADS
	sypy_client_leave(self);
	if (status != SY_OK && !PyErr_Occurred()) {
		PyObject *blamed = sypy_blamed_items(&error.err, keys->texts);

		if (blamed != NULL)
			sypy_raise(&error.err, blamed);
		Py_XDECREF(blamed);
	}
	sypy_error_done(&error);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* put(keys, values, dtype, dumps or None, deadline): dtype as of a column that is a list */
PyObject *sypy_client_put(PyObject *self, PyObject *args)
{
	PyObject *texts, *given, *codes, *dumps, *dtypes, *done = NULL;
	int dtype;
	uint64_t deadline_ns;
	struct sypy_keys keys = {0};
	struct sypy_hold hold = {0};
	sy_value *values = NULL;

	if (!PyArg_ParseTuple(args, "OO!OOO&", &texts, &PyTuple_Type, &given, &codes, &dumps,
	                      sypy_deadline, &deadline_ns) ||
	    !sypy_keys_from(texts, &keys))
		return NULL;
	bool ready = sypy_hold_init(&hold, dumps);
	if (ready && (size_t)PyTuple_GET_SIZE(given) != keys.count) {
		PyErr_Format(PyExc_ValueError, "%zd values for %zu keys", PyTuple_GET_SIZE(given),
		             keys.count);
		ready = false;
	}
	if (ready && take_dtypes(codes, keys.count, &dtype, &dtypes))
		values = sypy_arena_take(&hold.arena, (keys.count + 1) * sizeof *values);
	if (values != NULL && take_values(&hold, given, dtype, dtypes, values))
		done = run_keys((struct sypy_client *)self, &keys, values, deadline_ns);
	sypy_hold_done(&hold);
	sypy_keys_done(&keys);
	return done;
}
