/* Transfers that are left in flight, and the buffers they go to: the graveyard.
 *
 * What was posted to the network moves on by itself, whatever its client thinks of it: it lands
 * late, after its session, or never. What its client may believe of it the shipped accounts say
 * (buffers.h). An endpoint that is closed by force calls everything on it cancelled at once, which
 * is no proof; some milliseconds later it is flushed, and then this side moves no more. That the
 * other does not either its client learns when the unit has answered the next endpoint. */
#include <stdlib.h>

#include "sim.h"
#include "sim_check.h"

enum { FLUSHED = 0, SOON, POISON, JOINED }; /* what a SIM_FLUSHED brings */

static void flush_event(struct sim_client *client, uint32_t slot, uint64_t delay_ns, uint64_t what)
{
	sim_at(client->sim, delay_ns,
	       (struct sim_event){.kind = SIM_FLUSHED, .who = client->index, .slot = slot,
	                          .life = client->life, .extra = what,
	                          .number = client->links[slot].endpoint});
}

/* Its session was fenced and the grace is long over, or its unit is gone: nobody holds anything
 * of it any more. */
static bool is_past(const struct sim *sim, const struct sim_stray *stray)
{
	return stray->landed && !stray->grave.buried &&
	       (!stray->life->alive ||
	        (stray->stop_ns != UINT64_MAX &&
	         sim->true_ns > stray->stop_ns + 2 * sim->config.params.retire_grace_ns));
}

/* A place in the graveyard. What landed and was never told of stays until its client is gone. */
static bool place_is_free(const struct sim *sim, const struct sim_stray *stray)
{
	const struct sim_client *client = &sim->clients[stray->client];
	bool gone = !client->alive || client->life != stray->client_life;
	return !stray->used || ((stray->landed || stray->never) && gone) ||
	       (sim->config.transfers && is_past(sim, stray));
}

static struct sim_stray *free_place(struct sim *sim)
{
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		if (place_is_free(sim, &sim->strays[i]))
			return &sim->strays[i];
	}
	return NULL;
}

/* A place for what a task leaves, as far as reads and writes have it alike. NULL: none is free. */
static struct sim_stray *leave(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	struct sim_stray *stray = free_place(sim);
	if (stray == NULL)
		return NULL;
	*stray = (struct sim_stray){
		.number = ++sim->stray_count, .used = true, .life = task->life, .client = client->index,
		.client_life = client->life, .name = task->op.name, .done_bytes = task->done_bytes,
		.stop_ns = UINT64_MAX, .endpoint = client->links[task->slot].endpoint};
	stray->grave = (struct sy_grave){.unit_id = task->slot, .name = task->op.name,
	                                 .incarnation = task->op.incarnation};
	sim_memory_leave(task, stray);
	return stray;
}

static void bury(struct sim_client *client, struct sim_stray *stray)
{
	bool poisoned = client->buffers.poisoned;
	bool lives = sy_buffers_bury(&client->buffers, &stray->grave);
	check_i6_buffers(client);
	if (lives || poisoned)
		return;
	sim_count_fault(client->sim, SIM_FAULT_POISONED);
	sim_log(client->sim, "c%u is poisoned", client->index);
	flush_event(client, stray->grave.unit_id, 1, POISON);
}

/* When the network moves it next. Some never move again, or only when nobody thinks of them. */
static void land_later(struct sim *sim, struct sim_stray *stray)
{
	const struct sy_core_params *params = &sim->config.params;
	struct sim_event event = {.kind = SIM_LAND, .number = (uint64_t)(stray - sim->strays),
	                          .extra = stray->number};
	uint64_t delay_ns = sim_draw(sim, SIM_MS << sim_draw(sim, 17));
	if (sim->config.transfers && sim_strikes(sim, SIM_FAULT_NEVER_DONE)) {
		stray->never = sim_draw(sim, 2) == 0;
		delay_ns = sim_draw(sim, 3 * (params->session_expire_ns + params->retire_grace_ns));
	}
	if (!stray->never)
		sim_at(sim, delay_ns, event);
}

bool sim_transfer_leave_write(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	if (task->life == NULL)
		return false;
	struct sim_stray *stray = leave(client, task);
	if (stray == NULL)
		return false;
	stray->put = task->put;
	stray->offset = task->op.outcome.offset;
	stray->generation = task->op.outcome.generation;
	stray->grave.write = true;
	stray->grave.nbytes = task->put->nbytes;
	bury(client, stray);
	/* What is fenced or has no unit lands no more, but its client does not know. */
	if (!task->life->alive || sim_copy_is_fenced(task->life, task->op.name.session)) {
		stray->landed = true;
		if (sim->config.transfers)
			flush_event(client, task->slot, 1, SOON);
		return true;
	}
	sim_count_fault(sim, SIM_FAULT_LATE_WRITE);
	land_later(sim, stray);
	return true;
}

