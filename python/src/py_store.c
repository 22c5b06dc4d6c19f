/* The type Store: blobs on units the caller names. */
#include <string.h>

#include "py_store.h"

PyTypeObject *sypy_store_type;

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"endpoint", "directory", "keys", "namespace", "timeout_s", "ssd",
	                        "lock", "path", "policy", NULL};
	sy_store_options options = {.interrupted = sypy_interrupted};
	PyObject *endpoint, *lock;
	int ssd, path, policy;
	sy_error err = {0};
	sy_store *store = NULL;
	sy_status status;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!szzO&pOii", names, sypy_endpoint_type,
	                                 &endpoint, &options.directory, &options.keys,
	                                 &options.name_space, sypy_duration, &options.timeout_ns,
	                                 &ssd, &lock, &path, &policy))
		return NULL;
	struct sypy_store *self = (struct sypy_store *)type->tp_alloc(type, 0);
	if (self == NULL)
		return NULL;
	options.endpoint = ((struct sypy_endpoint *)endpoint)->endpoint;
	options.ssd = ssd != 0;
	options.path = (sy_path)path;
	options.policy = (sy_policy)policy;
	self->endpoint = Py_NewRef(endpoint);
	if (lock != Py_None) {
		self->lock = Py_NewRef(lock);
		options.lock = sypy_lock_enter;
		options.unlock = sypy_lock_leave;
		options.lock_context = lock;
	}
	sypy_gate_init(&self->gate, options.timeout_ns);
	Py_BEGIN_ALLOW_THREADS
	status = sy_store_open(&options, &store, &err);
	Py_END_ALLOW_THREADS
	self->store = store;
	if (status != SY_OK)
		sypy_raise_blobs(&err, NULL);
	if (PyErr_Occurred()) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

sy_store *sypy_store_enter(struct sypy_store *self)
{
	return sypy_gate_enter(&self->gate, "store") ? self->store : NULL;
}

static void close_now(struct sypy_store *self)
{
	sy_store *store = self->store;

	self->store = NULL;
	Py_BEGIN_ALLOW_THREADS
	sy_store_close(store);
	Py_END_ALLOW_THREADS
}

void sypy_store_leave(struct sypy_store *self)
{
	if (sypy_gate_leave(&self->gate))
		close_now(self);
}

static PyObject *store_close(PyObject *object, PyObject *unused)
{
	struct sypy_store *self = (struct sypy_store *)object;

	(void)unused;
	if (sypy_gate_shut(&self->gate))
		close_now(self);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void store_dealloc(PyObject *object)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyTypeObject *type = Py_TYPE(object);

	close_now(self); /* nobody is inside: a call holds a reference */
	sypy_gate_done(&self->gate);
	Py_XDECREF(self->endpoint);
	Py_XDECREF(self->lock);
	type->tp_free(object);
	Py_DECREF(type);
}

static int hex_digit(Py_UCS4 c)
{
	return c >= '0' && c <= '9' ? (int)(c - '0')
	       : c >= 'a' && c <= 'f' ? (int)(c - 'a') + 10
	       : c >= 'A' && c <= 'F' ? (int)(c - 'A') + 10 : -1;
}

bool sypy_blob_id_from(PyObject *text, sy_blob_id *ret_id)
{
	sy_blob_id id;
	bool good = PyUnicode_Check(text) && PyUnicode_GET_LENGTH(text) == 32;

	for (Py_ssize_t i = 0; good && i < 16; i++) {
		int high = hex_digit(PyUnicode_READ_CHAR(text, 2 * i));
		int low = hex_digit(PyUnicode_READ_CHAR(text, 2 * i + 1));

		good = high >= 0 && low >= 0;
		id.bytes[i] = (uint8_t)(high * 16 + low);
	}
	if (good)
		*ret_id = id;
	else
		PyErr_Format(PyExc_ValueError, "a blob id is 32 hex digits, not %R", text);
	return good;
}

/* Blobs as the library takes them; one block holds all segments. */
struct blobs {
	sy_store_blob *blobs;
	sy_segment *segments;
	size_t count;
};

static void blobs_done(struct blobs *blobs)
{
	PyMem_Free(blobs->blobs);
	PyMem_Free(blobs->segments);
}

