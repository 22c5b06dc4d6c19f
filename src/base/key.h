/* Keys "<gidx>@<field>" and the checks on names. */
#ifndef SY_KEY_H
#define SY_KEY_H

#include <slabyard/status.h>

/* Splits a key at its first '@'. The gidx is canonical decimal (no sign, no leading zero, at
 * most 2^64 - 1); the field is what follows, a name without fault, and points into key (which
 * need not end in a NUL). SY_E_INVALID otherwise. */
sy_status sy_key_parse(const char *key, size_t key_bytes, uint64_t *ret_gidx,
                       const char **ret_field, size_t *ret_field_bytes, sy_error *err);

/* NULL if the name may be a field or namespace: valid UTF-8 (no surrogates, no overlong forms),
 * 1..1024 bytes, no NUL; otherwise a static phrase that says what is wrong. */
const char *sy_name_fault(const void *name, size_t name_bytes);

#endif