bool sim_transfer_leave_read(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	struct sim_stray *stray = leave(client, task);
	if (stray == NULL)
		return false;
	sim_log(sim, "c%u/u%u leaves a read in flight", client->index, task->slot);
	sim_count_fault(sim, SIM_FAULT_READ_LEFT);
	stray->buffer = task->buffer;
	stray->ranges = task->ranges;
	stray->range_count = task->range_count;
	stray->range_at = task->range_at;
	stray->filled_bytes = task->filled_bytes;
	if (task->memory == NULL)
		stray->grave.buffer = &task->buffer->account;
	for (size_t i = task->range_at; i < task->range_count; i++)
		stray->grave.nbytes += task->ranges[i].nbytes;
	task->ranges = NULL;
	task->range_count = 0;
	task->buffer = NULL;
	bury(client, stray);
	stray->told = sy_buffers_in_flight(&stray->grave);
	land_later(sim, stray);
	return true;
}

/* A read is out of the accounts: its place goes. */
static void forget_read(struct sim_stray *stray)
{
	free(stray->ranges);
	*stray = (struct sim_stray){0};
}

/* The shipped accounts learn how it ended, and the unit, if they say so. False: nothing is proved,
 * it stays. */
static bool ended(struct sim_client *client, struct sim_stray *stray, enum sy_transfer_end end)
{
	struct sy_machine *machine = client->links[stray->grave.unit_id].machine;
	bool tell = false, write = stray->put != NULL;
	bool out = stray->grave.buried &&
	           sy_buffers_ended(&client->buffers, &stray->grave, end, &tell);
	check_i6_buffers(client);
	if (!out)
		return false;
	if (write && sy_machine_incarnation(machine) == stray->life->incarnation) {
		if (tell) {
			sim_log(client->sim, "c%u/u%u write of put %lu drained", client->index,
			        stray->grave.unit_id, stray->put->number);
			sy_machine_drained(machine, stray->name, sim_client_now(client));
		} else {
			sy_machine_never_drained(machine);
		}
	}
	return true;
}

/* Those whose end their client never hears of keep their places: not all of them, or a write that
 * is left in flight later would find none, and its reservation would be one nobody knows of. */
static bool may_stay_unheard(const struct sim *sim)
{
	uint32_t unheard = 0;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++)
		unheard += sim->strays[i].used && sim->strays[i].landed;
	return unheard < SIM_STRAYS_MAX / 4;
}

/* Nothing of it moves any more: its client is told, unless it never learns. */
static void over(struct sim *sim, struct sim_stray *stray, uint64_t index, bool done)
{
	struct sim_client *client = &sim->clients[stray->client];
	bool same = client->alive && client->life == stray->client_life;
	if (same && client->stopped) {
		sim_at(sim, SIM_S, (struct sim_event){.kind = SIM_LAND, .number = index,
		                                      .extra = stray->number});
		return; /* it learns of it when it goes on */
	}
	stray->landed = true;
	stray->used = same && sim_draw(sim, 10) == 0 && !sim->winding_down && may_stay_unheard(sim);
	if (!same || stray->used)
		return;
	uint32_t slot = stray->life->slot;
	if (ended(client, stray, done ? SY_TRANSFER_DONE : SY_TRANSFER_FAILED)) {
		if (stray->put == NULL)
			forget_read(stray);
	} else {
		stray->used = true; /* cancelled or failed: it is not told, the unit's fence sees to it */
		if (stray->grave.buried)
			flush_event(client, slot, 1 + sim_draw(sim, SIM_S), SOON);
	}
	sim_link_pump(client, slot);
}

static uint64_t land_write(struct sim *sim, struct sim_stray *stray)
{
	uint64_t left = stray->put->nbytes - stray->done_bytes;
	if (left == 0)
		return 0;
	uint64_t bytes = sim_copy_piece(sim, left);
	check_i3_landing(sim, stray);
	sim_copy_put_bytes(stray->life, stray->put, stray->offset, stray->generation,
	                   stray->done_bytes, bytes);
	stray->done_bytes += bytes;
	return left - bytes;
}

