/* Reads one JSON text (RFC 8259, nothing beyond it) piece by piece, without building a tree.
 *
 * A tree of jansson holds integers of 64 bits with a sign and no more, and prints doubles with
 * other digits than were read. Rows keep numbers exactly as they stand, up to 2^64 - 1 and in
 * arrays of any kind, hence a reader of our own. */
#ifndef SY_JSON_TEXT_H
#define SY_JSON_TEXT_H

#include <slabyard/status.h>

#include "text.h"

enum { SY_JSON_DEPTH_MAX = 256 };

enum sy_json_kind {
	SY_JSON_OBJECT = 1,
	SY_JSON_ARRAY,
	SY_JSON_STRING,
	SY_JSON_NUMBER,
	SY_JSON_TRUE,
	SY_JSON_FALSE,
	SY_JSON_NULL,
};

/* text[bytes] is a NUL. Failures are SY_E_INVALID and name the column, from 1, where the text
 * goes wrong; after one, `at` is of no use. */
struct sy_json {
	const char *text;
	size_t bytes, at;
};

/* What value begins here, after white space; nothing of it is consumed. */
sy_status sy_json_kind_next(struct sy_json *json, enum sy_json_kind *ret_kind, sy_error *err);

/* Consumes this mark after white space; false, consuming white space alone, if another stands
 * here. */
bool sy_json_accept(struct sy_json *json, char mark);
/* The same, but another one is a failure. */
sy_status sy_json_expect(struct sy_json *json, char mark, sy_error *err);

/* Consumes a string and adds its characters in UTF-8 to `out` (NULL: only checks). */
sy_status sy_json_string(struct sy_json *json, struct sy_text *out, sy_error *err);

/* A number as it stands: *ret_integer if it has neither point nor exponent. */
sy_status sy_json_number(struct sy_json *json, size_t *ret_bytes, bool *ret_integer,
                         sy_error *err);

/* Consumes the true, false or null that sy_json_kind_next saw. */
void sy_json_literal(struct sy_json *json, enum sy_json_kind kind);

/* Consumes a value of any kind and adds it to `out` (NULL: only checks) as it stands, without
 * the white space between its parts. */
sy_status sy_json_compact(struct sy_json *json, struct sy_text *out, sy_error *err);

/* Only white space is left. */
sy_status sy_json_end(struct sy_json *json, sy_error *err);

#endif
