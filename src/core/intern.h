/* Interned names and shapes, with reference counts. Index 0 is none. An item goes when its last
 * reference is given back, and its index may then come to name something else.
 *
 * Who holds references (the audit counts them): every entry of a blob, live or not, one on its
 * field and one on its shape; every blob one on its namespace; every session that is not FREE one
 * on its namespace; every running job one on its namespace and one on each of its fields. */
#ifndef SY_INTERN_H
#define SY_INTERN_H

#include "arena.h"

/* The index of a name, with one more reference; 0 if the table is full. The name is valid. */
uint32_t sy_name_take(struct sy_core *core, struct sy_intern *table, struct sy_span name);
/* The index of a name that is there, no reference taken; 0 if there is none. */
uint32_t sy_name_find(struct sy_core *core, const struct sy_intern *table, struct sy_span name);
/* More references to a name that has one. */
void sy_name_hold(struct sy_core *core, struct sy_intern *table, uint32_t index, uint32_t refs);
void sy_name_give(struct sy_core *core, struct sy_intern *table, uint32_t index, uint32_t refs);
struct sy_span sy_name_text(struct sy_core *core, const struct sy_intern *table, uint32_t index);

/* For rebuild.c: puts an item in use into its bucket, all of which were emptied. */
void sy_name_link(struct sy_core *core, struct sy_intern *table, uint32_t index);
void sy_shape_link(struct sy_core *core, uint32_t index);

/* The same for trailing shapes. A shape of rank 0 is index 0 and needs no reference. */
bool sy_shape_take(struct sy_core *core, const sy_shape *shape, uint32_t *ret_index);
/* The index of a shape that is there, no reference taken. False if there is none. */
bool sy_shape_find(struct sy_core *core, const sy_shape *shape, uint32_t *ret_index);
void sy_shape_hold(struct sy_core *core, uint32_t index, uint32_t refs);
void sy_shape_give(struct sy_core *core, uint32_t index, uint32_t refs);
const sy_shape *sy_shape_at(struct sy_core *core, uint32_t index); /* of 0: rank 0 */

#endif
