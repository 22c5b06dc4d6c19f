/* The network: between a link and a unit's address, byte strings that may be lost, doubled,
 * late or out of order, also across connections and incarnations. */
#include <stdlib.h>

#include "sim.h"

uint64_t sim_connect(struct sim *sim, uint32_t client, uint32_t slot)
{
	if (sim->connection_count == sim->connection_capacity) {
		sim->connection_capacity = 64 + sim->connection_capacity * 2;
		sim->connections = realloc(sim->connections,
		                           sim->connection_capacity * sizeof *sim->connections);
		if (sim->connections == NULL)
			abort();
	}
	sim->connections[sim->connection_count++] = (struct sim_connection){
		.client = client,
		.slot = slot,
		.client_life = client < SIM_CLIENTS_MAX ? sim->clients[client].life : 0,
		.space = client < SIM_CLIENTS_MAX ? sim->clients[client].space : 0,
		.local = client < SIM_CLIENTS_MAX && sim->clients[client].local,
	};
	return sim->connection_count;
}

static uint8_t *copy(const void *bytes, size_t count)
{
	uint8_t *to = malloc(count > 0 ? count : 1);
	if (to == NULL)
		abort();
	memcpy(to, bytes, count);
	return to;
}

/* When a message sent now arrives: in order on its connection unless it is late or reordered. */
static uint64_t arrives_ns(struct sim *sim, struct sim_connection *connection, bool *ret_smooth)
{
	uint64_t at_ns = sim->true_ns + 1 + sim_draw(sim, 2 * sim->config.latency_ns);
	*ret_smooth = false;
	if (sim_strikes(sim, SIM_FAULT_LATE))
		return at_ns + sim_draw(sim, SIM_MS << sim_draw(sim, 17));
	if (sim_strikes(sim, SIM_FAULT_REORDER))
		return at_ns + sim_draw(sim, 20 * sim->config.latency_ns);
	*ret_smooth = true;
	if (at_ns < connection->arrived_ns)
		at_ns = connection->arrived_ns;
	connection->arrived_ns = at_ns;
	return at_ns;
}

/* Sends it once, twice or never. */
static void post(struct sim *sim, struct sim_event event, uint64_t *disturbed_ns,
                 const void *bytes, size_t count)
{
	struct sim_connection *connection = &sim->connections[event.number - 1];
	uint32_t times = 1;
	if (sim_strikes(sim, SIM_FAULT_DROP))
		times = 0;
	else if (sim_strikes(sim, SIM_FAULT_DOUBLE))
		times = 2;
	if (times == 0 && disturbed_ns != NULL)
		*disturbed_ns = sim->true_ns;
	for (uint32_t i = 0; i < times; i++) {
		bool smooth;
		uint64_t at_ns = arrives_ns(sim, connection, &smooth);
		if (!smooth && i == 0 && disturbed_ns != NULL)
			*disturbed_ns = at_ns;
		event.bytes = copy(bytes, count);
		event.bytes_count = count;
		sim_at(sim, at_ns - sim->true_ns, event);
	}
}

void sim_net_to_unit(struct sim *sim, struct sim_link *link, uint32_t slot, const void *bytes,
                     size_t count)
{
	struct sim_event event = {.kind = SIM_TO_UNIT, .who = slot, .number = link->connection};
	if (link->connection == 0)
		return;
	if (link->cut_until_ns > sim->true_ns) {
		link->disturbed_ns = link->cut_until_ns;
		return;
	}
	post(sim, event, &link->disturbed_ns, bytes, count);
}

void sim_net_to_client(struct sim *sim, uint64_t route, const void *bytes, size_t count)
{
	if (route == 0 || route > sim->connection_count)
		return;
	const struct sim_connection *connection = &sim->connections[route - 1];
	struct sim_event event = {.kind = SIM_TO_CLIENT, .number = route,
	                          .who = connection->client, .slot = connection->slot,
	                          .life = connection->client_life};
	if (connection->client >= SIM_CLIENTS_MAX)
		return; /* the stranger reads its replies as they leave */
	struct sim_client *client = &sim->clients[connection->client];
	struct sim_link *link = &client->links[connection->slot];
	bool same = client->life == connection->client_life;
	if (same && link->cut_until_ns > sim->true_ns) {
		link->disturbed_ns = link->cut_until_ns;
		return;
	}
	post(sim, event, same ? &link->disturbed_ns : NULL, bytes, count);
}

/* Is the connection that this came by still its client's? */
static bool is_current(struct sim *sim, uint64_t route)
{
	const struct sim_connection *connection = &sim->connections[route - 1];
	if (connection->client >= SIM_CLIENTS_MAX)
		return true;
	const struct sim_client *client = &sim->clients[connection->client];
	return client->life == connection->client_life &&
	       client->links[connection->slot].connection == route;
}

static void arrive_at_unit(struct sim *sim, struct sim_event *event)
{
	struct sim_unit *unit = &sim->units[event->who];
	struct sim_life *life = unit->life;
	if (life->alive) {
		if (!is_current(sim, event->number))
			sim_count_fault(sim, SIM_FAULT_OLD_CONNECTION);
		event->life = life->number;
		sim_unit_event(sim, event);
		return;
	}
	if (sim_strikes(sim, SIM_FAULT_OLD_QUEUE))
		sim_events_push(&unit->limbo, event);
	else
		free(event->bytes);
}

static void arrive_at_client(struct sim *sim, struct sim_event *event)
{
	if (!is_current(sim, event->number) && !sim_strikes(sim, SIM_FAULT_OLD_CONNECTION)) {
		free(event->bytes);
		return;
	}
	sim_client_event(sim, event);
}

void sim_net_arrive(struct sim *sim, struct sim_event *event)
{
	if (event->kind == SIM_TO_UNIT)
		arrive_at_unit(sim, event);
	else
		arrive_at_client(sim, event);
}
