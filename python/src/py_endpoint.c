/* The types Endpoint and Directory, and the lock that is held around an endpoint's use. */
#include "py_store.h"

PyTypeObject *sypy_endpoint_type, *sypy_directory_type;

static PyObject *endpoint_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {NULL};
	sy_error err = {0};

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "", names))
		return NULL;
	struct sypy_endpoint *self = (struct sypy_endpoint *)type->tp_alloc(type, 0);
	if (self == NULL)
		return NULL;
	if (sy_endpoint_open(&self->endpoint, &err) != SY_OK) {
		sypy_raise(&err, NULL);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void endpoint_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	sy_endpoint_close(((struct sypy_endpoint *)object)->endpoint);
	type->tp_free(object);
	Py_DECREF(type);
}

static PyObject *change(PyObject *object, PyObject *args,
                        sy_status (*call)(sy_endpoint *, void *, size_t, sy_error *))
{
	struct sypy_endpoint *self = (struct sypy_endpoint *)object;
	uint64_t addr, bytes;
	sy_error err = {0};

	if (!PyArg_ParseTuple(args, "O&O&", sypy_u64, &addr, sypy_u64, &bytes))
		return NULL;
	if (call(self->endpoint, (void *)(uintptr_t)addr, (size_t)bytes, &err) != SY_OK) {
		sypy_raise(&err, NULL);
		return NULL;
	}
	return Py_NewRef(Py_None);
}

static PyObject *endpoint_register(PyObject *object, PyObject *args)
{
	return change(object, args, sy_endpoint_register);
}

static PyObject *endpoint_deregister(PyObject *object, PyObject *args)
{
	return change(object, args, sy_endpoint_deregister);
}

bool sypy_endpoint_add(PyObject *module)
{
	static PyMethodDef methods[] = {
		{"register", endpoint_register, METH_VARARGS, NULL},
		{"deregister", endpoint_deregister, METH_VARARGS, NULL},
		{NULL, NULL, 0, NULL},
	};
	static PyType_Slot slots[] = {
		{Py_tp_new, (void *)endpoint_new},
		{Py_tp_dealloc, (void *)endpoint_dealloc},
		{Py_tp_methods, methods},
		{Py_tp_doc, (void *)"What slabyard.Endpoint is made of."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Endpoint",
		.basicsize = sizeof(struct sypy_endpoint),
		.flags = Py_TPFLAGS_DEFAULT,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_endpoint_type);
}

/* Calls a method of the lock with exceptions set aside: the one that is set already stays, or
 * else the call's own. True: the method returned. */
static bool call_lock(PyObject *lock, const char *method, const char *format)
{
	PyObject *type, *value, *traceback;

	PyErr_Fetch(&type, &value, &traceback);
	PyObject *done = format == NULL
		? PyObject_CallMethod(lock, method, NULL)
		: PyObject_CallMethod(lock, method, format, Py_None, Py_None, Py_None);
	if (type != NULL) {
		PyErr_Clear();
		PyErr_Restore(type, value, traceback);
	}
	Py_XDECREF(done);
	return done != NULL;
}

/* A Ctrl-C while it waits must not let the transfer run without the lock: it waits on, and the
 * exception is raised when the call returns. */
void sypy_lock_enter(void *context)
{
	enum { TRIES = 100 };
	PyGILState_STATE state = PyGILState_Ensure();
	bool entered = false;

	for (int i = 0; i < TRIES && !entered; i++)
		entered = call_lock(context, "__enter__", NULL);
	PyGILState_Release(state);
}

void sypy_lock_leave(void *context)
{
	PyGILState_STATE state = PyGILState_Ensure();

	call_lock(context, "__exit__", "OOO");
	PyGILState_Release(state);
}

static PyObject *directory_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"run_dir", "address", "timeout_s", "keys", NULL};
	sy_directory_options options = {.interrupted = sypy_interrupted};
	sy_error err = {0};

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "zzO&z", names, &options.run_dir,
	                                 &options.address, sypy_duration, &options.timeout_ns,
	                                 &options.keys))
		return NULL;
	struct sypy_directory *self = (struct sypy_directory *)type->tp_alloc(type, 0);
	if (self == NULL)
		return NULL;
	if (sy_directory_open(&options, &self->directory, &err) != SY_OK) {
		sypy_raise(&err, NULL);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void directory_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	sy_directory *directory = ((struct sypy_directory *)object)->directory;

	Py_BEGIN_ALLOW_THREADS
	sy_directory_close(directory);
	Py_END_ALLOW_THREADS
	type->tp_free(object);
	Py_DECREF(type);
}

