/* Units: the shell around the shipped serve, with processes that stop, die and start anew. */
#include <stdlib.h>

#include "sim.h"
#include "sim_check.h"

static struct sim_peer *peer_of(struct sim_life *life, uint64_t token)
{
	for (size_t i = 0; i < life->peer_count; i++) {
		if (life->peers[i].token == token)
			return &life->peers[i];
	}
	return NULL;
}

static void send_reply(void *context, uint64_t route, const void *message, size_t bytes)
{
	struct sim_life *life = context;
	sim_shadow_reply(life, route, message, bytes);
	sim_stranger_reply(life->sim, life, message, bytes);
	sim_net_to_client(life->sim, route, message, bytes);
}

static bool fenced(void *context)
{
	const struct sim_life *life = context;
	return sy_lease_is_fenced(&life->lease, life->sim->shown_ns);
}

static bool token_lives(void *context, uint64_t token)
{
	const struct sim_peer *peer = peer_of(context, token);
	return peer != NULL && peer->lives;
}

/* Fencing takes its time; until it is done, posted writes go on landing. */
static void fence(void *context, uint64_t session)
{
	struct sim_life *life = context;
	struct sim *sim = life->sim;
	struct sim_event event = {.kind = SIM_UNIT_FENCED, .who = life->slot, .life = life->number,
	                          .number = session};
	uint64_t delay_ns = sim_wait(sim, 5 * SIM_MS);
	if (sim_strikes(sim, SIM_FAULT_FENCE_LATE))
		delay_ns += sim_draw(sim, sim->config.fence_late_ns);
	sim_at(sim, delay_ns, event);
	sim_log(sim, "u%u fences session %016lx", life->slot, session);
}

static void peer_done(void *context, uint64_t token)
{
	struct sim_life *life = context;
	struct sim_peer *peer = peer_of(life, token);
	sim_log(life->sim, "u%u is done with peer %lu", life->slot, token);
	if (peer != NULL)
		peer->lives = peer->watched = false;
}

void sim_unit_start(struct sim *sim, uint32_t slot)
{
	struct sim_unit *unit = &sim->units[slot];
	struct sim_life *life = calloc(1, sizeof *life);
	if (life == NULL)
		abort();
	life->sim = sim;
	life->slot = slot;
	life->number = ++sim->life_count;
	life->incarnation = sy_mix64(sim->config.seed ^ life->number << 40) | 1;
	life->alive = true;
	life->tick_ns = UINT64_MAX;
	life->turn_ns = life->disturbed_ns = sim->shown_ns;
	struct sy_core_params params = sim->config.params;
	params.incarnation = life->incarnation;
	params.unit_id = slot;
	params.seed = sy_mix64(life->incarnation);
	life->arena_bytes = sy_core_arena_bytes(&params);
	life->arena = aligned_alloc(64, sy_align_up(life->arena_bytes, 64));
	life->slab = malloc(params.slab_bytes);
	struct sy_serve_io io = {.context = life, .send = send_reply, .fenced = fenced,
	                         .token_lives = token_lives, .fence = fence,
	                         .peer_done = peer_done, .disk = sim_disk_run};
	life->disk = calloc(1, params.disk_bytes + 1);
	life->disk_hurt = calloc(1, params.disk_bytes / SY_RECORD_BLOCK_BYTES + 1);
	if (life->arena == NULL || life->slab == NULL || life->disk == NULL ||
	    life->disk_hurt == NULL)
		abort();
	memset(life->arena, 0, life->arena_bytes);
	memset(life->slab, 0xa5, params.slab_bytes);
	life->serve = sy_serve_new(life->arena, &params, life->slab, sim->room, &io);
	if (life->serve == NULL)
		abort();
	life->shadow = sim_shadow_new(life);
	sim->lives = realloc(sim->lives, sim->life_count * sizeof(struct sim_life *));
	if (sim->lives == NULL)
		abort();
	sim->lives[life->number - 1] = life;
	unit->life = life;
	if (!sim_directory_enter(life))
		abort();
	sim_log(sim, "u%u starts as %016lx", slot, life->incarnation);
	sim_events_release(sim, &unit->limbo);
}

void sim_unit_free(struct sim_life *life)
{
	if (life == NULL)
		return;
	sy_serve_free(life->serve);
	sim_shadow_free(life->shadow);
	sim_events_free(&life->inbox);
	free(life->arena);
	free(life->slab);
	free(life->disk);
	free(life->disk_hurt);
	free(life->peers);
	free(life);
}

