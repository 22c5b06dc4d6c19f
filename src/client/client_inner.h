/* The client object: a hub, and what its options said. */
#ifndef SY_CLIENT_INNER_H
#define SY_CLIENT_INNER_H

#include <slabyard/client.h>

#include "hub.h"

struct sy_client {
	struct sy_hub *hub;
	bool ssd;
};

/* A public deadline as an instant of the clock, capped by the client's timeout. */
uint64_t sy_client_deadline(const sy_client *client, uint64_t deadline_ns);

#endif
