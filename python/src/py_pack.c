/* Python objects to msgpack, where unpacking gives back an equal object of the same types.
 *
 * Exact are None, bool, int from -2^63 to 2^64 - 1, float, str, bytes, and lists and dicts of
 * them; subclasses are not, nor tuples (they would come back as lists). Whatever else comes makes
 * sypy_pack return 0, and the caller decides. */
#include <string.h>

#include "py_core.h"

enum {
	BLOCK_BYTES = 64 << 10,
	DEPTH_MAX = 64, /* nested deeper, or holding itself: not packed */
};

struct sypy_block {
	struct sypy_block *next;
	size_t used, bytes;
	max_align_t data[];
};

void *sypy_arena_take(struct sypy_arena *arena, size_t bytes)
{
	struct sypy_block *block = arena->blocks;
	size_t taken = (bytes + 15) & ~(size_t)15;

	if (bytes > (size_t)PY_SSIZE_T_MAX / 2)
		return PyErr_NoMemory();
	if (block == NULL || block->bytes - block->used < taken) {
		size_t size = taken > BLOCK_BYTES ? taken : BLOCK_BYTES;

		block = PyMem_RawMalloc(sizeof *block + size);
		if (block == NULL)
			return PyErr_NoMemory();
		block->next = arena->blocks;
		block->used = 0;
		block->bytes = size;
		arena->blocks = block;
	}
	void *at = (uint8_t *)block->data + block->used;
	block->used += taken;
	return at;
}

void sypy_arena_done(struct sypy_arena *arena)
{
	while (arena->blocks != NULL) {
		struct sypy_block *next = arena->blocks->next;

		PyMem_RawFree(arena->blocks);
		arena->blocks = next;
	}
}

/* Bytes that grow; `failed` once memory was short. */
struct text {
	uint8_t *data;
	size_t bytes, capacity;
	bool failed;
};

static uint8_t *extend(struct text *text, size_t bytes)
{
	if (text->failed)
		return NULL;
	if (text->capacity - text->bytes < bytes) {
		size_t capacity = (text->bytes + bytes) * 2 + 64;
		uint8_t *grown = PyMem_Realloc(text->data, capacity);

		text->failed = grown == NULL;
		if (grown == NULL)
			return NULL;
		text->data = grown;
		text->capacity = capacity;
	}
	uint8_t *at = text->data + text->bytes;
	text->bytes += bytes;
	return at;
}

/* A head byte and a number of so many bytes after it, big-endian. */
static void head(struct text *text, uint8_t first, uint64_t number, unsigned bytes)
{
	uint8_t *at = extend(text, 1 + (size_t)bytes);

	if (at == NULL)
		return;
	at[0] = first;
	for (unsigned i = 0; i < bytes; i++)
		at[1 + i] = (uint8_t)(number >> (8 * (bytes - 1 - i)));
}

static void body(struct text *text, const void *data, size_t bytes)
{
	uint8_t *at = extend(text, bytes);

	if (at != NULL && bytes > 0)
		memcpy(at, data, bytes);
}

static int pack_int(PyObject *object, struct text *text)
{
	int overflow;
	long long value = PyLong_AsLongLongAndOverflow(object, &overflow);

	if (overflow < 0)
		return 0;
	if (overflow > 0) {
		unsigned long long large = PyLong_AsUnsignedLongLong(object);

		if (large == (unsigned long long)-1 && PyErr_Occurred()) {
			PyErr_Clear();
			return 0;
		}
		head(text, 0xcf, large, 8);
		return 1;
	}
	uint64_t bits = (uint64_t)value;
	if (value >= 0 && value < 128)
		head(text, (uint8_t)value, 0, 0);
	else if (value < 0 && value >= -32)
		head(text, (uint8_t)bits, 0, 0);
	else if (value >= 0)
		value <= UINT8_MAX ? head(text, 0xcc, bits, 1)
		: value <= UINT16_MAX ? head(text, 0xcd, bits, 2)
		: value <= UINT32_MAX ? head(text, 0xce, bits, 4) : head(text, 0xcf, bits, 8);
	else
		value >= INT8_MIN ? head(text, 0xd0, bits, 1)
		: value >= INT16_MIN ? head(text, 0xd1, bits, 2)
		: value >= INT32_MIN ? head(text, 0xd2, bits, 4) : head(text, 0xd3, bits, 8);
	return 1;
}

