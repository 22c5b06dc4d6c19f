#include "region.h"

#include "guard.h"

static struct sy_region *region_at(struct sy_core *core, uint32_t index)
{
	return sy_pool_at(core, &core->tables.regions, index);
}

/* The tree of holes: an AVL tree. Its height is below 1.45 log2(holes + 2), so at most 20 million
 * holes recurse 36 deep. */

static int height_of(struct sy_core *core, uint32_t index)
{
	return index != 0 ? region_at(core, index)->height : 0;
}

static bool comes_before(const struct sy_region *a, const struct sy_region *b)
{
	return a->bytes != b->bytes ? a->bytes < b->bytes : a->offset < b->offset;
}

static void set_height(struct sy_core *core, struct sy_region *node)
{
	int left = height_of(core, node->left), right = height_of(core, node->right);
	node->height = (uint8_t)((left > right ? left : right) + 1);
}

static uint32_t rotate_left(struct sy_core *core, uint32_t index)
{
	struct sy_region *node = region_at(core, index);
	uint32_t top_index = node->right;
	struct sy_region *top = region_at(core, top_index);
	node->right = top->left;
	top->left = index;
	set_height(core, node);
	set_height(core, top);
	return top_index;
}

static uint32_t rotate_right(struct sy_core *core, uint32_t index)
{
	struct sy_region *node = region_at(core, index);
	uint32_t top_index = node->left;
	struct sy_region *top = region_at(core, top_index);
	node->left = top->right;
	top->right = index;
	set_height(core, node);
	set_height(core, top);
	return top_index;
}

/* The root of this subtree, balanced again after one of its children changed by one level. */
static uint32_t balance(struct sy_core *core, uint32_t index)
{
	struct sy_region *node = region_at(core, index);
	int lean = height_of(core, node->left) - height_of(core, node->right);
	if (lean > 1) {
		struct sy_region *left = region_at(core, node->left);
		if (height_of(core, left->left) < height_of(core, left->right))
			node->left = rotate_left(core, node->left);
		return rotate_right(core, index);
	}
	if (lean < -1) {
		struct sy_region *right = region_at(core, node->right);
		if (height_of(core, right->right) < height_of(core, right->left))
			node->right = rotate_right(core, node->right);
		return rotate_left(core, index);
	}
	set_height(core, node);
	return index;
}

static uint32_t tree_add(struct sy_core *core, uint32_t root, uint32_t index)
{
	if (root == 0)
		return index;
	struct sy_region *node = region_at(core, root);
	if (comes_before(region_at(core, index), node))
		node->left = tree_add(core, node->left, index);
	else
		node->right = tree_add(core, node->right, index);
	return balance(core, root);
}

/* Takes the first node out of a tree that has one. */
static uint32_t tree_take_first(struct sy_core *core, uint32_t root, uint32_t *ret_first)
{
	struct sy_region *node = region_at(core, root);
	if (node->left == 0) {
		*ret_first = root;
		return node->right;
	}
	node->left = tree_take_first(core, node->left, ret_first);
	return balance(core, root);
}

static uint32_t tree_drop(struct sy_core *core, uint32_t root, uint32_t index)
{
	SY_ASSERT(root != 0);
	if (root == 0)
		return 0;
	struct sy_region *node = region_at(core, root);
	if (root == index) {
		uint32_t first, right = node->right;
		if (right == 0)
			return node->left;
		right = tree_take_first(core, right, &first);
		region_at(core, first)->left = node->left;
		region_at(core, first)->right = right;
		return balance(core, first);
	}
	if (comes_before(region_at(core, index), node))
		node->left = tree_drop(core, node->left, index);
	else
		node->right = tree_drop(core, node->right, index);
	return balance(core, root);
}

static void hole_enter(struct sy_core *core, uint32_t index)
{
	struct sy_region *hole = region_at(core, index);
	hole->is_hole = 1;
	hole->blob = 0;
	hole->left = hole->right = 0;
	hole->height = 1;
	core->tables.hole_root = tree_add(core, core->tables.hole_root, index);
	core->tables.hole_count++;
	core->tables.bytes[SY_BLOB_FREE] += hole->bytes;
}

