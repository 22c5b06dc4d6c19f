#include "transport.h"

struct sy_remote *sy_remote_ref(struct sy_remote *remote)
{
	__atomic_add_fetch(&remote->refs, 1, __ATOMIC_RELAXED);
	return remote;
}

void sy_remote_unref(struct sy_remote *remote)
{
	if (remote != NULL && __atomic_sub_fetch(&remote->refs, 1, __ATOMIC_ACQ_REL) == 0)
		remote->transport->detach(remote);
}

bool sy_transfer_lies_in(const struct sy_remote *remote, const struct sy_transfer *transfer,
                         size_t *ret_outside)
{
	uint64_t base = transfer->base_offset;

	for (size_t i = 0; i < transfer->count; i++) {
		const struct sy_range *range = &transfer->ranges[i];

		if (base <= remote->slab_bytes && range->offset <= remote->slab_bytes - base &&
		    range->nbytes <= remote->slab_bytes - base - range->offset)
			continue;
		*ret_outside = i;
		return false;
	}
	return true;
}
