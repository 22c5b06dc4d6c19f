/* One character of UTF-8. */
#ifndef SY_UTF8_H
#define SY_UTF8_H

#include <stddef.h>

/* Bytes (1..4) of the character at text, which has `bytes` left; 0 if there is none: nothing
 * left, cut off, an overlong form, a surrogate, over U+10FFFF, or no UTF-8 at all. */
size_t sy_utf8_bytes(const void *text, size_t bytes);

#endif
