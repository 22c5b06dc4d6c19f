/* The data path: bytes of puts and reads, a piece at a time, so that everything else may happen
 * in between. A local client copies by itself: stopped or killed, nothing of it moves. A remote
 * one has posted its writes to a network that may land them later, whatever becomes of it. */
#include "sim.h"
#include "sim_check.h"

/* The next piece: a few lines, or all that is left. */
static uint64_t piece(struct sim *sim, uint64_t left)
{
	uint64_t bytes = sim_draw(sim, 3) == 0 ? left : 64 * (1 + sim_draw(sim, 40));
	return bytes < left ? bytes : left;
}

static bool is_fenced(struct sim_life *life, uint64_t session)
{
	const struct sim_session *s = sim_shadow_session(life, session);
	return s != NULL && s->fenced;
}

static void land(struct sim_life *life, const struct sim_put *put, uint64_t offset,
                 uint64_t generation, uint64_t from, uint64_t bytes)
{
	if (!life->alive)
		sim_count_fault(life->sim, SIM_FAULT_OLD_SLAB);
	check_i1_land(life, put, offset + from, bytes, generation);
	if (life->sim->violated == 0)
		memcpy(life->slab + offset + from, put->image + from, bytes);
}

void sim_copy_write(struct sim_client *client, struct sim_task *task)
{
	struct sim_life *life = client->links[task->slot].life;
	if (!client->local)
		life = sim_life_of(client->sim, task->op.incarnation);
	task->state = SIM_TASK_WRITING;
	task->life = life != NULL && life->incarnation == task->op.incarnation ? life : NULL;
	task->done_bytes = 0;
	task->put->generation = task->op.outcome.generation;
	task->put->incarnation = task->op.incarnation;
	sim_task_later(client, task, sim_draw(client->sim, 20 * SIM_US));
}

static void written(struct sim_client *client, struct sim_task *task, bool ok, bool in_flight)
{
	sim_log(client->sim, "c%u/u%u write of put %lu %s", client->index, task->slot,
	        task->put->number, ok ? "done" : in_flight ? "in flight" : "failed");
	task->state = SIM_TASK_RUNNING;
	task->life = NULL;
	sy_machine_written(client->links[task->slot].machine, &task->op, ok, in_flight,
	                   sim_client_now(client));
	sim_link_pump(client, task->slot);
}

/* A place in the graveyard. What landed and was never told of stays until its client is gone. */
static bool place_is_free(const struct sim *sim, const struct sim_stray *stray)
{
	const struct sim_client *client = &sim->clients[stray->client];
	return !stray->used ||
	       (stray->landed && (!client->alive || client->life != stray->client_life));
}

void sim_copy_leave(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	if (task->life == NULL)
		return;
	/* What is fenced or has no unit lands no more, but its client does not know. */
	bool ends = !task->life->alive || is_fenced(task->life, task->op.name.session);
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++) {
		if (!place_is_free(sim, &sim->strays[i]))
			continue;
		sim->strays[i] = (struct sim_stray){
			.used = true, .landed = ends, .life = task->life, .client = client->index,
			.client_life = client->life, .name = task->op.name, .put = task->put,
			.offset = task->op.outcome.offset, .generation = task->op.outcome.generation,
			.done_bytes = task->done_bytes, .stop_ns = UINT64_MAX};
		if (ends)
			return;
		sim_count_fault(sim, SIM_FAULT_LATE_WRITE);
		sim_at(sim, sim_draw(sim, SIM_MS << sim_draw(sim, 17)),
		       (struct sim_event){.kind = SIM_LAND, .number = i, .extra = client->life});
		return;
	}
}

/* However slow the copy, its thread looks at the deadline in time. */
static uint64_t pause(struct sim_client *client, const struct sim_task *task)
{
	uint64_t left_ns = task->op.deadline_ns - sim_client_now(client);
	if (client->sim->held_until_ns > client->sim->true_ns)
		left_ns = 0; /* its clock does not tell how long this takes */
	return sy_min_u64(sim_wait(client->sim, client->sim->config.copy_ns), left_ns + 20 * SIM_MS);
}

void sim_copy_write_on(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	const struct sim_put *put = task->put;
	uint64_t left = put->nbytes - task->done_bytes;
	bool late = sim_client_now(client) >= task->op.deadline_ns;
	bool dead = task->life != NULL && !task->life->alive;
	if (task->life == NULL) {
		written(client, task, false, false);
	} else if (client->local && late && left > 0) {
		written(client, task, false, false);
	} else if (!client->local && left > 0 &&
	           (late || dead || is_fenced(task->life, task->op.name.session) ||
	            sim_strikes(sim, SIM_FAULT_LATE_WRITE))) {
		sim_copy_leave(client, task);
		written(client, task, false, true);
	} else if (left == 0) {
		written(client, task, true, false);
	} else {
		uint64_t bytes = piece(sim, left);
		land(task->life, put, task->op.outcome.offset, task->op.outcome.generation,
		     task->done_bytes, bytes);
		task->done_bytes += bytes;
		sim_task_later(client, task, pause(client, task));
	}
}