static int pack_float(PyObject *object, struct text *text)
{
	double value = PyFloat_AS_DOUBLE(object);
	uint64_t bits;

	memcpy(&bits, &value, sizeof bits); /* also nan keeps its bits */
	head(text, 0xcb, bits, 8);
	return 1;
}

/* The head of a thing that has a length; 0: longer than msgpack can say. */
static int pack_length(struct text *text, uint64_t length, uint8_t fixed, uint64_t fixed_max,
                       uint8_t byte, uint8_t word)
{
	if (length > UINT32_MAX)
		return 0;
	if (length <= fixed_max)
		head(text, (uint8_t)(fixed | length), 0, 0);
	else if (byte != 0 && length <= UINT8_MAX)
		head(text, byte, length, 1);
	else if (length <= UINT16_MAX)
		head(text, word, length, 2);
	else
		head(text, (uint8_t)(word + 1), length, 4);
	return 1;
}

static int pack_str(PyObject *object, struct text *text)
{
	Py_ssize_t bytes;
	const char *utf8 = PyUnicode_AsUTF8AndSize(object, &bytes);

	if (utf8 == NULL) { /* lone surrogates */
		PyErr_Clear();
		return 0;
	}
	if (pack_length(text, (uint64_t)bytes, 0xa0, 31, 0xd9, 0xda) == 0)
		return 0;
	body(text, utf8, (size_t)bytes);
	return 1;
}

static int pack_bytes(PyObject *object, struct text *text)
{
	uint64_t bytes = (uint64_t)PyBytes_GET_SIZE(object);

	if (bytes > UINT32_MAX)
		return 0;
	if (bytes <= UINT8_MAX)
		head(text, 0xc4, bytes, 1);
	else if (bytes <= UINT16_MAX)
		head(text, 0xc5, bytes, 2);
	else
		head(text, 0xc6, bytes, 4);
	body(text, PyBytes_AS_STRING(object), (size_t)bytes);
	return 1;
}

static int pack_one(PyObject *object, struct text *text, int depth);

static int pack_list(PyObject *list, struct text *text, int depth)
{
	Py_ssize_t count = PyList_GET_SIZE(list);
	int packed = pack_length(text, (uint64_t)count, 0x90, 15, 0, 0xdc);

	for (Py_ssize_t i = 0; packed == 1 && i < count; i++)
		packed = pack_one(PyList_GET_ITEM(list, i), text, depth + 1);
	return packed;
}

/* True and 1 are one key of a dict, so that what comes back has the same keys. */
static int pack_dict(PyObject *dict, struct text *text, int depth)
{
	PyObject *key, *value;
	Py_ssize_t at = 0;
	int packed = pack_length(text, (uint64_t)PyDict_GET_SIZE(dict), 0x80, 15, 0, 0xde);

	while (packed == 1 && PyDict_Next(dict, &at, &key, &value)) {
		/* A list cannot be a key, so a key never nests. */
		packed = pack_one(key, text, depth + 1);
		if (packed == 1)
			packed = pack_one(value, text, depth + 1);
	}
	return packed;
}

/* No code of Python's runs in here, so containers stay as they are meanwhile. */
static int pack_one(PyObject *object, struct text *text, int depth)
{
	if (depth > DEPTH_MAX)
		return 0;
	if (object == Py_None)
		head(text, 0xc0, 0, 0);
	else if (object == Py_True || object == Py_False)
		head(text, object == Py_True ? 0xc3 : 0xc2, 0, 0);
	else if (PyLong_CheckExact(object))
		return pack_int(object, text);
	else if (PyFloat_CheckExact(object))
		return pack_float(object, text);
	else if (PyUnicode_CheckExact(object))
		return pack_str(object, text);
	else if (PyBytes_CheckExact(object))
		return pack_bytes(object, text);
	else if (PyList_CheckExact(object))
		return pack_list(object, text, depth);
	else if (PyDict_CheckExact(object))
		return pack_dict(object, text, depth);
	else
		return 0;
	return 1;
}

int sypy_pack(PyObject *object, struct sypy_arena *arena, const void **ret_data,
              size_t *ret_bytes)
{
	struct text text = {0};
	int packed = pack_one(object, &text, 0);

	if (text.failed) {
		PyErr_NoMemory();
		packed = -1;
	}
	void *copy = packed == 1 ? sypy_arena_take(arena, text.bytes) : NULL;
	if (packed == 1 && copy == NULL)
		packed = -1;
	if (packed == 1) {
		memcpy(copy, text.data, text.bytes);
		*ret_data = copy;
		*ret_bytes = text.bytes;
	}
	PyMem_Free(text.data);
	return packed;
}
