#include "float_read.h"
#include "bytes.h"

#include <math.h>

/* How a small float is put together: sign, exponent, fraction. */
struct layout {
	uint32_t exponent_bits, fraction_bits;
	int32_t bias;
	enum { SPECIAL_IEEE, SPECIAL_FN, SPECIAL_FNUZ } special;
};

static bool layout_of(sy_dtype dtype, struct layout *ret_layout)
{
	static const struct {
		sy_dtype dtype;
		struct layout layout;
	} known[] = {
		{SY_DTYPE_F16, {5, 10, 15, SPECIAL_IEEE}},
		{SY_DTYPE_BF16, {8, 7, 127, SPECIAL_IEEE}},
		{SY_DTYPE_F8_E5M2, {5, 2, 15, SPECIAL_IEEE}},
		{SY_DTYPE_F8_E4M3FN, {4, 3, 7, SPECIAL_FN}},
		{SY_DTYPE_F8_E4M3FNUZ, {4, 3, 8, SPECIAL_FNUZ}},
		{SY_DTYPE_F8_E5M2FNUZ, {5, 2, 16, SPECIAL_FNUZ}},
	};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (known[i].dtype == dtype) {
			*ret_layout = known[i].layout;
			return true;
		}
	}
	return false;
}

/* 2^exponent, of -1022 .. 1023; and so without the library of mathematics. */
static double power_of_two(int32_t exponent)
{
	uint64_t bits = (uint64_t)(exponent + 1023) << 52;
	double power;
	memcpy(&power, &bits, sizeof power);
	return power;
}

/* IEEE: the largest exponent holds infinities and NaNs. FN: no infinities, NaN is all ones.
 * FNUZ: no infinities, and NaN stands where the negative zero would. */
static double decode(const struct layout *layout, uint32_t bits)
{
	uint32_t fraction_max = (1u << layout->fraction_bits) - 1;
	uint32_t exponent_max = (1u << layout->exponent_bits) - 1;
	uint32_t fraction = bits & fraction_max;
	uint32_t exponent = bits >> layout->fraction_bits & exponent_max;
	bool is_negative = (bits >> (layout->fraction_bits + layout->exponent_bits) & 1) != 0;
	double sign = is_negative ? -1.0 : 1.0;
	if (layout->special == SPECIAL_IEEE && exponent == exponent_max)
		return fraction != 0 ? NAN : sign * INFINITY;
	if (layout->special == SPECIAL_FN && exponent == exponent_max && fraction == fraction_max)
		return NAN;
	if (layout->special == SPECIAL_FNUZ && is_negative && exponent == 0 && fraction == 0)
		return NAN;
	int32_t shift = -layout->bias - (int32_t)layout->fraction_bits;
	if (exponent == 0)
		return sign * fraction * power_of_two(shift + 1);
	return sign * (fraction + fraction_max + 1) * power_of_two((int32_t)exponent + shift);
}

bool sy_dtype_is_float(sy_dtype dtype)
{
	struct layout layout;
	return dtype == SY_DTYPE_F32 || dtype == SY_DTYPE_F64 || layout_of(dtype, &layout);
}

double sy_float_read(sy_dtype dtype, const void *element)
{
	struct layout layout;
	if (dtype == SY_DTYPE_F64) {
		double value;
		memcpy(&value, element, sizeof value);
		return value;
	}
	if (!layout_of(dtype, &layout)) {
		float value;
		memcpy(&value, element, sizeof value);
		return (double)value;
	}
	bool is_byte = sy_dtype_bytes(dtype) == 1;
	return decode(&layout, is_byte ? *(const uint8_t *)element : sy_load_u16(element));
}
