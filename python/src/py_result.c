/* The type Result: what a get returned. It owns memory or pins; tensors made of it keep it. */
#include "py_core.h"

PyTypeObject *sypy_result_type;

PyObject *sypy_result_new(sy_result *result, size_t row_count, size_t column_count, bool view)
{
	struct sypy_result *self = PyErr_Occurred() || result == NULL
		? NULL : (struct sypy_result *)sypy_result_type->tp_alloc(sypy_result_type, 0);

	if (self == NULL) {
		Py_BEGIN_ALLOW_THREADS
		sy_result_free(result);
		Py_END_ALLOW_THREADS
		return NULL;
	}
	self->result = result;
	self->row_count = row_count;
	self->column_count = column_count;
	self->view = view;
	return (PyObject *)self;
}

/* The end of the last view of a closed client says bye to the units, which may take a moment. */
static void result_dealloc(PyObject *object)
{
	struct sypy_result *self = (struct sypy_result *)object;
	PyTypeObject *type = Py_TYPE(object);
	sy_result *result = self->result;

	Py_BEGIN_ALLOW_THREADS
	sy_result_free(result);
	Py_END_ALLOW_THREADS
	type->tp_free(object);
	Py_DECREF(type);
}

static bool column_at(const struct sypy_result *self, Py_ssize_t c, sy_got_column *ret_column)
{
	if (c >= 0 && sy_result_column(self->result, (size_t)c, ret_column))
		return true;
	PyErr_SetString(PyExc_IndexError, "no such column");
	return false;
}

/* column(c) -> (dtype, kind, rank, tail, found_count, dense, mixed, lead, nbytes): lead is the
 * first dimension of each row of a dense column */
static PyObject *result_column(PyObject *object, PyObject *number)
{
	sy_got_column column;
	const struct sypy_result *self = (const struct sypy_result *)object;
	Py_ssize_t c = PyLong_AsSsize_t(number);

	if (PyErr_Occurred() || !column_at(self, c, &column))
		return NULL;
	Py_ssize_t tails = column.shape.rank > 1 ? (Py_ssize_t)column.shape.rank - 1 : 0;
	PyObject *tail = PyTuple_New(tails);
	for (Py_ssize_t d = 0; tail != NULL && d < tails; d++) {
		PyObject *length = PyLong_FromUnsignedLongLong(column.shape.tail[d]);

		if (length == NULL)
			Py_CLEAR(tail);
		else
			PyTuple_SET_ITEM(tail, d, length);
	}
	if (tail == NULL)
		return NULL;
	unsigned long long lead = column.dense && column.found_count > 0 ? column.dim0[0] : 0;
	return Py_BuildValue("(iiINnOOKK)", (int)column.dtype, (int)column.kind,
	                     (unsigned)column.shape.rank, tail, (Py_ssize_t)column.found_count,
	                     column.dense ? Py_True : Py_False, column.mixed ? Py_True : Py_False,
	                     lead, (unsigned long long)column.offsets[self->row_count]);
}

static bool shape_from(PyObject *tuple, uint64_t *shape)
{
	if (PyTuple_GET_SIZE(tuple) > SY_RANK_MAX + 1) {
		PyErr_SetString(PyExc_ValueError, "more than nine dimensions");
		return false;
	}
	for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(tuple); d++) {
		shape[d] = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(tuple, d));
		if (PyErr_Occurred())
			return false;
	}
	return true;
}

/* tensor(c, shape, own) -> Tensor over the column's bytes, which lie side by side; own: over a
 * copy of them, so that it does not keep the whole result */
