/* A commit's way into the tables: is there room for its entries, and their making. */
#include "blob.h"
#include "entry.h"
#include "guard.h"
#include "intern.h"

/* Entries given back at once for a commit that is short of them, or of names or shapes. */
enum { REAP_FOR_ROOM = 4 * SY_ENTRIES_PER_BLOB_MAX };

/* Names are sorted, so a field that stands in several columns stands in neighbours. */
static struct sy_span column_name(const sy_column *column)
{
	return (struct sy_span){ (const uint8_t *)column->field, column->field_bytes };
}

static uint32_t new_field_count(struct sy_core *core, const sy_index *index)
{
	uint32_t count = 0;
	struct sy_span last = {0};
	for (uint32_t i = 0; i < index->column_count; i++) {
		const sy_column *column = &index->columns[i];
		if (column->row_count == 0)
			continue;
		struct sy_span name = column_name(column);
		if (!sy_span_equal(name, last) && sy_name_find(core, &core->tables.fields, name) == 0)
			count++;
		last = name;
	}
	return count;
}

/* New shapes may repeat anywhere among the columns. They are told apart by taking them for a
 * moment; once the table is full, all that are still not found count. */
static uint32_t new_shape_count(struct sy_core *core, const sy_index *index)
{
	uint32_t free_before = core->tables.shapes.pool.capacity - core->tables.shapes.pool.used;
	uint32_t missing = 0, taken = 0, shape;
	for (uint32_t i = 0; i < index->column_count; i++, taken++) {
		if (!sy_shape_take(core, &index->columns[i].shape, &shape))
			break;
	}
	uint32_t free_after = core->tables.shapes.pool.capacity - core->tables.shapes.pool.used;
	for (uint32_t i = taken; i < index->column_count; i++) {
		if (!sy_shape_find(core, &index->columns[i].shape, &shape))
			missing++;
	}
	for (uint32_t i = 0; i < taken; i++) {
		if (sy_shape_find(core, &index->columns[i].shape, &shape))
			sy_shape_give(core, shape, 1);
	}
	return free_before - free_after + missing;
}

/* Entries, fields or shapes, in the order of sy_entry_room. */
static uint32_t need_of(struct sy_core *core, const sy_index *index, uint32_t i)
{
	return i == 0 ? index->entry_count
		: i == 1 ? new_field_count(core, index) : new_shape_count(core, index);
}

enum sy_resource sy_entry_room(struct sy_core *core, const sy_index *index, uint64_t *ret_need,
                               uint64_t *ret_free)
{
	const struct sy_pool *pools[] = {
		&core->tables.entries, &core->tables.fields.pool, &core->tables.shapes.pool,
	};
	const enum sy_resource resources[] = {
		SY_RESOURCE_ENTRIES, SY_RESOURCE_FIELDS, SY_RESOURCE_SHAPES,
	};
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t left = pools[i]->capacity - pools[i]->used;
		uint32_t need = need_of(core, index, i);
		/* What is gone and only not yet given back is no reason to refuse. */
		if (need > left && core->tables.reap_count > 0) {
			sy_entry_reap(core, REAP_FOR_ROOM);
			left = pools[i]->capacity - pools[i]->used;
			need = need_of(core, index, i);
		}
		if (need > left) {
			*ret_need = need;
			*ret_free = left;
			return resources[i];
		}
	}
	return SY_RESOURCE_NONE;
}

/* Makes the entries of one column and hangs them behind `tail` of the blob's list. */
static uint32_t add_column(struct sy_core *core, uint32_t blob_index, const sy_index *index,
                           const sy_column *column, uint8_t flags, uint32_t tail)
{
	struct sy_blob *blob = sy_blob_at(core, blob_index);
	uint64_t offset = column->base;
	uint32_t shape = 0;
	uint32_t field = sy_name_take(core, &core->tables.fields, column_name(column));
	bool taken = sy_shape_take(core, &column->shape, &shape);
	SY_ASSERT(field != 0 && taken);
	sy_name_hold(core, &core->tables.fields, field, column->row_count - 1);
	sy_shape_hold(core, shape, column->row_count - 1);
	for (uint32_t k = 0; k < column->row_count; k++) {
		uint32_t ordinal = column->ordinals != NULL ? column->ordinals[k] : k;
		uint32_t entry_index = sy_pool_take(core, &core->tables.entries);
		SY_ASSERT(entry_index != 0);
		struct sy_entry *entry = sy_entry_at(core, entry_index);
		entry->row = index->rows[ordinal];
		entry->extent = sy_column_extent(column, k);
		entry->blob = blob_index;
		entry->offset64 = (uint32_t)(offset / SY_ENTRY_ALIGN_BYTES);
		entry->shape = shape;
		entry->field = (uint16_t)field;
		entry->ns = blob->ns;
		entry->dtype = (uint8_t)column->dtype;
		entry->kind = (uint8_t)column->kind;
		if (!SY_MUTANT(5) || 2 * ordinal + 1 <= index->row_count) {
			entry->flags = flags;
			blob->live_count++;
		}
		if (tail != 0)
			sy_entry_at(core, tail)->blob_next = entry_index;
		else
			blob->entry_head = entry_index;
		tail = entry_index;
		offset += sy_align_up(sy_column_entry_bytes(column, entry->extent), SY_ENTRY_ALIGN_BYTES);
	}
	return tail;
}

uint64_t sy_entry_add_all(struct sy_core *core, uint32_t blob_index, const sy_index *index,
                          bool pending, uint64_t now_ns)
{
	struct sy_blob *blob = sy_blob_at(core, blob_index);
	uint8_t flags = SY_ENTRY_LIVE | (pending ? SY_ENTRY_PENDING : 0);
	uint32_t tail = 0;
	SY_ASSERT(blob->state == SY_BLOB_ALLOCATED && blob->entry_head == 0);
	SY_ASSERT(blob->entry_count == index->entry_count && index->entry_count > 0);
	blob->accept_seq = core->tables.next_accept_seq++;
	for (uint32_t i = 0; i < index->column_count; i++) {
		if (index->columns[i].row_count > 0)
			tail = add_column(core, blob_index, index, &index->columns[i], flags, tail);
	}
	sy_blob_move(core, blob_index, pending ? SY_BLOB_COMMITTING : SY_BLOB_PUBLISHED);
	return sy_entry_link_all(core, blob_index, true, now_ns);
}