static bool take_segments(PyObject *list, sy_segment *segments)
{
	for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
		uint64_t addr, offset, bytes;

		if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "O&O&O&", sypy_u64, &addr, sypy_u64,
		                      &offset, sypy_u64, &bytes))
			return false;
		segments[i] = (sy_segment){(const void *)(uintptr_t)addr, offset, bytes};
	}
	return true;
}

/* What lies in the first bytes of a blob, whose segments may be cut anywhere. */
static PyObject *id_in_header(const sy_segment *segments, size_t count, uint64_t nbytes)
{
	uint8_t header[SY_INDEX_HEADER_BYTES];
	uint64_t have = 0;
	sy_blob_id id;

	for (size_t i = 0; i < count; i++) {
		const sy_segment *one = &segments[i];
		uint64_t end = one->nbytes > sizeof header ? sizeof header : one->nbytes;

		if (one->addr == NULL || one->blob_offset >= sizeof header)
			continue;
		if (end > sizeof header - one->blob_offset)
			end = sizeof header - one->blob_offset;
		memcpy(header + one->blob_offset, one->addr, end);
		have += end;
	}
	if (have != sizeof header || sy_index_peek_id(header, nbytes, &id, NULL) != SY_OK)
		return Py_NewRef(Py_None);
	return sypy_blob_id_text(&id);
}

/* blob_id_of([(addr, offset, n)], nbytes) -> str or None */
PyObject *sypy_blob_id_of(PyObject *module, PyObject *args)
{
	PyObject *list, *id = NULL;
	uint64_t nbytes;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!O&", &PyList_Type, &list, sypy_u64, &nbytes))
		return NULL;
	size_t count = (size_t)PyList_GET_SIZE(list);
	sy_segment *segments = PyMem_Calloc(count + 1, sizeof *segments);
	if (segments == NULL)
		return PyErr_NoMemory();
	if (take_segments(list, segments))
		id = id_in_header(segments, count, nbytes);
	PyMem_Free(segments);
	return id;
}

/* list of (list of (addr, offset, n), nbytes, n_entries, unit_id, blob_id) */
static bool blobs_from(PyObject *list, struct blobs *ret_blobs)
{
	struct blobs blobs = {.count = (size_t)PyList_GET_SIZE(list)};
	Py_ssize_t total = 0;

	for (size_t i = 0; i < blobs.count; i++) {
		PyObject *one = PyList_GET_ITEM(list, (Py_ssize_t)i);

		if (!PyTuple_Check(one) || PyTuple_GET_SIZE(one) != 5 ||
		    !PyList_Check(PyTuple_GET_ITEM(one, 0))) {
			PyErr_SetString(PyExc_TypeError,
			                "a blob is (segments, nbytes, n_entries, unit_id, blob_id)");
			return false;
		}
		total += PyList_GET_SIZE(PyTuple_GET_ITEM(one, 0));
	}
	blobs.blobs = PyMem_Calloc(blobs.count + 1, sizeof *blobs.blobs);
	blobs.segments = PyMem_Calloc((size_t)total + 1, sizeof *blobs.segments);
	if (blobs.blobs == NULL || blobs.segments == NULL) {
		PyErr_NoMemory();
		blobs_done(&blobs);
		return false;
	}
	sy_segment *segments = blobs.segments;
	for (size_t i = 0; i < blobs.count; i++) {
		sy_store_blob *blob = &blobs.blobs[i];
		PyObject *list_of, *id;
		uint64_t nbytes;
		uint32_t entries, unit_id;

		if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "O!O&O&O&O", &PyList_Type,
		                      &list_of, sypy_u64, &nbytes, sypy_u32, &entries, sypy_u32, &unit_id,
		                      &id) ||
		    !take_segments(list_of, segments) || !sypy_blob_id_from(id, &blob->blob_id)) {
			blobs_done(&blobs);
			return false;
		}
		blob->segments = segments;
		blob->segment_count = (size_t)PyList_GET_SIZE(list_of);
		blob->nbytes = nbytes;
		blob->entry_count = entries;
		blob->unit_id = unit_id;
		segments += blob->segment_count;
	}
	*ret_blobs = blobs;
	return true;
}

