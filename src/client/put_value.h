/* The values of a put as the index sees them. What many of them share, dtype, kind and trailing
 * shape, is their form: checked once, and named by a number afterwards. */
#ifndef SY_PUT_VALUE_H
#define SY_PUT_VALUE_H

#include <slabyard/client.h>

/* A checked form. */
struct sy_put_form {
	sy_dtype dtype;
	sy_kind kind;
	sy_shape shape;
	uint64_t unit_bytes, dim0_max; /* as of sy_shape_fault */
};

enum { SY_FORMS_SEEN = 64 };

/* The forms of one call. Two numbers may mean equal forms: sy_put_forms_equal. All zero at first;
 * sy_put_forms_done. */
struct sy_put_forms {
	struct sy_put_form *list;
	uint32_t count, capacity;
	uint32_t seen[SY_FORMS_SEEN]; /* number + 1, by a hash: where one was seen last */
};

struct sy_put_value {
	const void *data;
	uint64_t nbytes, extent;
	uint32_t form;
};

/* The number of a form, new or known. SY_E_INVALID: its parts do not go together. SY_E_SYS. */
sy_status sy_put_form(struct sy_put_forms *forms, sy_dtype dtype, sy_kind kind,
                      const sy_shape *shape, uint32_t *ret_form, sy_error *err);
bool sy_put_forms_equal(const struct sy_put_forms *forms, uint32_t a, uint32_t b);
void sy_put_forms_done(struct sy_put_forms *forms);

/* Of a caller's value: checked as a whole. SY_E_INVALID, SY_E_SYS. */
sy_status sy_put_value_from(struct sy_put_forms *forms, const sy_value *value,
                            struct sy_put_value *ret_value, sy_error *err);
/* Of bytes of a known form, whose dim0 follows from their number. SY_E_INVALID. */
sy_status sy_put_value_of(const struct sy_put_forms *forms, uint32_t form, const void *data,
                          uint64_t nbytes, struct sy_put_value *ret_value, sy_error *err);

#endif