/* The graveyard: its client is told once all of it has landed, unless it never learns. */
/* Those whose end their client never hears of keep their places: not all of them, or a write that
 * is left in flight later would find none, and its reservation would be one nobody knows of. */
static bool may_stay_unheard(const struct sim *sim)
{
	uint32_t unheard = 0;
	for (uint32_t i = 0; i < SIM_STRAYS_MAX; i++)
		unheard += sim->strays[i].used && sim->strays[i].landed;
	return unheard < SIM_STRAYS_MAX / 4;
}

static void drained(struct sim *sim, struct sim_stray *stray, uint64_t index)
{
	struct sim_client *client = &sim->clients[stray->client];
	bool same = client->alive && client->life == stray->client_life;
	if (same && client->stopped) {
		sim_at(sim, SIM_S, (struct sim_event){.kind = SIM_LAND, .number = index,
		                                      .extra = stray->client_life});
		return; /* it learns of it when it goes on */
	}
	stray->landed = true;
	stray->used = same && sim_draw(sim, 10) == 0 && !sim->winding_down && may_stay_unheard(sim);
	if (!same || stray->used)
		return;
	uint32_t slot = stray->life->slot;
	struct sy_machine *machine = client->links[slot].machine;
	sim_log(sim, "c%u/u%u write of put %lu drained", client->index, slot, stray->put->number);
	if (sy_machine_incarnation(machine) == stray->life->incarnation)
		sy_machine_drained(machine, stray->name, sim_client_now(client));
	sim_link_pump(client, slot);
}

void sim_copy_land(struct sim *sim, const struct sim_event *event)
{
	struct sim_stray *stray = &sim->strays[event->number];
	if (!stray->used || stray->landed || stray->client_life != event->extra)
		return;
	uint64_t left = stray->put->nbytes - stray->done_bytes;
	if (!stray->life->alive || sim->true_ns >= stray->stop_ns)
		left = 0; /* it will never land */
	if (left > 0) {
		uint64_t bytes = piece(sim, left);
		land(stray->life, stray->put, stray->offset, stray->generation, stray->done_bytes,
		     bytes);
		stray->done_bytes += bytes;
		left -= bytes;
	}
	if (left > 0)
		sim_at(sim, sim_draw(sim, 50 * SIM_MS), *event);
	else
		drained(sim, stray, event->number);
}

/* The writer posts nothing any more; what is posted stops landing within the retry horizon. */
void sim_copy_fence(struct sim *sim, struct sim_life *life, uint64_t session)
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

void sim_copy_read(struct sim_client *client, struct sim_task *task)
{
	task->state = SIM_TASK_READING;
	task->range_at = 0;
	task->done_bytes = 0;
	sim_task_later(client, task, sim_draw(client->sim, client->sim->config.copy_ns));
}

/* A reader on another host finds out afterwards whether what it read counts. */
static void read_done(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	uint64_t age_ns = sim_client_now(client) - task->op.sent_ns;
	sim->counts.reads++;
	if (client->local && task->views_left > 0) {
		task->views_left--;
		task->state = SIM_TASK_VIEWING;
		sim_task_later(client, task, sim_draw(sim, SIM_MS << sim_draw(sim, 18)));
	} else if (client->local) {
		sim_task_idle(client, task);
	} else if (age_ns <= sim->config.params.read_pin_ns / 2) {
		check_i3_read(client, task);
		sim_task_idle(client, task);
	} else {
		sim_task_check(client, task);
	}
}

void sim_copy_read_on(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	if (!client->local && !task->life->alive) {
		sim_task_idle(client, task); /* the transport says so: TransferFailed */
		return;
	}
	for (int i = 0; i < 4 && task->range_at < task->range_count; i++) {
		const struct sim_range *range = &task->ranges[task->range_at];
		uint64_t bytes = piece(sim, range->nbytes - task->done_bytes);
		check_read_piece(client, task, range, task->done_bytes, bytes);
		task->done_bytes += bytes;
		if (task->done_bytes == range->nbytes) {
			task->range_at++;
			task->done_bytes = 0;
		}
	}
	if (task->range_at == task->range_count) {
		read_done(client, task);
		return;
	}
	uint64_t delay_ns = sim_wait(sim, sim->config.copy_ns);
	if (sim_strikes(sim, SIM_FAULT_LATE_READ))
		delay_ns += client->local ? sim_draw(sim, SIM_MS << sim_draw(sim, 18))
		                          : sim_draw(sim, 2 * sim->config.params.read_pin_ns);
	sim_task_later(client, task, delay_ns);
}
