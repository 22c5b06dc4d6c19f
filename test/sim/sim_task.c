/* What a client does, an operation after the other, and what its ends mean. */
#include <stdlib.h>

#include "sim.h"
#include "sim_check.h"

/* As the library: less time than this is not worth another try. */
enum { ASK_AGAIN_MS = 20 };

static const char *kind_name(enum sy_op_kind kind)
{
	static const char *const names[] = {
		[SY_OP_KIND_PUT] = "put", [SY_OP_KIND_PUT_INLINE] = "put_inline",
		[SY_OP_KIND_COMMIT] = "commit", [SY_OP_KIND_RESOLVE] = "resolve",
		[SY_OP_KIND_RELEASE] = "release", [SY_OP_KIND_PIN_CHECK] = "pin_check",
		[SY_OP_KIND_SCAN] = "scan", [SY_OP_KIND_INFO] = "info", [SY_OP_KIND_STATS] = "stats"};
	return names[kind];
}

void sim_task_later(struct sim_client *client, const struct sim_task *task, uint64_t delay_ns)
{
	struct sim_event event = {.kind = SIM_TASK, .who = client->index, .life = client->life,
	                          .number = (uint64_t)(task - client->tasks),
	                          .extra = task->number};
	sim_at(client->sim, delay_ns, event);
}

static uint64_t draw_deadline(struct sim *sim)
{
	static const uint32_t lengths_ms[] = {3, 50, 500, 3000, 20000, 120000};
	return SIM_MS * (1 + sim_draw(sim, lengths_ms[sim_draw(sim, 6)]));
}

/* The checker of I10 looks whether it has ended by then. */
static void expect_end(struct sim_client *client, const struct sim_task *task, uint64_t length_ns)
{
	struct sim_event due = {.kind = SIM_DEADLINE, .who = client->index, .life = client->life,
	                        .number = (uint64_t)(task - client->tasks), .extra = task->number};
	sim_at(client->sim, length_ns + 100 * SIM_MS + 1, due);
}

static void begin(struct sim_client *client, struct sim_task *task, uint64_t length_ns)
{
	struct sim *sim = client->sim;
	task->number = ++sim->op_count;
	task->state = SIM_TASK_RUNNING;
	task->begun_ns = sim->shown_ns;
	task->mutating_session = 0;
	task->cancelled = task->found_dead = false;
	task->range_count = 0;
	task->views_left = (uint32_t)sim_draw(sim, 3);
	task->op.owner = task;
	task->op.deadline_ns = sim_client_now(client) + length_ns;
	task->check.owner = task;
	if (task->put != NULL) {
		task->put->maybe = task->put->maybe || task->put->told == SIM_TOLD_UNKNOWN;
		task->put->told = SIM_TOLD_NOTHING;
		task->put->tries += task->op.kind != SY_OP_KIND_COMMIT;
		task->put->deadline_ns = sy_max_u64(task->put->deadline_ns, sim->shown_ns + length_ns);
	}
	expect_end(client, task, length_ns);
	sim_log(sim, "c%u/u%u op %lu is a %s for %.3f s, put %lu", client->index, task->slot,
	        task->number, kind_name(task->op.kind), (double)length_ns / 1e9,
	        task->put != NULL ? task->put->number : 0);
	sy_machine_start(client->links[task->slot].machine, &task->op, sim_client_now(client));
	sim_link_pump(client, task->slot);
	if (task->state == SIM_TASK_RUNNING && sim_strikes(sim, SIM_FAULT_CANCEL))
		sim_task_later(client, task, sim_draw(sim, length_ns));
}

void sim_task_sweep(struct sim_client *client, uint32_t slot)
{
	struct sim_task *task = &client->tasks[0];
	task->slot = slot;
	sim_ask_release_all(client, task);
	begin(client, task, 20 * SIM_S);
}

void sim_task_cancel(struct sim_client *client, struct sim_task *task)
{
	task->cancelled = true;
	sy_machine_cancel(client->links[task->slot].machine, &task->op, sim_client_now(client));
	sim_link_pump(client, task->slot);
}

static void next_operation(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	if (client->closing || sim->winding_down)
		return;
	if (sim_ask(client, task, (uint32_t)sim_draw(sim, sim->config.units)))
		begin(client, task, draw_deadline(sim));
	else
		sim_task_later(client, task, 1 + sim_wait(sim, sim->config.think_ns));
}

void sim_task_next(struct sim_client *client, struct sim_task *task)
{
	switch (task->state) {
	case SIM_TASK_IDLE:
		next_operation(client, task);
		break;
	case SIM_TASK_RUNNING:
	case SIM_TASK_CHECKING:
		sim_task_cancel(client, task);
		break;
	case SIM_TASK_WRITING:
		sim_copy_write_on(client, task);
		break;
	case SIM_TASK_READING:
		sim_copy_read_on(client, task);
		break;
	case SIM_TASK_VIEWING:
		sim_copy_read(client, task);
		break;
	}
}

void sim_task_idle(struct sim_client *client, struct sim_task *task)
{
	struct sy_machine *machine = client->links[task->slot].machine;
	task->number = ++client->sim->op_count;
	task->state = SIM_TASK_IDLE;
	if (task->pinned && sy_machine_incarnation(machine) == task->op.incarnation) {
		sim_log(client->sim, "c%u/u%u unpins %u/%lu", client->index, task->slot,
		        task->op.name.slot, task->op.name.seq);
		sy_machine_unpin(machine, task->op.name, sim_client_now(client));
		sim_link_pump(client, task->slot);
	}
	task->pinned = false;
	task->life = NULL;
	sim_transfer_give(client, task);
	sim_task_later(client, task, 1 + sim_wait(client->sim, client->sim->config.think_ns));
}

