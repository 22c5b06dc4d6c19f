/* Tensors in from and out to other libraries, by the DLPack protocol. */
#include <string.h>

#include "dlpack_abi.h"
#include "py_core.h"

struct form {
	sy_dtype dtype;
	uint8_t code, bits;
};

static const struct form FORMS[] = {
	{SY_DTYPE_BOOL, DLPACK_BOOL, 8},
	{SY_DTYPE_U8, DLPACK_UINT, 8},
	{SY_DTYPE_U16, DLPACK_UINT, 16},
	{SY_DTYPE_U32, DLPACK_UINT, 32},
	{SY_DTYPE_U64, DLPACK_UINT, 64},
	{SY_DTYPE_I8, DLPACK_INT, 8},
	{SY_DTYPE_I16, DLPACK_INT, 16},
	{SY_DTYPE_I32, DLPACK_INT, 32},
	{SY_DTYPE_I64, DLPACK_INT, 64},
	{SY_DTYPE_F16, DLPACK_FLOAT, 16},
	{SY_DTYPE_BF16, DLPACK_BFLOAT, 16},
	{SY_DTYPE_F32, DLPACK_FLOAT, 32},
	{SY_DTYPE_F64, DLPACK_FLOAT, 64},
	{SY_DTYPE_F8_E4M3FN, DLPACK_F8_E4M3FN, 8},
	{SY_DTYPE_F8_E5M2, DLPACK_F8_E5M2, 8},
	{SY_DTYPE_F8_E4M3FNUZ, DLPACK_F8_E4M3FNUZ, 8},
	{SY_DTYPE_F8_E5M2FNUZ, DLPACK_F8_E5M2FNUZ, 8},
	{SY_DTYPE_C64, DLPACK_COMPLEX, 64},
	{SY_DTYPE_C128, DLPACK_COMPLEX, 128},
};
enum { FORM_COUNT = sizeof FORMS / sizeof FORMS[0] };

/* What an exported capsule points to; it owns a reference to the Tensor. */
struct exported {
	struct dlpack_managed managed;
	struct dlpack_versioned versioned;
	int64_t strides[SY_RANK_MAX + 1];
	PyObject *tensor;
};

/* Other libraries let go in any thread, with or without the GIL. */
static void let_go(struct exported *exported)
{
	PyGILState_STATE state = PyGILState_Ensure();

	Py_DECREF(exported->tensor);
	PyGILState_Release(state);
	PyMem_RawFree(exported);
}

static void delete_managed(struct dlpack_managed *managed)
{
	let_go(managed->context);
}

static void delete_versioned(struct dlpack_versioned *versioned)
{
	let_go(versioned->context);
}

/* A capsule that nobody took over still owns its tensor. */
static void capsule_end(PyObject *capsule)
{
	const char *name = PyCapsule_GetName(capsule);

	if (name != NULL && strcmp(name, "dltensor") == 0) {
		struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, name);
		managed->deleter(managed);
	} else if (name != NULL && strcmp(name, "dltensor_versioned") == 0) {
		struct dlpack_versioned *versioned = PyCapsule_GetPointer(capsule, name);
		versioned->deleter(versioned);
	}
}

static bool fill(struct exported *exported, struct sypy_tensor *self, bool copied)
{
	struct dlpack_tensor tensor = {.data = self->data, .device_type = DLPACK_CPU,
	                               .ndim = (int32_t)self->ndim, .lanes = 1,
	                               .shape = self->shape, .strides = exported->strides};
	int64_t stride = 1;

	for (int i = 0; i < FORM_COUNT; i++) {
		if (FORMS[i].dtype == self->dtype) {
			tensor.code = FORMS[i].code;
			tensor.bits = FORMS[i].bits;
		}
	}
	if (tensor.bits == 0) {
		PyErr_Format(PyExc_BufferError, "DLPack has no dtype for %s", sy_dtype_name(self->dtype));
		return false;
	}
	for (uint32_t d = self->ndim; d > 0; d--) {
		exported->strides[d - 1] = stride;
		stride *= self->shape[d - 1] > 1 ? self->shape[d - 1] : 1;
	}
	exported->managed = (struct dlpack_managed){tensor, exported, delete_managed};
	exported->versioned = (struct dlpack_versioned){
		DLPACK_MAJOR, DLPACK_MINOR, exported, delete_versioned,
		(self->readonly ? DLPACK_READ_ONLY : 0u) | (copied ? DLPACK_IS_COPIED : 0u), tensor,
	};
	exported->tensor = Py_NewRef((PyObject *)self);
	return true;
}

static PyObject *make_capsule(struct sypy_tensor *self, bool versioned, bool copied)
{
	struct exported *exported = PyMem_RawCalloc(1, sizeof *exported);

	if (exported == NULL)
		return PyErr_NoMemory();
	if (!fill(exported, self, copied)) {
		PyMem_RawFree(exported);
		return NULL;
	}
	PyObject *capsule =
		versioned ? PyCapsule_New(&exported->versioned, "dltensor_versioned", capsule_end)
		          : PyCapsule_New(&exported->managed, "dltensor", capsule_end);
	if (capsule == NULL)
		let_go(exported);
	return capsule;
}

/* Not every consumer minds the flag that says read-only, and many do not know it: torch would
 * write, and the process end by it. So a view goes out as a copy, as the protocol has it for what
 * cannot be shared, unless copy=False says that the consumer only reads. */