static PyObject *result_tensor(PyObject *object, PyObject *args)
{
	struct sypy_result *self = (struct sypy_result *)object;
	sy_got_column column;
	Py_ssize_t c;
	PyObject *given;
	int own;
	uint64_t shape[SY_RANK_MAX + 1] = {0};

	if (!PyArg_ParseTuple(args, "nO!p", &c, &PyTuple_Type, &given, &own) ||
	    !column_at(self, c, &column) || !shape_from(given, shape))
		return NULL;
	uint64_t bytes = sy_dtype_bytes(column.dtype);
	for (Py_ssize_t d = 0; d < PyTuple_GET_SIZE(given); d++)
		bytes *= shape[d];
	if (self->view || bytes != column.offsets[self->row_count]) {
		PyErr_Format(PyExc_ValueError, "the column has %llu bytes, this shape %llu",
		             (unsigned long long)column.offsets[self->row_count],
		             (unsigned long long)bytes);
		return NULL;
	}
	PyObject *tensor = sypy_tensor_new(object, column.data, column.dtype,
	                                   (uint32_t)PyTuple_GET_SIZE(given), shape, false);
	if (tensor == NULL || !own)
		return tensor;
	PyObject *copy = sypy_tensor_copy(tensor);
	Py_DECREF(tensor);
	return copy;
}

/* found(c) -> Tensor of bool, one a row */
static PyObject *result_found(PyObject *object, PyObject *number)
{
	struct sypy_result *self = (struct sypy_result *)object;
	sy_got_column column;
	Py_ssize_t c = PyLong_AsSsize_t(number);
	uint64_t shape[1] = {self->row_count};

	if (PyErr_Occurred() || !column_at(self, c, &column))
		return NULL;
	return sypy_tensor_new(object, column.found, SY_DTYPE_BOOL, 1, shape, false);
}

/* offsets(c) -> Tensor of i64, one more than rows: where each row's lead dimension begins */
static PyObject *result_offsets(PyObject *object, PyObject *number)
{
	struct sypy_result *self = (struct sypy_result *)object;
	sy_got_column column;
	Py_ssize_t c = PyLong_AsSsize_t(number);
	uint64_t shape[1] = {self->row_count + 1}, sum = 0;

	if (PyErr_Occurred() || !column_at(self, c, &column))
		return NULL;
	PyObject *memory =
		PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(shape[0] * sizeof(int64_t)));
	if (memory == NULL)
		return NULL;
	int64_t *offsets = (int64_t *)(void *)PyByteArray_AS_STRING(memory);
	for (size_t k = 0; k <= self->row_count; k++) {
		offsets[k] = (int64_t)sum;
		sum += k < self->row_count && column.found[k] ? column.dim0[k] : 0;
	}
	PyObject *tensor = sypy_tensor_new(memory, offsets, SY_DTYPE_I64, 1, shape, false);
	Py_DECREF(memory);
	return tensor;
}

/* Of a get of keys the value of the k-th; of columns that of row k of column c. */
static bool value_at(const struct sypy_result *self, Py_ssize_t c, size_t k, sy_value *ret_value)
{
	size_t at = self->column_count == 0 ? k : (size_t)c * self->row_count + k;

	return sy_result_value(self->result, at, ret_value);
}

/* Adds to the error that is set which value it is about: text that is none, a pickle. */
static void note_place(size_t k)
{
#if PY_VERSION_HEX >= 0x030c0000
	PyObject *fault = PyErr_GetRaisedException();
#else
	PyObject *type, *fault, *trace;

	PyErr_Fetch(&type, &fault, &trace);
	PyErr_NormalizeException(&type, &fault, &trace);
#endif
	char text[64];
	PyOS_snprintf(text, sizeof text, "(of the values asked for, that at index %zu)", k);
	PyObject *done = PyObject_CallMethod(fault, "add_note", "s", text);
	if (done == NULL)
		PyErr_Clear();
	Py_XDECREF(done);
#if PY_VERSION_HEX >= 0x030c0000
	PyErr_SetRaisedException(fault);
#else
	PyErr_Restore(type, fault, trace);
#endif
}

/* values(c, tensor, loads) -> a list of objects, None where absent; c is not read for a get of
 * keys. tensor and loads are what makes objects (sypy_makers). */
