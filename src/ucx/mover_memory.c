/* What of a transfer goes straight between a slab and memory that its caller registered.
 *
 * A copy and its buffer are spared, an operation a range is paid: ranges that follow each other in
 * a slab travel as one operation where they are copied together. */
#include <stdlib.h>

#include "fail.h"
#include "mover_state.h"

static void unmap(struct sy_ucx_mover *mover, void *handle)
{
	(void)mover->context.lib->ucp_mem_unmap(mover->context.ucp, handle);
}

/* As this mover has it; NULL: it has not. Table locked. */
static struct sy_ucx_mapping *find_mapping(const struct sy_memory *memory,
                                           const struct sy_ucx_mover *mover)
{
	const struct sy_ucx_memory *of = (const struct sy_ucx_memory *)(const void *)memory;
	struct sy_ucx_mapping *mapping = of->mappings;

	while (mapping != NULL && mapping->mover != mover)
		mapping = mapping->next;
	return mapping;
}

/* What is held stays registered meanwhile. What cannot be is tried once. */
static ucp_mem_h map(struct sy_ucx_mover *mover, struct sy_memory *memory)
{
	struct sy_ucx_memories *memories = mover->config.memories;
	struct sy_ucx_mapping *made, *found;

	pthread_mutex_lock(&memories->lock);
	found = find_mapping(memory, mover);
	ucp_mem_h handle = found != NULL ? found->handle : NULL;
	pthread_mutex_unlock(&memories->lock);
	if (found != NULL)
		return handle;
	made = calloc(1, sizeof *made);
	if (made == NULL)
		return NULL;
	*made = (struct sy_ucx_mapping){.mover = mover, .unmap = unmap};
	(void)sy_mover_register(mover, (void *)(uintptr_t)memory->addr, (size_t)memory->nbytes,
	                        &handle, NULL);
	made->handle = handle;
	pthread_mutex_lock(&memories->lock);
	found = find_mapping(memory, mover);
	if (found == NULL) {
		struct sy_ucx_memory *of = (struct sy_ucx_memory *)(void *)memory;

		made->next = of->mappings;
		of->mappings = made;
	} else { /* another thread was faster, but may have failed for want of what this one got */
		if (found->handle == NULL) {
			found->handle = made->handle;
			made->handle = NULL;
		}
		handle = found->handle;
	}
	pthread_mutex_unlock(&memories->lock);
	if (found != NULL) {
		if (made->handle != NULL)
			unmap(mover, made->handle);
		free(made);
	}
	return handle;
}

static uint64_t address(const struct sy_range *range)
{
	return (uint64_t)(uintptr_t)range->from;
}

/* Table locked. */
static sy_status hold(struct sy_ucx_mover *mover, const struct sy_ucx_transfer *transfer,
                      struct sy_holds *holds, sy_error *err)
{
	const struct sy_memories *table = &mover->config.memories->table;

	for (size_t i = 0; i < transfer->count; i++) {
		const struct sy_range *range = &transfer->ranges[i];

		if (range->nbytes > 0 && sy_memories_doubt(table, address(range), range->nbytes))
			return sy_fail(err, SY_E_TRANSFER, "sy_ucx_move",
			               "range %zu: a read that was given up may still write to this memory: "
			               "use other memory until it can be deregistered", i);
		if (range->nbytes < mover->config.direct_min_bytes)
			continue;
		struct sy_memory *memory = sy_memories_find(table, address(range), range->nbytes);
		if (memory != NULL)
			(void)sy_holds_take(holds, memory, address(range), range->nbytes, !transfer->write);
	}
	return SY_OK;
}

sy_status sy_mover_direct_begin(struct sy_ucx_mover *mover,
                                const struct sy_ucx_transfer *transfer, struct sy_holds *holds,
                                struct sy_mover_direct *ret_direct, sy_error *err)
{
	struct sy_ucx_memories *memories = mover->config.memories;

	*ret_direct = (struct sy_mover_direct){.holds = holds};
	pthread_mutex_lock(&memories->lock);
	sy_status status = memories->table.first == NULL ? SY_OK : hold(mover, transfer, holds, err);
	if (status != SY_OK)
		sy_holds_end(holds);
	pthread_mutex_unlock(&memories->lock);
	for (uint32_t i = 0; i < holds->count; i++) {
		ret_direct->handles[i] = map(mover, holds->each[i].memory);
		if (ret_direct->handles[i] != NULL)
			continue;
		pthread_mutex_lock(&memories->lock); /* others look for doubt in it */
		sy_holds_copied(holds, i);
		pthread_mutex_unlock(&memories->lock);
	}
	return status;
}

void sy_mover_direct_end(struct sy_ucx_mover *mover, struct sy_holds *holds)
{
	if (holds->count == 0)
		return;
	pthread_mutex_lock(&mover->config.memories->lock);
	sy_holds_end(holds);
	pthread_mutex_unlock(&mover->config.memories->lock);
}

ucp_mem_h sy_mover_direct_of(const struct sy_mover_direct *direct,
                             const struct sy_ucx_mover *mover, const struct sy_range *range)
{
	if (direct->holds->count == 0 || range->nbytes < mover->config.direct_min_bytes)
		return NULL;
	for (uint32_t i = 0; i < direct->holds->count; i++) {
		const struct sy_hold *hold = &direct->holds->each[i];

		if (address(range) >= hold->from && address(range) + range->nbytes <= hold->to)
			return direct->handles[i];
	}
	return NULL;
}