PyObject *sypy_dlpack_out(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
	PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
	long major = 0;
	struct sypy_tensor *self = (struct sypy_tensor *)object;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device,
	                                 &copy))
		return NULL;
	if (stream != Py_None) {
		PyErr_SetString(PyExc_BufferError, "main memory has no streams");
		return NULL;
	}
	if (PyTuple_Check(version) && PyTuple_GET_SIZE(version) == 2)
		major = PyLong_AsLong(PyTuple_GET_ITEM(version, 0));
	if (PyTuple_Check(device) && PyTuple_GET_SIZE(device) == 2 && !PyErr_Occurred() &&
	    PyLong_AsLong(PyTuple_GET_ITEM(device, 0)) != DLPACK_CPU && !PyErr_Occurred())
		PyErr_SetString(PyExc_BufferError, "the tensor lies in main memory");
	if (PyErr_Occurred())
		return NULL;
	int copies = copy == Py_None ? self->readonly : PyObject_IsTrue(copy);
	if (copies < 0)
		return NULL;
	if (copies) {
		PyObject *made = sypy_tensor_copy(object);
		PyObject *capsule =
			made == NULL ? NULL : make_capsule((struct sypy_tensor *)made, major >= 1, true);

		Py_XDECREF(made);
		return capsule;
	}
	if (self->readonly && major < 1) {
		PyErr_SetString(PyExc_BufferError, "this consumer would write to a read-only tensor, for "
		                "it does not know DLPack 1.0: leave copy=False away, and it gets a copy");
		return NULL;
	}
	return make_capsule(self, major >= 1, false);
}

static int dtype_of(const struct dlpack_tensor *tensor)
{
	for (int i = 0; tensor->lanes == 1 && i < FORM_COUNT; i++) {
		if (FORMS[i].code == tensor->code && FORMS[i].bits == tensor->bits)
			return (int)FORMS[i].dtype;
	}
	PyErr_Format(PyExc_TypeError, "a DLPack tensor of type code %d, %d bits, %d lanes cannot be "
	             "stored", tensor->code, tensor->bits, tensor->lanes);
	return -1;
}

static bool is_packed(const struct dlpack_tensor *tensor)
{
	int64_t stride = 1;

	for (int d = tensor->ndim - 1; tensor->strides != NULL && d >= 0; d--) {
		if (tensor->shape[d] == 0)
			return true;
		if (tensor->shape[d] != 1 && tensor->strides[d] != stride)
			return false;
		stride *= tensor->shape[d];
	}
	return true;
}

/* Copies items in C order, dimension by dimension. */
static void pack(const struct dlpack_tensor *tensor, int d, const uint8_t *from, size_t item_bytes,
                 uint8_t **to)
{
	if (d == tensor->ndim) {
		memcpy(*to, from, item_bytes);
		*to += item_bytes;
		return;
	}
	for (int64_t i = 0; i < tensor->shape[d]; i++)
		pack(tensor, d + 1, from + i * tensor->strides[d] * (int64_t)item_bytes, item_bytes, to);
}

static PyObject *import_tensor(PyObject *capsule, const struct dlpack_tensor *tensor,
                               bool readonly)
{
	const uint8_t *data = (const uint8_t *)tensor->data + tensor->byte_offset;
	uint64_t shape[SY_RANK_MAX + 1] = {0}, items = 1;
	int dtype = dtype_of(tensor);

	if (dtype < 0)
		return NULL;
	if (tensor->device_type != DLPACK_CPU || tensor->ndim < 0 ||
	    tensor->ndim > SY_RANK_MAX + 1) {
		PyErr_SetString(PyExc_BufferError, "a DLPack tensor outside main memory, or of more than "
		                                   "nine dimensions");
		return NULL;
	}
	for (int d = 0; d < tensor->ndim; d++) {
		shape[d] = (uint64_t)tensor->shape[d];
		items *= shape[d];
	}
	size_t item_bytes = sy_dtype_bytes((sy_dtype)dtype);
	if (is_packed(tensor))
		return sypy_tensor_new(capsule, items == 0 ? NULL : data, (sy_dtype)dtype,
		                       (uint32_t)tensor->ndim, shape, readonly);
	PyObject *memory = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(items * item_bytes));
	if (memory == NULL)
		return NULL;
	uint8_t *to = (uint8_t *)PyByteArray_AS_STRING(memory);
	pack(tensor, 0, data, item_bytes, &to);
	PyObject *made = sypy_tensor_new(memory, PyByteArray_AS_STRING(memory), (sy_dtype)dtype,
	                                 (uint32_t)tensor->ndim, shape, false);
	Py_DECREF(memory);
	return made;
}

/* The capsule itself is the owner: while it keeps its name, its end lets the tensor go. */
PyObject *sypy_dlpack_in(PyObject *module, PyObject *capsule)
{
	(void)module;
	if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
		const struct dlpack_versioned *versioned =
			PyCapsule_GetPointer(capsule, "dltensor_versioned");

		if (versioned->major > DLPACK_MAJOR) {
			PyErr_Format(PyExc_BufferError, "DLPack %u is newer than this library knows",
			             versioned->major);
			return NULL;
		}
		return import_tensor(capsule, &versioned->tensor,
		                     (versioned->flags & DLPACK_READ_ONLY) != 0);
	}
	if (PyCapsule_IsValid(capsule, "dltensor")) {
		const struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");

		return import_tensor(capsule, &managed->tensor, true);
	}
	PyErr_SetString(PyExc_TypeError, "not a capsule of DLPack");
	return NULL;
}