static uint64_t land_read(struct sim *sim, struct sim_stray *stray)
{
	const struct sim_range *range = &stray->ranges[stray->range_at];
	if (stray->range_at == stray->range_count)
		return 0;
	uint64_t bytes = sim_copy_piece(sim, range->nbytes - stray->done_bytes);
	check_i3_landing(sim, stray);
	sim_copy_range_bytes(stray->life, range, stray->done_bytes, bytes, stray->buffer,
	                     stray->filled_bytes);
	stray->done_bytes += bytes;
	if (stray->done_bytes == range->nbytes) {
		stray->filled_bytes += range->nbytes;
		stray->done_bytes = 0;
		stray->range_at++;
	}
	return stray->range_count - stray->range_at;
}

void sim_transfer_land(struct sim *sim, const struct sim_event *event)
{
	struct sim_stray *stray = &sim->strays[event->number];
	if (!stray->used || stray->landed || stray->number != event->extra)
		return;
	bool stopped = !stray->life->alive || sim->true_ns >= stray->stop_ns;
	uint64_t left = 0;
	if (!stopped)
		left = stray->put != NULL ? land_write(sim, stray) : land_read(sim, stray);
	if (left > 0)
		sim_at(sim, sim_draw(sim, 50 * SIM_MS), *event);
	else
		over(sim, stray, event->number, !stopped || !sim->config.transfers);
}

/* The writer posts nothing any more; what is posted stops landing within the retry horizon. */
void sim_transfer_fence(struct sim *sim, struct sim_life *life, uint64_t session)
{
	struct sim_session *s = sim_shadow_session(life, session);
	if (s != NULL)
		s->fenced = true;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		struct sim_stray *stray = &sim->strays[i];
		if (stray->used && stray->life == life && stray->name.session == session)
			stray->stop_ns = sim->true_ns + sim->config.params.retire_grace_ns / 2;
	}
}

static bool is_of(const struct sim_stray *stray, const struct sim_client *client, uint32_t slot,
                  uint64_t endpoint)
{
	return stray->used && stray->client == client->index &&
	       stray->client_life == client->life && stray->grave.unit_id == slot &&
	       stray->endpoint <= endpoint;
}

/* Everything that a task has on the endpoint is called cancelled. */
static void cancel_tasks(struct sim_client *client, uint32_t slot)
{
	for (uint32_t i = 0; i < client->sim->config.tasks; i++) {
		struct sim_task *task = &client->tasks[i];
		if (task->slot != slot)
			continue;
		if (task->state == SIM_TASK_WRITING && task->life != NULL)
			sim_copy_written(client, task, false, sim_transfer_leave_write(client, task));
		else if (task->state == SIM_TASK_READING && task->posted &&
		         sim_transfer_leave_read(client, task))
			sim_task_idle(client, task);
	}
}

void sim_transfer_close(struct sim_client *client, uint32_t slot)
{
	struct sim *sim = client->sim;
	struct sim_link *link = &client->links[slot];
	if (!sim->config.transfers || !client->alive || client->stopped || client->local ||
	    link->remote == NULL)
		return;
	sim_count_fault(sim, SIM_FAULT_FORCED_CLOSE);
	sim_log(sim, "c%u/u%u closes its endpoint by force", client->index, slot);
	cancel_tasks(client, slot);
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		struct sim_stray *stray = &sim->strays[i];
		if (is_of(stray, client, slot, link->endpoint) &&
		    ended(client, stray, SY_TRANSFER_CANCELED) && stray->put == NULL)
			forget_read(stray);
	}
	flush_event(client, slot, 1 + sim_draw(sim, 20 * SIM_MS), FLUSHED);
	link->endpoint++;
	if (sim_draw(sim, 2) == 0)
		sim_link_break(client, slot); /* a new session: the unit ends the one before */
	sim_link_pump(client, slot);
}

/* A write that is flushed waits for the unit to answer the next connection, if it goes on in its
 * session. */
static bool is_left(const struct sim_client *client, const struct sim_stray *stray)
{
	const struct sim_link *link = &client->links[stray->grave.unit_id];
	return !stray->life->alive || link->remote != stray->life ||
	       sy_machine_session(link->machine) != stray->name.session;
}

static void flush(struct sim_client *client, uint32_t slot, uint64_t endpoint)
{
	struct sim *sim = client->sim;
	bool waits = false;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		struct sim_stray *stray = &sim->strays[i];
		if (!is_of(stray, client, slot, endpoint) || !stray->grave.buried)
			continue;
		if (ended(client, stray, SY_TRANSFER_FLUSHED) && stray->put == NULL)
			forget_read(stray);
		waits = waits || (stray->used && stray->grave.buried);
	}
	if (waits)
		flush_event(client, slot, 1 + sim_wait(sim, 10 * SIM_MS), JOINED);
}

