/* Elements of tensors of any float type as doubles, exactly. */
#ifndef SY_FLOAT_READ_H
#define SY_FLOAT_READ_H

#include <slabyard/index.h>

/* True for the types below: f16, bf16, f32, f64 and the four of eight bits. */
bool sy_dtype_is_float(sy_dtype dtype);
/* The value of one element of such a type; element may be unaligned. */
double sy_float_read(sy_dtype dtype, const void *element);

#endif