static void hole_leave(struct sy_core *core, uint32_t index)
{
	struct sy_region *hole = region_at(core, index);
	core->tables.hole_root = tree_drop(core, core->tables.hole_root, index);
	core->tables.hole_count--;
	core->tables.bytes[SY_BLOB_FREE] -= hole->bytes;
	hole->is_hole = 0;
	hole->left = hole->right = 0;
	hole->height = 0;
}

/* The smallest hole of at least so many bytes, the lowest of equals; or 0. */
static uint32_t best_fit(struct sy_core *core, uint64_t bytes)
{
	uint32_t best = 0, index = core->tables.hole_root;
	while (index != 0) {
		const struct sy_region *node = region_at(core, index);
		if (node->bytes >= bytes)
			best = index;
		index = node->bytes >= bytes ? node->left : node->right;
	}
	return best;
}

/* Cuts what is beyond `bytes` off a region that is in no tree, as a new one behind it. */
static void cut(struct sy_core *core, uint32_t index, uint64_t bytes)
{
	uint32_t rest_index = sy_pool_take(core, &core->tables.regions);
	struct sy_region *region = region_at(core, index), *rest = region_at(core, rest_index);
	rest->offset = region->offset + bytes;
	rest->bytes = region->bytes - bytes;
	rest->prev = index;
	rest->next = region->next;
	if (rest->next != 0)
		region_at(core, rest->next)->prev = rest_index;
	region->next = rest_index;
	region->bytes = bytes;
}

/* Joins a region that is in no tree with the one behind it, which is in none either. */
static void join_next(struct sy_core *core, uint32_t index)
{
	struct sy_region *region = region_at(core, index);
	uint32_t next_index = region->next;
	const struct sy_region *next = region_at(core, next_index);
	region->bytes += next->bytes;
	region->next = next->next;
	if (region->next != 0)
		region_at(core, region->next)->prev = index;
	sy_pool_give(core, &core->tables.regions, next_index);
}

static bool descriptors_left(const struct sy_core *core, uint32_t count)
{
	return core->tables.regions.capacity - core->tables.regions.used >= count;
}

/* False if bytes can be in no slab; otherwise what they take. */
static bool rounded(const struct sy_core *core, uint64_t bytes, uint64_t *ret_bytes)
{
	if (bytes > core->params.slab_bytes)
		return false;
	*ret_bytes = sy_align_up(sy_max_u64(bytes, 1), SY_ENTRY_ALIGN_BYTES);
	return true;
}

void sy_region_init(struct sy_core *core)
{
	uint32_t index = sy_pool_take(core, &core->tables.regions);
	SY_ASSERT(index != 0);
	region_at(core, index)->bytes = core->params.slab_bytes;
	core->tables.region_first = index;
	hole_enter(core, index);
}

uint32_t sy_region_take(struct sy_core *core, uint64_t bytes)
{
	uint64_t need;
	if (!rounded(core, bytes, &need))
		return 0;
	uint32_t index = best_fit(core, need);
	if (index == 0)
		return 0;
	bool whole = region_at(core, index)->bytes == need;
	if (!whole && !descriptors_left(core, 1))
		return 0;
	hole_leave(core, index);
	if (!whole) {
		cut(core, index, need);
		hole_enter(core, region_at(core, index)->next);
	}
	return index;
}

void sy_region_give(struct sy_core *core, uint32_t index)
{
	struct sy_region *region = region_at(core, index);
	SY_ASSERT(index != 0 && !region->is_hole && region->bytes > 0);
	if (region->next != 0 && region_at(core, region->next)->is_hole) {
		hole_leave(core, region->next);
		join_next(core, index);
	}
	if (region->prev != 0 && region_at(core, region->prev)->is_hole) {
		index = region->prev;
		hole_leave(core, index);
		join_next(core, index);
	}
	hole_enter(core, index);
}

