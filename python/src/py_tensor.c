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

static Py_ssize_t tensor_length(PyObject *object)
{
	const struct sypy_tensor *self = (const struct sypy_tensor *)object;

	if (self->ndim > 0)
		return (Py_ssize_t)self->shape[0];
	PyErr_SetString(PyExc_TypeError, "a tensor of no dimension has no length");
	return -1;
}

/* Items first..last of its first dimension, or with `one` the first of them, without it. */
static PyObject *tensor_part(PyObject *object, Py_ssize_t first, Py_ssize_t last, bool one)
{
	const struct sypy_tensor *self = (const struct sypy_tensor *)object;
	uint64_t shape[SY_RANK_MAX + 1] = {0}, item_bytes = sy_dtype_bytes(self->dtype);

	for (uint32_t d = 0; d < self->ndim; d++) {
		shape[d] = (uint64_t)self->shape[d];
		item_bytes *= d > 0 ? shape[d] : 1;
	}
	shape[0] = (uint64_t)(last - first);
	return sypy_tensor_new(object, (const uint8_t *)self->data + (uint64_t)first * item_bytes,
	                       self->dtype, self->ndim - one, shape + one, self->readonly);
}

static PyObject *tensor_item(PyObject *object, Py_ssize_t k)
{
	Py_ssize_t length = tensor_length(object);

	if (length < 0)
		return NULL;
	if (k >= 0 && k < length)
		return tensor_part(object, k, k + 1, true);
	PyErr_Format(PyExc_IndexError, "item %zd of %zd", k, length);
	return NULL;
}

static PyObject *tensor_subscript(PyObject *object, PyObject *key)
{
	Py_ssize_t length = tensor_length(object), first, last, step;

	if (length < 0)
		return NULL;
	if (PyIndex_Check(key)) {
		Py_ssize_t k = PyNumber_AsSsize_t(key, PyExc_IndexError);

		return PyErr_Occurred() ? NULL : tensor_item(object, k < 0 ? k + length : k);
	}
	if (!PySlice_Check(key)) {
		PyErr_Format(PyExc_TypeError, "an index is an int or a slice, not %s",
		             Py_TYPE(key)->tp_name);
		return NULL;
	}
	if (PySlice_Unpack(key, &first, &last, &step) != 0)
		return NULL;
	if (step != 1) {
		PyErr_SetString(PyExc_ValueError, "a slice that leaves items out is not contiguous: take "
		                "an array of the tensor first");
		return NULL;
	}
	Py_ssize_t count = PySlice_AdjustIndices(length, &first, &last, step);
	return tensor_part(object, first, first + count, false);
}

bool sypy_tensor_add(PyObject *module)
{
	static PyMethodDef methods[] = {
		{"__dlpack__", (PyCFunction)(void (*)(void))sypy_dlpack_out, METH_VARARGS | METH_KEYWORDS,
		 "Exports the memory itself; a copy if copy=True, or if it is read-only and copy is not\n"
		 "False. BufferError: read-only, copy=False, and max_version is below DLPack 1.0."},
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
		{Py_sq_length, (void *)tensor_length},
		{Py_sq_item, (void *)tensor_item},
		{Py_mp_length, (void *)tensor_length},
		{Py_mp_subscript, (void *)tensor_subscript},
		{Py_bf_getbuffer, (void *)tensor_buffer},
		{Py_tp_doc, (void *)"Memory with a dtype and a shape, in C order.\n\n"
		                    "As a buffer it is its raw bytes; numpy.from_dlpack and "
		                    "torch.from_dlpack take it\nwithout a copy, by DLPack. It keeps "
		                    "what it lies in. t[k] and t[a:b] are Tensors of the\nsame memory, "
		                    "len(t) is the first dimension.\n\n"
		                    "One that lies in a slab is read-only. As a buffer it says so; by "
		                    "DLPack it is a copy,\nwritable and independent, for not every "
		                    "library minds what is read-only, unless\nfrom_dlpack is called "
		                    "with copy=False."},
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
