/* Row numbers, keys and field names out of Python objects. */
#include <string.h>

#include "py_core.h"

static bool is_integer_format(const char *format)
{
	static const char INTEGERS[] = "bBhHiIlLqQnN";

	if (format == NULL)
		return true; /* bytes */
	if (*format != '\0' && strchr("@=<>!", *format) != NULL)
		format++;
	return format[0] != '\0' && format[1] == '\0' && strchr(INTEGERS, format[0]) != NULL;
}

/* One item of any width; false: it is below zero. */
static bool read_item(const char *at, Py_ssize_t itemsize, bool is_signed, bool is_big,
                      uint64_t *ret_value)
{
	uint64_t value = 0;

	memcpy(&value, at, (size_t)itemsize); /* little-endian, as every host of ours */
	if (is_big)
		value = __builtin_bswap64(value) >> (64 - itemsize * 8);
	unsigned top = (unsigned)(itemsize * 8 - 1);
	if (is_signed && (value >> top) != 0)
		return false;
	*ret_value = value;
	return true;
}

static bool copy_numbers(const Py_buffer *view, const char *what, uint64_t *rows)
{
	const char *format = view->format == NULL ? "B" : view->format;
	char code = format[strlen(format) - 1];
	bool is_signed = strchr("bhilqn", code) != NULL;
	bool is_big = *format == '>' || *format == '!';

	for (Py_ssize_t i = 0; i < view->shape[0]; i++) {
		if (!read_item((const char *)view->buf + i * view->strides[0], view->itemsize, is_signed,
		               is_big, &rows[i])) {
			PyErr_Format(PyExc_ValueError, "the %s at position %zd is below zero", what, i);
			return false;
		}
	}
	return true;
}

static uint64_t *numbers_of_buffer(PyObject *object, const char *what, size_t *ret_count)
{
	Py_buffer view;
	uint64_t *rows = NULL;

	if (PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_STRIDES) != 0)
		return NULL;
	if (view.ndim != 1 || view.itemsize > 8 || !is_integer_format(view.format)) {
		PyErr_Format(PyExc_TypeError, "%ss are integers in one dimension", what);
	} else {
		rows = PyMem_Malloc(((size_t)view.shape[0] + 1) * sizeof *rows);
		if (rows == NULL)
			PyErr_NoMemory();
		else if (!copy_numbers(&view, what, rows)) {
			PyMem_Free(rows);
			rows = NULL;
		}
		*ret_count = (size_t)view.shape[0];
	}
	PyBuffer_Release(&view);
	return rows;
}

static void refuse(const char *what)
{
	PyErr_Format(PyExc_TypeError, "%ss are a sequence of ints or an integer array", what);
}

static uint64_t *numbers_of_sequence(PyObject *object, const char *what, size_t *ret_count)
{
	/* A copy: making an int of an item may run code that changes the list. */
	PyObject *items = PySequence_Tuple(object);

	if (items == NULL) {
		if (PyErr_ExceptionMatches(PyExc_TypeError) && Py_TYPE(object)->tp_iter == NULL)
			refuse(what);
		return NULL;
	}
	Py_ssize_t count = PyTuple_GET_SIZE(items);
	uint64_t *rows = PyMem_Malloc(((size_t)count + 1) * sizeof *rows);
	if (rows == NULL)
		PyErr_NoMemory();
	for (Py_ssize_t i = 0; rows != NULL && i < count; i++) {
		PyObject *item = PyTuple_GET_ITEM(items, i);
		PyObject *number = PyBool_Check(item) ? NULL : PyNumber_Index(item);

		if (number == NULL && !PyErr_Occurred())
			PyErr_Format(PyExc_TypeError, "%ss are ints, and not bools", what);
		rows[i] = number == NULL ? 0 : PyLong_AsUnsignedLongLong(number);
		if (PyErr_Occurred()) {
			if (PyErr_ExceptionMatches(PyExc_OverflowError))
				PyErr_Format(PyExc_ValueError, "%s %R is not in 0 .. 18446744073709551615",
				             what, item);
			PyMem_Free(rows);
			rows = NULL;
		}
		Py_XDECREF(number);
	}
	Py_DECREF(items);
	*ret_count = (size_t)count;
	return rows;
}

static uint64_t *numbers_from(PyObject *object, const char *what, size_t *ret_count)
{
	if (PyUnicode_Check(object) || PyBytes_Check(object)) {
		refuse(what);
		return NULL;
	}
	if (PyObject_CheckBuffer(object))
		return numbers_of_buffer(object, what, ret_count);
	return numbers_of_sequence(object, what, ret_count);
}

uint64_t *sypy_rows_from(PyObject *rows, size_t *ret_count)
{
	return numbers_from(rows, "row number", ret_count);
}

uint64_t *sypy_offsets_from(PyObject *offsets, size_t *ret_count)
{
	return numbers_from(offsets, "offset", ret_count);
}

/* A tuple, so that nobody changes it while the library reads what its items hold. */
static PyObject *text_tuple(PyObject *object, const char *what)
{
	if (PyUnicode_Check(object)) {
		PyErr_Format(PyExc_TypeError, "%s are a sequence of str, not one str", what);
		return NULL;
	}
	PyObject *texts = PySequence_Tuple(object);
	for (Py_ssize_t i = 0; texts != NULL && i < PyTuple_GET_SIZE(texts); i++) {
		PyObject *text = PyTuple_GET_ITEM(texts, i);

		if (PyUnicode_Check(text))
			continue;
		PyErr_Format(PyExc_TypeError, "%s are str, not %.100s", what, Py_TYPE(text)->tp_name);
		Py_CLEAR(texts);
	}
	return texts;
}

