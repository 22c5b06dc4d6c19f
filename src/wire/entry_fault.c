#include "entry_fault.h"

static bool kind_known(sy_kind kind)
{
	switch (kind) {
#define SY_KIND_CASE(name, value, text) case name:
		SY_KIND_LIST(SY_KIND_CASE)
#undef SY_KIND_CASE
		return true;
	}
	return false;
}

const char *sy_shape_fault(sy_dtype dtype, sy_kind kind, const sy_shape *shape,
                           uint64_t *ret_unit, uint64_t *ret_dim0_max)
{
	if (!kind_known(kind))
		return "has an unknown kind";
	if (sy_dtype_bytes(dtype) == 0)
		return "has an unknown dtype";
	if (shape->rank > SY_RANK_MAX)
		return "has a rank over 8";
	if (kind != SY_KIND_TENSOR) {
		if (dtype != SY_DTYPE_NONE)
			return "has a dtype but is no tensor";
		if (shape->rank != 0)
			return "has a shape but is no tensor";
		*ret_unit = 1;
		*ret_dim0_max = 0;
		return NULL;
	}
	if (dtype == SY_DTYPE_NONE)
		return "is a tensor without a dtype";
	uint64_t unit;
	if (!sy_shape_unit_bytes(dtype, shape, &unit))
		return "has a shape that is too large";
	uint64_t dim0_max = 0;
	if (unit == 0) {
		sy_shape filled = *shape;
		for (uint32_t i = 0; i + 1 < filled.rank; i++)
			filled.tail[i] = filled.tail[i] == 0 ? 1 : filled.tail[i];
		uint64_t filled_unit;
		if (!sy_shape_unit_bytes(dtype, &filled, &filled_unit))
			return "has a shape that is too large";
		dim0_max = SY_LENGTH_MAX_BYTES / filled_unit;
	}
	*ret_unit = unit;
	*ret_dim0_max = dim0_max;
	return NULL;
}
