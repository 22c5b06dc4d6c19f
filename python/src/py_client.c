/* The type Client: opening, closing, get, clear and what a cluster says of itself. */
#include "py_core.h"

PyTypeObject *sypy_client_type;

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"run_dir", "directory", "namespace", "timeout_s",
	                        "control_timeout_s", "ssd", "keys", "control", "path", "policy",
	                        NULL};
	sy_client_options options = {.interrupted = sypy_interrupted};
	int ssd = 0, control, path, policy;
	sy_error err = {0};
	sy_client *client = NULL;
	sy_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "zzzO&O&pziii", names, &options.run_dir,
	                                 &options.directory, &options.name_space, sypy_duration,
	                                 &options.timeout_ns, sypy_duration,
	                                 &options.control_timeout_ns, &ssd, &options.keys, &control,
	                                 &path, &policy))
		return NULL;
	options.ssd = ssd != 0;
	options.control = (sy_control)control;
	options.path = (sy_path)path;
	options.policy = (sy_policy)policy;
	struct sypy_client *self = (struct sypy_client *)type->tp_alloc(type, 0);
	if (self == NULL)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = sy_client_open(&options, &client, &err);
	Py_END_ALLOW_THREADS
	self->client = client;
	sypy_gate_init(&self->gate, options.timeout_ns);
	if (status != SY_OK)
		sypy_raise(&err, NULL);
	if (PyErr_Occurred()) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

sy_client *sypy_client_enter(struct sypy_client *self)
{
	return sypy_gate_enter(&self->gate, "client") ? self->client : NULL;
}

/* Whoever takes the pointer closes it: the last call to leave, close, or the end of the object. */
static void close_now(struct sypy_client *self)
{
	sy_client *client = self->client;

	self->client = NULL;
	Py_BEGIN_ALLOW_THREADS
	sy_client_close(client);
	Py_END_ALLOW_THREADS
}

void sypy_client_leave(struct sypy_client *self)
{
	if (sypy_gate_leave(&self->gate))
		close_now(self);
}

