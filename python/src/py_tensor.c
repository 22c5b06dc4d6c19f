/* The type Tensor: memory with a dtype and a shape, in C order, kept by whoever owns it.
 *
 * As a buffer it is its raw bytes, so that numpy and torch take it without a copy whatever its
 * dtype; as DLPack it is what it is. */
#include "py_core.h"

PyTypeObject *sypy_tensor_type;

PyObject *sypy_tensor_new(PyObject *owner, const void *data, sy_dtype dtype, uint32_t ndim,
                          const uint64_t *shape, bool readonly)
{
	static uint8_t nothing[64]; /* what an empty tensor points to */
	struct sypy_tensor *self =
		(struct sypy_tensor *)sypy_tensor_type->tp_alloc(sypy_tensor_type, 0);

	if (self == NULL)
		return NULL;
	self->owner = Py_XNewRef(owner);
	self->data = data == NULL ? nothing : (void *)(uintptr_t)data;
	self->dtype = dtype;
	self->ndim = ndim;
	self->readonly = readonly;
	self->nbytes = sy_dtype_bytes(dtype);
	for (uint32_t d = 0; d < ndim; d++) {
		self->shape[d] = (int64_t)shape[d];
		self->nbytes *= shape[d];
	}
	return (PyObject *)self;
}

PyObject *sypy_tensor_copy(PyObject *object)
{
	const struct sypy_tensor *self = (const struct sypy_tensor *)object;
	PyObject *memory = PyByteArray_FromStringAndSize(self->data, (Py_ssize_t)self->nbytes);
	uint64_t shape[SY_RANK_MAX + 1] = {0};

	if (memory == NULL)
		return NULL;
	for (uint32_t d = 0; d < self->ndim; d++)
		shape[d] = (uint64_t)self->shape[d];
	PyObject *copy = sypy_tensor_new(memory, PyByteArray_AS_STRING(memory), self->dtype,
	                                 self->ndim, shape, false);
	Py_DECREF(memory);
	return copy;
}

static void tensor_dealloc(PyObject *object)
{
	struct sypy_tensor *self = (struct sypy_tensor *)object;
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(self->owner);
	type->tp_free(object);
	Py_DECREF(type);
}

static int tensor_buffer(PyObject *object, Py_buffer *view, int flags)
{
	const struct sypy_tensor *self = (const struct sypy_tensor *)object;

	return PyBuffer_FillInfo(view, object, self->data, (Py_ssize_t)self->nbytes, self->readonly,
	                         flags);
}

static PyObject *tensor_dtype(PyObject *object, void *unused)
{
	const struct sypy_tensor *self = (const struct sypy_tensor *)object;

	(void)unused;
	return PyUnicode_FromString(sy_dtype_name(self->dtype));
}

static PyObject *tensor_shape(PyObject *object, void *unused)
{
	const struct sypy_tensor *self = (const struct sypy_tensor *)object;
	PyObject *shape = PyTuple_New((Py_ssize_t)self->ndim);

	(void)unused;
	for (uint32_t d = 0; shape != NULL && d < self->ndim; d++) {
		PyObject *length = PyLong_FromLongLong(self->shape[d]);

		if (length == NULL)
			Py_CLEAR(shape);
		else
			PyTuple_SET_ITEM(shape, (Py_ssize_t)d, length);
	}
	return shape;
}

static PyObject *tensor_nbytes(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(((const struct sypy_tensor *)object)->nbytes);
}

static PyObject *tensor_readonly(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(((const struct sypy_tensor *)object)->readonly);
}

static PyObject *tensor_repr(PyObject *object)
{
	PyObject *shape = tensor_shape(object, NULL);
	PyObject *text = shape == NULL ? NULL
		: PyUnicode_FromFormat("<slabyard.Tensor %s %R>",
		                       sy_dtype_name(((const struct sypy_tensor *)object)->dtype), shape);

	Py_XDECREF(shape);
	return text;
}

static PyObject *tensor_device(PyObject *object, PyObject *unused)
{
	(void)object;
	(void)unused;
	return Py_BuildValue("(ii)", 1, 0); /* kDLCPU */
}

bool sypy_tensor_add(PyObject *module)
{
	static PyMethodDef methods[] = {
		{"__dlpack__", (PyCFunction)(void (*)(void))sypy_dlpack_out, METH_VARARGS | METH_KEYWORDS,
		 "Exports the memory itself, never a copy, unless copy=True."},
		{"__dlpack_device__", tensor_device, METH_NOARGS, "(1, 0): main memory"},
		{NULL, NULL, 0, NULL},
	};
	static PyGetSetDef attributes[] = {
		{"dtype", tensor_dtype, NULL,
		 "A str: bool, u8 .. u64, i8 .. i64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2, "
		 "f8_e4m3fnuz, f8_e5m2fnuz, c64, c128.", NULL},
		{"shape", tensor_shape, NULL, "A tuple of int, up to nine dimensions, in C order.", NULL},
		{"nbytes", tensor_nbytes, NULL, "Its size in bytes.", NULL},
		{"readonly", tensor_readonly, NULL, "True where it lies in a slab.", NULL},
		{NULL, NULL, NULL, NULL, NULL},
	};
	static PyType_Slot slots[] = {
		{Py_tp_dealloc, (void *)tensor_dealloc},
		{Py_tp_repr, (void *)tensor_repr},
		{Py_tp_methods, methods},
		{Py_tp_getset, attributes},
		{Py_bf_getbuffer, (void *)tensor_buffer},
		{Py_tp_doc, (void *)"Memory with a dtype and a shape, in C order.\n\n"
		                    "As a buffer it is its raw bytes; numpy.from_dlpack and "
		                    "torch.from_dlpack take it\nwithout a copy, by DLPack. It keeps "
		                    "what it lies in."},
		{0, NULL},
	};
	static PyType_Spec spec = {
		.name = "slabyard.Tensor",
		.basicsize = sizeof(struct sypy_tensor),
		.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
		.slots = slots,
	};

	return sypy_type_add(module, &spec, &sypy_tensor_type);
}
