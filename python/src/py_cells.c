/* One Python object as one value to put: a tensor, bytes, text, or an object as msgpack. */
#include <string.h>

#include "py_core.h"

bool sypy_hold_init(struct sypy_hold *hold, PyObject *dumps)
{
	*hold = (struct sypy_hold){0};
	hold->dumps = dumps == Py_None ? NULL : dumps;
	hold->objects = PyList_New(0);
	hold->dtypes = PyDict_New();
	return hold->objects != NULL && hold->dtypes != NULL;
}

void sypy_hold_done(struct sypy_hold *hold)
{
	for (size_t i = 0; i < hold->buffer_count; i++)
		PyBuffer_Release(&hold->buffers[i]);
	PyMem_Free(hold->buffers);
	Py_CLEAR(hold->objects);
	Py_CLEAR(hold->dtypes);
	Py_CLEAR(hold->reducers);
	sypy_arena_done(&hold->arena);
	*hold = (struct sypy_hold){0};
}

const Py_buffer *sypy_hold_buffer(struct sypy_hold *hold, PyObject *object, int flags)
{
	/* Entries move when the array grows: nobody keeps a pointer to one across this call. */
	if (hold->buffer_count == hold->buffer_capacity) {
		size_t capacity = hold->buffer_capacity == 0 ? 16 : hold->buffer_capacity * 2;
		Py_buffer *grown = PyMem_Realloc(hold->buffers, capacity * sizeof *grown);

		if (grown == NULL) {
			PyErr_NoMemory();
			return NULL;
		}
		hold->buffers = grown;
		hold->buffer_capacity = capacity;
	}
	Py_buffer *view = &hold->buffers[hold->buffer_count];
	if (PyObject_GetBuffer(object, view, flags) != 0)
		return NULL;
	hold->buffer_count++;
	return view;
}

bool sypy_hold_object(struct sypy_hold *hold, PyObject *object)
{
	return PyList_Append(hold->objects, object) == 0;
}

static int dtype_of_code(const char *code, Py_ssize_t itemsize)
{
	static const sy_dtype UNSIGNED[9] = {[1] = SY_DTYPE_U8, [2] = SY_DTYPE_U16,
	                                     [4] = SY_DTYPE_U32, [8] = SY_DTYPE_U64};
	static const sy_dtype SIGNED[9] = {[1] = SY_DTYPE_I8, [2] = SY_DTYPE_I16,
	                                   [4] = SY_DTYPE_I32, [8] = SY_DTYPE_I64};

	if (strcmp(code, "Zf") == 0)
		return SY_DTYPE_C64;
	if (strcmp(code, "Zd") == 0)
		return SY_DTYPE_C128;
	if (code[0] == '\0' || code[1] != '\0')
		return -1;
	if (code[0] == '?')
		return SY_DTYPE_BOOL;
	if (code[0] == 'e')
		return SY_DTYPE_F16;
	if (code[0] == 'f')
		return SY_DTYPE_F32;
	if (code[0] == 'd')
		return SY_DTYPE_F64;
	if (itemsize > 8)
		return -1;
	int dtype = strchr("BHILQN", code[0]) != NULL ? (int)UNSIGNED[itemsize]
	            : strchr("bhilqn", code[0]) != NULL ? (int)SIGNED[itemsize] : -1;
	return dtype == SY_DTYPE_NONE ? -1 : dtype;
}

int sypy_dtype_of(const Py_buffer *view)
{
	const char *format = view->format == NULL ? "B" : view->format;
	const char *code = format;

	if (*code == '@' || *code == '=' || *code == '<')
		code++;
	int dtype = dtype_of_code(code, view->itemsize);
	if (dtype < 0)
		PyErr_Format(PyExc_TypeError,
		             "arrays of the format \"%.40s\" cannot be stored as tensors", format);
	return dtype;
}

