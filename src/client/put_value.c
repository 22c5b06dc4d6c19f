#include "put_value.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "entry_fault.h"
#include "fail.h"

static sy_status refuse(uint64_t nbytes, const char *fault, sy_error *err)
{
	return sy_fail(err, SY_E_INVALID, "put", "a value of %llu bytes %s",
	               (unsigned long long)nbytes, fault);
}

static bool is_form(const struct sy_put_form *form, sy_dtype dtype, sy_kind kind,
                    const sy_shape *shape)
{
	if (form->dtype != dtype || form->kind != kind || form->shape.rank != shape->rank)
		return false;
	for (uint32_t i = 0; i < sy_shape_tail_count(shape->rank); i++) {
		if (form->shape.tail[i] != shape->tail[i])
			return false;
	}
	return true;
}

static sy_status add_form(struct sy_put_forms *forms, const struct sy_put_form *form,
                          sy_error *err)
{
	if (forms->count == forms->capacity) {
		uint32_t capacity = forms->capacity == 0 ? 8 : 2 * forms->capacity;
		struct sy_put_form *list = realloc(forms->list, capacity * sizeof *list);

		if (list == NULL)
			return sy_fail(err, SY_E_SYS, __func__, "out of memory");
		forms->list = list;
		forms->capacity = capacity;
	}
	forms->list[forms->count++] = *form;
	return SY_OK;
}

/* Where a form of these would be seen: any number will do, but few forms should share one. */
static uint32_t seen_at(sy_dtype dtype, sy_kind kind, const sy_shape *shape)
{
	uint64_t sum = (uint64_t)dtype + 29u * (uint64_t)kind + 7u * shape->rank;

	for (uint32_t i = 0; i < sy_shape_tail_count(shape->rank); i++)
		sum = sum * 31 + shape->tail[i];
	return (uint32_t)sum % SY_FORMS_SEEN;
}

sy_status sy_put_form(struct sy_put_forms *forms, sy_dtype dtype, sy_kind kind,
                      const sy_shape *shape, uint32_t *ret_form, sy_error *err)
{
	if (shape->rank > SY_RANK_MAX)
		return sy_fail(err, SY_E_INVALID, "put", "a value has a rank over 8");

	uint32_t *seen = &forms->seen[seen_at(dtype, kind, shape)];
	if (*seen == 0 || !is_form(&forms->list[*seen - 1], dtype, kind, shape)) {
		struct sy_put_form form = {.dtype = dtype, .kind = kind, .shape = {.rank = shape->rank}};

		for (uint32_t i = 0; i < sy_shape_tail_count(shape->rank); i++)
			form.shape.tail[i] = shape->tail[i];
		const char *fault =
			sy_shape_fault(dtype, kind, &form.shape, &form.unit_bytes, &form.dim0_max);
		if (fault != NULL)
			return sy_fail(err, SY_E_INVALID, "put", "a value %s", fault);
		sy_status status = add_form(forms, &form, err);
		if (status != SY_OK)
			return status;
		*seen = forms->count;
	}
	*ret_form = *seen - 1;
	return SY_OK;
}

bool sy_put_forms_equal(const struct sy_put_forms *forms, uint32_t a, uint32_t b)
{
	const struct sy_put_form *form = &forms->list[a];

	return a == b || is_form(&forms->list[b], form->dtype, form->kind, &form->shape);
}

void sy_put_forms_done(struct sy_put_forms *forms)
{
	free(forms->list);
	*forms = (struct sy_put_forms){0};
}

sy_status sy_put_value_from(struct sy_put_forms *forms, const sy_value *value,
                            struct sy_put_value *ret_value, sy_error *err)
{
	sy_shape shape = {.rank = value->rank};
	uint64_t lead = value->rank == 0 ? 1 : value->dims[0], product;
	uint32_t number = 0;

	for (uint32_t i = 1; i < value->rank && i < SY_RANK_MAX; i++)
		shape.tail[i - 1] = value->dims[i];
	sy_status status = sy_put_form(forms, value->dtype, value->kind, &shape, &number, err);
	if (status != SY_OK)
		return status;
	const struct sy_put_form *form = &forms->list[number];
	/* Not to be left to the index: it says nothing of bytes where a shape has none, and they
	 * would be written past the blob's end. */
	if (form->kind == SY_KIND_TENSOR &&
	    (__builtin_mul_overflow(lead, form->unit_bytes, &product) || product != value->nbytes))
		return refuse(value->nbytes, "does not have as many bytes as its shape", err);
	status = sy_put_value_of(forms, number, value->data, value->nbytes, ret_value, err);
	if (status != SY_OK || form->unit_bytes != 0)
		return status;
	ret_value->extent = lead;
	const char *fault = sy_extent_fault(form->kind, &form->shape, 0, form->dim0_max, lead);
	return fault == NULL ? SY_OK : refuse(value->nbytes, fault, err);
}

sy_status sy_put_value_of(const struct sy_put_forms *forms, uint32_t number, const void *data,
                          uint64_t nbytes, struct sy_put_value *ret_value, sy_error *err)
{
	const struct sy_put_form *form = &forms->list[number];
	const char *fault = NULL;

	if (nbytes > 0 && data == NULL)
		fault = "has bytes but no data";
	else if (form->unit_bytes == 0 && nbytes > 0)
		fault = "does not have as many bytes as its shape";
	else
		fault = sy_extent_fault(form->kind, &form->shape, form->unit_bytes, form->dim0_max,
		                        nbytes);
	if (fault != NULL)
		return refuse(nbytes, fault, err);
	*ret_value = (struct sy_put_value){
		.data = data, .nbytes = nbytes, .extent = nbytes, .form = number,
	};
	return SY_OK;
}