static PyObject *unit_dict(const sy_unit_entry *unit)
{
	return Py_BuildValue("{s:I,s:K,s:K,s:K,s:I,s:s,s:s,s:s,s:s}", "unit_id",
	                     (unsigned)unit->unit_id, "incarnation",
	                     (unsigned long long)unit->incarnation, "epoch",
	                     (unsigned long long)unit->epoch, "slab_bytes",
	                     (unsigned long long)unit->slab_bytes, "pid", (unsigned)unit->pid, "state",
	                     unit->state, "control_address", unit->control_address, "remote_address",
	                     unit->remote_address, "local_path", unit->local_path);
}

/* units(min_epoch, deadline) -> (epoch, N, [dict]) */
static PyObject *directory_units(PyObject *object, PyObject *args)
{
	struct sypy_directory *self = (struct sypy_directory *)object;
	uint64_t min_epoch;
	uint64_t deadline_ns, epoch = 0;
	uint32_t slot_count = 0;
	size_t count = 0;
	sy_error err = {0};
	sy_status status;

	if (!PyArg_ParseTuple(args, "O&O&", sypy_u64, &min_epoch, sypy_deadline, &deadline_ns))
		return NULL;
	sy_unit_entry *units = PyMem_Calloc(SY_DIRECTORY_UNITS_MAX, sizeof *units);
	if (units == NULL)
		return PyErr_NoMemory();
	Py_BEGIN_ALLOW_THREADS
	status = sy_directory_units(self->directory, min_epoch, deadline_ns, units,
	                            SY_DIRECTORY_UNITS_MAX, &count, &slot_count, &epoch, &err);
	Py_END_ALLOW_THREADS
	if (status != SY_OK)
		sypy_raise(&err, NULL);
	PyObject *list = PyErr_Occurred() ? NULL : PyList_New((Py_ssize_t)count);
	for (size_t i = 0; list != NULL && i < count; i++) {
		PyObject *one = unit_dict(&units[i]);

		if (one == NULL)
			Py_CLEAR(list);
		else
			PyList_SET_ITEM(list, (Py_ssize_t)i, one);
	}
	PyMem_Free(units);
	return list == NULL ? NULL
	                    : Py_BuildValue("(KIN)", (unsigned long long)epoch, (unsigned)slot_count,
	                                    list);
}

/* is_dead(unit_id, incarnation, deadline) -> bool */
static PyObject *directory_is_dead(PyObject *object, PyObject *args)
{
	struct sypy_directory *self = (struct sypy_directory *)object;
	uint32_t unit_id;
	uint64_t incarnation;
	uint64_t deadline_ns;
	bool dead = false;
	sy_error err = {0};
	sy_status status;

	if (!PyArg_ParseTuple(args, "O&O&O&", sypy_u32, &unit_id, sypy_u64, &incarnation,
	                      sypy_deadline, &deadline_ns))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = sy_directory_is_dead(self->directory, unit_id, incarnation, deadline_ns, &dead, &err);
	Py_END_ALLOW_THREADS
	if (status != SY_OK)
		sypy_raise(&err, NULL);
	return PyErr_Occurred() ? NULL : PyBool_FromLong(dead);
}

/* exited(unit_id, incarnation, deadline) */
static PyObject *directory_exited(PyObject *object, PyObject *args)
{
	struct sypy_directory *self = (struct sypy_directory *)object;
	unsigned unit_id;
	unsigned long long incarnation;
	uint64_t deadline_ns;
	sy_error err = {0};
	sy_status status;

	if (!PyArg_ParseTuple(args, "IKO&", &unit_id, &incarnation, sypy_deadline, &deadline_ns))
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = sy_directory_exited(self->directory, unit_id, incarnation, deadline_ns, &err);
	Py_END_ALLOW_THREADS
	if (status != SY_OK)
		sypy_raise(&err, NULL);
	if (PyErr_Occurred())
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *directory_address(PyObject *object, void *unused)
{
	(void)unused;
	return PyUnicode_FromString(
		sy_directory_address(((struct sypy_directory *)object)->directory));
}

bool sypy_directory_add(PyObject *module)
{
	static PyMethodDef methods[] = {
		{"units", directory_units, METH_VARARGS, NULL},
		{"is_dead", directory_is_dead, METH_VARARGS, NULL},
		{"exited", directory_exited, METH_VARARGS, NULL},
		{NULL, NULL, 0, NULL},
	};
	static PyGetSetDef attributes[] = {
		{"address", directory_address, NULL, NULL, NULL},
		{NULL, NULL, NULL, NULL, NULL},
	};
	static PyType_Slot slots[] = {
		{Py_tp_new, (void *)directory_new},
		{Py_tp_dealloc, (void *)directory_dealloc},
		{Py_tp_methods, methods},
		{Py_tp_getset, attributes},
		{Py_tp_doc, (void *)"What slabyard.Directory is made of."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Directory",
		.basicsize = sizeof(struct sypy_directory),
		.flags = Py_TPFLAGS_DEFAULT,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_directory_type);
}
