#include "ucx_memories.h"

#include <stdlib.h>

#include "fail.h"

struct sy_ucx_memories *sy_ucx_memories_new(void)
{
	struct sy_ucx_memories *memories = calloc(1, sizeof *memories);

	if (memories == NULL)
		return NULL;
	memories->refs = 1;
	pthread_mutex_init(&memories->lock, NULL);
	return memories;
}

struct sy_ucx_memories *sy_ucx_memories_ref(struct sy_ucx_memories *memories)
{
	if (memories != NULL)
		__atomic_add_fetch(&memories->refs, 1, __ATOMIC_RELAXED);
	return memories;
}

void sy_ucx_memories_unref(struct sy_ucx_memories *memories)
{
	if (memories == NULL || __atomic_sub_fetch(&memories->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	/* Whoever mapped one held a reference, and has forgotten it. */
	for (struct sy_memory *memory = memories->table.first, *next; memory != NULL; memory = next) {
		next = memory->next;
		free(memory);
	}
	pthread_mutex_destroy(&memories->lock);
	free(memories);
}

sy_status sy_ucx_memories_add(struct sy_ucx_memories *memories, uint64_t addr, uint64_t nbytes,
                              sy_error *err)
{
	if (addr == 0 || nbytes == 0 || addr > UINT64_MAX - nbytes)
		return sy_fail(err, SY_E_INVALID, "register", "%llu bytes at 0x%llx are no memory",
		               (unsigned long long)nbytes, (unsigned long long)addr);
	struct sy_ucx_memory *memory = calloc(1, sizeof *memory);
	if (memory == NULL)
		return sy_fail(err, SY_E_SYS, "register", "out of memory");
	pthread_mutex_lock(&memories->lock);
	sy_memories_add(&memories->table, &memory->account, addr, nbytes);
	pthread_mutex_unlock(&memories->lock);
	return SY_OK;
}

static void unmap(struct sy_ucx_mapping **at)
{
	struct sy_ucx_mapping *mapping = *at;

	*at = mapping->next;
	if (mapping->handle != NULL)
		mapping->unmap(mapping->mover, mapping->handle);
	free(mapping);
}

sy_status sy_ucx_memories_remove(struct sy_ucx_memories *memories, uint64_t addr, uint64_t nbytes,
                                 sy_error *err)
{
	struct sy_memory *removed = NULL;

	pthread_mutex_lock(&memories->lock);
	enum sy_memories_answer answer =
		sy_memories_remove(&memories->table, addr, nbytes, &removed);
	struct sy_ucx_memory *memory = (struct sy_ucx_memory *)(void *)removed;
	/* Under the lock, or a mover could be closed meanwhile. */
	while (memory != NULL && memory->mappings != NULL)
		unmap(&memory->mappings);
	pthread_mutex_unlock(&memories->lock);
	free(memory);
	if (answer == SY_MEMORIES_REMOVED)
		return SY_OK;
	if (answer == SY_MEMORIES_UNKNOWN)
		return sy_fail(err, SY_E_INVALID, "deregister",
		               "%llu bytes at 0x%llx are not registered: name what was registered, whole",
		               (unsigned long long)nbytes, (unsigned long long)addr);
	sy_fail(err, SY_E_TRANSFER, "deregister",
	        "a transfer that runs, or never ended, may still touch this memory: keep it, and "
	        "deregister it later");
	if (err != NULL)
		err->in_flight = true;
	return SY_E_TRANSFER;
}

void sy_ucx_memories_forget(struct sy_ucx_memories *memories, const struct sy_ucx_mover *mover)
{
	pthread_mutex_lock(&memories->lock);
	for (struct sy_memory *m = memories->table.first; m != NULL; m = m->next) {
		struct sy_ucx_mapping **at = &((struct sy_ucx_memory *)(void *)m)->mappings;

		while (*at != NULL && (*at)->mover != mover)
			at = &(*at)->next;
		if (*at != NULL)
			unmap(at);
	}
	pthread_mutex_unlock(&memories->lock);
}
