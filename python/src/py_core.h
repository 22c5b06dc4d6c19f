/* What the files of the extension share.
 *
 * Rules here: the GIL is dropped around every call into the library that may wait or copy, and
 * only there; while it is dropped no Python object is touched, what its memory is read from is
 * held by a reference or a Py_buffer. Functions that return NULL or false have set an exception.
 * All objects are of this process's main interpreter. */
#ifndef SY_PY_CORE_H
#define SY_PY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pthread.h>
#include <slabyard/slabyard.h>
#include <sys/types.h>

/* Classes and functions of Python that the extension calls; owned for the process's life. */
struct sypy_names {
	PyObject *pickle_dumps, *pickler, *pickling_error, *bytes_io, *json_loads;
	PyObject *reducers;  /* slabyard._reducers.table */
	PyObject *json_scan; /* (text, index) -> (object, where it ended), in C */
};
extern struct sypy_names sypy_names;

extern PyTypeObject *sypy_client_type, *sypy_result_type, *sypy_tensor_type;
extern PyTypeObject *sypy_pickled_type;

/* Adds a type made of the spec to the module; *ret_type is borrowed from the module. */
bool sypy_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type);
bool sypy_client_add(PyObject *module);
bool sypy_result_add(PyObject *module);
bool sypy_tensor_add(PyObject *module);
bool sypy_pickled_add(PyObject *module);

/* py_errors.c */

/* Looks up the class of every status, so that a name that is missing is seen at import. */
bool sypy_errors_init(PyObject *module);
/* Raises what the error says, unless an exception (a signal's) is set already. names, if given,
 * are the keys, blobs or rows the error is about (borrowed), for Lost and TransferFailed. */
void sypy_raise(const sy_error *err, PyObject *names);
/* The same as the store says it: LostBlobs and TransferFailed. */
void sypy_raise_blobs(const sy_error *err, PyObject *blob_ids);

/* py_call.c */

/* An error record with room for as many indexes as a call has keys. */
struct sypy_error {
	sy_error err;
};
bool sypy_error_init(struct sypy_error *error, size_t index_capacity);
void sypy_error_done(struct sypy_error *error);

/* Runs the handlers of signals that came; true if one of them raised. What the library asks while
 * it waits: takes the GIL itself. */
bool sypy_interrupted(void *context);
/* None or monotonic seconds to a deadline of the library; an "O&" converter. */
int sypy_deadline(PyObject *seconds, void *ret_deadline_ns);
/* Seconds, more than 0, to nanoseconds; None is 0. An "O&" converter. */
int sypy_duration(PyObject *seconds, void *ret_ns);

/* Whole numbers that fit, ValueError otherwise: "O&" converters, for "K" and "I" cut silently. */
int sypy_u64(PyObject *number, void *ret_u64);
int sypy_u32(PyObject *number, void *ret_u32);

/* Who is inside an object that may be closed. A call enters before it drops the GIL, so what it
 * uses stands until it leaves. */
struct sypy_gate {
	pthread_mutex_t lock;
	pthread_cond_t left;
	uint32_t running, closers; /* who is inside; who waits in sypy_gate_shut */
	bool closing, made;
	pid_t pid; /* of the process that made it: calls of others do not run in a fork child */
	uint64_t timeout_ns;
};
void sypy_gate_init(struct sypy_gate *gate, uint64_t timeout_ns);
void sypy_gate_done(struct sypy_gate *gate);
/* False: closed, DataPlaneFatal is set. */
bool sypy_gate_enter(struct sypy_gate *gate, const char *what);
/* True: the gate is closing, this was the last call, and nobody waits for it in sypy_gate_shut:
 * the caller closes what is behind it. */
bool sypy_gate_leave(struct sypy_gate *gate);
/* No call enters any more. Waits for those inside, at most the timeout, without the GIL; a signal
 * handler's exception ends the wait and stays set. True: nobody is inside, the caller closes what
 * is behind; false: the last one to leave does. */
bool sypy_gate_shut(struct sypy_gate *gate);

/* py_rows.c */

/* Row numbers: of any buffer of integers, or of a sequence of ints. NULL on failure; freed with
 * PyMem_Free. Never NULL for no rows. */
uint64_t *sypy_rows_from(PyObject *rows, size_t *ret_count);
uint64_t *sypy_offsets_from(PyObject *offsets, size_t *ret_count);

/* Keys "row@field" and what their fields point into. */
struct sypy_keys {
	PyObject *texts; /* a tuple of str */
	sy_key *keys;
	size_t count;
};
bool sypy_keys_from(PyObject *keys, struct sypy_keys *ret_keys);
void sypy_keys_done(struct sypy_keys *keys);

/* Field names, NUL-terminated. */
struct sypy_fields {
	PyObject *texts; /* a tuple of str */
	const char **names;
	size_t count;
};
/* None: no field at all. */
bool sypy_fields_from(PyObject *fields, struct sypy_fields *ret_fields);
void sypy_fields_done(struct sypy_fields *fields);

