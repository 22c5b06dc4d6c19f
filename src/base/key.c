#include "key.h"
#include "bytes.h"
#include "fail.h"
#include "units.h"
#include "utf8.h"

enum { NAME_MAX_BYTES = 1024 };

const char *sy_name_fault(const void *name, size_t name_bytes)
{
	const uint8_t *p = name;
	if (name_bytes == 0)
		return "is empty";
	if (name_bytes > NAME_MAX_BYTES)
		return "is longer than 1024 bytes";
	if (memchr(p, 0, name_bytes) != NULL)
		return "holds a NUL byte";
	for (size_t at = 0; at < name_bytes;) {
		/* Most names are ASCII: eight bytes at once. */
		if (name_bytes - at >= 8 && (sy_load_u64(p + at) & 0x8080808080808080u) == 0) {
			at += 8;
			continue;
		}
		size_t step = sy_utf8_bytes(p + at, name_bytes - at);
		if (step == 0)
			return "is not valid UTF-8";
		at += step;
	}
	return NULL;
}

/* As much of a key as a message shows. */
static int shown_bytes(size_t bytes)
{
	return (int)sy_min_u64(bytes, 80);
}

sy_status sy_key_parse(const char *key, size_t key_bytes, uint64_t *ret_gidx,
                       const char **ret_field, size_t *ret_field_bytes, sy_error *err)
{
	const char *at = key_bytes == 0 ? NULL : memchr(key, '@', key_bytes);
	if (at == NULL)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "key \"%.*s\" has no '@'; a key is \"<row>@<field>\", as \"17@input_ids\"",
		               shown_bytes(key_bytes), key_bytes == 0 ? "" : key);
	uint64_t gidx;
	if (sy_parse_u64(key, (size_t)(at - key), &gidx, NULL) != SY_OK)
		return sy_fail(err, SY_E_INVALID, __func__,
		               "key \"%.*s\" does not start with a row number: decimal, no sign, no "
		               "leading zero, at most 18446744073709551615",
		               shown_bytes(key_bytes), key);
	const char *field = at + 1;
	size_t field_bytes = key_bytes - (size_t)(field - key);
	const char *fault = sy_name_fault(field, field_bytes);
	if (fault != NULL)
		return sy_fail(err, SY_E_INVALID, __func__, "the field of key \"%.*s\" %s",
		               shown_bytes(key_bytes), key, fault);
	*ret_gidx = gidx;
	*ret_field = field;
	*ret_field_bytes = field_bytes;
	return SY_OK;
}
