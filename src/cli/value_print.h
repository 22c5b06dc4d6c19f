/* Values of entries as JSON.
 *
 *   tensor      numbers; true and false; arrays by shape; a complex number is [re, im]
 *   utf8        a string
 *   json        as it stands; json-null is null
 *   bytes, msgpack, pickle    {"$bytes": "<base64>"}, {"$msgpack": ...}, {"$pickle": ...}
 *
 * Floats have digits that read back as the same double, and a point or an exponent, so that
 * they stay floats; those that JSON cannot write are {"$float": "nan"} (or "inf",
 * "-inf"). A utf8 value that is no UTF-8 and a json value that is no JSON, which only a program
 * can have put, are shown as {"$bytes": ...}. */
#ifndef SY_VALUE_PRINT_H
#define SY_VALUE_PRINT_H

#include <slabyard/client.h>

#include "text.h"

/* Adds the value. A tensor whose bytes do not fit its shape is shown as {"$bytes": ...}. */
void sy_value_print(struct sy_text *out, const sy_value *value);

/* Adds a string in quotes: UTF-8 as it is, control characters, quotes and backslashes escaped.
 * Bytes that are no UTF-8 become U+FFFD. */
void sy_string_print(struct sy_text *out, const char *text, size_t bytes);

#endif