/* A list of the keys the error names: rows times fields, of rows at err->indexes, or all. */
PyObject *sypy_blamed_columns(const sy_error *err, const uint64_t *rows, size_t row_count,
                              PyObject *fields);
PyObject *sypy_blamed_items(const sy_error *err, PyObject *texts);
PyObject *sypy_parse_keys(PyObject *module, PyObject *keys);
/* "row@field" */
PyObject *sypy_key_text(uint64_t row, PyObject *field);

/* py_pack.c, py_unpack.c: objects as msgpack, only where that is exact. */

/* Memory that grows; blocks stay where they are until it is freed. */
struct sypy_arena {
	struct sypy_block *blocks;
};
/* NULL: MemoryError is set. The bytes are uninitialized, aligned to 16. */
void *sypy_arena_take(struct sypy_arena *arena, size_t bytes);
void sypy_arena_done(struct sypy_arena *arena);

/* 1: packed, *ret_data in the arena; 0: msgpack would not give this object back; -1: error. */
int sypy_pack(PyObject *object, struct sypy_arena *arena, const void **ret_data,
              size_t *ret_bytes);
/* A new object of all the bytes. */
PyObject *sypy_unpack(const void *data, size_t bytes);

/* py_cells.c: one Python object as one value to put. */

/* What values point into; done frees it all. */
struct sypy_hold {
	struct sypy_arena arena;
	Py_buffer *buffers;
	size_t buffer_count, buffer_capacity;
	PyObject *objects; /* a list */
	PyObject *dtypes;  /* a dict: what dtypes that numpy exports no format of are, by dtype */
	PyObject *reducers; /* the table that objects are pickled with, or NULL */
	PyObject *dumps;   /* pickle.dumps, or what helps where it does not do; borrowed. NULL: what
	                    * msgpack cannot hold is refused */
};
/* dumps may be None. */
bool sypy_hold_init(struct sypy_hold *hold, PyObject *dumps);
void sypy_hold_done(struct sypy_hold *hold);
/* A buffer of the object, released with the hold. NULL: an exception is set. */
const Py_buffer *sypy_hold_buffer(struct sypy_hold *hold, PyObject *object, int flags);
bool sypy_hold_object(struct sypy_hold *hold, PyObject *object);

/* py_pickle.c */

/* A value to be pickled whatever it is. */
struct sypy_pickled {
	PyObject_HEAD
	PyObject *value;
};
PyObject *sypy_complex_parts(PyObject *module, PyObject *value);
bool sypy_pickle(struct sypy_hold *hold, PyObject *object, sy_value *ret_value);

/* dtype -1: what the object says of itself; else that of the tensor (bf16, given as i16). */
bool sypy_value_from(struct sypy_hold *hold, PyObject *object, int dtype, sy_value *ret_value);
/* The dtype of a buffer's items; -1 and TypeError: none of ours. */
int sypy_dtype_of(const Py_buffer *buffer);

/* py_result.c, py_values.c, py_tensor.c */

struct sypy_result {
	PyObject_HEAD
	sy_result *result;
	size_t row_count, column_count; /* of a get of keys: how many, and 0 */
	bool view;                      /* values lie in slabs: nobody may write there */
};
/* Takes the result over, also where it fails, as it does with an exception set. */
PyObject *sypy_result_new(sy_result *result, size_t row_count, size_t column_count, bool view);
/* Memory with a dtype and a shape, kept by owner. */
PyObject *sypy_tensor_new(PyObject *owner, const void *data, sy_dtype dtype, uint32_t ndim,
                          const uint64_t *shape, bool readonly);
/* A writable tensor of the same bytes, in memory of its own. */
PyObject *sypy_tensor_copy(PyObject *tensor);
/* How a got value becomes an object. */
struct sypy_makers {
	PyObject *tensor; /* called with a Tensor; None: it is the object itself */
	PyObject *loads;  /* of pickles; None: refused */
};
PyObject *sypy_value_object(PyObject *owner, const sy_value *value, bool readonly,
                            const struct sypy_makers *makers);

/* py_dlpack.c */
PyObject *sypy_dlpack_out(PyObject *tensor, PyObject *args, PyObject *kwargs);
PyObject *sypy_dlpack_in(PyObject *module, PyObject *capsule);

struct sypy_tensor {
	PyObject_HEAD
	PyObject *owner;
	void *data;
	sy_dtype dtype;
	uint32_t ndim;
	int64_t shape[SY_RANK_MAX + 1];
	uint64_t nbytes;
	bool readonly;
};

/* The methods of a client that lie in py_put.c. */
struct sypy_client {
	PyObject_HEAD
	sy_client *client; /* NULL: closed */
	struct sypy_gate gate;
};
/* Takes the client for one call; NULL: closed, and an exception is set. */
sy_client *sypy_client_enter(struct sypy_client *self);
void sypy_client_leave(struct sypy_client *self);
PyObject *sypy_client_put(PyObject *self, PyObject *args);
PyObject *sypy_client_put_columns(PyObject *self, PyObject *args);

#endif
