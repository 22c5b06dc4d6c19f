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

static PyObject *json_object(const sy_value *value, PyObject *json_loads)
{
	PyObject *text = text_of(value);
	PyObject *object = text == NULL ? NULL : PyObject_CallOneArg(json_loads, text);

	Py_XDECREF(text);
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
		PyObject *object =
			tensor == NULL ? NULL : PyObject_CallOneArg(makers->tensor, tensor);

		Py_XDECREF(tensor);
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
		return json_object(value, makers->json);
	default:
		PyErr_Format(PyExc_ValueError,
		             "a stored value of kind %d, which this version does not know",
		             (int)value->kind);
		return NULL;
	}
}