/* The positions that the error names, or all: two blobs of two units may have one id. */
static PyObject *failed_positions(const sy_error *err, size_t all)
{
	size_t named = err->index_count < err->index_capacity ? err->index_count : err->index_capacity;
	PyObject *positions = PyList_New(0);

	for (size_t i = 0; positions != NULL && i < (named > 0 ? named : all); i++) {
		PyObject *at = PyLong_FromSize_t(named > 0 ? err->indexes[i] : i);

		if (at == NULL || PyList_Append(positions, at) != 0)
			Py_CLEAR(positions);
		Py_XDECREF(at);
	}
	return positions;
}

/* The exception of a failed put as an object, which names no blob yet, beside the positions of
 * those not known published. */
static PyObject *failed_put(const sy_error *err, size_t all)
{
	PyObject *type = NULL, *value = NULL, *traceback = NULL;

	sypy_raise_blobs(err, NULL);
	PyErr_Fetch(&type, &value, &traceback);
	PyErr_NormalizeException(&type, &value, &traceback);
	PyObject *positions = value == NULL ? NULL : failed_positions(err, all);
	PyObject *pair = positions == NULL ? NULL : PyTuple_Pack(2, value, positions);
	Py_XDECREF(type);
	Py_XDECREF(value);
	Py_XDECREF(traceback);
	Py_XDECREF(positions);
	return pair;
}

/* put(blobs, deadline) -> (None, []) or (exception, [positions of blobs not known published]).
 * Raises for what is wrong with the call, and what a signal handler raised. */
static PyObject *store_put(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyObject *list;
	struct blobs blobs;
	struct sypy_error error = {0};
	uint64_t deadline_ns;
	sy_status status = SY_E_FATAL;
	sy_store *store = NULL;

	if (!PyArg_ParseTuple(args, "O!O&", &PyList_Type, &list, sypy_deadline, &deadline_ns) ||
	    !blobs_from(list, &blobs))
		return NULL;
	if (sypy_error_init(&error, blobs.count))
		store = sypy_store_enter(self);
	if (store != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_store_put_many(store, blobs.blobs, blobs.count, deadline_ns, &error.err);
		Py_END_ALLOW_THREADS
		sypy_store_leave(self);
		if (status == SY_E_INVALID)
			sypy_raise(&error.err, NULL);
	}
	PyObject *done = NULL;
	if (!PyErr_Occurred())
		done = status == SY_OK ? Py_BuildValue("(O[])", Py_None)
		                       : failed_put(&error.err, blobs.count);
	sypy_error_done(&error);
	blobs_done(&blobs);
	return done;
}

/* commit(unit_id, blob_id, deadline) -> bool, or None: no put of it is known */
static PyObject *store_commit(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyObject *text;
	uint32_t unit_id;
	uint64_t deadline_ns;
	sy_blob_id id;
	sy_error err = {0};
	bool published = false;
	sy_status status;

	if (!PyArg_ParseTuple(args, "O&OO&", sypy_u32, &unit_id, &text, sypy_deadline, &deadline_ns) ||
	    !sypy_blob_id_from(text, &id))
		return NULL;
	sy_store *store = sypy_store_enter(self);
	if (store == NULL)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = sy_store_commit(store, unit_id, id, deadline_ns, &published, &err);
	Py_END_ALLOW_THREADS
	sypy_store_leave(self);
	if (status != SY_OK && status != SY_E_INVALID) {
		PyObject *ids = PyList_New(0);

		if (ids != NULL && PyList_Append(ids, text) == 0)
			sypy_raise_blobs(&err, ids);
		Py_XDECREF(ids);
	}
	if (PyErr_Occurred())
		return NULL;
	return status == SY_E_INVALID ? Py_NewRef(Py_None) : PyBool_FromLong(published);
}

