/* The store's resolves, reads and releases. */
#include <string.h>

#include "py_store.h"

PyTypeObject *sypy_resolved_type;

static void give_back(struct sypy_resolved *self)
{
	sy_resolved_keys *resolved = self->resolved;

	self->resolved = NULL;
	Py_BEGIN_ALLOW_THREADS
	sy_resolved_keys_free(resolved);
	Py_END_ALLOW_THREADS
}

static PyObject *resolved_free(PyObject *object, PyObject *unused)
{
	(void)unused;
	give_back((struct sypy_resolved *)object);
	return Py_NewRef(Py_None);
}

static void resolved_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	give_back((struct sypy_resolved *)object);
	type->tp_free(object);
	Py_DECREF(type);
}

bool sypy_resolved_add(PyObject *module)
{
	static PyMethodDef methods[] = {
		{"free", resolved_free, METH_NOARGS, NULL},
		{NULL, NULL, 0, NULL},
	};
	static PyType_Slot slots[] = {
		{Py_tp_dealloc, (void *)resolved_dealloc},
		{Py_tp_methods, methods},
		{Py_tp_doc, (void *)"Pins of keys that were resolved."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard._core.Resolved",
		.basicsize = sizeof(struct sypy_resolved),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_resolved_type);
}

/* Keys of several units, and their texts in one tuple, unit by unit. */
struct asked {
	struct sypy_keys *keys;
	sy_unit_keys *units;
	size_t unit_count, key_count;
};

static void asked_done(struct asked *asked)
{
	for (size_t u = 0; asked->keys != NULL && u < asked->unit_count; u++)
		sypy_keys_done(&asked->keys[u]);
	PyMem_Free(asked->keys);
	PyMem_Free(asked->units);
}

/* list of (unit_id, keys) */
static bool asked_from(PyObject *list, struct asked *ret_asked)
{
	struct asked asked = {.unit_count = (size_t)PyList_GET_SIZE(list)};
	bool good;

	asked.keys = PyMem_Calloc(asked.unit_count + 1, sizeof *asked.keys);
	asked.units = PyMem_Calloc(asked.unit_count + 1, sizeof *asked.units);
	good = asked.keys != NULL && asked.units != NULL;
	if (!good)
		PyErr_NoMemory();
	for (size_t u = 0; good && u < asked.unit_count; u++) {
		PyObject *keys;
		uint32_t unit_id;

		good = PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)u), "O&O", sypy_u32, &unit_id,
		                        &keys) &&
		       sypy_keys_from(keys, &asked.keys[u]);
		if (!good)
			break;
		asked.units[u] = (sy_unit_keys){unit_id, asked.keys[u].keys, asked.keys[u].count};
		asked.key_count += asked.keys[u].count;
	}
	if (!good)
		asked_done(&asked);
	else
		*ret_asked = asked;
	return good;
}

/* The keys at positions over all units, unit by unit; no position: all. */
static PyObject *asked_blamed(const struct asked *asked, const sy_error *err)
{
	PyObject *texts = PyTuple_New((Py_ssize_t)asked->key_count), *blamed = NULL;
	Py_ssize_t at = 0;

	for (size_t u = 0; texts != NULL && u < asked->unit_count; u++) {
		for (size_t i = 0; i < asked->keys[u].count; i++, at++)
			PyTuple_SET_ITEM(texts, at, Py_NewRef(PyTuple_GET_ITEM(asked->keys[u].texts,
			                                                       (Py_ssize_t)i)));
	}
	if (texts != NULL)
		blamed = sypy_blamed_items(err, texts);
	Py_XDECREF(texts);
	return blamed;
}

/* (slab_off, nbytes, dtype, shape, kind) */
static PyObject *located_tuple(const sy_located *where)
{
	PyObject *shape = PyTuple_New((Py_ssize_t)where->shape.rank);

	for (uint32_t d = 0; shape != NULL && d < where->shape.rank; d++) {
		PyObject *length =
			PyLong_FromUnsignedLongLong(d == 0 ? where->dim0 : where->shape.tail[d - 1]);

		if (length == NULL)
			Py_CLEAR(shape);
		else
			PyTuple_SET_ITEM(shape, (Py_ssize_t)d, length);
	}
	if (shape == NULL)
		return NULL;
	return Py_BuildValue("(KKsNs)", (unsigned long long)where->slab_offset,
	                     (unsigned long long)where->nbytes, sy_dtype_name(where->dtype), shape,
	                     sy_kind_name(where->kind));
}