/* The unit closed its side of every endpoint before this one, and then answered: what was on them
 * lands no more. */
static void join(struct sim_client *client, uint32_t slot, uint64_t endpoint)
{
	struct sim *sim = client->sim;
	bool waits = false;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		struct sim_stray *stray = &sim->strays[i];
		if (!is_of(stray, client, slot, endpoint) || !stray->grave.flushed ||
		    !stray->grave.buried)
			continue;
		if (is_left(client, stray)) {
			(void)ended(client, stray, SY_TRANSFER_LEFT);
		} else if (stray->life->stopped) {
			waits = true;
		} else {
			stray->stop_ns = sim->true_ns;
			stray->used = !ended(client, stray, SY_TRANSFER_FENCED);
		}
	}
	if (waits)
		flush_event(client, slot, SIM_S, JOINED);
}

void sim_transfer_flushed(struct sim_client *client, const struct sim_event *event)
{
	switch (event->extra) {
	case FLUSHED:
		flush(client, event->slot, event->number);
		break;
	case JOINED:
		join(client, event->slot, event->number);
		break;
	case SOON:
		if (client->links[event->slot].endpoint == event->number)
			sim_transfer_close(client, event->slot);
		break;
	default:
		sim_client_close(client);
	}
}

static struct sim_buffer *make_buffer(struct sim_client *client, uint64_t nbytes)
{
	struct sim_buffer *buffer = client->made;
	while (buffer != NULL &&
	       (buffer->account.state != SY_BUFFER_NONE || buffer->account.nbytes != nbytes))
		buffer = buffer->next;
	if (buffer == NULL) {
		buffer = calloc(1, sizeof *buffer);
		if (buffer == NULL || (buffer->bytes = calloc(1, nbytes)) == NULL)
			abort();
		buffer->next = client->made;
		client->made = buffer;
	}
	return buffer;
}

/* Memory that is dropped is kept until the client's end, so that nothing lands outside of any. */
static void drop_buffers(struct sim_client *client)
{
	while (sy_buffers_drop(&client->buffers) != NULL)
		continue;
	check_i6_buffers(client);
}

enum sy_buffers_answer sim_transfer_buffer(struct sim_client *client, struct sim_task *task)
{
	struct sy_buffer *got = NULL;
	uint64_t nbytes = 0, make_bytes = 0;
	for (size_t i = 0; i < task->range_count; i++)
		nbytes += task->ranges[i].nbytes;
	enum sim_memory_answer own = sim_memory_take(client, task, nbytes, true);
	if (own == SIM_MEMORY_IN_DOUBT)
		return SY_BUFFERS_TOO_LARGE; /* any that ends it */
	if (own == SIM_MEMORY_TAKEN) {
		task->buffer = &task->memory->buffer;
		return client->buffers.poisoned ? SY_BUFFERS_FATAL : SY_BUFFERS_READY;
	}
	enum sy_buffers_answer answer =
		sy_buffers_take(&client->buffers, nbytes, &got, &make_bytes);
	if (answer == SY_BUFFERS_MAKE) {
		drop_buffers(client);
		got = &make_buffer(client, make_bytes)->account;
		sy_buffers_made(&client->buffers, got, make_bytes);
		answer = SY_BUFFERS_READY;
	}
	if (answer == SY_BUFFERS_READY)
		task->buffer = (struct sim_buffer *)(void *)got;
	return answer;
}

void sim_transfer_give(struct sim_client *client, struct sim_task *task)
{
	task->posted = false;
	if (task->memory != NULL) {
		sim_memory_give(client, task);
		task->buffer = NULL;
		check_i6_buffers(client);
	}
	if (task->buffer == NULL)
		return;
	sy_buffers_give(&client->buffers, &task->buffer->account);
	task->buffer = NULL;
	drop_buffers(client);
}

void sim_transfer_free(struct sim_client *client)
{
	struct sim *sim = client->sim;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		struct sim_stray *stray = &sim->strays[i];
		if (stray->used && stray->put == NULL && stray->client == client->index)
			forget_read(stray);
	}
	for (struct sim_buffer *buffer = client->made, *next; buffer != NULL; buffer = next) {
		next = buffer->next;
		free(buffer->bytes);
		free(buffer);
	}
	client->made = NULL;
	sim_memory_free(client);
}
