/* Element types, kinds and shapes: the part of the index that the core needs too. */
#include <slabyard/index.h>

/* Products stay below this, so that sums of a few of them do not overflow 64 bits. */
static const uint64_t unit_max_bytes = (uint64_t)1 << 62;

uint32_t sy_dtype_bytes(sy_dtype dtype)
{
	switch (dtype) {
#define SY_DTYPE_BYTES(name, value, bytes, text) \
	case name: \
		return bytes;
		SY_DTYPE_LIST(SY_DTYPE_BYTES)
#undef SY_DTYPE_BYTES
	}
	return 0;
}

const char *sy_dtype_name(sy_dtype dtype)
{
	switch (dtype) {
#define SY_DTYPE_NAME(name, value, bytes, text) \
	case name: \
		return text;
		SY_DTYPE_LIST(SY_DTYPE_NAME)
#undef SY_DTYPE_NAME
	}
	return "unknown";
}

const char *sy_kind_name(sy_kind kind)
{
	switch (kind) {
#define SY_KIND_NAME(name, value, text) \
	case name: \
		return text;
		SY_KIND_LIST(SY_KIND_NAME)
#undef SY_KIND_NAME
	}
	return "unknown";
}

/* The zeros of a tail make the unit empty but do not excuse the others from the limit: array
 * libraries refuse such a shape as well. */
bool sy_shape_unit_bytes(sy_dtype dtype, const sy_shape *shape, uint64_t *ret_bytes)
{
	uint64_t bytes = sy_dtype_bytes(dtype);
	bool empty = false;
	if (bytes == 0 || shape->rank > SY_RANK_MAX)
		return false;
	for (uint32_t i = 0; i + 1 < shape->rank; i++) {
		if (shape->tail[i] == 0)
			empty = true;
		else if (__builtin_mul_overflow(bytes, shape->tail[i], &bytes) || bytes > unit_max_bytes)
			return false;
	}
	*ret_bytes = empty ? 0 : bytes;
	return true;
}

static bool has_empty_unit(const sy_column *column)
{
	if (column->kind != SY_KIND_TENSOR)
		return false;
	for (uint32_t i = 0; i + 1 < column->shape.rank && i < SY_TAIL_MAX; i++) {
		if (column->shape.tail[i] == 0)
			return true;
	}
	return false;
}

uint64_t sy_column_entry_bytes(const sy_column *column, uint64_t extent)
{
	return has_empty_unit(column) ? 0 : extent;
}

uint64_t sy_column_entry_dim0(const sy_column *column, uint64_t extent)
{
	uint64_t unit_bytes;
	if (column->kind != SY_KIND_TENSOR || column->shape.rank == 0)
		return 0;
	if (has_empty_unit(column))
		return extent;
	if (!sy_shape_unit_bytes(column->dtype, &column->shape, &unit_bytes))
		return 0;
	return extent / unit_bytes;
}

uint64_t sy_column_extent(const sy_column *column, uint32_t k)
{
	return column->extents != NULL ? column->extents[k] : column->extent;
}