static PyObject *client_close(PyObject *object, PyObject *unused)
{
	struct sypy_client *self = (struct sypy_client *)object;

	(void)unused;
	if (sypy_gate_shut(&self->gate))
		close_now(self);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void client_dealloc(PyObject *object)
{
	struct sypy_client *self = (struct sypy_client *)object;
	PyTypeObject *type = Py_TYPE(object);

	close_now(self); /* nobody is inside: a call holds a reference */
	sypy_gate_done(&self->gate);
	type->tp_free(object);
	Py_DECREF(type);
}

/* get(keys, flags, deadline) -> Result */
static PyObject *client_get(PyObject *object, PyObject *args)
{
	struct sypy_client *self = (struct sypy_client *)object;
	PyObject *texts;
	struct sypy_keys keys;
	struct sypy_error error;
	sy_result *result = NULL;
	int flags;
	uint64_t deadline_ns;
	sy_status status;

	if (!PyArg_ParseTuple(args, "OiO&", &texts, &flags, sypy_deadline, &deadline_ns) ||
	    !sypy_keys_from(texts, &keys))
		return NULL;
	sy_client *client =
		sypy_error_init(&error, keys.count) ? sypy_client_enter(self) : NULL;
	if (client == NULL) {
		sypy_error_done(&error);
		sypy_keys_done(&keys);
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	status = sy_client_get(client, keys.keys, keys.count, flags, deadline_ns, &result, &error.err);
	Py_END_ALLOW_THREADS
	sypy_client_leave(self);
	if (status != SY_OK && !PyErr_Occurred()) {
		PyObject *blamed = sypy_blamed_items(&error.err, keys.texts);

		if (blamed != NULL)
			sypy_raise(&error.err, blamed);
		Py_XDECREF(blamed);
	}
	size_t count = keys.count;
	sypy_error_done(&error);
	sypy_keys_done(&keys);
	return sypy_result_new(result, count, 0, (flags & SY_GET_VIEW) != 0);
}

/* get_columns(rows, fields, flags, deadline) -> Result */
static PyObject *client_get_columns(PyObject *object, PyObject *args)
{
	struct sypy_client *self = (struct sypy_client *)object;
	PyObject *rows_given, *fields_given;
	struct sypy_fields fields;
	struct sypy_error error = {0};
	sy_result *result = NULL;
	sy_client *client = NULL;
	size_t row_count = 0;
	int flags;
	uint64_t deadline_ns;
	sy_status status;

	if (!PyArg_ParseTuple(args, "OOiO&", &rows_given, &fields_given, &flags, sypy_deadline,
	                      &deadline_ns) ||
	    !sypy_fields_from(fields_given, &fields))
		return NULL;
	uint64_t *rows = sypy_rows_from(rows_given, &row_count);
	if (rows != NULL && sypy_error_init(&error, row_count))
		client = sypy_client_enter(self);
	if (client != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_client_get_columns(client, rows, row_count, fields.names, fields.count, flags,
		                               deadline_ns, &result, &error.err);
		Py_END_ALLOW_THREADS
		sypy_client_leave(self);
		if (status != SY_OK && !PyErr_Occurred()) {
			PyObject *blamed =
				sypy_blamed_columns(&error.err, rows, row_count, fields.texts);

			if (blamed != NULL)
				sypy_raise(&error.err, blamed);
			Py_XDECREF(blamed);
		}
	}
	size_t field_count = fields.count;
	sypy_error_done(&error);
	PyMem_Free(rows);
	sypy_fields_done(&fields);
	return sypy_result_new(result, row_count, field_count, (flags & SY_GET_VIEW) != 0);
}

/* clear(rows, fields or None, deadline) -> entries cleared */
static PyObject *client_clear(PyObject *object, PyObject *args)
{
	struct sypy_client *self = (struct sypy_client *)object;
	PyObject *rows_given, *fields_given;
	struct sypy_fields fields;
	struct sypy_error error = {0};
	sy_client *client = NULL;
	size_t row_count = 0;
	uint64_t deadline_ns, entries = 0;
	sy_status status;

	if (!PyArg_ParseTuple(args, "OOO&", &rows_given, &fields_given, sypy_deadline, &deadline_ns) ||
	    !sypy_fields_from(fields_given, &fields))
		return NULL;
	uint64_t *rows = sypy_rows_from(rows_given, &row_count);
	if (rows != NULL && sypy_error_init(&error, row_count))
		client = sypy_client_enter(self);
	if (client != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_client_clear(client, rows, row_count, fields.names, fields.count, deadline_ns,
		                         &entries, &error.err);
		Py_END_ALLOW_THREADS
		sypy_client_leave(self);
		if (status != SY_OK && !PyErr_Occurred()) {
			PyObject *blamed =
				sypy_blamed_columns(&error.err, rows, row_count, fields.texts);

			if (blamed != NULL)
				sypy_raise(&error.err, blamed);
			Py_XDECREF(blamed);
		}
	}
	sypy_error_done(&error);
	PyMem_Free(rows);
	sypy_fields_done(&fields);
	return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(entries);
}

static PyObject *stats_dict(const sy_stat *stats, size_t count)
{
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict != NULL && i < count; i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(stats[i].value);

		if (number == NULL || PyDict_SetItemString(dict, stats[i].name, number) != 0)
			Py_CLEAR(dict);
		Py_XDECREF(number);
	}
	return dict;
}

static PyObject *report_dict(const sy_unit_report *report)
{
	return Py_BuildValue("{s:I,s:K,s:K,s:K,s:s,s:O,s:s,s:N,s:N}", "unit_id",
	                     (unsigned)report->unit_id, "incarnation",
	                     (unsigned long long)report->incarnation, "pid",
	                     (unsigned long long)report->pid, "capacity_bytes",
	                     (unsigned long long)report->capacity_bytes, "state", report->state,
	                     "answered", report->answered ? Py_True : Py_False, "message",
	                     report->message, "bytes", stats_dict(report->bytes, report->byte_count),
	                     "counts", stats_dict(report->counts, report->count_count));
}

/* reports(deadline) -> [dict] */
static PyObject *client_reports(PyObject *object, PyObject *deadline)
{
	struct sypy_client *self = (struct sypy_client *)object;
	uint64_t deadline_ns;
	sy_error err = {0};
	sy_status status;
	PyObject *list = NULL;

	if (!sypy_deadline(deadline, &deadline_ns))
		return NULL;
	sy_client *client = sypy_client_enter(self);
	if (client == NULL)
		return NULL;
	uint32_t count = sy_client_unit_count(client);
	sy_unit_report *reports = PyMem_Calloc(count, sizeof *reports);
	if (reports == NULL) {
		sypy_client_leave(self);
		return PyErr_NoMemory();
	}
	Py_BEGIN_ALLOW_THREADS
	status = sy_client_reports(client, deadline_ns, reports, &err);
	Py_END_ALLOW_THREADS
	sypy_client_leave(self);
	if (status != SY_OK)
		sypy_raise(&err, NULL);
	if (!PyErr_Occurred())
		list = PyList_New((Py_ssize_t)count);
	for (uint32_t i = 0; list != NULL && i < count; i++) {
		PyObject *one = report_dict(&reports[i]);

		if (one == NULL)
			Py_CLEAR(list);
		else
			PyList_SET_ITEM(list, (Py_ssize_t)i, one);
	}
	PyMem_Free(reports);
	return list;
}

static PyObject *client_unit_count(PyObject *object, void *unused)
{
	struct sypy_client *self = (struct sypy_client *)object;
	sy_client *client = sypy_client_enter(self);

	(void)unused;
	if (client == NULL)
		return NULL;
	uint32_t count = sy_client_unit_count(client);
	sypy_client_leave(self);
	return PyLong_FromUnsignedLong(count);
}

static PyObject *client_timeout_s(PyObject *object, void *unused)
{
	(void)unused;
	return PyFloat_FromDouble((double)((struct sypy_client *)object)->gate.timeout_ns / 1e9);
}

static PyObject *client_closed(PyObject *object, void *unused)
{
	const struct sypy_client *self = (const struct sypy_client *)object;

	(void)unused;
	return PyBool_FromLong(self->client == NULL || self->gate.closing);
}

static PyMethodDef methods[] = {
	{"put", sypy_client_put, METH_VARARGS, NULL},
	{"put_columns", sypy_client_put_columns, METH_VARARGS, NULL},
	{"get", client_get, METH_VARARGS, NULL},
	{"get_columns", client_get_columns, METH_VARARGS, NULL},
	{"clear", client_clear, METH_VARARGS, NULL},
	{"reports", client_reports, METH_O, NULL},
	{"close", client_close, METH_NOARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
	{"unit_count", client_unit_count, NULL, NULL, NULL},
	{"closed", client_closed, NULL, NULL, NULL},
	{"timeout_s", client_timeout_s, NULL, NULL, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

bool sypy_client_add(PyObject *module)
{
	static PyType_Slot slots[] = {
		{Py_tp_new, (void *)client_new},
		{Py_tp_dealloc, (void *)client_dealloc},
		{Py_tp_methods, methods},
		{Py_tp_getset, attributes},
		{Py_tp_doc, (void *)"What slabyard.Client is made of."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Client",
		.basicsize = sizeof(struct sypy_client),
		.flags = Py_TPFLAGS_DEFAULT,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_client_type);
}