struct sim_life *sim_life_of(struct sim *sim, uint64_t incarnation)
{
	for (uint64_t i = 0; i < sim->life_count; i++) {
		if (sim->lives[i]->incarnation == incarnation)
			return sim->lives[i];
	}
	return NULL;
}

/* Its timer and the work it says is left. */
static void arm(struct sim_life *life)
{
	struct sim *sim = life->sim;
	struct sim_event event = {.who = life->slot, .life = life->number};
	if (sy_serve_pending(life->serve) && !life->continues) {
		life->continues = true;
		event.kind = SIM_UNIT_CONTINUE;
		sim_at(sim, 1 + sim_draw(sim, 2 * sim->config.work_ns), event);
	}
	uint64_t due_ns = sy_serve_deadline(life->serve);
	if (due_ns == UINT64_MAX || due_ns >= life->tick_ns)
		return;
	life->tick_ns = due_ns;
	uint64_t from_ns = due_ns > sim->true_ns ? due_ns : sim->true_ns;
	if (from_ns < sim->held_until_ns)
		from_ns = sim->held_until_ns;
	event.kind = SIM_UNIT_TICK;
	event.number = due_ns;
	sim_at(sim, from_ns - sim->true_ns, event);
}

void sim_unit_after(struct sim_life *life)
{
	sim_shadow_after(life);
	life->turn_ns = life->sim->shown_ns;
	if (life->alive)
		arm(life);
}

/* A client at the local socket: it gets a token, and its process is watched from here on. */
static void greet(struct sim_life *life, const struct sim_event *event)
{
	struct sim *sim = life->sim;
	const struct sim_connection *connection = &sim->connections[event->number - 1];
	struct sim_event welcome = {.kind = SIM_LINK_WELCOME, .who = connection->client,
	                            .slot = life->slot, .life = connection->client_life,
	                            .number = event->number, .other = life->number};
	uint64_t token = sim_draw(sim, UINT64_MAX - 1) + 1;
	life->peers = realloc(life->peers, (life->peer_count + 1) * sizeof *life->peers);
	if (life->peers == NULL)
		abort();
	const struct sim_client *client = &sim->clients[connection->client];
	bool gone = client->life != connection->client_life || !client->alive;
	life->peers[life->peer_count++] = (struct sim_peer){
		.token = token, .client = connection->client, .client_life = connection->client_life,
		.connection = event->number, .lives = !gone, .watched = !gone};
	if (gone)
		return;
	welcome.extra = token;
	sim_at(sim, sim_wait(sim, sim->config.latency_ns), welcome);
}

static void peer_event(struct sim_life *life, const struct sim_event *event)
{
	struct sim_peer *peer = peer_of(life, event->number);
	enum sy_event_kind kind = (enum sy_event_kind)event->slot;
	if (peer == NULL || !peer->watched)
		return;
	peer->lives = false;
	if (kind == SY_EVENT_PEER_GONE)
		peer->watched = false;
	sim_log(life->sim, "u%u peer %lu: %s", life->slot, peer->token,
	        kind == SY_EVENT_PEER_BYE ? "bye" : kind == SY_EVENT_PEER_EOF ? "eof" : "gone");
	sy_serve_peer(life->serve, kind, peer->token, event->extra, life->sim->shown_ns);
}

static void run(struct sim_life *life, const struct sim_event *event)
{
	struct sim *sim = life->sim;
	uint64_t now_ns = sim->shown_ns;
	switch ((int)event->kind) { /* those meant for others do not come here */
	case SIM_TO_UNIT:
		sim_shadow_before(life, event->number, event->bytes, event->bytes_count);
		sy_serve_message(life->serve, event->number, event->bytes, event->bytes_count, now_ns);
		break;
	case SIM_UNIT_TICK:
		if (life->tick_ns != event->number)
			return; /* an earlier one was set since */
		life->tick_ns = UINT64_MAX;
		if (sy_serve_deadline(life->serve) <= now_ns)
			sy_serve_tick(life->serve, now_ns);
		break;
	case SIM_UNIT_CONTINUE:
		life->continues = false;
		sy_serve_continue(life->serve, now_ns);
		break;
	case SIM_UNIT_GREET:
		greet(life, event);
		break;
	case SIM_UNIT_PEER:
		peer_event(life, event);
		break;
	case SIM_UNIT_RENEW:
		sim_unit_renew(life);
		return;
	case SIM_UNIT_RENEWED:
		sim_unit_renewed(life, event);
		return;
	case SIM_UNIT_FENCED:
		sim_transfer_fence(sim, life, event->number);
		sy_serve_fenced(life->serve, event->number, now_ns);
		break;
	case SIM_UNIT_DISK:
		sim_disk_ended(life, event);
		break;
	default:
		break;
	}
	sim_unit_after(life);
}