static bool add_key(PyObject *entries, PyObject *missing, PyObject *text, bool found,
                    const sy_located *where)
{
	if (!found)
		return PyList_Append(missing, text) == 0;
	PyObject *located = located_tuple(where);
	bool done = located != NULL && PyDict_SetItem(entries, text, located) == 0;

	Py_XDECREF(located);
	return done;
}

/* (incarnation, {key: located}, [key]) of one unit */
static PyObject *unit_answer(const sy_resolved_keys *resolved, size_t u,
                             const struct sypy_keys *keys)
{
	PyObject *entries = PyDict_New(), *missing = PyList_New(0);
	bool good = entries != NULL && missing != NULL;

	for (size_t k = 0; good && k < keys->count; k++) {
		sy_located where;
		bool found = sy_resolved_at(resolved, u, k, &where);

		good = add_key(entries, missing, PyTuple_GET_ITEM(keys->texts, (Py_ssize_t)k), found,
		               &where);
	}
	if (good)
		return Py_BuildValue("(KNN)", (unsigned long long)sy_resolved_incarnation(resolved, u),
		                     entries, missing);
	Py_XDECREF(entries);
	Py_XDECREF(missing);
	return NULL;
}

/* Takes the pins over. */
static PyObject *answer(sy_resolved_keys *resolved, const struct asked *asked)
{
	struct sypy_resolved *holder =
		(struct sypy_resolved *)sypy_resolved_type->tp_alloc(sypy_resolved_type, 0);
	PyObject *units = PyList_New(0);

	if (holder == NULL)
		sy_resolved_keys_free(resolved);
	else
		holder->resolved = resolved;
	for (size_t u = 0; holder != NULL && units != NULL && u < asked->unit_count; u++) {
		PyObject *one = unit_answer(resolved, u, &asked->keys[u]);

		if (one == NULL || PyList_Append(units, one) != 0)
			Py_CLEAR(units);
		Py_XDECREF(one);
	}
	if (holder != NULL && units != NULL)
		return Py_BuildValue("(NN)", holder, units);
	Py_XDECREF(holder);
	Py_XDECREF(units);
	return NULL;
}

/* resolve([(unit_id, keys)], deadline) -> (Resolved, [(incarnation, entries, missing)]) */
PyObject *sypy_store_resolve(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyObject *list, *done = NULL;
	struct asked asked;
	struct sypy_error error = {0};
	uint64_t deadline_ns;
	sy_resolved_keys *resolved = NULL;
	sy_store *store = NULL;
	sy_status status;

	if (!PyArg_ParseTuple(args, "O!O&", &PyList_Type, &list, sypy_deadline, &deadline_ns) ||
	    !asked_from(list, &asked))
		return NULL;
	if (sypy_error_init(&error, asked.key_count))
		store = sypy_store_enter(self);
	if (store != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_store_resolve_keys(store, asked.units, asked.unit_count, deadline_ns,
		                               &resolved, &error.err);
		Py_END_ALLOW_THREADS
		sypy_store_leave(self);
		if (PyErr_Occurred()) {
			sy_resolved_keys_free(resolved);
		} else if (status == SY_OK) {
			done = answer(resolved, &asked);
		} else {
			PyObject *keys = asked_blamed(&asked, &error.err);

			if (keys != NULL)
				sypy_raise_blobs(&error.err, keys);
			Py_XDECREF(keys);
		}
	}
	sypy_error_done(&error);
	asked_done(&asked);
	return done;
}

/* read([(unit_id, slab_off, nbytes, addr)], deadline) -> None or (exception, position) */
PyObject *sypy_store_read(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyObject *list, *done = NULL;
	struct sypy_error error = {0};
	uint64_t deadline_ns;
	sy_store *store = NULL;
	sy_status status;

	if (!PyArg_ParseTuple(args, "O!O&", &PyList_Type, &list, sypy_deadline, &deadline_ns))
		return NULL;
	size_t count = (size_t)PyList_GET_SIZE(list);
	sy_read *reads = PyMem_Calloc(count + 1, sizeof *reads);
	bool good = reads != NULL && sypy_error_init(&error, 1);
	if (reads == NULL)
		PyErr_NoMemory();
	for (size_t i = 0; good && i < count; i++) {
		uint32_t unit_id;
		uint64_t offset, bytes, addr;

		good = PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)i), "O&O&O&O&", sypy_u32,
		                        &unit_id, sypy_u64, &offset, sypy_u64, &bytes, sypy_u64, &addr);
		if (good)
			reads[i] = (sy_read){unit_id, offset, bytes, (void *)(uintptr_t)addr};
	}
	if (good)
		store = sypy_store_enter(self);
	if (store != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_store_read_entries(store, reads, count, deadline_ns, &error.err);
		Py_END_ALLOW_THREADS
		sypy_store_leave(self);
		if (status == SY_OK && !PyErr_Occurred()) {
			done = Py_NewRef(Py_None);
		} else if (!PyErr_Occurred()) {
			PyObject *type, *value, *traceback;

			sypy_raise_blobs(&error.err, NULL);
			PyErr_Fetch(&type, &value, &traceback);
			PyErr_NormalizeException(&type, &value, &traceback);
			done = Py_BuildValue("(OI)", value, (unsigned)error.err.indexes[0]);
			Py_XDECREF(type);
			Py_XDECREF(value);
			Py_XDECREF(traceback);
		}
	}
	sypy_error_done(&error);
	PyMem_Free(reads);
	return done;
}