/* Asks whether the pin stood while it was read under. */
void sim_task_check(struct sim_client *client, struct sim_task *task)
{
	struct sy_machine *machine = client->links[task->slot].machine;
	task->state = SIM_TASK_CHECKING;
	task->check.kind = SY_OP_KIND_PIN_CHECK;
	task->check.pin_check.names = &task->op.name;
	task->check.pin_check.count = 1;
	task->check.owner = task;
	task->check.deadline_ns = sim_client_now(client) + draw_deadline(client->sim);
	task->number = ++client->sim->op_count;
	expect_end(client, task, task->check.deadline_ns - sim_client_now(client));
	sy_machine_start(machine, &task->check, sim_client_now(client));
	sim_link_pump(client, task->slot);
}

void sim_task_checked(struct sim_client *client, struct sim_task *task)
{
	const struct sy_machine_op *check = &task->check;
	check_i10_done(client, task, check);
	client->sim->counts.ends[check->end]++;
	if (sy_read_stood(&task->op, check))
		check_i3_read(client, task);
	else
		client->sim->counts.stale_reads++;
	sim_task_idle(client, task);
}

static void put_ended(struct sim_client *client, struct sim_task *task)
{
	struct sim_put *put = task->put;
	const struct sy_machine_op *op = &task->op;
	put->told = op->end == SY_OP_END_OK ? SIM_TOLD_OK
	            : op->unknown || put->maybe ? SIM_TOLD_UNKNOWN
	                                        : SIM_TOLD_FAILED;
	check_put_told(client, task);
}

/* What was found by reference is read now; the rest came with the answer. */
static bool resolve_ended(struct sim_client *client, struct sim_task *task)
{
	const struct sy_machine_op *op = &task->op;
	task->pinned = op->name.session != 0;
	task->stable = true;
	task->life = sim_life_of(client->sim, op->incarnation);
	free(task->ranges);
	task->ranges = calloc(op->reply.key_count + 1, sizeof *task->ranges);
	if (task->ranges == NULL)
		abort();
	check_resolved(client, task);
	if (task->range_count == 0)
		return false;
	sim_copy_read(client, task);
	return true;
}

/* A scan goes on where it stopped, until it is through or its unit is another. */
static bool scan_ended(struct sim_client *client, struct sim_task *task)
{
	struct sy_machine_op *op = &task->op;
	check_i3_scanned(client, task);
	if (op->reply.scan_cursor == 0 || task->cancelled || client->closing ||
	    client->sim->winding_down)
		return false;
	op->scan.cursor = op->reply.scan_cursor;
	task->begun_ns = client->sim->shown_ns;
	sy_machine_start(client->links[task->slot].machine, op, sim_client_now(client));
	return true;
}

static bool may_start_anew(enum sy_op_kind kind)
{
	return kind != SY_OP_KIND_PUT && kind != SY_OP_KIND_PUT_INLINE && kind != SY_OP_KIND_COMMIT;
}

/* As the library does: a session that ended under an operation is a question to the directory. */
static bool settle(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	struct sy_machine_op *op = &task->op;
	enum sy_op_end end = task->found_dead ? SY_OP_END_SESSION : op->end;
	enum sy_directory_says says = SY_DIRECTORY_SILENT;
	uint64_t now_ns = sim_client_now(client);
	if (end == SY_OP_END_SESSION || end == SY_OP_END_TIMEOUT || end == SY_OP_END_LATE)
		says = sim_directory(sim, task->slot, task->found_dead ? 0 : op->incarnation);
	if (end == SY_OP_END_SESSION && says == SY_DIRECTORY_ALIVE && may_start_anew(op->kind) &&
	    now_ns + ASK_AGAIN_MS * SIM_MS < op->deadline_ns && !task->cancelled && !client->closing &&
	    sim_draw(sim, 8) != 0) {
		task->mutating_session = 0;
		sy_machine_start(client->links[task->slot].machine, op, now_ns);
		return false;
	}
	sy_status status = sy_verdict(op->kind, end, says);
	check_i9_verdict(client, task, status);
	if (end == SY_OP_END_LATE) {
		sim->counts.ends[end]++;
		op->end = status == SY_OK ? SY_OP_END_OK : SY_OP_END_LATE;
	}
	return true;
}

void sim_task_done(struct sim_client *client, struct sim_task *task)
{
	struct sim *sim = client->sim;
	const struct sy_machine_op *op = &task->op;
	check_i10_done(client, task, op);
	if (!settle(client, task))
		return;
	if (op->kind == SY_OP_KIND_SCAN && op->end == SY_OP_END_OK && scan_ended(client, task))
		return;
	sim->counts.ends[op->end]++;
	sim_log(sim, "c%u/u%u op %lu ends: %s, %s %s%s%s", client->index, task->slot, task->number,
	        sim_end_name(op->end), sy_fault_name(op->outcome.fault), sy_why_text(op->outcome.why),
	        op->unknown ? ", unknown" : "", op->in_flight ? ", in flight" : "");
	task->pinned = op->end == SY_OP_END_LATE && op->name.session != 0; /* and then unpinned */
	if (task->put != NULL)
		put_ended(client, task);
	if (op->kind == SY_OP_KIND_RESOLVE && op->end == SY_OP_END_OK && resolve_ended(client, task))
		return;
	sim_task_idle(client, task);
}
