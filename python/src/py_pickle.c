/* Objects as pickles, where msgpack would not give them back, and the type Pickled: a value that
 * is pickled whatever it is. */
#include <string.h>

#include "py_core.h"

PyTypeObject *sypy_pickled_type;

/* The later one calls Python code for each array that is loaded. */
enum { PROTOCOL = 4 };

/* Whether a pickle may name something of a program's own main module, which no other finds there.
 * Where a text says so it costs time alone. */
static bool names_main(PyObject *pickle)
{
	static const char *const NAMES[] = {"__main__", "__mp_main__"};
	bool found = false;

	for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0] && !found; i++)
		found = memmem(PyBytes_AS_STRING(pickle), (size_t)PyBytes_GET_SIZE(pickle), NAMES[i],
		               strlen(NAMES[i])) != NULL;
	return found;
}

/* What pickle.dumps does, with a table of our own. */
static PyObject *dump_in_c(struct sypy_hold *hold, PyObject *object)
{
	if (hold->reducers == NULL)
		hold->reducers = PyObject_CallNoArgs(sypy_names.reducers);
	PyObject *file = hold->reducers == NULL ? NULL : PyObject_CallNoArgs(sypy_names.bytes_io);
	PyObject *pickler =
		file == NULL ? NULL : PyObject_CallFunction(sypy_names.pickler, "Oi", file, PROTOCOL);
	PyObject *done = NULL, *pickle = NULL;

	if (pickler != NULL &&
	    PyObject_SetAttrString(pickler, "dispatch_table", hold->reducers) == 0)
		done = PyObject_CallMethod(pickler, "dump", "(O)", object);
	if (done != NULL)
		pickle = PyObject_CallMethod(file, "getvalue", NULL);
	Py_XDECREF(done);
	Py_XDECREF(pickler);
	Py_XDECREF(file);
	return pickle;
}

/* In place of what pickle raises where it refuses an object, which differs by version. */
static void refuse(PyObject *object)
{
	PyObject *type, *why, *traceback;

	if (!PyErr_ExceptionMatches(PyExc_AttributeError) &&
	    !PyErr_ExceptionMatches(sypy_names.pickling_error))
		return;
	PyErr_Fetch(&type, &why, &traceback);
	PyErr_NormalizeException(&type, &why, &traceback);
	PyErr_Format(PyExc_TypeError,
	             "a value of type %.100s (or what it holds) cannot be pickled: %S: give the "
	             "client dumps, such as cloudpickle.dumps",
	             Py_TYPE(object)->tp_name, why);
	Py_XDECREF(type);
	Py_XDECREF(why);
	Py_XDECREF(traceback);
}

/* By pickle's own code in C wherever it does: another function in its place is Python code. */
static PyObject *dump(struct sypy_hold *hold, PyObject *object)
{
	PyObject *pickle = dump_in_c(hold, object);

	if (pickle == NULL && hold->dumps == sypy_names.pickle_dumps)
		refuse(object);
	if (hold->dumps == sypy_names.pickle_dumps || (pickle != NULL && !names_main(pickle)))
		return pickle;
	if (pickle == NULL && !PyErr_ExceptionMatches(PyExc_Exception))
		return NULL;
	PyErr_Clear();
	Py_XDECREF(pickle);
	pickle = PyObject_CallFunction(hold->dumps, "Oi", object, PROTOCOL);
	if (pickle == NULL || PyBytes_Check(pickle))
		return pickle;
	PyErr_Format(PyExc_TypeError, "dumps returned no bytes but %.100s", Py_TYPE(pickle)->tp_name);
	Py_DECREF(pickle);
	return NULL;
}

bool sypy_pickle(struct sypy_hold *hold, PyObject *object, sy_value *ret_value)
{
	if (hold->dumps == NULL) {
		PyErr_Format(PyExc_TypeError,
		             "a value of type %.100s (or what it holds) cannot be kept exactly without "
		             "pickle: put str, bytes, arrays, None, bool, int, float, or lists and dicts "
		             "of these, or allow_pickle=True",
		             Py_TYPE(object)->tp_name);
		return false;
	}
	PyObject *bytes = dump(hold, object);
	bool done = bytes != NULL && sypy_hold_object(hold, bytes);

	if (done)
		*ret_value = (sy_value){.data = PyBytes_AS_STRING(bytes),
		                        .nbytes = (uint64_t)PyBytes_GET_SIZE(bytes),
		                        .kind = SY_KIND_PICKLE};
	Py_XDECREF(bytes);
	return done;
}

/* complex_parts(value) -> (complex, (real, imag)) */
PyObject *sypy_complex_parts(PyObject *module, PyObject *value)
{
	Py_complex number = PyComplex_AsCComplex(value);

	(void)module;
	return PyErr_Occurred() ? NULL
	                        : Py_BuildValue("(O(dd))", &PyComplex_Type, number.real, number.imag);
}

static PyObject *pickled_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"", NULL};
	PyObject *value;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O", names, &value))
		return NULL;
	struct sypy_pickled *self = (struct sypy_pickled *)type->tp_alloc(type, 0);
	if (self != NULL)
		self->value = Py_NewRef(value);
	return (PyObject *)self;
}

static int pickled_traverse(PyObject *object, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(object));
	Py_VISIT(((struct sypy_pickled *)object)->value);
	return 0;
}

static int pickled_clear(PyObject *object)
{
	Py_CLEAR(((struct sypy_pickled *)object)->value);
	return 0;
}

static void pickled_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	PyObject_GC_UnTrack(object);
	pickled_clear(object);
	type->tp_free(object);
	Py_DECREF(type);
}

bool sypy_pickled_add(PyObject *module)
{
	static PyType_Slot slots[] = {
		{Py_tp_new, (void *)pickled_new},
		{Py_tp_traverse, (void *)pickled_traverse},
		{Py_tp_clear, (void *)pickled_clear},
		{Py_tp_dealloc, (void *)pickled_dealloc},
		{Py_tp_doc, (void *)"A value that is put as a pickle whatever it is, and so comes back as "
		                    "what it was."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Pickled",
		.basicsize = sizeof(struct sypy_pickled),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_pickled_type);
}
