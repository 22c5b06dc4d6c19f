/* The names one JSON line has used so far: keys an object, and flat names over all of it. */
#ifndef SY_NAME_SET_H
#define SY_NAME_SET_H

#include "text.h"

struct sy_name_set;

/* NULL: out of memory. */
struct sy_name_set *sy_name_set_new(void);
void sy_name_set_free(struct sy_name_set *set); /* NULL is a no-op */
/* Empty again, its memory kept. */
void sy_name_set_clear(struct sy_name_set *set);

/* Adds a name to a scope (a number the caller gives each object, and one to the flat names).
 * *ret_is_new: false if the scope has it already. False: out of memory. */
bool sy_name_set_add(struct sy_name_set *set, uint32_t scope, const char *name, size_t bytes,
                     bool *ret_is_new);

#endif
