#include "hole.h"

#include "guard.h"

/* The tree of holes: an AVL tree. Its height is below 1.45 log2(holes + 2), so at most 20 million
 * holes recurse 36 deep. */

static int height_of(struct sy_core *core, uint32_t index)
{
	return index != 0 ? sy_region_at(core, index)->height : 0;
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
	struct sy_region *node = sy_region_at(core, index);
	uint32_t top_index = node->right;
	struct sy_region *top = sy_region_at(core, top_index);
	node->right = top->left;
	top->left = index;
	set_height(core, node);
	set_height(core, top);
	return top_index;
}

static uint32_t rotate_right(struct sy_core *core, uint32_t index)
{
	struct sy_region *node = sy_region_at(core, index);
	uint32_t top_index = node->left;
	struct sy_region *top = sy_region_at(core, top_index);
	node->left = top->right;
	top->right = index;
	set_height(core, node);
	set_height(core, top);
	return top_index;
}

/* The root of this subtree, balanced again after one of its children changed by one level. */
static uint32_t balance(struct sy_core *core, uint32_t index)
{
	struct sy_region *node = sy_region_at(core, index);
	int lean = height_of(core, node->left) - height_of(core, node->right);
	if (lean > 1) {
		struct sy_region *left = sy_region_at(core, node->left);
		if (height_of(core, left->left) < height_of(core, left->right))
			node->left = rotate_left(core, node->left);
		return rotate_right(core, index);
	}
	if (lean < -1) {
		struct sy_region *right = sy_region_at(core, node->right);
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
	struct sy_region *node = sy_region_at(core, root);
	if (comes_before(sy_region_at(core, index), node))
		node->left = tree_add(core, node->left, index);
	else
		node->right = tree_add(core, node->right, index);
	return balance(core, root);
}

/* Takes the first node out of a tree that has one. */
static uint32_t tree_take_first(struct sy_core *core, uint32_t root, uint32_t *ret_first)
{
	struct sy_region *node = sy_region_at(core, root);
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
	struct sy_region *node = sy_region_at(core, root);
	if (root == index) {
		uint32_t first, right = node->right;
		if (right == 0)
			return node->left;
		right = tree_take_first(core, right, &first);
		sy_region_at(core, first)->left = node->left;
		sy_region_at(core, first)->right = right;
		return balance(core, first);
	}
	if (comes_before(sy_region_at(core, index), node))
		node->left = tree_drop(core, node->left, index);
	else
		node->right = tree_drop(core, node->right, index);
	return balance(core, root);
}

void sy_hole_enter(struct sy_core *core, uint32_t index)
{
	struct sy_region *hole = sy_region_at(core, index);
	hole->is_hole = 1;
	hole->blob = 0;
	hole->left = hole->right = 0;
	hole->height = 1;
	struct sy_space *space = &core->tables.spaces[hole->space];
	space->hole_root = tree_add(core, space->hole_root, index);
	space->hole_count++;
	space->free_bytes += hole->bytes;
}

void sy_hole_leave(struct sy_core *core, uint32_t index)
{
	struct sy_region *hole = sy_region_at(core, index);
	struct sy_space *space = &core->tables.spaces[hole->space];
	space->hole_root = tree_drop(core, space->hole_root, index);
	space->hole_count--;
	space->free_bytes -= hole->bytes;
	hole->is_hole = 0;
	hole->left = hole->right = 0;
	hole->height = 0;
}

uint32_t sy_hole_fit(struct sy_core *core, enum sy_space_id space, uint64_t bytes)
{
	uint32_t best = 0, index = core->tables.spaces[space].hole_root;
	while (index != 0) {
		const struct sy_region *node = sy_region_at(core, index);
		if (node->bytes >= bytes)
			best = index;
		index = node->bytes >= bytes ? node->left : node->right;
	}
	return best;
}

uint64_t sy_region_largest_hole(struct sy_core *core, enum sy_space_id space)
{
	uint64_t bytes = 0;
	uint32_t index = core->tables.spaces[space].hole_root;
	while (index != 0) {
		bytes = sy_region_at(core, index)->bytes;
		index = sy_region_at(core, index)->right;
	}
	return bytes;
}

/* Walks a subtree in order. `last` is the hole before it, or 0; each level lowers the height, so
 * the recursion ends whatever the links say. */
static const char *tree_fault(struct sy_core *core, uint32_t index, uint32_t *last,
                              uint32_t *count)
{
	const struct sy_region *node = sy_region_at(core, index);
	const uint32_t touched = core->tables.regions.touched;
	const char *fault = NULL;
	if (index > touched || node->left > touched || node->right > touched)
		return "the tree of holes leaves its pool";
	int left = height_of(core, node->left), right = height_of(core, node->right);
	if (!node->is_hole)
		return "a region that is no hole stands in the tree of holes";
	if (node->height != (left > right ? left : right) + 1 || left - right > 1 || right - left > 1)
		return "the tree of holes is out of balance";
	if (node->space >= SY_SPACE_COUNT || ++*count > core->tables.spaces[node->space].hole_count)
		return "the tree of holes has more nodes than holes";
	if (node->left != 0)
		fault = tree_fault(core, node->left, last, count);
	if (fault == NULL && *last != 0 && !comes_before(sy_region_at(core, *last), node))
		fault = "the tree of holes is out of order";
	*last = index;
	if (fault == NULL && node->right != 0)
		fault = tree_fault(core, node->right, last, count);
	return fault;
}

const char *sy_hole_fault(struct sy_core *core, enum sy_space_id id)
{
	const struct sy_space *space = &core->tables.spaces[id];
	uint32_t last = 0, count = 0;
	const char *fault = NULL;
	if (space->hole_root != 0)
		fault = tree_fault(core, space->hole_root, &last, &count);
	if (fault == NULL && count != space->hole_count)
		fault = "a hole is missing in the tree";
	return fault;
}
