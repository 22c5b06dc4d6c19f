/* The module slabyard._core: types, constants, the lists of the public headers. */
#include "py_store.h"

struct sypy_names sypy_names;

bool sypy_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **ret_type)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);

	if (type == NULL)
		return false;
	int rc = PyModule_AddType(module, (PyTypeObject *)type);
	*ret_type = (PyTypeObject *)type; /* the module's reference stands */
	Py_DECREF(type);
	return rc == 0;
}

static PyObject *import_name(const char *module_name, const char *name)
{
	PyObject *module = PyImport_ImportModule(module_name);

	if (module == NULL)
		return NULL;
	PyObject *found = PyObject_GetAttrString(module, name);
	Py_DECREF(module);
	return found;
}

/* Adds name: tuple to the module. */
static bool add_list(PyObject *module, const char *name, PyObject *list)
{
	if (list == NULL)
		return false;
	int rc = PyModule_AddObjectRef(module, name, list);
	Py_DECREF(list);
	return rc == 0;
}

static PyObject *status_list(void)
{
#define ONE(name, value, python, meaning) {#name, value, python, meaning},
	static const struct {
		const char *name;
		int value;
		const char *python, *meaning;
	} list[] = {SY_STATUS_LIST(ONE)};
#undef ONE
	const Py_ssize_t count = (Py_ssize_t)(sizeof list / sizeof list[0]);
	PyObject *made = PyTuple_New(count);

	for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
		PyObject *one = Py_BuildValue("siss", list[i].name, list[i].value, list[i].python,
		                              list[i].meaning);

		if (one == NULL)
			Py_CLEAR(made);
		else
			PyTuple_SET_ITEM(made, i, one);
	}
	return made;
}

static PyObject *dtype_list(void)
{
#define ONE(name, value, bytes, text) {value, bytes, text},
	static const struct {
		int value, bytes;
		const char *text;
	} list[] = {SY_DTYPE_LIST(ONE)};
#undef ONE
	const Py_ssize_t count = (Py_ssize_t)(sizeof list / sizeof list[0]);
	PyObject *made = PyTuple_New(count);

	for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
		PyObject *one = Py_BuildValue("sii", list[i].text, list[i].value, list[i].bytes);

		if (one == NULL)
			Py_CLEAR(made);
		else
			PyTuple_SET_ITEM(made, i, one);
	}
	return made;
}

static PyObject *kind_list(void)
{
#define ONE(name, value, text) {value, text},
	static const struct {
		int value;
		const char *text;
	} list[] = {SY_KIND_LIST(ONE)};
#undef ONE
	const Py_ssize_t count = (Py_ssize_t)(sizeof list / sizeof list[0]);
	PyObject *made = PyTuple_New(count);

	for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
		PyObject *one = Py_BuildValue("si", list[i].text, list[i].value);

		if (one == NULL)
			Py_CLEAR(made);
		else
			PyTuple_SET_ITEM(made, i, one);
	}
	return made;
}

/* The scanner of json.loads, which has no name of its own. */
static PyObject *json_scanner(void)
{
	PyObject *type = import_name("json", "JSONDecoder");
	PyObject *decoder = type == NULL ? NULL : PyObject_CallNoArgs(type);
	PyObject *scan = decoder == NULL ? NULL : PyObject_GetAttrString(decoder, "scan_once");

	Py_XDECREF(decoder);
	Py_XDECREF(type);
	return scan;
}

static bool take_names(void)
{
	const struct {
		PyObject **found;
		const char *module, *name;
	} list[] = {
		{&sypy_names.pickle_dumps, "pickle", "dumps"},
		{&sypy_names.pickler, "pickle", "Pickler"},
		{&sypy_names.pickling_error, "pickle", "PicklingError"},
		{&sypy_names.bytes_io, "io", "BytesIO"},
		{&sypy_names.reducers, "slabyard._reducers", "table"},
		{&sypy_names.json_loads, "json", "loads"},
	};

	for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
		*list[i].found = import_name(list[i].module, list[i].name);
		if (*list[i].found == NULL)
			return false;
	}
	sypy_names.json_scan = json_scanner();
	return sypy_names.json_scan != NULL;
}

static PyMethodDef functions[] = {
	{"from_dlpack", sypy_dlpack_in, METH_O,
	 "from_dlpack(capsule) -> Tensor\n\nTakes a tensor in main memory over from a DLPack capsule; "
	 "one that is not contiguous is copied."},
	{"parse_keys", sypy_parse_keys, METH_O,
	 "parse_keys(keys) -> [(row, field)]\n\nValueError says what is wrong with a key."},
	{"complex_parts", sypy_complex_parts, METH_O,
	 "complex_parts(value) -> (complex, (real, imag))\n\nWhat copyreg says of one."},
	{"new_blob_id", sypy_new_blob_id, METH_NOARGS, "32 random hex digits"},
	{"blob_id_of", sypy_blob_id_of, METH_VARARGS,
	 "blob_id_of(segments, nbytes) -> what the index in a blob's segments says, None: it is none"},
	{"encode_index", sypy_encode_index, METH_VARARGS,
	 "encode_index(blob_id, rows, columns) -> (index, nbytes, n_entries, bases)"},
	{NULL, NULL, 0, NULL},
};

static int module_exec(PyObject *module)
{
	/* Types and classes are kept for the process; a second set would not know the first's. */
	if (sypy_names.pickle_dumps != NULL) {
		PyErr_SetString(PyExc_ImportError, "slabyard._core is loaded once a process, in its main "
		                                   "interpreter");
		return -1;
	}
	if (!take_names() || !sypy_errors_init(module))
		return -1;
	if (!sypy_tensor_add(module) || !sypy_result_add(module) || !sypy_client_add(module) ||
	    !sypy_pickled_add(module))
		return -1;
	if (!sypy_endpoint_add(module) || !sypy_directory_add(module) || !sypy_store_add(module) ||
	    !sypy_resolved_add(module))
		return -1;
	if (!add_list(module, "STATUSES", status_list()) ||
	    !add_list(module, "DTYPES", dtype_list()) || !add_list(module, "KINDS", kind_list()))
		return -1;
	return 0;
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, (void *)module_exec},
	{0, NULL},
};

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT,
	.m_name = "slabyard._core",
	.m_doc = "libslabyard for the package around it; its users import slabyard.",
	.m_methods = functions,
	.m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&definition);
}
