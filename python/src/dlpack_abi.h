/* The structures of DLPack 1.0, as its specification lays them out: what a capsule points to. */
#ifndef SY_DLPACK_ABI_H
#define SY_DLPACK_ABI_H

#include <stdint.h>

enum {
	DLPACK_CPU = 1,
	DLPACK_MAJOR = 1,
	DLPACK_MINOR = 0,
	DLPACK_READ_ONLY = 1, /* flags */
	DLPACK_IS_COPIED = 2,
};

enum dlpack_code {
	DLPACK_INT = 0,
	DLPACK_UINT = 1,
	DLPACK_FLOAT = 2,
	DLPACK_BFLOAT = 4,
	DLPACK_COMPLEX = 5,
	DLPACK_BOOL = 6,
	DLPACK_F8_E4M3FN = 10,
	DLPACK_F8_E4M3FNUZ = 11,
	DLPACK_F8_E5M2 = 12,
	DLPACK_F8_E5M2FNUZ = 13,
};

struct dlpack_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides; /* in items; NULL: C order */
	uint64_t byte_offset;
};

struct dlpack_managed { /* in a capsule named "dltensor" */
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_managed *self);
};

struct dlpack_versioned { /* in a capsule named "dltensor_versioned" */
	uint32_t major, minor;
	void *context;
	void (*deleter)(struct dlpack_versioned *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

#endif