static PyObject *result_values(PyObject *object, PyObject *args)
{
	struct sypy_result *self = (struct sypy_result *)object;
	struct sypy_makers makers;
	Py_ssize_t c;

	if (!PyArg_ParseTuple(args, "nOO", &c, &makers.tensor, &makers.loads))
		return NULL;
	if (self->column_count > 0 && (c < 0 || (size_t)c >= self->column_count)) {
		PyErr_SetString(PyExc_IndexError, "no such column");
		return NULL;
	}
	PyObject *list = PyList_New((Py_ssize_t)self->row_count);
	for (size_t k = 0; list != NULL && k < self->row_count; k++) {
		sy_value value;
		PyObject *one = value_at(self, c, k, &value)
			? sypy_value_object(object, &value, self->view, &makers) : Py_NewRef(Py_None);

		if (one == NULL) {
			note_place(k);
			Py_CLEAR(list);
		} else {
			PyList_SET_ITEM(list, (Py_ssize_t)k, one);
		}
	}
	return list;
}

/* value(c, k, tensor, loads) -> one object of those */
static PyObject *result_value(PyObject *object, PyObject *args)
{
	struct sypy_result *self = (struct sypy_result *)object;
	struct sypy_makers makers;
	Py_ssize_t c, k;
	sy_value value;

	if (!PyArg_ParseTuple(args, "nnOO", &c, &k, &makers.tensor, &makers.loads))
		return NULL;
	if (k < 0 || (size_t)k >= self->row_count ||
	    (self->column_count > 0 && (c < 0 || (size_t)c >= self->column_count))) {
		PyErr_SetString(PyExc_IndexError, "no such value");
		return NULL;
	}
	if (!value_at(self, c, (size_t)k, &value))
		return Py_NewRef(Py_None);
	return sypy_value_object(object, &value, self->view, &makers);
}

/* absent() -> [(column, row)] of what the units do not have; the column of a get of keys is 0 */
static PyObject *result_absent(PyObject *object, PyObject *unused)
{
	const struct sypy_result *self = (const struct sypy_result *)object;
	size_t columns = self->column_count == 0 ? 1 : self->column_count;
	PyObject *list = PyList_New(0);

	(void)unused;
	for (size_t i = 0; list != NULL && i < columns * self->row_count; i++) {
		sy_value value;

		if (sy_result_value(self->result, i, &value))
			continue;
		PyObject *one = Py_BuildValue("(nn)", (Py_ssize_t)(i / self->row_count),
		                              (Py_ssize_t)(i % self->row_count));
		if (one == NULL || PyList_Append(list, one) != 0)
			Py_CLEAR(list);
		Py_XDECREF(one);
	}
	return list;
}

static PyObject *result_row_count(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromSize_t(((const struct sypy_result *)object)->row_count);
}

bool sypy_result_add(PyObject *module)
{
	static PyGetSetDef attributes[] = {
		{"row_count", result_row_count, NULL, NULL, NULL},
		{NULL, NULL, NULL, NULL, NULL},
	};
	static PyMethodDef methods[] = {
		{"column", result_column, METH_O, NULL},
		{"tensor", result_tensor, METH_VARARGS, NULL},
		{"found", result_found, METH_O, NULL},
		{"offsets", result_offsets, METH_O, NULL},
		{"values", result_values, METH_VARARGS, NULL},
		{"value", result_value, METH_VARARGS, NULL},
		{"absent", result_absent, METH_NOARGS, NULL},
		{NULL, NULL, 0, NULL},
	};
	static PyType_Slot slots[] = {
		{Py_tp_dealloc, (void *)result_dealloc},
		{Py_tp_methods, methods},
		{Py_tp_getset, attributes},
		{Py_tp_doc, (void *)"What a get returned: memory or pins."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Result",
		.basicsize = sizeof(struct sypy_result),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_result_type);
}