uint32_t sy_region_carve(struct sy_core *core, uint64_t offset, uint64_t bytes)
{
	uint64_t need;
	uint32_t index = core->tables.region_first;
	if (!rounded(core, bytes, &need) || offset % SY_ENTRY_ALIGN_BYTES != 0)
		return 0;
	for (uint32_t i = 0; i < core->tables.regions.used && index != 0; i++) {
		const struct sy_region *at = region_at(core, index);
		if (at->offset <= offset && offset - at->offset < at->bytes)
			break;
		index = at->next;
	}
	if (index == 0)
		return 0;
	const struct sy_region *hole = region_at(core, index);
	uint64_t before = offset - hole->offset;
	if (!hole->is_hole || need > hole->bytes - before || !descriptors_left(core, 2))
		return 0;
	hole_leave(core, index);
	if (before > 0) {
		cut(core, index, before);
		uint32_t front = index;
		index = hole->next;
		hole_enter(core, front);
	}
	if (region_at(core, index)->bytes > need) {
		cut(core, index, need);
		hole_enter(core, region_at(core, index)->next);
	}
	return index;
}

uint64_t sy_region_free_bytes(const struct sy_core *core)
{
	return core->tables.bytes[SY_BLOB_FREE];
}

uint64_t sy_region_largest_hole(struct sy_core *core)
{
	uint64_t bytes = 0;
	uint32_t index = core->tables.hole_root;
	while (index != 0) {
		bytes = region_at(core, index)->bytes;
		index = region_at(core, index)->right;
	}
	return bytes;
}

uint32_t sy_region_hole_count(const struct sy_core *core)
{
	return core->tables.hole_count;
}

/* Walks a subtree in order. `last` is the hole before it, or 0; each level lowers the height, so
 * the recursion ends whatever the links say. */
static const char *tree_fault(struct sy_core *core, uint32_t index, uint32_t *last,
                              uint32_t *count)
{
	const struct sy_region *node = region_at(core, index);
	const uint32_t touched = core->tables.regions.touched;
	const char *fault = NULL;
	if (index > touched || node->left > touched || node->right > touched)
		return "the tree of holes leaves its pool";
	int left = height_of(core, node->left), right = height_of(core, node->right);
	if (!node->is_hole)
		return "a region that is no hole stands in the tree of holes";
	if (node->height != (left > right ? left : right) + 1 || left - right > 1 || right - left > 1)
		return "the tree of holes is out of balance";
	if (++*count > core->tables.hole_count)
		return "the tree of holes has more nodes than holes";
	if (node->left != 0)
		fault = tree_fault(core, node->left, last, count);
	if (fault == NULL && *last != 0 && !comes_before(region_at(core, *last), node))
		fault = "the tree of holes is out of order";
	*last = index;
	if (fault == NULL && node->right != 0)
		fault = tree_fault(core, node->right, last, count);
	return fault;
}

const char *sy_region_fault(struct sy_core *core)
{
	uint64_t end = 0, free_bytes = 0;
	uint32_t index = core->tables.region_first, prev = 0, holes = 0, count = 0;
	bool after_hole = false;
	for (; index != 0; count++) {
		const struct sy_region *region = region_at(core, index);
		if (count >= core->tables.regions.used || index > core->tables.regions.touched)
			return "more regions are linked than used, or others";
		if (region->prev != prev || region->offset != end || region->bytes == 0
		    || region->bytes % SY_ENTRY_ALIGN_BYTES != 0)
			return "regions do not follow each other";
		if (region->is_hole && (after_hole || region->blob != 0))
			return "two holes side by side, or a hole with a blob";
		if (region->is_hole) {
			holes++;
			free_bytes += region->bytes;
		}
		after_hole = region->is_hole;
		end = region->offset + region->bytes;
		prev = index;
		index = region->next;
	}
	if (count != core->tables.regions.used || end != core->params.slab_bytes)
		return "regions do not cover the slab";
	if (holes != core->tables.hole_count || free_bytes != core->tables.bytes[SY_BLOB_FREE])
		return "the number or bytes of holes is wrong";
	uint32_t last = 0, nodes = 0;
	const char *fault = NULL;
	if (core->tables.hole_root != 0)
		fault = tree_fault(core, core->tables.hole_root, &last, &nodes);
	if (fault == NULL && nodes != holes)
		fault = "a hole is missing in the tree";
	return fault;
}

void sy_region_validate(struct sy_core *core)
{
	SY_ASSERT(sy_region_fault(core) == NULL);
}
