/* Filling a sy_error: every failure of ours goes through here. */
#ifndef SY_FAIL_H
#define SY_FAIL_H

#include <slabyard/status.h>
#include <stdarg.h>

/* Sets status, where and message; clears reason, numbers and in_flight; leaves the lent index
 * array alone and sets index_count to 0. err may be NULL. Returns status, so that a caller
 * writes `return sy_fail(err, SY_E_INVALID, __func__, "rank %u is over %u", r, max);`.
 * The formatter is our own, so that base needs no libc: %s %.*s %u %d %zu %lu %llu %x %llx %c %%
 * and `%llu`-style widths are enough; anything else is a bug that lint finds. */
sy_status sy_fail(sy_error *err, sy_status status, const char *where, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* The same for UnitFull: resource is one of the static names bytes, blobs, entries, fields,
 * shapes, pins, sessions, namespaces. */
sy_status sy_fail_full(sy_error *err, const char *where, const char *resource, uint64_t need,
                       uint64_t free, uint64_t largest_hole);

/* Writes at most size - 1 characters and a NUL; returns the length that all would have had. */
size_t sy_format(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
size_t sy_format_list(char *out, size_t size, const char *format, va_list args);

#endif