bool sypy_keys_from(PyObject *object, struct sypy_keys *ret_keys)
{
	struct sypy_keys keys = {.texts = text_tuple(object, "keys")};
	sy_error err = {0};

	if (keys.texts == NULL)
		return false;
	keys.count = (size_t)PyTuple_GET_SIZE(keys.texts);
	keys.keys = PyMem_Calloc(keys.count + 1, sizeof *keys.keys);
	if (keys.keys == NULL)
		PyErr_NoMemory();
	for (size_t i = 0; keys.keys != NULL && i < keys.count; i++) {
		Py_ssize_t bytes;
		const char *text =
			PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(keys.texts, (Py_ssize_t)i), &bytes);

		if (text != NULL && sy_key_from_text(text, (size_t)bytes, &keys.keys[i], &err) == SY_OK)
			continue;
		if (text != NULL)
			sypy_raise(&err, NULL);
		PyMem_Free(keys.keys);
		keys.keys = NULL;
	}
	if (keys.keys == NULL) {
		Py_DECREF(keys.texts);
		return false;
	}
	*ret_keys = keys;
	return true;
}

void sypy_keys_done(struct sypy_keys *keys)
{
	Py_CLEAR(keys->texts);
	PyMem_Free(keys->keys);
	*keys = (struct sypy_keys){0};
}

bool sypy_fields_from(PyObject *object, struct sypy_fields *ret_fields)
{
	struct sypy_fields fields = {0};

	fields.texts = object == Py_None ? PyTuple_New(0) : text_tuple(object, "fields");
	if (fields.texts == NULL)
		return false;
	fields.count = (size_t)PyTuple_GET_SIZE(fields.texts);
	fields.names = PyMem_Calloc(fields.count + 1, sizeof *fields.names);
	if (fields.names == NULL)
		PyErr_NoMemory();
	for (size_t i = 0; fields.names != NULL && i < fields.count; i++) {
		Py_ssize_t bytes;
		const char *text =
			PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(fields.texts, (Py_ssize_t)i), &bytes);

		fields.names[i] = text;
		if (text != NULL && strlen(text) == (size_t)bytes)
			continue;
		if (text != NULL)
			PyErr_SetString(PyExc_ValueError, "a field's name holds a NUL");
		PyMem_Free(fields.names);
		fields.names = NULL;
	}
	if (fields.names == NULL) {
		Py_DECREF(fields.texts);
		return false;
	}
	*ret_fields = fields;
	return true;
}

void sypy_fields_done(struct sypy_fields *fields)
{
	Py_CLEAR(fields->texts);
	PyMem_Free(fields->names);
	*fields = (struct sypy_fields){0};
}

PyObject *sypy_key_text(uint64_t row, PyObject *field)
{
	return PyUnicode_FromFormat("%llu@%U", (unsigned long long)row, field);
}

static bool append_row(PyObject *keys, uint64_t row, PyObject *fields)
{
	for (Py_ssize_t f = 0; f < PyTuple_GET_SIZE(fields); f++) {
		PyObject *key = sypy_key_text(row, PyTuple_GET_ITEM(fields, f));
		int rc = key == NULL ? -1 : PyList_Append(keys, key);

		Py_XDECREF(key);
		if (rc != 0)
			return false;
	}
	return true;
}

/* How many of the indexes are there; an error that blames none is about all of them. */
static size_t blamed_count(const sy_error *err)
{
	return err->index_count < err->index_capacity ? err->index_count : err->index_capacity;
}

PyObject *sypy_blamed_columns(const sy_error *err, const uint64_t *rows, size_t row_count,
                              PyObject *fields)
{
	size_t blamed = blamed_count(err);
	PyObject *keys = PyList_New(0);

	for (size_t i = 0; keys != NULL && i < (blamed > 0 ? blamed : row_count); i++) {
		size_t at = blamed > 0 ? err->indexes[i] : i;

		if (at < row_count && !append_row(keys, rows[at], fields))
			Py_CLEAR(keys);
	}
	return keys;
}

PyObject *sypy_blamed_items(const sy_error *err, PyObject *texts)
{
	size_t blamed = blamed_count(err);

	if (blamed == 0)
		return PySequence_List(texts);
	PyObject *keys = PyList_New(0);
	for (size_t i = 0; keys != NULL && i < blamed; i++) {
		if ((Py_ssize_t)err->indexes[i] < PyTuple_GET_SIZE(texts) &&
		    PyList_Append(keys, PyTuple_GET_ITEM(texts, (Py_ssize_t)err->indexes[i])) != 0)
			Py_CLEAR(keys);
	}
	return keys;
}

/* parse_keys(keys) -> [(row, field)] */
PyObject *sypy_parse_keys(PyObject *module, PyObject *object)
{
	struct sypy_keys keys;

	(void)module;
	if (!sypy_keys_from(object, &keys))
		return NULL;
	PyObject *list = PyList_New((Py_ssize_t)keys.count);
	for (size_t i = 0; list != NULL && i < keys.count; i++) {
		PyObject *one = Py_BuildValue("(Ks#)", (unsigned long long)keys.keys[i].row,
		                              keys.keys[i].field, (Py_ssize_t)keys.keys[i].field_bytes);

		if (one == NULL)
			Py_CLEAR(list);
		else
			PyList_SET_ITEM(list, (Py_ssize_t)i, one);
	}
	sypy_keys_done(&keys);
	return list;
}
