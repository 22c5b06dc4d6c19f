/* msgpack to Python objects. The bytes come from other processes: nothing is believed. */
#include <string.h>

#include "py_core.h"

enum { DEPTH_MAX = 512 }; /* what others packed may nest deeper than what we pack */

struct reader {
	const uint8_t *at, *end;
};

static PyObject *bad(const char *why)
{
	PyErr_Format(PyExc_ValueError, "a stored object is no msgpack: %s", why);
	return NULL;
}

static bool number(struct reader *reader, unsigned bytes, uint64_t *ret_number)
{
	uint64_t value = 0;

	if ((size_t)(reader->end - reader->at) < bytes) {
		bad("it ends early");
		return false;
	}
	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | *reader->at++;
	*ret_number = value;
	return true;
}

static PyObject *unpack_one(struct reader *reader, int depth);

static PyObject *unpack_list(struct reader *reader, uint64_t count, int depth)
{
	/* Each item takes a byte at least. */
	if (count > (uint64_t)(reader->end - reader->at))
		return bad("it ends early");
	PyObject *list = PyList_New((Py_ssize_t)count);
	for (Py_ssize_t i = 0; list != NULL && i < (Py_ssize_t)count; i++) {
		PyObject *item = unpack_one(reader, depth + 1);

		if (item == NULL)
			Py_CLEAR(list);
		else
			PyList_SET_ITEM(list, i, item);
	}
	return list;
}

static PyObject *unpack_dict(struct reader *reader, uint64_t count, int depth)
{
	if (count > (uint64_t)(reader->end - reader->at) / 2)
		return bad("it ends early");
	PyObject *dict = PyDict_New();
	for (uint64_t i = 0; dict != NULL && i < count; i++) {
		PyObject *key = unpack_one(reader, depth + 1);
		PyObject *value = key == NULL ? NULL : unpack_one(reader, depth + 1);

		/* A key that cannot be hashed is an exception here. */
		if (value == NULL || PyDict_SetItem(dict, key, value) != 0)
			Py_CLEAR(dict);
		Py_XDECREF(key);
		Py_XDECREF(value);
	}
	return dict;
}

static PyObject *unpack_text(struct reader *reader, uint64_t bytes, bool is_text)
{
	const char *at = (const char *)reader->at;

	if (bytes > (uint64_t)(reader->end - reader->at))
		return bad("it ends early");
	reader->at += bytes;
	return is_text ? PyUnicode_DecodeUTF8(at, (Py_ssize_t)bytes, NULL)
	               : PyBytes_FromStringAndSize(at, (Py_ssize_t)bytes);
}

static PyObject *unpack_float(uint64_t bits, bool is_double)
{
	double value;
	float narrow;
	uint32_t low = (uint32_t)bits;

	memcpy(&value, &bits, sizeof value);
	memcpy(&narrow, &low, sizeof narrow);
	return PyFloat_FromDouble(is_double ? value : (double)narrow);
}

static PyObject *signed_of(uint64_t bits, unsigned bytes)
{
	unsigned shift = 64 - 8 * bytes;

	return PyLong_FromLongLong((int64_t)(bits << shift) >> shift);
}

/* What 0xc0 to 0xdf mean: so many bytes of a number follow, and this is made of it. */
static PyObject *unpack_long(struct reader *reader, uint8_t first, int depth)
{
	static const uint8_t BYTES[32] = {
		0, 0, 0, 0, 1, 2, 4, 0, 0, 0, 4, 8, 1, 2, 4, 8,
		1, 2, 4, 8, 0, 0, 0, 0, 0, 1, 2, 4, 2, 4, 2, 4,
	};
	unsigned bytes = BYTES[first - 0xc0];
	uint64_t value = 0;

	if (!number(reader, bytes, &value))
		return NULL;
	if (first == 0xc0)
		return Py_NewRef(Py_None);
	if (first == 0xc2 || first == 0xc3)
		return PyBool_FromLong(first == 0xc3);
	if (first >= 0xc4 && first <= 0xc6)
		return unpack_text(reader, value, false);
	if (first == 0xca || first == 0xcb)
		return unpack_float(value, first == 0xcb);
	if (first >= 0xcc && first <= 0xcf)
		return PyLong_FromUnsignedLongLong(value);
	if (first >= 0xd0 && first <= 0xd3)
		return signed_of(value, bytes);
	if (first >= 0xd9 && first <= 0xdb)
		return unpack_text(reader, value, true);
	if (first == 0xdc || first == 0xdd)
		return unpack_list(reader, value, depth);
	if (first == 0xde || first == 0xdf)
		return unpack_dict(reader, value, depth);
	return bad("it holds an extension type");
}

static PyObject *unpack_one(struct reader *reader, int depth)
{
	if (depth > DEPTH_MAX)
		return bad("it nests too deeply");
	if (reader->at == reader->end)
		return bad("it ends early");
	uint8_t first = *reader->at++;
	if (first < 0x80)
		return PyLong_FromLong(first);
	if (first >= 0xe0)
		return PyLong_FromLong((int)first - 256);
	if (first < 0x90)
		return unpack_dict(reader, first & 15u, depth);
	if (first < 0xa0)
		return unpack_list(reader, first & 15u, depth);
	if (first < 0xc0)
		return unpack_text(reader, first & 31u, true);
	return unpack_long(reader, first, depth);
}

PyObject *sypy_unpack(const void *data, size_t bytes)
{
	struct reader reader = {data, (const uint8_t *)data + bytes};
	PyObject *object = unpack_one(&reader, 0);

	if (object != NULL && reader.at != reader.end) {
		Py_DECREF(object);
		return bad("bytes follow it");
	}
	return object;
}
