/* Memory that a client's program registered for its transfers, some of which go there directly.
 * The shipped accounts say what may be given back, what may be used, and what the program is told
 * of a transfer that was given up; the program believes them. */
#include <stdlib.h>

#include "sim.h"
#include "sim_check.h"

enum { BYTES = 32 << 10, HOLDS_AT_MOST = SIM_STRAYS_MAX + SIM_TASKS_MAX };

static void deregister(struct sim_client *client, struct sim_memory *memory)
{
	struct sy_memory *removed;
	if (!memory->registered || memory->users > 0)
		return;
	if (sy_memories_remove(&client->memories, memory->addr, BYTES, &removed) !=
	    SY_MEMORIES_REMOVED) {
		sim_count_fault(client->sim, SIM_FAULT_MEMORY_HELD);
		return;
	}
	memory->registered = false;
	memory->times++;
}

static void registers(struct sim_client *client, struct sim_memory *memory)
{
	if (memory->registered)
		return;
	if (memory->buffer.bytes == NULL && (memory->buffer.bytes = calloc(1, BYTES)) == NULL)
		abort();
	memory->addr = (uint64_t)(memory - client->own + 1) << 32;
	memory->registered = true;
	sy_memories_add(&client->memories, &memory->account, memory->addr, BYTES);
}

enum sim_memory_answer sim_memory_take(struct sim_client *client, struct sim_task *task,
                                       uint64_t nbytes, bool lands)
{
	struct sim *sim = client->sim;
	if (!sim->config.transfers || client->local || sim_draw(sim, 2) == 0)
		return SIM_MEMORY_NONE;
	struct sim_memory *memory = &client->own[sim_draw(sim, SIM_OWN_MAX)];
	if (nbytes == 0 || nbytes > BYTES || memory->users > 0)
		return SIM_MEMORY_NONE;
	registers(client, memory);
	if (sy_memories_doubt(&client->memories, memory->addr, nbytes)) {
		sim_count_fault(sim, SIM_FAULT_MEMORY_IN_DOUBT);
		deregister(client, memory);
		return SIM_MEMORY_IN_DOUBT;
	}
	struct sy_memory *found = sy_memories_find(&client->memories, memory->addr, nbytes);
	if (found == NULL || !sy_holds_take(&task->holds, found, memory->addr, nbytes, lands))
		abort();
	memory->users++;
	memory->kept = true;
	task->memory = memory;
	return SIM_MEMORY_TAKEN;
}

void sim_memory_give(struct sim_client *client, struct sim_task *task)
{
	struct sim_memory *memory = task->memory;
	if (memory == NULL)
		return;
	sy_holds_end(&task->holds);
	task->memory = NULL;
	memory->users--;
	if (sim_draw(client->sim, 3) == 0)
		deregister(client, memory);
}

void sim_memory_leave(struct sim_task *task, struct sim_stray *stray)
{
	for (uint32_t i = 0; i < task->holds.count; i++) {
		const struct sy_hold *hold = &task->holds.each[i];
		(void)sy_holds_take(&stray->grave.holds, hold->memory, hold->from,
		                    hold->to - hold->from, hold->lands);
	}
	sy_holds_end(&task->holds);
	if (task->memory != NULL && stray->grave.holds.count > 0 && stray->grave.holds.each[0].lands)
		task->memory->kept = false;
	stray->memory = task->memory;
	stray->memory_times = task->memory != NULL ? task->memory->times : 0;
}

/* The transfers that hold it, as the simulator knows them. */
static uint32_t holders(const struct sim_client *client, const struct sim_memory *memory)
{
	const struct sim *sim = client->sim;
	uint32_t count = 0;
	for (uint32_t i = 0; i < sim->config.tasks; i++)
		count += client->tasks[i].memory == memory && client->tasks[i].holds.count > 0;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		const struct sim_stray *stray = &sim->strays[i];
		count += stray->client == client->index && stray->client_life == client->life &&
		         stray->memory == memory && stray->grave.buried && !stray->grave.flushed;
	}
	return count;
}

void check_i6_memories(struct sim_client *client)
{
	for (uint32_t i = 0; i < SIM_OWN_MAX; i++) {
		const struct sim_memory *memory = &client->own[i];
		uint32_t count = 0;
		if (!memory->registered)
			continue;
		for (const struct sy_hold *hold = memory->account.holds;
		     hold != NULL && count <= HOLDS_AT_MOST; hold = hold->next)
			count++;
		if (count != holders(client, memory))
			sim_fail(client->sim, 6, "c%u: its memory is held %u times, by %u transfers",
			         client->index, count, holders(client, memory));
	}
}

void sim_memory_free(struct sim_client *client)
{
	for (uint32_t i = 0; i < SIM_OWN_MAX; i++) {
		free(client->own[i].buffer.bytes);
		client->own[i].buffer.bytes = NULL;
	}
}
