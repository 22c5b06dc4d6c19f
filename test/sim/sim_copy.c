/* The data path: bytes of puts and reads, a piece at a time, so that everything else may happen
 * in between. A local client copies by itself: stopped or killed, nothing of it moves. A remote
 * one has posted its writes to a network that may land them later, whatever becomes of it. */
#include "sim.h"
#include "sim_check.h"

uint64_t sim_copy_piece(struct sim *sim, uint64_t left)
{
	uint64_t bytes = sim_draw(sim, 3) == 0 ? left : 64 * (1 + sim_draw(sim, 40));
	return bytes < left ? bytes : left;
}

bool sim_copy_is_fenced(struct sim_life *life, uint64_t session)
{
	const struct sim_session *s = sim_shadow_session(life, session);
	return s != NULL && s->fenced;
}

void sim_copy_put_bytes(struct sim_life *life, const struct sim_put *put, uint64_t offset,
                        uint64_t generation, uint64_t from, uint64_t bytes)
{
	if (!life->alive)
		sim_count_fault(life->sim, SIM_FAULT_OLD_SLAB);
	check_i1_land(life, put, offset + from, bytes, generation);
	if (life->sim->violated == 0)
		memcpy(life->slab + offset + from, put->image + from, bytes);
}

void sim_copy_range_bytes(const struct sim_life *life, const struct sim_range *range,
                          uint64_t from, uint64_t bytes, struct sim_buffer *buffer,
                          uint64_t filled_bytes)
{
	if (buffer != NULL)
		memcpy(buffer->bytes + filled_bytes + from, life->slab + range->offset + from, bytes);
}

void sim_copy_write(struct sim_client *client, struct sim_task *task)
{
	struct sim_life *life = client->links[task->slot].life;
	if (!client->local)
		life = client->links[task->slot].remote;
	task->state = SIM_TASK_WRITING;
	task->life = life != NULL && sy_op_reaches(&task->op, life->incarnation) ? life : NULL;
	task->done_bytes = 0;
	task->put->generation = task->op.outcome.generation;
	task->put->incarnation = task->op.incarnation;
	if (task->life != NULL &&
	    sim_memory_take(client, task, task->put->nbytes, false) == SIM_MEMORY_IN_DOUBT)
		task->life = NULL; /* it fails, and nothing was posted */
	sim_task_later(client, task, sim_draw(client->sim, 20 * SIM_US));
}

void sim_copy_written(struct sim_client *client, struct sim_task *task, bool ok, bool in_flight)
{
	sim_log(client->sim, "c%u/u%u write of put %lu %s", client->index, task->slot,
	        task->put->number, ok ? "done" : in_flight ? "in flight" : "failed");
	task->state = SIM_TASK_RUNNING;
	task->life = NULL;
	sim_transfer_give(client, task);
	sy_machine_written(client->links[task->slot].machine, &task->op, ok, in_flight,
	                   sim_client_now(client));
	sim_link_pump(client, task->slot);
}

/* However slow the copy, its thread looks at the deadline in time. */
static uint64_t at_most_ns(const struct sim_client *client, const struct sim_task *task)
{
	uint64_t now_ns = sim_client_now(client);
	uint64_t left_ns = task->op.deadline_ns > now_ns ? task->op.deadline_ns - now_ns : 0;
	if (client->sim->held_until_ns > client->sim->true_ns)
		left_ns = 0; /* its clock does not tell how long this takes */
	return left_ns + 20 * SIM_MS;
}

static uint64_t pause(struct sim_client *client, const struct sim_task *task)
{
	return sy_min_u64(sim_wait(client->sim, client->sim->config.copy_ns),
	                  at_most_ns(client, task));
}

void sim_copy_write_on(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	const struct sim_put *put = task->put;
	uint64_t left = put->nbytes - task->done_bytes;
	bool late = sim_client_now(client) >= task->op.deadline_ns;
	bool dead = task->life != NULL && !task->life->alive;
	if (task->life == NULL) {
		sim_copy_written(client, task, false, false);
	} else if (client->local && late && left > 0) {
		sim_copy_written(client, task, false, false);
	} else if (!client->local && left > 0 &&
	           (late || dead || sim_copy_is_fenced(task->life, task->op.name.session) ||
	            sim_strikes(sim, SIM_FAULT_LATE_WRITE))) {
		sim_copy_written(client, task, false, sim_transfer_leave_write(client, task));
	} else if (left == 0) {
		sim_copy_written(client, task, true, false);
	} else {
		uint64_t bytes = sim_copy_piece(sim, left);
		sim_copy_put_bytes(task->life, put, task->op.outcome.offset,
		                   task->op.outcome.generation, task->done_bytes, bytes);
		task->done_bytes += bytes;
		sim_task_later(client, task, pause(client, task));
	}
}

/* Its reads are transfers into buffers, given up at their deadline. */
static bool reads_by_transfer(const struct sim_client *client)
{
	return !client->local && client->sim->config.transfers;
}

