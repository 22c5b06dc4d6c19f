/* From sy_error to the exceptions of slabyard.errors. */
#include <string.h>

#include "py_core.h"

struct row {
	sy_status status;
	const char *python;
	PyObject *class;
};

#define ONE(name, value, python, meaning) {name, python, NULL},
static struct row rows[] = {SY_STATUS_LIST(ONE)};
#undef ONE
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static PyObject *lost_blobs, *transfer_failed_blobs;

/* A class of slabyard.errors, or a built-in one. */
static PyObject *find_class(PyObject *errors, const char *name)
{
	PyObject *class = PyObject_GetAttrString(errors, name);

	if (class != NULL || !PyErr_ExceptionMatches(PyExc_AttributeError))
		return class;
	PyErr_Clear();
	PyObject *builtins = PyImport_ImportModule("builtins");
	if (builtins != NULL)
		class = PyObject_GetAttrString(builtins, name);
	Py_XDECREF(builtins);
	return class;
}

bool sypy_errors_init(PyObject *module)
{
	PyObject *errors = PyImport_ImportModule("slabyard.errors");

	(void)module;
	if (errors == NULL)
		return false;
	for (int i = 0; i < ROW_COUNT; i++) {
		if (rows[i].status == SY_OK)
			continue;
		rows[i].class = find_class(errors, rows[i].python);
		if (rows[i].class == NULL || !PyExceptionClass_Check(rows[i].class)) {
			Py_DECREF(errors);
			return false;
		}
	}
	lost_blobs = find_class(errors, "LostBlobs");
	transfer_failed_blobs = find_class(errors, "TransferFailed");
	Py_DECREF(errors);
	return lost_blobs != NULL && transfer_failed_blobs != NULL;
}

static PyObject *class_of(sy_status status)
{
	for (int i = 0; i < ROW_COUNT; i++) {
		if (rows[i].status == status && rows[i].class != NULL)
			return rows[i].class;
	}
	return PyExc_RuntimeError;
}

static PyObject *message_of(const sy_error *err)
{
	return PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message), "replace");
}

/* class(*args, **kwargs), raised. Takes args and kwargs over; either may be NULL after a failure
 * to build it. */
static void raise_made(PyObject *class, PyObject *args, PyObject *kwargs)
{
	PyObject *exception =
		args == NULL || kwargs == NULL ? NULL : PyObject_Call(class, args, kwargs);

	if (exception != NULL)
		PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
	Py_XDECREF(exception);
	Py_XDECREF(args);
	Py_XDECREF(kwargs);
}

static PyObject *full_kwargs(const sy_error *err)
{
	return Py_BuildValue("{s:s,s:K,s:K,s:K}", "resource", err->reason != NULL ? err->reason : "",
	                     "need", (unsigned long long)err->need, "free",
	                     (unsigned long long)err->free, "largest_hole",
	                     (unsigned long long)err->largest_hole);
}

static void raise_as(const sy_error *err, PyObject *lost, PyObject *failed, PyObject *names)
{
	PyObject *class = class_of(err->status), *message, *none = NULL;

	if (PyErr_Occurred())
		return;
	message = message_of(err);
	if (message == NULL)
		return;
	if (names == NULL)
		names = none = PyList_New(0);
	switch (err->status) {
	case SY_E_LOST:
		if (names != NULL)
			raise_made(lost, PyTuple_Pack(2, names, message), PyDict_New());
		break;
	case SY_E_TRANSFER_FAILED:
		if (names != NULL)
			raise_made(failed, PyTuple_Pack(2, names, message),
			           Py_BuildValue("{s:O}", "in_flight", err->in_flight ? Py_True : Py_False));
		break;
	case SY_E_TRANSFER:
	case SY_E_PROTOCOL:
		raise_made(class, PyTuple_Pack(1, message),
		           Py_BuildValue("{s:O}", "in_flight", err->in_flight ? Py_True : Py_False));
		break;
	case SY_E_UNIT_FULL:
		raise_made(class, PyTuple_Pack(1, message), full_kwargs(err));
		break;
	case SY_E_BUSY:
		raise_made(class, Py_BuildValue("(Oz)", message, err->reason), PyDict_New());
		break;
	case SY_OK:
	case SY_E_TIMEOUT:
	case SY_E_STALE_READ:
	case SY_E_INVALID:
	case SY_E_FATAL:
	case SY_E_POLICY:
	case SY_E_AUTH:
	case SY_E_SYS:
	default:
		raise_made(class, PyTuple_Pack(1, message), PyDict_New());
		break;
	}
	Py_XDECREF(none);
	Py_DECREF(message);
}

void sypy_raise(const sy_error *err, PyObject *names)
{
	raise_as(err, class_of(SY_E_LOST), class_of(SY_E_TRANSFER_FAILED), names);
}

void sypy_raise_blobs(const sy_error *err, PyObject *blob_ids)
{
	raise_as(err, lost_blobs, transfer_failed_blobs, blob_ids);
}
