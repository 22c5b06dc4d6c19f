/* One-entry blobs made by hand, as a framework above the store would, and a pattern
 * for their bytes. */
#ifndef SY_TEST_STORE_BLOB_H
#define SY_TEST_STORE_BLOB_H

#include <slabyard/slabyard.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct store_blob {
	sy_store_blob blob;
	sy_segment segments[2];
	uint64_t row;
	uint8_t index[512];
};

/* Row `row`, field `field`, these bytes, borrowed. */
static inline void store_blob_make(struct store_blob *made, uint32_t unit_id, uint64_t row,
                                   const char *field, const void *data, uint64_t nbytes)
{
	sy_column column = {.field = field, .field_bytes = strlen(field), .kind = SY_KIND_BYTES,
	                    .row_count = 1, .extent = nbytes};
	sy_index index = {.rows = &made->row, .row_count = 1, .columns = &column, .column_count = 1};

	made->row = row;
	sy_blob_id_new(&index.blob_id);
	if (sy_index_layout(&index, NULL) != SY_OK ||
	    sy_index_encode(&index, made->index, sizeof made->index, NULL) != SY_OK)
		abort();
	made->segments[0] = (sy_segment){made->index, 0, index.index_bytes};
	made->segments[1] = (sy_segment){data, column.base, nbytes};
	made->blob = (sy_store_blob){.segments = made->segments, .segment_count = 2,
	                             .nbytes = index.blob_bytes, .entry_count = 1,
	                             .unit_id = unit_id, .blob_id = index.blob_id};
}

/* Words that no other salt has in its place; nbytes is a number of whole ones. */
static inline void fill_words(uint8_t *memory, size_t nbytes, uint64_t salt)
{
	uint64_t *words = (uint64_t *)(void *)memory;

	for (size_t i = 0; i < nbytes / sizeof *words; i++)
		words[i] = salt << 32 ^ i;
}

static inline bool holds_words(const void *memory, size_t nbytes, uint64_t salt)
{
	const uint64_t *words = memory;
	size_t i = 0;

	while (i < nbytes / sizeof *words && words[i] == (salt << 32 ^ i))
		i++;
	return i == nbytes / sizeof *words;
}

#endif