/* refresh(deadline) */
static PyObject *store_refresh(PyObject *object, PyObject *deadline)
{
	struct sypy_store *self = (struct sypy_store *)object;
	uint64_t deadline_ns;
	sy_error err = {0};
	sy_status status;

	if (!sypy_deadline(deadline, &deadline_ns))
		return NULL;
	sy_store *store = sypy_store_enter(self);
	if (store == NULL)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = sy_store_refresh_units(store, deadline_ns, &err);
	Py_END_ALLOW_THREADS
	sypy_store_leave(self);
	if (status != SY_OK)
		sypy_raise_blobs(&err, NULL);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* unit_dead(unit_id, deadline) -> bool */
static PyObject *store_unit_dead(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	uint32_t unit_id;
	uint64_t deadline_ns;
	bool dead;

	if (!PyArg_ParseTuple(args, "O&O&", sypy_u32, &unit_id, sypy_deadline, &deadline_ns))
		return NULL;
	sy_store *store = sypy_store_enter(self);
	if (store == NULL)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	dead = sy_store_unit_dead(store, unit_id, deadline_ns);
	Py_END_ALLOW_THREADS
	sypy_store_leave(self);
	return PyErr_Occurred() ? NULL : PyBool_FromLong(dead);
}

/* connect(unit_id, deadline) */
static PyObject *store_connect(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	uint32_t unit_id;
	uint64_t deadline_ns;
	sy_error err = {0};
	sy_status status;

	if (!PyArg_ParseTuple(args, "O&O&", sypy_u32, &unit_id, sypy_deadline, &deadline_ns))
		return NULL;
	sy_store *store = sypy_store_enter(self);
	if (store == NULL)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	status = sy_store_connect(store, unit_id, deadline_ns, &err);
	Py_END_ALLOW_THREADS
	sypy_store_leave(self);
	if (status != SY_OK)
		sypy_raise_blobs(&err, NULL);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* transfer(write, unit_id, [(addr, slab offset, n)], deadline) */
static PyObject *store_transfer(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyObject *list;
	uint32_t unit_id;
	int write;
	uint64_t deadline_ns;
	sy_error err = {0};
	sy_status status;

	if (!PyArg_ParseTuple(args, "pO&O!O&", &write, sypy_u32, &unit_id, &PyList_Type, &list,
	                      sypy_deadline, &deadline_ns))
		return NULL;
	size_t count = (size_t)PyList_GET_SIZE(list);
	sy_segment *ranges = PyMem_Calloc(count + 1, sizeof *ranges);
	if (ranges == NULL)
		return PyErr_NoMemory();
	sy_store *store = take_segments(list, ranges) ? sypy_store_enter(self) : NULL;
	if (store != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_store_transfer(store, unit_id, write != 0, ranges, count, deadline_ns, &err);
		Py_END_ALLOW_THREADS
		sypy_store_leave(self);
		if (status != SY_OK)
			sypy_raise_blobs(&err, NULL);
	}
	PyMem_Free(ranges);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *store_unit_count(PyObject *object, void *unused)
{
	struct sypy_store *self = (struct sypy_store *)object;
	sy_store *store = sypy_store_enter(self);

	(void)unused;
	if (store == NULL)
		return NULL;
	uint32_t count = sy_store_unit_count(store);
	sypy_store_leave(self);
	return PyLong_FromUnsignedLong(count);
}

bool sypy_store_add(PyObject *module)
{
	static PyMethodDef methods[] = {
		{"put", store_put, METH_VARARGS, NULL},
		{"commit", store_commit, METH_VARARGS, NULL},
		{"resolve", sypy_store_resolve, METH_VARARGS, NULL},
		{"read", sypy_store_read, METH_VARARGS, NULL},
		{"release", sypy_store_release, METH_VARARGS, NULL},
		{"refresh", store_refresh, METH_O, NULL},
		{"unit_dead", store_unit_dead, METH_VARARGS, NULL},
		{"connect", store_connect, METH_VARARGS, NULL},
		{"transfer", store_transfer, METH_VARARGS, NULL},
		{"close", store_close, METH_NOARGS, NULL},
		{NULL, NULL, 0, NULL},
	};
	static PyGetSetDef attributes[] = {
		{"unit_count", store_unit_count, NULL, NULL, NULL},
		{NULL, NULL, NULL, NULL, NULL},
	};
	static PyType_Slot slots[] = {
		{Py_tp_new, (void *)store_new},
		{Py_tp_dealloc, (void *)store_dealloc},
		{Py_tp_methods, methods},
		{Py_tp_getset, attributes},
		{Py_tp_doc, (void *)"What UnitSlabStore is made of."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Store",
		.basicsize = sizeof(struct sypy_store),
		.flags = Py_TPFLAGS_DEFAULT,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_store_type);
}