void sim_unit_event(struct sim *sim, struct sim_event *event)
{
	struct sim_life *life = sim->units[event->who].life;
	if (!life->alive || life->number != event->life) {
		free(event->bytes);
		return;
	}
	if (life->stopped) {
		sim_events_push(&life->inbox, event);
		return;
	}
	life->steps++;
	run(life, event);
	free(event->bytes);
}

/* What was connected to it sees its socket end; messages on their way to it wait in its queue. */
void sim_unit_end(struct sim_life *life)
{
	struct sim *sim = life->sim;
	uint32_t slot = life->slot;
	check_counts(life);
	life->alive = life->stopped = false;
	for (size_t i = 0; i < life->inbox.count; i++) {
		struct sim_event *event = &life->inbox.items[i];
		if (event->kind == SIM_TO_UNIT && sim_strikes(sim, SIM_FAULT_OLD_QUEUE))
			sim_events_push(&sim->units[slot].limbo, event);
		else
			free(event->bytes);
	}
	life->inbox.count = 0;
	for (uint32_t i = 0; i < sim->config.clients; i++) {
		struct sim_link *link = &sim->clients[i].links[slot];
		struct sim_event failed = {.kind = SIM_LINK_FAILED, .who = i, .slot = slot,
		                           .life = sim->clients[i].life, .number = link->connection};
		if (sim->clients[i].local && link->connection != 0)
			sim_at(sim, sim_wait(sim, sim->config.latency_ns), failed);
	}
	sy_serve_free(life->serve);
	life->serve = NULL;
}

void sim_unit_kill(struct sim *sim, uint32_t slot)
{
	struct sim_life *life = sim->units[slot].life;
	struct sim_event bury = {.kind = SIM_BURY, .who = slot, .life = life->number};
	sim_log(sim, "u%u is killed", slot);
	sim_count_fault(sim, SIM_FAULT_UNIT_KILL);
	sim_unit_end(life);
	if (!sim_strikes(sim, SIM_FAULT_UNREPORTED)) /* as where its whole host is gone */
		sim_at(sim, sim_wait(sim, 200 * SIM_MS), bury);
}

void sim_unit_stop(struct sim *sim, uint32_t slot, uint64_t length_ns)
{
	struct sim_life *life = sim->units[slot].life;
	struct sim_event resume = {.kind = SIM_RESUME, .who = slot, .life = life->number, .slot = 1};
	if (!life->alive || life->stopped)
		return;
	sim_count_fault(sim, SIM_FAULT_UNIT_STOP);
	sim_log(sim, "u%u is stopped for %.3f s", slot, (double)length_ns / 1e9);
	life->stopped = true;
	life->turn_ns = sim->shown_ns;
	sim_at(sim, length_ns, resume);
}

/* It first gives leases the time back that it stood still, then reads what waited for it, and
 * looks at timers last. */
void sim_unit_resume(struct sim_life *life)
{
	struct sim *sim = life->sim;
	if (!life->alive || !life->stopped)
		return;
	uint64_t gap_ns = sim->shown_ns - life->turn_ns;
	sim_log(sim, "u%u goes on", life->slot);
	life->stopped = false;
	life->disturbed_ns = sim->shown_ns;
	if (gap_ns > sim->config.params.heartbeat_ns) {
		sy_serve_stalled(life->serve, gap_ns, sim->shown_ns);
		sim_unit_after(life);
	}
	struct sim_events inbox = life->inbox;
	life->inbox = (struct sim_events){0};
	for (int timers = 0; timers < 2; timers++) {
		for (size_t i = 0; i < inbox.count; i++) {
			bool timer = inbox.items[i].kind == SIM_UNIT_TICK ||
			             inbox.items[i].kind == SIM_UNIT_CONTINUE;
			if (timer == (timers != 0)) /* it may end meanwhile: then they go */
				sim_unit_event(sim, &inbox.items[i]);
		}
	}
	free(inbox.items);
}
