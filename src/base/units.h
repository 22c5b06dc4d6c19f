/* Sizes and durations as people write them. */
#ifndef SY_UNITS_H
#define SY_UNITS_H

#include <slabyard/status.h>

/* "64MiB", "1.5GiB", "512mb" (10^6), "4096", "1e9", "2k": a number, then (perhaps after a space)
 * nothing, B, or k/M/G/T with or without iB or B, in any case: kB = 10^3, KiB = 2^10, and so on.
 * A bare small k, m, g, t is the power of ten, a bare large K, M, G, T the power of two.
 * Computed exactly. Fails with SY_E_INVALID: empty, negative, not a number, unknown suffix,
 * not whole bytes, over 2^63 - 1. */
sy_status sy_parse_bytes(const char *text, uint64_t *ret_bytes, sy_error *err);

/* "2", "2s", "500ms", "250us", "10ns", "1.5m", "1h", in any case: seconds if bare. Result in
 * nanoseconds, at most 2^63 - 1. Fails as sy_parse_bytes does. */
sy_status sy_parse_duration(const char *text, uint64_t *ret_ns, sy_error *err);

/* A whole decimal number, no sign, no leading zero, up to 2^64 - 1. */
sy_status sy_parse_u64(const char *text, size_t text_bytes, uint64_t *ret_value, sy_error *err);

/* "1.5 GiB", "320 B", "2 MiB" where exact; at most 16 bytes with the NUL. */
void sy_format_bytes(uint64_t bytes, char out[16]);

enum { SY_DURATION_TEXT_BYTES = 24 };

/* "120s", "500ms", "1ns", in the largest unit that is exact; sy_parse_duration reads it back. */
void sy_format_duration(uint64_t ns, char out[SY_DURATION_TEXT_BYTES]);

#endif
