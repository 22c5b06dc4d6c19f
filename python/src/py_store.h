/* The store's types in Python: Endpoint, Directory, Store, Resolved. */
#ifndef SY_PY_STORE_H
#define SY_PY_STORE_H

#include "py_core.h"

extern PyTypeObject *sypy_endpoint_type, *sypy_directory_type, *sypy_store_type,
	*sypy_resolved_type;

struct sypy_endpoint {
	PyObject_HEAD
	sy_endpoint *endpoint;
};

struct sypy_directory {
	PyObject_HEAD
	sy_directory *directory;
};

struct sypy_store {
	PyObject_HEAD
	sy_store *store; /* NULL: closed */
	struct sypy_gate gate;
	PyObject *endpoint; /* outlives the store */
	PyObject *lock;     /* or NULL */
};

/* Pinned keys. Keeps the store's object, not the store: a close gives the pins back. */
struct sypy_resolved {
	PyObject_HEAD
	sy_resolved_keys *resolved; /* NULL: given back */
};

bool sypy_endpoint_add(PyObject *module);
bool sypy_directory_add(PyObject *module);
bool sypy_store_add(PyObject *module);
bool sypy_resolved_add(PyObject *module);

/* The library's hooks around a transfer; context is the lock. */
void sypy_lock_enter(void *context);
void sypy_lock_leave(void *context);

/* For one call; NULL: closed, an exception is set. */
sy_store *sypy_store_enter(struct sypy_store *self);
void sypy_store_leave(struct sypy_store *self);

/* Of 32 hex digits. False: ValueError is set. */
bool sypy_blob_id_from(PyObject *text, sy_blob_id *ret_id);
PyObject *sypy_blob_id_text(const sy_blob_id *id);

/* Methods of Store in py_store_read.c. */
PyObject *sypy_store_resolve(PyObject *self, PyObject *args);
PyObject *sypy_store_read(PyObject *self, PyObject *args);
PyObject *sypy_store_release(PyObject *self, PyObject *args);

PyObject *sypy_encode_index(PyObject *module, PyObject *args);
PyObject *sypy_new_blob_id(PyObject *module, PyObject *unused);
PyObject *sypy_blob_id_of(PyObject *module, PyObject *args);

#endif
