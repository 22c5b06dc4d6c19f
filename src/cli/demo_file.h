/* A file of rollouts in memory, as rows of typed values. */
#ifndef SY_DEMO_FILE_H
#define SY_DEMO_FILE_H

#include <slabyard/client.h>

enum { SY_DEMO_COLUMNS_MAX = 64 };

struct sy_demo_file;

/* See sy_demo_source_open. */
sy_status sy_demo_file_open(const char *path, uint32_t step_rows, struct sy_demo_file **ret_file,
                            sy_error *err);
void sy_demo_file_close(struct sy_demo_file *file); /* NULL is a no-op */

uint32_t sy_demo_file_columns(const struct sy_demo_file *file, const char *const **ret_columns);
bool sy_demo_file_has_column(const struct sy_demo_file *file, const char *name);
/* Once through the file takes so many steps. */
uint32_t sy_demo_file_steps(const struct sy_demo_file *file);

/* Rows of a step, and the first of them in the file. */
uint32_t sy_demo_file_step(const struct sy_demo_file *file, uint32_t step, uint32_t *ret_first);
/* The group of a row of the file: its first row and the one behind its last. */
void sy_demo_file_group(const struct sy_demo_file *file, uint32_t row, uint32_t *ret_first,
                        uint32_t *ret_end);
/* False: the row has no such value. It points into the file's memory. */
bool sy_demo_file_value(const struct sy_demo_file *file, uint32_t row, uint32_t column,
                        sy_value *ret_value);
/* The first truth value of a row, as a rollout's verdict; false where there is none. */
bool sy_demo_file_verdict(const struct sy_demo_file *file, uint32_t row);

#endif
