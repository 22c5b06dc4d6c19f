/* A value that was got as a Python object. */
#include "py_core.h"

static PyObject *text_of(const sy_value *value)
{
	return PyUnicode_DecodeUTF8(value->data, (Py_ssize_t)value->nbytes, NULL);
}

static PyObject *bytes_of(const sy_value *value)
{
	return PyBytes_FromStringAndSize(value->data, (Py_ssize_t)value->nbytes);
}

/* json.loads is Python code around the scanner, which is all that a text as we keep it needs; of
 * others, with blanks around it or no JSON at all, it knows more. */
static PyObject *json_object(const sy_value *value)
{
	PyObject *text = text_of(value), *object = NULL;

	if (text == NULL)
		return NULL;
	PyObject *pair = PyObject_CallFunction(sypy_names.json_scan, "Oi", text, 0);
	if (pair != NULL && PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2 &&
	    PyLong_AsSsize_t(PyTuple_GET_ITEM(pair, 1)) == PyUnicode_GET_LENGTH(text))
		object = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
	Py_XDECREF(pair);
	if (object == NULL) {
		PyErr_Clear();
		object = PyObject_CallOneArg(sypy_names.json_loads, text);
	}
	Py_DECREF(text);
	return object;
}

static PyObject *pickled_object(const sy_value *value, PyObject *loads)
{
	if (loads == Py_None) {
		PyErr_SetString(PyExc_ValueError,
		                "a stored value is a pickle, and loading one runs what it says: "
		                "allow_pickle=True for data you trust");
		return NULL;
	}
	PyObject *bytes = bytes_of(value);
	PyObject *object = bytes == NULL ? NULL : PyObject_CallOneArg(loads, bytes);

	Py_XDECREF(bytes);
	return object;
}

PyObject *sypy_value_object(PyObject *owner, const sy_value *value, bool readonly,
                            const struct sypy_makers *makers)
{
	switch (value->kind) {
	case SY_KIND_TENSOR: {
		PyObject *tensor = sypy_tensor_new(owner, value->data, value->dtype, value->rank,
		                                   value->dims, readonly);
		if (tensor == NULL || makers->tensor == Py_None)
			return tensor;
		PyObject *object = PyObject_CallOneArg(makers->tensor, tensor);
		Py_DECREF(tensor);
		return object;
	}
	case SY_KIND_BYTES:
		return bytes_of(value);
	case SY_KIND_UTF8:
		return text_of(value);
	case SY_KIND_MSGPACK:
		return sypy_unpack(value->data, value->nbytes);
	case SY_KIND_PICKLE:
		return pickled_object(value, makers->loads);
	case SY_KIND_JSON_NULL:
		return Py_NewRef(Py_None);
	case SY_KIND_JSON:
		return json_object(value);
	default:
		PyErr_Format(PyExc_ValueError,
		             "a stored value of kind %d, which this version does not know",
		             (int)value->kind);
		return NULL;
	}
}