/* The data of the buffer in C order: where it lies, or copied into the arena. */
static const void *contiguous(struct sypy_hold *hold, const Py_buffer *view)
{
	if (view->len == 0 || PyBuffer_IsContiguous(view, 'C'))
		return view->buf;
	void *copy = sypy_arena_take(&hold->arena, (size_t)view->len);
	if (copy == NULL || PyBuffer_ToContiguous(copy, view, view->len, 'C') != 0)
		return NULL;
	return copy;
}

static bool tensor_value(struct sypy_hold *hold, PyObject *object, int dtype, sy_value *ret_value)
{
	const Py_buffer *view = sypy_hold_buffer(hold, object, PyBUF_FORMAT | PyBUF_STRIDES);

	if (view == NULL)
		return false;
	int own = sypy_dtype_of(view);
	if (own < 0)
		return false;
	if (view->ndim > SY_RANK_MAX) {
		PyErr_Format(PyExc_ValueError, "a value of %d dimensions; %d are the most", view->ndim,
		             SY_RANK_MAX);
		return false;
	}
	const void *data = contiguous(hold, view);
	if (data == NULL && view->len > 0)
		return false;
	*ret_value = (sy_value){
		.data = data, .nbytes = (uint64_t)view->len, .dtype = (sy_dtype)(dtype < 0 ? own : dtype),
		.kind = SY_KIND_TENSOR, .rank = (uint32_t)view->ndim,
	};
	for (int d = 0; d < view->ndim; d++)
		ret_value->dims[d] = (uint64_t)view->shape[d];
	return true;
}

enum { DTYPE_ITS_OWN = -1, DTYPE_NONE_OF_OURS = -2 };

/* numpy does not export what the struct module has no letter for, such as bf16. */
static int dtype_by_name(PyObject *dtype)
{
	static const struct {
		const char *numpy;
		int value;
	} list[] = {
		{"bfloat16", SY_DTYPE_BF16}, {"float8_e4m3fn", SY_DTYPE_F8_E4M3FN},
		{"float8_e5m2", SY_DTYPE_F8_E5M2}, {"float8_e4m3fnuz", SY_DTYPE_F8_E4M3FNUZ},
		{"float8_e5m2fnuz", SY_DTYPE_F8_E5M2FNUZ},
	};
	PyObject *name = PyObject_GetAttrString(dtype, "name");
	int found = DTYPE_NONE_OF_OURS;

	for (size_t i = 0; name != NULL && PyUnicode_Check(name) && i < sizeof list / sizeof list[0];
	     i++) {
		if (PyUnicode_CompareWithASCIIString(name, list[i].numpy) == 0)
			found = list[i].value;
	}
	Py_XDECREF(name);
	return found;
}

/* The same, asked once for each dtype of a put: Python code makes the name. */
static int dtype_by_name_once(struct sypy_hold *hold, PyObject *dtype)
{
	PyObject *known = PyDict_GetItemWithError(hold->dtypes, dtype);

	if (known != NULL)
		return (int)PyLong_AsLong(known);
	int found = dtype_by_name(dtype);
	known = PyLong_FromLong(found);
	if (known != NULL)
		PyDict_SetItem(hold->dtypes, dtype, known);
	Py_XDECREF(known);
	return found;
}

/* What an array's or a numpy scalar's dtype says that its buffer does not: scalars of dates and
 * texts are exported as plain bytes. */
static int special_dtype(struct sypy_hold *hold, PyObject *object)
{
	PyObject *dtype = PyObject_GetAttrString(object, "dtype");
	PyObject *kind = dtype == NULL ? NULL : PyObject_GetAttrString(dtype, "kind");
	int found = DTYPE_ITS_OWN;

	if (kind != NULL && PyUnicode_Check(kind) && PyUnicode_GET_LENGTH(kind) == 1) {
		Py_UCS4 c = PyUnicode_READ_CHAR(kind, 0);

		if (c == 'V')
			found = dtype_by_name_once(hold, dtype);
		else if (c < 128 && strchr("biufc", (int)c) == NULL)
			found = DTYPE_NONE_OF_OURS;
	}
	Py_XDECREF(kind);
	Py_XDECREF(dtype);
	PyErr_Clear();
	return found;
}

