/* Where each table lies in the arena, and the first state of the tables. */
#ifndef SY_LAYOUT_H
#define SY_LAYOUT_H

#include "arena.h"

/* Bytes of the arena of such a core; 0 if a parameter is out of its range. With a core (which
 * lies in a zeroed arena of that size) it also sets core->params, core->arena_bytes, and every
 * pool, bucket array and table of core->tables and core->volatiles. Bucket arrays:
 *   key, row           max_entries         ids of blobs      max_entries / 4
 *   names of pins      max_pins            names of blobs    max_entries / 16
 *   sessions (three)   max_sessions        names, shapes     as many as items
 * Job rows and fields: row r of job j is at job_rows_at + (j * SY_ROWS_PER_RELEASE_MAX + r) * 8,
 * and likewise its fields. */
uint64_t sy_layout(const struct sy_core_params *params, struct sy_core *core);

/* The tables of a core just laid out: the slab one hole, counters at 1, the secret of the
 * hashes from the seed. */
void sy_tables_init(struct sy_core *core);

/* A u32 of a bucket array. */
static inline uint32_t *sy_bucket_at(struct sy_core *core, uint64_t buckets_at, uint32_t bucket)
{
	return (uint32_t *)(void *)((char *)core + buckets_at) + bucket;
}

/* Row `row` and field `field` of a job. */
static inline uint64_t *sy_job_row_at(struct sy_core *core, uint32_t job, uint32_t row)
{
	uint64_t at = (uint64_t)job * SY_ROWS_PER_RELEASE_MAX + row;
	return (uint64_t *)(void *)((char *)core + core->volatiles.job_rows_at) + at;
}

static inline uint16_t *sy_job_field_at(struct sy_core *core, uint32_t job, uint32_t field)
{
	uint64_t at = (uint64_t)job * SY_FIELDS_PER_REQUEST_MAX + field;
	return (uint16_t *)(void *)((char *)core + core->volatiles.job_fields_at) + at;
}

#endif
