/* What the demo's rows hold: made from a seed, or read from a file of rollouts. Producers put
 * it; trainers make it again by themselves and compare, so that what they check against never
 * passed through the store. */
#ifndef SY_DEMO_SOURCE_H
#define SY_DEMO_SOURCE_H

#include <slabyard/client.h>

#include "text.h"

struct sy_demo_file;

struct sy_demo_source {
	uint64_t seed;
	struct sy_demo_file *file; /* NULL: from the seed alone */
	uint32_t rows;             /* a step has at most so many */
	uint32_t steps;
	uint32_t column_count;     /* that producers put */
	const char *const *columns;
	const char *written_back;  /* the column that trainers add */
};

/* Rows of GRPO as trainers get them, in groups of one prompt: token ids, log-probabilities,
 * masks, the experts each token was routed to, and an object; jagged, dense, and an object column.
 * Nothing to free. */
void sy_demo_source_init(struct sy_demo_source *source, uint64_t seed, uint32_t rows,
                         uint32_t steps);

/* A file of JSON lines: each line is a group, each object in it a rollout of the group with its
 * members as columns; what else stands in the line is the same in all its rollouts. A line
 * without objects is a rollout alone. A step takes the next whole groups of at most `rows` rows.
 * rows 0: 512; steps 0: once through the file. SY_E_SYS, SY_E_INVALID. The caller frees it with
 * sy_demo_source_done; forked children may use what was read. */
sy_status sy_demo_source_open(const char *path, uint64_t seed, uint32_t rows, uint32_t steps,
                              struct sy_demo_source *ret_source, sy_error *err);
void sy_demo_source_done(struct sy_demo_source *source);

/* How many rows a step has: 0 .. that - 1. */
uint32_t sy_demo_source_rows(const struct sy_demo_source *source, uint32_t step);
/* The end of the batch of whole groups that begins with this row: what one put takes. */
uint32_t sy_demo_source_batch_end(const struct sy_demo_source *source, uint32_t step,
                                  uint32_t row);

/* The value of a column in a row; column_count names the one that is written back. It points
 * into `scratch`, whose former content is gone, or into the source. False: the row has no such
 * value, or memory is out (scratch->failed). */
bool sy_demo_source_value(const struct sy_demo_source *source, uint32_t step, uint32_t row,
                          uint32_t column, struct sy_text *scratch, sy_value *ret_value);

/* A random number of its own for each (step, index), different for each `what`. */
uint64_t sy_demo_source_random(const struct sy_demo_source *source, uint32_t what, uint32_t step,
                               uint64_t index);

#endif
