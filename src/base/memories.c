#include "memories.h"

#include <stddef.h>

#include "bytes.h"
#include "guard.h"

void sy_memories_add(struct sy_memories *memories, struct sy_memory *memory, uint64_t addr,
                     uint64_t nbytes)
{
	SY_ASSERT(nbytes > 0 && addr <= UINT64_MAX - nbytes);
	*memory = (struct sy_memory){.addr = addr, .nbytes = nbytes, .of = memories,
	                             .next = memories->first};
	if (memory->next != NULL)
		memory->next->prev = memory;
	memories->first = memory;
}

enum sy_memories_answer sy_memories_remove(struct sy_memories *memories, uint64_t addr,
                                           uint64_t nbytes, struct sy_memory **ret_memory)
{
	enum sy_memories_answer answer = SY_MEMORIES_UNKNOWN;

	for (struct sy_memory *m = memories->first; m != NULL; m = m->next) {
		if (m->addr != addr || m->nbytes != nbytes)
			continue;
		answer = SY_MEMORIES_HELD;
		if (m->holds != NULL && !SY_MUTANT(61))
			continue;
		*(m->prev != NULL ? &m->prev->next : &memories->first) = m->next;
		if (m->next != NULL)
			m->next->prev = m->prev;
		*ret_memory = m;
		return SY_MEMORIES_REMOVED;
	}
	return answer;
}

struct sy_memory *sy_memories_find(const struct sy_memories *memories, uint64_t addr,
                                   uint64_t nbytes)
{
	struct sy_memory *m = memories->first;

	while (m != NULL && (addr < m->addr || addr - m->addr > m->nbytes ||
	                     nbytes > m->nbytes - (addr - m->addr)))
		m = m->next;
	return m;
}

bool sy_memories_doubt(const struct sy_memories *memories, uint64_t addr, uint64_t nbytes)
{
	if (memories->doubt_count == 0 || SY_MUTANT(64))
		return false;
	for (const struct sy_memory *m = memories->first; m != NULL; m = m->next) {
		for (const struct sy_hold *hold = m->holds; hold != NULL; hold = hold->next) {
			if (hold->buried && hold->lands && addr < hold->to && hold->from < addr + nbytes)
				return true;
		}
	}
	return false;
}

bool sy_holds_take(struct sy_holds *holds, struct sy_memory *memory, uint64_t addr,
                   uint64_t nbytes, bool lands)
{
	struct sy_hold *hold = holds->each, *end = holds->each + holds->count;

	while (hold != end && hold->memory != memory)
		hold++;
	if (hold != end) {
		hold->from = sy_min_u64(hold->from, addr);
		hold->to = sy_max_u64(hold->to, addr + nbytes);
		return true;
	}
	if (holds->count == SY_HOLDS_MAX)
		return false;
	holds->count++;
	*hold = (struct sy_hold){.memory = memory, .from = addr, .to = addr + nbytes, .lands = lands,
	                         .next = memory->holds};
	if (hold->next != NULL)
		hold->next->prev = hold;
	memory->holds = hold;
	return true;
}

void sy_holds_copied(struct sy_holds *holds, uint32_t index)
{
	SY_ASSERT(index < holds->count && !holds->each[index].buried);
	holds->each[index].lands = false;
}

bool sy_holds_land(const struct sy_holds *holds)
{
	bool lands = false;

	for (uint32_t i = 0; i < holds->count && !lands; i++)
		lands = holds->each[i].lands;
	return lands;
}

void sy_holds_bury(struct sy_holds *holds)
{
	for (uint32_t i = 0; i < holds->count; i++) {
		struct sy_hold *hold = &holds->each[i];

		hold->buried = true;
		hold->memory->of->doubt_count += hold->lands;
	}
}

void sy_holds_end(struct sy_holds *holds)
{
	for (uint32_t i = 0; i < holds->count; i++) {
		struct sy_hold *hold = &holds->each[i];

		hold->memory->of->doubt_count -= hold->buried && hold->lands;
		*(hold->prev != NULL ? &hold->prev->next : &hold->memory->holds) = hold->next;
		if (hold->next != NULL)
			hold->next->prev = hold->prev;
	}
	holds->count = 0;
}