/* 1: done, 0: it is no tensor we know, -1: error. */
static int try_tensor(struct sypy_hold *hold, PyObject *object, int dtype, sy_value *ret_value)
{
	if (Py_TYPE(object) == sypy_tensor_type) {
		const struct sypy_tensor *tensor = (const struct sypy_tensor *)object;

		if (tensor->ndim > SY_RANK_MAX || !sypy_hold_object(hold, object))
			return 0;
		*ret_value = (sy_value){.data = tensor->data, .nbytes = tensor->nbytes,
		                        .dtype = tensor->dtype, .kind = SY_KIND_TENSOR,
		                        .rank = tensor->ndim};
		for (uint32_t d = 0; d < tensor->ndim; d++)
			ret_value->dims[d] = (uint64_t)tensor->shape[d];
		return 1;
	}
	if (!PyObject_CheckBuffer(object))
		return 0;
	int named = special_dtype(hold, object);
	if (named == DTYPE_NONE_OF_OURS)
		return 0;
	if (named != DTYPE_ITS_OWN) {
		const char *raw = sy_dtype_bytes((sy_dtype)named) == 1 ? "u1" : "u2";
		PyObject *bits = PyObject_CallMethod(object, "view", "s", raw);
		bool done = bits != NULL && tensor_value(hold, bits, named, ret_value);

		Py_XDECREF(bits); /* the buffer holds it */
		return done ? 1 : -1;
	}
	size_t before = hold->buffer_count;
	if (tensor_value(hold, object, dtype, ret_value))
		return 1;
	/* Arrays of objects, dates, records: their buffers are none of ours. */
	if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_BufferError) &&
	    !(PyErr_ExceptionMatches(PyExc_ValueError) && hold->buffer_count == before))
		return -1;
	PyErr_Clear();
	while (hold->buffer_count > before)
		PyBuffer_Release(&hold->buffers[--hold->buffer_count]);
	return 0;
}

static bool bytes_value(struct sypy_hold *hold, PyObject *object, sy_value *ret_value)
{
	const Py_buffer *view = sypy_hold_buffer(hold, object, PyBUF_STRIDES);
	const void *data = view == NULL ? NULL : contiguous(hold, view);

	if (view == NULL || (data == NULL && view->len > 0))
		return false;
	*ret_value = (sy_value){.data = data, .nbytes = (uint64_t)view->len, .kind = SY_KIND_BYTES};
	return true;
}

static bool object_value(struct sypy_hold *hold, PyObject *object, sy_value *ret_value)
{
	sy_value value = {.kind = SY_KIND_MSGPACK};
	size_t bytes = 0;
	int packed = sypy_pack(object, &hold->arena, &value.data, &bytes);

	if (packed < 0)
		return false;
	if (packed == 0)
		return sypy_pickle(hold, object, ret_value);
	value.nbytes = bytes;
	*ret_value = value;
	return true;
}

bool sypy_value_from(struct sypy_hold *hold, PyObject *object, int dtype, sy_value *ret_value)
{
	if (PyUnicode_CheckExact(object)) {
		Py_ssize_t bytes;
		const char *utf8 = PyUnicode_AsUTF8AndSize(object, &bytes);

		if (utf8 != NULL && sypy_hold_object(hold, object)) {
			*ret_value = (sy_value){.data = utf8, .nbytes = (uint64_t)bytes,
			                        .kind = SY_KIND_UTF8};
			return true;
		}
		if (!PyErr_ExceptionMatches(PyExc_UnicodeError))
			return false;
		PyErr_Clear(); /* lone surrogates: pickle keeps them */
		return sypy_pickle(hold, object, ret_value);
	}
	if (Py_TYPE(object) == sypy_pickled_type)
		return sypy_pickle(hold, ((struct sypy_pickled *)object)->value, ret_value);
	if (PyBytes_CheckExact(object) || PyByteArray_CheckExact(object) || PyMemoryView_Check(object))
		return bytes_value(hold, object, ret_value);
	int tensor = try_tensor(hold, object, dtype, ret_value);
	if (tensor != 0)
		return tensor > 0;
	return object_value(hold, object, ret_value);
}