struct rows_of_units {
	sy_unit_rows *units;
	uint64_t **rows;
	size_t unit_count, row_count;
};

static void rows_done(struct rows_of_units *rows)
{
	for (size_t u = 0; rows->rows != NULL && u < rows->unit_count; u++)
		PyMem_Free(rows->rows[u]);
	PyMem_Free(rows->rows);
	PyMem_Free(rows->units);
}

/* list of (unit_id, rows) */
static bool rows_from(PyObject *list, struct rows_of_units *rows)
{
	rows->unit_count = (size_t)PyList_GET_SIZE(list);
	rows->units = PyMem_Calloc(rows->unit_count + 1, sizeof *rows->units);
	rows->rows = PyMem_Calloc(rows->unit_count + 1, sizeof *rows->rows);
	if (rows->units == NULL || rows->rows == NULL) {
		PyErr_NoMemory();
		return false;
	}
	for (size_t u = 0; u < rows->unit_count; u++) {
		PyObject *given;
		uint32_t unit_id;
		size_t count = 0;

		if (!PyArg_ParseTuple(PyList_GET_ITEM(list, (Py_ssize_t)u), "O&O", sypy_u32, &unit_id,
		                      &given))
			return false;
		rows->rows[u] = sypy_rows_from(given, &count);
		if (rows->rows[u] == NULL)
			return false;
		rows->units[u] = (sy_unit_rows){unit_id, rows->rows[u], count};
		rows->row_count += count;
	}
	return true;
}

static bool append_row(PyObject *list, uint64_t number)
{
	PyObject *row = PyLong_FromUnsignedLongLong(number);
	bool done = row != NULL && PyList_Append(list, row) == 0;

	Py_XDECREF(row);
	return done;
}

/* The rows at positions over all units, unit by unit; no position: all. */
static PyObject *blamed_rows(const struct rows_of_units *rows, const sy_error *err)
{
	size_t blamed =
		err->index_count < err->index_capacity ? err->index_count : err->index_capacity;
	uint8_t *marks = PyMem_Calloc(rows->row_count + 1, 1);
	PyObject *list = marks == NULL ? PyErr_NoMemory() : PyList_New(0);

	for (size_t b = 0; marks != NULL && b < blamed; b++) {
		if (err->indexes[b] < rows->row_count)
			marks[err->indexes[b]] = 1;
	}
	for (size_t u = 0, at = 0; list != NULL && u < rows->unit_count; u++) {
		for (size_t i = 0; list != NULL && i < rows->units[u].row_count; i++, at++) {
			if ((blamed == 0 || marks[at]) && !append_row(list, rows->units[u].rows[i]))
				Py_CLEAR(list);
		}
	}
	PyMem_Free(marks);
	return list;
}

/* release([(unit_id, rows)], deadline) */
PyObject *sypy_store_release(PyObject *object, PyObject *args)
{
	struct sypy_store *self = (struct sypy_store *)object;
	PyObject *list;
	struct rows_of_units rows = {0};
	struct sypy_error error = {0};
	uint64_t deadline_ns;
	sy_store *store = NULL;
	sy_status status;

	if (!PyArg_ParseTuple(args, "O!O&", &PyList_Type, &list, sypy_deadline, &deadline_ns))
		return NULL;
	if (rows_from(list, &rows) && sypy_error_init(&error, rows.row_count))
		store = sypy_store_enter(self);
	if (store != NULL) {
		Py_BEGIN_ALLOW_THREADS
		status = sy_store_release_rows(store, rows.units, rows.unit_count, deadline_ns,
		                               &error.err);
		Py_END_ALLOW_THREADS
		sypy_store_leave(self);
		if (status != SY_OK && !PyErr_Occurred()) {
			PyObject *blamed = blamed_rows(&rows, &error.err);

			if (blamed != NULL)
				sypy_raise_blobs(&error.err, blamed);
			Py_XDECREF(blamed);
		}
	}
	sypy_error_done(&error);
	rows_done(&rows);
	return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
