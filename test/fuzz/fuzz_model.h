/* A naive model of the values of a unit: a list of keys and what was put there last, and the
 * releases that were accepted and are not known to be done. */
#ifndef SY_FUZZ_MODEL_H
#define SY_FUZZ_MODEL_H

#include "fuzz_blob.h"

enum { MODEL_ENTRIES = 256, MODEL_RELEASES = 256, MODEL_FIELDS = 4 };

struct model_entry {
	uint32_t ns;
	uint64_t row;
	struct sy_span field;
	uint64_t seq;                     /* of its put among puts and releases */
	uint64_t offset, nbytes, dim0;
	uint64_t generation;
	uint64_t blob_offset, blob_bytes; /* the region it lies in */
	uint8_t dtype, kind;
};

struct model_release {
	bool is_open;
	uint32_t ns;
	const uint64_t *rows;
	uint32_t row_count, field_count;
	struct sy_span fields[MODEL_FIELDS];
	bool all_fields;
	uint64_t seq;
	uint64_t match_count; /* entries it was to clear */
	bool was_alone;       /* no other one was open beside it */
};

struct model {
	struct model_entry entries[MODEL_ENTRIES];
	struct model_release releases[MODEL_RELEASES];
	uint32_t entry_count, release_count;
	uint64_t seq;
};

static inline struct model_entry *model_find(struct model *model, uint32_t ns, uint64_t row,
                                             struct sy_span field)
{
	for (uint32_t i = 0; i < model->entry_count; i++) {
		struct model_entry *e = &model->entries[i];
		if (e->ns == ns && e->row == row && sy_span_equal(e->field, field))
			return e;
	}
	return NULL;
}

static inline bool model_clears(const struct model_release *r, const struct model_entry *e)
{
	bool has_row = false, has_field = r->all_fields;
	for (uint32_t i = 0; i < r->row_count && !has_row; i++)
		has_row = r->rows[i] == e->row;
	for (uint32_t i = 0; i < r->field_count && !has_field; i++)
		has_field = sy_span_equal(r->fields[i], e->field);
	return has_row && has_field && r->ns == e->ns && e->seq < r->seq;
}

/* Does a release that is open clear it, at a time that is not known? */
static inline bool model_may_be_gone(const struct model *model, const struct model_entry *e)
{
	for (uint32_t i = 0; i < model->release_count; i++) {
		if (model->releases[i].is_open && model_clears(&model->releases[i], e))
			return true;
	}
	return false;
}

/* No entry that stands lies there. */
static inline bool model_is_free(const struct model *model, uint64_t offset, uint64_t nbytes)
{
	for (uint32_t i = 0; i < model->entry_count; i++) {
		const struct model_entry *e = &model->entries[i];
		bool overlaps = offset < e->blob_offset + e->blob_bytes &&
		                e->blob_offset < offset + nbytes;
		if (overlaps && !model_may_be_gone(model, e))
			return false;
	}
	return true;
}

static inline void model_put(struct model *model, uint32_t ns, const sy_index *index,
                             uint64_t offset, uint64_t generation)
{
	uint64_t seq = ++model->seq;
	for (uint32_t c = 0; c < index->column_count; c++) {
		const sy_column *column = &index->columns[c];
		const struct sy_span field = {(const uint8_t *)column->field, column->field_bytes};
		uint64_t at = column->base;
		for (uint32_t k = 0; k < column->row_count; k++) {
			uint64_t extent = sy_column_extent(column, k);
			struct model_entry *e = model_find(model, ns, index->rows[k], field);
			if (e == NULL)
				e = &model->entries[model->entry_count++];
			FUZZ_CHECK(model->entry_count < MODEL_ENTRIES);
			*e = (struct model_entry){
				.ns = ns, .row = index->rows[k], .field = field, .seq = seq,
				.offset = offset + at, .nbytes = sy_column_entry_bytes(column, extent),
				.dim0 = sy_column_entry_dim0(column, extent), .generation = generation,
				.blob_offset = offset, .blob_bytes = index->blob_bytes,
				.dtype = (uint8_t)column->dtype, .kind = (uint8_t)column->kind};
			at += sy_align_up(e->nbytes, SY_ENTRY_ALIGN_BYTES);
		}
	}
}

static inline uint64_t model_matches(const struct model *model, const struct model_release *r)
{
	uint64_t count = 0;
	for (uint32_t i = 0; i < model->entry_count; i++)
		count += model_clears(r, &model->entries[i]);
	return count;
}

/* The rows stay where they are until it is done. */
static inline struct model_release *model_release_begin(struct model *model, uint32_t ns,
                                                        const uint64_t *rows, uint32_t row_count)
{
	FUZZ_CHECK(model->release_count < MODEL_RELEASES);
	struct model_release *r = &model->releases[model->release_count];
	*r = (struct model_release){.is_open = true, .ns = ns, .rows = rows, .row_count = row_count,
	                            .seq = ++model->seq, .was_alone = true};
	for (uint32_t i = 0; i < model->release_count; i++) {
		if (model->releases[i].is_open) {
			r->was_alone = false;
			model->releases[i].was_alone = false;
		}
	}
	model->release_count++;
	return r;
}

static inline void model_release_done(struct model *model, struct model_release *r)
{
	for (uint32_t i = 0; i < model->entry_count;) {
		if (model_clears(r, &model->entries[i]))
			model->entries[i] = model->entries[--model->entry_count];
		else
			i++;
	}
	r->is_open = false;
}

/* It is answered: so many entries are gone by it. What was overwritten on the way is not. */
static inline void model_release_answered(struct model *model, struct model_release *r,
                                          uint64_t count)
{
	FUZZ_CHECK(count <= r->match_count);
	if (r->was_alone)
		FUZZ_CHECK(count >= model_matches(model, r));
	model_release_done(model, r);
}

static inline void model_release_all(struct model *model)
{
	for (uint32_t i = 0; i < model->release_count; i++) {
		if (model->releases[i].is_open)
			model_release_done(model, &model->releases[i]);
	}
}

#endif