void sim_copy_read(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	uint64_t pin_ns = sim->config.params.read_pin_ns;
	uint64_t delay_ns = sim_draw(sim, sim->config.copy_ns);
	task->state = SIM_TASK_READING;
	task->range_at = 0;
	task->done_bytes = task->filled_bytes = 0;
	task->posted = false;
	if (reads_by_transfer(client) && sim_strikes(sim, SIM_FAULT_READ_WAITS))
		delay_ns += sim_draw(sim, sim_draw(sim, 2) == 0 ? pin_ns / 2 : 4 * pin_ns);
	if (reads_by_transfer(client))
		delay_ns = sy_min_u64(delay_ns, at_most_ns(client, task));
	sim_task_later(client, task, delay_ns);
}

/* A reader on another host finds out afterwards whether what it read counts. */
static void read_done(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	sim->counts.reads++;
	if (client->local && task->views_left > 0) {
		task->views_left--;
		task->state = SIM_TASK_VIEWING;
		sim_task_later(client, task, sim_draw(sim, SIM_MS << sim_draw(sim, 18)));
	} else if (client->local) {
		sim_task_idle(client, task);
	} else if (sy_read_verdict(&task->op, sim_client_now(client)) == SY_READ_GOOD) {
		check_i3_read(client, task);
		sim_task_idle(client, task);
	} else {
		sim_task_check(client, task);
	}
}

/* A read comes so late that its unit is gone, and it waits on, for one that takes its place and is
 * known here: what lies there at the same offset is another's. True: it waits. */
static bool waits_for_another(struct sim_client *client, const struct sim_task *task,
                              const struct sim_life *remote)
{
	struct sim *sim = client->sim;
	if (task->life == NULL || remote != task->life || client->closing || sim->winding_down)
		return false;
	if (remote->alive && !remote->stopped && sim_strikes(sim, SIM_FAULT_REPLACED))
		sim_unit_kill(sim, task->slot);
	if (remote->alive || sim_draw(sim, 64) == 0)
		return false;
	if (sim_directory_takes(sim, task->slot))
		sim_unit_start(sim, task->slot);
	return true;
}

/* A read begins: it has a remote of its resolve's incarnation, and a buffer. False: not yet, or it
 * has ended. */
static bool post_read(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	struct sim_life *remote = client->links[task->slot].remote;
	bool late = sim_client_now(client) >= task->op.deadline_ns;
	if (!late && waits_for_another(client, task, remote)) {
		sim_task_later(client, task, sy_min_u64(1 + sim_draw(sim, 200 * SIM_MS),
		                                        at_most_ns(client, task)));
		return false;
	}
	if (remote == NULL || !sy_op_reaches(&task->op, remote->incarnation)) {
		sim_task_idle(client, task); /* StaleRead */
		return false;
	}
	enum sy_buffers_answer answer = sim_transfer_buffer(client, task);
	if (answer == SY_BUFFERS_WAIT && !late && !client->closing && !sim->winding_down) {
		sim_count_fault(sim, SIM_FAULT_NO_BUFFER);
		sim_task_later(client, task, 1 + pause(client, task));
		return false;
	}
	if (answer != SY_BUFFERS_READY) {
		sim_task_idle(client, task); /* Timeout, or Fatal */
		return false;
	}
	task->posted = true;
	task->life = remote;
	return true;
}

/* True: what it has posted goes on without it, and it has ended. */
static bool gives_up(struct sim_client *client, struct sim_task *task)
{
	bool late = sim_client_now(client) >= task->op.deadline_ns;
	if (!late && !sim_strikes(client->sim, SIM_FAULT_READ_LEFT))
		return false;
	(void)sim_transfer_leave_read(client, task); /* else it ends by an error that proves it */
	sim_task_idle(client, task);
	return true;
}

void sim_copy_read_on(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	if (reads_by_transfer(client) && !task->posted && !post_read(client, task))
		return;
	if (task->buffer != NULL && gives_up(client, task))
		return;
	if (!client->local && !task->life->alive) {
		sim_task_idle(client, task); /* the transport says so: TransferFailed */
		return;
	}
	for (int i = 0; i < 4 && task->range_at < task->range_count; i++) {
		const struct sim_range *range = &task->ranges[task->range_at];
		uint64_t bytes = sim_copy_piece(sim, range->nbytes - task->done_bytes);
		check_read_piece(client, task, range, task->done_bytes, bytes);
		sim_copy_range_bytes(task->life, range, task->done_bytes, bytes, task->buffer,
		                     task->filled_bytes);
		task->done_bytes += bytes;
		if (task->done_bytes == range->nbytes) {
			task->filled_bytes += range->nbytes;
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
	if (reads_by_transfer(client))
		delay_ns = sy_min_u64(delay_ns, at_most_ns(client, task));
	sim_task_later(client, task, delay_ns);
}
