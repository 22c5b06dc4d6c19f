/* The addresses behind the names of endpoints. */
#ifndef SY_CONTROL_NAMES_H
#define SY_CONTROL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { SY_CONTROL_ENDPOINT_BYTES = 256, SY_CONTROL_ADDRESSES_MAX = 16 };

struct sy_control_addresses {
	uint32_t count;
	char endpoints[SY_CONTROL_ADDRESSES_MAX][SY_CONTROL_ENDPOINT_BYTES];
};

/* "tcp://NAME:PORT", and NAME is no address. */
bool sy_control_is_name(const char *endpoint);
/* The endpoint with each address of its name in place of it, in the system's order; the endpoint
 * itself, if it holds no name. Takes as long as the system does, which may be many seconds. */
void sy_control_look_up(const char *endpoint, struct sy_control_addresses *ret_addresses);

/* The same, in a thread of its own. */
struct sy_control_lookup;
/* NULL: memory, descriptors or threads are too few. To be left when it was waited for, whether it
 * came to an end or not. */
struct sy_control_lookup *sy_control_lookup_start(const char *endpoint);
/* False: it is not through by until_ns; ret_addresses is as it was. */
bool sy_control_lookup_wait(struct sy_control_lookup *lookup, uint64_t until_ns,
                            struct sy_control_addresses *ret_addresses);
void sy_control_lookup_leave(struct sy_control_lookup *lookup);

#endif
