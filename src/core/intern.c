#include "intern.h"

#include "guard.h"
#include "hash.h"
#include "layout.h"

static struct sy_name *name_at(struct sy_core *core, const struct sy_intern *table, uint32_t index)
{
	return sy_pool_at(core, &table->pool, index);
}

static struct sy_shape_item *shape_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.shapes.pool, index);
}

static uint32_t *bucket_of(struct sy_core *core, const struct sy_intern *table, uint32_t hash)
{
	return sy_bucket_at(core, table->buckets_at, sy_range32(hash, table->bucket_count));
}

/* Both kinds of items begin with the link of their chain. */
static void chain_remove(struct sy_core *core, const struct sy_intern *table, uint32_t *link,
                         uint32_t index)
{
	while (*link != 0 && *link != index)
		link = sy_pool_at(core, &table->pool, *link);
	SY_ASSERT(*link == index);
	if (*link == index)
		*link = *(uint32_t *)sy_pool_at(core, &table->pool, index);
}

static uint32_t *name_bucket(struct sy_core *core, const struct sy_intern *table,
                             struct sy_span name)
{
	return bucket_of(core, table, sy_hash_bytes(core, name.bytes, name.data, name.bytes));
}

uint32_t sy_name_find(struct sy_core *core, const struct sy_intern *table, struct sy_span name)
{
	uint32_t index = *name_bucket(core, table, name);
	while (index != 0 && !sy_span_equal(sy_name_text(core, table, index), name))
		index = name_at(core, table, index)->next;
	return index;
}

void sy_name_link(struct sy_core *core, struct sy_intern *table, uint32_t index)
{
	uint32_t *bucket = name_bucket(core, table, sy_name_text(core, table, index));
	name_at(core, table, index)->next = *bucket;
	*bucket = index;
}

uint32_t sy_name_take(struct sy_core *core, struct sy_intern *table, struct sy_span name)
{
	SY_ASSERT(name.bytes >= 1 && name.bytes <= SY_FIELD_MAX_BYTES);
	uint32_t index = sy_name_find(core, table, name);
	if (index == 0) {
		index = sy_pool_take(core, &table->pool);
		if (index == 0)
			return 0;
		struct sy_name *item = name_at(core, table, index);
		memcpy(item->text, name.data, name.bytes);
		item->bytes = (uint16_t)name.bytes;
		sy_name_link(core, table, index);
	}
	name_at(core, table, index)->refs++;
	return index;
}

void sy_name_hold(struct sy_core *core, struct sy_intern *table, uint32_t index, uint32_t refs)
{
	struct sy_name *item = name_at(core, table, index);
	SY_ASSERT(index != 0 && item->refs > 0 && refs <= UINT32_MAX - item->refs);
	item->refs += refs;
}

void sy_name_give(struct sy_core *core, struct sy_intern *table, uint32_t index, uint32_t refs)
{
	struct sy_name *item = name_at(core, table, index);
	SY_ASSERT(index != 0 && item->refs >= refs && refs > 0);
	item->refs -= refs;
	if (item->refs > 0)
		return;
	chain_remove(core, table, name_bucket(core, table, sy_name_text(core, table, index)), index);
	sy_pool_give(core, &table->pool, index);
}

struct sy_span sy_name_text(struct sy_core *core, const struct sy_intern *table, uint32_t index)
{
	const struct sy_name *item = name_at(core, table, index);
	return (struct sy_span){ (const uint8_t *)item->text, item->bytes };
}

/* How many dimensions a shape keeps in its tail. */
static uint32_t tail_count(const sy_shape *shape)
{
	return shape->rank > 0 ? shape->rank - 1 : 0;
}

static bool shapes_equal(const sy_shape *a, const sy_shape *b)
{
	return a->rank == b->rank && memcmp(a->tail, b->tail, tail_count(a) * sizeof a->tail[0]) == 0;
}

static uint32_t *shape_bucket(struct sy_core *core, const sy_shape *shape)
{
	uint32_t hash = sy_hash_bytes(core, shape->rank, shape->tail,
	                              tail_count(shape) * sizeof shape->tail[0]);
	return bucket_of(core, &core->tables.shapes, hash);
}

bool sy_shape_find(struct sy_core *core, const sy_shape *shape, uint32_t *ret_index)
{
	uint32_t index = 0;
	SY_ASSERT(shape->rank <= SY_RANK_MAX);
	if (shape->rank > 0) {
		index = *shape_bucket(core, shape);
		while (index != 0 && !shapes_equal(&shape_at(core, index)->shape, shape))
			index = shape_at(core, index)->next;
		if (index == 0)
			return false;
	}
	*ret_index = index;
	return true;
}

void sy_shape_link(struct sy_core *core, uint32_t index)
{
	struct sy_shape_item *item = shape_at(core, index);
	uint32_t *bucket = shape_bucket(core, &item->shape);
	item->next = *bucket;
	*bucket = index;
}

bool sy_shape_take(struct sy_core *core, const sy_shape *shape, uint32_t *ret_index)
{
	uint32_t index;
	if (!sy_shape_find(core, shape, &index)) {
		index = sy_pool_take(core, &core->tables.shapes.pool);
		if (index == 0)
			return false;
		struct sy_shape_item *item = shape_at(core, index);
		item->shape.rank = shape->rank;
		memcpy(item->shape.tail, shape->tail, tail_count(shape) * sizeof shape->tail[0]);
		sy_shape_link(core, index);
	}
	if (index != 0)
		shape_at(core, index)->refs++;
	*ret_index = index;
	return true;
}

void sy_shape_hold(struct sy_core *core, uint32_t index, uint32_t refs)
{
	if (index == 0)
		return;
	struct sy_shape_item *item = shape_at(core, index);
	SY_ASSERT(item->refs > 0 && refs <= UINT32_MAX - item->refs);
	item->refs += refs;
}

void sy_shape_give(struct sy_core *core, uint32_t index, uint32_t refs)
{
	if (index == 0)
		return;
	struct sy_shape_item *item = shape_at(core, index);
	SY_ASSERT(item->refs >= refs && refs > 0);
	item->refs -= refs;
	if (item->refs > 0)
		return;
	chain_remove(core, &core->tables.shapes, shape_bucket(core, &item->shape), index);
	sy_pool_give(core, &core->tables.shapes.pool, index);
}

const sy_shape *sy_shape_at(struct sy_core *core, uint32_t index)
{
	static const sy_shape scalar;
	return index != 0 ? &shape_at(core, index)->shape : &scalar;
}
